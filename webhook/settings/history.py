"""How long what has happened is kept."""

from dataclasses import dataclass
from datetime import timedelta

from pydantic import Field

from webhook.settings.environment import Settings
from webhook.settings.values import MEBIBYTE, SecondsWithin


@dataclass(frozen=True, slots=True)
class HistoryOptions:
    """What of the record is kept, and how often it is written.

    Args:
        age: How long; zero: nothing is kept.
        most_bytes: How much, of the loop and of the servers each.
        interval: How often a process writes at most.
    """

    age: timedelta = timedelta(days=7)
    most_bytes: int = 8 * MEBIBYTE
    interval: timedelta = timedelta(seconds=10)


class HistorySettings(Settings):
    """The record of what has happened."""

    history_days: int = Field(
        default=7,
        ge=0,
        le=90,
        description="How many days decisions, rollouts, refusals and answers of the gate are kept, for "
        "`harbormaster history`; 0: not at all.",
    )
    history_megabytes: int = Field(
        default=8,
        ge=1,
        le=64,
        description="How much of that is kept, in MiB, of the loop and of the servers each; the oldest goes first.",
    )
    history_seconds: SecondsWithin = Field(
        default=10, ge=1, le=300, description="How often a process writes it at most."
    )

    def history(self) -> HistoryOptions:
        """Return what is kept, ready for use."""
        return HistoryOptions(
            timedelta(days=self.history_days),
            self.history_megabytes * MEBIBYTE,
            timedelta(seconds=self.history_seconds),
        )
