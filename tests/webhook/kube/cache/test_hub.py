"""The hub: reads of the cache, writes to the store, one's own writes seen at once."""

import asyncio
from contextlib import asynccontextmanager, contextmanager
from unittest.mock import patch

import pytest

from scorer.api.kinds import BINDING, MEMBER_CLUSTER, PLACEMENT
from scorer.api.names import PARENT_PLACEMENT
from scorer.rollout.writes import create, delete, replace
from tests.scorer.builders import cluster_document
from tests.waiting import PATIENCE_SECONDS, until
from webhook.embedded.storage.store import EmbeddedStore
from webhook.kube.cache.hub import STATUS_DELAY_SECONDS, Hub
from webhook.kube.cache.informer import Cache
from webhook.kube.ports import AlreadyExistsError, ConflictError, Key, NotFoundError, NotServedError, key_of

FINALIZER = "kubernetes-fleet.io/scheduler-crb-cleanup"


@pytest.fixture
def store():
    opened = EmbeddedStore.open(None)
    yield opened
    opened.close()


def binding(name, parent="payments", **metadata):
    return {
        "apiVersion": BINDING.api_version,
        "kind": BINDING.kind,
        "metadata": {"name": name, "labels": {PARENT_PLACEMENT: parent}, **metadata},
        "spec": {"state": "Scheduled", "targetCluster": name},
    }


@asynccontextmanager
async def hub_of(store):
    cache = Cache(store)
    cache.require([BINDING, MEMBER_CLUSTER])
    task = asyncio.create_task(cache.run())
    async with asyncio.timeout(PATIENCE_SECONDS):
        await cache.wait_synced()
    hub = Hub(store, cache)
    storing = asyncio.create_task(hub.run())
    try:
        yield hub
    finally:
        for each in (task, storing):
            each.cancel()
        await asyncio.gather(task, storing, return_exceptions=True)


async def stored(hub):
    """Wait until every reported status is stored."""
    await until(lambda: hub.idle)


async def echoed(hub):
    """Wait until the watch has brought everything up to now, by way of an object of our own."""
    seen = asyncio.Event()
    hub.cache.subscribe(BINDING, lambda change: seen.set() if change.document["metadata"]["name"] == "marker" else None)
    await hub.store.create(BINDING, binding("marker"))
    async with asyncio.timeout(PATIENCE_SECONDS):
        await seen.wait()


@contextmanager
def held_back(hub):
    """Store no reported status while this lasts, as behind many other writes."""
    with patch("webhook.kube.cache.hub.LONGEST_DELAY_SECONDS", 600.0), patch.object(Hub, "_is_calm", new=False):
        yield
    hub._wake.set()


def watching(hub):
    told = []

    def handler(change):
        name = change.document["metadata"]["name"]
        if name != "marker":
            told.append((name, "gone" if change.new is None else "new" if change.old is None else "changed"))

    hub.cache.subscribe(BINDING, handler)
    return told


async def test_a_write_is_seen_by_the_very_next_read_and_told_once(store):
    async with hub_of(store) as hub:
        told = watching(hub)
        made = await hub.create(BINDING, binding("a"))
        assert hub.cache.get(BINDING, "a") == made
        assert hub.cache.labelled(BINDING, PARENT_PLACEMENT, "payments") == [made]
        changed = await hub.replace(BINDING, {**made, "spec": {**made["spec"], "state": "Bound"}})
        assert hub.cache.get(BINDING, "a") == changed
        reported = hub.report(BINDING, changed, {"conditions": []})
        assert hub.cache.get(BINDING, "a") is reported
        assert reported["status"] == {"conditions": []}
        await stored(hub)
        assert (await store.get(BINDING, Key("a")))["status"] == {"conditions": []}
        await hub.delete(BINDING, reported)
        assert hub.cache.get(BINDING, "a") is None
        expected = [("a", "new"), ("a", "changed"), ("a", "changed"), ("a", "changed"), ("a", "gone")]
        assert told == expected
        await echoed(hub)
        assert told == expected
        assert hub.writes == 4


async def test_a_status_that_says_so_already_is_not_written(store):
    async with hub_of(store) as hub:
        made = await hub.create(BINDING, binding("a"))
        assert hub.report(BINDING, made, {}) is made
        hub.report(BINDING, made, {"conditions": [{"type": "X"}]})
        await stored(hub)
        before = hub.writes
        hub.report(BINDING, hub.cache.get(BINDING, "a"), {"conditions": [{"type": "X"}]})
        assert (hub.idle, hub.writes) == (True, before)


