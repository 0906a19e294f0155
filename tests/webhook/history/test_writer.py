"""How the record is written: rarely, in bounds, and without losing anything."""

import asyncio
from datetime import timedelta

import pytest

from scorer.api.event import Event
from scorer.api.kinds import CONFIG_MAP
from tests.webhook.history.recording import WEEK, hub, refuse
from webhook.history.record import CHUNK_BYTES, STRETCHES, Retention, size_of
from webhook.history.writer import MOST_OF_USER, MOST_WAITING
from webhook.kube.ports import UnavailableError, key_of


async def test_nothing_is_written_while_nothing_happens():
    async with hub() as it:
        await it.writer().flush()
        assert await it.chunks() == ()


async def test_a_process_goes_on_in_its_config_map():
    async with hub() as it:
        writer = it.writer()
        for message in ("one", "two", "three"):
            refuse(writer, message)
            await writer.flush()
        assert len(await it.chunks()) == 1
        assert {each.message for each in (await it.found()).entries} == {"one", "two", "three"}


async def test_two_processes_keep_records_of_their_own():
    async with hub() as it:
        for name in ("a", "b"):
            writer = it.writer(name)
            refuse(writer, f"by {name}")
            await writer.flush()
        assert len(await it.chunks()) == 2
        assert len((await it.found()).entries) == 2


async def test_what_repeats_is_one_entry_with_a_count():
    async with hub() as it:
        writer = it.writer()
        refuse(writer)
        it.now += timedelta(seconds=3)
        refuse(writer)
        await writer.flush()
        (known,) = (await it.found()).entries
        assert (known.count, known.last) == (2, it.now)


async def test_repetitions_in_the_same_words_are_counted_between_two_questions_and_two_writes():
    async with hub() as it:
        writer = it.writer()
        for _ in range(5):
            refuse(writer)
            it.now += timedelta(seconds=1)
        assert [(each.count, each.until) for each in writer.waiting()] == [(5, it.now - timedelta(seconds=1))]
        refuse(writer)
        refuse(writer, by="joe")
        assert [each.count for each in writer.waiting()] == [6, 1]
        refuse(writer)
        await writer.flush()
        refuse(writer)
        refuse(writer)
        await writer.flush()
        assert sorted((each.by, each.count) for each in (await it.found()).entries) == [
            ("jane", 2),
            ("jane", 7),
            ("joe", 1),
        ]


async def test_repetitions_while_the_hub_is_written_to_are_all_counted():
    async with hub() as it:
        writer = it.writer()
        refuse(writer)
        create = it.store.create

        async def slow(kind, document):
            for _ in range(3):
                refuse(writer)
            return await create(kind, document)

        it.store.create = slow
        await writer.flush()
        assert [each.count for each in writer.waiting()] == [3]


async def test_long_messages_are_noted_each_time():
    async with hub() as it:
        writer = it.writer()
        for _ in range(3):
            refuse(writer, "no" * 1000)
        assert writer._repetitions == {}
        assert [each.count for each in writer.waiting()] == [3]


async def test_a_repetition_while_it_is_written_is_told_once():
    async with hub() as it:
        writer = it.writer()
        refuse(writer)
        create = it.store.create

        async def slow(kind, document):
            it.now += timedelta(seconds=1)
            refuse(writer)
            return await create(kind, document)

        it.store.create = slow
        await writer.flush()
        assert [each.count for each in writer.waiting()] == [1]
        it.store.create = create
        await writer.flush()
        assert [each.count for each in (await it.found()).entries] == [1, 1]


async def test_what_cannot_be_written_waits():
    async with hub() as it:
        writer = it.writer()
        refuse(writer)
        create = it.store.create

        async def gone(kind, document):
            raise UnavailableError("the hub is away")

        it.store.create = gone
        with pytest.raises(UnavailableError):
            await writer.flush()
        assert len(writer.waiting()) == 1
        it.store.create = create
        await writer.flush()
        assert len((await it.found()).entries) == 1


