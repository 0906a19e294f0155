"""Snapshots of a placement's policy: one index per policy, ignoring ``numberOfClusters``.

Source: docs/specifications/rollout.md 4; docs/specifications/scheduling.md 1; KubeFleet
pkg/controllers/placement/controller.go.
"""

from base64 import b64encode
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from scorer.api.family import family_in
from scorer.api.meta import JsonObject
from scorer.api.names import (
    CLUSTERS_HELD,
    IS_LATEST_SNAPSHOT,
    NUMBER_OF_CLUSTERS,
    PARENT_PLACEMENT,
    PLACEMENT_GENERATION,
    POLICY_INDEX,
)
from scorer.api.placement.placement import PlacementType
from scorer.api.unstructured.documents import (
    annotation,
    generation_of,
    index_of,
    is_deleting,
    is_labelled_latest,
    name_of,
    namespace_of,
    owner_reference,
    spec_of,
    with_metadata,
)
from scorer.rollout.snapshots.clusters_held import ClustersHeld
from scorer.rollout.snapshots.resources import history_limit, index_in_name
from scorer.rollout.writes import Write, create, delete, replace


@dataclass(frozen=True, slots=True)
class PolicySnapshotPlan:
    """Writes for the policy snapshots, in order.

    Args:
        writes: Empty if the latest snapshot is up to date.
        name: Name of the policy snapshot in force after the writes.
        index: Its index.
        error: Set if several snapshots are labeled latest. Nothing is planned then, and the caller reports it to the
            user.
    """

    writes: tuple[Write, ...] = ()
    name: str = ""
    index: int = -1
    error: str = ""


def latest_policy_snapshots(snapshots: Iterable[JsonObject]) -> list[JsonObject]:
    """Return the snapshots labeled latest. More than one breaks an invariant."""
    return [snapshot for snapshot in snapshots if is_labelled_latest(snapshot)]


def plan_policy_snapshots(
    placement: JsonObject,
    snapshots: Sequence[JsonObject],
    digest: str,
    *,
    in_force: str = "",
    bindings: Iterable[JsonObject] = (),
) -> PolicySnapshotPlan:
    """Return the writes after which the latest policy snapshot holds the placement's policy.

    Args:
        placement: ClusterResourcePlacement or ResourcePlacement.
        snapshots: All policy snapshots of the placement.
        digest: Hash of the policy without ``numberOfClusters``.
        in_force: Name of the latest snapshot, if it holds this policy under any hash. Other programs may order fields
            differently before hashing, and a new snapshot of the same policy would trigger a new scheduling decision.
        bindings: All bindings of the placement. They provide the last index if no snapshot exists. This can happen with
            a history of one, after a crash between the deletion of the old snapshot and the creation of the new one.
    """
    latest_snapshots = latest_policy_snapshots(snapshots)
    if len(latest_snapshots) > 1:
        names = ", ".join(sorted(map(name_of, latest_snapshots)))
        return PolicySnapshotPlan(error=f"several policy snapshots are labeled latest: {names}")
    sorted_snapshots = sorted(snapshots, key=_index)
    live = [snapshot for snapshot in sorted_snapshots if not is_deleting(snapshot)]
    latest = next(reversed(latest_snapshots or live), None)
    annotations = _annotations(placement)
    text = b64encode(digest.encode()).decode()
    if latest is not None and (spec_of(latest).get("policyHash") == text or name_of(latest) == in_force):
        labels_agree = is_labelled_latest(latest)
        agree = all(annotation(latest, key) == (value or "") for key, value in annotations.items())
        desired = with_metadata(latest, labels={IS_LATEST_SNAPSHOT: "true"}, annotations=annotations)
        writes = () if labels_agree and agree else (replace(desired),)
        return PolicySnapshotPlan(writes, name_of(latest), _index(latest))
    # The label is removed before the successor is created: a crash in between leaves no snapshot labeled, which the
    # next pass repairs. The other order would leave two, which stops the planning (see above).
    planned_writes: list[Write] = []
    surplus = sorted_snapshots[: max(0, len(sorted_snapshots) - history_limit(placement) + 1)]
    # The record of lost clusters outlives the history limit: surplus snapshots with a record are deleted only after
    # their successor, which has a copy of it, is created.
    recording_snapshots = [snapshot for snapshot in sorted_snapshots if annotation(snapshot, CLUSTERS_HELD)]
    retained_snapshots = [snapshot for snapshot in surplus if snapshot in recording_snapshots]
    if latest_snapshots and (latest_snapshots[0] not in surplus or latest_snapshots[0] in retained_snapshots):
        planned_writes.append(replace(with_metadata(latest_snapshots[0], labels={IS_LATEST_SNAPSHOT: "false"})))
    planned_writes += _deletions(snapshot for snapshot in surplus if snapshot not in retained_snapshots)
    indices = [_index(snapshot) for snapshot in sorted_snapshots]
    if not indices and history_limit(placement) == 1:
        used_names = (str(spec_of(binding).get("schedulingPolicySnapshotName") or "") for binding in bindings)
        indices = [index_in_name(name, f"{name_of(placement)}-") for name in used_names]
    index = max(indices, default=-1) + 1
    snapshot = _make(
        placement, index, text, {**annotations, CLUSTERS_HELD: ClustersHeld.of(recording_snapshots).format() or None}
    )
    return PolicySnapshotPlan(
        (*planned_writes, create(snapshot), *_deletions(retained_snapshots)), name_of(snapshot), index
    )


def _deletions(snapshots: Iterable[JsonObject]) -> Iterator[Write]:
    return (delete(snapshot) for snapshot in snapshots if not is_deleting(snapshot))


def _index(snapshot: JsonObject) -> int:
    return index_of(snapshot, POLICY_INDEX)


def _annotations(placement: JsonObject) -> dict[str, str | None]:
    policy = spec_of(placement).get("policy") or {}
    number = policy.get("numberOfClusters") if policy.get("placementType") == PlacementType.PICK_N else None
    return {
        PLACEMENT_GENERATION: str(generation_of(placement)),
        NUMBER_OF_CLUSTERS: None if number is None else str(number),
    }


def _make(placement: JsonObject, index: int, text: str, annotations: Mapping[str, str | None]) -> JsonObject:
    namespace, name = namespace_of(placement), name_of(placement)
    kind = family_in(namespace).policy_snapshot
    meta: JsonObject = {
        "name": f"{name}-{index}",
        "labels": {PARENT_PLACEMENT: name, IS_LATEST_SNAPSHOT: "true", POLICY_INDEX: str(index)},
        "annotations": {key: value for key, value in annotations.items() if value is not None},
        "ownerReferences": [owner_reference(placement)],
    }
    if namespace:
        meta["namespace"] = namespace
    spec: JsonObject = {"policyHash": text}
    policy = spec_of(placement).get("policy")
    if policy is not None:
        spec["policy"] = {key: value for key, value in policy.items() if key != "numberOfClusters"}
    return {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": meta, "spec": spec}
