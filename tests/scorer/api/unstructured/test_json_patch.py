"""Applying a JSON Patch: what it must not do, and where it says that it does not fit."""

import copy

import pytest

from scorer.api.unstructured.json_patch import PatchError, apply_patch

DOCUMENT = {"a": {"b": [1, {"c": 2}, 3]}, "x/y": 1, "t~": 2, "": {"": 0}}


@pytest.mark.parametrize(
    ("patch", "wanted"),
    [
        pytest.param({"op": "add", "path": "/a/b/1/d", "value": 3}, {"a": {"b": [1, {"c": 2, "d": 3}, 3]}}, id="deep"),
        pytest.param({"op": "replace", "path": "/x~1y", "value": 2}, {"x/y": 2}, id="slash"),
        pytest.param({"op": "replace", "path": "/t~0", "value": 3}, {"t~": 3}, id="tilde"),
        pytest.param({"op": "add", "path": "//", "value": 1}, {"": {"": 1}}, id="empty-names"),
        pytest.param({"op": "add", "path": "/a", "value": None}, {"a": None}, id="null"),
        pytest.param({"op": "add", "path": "/a", "value": 1}, {"a": 1}, id="add-over-a-member"),
    ],
)
def test_one_operation(patch, wanted):
    kept = copy.deepcopy(DOCUMENT)
    assert apply_patch(DOCUMENT, [patch]) == {**DOCUMENT, **wanted}
    assert kept == DOCUMENT


def test_operations_see_what_the_ones_before_have_done():
    patch = [
        {"op": "add", "path": "/n", "value": []},
        {"op": "add", "path": "/n/-", "value": "b"},
        {"op": "add", "path": "/n/0", "value": "a"},
        {"op": "remove", "path": "/n/1"},
    ]
    assert apply_patch({}, patch) == {"n": ["a"]}


@pytest.mark.parametrize(
    ("operation", "words"),
    [
        pytest.param({"op": "replace", "path": "/no", "value": 1}, "'/no' does not exist", id="replace-of-nothing"),
        pytest.param({"op": "remove", "path": "/a/b/3"}, "'/a/b/3' does not exist", id="remove-past-the-end"),
        pytest.param({"op": "add", "path": "/a/b/-1", "value": 1}, "'-1' is not a list position", id="negative"),
        pytest.param({"op": "remove", "path": "/a/b/-"}, "'-' is not a list position", id="remove-the-end"),
        pytest.param({"op": "add", "path": "/x~1y/z", "value": 1}, "does not exist", id="below-a-number"),
        pytest.param({"op": "add", "path": "/t~2", "value": 1}, "not a JSON Pointer", id="broken-escape"),
        pytest.param({"op": "add", "path": "/t~", "value": 1}, "not a JSON Pointer", id="open-escape"),
        pytest.param({"op": "add", "path": "/n"}, "must have a value", id="no-value"),
        pytest.param({"op": "move", "path": "/n", "from": "/a"}, "'move' must be add, remove or replace", id="unknown"),
        pytest.param({"op": "add"}, "not a JSON Pointer", id="no-path"),
    ],
)
def test_an_operation_that_does_not_fit_is_told_by_its_position(operation, words):
    with pytest.raises(PatchError, match=words) as caught:
        apply_patch(DOCUMENT, [{"op": "add", "path": "/n", "value": 1}, operation])
    assert caught.value.position == 1
