"""Human-readable budgets: current limits as rows, the calendar as a strip of letters per day and reason.

A letter stands for half an hour in the reader's time zone, or for an hour on a narrow terminal. It shows the smallest
number that is allowed within that time. Text alongside the strip describes the same day exactly. Consecutive equal days
share a line, and so do equal reasons. A day with a clock change has 23 or 25 hours: its strip has its own scale.
"""

import os
import shutil
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from itertools import groupby
from typing import Any, Final
from zoneinfo import ZoneInfo

import click

from scorer.api.node_pool import Budget
from scorer.api.unstructured.json_object import JsonObject, parse_time
from scorer.api.values.quoting import format_count, printable
from scorer.node_budgets.lints import FIRST_READING, OTHER_READING, block_style
from webhook.cli.options.times import is_shown_twice
from webhook.cli.text.output import is_terminal, print_line
from webhook.settings.command_line import TerminalSettings

NONE, MANY, UNLIMITED, NOT_SHOWN = ".", "+", "*", " "
LEGEND: Final = "allowed disruptions, + over 9, . none, * no limit"
WIDE: Final = 100
"""Minimum number of terminal columns for half hours."""
PLAIN_WIDTH: Final = 120
MOST_PARTS: Final = 8
"""Maximum number of periods of a day that are described in words. Otherwise, their changes are only counted."""
_MARKED_HOURS: Final = 3
_NEVER: Final = "never"


def overview_rows(answer: Mapping[str, Any], zone: ZoneInfo) -> Iterator[tuple[str, ...]]:
    """Yield one row per pool and reason in a response of ``/v1/budgets``."""
    unusable = {entry["pool"]: entry["unusable"] for entry in answer["pools"]}
    at = parse_time(answer["at"])
    for item in answer["items"]:
        allowed = "no limit" if item["unlimited"] else str(item["remaining"])
        opens = _opens(item, unusable.get(item["pool"], ()), at, zone)
        yield item["pool"], item["reason"], allowed, str(item["disrupting"]), str(item["total"]), opens


def _opens(item: Mapping[str, Any], unusable: Sequence[Mapping[str, Any]], at: datetime, zone: ZoneInfo) -> str:
    if unusable:
        return f"{_NEVER}: budgets[{unusable[0]['budget']}] is invalid"
    if item["remaining"]:
        return "now"
    if item["nextOpen"]:
        return _moment(parse_time(item["nextOpen"]), at, zone)
    if "searchedUntil" in item:
        return f"not before {_moment(parse_time(item['searchedUntil']), at, zone)}"
    if item["neverOpens"]:
        return _NEVER
    return "when a disruption finishes" if item["disrupting"] else "when the pool has nodes"


def _moment(instant: datetime, near: datetime, zone: ZoneInfo) -> str:
    """Return an instant in local time, with the year unless it is that of *near*."""
    local = instant.astimezone(zone)
    year = "" if local.year == near.astimezone(zone).year else f" {local.year}"
    return f"{_day(local)}{year} {_clock(instant, zone)}"


def _day(local: date) -> str:
    return f"{local:%a} {local.day:>2} {local:%b}"


def _clock(instant: datetime, zone: ZoneInfo) -> str:
    """Return the time of day, with the abbreviation of the time zone if the clock shows that time twice."""
    local = instant.astimezone(zone)
    shape = "%H:%M" if not local.second else "%H:%M:%S"
    return f"{local:{shape}} {local:%Z}" if is_shown_twice(local) else f"{local:{shape}}"


@dataclass(frozen=True, slots=True)
class _Part:
    """A part of a day during which the same number is allowed, as a letter and in words."""

    start: datetime
    end: datetime
    letter: str
    words: str
    rank: int


@dataclass(frozen=True, slots=True)
class _Line:
    """One day of a strip."""

    day: date
    hours: str
    letters: str
    words: str
    note: str

    @property
    def look(self) -> tuple[str, ...]:
        """Key of days that share a line."""
        return self.hours, self.letters, self.words, self.note


def print_calendar(answer: Mapping[str, Any], zone: ZoneInfo, end: datetime) -> None:
    """Print a response of ``/v1/budgets/calendar``, up to *end*."""
    terminal = is_terminal()
    width = shutil.get_terminal_size().columns if terminal else PLAIN_WIDTH
    colour = terminal and not TerminalSettings.read(os.environ).no_color
    minutes = 30 if width >= WIDE else 60
    days = list(local_days(parse_time(answer["from"]), min(end, parse_time(answer["until"])), zone))
    if not answer["items"]:
        click.echo("No NodePools found")
        return
    for position, item in enumerate(answer["items"]):
        if position:
            click.echo()
        _print_pool(item, days, zone, minutes, width if terminal else 0, colour=bool(colour))
    click.echo()
    click.echo(f"One character is {minutes} minutes: {LEGEND}")