async def test_an_answer_that_was_lost_does_not_count_twice():
    async with hub() as it:
        writer = it.writer()
        refuse(writer)
        create = it.store.create

        async def lost(kind, document):
            await create(kind, document)
            raise UnavailableError("the answer was lost")

        it.store.create = lost
        with pytest.raises(UnavailableError):
            await writer.flush()
        it.store.create = create
        await writer.flush()
        assert len((await it.found()).entries) == 1


@pytest.mark.parametrize("loss", ["deleted", "changed"])
async def test_a_config_map_that_somebody_takes_is_left_to_them(loss):
    async with hub() as it:
        writer = it.writer()
        refuse(writer, "one")
        await writer.flush()
        (chunk,) = await it.chunks()
        if loss == "deleted":
            await it.store.delete(CONFIG_MAP, key_of(chunk))
        else:
            await it.store.replace(CONFIG_MAP, {**chunk, "data": {"note": "mine"}})
        refuse(writer, "two")
        await writer.flush()
        assert [each.message for each in (await it.found()).entries] == ["two"]


async def test_a_full_config_map_is_followed_by_the_next():
    async with hub() as it:
        writer = it.writer()
        for number in range(700):
            refuse(writer, f"{number:04}" + "x" * 900, by=f"user-{number}")
        await writer.flush()
        chunks = await it.chunks()
        assert max(map(size_of, chunks)) <= CHUNK_BYTES < sum(map(size_of, chunks))
        assert len((await it.found(limit=1000)).entries) == 700


async def test_one_user_does_not_crowd_out_others():
    async with hub() as it:
        writer = it.writer()
        for number in range(MOST_OF_USER + 50):
            refuse(writer, str(number), by="mallory")
        refuse(writer, "mine", by="jane")
        await writer.flush()
        found = await it.found(limit=1000)
        assert any(each.by == "jane" for each in found.entries)
        assert [each.message for each in found.entries if each.reason == "EntriesDropped"] == [
            "pod recorded too many entries within one write interval: 50 dropped"
        ]
        refuse(writer, "later", by="mallory")
        assert len(writer.waiting()) == 1


async def test_what_waits_is_bounded():
    async with hub() as it:
        writer = it.writer()
        for number in range(MOST_WAITING + 500):
            writer.note_event({"kind": "MemberCluster", "metadata": {"name": f"m-{number}"}}, Event("Joined", "it has"))
        assert len(writer.waiting()) == MOST_WAITING


async def test_old_config_maps_of_any_process_are_taken_away():
    async with hub() as it:
        refuse(old := it.writer("gone"))
        await old.flush()
        it.now += timedelta(days=8)
        refuse(writer := it.writer(), "new")
        await writer.flush()
        assert [each.message for each in (await it.found()).entries] == ["new"]


@pytest.mark.parametrize(
    ("method", "message"),
    [("create", "history write failed"), ("list", "history retention failed")],
)
async def test_a_failure_is_logged_once_with_its_step(caplog, monkeypatch, method, message):
    caplog.set_level("INFO")
    async with hub() as it:
        writer = it.writer()
        works = getattr(it.store, method)

        async def fails(*_, **__):
            raise UnavailableError("the hub is down")

        monkeypatch.setattr(it.store, method, fails)
        for number in range(3):
            refuse(writer, str(number))
            await writer.write()
        monkeypatch.setattr(it.store, method, works)
        await writer.write()
        assert [record.message for record in caplog.records] == [message, "history writes resumed"]
        assert {each.message for each in (await it.found()).entries} == {"0", "1", "2"}


async def test_the_end_of_a_process_writes_what_waits():
    async with hub() as it:
        writer = it.writer()
        running = asyncio.create_task(writer.run())
        await asyncio.sleep(0)
        refuse(writer)
        running.cancel()
        await asyncio.wait([running])
        assert len((await it.found()).entries) == 1


