"""The annotation that leaves fields to the member: what it may say, and what is wrong with the rest."""

import sys

import pytest

from scorer.rollout.ownership.ignored_fields import (
    LONGEST_TEXT,
    MOST_POINTERS,
    ignored_fields,
    ignored_fields_mistakes,
    parse_ignored_fields,
)


@pytest.mark.parametrize(
    ("text", "fields"),
    [
        pytest.param("/spec/replicas", [("spec", "replicas")], id="one"),
        pytest.param(
            "/spec/replicas,/data/a\n /data/b", [("spec", "replicas"), ("data", "a"), ("data", "b")], id="many"
        ),
        pytest.param('["/data/a,b", "/data/c d"]', [("data", "a,b"), ("data", "c d")], id="json"),
        pytest.param("/metadata/annotations/a.b~1c~0d", [("metadata", "annotations", "a.b/c~d")], id="escaped"),
        pytest.param("/metadata/labels", [("metadata", "labels")], id="labels"),
        pytest.param("/data/a /data/a", [("data", "a")], id="twice"),
        pytest.param("/spec/list/0/x", [("spec", "list", "0", "x")], id="position"),
        pytest.param(" ,\n", [], id="nothing"),
    ],
)
def test_fields(text, fields):
    parsed = parse_ignored_fields(text)
    assert list(parsed.fields) == fields
    assert not parsed.mistakes


@pytest.mark.parametrize(
    ("text", "mistake"),
    [
        pytest.param("spec/replicas", "is not a JSON Pointer", id="no-slash"),
        pytest.param("/spec/a~2b", "is not a JSON Pointer", id="escape"),
        pytest.param("/spec/list/-", "names no field", id="end-of-a-list"),
        pytest.param("/", "names no field", id="empty-name"),
        pytest.param('[""]', "names no field", id="whole-object"),
        pytest.param("/metadata/name", "identity", id="name"),
        pytest.param("/kind", "identity", id="kind"),
        pytest.param("/status/x", "never applied", id="status"),
        pytest.param("/metadata", "a field below it", id="metadata"),
        pytest.param("/metadata/annotations", "a field below it", id="annotations"),
        pytest.param("/metadata/finalizers", "sets itself", id="finalizers"),
        pytest.param("/metadata/annotations/kubernetes-fleet.io~1spec-hash", "of the fleet", id="ours"),
        pytest.param('["/spec/a", 7]', "not a string", id="number"),
        pytest.param('["/spec/a"', "not a JSON array", id="broken-array"),
        pytest.param("/data/x" * LONGEST_TEXT, "characters", id="long"),
        pytest.param(" ".join(f"/data/{at}" for at in range(MOST_POINTERS + 1)), "at most", id="many"),
    ],
)
def test_one_mistake_makes_the_whole_annotation_void(text, mistake):
    document = {"metadata": {"annotations": {"harbormaster.dev/ignore-fields": text}}}
    assert mistake in " ".join(ignored_fields_mistakes(document))
    assert not ignored_fields(document)


def test_an_object_without_the_annotation():
    assert not ignored_fields({})
    assert not ignored_fields_mistakes({"metadata": {"annotations": {"harbormaster.dev/ignore-fields": 7}}})


def test_a_text_that_is_too_long_is_not_kept_in_memory():
    text = "/data/in-memory" * LONGEST_TEXT
    before = sys.getrefcount(text)
    assert parse_ignored_fields(text).mistakes
    assert sys.getrefcount(text) == before
