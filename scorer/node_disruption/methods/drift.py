"""Drift: a node that its pool no longer describes is replaced, one in each pass, the oldest first.

The reference keeps its finding in a condition of the NodeClaim, which it renews every few minutes. Here the finding is
made anew, so that it also tells what a changed pool would do; the condition says since when, and holds the findings of
the provider, which nobody else can make.

Where no instance types are known, nobody can say what a new node would be. Pods that fit on no node that is there are
then taken to fit on one new node of the same pool (nodepool-disruption.md 5.1: drift works).

Source: nodepool-disruption.md 3.2 to 3.5 and 7; Karpenter v1.15.0 ``pkg/controllers/disruption/drift.go``,
``pkg/controllers/nodeclaim/disruption/drift.go`` and ``pkg/scheduling/requirement.go``.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Final

from scorer.api.node_pool import CAPACITY_TYPE, DisruptionReason, Requirement
from scorer.node_budgets.blockers import DisruptionClass
from scorer.node_disruption.candidates.candidate import Candidate
from scorer.node_disruption.candidates.refusals import DisruptionBlockReason, Held, Refusal
from scorer.node_disruption.cluster.requirements import (
    INSTANCE_TYPE,
    ZONE,
    merged,
    present_labels,
    quote,
)
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
TYPES_CHECKED_AFTER: Final = timedelta(hours=1)
"""How old a claim must be before its instance type is looked for."""

_OWN_REASONS: Final = (NODE_POOL_DRIFTED, REQUIREMENTS_DRIFTED, INSTANCE_TYPE_NOT_FOUND)
_DRIFTED = DisruptionReason.DRIFTED


@dataclass(frozen=True, slots=True)
class Drifted:
    """Why a node has drifted.

    Args:
        reason: As the condition of its claim gives it.
        message: For people, with the values that differ.
        since: When its claim got the condition; None: it has none yet.
    """

    reason: str
    message: str
    since: datetime | None = None


def detect_drift(
    claim: Claim, pool: NodePoolState, catalog: InstanceTypeCatalog | None, now: datetime
) -> Drifted | None:
    """Return why a claim has drifted from its pool; None when it has not. The first of the checks counts."""
    if claim.conditions.get("Launched", "True") != "True":
        return None
    drift = (
        _static_drift(claim, pool)
        or _requirements_drift(claim, pool)
        or _type_drift(claim, catalog, now)
        or _provider_drift(claim, catalog)
    )
    return replace(drift, since=claim.drifted_since) if drift else None


def drifts(survey: Survey) -> dict[str, Drifted]:
    """Return why nodes have drifted, by their names; those that have not are left out."""
    return {
        name: drift
        for name, node in survey.nodes.items()
        if node.pool and node.node.claim
        if (drift := detect_drift(node.node.claim, node.pool, survey.catalog, survey.now))
    }


def plan_drift(survey: Survey, drifted: Mapping[str, Drifted]) -> MethodOutcome:
    """Replace the node that drifted first and whose pods find a place. Nodes without pods to move come first.

    Budgets are read, not consumed: one node is replaced per pass, and a failed attempt must not block the next node.
    """
    blocked = list[Held]()
    for candidate in in_order(survey, drifted, static=False):
        if blockers := candidate.blockers_for(DisruptionClass.EVENTUAL):
            blocked += blocked_nodes(candidate, _DRIFTED, None, blockers)
            continue
        refusal = survey.allowances.remaining_for(_DRIFTED).consume(candidate.node.pool)
        move = refusal or _move(survey, candidate)
        if isinstance(move, Command):
            return MethodOutcome((move,), tuple(blocked))
        blocked.append(Held.of(candidate.name, _DRIFTED, move))
    return MethodOutcome((), tuple(blocked))


def in_order(survey: Survey, drifted: Mapping[str, Drifted], *, static: bool) -> list[Candidate]:
    """Return the nodes that have drifted: those without pods to move before others, the oldest condition first.

    Args:
        survey: Of the cluster.
        drifted: Why nodes have drifted, by their names.
        static: Those of static pools; else those of all others.
    """
    candidates = (survey.nodes[name] for name in drifted)
    selected = [
        candidate for candidate in candidates if candidate.pool and (candidate.pool.replicas is not None) is static
    ]
    return sorted(
        selected, key=lambda each: (bool(each.reschedulable), drifted[each.name].since or survey.now, each.name)
    )


def _move(survey: Survey, candidate: Candidate) -> Command | Refusal:
    relocation = survey.relocations.relocate([candidate], consolidating=False)
    assert isinstance(relocation, Relocation)  # no price is too high
    if relocation.unplaced and survey.catalog is None:
        relocation = _on_one_like_it(relocation, candidate)
    if relocation.left:
        return replace(unschedulable_refusal(relocation), cause=DisruptionBlockReason.PODS_WITHOUT_PLACE)
    return command_of(Method.DRIFT, [candidate], relocation, relocation.new_nodes)


def _on_one_like_it(relocation: Relocation, candidate: Candidate) -> Relocation:
    assert candidate.pool is not None
    node = replace(pool_template(candidate.pool, ()), name=f"{candidate.pool.name}/new-1")
    new = {pod.key: node.name for pod in relocation.unplaced}
    own = {pod.key: node.name for pod in candidate.reschedulable if pod.key in new}
    left = {key: reason for key, reason in relocation.left.items() if key not in new}
    return Relocation({**relocation.moves, **own}, (replace(node, pods=relocation.unplaced),), left)


def _static_drift(claim: Claim, pool: NodePoolState) -> Drifted | None:
    """Compare the digests of the templates, where both are there and made in the same way."""
    own, version = claim.annotations.get(HASH, ""), claim.annotations.get(HASH_VERSION, "")
    if not (own and version and pool.hash and pool.hash_version) or version != pool.hash_version or own == pool.hash:
        return None
    return Drifted(NODE_POOL_DRIFTED, f"the template of NodePool {pool.name} is another one now")


def _requirements_drift(claim: Claim, pool: NodePoolState) -> Drifted | None:
    drift = requirements_drift(pool.model.spec.template.spec.requirements, claim.labels)
    return None if drift is None else Drifted(REQUIREMENTS_DRIFTED, str(drift))


def types_checked_at(claim: Claim, catalog: InstanceTypeCatalog | None) -> datetime | None:
    """Return when it will be found that the instance type of a claim is not offered; None: it is, or is not known."""
    if claim.created is None or _type_not_offered(claim, catalog) is None:
        return None
    return claim.created + TYPES_CHECKED_AFTER


def _type_drift(claim: Claim, catalog: InstanceTypeCatalog | None, now: datetime) -> Drifted | None:
    is_young = claim.created is not None and now - claim.created < TYPES_CHECKED_AFTER
    return None if is_young else _type_not_offered(claim, catalog)


def _type_not_offered(claim: Claim, catalog: InstanceTypeCatalog | None) -> Drifted | None:
    if catalog is None:
        return None
    labels = present_labels(claim.labels)
    name = labels.get(INSTANCE_TYPE, "")
    if (kind := catalog.by_name.get(name)) is None:
        return Drifted(INSTANCE_TYPE_NOT_FOUND, f"instance type {quote(name)} is not offered any more")
    if not _is_offered(kind, labels):
        offer = f"zone {quote(labels.get(ZONE, ''))} as {quote(labels.get(CAPACITY_TYPE, ''))}"
        return Drifted(INSTANCE_TYPE_NOT_FOUND, f"instance type {quote(name)} is not offered any more in {offer}")
    return None


def _is_offered(kind: InstanceType, labels: Mapping[str, str]) -> bool:
    """Say whether a type is offered where a claim has it, even if there is none to be had at present."""
    zone, capacity_type = labels.get(ZONE), labels.get(CAPACITY_TYPE)
    good = (RESERVED, ON_DEMAND) if capacity_type == RESERVED else (capacity_type,)
    return any(
        zone in (None, offering.zone) and (capacity_type is None or offering.capacity_type in good)
        for offering in kind.offerings
    )


def _provider_drift(claim: Claim, catalog: InstanceTypeCatalog | None) -> Drifted | None:
    """Return what the condition says, unless it is a finding that has just been made anew and is no longer true."""
    renewed = _OWN_REASONS if catalog is not None else (NODE_POOL_DRIFTED, REQUIREMENTS_DRIFTED)
    if claim.drifted_since is None or claim.drift_reason in renewed:
        return None
    return Drifted(claim.drift_reason, f"the condition Drifted of the claim says {claim.drift_reason or 'so'}")


@dataclass(frozen=True, slots=True)
class Drift:
    """Why a claim has drifted from the requirements of its pool.

    Args:
        key: The label, by its present name.
        requirement: All requirements of the pool on *key* taken together, in words that follow "must be".
        value: The claim's value; None when it does not have the label.
    """

    key: str
    requirement: str
    value: str | None

    def __str__(self) -> str:
        has = "the claim does not have it" if self.value is None else f"the claim has {quote(self.value)}"
        return f"label {self.key} must be {self.requirement}; {has}"


def requirements_drift(requirements: Sequence[Requirement], labels: Mapping[str, str]) -> Drift | None:
    """Return why a claim with *labels* is not what *requirements* ask for; None when it is.

    Of several keys that drifted, the first by name is returned. ``minValues`` plays no part. A requirement that cannot
    be understood (an unknown operator, a bound that is not an integer) is ignored, so that a mistake in a pool does not
    replace its nodes.
    """
    owned = present_labels(labels)
    for key, requirement in sorted(merged(requirements).items()):
        value = owned.get(key)
        if not (requirement.may_be_absent if value is None else requirement.allows(value)):
            return Drift(key, str(requirement), value)
    return None
