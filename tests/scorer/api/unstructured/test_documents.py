import copy
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scorer.api.names import IS_LATEST_SNAPSHOT, RESOURCE_INDEX
from scorer.api.unstructured.documents import (
    annotation,
    annotations_of,
    conditions_of,
    current_condition,
    dict_at,
    dicts_at,
    finalizers_of,
    find_current,
    generation_of,
    index_of,
    is_deleting,
    is_labelled_latest,
    label,
    labels_of,
    list_at,
    metadata_of,
    name_of,
    namespace_of,
    owner_reference,
    spec_of,
    status_of,
    text_at,
    texts_at,
    uid_of,
    with_finalizer,
    with_metadata,
    with_spec,
    without_finalizer,
)

READY = {"type": "Ready", "status": "True", "observedGeneration": 3}
WHOLE = {
    "apiVersion": "v1",
    "kind": "Thing",
    "metadata": {
        "name": "shop",
        "namespace": "team",
        "uid": "u-1",
        "generation": 3,
        "labels": {IS_LATEST_SNAPSHOT: "true", RESOURCE_INDEX: "7"},
        "annotations": {"note": "kept"},
        "finalizers": ["held"],
        "deletionTimestamp": "2026-01-01T00:00:00Z",
    },
    "spec": {"policy": {"names": ["a"], "terms": [{"kind": "Secret"}], "type": "PickAll"}},
    "status": {"conditions": [READY]},
}

READERS = {
    "metadata_of": (metadata_of, ("metadata",), WHOLE["metadata"], {}),
    "spec_of": (spec_of, ("spec",), WHOLE["spec"], {}),
    "status_of": (status_of, ("status",), WHOLE["status"], {}),
    "name_of": (name_of, ("metadata", "name"), "shop", ""),
    "namespace_of": (namespace_of, ("metadata", "namespace"), "team", ""),
    "uid_of": (uid_of, ("metadata", "uid"), "u-1", ""),
    "generation_of": (generation_of, ("metadata", "generation"), 3, 0),
    "labels_of": (labels_of, ("metadata", "labels"), WHOLE["metadata"]["labels"], {}),
    "label": (lambda document: label(document, RESOURCE_INDEX), ("metadata", "labels", RESOURCE_INDEX), "7", ""),
    "index_of": (lambda document: index_of(document, RESOURCE_INDEX), ("metadata", "labels", RESOURCE_INDEX), 7, -1),
    "is_labelled_latest": (is_labelled_latest, ("metadata", "labels", IS_LATEST_SNAPSHOT), True, False),
    "annotations_of": (annotations_of, ("metadata", "annotations"), {"note": "kept"}, {}),
    "annotation": (lambda document: annotation(document, "note"), ("metadata", "annotations", "note"), "kept", ""),
    "finalizers_of": (finalizers_of, ("metadata", "finalizers"), ["held"], []),
    "is_deleting": (is_deleting, ("metadata",), True, False),
    "conditions_of": (lambda document: list(conditions_of(document)), ("status", "conditions"), [READY], []),
    "current_condition": (
        lambda document: current_condition(document, "Ready"),
        ("status", "conditions"),
        READY,
        None,
    ),
    "dict_at": (
        lambda document: dict_at(document, "spec", "policy"),
        ("spec", "policy"),
        WHOLE["spec"]["policy"],
        {},
    ),
    "dicts_at": (
        lambda document: dicts_at(document, "spec", "policy", "terms"),
        ("spec", "policy", "terms"),
        [{"kind": "Secret"}],
        [],
    ),
    "texts_at": (
        lambda document: texts_at(document, "spec", "policy", "names"),
        ("spec", "policy", "names"),
        ["a"],
        [],
    ),
    "list_at": (lambda document: list_at(document, "spec", "policy", "names"), ("spec", "policy", "names"), ["a"], []),
    "text_at": (
        lambda document: text_at(document, "spec", "policy", "type"),
        ("spec", "policy", "type"),
        "PickAll",
        "",
    ),
}
"""By name: the reader, the path of what it reads, what `WHOLE` has there, and what it returns when there is none."""

SCALARS = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=4)
WORDS = st.sampled_from(["metadata", "labels", "name", "type", "conditions", "policy", RESOURCE_INDEX])
JSON = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(WORDS, inner, max_size=3), max_leaves=6
)

ONE_OF_EACH_TYPE = [None, True, 2, 1.5, "true", [], ["metadata", None], {}, {"name": 1}]

every_reader = pytest.mark.parametrize(("read", "path", "found", "empty"), READERS.values(), ids=READERS.keys())


def paths(value: object, path: tuple[str | int, ...] = ()):
    """Yield the path of each value in *value*, but its own."""
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, item in inner:
        yield (*path, key)
        yield from paths(item, (*path, key))


def at(document, path):
    """Return what stands at *path*."""
    for part in path:
        document = document[part]
    return document


def damaged(path, value):
    """Return `WHOLE` with *value* at *path*."""
    document = copy.deepcopy(WHOLE)
    at(document, path[:-1])[path[-1]] = value
    return document


def without(path):
    """Return `WHOLE` without what stands at *path*."""
    document = copy.deepcopy(WHOLE)
    del at(document, path[:-1])[path[-1]]
    return document


