"""Builders of member clusters, policies and bindings, and random fleets, for the tests of the engine."""

import json
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st

from scorer.api.cluster.member_cluster import MemberCluster
from scorer.api.placement.binding import BindingState
from scorer.fleet import Fleet
from scorer.placement.holdings import Binding
from scorer.placement.request import read_request
from scorer.placement.schedule import ScheduleResult, schedule
from tests.thoroughness import examples

NOW = datetime(2026, 11, 20, 12, tzinfo=UTC)
MINUTE = timedelta(minutes=1)
TICK = timedelta(microseconds=1)

NODES = "kubernetes-fleet.io/node-count"
OLD_NODES = "kubernetes.azure.com/node-count"
COST = "kubernetes.azure.com/per-cpu-core-cost"
TOTAL_CPU = "resources.kubernetes-fleet.io/total-cpu"
TOTAL_MEMORY = "resources.kubernetes-fleet.io/total-memory"
LATENCY = "scores.harbormaster.dev/latency"
AVAILABLE_CPU = "resources.kubernetes-fleet.io/available-cpu"

BOUND, SCHEDULED, UNSCHEDULED = BindingState.BOUND, BindingState.SCHEDULED, BindingState.UNSCHEDULED


def modest(count: int) -> settings:
    """The same examples on every run, however slow the machine is; *count* of them in a soak."""
    return settings(
        max_examples=examples(count),
        derandomize=True,
        database=None,
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
    )


def cluster_document(
    name: str,
    *,
    labels: Mapping[str, str] | None = None,
    annotations: Mapping[str, str] | None = None,
    taints: Iterable[tuple[str, str]] = (),
    properties: Mapping[str, str] | None = None,
    capacity: Mapping[str, Any] | None = None,
    allocatable: Mapping[str, Any] | None = None,
    available: Mapping[str, Any] | None = None,
    observed: timedelta = timedelta(seconds=41),
    agents: Sequence[Mapping[str, Any]] | None = None,
    heartbeat: timedelta | None = timedelta(seconds=23),
    joined: str | None = "True",
    healthy: str | None = "True",
    health_since: timedelta | None = timedelta(days=1),
    leaving: bool = False,
    collects: str | None = None,
    namespaces: Iterable[str] | None = None,
) -> dict[str, Any]:
    """Make a member cluster that is well and eligible unless told otherwise; spans of time are ages at `NOW`."""
    stamp = (NOW - observed).isoformat()
    if agents is None:
        agents = [member_agent(heartbeat=heartbeat, joined=joined, healthy=healthy, health_since=health_since)]
    status: dict[str, Any] = {
        "properties": {key: {"value": value, "observationTime": stamp} for key, value in (properties or {}).items()},
        "resourceUsage": {
            "capacity": dict(capacity or {}),
            "allocatable": dict(allocatable or {}),
            "available": dict(available or {}),
            "observationTime": stamp,
        },
        "agentStatus": list(agents),
        "conditions": [{"type": "NamespaceCollectionSucceeded", "status": collects}] if collects else [],
    }
    if namespaces is not None:
        status["namespaces"] = dict.fromkeys(namespaces, "")
    metadata: dict[str, Any] = {"name": name, "labels": dict(labels or {}), "annotations": dict(annotations or {})}
    if leaving:
        metadata["deletionTimestamp"] = NOW.isoformat()
    spec = {
        "identity": {"kind": "User", "name": name},
        "taints": [{"key": key, "value": value, "effect": "NoSchedule"} for key, value in taints],
    }
    return {
        "apiVersion": "cluster.kubernetes-fleet.io/v1beta1",
        "kind": "MemberCluster",
        "metadata": metadata,
        "spec": spec,
        "status": status,
    }


