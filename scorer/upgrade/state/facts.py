"""Inputs of an evaluation besides the run itself.

Source: docs/specifications/upgrade-runs.md 7.4, 13.1 and 14.5.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from scorer.api.upgrade.gate import UpgradeGateStatus
from scorer.api.upgrade.strategy import StrategySpec
from scorer.upgrade.back_ends.interface import Capabilities, Issue, Observation, Rejected
from scorer.upgrade.members.member import Member
from scorer.upgrade.members.rosters import Rosters
from scorer.upgrade.members.windows import WindowStates
from scorer.upgrade.state.placement_guard import GuardedPlacement
from scorer.upgrade.versions.catalog import ReleaseCatalog
from scorer.windows.member_windows import WindowDefinition


@dataclass(frozen=True, slots=True)
class Estimate:
    """Expected duration of a member's upgrade, as its 50th and 90th percentiles."""

    p50: timedelta
    p90: timedelta


@dataclass(frozen=True, slots=True)
class UpgradeRunFacts:
    """State of the hub around a run at one instant.

    Args:
        now: Current time, timezone-aware.
        members: Every joined member cluster that is not being deleted, by name.
        strategy: The strategy that the run refers to. None: unset or missing. Read only before the start.
        windows: Every maintenance window, by name.
        standings: Cached window states. A caller that evaluates many instants keeps them.
        rosters: Cached rosters of the run. A caller that evaluates many instants keeps them.
        catalog: Published versions per region.
        newest_patches: Newest patch of each minor version that back ends know, for hubs without a catalog.
        upgraders: Capabilities per back end.
        observations: Reports of back ends about operations of this run, by id. Operations without an entry have not
            been polled.
        rejections: Operations of this run that a back end has just refused to start, by id.
        gates: Status of every gate object of this run, by name.
        busy: Members that other runs upgrade or may still upgrade, with a message.
        held: Members that are disrupted or reserved by another component, with a description.
        issues: Preflight issues per member, from back ends. Read only before the start.
        durations: Expected durations of upgrades, for the window options that use them.
        guarded: Placements per member that the run must protect. Empty unless the guard is enforced.
    """

    now: datetime
    members: Mapping[str, Member] = field(default_factory=dict)
    strategy: StrategySpec | None = None
    windows: Mapping[str, WindowDefinition] = field(default_factory=dict)
    standings: WindowStates = field(default_factory=WindowStates)
    rosters: Rosters = field(default_factory=Rosters)
    catalog: ReleaseCatalog = field(default_factory=ReleaseCatalog)
    newest_patches: Mapping[str, str] = field(default_factory=dict)
    upgraders: Mapping[str, Capabilities] = field(default_factory=dict)
    observations: Mapping[str, Observation] = field(default_factory=dict)
    rejections: Mapping[str, Rejected] = field(default_factory=dict)
    gates: Mapping[str, UpgradeGateStatus] = field(default_factory=dict)
    busy: Mapping[str, str] = field(default_factory=dict)
    held: Mapping[str, str] = field(default_factory=dict)
    issues: Mapping[str, Sequence[Issue]] = field(default_factory=dict)
    durations: Mapping[str, Estimate] = field(default_factory=dict)
    guarded: Mapping[str, Sequence[GuardedPlacement]] = field(default_factory=dict)

    def may_be_in_flight(self, operation: str) -> bool:
        """Return whether an operation of this run may still change its cluster, because no report states its end."""
        observation = self.observations.get(operation)
        return observation is None or observation.in_flight
