"""Blast radius of a run, stage by stage: clusters, nodes, regions, and the placements on the clusters.

Source: docs/specifications/upgrade-runs.md 14.5.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Final

from scorer.api.upgrade.plan import BlastRadius, ExposedPlacement, StageRadius
from scorer.api.upgrade.run import MemberStatus, StageStatus
from scorer.api.values.int_or_percent import LARGEST
from scorer.upgrade.members.member import Member
from scorer.upgrade.planning.forecast import UpgradeForecast, no_deadline
from scorer.upgrade.state.placement_guard import GuardedPlacement
from scorer.upgrade.versions.images import pools_of

MOST_SHOWN: Final = 5
"""Maximum number of placements per stage. Those with the largest share of clusters in concurrent upgrade are kept."""


def blast_radius(
    run_forecast: UpgradeForecast,
    members: Mapping[str, Member],
    placements: Sequence[GuardedPlacement],
    pulse: Callable[[], None] = no_deadline,
) -> BlastRadius:
    """Return the blast radius of a run.

    Args:
        run_forecast: Forecast of the run.
        members: All members, by name.
        placements: Placements on the members.
        pulse: Called once per stage. An exception that it raises aborts the calculation.
    """
    stages = []
    for stage in run_forecast.run.status.stages:
        pulse()
        stages.append(_stage(stage, members, placements))
    return BlastRadius(stages=tuple(stages))


def max_concurrent_upgrades(entries: Iterable[MemberStatus]) -> int:
    """Return the largest number of clusters in upgrade at one instant. Ends are counted before starts."""
    changes: list[tuple[datetime, int]] = []
    for entry in entries:
        if entry.start_time is not None:
            changes.append((entry.start_time, 1))
            if entry.completion_time is not None:
                changes.append((entry.completion_time, -1))
    most = now = 0
    for _, change in sorted(changes):  # at one instant, ends come first
        now += change
        most = max(most, now)
    return most


def most_of(placement: GuardedPlacement, upgrades: Mapping[str, MemberStatus]) -> int:
    """Return the largest number of clusters of a placement in upgrade at one instant."""
    return max_concurrent_upgrades(upgrades[name] for name in placement.clusters if name in upgrades)


def _stage(stage: StageStatus, members: Mapping[str, Member], placements: Sequence[GuardedPlacement]) -> StageRadius:
    upgrades = {entry.name: entry for group in stage.groups for entry in group.members if entry.attempt}
    upgraded_members = [member for name in upgrades if (member := members.get(name)) is not None]
    exposed_placements = sorted(_exposed_placements(upgrades, placements), key=_rank)
    return StageRadius(
        name=stage.name,
        clusters=len(upgrades),
        nodes=min(LARGEST, sum(pool.nodes for member in upgraded_members for pool in pools_of(member))),
        regions=tuple(sorted({member.region for member in upgraded_members})),
        placements=tuple(exposed_placements[:MOST_SHOWN]),
    )


def _rank(placement: ExposedPlacement) -> tuple[float, str, str]:
    return -placement.in_upgrade / placement.clusters, placement.namespace, placement.name


def _exposed_placements(
    upgrades: Mapping[str, MemberStatus], placements: Iterable[GuardedPlacement]
) -> Iterator[ExposedPlacement]:
    for placement in placements:
        most = most_of(placement, upgrades)
        if most:
            total = len(placement.clusters)
            yield ExposedPlacement(
                name=placement.name,
                namespace=placement.namespace,
                clusters=total,
                in_upgrade=most,
                fully_exposed=most == total,
            )
