"""What a process finds: its own at once, that of others within seconds."""

from datetime import timedelta

from tests.webhook.history.recording import ABOUT, hub, refuse
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
