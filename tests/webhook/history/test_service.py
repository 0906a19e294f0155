"""What a process finds: its own at once, that of others within seconds."""

from datetime import timedelta

from tests.webhook.history.recording import ABOUT, hub, refuse
from webhook.history.actions import AcceptedWrite
from webhook.history.entry import EntryType
from webhook.history.query import Query
from webhook.history.service import POLL_INTERVAL, HistoryService


def desk(it, writer):
    return HistoryService(it.store, "ours", writer, lambda: it.now)


async def messages(found):
    return {each.message for each in (await found.find(Query())).entries}


async def test_what_is_noted_is_found_before_and_after_it_is_written():
    async with hub() as it:
        writer = it.writer()
        own = desk(it, writer)
        for message in ("one", "two"):
            own.note(EntryType.REFUSAL, ABOUT, "C-02", message, "jane")
            assert message in await messages(own)
            await writer.flush()
            assert message in await messages(own)


async def test_what_others_have_written_is_found_after_some_seconds():
    async with hub() as it:
        own, other = desk(it, it.writer("a")), it.writer("b")
        assert await messages(own) == set()
        refuse(other, "theirs")
        await other.flush()
        it.now += POLL_INTERVAL + timedelta(seconds=1)
        assert await messages(own) == {"theirs"}


async def test_a_clock_that_is_set_back_does_not_keep_an_old_answer():
    async with hub() as it:
        own, other = desk(it, it.writer("a")), it.writer("b")
        assert await messages(own) == set()
        refuse(other, "theirs")
        await other.flush()
        it.now -= timedelta(days=1)
        assert await messages(own) == {"theirs"}


def stopping(generation, version="1"):
    """The write that stops a run, which has another resource version each time the API server retries it."""
    metadata = {"name": "web-1", "uid": "u", "generation": generation, "resourceVersion": version}
    head = {"apiVersion": "placement.kubernetes-fleet.io/v1", "kind": "ClusterStagedUpdateRun", "metadata": metadata}
    return AcceptedWrite(head | {"spec": {"state": "Stop"}}, head | {"spec": {"state": "Run"}})


async def test_a_write_that_is_reviewed_again_after_a_conflict_is_one_action():
    """Even if another replica reviews it, or the first review is on record by then."""
    async with hub() as it:
        first, second = it.writer("a"), it.writer("b")
        own, other = desk(it, first), desk(it, second)
        own.note_write(stopping(1), "jane")
        own.note_write(stopping(1, "2"), "jane")
        await first.flush()
        own.note_write(stopping(1, "3"), "jane")
        other.note_write(stopping(1, "4"), "jane")
        await second.flush()
        it.now += timedelta(minutes=1)
        assert [(entry.reason, entry.count) for entry in (await own.find(Query())).entries] == [("RunStopped", 1)]
        own.note_write(stopping(3), "jane")
        own.note_write(stopping(3), "bob")
        assert len((await own.find(Query())).entries) == 3


async def test_actions_within_a_second_are_in_order():
    async with hub() as it:
        own = desk(it, it.writer())
        own.note_write(AcceptedWrite(stopping(1).old), "user-00")
        for generation in range(1, 30):
            own.note_write(stopping(generation), f"user-{generation:02}")
        found = [entry.by for entry in (await own.find(Query())).entries]
        assert found == sorted(found, reverse=True)


async def test_nothing_is_kept_where_nothing_is_to_be_kept():
    async with hub() as it:
        own = desk(it, None)
        own.note(EntryType.REFUSAL, ABOUT, "C-02", "no", "jane")
        assert await messages(own) == set()
        assert not own.is_kept


async def test_a_process_that_writes_nothing_finds_what_others_have_written():
    async with hub() as it:
        refuse(other := it.writer("b"), "theirs")
        await other.flush()
        assert await messages(HistoryService(it.store, "ours", None, lambda: it.now, is_kept=True)) == {"theirs"}


async def test_what_is_written_while_the_record_is_read_is_found():
    async with hub() as it:
        writer = it.writer()
        own = desk(it, writer)
        own.note(EntryType.REFUSAL, ABOUT, "C-02", "no", "jane")
        listing = it.store.list

        async def slow(*asked):
            found = await listing(*asked)
            it.store.list = listing
            await writer.flush()
            return found

        it.store.list = slow
        assert await messages(own) == {"no"}
