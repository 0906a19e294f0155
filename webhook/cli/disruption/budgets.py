"""``harbormaster budgets``: limits of disruption budgets, now and on a calendar, read from the hub or from files."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from typing import TYPE_CHECKING, Any
from zoneinfo import ZoneInfo

import click
import pydantic

from scorer.api.kinds import NODE, NODE_CLAIM, NODE_POOL
from scorer.api.unstructured.documents import spec_of, status_of
from scorer.api.unstructured.json_object import JsonObject, format_time, parse_time
from scorer.api.values.quoting import quote
from webhook.cli.disruption.options import CountOptions, count_options
from webhook.cli.errors import UserError, complain
from webhook.cli.files.documents import Loaded
from webhook.cli.files.repositories import load_known
from webhook.cli.files.search import Files
from webhook.cli.hub.connection import HubConnection
from webhook.cli.options.base import grouped, output_option, repository_option, run, tab
from webhook.cli.options.hub import HubOptions, hub_options
from webhook.cli.options.times import read_zone, zone_option
from webhook.cli.text.output import print_document, print_table
from webhook.validation.framework.field import shape_errors

if TYPE_CHECKING:
    from scorer.node_budgets.budgets import NodeCounts
    from scorer.node_budgets.documents import BudgetCalendar, BudgetedPool

HELP = """Show the disruptions that budgets allow, now and on a calendar.

A budget of a NodePool limits how many of its nodes may be disrupted at the same time, optionally only for certain
reasons and hours. The strictest active budget applies. With -f, reads files (NodePools, plus Nodes and NodeClaims for
the counts). Otherwise queries the running hub.

\b
Examples:
  harbormaster budgets list
  harbormaster budgets calendar general --tz Europe/Berlin
  harbormaster budgets calendar -f examples/fleet/node-pools.yaml --total 40
  harbormaster budgets calendar --days 60 -o ics > budgets.ics

\b
Exit codes:
  0  shown
  1  no such pool or time zone, an unusable file, or an unreachable hub
"""
LIST_HELP = """Show how many nodes may be disrupted now, per pool and reason.

ALLOWED: number of nodes that may be disrupted now. USED: number of nodes that are being disrupted or are not ready.
OPENS: when the next node may be disrupted.

\b
Examples:
  harbormaster budgets list
  harbormaster budgets list general batch -o json
  harbormaster budgets list -f pools.yaml --total 40 --deleting 1

\b
Exit codes:
  0  shown
  1  no such pool or time zone, an unusable file, or an unreachable hub
"""
CALENDAR_HELP = """Show a calendar of allowed disruptions, per pool and reason.

Budget schedules are in UTC. The calendar uses your time zone, or that of --tz, and assumes the current number of nodes.
In the table, each character stands for half an hour (an hour on a narrow terminal) and shows the smallest number
allowed within it.

\b
Examples:
  harbormaster budgets calendar
  harbormaster budgets calendar general --tz Europe/Berlin --days 7
  harbormaster budgets calendar --from 2026-03-27 --tz America/New_York
  harbormaster budgets calendar -f examples/fleet/node-pools.yaml --total 40
  harbormaster budgets calendar general --days 60 -o ics > general.ics

\b
Exit codes:
  0  shown
  1  no such pool or time zone, an unusable file, or an unreachable hub
"""
SHORT = "Show the disruptions that budgets allow, now and on a calendar."
LONGEST_DAYS = 400
MARGIN_DAYS = 8
"""With -o ics, read this many more days on both sides, so that events have their real start and end."""


class _InstantOrDay(click.ParamType[datetime | date]):
    """An instant, or a day of the reader's time zone."""

    name = "TIME"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> datetime | date:
        """Return the instant or the day, or fail with a message that shows the value."""
        if isinstance(value, (datetime, date)):
            return value
        text = str(value)
        try:
            return date.fromisoformat(text) if len(text) == len("2026-03-01") else parse_time(text)
        except (ValueError, OverflowError):
            self.fail(
                f"{text[:64]!r} is neither a day such as 2026-03-01 nor a time such as 2026-03-01T10:00:00Z", param, ctx
            )


