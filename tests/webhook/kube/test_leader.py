"""The elector on the embedded store, in a time that only moves when nothing else can."""

import asyncio
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scorer.api.kinds import NAMESPACE
from scorer.api.meta import parse_time
from tests.thoroughness import examples
from tests.webhook.kube.faulty_store import Fault, FaultyStore
from tests.webhook.kube.still_time import run_in_still_time
from webhook.embedded.store import EmbeddedStore
from webhook.kube.leader import LEASE, Leader, LeaseTimes, NotLeaderError, Surroundings, Term, parted_into
from webhook.kube.ports import ForbiddenError, Key, NotFoundError, NotServedError

KEY = Key("harbormaster-reconcile", "harbormaster-system")
START = datetime(2026, 3, 4, 5, 6, 7, 0, UTC)  # no microseconds: they are written all the same
LONGEST_RETRY = 2.4


class Candidate:
    """One process: its elector, and what its work notices."""

    def __init__(self, loop, store, identity, faults=(Fault.NONE,)):
        self.loop = loop
        self.store = FaultyStore(store, faults)
        self.ended = []
        self.leader = Leader(
            self.store,
            KEY,
            identity,
            Surroundings(
                clock=loop.time,
                now=lambda: START + timedelta(seconds=loop.time() - 1000),
                end=self.ended.append,
            ),
        )
        self.terms = []
        self.cleanup_seconds = 0.0
        self.running = None

    async def work(self, term):
        began = self.loop.time()
        try:
            await asyncio.sleep(1e6)
        finally:
            if self.cleanup_seconds:
                await asyncio.sleep(self.cleanup_seconds)
            self.terms.append((began, self.loop.time()))

    def start(self):
        self.running = asyncio.create_task(self.leader.run(self.work))
        return self

    async def stop(self):
        self.running.cancel()
        await asyncio.wait([self.running])

    @property
    def may_write(self):
        try:
            self.leader.check()
        except NotLeaderError:
            return False
        return True


@asynccontextmanager
async def hub(loop):
    """A store, and what makes candidates on it; all of them end with the block."""
    with_clock = lambda: START + timedelta(seconds=loop.time() - 1000)  # noqa: E731
    store = EmbeddedStore.open(None, now=with_clock)
    namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": KEY.namespace}}
    await store.create(NAMESPACE, namespace)
    candidates = []

    def candidate(identity, faults=(Fault.NONE,)):
        candidates.append(Candidate(loop, store, identity, faults))
        return candidates[-1]

    try:
        yield store, candidate
    finally:
        for each in candidates:
            each.store.faults = [Fault.NONE]
            each.store.refusal = None
            if each.running is not None:
                await each.stop()
            for task in each.store.late:
                task.cancel()
            await asyncio.gather(*each.store.late, return_exceptions=True)
        store.close()


async def spec_of_lease(store):
    return (await store.get(LEASE, KEY))["spec"]


def foreign(holder="other", **spec):
    metadata = {"name": KEY.name, "namespace": KEY.namespace}
    given = {"holderIdentity": holder, "leaseDurationSeconds": 15, "leaseTransitions": 3, **spec}
    return {"apiVersion": LEASE.api_version, "kind": LEASE.kind, "metadata": metadata, "spec": given}


def test_the_only_candidate_leads_at_once_and_writes_a_lease_that_others_can_read():
    async def scenario(loop):
        async with hub(loop) as (store, candidate):
            a = candidate("a").start()
            await asyncio.sleep(0.1)
            assert a.may_write
            assert a.leader.leading
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
        async with hub(loop) as (_, candidate):
            a = candidate("a").start()
            await asyncio.sleep(0.1)
            b = candidate("b").start()
            for _ in range(300):
                await asyncio.sleep(1)
                assert (a.may_write, b.may_write) == (True, False)
            assert b.leader.holder == "a"

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
        async with hub(loop) as (store, candidate):
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
        async with hub(loop) as (store, candidate):
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
        async with hub(loop) as (store, candidate):
            document = foreign()
            document["spec"] = spec
            await store.create(LEASE, document)
            b = candidate("b").start()
            await asyncio.sleep(0.1)
            assert b.may_write

    run_in_still_time(scenario)