async def test_changes_of_one_status_are_one_write(store):
    async with hub_of(store) as hub:
        document = await hub.create(BINDING, binding("a"))
        before = hub.writes
        for word in ("X", "Y", "Z"):
            document = hub.report(BINDING, document, {"conditions": [{"type": word}]})
        await stored(hub)
        assert hub.writes == before + 1
        assert (await store.get(BINDING, Key("a")))["status"] == {"conditions": [{"type": "Z"}]}


async def test_statuses_of_placements_are_stored_before_all_others(store, monkeypatch):
    monkeypatch.setattr("webhook.kube.cache.hub.STATUS_WRITERS", 1)
    monkeypatch.setattr("webhook.kube.cache.hub.STATUS_DELAY_SECONDS", 0.0)  # all are due by the first look
    async with hub_of(store) as hub:
        bindings = [await hub.create(BINDING, binding(name)) for name in ("a", "b", "c")]
        placement = await hub.create(PLACEMENT, {**binding("p"), "kind": PLACEMENT.kind})
        replace_status, order = store.replace_status, []

        async def noting(kind, document):
            order.append(document["metadata"]["name"])
            return await replace_status(kind, document)

        monkeypatch.setattr(store, "replace_status", noting)
        for document in bindings:
            hub.report(BINDING, document, {"conditions": [{"type": "X"}]})
        hub.report(PLACEMENT, placement, {"conditions": [{"type": "X"}]})
        await stored(hub)
        assert order == ["p", "a", "b", "c"]


async def test_statuses_wait_while_many_writes_are_under_way_and_not_for_ever(store, monkeypatch):
    monkeypatch.setattr("webhook.kube.cache.hub.LONGEST_DELAY_SECONDS", 600.0)
    async with hub_of(store) as hub:
        made = await hub.create(BINDING, binding("a"))
        create, order, goes_on = store.create, [], asyncio.Event()
        replace_status = store.replace_status

        async def slow(kind, document):
            await goes_on.wait()
            return await create(kind, document)

        async def noting(kind, document):
            order.append("status")
            return await replace_status(kind, document)

        monkeypatch.setattr(store, "create", slow)
        monkeypatch.setattr(store, "replace_status", noting)
        others = [asyncio.create_task(hub.create(BINDING, binding(f"other-{number}"))) for number in range(20)]
        hub.report(BINDING, made, {"conditions": [{"type": "X"}]})
        await asyncio.sleep(2 * STATUS_DELAY_SECONDS)  # it would be stored now
        assert order == []
        monkeypatch.setattr("webhook.kube.cache.hub.LONGEST_DELAY_SECONDS", 0.0)
        hub._wake.set()
        await stored(hub)
        assert order == ["status"]
        hub.report(BINDING, hub.cache.get(BINDING, "a"), {"conditions": [{"type": "Y"}]})
        monkeypatch.setattr("webhook.kube.cache.hub.LONGEST_DELAY_SECONDS", 600.0)
        goes_on.set()
        await asyncio.gather(*others)
        await stored(hub)
        assert order == ["status", "status"]


async def test_a_status_that_comes_back_to_what_is_stored_is_not_written(store):
    async with hub_of(store) as hub:
        document = await hub.create(BINDING, binding("a"))
        before = hub.writes
        document = hub.report(BINDING, document, {"conditions": [{"type": "X"}]})
        hub.report(BINDING, document, {})
        await stored(hub)
        assert hub.writes == before
        assert hub.cache.get(BINDING, "a").get("status", {}) == {}


async def test_a_status_outlives_a_write_to_the_rest_of_the_object(store):
    """Ours or somebody else's, as long as the object wants the same thing: its generation is the same."""
    async with hub_of(store) as hub:
        document = await hub.create(BINDING, binding("a"))
        with held_back(hub):
            document = hub.report(BINDING, document, {"conditions": [{"type": "X"}]})
            held = {**document, "metadata": {**document["metadata"], "finalizers": [FINALIZER]}}
            assert (await hub.replace(BINDING, held))["status"] == {"conditions": [{"type": "X"}]}
            fresh = await store.get(BINDING, Key("a"))
            noted = {**fresh, "metadata": {**fresh["metadata"], "annotations": {"by": "another client"}}}
            await store.replace(BINDING, noted)
        await stored(hub)
        found = await store.get(BINDING, Key("a"))
        assert found["status"] == {"conditions": [{"type": "X"}]}
        assert found["metadata"]["finalizers"] == [FINALIZER]
        assert found["metadata"]["annotations"] == {"by": "another client"}


