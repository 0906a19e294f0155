"""The placement web, its bindings and their evictions, on a store."""

from scorer.api.kinds import BINDING, DISRUPTION_BUDGET, EVICTION, PLACEMENT
from scorer.api.names import PARENT_PLACEMENT, PREVIOUS_BINDING_STATE, SCHEDULER_BINDING_CLEANUP
from webhook.kube.ports import Key, NotFoundError

VALID = ("Valid", "True", "ClusterResourcePlacementEvictionValid")
INVALID = ("Valid", "False", "ClusterResourcePlacementEvictionInvalid")
EXECUTED = ("Executed", "True", "ClusterResourcePlacementEvictionExecuted")
NOT_EXECUTED = ("Executed", "False", "ClusterResourcePlacementEvictionNotExecuted")


async def add_placement(store, kind="PickN", number=3, **metadata):
    policy = {"placementType": kind} | ({"numberOfClusters": number} if kind == "PickN" else {})
    return await store.create(
        PLACEMENT,
        {
            "apiVersion": PLACEMENT.api_version,
            "kind": PLACEMENT.kind,
            "metadata": {"name": "web", **metadata},
            "spec": {"resourceSelectors": [], "policy": policy},
        },
    )


async def add_binding(store, cluster, *, state="Bound", previous="", health="available", name="", held=True):
    """Add a binding whose Available condition says *health*; *held*: finalizers keep it when it is deleted."""
    created = await store.create(
        BINDING,
        {
            "apiVersion": BINDING.api_version,
            "kind": BINDING.kind,
            "metadata": {
                "name": name or f"web-{cluster}",
                "labels": {PARENT_PLACEMENT: "web"},
                "annotations": {PREVIOUS_BINDING_STATE: previous} if previous else {},
                "finalizers": [SCHEDULER_BINDING_CLEANUP] if held else [],
            },
            "spec": {"state": state, "targetCluster": cluster, "resourceSnapshotName": "web-0-snapshot"},
        },
    )
    return await say(store, created, health)


async def say(store, binding, health):
    """Store what the members say of a binding."""
    status, reason = {"available": ("True", "AllWorkAreAvailable"), "failed": ("False", "NotAllWorkAreAvailable")}.get(
        health, ("", "")
    )
    if not status:
        return binding
    generation = binding["metadata"]["generation"]
    condition = {"type": "Available", "status": status, "reason": reason, "observedGeneration": generation}
    return await store.replace_status(BINDING, {**binding, "status": {"conditions": [condition]}})


async def add_budget(store, **limits):
    made = {"apiVersion": DISRUPTION_BUDGET.api_version, "kind": DISRUPTION_BUDGET.kind}
    await store.create(DISRUPTION_BUDGET, {**made, "metadata": {"name": "web"}, "spec": limits})


async def add_eviction(store, cluster, *, name="", placement="web"):
    name = name or f"off-{cluster}"
    spec = {"placementName": placement, "clusterName": cluster}
    made = {"apiVersion": EVICTION.api_version, "kind": EVICTION.kind, "metadata": {"name": name}, "spec": spec}
    await store.create(EVICTION, made)
    return name


async def conditions(store, name):
    stored = await store.get(EVICTION, Key(name))
    found = (stored.get("status") or {}).get("conditions") or ()
    assert all(entry["observedGeneration"] == stored["metadata"]["generation"] for entry in found)
    return [(entry["type"], entry["status"], entry["reason"]) for entry in found]


async def is_going(store, name):
    try:
        stored = await store.get(BINDING, Key(name))
    except NotFoundError:
        return True
    return "deletionTimestamp" in stored["metadata"]
