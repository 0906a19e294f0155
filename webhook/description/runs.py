"""Answer of ``/v1/placements/…/runs``: the last decisions on a placement.

Source: scheduling.md 22, property 9.
"""

from webhook.description.explanation import PairOfScores, Trigger
from webhook.description.model import AnswerModel, Instant


class RecordedPick(AnswerModel):
    """A cluster as it was picked."""

    cluster: str
    score: PairOfScores | None = None
    """Left out where scores do not count."""


class PastRun(AnswerModel):
    """One decision as it was recorded, compared with the one before it."""

    time: Instant
    """When it was made."""
    trigger: Trigger
    snapshot: str
    """The policy snapshot it was made under."""
    wanted: int | None
    """How many clusters were wanted; null for all."""
    found: int
    satisfied: bool
    fleet_size: int | None
    """Null for a decision older than the server's memory."""
    picked: list[RecordedPick]
    gained: list[str]
    lost: list[str]
    counts: dict[str, int]
    """Clusters not taken, by reason."""
    message: str
    """The message of the Scheduled condition."""
    difference: list[str]
    """What is different from the run before, in words."""
    until: Instant | None = None
    """When the same decision was last made again."""
    times: int | None = None
    """How often it was made."""


class RunList(AnswerModel):
    """The last decisions on a placement, the latest first."""

    placement: str
    """Reference of the placement."""
    items: list[PastRun]
