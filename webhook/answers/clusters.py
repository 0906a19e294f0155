"""Member clusters as in ``GET /v1/clusters``: every state with its reason."""

from collections.abc import Iterable
from datetime import datetime
from typing import Annotated, Final, Literal, NotRequired

from typing_extensions import TypedDict

from scorer.api.cluster.member_cluster import MemberCluster
from scorer.api.cluster.scores import read_score, score_names
from scorer.api.conditions import FALSE, Condition
from scorer.api.family import FAMILIES
from scorer.api.meta import format_time
from scorer.api.names import MEMBER_AGENT
from scorer.api.unstructured.documents import (
    is_deleting,
)
from scorer.api.values.answer import Instant, one_of
from scorer.api.values.duration import format_duration
from scorer.api.values.quantity import read_quantity
from scorer.fleet import Fleet
from scorer.framework.status import Category, FilterRejection
from scorer.member_gate.holds import MemberDisruption
from scorer.membership.refused_content import CONTENT_APPLIED
from scorer.plugins.cluster_eligibility import ineligibility
from scorer.properties import NODE_COUNT, observation_time, read_property
from webhook.answers.upkeep import ClusterUpkeep
from webhook.kube.cache.informer import Cache

_STATES = {
    Category.CLUSTER_LEAVING: "leaving",
    Category.AGENT_NOT_REPORTING: "not reporting",
    Category.HEARTBEAT_STALE: "silent",
    Category.AGENT_NOT_JOINED: "not joined",
    Category.HEALTH_UNKNOWN: "health unknown",
    Category.CLUSTER_UNHEALTHY: "unhealthy",
}


REFUSING: Final = "refusing"
"""State of an eligible cluster that refuses all content."""


class ClusterTaint(TypedDict):
    """A taint. It repels new placements without a matching toleration."""

    key: str
    value: str
    effect: str


class ReportedProperty(TypedDict):
    """A property as the cluster's agent reports it, or an external score, from an annotation."""

    value: str
    """Value as reported. For an unreadable score, its raw text."""
    observedAt: Instant | None
    """Null if unknown."""
    unreadable: NotRequired[Literal[True]]
    """The property is a score that cannot be read."""
    validUntil: NotRequired[Instant]
    """Expiration time of an external score, past or future."""
    expired: NotRequired[Literal[True]]
    """The score has expired, and no longer counts."""


class Capacity(TypedDict):
    """One resource, summed over the nodes."""

    available: str
    allocatable: str
    ratio: float | None
    """Ratio of `available` to `allocatable`."""


class MemberHold(TypedDict):
    """A current disruption of a cluster. Other disruptions wait for it."""

    kind: Annotated[str, one_of(*MemberDisruption, "")]
    """Kind of disruption, empty for a reservation with an unknown purpose."""
    by: str
    """Such as `upgrade/kubernetes-1-31`. Empty: unknown, or not listable by the caller."""
    message: str
    until: NotRequired[Instant]
    """When it ends by itself. Absent: it ends when the work is done."""


class Cluster(TypedDict):
    """One member cluster as the engine sees it."""

    name: str
    state: Annotated[str, one_of("eligible", REFUSING, *_STATES.values())]
    """State in one or two words. Refusing: eligible, but none of the objects placed there could be applied."""
    stateDetail: str
    """Human-readable reason, empty in state `eligible`."""
    refusingSince: NotRequired[Instant]
    """Only in state `refusing`."""
    eligible: bool
    reason: Annotated[str, one_of("", *_STATES)]
    """The reason as a category, empty for eligible clusters."""
    labels: dict[str, str]
    taints: list[ClusterTaint]
    lastHeartbeat: Instant | None
    properties: dict[str, ReportedProperty]
    """By name."""
    nodes: int | None
    cpu: Capacity | None
    memory: Capacity | None
    placements: list[str]
    """References of the placements on it, such as `crp/payments`."""
    upkeep: NotRequired[ClusterUpkeep]
    """Absent: unknown."""
    holds: NotRequired[list[MemberHold]]
    """Only in the response for a single cluster. Absent there: not disrupted."""


