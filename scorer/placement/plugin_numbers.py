"""The numbers of each plugin for one cluster, as an explanation shows them.

Source: docs/specifications/scheduling.md 22.
"""

from datetime import datetime, timedelta

import numpy as np

from scorer.api.cluster.member_cluster import AgentStatus, MemberCluster
from scorer.api.cluster.scores import read_score
from scorer.api.conditions import find_condition
from scorer.api.meta import format_time
from scorer.api.names import MEMBER_AGENT
from scorer.api.values.duration import format_duration
from scorer.columns import PropertyReading
from scorer.fleet import Fleet
from scorer.framework.cycle import Cycle
from scorer.placement.explanation import (
    AffinityCheck,
    AffinityPoints,
    Check,
    EligibilityCheck,
    Extreme,
    PreferredTermPoints,
    PropertyComparison,
    PropertyObservation,
    RequiredTerm,
    SorterPoints,
    SpreadConstraint,
    TaintsCheck,
    TaintVerdict,
    TopologyPoints,
)
from scorer.placement.request import Request
from scorer.placement.schedule import Round
from scorer.plugins.cluster_affinity import ASCENDING, PreferredTerm, observed_range
from scorer.plugins.cluster_eligibility import eligible, ineligibility
from scorer.plugins.taint_toleration import format_taint
from scorer.plugins.topology_spread import VIOLATION_POINTS, domain_counts, skew_change
from scorer.properties import observation_time
from scorer.selectors import ClusterTerm, PropertyRequirement, label_matches_row

STALE_PERIODS = 3
"""A value older than this many heartbeat periods is marked as stale."""


def filter_checks(request: Request, cycle: Cycle, row: int) -> list[Check]:
    """Return the checks of a cluster by the filters, in their order."""
    fleet, profile = cycle.fleet, request.profile
    entries: list[Check] = []
    required = [_term(index, term, fleet, row, cycle.now) for index, term in enumerate(profile.affinity.required)]
    affinity: AffinityCheck = {"name": "affinity", "pass": not required or any(term["match"] for term in required)}
    if required:
        affinity["terms"] = required
    entries += affinity, eligibility_check(fleet, row, cycle.now)
    if request.namespace:
        mask = profile.namespaces.filter(cycle)
        entries.append({"name": "namespace", "pass": mask is None or bool(mask[row]), "namespace": request.namespace})
    taint_verdicts: list[TaintVerdict] = [
        {"taint": format_taint(taint), "by": profile.taints.tolerating(taint)}
        for taint in fleet.members[row].spec.taints
    ]
    taints: TaintsCheck = {"name": "taints", "pass": all(entry["by"] is not None for entry in taint_verdicts)}
    if taint_verdicts:
        taints["tolerated"] = taint_verdicts
    entries.append(taints)
    if profile.spread.constraints:
        mask = profile.spread.filter(cycle)
        entries.append({"name": "topology", "pass": mask is None or bool(mask[row])})
    return entries


def eligibility_check(fleet: Fleet, row: int, now: datetime) -> EligibilityCheck:
    """Return whether a cluster has joined, is healthy and sends heartbeats."""
    agents = fleet.members[row].status.agent_status
    agent = next((agent for agent in agents if agent.type == MEMBER_AGENT), None)
    entry: EligibilityCheck = {"name": "eligibility", "pass": bool(eligible(fleet, now)[row])}
    if agent is not None and agent.last_received_heartbeat is not None:
        entry["heartbeatAge"] = age(now, agent.last_received_heartbeat)
    if rejection := ineligibility(fleet, row, now):
        entry["reason"] = str(rejection)
    if agent is not None:
        entry["joined"] = _status(agent, "Joined")
        entry["healthy"] = _status(agent, "Healthy")
    return entry


def _status(agent: AgentStatus, kind: str) -> str | None:
    condition = find_condition(agent.conditions, kind)
    return condition.status if condition else None


def _term(index: int, term: ClusterTerm, fleet: Fleet, row: int, now: datetime) -> RequiredTerm:
    entry: RequiredTerm = {"index": index, "match": True}
    if term.labels:
        matches = [label_matches_row(fleet, requirement, row) for requirement in term.labels]
        entry["labels"] = {
            "pass": all(matches),
            "expressions": [
                {
                    "key": requirement.key,
                    "op": requirement.operator,
                    "want": list(requirement.values),
                    "observed": fleet.label(requirement.key).value(row),
                    "pass": passes,
                }
                for requirement, passes in zip(term.labels, matches, strict=True)
            ],
        }
        entry["match"] = entry["labels"]["pass"]
    if term.properties:
        entry["properties"] = [_property_comparison(requirement, fleet, row, now) for requirement in term.properties]
        entry["match"] = entry["match"] and all(comparison["pass"] for comparison in entry["properties"])
    return entry


def _property_comparison(requirement: PropertyRequirement, fleet: Fleet, row: int, now: datetime) -> PropertyComparison:
    entry: PropertyComparison = {
        "name": requirement.name,
        "observed": None,
        "op": requirement.operator,
        "want": str(requirement.wanted),
        "pass": requirement.matches_row(fleet, row),
    }
    _observe(entry, fleet, row, now)
    return entry


