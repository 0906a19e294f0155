"""Members that are not heard of any more: told once, and once again when they are back."""

from contextlib import asynccontextmanager
from datetime import timedelta

from tests.webhook.controllers.member_stage import staged

SILENT, BACK = ("Warning", "MemberClusterSilent"), ("Normal", "MemberClusterReporting")


@asynccontextmanager
async def joined():
    async with staged() as it:
        await it.add()
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
