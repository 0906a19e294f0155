"""The queue of keys, in virtual time."""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from datetime import timedelta
from itertools import pairwise

import pytest

from tests.virtual_time import VirtualTimeLoop
from webhook.controllers.machinery.queue import LONGEST_BACKOFF, SHORTEST_REQUEUE_SECONDS, WorkQueue
from webhook.controllers.machinery.result import DONE, Result, StuckError, TerminalError, soonest
from webhook.kube.ports import ConflictError, RetryError, StoreError, UnavailableError


class Bench:
    """A queue whose reconcile notes when it was called, and does what the test says."""

    def __init__(self, act: Callable[["Bench", str], Awaitable[Result | None]] | None = None) -> None:
        self.calls: list[tuple[float, str]] = []
        self.working = 0
        self.most_working = 0
        self._act = act
        self.told: list[tuple[str, str]] = []
        self.queue: WorkQueue[str] = WorkQueue("bench", self._reconcile, teller=self)

    async def _reconcile(self, key: str) -> Result:
        self.calls.append((round(asyncio.get_running_loop().time(), 6), key))
        self.working += 1
        self.most_working = max(self.most_working, self.working)
        try:
            return await self._act(self, key) or DONE if self._act else DONE
        finally:
            self.working -= 1

    def failing(self, key: str, error: Exception) -> None:
        self.told.append((key, str(error)))

    def passed(self, key: str) -> None:
        self.told.append((key, ""))

    @property
    def keys(self) -> list[str]:
        return [key for _, key in self.calls]

    @property
    def times(self) -> list[float]:
        return [instant for instant, _ in self.calls]

    def run(self, script: Callable[["Bench"], Awaitable[None]], workers: int = 2) -> "Bench":
        """Work while *script* runs."""

        async def main() -> None:
            worker = asyncio.create_task(self.queue.run(workers))
            try:
                await script(self)
            finally:
                worker.cancel()
                await asyncio.gather(worker, return_exceptions=True)

        with asyncio.Runner(loop_factory=VirtualTimeLoop) as runner:
            runner.run(main())
        return self


def after(seconds: float) -> timedelta:
    return timedelta(seconds=seconds)


def adding(*keys: str, wait: float = 1000) -> Callable[[Bench], Awaitable[None]]:
    async def script(bench: Bench) -> None:
        for key in keys:
            bench.queue.add(key)
        await asyncio.sleep(wait)

    return script


def test_keys_are_worked_on_in_order_and_once():
    bench = Bench().run(adding("a", "b", "a", "c", "b"), workers=1)
    assert bench.keys == ["a", "b", "c"]
    assert bench.queue.reconciled == 3
    assert bench.queue.idle


def test_length_counts_keys_in_line():
    async def script(bench):
        for key in ("a", "b", "a"):
            bench.queue.add(key)
        assert len(bench.queue) == 2
        assert not bench.queue.idle
        await asyncio.sleep(1)
        assert len(bench.queue) == 0
        assert bench.queue.idle

    Bench().run(script)


async def takes_a_second(bench: Bench, key: str) -> None:
    await asyncio.sleep(1)


def test_workers_take_different_keys_at_the_same_time():
    bench = Bench(takes_a_second).run(adding("a", "b", "c"), workers=2)
    assert bench.most_working == 2
    assert bench.calls == [(0.0, "a"), (0.0, "b"), (1.0, "c")]


def test_a_key_added_while_it_is_worked_on_is_worked_on_once_more_afterwards():
    async def script(bench):
        bench.queue.add("a")
        await asyncio.sleep(0.5)
        assert bench.working == 1
        for _ in range(3):
            bench.queue.add("a")
        await asyncio.sleep(100)

    bench = Bench(takes_a_second).run(script, workers=3)
    assert bench.calls == [(0.0, "a"), (1.0, "a")]
    assert bench.most_working == 1


def test_a_reconcile_may_add_its_own_key():
    async def act(bench, key):
        if len(bench.calls) < 3:
            bench.queue.add(key)

    assert Bench(act).run(adding("a")).keys == ["a", "a", "a"]


def test_requeue_after():
    async def act(bench, key):
        return Result(after(60)) if len(bench.calls) < 3 else DONE

    assert Bench(act).run(adding("a")).times == [0, 60, 120]


