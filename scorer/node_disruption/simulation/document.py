"""A simulation as JSON, and a comparison of two."""

from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta
from typing import Final

from scorer.api.meta import JsonObject, format_time
from scorer.node_disruption.simulation.timeline import (
    BlockedPeriod,
    Launch,
    PoolSummary,
    SimulationAssumptions,
    SimulationEvent,
    SimulationResult,
)

_DIGITS: Final = 6
"""Digits of prices. More digits would only show rounding errors of sums."""
_CLOSE: Final = timedelta(minutes=1)
"""Longest gap between the end of a hold and an event that the hold is considered to have delayed."""
DRAIN: Final = "the longest terminationGracePeriodSeconds of its pods, tier by tier, bounded by terminationGracePeriod"
"""Duration of a drain."""


def document_of(simulated: SimulationResult) -> JsonObject:
    """Return a simulation as JSON, sorted by pool."""
    gone = {removal.node: removal.at for removal in simulated.removals}
    launches = {launch.node: launch for launch in simulated.launches}
    return {
        "start": format_time(simulated.start),
        "end": format_time(simulated.end),
        "stopped": simulated.stopped or None,
        "assumptions": assumptions_of(simulated.assumptions),
        "pools": [_pool(pool, simulated, gone, launches) for pool in simulated.pools],
        "waiting": [
            {"pod": pod.pod, "since": format_time(pod.since), "reason": pod.reason} for pod in simulated.waiting
        ],
    }


def assumptions_of(assumptions: SimulationAssumptions) -> JsonObject:
    """Return the assumptions of a simulation."""
    return {
        "launchSeconds": assumptions.launch.total_seconds(),
        "drain": DRAIN,
        "shortestDrainSeconds": assumptions.shortest_drain.total_seconds(),
        "newPods": assumptions.new_pods,
        "failures": assumptions.failures,
        "pricesChange": assumptions.prices_change,
        "lookAgainSeconds": None if assumptions.look_again is None else assumptions.look_again.total_seconds(),
        "mostHappenings": assumptions.most_happenings,
        "mostLooks": assumptions.most_looks,
    }


def comparison_of(today: JsonObject, changed: JsonObject) -> JsonObject:
    """Return two simulations side by side, and the pools that differ.

    Args:
        today: Result of `document_of` for the present pools.
        changed: Result of `document_of` for the changed pools.
    """
    one, other = ({pool["pool"]: pool for pool in document["pools"]} for document in (today, changed))
    names = sorted(one.keys() | other.keys())
    pairs = ((name, _figures(one.get(name)), _figures(other.get(name))) for name in names)
    differences = [
        {"pool": name, **{key: {"today": before[key], "changed": after[key]} for key in before}}
        for name, before, after in pairs
        if before != after
    ]
    return {"today": today, "changed": changed, "differences": differences}


def held_before(happening: SimulationEvent, blocked: Iterable[BlockedPeriod]) -> tuple[BlockedPeriod, ...]:
    """Return the holds of the nodes of an event that ended shortly before it."""
    return tuple(
        period
        for period in blocked
        if period.node in happening.nodes
        and period.wanted == happening.reason
        and not period.draining
        and period.until is not None
        and timedelta() <= happening.at - period.until <= _CLOSE
    )


def _figures(pool: JsonObject | None) -> JsonObject:
    """Return the compared figures of a pool, all null for a missing pool."""
    keys = ("nodesBefore", "nodesAfter", "pricePerHourAfter", "savingsPerHour", "disrupted", "longestBlockedSeconds")
    return {key: pool[key] if pool else None for key in keys}


def _pool(
    summary: PoolSummary, simulated: SimulationResult, gone: Mapping[str, datetime], launches: Mapping[str, Launch]
) -> JsonObject:
    blocked = [period for period in simulated.blocked if period.pool == summary.pool]
    own = [each for each in simulated.happenings if each.pool == summary.pool]
    return {
        "pool": summary.pool,
        "nodesBefore": summary.nodes_before,
        "nodesAfter": summary.nodes_after,
        "pricePerHourBefore": _price(summary.price_before),
        "pricePerHourAfter": _price(summary.price_after),
        "disrupted": dict(summary.disrupted),
        "savingsPerHour": _price(summary.savings),
        "longestBlockedSeconds": 0.0
        if summary.longest is None
        else summary.longest.length(simulated.end).total_seconds(),
        "happenings": [_happening(each, held_before(each, blocked), gone, launches) for each in own],
        "blocked": [blocked_document(period) for period in blocked],
    }


def _happening(
    happening: SimulationEvent,
    held: Iterable[BlockedPeriod],
    gone: Mapping[str, datetime],
    launches: Mapping[str, Launch],
) -> JsonObject:
    ends = [gone[name] for name in happening.nodes if name in gone]
    is_over = bool(happening.nodes) and len(ends) == len(happening.nodes)
    return {
        "at": format_time(happening.at),
        "method": str(happening.method),
        "reason": str(happening.reason) or None,
        "nodes": list(happening.nodes),
        "why": happening.why,
        "savingsPerHour": _price(happening.savings),
        "replacedBy": [_launch(launches[name]) for name in happening.replaced_by],
        "gone": format_time(max(ends)) if is_over else None,
        "limit": happening.limit,
        "disrupting": happening.disrupting,
        "podsOf": list(happening.pods_of),
        "heldBefore": [blocked_document(period) for period in held],
    }


def _launch(launch: Launch) -> JsonObject:
    return {
        "name": launch.node,
        "instanceType": launch.instance_type or None,
        "zone": launch.zone or None,
        "capacityType": launch.capacity_type or None,
        "pricePerHour": _price(launch.price),
        "ready": format_time(launch.ready),
    }


def blocked_document(blocked: BlockedPeriod) -> JsonObject:
    """Return a hold of a node as JSON."""
    return {
        "node": blocked.node,
        "wanted": str(blocked.wanted) or None,
        "reason": str(blocked.reason),
        "message": blocked.message,
        "since": format_time(blocked.since),
        "until": None if blocked.until is None else format_time(blocked.until),
        "draining": blocked.draining,
    }


def _price(price: float | None) -> float | None:
    return None if price is None else round(price, _DIGITS) + 0.0  # no -0.0
