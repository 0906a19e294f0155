"""The elector on the embedded store, in a time that only moves when nothing else can."""

import asyncio
from datetime import timedelta

import pytest

from scorer.api.kinds import LEASE
from scorer.api.meta import parse_time
from tests.webhook.kube.leader_election.candidates import KEY, LONGEST_RETRY, START, Alone, hub
from tests.webhook.kube.leader_election.faulty_store import Fault
from tests.webhook.kube.still_time import run_in_still_time
from webhook.kube.leader_election.lease import parted_into
from webhook.kube.leader_election.term import LeaseTimes, NotLeaderError, Term


async def spec_of_lease(store):
    return (await store.get(LEASE, KEY))["spec"]


def foreign(holder="other", **spec):
    metadata = {"name": KEY.name, "namespace": KEY.namespace}
    given = {"holderIdentity": holder, "leaseDurationSeconds": 15, "leaseTransitions": 3, **spec}
    return {"apiVersion": LEASE.api_version, "kind": LEASE.kind, "metadata": metadata, "spec": given}


def test_the_only_candidate_leads_at_once_and_writes_a_lease_that_others_can_read():
    async def scenario(loop):
        async with hub(loop, Alone) as (store, candidate):
            a = candidate("a").start()
            await asyncio.sleep(0.1)
            assert a.may_write
            assert a.elector.leading
            first = await spec_of_lease(store)
            assert first == {
                "holderIdentity": "a",
                "leaseDurationSeconds": 15,
                "acquireTime": "2026-03-04T05:06:07.000000Z",
                "renewTime": "2026-03-04T05:06:07.000000Z",
                "leaseTransitions": 0,
            }
            await asyncio.sleep(120)
            assert a.may_write
            later = await spec_of_lease(store)
            assert parse_time(later["renewTime"]) >= START + timedelta(seconds=120 - LONGEST_RETRY)
            assert {**later, "renewTime": ""} == {**first, "renewTime": ""}

    run_in_still_time(scenario)


def test_the_second_waits_as_long_as_the_first_renews():
    async def scenario(loop):
        async with hub(loop, Alone) as (_, candidate):
            a = candidate("a").start()
            await asyncio.sleep(0.1)
            b = candidate("b").start()
            for _ in range(300):
                await asyncio.sleep(1)
                assert (a.may_write, b.may_write) == (True, False)
            assert b.elector.holder == "a"

    run_in_still_time(scenario)


@pytest.mark.parametrize(
    "times",
    [
        pytest.param({}, id="none"),
        pytest.param({"renewTime": "1970-01-01T00:00:00.000000Z"}, id="long-ago"),
        pytest.param({"renewTime": "2100-01-01T00:00:00.000000Z"}, id="in-the-future"),
        pytest.param({"renewTime": "2026-03-04T05:06:07Z"}, id="without-fraction"),
    ],
)
def test_a_lease_is_taken_when_it_has_not_changed_for_its_duration_whatever_its_times_say(times):
    async def scenario(loop):
        async with hub(loop, Alone) as (store, candidate):
            await store.create(LEASE, foreign(**times))
            b = candidate("b").start()
            await asyncio.sleep(14.9)
            assert not b.may_write
            await asyncio.sleep(LONGEST_RETRY + 0.2)
            assert b.may_write
            spec = await spec_of_lease(store)
            assert (spec["holderIdentity"], spec["leaseTransitions"]) == ("b", 4)

    run_in_still_time(scenario)


def test_the_duration_that_counts_is_that_of_the_holder():
    async def scenario(loop):
        async with hub(loop, Alone) as (store, candidate):
            await store.create(LEASE, foreign(leaseDurationSeconds=60))
            b = candidate("b").start()
            await asyncio.sleep(59.9)
            assert not b.may_write
            await asyncio.sleep(LONGEST_RETRY + 0.2)
            assert b.may_write
            assert (await spec_of_lease(store))["leaseDurationSeconds"] == 15

    run_in_still_time(scenario)


@pytest.mark.parametrize("spec", [None, {}, {"holderIdentity": ""}, {"holderIdentity": None}], ids=str)
def test_a_lease_that_nobody_holds_is_taken_at_once(spec):
    async def scenario(loop):
        async with hub(loop, Alone) as (store, candidate):
            document = foreign()
            document["spec"] = spec
            await store.create(LEASE, document)
            b = candidate("b").start()
            await asyncio.sleep(0.1)
            assert b.may_write

    run_in_still_time(scenario)


def test_a_holder_whose_lease_keeps_changing_is_never_replaced():
    async def scenario(loop):
        async with hub(loop, Alone) as (store, candidate):
            document = await store.create(LEASE, foreign())
            b = candidate("b").start()
            for turn in range(20):
                await asyncio.sleep(12)
                assert not b.may_write
                spec = {**document["spec"], "renewTime": f"2026-01-01T00:00:{turn:02d}.000000Z"}
                document = await store.replace(LEASE, {**document, "spec": spec})

    run_in_still_time(scenario)


