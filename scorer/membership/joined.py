"""The first step that is missing before a member is joined and healthy, in the order of joining.

Source: docs/specifications/rollout.md 21.1; docs/specifications/scheduling.md 5 and 19.
"""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from scorer.api.conditions import FALSE, TRUE
from scorer.api.meta import read_instant
from scorer.api.names import MEMBER_AGENT
from scorer.api.unstructured.documents import dicts_at, is_deleting, status_of, text_at
from scorer.eligibility import EligibilityLimits
from scorer.membership.heartbeats import agents_of
from scorer.membership.identity import DISCOVERED_WORKS, IDENTITY_ACCEPTED
from scorer.membership.member_status import JOINED, READY_TO_JOIN

HEALTHY = "Healthy"


def missing_for_joining(member: Mapping[str, Any] | None, internal: Mapping[str, Any] | None, now: datetime) -> str:
    """Return the first step that is missing before a member is joined and healthy, as text. Empty: none.

    Args:
        member: The MemberCluster, None if it does not exist.
        internal: The InternalMemberCluster, None if it does not exist.
        now: Reference instant for the age of the last heartbeat.
    """
    if member is None:
        return "no MemberCluster of that name exists"
    if is_deleting(member):
        return "the MemberCluster is being deleted"
    conditions = dicts_at(member, "status", "conditions")
    ready = _find_condition(conditions, READY_TO_JOIN)
    if not ready:
        return "the loop has not processed the MemberCluster. Check that `harbormaster reconcile` is running on the hub"
    if ready.get("status") != TRUE:
        return f"the hub is not ready for it: {ready.get('message', '')}"
    identity = _find_condition(dicts_at(internal or {}, "status", "conditions"), IDENTITY_ACCEPTED)
    if identity.get("status") == FALSE:
        return f"its agent refuses to join: {identity.get('message', '')}"
    if _find_condition(conditions, JOINED).get("status") != TRUE:
        return "its agent has not reported to the hub"
    agent = next((agent for agent in agents_of(status_of(member)) if agent["type"] == MEMBER_AGENT), {})
    heartbeat = read_instant(text_at(agent, "lastReceivedHeartbeat"))
    limit = EligibilityLimits().heartbeat
    if heartbeat is None or now - heartbeat > limit:
        since = f" since {text_at(agent, 'lastReceivedHeartbeat')}" if heartbeat else ""
        return f"it had joined, but its agent has not reported{since}"
    healthy = _find_condition(dicts_at(agent, "conditions"), HEALTHY)
    if healthy.get("status") != TRUE:
        return f"its agent reports that the cluster is not healthy: {healthy.get('message', '')}"
    return ""


def orphan_report(member: Mapping[str, Any]) -> str:
    """Return the report of a member about AppliedWorks that have no Work on the hub. Empty: it has no such report."""
    condition = _find_condition(dicts_at(member, "status", "conditions"), DISCOVERED_WORKS)
    return str(condition.get("message", "")) if condition.get("status") == FALSE else ""


def _find_condition(conditions: list[dict[str, Any]], kind: str) -> Mapping[str, Any]:
    return next((condition for condition in conditions if condition.get("type") == kind), {})
