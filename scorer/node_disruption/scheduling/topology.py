"""Topology: counts of pods by domain, and the rules of pod affinity and topology spread that use them.

A domain is the nodes that have the same value of a label. Counts by domain are made when they are first asked for, and
kept up as pods come and go.

Source: Kubernetes v1.36 ``pkg/scheduler/framework/plugins``: interpodaffinity, podtopologyspread.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np

from scorer.api.node_pool import HOSTNAME
from scorer.columns import ABSENT, BoolColumn, CodeColumn, IntColumn
from scorer.node_disruption.cluster.constraints import PodShape, Spread
from scorer.node_disruption.cluster.pod import Pod
from scorer.node_disruption.scheduling.occupancy import Occupancy
from scorer.node_disruption.scheduling.pod_counts import PodCounts, SelectedPods
from scorer.node_disruption.scheduling.static_filters import NodeRows

NO_SPREAD_KEY: Final = "node(s) didn't match pod topology spread constraints (missing required label)"
SPREAD: Final = "node(s) didn't match pod topology spread constraints"
NO_AFFINITY: Final = "node(s) didn't match pod affinity rules"
ANTI_AFFINITY: Final = "node(s) didn't match pod anti-affinity rules"
KEPT_AWAY: Final = "node(s) didn't satisfy existing pods anti-affinity rules"

_FEW: Final = 24
"""A node goes with its pods to so many others; beyond it, numpy is faster with all nodes than a loop with some."""


@dataclass(frozen=True, slots=True)
class Terms:
    """The numbers of what the terms of a shape count.

    Args:
        affinity: Pods that match all terms of affinity.
        anti_affinity: Pods that match each term of anti-affinity.
        spreads: Pods that each constraint spreads.
    """

    affinity: int
    anti_affinity: tuple[int, ...]
    spreads: tuple[int, ...]

    @classmethod
    def of(cls, shape: PodShape, counts: PodCounts) -> "Terms":
        """Number what *shape* asks for."""
        return cls(
            affinity=counts.number(SelectedPods.by_terms(shape.affinity)) if shape.affinity else ABSENT,
            anti_affinity=tuple(counts.number(SelectedPods.by_terms((term,))) for term in shape.anti_affinity),
            spreads=tuple(counts.number(SelectedPods.to_spread(spread, shape.namespace)) for spread in shape.spreads),
        )


class DomainCounts:
    """How many pods there are in each domain of one label.

    Args:
        pods: On each node.
        codes: Domain of each node.
        values: How many domains there are.
        included: Nodes that count.
    """

    __slots__ = ("_codes", "_included", "_nodes", "_pods", "counts", "domains")

    def __init__(self, pods: IntColumn, codes: CodeColumn, values: int, included: BoolColumn) -> None:
        self._codes, self._included, self._pods = codes, included, pods
        rows = np.flatnonzero(pods)
        rows = rows[included[rows]]
        self.counts: IntColumn = np.bincount(codes[rows], pods[rows], values + 1).astype(np.int64)
        """By code of the domain; one more entry, which stays 0, is for nodes without the label."""
        self._nodes = np.bincount(codes[included], minlength=values + 1)
        self.domains: BoolColumn = self._nodes > 0

    def following(self, pods: IntColumn, present: BoolColumn, rows: Iterable[int]) -> "DomainCounts":
        """Return the tally of a state that differs in a few nodes; this one must not have been changed.

        Args:
            pods: On each node now.
            present: Nodes that are still there.
            rows: Of all nodes that differ.
        """
        counts = DomainCounts.__new__(DomainCounts)
        counts._codes, counts._pods = self._codes, pods
        counts._included = self._included & present
        counts.counts, counts._nodes = self.counts.copy(), self._nodes.copy()
        for row in rows:
            if self._included[row]:
                code, stays = self._codes[row], counts._included[row]
                counts.counts[code] += (pods[row] if stays else 0) - self._pods[row]
                counts._nodes[code] -= not stays
        counts.domains = counts._nodes > 0
        return counts

    def change(self, row: int, sign: int) -> None:
        """Count one more pod on a node, or one less."""
        if self._included[row]:
            self.counts[self._codes[row]] += sign

    def at(self, by_domain: BoolColumn) -> BoolColumn:
        """Return what holds for the domain of each node."""
        values: BoolColumn = by_domain[self._codes]
        return values


class Domains:
    """Counts by domain for one state of the pods.

    Args:
        rows: The nodes.
        present: Those that are there.
        occupancy: What runs on them.
        terms: Shapes with the numbers of their terms, by id of the shape; states of one cluster share them.
        base: Of a state of the same nodes that does not change; None: there is none.
        changed: Rows that differ from that.
    """

    def __init__(
        self,
        rows: NodeRows,
        present: BoolColumn,
        occupancy: Occupancy,
        terms: dict[int, tuple[PodShape, Terms]],
        base: "Domains | None" = None,
        changed: Iterable[int] = (),
    ) -> None:
        self._rows = rows
        self._present = present
        self._occupancy = occupancy
        self._counts = occupancy.counts
        self._tallies: dict[tuple[int, str], DomainCounts] = {}
        self._spread_tallies: dict[tuple[int, int], DomainCounts] = {}
        self._by_number: dict[int, list[DomainCounts]] = {}
        self.terms = terms
        self.base = base
        self.changed = set(changed)

    def change(self, numbers: tuple[int, ...], row: int, sign: int) -> None:
        """Follow the change of a count on a node."""
        self.changed.add(row)
        for number in numbers:
            for tally in self._by_number.get(number, ()):
                tally.change(row, sign)

    @property
    def is_near_base(self) -> bool:
        """Whether so few nodes differ from the base that looking at these is less work than looking at all."""
        return len(self.changed) <= _FEW

    def matter(self, pod: Pod) -> bool:
        """Say whether it depends on more than a node itself whether it could take *pod*."""
        shape = pod.shape
        return bool(shape.spreads or shape.affinity or shape.anti_affinity or self._keeping(pod))

    def keys(self, pod: Pod) -> frozenset[str]:
        """Return the labels of nodes that make a difference for *pod*, given what runs now."""
        shape = pod.shape
        own = (term.topology_key for term in (*shape.affinity, *shape.anti_affinity))
        pairs = ((number, self._counts.topology_key(number)) for number in self._keeping(pod))
        remaining = (key for number, key in pairs if self._tally(number, key).counts.any())
        return frozenset((*own, *remaining, *(spread.topology_key for spread in shape.spreads)))

    def spread(self, pod: Pod) -> Iterator[tuple[str, BoolColumn]]:
        """Yield, constraint by constraint, which nodes have its label, and where *pod* does not make it too uneven."""
        for index, spread in enumerate(pod.shape.spreads):
            yield NO_SPREAD_KEY, self._rows.with_keys((spread.topology_key,))
            yield SPREAD, self._evened(pod, index)

    def affine(self, pod: Pod) -> BoolColumn | None:
        """Return the nodes in whose domains are the pods that *pod* wants beside it; None: all.

        The first pod of a group that wants itself beside it may go wherever the labels are.
        """
        shape = pod.shape
        if not shape.affinity:
            return None
        number = self._terms_of(shape).affinity
        tallies = [self._tally(number, term.topology_key) for term in shape.affinity]
        if self._counts.matches(number, pod) and not any(tally.counts.any() for tally in tallies):
            return self._rows.with_keys(term.topology_key for term in shape.affinity)
        mask = tallies[0].at(tallies[0].counts > 0)
        for tally in tallies[1:]:
            mask &= tally.at(tally.counts > 0)
        return mask

    def apart(self, pod: Pod) -> BoolColumn | None:
        """Return the nodes in whose domains is no pod that *pod* does not want beside it; None: all."""
        shape = pod.shape
        if not shape.anti_affinity:
            return None
        numbers = self._terms_of(shape).anti_affinity
        pairs = zip(numbers, (term.topology_key for term in shape.anti_affinity), strict=True)
        return self._free_of(pairs)

    def welcome(self, pod: Pod) -> BoolColumn | None:
        """Return the nodes in whose domains is no pod that does not want *pod* beside it; None: all."""
        keeping = self._keeping(pod)
        return self._free_of((number, self._counts.topology_key(number)) for number in keeping) if keeping else None

    def count(self, pod: Pod, key: str, value: str) -> int:
        """Return how many pods there are in a domain of those that *pod* is spread with; 0 where it is not."""
        total = 0
        for index, spread in enumerate(pod.shape.spreads):
            if spread.topology_key == key and (code := self._rows.label(key).index.get(value)) is not None:
                total += int(self._spread_tally(pod.shape, index).counts[code])
        return total

    def is_even(self, pod: Pod, row: int, expected: Mapping[str, Collection[str]]) -> bool:
        """Say whether *pod* on a node leaves room for the domains that new nodes could open.

        Args:
            pod: To be placed.
            row: Of the node.
            expected: Values of labels that new nodes can have; a new host can always be had.
        """
        for index, spread in enumerate(pod.shape.spreads):
            tally, column = self._spread_tally(pod.shape, index), self._rows.label(spread.topology_key)
            present = {column.values[code] for code in np.flatnonzero(tally.domains)}
            domains = present.union(expected.get(spread.topology_key, ()))
            may_open = len(domains) > len(present) or spread.topology_key == HOSTNAME
            fewest = 0 if may_open or len(domains) < spread.min_domains else int(tally.counts[tally.domains].min())
            if tally.counts[column.codes[row]] + _selects_own(spread, pod) > spread.max_skew + fewest:
                return False
        return True

    def _keeping(self, pod: Pod) -> tuple[int, ...]:
        return self._counts.meaning(pod)[1] if self._counts.some_carry else ()

    def _free_of(self, pairs: Iterable[tuple[int, str]]) -> BoolColumn:
        mask = np.ones(len(self._rows), dtype=np.bool_)
        for number, key in pairs:
            tally = self._tally(number, key)
            mask &= tally.at(tally.counts == 0)
        return mask

    def _evened(self, pod: Pod, index: int) -> BoolColumn:
        spread, tally = pod.shape.spreads[index], self._spread_tally(pod.shape, index)
        counts = tally.counts[tally.domains]
        fewest = 0 if counts.size < spread.min_domains else int(counts.min())
        return tally.at(tally.counts <= spread.max_skew + fewest - _selects_own(spread, pod))

    def _terms_of(self, shape: PodShape) -> Terms:
        if (cached := self.terms.get(id(shape))) is None:  # the shape is kept, so that its id stays its own
            cached = self.terms[id(shape)] = shape, Terms.of(shape, self._counts)
        return cached[1]

    def _tally(self, number: int, key: str) -> DomainCounts:
        if (cached := self._tallies.get((number, key))) is None:
            if self.base is not None and self.is_near_base:
                cached = self._following(self.base._tally(number, key), number)
            else:
                cached = self._made(number, key, self._present & self._rows.with_keys((key,)))
            self._tallies[number, key] = cached
        return cached

    def _spread_tally(self, shape: PodShape, index: int) -> DomainCounts:
        if (cached := self._spread_tallies.get((id(shape), index))) is None:
            number, spread = self._terms_of(shape).spreads[index], shape.spreads[index]
            if self.base is not None and self.is_near_base:
                cached = self._following(self.base._spread_tally(shape, index), number)
            else:
                cached = self._made(number, spread.topology_key, self._present & self._rows.counted(shape, spread))
            self._spread_tallies[id(shape), index] = cached
        return cached

    def _made(self, number: int, key: str, included: BoolColumn) -> DomainCounts:
        labels = self._rows.label(key)
        return self._followed(
            DomainCounts(self._occupancy.number_of(number), labels.codes, len(labels.values), included), number
        )

    def _following(self, tally: DomainCounts, number: int) -> DomainCounts:
        return self._followed(tally.following(self._occupancy.number_of(number), self._present, self.changed), number)

    def _followed(self, tally: DomainCounts, number: int) -> DomainCounts:
        """Have a tally be kept up from now on."""
        self._by_number.setdefault(number, []).append(tally)
        return tally


def _selects_own(spread: Spread, pod: Pod) -> bool:
    """Say whether a pod adds to what it is spread with."""
    return spread.selector is not None and spread.selector.matches(pod.labels)
