"""What a controller says of itself, and what the loop makes of that."""

import asyncio
from contextlib import asynccontextmanager
from datetime import timedelta

import pytest

from scorer.api.kinds import BINDING, NAMESPACE
from tests.virtual_time import loop_now
from tests.waiting import until
from tests.webhook.controllers.waking import changed, make
from webhook.controllers.machinery import loop as loop_module
from webhook.controllers.machinery.failures import concerned_of
from webhook.controllers.machinery.loop import Loop
from webhook.controllers.machinery.result import DONE
from webhook.controllers.machinery.wiring import Later, Poll, Signal, Watch, Wiring
from webhook.embedded.storage.store import EmbeddedStore
from webhook.kube.cache.changes import Broadcaster
from webhook.kube.cache.hub import Hub
from webhook.kube.cache.informer import Cache
from webhook.kube.events import EventRecorder
from webhook.kube.ports import StoreError

WEB = make(NAMESPACE, "web")


class Line:
    """A queue that is never worked off."""

    name = "line"

    def __init__(self):
        self.keys = []

    def add(self, key):
        self.keys.append(key)

    def add_after(self, key, delay):
        self.keys.append((key, delay))


@pytest.fixture
def store():
    opened = EmbeddedStore.open(None)
    yield opened
    opened.close()


@pytest.fixture
def line():
    return Line()


def version(document, number):
    return changed(document, resourceVersion=str(number))


def names(change):
    yield change.document["metadata"]["name"]


async def test_a_watch_wakes_for_what_is_there_and_for_every_change_until_it_ends(store, line):
    cache = Cache(store)
    shelf = cache.of_kind(NAMESPACE)
    shelf.put(version(WEB, 1))
    end = Watch(NAMESPACE, names).start(cache, line)
    assert line.keys == ["web"]
    shelf.put(version(WEB, 2))
    shelf.drop(WEB)
    assert line.keys == ["web"] * 3
    end()
    shelf.put(version(make(NAMESPACE, "dock"), 4))
    assert line.keys == ["web"] * 3


async def test_a_key_may_have_to_wait(store, line):
    cache, delay = Cache(store), timedelta(seconds=3)
    cache.of_kind(NAMESPACE).put(version(WEB, 1))
    Watch(NAMESPACE, lambda _: ["a", Later("b", delay), "c"]).start(cache, line)
    assert line.keys == ["a", ("b", delay), "c"]


async def test_a_signal_wakes_for_what_it_is_told_until_it_ends(store, line):
    channel = Broadcaster[int]()
    end = Signal(channel.subscribe, lambda number: ["n"] * number).start(Cache(store), line)
    channel.publish(2)
    channel.publish(0)
    end()
    channel.publish(5)
    assert line.keys == ["n", "n"]


async def test_a_poll_asks_on_when_the_hub_does_not_say(line):
    answers = iter([["a"], StoreError("away"), ["b"]])

    async def ask():
        answer = next(answers, [])
        if isinstance(answer, StoreError):
            raise answer
        return answer

    polling = asyncio.create_task(Poll(timedelta(seconds=1), ask).run(line))
    await until(lambda: "b" in line.keys)
    polling.cancel()
    assert line.keys == ["a", "b"]


class Diary:
    """A controller, by what it is asked to do."""

    def __init__(self):
        self.notes = []

    def wiring(self, name, **more):
        async def reconcile(key):
            self.notes.append(f"{name} reconciles {key}")
            return DONE

        concerned = concerned_of(NAMESPACE)
        return Wiring(name=name, reconcile=reconcile, concerned=concerned, **{"owner": str, "watches": (), **more})

    async def until(self, note):
        await until(lambda: note in self.notes)


@asynccontextmanager
async def looping(store, *controllers, kinds=(NAMESPACE,), workers=2):
    """Run these controllers, over a cache of their own."""
    cache = Cache(store)
    hub = Hub(store, cache)
    loop = Loop(hub, loop_now, controllers, EventRecorder(hub.store, loop_now, "test"), kinds, workers=workers)
    tasks = [asyncio.create_task(each) for each in (cache.run(), loop.run())]
    try:
        yield loop
    finally:
        for task in reversed(tasks):
            task.cancel()
            await asyncio.wait([task])


async def test_what_several_controllers_need_runs_once_and_ends_once(store):
    diary = Diary()

    async def follow():
        diary.notes.append("follows")
        await asyncio.Event().wait()

    def end():
        diary.notes.append("ends")

    shared = {"background": (follow,), "ends": (end,)}
    async with looping(store, diary.wiring("a", **shared), diary.wiring("b", **shared)):
        await diary.until("follows")
        await asyncio.sleep(0.01)
    assert diary.notes == ["follows", "ends"]


async def test_at_its_end_nobody_is_told_any_more(store):
    diary = Diary()
    async with looping(store, diary.wiring("a", watches=(Watch(NAMESPACE, names),))) as loop:
        await store.create(NAMESPACE, make(NAMESPACE, "web"))
        await diary.until("a reconciles web")
        shelf = loop._hub.cache.of_kind(NAMESPACE)
        assert len(shelf.handlers) == 1
    assert not shelf.handlers


