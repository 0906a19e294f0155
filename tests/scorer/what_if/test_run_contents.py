"""Content of a staged update run, and the overrides in it."""

from scorer.api.names import PARENT_PLACEMENT, RESOURCE_INDEX
from scorer.fleet import Fleet
from scorer.what_if.rendering import run_contents
from scorer.what_if.state import HubState
from tests.builders.binding import make_binding
from tests.builders.placement import make_placement
from tests.scorer.builders import NOW


def test_the_content_of_a_run_names_the_overrides_that_the_run_has_recorded():
    """Answers for a team are hidden by them. The binding does not have them yet."""
    labels = {PARENT_PLACEMENT: "web", RESOURCE_INDEX: "0"}
    annotations = {"kubernetes-fleet.io/number-of-resource-snapshots": "1"}
    annotations["kubernetes-fleet.io/resource-hash"] = "h"
    snapshot = {
        "metadata": {"name": "web-0-snapshot", "labels": labels, "annotations": annotations},
        "spec": {"selectedResources": []},
    }
    entry = {"clusterName": "oslo", "clusterResourceOverrideSnapshots": ["wide-0"]}
    run = {
        "metadata": {"name": "r"},
        "spec": {"placementName": "web"},
        "status": {"resourceSnapshotIndexUsed": "0", "stagesStatus": [{"stageName": "all", "clusters": [entry]}]},
    }
    state = HubState(
        Fleet.of(()),
        NOW,
        placements=[make_placement("web")],
        bindings=[make_binding("web", "oslo")],
        resource_snapshots=[snapshot],
    )
    (content,) = run_contents(state, run).values()
    assert content.problem == ""
    assert content.overrides == {("", "wide-0"): None}
