"""Answers of ``/v1/history`` and ``/v1/placements/…/runs``: recent events, and the last decisions on a placement."""

from scorer.placement.past_run import PastRun
from webhook.description.models.base import AnswerModel, ContinueToken, Instant
from webhook.history.entry import EntryType


class HistoryObject(AnswerModel):
    """What an entry is about."""

    kind: str
    name: str
    namespace: str = ""


class HistoryEntry(AnswerModel):
    """What has happened to one object."""

    id: str
    """Tells it from all others."""
    time: Instant
    """When; of a repeated entry, when for the first time."""
    type: EntryType
    object: HistoryObject
    reason: str
    """One word, or the ids of the rules of admission, separated by commas."""
    message: str
    by: str = ""
    """Who did it or asked; left out where harbormaster itself did."""
    count: int = 1
    """How often."""
    last_time: Instant | None = None
    """When for the last time."""


class History(AnswerModel):
    """What has happened, the latest first."""

    kept: bool
    """Whether a history is kept at all."""
    items: list[HistoryEntry]
    more: bool
    """There are older entries."""
    continue_: ContinueToken
    unreadable: int
    """How many lines of the record could not be read."""


class RunList(AnswerModel):
    """The last decisions on a placement, the latest first."""

    placement: str
    """Reference of the placement."""
    items: list[PastRun]
