"""What-if over the present state of the hub: ``/v1/plan``.

The state is taken as it is at one moment, which costs the event loop next to nothing; judging and planning happen in a
thread, one plan at a time, so that a large one holds up nobody but other plans.

Source: scheduling.md 22, property 10.
"""

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import datetime
from typing import Final

from scorer.api.kinds import KINDS, Kind
from scorer.api.meta import JsonObject
from scorer.what_if.state import Identity
from webhook.access.ports import NotReviewedError
from webhook.access.rights import Reviewed
from webhook.access.user import UserInfo
from webhook.admission.cached import ADMISSION_KINDS
from webhook.admission.documents import DocumentSet
from webhook.admission.rights import Rights
from webhook.answers.proposal import PLANNED_KINDS, Audience, Misfit, Proposal, ProposalError, plan, stored
from webhook.kube.cache import Cache
from webhook.kube.ports import Key
from webhook.settings.admission import PlacementAuthorization
from webhook.validation.context import Context, NotKnownError
from webhook.validation.member_cluster import INTERNAL_SERVICE_EXPORT

TURN_SECONDS: Final = 20.0
"""How long a plan waits for those before it."""
MOST_WAITING: Final = 8
"""So many plans wait; each may be large, and all of them are held in memory."""
MOST_RIGHTS: Final = 1000
"""So many rights of the author are asked about for one plan."""


class BusyError(Exception):
    """Too many plans are being made; another try may succeed."""


class HubPlanner:
    """Plans over a cache, without writing anything.

    Args:
        cache: The hub's objects; it is made to watch what is needed.
        admission: Returns what admission rules may look at.
        rights: Knows what authors may have placed.
        now: The clock.
    """

    def __init__(
        self, cache: Cache, admission: Callable[[], Context], rights: Rights, now: Callable[[], datetime]
    ) -> None:
        self._cache = cache
        self._admission = admission
        self._rights = rights
        self._now = now
        self._turn = asyncio.Lock()
        self._waiting = 0
        cache.require(PLANNED_KINDS)

    async def plan(self, proposal: Proposal, user: UserInfo, audience: Audience) -> JsonObject:
        """Return the plan of a proposal: the document of `webhook.answers.proposal.plan`, with ``fleetRevision``.

        Args:
            proposal: What would be done.
            user: Who would do it.
            audience: What they may be told about.

        Raises:
            webhook.answers.proposal.ProposalError: The proposal does not fit the hub.
            NotReviewedError: The rights of the user cannot be found out, and nothing may be allowed without.
            BusyError: Others are planning, or wait to.
        """
        if self._waiting >= MOST_WAITING:
            raise BusyError(f"{self._waiting} others wait for their plan already")
        self._waiting += 1
        try:
            async with asyncio.timeout(TURN_SECONDS):
                await self._turn.acquire()
        except TimeoutError as error:
            raise BusyError(f"others have been planning for {TURN_SECONDS:g} s") from error
        finally:
            self._waiting -= 1
        try:
            context = replace(self._admission().asked_by(user), now=self._now().replace(microsecond=0))
            hub, revision = self._hub(context), str(self._cache.fleet.revision)
            reviews = await _reviews(proposal, context, hub, self._rights, audience)
            document = await asyncio.to_thread(plan, hub, proposal, context, audience, reviews)
        finally:
            self._turn.release()
        return {**document, "fleetRevision": revision}

    def _hub(self, context: Context) -> DocumentSet:
        """Return the hub as it is now; the fleet as a copy, whose columns nobody else adds to."""
        fleet = self._cache.fleet
        _ = fleet.eligibility, fleet.taints, fleet.namespaces
        shelves: dict[tuple[str, str], Mapping[Key, JsonObject]] = {}
        known = []
        for kind in {*KINDS.values(), INTERNAL_SERVICE_EXPORT}:
            if _is_known(kind, context):
                known.append(kind.group_kind)
                shelves[kind.group_kind] = dict(self._cache.shelf(kind).objects)
        for kind in (*ADMISSION_KINDS, *PLANNED_KINDS):
            if kind.group_kind not in shelves:
                shelves[kind.group_kind] = dict(self._cache.shelf(kind).objects)
        return DocumentSet(shelves, known, fleet.updated(()))


def _is_known(kind: Kind, context: Context) -> bool:
    try:
        context.hub.list(kind)
    except NotKnownError:
        return False
    return True


async def _reviews(
    proposal: Proposal, context: Context, hub: DocumentSet, rights: Rights, audience: Audience
) -> Mapping[Identity, Reviewed]:
    """Ask for the rights of the author, as the validating hook does.

    Raises:
        ProposalError: It would take too many questions.
        NotReviewedError: They cannot be found out, and without them nothing may be allowed.
    """
    needs, count = {}, 0
    for at, each in enumerate(proposal.objects):
        identity, old = each.identity, stored(hub, each, audience)
        write: JsonObject = {
            "kind": {"group": identity.group, "kind": identity.kind},
            "operation": "CREATE" if old is None else "UPDATE",
            "object": each.document,
            "oldObject": old,
        }
        needs[identity] = rights.needed(write, context.user, context)
        count += len(needs[identity])
        if count > MOST_RIGHTS:
            detail = f"what is selected up to here takes {count} rights; at most {MOST_RIGHTS} are asked about"
            raise ProposalError([Misfit(f"/objects/{at}", "too-many", detail)])
    found = {}
    for identity, needed in needs.items():
        if needed:
            reviewed = await rights.review(context.user, needed)
            if reviewed.unanswered and context.settings.placement_authorization is PlacementAuthorization.ENFORCE:
                raise NotReviewedError(reviewed.unanswered)
            found[identity] = reviewed
    return found