@dataclass(frozen=True, slots=True)
class _CalendarOptions:
    """Period and time zone of the calendar.

    Args:
        zone: Name of a time zone. None means the local time zone.
        days: Number of days.
        beginning: An instant, or a day in that zone. None means the current time.
    """

    zone: str | None
    days: int
    beginning: datetime | date | None


pools_argument = click.argument("pools", nargs=-1, metavar="[POOL]...", shell_complete=tab("pools"))
counts_of_files = count_options(
    "With -f: the number of nodes of each pool.",
    "With -f: the number of nodes that are being deleted.",
    "With -f: the number of other nodes that are not ready.",
)


@click.group("budgets", help=HELP, short_help=SHORT)
def command() -> None:
    """Group the two commands."""


@command.command("list", help=LIST_HELP, short_help="Show how many nodes may be disrupted now, per pool and reason.")
@pools_argument
@repository_option
@zone_option
@counts_of_files
@output_option("table", "json", "yaml")
@hub_options
def list_command(
    pools: Sequence[str],
    files: Files,
    zone: str | None,
    counts: CountOptions,
    output: str,
    hub: HubOptions,
) -> int:
    """Show how many nodes may be disrupted now."""
    display_zone = read_zone(zone)
    if files:
        hub.refuse_with_files()
        from scorer.node_budgets.documents import overview

        pools_with_counts = pools_in_files(load_known(files), pools, _counts(counts))
        answer: Mapping[str, Any] = overview(pools_with_counts, datetime.now(UTC))
    else:
        _only_with_files(counts)
        connection = hub.find()
        answer = run(_budgets_of_hub(connection, pools))
    if output != "table":
        print_document(answer, output)
        return 0
    if not answer["items"]:
        click.echo("No NodePools found")
        return 0
    from webhook.cli.disruption.budget_table import overview_rows

    print_table(("POOL", "REASON", "ALLOWED", "USED", "TOTAL", "OPENS"), overview_rows(answer, display_zone))
    return 0


@command.command("calendar", help=CALENDAR_HELP, short_help="Show a calendar of allowed disruptions.")
@pools_argument
@repository_option
@grouped(
    "window",
    _CalendarOptions,
    zone_option,
    click.option("--days", type=click.IntRange(1, LONGEST_DAYS), default=14, show_default=True, help="Number of days."),
    click.option("--from", "beginning", type=_InstantOrDay(), help="Start of the calendar.  [default: now]"),
)
@counts_of_files
@output_option("table", "json", "ics")
@hub_options
def calendar_command(
    pools: Sequence[str],
    files: Files,
    window: _CalendarOptions,
    counts: CountOptions,
    output: str,
    hub: HubOptions,
) -> int:
    """Show a calendar of allowed disruptions. Raises `UserError`."""
    display_zone, days, first_day = read_zone(window.zone), window.days, window.beginning
    now = datetime.now(UTC).replace(microsecond=0)
    try:
        start, end = _bounds(first_day, days, display_zone, now)
        query_start, query_days = start, days
        if output == "ics":
            query_start, query_days = start - timedelta(days=MARGIN_DAYS), days + 2 * MARGIN_DAYS
        elif output == "table" and end - start > timedelta(days=days):
            query_days = days + 1
    except OverflowError as error:
        first_day_text = format_time(first_day) if isinstance(first_day, datetime) else first_day
        raise UserError(f"--from {first_day_text}: the calendar must be within the years 1 to 9999") from error
    if files:
        hub.refuse_with_files()
        pools_with_counts = pools_in_files(load_known(files), pools, _counts(counts))
        answer: Mapping[str, Any] = _offline(
            pools_with_counts, query_start, query_days, display_zone if window.zone else None
        )
    else:
        _only_with_files(counts)
        connection = hub.find()
        answer = run(
            _calendar_of_hub(connection, pools, query_start, query_days, display_zone if window.zone else None)
        )
    if output == "json":
        print_document(answer, output)
    elif output == "ics":
        from webhook.cli.disruption.icalendar import icalendar

        click.echo(icalendar(answer, start, end, now), nl=False)
    else:
        from webhook.cli.disruption.budget_table import print_calendar

        print_calendar(answer, display_zone, end)
    return 0