def test_a_holder_whose_lease_keeps_changing_is_never_replaced():
    async def scenario(loop):
        async with hub(loop) as (store, candidate):
            document = await store.create(LEASE, foreign())
            b = candidate("b").start()
            for turn in range(20):
                await asyncio.sleep(12)
                assert not b.may_write
                spec = {**document["spec"], "renewTime": f"2026-01-01T00:00:{turn:02d}.000000Z"}
                document = await store.replace(LEASE, {**document, "spec": spec})

    run_in_still_time(scenario)


@pytest.mark.parametrize("fault", [Fault.HANG, Fault.ERROR, Fault.UNANSWERED], ids=str)
def test_who_cannot_renew_stops_before_another_may_begin(fault):
    """Ten seconds after the last renewal was sent; another waits fifteen from when it saw that renewal."""

    async def scenario(loop):
        async with hub(loop) as (store, candidate):
            a = candidate("a").start()
            await asyncio.sleep(30)
            b = candidate("b").start()
            await asyncio.sleep(30)
            renewed = parse_time((await spec_of_lease(store))["renewTime"]) - START
            a.store.faults = [fault]
            deadline = 1000 + renewed.total_seconds() + 10
            if fault is Fault.UNANSWERED:  # what was stored counts for the others, not for the one who had no answer
                deadline = min(deadline, loop.time() + 10)
            await asyncio.sleep(deadline - loop.time() - 0.01)
            assert a.may_write
            await asyncio.sleep(0.02)
            assert not a.may_write
            assert not b.may_write
            [(_, ended)] = a.terms
            assert ended == pytest.approx(deadline, abs=0.001)
            a.store.faults = [Fault.ERROR]
            await asyncio.sleep(20)
            assert b.may_write
            assert not a.may_write

    run_in_still_time(scenario)


def test_it_leads_again_when_the_hub_answers_again():
    async def scenario(loop):
        async with hub(loop) as (store, candidate):
            a = candidate("a").start()
            await asyncio.sleep(5)
            a.store.faults = [Fault.ERROR]
            await asyncio.sleep(60)
            assert (a.may_write, len(a.terms)) == (False, 1)
            a.store.faults = [Fault.NONE]
            await asyncio.sleep(LONGEST_RETRY + 0.1)
            assert a.may_write
            assert (await spec_of_lease(store))["leaseTransitions"] == 0

    run_in_still_time(scenario)


def test_a_process_that_stood_still_may_not_write_even_before_any_of_its_tasks_has_run():
    """What SIGSTOP does: the clock has gone on, nothing else has happened, and the very next step is a write."""

    async def scenario(loop):
        async with hub(loop) as (_, candidate):
            a = candidate("a").start()
            await asyncio.sleep(5)
            a.leader.check()
            loop.at += 30
            with pytest.raises(NotLeaderError):
                a.leader.check()
            assert not a.leader.leading

    run_in_still_time(scenario)


def test_a_term_stays_over_when_another_one_begins():
    """A write that was decided in an earlier term must not slip through in a later one."""

    async def scenario(loop):
        terms = []
        async with hub(loop) as (_, candidate):
            a = candidate("a")

            async def work(term):
                terms.append(term)
                await asyncio.sleep(1e6)

            a.running = asyncio.create_task(a.leader.run(work))
            await asyncio.sleep(5)
            loop.at += 30
            await asyncio.sleep(5)
            assert len(terms) == 2
            terms[1].check()
            with pytest.raises(NotLeaderError):
                terms[0].check()

    run_in_still_time(scenario)


