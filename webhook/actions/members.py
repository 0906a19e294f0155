"""Cordoning of members.

Source: docs/specifications/rollout.md 21.2; KubeFleet tools/fleet.
"""

from typing import Final

from scorer.api.cluster.member_cluster import CORDON, is_cordon
from scorer.api.kinds import MEMBER_CLUSTER
from scorer.api.unstructured.documents import dicts_at, spec_of, uid_of
from scorer.api.unstructured.json_object import JsonObject
from webhook.actions.patches import versioned
from webhook.actions.planned import ActionName, ActionOrder, ActionPlan, ActionReader, HubWrite, fact

_TAINT: Final = {"key": CORDON.key, "value": CORDON.value, "effect": CORDON.effect}


def cordon_patch(member: JsonObject, *, cordoned: bool) -> JsonObject | None:
    """Return the patch that adds the drain taint to a member, or removes it, or None if nothing changes."""
    taints = dicts_at(spec_of(member), "taints")
    others = [taint for taint in taints if not is_cordon(taint)]
    if (len(others) < len(taints)) is cordoned:
        return None
    return versioned(member, {"spec": {"taints": [*others, _TAINT] if cordoned else others}})


async def plan_cordon(order: ActionOrder, hub: ActionReader) -> ActionPlan:
    """Return the plan that cordons or uncordons a member."""
    member = await hub.get(MEMBER_CLUSTER, order.name)
    cordons = order.action is ActionName.CORDON
    patch = cordon_patch(member, cordoned=cordons)
    other_taints = [
        f"{taint.get('key')}={taint.get('value', '')}:{taint.get('effect')}"
        for taint in dicts_at(spec_of(member), "taints")
    ]
    if cordons:
        impact = [
            f"{order.name} gets no new placements.",
            f"Existing placements remain there. To evict them: harbormaster drain {order.name}",
        ]
    else:
        impact = [f"{order.name} may get placements again. Other taints remain."]
    words = ("cordoned", "already cordoned") if cordons else ("uncordoned", "already uncordoned")
    return ActionPlan(
        [str(order.action), order.name],
        impact,
        {"uid": uid_of(member), "taints": fact(", ".join(other_taints))},
        None if patch is None else HubWrite(MEMBER_CLUSTER, patch, order.name),
        f"{order.name} {words[patch is None]}",
    )