def _bounds(first_day: datetime | date | None, days: int, zone: ZoneInfo, now: datetime) -> tuple[datetime, datetime]:
    """Return start and end. Days that start at midnight of *zone* may have 23 or 25 hours, others have 24.

    Raises:
        OverflowError: Start or end, or a day that contains one of them, is outside the years 1 to 9999.
    """
    from webhook.cli.disruption.budget_table import midnight

    if isinstance(first_day, date) and not isinstance(first_day, datetime):
        start, end = (midnight(first_day + timedelta(days=later), zone) for later in (0, days))
    else:
        start = first_day or now
        end = start + timedelta(days=days)
    midnight(end.astimezone(zone).date() + timedelta(days=1), zone)
    return start, end


def _only_with_files(counts: CountOptions) -> None:
    if counts:
        raise click.UsageError("--total, --deleting and --not-ready require -f: the running hub counts its own nodes")


def _counts(counts: CountOptions) -> "NodeCounts | None":
    """Return the counts that options give, or None without such options. Raises `UserError`."""
    from scorer.node_budgets.budgets import NodeCounts

    counts.check_whole()
    if counts.total is None:
        return None
    total, deleting, not_ready = counts.total, counts.deleting or 0, counts.not_ready or 0
    try:
        return NodeCounts(total, deleting, not_ready)
    except ValueError as error:
        raise UserError(f"--total {total}, --deleting {deleting}, --not-ready {not_ready}: {error}") from error


def pools_in_files(
    objects: Iterable[Loaded], names: Sequence[str], counts: "NodeCounts | None"
) -> "tuple[BudgetedPool, ...]":
    """Return the NodePools among *objects*, by name or in the order of *names*.

    Args:
        objects: NodePools, and the Nodes and NodeClaims to count.
        names: Names of pools. If empty, all pools.
        counts: Counts for every pool, in place of those of the files. None: unset.

    Raises:
        UserError: There are no pools, a pool is malformed, or no pool has a given name.
    """
    from scorer.api.node_pool import NodePool
    from scorer.node_budgets.documents import BudgetedPool
    from scorer.node_budgets.nodes import PoolNode, count_nodes, read_pool_node

    objects = list(objects)
    claims: dict[str, JsonObject] = {}
    for item in objects:
        if item.kind == NODE_CLAIM:
            status = status_of(item.document)
            claims |= {name: item.document for key in ("providerID", "nodeName") if (name := status.get(key))}
    nodes: dict[str, list[PoolNode]] = {}
    for item in objects:
        if item.kind == NODE:
            claim = claims.get(item.name) or claims.get(spec_of(item.document).get("providerID") or "")
            if pool_node := read_pool_node(item.document, claim):
                nodes.setdefault(pool_node.pool, []).append(pool_node)
    pools: dict[str, BudgetedPool] = {}
    problems: list[str] = []
    for item in objects:
        if item.kind != NODE_POOL:
            continue
        try:
            budgets = NodePool.read(item.document).spec.disruption.budgets
        except pydantic.ValidationError as error:
            problems += (f"{item.source}: {mistake}" for mistake in shape_errors(error))
            continue
        pools[item.name] = BudgetedPool(item.name, budgets, counts or count_nodes(nodes.get(item.name, ())))
    if problems:
        raise UserError(problems)
    if not pools:
        raise UserError("no NodePools in the files")
    for name in names:
        if name not in pools:
            names_in_files = ", ".join(sorted(pools)[:20])
            raise UserError(f"there is no NodePool {quote(name)} in the files, available: {names_in_files}")
    desired = [pools[name] for name in dict.fromkeys(names or sorted(pools))]
    _warn_of_missing_nodes(desired)
    return tuple(desired)


