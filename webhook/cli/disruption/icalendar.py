"""iCalendar files for calendar programs, and the calendar of budgets in that format.

Periods without any disruption are events, and so are periods with a limit. Periods without a limit have no event.
Reasons with the same limits share an event. The UID of an event is stable, so that importing a newer file updates the
event instead of adding a second one.

Source: RFC 5545.
"""

import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

from scorer.api.unstructured.json_object import JsonObject, parse_time
from scorer.api.values.quoting import format_count, printable
from webhook.cli.disruption.budget_table import describe_budget_row

PRODUCT: Final = "-//harbormaster//disruption budgets//EN"
LONGEST_LINE: Final = 75
"""Maximum octets of a line, excluding its end."""
_ESCAPES: Final = str.maketrans({"\\": "\\\\", ";": "\\;", ",": "\\,"})


@dataclass(frozen=True, slots=True)
class CalendarEvent:
    """An event of a calendar.

    Args:
        identity: Unique ID of the event, the same in every file.
        start: Start time.
        end: End time.
        summary: One line of text.
        description: Several lines of text.
        categories: At least one category.
        is_busy: Whether the event marks its time as busy.
    """

    identity: tuple[str, ...]
    start: datetime
    end: datetime
    summary: str
    description: str
    categories: tuple[str, ...]
    is_busy: bool


def calendar_file(title: str, events: Iterable[CalendarEvent], timestamp: datetime, product: str = PRODUCT) -> str:
    """Return events as an iCalendar stream.

    Args:
        title: Title of the calendar.
        events: Events in the order of output.
        timestamp: Creation time of the file.
        product: Name of the program that creates the file.
    """
    lines = [
        "BEGIN:VCALENDAR",
        "VERSION:2.0",
        f"PRODID:{product}",
        "CALSCALE:GREGORIAN",
        f"X-WR-CALNAME:{_text(title)}",
    ]
    for event in events:
        lines += _event_lines(event, timestamp)
    lines.append("END:VCALENDAR")
    return "".join(f"{folded_line}\r\n" for line in lines for folded_line in _folded(line))


def _event_lines(event: CalendarEvent, timestamp: datetime) -> Iterator[str]:
    uid = hashlib.sha256("\n".join(event.identity).encode()).hexdigest()[:32]
    yield "BEGIN:VEVENT"
    yield f"UID:{uid}@harbormaster"
    yield f"DTSTAMP:{_stamp(timestamp)}"
    yield f"DTSTART:{_stamp(event.start)}"
    yield f"DTEND:{_stamp(event.end)}"
    yield f"SUMMARY:{_text(event.summary)}"
    yield f"DESCRIPTION:{_text(event.description)}"
    yield f"CATEGORIES:{','.join(_text(category) for category in event.categories)}"
    yield f"TRANSP:{'OPAQUE' if event.is_busy else 'TRANSPARENT'}"
    yield "END:VEVENT"


def icalendar(answer: Mapping[str, Any], start: datetime, end: datetime, timestamp: datetime) -> str:
    """Return a response of ``/v1/budgets/calendar`` as an iCalendar stream.

    Args:
        answer: The response. It should extend beyond *start* and *end*, so that the outer events have their true
            lengths.
        start: Events that end by then are omitted.
        end: Events that start then or later are omitted.
        timestamp: Creation time of the file.
    """
    names = [item["pool"] for item in answer["items"]]
    title = f"disruption budgets of {names[0]}" if len(names) == 1 else "disruption budgets"
    bounds = parse_time(answer["from"]), parse_time(answer["until"])
    events = (
        _event(item, reasons, span, bounds)
        for item in answer["items"]
        for reasons, span in _events(item["reasons"])
        if parse_time(span["start"]) < end and parse_time(span["end"]) > start
    )
    return calendar_file(title, events, timestamp)


def _events(reasons: Sequence[JsonObject]) -> Iterator[tuple[list[str], JsonObject]]:
    """Yield each period with a limit and the reasons that it applies to, ordered by start."""
    events: dict[tuple[Any, ...], tuple[list[str], JsonObject]] = {}
    for reason in reasons:
        for span in reason["spans"]:
            if not span["unlimited"]:
                key = span["start"], span["end"], span["limit"], *span["binding"]
                events.setdefault(key, ([], span))[0].append(reason["reason"])
    yield from sorted(events.values(), key=lambda event: (event[1]["start"], event[1]["end"], event[0]))


def _event(
    item: Mapping[str, Any], reasons: Sequence[str], span: JsonObject, bounds: tuple[datetime, datetime]
) -> CalendarEvent:
    pool, limit = item["pool"], span["limit"]
    budgets = ", ".join(f"budgets[{position}]" for position in span["binding"])
    reason = f" ({budgets})" if budgets else ""
    amount = f"at most {limit}" if limit else "no"
    every = len(reasons) == len(item["reasons"])
    start, end = parse_time(span["start"]), parse_time(span["end"])
    return CalendarEvent(
        identity=(pool, *reasons, _edge(start, end, bounds)),
        start=start,
        end=end,
        summary=f"{pool}: {amount}{'' if every else ' ' + _listed(reasons)}"
        f" disruption{'s' if limit > 1 else ''}{reason}",
        description=_description(item, reasons, span),
        categories=tuple(reasons),
        is_busy=not limit,
    )


def _edge(start: datetime, end: datetime, bounds: tuple[datetime, datetime]) -> str:
    """Return the part of a UID that differs between the periods of a pool: the start, or the end if that is cut off."""
    return _stamp(start) if start > bounds[0] else f"until {_stamp(end)}" if end < bounds[1] else "always"


def _listed(words: Sequence[str]) -> str:
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} or {words[-1]}"


def _description(item: Mapping[str, Any], reasons: Sequence[str], span: JsonObject) -> str:
    counts = item["counts"]
    lines = [f"NodePool {item['pool']}, {format_count(counts['total'], 'node')}. Reasons: {', '.join(reasons)}."]
    lines += [describe_budget_row(position, item["budgets"][position]) for position in span["binding"]]
    lines += [f"budgets[{wrong['budget']}] is invalid: {wrong['message']}" for wrong in item["unusable"]]
    unavailable = counts["deleting"] + counts["notReady"]
    if span["limit"] and unavailable:
        was, counts_as = ("was", "counts") if unavailable == 1 else ("were", "count")
        lines.append(
            f"{unavailable} of the nodes {was} being deleted or not ready when this calendar was made, and {counts_as} "
            "as disrupted."
        )
    return "\n".join(lines)


def _stamp(instant: datetime) -> str:
    local_time = instant.astimezone(UTC)
    return f"{local_time.year:04}{local_time:%m%dT%H%M%SZ}"


def _text(text: str) -> str:
    """Return a value of type TEXT, without control characters."""
    return "\\n".join(printable(line).translate(_ESCAPES) for line in text.split("\n"))


def _folded(line: str) -> Iterator[str]:
    """Yield the pieces of a line that is too long, split between characters. Each but the first starts with a blank."""
    piece, size = "", 0
    for letter in line:
        octets = len(letter.encode())
        if size + octets > LONGEST_LINE:
            yield piece
            piece, size = " ", 1
        piece += letter
        size += octets
    yield piece
