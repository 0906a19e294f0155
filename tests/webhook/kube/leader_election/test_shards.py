"""Several replicas by one Lease, on the embedded store, in a time that only moves when nothing else can."""

import asyncio
import random

import orjson
import pytest

from scorer.api.kinds import LEASE
from tests.webhook.kube.leader_election.candidates import KEY, LONGEST_RETRY, Replica, hub, passes
from tests.webhook.kube.leader_election.faulty_store import Fault
from tests.webhook.kube.still_time import run_in_still_time
from webhook.kube.leader_election.leader import Leader
from webhook.kube.leader_election.shards import REPLICAS, Move, digest_of, read_roll
from webhook.kube.leader_election.term import LeaderElectionConfig

SETTLED = 4 * LONGEST_RETRY


async def lease(store):
    return await store.get(LEASE, KEY)


def entries(document):
    return {name: set(entry.shards) for name, entry in read_roll(document["metadata"]["annotations"][REPLICAS]).items()}


def divided(count, *replicas):
    """Whether each shard may be written by one of the replicas and no other, and all have as many, give or take one."""
    writable = sorted(shard for each in replicas for shard in each.may_write)
    sizes = [len(each.may_write) for each in replicas]
    return writable == list(range(count)) and max(sizes) - min(sizes) <= 1


async def never_two(replicas, seconds=1e6):
    """Fail as soon as two may write for one shard."""
    loop = asyncio.get_running_loop()
    end = loop.time() + seconds
    while loop.time() < end:
        writable = [shard for each in replicas for shard in each.may_write]
        assert len(writable) == len(set(writable)), [each.may_write for each in replicas]
        await asyncio.sleep(0.05)


def end(watching):
    """End what watches for two; fails if it has seen them."""
    if watching.done():
        watching.result()
    watching.cancel()


def test_the_only_replica_works_on_all_shards_at_once_and_the_lease_says_so():
    async def scenario(loop):
        async with hub(loop, Replica) as (store, replica):
            a = replica("a").start()
            await asyncio.sleep(0.1)
            assert a.may_write == {0, 1, 2} == a.elector.held
            document = await lease(store)
            assert document["spec"] == {
                "holderIdentity": "3 shards",
                "leaseDurationSeconds": 15,
                "acquireTime": "2026-03-04T05:06:07.000000Z",
                "renewTime": "2026-03-04T05:06:07.000000Z",
                "leaseTransitions": 0,
            }
            assert entries(document) == {"a": {0, 1, 2}}
            await asyncio.sleep(300)
            assert a.may_write == {0, 1, 2}
            assert a.moves == [(shard, Move.TAKEN) for shard in range(3)]

    run_in_still_time(scenario)


def test_replicas_that_come_get_their_share_and_no_shard_is_with_two_meanwhile():
    async def scenario(loop):
        async with hub(loop, Replica) as (store, replica):
            replicas = [replica("a").start()]
            watching = asyncio.create_task(never_two(replicas))
            await asyncio.sleep(1)
            for name in "bcd":
                replicas.append(replica(name).start())
                await asyncio.sleep(SETTLED)
                assert divided(3, *replicas), entries(await lease(store))
            assert entries(await lease(store)) == {each.elector.identity: each.may_write for each in replicas}
            taken = sum(move is Move.TAKEN for each in replicas for _, move in each.moves)
            assert taken == 3 + 1 + 1, "nothing has moved that need not"
            assert all(move is not Move.LOST for each in replicas for _, move in each.moves)
            end(watching)

    run_in_still_time(scenario)


