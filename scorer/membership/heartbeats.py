"""Time at which a heartbeat was received, by the hub's clock, because an agent's clock may be wrong.

An agent writes its own time into the InternalMemberCluster. The MemberCluster stores the hub's time, which scheduling
uses:

* a heartbeat that differs from the last recorded one was received **now**. An unchanged one keeps its time.
* when this process first receives a heartbeat of an agent, and an earlier one is stored (the hub was restarted,
  or another replica became the leader), the time of arrival is unknown. The stored time is then advanced by as much as
  the agent's own clock advanced between the two reports (``resourceUsage.observationTime`` of both), at most to now. A
  constant clock error does no harm, a member that died while no hub was running keeps its age, and an agent that does
  not report its clock keeps the stored time until its next heartbeat.
* for an agent's very first heartbeat, the hub uses the agent's time, at most now. If the agent's clock is slow, the
  heartbeat looks too old by that amount, for one period.

The caller keeps a `Heartbeats` record per member. Losing the record has the effect of a restart. A replica that becomes
the leader must start with an empty record: while another replica was the leader, its record was not updated.

Source: docs/specifications/scheduling.md 5 and 19.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final, TypeAlias

from scorer.api.meta import read_instant
from scorer.api.names import MEMBER_AGENT
from scorer.api.unstructured.documents import dicts_at, text_at

NAMESPACE_LIMIT: Final = 200
"""Maximum number of namespaces in the report of an agent. If the member has more, the report is incomplete."""


@dataclass(frozen=True, slots=True)
class Heartbeat:
    """One heartbeat.

    Args:
        sent: ``lastReceivedHeartbeat`` as the agent wrote it.
        received: Time at which the hub received it, by the hub's clock.
    """

    sent: str
    received: datetime


Heartbeats: TypeAlias = Mapping[str, Heartbeat]
"""The last heartbeat of each agent, by the type of agent."""


def record_heartbeats(
    report: Mapping[str, Any], status: Mapping[str, Any], heartbeats: Heartbeats, now: datetime
) -> Heartbeats:
    """Return *heartbeats* updated with the heartbeats of a report.

    Args:
        report: ``status`` of the InternalMemberCluster.
        status: ``status`` of the MemberCluster.
        heartbeats: The record of this process so far.
        now: The time by the hub's clock.
    """
    agents = {agent["type"]: agent for agent in agents_of(status)}
    new_heartbeats = dict(heartbeats)
    for agent in agents_of(report):
        kind, sent_text = agent["type"], agent.get("lastReceivedHeartbeat")
        if not isinstance(sent_text, str) or (time := read_instant(sent_text)) is None:
            continue
        previous = heartbeats.get(kind)
        if previous is not None:
            new_heartbeats[kind] = previous if previous.sent == sent_text else Heartbeat(sent_text, now)
            continue
        last = read_instant(agents.get(kind, {}).get("lastReceivedHeartbeat"))
        shift = _clock_advance(report, status) if kind == MEMBER_AGENT else timedelta()
        new_heartbeats[kind] = Heartbeat(sent_text, min(now, time if last is None else last + shift))
    return new_heartbeats


def agents_of(status: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """Yield the entries of ``agentStatus`` that name their type, the first of each type."""
    types = set()
    for agent in dicts_at(status, "agentStatus"):
        kind = agent.get("type")
        if isinstance(kind, str) and kind not in types:
            types.add(kind)
            yield agent


def _clock_advance(report: Mapping[str, Any], stored: Mapping[str, Any]) -> timedelta:
    """Return the advance of the agent's clock between two reports. Zero: unknown, or the clock was set back."""
    earlier, later = (read_instant(text_at(status, "resourceUsage", "observationTime")) for status in (stored, report))
    return max(timedelta(), later - earlier) if earlier is not None and later is not None else timedelta()