def test_an_answer_that_comes_too_late_brings_nothing_back():
    async def scenario(loop):
        async with hub(loop) as (_, candidate):
            a = candidate("a").start()
            await asyncio.sleep(5)
            a.store.faults = [Fault.SLOW]
            await asyncio.sleep(2.5)  # a renewal is under way
            loop.at += 30
            assert not a.may_write
            await asyncio.sleep(0)
            await asyncio.sleep(0)
            assert not a.may_write
            a.store.faults = [Fault.NONE]
            await asyncio.sleep(10)
            assert len(a.terms) == 1

    run_in_still_time(scenario)


def test_a_term_counts_from_when_its_renewal_was_sent_not_from_the_answer():
    async def scenario(loop):
        async with hub(loop) as (store, candidate):
            a = candidate("a").start()
            await asyncio.sleep(5)
            renewed = (await spec_of_lease(store))["renewTime"]
            a.store.faults = [Fault.SLOW, Fault.HANG]
            while (await spec_of_lease(store))["renewTime"] == renewed:
                await asyncio.sleep(0.01)
            sent = parse_time((await spec_of_lease(store))["renewTime"]) - START
            while a.may_write:
                await asyncio.sleep(0.01)
            assert loop.time() - 1000 == pytest.approx(sent.total_seconds() + 10, abs=0.02)

    run_in_still_time(scenario)


def test_another_write_to_the_lease_does_not_end_the_term():
    """An annotation, say: the renewal meets a conflict, reads again and goes on."""

    async def scenario(loop):
        async with hub(loop) as (store, candidate):
            a = candidate("a").start()
            for _ in range(10):
                await asyncio.sleep(3.1)
                document = await store.get(LEASE, KEY)
                noted = {**document["metadata"], "annotations": {"seen": str(loop.time())}}
                await store.replace(LEASE, {**document, "metadata": noted})
            assert a.may_write
            assert a.terms == []
            assert (await store.get(LEASE, KEY))["metadata"]["annotations"]

    run_in_still_time(scenario)


@pytest.mark.parametrize("holder", ["other", ""])
def test_a_lease_that_is_given_away_ends_the_term(holder):
    async def scenario(loop):
        async with hub(loop) as (store, candidate):
            a = candidate("a").start()
            await asyncio.sleep(5)
            document = await store.get(LEASE, KEY)
            await store.replace(LEASE, {**document, "spec": {**document["spec"], "holderIdentity": holder}})
            await asyncio.sleep(LONGEST_RETRY + 0.1)
            assert len(a.terms) == 1
            await asyncio.sleep(LONGEST_RETRY + 0.1)
            assert a.may_write is (holder == "")

    run_in_still_time(scenario)


def test_a_deleted_lease_ends_the_term_and_others_wait_for_its_holder_all_the_same():
    async def scenario(loop):
        async with hub(loop) as (store, candidate):
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
            assert len(b.terms) == 1
            assert b.may_write

    run_in_still_time(scenario)


def test_at_shutdown_the_lease_is_free_at_once_and_only_after_the_work_has_ended():
    async def scenario(loop):
        async with hub(loop) as (store, candidate):
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
        async with hub(loop) as (store, candidate):
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


def test_work_that_does_not_stop_ends_the_process():
    async def scenario(loop):
        async with hub(loop) as (_, candidate):
            a = candidate("a").start()
            await asyncio.sleep(5)
            a.cleanup_seconds = 4.0
            a.store.faults = [Fault.ERROR]
            while a.may_write:
                await asyncio.sleep(0.01)
            await asyncio.sleep(2.9)
            assert a.ended == []
            await asyncio.sleep(0.2)
            assert a.ended == ["the work of a leader did not stop within 3 s"]

    run_in_still_time(scenario)


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
def test_what_keeps_us_from_the_lease_is_told_once_and_tried_again(refusal, words, caplog):
    async def scenario(loop):
        async with hub(loop) as (_, candidate):
            a = candidate("a")
            a.store.refusal = refusal
            a.start()
            await asyncio.sleep(60)
            assert all(word in a.leader.trouble for word in words), a.leader.trouble
            assert not a.may_write
            warnings = [record for record in caplog.records if record.levelname == "WARNING"]
            assert [record.message for record in warnings] == ["lease out of reach"]
            a.store.refusal = None
            await asyncio.sleep(LONGEST_RETRY + 0.1)
            assert a.may_write
            assert a.leader.trouble == ""

    run_in_still_time(scenario)


