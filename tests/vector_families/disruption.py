"""Schedules of disruption budgets, what budgets allow now and later, and drift from a pool's requirements."""

from scorer.api.meta import dump_json, format_time, parse_time
from scorer.api.node_pool import Budget, NodePool, Requirement
from scorer.node_budgets.budgets import NodeCounts, allowance
from scorer.node_budgets.gate import answer
from scorer.node_budgets.opening import next_open
from scorer.node_budgets.pool_view import PoolView
from scorer.node_budgets.question import NodeGateQuestion
from scorer.node_disruption.methods.drift import requirements_drift
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
