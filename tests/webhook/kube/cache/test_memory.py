"""Sharing keeps documents equal, and makes equal parts one."""

import copy
from unittest.mock import patch

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scorer.api.meta import dump_json
from webhook.kube.cache.memory import MOST_BYTES, Interner, _is_same_text

NUMBERS = st.integers(-2, 2) | st.floats(-2, 2).map(lambda number: number + 0.0)
"""Without -0.0, which is the same number as 0.0 in JSON, too."""
SCALARS = st.none() | st.booleans() | NUMBERS | st.text("ab", max_size=2)
DOCUMENTS = st.recursive(
    SCALARS,
    lambda parts: st.lists(parts, max_size=4) | st.dictionaries(st.text("ab", max_size=2), parts, max_size=4),
    max_leaves=20,
)


@given(documents=st.lists(st.dictionaries(st.text("ab", max_size=2), DOCUMENTS, max_size=4), max_size=6))
def test_documents_stay_what_they_are(documents):
    sharing, before = Interner(), copy.deepcopy(documents)
    for document in documents:
        sharing.share(document)
    assert [dump_json(document) for document in documents] == [dump_json(document) for document in before]


@given(states=st.lists(st.dictionaries(st.sampled_from(["metadata", "spec", "a"]), DOCUMENTS), max_size=6))
def test_an_object_stays_what_it_is_whatever_it_was_before(states):
    sharing, wanted, before = Interner(), copy.deepcopy(states), None
    for state in states:
        sharing.share(state, before)
        before = state
    assert [dump_json(state) for state in states] == [dump_json(state) for state in wanted]


def test_what_has_not_changed_is_taken_from_the_state_before():
    """Also what the table has forgotten, and what stands in a list or beside something that has changed."""

    def state(number):
        usage = {"capacity": {"cpu": "4"}, "available": {"cpu": f"{number}m"}}
        agents = [{"conditions": [{"type": "Joined"}], "heartbeat": f"{number}"}]
        return {
            "metadata": {"uid": "u", "labels": {"a": "b"}, "resourceVersion": f"{number}"},
            "spec": {"taints": [{"key": "gpu"}]},
            "status": {"usage": usage, "agents": agents},
        }

    first, second = state(1), state(2)
    Interner().share(first)
    Interner().share(second, first)
    assert second == state(2)
    assert second["spec"] is first["spec"]
    assert second["metadata"]["labels"] is first["metadata"]["labels"]
    assert second["status"]["usage"]["capacity"] is first["status"]["usage"]["capacity"]
    assert second["status"]["agents"][0]["conditions"] is first["status"]["agents"][0]["conditions"]


def test_what_members_come_to_have_in_common_is_one_though_each_reports_for_long():
    """Each comes to a new state at another time, and what it says in each report is forgotten meanwhile."""
    with patch("webhook.kube.cache.memory.MOST_BYTES", 100_000):
        sharing, known = Interner(), {}

        def report(name, number, version):
            conditions = [{"type": "Ready", "reason": f"at {version}"}]
            document = {"metadata": {"name": name}, "status": {"conditions": conditions, "usage": {"cpu": number}}}
            sharing.share(document, known.get(name))
            known[name] = document

        numbers = iter(range(100_000))
        for upgraded in range(60):
            for _ in range(4):
                for name in range(60):
                    report(name, next(numbers), "2" if name <= upgraded else "1")
        assert len({id(each["status"]["conditions"][0]) for each in known.values()}) <= 4
        for _ in range(60):
            for name in range(60):
                report(name, next(numbers), "2")
        assert len({id(each["status"]["conditions"][0]) for each in known.values()}) == 1


def test_a_deep_part_is_not_compared_at_each_level():
    def document(leaf):
        part = {"leaf": leaf, "text": "x" * 10}
        for _ in range(100):
            part = {"part": part}
        return {"spec": part}

    sharing, before, after = Interner(), document(1), document(1.0)
    sharing.share(before)
    with patch("webhook.kube.cache.memory._is_same_text", wraps=_is_same_text) as compared:
        sharing.share(after, before)
    assert compared.call_count <= 4
    assert dump_json(after) == dump_json(document(1.0))


def test_equal_numbers_of_another_type_have_changed():
    sharing, before = Interner(), None
    for value in (1, 1.0, True, 0, 0.0, False):
        document = {"spec": {"nested": [{"x": value}], "y": value}}
        sharing.share(document, before)
        before = document
        found = [document["spec"]["y"], document["spec"]["nested"][0]["x"]]
        assert [*map(repr, found)] == [repr(value)] * 2


@pytest.mark.parametrize("value", [2**70, [[]]], ids=["an integer of 71 bits", "nested 300 levels deep"])
def test_what_cannot_be_written_as_json_is_shared_as_ever(value):
    def document():
        part = copy.deepcopy(value)
        for _ in range(300):
            part = [part]
        return {"spec": {"part": part, "other": {"a": 1}}}

    before, after = document(), document()
    sharing = Interner()
    sharing.share(before)
    sharing.share(after, before)
    assert after == before
    assert after["spec"]["other"] is before["spec"]["other"]


def test_equal_parts_are_one():
    sharing = Interner()
    first, second = ({"status": {"conditions": [{"type": "Applied", "status": "True"}]}} for _ in range(2))
    sharing.share(first)
    sharing.share(second)
    assert first["status"]["conditions"][0] is second["status"]["conditions"][0]
    assert first["status"]["conditions"] is not second["status"]["conditions"]