def _warn_of_missing_nodes(pools: Iterable["BudgetedPool"]) -> None:
    """Warn that a percentage of zero nodes allows nothing."""
    empty = [p.name for p in pools if not p.counts.total and any(b.nodes.endswith("%") for b in p.budgets)]
    if empty:
        few = ", ".join(empty[:5]) + (f" and {len(empty) - 5} more" if len(empty) > 5 else "")
        complain(
            f"note: the files have no nodes of {few}, so a percentage allows no disruption. Give the number of nodes "
            "with --total N"
        )


def _offline(pools: Sequence["BudgetedPool"], start: datetime, days: int, zone: ZoneInfo | None) -> "BudgetCalendar":
    from scorer.node_budgets.documents import CalendarMaker, TooLargeError

    try:
        maker = CalendarMaker(len(pools), start, days, zone)
        for pool in pools:
            maker.add(pool)
    except TooLargeError as error:
        raise UserError(str(error)) from error
    except OverflowError as error:
        raise UserError(f"--from {format_time(start)}: the calendar must be within the years 1 to 9999") from error
    return maker.document()


async def _budgets_of_hub(connection: HubConnection, pools: Sequence[str]) -> JsonObject:
    from webhook.cli.hub.answers import hub_answers
    from webhook.cli.hub.client import HubRefusedError

    try:
        async with hub_answers(connection) as hub:
            return await hub.budgets(pools)
    except HubRefusedError as error:
        raise UserError(error.message) from error


async def _calendar_of_hub(
    connection: HubConnection, pools: Sequence[str], start: datetime, days: int, zone: ZoneInfo | None
) -> JsonObject:
    """Return the calendar, queried in parts: a response has limits of days, and of pools times days.

    Raises:
        UserError: The hub refused, or the pools changed between the requests.
    """
    from scorer.node_budgets.documents import MOST_POOL_DAYS
    from webhook.cli.hub.answers import hub_answers
    from webhook.cli.hub.client import HubRefusedError

    first_days = min(days, LONGEST_DAYS)
    pools_per_request = max(1, MOST_POOL_DAYS // first_days)
    answer: JsonObject = {"from": format_time(start), "until": format_time(start + timedelta(days=days)), "items": []}
    try:
        async with hub_answers(connection) as hub:
            names = list(pools) or [entry["pool"] for entry in (await hub.budgets(()))["pools"]]
            for first in range(0, len(names), pools_per_request):
                some = names[first : first + pools_per_request]
                part = await hub.budget_calendar(some, start, first_days, zone)
                if rest := days - first_days:
                    part = joined(part, await hub.budget_calendar(some, start + timedelta(first_days), rest, zone))
                answer = {**part, "items": [*answer["items"], *part["items"]]}
    except HubRefusedError as error:
        raise UserError(error.message) from error
    return answer


def joined(first: JsonObject, rest: JsonObject) -> JsonObject:
    """Return two consecutive calendars of the same pools as one. A period on both sides of the seam is one period.

    Raises:
        UserError: The pools or their budgets differ, so the positions in `binding` would refer to others.
    """
    if _subjects(first) != _subjects(rest):
        raise UserError("the NodePools or their budgets changed while the calendar was read. Run the command again")
    items = [
        {
            **item,
            "reasons": [
                {**reason, "spans": _joined_spans(reason["spans"], following["spans"])}
                for reason, following in zip(item["reasons"], later["reasons"], strict=True)
            ],
        }
        for item, later in zip(first["items"], rest["items"], strict=True)
    ]
    return {**first, "until": rest["until"], "items": items}


def _subjects(calendar: JsonObject) -> list[tuple[Any, ...]]:
    """Return the pools of a calendar, each with its budgets and reasons."""
    return [
        (item["pool"], item["budgets"], [entry["reason"] for entry in item["reasons"]]) for item in calendar["items"]
    ]


def _joined_spans(spans: Sequence[JsonObject], following: Sequence[JsonObject]) -> list[JsonObject]:
    *earlier, last = spans
    seam, *later = following
    if (last["limit"], last["binding"]) != (seam["limit"], seam["binding"]):
        return [*spans, *following]
    return [*earlier, {**last, **{key: seam[key] for key in ("end", "localEnd") if key in seam}}, *later]
