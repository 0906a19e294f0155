"""Evictions on a store: every way out, the budget among many, and crashes between any two writes."""

import asyncio
from contextlib import suppress
from datetime import UTC, datetime

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scorer.api.kinds import BINDING, DISRUPTION_BUDGET, EVICTION, PLACEMENT
from scorer.api.values.int_or_percent import scaled_up
from scorer.rollout.removal.eviction import EVICTED_BINDING
from scorer.rollout.removal.marks import is_marked_for_removal
from tests.builders.placement import make_placement
from tests.thoroughness import examples
from tests.virtual_time import run_in_virtual_time
from tests.webhook.controllers.by_hand import CrashError, Life, life, opened
from tests.webhook.controllers.placements.evictions_of_web import (
    EXECUTED,
    INVALID,
    NOT_EXECUTED,
    VALID,
    add_binding,
    add_budget,
    add_eviction,
    add_placement,
    conditions,
    is_going,
    say,
)
from tests.webhook.controllers.world import make_member, pick_n, running
from webhook.controllers.placements.evictions import EvictionController
from webhook.kube.cache import hub as hub_module
from webhook.kube.ports import ConflictError, Key

NOW = datetime(2026, 11, 20, 12, tzinfo=UTC)
KINDS = (EVICTION, BINDING)


@pytest.fixture(autouse=True, scope="module")
def _statuses_are_stored_at_once():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(hub_module, "STATUS_DELAY_SECONDS", 0.0)
        yield


@pytest.fixture
def store():
    with opened() as store:
        yield store


def controller(process: Life) -> EvictionController:
    return EvictionController(process.hub, lambda: NOW)


async def answer(store, *names):
    """Let a new process answer evictions, one after the other."""
    async with life(store, *KINDS) as process:
        for name in names:
            await controller(process).reconcile(name)
        await process.settle()


@pytest.mark.parametrize(
    ("kind", "binding", "limits", "wanted"),
    [
        pytest.param("PickFixed", {}, {}, [INVALID], id="pick-fixed"),
        pytest.param("PickN", None, {}, [INVALID], id="not-on-that-cluster"),
        pytest.param("PickN", {"state": "Scheduled"}, {}, [VALID, NOT_EXECUTED], id="not-placed-yet"),
        pytest.param(
            "PickN", {"state": "Unscheduled", "previous": "Scheduled"}, {}, [VALID, NOT_EXECUTED], id="never-placed"
        ),
        pytest.param("PickN", {"state": "Unscheduled", "previous": "Bound"}, {}, [VALID, EXECUTED], id="on-its-way"),
        pytest.param("PickN", {}, {}, [VALID, EXECUTED], id="no-budget"),
        pytest.param("PickN", {"health": "failed"}, {"minAvailable": 9}, [VALID, EXECUTED], id="E6-failed"),
        pytest.param("PickN", {}, {"maxUnavailable": 1}, [VALID, EXECUTED], id="within-the-budget"),
        pytest.param("PickN", {}, {"minAvailable": "100%"}, [VALID, NOT_EXECUTED], id="budget-used-up"),
        pytest.param("PickAll", {}, {"maxUnavailable": 3}, [VALID, NOT_EXECUTED], id="budget-of-the-wrong-kind"),
    ],
)
async def test_every_way_out(store, kind, binding, limits, wanted):
    await add_placement(store, kind)
    await add_binding(store, "b")
    await add_binding(store, "c")
    if binding is not None:
        await add_binding(store, "a", **binding)
    if limits:
        await add_budget(store, **limits)
    name = await add_eviction(store, "a")
    await answer(store, name)
    assert await conditions(store, name) == wanted
    if binding is not None:
        assert await is_going(store, "web-a") is (wanted == [VALID, EXECUTED])


@pytest.mark.parametrize("name", ["gone", "..", "../../../api/v1/secrets", "UPPER", "a" * 300, ""])
async def test_a_placement_that_cannot_be_found_makes_it_invalid(store, name):
    await add_eviction(store, "a", name="off", placement=name)
    await answer(store, "off")
    assert await conditions(store, "off") == [INVALID]
    stored = await store.get(EVICTION, Key("off"))
    assert repr(name) in stored["status"]["conditions"][0]["message"]


