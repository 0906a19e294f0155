"""The three-way merge of apply, and what is sent of a document."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scorer.api.kinds import PLACEMENT
from tests.webhook.cli.fleets import placement
from webhook.cli.files.documents import Loaded
from webhook.cli.files.parsing import DocumentSource
from webhook.cli.hub.client import HubResponse
from webhook.cli.objects.patcher import LAST_APPLIED, apply_one, request_document, three_way_patch, two_way_patch
from webhook.embedded.patches.merge_patches import merge_patch
from webhook.embedded.simulation.annotations import SIMULATE_STATUS


@pytest.mark.parametrize(
    ("last", "wanted", "current", "patch"),
    [
        pytest.param({}, {"a": 1}, {"a": 1, "b": 2}, {}, id="what-only-others-set-stays"),
        pytest.param({"b": 2}, {"a": 1}, {"a": 1, "b": 2}, {"b": None}, id="what-is-no-longer-wanted-goes"),
        pytest.param({"b": 2}, {"a": 1}, {"a": 1}, {}, id="what-is-gone-already-needs-nothing"),
        pytest.param({"a": 1}, {"a": 1}, {"a": 9}, {"a": 1}, id="what-others-changed-is-put-back"),
        pytest.param({}, {"a": {"b": 1}}, {"a": {"c": 2}}, {"a": {"b": 1}}, id="objects-are-merged"),
        pytest.param(
            {"a": {"b": 1, "c": 2}}, {"a": {"b": 1}}, {"a": {"b": 1, "c": 2}}, {"a": {"c": None}}, id="removed-inside"
        ),
        pytest.param({"a": [1, 2]}, {"a": [1]}, {"a": [1, 2]}, {"a": [1]}, id="lists-are-replaced"),
        pytest.param({}, {"a": None}, {"a": 1}, {"a": None}, id="null-removes"),
        pytest.param({}, {"a": None}, {}, {}, id="null-for-nothing-needs-nothing"),
        pytest.param({}, {"a": True}, {"a": 1}, {"a": True}, id="true-is-not-one"),
        pytest.param({}, {"a": {}}, {}, {"a": {}}, id="an-empty-object-says-something"),
    ],
)
def test_patch(last, wanted, current, patch):
    assert three_way_patch(last, wanted, current) == patch


_VALUES = st.recursive(
    st.booleans() | st.integers(0, 3) | st.text("ab", max_size=2),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from("abcd"), inner, max_size=3),
    max_leaves=8,
)
_DOCUMENTS = st.dictionaries(st.sampled_from("abcd"), _VALUES, max_size=4)


@given(before=_DOCUMENTS, after=_DOCUMENTS)
def test_a_two_way_patch_makes_the_one_the_other(before, after):
    assert merge_patch(before, two_way_patch(before, after)) == after


@given(last=_DOCUMENTS, wanted=_DOCUMENTS, current=_DOCUMENTS)
def test_a_second_apply_finds_nothing_to_do(last, wanted, current):
    reached = merge_patch(current, three_way_patch(last, wanted, current))
    assert three_way_patch(wanted, wanted, reached) == {}


def test_what_only_the_hub_sets_is_not_sent():
    """A member that leaves is created as one that does not."""
    metadata = {"name": "a", "uid": "u", "resourceVersion": "7", "deletionTimestamp": "2026-01-01T00:00:00Z"}
    document = {"apiVersion": "cluster.kubernetes-fleet.io/v1", "kind": "MemberCluster", "metadata": metadata}
    status = {"properties": {"x": {"value": "1"}}}
    sent = request_document({**document, "spec": {}, "status": status})
    assert "status" not in sent
    assert sent["metadata"].keys() == {"name", "annotations"}
    assert json.loads(sent["metadata"]["annotations"][SIMULATE_STATUS]) == status
    last = json.loads(sent["metadata"]["annotations"][LAST_APPLIED])
    assert last["metadata"] == {
        "name": "a",
        "annotations": {SIMULATE_STATUS: json.dumps(status, separators=(",", ":"))},
    }


def test_an_object_that_came_from_apply_can_be_applied_again():
    document = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "a"}}
    once = request_document(document)
    assert request_document(once) == request_document({**document, "metadata": {"name": "a", "annotations": {}}})


def noted(document: dict, text: dict) -> dict:
    """An object with a note of what it was last applied from, as the hub stores it."""
    written = json.dumps(text, sort_keys=True, separators=(",", ":")) + "\n"
    annotations = {**document["metadata"].get("annotations", {}), LAST_APPLIED: written}
    return {**document, "metadata": {**document["metadata"], "annotations": annotations}}


class Changed:
    """A client of a hub that has one object, which another client has changed since it was applied."""

    simulated = True

    def __init__(self, stored):
        self.stored = stored
        self.written = []

    async def get(self, _place):
        return self.stored

    async def patch(self, _place, patch, *, dry_run=False, validation=""):
        changed = merge_patch(self.stored, patch)
        if not dry_run:
            self.written.append(patch)
            changed["metadata"] = {**changed["metadata"], "resourceVersion": "2"}
        return HubResponse(changed)


FILE = placement(placementType="PickN", numberOfClusters=3)
IN_FILE = {"creationTimestamp": None, "generation": 1, "resourceVersion": "", "uid": "", "selfLink": "/", "labels": {}}


@pytest.mark.parametrize("edited", [True, False], ids=["edited", "as-applied"])
@pytest.mark.parametrize(
    ("file", "note"),
    [
        pytest.param(FILE, json.loads(request_document(FILE)["metadata"]["annotations"][LAST_APPLIED]), id="ours"),
        pytest.param(FILE, {**FILE, "metadata": {"annotations": {}, "name": "web"}}, id="of-kubectl"),
        pytest.param(
            {**FILE, "metadata": {"name": "web", **IN_FILE}, "status": {"conditions": []}},
            {**FILE, "metadata": {"annotations": {}, "name": "web", **IN_FILE}, "status": {"conditions": []}},
            id="of-kubectl-with-all-that-a-dump-has",
        ),
    ],
)
async def test_an_edit_stays_whoever_has_applied_the_file(file, note, edited):
    """kubectl notes empty annotations, the status and more; that does not make it another file."""
    spec = {**FILE["spec"], "policy": {**FILE["spec"]["policy"], "numberOfClusters": 2}} if edited else FILE["spec"]
    meta = {"name": "web", "labels": {}, "creationTimestamp": "2026-01-01T00:00:00Z", "resourceVersion": "1"}
    hub = Changed(noted({**FILE, "metadata": meta, "spec": spec, "status": {"x": 1}}, note))
    one = Loaded(file, PLACEMENT, DocumentSource("a.yaml", 1))
    assert (await apply_one(hub, one, keep_edits=True)).action == ("kept" if edited else "unchanged")
    assert hub.written == []
    assert (await apply_one(hub, one)).action == ("configured" if edited else "unchanged")
    assert hub.written == ([{"spec": {"policy": {"numberOfClusters": 3}}}] if edited else [])


@pytest.mark.parametrize("note", [{}, {"metadata": 3}, {"spec": {}}, [], None], ids=str)
async def test_a_note_that_says_something_else_keeps_no_edit(note):
    hub = Changed(noted({**FILE, "metadata": {"name": "web", "resourceVersion": "1"}, "spec": {}}, note))
    one = Loaded(FILE, PLACEMENT, DocumentSource("a.yaml", 1))
    assert (await apply_one(hub, one, keep_edits=True)).action == "configured"