@pytest.mark.parametrize("seed", [15, 89], ids="seed-{}".format)
@pytest.mark.parametrize("moment", [0.0, 0.7, 1.4, 2.1])
def test_the_shards_of_a_killed_replica_are_with_the_others_within_twenty_seconds_and_not_before_it_has_ended(
    moment, seed, monkeypatch
):
    # With these seeds, a survivor wakes exactly when the lease of the killed replica ends.
    monkeypatch.setattr("webhook.kube.leader_election.term.random", random.Random(seed))

    async def scenario(loop):
        async with hub(loop, Replica) as (_, replica):
            a, b, c = (replica(name).start() for name in "abc")
            watching = asyncio.create_task(never_two([a, b, c]))
            await asyncio.sleep(60 + moment)
            assert divided(3, a, b, c)
            [shard] = a.may_write
            a.kill()
            killed = loop.time()
            while shard not in b.may_write | c.may_write:
                await asyncio.sleep(0.05)
            assert 12 <= loop.time() - killed <= 18
            assert not a.may_write
            assert sorted(map(len, (b.may_write, c.may_write))) == [1, 2]
            end(watching)

    run_in_still_time(scenario)


def test_a_replica_that_comes_back_gets_a_share_again():
    async def scenario(loop):
        async with hub(loop, Replica) as (_, replica):
            a, b = (replica(name, 4).start() for name in "ab")
            await asyncio.sleep(60)
            a.kill()
            await asyncio.sleep(30)
            assert (a.may_write, b.may_write) == (set(), {0, 1, 2, 3})
            a.store.faults = [Fault.NONE]
            a.running.cancel()
            again = replica("a2", 4).start()
            await asyncio.sleep(SETTLED)
            assert divided(4, b, again)

    run_in_still_time(scenario)


def test_who_stood_still_goes_on_in_a_new_term_where_nobody_else_has_noticed():
    async def scenario(loop):
        async with hub(loop, Replica) as (_, replica):
            a, b = (replica(name, 2).start() for name in "ab")
            await asyncio.sleep(60)
            assert divided(2, a, b)
            a.ahead += 30
            await asyncio.sleep(SETTLED)
            assert (a.moves[-2][1], a.moves[-1][1]) == (Move.LOST, Move.TAKEN)
            assert divided(2, a, b)
            assert len([term for terms in a.terms.values() for term in terms if passes(term)]) == 1

    run_in_still_time(scenario)


def test_an_answer_that_comes_too_late_brings_nothing_back():
    async def scenario(loop):
        async with hub(loop, Replica) as (store, replica):
            a = replica("a").start()
            await asyncio.sleep(5)
            version = (await lease(store))["metadata"]["resourceVersion"]
            a.store.faults = [Fault.NONE, Fault.SLOW, Fault.NONE]
            while (await lease(store))["metadata"]["resourceVersion"] == version:
                await asyncio.sleep(0.01)
            a.cleanup_seconds = 1.0  # the work has not stopped when the answer comes
            a.ahead += 7.0  # 3 seconds are left, and the answer comes in 4
            sent = [term for terms in a.terms.values() for term in terms]
            while any(map(passes, sent)):
                await asyncio.sleep(0.01)
            for _ in range(300):
                await asyncio.sleep(0.01)
                assert not any(map(passes, sent))

    run_in_still_time(scenario)


@pytest.mark.parametrize("ahead", [-3600.0, 3600.0], ids=["behind", "ahead"])
def test_clocks_that_differ_do_not_matter(ahead):
    async def scenario(loop):
        async with hub(loop, Replica) as (_, replica):
            a, b = replica("a", 2), replica("b", 2)
            b.ahead = ahead
            a.start()
            b.start()
            await never_two([a, b], 60)
            assert divided(2, a, b)

    run_in_still_time(scenario)


def test_after_an_outage_of_the_hub_each_goes_on_with_what_it_had():
    async def scenario(loop):
        async with hub(loop, Replica) as (_, replica):
            replicas = [replica(name).start() for name in "abc"]
            watching = asyncio.create_task(never_two(replicas))
            await asyncio.sleep(60)
            before = [each.may_write for each in replicas]
            for each in replicas:
                each.store.faults = [Fault.ERROR]
            await asyncio.sleep(40)
            assert not any(each.may_write for each in replicas)
            for each in replicas:
                each.store.faults = [Fault.NONE]
            await asyncio.sleep(SETTLED)
            assert [each.may_write for each in replicas] == before
            end(watching)

    run_in_still_time(scenario)


