"""The plan of a run: when each member is upgraded, how far a bad version would spread, and warnings.

Pure: it never writes, and the same run at the same instant has the same plan.

Source: docs/specifications/upgrade-runs.md 14.
"""

from collections.abc import Callable, Sequence

from scorer.api.upgrade.plan import UpgradePlan
from scorer.api.upgrade.run import ClusterUpgradeRun
from scorer.upgrade.planning.blast_radius import blast_radius, max_concurrent_upgrades
from scorer.upgrade.planning.critical_path import critical_path
from scorer.upgrade.planning.forecast import ForecastAssumptions, UpgradeForecast, forecast, no_deadline
from scorer.upgrade.planning.member_forecast import planned_members
from scorer.upgrade.planning.warnings import missed_windows, warnings_of
from scorer.upgrade.simulation.hub import gates_of
from scorer.upgrade.state.facts import UpgradeRunFacts
from scorer.upgrade.state.placement_guard import GuardedPlacement

AS_IT_IS = ForecastAssumptions()


def plan_of(
    run: ClusterUpgradeRun,
    facts: UpgradeRunFacts,
    placements: Sequence[GuardedPlacement],
    assumptions: ForecastAssumptions = AS_IT_IS,
    *,
    pulse: Callable[[], None] = no_deadline,
) -> UpgradePlan:
    """Return the plan of a run from now on.

    Args:
        run: The run as stored.
        facts: State of the hub. `UpgradeRunFacts.durations` must have all of its members.
        placements: Placements on the members.
        assumptions: Start time of the run, delay of approvals, factor for durations, and failing upgrades.
        pulse: Called repeatedly, about once per member. An exception that it raises aborts the plan.
    """
    run_forecast = forecast(run, facts, assumptions, pulse=pulse)
    late = forecast(run, facts, assumptions, long=True, pulse=pulse) if run_forecast.eta is not None else run_forecast
    members = tuple(planned_members(run_forecast))
    return UpgradePlan(
        computed_at=run_forecast.begin,
        eta=run_forecast.eta,
        eta_p90=late.eta,
        members=members,
        max_concurrent=max_concurrent_upgrades(run_forecast.upgrades),
        exposure=exposure(run_forecast),
        critical_path=critical_path(run_forecast, members),
        windows_missed=tuple(missed_windows(run_forecast, facts, pulse)),
        blast_radius=blast_radius(run_forecast, facts.members, placements, pulse),
        warnings=warnings_of(run, run_forecast, facts, placements),
    )


def exposure(run_forecast: UpgradeForecast) -> int:
    """Return the number of members that get the version before the first check.

    Counts the upgrades that start before the run reaches its first gate or starts its first wait. A run without gates
    and waits has no check, so all upgrades count.
    """
    stages = run_forecast.run.status.stages
    gates = (gate for _, gate in gates_of(run_forecast.run.status))
    waits = (stage.after_stage_wait for stage in stages)
    looks = [gate.start_time for gate in gates] + [wait.start_time for wait in waits if wait and wait.seconds]
    first = min((at for at in looks if at is not None), default=None)
    start_times = [entry.start_time for entry in run_forecast.upgrades]
    return sum(1 for at in start_times if first is None or (at is not None and at < first))