async def test_a_status_of_what_an_object_wanted_before_is_dropped(store):
    async with hub_of(store) as hub:
        document = await hub.create(BINDING, binding("a"))
        with held_back(hub):
            hub.report(BINDING, document, {"conditions": [{"type": "X"}]})
            await store.replace(BINDING, {**document, "spec": {**document["spec"], "state": "Bound"}})
            await echoed(hub)
        await stored(hub)
        assert "status" not in await store.get(BINDING, Key("a"))
        assert "status" not in hub.cache.get(BINDING, "a")


async def test_a_status_reported_while_the_one_before_is_being_stored_comes_after_it(store):
    async with hub_of(store) as hub:
        document = await hub.create(BINDING, binding("a"))
        replace_status, begun, goes_on = store.replace_status, asyncio.Event(), asyncio.Event()

        async def slow(kind, status):
            begun.set()
            await goes_on.wait()
            return await replace_status(kind, status)

        store.replace_status = slow
        document = hub.report(BINDING, document, {"conditions": [{"type": "X"}]})
        await begun.wait()
        hub.report(BINDING, document, {"conditions": [{"type": "Y"}]})
        goes_on.set()
        await stored(hub)
        assert (await store.get(BINDING, Key("a")))["status"] == {"conditions": [{"type": "Y"}]}
        assert hub.cache.get(BINDING, "a")["status"] == {"conditions": [{"type": "Y"}]}


def answered_after_its_echo(hub, then):
    """Let the watch bring every status before the answer to its write comes; in between, once, do *then*."""
    replace_status, once = hub.store.replace_status, [then]

    async def slow(kind, document):
        stored = await replace_status(kind, document)
        await until(lambda: hub.cache.get(kind, *key_of(stored))["metadata"] == stored["metadata"])
        if once:
            await once.pop()()
        return stored

    hub.store.replace_status = slow


async def test_a_status_reported_between_the_echo_of_a_write_and_its_answer_is_stored(store):
    async with hub_of(store) as hub:
        document = await hub.create(BINDING, binding("a"))

        async def report_another():
            hub.report(BINDING, hub.cache.get(BINDING, "a"), {"conditions": [{"type": "Y"}]})

        answered_after_its_echo(hub, report_another)
        hub.report(BINDING, document, {"conditions": [{"type": "X"}]})
        await stored(hub)
        assert (await store.get(BINDING, Key("a")))["status"] == {"conditions": [{"type": "Y"}]}
        assert hub.cache.get(BINDING, "a")["status"] == {"conditions": [{"type": "Y"}]}


async def test_a_status_of_a_new_object_of_the_same_name_outlives_the_end_of_the_one_before(store):
    async with hub_of(store) as hub:
        old = await hub.create(BINDING, binding("a"))
        replace_status, once = store.replace_status, [True]

        async def late(kind, document):
            if once and once.pop():
                await store.delete(BINDING, Key("a"))
                new = await hub.create(BINDING, binding("a"))
                hub.report(BINDING, new, {"conditions": [{"type": "Y"}]})
                raise NotFoundError("gone")
            return await replace_status(kind, document)

        with patch.object(store, "replace_status", late):
            hub.report(BINDING, old, {"conditions": [{"type": "X"}]})
            await stored(hub)
        assert (await store.get(BINDING, Key("a")))["status"] == {"conditions": [{"type": "Y"}]}


async def test_a_status_that_goes_back_never_shows_an_older_version_of_its_object(store):
    """The watch brings somebody else's write while a status waits; then the status is what it was before."""
    async with hub_of(store) as hub:
        document = await hub.create(BINDING, binding("a"))
        with held_back(hub):
            hub.report(BINDING, document, {"conditions": [{"type": "X"}]})
            held = {**document, "metadata": {**document["metadata"], "finalizers": [FINALIZER]}}
            fresh = await store.replace(BINDING, held)
            await echoed(hub)
            hub.report(BINDING, hub.cache.get(BINDING, "a"), {})
        await stored(hub)
        assert hub.cache.get(BINDING, "a") == fresh


