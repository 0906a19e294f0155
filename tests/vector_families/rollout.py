"""One RollingUpdate reconcile."""

from datetime import UTC, datetime, timedelta
from typing import Any

from scorer.rollout.bindings import BindingView
from scorer.rollout.planner import Action, RequestedClusters, plan_rollout
from tests.vector_families.line import Line, compare

NOW = datetime(2026, 11, 20, 12, tzinfo=UTC)
LATEST = "shop-3-snapshot"
LISTS = {
    "update": "update",
    "bind": "bind",
    "remove": "remove",
    "blocked": "blocked",
    "heldRemovals": "deferred_removals",
    "upToDate": "up_to_date",
}
NUMBERS = {
    "target": "target",
    "ready": "ready",
    "canBeReady": "can_be_ready",
    "mayVanish": "may_vanish",
    "maxToRemove": "max_to_remove",
    "maxToAdd": "max_to_add",
}


def read_binding(given: dict[str, Any]) -> BindingView:
    """Make the binding that a recorded line describes, by way of a whole document."""
    since = (NOW - timedelta(seconds=given.get("lastTransitionSecondsAgo", 0))).isoformat()
    old_overrides = ["gone-0"] if given.get("overrides") == "old" else None
    annotations = {"kubernetes-fleet.io/previous-binding-state": given.get("previousState", "")}
    mark = {"deletionTimestamp": since} if given.get("deleting") else {}
    document = {
        "metadata": {"name": given["name"], "generation": 7, "annotations": annotations, **mark},
        "spec": {
            "state": given["state"],
            "targetCluster": given["cluster"],
            "resourceSnapshotName": {"latest": LATEST, "old": "shop-2-snapshot"}.get(given["snapshot"], ""),
            "clusterResourceOverrideSnapshots": old_overrides,
        },
        "status": {
            "conditions": [
                {
                    "type": condition["type"],
                    "status": condition["status"],
                    "reason": condition["reason"],
                    "observedGeneration": 7 if condition["observed"] == "current" else 6,
                    "lastTransitionTime": since,
                }
                for condition in given.get("conditions", ())
            ]
        },
    }
    return BindingView.of(document)


def read_wanted(line: dict[str, Any]) -> RequestedClusters:
    names = line.get("clusterNames")
    policy = {"placementType": line["placementType"], "numberOfClusters": line.get("numberOfClusters")}
    return RequestedClusters.of({**policy, "clusterNames": names})


def clusters(bindings: tuple[BindingView, ...]) -> list[str]:
    return [binding.cluster for binding in bindings]


def check_rollout(line: Line) -> None:
    """Every key that the recorded line wants is what the planner says."""
    latest = None if line.get("noResourceSnapshot") else LATEST
    plan = plan_rollout(read_wanted(line), line["strategy"], map(read_binding, line["bindings"]), latest, NOW)
    want = {key: sorted(value) if isinstance(value, list) else value for key, value in line["want"].items()}
    if "error" in want:
        assert plan.action is Action.ERROR
        assert plan.error is not None
        assert plan.error.invariant == want["error"]
        assert not any(getattr(plan, attribute) for attribute in LISTS.values())
        return
    seconds = None if plan.requeue_after is None else plan.requeue_after.total_seconds()
    seen: dict[str, Any] = {"action": plan.action, "requeueAfterSeconds": seconds}
    seen |= {key: sorted(clusters(getattr(plan, attribute))) for key, attribute in LISTS.items()}
    seen |= {key: getattr(plan.budget, attribute) for key, attribute in NUMBERS.items()}
    compare(seen, want)