async def test_a_flood_of_refusals_is_held_to_the_size_that_is_kept_without_waiting_for_the_hour():
    async with hub() as it:
        writer = it.writer(retention=Retention(timedelta(days=7), 2**20))
        for batch in range(12):
            for number in range(500):
                refuse(writer, f"{batch}-{number}-" + "x" * 900, by=f"user-{number}")
            await writer.flush()
        assert sum(map(size_of, await it.chunks())) <= 2**20 + 2**20 // 8 + CHUNK_BYTES


async def test_a_clock_that_was_ahead_does_not_keep_old_config_maps_from_being_taken_away():
    async with hub() as it:
        refuse(old := it.writer("gone"))
        await old.flush()
        writer = it.writer()
        it.now += timedelta(days=3650)
        await writer.delete_expired()
        it.now -= timedelta(days=3650)
        refuse(old := it.writer("gone too"), "again")
        await old.flush()
        it.now += timedelta(days=8)
        await writer.flush()
        assert await it.chunks() == ()


async def test_a_clock_that_is_set_back_does_not_make_a_config_map_look_older_than_what_is_in_it():
    async with hub() as it:
        writer = it.writer()
        refuse(writer, "today")
        await writer.flush()
        it.now -= timedelta(days=30)
        refuse(writer, "last month, it seems")
        await writer.flush()
        it.now += timedelta(days=30)
        await it.writer("other").delete_expired()
        assert "today" in {each.message for each in (await it.found()).entries}


async def test_what_is_told_seldom_is_kept_little_longer_than_it_is_to_be():
    async with hub() as it:
        writer = it.writer()
        for day in range(30):
            refuse(writer, str(day))
            await writer.flush()
            it.now += timedelta(days=1)
        oldest = min(each.time for each in (await it.found()).entries)
        assert it.now - oldest <= WEEK.age + 2 * WEEK.age / STRETCHES


async def test_what_two_processes_refuse_in_one_second_is_two_entries():
    async with hub() as it:
        for name in "ab":
            refuse(writer := it.writer(name))
            await writer.flush()
        assert len((await it.found()).entries) == 2


async def test_what_is_repeated_in_the_second_in_which_it_was_written_is_not_lost():
    async with hub() as it:
        writer = it.writer()
        for _ in range(3):
            refuse(writer)
            await writer.flush()
        assert sum(each.count for each in (await it.found()).entries) == 3


async def test_what_was_written_in_part_and_is_repeated_before_the_rest_is_written_counts_once():
    async with hub() as it:
        writer = it.writer()
        create, made = it.store.create, []

        async def second_fails(kind, document):
            made.append(document)
            if len(made) == 2:
                raise UnavailableError("the hub is away")
            return await create(kind, document)

        it.store.create = second_fails
        for _ in range(2):
            for number in range(500):
                refuse(writer, f"{number:04}" + "x" * 900, by=f"user-{number}")
            if not made:
                with pytest.raises(UnavailableError):
                    await writer.flush()
        await writer.flush()
        assert {each.count for each in (await it.found(limit=1000)).entries} == {2}


async def test_what_is_dropped_while_the_hub_is_away_is_said_once_and_takes_no_room():
    async with hub() as it:
        writer = it.writer()
        create = it.store.create

        async def away(kind, document):
            raise UnavailableError("the hub is away")

        it.store.create = away
        for batch in range(1, 6):
            for number in range(MOST_OF_USER + batch):
                refuse(writer, f"{batch}-{number}", by="mallory")
            with pytest.raises(UnavailableError):
                await writer.flush()
        assert len(writer.waiting()) == MOST_OF_USER
        it.store.create = create
        await writer.flush()
        (told,) = (await it.found(reason="EntriesDropped")).entries
        assert (
            told.message == f"pod recorded too many entries within one write interval: {4 * MOST_OF_USER + 15} dropped"
        )
