"""``harbormaster simulate``: simulate disruption in a cluster, with an advanced clock."""

import gc
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Final
from zoneinfo import ZoneInfo

import click

from scorer.api.unstructured.json_object import JsonObject, format_time
from scorer.node_disruption.cluster.snapshot import ClusterSnapshot
from scorer.node_disruption.instance_types.catalog import InstanceTypeCatalog, missing
from webhook.cli.disruption.cluster_dump import DUMP_LINE
from webhook.cli.errors import UserError, complain
from webhook.cli.files.search import Files
from webhook.cli.options.base import file_option, grouped, output_option
from webhook.cli.options.times import Instant, read_zone, zone_option
from webhook.cli.text.output import print_document
from webhook.gate.instance_types import read_catalog
from webhook.runtime.price_files import PriceFileError, load_prices

if TYPE_CHECKING:
    from scorer.node_disruption.cluster.snapshot import ClusterSnapshot
    from scorer.node_disruption.instance_types.catalog import InstanceTypeCatalog
    from scorer.node_disruption.simulation.timeline import SimulationResult
    from webhook.cli.disruption.cluster_dump import PoolChanges

SHORT: Final = "Simulate the disruption of a cluster's nodes over the next days."
LONGEST_DAYS: Final = 90
WOULD_HAPPEN: Final = 2

HELP: Final = f"""{SHORT}

\b
Examples:
  {DUMP_LINE}
  harbormaster simulate disruption -f dump.yaml

\b
Exit codes:
  0  no node would be disrupted
  1  an error
  2  nodes would be disrupted
"""
DISRUPTION_HELP: Final = f"""Simulate what Karpenter would do to the nodes of a cluster, and when.

The files are a dump of the cluster:

\b
  {DUMP_LINE}

For each pool, the table shows which nodes are disrupted, when and why, the savings per hour, the replacements, and what
delayed the disruption. Without --prices nothing is consolidated. With --pools, compares the current pools with changed
ones, and with changed node classes and NodeOverlays. The dump may hold those as well: add aksnodeclasses,
ec2nodeclasses or gcenodeclasses, and nodeoverlays to the command.

Assumptions: a new node is ready after 90 s, a drain takes as long as its pods take to terminate, evicted pods are
recreated elsewhere, no other pods are created, nothing fails, and prices do not change.

\b
Examples:
  harbormaster simulate disruption -f dump.yaml --prices prices.csv
  harbormaster simulate disruption -f cluster-dump/ --days 14 --tz Europe/Berlin
  harbormaster simulate disruption -f dump.yaml --pools changed.yaml
  harbormaster simulate disruption -f dump.yaml -o ics > week.ics

\b
-o json:
  start end stopped assumptions notes[]
  pools[]               pool nodesBefore nodesAfter pricePerHourBefore pricePerHourAfter disrupted savingsPerHour
                        longestBlockedSeconds
  pools[].happenings[]  at method reason nodes[] why savingsPerHour replacedBy[] gone limit disrupting podsOf[]
                        heldBefore[] (as blocked[])
  replacedBy[]          name instanceType zone capacityType pricePerHour ready
  pools[].blocked[]     node wanted reason message since until draining
  waiting[]             pod since reason
  With --pools: today, changed (both as above), differences[] (pool, then each figure as today and changed).

\b
Exit codes:
  0  no node would be disrupted
  1  an error: unusable files, invalid prices, or a NodePool that admission would refuse
  2  nodes would be disrupted
"""


@dataclass(frozen=True, slots=True)
class Period:
    """Period of a simulation.

    Args:
        days: Number of days.
        now: Start of the period. None means the creation time of the dump, or the current time if that is unknown.
        zone: Name of the time zone of displayed instants. None means the one of this machine.
    """

    days: int
    now: datetime | None
    zone: str | None


@dataclass(frozen=True, slots=True)
class _SimulationOptions:
    """Options of a simulation.

    Args:
        pools: Files with changed NodePools.
        prices: File with instance types and prices. None: unset.
        graceful: Whether budgets and do-not-disrupt block expiration.
        spot_to_spot: Whether spot nodes may be replaced by cheaper spot nodes.
    """

    pools: Sequence[str]
    prices: Path | None
    graceful: bool
    spot_to_spot: bool


@click.group("simulate", help=HELP, short_help=SHORT)
def command() -> None:
    """Group the commands."""


