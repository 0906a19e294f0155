"""The context of one evaluation: the run, its record, the facts, and the actions and Events so far.

Source: docs/specifications/upgrade-runs.md 7.4.
"""

from dataclasses import dataclass, field
from datetime import datetime
from functools import cached_property
from typing import Literal

from scorer.api.event import Event
from scorer.api.upgrade.fields import UpgradeType
from scorer.api.upgrade.run import ClusterUpgradeRun, UpgradeRunSpec, WindowMode, WindowTieBreak
from scorer.upgrade.members.windows import Tiers
from scorer.upgrade.messages import LONGEST_TOLD, shortened
from scorer.upgrade.state.facts import UpgradeRunFacts
from scorer.upgrade.state.record import UpgradeRecord
from scorer.upgrade.state.step import Action


@dataclass
class Evaluation:
    """One evaluation of one run.

    Args:
        run: The run as stored.
        facts: State of the hub.
        record: Status, which each step of the evaluation updates.
        actions: Actions to execute, in order.
        events: Events to emit, in order.
    """

    run: ClusterUpgradeRun
    facts: UpgradeRunFacts
    record: UpgradeRecord
    actions: list[Action] = field(default_factory=list)
    events: list[Event] = field(default_factory=list)

    @cached_property
    def now(self) -> datetime:
        """The instant of the evaluation in whole seconds, as a status stores it."""
        return self.facts.now.replace(microsecond=0)

    @cached_property
    def tiers(self) -> Tiers:
        """The windows of members at this instant."""
        are_respected = self.spec.window_policy.mode is WindowMode.RESPECT
        return Tiers(self.facts.windows, self.facts.standings, self.now, are_respected=are_respected)

    @cached_property
    def upgrading(self) -> set[str]:
        """The members in upgrade, by this run or another one.

        Starts of this evaluation are added as they are made.
        """
        return {entry.name for _, _, entry in self.record.running()} | set(self.facts.busy)

    @cached_property
    def prefers_closing(self) -> bool:
        """Whether the open window that closes first has precedence."""
        return self.spec.window_policy.tie_break is WindowTieBreak.CLOSING_SOONEST

    @property
    def spec(self) -> UpgradeRunSpec:
        """The spec of the run."""
        return self.run.spec

    @property
    def type(self) -> UpgradeType:
        """The type of upgrade."""
        return self.run.spec.upgrade.type

    def announce(self, reason: str, message: str, kind: Literal["Normal", "Warning"] = "Normal") -> None:
        """Emit an Event about the run. Quoted messages are truncated to fit."""
        self.events.append(Event(reason, shortened(message, LONGEST_TOLD), kind))
