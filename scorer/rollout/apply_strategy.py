"""The apply strategy that is in force, and pushing a changed one to the bindings.

Source: rollout.md 8; placement-api.md F-10.
"""

from collections.abc import Iterable, Mapping
from typing import Any

from scorer.api.documents import is_deleting, name_of, spec_of, with_spec
from scorer.api.meta import JsonObject

_DEFAULTS = {
    "type": "ClientSideApply",
    "comparisonOption": "PartialComparison",
    "whenToApply": "Always",
    "whenToTakeOver": "Always",
    "allowCoOwnership": False,
}


def effective_apply_strategy(strategy: Mapping[str, Any] | None) -> JsonObject:
    """Return an apply strategy with its defaults filled in.

    Args:
        strategy: ``applyStrategy`` as written on a placement, binding or Work; None when absent.
    """
    given = {key: value for key, value in (strategy or {}).items() if value is not None}
    filled = {**_DEFAULTS, **given}
    if filled["type"] == "ServerSideApply":
        filled["serverSideApplyConfig"] = {"force": False, **(given.get("serverSideApplyConfig") or {})}
    return filled


def reports_diff(document: Mapping[str, Any]) -> bool:
    """Say whether a binding or Work only compares and applies nothing."""
    return (spec_of(document).get("applyStrategy") or {}).get("type") == "ReportDiff"


def plan_apply_strategy(strategy: Mapping[str, Any] | None, bindings: Iterable[JsonObject]) -> list[JsonObject]:
    """Return the bindings that must be written because their apply strategy is not the placement's.

    Outside all rollout limits, and whatever the state of the binding: only deleting ones are left alone. When
    anything is returned, write it, requeue, and plan the rollout in the next reconcile.

    Args:
        strategy: The placement's ``spec.strategy``, None when absent.
        bindings: All bindings of the placement.
    """
    wanted = effective_apply_strategy((strategy or {}).get("applyStrategy"))
    outdated = (
        binding
        for binding in bindings
        if not is_deleting(binding) and effective_apply_strategy(spec_of(binding).get("applyStrategy")) != wanted
    )
    return [with_spec(binding, applyStrategy=wanted) for binding in sorted(outdated, key=name_of)]
