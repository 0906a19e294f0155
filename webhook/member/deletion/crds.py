"""Check whether a CustomResourceDefinition has objects that did not come from Works and would be deleted with it.

An object came from a Work if AppliedWorks of this member are its only owners, their Works are on the hub and not held
after a restore of the hub, and it has no annotation to be kept. The hub can create such an object again. It cannot
recreate objects of users and controllers of the member, those that an earlier Work left on the member, those of another
hub, or those that are missing on a restored hub.

Example: a placement drops the definition of ``backups.example.com``. A user of the member has created the Backup
``nightly``, which no Work can recreate. The definition is released instead of deleted, and an Event names ``nightly``.

The definition is deleted right after its objects were listed. An object that is created in the milliseconds in between
is deleted with it: an API server offers no precondition on the objects of a definition.

Source: docs/specifications/rollout.md 20. Differs from the reference, which deletes definitions like any other object.
"""

from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from scorer.api.event import Event
from scorer.api.kinds import APPLIED_WORK, CUSTOM_RESOURCE_DEFINITION, WORK, Kind
from scorer.api.meta import JsonObject
from scorer.api.names import ABANDON
from scorer.api.unstructured.documents import annotation, is_deleting, name_of, namespace_of, uid_of
from scorer.membership.identity import HubMember, is_owned_by
from scorer.rollout.removal.marks import is_marked, is_marked_for_removal
from scorer.rollout.works.hub_restore import is_older
from webhook.kube.ports import ForbiddenError, Key, NotFoundError, PagedStore, Store, UnavailableError
from webhook.member.objects.manifests import kinds_of
from webhook.member.objects.owner_references import is_applied_work, owners
from webhook.member.store.events import record_event
from webhook.member.store.ports import MemberStore

DEFINITION_RELEASED: Final = "DefinitionReleased"

_CONVERSION: Final = "conversion webhook for "
"""Prefix of the answer of an API server with objects that it cannot convert.

Without objects, it never calls the conversion webhook of a definition.
"""


def is_definition(kind: Kind) -> bool:
    """Return whether objects of *kind* are CustomResourceDefinitions."""
    return kind.group_kind == CUSTOM_RESOURCE_DEFINITION.group_kind


@dataclass(frozen=True, slots=True)
class Definitions:
    """The definitions of a Work that will be removed.

    Args:
        work: The Work, or its last state.
        hub: Store of the Works.
        member: Store of the definitions and their objects.
        us: The identity of this member.
        now: The time of day.
    """

    work: JsonObject
    hub: Store
    member: MemberStore
    us: HubMember
    now: datetime

    async def deletion_refusal(self, definition: JsonObject) -> str:
        """Return why *definition* must not be deleted. Empty: all of its objects came from Works.

        Every served version lists the objects of all namespaces and of all stored versions.

        Raises:
            StoreError: The hub or the member does not respond: try again later.
        """
        kind = next(iter(kinds_of([definition]).values()), None)
        if kind is None or not kind.versions:
            return "it serves no version, so its objects cannot be listed"
        applied_work_uids = await self._owned()
        try:
            async for items in _pages(kind, self.member):
                for item in items:
                    if not (
                        owners(item) and all(_is_by(owner, applied_work_uids) for owner in owners(item))
                    ) or is_marked(item):
                        return f"{kind.kind} {Key(name_of(item), namespace_of(item))} may not have come from a Work"
        except (ForbiddenError, NotFoundError) as error:
            return f"its objects cannot be listed: {error}"
        except UnavailableError as error:
            if _CONVERSION in str(error):
                return f"its objects cannot be listed: {error}"
            raise
        return ""

    async def report(self, definition: JsonObject, reason: str) -> None:
        """Write Events about *definition*, which was released because of *reason*."""
        name = name_of(definition)
        message = (
            f"CustomResourceDefinition {name} is no longer placed, but remains on the member without an owner: "
            f"{reason}. To delete it with all its objects, run on the member: kubectl delete crd {name}"
        )
        await record_event(self.work, Event(DEFINITION_RELEASED, message, "Warning"), self.hub, self.member, self.now)

    async def _owned(self) -> frozenset[str]:
        """Return the uids of our AppliedWorks whose Works exist or remove their objects, including that of this Work.

        An AppliedWork is excluded if its Work is older than the applied state, and may therefore lack objects that the
        AppliedWork owns.

        Raises:
            UnavailableError: The hub does not serve Works, or the member no AppliedWorks.
        """
        try:
            applied_work_uids = (await self.hub.list(WORK, self.us.namespace)).items
            applied_works = (await self.member.list(APPLIED_WORK)).items
        except NotFoundError as error:  # callers would take this error for a missing definition
            raise UnavailableError(f"the objects of a definition are unknown: {error}") from error
        works = {
            name_of(work): work
            for work in applied_work_uids
            if not is_deleting(work) or (is_marked_for_removal(work) and annotation(work, ABANDON) != "true")
        }
        work_name = name_of(self.work)
        return frozenset(
            uid_of(item)
            for item in applied_works
            if is_owned_by(item, self.us)
            and (name_of(item) == work_name or ((work := works.get(name_of(item))) and not is_older(work, item)))
        )


def _is_by(owner: JsonObject, applied_work_uids: frozenset[str]) -> bool:
    return is_applied_work(owner) and owner["uid"] in applied_work_uids


async def _pages(kind: Kind, member: MemberStore) -> AsyncIterator[Sequence[JsonObject]]:
    """Yield the objects of *kind*, from an API server in pages, so that the first foreign object stops the list."""
    if isinstance(member, PagedStore):
        async for page in member.pages(kind):
            yield page.items
    else:
        yield (await member.list(kind)).items