def test_at_shutdown_the_shards_are_free_at_once_and_only_after_the_work_has_ended():
    async def scenario(loop):
        async with hub(loop, Replica) as (store, replica):
            a, b = (replica(name, 2).start() for name in "ab")
            await asyncio.sleep(60)
            a.cleanup_seconds = 1.0
            a.running.cancel()
            await asyncio.sleep(0.9)
            assert entries(await lease(store)).keys() == {"a", "b"}
            await asyncio.wait([a.running])
            assert entries(await lease(store)).keys() == {"b"}
            assert not a.may_write
            await asyncio.sleep(LONGEST_RETRY + 0.1)
            assert b.may_write == {0, 1}
            await b.stop()
            document = await lease(store)
            assert (document["spec"]["holderIdentity"], document["spec"]["leaseDurationSeconds"]) == ("", 1)
            assert REPLICAS not in (document["metadata"].get("annotations") or {})
            assert (a.ended, b.ended) == ([], [])

    run_in_still_time(scenario)


def test_a_shard_that_is_handed_over_is_not_taken_before_its_work_has_stopped():
    async def scenario(loop):
        async with hub(loop, Replica) as (_, replica):
            a = replica("a", 2).start()
            await asyncio.sleep(10)
            a.cleanup_seconds = 2.5
            b = replica("b", 2).start()
            watching = asyncio.create_task(never_two([a, b]))
            while len(a.elector.held) == 2 and not b.may_write:
                assert not b.may_write
                await asyncio.sleep(0.05)
            await asyncio.sleep(SETTLED)
            assert divided(2, a, b)
            assert [move for _, move in a.moves] == [Move.TAKEN, Move.TAKEN, Move.HANDED_OVER]
            end(watching)

    run_in_still_time(scenario)


def test_work_that_takes_long_to_stop_is_waited_for_while_its_term_goes_on():
    async def scenario(loop):
        async with hub(loop, Replica) as (_, replica):
            a = replica("a", 2).start()
            await asyncio.sleep(10)
            a.cleanup_seconds = 7.0
            b = replica("b", 2).start()
            watching = asyncio.create_task(never_two([a, b]))
            await asyncio.sleep(6)
            assert len(a.may_write) == 2
            await asyncio.sleep(SETTLED)
            assert divided(2, a, b)
            assert a.ended == []
            end(watching)

    run_in_still_time(scenario)


def test_a_beat_is_not_used_twice_when_the_answer_to_it_was_lost():
    """Others count from when they first saw a beat: one that is written again would look as if it were not renewed."""

    async def scenario(loop):
        async with hub(loop, Replica) as (_, replica):
            a, b = (replica(name, 2).start() for name in "ab")
            watching = asyncio.create_task(never_two([a, b]))
            await asyncio.sleep(60)
            lost, answered = [Fault.NONE, Fault.UNANSWERED], [Fault.NONE, Fault.NONE]
            a.store.faults = [*lost, *lost, *answered, Fault.HANG]
            await asyncio.sleep(60)
            assert b.may_write == {0, 1}
            end(watching)

    run_in_still_time(scenario)


@pytest.mark.parametrize("latency", [0.1, 1.5])
def test_the_shards_of_a_killed_replica_move_also_when_every_answer_takes_long(latency):
    async def scenario(loop):
        async with hub(loop, Replica) as (_, replica):
            a, b = (replica(name, 2).start() for name in "ab")
            watching = asyncio.create_task(never_two([a, b]))
            await asyncio.sleep(60)
            for each in (a, b):
                each.store.latency = latency
            await asyncio.sleep(60)
            assert divided(2, a, b)
            [shard] = a.may_write
            a.kill()
            killed = loop.time()
            while shard not in b.may_write and loop.time() < killed + 120:
                await asyncio.sleep(0.05)
            # The last renewal is observed up to one retry late, and so is the end of the Lease. The rest is what is in
            # flight, and what takes the shard.
            assert loop.time() - killed <= 15 + 2 * LONGEST_RETRY + 6 * latency
            end(watching)

    run_in_still_time(scenario)


