"""Disruption budgets: the calendar, the next opening and the gate, each with 50 budgets in a pool.

The floors are one pass over what has to be looked at at least: of the calendar a table of budgets and minutes, of the
opening a bit per budget and minute, of the gate the windows of all budgets at one instant. Over HTTPS the floor is a
bare handler that answers as much.
"""

import asyncio
import gc
import operator
import os
import ssl
import tempfile
import time
from collections.abc import Callable, Sequence
from datetime import timedelta
from functools import reduce
from itertools import count, cycle
from pathlib import Path
from typing import Final

import numpy as np
import uvloop
from aiohttp import web

from e2e.load.connection import Connection, dial, request
from scorer.api.kinds import NODE, NODE_CLAIM, NODE_POOL, Kind
from scorer.api.meta import JsonObject
from scorer.api.node_pool import NODE_POOL_LABEL, Budget, DisruptionReason
from scorer.node_budgets.budgets import UNLIMITED, BudgetSet, NodeCounts, budget_window
from scorer.node_budgets.calendar import calendar
from scorer.node_budgets.documents import BudgetedPool, Overviews
from scorer.node_budgets.gate import answer
from scorer.node_budgets.opening import HORIZON, next_open
from scorer.node_budgets.pool_view import PoolView
from scorer.node_budgets.question import NodeGateQuestion
from scorer.windows.cron import DAY_MINUTES
from tests.bench.engine import median
from tests.bench.figures import Figure, Part
from tests.bench.fleets import NOW
from tests.bench.scoring import TOKEN, Hub, listening, replica

POOLS, BUDGETS, NODES, DAYS = 1_000, 50, 8, 14
ROUNDS, HTTPS_SECONDS, WARM_UP_SECONDS, PATIENCE_SECONDS = 3, 10.0, 2.0, 60.0
PART: Final = Part("disruption")
JSON: Final = "application/json"
COUNTS: Final = NodeCounts(30)
REASONS: Final = tuple(DisruptionReason)
_HALF_HOURS: Final = [(hour, minute) for hour in range(24) for minute in (0, 30)]
_LAST_DAY: Final = NOW + HORIZON - timedelta(days=1)

NEVER_OPEN: Final = tuple(
    Budget(nodes="0", schedule=f"{minute} {hour} * * *", duration="30m")
    for hour, minute in (*_HALF_HOURS, (6, 15), (18, 15))
)
"""One ends when the next begins, around the clock."""
OPEN_ON_THE_LAST_DAY: Final = (
    *NEVER_OPEN[: len(_HALF_HOURS) - 1],
    *(
        Budget(nodes="0", schedule=schedule, duration="30m")
        for schedule in (
            f"30 23 {','.join(str(day) for day in range(1, 32) if day != _LAST_DAY.day)} * *",
            f"30 23 * {','.join(str(month) for month in range(1, 13) if month != _LAST_DAY.month)} *",
            f"30 23 * * {','.join(str(day) for day in range(7) if day != _LAST_DAY.isoweekday() % 7)}",
        )
    ),
)
"""The last half hour of the day is left to three budgets, none of which is in force on the last day of the search."""
DENSE: Final = tuple(
    Budget(nodes=str(1 + number % 5), reasons=(REASONS[number % 4],), schedule=schedule, duration="1m")
    for number, schedule in enumerate(
        ("*/2 * * * *", "1-59/2 * * * *", "*/3 * * * *", "* 0-11 * * *", "*/2 9-17 * * *") * 10
    )
)
"""Something changes every minute, for every reason."""


def random_budgets(dice: np.random.Generator) -> tuple[Budget, ...]:
    """Return fifty budgets as people write them: nights, office hours, weekends, ends of months, and a cap."""
    made = [Budget(nodes="40%")]
    for _ in range(BUDGETS - 1):
        hour, minute, day = int(dice.integers(24)), int(dice.integers(60)), int(dice.integers(1, 29))
        schedules = (f"{minute} {hour} * * 1-5", f"{minute} {hour} * * {day % 7}", f"{minute} {hour} {day} * *")
        made.append(
            Budget(
                nodes=str(dice.choice(["0", "1", "10%", "20%"])),
                schedule=str(dice.choice([*schedules, f"{minute} */{1 + hour} * * *"])),
                duration=str(dice.choice(["10m", "30m", "1h", "2h", "8h"])),
                reasons=None if dice.random() < 0.5 else (REASONS[int(dice.integers(len(REASONS)))],),
            )
        )
    return tuple(made)


