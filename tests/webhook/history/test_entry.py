"""One thing that has happened, as a line of the record."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scorer.api.event import Event
from webhook.history.entry import MESSAGE_BYTES, EntryType, InvolvedObject, entry, of_event, read_entry

NOW = datetime(2026, 3, 2, 8, tzinfo=UTC)
ABOUT = InvolvedObject("ClusterResourcePlacement", "web")


def made(message="not now", by="jane"):
    return replace(entry(NOW, EntryType.REFUSAL, ABOUT, "C-02", message, by), id="ab-1")


@pytest.mark.parametrize(
    "found",
    [
        pytest.param(made(), id="cluster-scoped"),
        pytest.param(replace(made(by=""), about=InvolvedObject("Pod", "a", "b")), id="namespaced-by-nobody"),
        pytest.param(made().repeated(NOW + timedelta(seconds=5)), id="repeated"),
    ],
)
def test_a_line_is_read_as_it_was_written(found):
    assert read_entry(found.line()) == found


def test_a_line_of_before_there_were_ids_has_one_that_stays():
    line = made().line().replace('"id":"ab-1",', "")
    first, other = read_entry(line), read_entry(line.replace("not now", "never"))
    assert first.id == read_entry(line).id != other.id


@given(st.text(max_size=3000), st.text(max_size=400))
def test_any_text_makes_one_line_of_bounded_length(message, by):
    found = made(message, by)
    assert "\n" not in found.line()
    assert len(found.message.encode()) <= MESSAGE_BYTES
    assert read_entry(found.line()) == found


@pytest.mark.parametrize(
    "line",
    [
        "",
        "{",
        "[]",
        '"text"',
        "{}",
        made().line().replace("Refusal", "Nothing"),
        made().line().replace("2026-03-02", "2026-13-02"),
        made().line().replace('"web"', "7"),
        made().line().replace('"by":"jane"', '"count":-1'),
        made().line().replace('"by":"jane"', '"count":true'),
    ],
)
def test_what_is_no_entry_is_not_read(line):
    assert read_entry(line) is None


@pytest.mark.parametrize(
    ("kind", "reason", "told"),
    [
        ("ClusterResourcePlacement", "ClustersPicked", EntryType.DECISION),
        ("ResourcePlacement", "PlacementAvailable", EntryType.ROLLOUT),
        ("ClusterStagedUpdateRun", "StagedUpdateFailed", EntryType.ROLLOUT),
        ("ClusterUpgradeRun", "RunFailed", EntryType.ROLLOUT),
        ("MemberCluster", "MemberClusterJoined", EntryType.EVENT),
    ],
)
def test_an_event_has_the_type_of_what_it_tells(kind, reason, told):
    document = {"kind": kind, "metadata": {"name": "web", "namespace": "team"}}
    found = of_event(document, Event(reason, "as it is"), NOW)
    assert (found.type, found.about, found.message) == (told, InvolvedObject(kind, "web", "team"), "as it is")
