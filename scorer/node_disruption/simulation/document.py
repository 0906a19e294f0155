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
"""Decimal places of prices. More would only show rounding errors of sums."""
_CLOSE: Final = timedelta(minutes=1)
"""Maximum gap between the end of a hold and an event that the hold is considered to have delayed."""
DRAIN: Final = (
    "the sum over all tiers of the longest terminationGracePeriodSeconds of their pods, at most terminationGracePeriod"
)
"""Assumed duration of a drain that nothing blocks."""


def document_of(result: SimulationResult) -> JsonObject:
    """Return a simulation as JSON, sorted by pool."""
    removal_times = {removal.node: removal.at for removal in result.removals}
    launches = {launch.node: launch for launch in result.launches}
    return {
        "start": format_time(result.start),
        "end": format_time(result.end),
        "stopped": result.stopped or None,
        "assumptions": assumptions_of(result.assumptions),
        "pools": [_pool(pool, result, removal_times, launches) for pool in result.pools],
        "waiting": [{"pod": pod.pod, "since": format_time(pod.since), "reason": pod.reason} for pod in result.waiting],
    }


def assumptions_of(assumptions: SimulationAssumptions) -> JsonObject:
    """Return the assumptions of a simulation as JSON."""
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
    today_pools, changed_pools = ({pool["pool"]: pool for pool in document["pools"]} for document in (today, changed))
    names = sorted(today_pools.keys() | changed_pools.keys())
    pairs = ((name, _figures(today_pools.get(name)), _figures(changed_pools.get(name))) for name in names)
    differences = [
        {"pool": name, **{key: {"today": old[key], "changed": new[key]} for key in old}}
        for name, old, new in pairs
        if old != new
    ]
    return {"today": today, "changed": changed, "differences": differences}


def preceding_holds(event: SimulationEvent, periods: Iterable[BlockedPeriod]) -> tuple[BlockedPeriod, ...]:
    """Return the holds of the nodes of an event that ended shortly before it."""
    return tuple(
        period
        for period in periods
        if period.node in event.nodes
        and period.wanted == event.reason
        and not period.draining
        and period.until is not None
        and timedelta() <= event.at - period.until <= _CLOSE
    )


def _figures(pool: JsonObject | None) -> JsonObject:
    """Return the compared figures of a pool, all null for a missing pool."""
    keys = ("nodesBefore", "nodesAfter", "pricePerHourAfter", "savingsPerHour", "disrupted", "longestBlockedSeconds")
    return {key: pool[key] if pool else None for key in keys}


def _pool(
    summary: PoolSummary,
    result: SimulationResult,
    removal_times: Mapping[str, datetime],
    launches: Mapping[str, Launch],
) -> JsonObject:
    periods = [period for period in result.blocked if period.pool == summary.pool]
    own = [event for event in result.happenings if event.pool == summary.pool]
    return {
        "pool": summary.pool,
        "nodesBefore": summary.nodes_before,
        "nodesAfter": summary.nodes_after,
        "pricePerHourBefore": _price(summary.price_before),
        "pricePerHourAfter": _price(summary.price_after),
        "disrupted": dict(summary.disrupted),
        "savingsPerHour": _price(summary.savings),
        "longestBlockedSeconds": 0.0 if summary.longest is None else summary.longest.length(result.end).total_seconds(),
        "happenings": [
            _event_document(event, preceding_holds(event, periods), removal_times, launches) for event in own
        ],
        "blocked": [blocked_document(period) for period in periods],
    }


def _event_document(
    event: SimulationEvent,
    periods: Iterable[BlockedPeriod],
    removal_times: Mapping[str, datetime],
    launches: Mapping[str, Launch],
) -> JsonObject:
    ends = [removal_times[name] for name in event.nodes if name in removal_times]
    is_over = bool(event.nodes) and len(ends) == len(event.nodes)
    return {
        "at": format_time(event.at),
        "method": str(event.method),
        "reason": str(event.reason) or None,
        "nodes": list(event.nodes),
        "why": event.why,
        "savingsPerHour": _price(event.savings),
        "replacedBy": [_launch(launches[name]) for name in event.replaced_by],
        "gone": format_time(max(ends)) if is_over else None,
        "limit": event.limit,
        "disrupting": event.disrupting,
        "podsOf": list(event.pods_of),
        "heldBefore": [blocked_document(period) for period in periods],
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


def blocked_document(period: BlockedPeriod) -> JsonObject:
    """Return a hold of a node as JSON."""
    return {
        "node": period.node,
        "wanted": str(period.wanted) or None,
        "reason": str(period.reason),
        "message": period.message,
        "since": format_time(period.since),
        "until": None if period.until is None else format_time(period.until),
        "draining": period.draining,
    }


def _price(price: float | None) -> float | None:
    return None if price is None else round(price, _DIGITS) + 0.0  # no -0.0