async def test_a_status_that_somebody_else_wrote_meanwhile_is_written_over(store):
    async with hub_of(store) as hub:
        document = await hub.create(BINDING, binding("a"))
        with held_back(hub):
            hub.report(BINDING, document, {"conditions": [{"type": "X"}]})
            await store.replace_status(BINDING, {**document, "status": {"conditions": [{"type": "Theirs"}]}})
            await echoed(hub)
            hub.report(BINDING, hub.cache.get(BINDING, "a"), {})
        await stored(hub)
        assert not (await store.get(BINDING, Key("a"))).get("status")


async def test_a_server_that_does_not_know_the_kind_says_nothing_about_the_object(store):
    """Something in front of the API server answers for it: the object is there, and stays known."""
    async with hub_of(store) as hub:
        made = await hub.create(BINDING, binding("a"))
        away = NotServedError("default backend - 404")
        with patch.object(store, "replace", side_effect=away), pytest.raises(NotServedError):
            await hub.replace(BINDING, made)
        with patch.object(store, "delete", side_effect=away), pytest.raises(NotServedError):
            await hub.delete(BINDING, made)
        with patch.object(store, "replace_status", side_effect=away) as writing:
            hub.report(BINDING, made, {"conditions": [{"type": "X"}]})
            await until(lambda: writing.called)
        assert hub.cache.get(BINDING, "a")["metadata"] == made["metadata"]
        await stored(hub)
        assert (await store.get(BINDING, Key("a")))["status"] == {"conditions": [{"type": "X"}]}


async def test_a_status_that_cannot_be_sent_ends_nothing_else(store):
    async with hub_of(store) as hub:
        bad, good = await hub.create(BINDING, binding("a")), await hub.create(BINDING, binding("b"))
        replace_status = store.replace_status

        async def broken(kind, document):
            if document["metadata"]["name"] == "a":
                raise KeyError("metadata")
            return await replace_status(kind, document)

        with patch.object(store, "replace_status", broken):
            hub.report(BINDING, bad, {"conditions": [{"type": "X"}]})
            hub.report(BINDING, good, {"conditions": [{"type": "X"}]})
            async with asyncio.timeout(PATIENCE_SECONDS):
                while not (await store.get(BINDING, Key("b"))).get("status"):
                    await asyncio.sleep(0.01)
        await stored(hub)
        assert (await store.get(BINDING, Key("a")))["status"] == {"conditions": [{"type": "X"}]}


async def test_what_is_not_stored_when_the_loop_ends_is_not_shown_any_more(store):
    cache = Cache(store)
    cache.require([BINDING])
    following = asyncio.create_task(cache.run())
    async with asyncio.timeout(PATIENCE_SECONDS):
        await cache.wait_synced()
    hub = Hub(store, cache)
    made = await hub.create(BINDING, binding("a"))
    storing = asyncio.create_task(hub.run())
    await asyncio.sleep(0)
    hub.report(BINDING, made, {"conditions": [{"type": "X"}]})
    storing.cancel()
    await asyncio.wait([storing])
    assert cache.get(BINDING, "a") == made
    following.cancel()
    await asyncio.wait([following])


async def test_the_status_of_what_is_gone_is_nobodys(store):
    async with hub_of(store) as hub:
        made = await hub.create(BINDING, binding("a"))
        hub.report(BINDING, made, {"conditions": [{"type": "X"}]})
        await hub.delete(BINDING, made)
        assert hub.report(BINDING, made, {"conditions": [{"type": "Y"}]}) is made
        await stored(hub)
        assert hub.cache.get(BINDING, "a") is None


async def test_a_deletion_held_by_a_finalizer_is_a_mark(store):
    async with hub_of(store) as hub:
        told = watching(hub)
        made = await hub.create(BINDING, binding("a", finalizers=[FINALIZER]))
        await hub.delete(BINDING, made)
        marked = hub.cache.get(BINDING, "a")
        assert marked["metadata"]["deletionTimestamp"]
        freed = {**marked, "metadata": {**marked["metadata"], "finalizers": []}}
        await hub.replace(BINDING, freed)
        await echoed(hub)
        assert hub.cache.get(BINDING, "a") is None
        assert told[-1] == ("a", "gone")
        assert told.count(("a", "gone")) == 1


