"""The plan of a run: when each member is upgraded, how far a bad version would spread, and warnings.

Pure: it never writes, and the same run at the same instant has the same plan.

Source: upgrade-runs.md 14.
"""

from collections.abc import Callable, Sequence

from scorer.api.upgrade.plan import UpgradePlan
from scorer.api.upgrade.run import ClusterUpgradeRun
from scorer.upgrade.planning.blast_radius import blast_radius, max_concurrent_upgrades
from scorer.upgrade.planning.critical_path import critical_path
from scorer.upgrade.planning.forecast import ForecastAssumptions, UpgradeForecast, forecast, no_deadline
from scorer.upgrade.planning.member_forecast import planned_members
from scorer.upgrade.planning.warnings import warnings_of, windows_missed
from scorer.upgrade.simulation.hub import gates_of
from scorer.upgrade.state.facts import UpgradeRunFacts
from scorer.upgrade.state.placement_guard import GuardedPlacement

AS_IT_IS = ForecastAssumptions()


def plan_of(
    run: ClusterUpgradeRun,
    facts: UpgradeRunFacts,
    placements: Sequence[GuardedPlacement],
    assumed: ForecastAssumptions = AS_IT_IS,
    *,
    pulse: Callable[[], None] = no_deadline,
) -> UpgradePlan:
    """Return the plan of a run from now on.

    Args:
        run: The run as stored.
        facts: State of the hub. `UpgradeRunFacts.durations` must have all of its members.
        placements: Placements on the members.
        assumed: Assumptions.
        pulse: Called repeatedly, about once per member. An exception that it raises aborts the plan.
    """
    found = forecast(run, facts, assumed, pulse=pulse)
    late = forecast(run, facts, assumed, long=True, pulse=pulse) if found.eta is not None else found
    members = tuple(planned_members(found))
    return UpgradePlan(
        computed_at=found.begin,
        eta=found.eta,
        eta_p90=late.eta,
        members=members,
        max_concurrent=max_concurrent_upgrades(found.upgrades),
        exposure=exposure(found),
        critical_path=critical_path(found, members),
        windows_missed=tuple(windows_missed(found, facts, pulse)),
        blast_radius=blast_radius(found, facts.members, placements, pulse),
        warnings=warnings_of(run, found, facts, placements),
    )


def exposure(found: UpgradeForecast) -> int:
    """Return the number of members that get the version before the first check.

    Those are the upgrades that start before the first gate opens or the first wait starts. Without either, all upgrades
    count.
    """
    stages = found.run.status.stages
    gates = (gate for _, gate in gates_of(found.run.status))
    waits = (stage.after_stage_wait for stage in stages)
    looks = [gate.start_time for gate in gates] + [wait.start_time for wait in waits if wait and wait.seconds]
    first = min((at for at in looks if at is not None), default=None)
    started = [entry.start_time for entry in found.upgrades]
    return sum(1 for at in started if first is None or (at is not None and at < first))
