"""The heartbeat: the member's status, once per period.

The same status is written into an InternalMemberCluster, which the hub's controller reads, or directly into the
MemberCluster. The latter also gets the conditions that the hub would add.

Source: docs/specifications/scheduling.md 18 and 19; docs/specifications/rollout.md 21.1;
docs/specifications/placement-api.md 3.11.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from scorer.api.conditions import FALSE, TRUE, ConditionStatus, make_condition, merge_conditions
from scorer.api.kinds import INTERNAL_MEMBER_CLUSTER, MEMBER_CLUSTER, Kind
from scorer.api.meta import JsonObject, format_time
from scorer.api.names import MEMBER_AGENT
from scorer.api.unstructured.documents import dicts_at, status_of
from scorer.api.values.quoting import format_count
from scorer.membership.heartbeats import NAMESPACE_LIMIT
from scorer.membership.identity import DISCOVERED_WORKS, IDENTITY_ACCEPTED, REMOVE_APPLIED_WORK
from webhook.kube.ports import ConflictError, Key, Store

JITTER = 0.05
"""Maximum deviation of a heartbeat, as a share of the period."""

MOST_ATTEMPTS = 3
"""Maximum attempts of a heartbeat while other clients write the same object."""

MOST_NAMED = 10
"""Maximum number of AppliedWorks without a Work that a message names."""

_TO_REMOVE = (
    f". A Work of the same name adopts them again. To remove the objects of an AppliedWork, {REMOVE_APPLIED_WORK}"
)

LONGEST_MESSAGE = 1024
"""Maximum number of characters of a condition's message."""


@dataclass(frozen=True, slots=True)
class Statement:
    """A condition that a source of properties reports about itself."""

    type: str
    status: ConditionStatus
    reason: str
    message: str


@dataclass(frozen=True, slots=True)
class HeartbeatFigures:
    """Data collected from the member for one heartbeat.

    Args:
        properties: Property name to value.
        capacity, allocatable, available: Resource name to quantity, summed over the nodes.
        namespaces: Namespace to the Work that created it, or to an empty string. None: unknown, not collected.
        healthy: Whether the member's API server answers ``/readyz``.
        problem: Reason why the properties could not be collected, empty on success.
        problem_reason: The reason of the condition that shows *problem*.
        ailment: Answer of the API server when it was not ready.
        remark: Added to the message of a successful collection.
        statements: Further conditions, after those of the collection.
        observed: Time of the collection. None means the time of the heartbeat.
        keeps_others: Whether to keep properties of the last report that *properties* lacks.
        usage_known: Whether the sums are known. If False, the sums of the last report are kept.
        without_work: AppliedWorks without a Work on the hub, with the number of their objects. None: unknown.
        namespace_contents: Namespace to the counts of its content. None: unknown, not collected.
    """

    properties: Mapping[str, str] = field(default_factory=dict)
    capacity: Mapping[str, str] = field(default_factory=dict)
    allocatable: Mapping[str, str] = field(default_factory=dict)
    available: Mapping[str, str] = field(default_factory=dict)
    namespaces: Mapping[str, str] | None = None
    healthy: bool = True
    problem: str = ""
    problem_reason: str = "Failed"
    ailment: str = ""
    remark: str = ""
    statements: tuple[Statement, ...] = ()
    observed: datetime | None = None
    keeps_others: bool = False
    usage_known: bool = True
    without_work: Mapping[str, int] | None = None
    namespace_contents: Mapping[str, JsonObject] | None = None


def next_heartbeat(now: datetime, period_seconds: int, jitter: float) -> datetime:
    """Return when the heartbeat after one at *now* is due.

    Args:
        now: Time of the last heartbeat.
        period_seconds: ``spec.heartbeatPeriodSeconds``.
        jitter: -1 for as early as allowed, 1 for as late.
    """
    return now + timedelta(seconds=period_seconds * (1 + JITTER * jitter))