async def test_a_deleting_placement_makes_it_invalid(store):
    await add_placement(store, finalizers=["example.com/hold"])
    await add_binding(store, "a")
    await store.delete(PLACEMENT, Key("web"))
    name = await add_eviction(store, "a")
    await answer(store, name)
    assert await conditions(store, name) == [INVALID]


async def test_two_bindings_for_the_cluster_make_it_invalid(store):
    await add_placement(store)
    await add_binding(store, "a")
    await add_binding(store, "a", name="web-a-again")
    name = await add_eviction(store, "a")
    await answer(store, name)
    assert await conditions(store, name) == [INVALID]


async def test_a_binding_that_is_going_needs_nothing_more(store):
    await add_placement(store)
    await add_binding(store, "a")
    await store.delete(BINDING, Key("web-a"))
    name = await add_eviction(store, "a")
    async with life(store, *KINDS) as process:
        await controller(process).reconcile(name)
        assert process.hub.writes == 0
        await process.settle()
    assert await conditions(store, name) == [VALID, EXECUTED]


async def test_the_message_gives_the_numbers_of_the_budget(store):
    await add_placement(store)
    for cluster in "abc":
        await add_binding(store, cluster)
    await add_budget(store, minAvailable=3)
    name = await add_eviction(store, "a")
    await answer(store, name)
    stored = await store.get(EVICTION, Key(name))
    message = stored["status"]["conditions"][1]["message"]
    assert message == "budget web has minAvailable 3; 3 of 3 clusters are available"


@pytest.mark.parametrize("first", ["blocked", "executed", "invalid"])
async def test_an_answer_is_final_and_a_second_pass_writes_nothing(store, first):
    await add_placement(store)
    if first != "invalid":
        await add_binding(store, "a")
    if first == "blocked":
        await add_budget(store, minAvailable=1)
    name = await add_eviction(store, "a")
    await answer(store, name)
    said = await conditions(store, name)
    if first == "blocked":
        await store.delete(DISRUPTION_BUDGET, Key("web"))
    else:
        await add_binding(store, "a", name="web-a-anew")
    before = store.resource_version
    async with life(store, *KINDS) as process:
        await controller(process).reconcile(name)
        await process.settle()
        assert process.hub.writes == 0
    assert store.resource_version == before
    assert await conditions(store, name) == said


async def test_a_budget_that_was_made_a_moment_ago_counts(store):
    """Nothing watches budgets; they are read when they are needed."""
    await add_placement(store)
    await add_binding(store, "a")
    name = await add_eviction(store, "a")
    async with life(store, *KINDS) as process:
        await add_budget(store, minAvailable=1)
        await controller(process).reconcile(name)
        await process.settle()
    assert await conditions(store, name) == [VALID, NOT_EXECUTED]


async def test_what_others_did_to_the_bindings_counts_before_the_watch_tells(store):
    await add_placement(store)
    documents = {cluster: await add_binding(store, cluster) for cluster in "abc"}
    await add_budget(store, minAvailable=2)
    names = [await add_eviction(store, "a"), await add_eviction(store, "c")]
    async with life(store, *KINDS) as process:
        await say(store, documents["b"], "failed")
        await controller(process).reconcile(names[0])
        await store.delete(BINDING, Key("web-c"))
        await controller(process).reconcile(names[1])
        await process.settle()
    assert await conditions(store, names[0]) == [VALID, NOT_EXECUTED]
    assert await conditions(store, names[1]) == [VALID, EXECUTED]


async def test_a_status_that_is_not_stored_yet_counts(store):
    """What the work generator has just found out is only in the cache."""
    await add_placement(store)
    for cluster in "ab":
        await add_binding(store, cluster)
    await add_budget(store, minAvailable=1)
    name = await add_eviction(store, "a")
    async with life(store, *KINDS) as process:
        binding = process.cache.get(BINDING, "web-b")
        assert binding is not None
        process.hub.report(BINDING, binding, {"conditions": []})
        await controller(process).reconcile(name)
        await process.settle()
    assert await conditions(store, name) == [VALID, NOT_EXECUTED]