def test_equal_parts_of_equal_parts_are_one_once_they_have_been_seen_often_enough():
    sharing = Interner()
    documents = [
        {"metadata": {"uid": str(number)}, "status": {"all": [{"type": "Applied"}, ["a", {"b": 1}]], "more": {}}}
        for number in range(5)
    ]
    for document in documents:
        sharing.share(document)
    assert documents[-2]["status"] is documents[-1]["status"]
    for document in documents:  # whatever is shared again stays what it is
        sharing.share(document)
    assert [document["metadata"]["uid"] for document in documents] == ["0", "1", "2", "3", "4"]


def test_equal_numbers_of_another_type_are_no_equal_parts():
    sharing, documents = Interner(), [{"part": {"nested": [{"x": value}]}} for value in (1, 1.0, True, 1, 1.0, True)]
    for document in documents:
        sharing.share(document)
    assert [type(document["part"]["nested"][0]["x"]) for document in documents] == [int, float, bool] * 2


def test_metadata_is_not_remembered():
    sharing = Interner()
    for number in range(100):
        sharing.share({"metadata": {"uid": str(number), "labels": {"a": "b"}, "finalizers": ["c"]}})
    assert len(sharing._parts) == 2


TEXT = "x" * 1000


def table_bytes(sharing):
    """Return the size of all texts in a table, each counted once."""
    texts = {id(text): text for parts in (sharing._parts, sharing._earlier) for key in parts for text in key}
    return sum(len(text) for text in texts.values() if isinstance(text, str))


def test_parts_that_do_not_come_again_are_forgotten():
    """A member that reports for years leaves no more behind than one that has reported for some hours."""
    sharing = Interner()
    numbers = range(4 * MOST_BYTES // len(TEXT))
    documents = [{"part": {"text": f"{number}{TEXT}"}} for number in numbers]
    for document in documents:
        sharing.share(document)
        assert sharing.bytes <= 2 * MOST_BYTES + 2 * len(TEXT)
    assert table_bytes(sharing) <= sharing.bytes
    assert [document["part"]["text"] for document in documents] == [f"{number}{TEXT}" for number in numbers]


def test_parts_that_come_again_stay_one():
    sharing = Interner()
    first = {"part": [{"number": -1}, {"nested": {"in": "it"}}]}
    sharing.share(first)
    generation = MOST_BYTES // len(TEXT)
    for number in range(3 * generation):
        sharing.share({"part": {"text": f"{number}{TEXT}"}})
        if number % (generation // 2) == 0:
            again = {"part": [{"number": -1}, {"nested": {"in": "it"}}]}
            sharing.share(again)
            assert again["part"][0] is first["part"][0]


@pytest.mark.parametrize(
    "content",
    [
        pytest.param(lambda version: {"page": "<td></td>" * 90_000, "version": version}, id="one long text"),
        pytest.param(lambda version: {f"{version}-{line}": "<td></td>" for line in range(40_000)}, id="many names"),
        pytest.param(lambda version: [f"{version}-{line}" for line in range(40_000)], id="a long list"),
    ],
)
def test_no_version_of_large_content_is_kept(content):
    """A ConfigMap of 800 KB that changes every minute."""
    sharing, before = Interner(), None
    for version in range(10):
        document = {"kind": "ConfigMap", "data": content(version), "labels": {"app": "shop"}}
        sharing.share(document, before)
        assert document["data"] == content(version)
        before = document
    assert table_bytes(sharing) < 1000
    again = {"kind": "ConfigMap", "data": content(9), "labels": {"app": "shop"}}
    sharing.share(again, before)
    assert again["data"] is before["data"], "the state before is enough to keep one copy"


def test_no_version_of_large_content_is_kept_beside_a_field_that_changes_alone():
    sharing, before = Interner(), None
    for number in range(40):
        page = {f"{number // 2}-{line}": "<td></td>" for line in range(4_000)}
        document = {"kind": "Page", "spec": {"template": {"data": page}, "replicas": number}}
        sharing.share(document, before)
        assert document["spec"] == {"template": {"data": page}, "replicas": number}
        before = document
    templates = [part["template"] for part in sharing._parts.values() if "template" in part]
    assert templates == []


def test_the_times_of_reports_are_not_kept():
    """No later report has them; parts beside them are shared."""
    sharing = Interner()
    for number in range(100):
        time = f"2026-11-28T10:00:{number}Z"
        usage = {"capacity": {"cpu": "4"}, "observationTime": time}
        agents = [{"type": "MemberAgent", "lastReceivedHeartbeat": time}]
        properties = {"nodes": {"value": "2", "observationTime": time}}
        sharing.share({"status": {"resourceUsage": usage, "agentStatus": agents, "properties": properties}})
    assert [*sharing._parts.values()] == [{"cpu": "4"}]


@given(numbers=st.lists(st.integers(0, 6), max_size=60))
def test_documents_stay_what_they_are_while_parts_are_forgotten(numbers):
    sharing = Interner()
    documents = [{"status": {"all": [{"n": number}, [{"n": number % 3}]], "n": number % 2}} for number in numbers]
    with patch("webhook.kube.cache.memory.MOST_BYTES", 500):
        for document in documents:
            sharing.share(document)
    assert [document["status"]["all"][0]["n"] for document in documents] == numbers
    assert [document["status"]["all"][1][0]["n"] for document in documents] == [number % 3 for number in numbers]
