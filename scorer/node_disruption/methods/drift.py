"""Drift: nodes that no longer match their pool are replaced, one per pass, those without pods to move first.

The reference stores the result in a condition of the NodeClaim and refreshes it every few minutes. Here drift is
detected in every pass, so that the effect of a changed pool can be predicted. The condition provides the start time,
and the results that only the provider can determine.

Without known instance types, the shape of a new node is unknown. Pods that fit on no existing node are then assumed to
fit on one new node of the same pool (nodepool-disruption.md 5.1).

Source: docs/specifications/nodepool-disruption.md 3.2 to 3.5 and 7; Karpenter v1.15.0
``pkg/controllers/disruption/drift.go``, ``pkg/controllers/nodeclaim/disruption/drift.go`` and
``pkg/scheduling/requirement.go``.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Final

from scorer.api.node_pool import CAPACITY_TYPE, DisruptionReason
from scorer.node_budgets.blockers import DisruptionClass
from scorer.node_disruption.candidates.candidate import Candidate
from scorer.node_disruption.candidates.refusals import DisruptionBlockReason, Held, Refusal
from scorer.node_disruption.cluster.requirements import (
    INSTANCE_TYPE,
    ZONE,
    present_labels,
    quote,
)
from scorer.node_disruption.cluster.requirements_drift import requirements_drift
from scorer.node_disruption.cluster.snapshot import HASH, HASH_VERSION, Claim, NodePoolState
from scorer.node_disruption.instance_types.catalog import ON_DEMAND, RESERVED, InstanceType, InstanceTypeCatalog
from scorer.node_disruption.instance_types.new_node import pool_template
from scorer.node_disruption.methods.command import Command, Method, MethodOutcome
from scorer.node_disruption.methods.consolidation import command_of, unschedulable_refusal
from scorer.node_disruption.methods.context import Survey, blocked_nodes
from scorer.node_disruption.scheduling.relocation import Relocation

NODE_POOL_DRIFTED: Final = "NodePoolDrifted"
REQUIREMENTS_DRIFTED: Final = "RequirementsDrifted"
INSTANCE_TYPE_NOT_FOUND: Final = "InstanceTypeNotFound"
NODE_CLASS_DRIFT: Final = "NodeClassDrift"
TYPES_CHECKED_AFTER: Final = timedelta(hours=1)
"""Minimum age of a claim before its instance type is checked."""

_OWN_REASONS: Final = (NODE_POOL_DRIFTED, REQUIREMENTS_DRIFTED, INSTANCE_TYPE_NOT_FOUND)
_DRIFTED = DisruptionReason.DRIFTED


@dataclass(frozen=True, slots=True)
class Drifted:
    """Drift of a node.

    Args:
        reason: Reason of the condition on its claim.
        message: Human-readable message with the differing values.
        since: Transition time of the condition. None: unset.
    """

    reason: str
    message: str
    since: datetime | None = None


def detect_drift(
    claim: Claim, pool: NodePoolState, catalog: InstanceTypeCatalog | None, now: datetime
) -> Drifted | None:
    """Return why a claim has drifted from its pool, by the first failing check, or None."""
    if claim.conditions.get("Launched", "True") != "True":
        return None
    drift = (
        _static_drift(claim, pool)
        or _requirements_drift(claim, pool)
        or _type_drift(claim, catalog, now)
        or _class_drift(claim, pool)
        or _provider_drift(claim, catalog)
    )
    return replace(drift, since=claim.drifted_since) if drift else None


def drifts(survey: Survey) -> dict[str, Drifted]:
    """Return the drifted nodes by name, with the reason."""
    return {
        name: drift
        for name, node in survey.nodes.items()
        if node.pool and node.node.claim
        if (drift := detect_drift(node.node.claim, node.pool, survey.catalog, survey.now))
    }


def plan_drift(survey: Survey, drifted: Mapping[str, Drifted]) -> MethodOutcome:
    """Return the replacement of the first drifted node whose pods can be rescheduled, and what holds those before it.

    Budgets are read but not consumed: one node is replaced per pass, and a failed attempt must not block the next node.
    """
    holds = list[Held]()
    for candidate in in_order(survey, drifted, static=False):
        if blockers := candidate.blockers_for(DisruptionClass.EVENTUAL):
            holds += blocked_nodes(candidate, _DRIFTED, None, blockers)
            continue
        refusal = survey.allowances.remaining_for(_DRIFTED).consume(candidate.node.pool)
        move = refusal or _move(survey, candidate)
        if isinstance(move, Command):
            return MethodOutcome((move,), tuple(holds))
        holds.append(Held.of(candidate.name, _DRIFTED, move))
    return MethodOutcome((), tuple(holds))


def in_order(survey: Survey, drifted: Mapping[str, Drifted], *, static: bool) -> list[Candidate]:
    """Return the drifted nodes, those without pods to move first, then by age of the condition.

    Args:
        survey: Survey of the cluster.
        drifted: Drift by node name.
        static: Whether to return the nodes of static pools, or those of all others.
    """
    candidates = (survey.nodes[name] for name in drifted)
    selected = [
        candidate for candidate in candidates if candidate.pool and (candidate.pool.replicas is not None) is static
    ]
    return sorted(
        selected,
        key=lambda candidate: (
            bool(candidate.reschedulable),
            drifted[candidate.name].since or survey.now,
            candidate.name,
        ),
    )


def _move(survey: Survey, candidate: Candidate) -> Command | Refusal:
    relocation = survey.relocations.relocate([candidate], is_consolidation=False)
    assert isinstance(relocation, Relocation)  # without max_price, the result is never Hopeless
    if relocation.unplaced and survey.catalog is None:
        relocation = _onto_equal_node(relocation, candidate)
    if relocation.left:
        return replace(unschedulable_refusal(relocation), cause=DisruptionBlockReason.PODS_WITHOUT_PLACE)
    return command_of(Method.DRIFT, [candidate], relocation, relocation.new_nodes)


def _onto_equal_node(relocation: Relocation, candidate: Candidate) -> Relocation:
    assert candidate.pool is not None
    node = replace(pool_template(candidate.pool, ()), name=f"{candidate.pool.name}/new-1")
    new = {pod.key: node.name for pod in relocation.unplaced}
    own = {pod.key: node.name for pod in candidate.reschedulable if pod.key in new}
    left = {key: reason for key, reason in relocation.left.items() if key not in new}
    return Relocation({**relocation.moves, **own}, (replace(node, pods=relocation.unplaced),), left)


def _static_drift(claim: Claim, pool: NodePoolState) -> Drifted | None:
    """Return the drift from the template hash, or None. Both hashes must exist and have the same version."""
    own, version = claim.annotations.get(HASH, ""), claim.annotations.get(HASH_VERSION, "")
    if not (own and version and pool.hash and pool.hash_version) or version != pool.hash_version or own == pool.hash:
        return None
    return Drifted(NODE_POOL_DRIFTED, f"the template of NodePool {pool.name} has changed")


def _class_drift(claim: Claim, pool: NodePoolState) -> Drifted | None:
    """Return the drift from the node class, or None. Both hashes must exist and have the same version."""
    node_class = pool.node_class
    if node_class is None or not node_class.hash:
        return None
    key, version_key = node_class.hash_keys
    own, version = claim.annotations.get(key, ""), claim.annotations.get(version_key, "")
    if not (own and version) or version != node_class.hash_version or own == node_class.hash:
        return None
    why = f": {node_class.why}" if node_class.why else ""
    return Drifted(NODE_CLASS_DRIFT, f"{node_class.kind} {node_class.name} has changed{why}")


def _requirements_drift(claim: Claim, pool: NodePoolState) -> Drifted | None:
    drift = requirements_drift(pool.model.spec.template.spec.requirements, claim.labels)
    return None if drift is None else Drifted(REQUIREMENTS_DRIFTED, str(drift))


def types_checked_at(claim: Claim, catalog: InstanceTypeCatalog | None) -> datetime | None:
    """Return when a type that is no longer offered counts as drift. None if it is offered or something is unknown."""
    if claim.created is None or _unavailable_type_drift(claim, catalog) is None:
        return None
    return claim.created + TYPES_CHECKED_AFTER


def _type_drift(claim: Claim, catalog: InstanceTypeCatalog | None, now: datetime) -> Drifted | None:
    is_young = claim.created is not None and now - claim.created < TYPES_CHECKED_AFTER
    return None if is_young else _unavailable_type_drift(claim, catalog)


def _unavailable_type_drift(claim: Claim, catalog: InstanceTypeCatalog | None) -> Drifted | None:
    if catalog is None:
        return None
    labels = present_labels(claim.labels)
    name = labels.get(INSTANCE_TYPE, "")
    if (kind := catalog.by_name.get(name)) is None:
        return Drifted(INSTANCE_TYPE_NOT_FOUND, f"instance type {quote(name)} is no longer offered")
    if not _is_offered(kind, labels):
        offer = f"zone {quote(labels.get(ZONE, ''))} as {quote(labels.get(CAPACITY_TYPE, ''))}"
        return Drifted(INSTANCE_TYPE_NOT_FOUND, f"instance type {quote(name)} is no longer offered in {offer}")
    return None


def _is_offered(kind: InstanceType, labels: Mapping[str, str]) -> bool:
    """Return whether a type has an offering for the claim's zone and capacity type, even an unavailable one."""
    zone, capacity_type = labels.get(ZONE), labels.get(CAPACITY_TYPE)
    good = (RESERVED, ON_DEMAND) if capacity_type == RESERVED else (capacity_type,)
    return any(
        zone in (None, offering.zone) and (capacity_type is None or offering.capacity_type in good)
        for offering in kind.offerings
    )


def _provider_drift(claim: Claim, catalog: InstanceTypeCatalog | None) -> Drifted | None:
    """Return the drift in the claim's condition, or None. Reasons that `detect_drift` evaluates itself are ignored."""
    own_reasons = _OWN_REASONS if catalog is not None else (NODE_POOL_DRIFTED, REQUIREMENTS_DRIFTED)
    if claim.drifted_since is None or claim.drift_reason in own_reasons:
        return None
    return Drifted(
        claim.drift_reason, f"the condition Drifted of the NodeClaim is True ({claim.drift_reason or 'no reason'})"
    )
