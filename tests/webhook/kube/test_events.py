"""Events: what is one Event and what another, and what they say."""

import asyncio
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta

import pytest

from scorer.api.event import Event
from scorer.api.kinds import EVENT, NAMESPACE
from tests.waiting import until
from webhook.embedded.storage.store import EmbeddedStore
from webhook.kube.events import EventRecorder

NOW = datetime(2026, 6, 12, 12, 1, tzinfo=UTC)
POOL = {"apiVersion": "karpenter.sh/v1", "kind": "NodePool", "metadata": {"name": "a", "uid": "u-1"}}
OTHER = {**POOL, "metadata": {"name": "a", "uid": "u-2"}}


class Reporting:
    """A recorder, its clock and what it has written."""

    def __init__(self, store):
        self.store, self.now = store, NOW
        self.recorder = EventRecorder(store, lambda: self.now, "pod-0")
        self._recorded = 0

    async def record(self, event=None, document=POOL):
        self.recorder.record(document, event or Event("DisruptionBlocked", "no node may go", "Warning"))
        self._recorded += 1
        await until(lambda: self.counted() == self._recorded)

    def counted(self):
        return sum((each.get("series") or {"count": 1})["count"] for each in self.written())

    def written(self):
        return list(self.store.objects(EVENT))


@asynccontextmanager
async def recording():
    store = EmbeddedStore.open(None)
    await store.create(NAMESPACE, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "default"}})
    found = Reporting(store)
    running = asyncio.create_task(found.recorder.run())
    try:
        yield found
    finally:
        running.cancel()
        await asyncio.wait([running])
        store.close()


async def test_an_event_says_what_happened_to_whom_and_who_says_so():
    async with recording() as told:
        await told.record()
        [event] = told.written()
    assert event["regarding"] == {"apiVersion": "karpenter.sh/v1", "kind": "NodePool", "name": "a", "uid": "u-1"}
    assert (event["reason"], event["action"], event["type"]) == ("DisruptionBlocked", "DisruptionBlocked", "Warning")
    assert (event["note"], event["eventTime"]) == ("no node may go", "2026-06-12T12:01:00.000000Z")
    assert event["reportingController"] == "harbormaster.dev/controller"
    assert event["reportingInstance"] == "pod-0"
    assert "series" not in event


async def test_the_same_reason_within_five_minutes_is_one_event_with_a_count():
    """Whatever its note says: the first one stands."""
    async with recording() as told:
        await told.record()
        told.now += timedelta(minutes=2)
        await told.record(Event("DisruptionBlocked", "still no node may go", "Warning"))
        [event] = told.written()
        assert event["series"] == {"count": 2, "lastObservedTime": "2026-06-12T12:03:00.000000Z"}
        assert event["note"] == "no node may go"


@pytest.mark.parametrize(
    ("minutes", "event", "document"),
    [
        pytest.param(5, None, POOL, id="later"),
        pytest.param(0, Event("DisruptionUnblocked", "no node may go"), POOL, id="another-reason"),
        pytest.param(0, None, OTHER, id="another-object-of-that-name"),
    ],
)
async def test_everything_else_is_another_event(minutes, event, document):
    async with recording() as told:
        await told.record()
        told.now += timedelta(minutes=minutes)
        await told.record(event, document)
        assert len(told.written()) == 2


async def test_a_process_that_takes_over_goes_on_counting():
    async with recording() as told:
        await told.record()
        told.recorder._instance = "pod-1"
        await told.record()
        [event] = told.written()
    assert (event["series"]["count"], event["reportingInstance"]) == (2, "pod-0")


@pytest.mark.parametrize(
    "message",
    [
        pytest.param("x" * 2000, id="long"),
        pytest.param("\N{LATIN SMALL LETTER E WITH ACUTE}" * 1000, id="long-in-bytes-only"),
        pytest.param("\ud800" * 2000, id="no-unicode"),
    ],
)
async def test_a_note_is_cut_to_the_bytes_that_an_api_server_takes(message):
    async with recording() as told:
        await told.record(Event("Spoken", message))
        [event] = told.written()
    assert 1000 < len(event["note"].encode()) <= 1024
