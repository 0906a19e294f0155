"""Next step of an accepted command: wait, drain its nodes, or roll it back.

No state is kept in memory: nodes and claims show the progress. Once a node is being drained or deleted, the command
cannot be rolled back.

Source: docs/specifications/nodepool-disruption.md 7.1.
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
    """Next action."""

    WAIT = "wait"
    DRAIN = "drain"
    UNDO = "undo"


@dataclass(frozen=True, slots=True)
class CommandStep:
    """Next step of a command.

    Args:
        next: The action.
        message: Human-readable reason.
        until: Deadline of the wait. None: unset, the command does not wait.
    """

    next: Next
    message: str = ""
    until: datetime | None = None


def patience(commands: int) -> timedelta:
    """Return how long replacements may take to initialize with this number of commands in flight."""
    return min(max(_PER_COMMAND * commands, SHORTEST_PATIENCE), LONGEST_PATIENCE)


def next_step(
    order: Order,
    *,
    present: Collection[str],
    marked_nodes: Collection[str],
    removed_nodes: Collection[str],
    replacements: Mapping[str, bool],
    commands: int,
    now: datetime,
) -> CommandStep:
    """Return the next step of a command.

    Args:
        order: The command.
        present: Names of its existing nodes.
        marked_nodes: Names of its nodes that carry its annotation.
        removed_nodes: Names of its nodes that are being drained or deleted.
        replacements: Whether each of its existing new claims is initialized, by name.
        commands: Number of commands in flight.
        now: Current time.
    """
    if removed_nodes or not order.replacements:
        return CommandStep(Next.DRAIN)
    if unmarked_nodes := sorted(set(present) - set(marked_nodes)):
        return CommandStep(Next.UNDO, f"nodes without the command's annotation: {', '.join(unmarked_nodes)}")
    if missing_replacements := [name for name in order.replacements if name not in replacements]:
        return CommandStep(Next.UNDO, f"the replacement does not exist: {', '.join(missing_replacements)}")
    until = order.since + patience(commands)
    unready = [name for name in order.replacements if not replacements[name]]
    if not unready:
        return CommandStep(Next.DRAIN)
    if now >= until:
        minutes = int((until - order.since).total_seconds() // 60)
        return CommandStep(
            Next.UNDO, f"the replacement is not initialized after {minutes} minutes: {', '.join(unready)}"
        )
    return CommandStep(Next.WAIT, f"waiting for the replacement to be initialized: {', '.join(unready)}", until)
