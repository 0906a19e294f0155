"""The hub and a member's cluster, as ``join`` and ``leave`` write to both with the caller's rights.

Each object is read, then applied as a server-side dry run, and written only if that would change it. So a second run
changes nothing, and a ``dry_run`` reports the same as the run after it.
"""

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from scorer.api.crd.compatibility import is_newer
from scorer.api.kinds import CUSTOM_RESOURCE_DEFINITION, NAMESPACE, Kind
from scorer.api.meta import JsonObject
from scorer.api.names import CLUSTER_UID
from scorer.api.unstructured.documents import annotations_of, text_at
from webhook.kube.client.api_server import ApiServer
from webhook.kube.client.hub_store import HubStore
from webhook.kube.client.paths import ApiPath, path_of, path_of_object
from webhook.kube.ports import ForbiddenError, Key, NotFoundError, StoreError, UnavailableError
from webhook.member.membership.hub_token import SERVICE_ACCOUNT
from webhook.processes.member_objects import DesiredObject, account_of, is_from_join, unmarked

MANAGER: Final = "harbormaster-join"
"""Field manager of the writes of ``join``."""

_CHANGING: Final = frozenset({"resourceVersion", "generation", "managedFields"})
_REVIEW: Final = ApiPath("apis", "authorization.k8s.io", "v1", "selfsubjectaccessreviews")

Report = Callable[[str], None]
"""Called with one line about a write."""


_RELEASE: Final = "meta.helm.sh/release-name"


class JoinError(Exception):
    """A join or a departure is impossible. The message is one line for the user."""


class WriteOutcome(StrEnum):
    """Outcome of a write."""

    CREATED = "created"
    CHANGED = "changed"
    UNCHANGED = "unchanged"
    REMOVED = "removed"


@dataclass(frozen=True, slots=True)
class Side:
    """One of the two clusters.

    Args:
        name: ``hub`` or ``member``, for messages.
        context: Context that the user named, for messages.
        server: The connection.
    """

    name: str
    context: str
    server: ApiServer

    @property
    def store(self) -> HubStore:
        """Store of its objects."""
        return HubStore(self.server)

    async def find(self, kind: Kind, name: str, namespace: str = "") -> JsonObject | None:
        """Return an object. None if the object or its kind does not exist.

        Raises:
            JoinError: The object cannot be read.
        """
        key = Key(name, namespace)
        try:
            return await self.store.get(kind, key)
        except NotFoundError:
            return None
        except StoreError as error:
            raise self.error(f"get {described(kind, key)}", error) from error

    async def uid(self) -> str:
        """Return the UID that identifies the cluster. Raises `JoinError`."""
        namespace = await self.find(NAMESPACE, "kube-system")
        if namespace is None:
            raise JoinError(f"{self}: has no namespace kube-system, whose uid identifies it")
        return text_at(namespace, "metadata", "uid")

    async def settle(self, desired: DesiredObject, *, dry_run: bool) -> WriteOutcome:
        """Make an object match its desired form. Definitions of a newer release and objects of Helm are kept.

        Args:
            desired: The object. Fields that it does not name are kept.
            dry_run: Write nothing. If the namespace does not exist yet, only the right to write is checked.

        Raises:
            JoinError: The API server refuses, or does not respond.
        """
        kind, document = desired
        key = Key(document["metadata"]["name"], document["metadata"].get("namespace", ""))
        current = await self.find(kind, key.name, key.namespace)
        if current is not None and kind == CUSTOM_RESOURCE_DEFINITION and is_newer(current, document):
            return WriteOutcome.UNCHANGED
        if current is not None and release_of(current):
            return WriteOutcome.UNCHANGED
        if current is not None and not is_from_join(current):
            document = unmarked(document)
        try:
            planned_object = await self.store.apply(kind, document, manager=MANAGER, force=True, dry_run=True)
        except NotFoundError as error:
            if current is not None or not dry_run:  # otherwise its namespace is still to be created
                raise self.error(f"apply {described(kind, key)}", error) from error
            return WriteOutcome.CREATED
        except StoreError as error:
            raise self.error(f"apply {described(kind, key)}", error) from error
        if current is not None and _plain(current) == _plain(planned_object):
            return WriteOutcome.UNCHANGED
        if not dry_run:
            try:
                await self.store.apply(kind, document, manager=MANAGER, force=True)
            except StoreError as error:
                raise self.error(f"apply {described(kind, key)}", error) from error
        return WriteOutcome.CREATED if current is None else WriteOutcome.CHANGED

    async def write(self, method: str, kind: Kind, document: JsonObject, *, dry_run: bool) -> None:
        """Create an object (``POST``), or replace it with the resource version that was read (``PUT``).

        Raises:
            JoinError: The API server refuses, or does not respond.
        """
        key = Key(document["metadata"]["name"], document["metadata"].get("namespace", ""))
        path = path_of(kind, key.namespace) if method == "POST" else path_of_object(kind, key)
        try:
            await self.server.request(method, path, document, query={"dryRun": "All"} if dry_run else None)
        except StoreError as error:
            raise self.error(f"write {described(kind, key)}", error) from error

    async def remove(self, kind: Kind, key: Key, *, dry_run: bool) -> WriteOutcome | None:
        """Remove an object that ``join`` has made. Return None if it is missing, or of another creator or of Helm.

        Raises:
            JoinError: The API server refuses, or does not respond.
        """
        document = await self.find(kind, key.name, key.namespace)
        if document is None or not is_from_join(document) or release_of(document):
            return None
        if not dry_run:
            try:
                await self.store.delete(kind, key, uid=document["metadata"]["uid"])
            except NotFoundError:
                return None
            except StoreError as error:
                raise self.error(f"delete {described(kind, key)}", error) from error
        return WriteOutcome.REMOVED

    async def check_right(self, verb: str, kind: Kind, key: Key, subresource: str = "") -> None:
        """Check the caller's right to an action that has no dry run.

        Raises:
            JoinError: The caller lacks the right, or the API server does not respond.
        """
        attributes = {
            "verb": verb,
            "group": kind.group,
            "resource": kind.plural,
            "subresource": subresource,
            "namespace": key.namespace,
            "name": key.name,
        }
        question = {
            "apiVersion": "authorization.k8s.io/v1",
            "kind": "SelfSubjectAccessReview",
            "spec": {"resourceAttributes": {name: value for name, value in attributes.items() if value}},
        }
        subject = f"{verb} {described(kind, key)}{f' ({subresource})' if subresource else ''}"
        try:
            answer = await self.server.request("POST", _REVIEW, question)
        except StoreError as error:
            raise self.error(subject, error) from error
        if (answer.get("status") or {}).get("allowed") is not True:
            raise JoinError(f"{self}: you may not {subject}")

    def error(self, action: str, error: StoreError) -> JoinError:
        """Return the one-line error for a failed *action*."""
        reason = " ".join(str(error).split())
        match error:
            case UnavailableError():
                return JoinError(f"{self}: {reason}")
            case ForbiddenError():
                return JoinError(f"{self}: you may not {action}: {reason}")
            case _:
                return JoinError(f"{self}: {action}: {reason}")

    def __str__(self) -> str:
        return f"{self.name} (context {self.context!r})"


