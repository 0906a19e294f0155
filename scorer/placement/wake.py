"""Placements to schedule again after a change to a member cluster.

A cluster that becomes ineligible requeues no placement, nor do new or reordered taints: running workloads are kept. An
external score counts as a property while it is valid. A later expiry alone requeues no placement, nor does a newer
observation of an equal value.

Source: docs/specifications/scheduling.md 2; DV-13 (a leaving cluster requeues every placement).
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime

from scorer.api.cluster.member_cluster import MemberCluster
from scorer.api.cluster.scores import read_score, score_names
from scorer.api.placement.placement import PlacementType
from scorer.api.values.quantity import read_quantity
from scorer.eligibility import EligibilityLimits
from scorer.fleet import Fleet
from scorer.plugins.cluster_eligibility import eligible


@dataclass(frozen=True, slots=True)
class RequeueCandidate:
    """The facts about a placement that decide whether to requeue it.

    Args:
        name: Key.
        type: Placement type, PickAll for a placement without a policy.
        fully_scheduled: Whether its Scheduled condition is True for the current generation.
    """

    name: str
    type: PlacementType
    fully_scheduled: bool


def placements_to_requeue(
    old: MemberCluster | None,
    new: MemberCluster | None,
    placements: Iterable[RequeueCandidate],
    now: datetime,
    limits: EligibilityLimits | None = None,
) -> list[str]:
    """Return the names of the placements to schedule again.

    Args:
        old: The member before the change, None if it was created. A created member requeues no placement.
        new: The member after it, None if it was deleted.
        placements: All placements.
        now: Reference instant for heartbeats and expirations.
        limits: Maximum ages for eligibility. None means the defaults.
    """
    if old is None:
        return []
    leaves = new is None or (new.metadata.deletion_timestamp is not None and old.metadata.deletion_timestamp is None)
    if leaves:
        return [placement.name for placement in placements]
    assert new is not None
    if new.metadata.deletion_timestamp is not None or not _matters(old, new, now, limits):
        return []
    return [
        placement.name
        for placement in placements
        if placement.type is PlacementType.PICK_ALL or not placement.fully_scheduled
    ]


def _matters(old: MemberCluster, new: MemberCluster, now: datetime, limits: EligibilityLimits | None) -> bool:
    return (
        old.metadata.labels != new.metadata.labels
        or not set(old.spec.taints) <= set(new.spec.taints)
        or _texts(old, now) != _texts(new, now)
        or (old.status.namespaces or {}) != (new.status.namespaces or {})
        or _amounts(old) != _amounts(new)
        or (not _eligible(old, now, limits) and _eligible(new, now, limits))
    )


def _texts(member: MemberCluster, now: datetime) -> dict[str, str]:
    texts = {name: value.value for name, value in member.status.properties.items()}
    annotations = member.metadata.annotations
    for name in score_names(annotations):
        score = read_score(annotations, name)
        if score is None or score.valid_until is None or score.valid_until >= now:
            texts[name] = annotations[name] if score is None else score.value
        else:
            texts.pop(name, None)
    return texts


def _amounts(member: MemberCluster) -> list[dict[str, object]]:
    usage = member.status.resource_usage

    def exact(amounts: Mapping[str, object]) -> dict[str, object]:
        return {name: read_quantity(str(amount)) or amount for name, amount in amounts.items()}

    return [exact(usage.capacity), exact(usage.allocatable), exact(usage.available)]


def _eligible(member: MemberCluster, now: datetime, limits: EligibilityLimits | None) -> bool:
    return bool(eligible(Fleet([member], limits=limits), now)[0])
