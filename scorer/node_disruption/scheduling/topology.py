"""Topology: pod counts by domain, and the rules of pod affinity and topology spread that use them.

A domain consists of all nodes with the same value of a label. Counts by domain are computed on first use and updated
incrementally.

Source: Kubernetes v1.36 ``pkg/scheduler/framework/plugins``: interpodaffinity, podtopologyspread. For plans:
docs/specifications/nodepool-disruption.md 6.5; Karpenter v1.15.0
``pkg/controllers/provisioning/scheduling/topologygroup.go``.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import Final

import numpy as np

from scorer.api.node_pool import HOSTNAME
from scorer.columns import ABSENT, BoolColumn, DictionaryColumn, IntColumn
from scorer.node_disruption.cluster.constraints import PodShape, Spread
from scorer.node_disruption.cluster.pod import Pod
from scorer.node_disruption.cluster.requirements import Allowed, add, compatible, one_of
from scorer.node_disruption.instance_types.new_domains import NewDomains
from scorer.node_disruption.instance_types.new_node import NewNode, wishes
from scorer.node_disruption.scheduling.occupancy import Occupancy
from scorer.node_disruption.scheduling.pod_counts import PodCounts, SelectedPods
from scorer.node_disruption.scheduling.static_filters import NodeRows

NO_SPREAD_KEY: Final = "node(s) didn't match pod topology spread constraints (missing required label)"
SPREAD: Final = "node(s) didn't match pod topology spread constraints"
NO_AFFINITY: Final = "node(s) didn't match pod affinity rules"
ANTI_AFFINITY: Final = "node(s) didn't match pod anti-affinity rules"
KEPT_AWAY: Final = "node(s) didn't satisfy existing pods anti-affinity rules"

_FEW: Final = 24
"""Maximum number of changed nodes that are updated in a loop. For more nodes, numpy over all of them is faster."""


@dataclass(frozen=True, slots=True)
class Terms:
    """Counters of the terms of a shape.

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
        """Return the counters for the terms of *shape*."""
        return cls(
            affinity=counts.number(SelectedPods.by_terms(shape.affinity)) if shape.affinity else ABSENT,
            anti_affinity=tuple(counts.number(SelectedPods.by_terms((term,))) for term in shape.anti_affinity),
            spreads=tuple(counts.number(SelectedPods.to_spread(spread, shape.namespace)) for spread in shape.spreads),
        )


@dataclass(frozen=True, slots=True)
class PresentNodes:
    """Nodes that are present, as columns in the order of the rows.

    Args:
        present: Nodes whose domains exist.
        counted: Nodes whose pods count. A draining node is counted, not present.
    """

    present: BoolColumn
    counted: BoolColumn

    def without(self, present: BoolColumn, counted_nodes: BoolColumn) -> "PresentNodes":
        """Return the intersection with *present* and *counted_nodes*."""
        return PresentNodes(self.present & present, self.counted & counted_nodes)


