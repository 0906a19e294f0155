"""Answers of ``/v1/budgets``: what disruption budgets allow, now and on the calendar.

Source: serving.md 3.1; nodepool-disruption.md 14.2.
"""

from typing import Annotated, Literal

from pydantic import Field, WithJsonSchema

from webhook.description.models.base import AnswerModel, Instant

Reason = Literal["Underutilized", "Empty", "Drifted", "Unhealthy"]
LocalInstant = Annotated[
    str, WithJsonSchema({"type": "string", "format": "date-time", "examples": ["2026-03-29T03:00:00+02:00"]})
]
Limit = Annotated[int, Field(ge=0, le=2147483647)]


class NodesCounted(AnswerModel):
    """The nodes of a pool that budgets look at."""

    total: int
    """All of them, those below included."""
    deleting: int
    """Marked for deletion, rebooting, or reserved at the gate."""
    not_ready: int
    """Not ready, and not among those being deleted."""


class WrittenBudget(AnswerModel):
    """A budget as it is written."""

    nodes: str
    """How many nodes may be disrupted at once, or what share of all."""
    reasons: list[str] | None = None
    """Left out: for every reason."""
    schedule: str | None = None
    """When its windows begin, in UTC; left out: it is always in force."""
    duration: str | None = None
    """How long they last."""


class BudgetLint(AnswerModel):
    """Something about budgets that their author probably did not mean."""

    rule: str
    """The rule of admission that warns of it."""
    at: str
    """Which budget, such as `budgets[1]`; `budgets` for all of them together."""
    message: str
    reasons: list[Reason]
    """The reasons it is about."""
    fix: list[WrittenBudget] | None = None
    """What may be meant: a new list of all budgets of the pool. Left out if that is not clear."""


class UnusableBudget(AnswerModel):
    """A budget that cannot be understood; nothing is allowed because of it."""

    budget: int
    """Its position, from 0."""
    message: str


class PoolBudgets(AnswerModel):
    """A pool: what is the same for every reason."""

    pool: str
    counts: NodesCounted
    budgets: list[WrittenBudget]
    lints: list[BudgetLint]
    unusable: list[UnusableBudget]


class BudgetState(AnswerModel):
    """What the budgets of a pool allow for one reason at one instant."""

    pool: str
    reason: Reason
    limit: Limit
    """How many nodes may be gone at once; 2147483647 when no budget limits it."""
    unlimited: bool
    """Whether no budget limits it."""
    disrupting: int
    """How many are going already, or are not ready."""
    remaining: Limit
    """How many more may go."""
    total: int
    active: list[int]
    """Positions of the budgets in force, whatever their reasons."""
    binding: list[int]
    """Positions of the budgets whose value is the limit."""
    next_open: Instant | None
    """When one more node may go, if nodes stay as they are; null when no time is known."""
    never_opens: bool
    """Within 400 days no node may go, also once those that are going have gone."""
    searched_until: Instant | None = None
    """Present when the search was given up: up to this instant, there is none."""


class BudgetList(AnswerModel):
    """What the budgets allow."""

    at: Instant
    """The instant it is about; nodes are counted as they are now."""
    items: list[BudgetState]
    """By pool, four reasons each unless one is asked for."""
    pools: list[PoolBudgets]


class BudgetSpan(AnswerModel):
    """A period in which the limit stays the same."""

    start: Instant
    end: Instant
    """The first instant that is not part of it."""
    limit: Limit
    """How many nodes may be gone at once; 2147483647 when no budget limits it."""
    unlimited: bool
    binding: list[int]
    """Positions of the budgets whose value is the limit."""
    local_start: LocalInstant | None = None
    """The same instant in the time zone that was asked for."""
    local_end: LocalInstant | None = None


class ReasonSpans(AnswerModel):
    """What is allowed for one reason."""

    reason: Reason
    disrupting: int
    """How many nodes are going already, or are not ready."""
    never_opens: bool
    """Within 400 days no node may go, also once those that are going have gone."""
    spans: list[BudgetSpan]
    """Without gaps."""


class BudgetCalendarItem(PoolBudgets):
    """The calendar of a pool."""

    reasons: list[ReasonSpans]


class BudgetCalendar(AnswerModel):
    """How many nodes are allowed at which times, computed with the present number of nodes."""

    from_: Annotated[Instant, Field(alias="from")]
    until: Instant
    items: list[BudgetCalendarItem]
    time_zone: str | None = None
    """The zone that was asked for; left out: none was."""
