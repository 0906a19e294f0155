"""What is to be done next about a command that has been accepted: it waits, its nodes are drained, or it is undone.

Nothing is remembered from step to step: what has been done shows on nodes and claims. Once a node has begun to be
drained, or is being deleted, there is no way back.

Source: nodepool-disruption.md 7.1.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Final

from scorer.node_disruption.execution.command_annotation import Order

_PER_COMMAND: Final = timedelta(milliseconds=80)
SHORTEST_PATIENCE: Final = timedelta(minutes=10)
LONGEST_PATIENCE: Final = timedelta(hours=1)


class Next(StrEnum):
    """What is next."""

    WAIT = "wait"
    DRAIN = "drain"
    UNDO = "undo"


@dataclass(frozen=True, slots=True)
class CommandStep:
    """What is next for a command.

    Args:
        next: What it is.
        message: Why, for people.
        until: When waiting ends at the latest.
    """

    next: Next
    message: str = ""
    until: datetime | None = None


def patience(commands: int) -> timedelta:
    """Return how long replacements may take while so many commands are under way."""
    return min(max(_PER_COMMAND * commands, SHORTEST_PATIENCE), LONGEST_PATIENCE)


def next_step(
    order: Order,
    *,
    there: Collection[str],
    marked: Collection[str],
    going: Collection[str],
    replacements: Mapping[str, bool],
    commands: int,
    now: datetime,
) -> CommandStep:
    """Say what is next for a command.

    Args:
        order: The command.
        there: Names of its nodes that exist.
        marked: Those of them that carry it.
        going: Those of them that are drained already, or being deleted.
        replacements: Whether each of its new claims that exist is initialized, by name.
        commands: How many commands are under way.
        now: The instant.
    """
    if going or not order.replacements:
        return CommandStep(Next.DRAIN)
    if left_out := sorted(set(there) - set(marked)):
        return CommandStep(Next.UNDO, f"not every node could be marked: {', '.join(left_out)}")
    if gone := [name for name in order.replacements if name not in replacements]:
        return CommandStep(Next.UNDO, f"the replacement is not there, or not any more: {', '.join(gone)}")
    until = order.since + patience(commands)
    waiting = [name for name in order.replacements if not replacements[name]]
    if not waiting:
        return CommandStep(Next.DRAIN)
    if now >= until:
        minutes = int((until - order.since).total_seconds() // 60)
        return CommandStep(
            Next.UNDO, f"the replacement is not initialized after {minutes} minutes: {', '.join(waiting)}"
        )
    return CommandStep(Next.WAIT, f"waits until the replacement is initialized: {', '.join(waiting)}", until)