def member_agent(
    *,
    type: str = "MemberAgent",  # noqa: A002 - the field's name
    heartbeat: timedelta | None = timedelta(seconds=23),
    joined: str | None = "True",
    healthy: str | None = "True",
    health_since: timedelta | None = timedelta(days=1),
) -> dict[str, Any]:
    """Make the status entry of an agent; None leaves the field or the condition out."""
    conditions: list[dict[str, Any]] = []
    if joined is not None:
        conditions.append({"type": "Joined", "status": joined, "lastTransitionTime": "2026-01-01T00:00:00Z"})
    if healthy is not None:
        conditions.append({"type": "Healthy", "status": healthy})
        if health_since is not None:
            conditions[-1]["lastTransitionTime"] = (NOW - health_since).isoformat()
    agent: dict[str, Any] = {"type": type, "conditions": conditions}
    if heartbeat is not None:
        agent["lastReceivedHeartbeat"] = (NOW - heartbeat).isoformat()
    return agent


def make_cluster(name: str, **facts: Any) -> MemberCluster:
    """Make a member cluster; see `cluster_document`."""
    return MemberCluster.read(cluster_document(name, **facts))


def external(value: str, until: timedelta | None = None) -> str:
    """Write an external score that is valid for so long after `NOW`."""
    expiry = {} if until is None else {"validUntil": (NOW + until).isoformat()}
    return json.dumps({"value": value, **expiry})


def reading(name: str, **properties: str) -> MemberCluster:
    """Make a cluster with properties of simple names."""
    return make_cluster(name, properties=properties)


def in_list(key: str, *values: str) -> dict[str, Any]:
    return {"key": key, "operator": "In", "values": list(values)}


def has(name: str, operator: str, value: str) -> dict[str, Any]:
    return {"name": name, "operator": operator, "values": [value]}


def term(
    labels: Mapping[str, str] | None = None,
    *,
    expressions: Sequence[Mapping[str, Any]] = (),
    properties: Sequence[Mapping[str, Any]] = (),
) -> dict[str, Any]:
    """Make a required term."""
    made: dict[str, Any] = {}
    if labels or expressions:
        made["labelSelector"] = {"matchLabels": dict(labels or {}), "matchExpressions": list(expressions)}
    if properties:
        made["propertySelector"] = {"matchExpressions": list(properties)}
    return made


def prefer(
    weight: int,
    sorter: str | None = None,
    order: str = "Descending",
    *,
    labels: Mapping[str, str] | None = None,
    field: str = "propertySorter",
) -> dict[str, Any]:
    """Make a preferred term."""
    preference: dict[str, Any] = {}
    if labels is not None:
        preference["labelSelector"] = {"matchLabels": dict(labels)}
    if sorter is not None:
        preference[field] = {"name": sorter, "sortOrder": order}
    return {"weight": weight, "preference": preference}


def spread(key: str, max_skew: int | None = None, when: str | None = None) -> dict[str, Any]:
    """Make a topology spread constraint; None leaves the default."""
    constraint: dict[str, Any] = {"topologyKey": key}
    if max_skew is not None:
        constraint["maxSkew"] = max_skew
    if when is not None:
        constraint["whenUnsatisfiable"] = when
    return constraint


def policy(
    kind: str = "PickAll",
    number: int | None = None,
    *,
    names: Sequence[str] | None = None,
    required: Sequence[Mapping[str, Any]] | None = None,
    preferred: Sequence[Mapping[str, Any]] = (),
    constraints: Sequence[Mapping[str, Any]] = (),
    tolerations: Sequence[Mapping[str, Any]] = (),
) -> dict[str, Any]:
    """Make ``spec.policy``."""
    made: dict[str, Any] = {"placementType": kind}
    if number is not None:
        made["numberOfClusters"] = number
    if names is not None:
        made["clusterNames"] = list(names)
    affinity: dict[str, Any] = {}
    if required is not None:
        affinity["requiredDuringSchedulingIgnoredDuringExecution"] = {"clusterSelectorTerms": list(required)}
    if preferred:
        affinity["preferredDuringSchedulingIgnoredDuringExecution"] = list(preferred)
    if affinity:
        made["affinity"] = {"clusterAffinity": affinity}
    if constraints:
        made["topologySpreadConstraints"] = list(constraints)
    if tolerations:
        made["tolerations"] = list(tolerations)
    return made


