"""Checks whether agents report, their releases and clocks, and blocked removals on members.

An agent writes its own time into the InternalMemberCluster, and the API server records its time in ``managedFields``.
The difference is the offset of the agent's clock, plus or minus the duration of the request.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime, timedelta
from typing import Final

from scorer.api.meta import JsonObject, read_instant
from scorer.api.names import AGENT_VERSION, MEMBER_AGENT
from scorer.api.unstructured.documents import (
    current_condition,
    dict_at,
    dicts_at,
    is_deleting,
    name_of,
    status_of,
    text_at,
)
from scorer.api.values.quoting import format_count
from scorer.membership.heartbeats import agents_of
from scorer.membership.identity import REMOVE_APPLIED_WORK
from scorer.membership.joined import missing_for_joining, orphan_report
from scorer.rollout.confirmation.policy import DATA_KINDS, DEFAULT_KINDS, RemovalPolicy, parse_kind_patterns
from scorer.rollout.removal.marks import REMOVED
from webhook.doctor.finding import Finding, State, judged

MEMBERS, VERSIONS, CLOCKS = "members", "agent-versions", "agent-clocks"
APPLIED_WORKS = "applied-works"
REMOVALS = "removals"
CONFIRMATION = "confirmation"
LARGEST_OFFSET: Final = timedelta(seconds=30)
"""Maximum tolerated offset of a clock. Storing a heartbeat may take as long as the timeout of a request."""
LONGEST_REPORT: Final = 512
"""Maximum length of the report of an agent in the output, in characters."""
NO_MEMBERS: Final = "there are no members yet"


def judge_members(members: Iterable[JsonObject], internal: Mapping[str, JsonObject], now: datetime) -> Finding:
    """Check whether all members are joined and healthy.

    Args:
        members: All MemberClusters.
        internal: The InternalMemberClusters, by name.
        now: Time of the hub's clock.
    """
    judgements = [
        (name_of(member), missing_for_joining(member, internal.get(name_of(member)), now))
        for member in _staying(members)
    ]
    problems = [f"{name}: {reason}" for name, reason in judgements if reason]
    well = f"{format_count(len(judgements), 'member')} joined, healthy and reporting" if judgements else NO_MEMBERS
    return judged(
        MEMBERS, problems, well, "harbormaster join NAME … reports missing parts, and repairs them where possible"
    )


def judge_applied_works(members: Iterable[JsonObject]) -> Finding:
    """Check whether members have AppliedWorks without a Work on the hub, as after a restore from a backup."""
    reports = {name_of(member): orphan_report(member) for member in _staying(members)}
    problems = [f"{name}: {_without_advice(report)[:LONGEST_REPORT]}" for name, report in reports.items() if report]
    members_text = format_count(len(reports), "member")
    well = f"each AppliedWork of {members_text} has a Work on the hub" if reports else NO_MEMBERS
    advice = f"place the same content again, or remove it: for each of these AppliedWorks, {REMOVE_APPLIED_WORK}"
    return judged(APPLIED_WORKS, problems, well, advice)


def _without_advice(report: str) -> str:
    """Return the first sentence of a report. The finding has advice of its own."""
    return re.split(r"; |\. ", report, maxsplit=1)[0]


def judge_removals(bindings: Iterable[JsonObject]) -> Finding:
    """Check whether objects that are no longer placed remain on members because they cannot be deleted."""
    blocked_removals = [
        (binding, condition) for binding in bindings if (condition := current_condition(binding, REMOVED))
    ]
    problems = sorted(
        f"{text_at(binding, 'spec', 'targetCluster')}: {str(condition.get('message'))[:LONGEST_REPORT]}"
        for binding, condition in blocked_removals
    )
    advice = "check the controller of each finalizer on the member, or remove the finalizer from the object"
    return judged(REMOVALS, problems, "no removal is blocked", advice)


def judge_confirmation(policy: RemovalPolicy) -> Finding:
    """Report which removals need confirmation, and all kinds that hold data. The finding is always OK."""
    if policy.is_off:
        return Finding(CONFIRMATION, State.OK, "off: all removals of content proceed without confirmation")
    modes = ", ".join(f"{effect.replace('_', ' ')} {mode}" for effect, mode in policy.modes.items())
    defaults = frozenset(parse_kind_patterns(DEFAULT_KINDS))  # only counted: their list would fill a screen
    has_defaults = defaults <= frozenset(policy.kinds)
    kinds = ", ".join([*DATA_KINDS, *(str(kind) for kind in policy.kinds if not has_defaults or kind not in defaults)])
    if has_defaults:
        kinds += f" and the {len(defaults)} defaults of removalConfirmationKinds"
    exempt = f". Namespaces labeled {'='.join(policy.exempt)} are exempt" if policy.exempt else ""
    return Finding(CONFIRMATION, State.OK, f"{modes}{exempt}. Kinds that hold data: {kinds}")


def judge_versions(members: Iterable[JsonObject], release: str) -> Finding:
    """Check whether the agents of all members that report run this release."""
    reporting_members = [member for member in _staying(members) if _heartbeat(member)]
    versions = {
        name_of(member): text_at(member, "status", "properties", AGENT_VERSION, "value") for member in reporting_members
    }
    problems = [f"{name}: {_about(version, release)}" for name, version in versions.items() if version != release]
    well = f"{format_count(len(versions), 'agent')} with release {release}" if versions else "no agent has reported yet"
    advice = "upgrade the agents of these members to the release of the hub: helm upgrade harbormaster-agent …"
    return judged(VERSIONS, problems, well, advice)


def _about(version: str, release: str) -> str:
    if not version:
        return f"its agent does not report its release: it is older than {release}, or not part of harbormaster"
    older = _numbers(version) < _numbers(release)
    return f"its agent has release {version}, {'older than' if older else 'not'} {release}"


def _numbers(version: str) -> list[int]:
    return [int(part) for part in version[:64].split(".") if part.isascii() and part.isdigit()]


def judge_clocks(internal: Iterable[JsonObject]) -> Finding:
    """Check the clocks of agents by their last heartbeats. *internal* must have their ``managedFields``."""
    offsets = {name_of(member): offset for member in internal if (offset := offset_of(member)) is not None}
    problems = [
        f"{name}: its agent's clock is {seconds(offset)} {'ahead of' if offset > timedelta() else 'behind'} the hub's"
        for name, offset in sorted(offsets.items())
        if abs(offset) > LARGEST_OFFSET
    ]
    widest = max(map(abs, offsets.values()), default=timedelta())
    well = f"{format_count(len(offsets), 'clock')} within {seconds(widest)} of the hub's" if offsets else NO_MEMBERS
    return judged(CLOCKS, problems, well, "enable time synchronization on the nodes that these agents run on")


def offset_of(internal: JsonObject) -> timedelta | None:
    """Return how far the clock of an agent is ahead of the hub's. None: unknown."""
    sent_at = read_instant(_heartbeat(internal))
    stored_time = stored_at(internal, "status", "f:agentStatus")
    return None if sent_at is None or stored_time is None else sent_at - stored_time