class DomainCounts:
    """Number of pods in each domain of one label.

    Args:
        pods: Number on each node.
        labels: Domain of each node.
        included_nodes: Nodes whose pods count.
        present: Nodes whose domains exist. A draining node is not present, although its pods may count.
    """

    __slots__ = ("_included", "_labels", "_new", "_nodes", "_pods", "_possible", "_present", "counts", "domains")

    def __init__(
        self, pods: IntColumn, labels: DictionaryColumn[str], included_nodes: BoolColumn, present: BoolColumn
    ) -> None:
        self._labels, self._included, self._present, self._pods = labels, included_nodes, present, pods
        rows = np.flatnonzero(pods)
        rows = rows[included_nodes[rows]]
        size = len(labels.values) + 1
        self.counts: IntColumn = np.bincount(labels.codes[rows], pods[rows], size).astype(np.int64)
        """Count by code of the domain. The last entry, for nodes without the label, is always 0."""
        self._nodes = np.bincount(labels.codes[included_nodes & present], minlength=size)
        self.domains: BoolColumn = self._nodes > 0
        self._new: dict[str, int] = {}
        self._possible: set[str] = set()

    def following(
        self, pods: IntColumn, included_nodes: BoolColumn, present: BoolColumn, rows: Iterable[int]
    ) -> "DomainCounts":
        """Return the counts of a state that differs in a few nodes. This object must be unchanged since its creation.

        Args:
            pods: Present number on each node.
            included_nodes: Nodes whose pods still count.
            present: Nodes that still exist.
            rows: All nodes that differ.
        """
        counts = DomainCounts.__new__(DomainCounts)
        counts._labels, counts._pods, counts._present = self._labels, pods, present
        counts._included = self._included & included_nodes
        counts._new, counts._possible = {}, set()
        counts.counts, counts._nodes = self.counts.copy(), self._nodes.copy()
        for row in rows:
            if self._included[row]:
                code = self._labels.codes[row]
                counts.counts[code] += (pods[row] if included_nodes[row] else 0) - self._pods[row]
                counts._nodes[code] -= self._present[row] and not present[row]
        counts.domains = counts._nodes > 0
        return counts

    def change(self, row: int, sign: int) -> None:
        """Change the count of a node by *sign*."""
        if self._included[row]:
            self.counts[self._labels.codes[row]] += sign

    def record(self, domains: Collection[str]) -> None:
        """Count one more pod on a new node that will be in one of *domains*."""
        if len(domains) != 1:
            self._possible.update(domains)
            return
        (domain,) = domains
        if (code := self._labels.index.get(domain)) is None:
            self._new[domain] = self._new.get(domain, 0) + 1
        else:
            self.counts[code] += 1

    def at(self, by_domain: BoolColumn) -> BoolColumn:
        """Map values by domain to the nodes."""
        values: BoolColumn = by_domain[self._labels.codes]
        return values

    @property
    def free(self) -> BoolColumn:
        """Domains without present or possible pods, by code."""
        free: BoolColumn = self.counts == 0
        for domain in self._possible:
            if (code := self._labels.index.get(domain)) is not None:
                free[code] = False
        return free

    def count(self, domain: str) -> int:
        """Return the number of pods in a domain."""
        code = self._labels.index.get(domain)
        return self._new.get(domain, 0) if code is None else int(self.counts[code])

    def is_free(self, domain: str) -> bool:
        """Return whether a domain has no pods and cannot get any from new nodes."""
        return domain not in self._possible and not self.count(domain)

    def known(self, expected: Iterable[str] = ()) -> dict[str, int]:
        """Return the number of pods in each domain that has nodes or pods, or is one of *expected*."""
        codes = np.flatnonzero(self.domains | (self.counts > 0)).tolist()
        counts = {self._labels.values[code]: int(self.counts[code]) for code in codes}
        return {**{domain: self.count(domain) for domain in expected}, **self._new, **counts}

    @property
    def is_empty(self) -> bool:
        """Whether there are no pods in any domain."""
        return not self._new and not self.counts.any()


