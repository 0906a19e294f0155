"""Budgets, reservations and numbers of nodes as text, for the messages of the gate."""

from typing import Final

from scorer.api.node_pool import Budget
from scorer.api.unstructured.json_object import format_time
from scorer.reservations import Reservation

MOST_NAMED: Final = 3
"""Maximum number of budgets, nodes or reservations that a message names."""
_LONGEST_QUOTED: Final = 64


def describe_budget(position: int, budget: Budget) -> str:
    """Return a description of a budget: ``budgets[2] (nodes "0", schedule "0 9 * * 1-5", duration 8h)``."""
    parts = [f'nodes "{shortened(budget.nodes)}"']
    if budget.reasons is not None:
        parts.append(f"reasons {', '.join(budget.reasons) or 'none'}")
    if budget.schedule is not None:
        parts.append(f'schedule "{shortened(budget.schedule)}"')
    if budget.duration is not None:
        parts.append(f"duration {shortened(budget.duration)}")
    return f"budgets[{position}] ({', '.join(parts)})"


def describe_reservation(reservation: Reservation) -> str:
    """Return holder, number of nodes and end of a reservation, as part of a sentence."""
    granted = reservation.granted
    count = granted if isinstance(granted, int) else len(granted)
    holder, until = shortened(reservation.holder), format_time(reservation.expires)
    return f"{format_node_count(count)} reserved by {holder} until {until}"


def format_node_count(count: int) -> str:
    """Return a number of nodes as text."""
    return "1 node" if count == 1 else f"{count} nodes"


def is_or_are(count: int) -> str:
    """Return the verb for a number."""
    return "is" if count == 1 else "are"


def shortened(text: str) -> str:
    """Return a text of a user or client, truncated to fit into a sentence."""
    return text if len(text) <= _LONGEST_QUOTED else f"{text[: _LONGEST_QUOTED - 3]}..."