def pick_n(number: int, **parts: Any) -> dict[str, Any]:
    return policy("PickN", number, **parts)


def pick_fixed(*names: str) -> dict[str, Any]:
    return policy("PickFixed", names=names)


def held(cluster: str, state: BindingState = BOUND, *, name: str = "", **facts: Any) -> Binding:
    """Make a binding on *cluster*, rolled out and of the current policy unless told otherwise."""
    return Binding(name or f"b-{cluster}", cluster, state, **facts)


def obsolete(cluster: str, state: BindingState = BOUND, **facts: Any) -> Binding:
    return held(cluster, state, current=False, **facts)


def run(
    wanted: Mapping[str, Any] | None,
    clusters: Iterable[MemberCluster] | Fleet,
    bindings: Iterable[Binding] = (),
    *,
    now: datetime = NOW,
    number: int | None = None,
    namespace: str = "",
) -> ScheduleResult:
    """Schedule a policy."""
    fleet = clusters if isinstance(clusters, Fleet) else Fleet.of(clusters)
    return schedule(read_request(wanted, number=number, namespace=namespace), fleet, bindings, now)


def picked(schedule_: ScheduleResult) -> list[str]:
    return [pick.cluster for pick in schedule_.picked]


def kept(schedule_: ScheduleResult) -> list[str]:
    return [binding.cluster for binding in schedule_.kept]


def dropped(schedule_: ScheduleResult) -> list[str]:
    return [binding.cluster for binding in schedule_.dropped]


NAMES = [f"port-{number}" for number in range(1, 15)]
"""Byte order is not number order among them."""

_LABELS = {
    "env": (None, "prod", "dev", ""),
    "region": (None, "north", "south", "west"),
    "day": (None, "mon", "tue"),
    "zone": ("z1", "z2", "z3", "z4"),
}
_COUNTS = (None, "0", "1", "3", "3.0", "5", "8", "20", "100", "junk", "-2")
_COSTS = (None, "0.031", "0.048", "0.05", "50m", "0.076", "NaN")
_CPU = (None, "10", "10000m", "24", "1500m", "64")
_TAINTS = ((), (), (), (("gpu", ""),), (("dock", "dry"),), (("gpu", ""), ("dock", "dry")))
_AILMENTS: tuple[Mapping[str, Any], ...] = (
    *({},) * 9,
    {"heartbeat": timedelta(minutes=14)},
    {"heartbeat": None},
    {"joined": "Unknown"},
    {"healthy": None},
    {"healthy": "False", "health_since": timedelta(minutes=9)},
    {"agents": ()},
    {"leaving": True},
)


@st.composite
def facts(draw: st.DrawFn, ill: bool = True) -> dict[str, Any]:
    """Draw what `make_cluster` takes beside the name."""
    labels = {key: draw(st.sampled_from(values)) for key, values in _LABELS.items()}
    properties = {NODES: draw(st.sampled_from(_COUNTS)), COST: draw(st.sampled_from(_COSTS))}
    cpu = draw(st.sampled_from(_CPU))
    drawn: dict[str, Any] = {
        "labels": {key: value for key, value in labels.items() if value is not None},
        "properties": {key: value for key, value in properties.items() if value is not None},
        "available": {} if cpu is None else {"cpu": cpu},
    }
    if ill:
        drawn |= {"taints": draw(st.sampled_from(_TAINTS)), **draw(st.sampled_from(_AILMENTS))}
        drawn |= draw(
            st.sampled_from([{}, {}, {"collects": "True"}, {"collects": "False", "namespaces": ("shop", "till")}])
        )
    return drawn