def heartbeat_status(
    kind: Kind,
    old: Mapping[str, Any],
    figures: HeartbeatFigures,
    now: datetime,
    *,
    generation: int,
    is_joined: bool = True,
) -> JsonObject:
    """Return the ``status`` that a heartbeat stores.

    Args:
        kind: MemberCluster or InternalMemberCluster.
        old: The stored status, for the transition times. Agents of other types keep their entries.
        figures: The collected data.
        now: The time of the heartbeat.
        generation: Generation of the object.
        is_joined: False for the last report of an agent that leaves.
    """
    at = format_time(now)
    agents = dicts_at(old, "agentStatus")
    ours = next((agent for agent in agents if agent.get("type") == MEMBER_AGENT), {})
    agent = {
        "type": MEMBER_AGENT,
        "conditions": merge_conditions(
            ours.get("conditions") or (),
            _agent_conditions(figures, is_joined=is_joined, generation=generation, now=now),
        ),
        "lastReceivedHeartbeat": at,
    }
    conditions = _collection_conditions(figures, generation, now)
    previous = {condition.get("type"): condition for condition in old.get("conditions") or ()}
    if figures.without_work is None:
        conditions += [previous[DISCOVERED_WORKS]] if DISCOVERED_WORKS in previous else []
    elif figures.without_work or DISCOVERED_WORKS in previous:
        conditions.append(_works_found(figures.without_work, generation, now))
    if IDENTITY_ACCEPTED in previous:
        reason = "this cluster is recorded as the member"
        conditions.append(make_condition(IDENTITY_ACCEPTED, TRUE, "Recorded", reason, generation=generation, now=now))
    if kind == MEMBER_CLUSTER:
        conditions = _cluster_conditions(is_joined=is_joined, generation=generation, now=now) + conditions
    status: JsonObject = {
        "conditions": merge_conditions(old.get("conditions") or (), conditions),
        "properties": _properties(old, figures, format_time(figures.observed or now)),
        "resourceUsage": _usage(old, figures, at),
        "agentStatus": [agent, *(other for other in agents if other.get("type") != MEMBER_AGENT)],
    }
    if figures.namespaces is not None:
        status["namespaces"] = dict(sorted(figures.namespaces.items())[:NAMESPACE_LIMIT])
    if figures.namespace_contents is not None:
        status["namespaceContents"] = dict(figures.namespace_contents)
    return status


def _properties(old: Mapping[str, Any], figures: HeartbeatFigures, at: str) -> JsonObject:
    properties = {name: {"value": value, "observationTime": at} for name, value in figures.properties.items()}
    other_properties = (old.get("properties") or {}) if figures.keeps_others else {}
    return dict(sorted({**other_properties, **properties}.items()))


def _usage(old: Mapping[str, Any], figures: HeartbeatFigures, at: str) -> JsonObject:
    if not figures.usage_known:
        return dict(old.get("resourceUsage") or {})
    return {
        "capacity": dict(figures.capacity),
        "allocatable": dict(figures.allocatable),
        "available": dict(figures.available),
        "observationTime": at,
    }


async def report(
    hub: Store, kind: Kind, key: Key, figures: HeartbeatFigures, now: datetime, *, is_joined: bool = True
) -> JsonObject:
    """Write one heartbeat into the status of the object, and return the object as stored.

    The write carries the resourceVersion that was read. If another client wrote in between, the hub rejects it, and the
    heartbeat is retried on a fresh read. It therefore never overwrites the hub's part of the status with an older one.

    Raises:
        NotFoundError: The object was deleted: the member has left.
        ConflictError: Other clients wrote the object during every attempt.
        StoreError: The hub refused the request or did not respond.
    """
    for _ in range(MOST_ATTEMPTS - 1):
        try:
            return await _report(hub, kind, key, figures, now, is_joined=is_joined)
        except ConflictError:
            continue
    return await _report(hub, kind, key, figures, now, is_joined=is_joined)


async def _report(
    hub: Store, kind: Kind, key: Key, figures: HeartbeatFigures, now: datetime, *, is_joined: bool
) -> JsonObject:
    document = await hub.get(kind, key)
    generation = document["metadata"].get("generation", 0)
    status = heartbeat_status(kind, status_of(document), figures, now, generation=generation, is_joined=is_joined)
    return await hub.replace_status(kind, {**document, "status": status})


async def report_refusal(hub: Store, key: Key, reason: str, message: str, now: datetime) -> None:
    """Report in a condition of an InternalMemberCluster why the agent does not accept this cluster as the member.

    This is not a heartbeat: an agent on the wrong cluster knows nothing about the member. A no-op if already reported.

    Raises:
        StoreError: The hub refused the request or did not respond.
    """
    document = await hub.get(INTERNAL_MEMBER_CLUSTER, key)
    old = status_of(document)
    generation = document["metadata"].get("generation", 0)
    condition = make_condition(
        IDENTITY_ACCEPTED, FALSE, reason, message[:LONGEST_MESSAGE], generation=generation, now=now
    )
    conditions = old.get("conditions") or ()
    others = [condition for condition in conditions if condition.get("type") != IDENTITY_ACCEPTED]
    desired = [*others, *merge_conditions(conditions, [condition])]
    if desired != list(conditions):
        await hub.replace_status(INTERNAL_MEMBER_CLUSTER, {**document, "status": {**old, "conditions": desired}})


