"""May a placement be taken off a cluster? What one eviction comes to.

Source: rollout.md 19.2; KubeFleet pkg/controllers/clusterresourceplacementeviction.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from scorer.api.binding import BindingState
from scorer.api.conditions import TRUE
from scorer.api.int_or_percent import scaled_up
from scorer.api.placement import PlacementType
from scorer.rollout.bindings import AVAILABLE, BindingView, has_diff_reported, is_failed
from scorer.rollout.documents import is_deleting, name_of, spec_of


class EvictionReason(StrEnum):
    """Reasons of the conditions ``Valid`` and ``Executed``; only the first two of them are told apart by status."""

    INVALID = "ClusterResourcePlacementEvictionInvalid"
    EXECUTED = "ClusterResourcePlacementEvictionExecuted"
    NOT_EXECUTED = "ClusterResourcePlacementEvictionNotExecuted"


@dataclass(frozen=True, slots=True)
class Eviction:
    """What becomes of an eviction.

    Args:
        binding: Name of the binding that it is about; empty when there is none, or several.
        reason: What it comes to.
        message: Why, with the numbers of the budget where one was looked at.
        budget: Name of the disruption budget that decided, empty when none did.
    """

    binding: str
    reason: EvictionReason
    message: str
    budget: str = ""

    @property
    def executed(self) -> bool:
        """Whether the binding goes."""
        return self.reason is EvictionReason.EXECUTED


def judge_eviction(
    placement: Mapping[str, Any] | None,
    cluster: str,
    bindings: Sequence[BindingView],
    budget: Mapping[str, Any] | None,
) -> Eviction:
    """Say what an eviction of *placement* from *cluster* comes to.

    Args:
        placement: The ClusterResourcePlacement; None: there is none of that name.
        cluster: The member cluster.
        bindings: All bindings of the placement, deleting ones included.
        budget: The disruption budget of the placement's name; None: there is none.
    """
    if placement is None:
        return _invalid("there is no such placement")
    if is_deleting(placement):
        return _invalid("the placement is being deleted")
    policy = spec_of(placement).get("policy") or {}
    kind = policy.get("placementType") or PlacementType.PICK_ALL
    if kind == PlacementType.PICK_FIXED:
        return _invalid("a PickFixed placement cannot be evicted; take the cluster off spec.policy.clusterNames")
    found = [binding for binding in bindings if binding.cluster == cluster]
    if len(found) != 1:
        return _invalid("the cluster holds several bindings of it" if found else "the cluster does not hold it")
    (binding,) = found
    if binding.deleting:
        return Eviction(binding.name, EvictionReason.EXECUTED, "it is being removed already")
    if BindingState.BOUND not in (binding.state, binding.previous_state):
        return Eviction(binding.name, EvictionReason.NOT_EXECUTED, "nothing has been placed there yet")
    if is_failed(binding) or has_diff_reported(binding):
        return Eviction(binding.name, EvictionReason.EXECUTED, "what is there does not run, so no budget is asked")
    if budget is None:
        return Eviction(binding.name, EvictionReason.EXECUTED, "there is no disruption budget")
    return _within(binding, bindings, budget, kind, policy.get("numberOfClusters") or 0)


def _invalid(message: str) -> Eviction:
    return Eviction("", EvictionReason.INVALID, message)


def _within(
    binding: BindingView, bindings: Sequence[BindingView], budget: Mapping[str, Any], kind: str, wanted: int
) -> Eviction:
    name, limits = name_of(budget), spec_of(budget)
    most, least = limits.get("maxUnavailable"), limits.get("minAvailable")
    picks_all = kind == PlacementType.PICK_ALL
    if picks_all and (most is not None or isinstance(least, str)):
        message = f"budget {name} does not fit a PickAll placement: it needs an integer minAvailable"
        return Eviction(binding.name, EvictionReason.NOT_EXECUTED, message, name)
    total = len(bindings)
    available = sum(each.status(AVAILABLE) == TRUE for each in bindings)
    try:
        if most is not None:
            allowed, limit = scaled_up(most, wanted) - (total - available), f"maxUnavailable {most}"
        elif least is not None:
            keep = least if picks_all else scaled_up(least, wanted)
            allowed, limit = available - keep, f"minAvailable {least}"
        else:
            allowed, limit = 0, "no limit in it, which blocks every eviction"
    except (TypeError, ValueError) as error:
        return Eviction(binding.name, EvictionReason.NOT_EXECUTED, f"budget {name} cannot be read: {error}", name)
    reason = EvictionReason.EXECUTED if allowed > 0 else EvictionReason.NOT_EXECUTED
    message = f"budget {name} has {limit}; {available} of {total} clusters are available"
    return Eviction(binding.name, reason, message, name)
