"""Status of a MemberCluster: the reports of its agents, and whether the member has joined.

Copied from the InternalMemberCluster: agents, resource usage, properties, namespaces and further conditions. Two fields
are converted: ``observedGeneration`` becomes the MemberCluster's, and times become the hub's
(`scorer.membership.heartbeats`): the transition time of a condition is the arrival of the heartbeat that reported the
change.

A report that no reader of the MemberCluster could read is not copied: see `_problem_of`.

An InternalMemberCluster without an agent's report contributes nothing. When it replaces one that a user deleted by
hand, the MemberCluster keeps the earlier report, whose heartbeat ages. The agent does not remember the problems that it
has reported. Its next report therefore removes the conditions of all problems that this report does not contain.

Source: docs/specifications/rollout.md 17 and 21.1; docs/specifications/scheduling.md 19.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final

from pydantic import ValidationError

from scorer.api.cluster.member_cluster import MemberClusterStatus
from scorer.api.cluster.member_state import DEFAULT_HEARTBEAT_PERIOD_SECONDS
from scorer.api.conditions import FALSE, TRUE, UNKNOWN, make_condition, merge_conditions
from scorer.api.meta import JsonObject, format_time, read_instant
from scorer.api.names import MEMBER_AGENT
from scorer.api.unstructured.documents import dicts_at, spec_of, status_of, text_at
from scorer.api.values.field_path import FieldPath
from scorer.membership.heartbeats import Heartbeats, agents_of
from scorer.membership.identity import DISCOVERED_WORKS, IDENTITY_ACCEPTED
from scorer.membership.missed_heartbeats import REPORTING, silence
from scorer.membership.refused_content import CONTENT_APPLIED, content_condition

JOINED: Final = "Joined"
READY_TO_JOIN: Final = "ReadyToJoin"
EXPECTED_AGENTS: Final = frozenset({MEMBER_AGENT})
"""Types of agents that every member must have."""

_REPORTS: Final = ("properties", "resourceUsage", "namespaces", "namespaceContents")
_WARNED: Final = frozenset({REPORTING, CONTENT_APPLIED})
"""Conditions whose first occurrence as False is reported as a warning."""
_TROUBLES: Final = frozenset({IDENTITY_ACCEPTED, DISCOVERED_WORKS})
"""Conditions that an agent reports only after the first problem."""


@dataclass(frozen=True, slots=True)
class MemberEvent:
    """An event to record about a MemberCluster."""

    reason: str
    message: str
    warning: bool = False


@dataclass(frozen=True, slots=True)
class MemberReport:
    """The status to store, the events to record, and the interval until the next check for missed heartbeats."""

    status: JsonObject
    events: tuple[MemberEvent, ...] = ()
    again: timedelta | None = None


def joined_state(status: Mapping[str, Any], expected: Iterable[str] = EXPECTED_AGENTS) -> tuple[bool | None, str]:
    """Return whether the expected agents have joined (True), have left (False), or neither (None), and why.

    Args:
        status: Status with ``agentStatus``. Agents that are not expected do not count.
        expected: Types of agents.
    """
    agents = {agent["type"]: agent for agent in agents_of(status)}
    states = set()
    for kind in sorted(expected):
        if kind not in agents:
            return None, f"{kind} has not reported"
        condition = next((entry for entry in _conditions(agents[kind]) if entry.get("type") == JOINED), None)
        if condition is None:
            return None, f"{kind} has not reported whether it has joined"
        states.add(condition.get("status"))
    if states == {TRUE}:
        return True, "all agents have joined"
    if states == {FALSE}:
        return False, "all agents have left"
    return None, "not all agents report that they have joined"


def member_status(
    member: JsonObject,
    internal: JsonObject | None,
    heartbeats: Heartbeats,
    now: datetime,
    *,
    problem: str = "",
    expected: Iterable[str] = EXPECTED_AGENTS,
    since: datetime | None = None,
    works: Iterable[JsonObject] = (),
) -> MemberReport:
    """Return the status of a member.

    Args:
        member: The MemberCluster.
        internal: InternalMemberCluster of the member, None if it does not exist.
        heartbeats: Arrival times of the heartbeats, from `scorer.membership.heartbeats.record_heartbeats`.
        now: The time by the hub's clock.
        problem: Reason why the hub cannot give the agent access. Empty: it can.
        expected: Types of agents that the member must have.
        since: Time at which this process started to watch. None: disabled, silence is not evaluated.
        works: Works of the member.
    """
    old: JsonObject = status_of(member)
    generation = int(member["metadata"].get("generation") or 0)
    report = status_of(internal or {})
    if unreadable := _problem_of(report):
        report = {}
    source = report if any(agents_of(report)) else {}
    agents = [*_agents(source or old, old, heartbeats, generation, now)]
    status = {name: value for name, value in old.items() if name not in ("conditions", "agentStatus", *_REPORTS)}
    status |= {name: (source or old)[name] for name in _REPORTS if name in (source or old)}
    if agents:
        status["agentStatus"] = agents
    is_joined, reason = joined_state(status, expected)
    own = [*_own_conditions((is_joined, reason), problem, generation, now)]
    requeue_after = None
    if is_joined and since is not None:
        condition, requeue_after = silence(
            status | {"conditions": _conditions(old)},
            since,
            generation,
            now,
            period=_period(member),
            identity=_identity(member),
        )
        own += [] if condition is None else [condition]
    if is_joined:
        content = content_condition(works, _conditions(old), generation, now)
        own += [] if content is None else [content]
    names = {entry["type"] for entry in own}
    arrival = heartbeats[MEMBER_AGENT].received if MEMBER_AGENT in heartbeats else now
    extra = [entry for entry in _conditions(report) if entry.get("type") not in names]
    old_conditions = _conditions(old)
    new = [*merge_conditions(old_conditions, own), *_received_conditions(extra, old_conditions, generation, arrival)]
    replaced_types = {entry["type"] for entry in new} | (_TROUBLES if any(agents_of(report)) else set())
    status["conditions"] = [*new, *(entry for entry in old_conditions if entry.get("type") not in replaced_types)]
    unreadable_event = [MemberEvent("UnreadableReport", f"ignored: {unreadable}", warning=True)] if unreadable else []
    return MemberReport(status, (*unreadable_event, *_events(old_conditions, own)), requeue_after)


def _period(member: JsonObject) -> timedelta:
    seconds = spec_of(member).get("heartbeatPeriodSeconds")
    return timedelta(seconds=seconds if isinstance(seconds, int) else DEFAULT_HEARTBEAT_PERIOD_SECONDS)


def _identity(member: JsonObject) -> str:
    return " ".join(filter(None, (text_at(member, "spec", "identity", field) for field in ("kind", "name"))))


def _problem_of(report: Mapping[str, Any]) -> str:
    """Return why the report of an agent cannot be read. Empty: it can.

    An API server accepts instants that no program here can read, such as ``0000-01-01T00:00:00Z``. The scheduler keeps
    the last state of a MemberCluster that it cannot read, with its labels and taints. An agent that reported such an
    instant could therefore keep labels and taints that the hub has since removed.
    """
    try:
        MemberClusterStatus.read(report)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        return f"{FieldPath.of('status', *first['loc'])}: {first['msg']}"
    return ""


def _agents(
    source: Mapping[str, Any], old: Mapping[str, Any], heartbeats: Heartbeats, generation: int, now: datetime
) -> Iterator[JsonObject]:
    old_agents = {agent["type"]: agent for agent in agents_of(old)}
    for agent in agents_of(source):
        previous, beat = old_agents.get(agent["type"], {}), heartbeats.get(agent["type"])
        report = {name: value for name, value in agent.items() if name != "lastReceivedHeartbeat"}
        if beat is not None:
            report["lastReceivedHeartbeat"] = format_time(beat.received)
        elif source is old and "lastReceivedHeartbeat" in agent:
            report["lastReceivedHeartbeat"] = agent["lastReceivedHeartbeat"]
        arrival = beat.received if beat is not None else now
        if "conditions" in agent:
            report["conditions"] = _received_conditions(_conditions(agent), _conditions(previous), generation, arrival)
        yield report


def _received_conditions(
    conditions: Iterable[Mapping[str, Any]],
    old_conditions: Iterable[Mapping[str, Any]],
    generation: int,
    arrival: datetime,
) -> list[JsonObject]:
    """Return conditions as the hub stores them: with the MemberCluster's generation and the time of the hub.

    Args:
        conditions: Conditions as the agent wrote them.
        old_conditions: Conditions as the hub stored them.
        generation: Generation of the MemberCluster.
        arrival: Time at which the report arrived, by the hub's clock.
    """
    previous = {entry.get("type"): entry for entry in old_conditions}
    stored_conditions = []
    for entry in conditions:
        at = arrival
        if entry.get("type") not in previous and (time := read_instant(entry.get("lastTransitionTime"))) is not None:
            # A new condition: the hub only knows the agent's time, and that the change was not later than the report.
            at = min(arrival, time)
        stored_conditions.append({**entry, "observedGeneration": generation, "lastTransitionTime": format_time(at)})
    return merge_conditions(previous.values(), stored_conditions)


def _own_conditions(
    join_state: tuple[bool | None, str], problem: str, generation: int, now: datetime
) -> Iterator[JsonObject]:
    state, message = join_state
    if problem:
        ready = (FALSE, "MemberClusterNotReadyToJoin", problem)
    elif state is False:
        ready = (FALSE, "MemberClusterNotReadyToJoin", "the member is leaving")
    else:
        ready = (TRUE, "MemberClusterReadyToJoin", "the hub is ready for the agent")
    yield make_condition(READY_TO_JOIN, *ready, generation=generation, now=now)
    status, reason = {
        True: (TRUE, "MemberClusterJoined"),
        False: (FALSE, "MemberClusterLeft"),
        None: (UNKNOWN, "MemberClusterJoinStateUnknown"),
    }[state]
    yield make_condition(JOINED, status, reason, message, generation=generation, now=now)


def _events(old_conditions: Iterable[Mapping[str, Any]], own: Iterable[JsonObject]) -> Iterator[MemberEvent]:
    """Yield an event for each change of state that is worth one.

    A member whose agents have never reported causes no warning. A member whose agents had joined or left does.
    """
    previous = {entry.get("type"): entry.get("status") for entry in old_conditions}
    for entry in own:
        old_state, new_state = previous.get(entry["type"]), entry["status"]
        if old_state == new_state or (new_state == FALSE and entry["type"] not in _WARNED):
            continue
        if entry["type"] == REPORTING and UNKNOWN in (old_state, new_state) and new_state != FALSE:
            continue  # missed heartbeats are not reported as an event
        if new_state == TRUE:
            yield MemberEvent(entry["reason"], entry["message"])
        elif old_state is not None or entry["type"] in _WARNED:
            yield MemberEvent(entry["reason"], entry["message"], warning=True)


def _conditions(status: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    return [entry for entry in dicts_at(status, "conditions") if entry.get("type")]
