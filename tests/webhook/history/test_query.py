"""What is found in the record."""

from datetime import UTC, datetime, timedelta

import pytest

from webhook.history.entry import About, EntryType, entry
from webhook.history.query import Query, find
from webhook.history.record import Source, chunk_document

NOW = datetime(2026, 3, 9, 12, tzinfo=UTC)
WEB = About("ResourcePlacement", "web", "team")


def at(minutes, kind=EntryType.REFUSAL, about=WEB, reason="C-02,A-01", by="jane", message="no"):
    return entry(NOW + timedelta(minutes=minutes), kind, about, reason, message, by)


ENTRIES = [
    at(0),
    at(1, by="bob"),
    at(2, kind=EntryType.GATE, about=About("NodePool", "general"), reason="Budget"),
    at(3, about=About("ResourcePlacement", "web", "other")),
]


def record(*lines):
    return chunk_document("harbormaster-history-1", "ours", Source.LOOP, "pod", lines, NOW)


@pytest.mark.parametrize(
    ("query", "positions"),
    [
        pytest.param(Query(), [3, 2, 1, 0], id="all-latest-first"),
        pytest.param(Query(types=frozenset({EntryType.GATE})), [2], id="type"),
        pytest.param(Query(kind="NodePool"), [2], id="kind"),
        pytest.param(Query(name="web", namespace="team"), [1, 0], id="object"),
        pytest.param(Query(reason="A-01"), [3, 1, 0], id="one-of-several-rules"),
        pytest.param(Query(reason="A"), [], id="no-part-of-a-rule"),
        pytest.param(Query(by="bob"), [1], id="user"),
        pytest.param(Query(since=NOW + timedelta(minutes=2)), [3, 2], id="since"),
        pytest.param(Query(before=NOW + timedelta(minutes=2)), [1, 0], id="before"),
    ],
)
def test_a_query_finds_what_it_asks_for(query, positions):
    found = find([record(*(each.line() for each in ENTRIES[:2]))], ENTRIES[2:], query)
    assert [ENTRIES.index(each) for each in found.entries] == positions
    assert not found.more


def test_a_limit_keeps_the_latest_and_says_that_there_are_more():
    found = find([], ENTRIES, Query(limit=3))
    assert (list(found.entries), found.more) == (ENTRIES[:0:-1], True)


def test_lines_that_cannot_be_read_are_counted():
    found = find([record(ENTRIES[0].line(), "torn {", "also torn")], (), Query())
    assert (len(found.entries), found.unreadable) == (1, 2)


def test_what_is_not_of_the_record_does_not_count():
    foreign = record(ENTRIES[0].line()) | {"metadata": {"name": "harbormaster-history-1"}}
    assert find([foreign], (), Query()).entries == ()
