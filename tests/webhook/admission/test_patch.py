"""JSON Patch: the difference between documents and its application."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scorer.api.meta import json_equal
from webhook.admission.patch import PatchError, apply_patch, difference

SCALARS = st.none() | st.booleans() | st.integers(-5, 5) | st.text("ab/~", max_size=2)
KEYS = st.text("ab/~-0", max_size=2)
DOCUMENTS = st.dictionaries(
    KEYS,
    st.recursive(
        SCALARS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=3), max_leaves=8
    ),
    max_size=4,
)


@given(old=DOCUMENTS, new=DOCUMENTS)
def test_the_difference_leads_from_old_to_new(old, new):
    assert json_equal(apply_patch(old, difference(old, new)), new)


@given(document=DOCUMENTS)
def test_nothing_differs_from_itself(document):
    assert difference(document, dict(document)) == ()


@pytest.mark.parametrize(
    ("old", "new", "wanted"),
    [
        pytest.param({}, {"a/b": {"c~d": 1}}, [{"op": "add", "path": "/a~1b", "value": {"c~d": 1}}], id="escapes"),
        pytest.param({"a": None}, {"a": 1}, [{"op": "add", "path": "/a", "value": 1}], id="null-counts-as-absent"),
        pytest.param({"a": 1}, {"a": True}, [{"op": "replace", "path": "/a", "value": True}], id="type-matters"),
        pytest.param(
            {"b": 1, "l": [{"x": 1}]},
            {"a": 1, "l": [{}]},
            [
                {"op": "add", "path": "/a", "value": 1},
                {"op": "remove", "path": "/b"},
                {"op": "remove", "path": "/l/0/x"},
            ],
            id="sorted-by-path",
        ),
    ],
)
def test_differences(old, new, wanted):
    assert list(difference(old, new)) == wanted


@pytest.mark.parametrize(
    ("patch", "wanted"),
    [
        pytest.param({"op": "add", "path": "/l/-", "value": 3}, {"l": [1, 2, 3]}, id="append"),
        pytest.param({"op": "add", "path": "/l/0", "value": 0}, {"l": [0, 1, 2]}, id="insert"),
        pytest.param({"op": "remove", "path": "/l/1"}, {"l": [1]}, id="remove-item"),
        pytest.param({"op": "replace", "path": "/l/1", "value": 5}, {"l": [1, 5]}, id="replace-item"),
    ],
)
def test_list_operations(patch, wanted):
    assert apply_patch({"l": [1, 2]}, [patch]) == wanted


@pytest.mark.parametrize(
    "patch",
    [
        pytest.param({"op": "test", "path": "/l", "value": []}, id="unknown-operation"),
        pytest.param({"op": "remove", "path": "/x"}, id="missing-member"),
        pytest.param({"op": "add", "path": "/x/y", "value": 1}, id="missing-parent"),
        pytest.param({"op": "replace", "path": "/l/2", "value": 1}, id="past-the-end"),
        pytest.param({"op": "add", "path": "/l/01", "value": 1}, id="leading-zero"),
        pytest.param({"op": "add", "path": "/l/\u0663", "value": 1}, id="other-digits"),
        pytest.param({"op": "add", "path": "l", "value": 1}, id="no-pointer"),
        pytest.param({"op": "replace", "path": "", "value": 1}, id="no-object-left"),
    ],
)
def test_patches_that_do_not_fit(patch):
    with pytest.raises(PatchError):
        apply_patch({"l": [1, 2]}, [patch])
