"""What holds for a leader and for replicas that share the work alike, whatever becomes of their calls."""

import asyncio
from contextlib import suppress
from functools import partial

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scorer.api.kinds import LEASE
from scorer.api.meta import parse_time
from tests.thoroughness import examples
from tests.webhook.kube.leader_election.candidates import KEY, LONGEST_RETRY, START, STEP, TIMES, Alone, Replica, hub
from tests.webhook.kube.leader_election.faulty_store import Fault
from tests.webhook.kube.still_time import run_in_still_time
from webhook.kube.leader_election.lease import LONGEST_LEASE
from webhook.kube.ports import ConflictError, ForbiddenError, NotFoundError, NotServedError

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
            assert loop.time() == pytest.approx(renewed.total_seconds() + TIMES.renew, abs=2 * STEP)
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
            assert loop.time() == pytest.approx(4, abs=0.02), "the answer took so long"
            while a.may_write:
                await asyncio.sleep(0.01)
            assert loop.time() == pytest.approx(10, abs=0.02)

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
            ForbiddenError("leases is forbidden"), ["not allowed to use the Lease", "leases is forbidden"], id="rbac"
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


def foreign(**spec):
    """The Lease as no replica has written it."""
    metadata = {"name": KEY.name, "namespace": KEY.namespace}
    given = {"holderIdentity": "foreign", "leaseDurationSeconds": 86400, **spec}
    return {"apiVersion": LEASE.api_version, "kind": LEASE.kind, "metadata": metadata, "spec": given}


async def rewrite(store, **spec):
    """Have a client write over the Lease each second."""
    loop = asyncio.get_running_loop()
    while True:
        document = await store.get(LEASE, KEY)
        renewed = {**document["spec"], **spec, "renewTime": f"2100-01-01T00:00:{loop.time() % 60:09.6f}Z"}
        with suppress(ConflictError):
            await store.replace(LEASE, {**document, "spec": renewed})
        await asyncio.sleep(1)


@alike
@pytest.mark.parametrize("deleted", [False, True], ids=["kept", "deleted"])
def test_an_absurd_duration_is_believed_for_five_minutes_at_most(kind, deleted):
    async def scenario(loop):
        async with hub(loop, kind) as (store, process):
            await store.create(LEASE, foreign())
            b = process("b").start()
            await asyncio.sleep(30)
            if deleted:
                await store.delete(LEASE, KEY)
            await asyncio.sleep(LONGEST_LEASE - 30.1)
            assert not b.may_write
            assert b.elector.leaderless_seconds >= LONGEST_LEASE - LONGEST_RETRY
            await asyncio.sleep(LONGEST_RETRY + 0.2)
            assert b.may_write
            await asyncio.sleep(2 * LONGEST_RETRY)
            assert b.elector.leaderless_seconds <= LONGEST_RETRY

    run_in_still_time(scenario)


@alike
def test_a_client_that_rewrites_the_lease_each_second_stops_the_loop_and_is_named(kind):
    async def scenario(loop):
        async with hub(loop, kind) as (store, process):
            a, b = process("a").start(), process("b").start()
            watching = asyncio.create_task(watch([a, b]))
            await asyncio.sleep(30)
            rewriting = asyncio.create_task(rewrite(store, holderIdentity="foreign", leaseDurationSeconds=86400))
            await asyncio.sleep(120)
            for each in (a, b):
                assert not each.may_write
                assert each.elector.leaderless_seconds >= 120 - 2 * LONGEST_RETRY
                assert "foreign holds the Lease for 86400 s without a renewal" in each.elector.trouble
            rewriting.cancel()
            await asyncio.sleep(LONGEST_LEASE + 2 * LONGEST_RETRY)
            assert writable([a, b])
            assert a.elector.trouble == b.elector.trouble == ""
            assert not watching.done() or watching.result()
            watching.cancel()

    run_in_still_time(scenario)


@alike
def test_a_candidate_that_waits_for_a_living_leader_knows_that_it_is_led(kind):
    async def scenario(loop):
        async with hub(loop, kind) as (_, process):
            first = [process(f"a{number}").start() for number in range(3)]
            await asyncio.sleep(30)
            standby = process("standby").start()
            for _ in range(120):
                await asyncio.sleep(1)
                assert standby.elector.leaderless_seconds <= 2 * LONGEST_RETRY
            assert not standby.may_write
            for each in first:
                each.store.faults = [Fault.ERROR]
            standby.store.faults = [Fault.ERROR]
            await asyncio.sleep(90)
            assert standby.elector.leaderless_seconds >= 80, "the hub does not answer it"

    run_in_still_time(scenario)


@alike
def test_replicas_of_another_number_of_shards_that_work_count_as_a_leader(kind):
    """Else a rolling update that changes the number would wait for new replicas that wait for old ones."""

    async def scenario(loop):
        async with hub(loop, kind) as (store, process):
            await store.create(LEASE, foreign(holderIdentity="7 shards", leaseDurationSeconds=15))
            renewing = asyncio.create_task(rewrite(store))
            b = process("b").start()
            for _ in range(120):
                await asyncio.sleep(1)
                assert b.elector.leaderless_seconds <= 2 * LONGEST_RETRY
            assert not b.may_write
            renewing.cancel()

    run_in_still_time(scenario)


@alike
def test_metadata_that_changes_renews_nothing(kind):
    """A controller that annotates the Lease, say, does not speak for a leader that was killed."""

    async def scenario(loop):
        async with hub(loop, kind) as (store, process):
            await store.create(LEASE, foreign(leaseDurationSeconds=15))
            b = process("b").start()
            for second in range(15):
                await asyncio.sleep(1)
                document = await store.get(LEASE, KEY)
                metadata = {**document["metadata"], "annotations": {"seen": str(second)}}
                await store.replace(LEASE, {**document, "metadata": metadata})
                assert not b.may_write
            await asyncio.sleep(LONGEST_RETRY + 0.2)
            assert b.may_write

    run_in_still_time(scenario)
