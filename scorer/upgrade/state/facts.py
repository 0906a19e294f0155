"""What an evaluation of a run is decided on, besides the run itself.

Source: upgrade-runs.md 7.4, 13.1 and 14.5.
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
    """How long the upgrade of a member takes: half of the time at most *p50*, nine times of ten at most *p90*."""

    p50: timedelta
    p90: timedelta


@dataclass(frozen=True, slots=True)
class UpgradeRunFacts:
    """The hub around a run, at one moment.

    Args:
        now: The moment; aware.
        members: Every joined member cluster that is not being deleted, by name.
        strategy: The one that the run refers to; None: there is none. Only looked at before the start.
        windows: Every maintenance window, by name.
        standings: What is known of when they are open; kept by who asks about one instant after another.
        rosters: What is known of the members of the run; kept by who asks about one instant after another.
        catalog: What is published where.
        newest_patches: The newest patch of each minor version that back ends know, for hubs without a catalog.
        upgraders: What each back end can do, by name.
        observations: What the back ends say about operations of this run, by id; those that are missing have not been
            asked about.
        rejections: The operations of this run that a back end has just refused to start, by id.
        gates: The status of every gate object of this run, by name.
        busy: The members that other runs upgrade now, or may still do, and what people should know of that.
        held: The members that something else disrupts now, or has reserved, and what that is.
        issues: What back ends expect to be in the way of members; only looked at before the start.
        durations: How long upgrades are expected to take, for the window options that ask for it.
        guarded: The placements of each member that the run must protect; empty unless it enforces that.
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
