"""Eviction of a placement from a cluster: whether it is allowed, and its outcome.

Before the controller deletes a binding for an eviction, it writes the binding's uid on the eviction. After a crash it
therefore knows which deletion was intended:

- If that binding is deleted or being deleted, the eviction was executed, regardless of the current placement, and even
  if the scheduler has picked the cluster again.
- Otherwise, the controller decides again.

A crash therefore neither leaves an executed eviction without a result, nor costs the placement a second binding.

Source: docs/specifications/rollout.md 19.2 and 19.3; KubeFleet pkg/controllers/clusterresourceplacementeviction, which
decides again after a crash, and then finds no binding, or a new one.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any

from scorer.api.conditions import FALSE, TRUE, ConditionStatus, make_condition, merge_conditions
from scorer.api.meta import JsonObject
from scorer.api.names import OURS
from scorer.api.placement.binding import BindingState
from scorer.api.placement.placement import PlacementType
from scorer.api.unstructured.documents import (
    annotation,
    conditions_of,
    generation_of,
    has_current_status,
    is_deleting,
    name_of,
    spec_of,
    status_of,
    uid_of,
    with_metadata,
)
from scorer.api.values.int_or_percent import scaled_up
from scorer.api.values.quoting import format_share
from scorer.rollout.bindings import AVAILABLE, BindingView, has_diff_reported, is_failed, views

VALID = "Valid"
EXECUTED = "Executed"

EVICTED_BINDING = OURS + "evicted-binding"
"""Annotation of an eviction: the uid of the binding that it deletes, written before the deletion."""


class EvictionReason(StrEnum):
    """Reasons of the conditions ``Valid`` (the first two) and ``Executed``."""

    VALID = "ClusterResourcePlacementEvictionValid"
    INVALID = "ClusterResourcePlacementEvictionInvalid"
    EXECUTED = "ClusterResourcePlacementEvictionExecuted"
    NOT_EXECUTED = "ClusterResourcePlacementEvictionNotExecuted"


@dataclass(frozen=True, slots=True)
class Eviction:
    """The outcome of an eviction.

    Args:
        binding: Name of the binding that was evaluated. Empty: none was.
        reason: The outcome, never `EvictionReason.VALID`, which both EXECUTED and NOT_EXECUTED imply.
        message: Why, with the numbers of the budget if one was consulted.
        budget: Name of the disruption budget that decided, empty if none did.
        deletes: Whether the controller has to delete the binding. False if it is being deleted already.
    """

    binding: str
    reason: EvictionReason
    message: str
    budget: str = ""
    deletes: bool = False

    @property
    def executed(self) -> bool:
        """Whether the placement loses the binding."""
        return self.reason is EvictionReason.EXECUTED


def judge_eviction(
    placement: Mapping[str, Any] | None,
    cluster: str,
    bindings: Sequence[BindingView],
    budget: Mapping[str, Any] | None,
) -> Eviction:
    """Return the outcome of an eviction of *placement* from *cluster*.

    Args:
        placement: The ClusterResourcePlacement. None if it does not exist.
        cluster: The member cluster.
        bindings: All bindings of the placement, deleting ones included.
        budget: The disruption budget of the placement's name. None if it does not exist.
    """
    if placement is None:
        return _invalid("the placement does not exist")
    if is_deleting(placement):
        return _invalid("the placement is being deleted")
    policy = spec_of(placement).get("policy") or {}
    kind = policy.get("placementType") or PlacementType.PICK_ALL
    if kind == PlacementType.PICK_FIXED:
        return _invalid("a PickFixed placement cannot be evicted: remove the cluster from spec.policy.clusterNames")
    matching = [binding for binding in bindings if binding.cluster == cluster]
    if len(matching) != 1:
        return _invalid(
            "the cluster has several bindings of the placement" if matching else "the placement is not on the cluster"
        )
    (binding,) = matching
    if binding.deleting:
        return Eviction(binding.name, EvictionReason.EXECUTED, "it is already being removed")
    if BindingState.BOUND not in (binding.state, binding.previous_state):
        return Eviction(binding.name, EvictionReason.NOT_EXECUTED, "nothing has been placed there yet")
    if is_failed(binding) or has_diff_reported(binding):
        return Eviction(
            binding.name,
            EvictionReason.EXECUTED,
            _exemption(binding),
            deletes=True,
        )
    if budget is None:
        return Eviction(binding.name, EvictionReason.EXECUTED, "there is no disruption budget", deletes=True)
    return _budget_outcome(binding, bindings, budget, kind, policy.get("numberOfClusters") or 0)


def _exemption(binding: BindingView) -> str:
    """Return why no budget applies to a binding that has failed or reports differences instead of applying."""
    state = "has failed on the cluster" if is_failed(binding) else "only reports differences on the cluster"
    return f"the placement {state}, so no budget applies"


def _invalid(message: str) -> Eviction:
    return Eviction("", EvictionReason.INVALID, message)


def _budget_outcome(
    binding: BindingView, bindings: Sequence[BindingView], budget: Mapping[str, Any], kind: str, cluster_count: int
) -> Eviction:
    name, limits = name_of(budget), spec_of(budget)
    max_unavailable, min_available = limits.get("maxUnavailable"), limits.get("minAvailable")
    picks_all = kind == PlacementType.PICK_ALL
    if picks_all and (max_unavailable is not None or isinstance(min_available, str)):
        rule = "maxUnavailable must not be set" if max_unavailable is not None else "minAvailable must be an integer"
        message = f"budget {name} is invalid for a PickAll placement: {rule}"
        return Eviction(binding.name, EvictionReason.NOT_EXECUTED, message, name)
    total = len(bindings)
    available = sum(view.status(AVAILABLE) == TRUE for view in bindings)
    try:
        if max_unavailable is not None:
            allowance, limit = (
                scaled_up(max_unavailable, cluster_count) - (total - available),
                f"maxUnavailable {max_unavailable}",
            )
        elif min_available is not None:
            keep = min_available if picks_all else scaled_up(min_available, cluster_count)
            allowance, limit = available - keep, f"minAvailable {min_available}"
        else:
            allowance, limit = 0, "no limit, so it blocks this eviction"
    except (TypeError, ValueError) as error:
        return Eviction(binding.name, EvictionReason.NOT_EXECUTED, f"budget {name} cannot be read: {error}", name)
    reason = EvictionReason.EXECUTED if allowance > 0 else EvictionReason.NOT_EXECUTED
    message = f"budget {name} has {limit}; {format_share(available, total, 'cluster')} available"
    return Eviction(binding.name, reason, message, name, deletes=allowance > 0)


def is_finished(eviction: Mapping[str, Any]) -> bool:
    """Return whether an eviction has its final result, which later changes to the placement do not affect."""
    if any(condition.get("type") == EXECUTED for condition in conditions_of(eviction)):
        return True
    return has_current_status(eviction, VALID, FALSE)


def decide_eviction(
    eviction: JsonObject,
    placement: Mapping[str, Any] | None,
    bindings: Sequence[JsonObject],
    budget: Mapping[str, Any] | None,
) -> Eviction:
    """Return the outcome of an eviction that is not finished.

    Args:
        eviction: The ClusterResourcePlacementEviction.
        placement: The ClusterResourcePlacement that it names. None if it does not exist.
        bindings: All bindings of the placement, deleting ones included.
        budget: The disruption budget of the placement's name. None if it does not exist.

    Raises:
        ValueError: The state of a binding is none of the three states.
    """
    binding_name = annotation(eviction, EVICTED_BINDING)
    # By uid, not by cluster: the scheduler may have made a new binding there, which this eviction must not delete.
    if binding_name and not any(uid_of(binding) == binding_name and not is_deleting(binding) for binding in bindings):
        return Eviction("", EvictionReason.EXECUTED, "it has been removed")
    return judge_eviction(placement, spec_of(eviction).get("clusterName") or "", views(bindings), budget)


def is_in_progress(
    eviction: Mapping[str, Any], bindings: Iterable[Mapping[str, Any]], *, withdrawn: bool = False
) -> bool:
    """Return whether an eviction is removing a binding: it records the uid of a binding that still exists.

    Once the eviction is executed or withdrawn, it is in progress only while that binding is being deleted. An eviction
    that is finished without being executed is not in progress.

    Args:
        eviction: The ClusterResourcePlacementEviction.
        bindings: All bindings of the placement, deleting ones included.
        withdrawn: Whether the eviction no longer exists.
    """
    binding_name = annotation(eviction, EVICTED_BINDING)
    executed = any(entry.get("type") == EXECUTED and entry.get("status") == TRUE for entry in conditions_of(eviction))
    if not binding_name or (is_finished(eviction) and not executed):
        return False
    has_begun = executed or withdrawn
    return any(uid_of(binding) == binding_name and (is_deleting(binding) or not has_begun) for binding in bindings)


def with_evicted_binding(eviction: JsonObject, binding: JsonObject) -> JsonObject | None:
    """Return the eviction with the uid of the binding that it deletes, or None if the uid is recorded already."""
    uid = uid_of(binding)
    if annotation(eviction, EVICTED_BINDING) == uid:
        return None
    return with_metadata(eviction, annotations={EVICTED_BINDING: uid})


def waiting_status(eviction: JsonObject, message: str, now: datetime) -> JsonObject:
    """Return the complete ``status`` of an eviction that is allowed but has to wait. It has no result yet."""
    valid = make_condition(VALID, TRUE, str(EvictionReason.VALID), message, generation=generation_of(eviction), now=now)
    return {**status_of(eviction), "conditions": merge_conditions(conditions_of(eviction), [valid])}


def eviction_status(eviction: JsonObject, outcome: Eviction, now: datetime) -> JsonObject:
    """Return the complete ``status`` of an eviction with its final result *outcome* (rollout.md 19.3)."""
    spec, generation = spec_of(eviction), generation_of(eviction)

    def eviction_condition(kind: str, reason: EvictionReason, message: str, *, good: bool) -> JsonObject:
        status: ConditionStatus = TRUE if good else FALSE
        return make_condition(kind, status, str(reason), message, generation=generation, now=now)

    names = f"spec.placementName {spec.get('placementName')!r}, spec.clusterName {spec.get('clusterName')!r}"
    if outcome.reason is EvictionReason.INVALID:
        conditions = [eviction_condition(VALID, EvictionReason.INVALID, f"{names}: {outcome.message}", good=False)]
    else:
        conditions = [
            eviction_condition(VALID, EvictionReason.VALID, "the eviction is valid", good=True),
            eviction_condition(EXECUTED, outcome.reason, outcome.message, good=outcome.executed),
        ]
    return {**status_of(eviction), "conditions": merge_conditions(conditions_of(eviction), conditions)}