@every_reader
def test_what_is_there_is_returned(read, path, found, empty):
    assert read(WHOLE) == found != empty


@every_reader
def test_what_is_absent_reads_as_the_empty_value(read, path, found, empty):
    for depth in range(1, len(path) + 1):
        assert read(without(path[:depth])) == empty


@every_reader
def test_a_value_of_another_type_reads_as_the_empty_value(read, path, found, empty):
    """Wherever on the way to what is read, and at the place itself."""
    for depth in range(1, len(path) + 1):
        right = type(at(WHOLE, path[:depth]))
        for value in ONE_OF_EACH_TYPE:
            if type(value) is not right:
                assert read(damaged(path[:depth], value)) == empty


@given(path=st.sampled_from(list(paths(WHOLE))), value=JSON)
def test_no_value_in_any_place_breaks_a_reader(path, value):
    document = damaged(path, value)
    before = json.dumps(document)
    for read, _, found, empty in READERS.values():
        assert type(read(document)) in (type(found), type(empty))
    assert json.dumps(document) == before


@given(document=JSON, members=st.lists(WORDS, max_size=3))
def test_a_path_leads_nowhere_in_what_is_no_object(document, members):
    """The readers of a path take anything for a document: also an item of a list that may hold anything."""
    assert isinstance(dict_at(document, *members), dict)
    assert isinstance(list_at(document, *members), list)
    assert isinstance(text_at(document, *members), str)
    assert all(isinstance(item, dict) for item in dicts_at(document, *members))
    assert all(isinstance(item, str) for item in texts_at(document, *members))


@pytest.mark.parametrize("value", ONE_OF_EACH_TYPE, ids=repr)
def test_no_damage_breaks_a_writer(value):
    for document in (damaged(path, value) for path in paths(WHOLE)):
        assert label(with_metadata(document, labels={"a": "b"}), "a") == "b"
        assert annotation(with_metadata(document, annotations={"a": "b", "c": None}), "a") == "b"
        assert spec_of(with_spec(document, state="Bound"))["state"] == "Bound"
        held = with_finalizer(document, "ours")
        assert held is not None
        assert finalizers_of(held)[-1] == "ours"
        assert without_finalizer(document, "ours") is None
        assert isinstance(owner_reference(document)["uid"], str)


def test_what_is_no_text_is_no_label():
    document = {"metadata": {"labels": {"a": "b", "c": 1, "d": None}, "annotations": {"a": ["b"], "c": "d"}}}
    assert labels_of(document) == {"a": "b"}
    assert annotations_of(document) == {"c": "d"}


def test_items_that_are_no_objects_are_left_out():
    document = {"status": {"conditions": [None, "Ready", READY, 3]}, "metadata": {"finalizers": [1, "held", None]}}
    assert conditions_of(document) == [READY]
    assert find_current(document["status"]["conditions"], "Ready", 3) == READY
    assert finalizers_of(document) == ["held"]


@pytest.mark.parametrize("mark", [None, "", 0, False, [], {}], ids=repr)
def test_an_empty_mark_deletes_nothing(mark):
    assert not is_deleting(damaged(("metadata", "deletionTimestamp"), mark))


@pytest.mark.parametrize("generation", [True, 3.0, "3"], ids=repr)
def test_a_generation_is_a_whole_number(generation):
    assert generation_of(damaged(("metadata", "generation"), generation)) == 0


@pytest.mark.parametrize(
    ("observed", "generation", "is_current"),
    [
        pytest.param({"observedGeneration": 3}, 3, True, id="of-this-generation"),
        pytest.param({"observedGeneration": 2}, 3, False, id="of-an-earlier-one"),
        pytest.param({}, 0, True, id="without-generations"),
        pytest.param({"observedGeneration": None}, 0, True, id="null"),
        pytest.param({}, 1, False, id="of-none"),
    ],
)
def test_a_condition_is_current_when_it_speaks_about_this_generation(observed, generation, is_current):
    document = {
        "metadata": {"generation": generation},
        "status": {"conditions": [{"type": "Other"}, {"type": "Ready", **observed}, READY]},
    }
    assert (current_condition(document, "Ready") is not None) is is_current


@pytest.mark.parametrize(
    ("text", "index"),
    [("0", 0), ("12", 12), ("-1", -1), ("1.5", -1), ("", -1), ("٣", -1), ("²", -1), (" 1", -1)],
)
def test_an_index_is_written_in_digits(text, index):
    assert index_of({"metadata": {"labels": {RESOURCE_INDEX: text}}}, RESOURCE_INDEX) == index


def test_writers_copy_what_they_change_and_nothing_else():
    before = copy.deepcopy(WHOLE)
    changed = with_metadata(WHOLE, labels={"new": "1"}, annotations={"note": None})
    assert changed["metadata"]["labels"] == {**WHOLE["metadata"]["labels"], "new": "1"}
    assert changed["metadata"]["annotations"] == {}
    assert changed["spec"] is WHOLE["spec"]
    assert with_spec(WHOLE, policy=None)["spec"] == {}
    assert with_finalizer(WHOLE, "held") is None
    assert finalizers_of(with_finalizer(WHOLE, "more")) == ["held", "more"]
    assert finalizers_of(without_finalizer(WHOLE, "held")) == []
    assert before == WHOLE
