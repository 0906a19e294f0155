"""The ConfigMap on the member that records which hub and member it belongs to.

The agent writes it in its own namespace when it joins, and clears it when it leaves. An agent of another hub or member
that finds it does not join. A kubeconfig for the wrong cluster, or two hubs that claim the same cluster, are therefore
detected before any object is applied.

Source: `scorer.membership.identity`.
"""

import logging
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Final

from scorer.api.kinds import APPLIED_WORK, KINDS
from scorer.api.meta import JsonObject
from scorer.api.names import APPLIED_WORK_CLEANUP
from scorer.api.unstructured.documents import dict_at, is_deleting, with_finalizer, without_finalizer
from scorer.membership.identity import (
    AppliedWorkOwnership,
    HubMember,
    adopted,
    is_owned_by,
    is_released,
    ownership_of,
    placed_by,
    refusal,
    released,
)
from webhook.kube.client.api_server import ApiServer
from webhook.kube.client.paths import ApiPath
from webhook.kube.ports import (
    AlreadyExistsError,
    ConflictError,
    ForbiddenError,
    Key,
    NotFoundError,
    Store,
    StoreError,
)
from webhook.member.objects.ledger import on_latest

CONFIG_MAP: Final = KINDS["", "ConfigMap"]
RECORD: Final = "harbormaster-member"

_ACCOUNT: Final = "system:serviceaccount:"
_REVIEW: Final = ApiPath("apis", "authentication.k8s.io", "v1", "selfsubjectreviews")

_log = logging.getLogger(__name__)


class ForeignClusterError(Exception):
    """The cluster belongs to another hub or member, which the message names."""


async def agent_namespace(server: ApiServer, otherwise: str) -> str:
    """Return the agent's own namespace on the member: that of its ServiceAccount.

    Args:
        server: The member, for a SelfSubjectReview.
        otherwise: Namespace if the agent is not a ServiceAccount, or if the API server does not serve or permit that
            review.

    Raises:
        StoreError: The member does not respond.
    """
    question = {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}
    try:
        answer = await server.request("POST", _REVIEW, question)
    except (NotFoundError, ForbiddenError):
        return otherwise
    user = dict_at(answer, "status", "userInfo")
    name = str(user.get("username") or "")
    return name.removeprefix(_ACCOUNT).partition(":")[0] if name.startswith(_ACCOUNT) else otherwise


