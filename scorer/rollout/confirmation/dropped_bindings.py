"""Judgment of the bindings that a scheduling decision drops, and the annotations to write on each of them.

Source: docs/specifications/removal.md 7.
"""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import NamedTuple

from scorer.api.conditions import TRUE
from scorer.api.meta import JsonObject, format_time, read_instant
from scorer.api.names import CARRIED_OUT, PREVIOUS_BINDING_STATE, REMOVAL_PENDING, REPLACEMENT, UNSCHEDULED_AT
from scorer.api.placement.binding import BindingState
from scorer.api.placement.placement import StrategyType
from scorer.api.unstructured.documents import (
    annotation,
    current_condition,
    is_deleting,
    name_of,
    text_at,
    uid_of,
    with_metadata,
)
from scorer.rollout.bindings import AVAILABLE, PendingRemoval, pending_reason
from scorer.rollout.confirmation.clusters import (
    ClusterFacts,
    ClusterJudgement,
    DroppedCluster,
    cluster_item,
    clusters_held,
    judge_clusters,
    with_clusters_held,
)
from scorer.rollout.confirmation.digests import CarriedOut, Confirmation
from scorer.rollout.confirmation.policy import RemovalPolicy


class ClusterChanges(NamedTuple):
    """The part of a scheduling decision that removals depend on.

    Args:
        picked: Clusters that are picked for the first time or again.
        new: Those of them without a binding yet.
        held: Names of the bindings that remain or are picked again.
        dropped: Names of the Bound bindings that are dropped, except those of clusters that have left the fleet.
    """

    picked: frozenset[str]
    new: frozenset[str]
    held: Sequence[str]
    dropped: Sequence[str]


@dataclass(frozen=True, slots=True)
class DropFacts:
    """Inputs of the judgment.

    Args:
        placement: The placement.
        policy: Removal policy of the operator.
        snapshot: The latest policy snapshot.
        snapshots: All policy snapshots of the placement.
        is_member: Returns whether a cluster is in the fleet and not leaving.
        now: The current time.
    """

    placement: JsonObject
    policy: RemovalPolicy
    snapshot: JsonObject
    snapshots: Sequence[JsonObject]
    is_member: Callable[[str], bool]
    now: datetime


@dataclass(frozen=True, slots=True)
class DropJudgement:
    """The verdict on the clusters that a decision drops.

    Args:
        marks: Annotations of bindings that are dropped now, by name.
        replacing: Value of the annotation that marks new bindings as replacements. Empty: they replace nothing.
        changed: Bindings dropped before, as they will be written.
        snapshot: The policy snapshot with its record. None if it is unchanged.
        warned: Clusters that the placement leaves with a warning.
        facts: Inputs of the verdict. None if nothing was judged.
    """

    marks: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    replacing: str = ""
    changed: tuple[JsonObject, ...] = ()
    snapshot: JsonObject | None = None
    warned: tuple[str, ...] = ()
    facts: ClusterFacts | None = None

    def released(self, available: Collection[str]) -> frozenset[str]:
        """Return the names of the bindings whose removal is ordered once these clusters are available."""
        if self.facts is None:
            return frozenset()
        replacements = {cluster: cluster in available for cluster in self.facts.replacements}
        return judge_clusters(replace(self.facts, replacements=replacements)).ordered


def judge_drops(facts: DropFacts, changes: ClusterChanges, bindings: Iterable[JsonObject]) -> DropJudgement:
    """Return the verdict on a decision.

    Args:
        facts: The placement and its history.
        changes: The decision.
        bindings: Bindings of the placement: stored and lost ones.
    """
    by_name = {name_of(document): document for document in bindings}
    pending = [
        document
        for document in by_name.values()
        if pending_reason(document) and not is_deleting(document) and _cluster(document) not in changes.picked
    ]
    if not (pending or changes.dropped):
        return DropJudgement()
    if facts.policy.of(facts.placement).is_off:
        return DropJudgement(changed=tuple(_ordered(document, facts.now) for document in pending))
    dropped = [by_name[name] for name in changes.dropped]
    waiting = [document for document in pending if facts.is_member(_cluster(document))]
    left_fleet = [document for document in pending if not facts.is_member(_cluster(document))]
    cluster_facts = _cluster_facts(facts, changes, by_name, dropped, waiting)
    judgement = judge_clusters(cluster_facts)
    by_verdict = [_judged(document, judgement, cluster_facts) for document in waiting]
    changed = [after for before, after in zip(waiting, by_verdict, strict=True) if after is not before]
    return DropJudgement(
        {name_of(binding): _mark(binding, judgement, cluster_facts) for binding in dropped},
        format_time(facts.now) if dropped or waiting else "",
        (*changed, *(_ordered(document, facts.now) for document in left_fleet)),
        with_clusters_held(facts.snapshot, facts.snapshots, judgement, cluster_facts),
        tuple(sorted(_cluster(binding) for binding in (*dropped, *waiting) if name_of(binding) in judgement.warned)),
        cluster_facts,
    )


