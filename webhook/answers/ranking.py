"""The answer to a ranking question as lazy sequences over the engine's columns: items are built on access.

The cost of a page of a long answer depends on the page, not on the fleet.
"""

from collections.abc import Sequence
from typing import overload

import numpy as np

from scorer.columns import BoolColumn, RowColumn
from scorer.framework.status import FilterRejection
from scorer.placement.schedule import ScheduleResult, Scored
from webhook.answers.questions import Eligible, RejectedCandidate


class RankedClusters(Sequence[Eligible]):
    """The clusters that pass every filter, best first: those that a run picked, then its losers.

    Args:
        run: The decision.
        selected: Names of the clusters that have the placement, or would get it.
        mask: Shape (clusters,): the clusters that the question is about. None: unlimited.
    """

    def __init__(self, run: ScheduleResult, selected: frozenset[str], mask: BoolColumn | None) -> None:
        self._run = run
        self._selected = selected
        picks = enumerate(run.picked, start=1)
        self._picked = [(rank, pick) for rank, pick in picks if mask is None or _is_in(mask, run, pick)]
        self._count = 0 if run.last is None else run.last.candidates.rows.size - run.last.picked
        self._loser_places: tuple[RowColumn, RowColumn] | None = None
        """The losers that the question is about, best first, with their positions among all losers. None: unlimited."""
        if mask is not None and run.last is not None:
            losers = run.last.losing()
            places = np.flatnonzero(mask[run.last.candidates.rows[losers]])
            self._loser_places, self._count = (losers[places], places), places.size

    def __len__(self) -> int:
        return len(self._picked) + self._count

    @overload
    def __getitem__(self, index: int) -> Eligible: ...

    @overload
    def __getitem__(self, index: slice) -> list[Eligible]: ...

    def __getitem__(self, index: int | slice) -> Eligible | list[Eligible]:
        if isinstance(index, slice):
            start, stop, step = index.indices(len(self))
            return self._between(start, stop)[::step] if step > 0 else [self[at] for at in range(start, stop, step)]
        at = range(len(self))[index]
        return self._between(at, at + 1)[0]

    def _between(self, start: int, stop: int) -> list[Eligible]:
        count = len(self._picked)
        candidates = self._picked[start:stop]
        if self._run.last is not None and stop > count:
            first, end = max(0, start - count), min(stop - count, self._count)
            if self._loser_places is None:
                # Rank only as far as the page reaches: ranking a large fleet completely takes longer than judging it.
                losers, places = self._run.last.losing(end)[first:], np.arange(first, end)
            else:
                losers, places = (column[first:end] for column in self._loser_places)
            ranks = (len(self._run.picked) + 1 + places).tolist()
            candidates = [*candidates, *zip(ranks, self._run.last.scored(losers), strict=True)]
        return [
            Eligible(
                candidate.cluster, rank, candidate.cluster in self._selected, candidate.topology, candidate.affinity
            )
            for rank, candidate in candidates
        ]

    @property
    def affinities(self) -> tuple[int, int]:
        """The smallest and the largest affinity score, 0 and 0 without clusters."""
        affinities = [pick.affinity for _, pick in self._picked]
        if self._run.last is not None and self._count:
            column = self._run.last.candidates.affinity
            if column is None:
                scores = np.zeros(1, dtype=np.int64)
            elif self._loser_places is None:
                scores = column  # includes the picks of this round, which are counted above as well
            else:
                scores = column[self._loser_places[0]]
            affinities += [int(scores.min()), int(scores.max())]
        return min(affinities, default=0), max(affinities, default=0)


class RejectedClusters(Sequence[RejectedCandidate]):
    """The clusters that a filter rejects, by name.

    Args:
        run: The decision.
        mask: Shape (clusters,): the clusters that the question is about. None: unlimited.
    """

    def __init__(self, run: ScheduleResult, mask: BoolColumn | None) -> None:
        self._run = run
        rows = np.arange(0) if run.last is None else run.last.rejected_rows()
        self._rows = rows if mask is None else rows[mask[rows]]
        misses = sorted(run.missed, key=lambda entry: entry[0])
        self._missed = [
            (name, reason)
            for name, reason in misses
            if mask is None or ((row := run.fleet.row(name)) is not None and mask[row])
        ]

    def __len__(self) -> int:
        return len(self._missed) + self._rows.size

    @overload
    def __getitem__(self, index: int) -> RejectedCandidate: ...

    @overload
    def __getitem__(self, index: slice) -> list[RejectedCandidate]: ...

    def __getitem__(self, index: int | slice) -> RejectedCandidate | list[RejectedCandidate]:
        if isinstance(index, slice):
            return [self[at] for at in range(*index.indices(len(self)))]
        at = range(len(self))[index]
        if at < len(self._missed):
            return _rejected(*self._missed[at])
        assert self._run.last is not None
        row = int(self._rows[at - len(self._missed)])
        reason = self._run.last.reject(row)
        assert reason is not None
        return _rejected(self._run.fleet.names[row], reason)


def affinity_range(eligible: Sequence[Eligible]) -> tuple[int, int]:
    """Return the smallest and the largest affinity score of *eligible*, 0 and 0 if it is empty."""
    if isinstance(eligible, RankedClusters):
        return eligible.affinities
    scores = [item.affinity for item in eligible]
    return min(scores, default=0), max(scores, default=0)


def _is_in(mask: BoolColumn, run: ScheduleResult, pick: Scored) -> bool:
    row = run.fleet.row(pick.cluster)
    return row is not None and bool(mask[row])


def _rejected(name: str, rejection: FilterRejection) -> RejectedCandidate:
    return RejectedCandidate(
        name, rejection.plugin, str(rejection.category), rejection.message, _is_resolvable(rejection)
    )


def _is_resolvable(rejection: FilterRejection) -> bool:
    """Return whether freeing capacity on the cluster could resolve a rejection.

    Freed capacity changes only the properties of available capacity.
    """
    return "resources.kubernetes-fleet.io/available-" in rejection.message