class Registration:
    """The record of one agent.

    Args:
        cluster: The name of the member that the agent works for.
        member: The cluster.
        home: Returns the agent's own namespace on it.
        take_over: Whether to claim the cluster from any other owner, once.
    """

    def __init__(
        self, cluster: str, member: Store, home: Callable[[], Awaitable[str]], *, take_over: bool = False
    ) -> None:
        self._cluster = cluster
        self._member = member
        self._home = home
        self._take_over = take_over
        self._hub: str | None = None

    async def is_recorded(self) -> bool:
        """Return whether the cluster is recorded as ours. The hub's uid is compared once it is known.

        An agent that restarts during an outage of the hub therefore recognizes its cluster by name alone.

        Raises:
            StoreError: The cluster did not respond.
        """
        registration = _recorded(await self._read())
        if registration is None:
            return False
        return HubMember.named(self._cluster, registration.hub if self._hub is None else self._hub).may_be(registration)

    async def claim(self, hub: str) -> None:
        """Record that the cluster is ours, and prepare it for applying.

        Args:
            hub: UID of the hub, empty if unknown.

        Raises:
            ForeignClusterError: The cluster belongs to another agent, and no write was made.
            StoreError: The record could not be read or written, so the owner of the cluster is unknown.
        """
        self._hub = hub
        us = HubMember.named(self._cluster, hub)
        applied = await self._applied_works()
        record = await self._read()
        reason = refusal(_recorded(record), applied, us)
        if reason and not self._take_over:
            raise ForeignClusterError(reason)
        if reason:
            _log.warning("cluster taken over", extra={"cluster": self._cluster, "was": reason})
        # The record first, at the version that was checked. Of two agents that claim concurrently, one gets
        # ConflictError. The agent that loses the cluster sees the record (`verify`) while the rest is still being
        # adopted.
        await self._write(record, us)
        for applied_work in applied:
            await self._settle(applied_work, us)
        self._take_over = False  # only now: a claim that failed halfway must be retried as a takeover

    async def refusal(self, hub: str) -> str:
        """Return why `claim` would refuse the cluster, without writing. Empty if it would claim it.

        Raises:
            StoreError: The cluster did not respond.
        """
        us = HubMember.named(self._cluster, hub)
        return refusal(_recorded(await self._read()), await self._applied_works(), us)

    async def verify(self, hub: str) -> None:
        """Check that no other agent has taken the cluster over. A missing or incomplete record is written again.

        Raises:
            ForeignClusterError: The cluster belongs to another agent.
            StoreError: The cluster did not respond.
        """
        us, record = HubMember.named(self._cluster, hub), await self._read()
        registration = _recorded(record)
        if registration == us:
            return
        if reason := refusal(registration, (), us):
            raise ForeignClusterError(reason)
        await self._write(record, us)

    async def release(self, hub: str) -> None:
        """Release the cluster: placed objects remain, and the next agent to join may take it over.

        A no-op if the record names another agent.

        Raises:
            StoreError: The cluster did not respond, or did not store it.
        """
        us, record = HubMember.named(self._cluster, hub), await self._read()
        registration = _recorded(record)
        if registration is not None and not us.may_be(registration):
            return
        for applied_work in await self._applied_works():
            if is_owned_by(applied_work, us):
                await self._change(applied_work, _freed)
        # The record last: while it exists, no other agent joins and sees AppliedWorks that are still marked as ours.
        if record is not None:
            with suppress(NotFoundError):
                await self._member.replace(CONFIG_MAP, {**record, "data": {}})

    async def _settle(self, applied_work: JsonObject, us: HubMember) -> None:
        """Adopt an AppliedWork that we had released. In a takeover, release an AppliedWork of another owner."""
        if is_released(applied_work):
            if us.may_be(placed_by(applied_work)):
                await self._change(applied_work, lambda live: _held(live, us))
        elif self._take_over and ownership_of(applied_work, us) is AppliedWorkOwnership.ANOTHERS:
            await self._change(applied_work, _freed)

    async def _change(self, applied_work: JsonObject, change: Callable[[JsonObject], JsonObject]) -> None:
        """Change the latest version of an AppliedWork. Skip it if it was deleted or recreated."""
        name, uid = applied_work["metadata"]["name"], applied_work["metadata"]["uid"]

        async def write(live: JsonObject) -> None:
            if live["metadata"]["uid"] == uid:
                await self._member.replace(APPLIED_WORK, change(live))

        await on_latest(APPLIED_WORK, Key(name), self._member, write)

    async def _applied_works(self) -> tuple[JsonObject, ...]:
        """Return the AppliedWorks on the cluster, empty if the kind is not defined."""
        try:
            return (await self._member.list(APPLIED_WORK)).items
        except NotFoundError:
            return ()

    async def _read(self) -> JsonObject | None:
        try:
            return await self._member.get(CONFIG_MAP, Key(RECORD, await self._home()))
        except NotFoundError:
            return None

    async def _write(self, record: JsonObject | None, us: HubMember) -> None:
        data = {"hub": us.hub, "member": us.cluster}
        if record is not None and record.get("data") == data:
            return
        try:
            if record is not None:
                await self._member.replace(CONFIG_MAP, {**record, "data": data})
                return
            metadata = {"name": RECORD, "namespace": await self._home()}
            document = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data}
            await self._member.create(CONFIG_MAP, document)
        except AlreadyExistsError as error:  # another agent was faster: read and check its record first
            raise ConflictError(str(error)) from error
        except (ForbiddenError, NotFoundError) as error:
            advice = "`harbormaster rbac agent` prints the required roles"
            raise StoreError(f"the owner of this cluster cannot be recorded: {error}. {advice}") from error


def _held(applied_work: JsonObject, us: HubMember) -> JsonObject:
    """Return a released AppliedWork as ours again, with the finalizer that protects its objects."""
    ours = adopted(applied_work, us)
    return ours if is_deleting(ours) else with_finalizer(ours, APPLIED_WORK_CLEANUP) or ours


def _freed(applied_work: JsonObject) -> JsonObject:
    """Return an AppliedWork as released, without our finalizer, so that it can be deleted."""
    theirs = released(applied_work)
    return without_finalizer(theirs, APPLIED_WORK_CLEANUP) or theirs


def _recorded(record: JsonObject | None) -> HubMember | None:
    """Return the owner of the cluster, or None if the record is missing or names no member."""
    data = (record or {}).get("data") or {}
    return HubMember.named(str(data["member"]), str(data.get("hub") or "")) if data.get("member") else None