def stored_at(document: JsonObject, subresource: str, field: str = "") -> datetime | None:
    """Return when the API server has last stored a write, by its own clock. None: unknown.

    Args:
        document: An object with its ``managedFields``.
        subresource: Subresource of the write. Empty: the object itself.
        field: Written field of ``status`` or ``spec``, as named in ``managedFields``. Empty: any.
    """
    times = [
        read_instant(managed_field.get("time"))
        for managed_field in dicts_at(document, "metadata", "managedFields")
        if text_at(managed_field, "subresource") == subresource
        and (not field or field in dict_at(managed_field, "fieldsV1", f"f:{subresource or 'spec'}"))
    ]
    return max((time for time in times if time is not None), default=None)


def seconds(duration: timedelta) -> str:
    """Format the absolute value of a duration."""
    count = round(abs(duration).total_seconds())
    return f"{count} s" if count < 600 else f"{count // 60} min" if count < 36000 else f"{count // 3600} h"


def _staying(members: Iterable[JsonObject]) -> Iterator[JsonObject]:
    return (member for member in members if not is_deleting(member))


def _heartbeat(document: JsonObject) -> str:
    agents = agents_of(status_of(document))
    return text_at(next((agent for agent in agents if agent["type"] == MEMBER_AGENT), {}), "lastReceivedHeartbeat")