async def test_a_binding_that_changes_under_the_deletion_is_decided_on_anew(store):
    await add_placement(store)
    documents = {cluster: await add_binding(store, cluster) for cluster in "ab"}
    await add_budget(store, minAvailable=1)
    name = await add_eviction(store, "a")
    async with life(store, *KINDS) as process:
        evictions = controller(process)

        async def change(verb, kind, subject):
            if verb == "delete":
                process.store.before_write = None
                stored = await store.get(BINDING, Key("web-a"))
                await store.replace_status(BINDING, {**stored, "status": {"conditions": []}})
                await say(store, documents["b"], "unknown")
                await store.replace_status(BINDING, {**documents["b"], "status": {"conditions": []}})

        process.store.before_write = change
        with pytest.raises(ConflictError):
            await evictions.reconcile(name)
        assert not await is_going(store, "web-a")
        await evictions.reconcile(name)
        await process.settle()
    assert await conditions(store, name) == [VALID, NOT_EXECUTED]
    assert not await is_going(store, "web-a")


async def test_an_eviction_that_is_withdrawn_does_nothing(store):
    await add_placement(store)
    await add_binding(store, "a")
    name = await add_eviction(store, "a")
    async with life(store, *KINDS) as process:
        await store.delete(EVICTION, Key(name))
        await controller(process).reconcile(name)
        assert process.hub.writes == 0
        assert process.cache.get(EVICTION, name) is None
    assert not await is_going(store, "web-a")


async def test_an_eviction_that_is_withdrawn_at_the_last_moment_does_nothing(store):
    await add_placement(store)
    await add_binding(store, "a")
    name = await add_eviction(store, "a")
    async with life(store, *KINDS) as process:

        async def withdraw(verb, kind, subject):
            if kind == EVICTION:
                await store.delete(EVICTION, Key(name))

        process.store.before_write = withdraw
        await controller(process).reconcile(name)
    assert not await is_going(store, "web-a")


async def test_an_old_leader_and_a_new_one_give_one_answer(store):
    """The new one has not heard of the answer yet, and would give another one."""
    await add_placement(store)
    await add_binding(store, "a")
    await add_budget(store, minAvailable=1)
    name = await add_eviction(store, "a")
    async with life(store, *KINDS) as late:
        await answer(store, name)
        await store.delete(DISRUPTION_BUDGET, Key("web"))
        await controller(late).reconcile(name)
        await late.settle()
    assert await conditions(store, name) == [VALID, NOT_EXECUTED]
    assert not await is_going(store, "web-a")


limits = st.one_of(
    st.builds(lambda value: {"maxUnavailable": value}, st.integers(0, 6)),
    st.builds(lambda share: {"maxUnavailable": f"{share}%"}, st.integers(0, 100)),
    st.builds(lambda value: {"minAvailable": value}, st.integers(0, 8)),
    st.builds(lambda share: {"minAvailable": f"{share}%"}, st.integers(0, 100)),
)


@settings(max_examples=examples(60))
@given(
    healths=st.lists(st.sampled_from(["available", "available", "rolling"]), min_size=1, max_size=8),
    number=st.integers(1, 8),
    budget=limits,
    concurrently=st.booleans(),
    data=st.data(),
)
def test_many_evictions_never_exceed_the_budget(healths, number, budget, concurrently, data):
    """Whatever the order: when one is executed, what is left still keeps the budget, and no more is held than needed.

    Nothing is gone yet in this test; a binding that is gone does not count any more (rollout.md E3).
    """
    clusters = [f"m{at}" for at in range(len(healths))]
    order = data.draw(st.permutations(clusters))

    async def run():
        with opened() as store:
            await add_placement(store, number=number)
            for cluster, health in zip(clusters, healths, strict=True):
                await add_binding(store, cluster, health=health)
            await add_budget(store, **budget)
            names = [await add_eviction(store, cluster) for cluster in order]
            async with life(store, *KINDS) as process:
                evictions = controller(process)
                if concurrently:
                    await asyncio.gather(*(evictions.reconcile(name) for name in names))
                else:
                    for name in names:
                        await evictions.reconcile(name)
                await process.settle()
            return {cluster: (await conditions(store, f"off-{cluster}"))[1] for cluster in order}

    outcome = run_in_virtual_time(run())
    health_of = dict(zip(clusters, healths, strict=True))
    total, available = len(clusters), healths.count("available")
    for cluster in order:
        if "maxUnavailable" in budget:
            allowed = scaled_up(budget["maxUnavailable"], number) - (total - available)
        else:
            allowed = available - scaled_up(budget["minAvailable"], number)
        assert outcome[cluster] == (EXECUTED if allowed > 0 else NOT_EXECUTED)
        if allowed > 0 and health_of[cluster] == "available":
            available -= 1


