"""Token buckets and turns."""

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.webhook.endpoints.conftest import wait_until
from webhook.endpoints.http import rate_limits
from webhook.endpoints.http.rate_limits import KeyedSemaphore, TokenBuckets


def test_a_burst_passes_then_one_by_one():
    buckets = TokenBuckets(2, 3)
    assert [buckets.take("ann", 0) for _ in range(4)] == [0, 0, 0, 1]
    assert buckets.take("ann", 0.4) == 1
    assert [buckets.take("ann", 0.5), buckets.take("ann", 0.5)] == [0, 1]


def test_everybody_has_a_bucket_of_their_own():
    buckets = TokenBuckets(1, 1)
    assert [buckets.take(name, 0) for name in ("ann", "bob", "ann")] == [0, 0, 1]


def test_a_bucket_never_holds_more_than_the_burst():
    buckets = TokenBuckets(10, 2)
    buckets.take("ann", 0)
    assert [buckets.take("ann", 1_000_000) for _ in range(3)] == [0, 0, 1]


def test_looking_takes_nothing():
    buckets = TokenBuckets(1, 1)
    assert [buckets.wait("ann", 0) for _ in range(3)] == [0, 0, 0]
    assert buckets.take("ann", 0) == 0


def test_what_is_owed_has_an_end():
    buckets = TokenBuckets(1, 2)
    for _ in range(100):
        buckets.charge("ann", 0)
    assert buckets.wait("ann", 0) == 3


def test_the_wait_is_in_whole_seconds_and_long_enough():
    buckets = TokenBuckets(0.4, 1)
    buckets.take("ann", 0)
    wait = buckets.take("ann", 0)
    assert wait == 3
    assert buckets.take("ann", wait) == 0


def test_memory_is_bounded_and_those_who_come_often_stay(monkeypatch):
    monkeypatch.setattr(rate_limits, "MOST_KEYS", 3)
    buckets = TokenBuckets(0.001, 1)
    for name in ("ann", "bob", "cat"):
        buckets.take(name, 0)
    assert buckets.take("ann", 0) > 0
    for name in ("dan", "eve"):
        buckets.take(name, 0)
    assert len(buckets._buckets) == 3
    assert buckets.take("ann", 0) > 0
    assert buckets.take("bob", 0) == 0


@given(
    rate=st.floats(0.1, 100),
    burst=st.integers(1, 50),
    pauses=st.lists(st.floats(0, 2), min_size=1, max_size=200),
)
def test_nobody_gets_more_than_burst_and_rate(rate, burst, pauses):
    buckets, now, passed = TokenBuckets(rate, burst), 0.0, 0
    for pause in pauses:
        now += pause
        passed += buckets.take("ann", now) == 0
    assert passed <= burst + rate * now + 1e-6


@pytest.mark.parametrize("rate", [0.01, 1, 333])
@given(at=st.floats(0, 1e6), used=st.integers(0, 20))
def test_whoever_waits_as_told_gets_one(rate, at, used):
    buckets = TokenBuckets(rate, 10)
    for _ in range(used):
        buckets.charge("ann", at)
    assert buckets.take("ann", at + buckets.wait("ann", at)) == 0


async def test_turns_are_taken_by_key_and_leave_nothing_behind():
    turns, inside, gate = KeyedSemaphore(2), [], asyncio.Event()

    async def enter(key):
        async with turns.acquire(key, 20):
            inside.append(key)
            await gate.wait()

    async with asyncio.TaskGroup() as tasks:
        waiting = [tasks.create_task(enter(key)) for key in "aaaab"]
        await wait_until(lambda: len(inside) == 3)
        assert sorted(inside) == ["a", "a", "b"]
        waiting[3].cancel()
        with pytest.raises(TimeoutError):
            async with turns.acquire("a", 0):
                pass
        gate.set()
    assert (sorted(inside), len(turns)) == (["a", "a", "a", "b"], 0)
