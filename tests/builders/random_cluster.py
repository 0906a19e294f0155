"""Small clusters of all sorts, for properties of the planner of node disruption."""

from collections.abc import Mapping
from datetime import timedelta
from typing import Any

from hypothesis import strategies as st

from scorer.api.meta import JsonObject
from tests.builders.node import HOST, ZONE, make_requirement
from tests.builders.pod import make_pod, make_spread
from tests.builders.worker import NOW, TYPE, drifted, make_pool_of, make_worker

POOLS, APPS = ("p", "q"), ("web", "db")
POLICY = "WhenEmptyOrUnderutilized"
ZONES = ("z1", "z2")
KINDS = {"small": 2, "medium": 4, "large": 8}
PRICES = {"small": 1.0, "medium": 1.9, "large": 3.5}
BUDGETS: list[list[JsonObject]] = [
    *([{"nodes": "100%"}] for _ in range(5)),
    [{"nodes": "1"}],
    [{"nodes": "0"}],
    [{"nodes": "50%"}],
    [{"nodes": "0", "schedule": "0 11 * * *", "duration": "2h"}],
    [{"nodes": "1", "reasons": ["Empty"]}, {"nodes": "2"}],
]
ANNOTATIONS: list[dict[str, str]] = [
    {},
    {"karpenter.sh/do-not-disrupt": "true"},
    {"karpenter.sh/disruption-cost": "-134217728"},
    {"karpenter.sh/do-not-disrupt": "2h"},
]
MOSTLY_FIRST = (*(0,) * 14, 1, 2, 3)
NOWHERE = {"disk": "none"}
"""What an unplaceable pod asks of a node."""


@st.composite
def clusters(draw: st.DrawFn) -> list[JsonObject]:
    """Draw the objects of a cluster with two pools and a few nodes, claims and pods.

    All pods of an app are spread in the same way, or not at all.
    """
    spreads = {app: draw(_spreads(app)) for app in APPS}
    documents = [_pool(draw, name) for name in POOLS]
    for number in range(draw(st.sampled_from((0, 1, 2, 3, 4, 5, 6, 7)))):
        documents += _node(draw, f"n{number}", spreads)
    if draw(st.booleans()):
        documents.append(_guard(draw(st.sampled_from((1, 1, 0)))))
    pending = draw(st.sampled_from((0, 0, 0, 1)))
    documents += [make_pod(f"pending-{number}", needs={"cpu": "1"}) for number in range(pending)]
    return documents


def _spreads(app: str) -> st.SearchStrategy[list[JsonObject]]:
    constraint = st.builds(
        lambda key, skew, when: make_spread(key, {"app": app}, skew, whenUnsatisfiable=when),
        st.sampled_from((HOST, ZONE)),
        st.integers(1, 2),
        st.sampled_from(("DoNotSchedule", "DoNotSchedule", "ScheduleAnyway")),
    )
    return st.one_of(st.just([]), st.just([]), st.lists(constraint, min_size=1, max_size=1))


def _pool(draw: st.DrawFn, name: str) -> JsonObject:
    is_static = draw(st.sampled_from((False, False, False, False, True)))
    more: dict[str, Any] = {"replicas": draw(st.integers(0, 3))} if is_static else {}
    is_narrow = draw(st.sampled_from((False, True) if is_static else (False, False, False, True)))
    narrow = [make_requirement(TYPE, "In", draw(st.sampled_from(sorted(KINDS))))] if is_narrow else []
    return make_pool_of(
        name,
        make_requirement("karpenter.sh/capacity-type", "In", "spot", "on-demand"),
        *narrow,
        ready=draw(st.sampled_from((*("",) * 4, "True", "True", "False", "Unknown"))),
        policy=draw(st.sampled_from((*(POLICY,) * 4, "Balanced", "WhenEmpty"))),
        after=draw(st.sampled_from(("0s", "0s", "0s", "10m", "Never"))),
        budgets=draw(st.sampled_from(BUDGETS)),
        **more,
    )


def _node(draw: st.DrawFn, name: str, spreads: Mapping[str, list[JsonObject]]) -> list[JsonObject]:
    kind = draw(st.sampled_from(sorted(KINDS)))
    more: dict[str, Any] = {}
    match draw(st.sampled_from((*(0,) * 12, 1, 2, 3, 4, 5, 6))):
        case 6:
            more = {"annotations": {"karpenter.sh/do-not-disrupt": "true"}}
        case 1:
            more = {"conditions": drifted(timedelta(hours=draw(st.integers(1, 9))))}
        case 2:
            more = {"deleting": NOW}
        case 3:
            more = {"without": ["karpenter.sh/initialized"]}
        case 4:
            more = {"last_pod_event": NOW - timedelta(minutes=draw(st.integers(0, 20)))}
        case 5:
            more = {"expireAfter": "24h", "created": NOW - timedelta(hours=draw(st.integers(1, 30)))}
    capacity = draw(st.sampled_from(("on-demand", "spot")))
    pool = draw(st.sampled_from(POOLS))
    zone = draw(st.sampled_from((*ZONES[:1] * 2, *ZONES)))
    found = [*make_worker(name, kind, pool=pool, zone=zone, capacity=capacity, cores=KINDS[kind], **more)]
    pods = range(draw(st.sampled_from((1, 1, 2, 3, 0))))
    return found + [_pod(draw, f"{name}-{number}", name, spreads) for number in pods]


def _pod(draw: st.DrawFn, name: str, node: str, spreads: Mapping[str, list[JsonObject]]) -> JsonObject:
    app = draw(st.sampled_from(("web", "web", "db")))
    return make_pod(
        name,
        node,
        labels={"app": app},
        annotations=ANNOTATIONS[draw(st.sampled_from(MOSTLY_FIRST))],
        needs={"cpu": f"{draw(st.integers(1, 8)) * 250}m"},
        owner=draw(st.sampled_from((*("ReplicaSet",) * 6, "DaemonSet", "StatefulSet", "Node"))),
        topologySpreadConstraints=spreads[app],
        nodeSelector=NOWHERE if draw(st.sampled_from((*(False,) * 14, True))) else {},
    )


def _guard(allowed: int) -> JsonObject:
    return {
        "kind": "PodDisruptionBudget",
        "metadata": {"name": "db", "namespace": "shop"},
        "spec": {"selector": {"matchLabels": {"app": "db"}}},
        "status": {"disruptionsAllowed": allowed},
    }