def _report(title: str, ours: float, goal: float, floor: float) -> None:
    PART.report(Figure(title, ours, "ms", goal, floor))


def measure_calendar(title: str, budgets: Sequence[Budget]) -> None:
    """Tell a figure: fourteen days, all budgets, four reasons."""
    dice = np.random.default_rng(7)
    table = dice.random((BUDGETS, DAYS * DAY_MINUTES)) < 0.5
    values = dice.integers(0, 10, (BUDGETS, 1))
    end = NOW + timedelta(days=DAYS)
    _report(
        f"calendar {DAYS} d, {title}",
        median(lambda: calendar(budgets, COUNTS, NOW, end)),
        100.0,
        median(lambda: [np.where(table, values, UNLIMITED).min(axis=0) for _ in REASONS]),
    )


def measure_opening(title: str, budgets: Sequence[Budget], *, opens: bool) -> None:
    """Tell a figure: when one node may go, over 400 days."""
    dice = np.random.default_rng(7)
    bits = [int.from_bytes(dice.bytes(HORIZON.days * DAY_MINUTES // 8)) for _ in range(BUDGETS)]
    found = next_open(budgets, COUNTS, "Empty", 1, NOW).instant
    assert (found is not None and found > NOW + HORIZON - timedelta(days=1)) is opens, found
    _report(
        f"next opening within {HORIZON.days} d, {title}",
        median(lambda: next_open(budgets, COUNTS, "Empty", 1, NOW)),
        50.0,
        median(lambda: reduce(operator.or_, bits)),
    )


def measure_gate() -> None:
    """Tell a figure: the 99th percentile of one answer, over all pools and reasons, as soon as the pools are read."""
    dice = np.random.default_rng(7)
    views = [PoolView(f"pool-{number:04}", random_budgets(dice), counted=COUNTS) for number in range(POOLS)]
    windows = [[budget_window(budget) for budget in view.budgets] for view in views]
    questions = [
        NodeGateQuestion(view.name, REASONS[number % len(REASONS)], count=1 + number % NODES)
        for number, view in enumerate(views)
    ]
    instants = [NOW + timedelta(minutes=37 * number) for number in range(POOLS)]

    def p99(work: Callable[[int], object]) -> float:
        for number in range(POOLS // 10):
            work(number)
        taken = []
        for number in (*range(POOLS),) * ROUNDS:
            start = time.perf_counter()
            work(number)
            taken.append((time.perf_counter() - start) * 1000)
        return float(np.percentile(taken, 99))

    def ours(number: int) -> object:
        return answer(questions[number], views[number], instants[number]).document()

    def floor(number: int) -> object:
        return [window.is_open(instants[number]) for window in windows[number]]

    refused = sum(not answer(*asked).allowed for asked in zip(questions, views, instants, strict=True))
    _report(
        f"gate, {POOLS:,} pools, {refused / POOLS:.0%} refused, p99",
        p99(ours),
        2.0,
        p99(floor),
    )


class HubWithPools(Hub):
    """A hub that has node pools as well, each with a few nodes and their claims."""

    def __init__(self) -> None:
        super().__init__(1)
        dice = np.random.default_rng(7)
        pools = [_pool(f"pool-{number:04}", random_budgets(dice)) for number in range(POOLS)]
        names = [pool["metadata"]["name"] for pool in pools]
        nodes = [(f"{name}-{number}", name) for name in names for number in range(NODES)]
        self.items = {
            NODE_POOL.plural: pools,
            NODE_CLAIM.plural: [_claim(name, pool) for name, pool in nodes],
            NODE.plural: [_node(name, pool) for name, pool in nodes],
        }


def _pool(name: str, budgets: Sequence[Budget]) -> JsonObject:
    disruption = {"budgets": [budget.model_dump(by_alias=True, exclude_none=True) for budget in budgets]}
    node_class = {"group": "karpenter.azure.com", "kind": "AKSNodeClass", "name": "default"}
    template = {"spec": {"requirements": [], "nodeClassRef": node_class}}
    return _stored(NODE_POOL, name, spec={"template": template, "disruption": disruption})


def _claim(name: str, pool: str) -> JsonObject:
    return _stored(NODE_CLAIM, name, labels={NODE_POOL_LABEL: pool}, status={"nodeName": name})


def _node(name: str, pool: str) -> JsonObject:
    labels = {NODE_POOL_LABEL: pool, "karpenter.sh/initialized": "true"}
    return _stored(NODE, name, labels=labels, status={"conditions": [{"type": "Ready", "status": "True"}]})


def _stored(kind: Kind, name: str, labels: dict[str, str] | None = None, **content: JsonObject) -> JsonObject:
    metadata = {"name": name, "uid": f"{kind.kind}-{name}", "resourceVersion": "1", "labels": labels or {}}
    return {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": metadata, **content}


async def _ask_in_turn(connection: Connection, asked: Sequence[bytes], seconds: float) -> list[float]:
    """Ask one after the other for so long; returns the milliseconds of each."""
    taken: list[float] = []
    end = time.perf_counter() + seconds
    for question in cycle(asked):
        started = time.perf_counter()
        status, body = await connection.ask(question)
        taken.append((time.perf_counter() - started) * 1000)
        if status != 200:
            raise RuntimeError(f"unexpected answer: {status} {body.decode()[:500]}")
        if time.perf_counter() > end:
            break
    return taken


def measure_overview() -> None:
    """Tell a figure: what all pools allow, a minute after it was last looked at."""
    dice = np.random.default_rng(7)
    pools = [BudgetedPool(f"pool-{number:04}", BudgetSet(random_budgets(dice)), COUNTS) for number in range(POOLS)]
    instants = (NOW + timedelta(minutes=number) for number in count())
    made = Overviews(lambda: now)
    now = next(instants)
    made.overview(pools, now)
    entries = [pool.budgets for pool in pools]

    def later() -> None:
        nonlocal now
        now = next(instants)
        made.overview(pools, now)

    _report(
        f"overview of {POOLS:,} pools, a minute later",
        median(later),
        100.0,
        median(lambda: [[budget.nodes for budget in budgets] for budgets in entries]),
    )


async def measure_gate_over_https() -> None:
    """Tell a figure: the 99th percentile of ``POST /v1/gate/disruption`` on the pools of `measure_gate`."""
    asked = [
        request(
            "/v1/gate/disruption",
            {"pool": f"pool-{number:04}", "reason": REASONS[number % len(REASONS)], "count": 1 + number % NODES},
            TOKEN,
        )
        for number in range(POOLS)
    ]
    with tempfile.TemporaryDirectory() as folder:
        async with (
            listening(HubWithPools().routes()) as (hub, authority),
            replica(hub, authority, Path(folder)) as found,
            dial(found.port, found.trust) as connection,
        ):
            answered = await _ready(connection, asked[0])
            async with (
                listening(_bare("/v1/gate/disruption", answered)) as (port, trusted),
                dial(port, ssl.create_default_context(cadata=trusted)) as bare,
            ):
                floor = await _ask_in_turn(bare, asked, HTTPS_SECONDS / 4)
            await _ask_in_turn(connection, asked, WARM_UP_SECONDS)
            ours = await _ask_in_turn(connection, asked, HTTPS_SECONDS)
    _report(
        f"gate over HTTPS, {POOLS:,} pools, p99", float(np.percentile(ours, 99)), 6.0, float(np.percentile(floor, 99))
    )


async def _ready(connection: Connection, asked: bytes) -> int:
    """Wait until the pools are known; returns the bytes of an answer."""
    async with asyncio.timeout(PATIENCE_SECONDS):
        while (answered := await connection.ask(asked))[0] != 200:
            await asyncio.sleep(0.2)
    return len(answered[1])


def _bare(path: str, size: int) -> web.Application:
    async def handle(asked: web.Request) -> web.Response:
        await asked.read()
        return web.Response(body=b" " * size, content_type=JSON)

    app = web.Application()
    app.router.add_post(path, handle)
    return app


def main() -> None:
    """Tell the figures; over HTTPS with the load on the last core and the server on the first."""
    gc.collect()
    gc.freeze()  # as `up` does: the collector need not walk what lives long
    measure_calendar("as people write them", random_budgets(np.random.default_rng(7)))
    measure_calendar("never open", NEVER_OPEN)
    measure_calendar("a change every minute", DENSE)
    measure_opening("never", NEVER_OPEN, opens=False)
    measure_opening("on the last day", OPEN_ON_THE_LAST_DAY, opens=True)
    measure_gate()
    measure_overview()
    os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(measure_gate_over_https())


if __name__ == "__main__":
    main()