def test_a_beat_that_another_came_before_waits_for_the_next_as_long_as_there_is_time():
    """Many replicas that all tried again at once would keep one another from ever writing."""

    async def scenario(loop):
        async with hub(loop, Replica) as (_, replica):
            a = replica("a").start()
            await asyncio.sleep(60)
            a.store.faults = [Fault.NONE, Fault.CONFLICT] * 14 + [Fault.NONE]
            calls, pauses = a.store.calls, []
            for _ in range(1000):
                await asyncio.sleep(0.01)
                pauses.append(a.store.calls - calls)
            assert {2, 4} <= set(pauses), "each time one attempt"
            assert max(pauses) >= 30, "then all at once"
            assert a.may_write == {0, 1, 2}
            assert all(move is Move.TAKEN for _, move in a.moves)

    run_in_still_time(scenario)


@pytest.mark.parametrize("count", [2, 4], ids=["outage", "held-by-others"])
def test_the_hub_is_not_asked_more_often_while_the_lease_cannot_be_renewed(count):
    async def scenario(loop):
        async with hub(loop, Replica) as (store, replica):
            a, b = (replica(name, 2).start() for name in "ab")
            await asyncio.sleep(60)
            if count == 2:
                a.store.faults = b.store.faults = [Fault.ERROR]
            else:
                document = await lease(store)
                spec = {**document["spec"], "holderIdentity": "4 shards", "leaseDurationSeconds": 1000}
                await store.replace(LEASE, {**document, "spec": spec})
            await asyncio.sleep(30)
            before = a.store.calls
            await asyncio.sleep(80)
            assert a.store.calls - before <= 80 / 1.6 + 1

    run_in_still_time(scenario)


def test_who_waits_for_replicas_of_another_count_waits_for_them_also_when_the_lease_is_deleted():
    async def scenario(loop):
        async with hub(loop, Replica) as (store, replica):
            a = replica("a", 2).start()
            await asyncio.sleep(10)
            c = replica("c", 3).start()
            watching = asyncio.create_task(never_two([a, c]))
            for _ in range(10):
                await asyncio.sleep(20.1)
                await store.delete(LEASE, KEY)
            await asyncio.sleep(60)
            assert len(a.may_write) + len(c.may_write) in {2, 3}
            end(watching)

    run_in_still_time(scenario)


def test_replicas_of_another_count_are_waited_for_and_named_with_both_counts():
    async def scenario(loop):
        async with hub(loop, Replica) as (store, replica):
            a, b = replica("a", 2).start(), replica("b", 2).start()
            await asyncio.sleep(10)
            c = replica("c", 3).start()
            for _ in range(60):
                await asyncio.sleep(1)
                assert not c.may_write
                assert divided(2, a, b)
            assert "replicas with 2 shards hold this Lease, and this replica has 3 shards" in c.elector.trouble
            assert c.elector.clash == 2
            await a.stop()
            await asyncio.sleep(10)
            assert (b.may_write, c.may_write) == ({0, 1}, set())
            await b.stop()
            await asyncio.sleep(LONGEST_RETRY + 0.1)
            assert c.may_write == {0, 1, 2}
            assert (c.elector.trouble, c.elector.clash) == ("", 0)
            assert (await lease(store))["spec"]["holderIdentity"] == "3 shards"

    run_in_still_time(scenario)


def test_those_of_another_count_are_waited_for_after_they_were_killed_as_well():
    async def scenario(loop):
        async with hub(loop, Replica) as (_, replica):
            a = replica("a", 2).start()
            await asyncio.sleep(10)
            c = replica("c", 3).start()
            await asyncio.sleep(10)
            a.kill()
            killed = loop.time()
            while not c.may_write:
                assert not (a.may_write and c.may_write)
                await asyncio.sleep(0.05)
            assert 12 <= loop.time() - killed <= 20
            assert c.may_write == {0, 1, 2}, "the entries of the others do not count any more"

    run_in_still_time(scenario)


