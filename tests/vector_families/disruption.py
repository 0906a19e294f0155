"""Schedules of disruption budgets, what budgets allow, drift from requirements, and what one pass decides."""

from collections.abc import Iterable

from scorer.api.meta import JsonObject, dump_json, format_time, parse_time
from scorer.api.node_pool import Budget, NodePool, Requirement
from scorer.node_budgets.budgets import NodeCounts, allowance
from scorer.node_budgets.gate import answer
from scorer.node_budgets.opening import next_open
from scorer.node_budgets.pool_view import PoolView
from scorer.node_budgets.question import NodeGateQuestion
from scorer.node_disruption.cluster.reader import read_cluster
from scorer.node_disruption.cluster.requirements_drift import requirements_drift
from scorer.node_disruption.instance_types.catalog import InstanceTypeCatalog
from scorer.node_disruption.instance_types.price_table import read_instance_types
from scorer.node_disruption.methods.command import Command, Method
from scorer.node_disruption.methods.planner import PlannerOptions, decide
from scorer.windows.cron import matches_crd_pattern, parse_schedule
from scorer.windows.fires import next_fire
from tests.vector_families.line import Line, compare
from webhook.defaulting.node_pool import default

SHOWN_FIRES = 5


def check_cron(line: Line) -> None:
    """A schedule is valid, is admitted, fires when the line says."""
    expression = line["expr"]
    keys = ("valid", "pattern", "admit", "never", "next")
    want = {key: line[key] for key in keys if key in line}
    pattern = matches_crd_pattern(expression)
    try:
        schedule = parse_schedule(expression)
    except ValueError:
        compare({"valid": False, "pattern": pattern, "admit": False, "never": False, "next": []}, want)
        return
    fires, instant = [], parse_time(line["from"])
    while len(fires) < SHOWN_FIRES and (following := next_fire(schedule, instant)) is not None:
        fires.append(following)
        instant = following
    seen = {
        "valid": True,
        "pattern": pattern,
        "admit": pattern,
        "never": not fires,
        "next": list(map(format_time, fires)),
    }
    compare(seen, want)


def check_budget(line: Line) -> None:
    """The budgets of a pool allow so many nodes for a reason at an instant."""
    found = allowance(_budgets(line), _counts(line), line["reason"], parse_time(line["now"]))
    seen = {
        "limit": found.limit,
        "disrupting": found.disrupting,
        "allowed": found.remaining,
        "active": list(found.active),
        "error": bool(found.unusable),
    }
    compare(seen, line["want"])


def check_opening(line: Line) -> None:
    """So many nodes may go now, or at an instant from which on they may; the gate says the same."""
    budgets, counts, now = _budgets(line), _counts(line), parse_time(line["now"])
    opening = next_open(budgets, counts, line["reason"], line["k"], now)
    remaining = allowance(budgets, counts, line["reason"], now).remaining
    seen = {
        "allowedNow": remaining >= line["k"],
        "remaining": remaining,
        "nextOpen": opening.instant and format_time(opening.instant),
    }
    compare(seen, line["want"])
    question = NodeGateQuestion("gate", line["reason"], count=line["k"], observed=counts)
    found = answer(question, PoolView("gate", budgets), now)
    assert (found.allowed, found.remaining, found.next_open) == (seen["allowedNow"], remaining, opening.instant)


def check_drift(line: Line) -> None:
    """Labels of a claim are what the requirements of its pool ask for, or not."""
    requirements = tuple(
        Requirement.model_validate_json(dump_json(requirement)) for requirement in line["requirements"]
    )
    compare({"drifted": requirements_drift(requirements, line["labels"]) is not None}, line["want"])


def _budgets(line: Line) -> tuple[Budget, ...]:
    pool = NodePool.read(default(line["nodepool"], None).document)
    assert pool.spec.disruption is not None
    return pool.spec.disruption.budgets


def _counts(line: Line) -> NodeCounts:
    nodes = line["nodes"]
    return NodeCounts(nodes["total"], nodes["deleting"], nodes["notReady"])


def check_decision(line: Line) -> None:
    """One pass decides one of the answers that Karpenter's own methods give.

    The order of the nodes of a command, and of what it makes, is no matter, nor are the types of a static pool.
    """
    catalog = InstanceTypeCatalog(read_instance_types(line["instanceTypes"]))
    now = parse_time(line["now"])
    options = PlannerOptions(spot_to_spot=line["spotToSpot"])
    commands = decide(read_cluster(line["documents"], now), catalog, now, options).commands
    assert _sorted_answer(map(_answer, commands)) in [_sorted_answer(answer) for answer in line["want"]]


def _answer(command: Command) -> JsonObject:
    return {
        "method": command.method.value,
        "decision": command.decided.value,
        "nodes": command.nodes,
        "replacements": [
            {"pool": node.pool, "types": [each.name for each in node.types]} for node in command.replacements
        ],
    }


def _sorted_answer(commands: Iterable[JsonObject]) -> list[JsonObject]:
    """Return an answer in an order of its own, so that equal ones are equal."""
    rows = [
        {
            "method": command["method"],
            "decision": command["decision"],
            "nodes": sorted(command["nodes"]),
            "replacements": sorted(
                (node["pool"], [] if command["method"] == Method.STATIC_DRIFT else sorted(node["types"]))
                for node in command["replacements"]
            ),
        }
        for command in commands
    ]
    return sorted(rows, key=lambda row: row["nodes"])
