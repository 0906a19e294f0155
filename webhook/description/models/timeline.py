"""An update over time, as ``/v1/runs`` and ``/v1/placements`` show it."""

from typing import Annotated, Literal

from pydantic import Field

from webhook.description.models.base import AnswerModel, Instant


class TimelineSpan(AnswerModel):
    """From one instant to another."""

    from_: Annotated[Instant, Field(alias="from")]
    to: Instant


class TimelineBar(AnswerModel):
    """One cluster."""

    cluster: str
    state: Literal["not reached", "waiting", "updating", "updated", "failed", "left", "skipped"]
    """Left: the run was over before its outcome was known."""
    started_at: Instant | None
    ended_at: Instant | None
    """Null until the outcome is known."""
    detail: str
    """What it waits for, or what is wrong."""
    forecast: TimelineSpan | None = None
    """When an upgrade of it is expected."""
    windows: tuple[TimelineSpan, ...] = ()
    """When its maintenance windows are open from now on."""


class TimelineMark(AnswerModel):
    """A wait before or after the clusters of a stage."""

    kind: Literal["approval before", "approval after", "timed wait", "scheduled before", "scheduled after"]
    since: Instant | None
    """Null until it has begun."""
    until: Instant | None
    """When it ended, or will; null where nobody knows."""
    over: bool
    request: str
    """Name of the approval request, or of the gate; empty for a timed wait."""


class TimelineBand(AnswerModel):
    """A stage, or a rolling update as a whole."""

    name: str
    state: Literal["not reached", "waiting", "updating", "stopping", "stopped", "done", "skipped", "failed"]
    detail: str
    """What is wrong with it."""
    deletes: bool
    """Whether the placement is removed from these clusters."""
    started_at: Instant | None
    ended_at: Instant | None
    at_once: int | None
    """How many clusters it changes at the same time; null where that is not limited by a number of clusters."""
    bars: list[TimelineBar]
    """In the order of their turns."""
    marks: list[TimelineMark]


class UpdateTimeline(AnswerModel):
    """An update from its first cluster to its last."""

    started_at: Instant | None
    ended_at: Instant | None
    """Null while it is not over."""
    bands: list[TimelineBand]
