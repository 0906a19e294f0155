"""Upgrade run rows: one evaluation of a run of 1,000 members, and a whole run on a moved clock.

The evaluations are the dearest of a run: the start, when every member is put in order, and an instant at which all
members have to be looked at because all of their windows are closed.
"""

import time
from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta

from scorer.upgrade.evaluation.engine import advance
from scorer.upgrade.planning.plan import plan_of
from scorer.upgrade.simulation.hub import Start, simulate
from scorer.upgrade.state.facts import Estimate
from tests.bench.figures import Figure, Part
from tests.scorer.upgrade.scenarios import BEGIN, daily, member, prepared, stage
from tests.vector_families.line import Line
from tests.vector_families.upgrade_runs import Scenario

MEMBERS, REPEATS = 1_000, 20
EVALUATION_MS, WHOLE_SECONDS = 50.0, 2.0
PART = Part("upgrade")


def scenario(groups: int, concurrency: int, windows: Sequence[Line] = ()) -> Scenario:
    """Return a run of all members, which are divided evenly among the groups of one stage, and share their windows."""
    names = [{"name": f"g{number}", "maxConcurrency": concurrency} for number in range(groups)]
    members = [member(f"m{number:04}", f"g{number % groups}", windows=list(windows)) for number in range(MEMBERS)]
    found = prepared(*members, stages=[stage("s", *names)])
    shared = found.hub.members["m0000"].windows
    found.hub.members.update({name: replace(each, windows=shared) for name, each in found.hub.members.items()})
    return found


def measure_evaluation(title: str, found: Scenario) -> None:
    """Tell how long one evaluation of a run that has started takes, the median of several."""
    found.hub.evaluate(BEGIN, [Start()])
    now = BEGIN + timedelta(minutes=10)
    facts, seconds = found.hub.facts(now), []
    for _ in range(REPEATS):
        start = time.perf_counter()
        advance(found.hub.run, facts)
        seconds.append(time.perf_counter() - start)
    middle = 1e3 * sorted(seconds)[REPEATS // 2]
    PART.report(Figure(f"evaluation, {title}", middle, "ms", EVALUATION_MS))


def measure_whole(title: str, found: Scenario) -> None:
    """Tell how long a whole run on a moved clock takes, as a plan does."""
    start = time.perf_counter()
    until = BEGIN + timedelta(days=90)
    instants = sum(1 for _ in simulate(found.hub, BEGIN, [(BEGIN, Start())], until))
    seconds = time.perf_counter() - start
    PART.report(Figure(title, seconds, "s", WHOLE_SECONDS, note=f"{instants} instants"))


def measure_plan(title: str, found: Scenario) -> None:
    """Tell how long the plan of a run takes, with both of its passes, and how large it is."""
    length = timedelta(minutes=30)
    found.hub.durations = dict.fromkeys(found.hub.members, Estimate(length, length * 3 // 2))
    facts = found.hub.facts(BEGIN)
    start = time.perf_counter()
    plan = plan_of(found.hub.run, facts, ())
    seconds = time.perf_counter() - start
    size = len(plan.model_dump_json(by_alias=True, exclude_none=True)) / 1e3
    PART.report(Figure(title, seconds, "s", WHOLE_SECONDS, note=f"{size:.0f} kB"))


def main() -> None:
    """Tell all figures."""
    measure_evaluation("1,000 members, one by one", scenario(1, 1))
    measure_evaluation("1,000 members in 50 groups", scenario(50, 1))
    measure_evaluation("1,000 members, every window closed", scenario(1, 1, [daily("12:00")]))
    measure_whole("whole run, one by one", scenario(1, 1))
    measure_whole("whole run in 50 groups", scenario(50, 1))
    measure_plan("plan, one by one", scenario(1, 1))
    measure_plan("plan, 50 groups", scenario(50, 1))
    measure_plan("plan, one by one in windows", scenario(1, 1, [daily("12:00", 20)]))


if __name__ == "__main__":
    main()