def test_a_leader_and_shards_wait_for_one_another():
    async def scenario(loop):
        async with hub(loop, Replica) as (store, replica):
            alone = Leader(store, KEY, "alone", LeaderElectionConfig(clock=loop.time))

            async def lead(_):
                await asyncio.sleep(1e6)

            leading = asyncio.create_task(alone.run(lead))
            await asyncio.sleep(1)
            a = replica("a", 2).start()
            for _ in range(60):
                await asyncio.sleep(1)
                assert alone.leading
                assert not a.may_write
            assert "alone, with 1 shard, holds this Lease, and this replica has 2" in a.elector.trouble
            assert a.elector.clash == 1
            leading.cancel()
            await asyncio.wait([leading])
            await asyncio.sleep(LONGEST_RETRY + 0.1)
            assert a.may_write == {0, 1}
            leading = asyncio.create_task(alone.run(lead))
            for _ in range(60):
                await asyncio.sleep(1)
                assert not alone.leading
            await a.stop()
            await asyncio.sleep(LONGEST_RETRY + 0.1)
            assert alone.leading
            leading.cancel()
            await asyncio.wait([leading])

    run_in_still_time(scenario)


async def _delete(store):
    await store.delete(LEASE, KEY)


async def _give_away(store, holder):
    document = await lease(store)
    await store.replace(LEASE, {**document, "spec": {**document["spec"], "holderIdentity": holder}})


def sealed(entries):
    """What a replica would have written."""
    return orjson.dumps({"digest": digest_of(entries), "replicas": entries}).decode()


async def _take_out(store, name):
    found = orjson.loads((await lease(store))["metadata"]["annotations"][REPLICAS])
    del found["replicas"][name]
    await _annotate(store, orjson.dumps(found).decode())


async def _take_shards_from(store, name):
    found = orjson.loads((await lease(store))["metadata"]["annotations"][REPLICAS])
    found["replicas"][name][1] = []
    await _annotate(store, orjson.dumps(found).decode())


async def _annotate(store, text):
    document = await lease(store)
    await store.replace(LEASE, {**document, "metadata": {**document["metadata"], "annotations": {REPLICAS: text}}})


@pytest.mark.parametrize(
    "harm",
    [
        pytest.param(_delete, id="deleted"),
        pytest.param(lambda store: _give_away(store, ""), id="freed"),
        pytest.param(lambda store: _give_away(store, "4 shards"), id="given-away"),
        pytest.param(lambda store: _annotate(store, "{"), id="damaged"),
        pytest.param(lambda store: _annotate(store, sealed({})), id="emptied"),
        pytest.param(lambda store: _annotate(store, sealed({"a": [99, [0, 1]], "b": [99, []]})), id="others-given-all"),
        pytest.param(lambda store: _annotate(store, sealed({"a": [3, [0]]})), id="an-older-version-with-a"),
        pytest.param(lambda store: _annotate(store, sealed({"b": [3, [1]]})), id="an-older-version-with-b"),
        pytest.param(lambda store: _take_out(store, "a"), id="a-taken-out"),
        pytest.param(lambda store: _take_out(store, "b"), id="b-taken-out"),
        pytest.param(lambda store: _take_shards_from(store, "a"), id="a-without-shards"),
    ],
)
def test_a_lease_that_a_user_has_written_over_gives_no_shard_to_two(harm):
    async def scenario(loop):
        async with hub(loop, Replica) as (store, replica):
            a, b = (replica(name, 2).start() for name in "ab")
            watching = asyncio.create_task(never_two([a, b]))
            await asyncio.sleep(60)
            await harm(store)
            await asyncio.sleep(60)
            assert divided(2, a, b)
            end(watching)

    run_in_still_time(scenario)


@pytest.mark.parametrize(
    "entries", [[], None, {"a": 1}, {"a": [1]}, {"a": ["1", [0]]}, {"a": [1, [-1]]}, {"a": [1, [True]]}], ids=str
)
def test_entries_that_no_replica_writes_are_refused(entries):
    with pytest.raises(ValueError, match=REPLICAS):
        read_roll(sealed(entries))


@pytest.mark.parametrize("text", [None, "", "{", "[]", "null", "{}", '{"a":[1,[0]]}', '{"replicas":{"a":[1,[0]]}}'])
def test_what_is_no_roll_is_refused(text):
    with pytest.raises(ValueError, match=REPLICAS):
        read_roll(text)
