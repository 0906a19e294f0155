"""What objects looked like when they were applied."""

import pytest

from webhook.member.apply.fingerprints import Fingerprints


def live(uid="u", version="1", labels=None, **body):
    metadata = {"name": "x", "uid": uid, "resourceVersion": version, "generation": 1, "labels": labels or {}}
    return {"apiVersion": "v1", "kind": "X", "metadata": metadata, **body}


@pytest.mark.parametrize(
    ("now", "applied", "matches"),
    [
        pytest.param(live(spec={"cpu": "1"}), "one", True, id="as-it-was"),
        pytest.param(live(version="9", spec={"cpu": "1"}, status={"x": 1}), "one", True, id="another-status"),
        pytest.param(live(spec={"cpu": "2"}), "one", False, id="changed"),
        pytest.param(live(labels={"a": "b"}, spec={"cpu": "1"}), "one", False, id="labelled"),
        pytest.param(live(spec={"cpu": "1"}), "two", False, id="another-manifest"),
        pytest.param(live("other", spec={"cpu": "1"}), "one", False, id="made-anew"),
    ],
)
def test_an_object_as_we_left_it_is_known_again(now, applied, matches):
    known = Fingerprints()
    known.note(live(spec={"cpu": "1"}), "one")
    assert known.matches(now, applied) == matches


def test_the_order_of_members_does_not_count():
    known = Fingerprints()
    known.note(live(a=1, b=2), "x")
    assert known.matches(live(b=2, a=1), "x")


def test_what_was_not_asked_for_longest_is_forgotten():
    known = Fingerprints(most=2)
    known.note(live("a"), "x")
    known.note(live("b"), "x")
    assert known.matches(live("a"), "x")
    known.note(live("c"), "x")
    assert len(known) == 2
    assert [known.matches(live(uid), "x") for uid in "abc"] == [True, False, True]


def test_anything_that_json_can_hold_has_a_fingerprint():
    deep = {"text": "\ud800"}
    for _ in range(400):
        deep = {"d": deep}
    known = Fingerprints()
    known.note(live(spec=deep), "x")
    assert known.matches(live(spec=deep), "x")
