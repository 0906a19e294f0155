"""A simulation on a terminal: timeline and blocked nodes of each pool. Two simulations are compared side by side."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import timedelta
from typing import Any, Final
from zoneinfo import ZoneInfo

import click

from scorer.api.unstructured.json_object import JsonObject, parse_time
from scorer.api.values.duration import format_duration
from scorer.api.values.quoting import format_count
from scorer.node_disruption.simulation.timeline import BlockedPeriod, subject
from webhook.cli.options.times import in_zone, is_shown_twice
from webhook.cli.text.output import print_line, print_table

HEADERS: Final = ("WHEN", "NODES", "REASON", "WHY", "SAVES", "NEW NODES", "DELAYED BY")
HELD_HEADERS: Final = ("NODES", "BLOCKED FOR", "FROM", "UNTIL", "TIMES", "BLOCKED BY")
SIDE_BY_SIDE: Final = ("POOL", "", "TODAY", "CHANGED")
SHORTEST_SHOWN: Final = timedelta(minutes=15)
"""Minimum blocked time of a node: its total in a table, a single period in a calendar. Shorter times are omitted."""
_NAMED: Final = 3
_LONGEST_MESSAGE: Final = 90
_NOTHING: Final = "-"


def print_simulation(document: JsonObject, zone: ZoneInfo) -> None:
    """Print a simulation, as `scorer.node_disruption.simulation.document.document_of` returns it."""
    start, end = _local_time(document["start"], zone), _local_time(document["end"], zone)
    click.echo(f"{start} to {end}, times in {zone.key}")
    if document["stopped"]:
        print_line(document["stopped"])
    for pool in document["pools"]:
        click.echo()
        _print_pool(pool, document["end"], zone)
    if pending_pods := document["waiting"]:
        click.echo()
        click.echo(f"{format_count(len(pending_pods), 'pod')} still pending at the end:")
        print_table(
            ("POD", "SINCE", "WHY"),
            [(pod["pod"], _local_time(pod["since"], zone), pod["reason"]) for pod in pending_pods],
        )


def print_comparison(document: JsonObject, zone: ZoneInfo) -> None:
    """Print two simulations, one after the other, and then the figures that differ."""
    for title, key in (("TODAY'S POOLS", "today"), ("CHANGED POOLS", "changed")):
        click.echo(title)
        print_simulation(document[key], zone)
        click.echo()
    if not document["differences"]:
        is_unchanged = _comparable(document["today"]) == _comparable(document["changed"])
        click.echo(
            f"The changes make no difference{'' if is_unchanged else ' to these figures, only to times or nodes'}."
        )
        return
    click.echo("DIFFERENCES")
    print_table(SIDE_BY_SIDE, list(_differences(document["differences"])))


def named(nodes: Sequence[str]) -> str:
    """Return a few names, and how many more there are."""
    more = f" and {len(nodes) - _NAMED} more" if len(nodes) > _NAMED else ""
    return ", ".join(nodes[:_NAMED]) + more


def amount(price: float) -> str:
    """Format a price with two decimals, or with four if it has more."""
    text = f"{price:.4f}"
    return text.removesuffix("00") if float(text) else "0.00"


def by_cause(periods: Iterable[BlockedPeriod]) -> list[tuple[BlockedPeriod, ...]]:
    """Group blocked periods with the same cause, start and end, in the order of the first of each.

    Budgets that only block the evaluation of a node for consolidation are omitted: the calendar of budgets shows them.
    """
    by_key: dict[tuple[Any, ...], list[BlockedPeriod]] = {}
    for period in periods:
        if not _only_looked_at(period.wanted, period.reason):
            key = (
                period.since,
                period.until,
                period.pool,
                period.wanted,
                period.reason,
                subject(period.message),
                period.draining,
            )
            by_key.setdefault(key, []).append(period)
    return [tuple(several) for several in by_key.values()]


def _only_looked_at(reason_wanted: str | None, reason: str) -> bool:
    return reason_wanted == "Underutilized" and reason == "Budget"


def _print_pool(pool: JsonObject, end: str, zone: ZoneInfo) -> None:
    print_line(f"{pool['pool']}: {_summary(pool)}")
    if pool["happenings"]:
        print_table(HEADERS, [_row(event, zone) for event in _folded(pool["happenings"])])
    rows = list(_held_rows(pool["blocked"], end, zone))
    if rows:
        click.echo()
        print_table(HELD_HEADERS, rows)


def _summary(pool: JsonObject) -> str:
    first, last = pool["nodesBefore"], pool["nodesAfter"]
    parts = [format_count(first, "node") if first == last else f"{format_count(first, 'node')}, then {last}"]
    prices = pool["pricePerHourBefore"], pool["pricePerHourAfter"]
    if None not in prices:
        before, after = map(amount, prices)
        parts.append(f"{before} per hour" if before == after else f"{before} per hour, then {after}")
    disruption_counts = ", ".join(f"{number} {reason}" for reason, number in pool["disrupted"].items())
    return "; ".join(
        (*parts, disruption_counts or ("nothing is disrupted" if pool["happenings"] else "nothing happens"))
    )


def _row(event: JsonObject, zone: ZoneInfo) -> tuple[str, ...]:
    savings = event["savingsPerHour"]
    hold_reasons = dict.fromkeys(hold["reason"] for hold in event["heldBefore"])
    return (
        _local_time(event["at"], zone),
        named(event["nodes"]) or _NOTHING,
        event["reason"] or event["method"],
        event["why"],
        _NOTHING if savings is None else amount(savings),
        named([replacement["name"] for replacement in event["replacedBy"]]) or _NOTHING,
        ", ".join(hold_reasons) or _NOTHING,
    )


def _folded(happenings: Iterable[JsonObject]) -> list[JsonObject]:
    """Merge events into rows. Nodes that are created later for the pods of a draining node share its row."""
    rows: list[JsonObject] = []
    for event in happenings:
        of = set(event["podsOf"])
        index = next((at for at, row in enumerate(rows) if of and of <= set(row["nodes"])), None)
        if index is None:
            rows.append(event)
            continue
        row, price = rows[index], event["savingsPerHour"]
        savings = None if None in (price, row["savingsPerHour"]) else row["savingsPerHour"] + price
        rows[index] = {**row, "replacedBy": [*row["replacedBy"], *event["replacedBy"]], "savingsPerHour": savings}
    return rows


def _held_rows(periods: Iterable[JsonObject], end: str, zone: ZoneInfo) -> Iterator[tuple[str, ...]]:
    """Yield a row for each blocker, with all nodes that it blocks at any time."""
    by_key: dict[tuple[Any, ...], list[JsonObject]] = {}
    for period in periods:
        if not _only_looked_at(period["wanted"], period["reason"]):
            by_key.setdefault((period["reason"], subject(period["message"]), period["draining"]), []).append(period)
    for several in by_key.values():
        if _longest(several, end) < SHORTEST_SHOWN:
            continue
        nodes = list(dict.fromkeys(period["node"] for period in several))
        purposes = sorted({period["wanted"] or "deletion" for period in several})
        times = {(period["since"], period["until"]) for period in several}
        is_open = any(period["until"] is None for period in several)
        first = several[0]
        yield (
            named(nodes) + (" (draining)" if first["draining"] else ""),
            ", ".join(purposes),
            _local_time(min(since for since, _ in times), zone),
            "the end" if is_open else _local_time(max(until or end for _, until in times), zone),
            str(max(len(_of(several, node, word)) for node in nodes for word in purposes)),
            _brief(first),
        )


def _brief(period: JsonObject) -> str:
    """Return the reason why a node is blocked, without the part that only applied at first."""
    message: str = period["message"]
    if period["reason"] == "Budget":
        return message.partition(", ")[0]
    return message if len(message) <= _LONGEST_MESSAGE else subject(message)


def _of(several: Iterable[JsonObject], node: str, purpose: str) -> list[JsonObject]:
    return [period for period in several if period["node"] == node and (period["wanted"] or "deletion") == purpose]


def _longest(several: Iterable[JsonObject], end: str) -> timedelta:
    """Return the longest total time that one node is blocked for one reason."""
    lengths: dict[tuple[str, str], timedelta] = {}
    for period in several:
        key = period["node"], period["wanted"]
        length = parse_time(period["until"] or end) - parse_time(period["since"])
        lengths[key] = lengths.get(key, timedelta()) + length
    return max(lengths.values())


_FIGURES: Final[Mapping[str, str]] = {
    "nodesBefore": "nodes now",
    "nodesAfter": "nodes then",
    "pricePerHourAfter": "price per hour then",
    "savingsPerHour": "savings per hour",
    "disrupted": "disrupted",
    "longestBlockedSeconds": "longest block",
}


def _differences(differences: Iterable[JsonObject]) -> Iterator[tuple[str, ...]]:
    for difference in differences:
        name = difference["pool"]
        for key, words in _FIGURES.items():
            today, changed = difference[key]["today"], difference[key]["changed"]
            if today != changed:
                yield name, words, _figure(key, today), _figure(key, changed)
                name = ""


def _figure(key: str, value: Any) -> str:
    if value is None:
        return _NOTHING
    if key == "disrupted":
        return ", ".join(f"{number} {reason}" for reason, number in value.items()) or "nothing"
    if key == "longestBlockedSeconds":
        return format_duration(timedelta(seconds=value)) if value else _NOTHING
    return amount(value) if isinstance(value, float) else str(value)


def _comparable(document: JsonObject) -> list[tuple[Any, ...]]:
    """Return the events and blocked periods of a simulation."""
    return [(pool["happenings"], pool["blocked"]) for pool in document["pools"]]


def _local_time(text: str, zone: ZoneInfo) -> str:
    local_time = in_zone(parse_time(text), zone)
    return f"{local_time:%a %d %b %H:%M %Z}" if is_shown_twice(local_time) else f"{local_time:%a %d %b %H:%M}"
