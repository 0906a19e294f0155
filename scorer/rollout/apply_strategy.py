"""Apply strategies: their defaults, and the update of bindings after a change.

Source: docs/specifications/rollout.md 8; docs/specifications/placement-api.md F-10.
"""

from collections.abc import Iterable, Mapping
from typing import Any

from scorer.api.meta import JsonObject
from scorer.api.unstructured.documents import is_deleting, name_of, spec_of, with_spec

_DEFAULTS = {
    "type": "ClientSideApply",
    "comparisonOption": "PartialComparison",
    "whenToApply": "Always",
    "whenToTakeOver": "Always",
    "allowCoOwnership": False,
}


def effective_apply_strategy(strategy: Mapping[str, Any] | None) -> JsonObject:
    """Return an apply strategy with its defaults. Null fields count as absent.

    Args:
        strategy: ``applyStrategy`` as written on a placement, binding or Work; None when absent.
    """
    values = {key: value for key, value in (strategy or {}).items() if value is not None}
    effective = {**_DEFAULTS, **values}
    if effective["type"] == "ServerSideApply":
        effective["serverSideApplyConfig"] = {"force": False, **(values.get("serverSideApplyConfig") or {})}
    return effective


def reports_diff(document: Mapping[str, Any]) -> bool:
    """Return whether a binding or Work only reports differences and applies nothing."""
    return (spec_of(document).get("applyStrategy") or {}).get("type") == "ReportDiff"


def plan_apply_strategy(strategy: Mapping[str, Any] | None, bindings: Iterable[JsonObject]) -> list[JsonObject]:
    """Return the bindings whose apply strategy differs from the placement's, with the new one, sorted by name.

    Bindings that are being deleted are skipped. Rollout limits and the state of a binding do not matter. If there are
    such bindings, the caller writes them, requeues, and plans the rollout in the next reconcile, because their
    conditions are for the old strategy.

    Args:
        strategy: The placement's ``spec.strategy``, None if absent.
        bindings: All bindings of the placement.
    """
    desired = effective_apply_strategy((strategy or {}).get("applyStrategy"))
    outdated_bindings = (
        binding
        for binding in bindings
        if not is_deleting(binding) and effective_apply_strategy(spec_of(binding).get("applyStrategy")) != desired
    )
    return [with_spec(binding, applyStrategy=desired) for binding in sorted(outdated_bindings, key=name_of)]