def _agent_conditions(
    figures: HeartbeatFigures, *, is_joined: bool, generation: int, now: datetime
) -> list[JsonObject]:
    def condition_of(kind: str, good: bool, reasons: tuple[str, str], messages: tuple[str, str]) -> JsonObject:
        status, index = (TRUE, 0) if good else (FALSE, 1)
        return make_condition(kind, status, reasons[index], messages[index], generation=generation, now=now)

    return [
        condition_of(
            "Joined",
            is_joined,
            ("InternalMemberClusterJoined", "InternalMemberClusterLeft"),
            ("the agent applies Works", "the agent has left and does not apply Works"),
        ),
        condition_of(
            "Healthy",
            figures.healthy,
            ("InternalMemberClusterHealthy", "InternalMemberClusterUnhealthy"),
            ("the API server is ready", f"the API server is not ready{_detail(figures.ailment)}"),
        ),
    ]


def _cluster_conditions(*, is_joined: bool, generation: int, now: datetime) -> list[JsonObject]:
    if is_joined:
        pairs = (
            ("ReadyToJoin", TRUE, "MemberClusterReadyToJoin", "the hub is ready for the agent"),
            ("Joined", TRUE, "MemberClusterJoined", "all agents have joined"),
        )
    else:
        pairs = (
            ("ReadyToJoin", FALSE, "MemberClusterNotReadyToJoin", "the member is leaving"),
            ("Joined", FALSE, "MemberClusterLeft", "all agents have left"),
        )
    return [
        make_condition(kind, status, reason, message, generation=generation, now=now)
        for kind, status, reason, message in pairs
    ]


def _collection_conditions(figures: HeartbeatFigures, generation: int, now: datetime) -> list[JsonObject]:
    good = not figures.problem
    condition = [
        make_condition(
            "ClusterPropertyCollectionSucceeded",
            TRUE if good else FALSE,
            "Succeeded" if good else figures.problem_reason,
            (figures.problem or f"all properties were collected{_detail(figures.remark)}")[:LONGEST_MESSAGE],
            generation=generation,
            now=now,
        )
    ]
    if figures.namespaces is not None:
        count = len(figures.namespaces)
        complete = count <= NAMESPACE_LIMIT
        message = (
            format_count(count, "namespace") if complete else f"{NAMESPACE_LIMIT} of {count} namespaces are listed"
        )
        status, reason = (TRUE, "Succeeded") if complete else (FALSE, "Degraded")
        condition.append(
            make_condition("NamespaceCollectionSucceeded", status, reason, message, generation=generation, now=now)
        )
    condition += [
        make_condition(
            statement.type,
            statement.status,
            statement.reason,
            statement.message[:LONGEST_MESSAGE],
            generation=generation,
            now=now,
        )
        for statement in figures.statements
    ]
    return condition


def _works_found(without_work: Mapping[str, int], generation: int, now: datetime) -> JsonObject:
    if not without_work:
        reason = "each AppliedWork on this cluster has a Work on the hub"
        return make_condition(DISCOVERED_WORKS, TRUE, "WorksFound", reason, generation=generation, now=now)
    names = sorted(without_work)
    names_text = ", ".join(names[:MOST_NAMED]) + (
        f" and {len(names) - MOST_NAMED} more" if len(names) > MOST_NAMED else ""
    )
    have, own = ("has", "owns") if len(names) == 1 else ("have", "own")
    reason = (
        f"{format_count(len(names), 'AppliedWork')} on this cluster {have} no Work on the hub, and {own} "
        f"{format_count(sum(without_work.values()), 'object')} no longer placed: {names_text}"
    )
    reason = f"{reason[: LONGEST_MESSAGE - len(_TO_REMOVE)]}{_TO_REMOVE}"
    return make_condition(DISCOVERED_WORKS, FALSE, "WorksMissing", reason, generation=generation, now=now)


def _detail(text: str) -> str:
    return f": {text}" if text else ""