def local_days(start: datetime, end: datetime, zone: ZoneInfo) -> Iterator[tuple[date, datetime, datetime]]:
    """Yield each day of *zone* that overlaps [start, end), with its first and last instant in UTC."""
    day = start.astimezone(zone).date()
    while (begins := midnight(day, zone)) < end:
        next_day = day + timedelta(days=1)
        if begins < midnight(next_day, zone):  # a zone that moves across the date line skips a day
            yield day, begins, midnight(next_day, zone)
        day = next_day


def midnight(day: date, zone: ZoneInfo) -> datetime:
    """Return the first instant of *day* in *zone*, in UTC."""
    return datetime(day.year, day.month, day.day, tzinfo=zone).astimezone(UTC)


def _print_pool(
    item: Mapping[str, Any],
    days: Sequence[tuple[date, datetime, datetime]],
    zone: ZoneInfo,
    minutes: int,
    width: int,
    *,
    colour: bool,
) -> None:
    counts = item["counts"]
    states = (("deleting", "being deleted"), ("notReady", "not ready"))
    unavailable = [f"{counts[key]} {words}" for key, words in states if counts[key]]
    nodes = format_count(counts["total"], "node")
    title = click.style(printable(item["pool"]), bold=True) if colour else printable(item["pool"])
    click.echo(f"{title}: {', '.join((nodes, *unavailable))}; times in {zone.key}")
    for reasons in _alike(item["reasons"]):
        click.echo()
        _print_reasons(
            reasons, days, zone, minutes, width, every=len(reasons) == len(item["reasons"]) > 1, colour=colour
        )
    notes = [*_closed_notes(item), *_lint_notes(item)]
    if notes:
        click.echo()
        for note in notes:
            print_line(note)


def _alike(reasons: Iterable[JsonObject]) -> list[list[JsonObject]]:
    """Group the reasons that have the same limits all the time."""
    groups: list[list[JsonObject]] = []
    for reason in reasons:
        look = [(span["start"], span["limit"]) for span in reason["spans"]]
        for group in groups:
            if look == [(span["start"], span["limit"]) for span in group[0]["spans"]]:
                group.append(reason)
                break
        else:
            groups.append([reason])
    return groups


def _print_reasons(
    reasons: Sequence[JsonObject],
    days: Sequence[tuple[date, datetime, datetime]],
    zone: ZoneInfo,
    minutes: int,
    width: int,
    *,
    every: bool,
    colour: bool,
) -> None:
    title = "every reason" if every else ", ".join(reason["reason"] for reason in reasons)
    spans = [_part(span) for span in reasons[0]["spans"]]
    lines = [_line(day, begins, ends, spans, zone, minutes) for day, begins, ends in days]
    labels = []
    for look, group in groupby(lines, key=lambda line: line.look):
        rows = list(group)
        first, last = rows[0].day, rows[-1].day
        labels.append((_day(first) if first == last else f"{_day(first)} - {_day(last)}", look))
    room = 2 + max(len(label) for label, _ in labels)
    if len({part.words for part in spans}) == 1:
        click.echo(_beside(f"{title:<{room}}  ", "", 0, "", f"{spans[0].words} at all times", width))
        return
    if len(title) > room:
        click.echo(title)
        title = ""
    widest = max(len(hours) for _, (hours, _, _, _) in labels)
    widest = max(widest, *(len(letters) for _, (_, letters, _, _) in labels))
    above = ""
    for number, (label, (hours, letters, words, note)) in enumerate(labels):
        if hours != above:
            click.echo(f"{'' if number else title:<{room}}  {hours}".rstrip())
            above = hours
        strip = _painted(letters) if colour else letters
        text = "; ".join(part for part in (words, note) if part)
        click.echo(_beside(f"  {label:<{room - 2}}  ", strip, len(letters), " " * (widest - len(letters)), text, width))


def _beside(label: str, strip: str, letters: int, pad: str, text: str, width: int) -> str:
    """Return one line of the strip with its words alongside it, wrapped below each other on a terminal."""
    before = len(label) + letters + len(pad) + 2
    if not width or before + len(text) <= width:
        return f"{label}{strip}{pad}  {text}".rstrip()
    room = max(width - before, 12)
    rows: list[str] = []
    for word in text.split(", "):
        if rows and len(rows[-1]) + len(word) + 3 <= room:
            rows[-1] += f", {word}"
        else:
            if rows:
                rows[-1] += ","
            rows.append(word)
    return f"{label}{strip}{pad}  " + ("\n" + " " * before).join(rows)


