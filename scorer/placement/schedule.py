"""One scheduling run: which clusters a placement gets, keeps and loses.

A pure function of the policy, the fleet, the bindings and the instant. Everything that explains the
decision is kept as columns and spelled out only when asked for.

Source: scheduling.md 3, 11, 13 to 15.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import datetime

import numpy as np

from scorer.api.placement import PlacementType
from scorer.columns import BoolColumn, IntColumn, RowColumn
from scorer.fleet import Fleet
from scorer.framework.cycle import Cycle
from scorer.framework.status import Category, Rejection
from scorer.placement.holdings import Binding, Holdings, classify, scale_down
from scorer.placement.pick import Ranks, pick_spread
from scorer.placement.request import Request
from scorer.plugins.cluster_eligibility import ineligibility
from scorer.profile import Profile


@dataclass(frozen=True, slots=True)
class Scored:
    """A candidate with its sort keys; ``batch`` counts from 1 (always 1 without spread constraints)."""

    cluster: str
    topology: int = 0
    affinity: int = 0
    bonus: bool = False
    batch: int = 1


@dataclass(frozen=True, slots=True)
class Round:
    """The last batch of a run: who was judged how.

    Args:
        profile: The plugins.
        cycle: What they were asked about; ``placed`` includes the picks of earlier batches.
        passed: Per filter of ``profile.filters``, the clusters that passed it; None: all.
        spread: The clusters that passed the spread constraints; None: all.
        candidates: The clusters that passed everything and are not taken, with their sort keys.
        picked: Positions among the candidates that this batch picked.
        number: Of the batch.
    """

    profile: Profile
    cycle: Cycle
    passed: tuple[BoolColumn | None, ...]
    spread: BoolColumn | None
    candidates: Ranks
    picked: RowColumn
    number: int

    def losers(self, limit: int | None = None) -> list[Scored]:
        """Return the candidates that were not picked, best first."""
        wanted = None if limit is None else limit + self.picked.size
        taken = set(self.picked.tolist())
        order = [position for position in self.candidates.best(wanted).tolist() if position not in taken]
        return [self.scored(position) for position in order[:limit]]

    def scored(self, position: int) -> Scored:
        """Return the candidate at *position* with its sort keys."""
        ranks = self.candidates
        name = self.cycle.fleet.names[int(ranks.rows[position])]
        bonus = bool(ranks.bonus[position])
        return Scored(name, int(ranks.topology[position]), int(ranks.affinity[position]), bonus, self.number)

    def rejected_rows(self) -> RowColumn:
        """Return the clusters that some filter turned away, by name.

        A taken cluster is among them when a filter before SamePlacementAntiAffinity refuses it.
        """
        alive = np.ones(len(self.cycle.fleet), dtype=np.bool_)
        for mask in self.passed:
            if mask is not None:
                alive &= mask
        if self.spread is not None:
            alive &= self.spread | self.cycle.placed
        return np.flatnonzero(~alive)

    def reject(self, row: int) -> Rejection | None:
        """Return why the cluster in *row* was turned away, None when no filter did."""
        for plugin, mask in zip(self.profile.filters, self.passed, strict=True):
            if mask is not None and not mask[row]:
                return plugin.reject(self.cycle, row)
        if self.spread is not None and not self.spread[row] and not self.cycle.placed[row]:
            return self.profile.spread.reject(self.cycle, row)
        return None

    def categories(self) -> dict[Category, int]:
        """Count the clusters that are neither taken nor candidates by why they were turned away."""
        counts: dict[Category, int] = {}
        alive = ~self.cycle.placed
        plugins = (*self.profile.filters, self.profile.spread)
        for plugin, mask in zip(plugins, (*self.passed, self.spread), strict=True):
            if mask is not None and (rejected := alive & ~mask).any():
                counts |= plugin.categories(self.cycle, rejected)
                alive &= mask
        return counts


@dataclass(frozen=True, slots=True)
class Schedule:
    """What a run decided.

    Args:
        request: The policy that was scheduled; None when it cannot be evaluated.
        fleet: What was chosen from.
        now: When.
        holdings: The bindings before.
        picked: New and re-picked clusters, in rank order (PickAll: by name; PickFixed: as listed).
        kept: Bindings that stay.
        dropped: Bindings to be marked Unscheduled, in order: dangling, obsolete, scale down.
        missed: PickFixed: listed clusters that could not be had, ineligible ones first, each as listed.
        last: The last batch; None when no cluster was judged.
        invalid: Why the policy cannot be evaluated, empty when it can.
    """

    request: Request | None
    fleet: Fleet
    now: datetime
    holdings: Holdings
    picked: tuple[Scored, ...] = ()
    kept: tuple[Binding, ...] = ()
    dropped: tuple[Binding, ...] = ()
    missed: tuple[tuple[str, Rejection], ...] = ()
    last: Round | None = None
    invalid: str = ""

    @property
    def found(self) -> int:
        """How many clusters are selected."""
        return len(self.picked) + len(self.kept)

    @property
    def satisfied(self) -> bool:
        """Whether the policy got what it asked for."""
        if self.request is None or self.missed:
            return False
        if self.request.policy.placement_type is not PlacementType.PICK_N:
            return True
        assert self.request.wanted is not None
        return self.found >= self.request.wanted


def schedule(request: Request, fleet: Fleet, bindings: Iterable[Binding], now: datetime) -> Schedule:
    """Decide which clusters the placement gets, keeps and loses."""
    holdings = classify(bindings, fleet)
    match request.policy.placement_type:
        case PlacementType.PICK_FIXED:
            return _pick_fixed(request, fleet, holdings, now)
        case PlacementType.PICK_ALL:
            return _pick_all(request, fleet, holdings, now)
        case _:
            return _pick_n(request, fleet, holdings, now)


def hold(reason: str, fleet: Fleet, bindings: Iterable[Binding], now: datetime) -> Schedule:
    """Decide for a policy that cannot be evaluated: dangling bindings go, nothing else moves (DV-5)."""
    holdings = classify(bindings, fleet)
    kept = _by_cluster((*holdings.taken, *holdings.obsolete))
    return Schedule(None, fleet, now, holdings, kept=kept, dropped=_by_cluster(holdings.dangling), invalid=reason)


def screen(request: Request, fleet: Fleet, holdings: Holdings, now: datetime) -> tuple[Cycle, Round]:
    """Run the filters that do not depend on earlier batches, and the preferences, without picking."""
    cycle = Cycle(fleet, now, request.namespace, holdings.placed(fleet), holdings.stale(fleet))
    profile = request.profile
    passed = tuple(plugin.filter(cycle) for plugin in profile.filters)
    alive = ~cycle.placed
    for mask in passed:
        if mask is not None:
            alive &= mask
    rows = np.flatnonzero(alive)
    points = profile.affinity.score(cycle)
    affinity = np.zeros(rows.size, dtype=np.int64) if points is None else points[rows]
    ranks = Ranks(rows, np.zeros(rows.size, dtype=np.int64), affinity, cycle.obsolete[rows])
    return cycle, Round(profile, cycle, passed, None, ranks, np.empty(0, dtype=np.intp), 1)


def _pick_all(request: Request, fleet: Fleet, holdings: Holdings, now: datetime) -> Schedule:
    _, round_ = screen(request, fleet, holdings, now)
    names = [fleet.names[row] for row in round_.candidates.rows.tolist()]
    picked = tuple(Scored(name) for name in names)
    last = replace(round_, picked=np.arange(len(names)))
    return _finish(request, fleet, holdings, now, picked, last)


def _pick_n(request: Request, fleet: Fleet, holdings: Holdings, now: datetime) -> Schedule:
    assert request.wanted is not None
    needed = request.wanted - len(holdings.taken)
    if needed <= 0:
        surplus = scale_down(holdings.taken, -needed)
        kept = _by_cluster(binding for binding in holdings.taken if binding not in surplus)
        dropped = (*_by_cluster(holdings.dangling), *_by_cluster(holdings.obsolete), *surplus)
        return Schedule(request, fleet, now, holdings, kept=kept, dropped=dropped)
    cycle, round_ = screen(request, fleet, holdings, now)
    if request.profile.spread.constraints:
        picked, last = _pick_in_batches(round_, cycle, needed)
    else:
        positions = round_.candidates.best(needed)
        last = replace(round_, picked=positions)
        picked = tuple(last.scored(position) for position in positions.tolist())
    return _finish(request, fleet, holdings, now, picked, last)


def _pick_in_batches(first: Round, cycle: Cycle, needed: int) -> tuple[tuple[Scored, ...], Round]:
    """Pick one per batch, and rebuild what the last batch saw."""
    spread, ranks = first.profile.spread, first.candidates
    picks, starved = pick_spread(cycle.fleet, spread.constraints, ranks, cycle.placed, needed)
    scored = tuple(
        Scored(
            cycle.fleet.names[int(ranks.rows[pick.position])],
            pick.topology,
            int(ranks.affinity[pick.position]),
            bool(ranks.bonus[pick.position]) and number == 1,
            number,
        )
        for number, pick in enumerate(picks, start=1)
    )
    earlier = picks if starved else picks[:-1]
    number = len(earlier) + 1
    placed = cycle.placed.copy()
    placed[ranks.rows[[pick.position for pick in earlier]]] = True
    obsolete = cycle.obsolete if number == 1 else np.zeros_like(cycle.obsolete)
    seen = Cycle(cycle.fleet, cycle.now, cycle.namespace, placed, obsolete)
    mask, points = spread.filter(seen), spread.score(seen)
    alive = ~placed[ranks.rows] if mask is None else ~placed[ranks.rows] & mask[ranks.rows]
    rows = ranks.rows[alive]
    topology: IntColumn = np.zeros(rows.size, dtype=np.int64) if points is None else points[rows]
    candidates = Ranks(rows, topology, ranks.affinity[alive], obsolete[rows])
    picked = [] if starved else [int(np.searchsorted(rows, ranks.rows[picks[-1].position]))]
    last = Round(first.profile, seen, first.passed, mask, candidates, np.array(picked, dtype=np.intp), number)
    return scored, last


def _pick_fixed(request: Request, fleet: Fleet, holdings: Holdings, now: datetime) -> Schedule:
    taken = {binding.cluster: binding for binding in holdings.taken}
    picked, kept, ineligible, unknown = [], [], [], []
    for name in dict.fromkeys(request.policy.cluster_names):
        row = fleet.row(name)
        if row is None:
            rejection = Rejection("PickFixed", Category.TARGET_NOT_FOUND, "there is no member cluster of this name")
            unknown.append((name, rejection))
        elif name in taken:
            kept.append(taken[name])
        elif rejection := ineligibility(fleet, row, now):
            ineligible.append((name, rejection))
        else:
            picked.append(Scored(name))
    chosen = {pick.cluster for pick in picked}
    listed = set(request.policy.cluster_names)
    unlisted = [binding for binding in holdings.taken if binding.cluster not in listed]
    dropped = [
        *_by_cluster(holdings.dangling),
        *(old for old in _by_cluster(holdings.obsolete) if old.cluster not in chosen),
    ]
    return Schedule(
        request,
        fleet,
        now,
        holdings,
        picked=tuple(picked),
        kept=_by_cluster((*kept, *unlisted)),
        dropped=tuple(dropped),
        missed=(*ineligible, *unknown),
    )


def _finish(
    request: Request, fleet: Fleet, holdings: Holdings, now: datetime, picked: tuple[Scored, ...], last: Round
) -> Schedule:
    chosen = {pick.cluster for pick in picked}
    lost = (binding for binding in _by_cluster(holdings.obsolete) if binding.cluster not in chosen)
    return Schedule(
        request,
        fleet,
        now,
        holdings,
        picked=picked,
        kept=_by_cluster(holdings.taken),
        dropped=(*_by_cluster(holdings.dangling), *lost),
        last=last,
    )


def _by_cluster(bindings: Iterable[Binding]) -> tuple[Binding, ...]:
    return tuple(sorted(bindings, key=lambda binding: binding.cluster))
