"""Clusters that a run updates or removes the placement from, according to the scheduling decision.

Source: docs/specifications/staged-updates.md 4.1 to 4.3 and 5.
"""

from collections.abc import Set
from dataclasses import dataclass
from typing import Final

from scorer.api.conditions import TRUE
from scorer.api.meta import JsonObject
from scorer.api.names import NUMBER_OF_CLUSTERS, PLACEMENT_GENERATION, POLICY_INDEX
from scorer.api.placement.binding import BindingState
from scorer.api.placement.placement import PlacementType, StrategyType
from scorer.api.unstructured.documents import (
    annotation,
    current_condition,
    dict_at,
    dicts_at,
    generation_of,
    is_deleting,
    label,
    name_of,
    spec_of,
    text_at,
)
from scorer.api.values.quoting import format_count
from scorer.placement.record import MOST_DECISIONS
from scorer.rollout.snapshots.policies import latest_policy_snapshots
from scorer.staged_update.facts import StagedUpdateFacts
from scorer.staged_update.outcome import NotYetError, RunFailedError, RunFailureCause

_MOST_DIGITS: Final = 10


@dataclass(frozen=True, slots=True)
class Targets:
    """The bindings of a placement, as a run sees them.

    Args:
        policy_index: Index of the latest policy snapshot.
        fixed_count: Number of clusters in the policy. None: unlimited, all matching ones.
        selected: Bindings to update, by cluster.
        removed: Bindings to delete, by cluster.
        awaited: Clusters to update whose binding does not exist yet or is being deleted, with the reason.
    """

    policy_index: str
    fixed_count: int | None
    selected: dict[str, JsonObject]
    removed: dict[str, JsonObject]
    awaited: dict[str, str]

    @property
    def clusters(self) -> Set[str]:
        """The clusters to update."""
        return self.selected.keys() | self.awaited.keys()

    @property
    def count(self) -> int:
        """Number of clusters that the run expects."""
        return len(self.clusters) if self.fixed_count is None else self.fixed_count


def external_placement(facts: StagedUpdateFacts, name: str) -> JsonObject:
    """Return the placement of a run.

    Raises:
        RunFailedError: The placement does not exist or is being deleted, or its strategy is not External.
    """
    placement = facts.placement
    if placement is None or is_deleting(placement):
        raise RunFailedError(
            RunFailureCause.PLACEMENT_NOT_FOUND, f"placement {name} does not exist or is being deleted"
        )
    kind = text_at(placement, "spec", "strategy", "type") or StrategyType.ROLLING_UPDATE
    if kind != StrategyType.EXTERNAL:
        message = f"the strategy of placement {name} is {kind}, must be External for a run"
        raise RunFailedError(RunFailureCause.PLACEMENT_NOT_EXTERNAL, message)
    return placement


def find_targets(facts: StagedUpdateFacts, placement: JsonObject, *, fresh: bool, expected: bool = True) -> Targets:
    """Return the bindings that the run of a placement updates and removes.

    A binding may be deleting for as long as its member is offline. It blocks only its own cluster (DR-9).

    Args:
        facts: State of the hub.
        placement: Placement of the run.
        fresh: Require that the scheduler has processed the current generation of the placement. True for a new run. A
            run in progress continues with its plan.
        expected: Require bindings. False for a run that only removes the placement: it succeeds without bindings
            (DR-6).

    Raises:
        RunFailedError: The policy snapshot is invalid or not fully scheduled, the placement is on no cluster, or not as
            many clusters are selected as the policy requests.
        NotYetError: The scheduler has not finished.
    """
    snapshot = _policy_snapshot(facts, placement, fresh=fresh)
    latest = name_of(snapshot)
    selected: dict[str, JsonObject] = {}
    removals: dict[str, JsonObject] = {}
    awaited_reasons: dict[str, str] = {}
    picked = _picked_clusters(snapshot)
    for binding in sorted(facts.bindings, key=name_of):
        spec = spec_of(binding)
        cluster, state = str(spec.get("targetCluster") or ""), spec.get("state")
        if state == BindingState.UNSCHEDULED:
            removals[cluster] = binding
        elif is_deleting(binding):
            if not picked or cluster in picked:
                awaited_reasons[cluster] = f"binding {name_of(binding)} of cluster {cluster} is being deleted"
        elif spec.get("schedulingPolicySnapshotName") != latest:
            raise NotYetError(f"binding {name_of(binding)} of cluster {cluster} has not been scheduled by {latest} yet")
        else:
            selected[cluster] = binding
    for cluster in sorted(picked.difference(selected, removals, awaited_reasons)):
        awaited_reasons[cluster] = f"the binding of cluster {cluster} is about to be created"
        if fresh:
            raise NotYetError(awaited_reasons[cluster])
    targets = Targets(label(snapshot, POLICY_INDEX), _fixed_count(snapshot), selected, removals, awaited_reasons)
    if not targets.clusters and not removals and (fresh or expected):
        raise RunFailedError(
            RunFailureCause.NO_BINDINGS, "the placement is not on any cluster, and no cluster has been picked"
        )
    if targets.fixed_count not in (None, len(targets.clusters)):
        requested_count = format_count(targets.fixed_count or 0, "cluster")
        message = f"the policy requests {requested_count}, but the scheduler has picked {len(targets.clusters)}"
        raise RunFailedError(RunFailureCause.BINDING_COUNT_MISMATCH, message)
    return targets