class Domains:
    """Counts by domain for one state of the pods.

    Args:
        rows: The nodes.
        nodes: Masks of the nodes that are present, and of those whose pods count.
        occupancy: Resources and pods on them.
        terms: Shapes with the counters of their terms, by id of the shape. Shared by all states of one cluster.
        base: Counts for an immutable state of the same nodes. None: unset.
        changed: Rows that differ from *base*.
    """

    def __init__(
        self,
        rows: NodeRows,
        nodes: PresentNodes,
        occupancy: Occupancy,
        terms: dict[int, tuple[PodShape, Terms]],
        base: "Domains | None" = None,
        changed: Iterable[int] = (),
    ) -> None:
        self._rows = rows
        self._nodes = nodes
        self._occupancy = occupancy
        self._counts = occupancy.counts
        self._tallies: dict[tuple[int, str], DomainCounts] = {}
        self._spread_tallies: dict[tuple[int, int], DomainCounts] = {}
        self._by_number: dict[int, list[DomainCounts]] = {}
        self.terms = terms
        self.base = base
        self.changed = set(changed)

    def change(self, numbers: tuple[int, ...], row: int, sign: int) -> None:
        """Update counters for a change on a node."""
        self.changed.add(row)
        for number in numbers:
            for tally in self._by_number.get(number, ()):
                tally.change(row, sign)

    @property
    def is_near_base(self) -> bool:
        """Whether so few nodes differ from the base that an incremental update is cheaper than a full one."""
        return len(self.changed) <= _FEW

    def matter(self, pod: Pod) -> bool:
        """Return whether affinity or spread constrain *pod*."""
        shape = pod.shape
        return bool(shape.spreads or shape.affinity or shape.anti_affinity or self._repelled_counters(pod))

    def spread(self, pod: Pod, new: NewDomains | None = None) -> Iterator[tuple[str, BoolColumn]]:
        """Yield two masks per constraint: nodes with its label, and nodes where *pod* keeps the skew within bounds.

        Args:
            pod: Pod to place.
            new: Domains that new nodes could open, for the provisioner. Unset for the scheduler.
        """
        for index, spread in enumerate(pod.shape.spreads):
            yield NO_SPREAD_KEY, self._rows.with_keys((spread.topology_key,))
            yield SPREAD, self._evenly_spread(pod, index, new)

    def affine(self, pod: Pod) -> BoolColumn | None:
        """Return the nodes whose domains have the pods to which *pod* has affinity. None: unlimited.

        The first pod of a group with affinity to itself fits on every node with the labels.
        """
        shape = pod.shape
        if not shape.affinity:
            return None
        number = self._terms_of(shape).affinity
        tallies = [self._tally(number, term.topology_key) for term in shape.affinity]
        if self._is_first(pod, number, tallies):
            return self._rows.with_keys(term.topology_key for term in shape.affinity)
        mask = tallies[0].at(tallies[0].counts > 0)
        for tally in tallies[1:]:
            mask &= tally.at(tally.counts > 0)
        return mask

    def apart(self, pod: Pod) -> BoolColumn | None:
        """Return the nodes whose domains have no pod to which *pod* has anti-affinity. None: unlimited."""
        return self._free_of(self._repelling_counters(pod.shape)) if pod.shape.anti_affinity else None

    def welcome(self, pod: Pod) -> BoolColumn | None:
        """Return the nodes whose domains have no pod with anti-affinity to *pod*. None: unlimited."""
        counters = self._repelled_counters(pod)
        return self._free_of((number, self._counts.topology_key(number)) for number in counters) if counters else None

    def choices(
        self, pod: Pod, node: NewNode, requirements: Mapping[str, Allowed], new: NewDomains
    ) -> Iterator[dict[str, Allowed]]:
        """Yield additional requirements under which affinity and spread allow *pod* on a new node.

        Each constraint chooses independently, as in Karpenter. A spread constraint takes the domain with the fewest
        pods, an anti-affinity every free domain. Only ties leave a choice.

        Args:
            pod: Pod to place.
            node: The new node, with its name.
            requirements: Requirements of the node with the pod.
            new: Domains that new nodes could open.
        """
        rules = list(self._rules(pod, node, requirements, new))
        for choice in product(*(options for _, options in rules)):
            new_requirements: dict[str, Allowed] = {}
            for (key, _), option in zip(rules, choice, strict=True):
                if option is not None:
                    add(new_requirements, key, option)
            if not any(allowed.is_nothing for allowed in new_requirements.values()):
                yield new_requirements

    def follow(self, pods: Iterable[Pod]) -> None:
        """Count pods on new nodes for the constraints of *pods* from now on."""
        for pod in pods:
            for number in self._counts.carried(pod.shape):
                self._tally(number, self._counts.topology_key(number))
            for variant in (*pod.stricter, pod):
                shape = variant.shape
                for index in range(len(shape.spreads)):
                    self._spread_tally(shape, index)
                for term in shape.affinity:
                    self._tally(self._terms_of(shape).affinity, term.topology_key)
                for number, key in self._repelling_counters(shape):
                    self._tally(number, key)

    def record(self, pod: Pod, node: NewNode) -> None:
        """Count a pod on a new node, in the domains that are certain by now. Call `follow` first."""
        for number in (*self._counts.carried(pod.shape), *self._counts.meaning(pod)[0]):
            tallies = [(key, tally) for (counter, key), tally in self._tallies.items() if counter == number]
            tallies += self._spread_with(number, node)
            for key, tally in tallies:
                tally.record(node.domains(key))

    def _spread_with(self, number: int, node: NewNode) -> Iterator[tuple[str, DomainCounts]]:
        """Yield the tallies of spread constraints that count the pods of a new node, with their topology keys."""
        for (shape_id, index), tally in self._spread_tallies.items():
            shape, terms = self.terms[shape_id]
            spread = shape.spreads[index]
            if terms.spreads[index] == number and counts_on(shape, spread, node):
                yield spread.topology_key, tally

    def _rules(
        self, pod: Pod, node: NewNode, requirements: Mapping[str, Allowed], new: NewDomains
    ) -> Iterator[tuple[str, Sequence[Allowed | None]]]:
        """Yield the topology key of each rule with the requirements that meet it, None if nothing more is required."""
        shape = pod.shape
        for index, spread in enumerate(shape.spreads):
            yield spread.topology_key, self._even_choices(pod, index, node, requirements, new)
        if shape.affinity:
            yield from self._affine_choices(pod, node, requirements, new)
        repelling_keys = ((number, self._counts.topology_key(number)) for number in self._repelled_counters(pod))
        for number, key in (*self._repelling_counters(shape), *repelling_keys):
            tally = self._tally(number, key)
            if key == HOSTNAME:
                yield key, [None] if tally.is_free(node.name) else []
            elif domains := new.of(key):  # otherwise, no new node has the label
                free = filter(tally.is_free, _allowed_domains(requirements, key, (*tally.known(), *domains)))
                yield key, [one_of(*free)]

    def _even_choices(
        self, pod: Pod, index: int, node: NewNode, requirements: Mapping[str, Allowed], new: NewDomains
    ) -> Sequence[Allowed | None]:
        spread, tally = pod.shape.spreads[index], self._spread_tally(pod.shape, index)
        most = spread.max_skew - _selects_own(spread, pod)
        if spread.topology_key == HOSTNAME:
            return [None] if tally.count(node.name) <= most else []
        counts = tally.known(new.expected(pod.shape, spread))
        domains = _allowed_domains(requirements, spread.topology_key, counts)
        fewest = min((counts[domain] for domain in domains), default=0)
        if fewest > most + _fewest(spread, tally, new.expected(pod.shape, spread)):
            return []
        return [one_of(domain) for domain in domains if counts[domain] == fewest]

    def _affine_choices(
        self, pod: Pod, node: NewNode, requirements: Mapping[str, Allowed], new: NewDomains
    ) -> Iterator[tuple[str, Sequence[Allowed | None]]]:
        number, keys = self._terms_of(pod.shape).affinity, [term.topology_key for term in pod.shape.affinity]
        tallies = [self._tally(number, key) for key in keys]
        is_first = self._is_first(pod, number, tallies)
        for key, tally in zip(keys, tallies, strict=True):
            if key == HOSTNAME:
                yield key, [None] if is_first or tally.count(node.name) else []
                continue
            domains = _allowed_domains(requirements, key, (*tally.known(), *new.of(key)))
            if is_first:
                yield key, [one_of(domain) for domain in domains]
            else:
                yield key, [one_of(*filter(tally.count, domains))]

    def _is_first(self, pod: Pod, number: int, tallies: Iterable[DomainCounts]) -> bool:
        """Return whether *pod* is the first of a group with affinity to itself."""
        return self._counts.matches(number, pod) and all(tally.is_empty for tally in tallies)

    def _repelling_counters(self, shape: PodShape) -> Iterable[tuple[int, str]]:
        """Return the counters of the anti-affinity terms of a shape, with their topology keys."""
        return zip(
            self._terms_of(shape).anti_affinity, (term.topology_key for term in shape.anti_affinity), strict=True
        )

    def _repelled_counters(self, pod: Pod) -> tuple[int, ...]:
        return self._counts.meaning(pod)[1] if self._counts.some_carry else ()

    def _free_of(self, pairs: Iterable[tuple[int, str]]) -> BoolColumn:
        mask = np.ones(len(self._rows), dtype=np.bool_)
        for number, key in pairs:
            tally = self._tally(number, key)
            mask &= tally.at(tally.free)
        return mask

    def _evenly_spread(self, pod: Pod, index: int, new: NewDomains | None) -> BoolColumn:
        spread, tally = pod.shape.spreads[index], self._spread_tally(pod.shape, index)
        if new is None:
            counts = tally.counts[tally.domains]
            fewest = 0 if counts.size < spread.min_domains else int(counts.min())
        else:
            fewest = _fewest(spread, tally, new.expected(pod.shape, spread))
        return tally.at(tally.counts <= spread.max_skew + fewest - _selects_own(spread, pod))

    def _terms_of(self, shape: PodShape) -> Terms:
        if (terms := self.terms.get(id(shape))) is None:  # keeps the shape alive: its id is not reused
            terms = self.terms[id(shape)] = shape, Terms.of(shape, self._counts)
        return terms[1]

    def _tally(self, number: int, key: str) -> DomainCounts:
        if (tally := self._tallies.get((number, key))) is None:
            if self.base is not None and self.is_near_base:
                tally = self._follow_tally(self.base._tally(number, key), number)
            else:
                tally = self._make_tally(number, key, self._rows.with_keys((key,)))
            self._tallies[number, key] = tally
        return tally

    def _spread_tally(self, shape: PodShape, index: int) -> DomainCounts:
        if (tally := self._spread_tallies.get((id(shape), index))) is None:
            number, spread = self._terms_of(shape).spreads[index], shape.spreads[index]
            if self.base is not None and self.is_near_base:
                tally = self._follow_tally(self.base._spread_tally(shape, index), number)
            else:
                tally = self._make_tally(number, spread.topology_key, self._rows.counted(shape, spread))
            self._spread_tallies[id(shape), index] = tally
        return tally

    def _make_tally(self, number: int, key: str, included_nodes: BoolColumn) -> DomainCounts:
        nodes, pods = self._nodes, self._occupancy.number_of(number)
        return self._update_tally(
            DomainCounts(pods, self._rows.label(key), nodes.counted & included_nodes, nodes.present), number
        )

    def _follow_tally(self, tally: DomainCounts, number: int) -> DomainCounts:
        nodes, pods = self._nodes, self._occupancy.number_of(number)
        return self._update_tally(tally.following(pods, nodes.counted, nodes.present, self.changed), number)

    def _update_tally(self, tally: DomainCounts, number: int) -> DomainCounts:
        """Register *tally* for updates when the counter *number* changes, and return it."""
        self._by_number.setdefault(number, []).append(tally)
        return tally


def counts_on(shape: PodShape, spread: Spread, node: NewNode) -> bool:
    """Return whether pods of a new node certainly count for a spread constraint of a shape."""
    if spread.honors_taints and not node.is_tolerated(shape):
        return False
    own = wishes(replace(shape, volume_terms=(), preferred_nodes=None))
    return not spread.honors_affinity or any(compatible(wish, node.requirements, ()) for wish in own)


def _fewest(spread: Spread, tally: DomainCounts, expected: Iterable[str]) -> int:
    """Return the fewest pods of any domain. It is 0 for hosts: a new host is always possible."""
    if spread.topology_key == HOSTNAME:
        return 0
    counts = tally.known(expected)
    return 0 if len(counts) < spread.min_domains else min(counts.values(), default=0)


def _allowed_domains(requirements: Mapping[str, Allowed], key: str, domains: Iterable[str]) -> list[str]:
    """Return the *domains* that *requirements* allow, sorted by name."""
    requirement = requirements.get(key)
    return sorted({domain for domain in domains if requirement is None or requirement.allows(domain)})


def _selects_own(spread: Spread, pod: Pod) -> bool:
    """Return whether a spread constraint counts the pod itself."""
    return spread.selector is not None and spread.selector.matches(pod.labels)