def _cluster_facts(
    facts: DropFacts,
    changes: ClusterChanges,
    by_name: Mapping[str, JsonObject],
    dropped: Sequence[JsonObject],
    waiting: Sequence[JsonObject],
) -> ClusterFacts:
    now, placement, policy = facts.now, facts.placement, facts.policy.of(facts.placement)
    documents = [by_name[name] for name in changes.held if name in by_name]
    records = [record for binding in waiting if (record := PendingRemoval.of(binding))]
    earliest = min([now.replace(microsecond=0), *(record.since for record in records if record.since)])
    replacing = [binding for binding in documents if _is_replacement(binding, earliest)]
    replacements = {_cluster(binding): _is_available(binding) for binding in replacing}
    replacements |= dict.fromkeys(changes.new, False)
    return ClusterFacts(
        policy,
        uid_of(placement),
        tuple(DroppedCluster(binding, PendingRemoval.of(binding)) for binding in (*dropped, *waiting)),
        frozenset(map(_cluster, documents)) - replacements.keys(),
        replacements,
        clusters_held(facts.snapshots, now, policy.window),
        Confirmation.of(placement, now),
        now,
        text_at(placement, "spec", "strategy", "type") == StrategyType.EXTERNAL,
    )


def _judged(document: JsonObject, judgement: ClusterJudgement, facts: ClusterFacts) -> JsonObject:
    """Return a waiting binding as it will be written. If unchanged, it is *document* itself."""
    mark = _mark(document, judgement, facts)
    if REMOVAL_PENDING not in mark:
        return with_metadata(_ordered(document, facts.now), annotations=mark)
    text = mark[REMOVAL_PENDING]
    return document if annotation(document, REMOVAL_PENDING) == text else with_metadata(document, annotations=mark)


def _mark(document: JsonObject, judgement: ClusterJudgement, facts: ClusterFacts) -> dict[str, str]:
    """Return the annotations of a dropped binding: pending, confirmed, or none."""
    name, expiry = name_of(document), facts.confirmation.expiry
    if (pending := judgement.pending.get(name)) is not None:
        return {REMOVAL_PENDING: pending.format()}
    if name not in judgement.confirmed or expiry is None:
        return {}
    digest = cluster_item(document).digest(facts.placement_uid)
    return {CARRIED_OUT: CarriedOut.of(document).without_expired(facts.now).with_digests([digest], expiry).format()}


def _ordered(document: JsonObject, now: datetime) -> JsonObject:
    order = {PREVIOUS_BINDING_STATE: str(BindingState.BOUND), UNSCHEDULED_AT: format_time(now)}
    return with_metadata(document, annotations={**order, REMOVAL_PENDING: None})


def _cluster(document: JsonObject) -> str:
    return text_at(document, "spec", "targetCluster")


def _is_available(binding: JsonObject) -> bool:
    return (current_condition(binding, AVAILABLE) or {}).get("status") == TRUE


def _is_replacement(binding: JsonObject, earliest: datetime) -> bool:
    """Return whether a binding was created in place of clusters that were dropped at *earliest* or later."""
    since = read_instant(annotation(binding, REPLACEMENT))
    return since is not None and since >= earliest


def seen_of_replacement(binding: JsonObject) -> tuple[bool, str]:
    """Return whether a binding is an available replacement, and its annotation about a pending removal."""
    is_replacement = bool(annotation(binding, REPLACEMENT))
    return is_replacement and _is_available(binding), annotation(binding, REMOVAL_PENDING)