async def test_deleting_what_is_gone_is_fine(store):
    async with hub_of(store) as hub:
        made = await hub.create(BINDING, binding("a"))
        await store.delete(BINDING, Key("a"))
        await hub.delete(BINDING, made)
        assert hub.cache.get(BINDING, "a") is None


async def test_deleting_spares_a_new_object_of_the_same_name(store):
    async with hub_of(store) as hub:
        old = await hub.create(BINDING, binding("a"))
        await store.delete(BINDING, Key("a"))
        new = await store.create(BINDING, binding("a"))
        with pytest.raises(ConflictError):
            await hub.delete(BINDING, old)
        assert await store.get(BINDING, Key("a")) == new
        await echoed(hub)
        assert hub.cache.get(BINDING, "a") == new


async def test_a_deleted_object_stays_gone_whatever_the_watch_still_brings(store):
    """Someone else's write and our deletion, both before the watch has brought either."""
    async with hub_of(store) as hub:
        made = await hub.create(BINDING, binding("a"))
        told = watching(hub)
        await store.replace(BINDING, {**made, "spec": {**made["spec"], "state": "Bound"}})
        await hub.delete(BINDING, made)
        await echoed(hub)
        assert hub.cache.get(BINDING, "a") is None
        assert told[-1] == ("a", "gone")
        assert told.count(("a", "gone")) == 1


async def test_writing_over_a_newer_version_is_a_conflict(store):
    async with hub_of(store) as hub:
        made = await hub.create(BINDING, binding("a"))
        await hub.replace(BINDING, {**made, "spec": {**made["spec"], "state": "Bound"}})
        with pytest.raises(ConflictError):
            await hub.replace(BINDING, {**made, "spec": {**made["spec"], "state": "Unscheduled"}})
        assert hub.cache.get(BINDING, "a")["spec"]["state"] == "Bound"


async def test_refusals_pass_through(store):
    async with hub_of(store) as hub:
        await hub.create(BINDING, binding("a"))
        with pytest.raises(AlreadyExistsError):
            await hub.create(BINDING, binding("a"))
        with pytest.raises(NotFoundError):
            await hub.replace(BINDING, binding("nobody"))


async def test_a_plan_is_carried_out_in_its_order(store):
    async with hub_of(store) as hub:
        first = await hub.create(BINDING, binding("a"))
        second = await hub.create(BINDING, binding("b"))
        told = watching(hub)
        told.clear()
        bound = {**first, "spec": {**first["spec"], "state": "Bound"}}
        await hub.carry_out(BINDING, [create(binding("c")), create(binding("b")), replace(bound), delete(second)])
        assert told == [("c", "new"), ("a", "changed"), ("b", "gone")]
        assert [item["metadata"]["name"] for item in (await store.list(BINDING)).items] == ["a", "c"]


async def test_a_plan_stops_at_a_conflict(store):
    async with hub_of(store) as hub:
        first = await hub.create(BINDING, binding("a"))
        await store.replace(BINDING, {**first, "spec": {**first["spec"], "state": "Bound"}})
        with pytest.raises(ConflictError):
            await hub.carry_out(BINDING, [replace({**first, "spec": {}}), create(binding("c"))])
        assert (await store.get(BINDING, Key("a")))["spec"]["state"] == "Bound"
        assert [item["metadata"]["name"] for item in (await store.list(BINDING)).items] == ["a"]


async def test_a_member_cluster_just_written_is_in_the_fleet(store):
    async with hub_of(store) as hub:
        made = await hub.create(MEMBER_CLUSTER, cluster_document("a"))
        assert hub.cache.fleet.names == ("a",)
        hub.report(MEMBER_CLUSTER, made, {"properties": {"p": {"value": "3"}}})
        assert hub.cache.fleet.quantity("p").double.tolist() == [3.0]
        await hub.delete(MEMBER_CLUSTER, made)
        assert hub.cache.fleet.names == ()


def test_placements_are_not_watched_unless_asked_for(store):
    assert Cache(store).synced
    cache = Cache(store)
    cache.require([PLACEMENT])
    assert not cache.synced