def test_requeue_at_once_does_not_spin():
    async def act(bench, key):
        return Result(after(0)) if len(bench.calls) < 3 else DONE

    assert Bench(act).run(adding("a")).times == [0, SHORTEST_REQUEUE_SECONDS, 2 * SHORTEST_REQUEUE_SECONDS]


def test_repeats_at_once_come_with_growing_pauses_until_one_is_enough():
    async def act(bench, key):
        return DONE if len(bench.calls) in (9, 11) else Result(after(0))

    async def script(bench):
        bench.queue.add("a")
        await asyncio.sleep(100)
        bench.queue.add("a")
        await asyncio.sleep(100)

    times = Bench(act).run(script).times
    pauses = [later - sooner for sooner, later in pairwise(times)]
    assert pauses[:8] == pytest.approx([SHORTEST_REQUEUE_SECONDS] * 4 + [0.08, 0.16, 0.32, 0.64])
    assert pauses[9:] == pytest.approx([SHORTEST_REQUEUE_SECONDS])


def test_an_event_comes_before_a_timer_and_replaces_it():
    async def act(bench, key):
        return Result(after(60)) if len(bench.calls) == 1 else DONE

    async def script(bench):
        bench.queue.add("a")
        await asyncio.sleep(10)
        bench.queue.add("a")
        await asyncio.sleep(1000)

    assert Bench(act).run(script).times == [0, 10]


@pytest.mark.parametrize(
    ("delays", "instant"),
    [
        pytest.param([30, 60], 30, id="later-does-not-move-it"),
        pytest.param([60, 30], 30, id="earlier-does"),
    ],
)
def test_of_two_timers_the_earlier_stands(delays, instant):
    async def script(bench):
        for delay in delays:
            bench.queue.add_after("a", after(delay))
        await asyncio.sleep(1000)

    assert Bench().run(script).times == [instant]


def failing(error: Callable[[], BaseException], times: int) -> Callable[[Bench, str], Awaitable[None]]:
    async def act(bench: Bench, key: str) -> None:
        if bench.keys.count(key) <= times:
            raise error()

    return act


@pytest.mark.parametrize(
    "error",
    [
        pytest.param(lambda: ConflictError("someone else wrote first"), id="conflict"),
        pytest.param(lambda: StoreError("cannot reach it"), id="store"),
        pytest.param(lambda: RetryError("not yet"), id="retry"),
        pytest.param(lambda: ZeroDivisionError("our bug"), id="bug"),
        pytest.param(asyncio.CancelledError, id="a-task-inside-was-cancelled"),
    ],
)
def test_failures_are_tried_again_with_growing_pauses(error, caplog):
    bench = Bench(failing(error, times=12)).run(adding("a"))
    pauses = [later - sooner for sooner, later in zip(bench.times, bench.times[1:], strict=False)]
    assert pauses == pytest.approx([0.005 * 2**failures for failures in range(12)], abs=1e-4)


def test_pauses_have_an_upper_bound():
    bench = Bench(failing(lambda: ConflictError("again"), times=40)).run(adding("a", wait=100 * LONGEST_BACKOFF))
    assert len(bench.calls) == 41
    assert bench.times[-1] - bench.times[-2] == pytest.approx(LONGEST_BACKOFF)


def test_failures_of_one_key_do_not_hold_up_others():
    async def act(bench, key):
        if key == "bad":
            raise ConflictError("again")

    bench = Bench(act).run(adding("bad", "good", wait=0.001), workers=1)
    assert bench.keys == ["bad", "good"]


def test_success_forgets_earlier_failures():
    outcomes = iter([1, 1, 1, 1, 1, 1, 0, 1, 0])

    async def act(bench, key):
        if next(outcomes):
            raise ConflictError("again")

    async def script(bench):
        bench.queue.add("a")
        await asyncio.sleep(100)
        bench.queue.add("a")
        await asyncio.sleep(100)

    bench = Bench(act).run(script)
    first = bench.times[1] - bench.times[0]
    assert bench.times[8] - bench.times[7] == pytest.approx(first)


def test_a_failure_after_many_requests_to_look_again_at_once_is_tried_again_at_once():
    """A rollout that asks at every step to come back at once must not wait for minutes after its first conflict."""

    async def reconcile(bench, key):
        if len(bench.calls) == 12:
            raise ConflictError("somebody was faster")
        return Result(timedelta()) if len(bench.calls) < 12 else DONE

    times = Bench(reconcile).run(adding("a")).times
    assert len(times) == 13
    assert times[12] - times[11] < SHORTEST_REQUEUE_SECONDS


