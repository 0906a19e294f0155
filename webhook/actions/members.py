"""Cordoning of members.

Source: rollout.md 21.2; KubeFleet tools/fleet.
"""

from typing import Final

from scorer.api.unstructured.documents import dicts_at, spec_of
from scorer.api.unstructured.json_object import JsonObject
from scorer.what_if.changes import CORDON
from webhook.actions.patches import versioned

_TAINT: Final = {"key": CORDON.key, "value": CORDON.value, "effect": str(CORDON.effect)}


def cordon_patch(member: JsonObject, *, cordoned: bool) -> JsonObject | None:
    """Return the patch that adds the drain taint to a member, or removes it. None: unchanged."""
    taints = dicts_at(spec_of(member), "taints")
    others = [taint for taint in taints if taint.get("key") != CORDON.key or taint.get("effect") != str(CORDON.effect)]
    if (len(others) < len(taints)) is cordoned:
        return None
    return versioned(member, {"spec": {"taints": [*others, _TAINT] if cordoned else others}})
