"""Schedules of disruption budgets, and what budgets allow."""

from scorer.api.meta import format_time, parse_time
from scorer.api.node_pool import NodePool
from scorer.disruption.budgets import NodeCounts, allowance
from scorer.disruption.cron import matches_crd_pattern, parse_schedule
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
    while len(fires) < SHOWN_FIRES and (following := schedule.next_after(instant)) is not None:
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
    pool = NodePool.read(default(line["nodepool"], None).document)
    nodes = line["nodes"]
    counts = NodeCounts(nodes["total"], nodes["deleting"], nodes["notReady"])
    disruption = pool.spec.disruption
    found = allowance(disruption.budgets if disruption else None, counts, line["reason"], parse_time(line["now"]))
    seen = {
        "limit": found.limit,
        "disrupting": found.disrupting,
        "allowed": found.remaining,
        "active": list(found.active),
        "error": bool(found.unusable),
    }
    compare(seen, line["want"])