@pytest.mark.parametrize(
    "not_ready",
    [
        pytest.param(lambda: RetryError("the namespace is still being deleted", after(5)), id="not-ready"),
        pytest.param(lambda: UnavailableError("too many requests", retry_after=5), id="throttled"),
    ],
)
def test_a_conflict_after_a_long_wait_for_something_else_is_tried_again_at_once(not_ready):
    """A member whose namespace took a minute to go must not wait for minutes after its first conflict."""

    async def reconcile(bench, key):
        if len(bench.calls) <= 16:
            raise not_ready()
        if len(bench.calls) == 17:
            raise ConflictError("somebody was faster")

    times = Bench(reconcile).run(adding("a", wait=200)).times
    assert len(times) == 18
    assert times[17] - times[16] < SHORTEST_REQUEUE_SECONDS


def test_conflicts_are_told_in_the_log_once_they_do_not_pass(caplog):
    caplog.set_level(logging.INFO)
    Bench(failing(lambda: ConflictError("somebody was faster"), times=4)).run(adding("a"))
    assert [record.error for record in caplog.records if record.msg == "reconcile failed, will retry"] == [
        "somebody was faster"
    ] * 2


def test_retry_error_can_name_its_own_pause():
    assert Bench(failing(lambda: RetryError("later", after(42)), times=2)).run(adding("a")).times == [0, 42, 84]


def test_a_terminal_error_waits_for_the_next_event(caplog):
    async def script(bench):
        bench.queue.add("a")
        await asyncio.sleep(1000)
        bench.queue.add("a")
        await asyncio.sleep(1000)

    bench = Bench(failing(lambda: TerminalError("no way"), times=9)).run(script)
    assert bench.times == [0, 1000]
    assert [record.error for record in caplog.records if record.msg == "waiting for a change"] == ["no way", "no way"]


def test_an_event_during_a_failing_reconcile_is_not_lost():
    async def act(bench, key):
        if len(bench.calls) == 1:
            await asyncio.sleep(1)
            raise TerminalError("no way")

    async def script(bench):
        bench.queue.add("a")
        await asyncio.sleep(0.5)
        bench.queue.add("a")
        await asyncio.sleep(100)

    assert Bench(act).run(script).times == [0, 1]


def test_our_bugs_are_counted_and_logged_with_their_traceback(caplog):
    bench = Bench(failing(lambda: ZeroDivisionError("our bug"), times=1)).run(adding("a"))
    assert bench.queue.failed == 1
    (record,) = [record for record in caplog.records if record.msg == "reconcile failed"]
    assert (record.controller, record.key) == ("bench", "a")
    assert record.exc_info[0] is ZeroDivisionError


def test_cancelling_clears_the_timers():
    async def script(bench):
        bench.queue.add_after("a", after(30))
        await asyncio.sleep(1)

    bench = Bench().run(script)
    assert bench.calls == []


@pytest.mark.parametrize(
    ("results", "expected"),
    [
        pytest.param([], DONE, id="none"),
        pytest.param([DONE, DONE], DONE, id="nobody-wants-to"),
        pytest.param([DONE, Result(after(9)), Result(after(3))], Result(after(3)), id="first"),
    ],
)
def test_soonest(results, expected):
    assert soonest(*results) == expected


@pytest.mark.parametrize(
    "error",
    [
        pytest.param(OverflowError("days=1000000000"), id="a-mistake-of-ours"),
        pytest.param(StoreError("the server says no"), id="a-refusal-of-the-store"),
        pytest.param(StuckError("spec.strategy: unreadable"), id="what-somebody-has-to-put-right"),
    ],
)
def test_what_fails_three_times_in_a_row_is_told_until_it_passes(error):
    async def act(bench, key):
        if len(bench.calls) <= 4:
            raise error

    assert Bench(act).run(adding("a")).told == [("a", str(error))] * 2 + [("a", "")]


def test_what_is_not_tried_again_is_told_at_once():
    async def act(bench, key):
        raise TerminalError("two latest snapshots")

    assert Bench(act).run(adding("a")).told == [("a", "two latest snapshots")]


