"""The NodePools of a plan: nodes that drift, expire, are consolidated or deleted, by when, and the cost.

The cluster is simulated before and after the changes, as by ``simulate disruption --pools``.

Source: docs/specifications/what-if.md 2.
"""

from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from scorer.api.kinds import NODE, NODE_POOL
from scorer.api.unstructured.json_object import JsonObject, format_time
from scorer.api.values.quoting import printable
from webhook.cli.errors import complain
from webhook.cli.files.documents import Loaded
from webhook.cli.text.output import print_table

if TYPE_CHECKING:
    from scorer.node_disruption.simulation.timeline import SimulationResult

PERIOD: Final = timedelta(days=7)
MOST_NODES: Final = 1_000
"""Maximum number of nodes in a cluster that a plan simulates."""
_HEADERS: Final = ("NODEPOOL", "REASON", "TODAY", "CHANGED", "FIRST", "LAST")
_NAMED: Final = 3


def node_pool_effects(
    base: tuple[Sequence[Loaded], Sequence[JsonObject]],
    changes: tuple[Sequence[Loaded], Sequence[JsonObject]],
    prices: Path | None,
    now: datetime,
) -> JsonObject | None:
    """Return the effects of changed NodePools, node classes and NodeOverlays on a dump.

    Return None if the dump has no nodes or too many, or if no such object changes: nothing is simulated then.

    Args:
        base: The dump, with its node classes and NodeOverlays.
        changes: The changes, with their node classes and NodeOverlays.
        prices: File with instance types and prices. None: unknown.
        now: Start of the simulation, unless nodes of the dump have heartbeats.

    Raises:
        UserError: The prices are invalid.
    """
    pools = [item.document for item in changes[0] if item.kind == NODE_POOL]
    nodes = [item.document for item in base[0] if item.kind == NODE]
    if not nodes or not (pools or changes[1]):
        return None
    if len(nodes) > MOST_NODES:
        complain(
            f"note: NodePools are not simulated, because the dump has more than {MOST_NODES} nodes. "
            "Run harbormaster simulate disruption"
        )
        return None
    from scorer.node_disruption.cluster.reader import read_cluster
    from scorer.node_disruption.simulation.simulator import simulate
    from webhook.cli.disruption.cluster_dump import changes_of, newest_heartbeat
    from webhook.cli.disruption.simulate import check_prices, read_prices, with_changes, with_prices

    today, changed = changes_of([], base[1]), changes_of(pools, changes[1])
    start = newest_heartbeat(nodes, now) or now
    cluster = read_cluster([*(item.document for item in base[0]), *today.classes], start)
    catalog = None if prices is None else read_prices(prices)
    if catalog is not None and prices is not None:
        check_prices(prices, catalog, cluster)
    notes: list[str] = []
    scenarios = [cluster, with_changes(cluster, changed, notes)]
    scenarios = with_prices(scenarios, catalog, today.overlays, changed.overlays, notes)
    before, after = (simulate(scenario, catalog, start, PERIOD) for scenario in scenarios)
    return {
        "start": format_time(before.start),
        "end": format_time(before.end),
        "notes": list(dict.fromkeys(notes)),
        "pools": list(_differences(before, after)),
    }


def print_node_pools(effects: JsonObject) -> None:
    """Print the effects on NodePools."""
    for note in effects["notes"]:
        complain(f"note: {note}")
    if not effects["pools"]:
        click.echo(f"NodePools: no difference in disruptions, nodes or cost until {effects['end']}")
        return
    print_table(_HEADERS, [row for pool in effects["pools"] for row in _rows(pool)])
    for line in _cost_lines(effects):
        click.echo(line)


def effect_lines(effects: JsonObject) -> Iterator[str]:
    """Yield the effects on NodePools as text, a line for each reason and for the cost of each pool."""
    for pool in effects["pools"]:
        for name, reason, today, changed, first, last in _rows(pool):
            yield f"{name}: {reason}: today {today}; changed {changed}, from {first} to {last}"
    yield from _cost_lines(effects)


def _cost_lines(effects: JsonObject) -> Iterator[str]:
    for pool in effects["pools"]:
        figures = pool["pricePerHourAfter"]
        if None not in figures.values():
            today, changed = (f"{figures[key]:.4f}".removesuffix("00") for key in ("today", "changed"))
            yield printable(f"{pool['pool']}: cost per hour at {effects['end']}: today {today}; changed {changed}")


def _rows(pool: JsonObject) -> Iterator[tuple[str, ...]]:
    for disruption in pool["disruptions"]:
        today, changed = (_names(disruption[key]) for key in ("today", "changed"))
        times = (disruption["first"] or "-", disruption["last"] or "-")
        yield printable(pool["pool"]), disruption["reason"], today, changed, *times


def _names(nodes: Sequence[str]) -> str:
    more = f" and {len(nodes) - _NAMED} more" if len(nodes) > _NAMED else ""
    return printable(", ".join(nodes[:_NAMED]) + more) or "-"


def _differences(before: "SimulationResult", after: "SimulationResult") -> Iterator[JsonObject]:
    """Yield each pool whose nodes or cost change. Times are those of the changed disruptions."""
    summaries = [{pool.pool: pool for pool in result.pools} for result in (before, after)]
    for name in sorted(summaries[0].keys() | summaries[1].keys()):
        disruptions = [_by_reason(result, name) for result in (before, after)]
        prices = [summary[name].price_after if name in summary else None for summary in summaries]
        counts = [summary[name].nodes_after if name in summary else 0 for summary in summaries]
        if disruptions[0] == disruptions[1] and prices[0] == prices[1] and counts[0] == counts[1]:
            continue
        yield {
            "pool": name,
            "nodesAfter": {"today": counts[0], "changed": counts[1]},
            "pricePerHourAfter": {"today": prices[0], "changed": prices[1]},
            "disruptions": [
                {
                    "reason": reason,
                    "today": list(disruptions[0].get(reason, {})),
                    "changed": list(disruptions[1].get(reason, {})),
                    "first": min(disruptions[1].get(reason, {}).values(), default=None),
                    "last": max(disruptions[1].get(reason, {}).values(), default=None),
                }
                for reason in sorted(disruptions[0].keys() | disruptions[1].keys())
            ],
        }


def _by_reason(result: "SimulationResult", pool: str) -> dict[str, dict[str, str]]:
    """Return the start of each disruption of a pool, by reason and node. Launches are left out."""
    reasons: dict[str, dict[str, str]] = {}
    for event in result.happenings:
        if event.pool == pool and event.nodes:
            times = reasons.setdefault(str(event.reason or event.method), {})
            times |= {node: format_time(event.at) for node in event.nodes}
    return reasons