@command.command("disruption", help=DISRUPTION_HELP, short_help=SHORT)
@file_option
@grouped(
    "period",
    Period,
    click.option(
        "--days", type=click.IntRange(1, LONGEST_DAYS), default=7, show_default=True, help="Number of days to simulate."
    ),
    click.option(
        "--now",
        type=Instant(),
        help="Start of the simulation.  [default: the newest heartbeat of a node in the files, or now]",
    ),
    zone_option,
)
@grouped(
    "choices",
    _SimulationOptions,
    click.option(
        "--pools",
        multiple=True,
        metavar="FILE",
        help="Files with changed NodePools, node classes and NodeOverlays, to compare with the current ones. "
        "Repeatable.",
    ),
    click.option(
        "--prices",
        type=click.Path(path_type=Path),
        metavar="FILE",
        help="Instance types and their prices per hour: CSV, YAML or JSON.",
    ),
    click.option(
        "--graceful-expiration", "graceful", is_flag=True, help="Make expiration respect budgets and do-not-disrupt."
    ),
    click.option("--spot-to-spot", is_flag=True, help="Allow replacing spot nodes with cheaper spot nodes."),
)
@output_option("table", "json", "ics")
def disruption(files: Files, period: Period, choices: _SimulationOptions, output: str) -> int:
    """Simulate the disruption of nodes. Raises `click.UsageError`."""
    from scorer.node_disruption.cluster.reader import read_cluster
    from scorer.node_disruption.instance_types.catalog import unlabelled
    from webhook.cli.disruption.cluster_dump import read_dump, read_pools
    from webhook.cli.disruption.simulate import check_prices, read_prices

    if not files:
        raise click.UsageError(f"specify a dump of the cluster with -f FILE. Create it with: {DUMP_LINE}")
    display_zone = read_zone(period.zone)
    present = datetime.now(UTC).replace(microsecond=0)
    dump = read_dump(files, present)
    catalog = read_prices(choices.prices) if choices.prices else None
    changed = read_pools(Files(choices.pools, files.ignored), present) if choices.pools else None
    start = period.now or dump.made or present
    cluster = read_cluster(dump.documents, start)
    if catalog is not None and choices.prices is not None:
        check_prices(choices.prices, catalog, cluster)
    gc.freeze()  # exempt parsed objects from garbage collection, which would take half of the run time
    notes = [*dump.notes, *cluster.notes]
    if catalog is not None:
        notes += dict.fromkeys(unlabelled(catalog, [*cluster.pools.values(), *(changed.pools if changed else ())]))
    else:
        notes.append("no prices: nodes are not consolidated (see --prices), and new nodes are like existing ones")
    scenarios = [cluster]
    if changed is not None:
        scenarios.append(with_changes(cluster, changed, notes))
    scenarios = with_prices(scenarios, catalog, dump.overlays, changed.overlays if changed else (), notes)
    for note in dict.fromkeys(notes):
        complain(f"note: {note}")
    results = [_play(scenario, catalog, start, period, choices) for scenario in scenarios]
    _show(results, output, display_zone, notes, present)
    return WOULD_HAPPEN if any(event.reason for result in results for event in result.happenings) else 0


def with_changes(cluster: "ClusterSnapshot", changed: "PoolChanges", notes: list[str]) -> "ClusterSnapshot":
    """Return the cluster with changed NodePools and node classes. Append notes on the changes to *notes*."""
    from scorer.node_disruption.cluster.node_classes import with_classes
    from scorer.node_disruption.cluster.template_hash import with_pools

    notes += [
        f"NodePool {pool.name} is not in the dump: it has no nodes"
        for pool in changed.pools
        if pool.name not in cluster.pools
    ]
    cluster, _, more = with_classes(with_pools(cluster, changed.pools), changed.classes)
    notes += more
    return cluster


def with_prices(
    scenarios: Sequence["ClusterSnapshot"],
    catalog: "InstanceTypeCatalog | None",
    overlays: Sequence[JsonObject],
    changed: Sequence[JsonObject],
    notes: list[str],
) -> list["ClusterSnapshot"]:
    """Return the one or two clusters with the prices of NodeOverlays. The *changed* ones apply only to the second.

    Without instance types, the clusters are returned unchanged. Notes are appended to *notes*.
    """
    from scorer.node_disruption.instance_types.overlays import with_overlays

    if catalog is None:
        if overlays or changed:
            notes.append("NodeOverlays are not used without --prices")
        return list(scenarios)
    priced = []
    for scenario, documents in zip(scenarios, (overlays, (*overlays, *changed)), strict=False):
        cluster, more = with_overlays(scenario, catalog, documents)
        notes += more
        priced.append(cluster)
    return priced


def _play(
    cluster: "ClusterSnapshot",
    catalog: "InstanceTypeCatalog | None",
    start: datetime,
    period: Period,
    choices: _SimulationOptions,
) -> "SimulationResult":
    from scorer.node_disruption.methods.planner import PlannerOptions
    from scorer.node_disruption.simulation.simulator import simulate

    settings = PlannerOptions(spot_to_spot=choices.spot_to_spot, graceful_expiration=choices.graceful)
    try:
        return simulate(cluster, catalog, start, timedelta(days=period.days), settings)
    except OverflowError as error:
        raise UserError(f"--now {format_time(start)}: the simulation must be within the years 1 to 9999") from error


def _show(
    results: "Sequence[SimulationResult]", output: str, zone: ZoneInfo, notes: Sequence[str], timestamp: datetime
) -> None:
    """Print one simulation, or compare two. A calendar has only the last one."""
    from scorer.node_disruption.simulation.document import comparison_of, document_of

    if output == "ics":
        from webhook.cli.disruption.simulate_calendar import calendar_of

        click.echo(calendar_of(results[-1], timestamp), nl=False)
        return
    documents = [document_of(result) for result in results]
    document: JsonObject = comparison_of(*documents) if len(documents) > 1 else documents[0]
    if output == "json":
        print_document({**document, "notes": list(notes)}, output)
        return
    from webhook.cli.disruption.simulate_output import print_comparison, print_simulation

    if len(documents) > 1:
        print_comparison(document, zone)
    else:
        print_simulation(document, zone)


def read_prices(path: Path) -> InstanceTypeCatalog:
    """Read a table of instance types.

    Raises:
        UserError: The file cannot be read, has no instance types, or has errors: one line each, with field and value.
    """
    try:
        table = load_prices(path, read_catalog)
    except PriceFileError as error:
        raise UserError(error.lines) from error
    if not table.types:
        raise UserError(f"{path}: no instance types")
    return table


def check_prices(path: Path, catalog: InstanceTypeCatalog, cluster: ClusterSnapshot) -> None:
    """Require a price for the type of every node in a pool. Without one, the node would count as no longer offered.

    Raises:
        UserError: Prices are missing. One line each.
    """
    if lines := [
        f"{path}: no price of {kind} in zone {zone} as {capacity_type}, used by nodes: {number}"
        for (kind, zone, capacity_type), number in missing(catalog, cluster).items()
    ]:
        raise UserError(lines)
