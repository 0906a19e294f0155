"""What holds for a leader and for replicas that share the work alike, whatever becomes of their calls."""

import asyncio
from functools import partial

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scorer.api.kinds import LEASE
from scorer.api.meta import parse_time
from tests.thoroughness import examples
from tests.webhook.kube.candidates import KEY, LONGEST_RETRY, START, STEP, TIMES, Alone, Replica, hub
from tests.webhook.kube.faulty_store import Fault
from tests.webhook.kube.still_time import run_in_still_time
from webhook.kube.ports import ForbiddenError, NotFoundError, NotServedError

alike = pytest.mark.parametrize("kind", [Alone, Replica], ids=["leader", "shards"])


@alike
@pytest.mark.parametrize("fault", [Fault.HANG, Fault.ERROR, Fault.UNANSWERED], ids=str)
def test_who_cannot_renew_stops_before_another_may_begin(kind, fault):
    """`renew` after the last renewal was sent; another candidate waits `lease` from when it saw that renewal.

    The last renewal is stored at most a pause before the fault begins. One whose answer is lost is stored all the same,
    at most a pause after it. The other candidate sees it, and that it has not changed for `lease`, a pause late each.
    """
    before, after = (0, LONGEST_RETRY) if fault is Fault.UNANSWERED else (LONGEST_RETRY, 0)
    earliest, latest = TIMES.lease - before, after + LONGEST_RETRY + TIMES.lease + LONGEST_RETRY + 2 * STEP

    async def scenario(loop):
        async with hub(loop, kind) as (store, process):
            a = process("a").start()
            await asyncio.sleep(30)
            renewed = parse_time((await store.get(LEASE, KEY))["spec"]["renewTime"]) - START
            a.store.faults = [fault]
            lost = loop.time()
            b = process("b").start()
            while a.may_write:
                assert not b.may_write
                await asyncio.sleep(STEP)
            assert loop.time() - 1000 == pytest.approx(renewed.total_seconds() + TIMES.renew, abs=2 * STEP)
            a.store.faults = [Fault.ERROR]
            while not b.may_write:
                assert not a.may_write
                await asyncio.sleep(STEP)
            assert earliest <= loop.time() - lost <= latest

    run_in_still_time(scenario)


@alike
def test_a_first_term_counts_from_when_its_write_was_sent_not_from_the_answer(kind):
    async def scenario(loop):
        async with hub(loop, kind) as (_, process):
            a = process("a")
            a.store.faults = [Fault.NONE, Fault.SLOW, Fault.HANG]
            a.start()
            while not a.may_write:
                await asyncio.sleep(0.01)
            assert loop.time() - 1000 == pytest.approx(4, abs=0.02), "the answer took so long"
            while a.may_write:
                await asyncio.sleep(0.01)
            assert loop.time() - 1000 == pytest.approx(10, abs=0.02)

    run_in_still_time(scenario)


@alike
def test_a_process_that_stood_still_may_not_write_even_before_any_of_its_tasks_has_run(kind):
    """What SIGSTOP does: the clock has gone on, nothing else has happened, and the very next step is a write."""

    async def scenario(loop):
        async with hub(loop, kind) as (_, process):
            a = process("a").start()
            await asyncio.sleep(5)
            assert a.may_write
            a.ahead += 30
            assert not a.may_write
            assert not a.elector.leading

    run_in_still_time(scenario)


@alike
def test_work_that_does_not_stop_ends_the_process(kind):
    async def scenario(loop):
        async with hub(loop, kind) as (_, process):
            a = process("a").start()
            await asyncio.sleep(5)
            a.cleanup_seconds = 4.0
            a.store.faults = [Fault.ERROR]
            while a.may_write:
                await asyncio.sleep(0.01)
            await asyncio.sleep(2.9)
            assert a.ended == []
            await asyncio.sleep(0.2)
            assert set(a.ended) == {"the work of a leader did not stop within 3 s"}

    run_in_still_time(scenario)


@alike
def test_an_error_of_the_work_comes_out_and_frees_the_lease(kind):
    async def scenario(loop):
        async with hub(loop, kind) as (store, process):
            a = process("a")
            a.bug = ValueError("a bug")
            found = ()
            try:
                await a.elector.run(a.work)
            except* ValueError as errors:  # of each shard one
                found = errors.exceptions
            assert {str(error) for error in found} == {"a bug"}
            assert (await store.get(LEASE, KEY))["spec"]["holderIdentity"] == ""
            assert not a.may_write
            a.bug = None  # as a server does that goes on, and tries again
            a.start()
            await asyncio.sleep(0.1)
            assert a.may_write

    run_in_still_time(scenario)


@alike
@pytest.mark.parametrize(
    ("refusal", "words"),
    [
        pytest.param(
            NotFoundError('namespaces "harbormaster-system" not found'),
            ["no namespace 'harbormaster-system'", "harbormaster-reconcile"],
            id="no-namespace",
        ),
        pytest.param(
            ForbiddenError("leases is forbidden"), ["may not use the Lease", "leases is forbidden"], id="rbac"
        ),
        pytest.param(
            NotServedError("the server could not find the requested resource"),
            ["does not serve Leases (coordination.k8s.io/v1)"],
            id="not-served",
        ),
    ],
)
def test_what_keeps_us_from_the_lease_is_told_once_and_tried_again(kind, refusal, words, caplog):
    async def scenario(loop):
        async with hub(loop, kind) as (_, process):
            a = process("a")
            a.store.refusal = refusal
            a.start()
            await asyncio.sleep(60)
            assert all(word in a.elector.trouble for word in words), a.elector.trouble
            assert not a.may_write
            warnings = [record.message for record in caplog.records if record.levelname == "WARNING"]
            assert warnings == ["lease out of reach"]
            a.store.refusal = None
            await asyncio.sleep(LONGEST_RETRY + 0.1)
            assert a.may_write
            assert a.elector.trouble == ""

    run_in_still_time(scenario)


PHASES = st.lists(
    st.tuples(st.sampled_from("abc"), st.sampled_from(list(Fault)), st.integers(1, 6), st.floats(0, 25)), max_size=12
)


@settings(max_examples=examples(80))
@given(phases=PHASES, count=st.integers(1, 5))
def test_whatever_fails_never_two_may_write_for_a_shard_and_all_is_worked_on_in_the_end(phases, count):
    """Three processes, each with calls that fail, hang, answer late, or are stored late or without an answer."""

    async def scenario(loop):
        async with hub(loop, Alone if count == 1 else partial(Replica, count=count)) as (_, process):
            processes = {name: process(name).start() for name in "abc"}
            watching = asyncio.create_task(watch(processes.values()))
            for name, fault, calls, seconds in phases:
                processes[name].store.faults = [fault] * calls + [Fault.NONE]
                await asyncio.sleep(seconds)
            await asyncio.sleep(80)
            assert sorted(writable(processes.values())) == list(range(count))
            watching.cancel()
            assert not watching.done() or watching.result()
            assert all(each.ended == [] for each in processes.values())

    run_in_still_time(scenario)


async def watch(processes):
    """Fail as soon as two may write for one shard."""
    while True:
        found = writable(processes)
        assert len(found) == len(set(found)), found
        await asyncio.sleep(0.05)


def writable(processes):
    """The shards that each may write for; a leader has the only one there is."""
    return [
        shard for each in processes for shard in (each.may_write if isinstance(each, Replica) else [0] * each.may_write)
    ]