def clusters_view(cache: Cache, names: Iterable[str], now: datetime) -> list[Cluster]:
    """Return the existing member clusters of *names*, in that order."""
    placements = _placements_by_cluster(cache)
    fleet = cache.fleet
    rows = ((name, fleet.row(name)) for name in names)
    return [_cluster(fleet, row, placements.get(name, []), now) for name, row in rows if row is not None]


def _placements_by_cluster(cache: Cache) -> dict[str, list[str]]:
    names_by_cluster: dict[str, set[str]] = {}
    for family in FAMILIES:
        for binding in cache.list(family.binding):
            if not is_deleting(binding) and binding["spec"].get("state") != "Unscheduled":
                names_by_cluster.setdefault(binding["spec"]["targetCluster"], set()).add(str(family.parent(binding)))
    return {cluster: sorted(refs) for cluster, refs in names_by_cluster.items()}


def _cluster(fleet: Fleet, row: int, placements: list[str], now: datetime) -> Cluster:
    member = fleet.members[row]
    rejection = ineligibility(fleet, row, now)
    refusal = next(filter(_is_refusal, member.status.conditions), None)
    agent = next((agent for agent in member.status.agent_status if agent.type == MEMBER_AGENT), None)
    heartbeat = agent.last_received_heartbeat if agent else None
    nodes = read_property(member, NODE_COUNT)
    view: Cluster = {
        "name": member.metadata.name,
        "state": _STATES[rejection.category] if rejection else REFUSING if refusal else "eligible",
        "stateDetail": _detail(fleet, rejection) if rejection else refusal.message if refusal else "",
        "eligible": rejection is None,
        "reason": str(rejection.category) if rejection else "",
        "labels": member.metadata.labels,
        "taints": [{"key": taint.key, "value": taint.value, "effect": taint.effect} for taint in member.spec.taints],
        "lastHeartbeat": format_time(heartbeat) if heartbeat else None,
        "properties": _properties(member, now),
        "nodes": int(nodes.quantity.number) if nodes and nodes.quantity else None,
        "cpu": _capacity(member, "cpu"),
        "memory": _capacity(member, "memory"),
        "placements": placements,
    }
    if view["state"] == REFUSING and refusal is not None and refusal.last_transition_time is not None:
        view["refusingSince"] = format_time(refusal.last_transition_time)
    return view


def _is_refusal(condition: Condition) -> bool:
    return condition.type == CONTENT_APPLIED and condition.status == FALSE


def _detail(fleet: Fleet, rejection: FilterRejection) -> str:
    """Return why a cluster is not eligible, without an age: the view has the time of the last heartbeat."""
    if rejection.category is Category.HEARTBEAT_STALE:
        return f"no heartbeat within {format_duration(fleet.limits.heartbeat)}"
    return rejection.message


def _properties(member: MemberCluster, now: datetime) -> dict[str, ReportedProperty]:
    properties: dict[str, ReportedProperty] = {}
    for name, value in member.status.properties.items():
        observed = observation_time(member, name)
        properties[name] = {
            "value": value.value,
            "observedAt": format_time(observed) if observed else None,
        }
    for name in score_names(member.metadata.annotations):
        properties[name] = _external_score(member, name, now)
    return dict(sorted(properties.items()))


def _external_score(member: MemberCluster, name: str, now: datetime) -> ReportedProperty:
    """Return an external score, its expiration time, and whether it has expired."""
    reading, score = read_property(member, name), read_score(member.metadata.annotations, name)
    entry: ReportedProperty = {"value": reading.text if reading else "", "observedAt": None}
    if score is None:
        entry["unreadable"] = True
        return entry
    if score.valid_until is None:
        return entry
    entry["validUntil"] = format_time(score.valid_until)
    if score.valid_until < now:
        entry["expired"] = True
    return entry


def _capacity(member: MemberCluster, resource: str) -> Capacity | None:
    usage = member.status.resource_usage
    available, allocatable = usage.available.get(resource), usage.allocatable.get(resource)
    if available is None or allocatable is None:
        return None
    free, total = read_quantity(str(available)), read_quantity(str(allocatable))
    ratio = free.nano / total.nano if free and total and total.nano else None
    return {"available": str(available), "allocatable": str(allocatable), "ratio": ratio}
