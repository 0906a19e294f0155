"""A simulation as a calendar: an event for whatever happens to nodes, and for what holds some for long."""

from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Final

from scorer.api.meta import format_time
from scorer.node_disruption.simulation.timeline import BlockedPeriod, SimulationEvent, SimulationResult, subject
from webhook.cli.disruption.icalendar import CalendarEvent, calendar_file
from webhook.cli.disruption.simulate_output import SHORTEST_SHOWN, amount, by_cause, named

PRODUCT: Final = "-//harbormaster//simulated disruption//EN"
SHORTEST: Final = timedelta(minutes=1)
"""An event lasts this long at least, so that calendar programs show it."""


def calendar_of(simulated: SimulationResult, generated: datetime) -> str:
    """Return a simulation as an iCalendar stream."""
    events = sorted(_events(simulated), key=lambda event: (event.start, event.summary))
    return calendar_file("simulated disruption", events, generated, PRODUCT)


def _events(simulated: SimulationResult) -> Iterator[CalendarEvent]:
    gone = {removal.node: removal.at for removal in simulated.removals}
    for happening in simulated.happenings:
        ends = [gone.get(name, simulated.end) for name in happening.nodes]
        yield _of_happening(happening, max([*ends, happening.at + SHORTEST]))
    for several in by_cause(simulated.blocked):
        until = max(period.until or simulated.end for period in several)
        if until - several[0].since >= SHORTEST_SHOWN:
            yield _of_blocked(several, max(until, several[0].since + SHORTEST))


def _of_happening(happening: SimulationEvent, end: datetime) -> CalendarEvent:
    new = f"new: {', '.join(happening.replaced_by)}"
    noun = f"{happening.reason or happening.method}: {named(happening.nodes)}" if happening.nodes else new
    lines = [happening.why, *([f"Nodes: {', '.join(happening.nodes)}"] if happening.nodes else ())]
    lines += (
        [f"In their place: {', '.join(happening.replaced_by)}"] if happening.nodes and happening.replaced_by else []
    )
    lines += [] if happening.savings is None else [f"Saves {amount(happening.savings)} per hour"]
    return CalendarEvent(
        identity=(
            happening.pool,
            happening.method,
            *happening.nodes,
            *happening.replaced_by,
            format_time(happening.at),
        ),
        start=happening.at,
        end=end,
        summary=f"{happening.pool}: {noun}",
        description="\n".join(lines),
        categories=(str(happening.reason or happening.method),),
        is_busy=True,
    )


def _of_blocked(several: tuple[BlockedPeriod, ...], end: datetime) -> CalendarEvent:
    first = several[0]
    nodes = tuple(period.node for period in several)
    what = (first.wanted, first.reason, subject(first.message), "draining" if first.draining else "")
    return CalendarEvent(
        identity=(first.pool, *what, *nodes, format_time(first.since)),
        start=first.since,
        end=end,
        summary=f"{first.pool}: {named(nodes)} held ({first.reason})",
        description=f"Wanted: {first.wanted or 'deleted'}\n{first.message}\nNodes: {', '.join(nodes)}",
        categories=("Held",),
        is_busy=False,
    )