def _picked_clusters(snapshot: JsonObject) -> set[str]:
    """Return the clusters that the scheduler has picked, or none if the policy snapshot may not record all of them."""
    decisions = dicts_at(snapshot, "status", "targetClusters")
    picked = {text_at(decision, "clusterName") for decision in decisions if decision.get("selected") is True}
    return picked if len(picked) < MOST_DECISIONS else set()


def _policy_snapshot(facts: StagedUpdateFacts, placement: JsonObject, *, fresh: bool) -> JsonObject:
    """Return the latest policy snapshot, if it is fully scheduled.

    Raises:
        RunFailedError: The snapshot is ambiguous, has no valid index, or is not fully scheduled.
        NotYetError: *fresh*, and the scheduler has not processed the snapshot yet.
    """
    snapshots = latest_policy_snapshots(facts.policy_snapshots)
    if not snapshots and fresh:
        raise NotYetError("the placement has no policy snapshot yet")
    if len(snapshots) != 1:
        message = f"{len(snapshots)} policy snapshots of the placement are labeled latest, exactly one is needed"
        raise RunFailedError(RunFailureCause.POLICY_SNAPSHOT_INVALID, message)
    snapshot = snapshots[0]
    if not label(snapshot, POLICY_INDEX).isdecimal():
        message = f"policy snapshot {name_of(snapshot)} has no index: label {POLICY_INDEX}"
        raise RunFailedError(RunFailureCause.POLICY_SNAPSHOT_INVALID, message)
    scheduled = current_condition(snapshot, "Scheduled") or {}
    if fresh and (not scheduled or not _is_processed(snapshot, placement)):
        raise NotYetError(f"policy snapshot {name_of(snapshot)} has not been scheduled yet")
    if scheduled.get("status") != TRUE:
        wait_message = str(scheduled.get("message") or "the scheduler has not decided")
        message = f"policy snapshot {name_of(snapshot)} is not fully scheduled: {wait_message[:200]}"
        raise RunFailedError(RunFailureCause.POLICY_NOT_SCHEDULED, message)
    return snapshot


def _is_processed(snapshot: JsonObject, placement: JsonObject) -> bool:
    """Return whether the scheduler has processed the current generation of the placement. True if unreported."""
    recorded_generation, observed_generation = (
        annotation(snapshot, PLACEMENT_GENERATION),
        dict_at(snapshot, "status").get("observedCRPGeneration"),
    )
    if not recorded_generation or observed_generation is None:
        return True
    return recorded_generation == str(generation_of(placement)) == str(observed_generation)


def _fixed_count(snapshot: JsonObject) -> int | None:
    policy = dict_at(snapshot, "spec", "policy")
    match policy.get("placementType") or PlacementType.PICK_ALL:
        case PlacementType.PICK_N:
            text = annotation(snapshot, NUMBER_OF_CLUSTERS)
            if not (text.isascii() and text.isdecimal() and len(text) <= _MOST_DIGITS):
                message = (
                    f"policy snapshot {name_of(snapshot)} has no valid annotation {NUMBER_OF_CLUSTERS}: {text[:64]!r}"
                )
                raise RunFailedError(RunFailureCause.POLICY_SNAPSHOT_INVALID, message)
            return int(text)
        case PlacementType.PICK_FIXED:
            return len(policy.get("clusterNames") or ())
        case _:
            return None