def test_it_leads_again_when_the_hub_answers_again():
    async def scenario(loop):
        async with hub(loop, Alone) as (store, candidate):
            a = candidate("a").start()
            await asyncio.sleep(5)
            a.store.faults = [Fault.ERROR]
            await asyncio.sleep(60)
            assert (a.may_write, len(a.spans)) == (False, 1)
            a.store.faults = [Fault.NONE]
            await asyncio.sleep(LONGEST_RETRY + 0.1)
            assert a.may_write
            assert (await spec_of_lease(store))["leaseTransitions"] == 0

    run_in_still_time(scenario)


def test_a_term_stays_over_when_another_one_begins():
    """A write that was decided in an earlier term must not slip through in a later one."""

    async def scenario(loop):
        terms = []
        async with hub(loop, Alone) as (_, candidate):
            a = candidate("a")

            async def work(term):
                terms.append(term)
                await asyncio.sleep(1e6)

            a.running = asyncio.create_task(a.elector.run(work))
            await asyncio.sleep(5)
            loop.advance(30)
            await asyncio.sleep(5)
            assert len(terms) == 2
            terms[1].check()
            with pytest.raises(NotLeaderError):
                terms[0].check()

    run_in_still_time(scenario)


def test_an_answer_that_comes_too_late_brings_nothing_back():
    async def scenario(loop):
        async with hub(loop, Alone) as (_, candidate):
            a = candidate("a").start()
            await asyncio.sleep(5)
            a.store.faults = [Fault.SLOW]
            await asyncio.sleep(2.5)  # a renewal is under way
            loop.advance(30)
            assert not a.may_write
            await asyncio.sleep(0)
            await asyncio.sleep(0)
            assert not a.may_write
            a.store.faults = [Fault.NONE]
            await asyncio.sleep(10)
            assert len(a.spans) == 1

    run_in_still_time(scenario)


def test_a_term_counts_from_when_its_renewal_was_sent_not_from_the_answer():
    async def scenario(loop):
        async with hub(loop, Alone) as (store, candidate):
            a = candidate("a").start()
            await asyncio.sleep(5)
            renewed = (await spec_of_lease(store))["renewTime"]
            a.store.faults = [Fault.SLOW, Fault.HANG]
            while (await spec_of_lease(store))["renewTime"] == renewed:
                await asyncio.sleep(0.01)
            sent = parse_time((await spec_of_lease(store))["renewTime"]) - START
            while a.may_write:
                await asyncio.sleep(0.01)
            assert loop.time() == pytest.approx(sent.total_seconds() + 10, abs=0.02)

    run_in_still_time(scenario)


def test_another_write_to_the_lease_does_not_end_the_term():
    """An annotation, say: the renewal meets a conflict, reads again and goes on."""

    async def scenario(loop):
        async with hub(loop, Alone) as (store, candidate):
            a = candidate("a").start()
            for _ in range(10):
                await asyncio.sleep(3.1)
                document = await store.get(LEASE, KEY)
                noted = {**document["metadata"], "annotations": {"seen": str(loop.time())}}
                await store.replace(LEASE, {**document, "metadata": noted})
            assert a.may_write
            assert a.spans == []
            assert (await store.get(LEASE, KEY))["metadata"]["annotations"]

    run_in_still_time(scenario)


@pytest.mark.parametrize("holder", ["other", ""])
def test_a_lease_that_is_given_away_ends_the_term(holder):
    async def scenario(loop):
        async with hub(loop, Alone) as (store, candidate):
            a = candidate("a").start()
            await asyncio.sleep(5)
            document = await store.get(LEASE, KEY)
            await store.replace(LEASE, {**document, "spec": {**document["spec"], "holderIdentity": holder}})
            await asyncio.sleep(LONGEST_RETRY + 0.1)
            assert len(a.spans) == 1
            await asyncio.sleep(LONGEST_RETRY + 0.1)
            assert a.may_write is (holder == "")

    run_in_still_time(scenario)


@pytest.mark.parametrize(
    "change",
    [
        pytest.param({"holderIdentity": ""}, id="freed"),
        pytest.param({"holderIdentity": None, "leaseDurationSeconds": None}, id="emptied"),
        pytest.param({"holderIdentity": "b"}, id="given-to-the-other"),
        pytest.param({"holderIdentity": "foreign", "leaseDurationSeconds": 1}, id="given-away-for-a-second"),
        pytest.param({"leaseDurationSeconds": 1}, id="shortened"),
    ],
)
def test_a_lease_that_a_user_has_written_over_gives_leadership_to_no_two(change):
    """The leader cannot notice, since its calls hang, and its term goes on."""

    async def scenario(loop):
        async with hub(loop, Alone) as (store, candidate):
            a = candidate("a").start()
            await asyncio.sleep(1)
            b = candidate("b").start()
            await asyncio.sleep(30)
            a.store.faults = [Fault.HANG]
            document = await store.get(LEASE, KEY)
            await store.replace(LEASE, {**document, "spec": {**document["spec"], **change}})
            while not b.may_write:
                await asyncio.sleep(0.05)
                assert not (a.may_write and b.may_write)
            assert not a.may_write

    run_in_still_time(scenario)