async def test_what_ends_with_the_loop_does_so_before_the_hub_was_known_as_well(store):
    """Somebody else is elected while the first list is still to come."""
    diary = Diary()
    cache = Cache(store)  # never filled
    hub = Hub(store, cache)
    controller = diary.wiring("a", ends=(lambda: diary.notes.append("ends"),))
    running = asyncio.create_task(
        Loop(hub, loop_now, [controller], EventRecorder(hub.store, loop_now, "test"), [NAMESPACE], workers=1).run()
    )
    await asyncio.sleep(0.01)
    running.cancel()
    await asyncio.wait([running])
    assert diary.notes == ["ends"]


async def test_nobody_begins_before_all_is_known(store):
    diary, may_be_listed = Diary(), asyncio.Event()

    class Slow:
        def __getattr__(self, name):
            return getattr(store, name)

        async def list(self, kind, namespace=None, labels=None):
            if kind == BINDING:
                await may_be_listed.wait()
            return await store.list(kind, namespace, labels)

    await store.create(NAMESPACE, make(NAMESPACE, "web"))
    controller = diary.wiring("a", watches=(Watch(NAMESPACE, names),))
    async with looping(Slow(), controller, kinds=(NAMESPACE, BINDING)) as loop:
        await loop._hub.cache.wait_synced((NAMESPACE,))
        await asyncio.sleep(0.02)
        assert not diary.notes
        may_be_listed.set()
        await diary.until("a reconciles web")


async def test_what_a_leader_before_has_made_is_known_before_anybody_is_woken(store):
    """The watch has not told of it yet; only a list, asked for by the new leader, does."""
    diary = Diary()

    class Counting:
        def __getattr__(self, name):
            return getattr(store, name)

        async def list(self, kind, namespace=None, labels=None):
            diary.notes.append(f"lists {kind.kind}")
            return await store.list(kind, namespace, labels)

    def woken(change):
        diary.notes.append("woken")
        return names(change)

    await store.create(NAMESPACE, make(NAMESPACE, "web"))
    async with looping(Counting(), diary.wiring("a", watches=(Watch(NAMESPACE, woken),), makes=(NAMESPACE, NAMESPACE))):
        await diary.until("a reconciles web")
    assert diary.notes == ["lists Namespace", "lists Namespace", "woken", "a reconciles web"]


async def test_a_controller_says_how_many_workers_it_has(store, monkeypatch):
    busy = {"one": 0, "many": 0}

    def wiring(name, **more):
        async def reconcile(_key):
            busy[name] += 1
            await asyncio.Event().wait()

        watch = Watch(NAMESPACE, lambda _: range(9))
        return Wiring(
            name=name, reconcile=reconcile, concerned=concerned_of(NAMESPACE), owner=str, watches=(watch,), **more
        )

    await store.create(NAMESPACE, make(NAMESPACE, "web"))
    async with looping(store, wiring("one", workers=1), wiring("many"), workers=3):
        await until(lambda: busy == {"one": 1, "many": 3})
        await asyncio.sleep(0.01)
    assert busy == {"one": 1, "many": 3}


async def test_what_a_controller_does_not_need_of_an_object_is_not_kept(store):
    diary = Diary()
    await store.create(NAMESPACE, make(NAMESPACE, "web", annotations={"large": "x"}))

    def essential(document):
        return {**document, "metadata": {**document["metadata"], "annotations": {}}}

    async with looping(
        store, diary.wiring("a", watches=(Watch(NAMESPACE, names),), trims={NAMESPACE: essential})
    ) as loop:
        await diary.until("a reconciles web")
        assert loop._hub.cache.get(NAMESPACE, "web")["metadata"]["annotations"] == {}


async def test_while_members_report_the_others_are_idle(store):
    """In a large fleet some member always reports."""
    goes_on = asyncio.Event()

    async def reconcile(_key):
        await goes_on.wait()
        return DONE

    def wiring(name, **more):
        return Wiring(name=name, reconcile=reconcile, concerned=concerned_of(NAMESPACE), owner=str, watches=(), **more)

    async with looping(store, wiring("reports", takes_reports=True), wiring("rest")) as loop:
        await asyncio.sleep(0.01)
        assert (loop.idle, loop.idle_but_for_reports) == (True, True)
        loop.queues["reports"].add("a")
        await asyncio.sleep(0.01)
        assert (loop.idle, loop.idle_but_for_reports) == (False, True)
        loop.queues["rest"].add("a")
        assert (loop.idle, loop.idle_but_for_reports) == (False, False)
        goes_on.set()


async def test_what_a_controller_names_is_looked_at_again_after_a_while(store, monkeypatch):
    diary = Diary()
    monkeypatch.setattr(loop_module, "RESYNC", timedelta(milliseconds=20))
    async with looping(store, diary.wiring("a", resync=lambda: ["x"]), diary.wiring("b")):
        await diary.until("a reconciles x")
    assert set(diary.notes) == {"a reconciles x"}


async def test_what_is_looked_at_again_is_spread_over_the_interval(store, monkeypatch):
    diary = Diary()
    monkeypatch.setattr(loop_module, "RESYNC", timedelta(hours=1))
    pauses = []

    async def sleep(seconds, sleep=asyncio.sleep):
        if seconds > 1:
            pauses.append(seconds)
        await sleep(0.001 if seconds > 1 else seconds)

    monkeypatch.setattr(loop_module.asyncio, "sleep", sleep)
    async with looping(store, diary.wiring("a", resync=lambda: ["x", "y"]), diary.wiring("b", resync=lambda: ["z"])):
        await diary.until("b reconciles z")
    assert diary.notes[:3] == ["a reconciles x", "a reconciles y", "b reconciles z"]
    assert set(pauses) == {1200.0}
