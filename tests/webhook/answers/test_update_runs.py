"""Timelines of placements and runs as the server answers with them, from the objects of a hub."""

import pytest

from scorer.api.family import PlacementRef
from scorer.api.kinds import BINDING, PLACEMENT, RESOURCE_SNAPSHOT, STAGED_RUN
from scorer.api.names import PARENT_PLACEMENT, PREVIOUS_INDEX, RESOURCE_INDEX, ROLLBACK_OF
from tests.builders.binding import make_binding
from tests.builders.condition import condition
from tests.builders.placement import make_placement
from tests.builders.update_run import Moments
from tests.scorer.builders import NOW
from webhook.answers.advisor import HubAdvisor
from webhook.answers.update_runs import HubRuns, run_ref, run_view
from webhook.embedded.storage.store import EmbeddedStore
from webhook.kube.cache.informer import Cache

MOMENTS = Moments()
REF = PlacementRef("ClusterResourcePlacement", "web")


@pytest.fixture
def cache():
    store = EmbeddedStore.open(None)
    yield Cache(store)
    store.close()


def put(cache, kind, document):
    cache.of_kind(kind).put({**document, "metadata": {"resourceVersion": "1", "generation": 1, **document["metadata"]}})


def answered(cache, **strategy):
    """The answer about a placement with one cluster, under a strategy."""
    advisor = HubAdvisor(cache, lambda: NOW)
    put(cache, PLACEMENT, make_placement("web", {"placementType": "PickAll"}, strategy=strategy))
    said = [condition("RolloutStarted"), condition("Available", since="2026-01-01T00:00:09Z")]
    put(cache, BINDING, {**make_binding("web", "oslo"), "status": {"conditions": said}})
    return advisor.placement(REF)


def test_a_placement_comes_with_its_last_rolling_update(cache):
    (band,) = answered(cache, type="RollingUpdate")["timeline"]["bands"]
    (bar,) = band["bars"]
    assert (bar["cluster"], bar["state"]) == ("oslo", "updated")
    assert (bar["startedAt"], bar["endedAt"]) == ("2026-01-01T00:00:00Z", "2026-01-01T00:00:09Z")


def test_a_placement_that_update_runs_decide_about_has_no_timeline_of_its_own(cache):
    assert answered(cache, type="External")["timeline"] is None


def test_a_placement_comes_with_its_snapshot_and_the_number_of_its_overrides(cache):
    """An override counts once, also while its clusters have two versions of it."""
    advisor = HubAdvisor(cache, lambda: NOW)
    document = make_placement("web", {"placementType": "PickAll"})
    put(cache, PLACEMENT, document)
    assert {key: advisor.placement(REF)[key] for key in ("resourceIndex", "overrides")} == {
        "resourceIndex": "",
        "overrides": 0,
    }
    changed = {**document, "metadata": {**document["metadata"], "resourceVersion": "2"}}
    put(cache, PLACEMENT, {**changed, "status": {"observedResourceIndex": "4"}})
    namespaced = [{"namespace": "shop", "name": "more-replicas-0"}]
    for cluster, names in (("oslo", ["tz-1", "image-0"]), ("cork", ["tz-2"])):
        binding = make_binding("web", cluster)
        spec = {**binding["spec"], "clusterResourceOverrideSnapshots": names, "resourceOverrideSnapshots": namespaced}
        put(cache, BINDING, {**binding, "spec": spec})
    answer = advisor.placement(REF)
    assert (answer["resourceIndex"], answer["overrides"]) == ("4", 3)


@pytest.mark.parametrize(
    ("moment", "state", "stage", "why"),
    [
        ("unstarted", "initialized", "try", ""),
        ("at_four", "waiting", "try", ""),
        ("at_twelve", "running", "all", ""),
        ("stuck", "stuck", "all", "clusters c2 of stage all are in flight for more than 5 minutes"),
        ("stopped", "stopped", "all", ""),
        ("aborted", "aborted", "all", "the binding of c1 was changed by another run"),
        ("succeeded", "succeeded", "", ""),
    ],
)
def test_a_run_says_in_a_word_how_far_it_is_and_what_is_wrong(moment, state, stage, why):
    view = run_view(getattr(MOMENTS, moment)(), MOMENTS.at("17:40"))
    assert (view["state"], view["stage"], view["why"]) == (state, stage, why)


def test_a_run_is_named_by_the_short_name_of_its_kind():
    assert (run_ref("web-3"), run_ref("web-3", "shop")) == ("csur/web-3", "sur/shop/web-3")


def test_a_run_says_whether_undo_would_accept_it(cache):
    """With the words of the command, until resource snapshots and other runs change the answer."""
    runs = HubRuns(cache, lambda: MOMENTS.at("17:40"))

    def listed(name, kinds=frozenset({STAGED_RUN, PLACEMENT})):
        (view,) = [view for view in runs.runs(kinds)["items"] if view["name"] == name]
        return view["canUndo"], view["undoTo"], view["undoRefused"]

    def put_run(document, previous, version, **about):
        annotations = {PREVIOUS_INDEX: previous, **about.pop("annotations", {})}
        metadata = {**document["metadata"], "annotations": annotations, "resourceVersion": version, **about}
        put(cache, STAGED_RUN, {**document, "metadata": metadata})

    over = MOMENTS.succeeded(name="web-2")
    put_run(over, "none", "1")
    can, index, refusal = listed("web-2")
    assert (can, index) == (False, "")
    assert refusal.startswith("run web-2 cannot be undone: its clusters had no resource snapshot other than ")
    put_run(over, "7", "2")
    assert listed("web-2") == (True, "7", "")  # this server does not watch snapshots
    put_run(over, "7" * 4096, "3")
    assert listed("web-2")[:2] == (False, "")
    put_run(over, "7", "4")
    snapshot = {"metadata": {"name": "web-7-snapshot", "labels": {PARENT_PLACEMENT: "web", RESOURCE_INDEX: "7"}}}
    cache.of_kind(RESOURCE_SNAPSHOT).synced.set()
    assert "snapshot 7, which no longer exists. No snapshots exist" in listed("web-2")[2]
    assert listed("web-2", {STAGED_RUN}) == (True, "7", ""), "without the right to list placements"
    put(cache, RESOURCE_SNAPSHOT, snapshot)
    assert listed("web-2") == (True, "7", "")
    put_run(MOMENTS.at_twelve(name="web-3"), "7", "5", annotations={ROLLBACK_OF: "web-2"})
    assert listed("web-2") == (False, "", "run web-3 already undoes run web-2")
    assert listed("web-3") == (False, "", "run web-3 is not finished (Running). Stop it first")


def test_what_is_said_of_a_run_that_is_over_is_made_once_until_the_run_changes(cache):
    runs = HubRuns(cache, lambda: MOMENTS.at("17:40"))

    def listed():
        return {view["name"]: view for view in runs.runs({STAGED_RUN})["items"]}

    put(cache, STAGED_RUN, MOMENTS.succeeded(name="over"))
    put(cache, STAGED_RUN, MOMENTS.at_twelve(name="busy"))
    before, after = listed(), listed()
    assert before == after
    assert (before["over"] is after["over"], before["busy"] is after["busy"]) == (True, False)
    changed = MOMENTS.aborted(name="over")
    put(cache, STAGED_RUN, {**changed, "metadata": {**changed["metadata"], "resourceVersion": "2"}})
    assert listed()["over"]["state"] == "aborted"
