"""What is said of a change of an object."""

import pytest

from webhook.kube.change import Change

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
    change = Change(old, new)
    assert (change.document, change.came_or_went) == (document, came_or_went)
    if alters is not None:
        assert (change.alters(colour), change.touches(colour)) == (alters, touches)
    assert not change.alters(nothing)
    assert change.touches(nothing) is came_or_went
