"""What of the record is kept."""

from datetime import UTC, datetime, timedelta

import pytest

from webhook.history.record import MOST_CHUNKS, RecordSource, Retention, chunk_document, chunk_name

NOW = datetime(2026, 3, 9, tzinfo=UTC)
WEEK = Retention(timedelta(days=7), 1000)


def chunk(name="a", *, days=0.0, size=10, source=RecordSource.LOOP):
    return chunk_document(
        f"harbormaster-history-{name}", "ours", source, "pod", ["x" * size], NOW - timedelta(days=days)
    )


def outdated(*chunks, own=""):
    found = WEEK.outdated(chunks, own and f"harbormaster-history-{own}", NOW)
    return [each["metadata"]["name"].removeprefix("harbormaster-history-") for each in found]


def strange(**changes):
    return {**chunk(days=30), **changes}


@pytest.mark.parametrize(
    ("chunks", "going"),
    [
        pytest.param([chunk(days=6.9)], [], id="young"),
        pytest.param([chunk("b", days=7.1), chunk("a", days=8)], ["a", "b"], id="old-ones-oldest-first"),
        pytest.param([chunk("a", size=600), chunk("b", days=1, size=600)], ["b"], id="too-much"),
        pytest.param(
            [chunk("a", size=900, source=RecordSource.SERVER), chunk("b", days=1, size=900)],
            [],
            id="a-share-for-each-source",
        ),
        pytest.param([strange(metadata={"name": "harbormaster-history-a"})], [], id="not-labelled"),
        pytest.param(
            [strange(metadata={"name": "theirs", "labels": {"harbormaster.dev/history": "true"}})], [], id="other-name"
        ),
        pytest.param([strange(data={})], ["a"], id="without-data"),
    ],
)
def test_whole_config_maps_go_by_age_and_size(chunks, going):
    assert outdated(*chunks) == going


def test_the_one_that_is_being_written_stays():
    assert outdated(chunk("a", days=8), chunk("b", days=9), own="a") == ["b"]


def test_there_are_never_more_than_so_many():
    chunks = [chunk(str(each), days=each / 1000, size=0) for each in range(MOST_CHUNKS + 2)]
    assert outdated(*chunks) == [str(MOST_CHUNKS + 1), str(MOST_CHUNKS)]


def test_names_sort_by_time_and_differ_by_process_and_number():
    names = [chunk_name(NOW + timedelta(seconds=1), "a", 1), chunk_name(NOW, "a", 1), chunk_name(NOW, "a", 2)]
    names.append(chunk_name(NOW, "b", 1))
    assert len(set(names)) == 4
    assert max(names) == names[0]
