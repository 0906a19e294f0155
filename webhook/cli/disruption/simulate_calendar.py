"""A simulation as a calendar: events for changes of nodes, and for blockers that last long."""

from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Final

from scorer.api.unstructured.json_object import format_time
from scorer.node_disruption.simulation.timeline import BlockedPeriod, SimulationEvent, SimulationResult, subject
from webhook.cli.disruption.icalendar import CalendarEvent, calendar_file
from webhook.cli.disruption.simulate_output import SHORTEST_SHOWN, amount, by_cause, named

PRODUCT: Final = "-//harbormaster//simulated disruption//EN"
SHORTEST: Final = timedelta(minutes=1)
"""Minimum length of an event, so that calendar programs show it."""


def calendar_of(simulation: SimulationResult, timestamp: datetime) -> str:
    """Return a simulation as an iCalendar stream."""
    events = sorted(_events(simulation), key=lambda event: (event.start, event.summary))
    return calendar_file("simulated disruption", events, timestamp, PRODUCT)


def _events(simulated: SimulationResult) -> Iterator[CalendarEvent]:
    removal_times = {removal.node: removal.at for removal in simulated.removals}
    for event in simulated.happenings:
        ends = [removal_times.get(name, simulated.end) for name in event.nodes]
        yield _of_happening(event, max([*ends, event.at + SHORTEST]))
    for several in by_cause(simulated.blocked):
        until = max(period.until or simulated.end for period in several)
        if until - several[0].since >= SHORTEST_SHOWN:
            yield _of_blocked(several, max(until, several[0].since + SHORTEST))


def _of_happening(event: SimulationEvent, end: datetime) -> CalendarEvent:
    new = f"new: {', '.join(event.replaced_by)}"
    noun = f"{event.reason or event.method}: {named(event.nodes)}" if event.nodes else new
    lines = [event.why, *([f"Nodes: {', '.join(event.nodes)}"] if event.nodes else ())]
    lines += [f"Replacements: {', '.join(event.replaced_by)}"] if event.nodes and event.replaced_by else []
    lines += [] if event.savings is None else [f"Saves {amount(event.savings)} per hour"]
    return CalendarEvent(
        identity=(
            event.pool,
            event.method,
            *event.nodes,
            *event.replaced_by,
            format_time(event.at),
        ),
        start=event.at,
        end=end,
        summary=f"{event.pool}: {noun}",
        description="\n".join(lines),
        categories=(str(event.reason or event.method),),
        is_busy=True,
    )


def _of_blocked(several: tuple[BlockedPeriod, ...], end: datetime) -> CalendarEvent:
    first = several[0]
    nodes = tuple(period.node for period in several)
    key = (first.wanted, first.reason, subject(first.message), "draining" if first.draining else "")
    return CalendarEvent(
        identity=(first.pool, *key, *nodes, format_time(first.since)),
        start=first.since,
        end=end,
        summary=f"{first.pool}: {named(nodes)} blocked ({first.reason})",
        description=f"Disruption reason: {first.wanted or 'deletion'}\n{first.message}\nNodes: {', '.join(nodes)}",
        categories=("Held",),
        is_busy=False,
    )
