"""Detection of joined members that have stopped reporting.

A member has missed heartbeats if two in a row did not arrive. It is silent if its last heartbeat is older than
scheduling allows: it gets no new placements then. A condition of the MemberCluster stores either state, so that the
next leader does not report it again. A member that has never missed heartbeats has no such condition.

Silence is counted from the start of the watch, and again from the end of an outage of the hub: agents could not write
heartbeats during the outage, and return one by one. Example: after an hour without a loop, a member has the usual 5
minutes to report before it counts as silent. A member that was already silent remains so until its next heartbeat.

Source: docs/specifications/scheduling.md 5 and 19.
"""

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any, Final, NamedTuple

from scorer.api.conditions import FALSE, TRUE, UNKNOWN, ConditionStatus, make_condition
from scorer.api.meta import JsonObject, read_instant
from scorer.api.names import MEMBER_AGENT
from scorer.api.unstructured.documents import dicts_at, text_at
from scorer.eligibility import EligibilityLimits
from scorer.membership.heartbeats import agents_of

REPORTING: Final = "Reporting"
LIMIT: Final = EligibilityLimits().heartbeat
LATENESS: Final = timedelta(seconds=10)
"""Maximum delay of the second heartbeat in a row before it counts as missed."""
_MOMENT: Final = timedelta(milliseconds=1)
"""A heartbeat exactly as old as the limit is still accepted."""


class Silence(NamedTuple):
    """The result of a check.

    Args:
        condition: The condition to store, None if the member has never missed heartbeats.
        again: Interval until the next check. None: unlimited, the next report triggers it.
    """

    condition: JsonObject | None
    again: timedelta | None


def unheard(status: Mapping[str, Any]) -> str:
    """Return the message of a MemberCluster about missed heartbeats of its agent. Empty: the agent reports."""
    condition = next(
        (condition for condition in dicts_at(status, "conditions") if condition.get("type") == REPORTING), {}
    )
    return "" if condition.get("status") in (None, TRUE) else str(condition.get("message") or "")


def is_silent(status: Mapping[str, Any]) -> bool:
    """Return whether the status of a MemberCluster marks it as silent."""
    return bool(_reporting_status(status) == FALSE)


def silence(
    status: Mapping[str, Any],
    since: datetime,
    generation: int,
    now: datetime,
    *,
    period: timedelta,
    identity: str,
) -> Silence:
    """Return the condition Reporting of a joined member, and when to check it again.

    Args:
        status: Status of the MemberCluster, with the last heartbeats and the previous conditions.
        since: Time at which this process started to watch.
        generation: Generation of the MemberCluster.
        now: The time by the hub's clock.
        period: Time between two heartbeats.
        identity: The account of its agent, for the message.
    """
    agent = next((agent for agent in agents_of(status) if agent["type"] == MEMBER_AGENT), {})
    text = text_at(agent, "lastReceivedHeartbeat")
    heartbeat = read_instant(text)
    latest = _reporting_status(status)
    last_contact = since if heartbeat is None else heartbeat if latest == FALSE else max(heartbeat, since)
    late = min(2 * period + LATENESS, LIMIT)
    message = f"its agent has not reported since {text or 'it joined'}"
    hint = f". The agent must run, reach this hub, and authenticate as the {identity} of spec.identity"
    if now - last_contact > LIMIT:
        message += f", so the member gets no new placements{hint}"
        return Silence(_condition(FALSE, "MemberClusterSilent", message, generation, now), None)
    # Heartbeats that were missed during an earlier process still count.
    if now - (heartbeat if heartbeat is not None and latest == UNKNOWN else last_contact) > late:
        condition = _condition(UNKNOWN, "HeartbeatsMissed", message + hint, generation, now)
        return Silence(condition, last_contact + LIMIT - now + _MOMENT)
    back = None if not latest else _condition(TRUE, "MemberClusterReporting", "its agent reports", generation, now)
    return Silence(back, last_contact + late - now + _MOMENT)


def _reporting_status(status: Mapping[str, Any]) -> Any:
    conditions = dicts_at(status, "conditions")
    return next((entry.get("status") for entry in conditions if entry.get("type") == REPORTING), None)


def _condition(status: ConditionStatus, reason: str, message: str, generation: int, now: datetime) -> JsonObject:
    return make_condition(REPORTING, status, reason, message, generation=generation, now=now)
