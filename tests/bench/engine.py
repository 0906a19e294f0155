"""Engine rows: one whole scheduling run, beside the floor of one numpy pass over the same columns.

Every run starts with a fleet whose columns are built; nothing else is kept from run to run.
"""

import gc
import time
from collections.abc import Callable

import numpy as np

from scorer.fleet import Fleet
from scorer.placement.record import decisions, scheduled_condition
from scorer.placement.request import read_request
from scorer.placement.schedule import schedule
from tests.bench.figures import SHORT, Figure, Part
from tests.bench.fleets import COST, CPU, MEMORY, NODES, NOW, make_fleet, policy

ROWS = (
    ("PickN 10 of 1,000", 1_000, 10, False, 0.15),
    ("PickN 100 of 10,000", 10_000, 100, False, 0.35),
    ("PickN 100 of 100,000", 100_000, 100, False, 2.5),
    ("PickN 100 of 1,000,000", 1_000_000, 100, False, 25.0),
    ("PickN 10 of 1,000, hard spread", 1_000, 10, True, 0.6),
    ("PickN 100 of 10,000, hard spread", 10_000, 100, True, 3.0),
)


def median(work: Callable[[], object], seconds: float = 1.0) -> float:
    """Return the median run time of *work* in milliseconds, over at least 5 runs and about *seconds*."""
    work()
    times: list[float] = []
    end = time.perf_counter() + seconds
    while len(times) < 5 or time.perf_counter() < end:
        start = time.perf_counter()
        work()
        times.append((time.perf_counter() - start) * 1000)
    return float(np.median(times))


def floor(fleet: Fleet) -> object:
    """One pass over each column that the policy reads, and one selection of the best."""
    score = np.zeros(len(fleet))
    for name in (NODES, COST, CPU, MEMORY):
        score += fleet.quantity(name).double
    mask = fleet.eligibility.until >= 0
    for key in ("env", "tier"):
        mask &= fleet.label(key).codes == 0
    return np.argmax(np.where(mask, score, 0))


def main() -> None:
    """Tell the figures."""
    part = Part("engine")
    fleet = make_fleet(0)
    for title, size, number, spread, goal in ROWS:
        if SHORT and size > 100_000:
            continue
        if len(fleet) != size:
            fleet = make_fleet(size)
            gc.collect()
            gc.freeze()  # as `up` does: a fleet lives long, the collector need not walk it again and again
        request = read_request(policy(number, spread=spread))

        def run(request: object = request, fleet: Fleet = fleet) -> None:
            result = schedule(request, fleet, (), NOW)  # type: ignore[arg-type]
            decisions(result)
            scheduled_condition(result)

        run()
        part.report(Figure(title, median(run), "ms", goal, median(lambda fleet=fleet: floor(fleet))))


if __name__ == "__main__":
    main()