@st.composite
def members(draw: st.DrawFn, most: int = 12, ill: bool = True) -> list[MemberCluster]:
    """Draw member clusters of distinct names, in any order."""
    names = draw(st.permutations(NAMES))[: draw(st.integers(0, most))]
    return [make_cluster(name, **draw(facts(ill))) for name in names]


LABEL_EXPRESSIONS = st.one_of(
    st.builds(
        lambda key, operator, values: {"key": key, "operator": operator, "values": values},
        st.sampled_from(["env", "region", "nowhere"]),
        st.sampled_from(["In", "NotIn"]),
        st.lists(st.sampled_from(["prod", "dev", "", "north", "none"]), min_size=1, max_size=3, unique=True),
    ),
    st.builds(
        lambda key, operator: {"key": key, "operator": operator},
        st.sampled_from(["env", "region", "nowhere"]),
        st.sampled_from(["Exists", "DoesNotExist"]),
    ),
)
PROPERTY_EXPRESSIONS = st.builds(
    has,
    st.sampled_from([NODES, OLD_NODES, COST, AVAILABLE_CPU, "nothing"]),
    st.sampled_from(["Gt", "Ge", "Lt", "Le", "Eq", "Ne"]),
    st.sampled_from(["0", "3", "5", "0.05", "10", "48m", "1500m"]),
)
TERMS = st.builds(
    lambda labels, expressions, properties: term(labels, expressions=expressions, properties=properties),
    st.sampled_from([{}, {}, {"env": "prod"}]),
    st.lists(LABEL_EXPRESSIONS, max_size=1),
    st.lists(PROPERTY_EXPRESSIONS, max_size=2),
)
PREFERENCES = st.builds(
    prefer,
    st.integers(-100, 100),
    st.sampled_from([None, NODES, COST, AVAILABLE_CPU]),
    st.sampled_from(["Ascending", "Descending"]),
    labels=st.sampled_from([None, None, {}, {"env": "prod"}, {"region": "north"}]),
)
CONSTRAINTS = st.builds(
    spread,
    st.sampled_from(["region", "day", "zone", "nowhere"]),
    st.integers(1, 3),
    st.sampled_from(["DoNotSchedule", "ScheduleAnyway"]),
)
TOLERATIONS = st.sampled_from(
    [[], [{"key": "gpu", "operator": "Exists"}], [{"key": "dock", "value": "dry"}], [{"operator": "Exists"}]]
)


@st.composite
def pick_n_policies(draw: st.DrawFn, most: int = 8, constraints: int = 3) -> dict[str, Any]:
    """Draw a PickN policy that uses everything."""
    return pick_n(
        draw(st.integers(0, most)),
        required=draw(st.one_of(st.none(), st.lists(TERMS, max_size=3))),
        preferred=draw(st.lists(PREFERENCES, max_size=3)),
        constraints=draw(st.lists(CONSTRAINTS, max_size=constraints)),
        tolerations=draw(TOLERATIONS),
    )


@st.composite
def bindings_for(draw: st.DrawFn, clusters: Sequence[MemberCluster], most: int = 5) -> list[Binding]:
    """Draw bindings on some of *clusters*, at most one each, and one on a cluster that is gone."""
    names = [cluster.metadata.name for cluster in clusters] + ["gone"]
    drawn = []
    for name in draw(st.lists(st.sampled_from(names), unique=True, max_size=most)):
        scores: dict[str, Any] = draw(
            st.sampled_from([{}, {"topology": -1, "affinity": 40}, {"topology": 0, "affinity": 7}])
        )
        state = draw(st.sampled_from([BOUND, SCHEDULED, UNSCHEDULED]))
        previous = BOUND if state is UNSCHEDULED else None
        drawn.append(held(name, state, current=draw(st.booleans()), previous_state=previous, **scores))
    return drawn