@pytest.mark.parametrize("lands", [True, False], ids=["stored", "lost"])
@pytest.mark.parametrize(
    "at",
    [0, 1, 2, 3],
    ids=["before-it-says-which", "before-it-says-so-there", "before-it-deletes", "before-it-answers"],
)
@pytest.mark.parametrize("meanwhile", ["nothing", "gone", "picked-again", "placement-gone"])
async def test_a_crash_costs_neither_the_answer_nor_a_second_binding(store, at, lands, meanwhile):
    await add_placement(store, number=2)
    await add_binding(store, "a")
    await add_binding(store, "b")
    await add_budget(store, maxUnavailable=1)
    name = await add_eviction(store, "a")
    async with life(store, *KINDS) as process:
        process.store.writes_left, process.store.last_one_lands = at, lands
        with suppress(CrashError):
            await controller(process).reconcile(name)
    assert await conditions(store, name) == []
    deleted = await is_going(store, "web-a")
    assert deleted is ((at, lands) in ((2, True), (3, True), (3, False)))
    if deleted and meanwhile != "nothing":
        going = await store.get(BINDING, Key("web-a"))
        await store.replace(BINDING, {**going, "metadata": {**going["metadata"], "finalizers": []}})
        if meanwhile == "picked-again":
            await add_binding(store, "a", name="web-a-anew")
        if meanwhile == "placement-gone":
            await store.delete(PLACEMENT, Key("web"))
            await store.delete(BINDING, Key("web-b"))
    await answer(store, name)
    assert await conditions(store, name) == [VALID, EXECUTED]
    assert await is_going(store, "web-a")
    if deleted and meanwhile == "picked-again":
        assert not await is_going(store, "web-a-anew")


async def test_after_a_crash_before_the_deletion_everything_is_decided_anew(store):
    await add_placement(store, number=2)
    await add_binding(store, "a")
    other = await add_binding(store, "b")
    await add_budget(store, maxUnavailable=1)
    name = await add_eviction(store, "a")
    async with life(store, *KINDS) as process:
        process.store.writes_left = 2
        with pytest.raises(CrashError):
            await controller(process).reconcile(name)
    stored = await store.get(EVICTION, Key(name))
    binding = await store.get(BINDING, Key("web-a"))
    assert stored["metadata"]["annotations"][EVICTED_BINDING] == binding["metadata"]["uid"]
    assert is_marked_for_removal(binding)
    await store.replace_status(BINDING, {**other, "status": {"conditions": []}})
    await answer(store, name)
    assert await conditions(store, name) == [VALID, NOT_EXECUTED]
    assert not await is_going(store, "web-a")
    assert not is_marked_for_removal(await store.get(BINDING, Key("web-a")))


async def test_in_the_running_loop_an_evicted_cluster_is_picked_again_when_nothing_speaks_against_it():
    """Evicting does not stop the scheduler: taint the cluster first."""
    async with running() as world:
        await world.add(*(make_member(name, nodes=number) for number, name in enumerate("ab", start=1)))
        await world.until(lambda: all(member.status.properties for member in world.cache.fleet.members))
        await world.add(make_placement("web", pick_n(2)))
        await world.until(lambda: world.view("web")["state"] == "available")
        uids = {each["metadata"]["uid"] for each in world.cache.list(BINDING)}
        await add_budget(world.store, maxUnavailable=1)
        for cluster in "ab":
            await add_eviction(world.store, cluster)

        def answered():
            said = [(each.get("status") or {}).get("conditions") or () for each in world.cache.list(EVICTION)]
            return all(len(each) == 2 for each in said) and world.view("web")["available"] == 2

        await world.until(answered)
        answers = [(await conditions(world.store, f"off-{cluster}"))[1] for cluster in "ab"]
        assert sorted(answers) == sorted([EXECUTED, NOT_EXECUTED])
        assert world.bound("web") == ["a", "b"]
        assert len(uids & {each["metadata"]["uid"] for each in world.cache.list(BINDING)}) == 1