def release_of(document: JsonObject) -> str:
    """Return the Helm release that owns an object. Empty: none."""
    return annotations_of(document).get(_RELEASE, "")


async def other_cluster(hub: Side, member: str, namespace: str, cluster: Side, uid: str) -> str:
    """Return, as text, which other cluster ``join`` has made this member. Empty: none, or unknown to the hub.

    ``join`` records the cluster on the hub before its agent reports for the first time.

    Args:
        hub: The hub, with the account of the member.
        member: Name of the MemberCluster.
        namespace: Namespace of harbormaster on the hub.
        cluster: The cluster in question.
        uid: UID of *cluster*.

    Raises:
        JoinError: The account cannot be read.
    """
    account = await hub.find(SERVICE_ACCOUNT, account_of(member), namespace)
    theirs = annotations_of(account or {}).get(CLUSTER_UID, "")
    if theirs in ("", uid):
        return ""
    return f"{hub}: member {member} is the cluster whose kube-system has the uid {theirs}, not {cluster}, with {uid}"


def described(kind: Kind, key: Key) -> str:
    """Format kind and name of an object."""
    return f"{kind.kind} {f'{key.namespace}/' if key.namespace else ''}{key.name}"


def format_outcome(side: Side, kind: Kind, key: Key, outcome: WriteOutcome, *, dry_run: bool) -> str:
    """Return the line about one object."""
    return _line(side, described(kind, key), outcome, dry_run=dry_run)


def format_release(side: Side, key: Key, outcome: WriteOutcome, *, dry_run: bool) -> str:
    """Return the line about one Helm release."""
    return _line(side, f"Helm release {key.namespace}/{key.name}", outcome, dry_run=dry_run)


def _line(side: Side, name: str, outcome: WriteOutcome, *, dry_run: bool) -> str:
    word = f"would be {outcome.value}" if dry_run and outcome is not WriteOutcome.UNCHANGED else outcome.value
    return f"{side.name + ':':8}{name} {word}"


def _plain(document: JsonObject) -> JsonObject:
    metadata = {name: value for name, value in document["metadata"].items() if name not in _CHANGING}
    return {**document, "metadata": metadata}
