"""Reads the status of a hub from its caches, in small steps, so that a large hub does not block the event loop."""

import asyncio
from collections.abc import Awaitable, Callable, Collection, Iterable, Sequence
from typing import Final

from scorer.api.family import FAMILIES, PLACEMENTS, PlacementRef, ref_prefixes
from scorer.api.kinds import MAINTENANCE_WINDOW, MEMBER_CLUSTER, UPGRADE_RUN, Kind
from scorer.rollout.views.removals import PlacementRemovals
from webhook.answers.placements import Placement
from webhook.answers.questions import Advisor
from webhook.answers.status.fleet_status import FleetFacts, FleetStatus, fleet_status
from webhook.answers.update_runs import HubRuns

RUN_KINDS: Final = frozenset({UPGRADE_RUN, *(family.run for family in FAMILIES)})
RESTRICTED_KINDS: Final = frozenset({*PLACEMENTS, *RUN_KINDS})
"""Kinds whose objects are part of a status if the caller may list them."""
STATUS_KINDS: Final = (
    MEMBER_CLUSTER,
    MAINTENANCE_WINDOW,
    UPGRADE_RUN,
    *(kind for family in FAMILIES for kind in (family.placement, family.binding, family.run, family.approval_request)),
)
"""Kinds that a status is computed from, besides the resource snapshots of pending removals."""
_STEP: Final = 100
"""Number of placements, or of those with pending removals, that are read without a pause."""

Removals = Callable[[Sequence[PlacementRef]], Awaitable[list[PlacementRemovals]]]


class HubStatus:
    """Answers ``/v1/status``.

    Args:
        advisor: Views of clusters, placements and removals.
        runs: Views of runs and windows.
        removals: Reads the pending removals of placements. None: unset, from *advisor*.
    """

    def __init__(self, advisor: Advisor, runs: HubRuns, removals: Removals | None = None) -> None:
        self._advisor = advisor
        self._runs = runs
        self._removals = removals or self._cached_removals

    async def status(self, kinds: Collection[Kind], unread: Iterable[str] = (), *, namespace: str = "") -> FleetStatus:
        """Return the status, with the placements and runs of *kinds*.

        Args:
            kinds: Those of `RESTRICTED_KINDS` that the caller may list.
            unread: Other kinds that cannot be read. Those of `RESTRICTED_KINDS` that *kinds* lacks are added to them.
            namespace: Covers only objects of this namespace. Empty: unlimited.
        """
        kinds_unread = {*unread, *(kind.resource for kind in RESTRICTED_KINDS - frozenset(kinds))}
        if namespace:
            kinds = [kind for kind in kinds if kind.namespaced]
            kinds_unread &= {kind.resource for kind in STATUS_KINDS if kind.namespaced}
        prefixes = ref_prefixes([kind for kind in PLACEMENTS if kind in kinds])
        if namespace:
            prefixes = tuple(f"{prefix}{namespace}/" for prefix in prefixes)
        await self._runs.catch_up(kinds)
        pending = [ref for ref in self._advisor.pending_removal_refs() if str(ref).startswith(prefixes)]
        facts = FleetFacts(
            clusters=[] if namespace else self._advisor.clusters(self._advisor.cluster_names()),
            placements=await self._placements(prefixes),
            runs=[run for run in self._runs.runs(kinds)["items"] if namespace in ("", run["namespace"])],
            removals=await self._removals(pending),
            windows=[] if namespace else self._runs.upkeep.windows(),
            unread=sorted(kinds_unread),
        )
        return fleet_status(facts)

    async def _placements(self, prefixes: tuple[str, ...]) -> list[Placement]:
        refs = [ref for ref in self._advisor.placement_refs() if str(ref).startswith(prefixes)]
        placements: list[Placement] = []
        for start in range(0, len(refs), _STEP):
            placements += self._advisor.placements(refs[start : start + _STEP])
            await asyncio.sleep(0)
        return placements

    async def _cached_removals(self, refs: Sequence[PlacementRef]) -> list[PlacementRemovals]:
        removals: list[PlacementRemovals] = []
        for start in range(0, len(refs), _STEP):
            removals += self._advisor.removals(refs[start : start + _STEP])
            await asyncio.sleep(0)
        return removals