def _observe(entry: PropertyObservation, fleet: Fleet, row: int, now: datetime) -> None:
    """Fill in the reading and its age, or mark it as missing, expired or unreadable."""
    name = entry["name"]
    reading: PropertyReading | None = fleet.quantity(name).readings[row]
    member = fleet.members[row]
    if reading is None:
        entry["missing"] = True
        if (score := fleet.expired_score(name, row)) is not None and score.valid_until is not None:
            entry |= {"expired": True, "lastValue": score.value, "validUntil": format_time(score.valid_until)}
            entry["expiredFor"] = age(now, score.valid_until)
        return
    entry["observed"] = reading.text
    if reading.quantity is None:
        entry["unreadable"] = True
    _add_age(entry, member, name, now)
    if (score := read_score(member.metadata.annotations, name)) is not None and score.valid_until is not None:
        entry |= {"validUntil": format_time(score.valid_until), "expiresIn": format_duration(score.valid_until - now)}


def _add_age(entry: PropertyObservation | Extreme, member: MemberCluster, name: str, now: datetime) -> None:
    """Add the age of a reading if known, and a mark if it is stale."""
    observed_at = observation_time(member, name)
    if observed_at is None:
        return
    entry["age"] = age(now, observed_at)
    if now - observed_at > STALE_PERIODS * timedelta(seconds=member.spec.heartbeat_period_seconds):
        entry["stale"] = True


def age(now: datetime, observation_time: datetime) -> str:
    """Return the time from *observation_time* to *now*, zero for an observation that was made later."""
    return format_duration(max(now - observation_time, timedelta()))


def topology_points(request: Request, cycle: Cycle, row: int) -> TopologyPoints:
    """Return the points for evenness, constraint by constraint."""
    constraints: list[SpreadConstraint] = []
    for constraint in request.profile.spread.constraints:
        column = cycle.fleet.label(constraint.key)
        counts = domain_counts(cycle.fleet, constraint.key, cycle.placed)
        skew, change = skew_change(counts)
        domain = column.value(row)
        entry: SpreadConstraint = {
            "index": constraint.index,
            "key": constraint.key,
            "whenUnsatisfiable": "DoNotSchedule" if constraint.hard else "ScheduleAnyway",
            "domain": domain,
            "counts": dict(zip(column.values, counts.tolist(), strict=True)),
            "skew": skew,
            "maxSkew": constraint.max_skew,
            "change": 0,
            "points": 0,
        }
        if domain is None:
            entry["note"] = "outside the spread"
        else:
            entry["change"] = shift = int(change[column.codes[row]])
            is_within = skew + shift <= constraint.max_skew
            entry["violated"] = not is_within
            entry["points"] = -shift if is_within else (0 if constraint.hard else VIOLATION_POINTS)
        constraints.append(entry)
    return {"score": sum(entry["points"] for entry in constraints), "constraints": constraints}


def affinity_points(request: Request, batch: Round, cycle: Cycle, row: int) -> AffinityPoints:
    """Return the points of the preferred terms."""
    score = request.profile.affinity.score(cycle, np.array([row]))
    terms = [_preferred_term_points(term, batch, cycle, row) for term in request.profile.affinity.preferred]
    return {"score": 0 if score is None else int(score[0]), "terms": terms}


def _preferred_term_points(term: PreferredTerm, batch: Round, cycle: Cycle, row: int) -> PreferredTermPoints:
    fleet = cycle.fleet
    points = int(term.points(fleet, np.array([row]))[0])
    entry: PreferredTermPoints = {"index": term.index, "weight": term.weight, "points": points}
    if term.labels:
        matches = (label_matches_row(fleet, requirement, row) for requirement in term.labels)
        entry["labels"] = {"pass": all(matches)}
    if term.sorter is not None:
        entry["sorter"] = {"name": term.sorter.name, "observed": None, "order": term.sorter.order, "points": points}
        _observe(entry["sorter"], fleet, row, cycle.now)
        _add_range(entry["sorter"], term, batch, row)
    return entry


def _add_range(entry: SorterPoints, term: PreferredTerm, batch: Round, row: int) -> None:
    """Add the ends of the observed range, each with its cluster, and the position of this cluster in the range."""
    assert term.sorter is not None
    fleet = batch.cycle.fleet
    column = fleet.quantity(term.sorter.name)
    if column.extremes is None:
        entry["note"] = "no cluster reports it"
        return
    entry["min"], entry["max"] = (_extreme(extreme, term.sorter.name, batch) for extreme in column.extremes)
    bounds = observed_range(column)
    if bounds is None:
        low, high = (float(column.double[row]) for row in column.extremes)
        cause = "all values are equal" if low == high else "the range is too large for a double"
        entry["note"] = f"{cause}, so no cluster gets points"
        return
    value = float(column.double[row])
    if np.isnan(value):
        return
    low, high = bounds
    ratio = (value - low) / (high - low)
    ratio = 1 - ratio if term.sorter.order == ASCENDING else ratio
    entry["ratio"], entry["raw"] = round(ratio, 6), round(ratio * term.weight, 6)


def _extreme(row: int, name: str, batch: Round) -> Extreme:
    fleet = batch.cycle.fleet
    reading = fleet.quantity(name).readings[row]
    assert reading is not None
    entry: Extreme = {"value": reading.text, "cluster": fleet.names[row], "eligible": batch.reject(row) is None}
    _add_age(entry, fleet.members[row], name, batch.cycle.now)
    return entry
