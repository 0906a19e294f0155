"""Scheduling: the reference scheduler's picks, whole runs, and the arithmetic they rest on."""

from collections.abc import Callable
from dataclasses import asdict
from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np

from scorer.api.cluster.member_cluster import MemberCluster
from scorer.api.meta import parse_time
from scorer.api.placement.binding import BindingState
from scorer.api.placement.placement import PlacementType
from scorer.api.values.quantity import parse_quantity, read_quantity
from scorer.columns import PropertyReading, QuantityColumn
from scorer.cost import PricedNode, cluster_cost
from scorer.fleet import Fleet
from scorer.placement.holdings import Binding
from scorer.placement.policy_hash import policy_hash
from scorer.placement.record import decisions, picked_decision, reason_category, scheduled_condition
from scorer.placement.request import read_request
from scorer.placement.schedule import ScheduleResult, hold, schedule
from scorer.placement.wake import RequeueCandidate, placements_to_requeue
from scorer.plugins.cluster_affinity import weigh
from scorer.selectors import InvalidPolicyError
from tests.vector_families.line import Line, compare

LATE = datetime(2026, 11, 20, 12, tzinfo=UTC)


def check_schedule(line: Line) -> None:
    """The reference scheduler's picks, losers and filtered clusters."""
    clusters = [_with_heartbeat(cluster) for cluster in line["clusters"]]
    bindings = [Binding(name, name, BindingState.BOUND) for name in line.get("existing") or ()]
    bindings += [Binding(name, name, BindingState.BOUND, current=False) for name in line.get("obsolete") or ()]
    run = _run(line["placement"], clusters, bindings, LATE)
    seen: dict[str, Any] = {"picked": [], "notPicked": [], "filtered": []}
    if run.last is not None:
        seen["picked"] = [[pick.cluster, pick.topology, pick.affinity, int(pick.bonus)] for pick in run.picked]
        losers = run.last.unselected()
        seen["notPicked"] = [[loser.cluster, loser.topology, loser.affinity, int(loser.bonus)] for loser in losers]
        rows = run.last.rejected_rows().tolist()
        seen["filtered"] = [[run.fleet.names[row], run.last.reject(row).plugin] for row in rows]
    compare(seen, line["want"])


def check_schedule_rules(line: Line) -> None:
    """Whole runs: picks, drops, records, conditions."""
    bindings = [_binding(entry) for entry in line.get("existing") or ()]
    run = _run(line["placement"], line["clusters"], bindings, parse_time(line["now"]))
    condition = scheduled_condition(run)
    recorded = decisions(run)
    before = {binding.cluster: binding for binding in bindings}
    states = {binding.cluster: binding.state.value for binding in run.kept}
    scores = {decision["clusterName"]: _scores(decision) for decision in recorded}
    for pick in run.picked:
        states[pick.cluster] = _state_after(before.get(pick.cluster))
        scores[pick.cluster] = _scores(picked_decision(run, pick))
    want = dict(line["want"])
    seen: dict[str, Any] = {
        "picked": [pick.cluster for pick in run.picked] + [binding.cluster for binding in run.kept],
        "dropped": [binding.cluster for binding in run.dropped],
        "unpicked": [
            {"cluster": decision["clusterName"], "reasonCategory": reason_category(decision)}
            for decision in recorded
            if not decision["selected"]
        ],
        "scheduled": {
            "status": condition[0],
            "reason": condition[1],
            "found": sum(decision["selected"] for decision in recorded),
        },
        "scores": {name: scores.get(name) for name in want.get("scores") or ()},
        "states": {name: states.get(name) for name in want.get("states") or ()},
    }
    compare(seen, want)


def _run(placement: Line, clusters: list[Line], bindings: list[Binding], now: datetime) -> ScheduleResult:
    fleet = Fleet.of(MemberCluster.read(cluster) for cluster in clusters)
    namespace = placement["metadata"].get("namespace", "") if placement["kind"] == "ResourcePlacement" else ""
    try:
        request = read_request(placement["spec"].get("policy"), namespace=namespace)
    except InvalidPolicyError as error:
        return hold(str(error), fleet, bindings, now)
    return schedule(request, fleet, bindings, now)


def _with_heartbeat(cluster: Line) -> Line:
    status = cluster.get("status") or {}
    agents = [
        {**agent, "lastReceivedHeartbeat": agent.get("lastReceivedHeartbeat") or "2026-11-20T12:00:00Z"}
        for agent in status.get("agentStatus") or ()
    ]
    return {**cluster, "status": {**status, "agentStatus": agents}}


def _binding(entry: str | Line) -> Binding:
    if isinstance(entry, str):
        return Binding(entry, entry, BindingState.BOUND, topology=0, affinity=0)
    scored = entry.get("score") is not False
    previous = entry.get("previousState")
    return Binding(
        entry["cluster"],
        entry["cluster"],
        BindingState(entry.get("state") or "Bound"),
        current=entry.get("policy") != "old",
        topology=(entry.get("topology") or 0) if scored else None,
        affinity=(entry.get("affinity") or 0) if scored else None,
        previous_state=BindingState(previous) if previous else None,
    )


def _state_after(binding: Binding | None) -> str:
    if binding is None:
        return "Scheduled"
    if binding.state is BindingState.UNSCHEDULED:
        assert binding.previous_state is not None
        return binding.previous_state.value
    return binding.state.value


def _scores(decision: Line) -> list[int] | None:
    score = decision.get("clusterScore")
    return score and [score["priorityScore"], score["affinityScore"]]


def check_schedule_aux(line: Line) -> None:
    """Arithmetic, quantities, wake-ups, snapshots, costs."""
    AUX[line["kind"]](line)


def check_interpolate(line: Line) -> None:
    names = sorted(line["values"])
    column = QuantityColumn.of(
        [PropertyReading(line["values"][name], read_quantity(line["values"][name])) for name in names]
    )
    points = weigh(column, np.arange(len(names)), line["sortOrder"], line["weight"])
    compare({"points": dict(zip(names, points.tolist(), strict=True))}, line["want"])


def check_quantity(line: Line) -> None:
    try:
        seen: Line = {"valid": True, "value": str(parse_quantity(line["text"]).number)}
    except ValueError:
        seen = {"valid": False}
    compare(seen, line["want"])


def check_trigger(line: Line) -> None:
    old, new = (None if line.get(side) is None else MemberCluster.read(line[side]) for side in ("old", "new"))
    sleepers = [
        RequeueCandidate(
            entry["name"], PlacementType(entry.get("type") or "PickAll"), bool(entry.get("fullyScheduled"))
        )
        for entry in line["placements"]
    ]
    names = placements_to_requeue(old, new, sleepers, parse_time(line["now"]))
    assert set(names) == set(line["want"]["enqueue"])


def check_snapshot(line: Line) -> None:
    seen = policy_hash(line["oldPolicy"]) != policy_hash(line["newPolicy"])
    compare({"newSnapshot": seen}, line["want"])


def check_cost(line: Line) -> None:
    nodes = [
        PricedNode(node["sku"], parse_quantity(node["cpu"]), parse_quantity(node["memory"])) for node in line["nodes"]
    ]
    cost = cluster_cost(nodes, line["prices"], timedelta(hours=line["pricesAgeHours"]))
    compare(asdict(cost), line["want"])


AUX: dict[str, Callable[[Line], None]] = {
    "interpolate": check_interpolate,
    "quantity": check_quantity,
    "trigger": check_trigger,
    "snapshot": check_snapshot,
    "cost": check_cost,
}