def _part(span: Mapping[str, Any]) -> _Part:
    limit = span["limit"]
    words = "no limit" if span["unlimited"] else str(limit) if limit else "none"
    return _Part(parse_time(span["start"]), parse_time(span["end"]), _letter(span), words, limit)


def _letter(span: Mapping[str, Any]) -> str:
    if span["unlimited"]:
        return UNLIMITED
    limit = span["limit"]
    return NONE if not limit else str(limit) if limit <= 9 else MANY


def _line(day: date, begins: datetime, ends: datetime, spans: Sequence[_Part], zone: ZoneInfo, minutes: int) -> _Line:
    within = [part for part in spans if part.start < ends and part.end > begins]
    step = timedelta(minutes=minutes)
    letters, marks = [], []
    cell = begins
    while cell < ends:
        parts = [part for part in within if part.start < cell + step and part.end > cell]
        letters.append(min(parts, key=lambda part: part.rank).letter if parts else NOT_SHOWN)
        marks.append(cell.astimezone(zone))
        cell += step
    length = ends - begins
    usual = length == timedelta(days=1)
    hours = length.total_seconds() / 3600
    note = "" if usual else f"a day of {hours:g} hours"
    return _Line(day, _hours(marks), "".join(letters).rstrip(), _words(within, begins, ends, zone), note)


def _hours(marks: Sequence[datetime]) -> str:
    """Return the scale: every third hour, above its letter."""
    text = ""
    for position, local in enumerate(marks):
        if local.minute == 0 and local.hour % _MARKED_HOURS == 0 and position >= len(text):
            text = f"{text:<{position}}{local.hour} "
    return text.rstrip()


def _words(parts: Sequence[_Part], begins: datetime, ends: datetime, zone: ZoneInfo) -> str:
    merged = [(words, list(group)) for words, group in groupby(parts, key=lambda part: part.words)]
    if not merged:
        return ""
    if len(merged) > MOST_PARTS:
        return f"{len(merged) - 1} changes, listed by -o json"
    if len(merged) == 1 and parts[0].start <= begins and parts[-1].end >= ends:
        return f"{merged[0][0]} all day"
    texts = []
    for position, (words, group) in enumerate(merged):
        since = f" from {_clock(group[0].start, zone)}" if position == 0 and group[0].start > begins else ""
        until = f" until {_clock(group[-1].end, zone)}" if group[-1].end < ends else ""
        then = "then " if position and not until else ""
        texts.append(f"{then}{words}{since}{until}")
    return ", ".join(texts)


_COLOURS: Final = {NONE: "bright_black", UNLIMITED: "magenta", "1": "yellow", "2": "yellow"}


def _painted(letters: str) -> str:
    return "".join(
        click.style("".join(group), fg=_COLOURS.get(letter, "green")) if letter != NOT_SHOWN else "".join(group)
        for letter, group in groupby(letters)
    )


def _closed_notes(item: Mapping[str, Any]) -> Iterator[str]:
    """Yield the unusable budgets, and why reasons never open, except for reasons that have a warning."""
    for wrong in item["unusable"]:
        yield f"error: budgets[{wrong['budget']}] is invalid, so no disruption is allowed: {wrong['message']}"
    if item["unusable"]:
        return
    lint_reasons = {reason for lint in item["lints"] for reason in lint["reasons"]}
    closed = [reason for reason in item["reasons"] if reason["neverOpens"] and reason["reason"] not in lint_reasons]
    for binding, group in groupby(closed, key=lambda reason: reason["spans"][-1]["binding"]):
        names = ", ".join(reason["reason"] for reason in group)
        by = ", ".join(describe_budget_row(position, item["budgets"][position]) for position in binding)
        yield f"never opens for {names}: {by}" if by else f"never opens for {names}"


def _lint_notes(item: Mapping[str, Any]) -> Iterator[str]:
    for lint in item["lints"]:
        yield f"warning: {lint['at']}: {lint['message']}"
        readings = (FIRST_READING, OTHER_READING) if "alternative" in lint else ("",)
        for key, reading in zip(("fix", "alternative"), readings, strict=False):
            if key in lint:
                yield f"  possible correction{reading and f' for {reading} the windows'}:"
                yield "    budgets:"
                yield from (f"    {line}" for line in block_style(lint[key]).splitlines())


def describe_budget_row(position: int, document: JsonObject) -> str:
    """Return a budget in the words that all messages use for it."""
    from scorer.node_budgets.wording import describe_budget

    return describe_budget(position, Budget.read(document))
