"""What is found in the record."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from itertools import count

import pytest

from webhook.history.entry import EntryType, InvolvedObject, entry
from webhook.history.query import Query, find, parse_place
from webhook.history.record import RecordSource, chunk_document

NOW = datetime(2026, 3, 9, 12, tzinfo=UTC)
NUMBERS = count(1)
WEB = InvolvedObject("ResourcePlacement", "web", "team")


def at(minutes, kind=EntryType.REFUSAL, about=WEB, reason="C-02,A-01", by="jane", message="no"):
    return replace(entry(NOW + timedelta(minutes=minutes), kind, about, reason, message, by), id=f"pod-{next(NUMBERS)}")


ENTRIES = [
    at(0),
    at(1, by="bob"),
    at(2, kind=EntryType.GATE, about=InvolvedObject("NodePool", "general"), reason="Budget"),
    at(3, about=InvolvedObject("ResourcePlacement", "web", "other")),
]


def record(*lines):
    return chunk_document("harbormaster-history-1", "ours", RecordSource.LOOP, "pod", lines, NOW)


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
        pytest.param(Query(words=("c-02", "bob")), [1], id="words-in-any-order"),
        pytest.param(Query(words=("resourceplacement", "other/web")), [3], id="words-of-the-object"),
        pytest.param(Query(id=ENTRIES[2].id), [2], id="id"),
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


@pytest.mark.parametrize("limit", [1, 2, 3])
def test_pages_have_every_entry_once_also_those_of_one_second(limit):
    entries = [at(minutes, message=str(number)) for minutes in (0, 1, 2) for number in range(5)]
    seen, after = [], None
    for _ in range(len(entries)):
        found = find([record(*(each.line() for each in entries[:8]))], entries[8:], Query(limit=limit, after=after))
        seen += found.entries
        if not (token := found.token):
            break
        after = parse_place(token)
    assert (seen, found.more) == (sorted(entries, key=lambda each: each.place, reverse=True), False)


def test_what_is_repeated_before_it_is_known_to_be_written_counts_once():
    written = at(0)
    found = find([record(written.line())], [written.repeated(NOW + timedelta(seconds=5))], Query())
    assert [each.count for each in found.entries] == [2]
    assert find([record(written.line())], [written.repeated(NOW)], Query(before=NOW)).entries == ()


def test_objects_in_namespaces_are_shown_only_of_kinds_that_may_be_seen():
    others = [at(4, about=InvolvedObject("Pod", "p", "team")), at(5, about=InvolvedObject("Node", "n"))]
    found = find([], [*ENTRIES, *others], Query(in_namespaces=frozenset({"ResourcePlacement"})))
    assert [each.about.kind for each in found.entries] == [
        "Node",
        *["ResourcePlacement", "NodePool"],
        *["ResourcePlacement"] * 2,
    ]
