"""One scheduling run: which clusters a placement gets, keeps and loses.

A pure function of the policy, the fleet, the bindings and the instant. The numbers behind the decision are kept as
columns, and formatted only on request.

Source: docs/specifications/scheduling.md 3, 11, 13 to 15.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from itertools import repeat
from typing import NamedTuple

import numpy as np

from scorer.api.placement.binding import BindingState
from scorer.api.placement.placement import PlacementType
from scorer.columns import BoolColumn, IntColumn, RowColumn
from scorer.fleet import Fleet
from scorer.framework.cycle import Cycle
from scorer.framework.plugin import FilterPlugin
from scorer.framework.status import Category, FilterRejection
from scorer.placement.holdings import Binding, Holdings, classify, scale_down
from scorer.placement.pick import Ranks, pick_spread
from scorer.placement.request import Request
from scorer.plugins.cluster_eligibility import ineligibility
from scorer.plugins.topology_spread import TopologySpread
from scorer.profile import Profile


class Scored(NamedTuple):
    """A candidate with its sort keys. ``batch`` counts from 1 (always 1 without spread constraints)."""

    cluster: str
    topology: int = 0
    affinity: int = 0
    bonus: bool = False
    batch: int = 1


class Screened(NamedTuple):
    """The verdict of the filters and the preferences on a fleet, independent of the placed clusters.

    Args:
        passed: Per filter of the profile, the clusters that passed it, None for all.
        rows: The clusters that passed all filters.
        affinity: Points of the clusters. If None, 0 each.
    """

    passed: tuple[BoolColumn | None, ...]
    rows: RowColumn
    affinity: IntColumn | None


@dataclass(frozen=True, slots=True)
class Round:
    """The last batch of a run, with its verdict on each cluster.

    Args:
        profile: The plugins.
        cycle: Input of the batch. ``placed`` includes the picks of earlier batches.
        screened: The part that does not depend on the batch.
        spread: The clusters that passed the spread constraints, None for all.
        candidates: The clusters that passed everything and are not taken, with their sort keys.
        order: Positions of the best candidates, best first: the picked ones, and some of the losers after them.
        picked: Number of clusters of *order* that this batch picked.
        number: The number of the batch.
    """

    profile: Profile
    cycle: Cycle
    screened: Screened
    spread: BoolColumn | None
    candidates: Ranks
    order: RowColumn
    picked: int
    number: int

    @property
    def passed(self) -> tuple[BoolColumn | None, ...]:
        """Per filter of ``profile.filters``, the clusters that passed it, None for all."""
        return self.screened.passed

    def unselected(self, limit: int | None = None) -> list[Scored]:
        """Return the candidates that were not picked, best first."""
        return self.scored(self.losing(limit))

    def losing(self, limit: int | None = None) -> RowColumn:
        """Return the positions of the candidates that were not picked, best first."""
        limit_row = self.candidates.rows.size if limit is None else min(self.picked + limit, self.candidates.rows.size)
        order = self.order if self.order.size >= limit_row else self.candidates.best(limit_row)
        return order[self.picked : limit_row]

    def winners(self) -> list[Scored]:
        """Return the candidates that this batch picked, in rank order."""
        return self.scored(self.order[: self.picked])

    def scored(self, positions: RowColumn) -> list[Scored]:
        """Return the candidates at *positions* with their sort keys."""
        ranks, names = self.candidates, self.cycle.fleet.names
        topology = repeat(0) if ranks.topology is None else ranks.topology[positions].tolist()
        affinity = repeat(0) if ranks.affinity is None else ranks.affinity[positions].tolist()
        bonus = repeat(False) if ranks.bonus is None else ranks.bonus[positions].tolist()
        clusters = map(names.__getitem__, ranks.rows[positions].tolist())
        return list(map(Scored, clusters, topology, affinity, bonus, repeat(self.number)))

    def rejected_rows(self) -> RowColumn:
        """Return the clusters that a filter rejected, by name.

        A taken cluster is among them if a filter other than the spread constraints rejects it.
        """
        alive = np.ones(len(self.cycle.fleet), dtype=np.bool_)
        for mask in self.passed:
            if mask is not None:
                alive &= mask
        if self.spread is not None:
            alive &= self.spread | self.cycle.placed
        return np.flatnonzero(~alive)

    def reject(self, row: int) -> FilterRejection | None:
        """Return why a filter rejected the cluster in *row*, None if no filter did."""
        for plugin, mask in zip(self.profile.filters, self.passed, strict=True):
            if mask is not None and not mask[row]:
                return plugin.reject(self.cycle, row)
        if self.spread is not None and not self.spread[row] and not self.cycle.placed[row]:
            return self.profile.spread.reject(self.cycle, row)
        return None

    def refusals(self, row: int) -> int:
        """Count the filters that the cluster in *row* does not pass."""
        masks = (*self.passed, self.spread if not self.cycle.placed[row] else None)
        return sum(mask is not None and not mask[row] for mask in masks)

    def turned_away(self) -> dict[str, int]:
        """Count, per plugin, the clusters that it was the first to reject, without taken clusters."""
        return {plugin.name: int(np.count_nonzero(mask)) for plugin, mask in self._first_refusals()}

    def categories(self) -> dict[Category, int]:
        """Count, by category of rejection, the clusters that are neither taken nor candidates."""
        counts: dict[Category, int] = {}
        for plugin, mask in self._first_refusals():
            counts |= plugin.categories(self.cycle, mask)
        return counts

    def _first_refusals(self) -> Iterator[tuple[FilterPlugin | TopologySpread, BoolColumn]]:
        """Yield each plugin that rejected clusters, with those that it was the first to reject."""
        alive = ~self.cycle.placed
        plugins = (*self.profile.filters, self.profile.spread)
        for plugin, mask in zip(plugins, (*self.passed, self.spread), strict=True):
            if mask is not None and (refusals := alive & ~mask).any():
                yield plugin, refusals
                alive &= mask


@dataclass(frozen=True, slots=True)
class ScheduleResult:
    """The decision of a run.

    Args:
        request: The policy that was scheduled, None if it cannot be evaluated.
        fleet: The clusters to choose from.
        now: The time of the run.
        holdings: The bindings before the run.
        picked: New and re-picked clusters, in rank order (PickAll: by name; PickFixed: as listed).
        kept: Bindings that are kept.
        dropped: Bindings to mark Unscheduled, in order: dangling, obsolete, scaled down.
        missed: PickFixed: listed clusters that could not be picked, ineligible ones first, each group as listed.
        last: The last batch, None if no cluster was judged.
        invalid: Reason why the policy cannot be evaluated. Empty: it can.
    """

    request: Request | None
    fleet: Fleet
    now: datetime
    holdings: Holdings
    picked: tuple[Scored, ...] = ()
    kept: tuple[Binding, ...] = ()
    dropped: tuple[Binding, ...] = ()
    missed: tuple[tuple[str, FilterRejection], ...] = ()
    last: Round | None = None
    invalid: str = ""

    @property
    def selected_count(self) -> int:
        """Number of selected clusters."""
        return len(self.picked) + len(self.kept)

    @property
    def picked_clusters(self) -> frozenset[str]:
        """The clusters that are picked for the first time or again."""
        return frozenset(pick.cluster for pick in self.picked)

    @property
    def new_clusters(self) -> frozenset[str]:
        """The picked clusters without a binding."""
        return frozenset(name for name in self.picked_clusters if name not in self.holdings.by_cluster)

    @property
    def held_bindings(self) -> tuple[str, ...]:
        """Names of the bindings that are kept, then of those that are picked again."""
        by_cluster = self.holdings.by_cluster
        picked = (by_cluster[pick.cluster].name for pick in self.picked if pick.cluster in by_cluster)
        return (*(binding.name for binding in self.kept), *picked)

    @property
    def dropped_with_content(self) -> tuple[str, ...]:
        """Names of the dropped bindings that are Bound, except those of clusters that have left the fleet."""
        dangling = {binding.name for binding in self.holdings.dangling}
        return tuple(
            binding.name
            for binding in self.dropped
            if binding.state is BindingState.BOUND and binding.name not in dangling
        )

    @property
    def changes_nothing(self) -> bool:
        """Whether the run judged no cluster and moved no binding."""
        return self.request is not None and self.last is None and not (self.picked or self.dropped or self.missed)

    @property
    def satisfied(self) -> bool:
        """Whether the placement has all clusters that its policy requests. False for an invalid policy."""
        if self.request is None or self.missed:
            return False
        if self.request.policy.placement_type is not PlacementType.PICK_N:
            return True
        assert self.request.wanted is not None
        return self.selected_count >= self.request.wanted


def schedule(
    request: Request, fleet: Fleet, bindings: Iterable[Binding], now: datetime, previous: ScheduleResult | None = None
) -> ScheduleResult:
    """Decide which clusters the placement gets, keeps and loses. Scores that have expired at *now* do not count.

    Args:
        request: Policy of the placement.
        fleet: The clusters to choose from.
        bindings: Current bindings of the placement.
        now: Reference instant for heartbeats and expirations.
        previous: Another run. Its verdicts are reused if fleet, conditions and instant are equal. It does not affect
            the result.
    """
    fleet = fleet.at(now)
    holdings = classify(bindings, fleet)
    match request.policy.placement_type:
        case PlacementType.PICK_FIXED:
            return _pick_fixed(request, fleet, holdings, now)
        case PlacementType.PICK_ALL:
            return _pick_all(request, fleet, holdings, now, previous)
        case _:
            return _pick_n(request, fleet, holdings, now, previous)


def hold(reason: str, fleet: Fleet, bindings: Iterable[Binding], now: datetime) -> ScheduleResult:
    """Decide for a policy that cannot be evaluated: drop dangling bindings, and change nothing else (DV-5)."""
    fleet = fleet.at(now)
    holdings = classify(bindings, fleet)
    remaining = _by_cluster((*holdings.taken, *holdings.obsolete))
    return ScheduleResult(
        None, fleet, now, holdings, kept=remaining, dropped=_by_cluster(holdings.dangling), invalid=reason
    )


def screen(
    request: Request, fleet: Fleet, holdings: Holdings, now: datetime, previous: ScheduleResult | None = None
) -> Round:
    """Run the filters that do not depend on earlier batches, and the preferences, without picking."""
    fleet = fleet.at(now)
    cycle = Cycle(fleet, now, request.namespace, holdings.placed(fleet), holdings.stale(fleet))
    screening = _screen_fleet(request.profile, cycle, previous)
    rows, affinity = screening.rows, screening.affinity
    if holdings.taken:
        free = ~cycle.placed[rows]
        rows, affinity = rows[free], None if affinity is None else affinity[free]
    bonus = cycle.obsolete[rows] if holdings.obsolete else None
    ranks = Ranks(rows, None, affinity, bonus)
    return Round(request.profile, cycle, screening, None, ranks, np.arange(0), 0, 1)


def _screen_fleet(profile: Profile, cycle: Cycle, previous: ScheduleResult | None) -> Screened:
    other = previous.last if previous else None
    if other is not None and other.cycle.fleet is cycle.fleet and other.profile == profile:
        cycle_before = other.cycle
        if (cycle_before.now, cycle_before.namespace) == (cycle.now, cycle.namespace):
            return other.screened
    masks = tuple(plugin.filter(cycle) for plugin in profile.filters)
    alive = np.ones(len(cycle.fleet), dtype=np.bool_)
    for mask in masks:
        if mask is not None:
            alive &= mask
    rows = np.flatnonzero(alive)
    return Screened(masks, rows, profile.affinity.score(cycle, rows))


def confirm(request: Request, fleet: Fleet, bindings: Sequence[Binding], now: datetime) -> list[Binding]:
    """Return bindings marked current if their cluster passes the filters now, else marked obsolete.

    Used for lost bindings. A PickFixed policy must also list the cluster. Scores do not count, so a feasible cluster
    keeps its content.
    """
    if not bindings:  # nearly always: screening costs as much as a decision
        return []
    feasible = screen(request, fleet, Holdings(), now).screened.rows
    clusters = {fleet.names[row] for row in feasible}
    if request.policy.placement_type is PlacementType.PICK_FIXED:
        clusters &= set(request.policy.cluster_names)
    return [replace(binding, current=binding.cluster in clusters) for binding in bindings]


def judge(request: Request, fleet: Fleet, holdings: Holdings, now: datetime) -> Round:
    """Return the verdict of one more batch on the fleet, without picks. Used for a run that judged no cluster."""
    return _batch(screen(request, fleet, holdings, now), np.arange(0), picked=0)


def _pick_all(
    request: Request, fleet: Fleet, holdings: Holdings, now: datetime, previous: ScheduleResult | None
) -> ScheduleResult:
    last = screen(request, fleet, holdings, now, previous)
    last = replace(last, order=np.arange(last.candidates.rows.size), picked=last.candidates.rows.size)
    return _finish(request, fleet, holdings, now, tuple(last.winners()), last)


def _pick_n(
    request: Request, fleet: Fleet, holdings: Holdings, now: datetime, previous: ScheduleResult | None
) -> ScheduleResult:
    assert request.wanted is not None
    missing = request.wanted - len(holdings.taken)
    if missing <= 0:
        surplus = scale_down(holdings.taken, -missing)
        dropped_names = {binding.name for binding in surplus}
        remaining = _by_cluster(binding for binding in holdings.taken if binding.name not in dropped_names)
        drops = (*_by_cluster(holdings.dangling), *_by_cluster(holdings.obsolete), *surplus)
        return ScheduleResult(request, fleet, now, holdings, kept=remaining, dropped=drops)
    last = screen(request, fleet, holdings, now, previous)
    if request.profile.spread.constraints:
        picked, last = _pick_in_batches(last, missing)
    else:
        order = last.candidates.best(missing + SOME_LOSERS)
        last = replace(last, order=order, picked=min(missing, order.size))
        picked = tuple(last.winners())
    return _finish(request, fleet, holdings, now, picked, last)


SOME_LOSERS = 20
"""Number of losers that are ranked along with the picks, as many as a record shows."""


def _pick_in_batches(first: Round, missing: int) -> tuple[tuple[Scored, ...], Round]:
    """Pick one cluster per batch, and rebuild the last batch.

    `pick_spread` finds the picks without scoring the losers. Only the record and the explanation of a run need scores
    of losers, and only those of the last batch. Therefore only one batch is evaluated for the whole fleet.

    Example: 3 clusters are needed. The last batch is rebuilt with the first two picks as placed, and the third wins it.
    If there were only two picks, it is rebuilt with both as placed, and shows why no third candidate was left.
    """
    cycle, spread, ranks = first.cycle, first.profile.spread, first.candidates
    picks, is_starved = pick_spread(cycle.fleet, spread.constraints, ranks, cycle.placed, missing)
    positions = np.array([pick.position for pick in picks], dtype=np.intp)
    losers = tuple(
        candidate._replace(topology=pick.topology, bonus=candidate.bonus and number == 1, batch=number)
        for number, (candidate, pick) in enumerate(zip(first.scored(positions), picks, strict=True), start=1)
    )
    earlier = positions if is_starved else positions[:-1]
    return losers, _batch(first, earlier, picked=0 if is_starved else 1)


def _batch(first: Round, earlier: RowColumn, picked: int) -> Round:
    """Return the batch that follows once the candidates at positions *earlier* of the first batch have been picked."""
    cycle, spread, ranks = first.cycle, first.profile.spread, first.candidates
    number = earlier.size + 1
    # The tie bonus counts in the first batch only: after it, the reference has marked the obsolete bindings Unscheduled
    # (scheduling.md 11).
    placed_mask = cycle.placed.copy()
    placed_mask[ranks.rows[earlier]] = True
    batch_cycle = replace(
        cycle, placed=placed_mask, obsolete=cycle.obsolete if number == 1 else np.zeros_like(cycle.obsolete)
    )
    mask = spread.filter(batch_cycle)
    alive = ~placed_mask[ranks.rows] if mask is None else ~placed_mask[ranks.rows] & mask[ranks.rows]
    rows = ranks.rows[alive]
    affinity = None if ranks.affinity is None else ranks.affinity[alive]
    bonus = ranks.bonus[alive] if ranks.bonus is not None and number == 1 else None
    candidates = Ranks(rows, spread.score(batch_cycle, rows), affinity, bonus)
    order = candidates.best(picked + SOME_LOSERS)
    return Round(first.profile, batch_cycle, first.screened, mask, candidates, order, picked, number)


UNKNOWN_TARGET = FilterRejection("PickFixed", Category.TARGET_NOT_FOUND, "there is no member cluster of this name")


def _pick_fixed(request: Request, fleet: Fleet, holdings: Holdings, now: datetime) -> ScheduleResult:
    by_cluster = {binding.cluster: binding for binding in holdings.taken}
    picked, remaining, ineligible, unknown = [], [], [], []
    for name in dict.fromkeys(request.policy.cluster_names):
        row = fleet.row(name)
        if row is None:
            unknown.append((name, UNKNOWN_TARGET))
        elif name in by_cluster:
            remaining.append(by_cluster[name])
        elif rejection := ineligibility(fleet, row, now):
            ineligible.append((name, rejection))
        else:
            picked.append(Scored(name))
    selected = {pick.cluster for pick in picked}
    names = set(request.policy.cluster_names)
    unlisted_bindings = [binding for binding in holdings.taken if binding.cluster not in names]
    drops = (binding for binding in _by_cluster(holdings.obsolete) if binding.cluster not in selected)
    return ScheduleResult(
        request,
        fleet,
        now,
        holdings,
        picked=tuple(picked),
        kept=_by_cluster((*remaining, *unlisted_bindings)),
        dropped=(*_by_cluster(holdings.dangling), *drops),
        missed=(*ineligible, *unknown),
    )


def _finish(
    request: Request, fleet: Fleet, holdings: Holdings, now: datetime, picked: tuple[Scored, ...], last: Round
) -> ScheduleResult:
    selected = {pick.cluster for pick in picked}
    drops = (binding for binding in _by_cluster(holdings.obsolete) if binding.cluster not in selected)
    return ScheduleResult(
        request,
        fleet,
        now,
        holdings,
        picked=picked,
        kept=_by_cluster(holdings.taken),
        dropped=(*_by_cluster(holdings.dangling), *drops),
        last=last,
    )


def _by_cluster(bindings: Iterable[Binding]) -> tuple[Binding, ...]:
    return tuple(sorted(bindings, key=lambda binding: binding.cluster))