def test_a_deleted_lease_ends_the_term_and_others_wait_for_its_holder_all_the_same():
    async def scenario(loop):
        async with hub(loop, Alone) as (store, candidate):
            await store.create(LEASE, foreign())
            b = candidate("b").start()
            await asyncio.sleep(5)
            await store.delete(LEASE, KEY)
            await asyncio.sleep(9.9)
            assert not b.may_write
            await asyncio.sleep(LONGEST_RETRY + 0.2)
            assert b.may_write
            await store.delete(LEASE, KEY)
            await asyncio.sleep(2 * LONGEST_RETRY + 0.2)
            assert len(b.spans) == 1
            assert b.may_write

    run_in_still_time(scenario)


def test_at_shutdown_the_lease_is_free_at_once_and_only_after_the_work_has_ended():
    async def scenario(loop):
        async with hub(loop, Alone) as (store, candidate):
            a = candidate("a").start()
            a.cleanup_seconds = 1.0
            await asyncio.sleep(3)
            b = candidate("b").start()
            await asyncio.sleep(3)
            a.running.cancel()
            await asyncio.sleep(0.9)
            assert (await spec_of_lease(store))["holderIdentity"] == "a"
            await asyncio.wait([a.running])
            spec = await spec_of_lease(store)
            assert (spec["holderIdentity"], spec["leaseDurationSeconds"], spec["leaseTransitions"]) == ("", 1, 0)
            assert not a.may_write
            assert a.ended == []
            await asyncio.sleep(LONGEST_RETRY + 0.1)
            assert b.may_write
            spec = await spec_of_lease(store)
            assert (spec["holderIdentity"], spec["leaseDurationSeconds"], spec["leaseTransitions"]) == ("b", 15, 1)

    run_in_still_time(scenario)


def test_a_renewal_under_way_at_shutdown_does_not_keep_the_lease():
    """It is stored although nobody waits for its answer: the release meets a conflict and reads again."""

    async def scenario(loop):
        async with hub(loop, Alone) as (store, candidate):
            a = candidate("a").start()
            await asyncio.sleep(5)
            a.store.faults = [Fault.SLOW]
            version = (await store.get(LEASE, KEY))["metadata"]["resourceVersion"]
            while (await store.get(LEASE, KEY))["metadata"]["resourceVersion"] == version:
                await asyncio.sleep(0.1)
            a.store.faults = [Fault.NONE]
            await a.stop()
            assert (await spec_of_lease(store))["holderIdentity"] == ""

    run_in_still_time(scenario)


def test_replicas_that_share_the_work_are_waited_for_and_named_with_both_counts():
    async def scenario(loop):
        async with hub(loop, Alone) as (store, candidate):
            document = await store.create(LEASE, foreign("3 shards"))
            b = candidate("b").start()
            for turn in range(10):
                await asyncio.sleep(5)
                assert not b.may_write
                assert "replicas with 3 shards hold this Lease, and this replica has 1 shard" in b.elector.trouble
                spec = {**document["spec"], "leaseTransitions": turn}
                document = await store.replace(LEASE, {**document, "spec": spec})
            await asyncio.sleep(20)
            assert b.may_write
            assert b.elector.trouble == ""

    run_in_still_time(scenario)


def test_times_that_would_let_two_lead_are_refused():
    with pytest.raises(ValueError, match="renew and stop together must be less than lease"):
        LeaseTimes(lease=15, renew=13, stop=3)


def test_a_lease_that_others_would_not_believe_is_refused():
    with pytest.raises(ValueError, match="lease must be at most 300"):
        LeaseTimes(lease=301)


def test_who_has_lost_its_term_does_not_release_a_lease_that_may_be_another_s():
    async def scenario(loop):
        async with hub(loop, Alone) as (store, candidate):
            a = candidate("a").start()
            await asyncio.sleep(5)
            loop.advance(30)
            await asyncio.sleep(10)
            assert len(a.spans) == 1
            assert a.may_write
            assert (await spec_of_lease(store))["leaseTransitions"] == 0, "it was never given back"

    run_in_still_time(scenario)


def test_a_term_is_over_at_its_very_end():
    instant = 99.0
    term = Term(100.0, lambda: instant)
    term.check()
    instant = 100.0
    with pytest.raises(NotLeaderError):
        term.check()


@pytest.mark.parametrize(
    ("holder", "parts"),
    [
        ("3 shards", 3),
        ("64 shards", 64),
        ("", None),
        ("shards", None),
        ("0 shards", None),
        ("-1 shards", None),
        ("3 shards ", None),
        ("\u0663 shards", None),
        ("9" * 5000 + " shards", None),
    ],
    ids=lambda value: str(value)[:12],
)
def test_who_holds_a_lease_in_parts(holder, parts):
    assert parted_into(holder) == parts
