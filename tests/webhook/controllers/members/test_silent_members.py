"""Members that are not heard of any more, or refuse all content: told once, and once again when they are back."""

from contextlib import asynccontextmanager
from datetime import timedelta

import pytest

from scorer.api.kinds import INTERNAL_MEMBER_CLUSTER, WORK
from scorer.api.unstructured.documents import with_metadata
from scorer.membership.missed_heartbeats import LIMIT
from tests.builders.condition import condition
from tests.waiting import until
from tests.webhook.controllers.members.member_stage import INTERNAL, SPACE, SPEC, staged
from tests.webhook.edits import edit
from webhook.kube.cache import informer

SILENT, BACK = ("Warning", "MemberClusterSilent"), ("Normal", "MemberClusterReporting")


@pytest.fixture(autouse=True)
def retries_at_once(monkeypatch):
    monkeypatch.setattr(informer, "_RETRY_SECONDS", (0.01,))


@asynccontextmanager
async def joined(period=600):
    """A member that has joined; with the longest period, it is silent before it has missed heartbeats."""
    async with staged() as it:
        await it.add(heartbeatPeriodSeconds=period)
        await it.reconcile()
        await it.beat()
        result = await it.reconcile()
        it.events.clear()
        yield it, result


async def test_a_member_is_looked_at_again_when_it_would_be_silent_and_told_of_once():
    async with joined() as (it, result):
        it.time += result.requeue_after
        assert (await it.reconcile()).requeue_after is None
        assert (it.events, await it.condition("Reporting")) == ([SILENT], ("False", "MemberClusterSilent"))
        writes = it.hub.writes
        it.time += timedelta(hours=1)
        await it.reconcile()
        assert (it.events, it.hub.writes) == ([SILENT], writes)


async def test_a_member_that_is_back_is_told_of_once():
    async with joined() as (it, result):
        it.time += result.requeue_after
        await it.reconcile()
        for _ in range(2):
            await it.beat()
            await it.reconcile()
        assert (it.events, await it.condition("Reporting")) == ([SILENT, BACK], ("True", "MemberClusterReporting"))


async def test_another_leader_tells_nothing_that_has_been_told():
    async with joined() as (it, result):
        it.time += result.requeue_after
        await it.reconcile()
        for _ in range(2):
            it.start()
            await it.reconcile()
            it.time += timedelta(hours=1)
            await it.reconcile()
        assert it.events == [SILENT]


async def test_a_leader_that_begins_after_a_while_gives_members_time_to_report():
    async with joined() as (it, _):
        it.time += timedelta(hours=1)
        it.start()
        await it.reconcile()
        await it.beat()
        await it.reconcile()
        assert it.events == []


async def test_a_member_that_has_not_joined_is_not_silent():
    async with staged() as it:
        await it.add()
        await it.reconcile()
        it.events.clear()
        it.time += timedelta(hours=1)
        await it.reconcile()
        assert it.events == []


async def touch(it):
    """Write something that is no heartbeat, so that the watch has something to tell."""
    at = {"at": str(it.time)}
    await edit(it.store, INTERNAL_MEMBER_CLUSTER, INTERNAL, lambda found: with_metadata(found, annotations=at))


async def test_what_was_not_heard_while_the_hub_could_not_be_read_is_not_held_against_a_member():
    async with joined() as (it, _):
        shelf = it.cache.of_kind(INTERNAL_MEMBER_CLUSTER)
        it.store.unreadable = INTERNAL_MEMBER_CLUSTER
        await touch(it)
        await until(lambda: shelf.away)
        for _ in range(2):
            it.time += timedelta(minutes=10)
            assert (await it.controller.reconcile("lion")).requeue_after > LIMIT
        it.time += timedelta(minutes=4)
        it.store.unreadable = None
        await until(lambda: not shelf.away)
        it.time += LIMIT
        result = await it.reconcile()
        assert (it.events, result.requeue_after < timedelta(seconds=1)) == ([], True)
        it.time += result.requeue_after
        await it.reconcile()
        assert it.events == [SILENT]


async def test_a_watch_that_breaks_off_and_goes_on_at_once_delays_nothing():
    async with joined() as (it, result):
        shelf = it.cache.of_kind(INTERNAL_MEMBER_CLUSTER)
        lists = shelf.lists
        it.time += result.requeue_after
        it.store.watches_end = True
        await touch(it)
        await until(lambda: shelf.lists > lists)
        await it.reconcile()
        assert it.events == [SILENT]


async def test_who_was_silent_before_the_hub_was_away_is_silent_until_heard_of():
    async with joined() as (it, result):
        shelf = it.cache.of_kind(INTERNAL_MEMBER_CLUSTER)
        it.time += result.requeue_after
        await it.reconcile()
        it.store.unreadable = INTERNAL_MEMBER_CLUSTER
        await touch(it)
        await until(lambda: shelf.away)
        it.store.unreadable = None
        await until(lambda: not shelf.away)
        await it.reconcile()
        assert (it.events, await it.condition("Reporting")) == ([SILENT], ("False", "MemberClusterSilent"))
        await it.beat()
        await it.reconcile()
        assert it.events == [SILENT, BACK]


async def test_missed_heartbeats_are_a_condition_until_one_arrives_and_no_event():
    async with joined(period=10) as (it, result):
        it.time += result.requeue_after
        result = await it.reconcile()
        assert await it.condition("Reporting") == ("Unknown", "HeartbeatsMissed")
        writes = it.hub.writes
        it.start()
        it.time += timedelta(seconds=1)
        await it.reconcile()
        assert (it.hub.writes, it.events) == (writes, [])
        await it.beat()
        await it.reconcile()
        assert (await it.condition("Reporting"), it.events) == (("True", "MemberClusterReporting"), [])


async def test_a_member_that_has_missed_heartbeats_is_silent_after_the_usual_time():
    async with joined(period=10) as (it, result):
        for _ in range(2):
            it.time += result.requeue_after
            result = await it.reconcile()
        assert (it.events, await it.condition("Reporting")) == ([SILENT], ("False", "MemberClusterSilent"))


async def test_a_member_that_refuses_everything_is_told_of_with_the_next_heartbeat():
    async with joined() as (it, _):
        metadata = {"name": "web-work", "namespace": SPACE}
        work = {"apiVersion": WORK.api_version, "kind": "Work", "metadata": metadata, "spec": SPEC}
        stored = await it.store.create(WORK, work)
        refused = {"identifier": {"ordinal": 0}, "conditions": [condition("Applied", "False", "RefusedByAgent", "no")]}
        await it.store.replace_status(WORK, {**stored, "status": {"manifestConditions": [refused]}})
        await it.beat()
        await it.reconcile()
        assert it.events == [("Warning", "AllContentRefused")]
        assert await it.condition("ContentApplied") == ("False", "AllContentRefused")