@pytest.mark.parametrize(
    "error",
    [
        pytest.param(RetryError("not yet", after(1)), id="not-ready"),
        pytest.param(ConflictError("somebody wrote first"), id="conflict"),
        pytest.param(UnavailableError("the hub is away"), id="outage"),
    ],
)
def test_what_passes_by_itself_is_not_told(error):
    async def act(bench, key):
        if len(bench.calls) <= 10:
            raise error

    assert Bench(act).run(adding("a")).told == [("a", "")]


def test_failures_that_are_not_in_a_row_are_not_told():
    async def act(bench, key):
        bench.queue.add_after(key, after(1))
        if len(bench.calls) % 3:
            raise OverflowError

    assert {error for _, error in Bench(act).run(adding("a", wait=20)).told} == {""}


def test_keys_whose_time_has_come_take_turns_with_those_just_added():
    async def script(bench: Bench) -> None:
        for seconds, key in enumerate("abc"):
            bench.queue.add_after(key, after(1.5 + seconds / 10))
        for key in "123456":
            bench.queue.add(key)
        await asyncio.sleep(100)

    bench = Bench(takes_a_second).run(script, workers=1)
    assert "".join(bench.keys) == "123a4b5c6"


def tabled(bench: Bench) -> set[str]:
    """Return the keys that the queue has state of."""
    return set(bench.queue._states)


@pytest.mark.parametrize(
    ("act", "remaining"),
    [
        pytest.param(None, set(), id="success"),
        pytest.param(failing(lambda: ConflictError("written meanwhile"), times=3), set(), id="success-after-failures"),
        pytest.param(failing(lambda: TerminalError("no way"), times=1), {"a", "b"}, id="failed-for-good"),
        pytest.param(failing(lambda: RetryError("not yet", after(1)), times=1), set(), id="success-after-a-delay"),
    ],
)
def test_a_key_without_state_leaves_the_table(act, remaining):
    assert tabled(Bench(act).run(adding("a", "b", "a"))) == remaining


def test_a_key_with_a_timer_stays_in_the_table_until_it_is_done():
    async def script(bench):
        bench.queue.add_after("a", after(30))
        assert tabled(bench) == {"a"}
        await asyncio.sleep(100)
        assert tabled(bench) == set()

    assert Bench().run(script).times == [30]


def test_immediate_requeues_are_forgotten_after_the_last():
    async def act(bench, key):
        return Result(after(0)) if len(bench.calls) < 3 else DONE

    assert tabled(Bench(act).run(adding("a"))) == set()


def test_a_key_of_another_shard_leaves_the_table():
    """It was added here, and belongs to another shard when its timer fires, or when a worker takes it."""
    foreign: set[str] = set()

    async def script(bench):
        bench.queue._owns = lambda key: key not in foreign
        bench.queue.add_after("late", after(30))
        bench.queue.add("soon")
        foreign.update({"late", "soon"})
        bench.queue.add("never")
        foreign.add("other")
        bench.queue.add("other")
        await asyncio.sleep(100)

    bench = Bench().run(script)
    assert (bench.keys, tabled(bench)) == (["never"], set())


def test_the_counters_of_a_key_that_moves_to_another_shard_are_forgotten():
    foreign: set[str] = set()

    async def act(bench, key):
        raise StoreError("full")

    async def script(bench):
        bench.queue._owns = lambda key: key not in foreign
        bench.queue.add("on-its-timer")
        await asyncio.sleep(0.001)
        foreign.add("on-its-timer")
        await asyncio.sleep(100)

    assert tabled(Bench(act).run(script)) == set()


def test_a_worker_ends_although_a_reconcile_has_swallowed_its_cancellation():
    async def act(bench, key):
        try:
            await asyncio.sleep(3600)
        except asyncio.CancelledError:
            raise UnavailableError("the connection was closed") from None

    bench = Bench(act).run(adding("a", "b", wait=1))
    assert (bench.keys, bench.queue.idle) == (["a", "b"], True)


@pytest.mark.parametrize("outcome", ["passed", "failing"])
def test_a_report_that_fails_does_not_end_the_workers(outcome, caplog):
    async def act(bench, key):
        if outcome == "failing" and key == "a":
            raise TerminalError("wrong")

    def broken(*given):
        raise KeyError("type")

    bench = Bench(act)
    setattr(bench, outcome, broken)
    bench.run(adding("a", "b", "c"))
    assert bench.keys == ["a", "b", "c"]
    assert [record.msg for record in caplog.records if record.exc_info] == ["failure report failed"] * (
        3 if outcome == "passed" else 1
    )
