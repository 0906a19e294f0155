"""When a heartbeat was received, by the hub's clock: clocks of agents may be wrong.

An agent writes its own time into the InternalMemberCluster. What is stored in the MemberCluster, and what scheduling
judges a member by, is the hub's:

* a heartbeat that differs from the one heard before was received **now**; the same one keeps its time;
* of the first heartbeat heard by this process of an agent that is stored with an earlier one (the hub was restarted,
  or another replica leads), nobody knows when it came. The stored time counts, moved on by as much as the agent's own
  clock has between the two reports (``resourceUsage.observationTime`` of either), at most to now. A clock that is
  wrong by a constant does no harm, a member that died while no hub was running stays as old as it is, and an agent
  that says nothing of its clock keeps the stored time until its next heartbeat;
* of the very first heartbeat of all, the agent's word is taken, at most now. An agent whose clock is slow is taken
  for older than it is by that much, for one period.

What is heard is kept by the caller, as a `Heard` per member. Losing it is a restart; keeping it while somebody
else listened is a mistake: whoever starts to lead begins with nothing heard.

Source: scheduling.md 5 and 19.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, TypeAlias

from scorer.api.documents import dicts_at, text_at
from scorer.api.member_cluster import MEMBER_AGENT
from scorer.api.meta import parse_time


@dataclass(frozen=True, slots=True)
class Heartbeat:
    """One heartbeat.

    Args:
        sent: ``lastReceivedHeartbeat`` as the agent wrote it.
        received: When the hub heard it, by the hub's clock.
    """

    sent: str
    received: datetime


Heard: TypeAlias = Mapping[str, Heartbeat]
"""The last heartbeat of each agent, by the type of agent."""


def hear(reported: Mapping[str, Any], stored: Mapping[str, Any], heard: Heard, now: datetime) -> Heard:
    """Return what has been heard by now.

    Args:
        reported: ``status`` of the InternalMemberCluster.
        stored: ``status`` of the MemberCluster.
        heard: What this process had heard before.
        now: The hub's clock.
    """
    before = {agent["type"]: agent for agent in agents_of(stored)}
    found = dict(heard)
    for agent in agents_of(reported):
        kind, sent = agent["type"], agent.get("lastReceivedHeartbeat")
        if not isinstance(sent, str) or (said := read_time(sent)) is None:
            continue
        known = heard.get(kind)
        if known is not None:
            found[kind] = known if known.sent == sent else Heartbeat(sent, now)
            continue
        last = read_time(before.get(kind, {}).get("lastReceivedHeartbeat"))
        moved = _moved(reported, stored) if kind == MEMBER_AGENT else timedelta()
        found[kind] = Heartbeat(sent, min(now, said if last is None else last + moved))
    return found


def agents_of(status: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """Yield the entries of ``agentStatus`` that name their type, the first of each type."""
    seen = set()
    for agent in dicts_at(status, "agentStatus"):
        kind = agent.get("type")
        if isinstance(kind, str) and kind not in seen:
            seen.add(kind)
            yield agent


def _moved(reported: Mapping[str, Any], stored: Mapping[str, Any]) -> timedelta:
    """Return how far the agent's clock went between two reports; nothing when they do not say, or it went back."""
    then, since = (read_time(text_at(status, "resourceUsage", "observationTime")) for status in (stored, reported))
    return max(timedelta(), since - then) if then is not None and since is not None else timedelta()


def read_time(text: object) -> datetime | None:
    """Return an instant that an agent wrote, None when it is none."""
    if not isinstance(text, str):
        return None
    try:
        return parse_time(text)
    except ValueError:
        return None