def test_replicas_that_share_the_work_are_waited_for_and_named_with_both_counts():
    async def scenario(loop):
        async with hub(loop) as (store, candidate):
            document = await store.create(LEASE, foreign("3 shards"))
            b = candidate("b").start()
            for turn in range(10):
                await asyncio.sleep(5)
                assert not b.may_write
                assert "3 shards hold it, and this replica has 1 shard" in b.leader.trouble
                spec = {**document["spec"], "leaseTransitions": turn}
                document = await store.replace(LEASE, {**document, "spec": spec})
            await asyncio.sleep(20)
            assert b.may_write
            assert b.leader.trouble == ""

    run_in_still_time(scenario)


def test_an_error_of_the_work_comes_out_and_frees_the_lease():
    async def scenario(loop):
        async with hub(loop) as (store, candidate):
            a = candidate("a")

            async def work(term):
                await asyncio.sleep(5)
                raise ValueError("a bug")

            with pytest.raises(ValueError, match="a bug"):
                await a.leader.run(work)
            assert (await spec_of_lease(store))["holderIdentity"] == ""

    run_in_still_time(scenario)


def test_times_that_would_let_two_lead_are_refused():
    with pytest.raises(ValueError, match="renew and stop together less than lease"):
        LeaseTimes(lease=15, renew=13, stop=3)


PHASES = st.lists(
    st.tuples(st.sampled_from("abc"), st.sampled_from(list(Fault)), st.integers(1, 6), st.floats(0, 25)), max_size=12
)


@settings(max_examples=examples(40))
@given(phases=PHASES)
def test_whatever_fails_never_two_may_write_and_somebody_does_in_the_end(phases):
    """Three candidates, each with calls that fail, hang, answer late, or are stored late or without an answer."""

    async def scenario(loop):
        async with hub(loop) as (_, candidate):
            candidates = {name: candidate(name).start() for name in "abc"}
            over = False

            async def watch():
                while not over:
                    assert sum(each.may_write for each in candidates.values()) <= 1
                    await asyncio.sleep(0.1)

            watching = asyncio.create_task(watch())
            for name, fault, calls, seconds in phases:
                candidates[name].store.faults = [fault] * calls + [Fault.NONE]
                await asyncio.sleep(seconds)
            await asyncio.sleep(60)
            assert sum(each.may_write for each in candidates.values()) == 1
            over = True
            await watching
            assert all(each.ended == [] for each in candidates.values())

    run_in_still_time(scenario)


def test_a_first_term_counts_from_when_its_write_was_sent_not_from_the_answer():
    async def scenario(loop):
        async with hub(loop) as (_, candidate):
            a = candidate("a", [Fault.NONE, Fault.SLOW, Fault.HANG]).start()
            while not a.may_write:
                await asyncio.sleep(0.01)
            assert loop.time() - 1000 == pytest.approx(4, abs=0.02), "the answer took so long"
            while a.may_write:
                await asyncio.sleep(0.01)
            assert loop.time() - 1000 == pytest.approx(10, abs=0.02)

    run_in_still_time(scenario)


def test_who_has_lost_its_term_does_not_release_a_lease_that_may_be_another_s():
    async def scenario(loop):
        async with hub(loop) as (store, candidate):
            a = candidate("a").start()
            await asyncio.sleep(5)
            loop.at += 30
            await asyncio.sleep(10)
            assert len(a.terms) == 1
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
