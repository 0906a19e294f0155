"""What is said of a change of an object."""

import pytest

from webhook.kube.cache.changes import ObjectDelta, desired

RED, BLUE = {"colour": "red"}, {"colour": "blue"}


def colour(document):
    return document["colour"]


def nothing(_document):
    return None


@pytest.mark.parametrize(
    ("old", "new", "document", "came_or_went", "alters", "touches"),
    [
        pytest.param(None, RED, RED, True, False, True, id="came"),
        pytest.param(RED, None, RED, True, False, True, id="went"),
        pytest.param(RED, BLUE, BLUE, False, True, True, id="changed"),
        pytest.param(RED, {**RED, "size": 7}, {**RED, "size": 7}, False, False, False, id="changed-elsewhere"),
        pytest.param({}, {"colour": "red"}, RED, False, None, None, id="empty-is-there"),
    ],
)
def test_a_change(old, new, document, came_or_went, alters, touches):
    change = ObjectDelta(old, new)
    assert (change.document, change.is_added_or_deleted) == (document, came_or_went)
    if alters is not None:
        assert (change.alters(colour), change.touches(colour)) == (alters, touches)
    assert not change.alters(nothing)
    assert change.touches(nothing) is came_or_went


@pytest.mark.parametrize(
    ("later", "is_other"),
    [
        pytest.param({"generation": 2}, True, id="spec"),
        pytest.param({"deletionTimestamp": "2026-11-20T12:00:00Z"}, True, id="deletion-mark"),
        pytest.param({"labels": {"a": "b"}, "resourceVersion": "7"}, False, id="bookkeeping"),
    ],
)
def test_what_can_be_wanted_of_an_object_is_its_spec_and_its_end(later, is_other):
    metadata = {"name": "a", "generation": 1}
    change = ObjectDelta({"metadata": metadata}, {"metadata": metadata | later, "status": {"a": "b"}})
    assert change.alters(desired) is is_other
