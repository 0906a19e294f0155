"""Placements whose snapshots a hub does not have count as rolled out, for plans as for rendered objects."""

from dataclasses import replace

import pytest

from scorer.api.kinds import STAGED_RUN
from scorer.fleet import Fleet
from scorer.what_if.assumptions import settled_placements, with_assumed_rollouts
from scorer.what_if.changes import apply_changes
from scorer.what_if.document import what_if
from scorer.what_if.rendering import future_contents, present_contents
from scorer.what_if.state import HubState, HypotheticalChanges, identity_of
from tests.scorer.builders import NOW, pick_n
from tests.scorer.what_if.settled_hub import RATES, SHOP, binding, cluster, placement
from tests.webhook.controllers.override_rules import make_override, rule
from webhook.cli.planning.output import changes_anything

WEB = placement("web", pick_n(2))
NEW_RATES = HypotheticalChanges(objects=[{**RATES, "data": {"a": "2"}}])
NAMED = make_override("o", rule("${MEMBER-CLUSTER-NAME}", path="/data/b"), placement="")


def hub(*, bindings=(), subject=WEB, **fields):
    """Return a hub as a repository has it: three members, a placement, its objects, and no snapshots."""
    fleet = Fleet.of([cluster("dover"), cluster("faro"), cluster("oslo")])
    return HubState(fleet, NOW, placements=[subject], bindings=bindings, content=lambda: [SHOP, RATES], **fields)


def assumed(state):
    found, placements = with_assumed_rollouts(state, {identity_of(one) for one in state.placements})
    assert list(placements) == [identity_of(WEB)]
    return found


def rendered(contents, state):
    """Return the objects of each cluster."""
    (content,) = contents.values()
    assert not any(each.problem for each in content.clusters.values())
    return {name: each.objects(state.kinds) for name, each in content.clusters.items()}


BOUND = [binding("web", "dover"), binding("web", "faro", resourceSnapshotName="web-10-snapshot")]
DIFFS = placement("web", pick_n(2), strategy={"applyStrategy": {"type": "ReportDiff"}})
EXTERNAL = placement("web", pick_n(2), strategy={"type": "External"})
RUN = {
    "apiVersion": STAGED_RUN.api_version,
    "kind": STAGED_RUN.kind,
    "metadata": {"name": "r"},
    "spec": {"placementName": "web"},
}
DELETED = {**WEB, "metadata": {"name": "web", "deletionTimestamp": "2026-11-20T00:00:00Z"}}
SCHEDULED = binding("web", "dover", resourceSnapshotName="", state="Scheduled")
HUBS = [
    pytest.param(hub(), id="nothing"),
    pytest.param(hub(bindings=BOUND), id="bindings"),
    pytest.param(hub(overrides=[NAMED]), id="overrides"),
    pytest.param(hub(subject=DIFFS), id="diffs"),
]


@pytest.mark.parametrize("state", HUBS)
def test_a_hub_without_changes_stays_as_it_is(state):
    state = assumed(state)
    assert not changes_anything(what_if(state))
    assert not changes_anything(what_if(state, HypotheticalChanges(objects=[RATES])))
    changed = apply_changes(state, HypotheticalChanges(objects=[RATES]))
    assert rendered(present_contents(state), state) == rendered(future_contents(changed), state)


@pytest.mark.parametrize("state", HUBS)
def test_a_change_is_rolled_out_to_the_clusters_that_have_the_placement(state):
    state = assumed(state)
    (entry,) = what_if(state, NEW_RATES)["placements"]
    clusters = sorted(spec["targetCluster"] for spec in (each["spec"] for each in state.bindings))
    assert entry["changed"]
    assert entry["moves"] == {"gained": [], "lost": [], "stays": clusters}
    assert sorted(name for step in entry["rollout"]["steps"] for name in step["update"]) == clusters
    old = rendered(present_contents(state), state)
    new = rendered(future_contents(apply_changes(state, NEW_RATES)), state)
    assert old.keys() == new.keys() == set(clusters)
    for name in clusters:
        changed = [after["kind"] for before, after in zip(old[name], new[name], strict=True) if before != after]
        assert changed == ["ConfigMap"]


def test_a_lost_cluster_is_replaced():
    state = assumed(hub())
    lost = state.bindings[0]["spec"]["targetCluster"]
    (entry,) = what_if(state, HypotheticalChanges(lost=[lost]))["placements"]
    assert (entry["moves"]["lost"], len(entry["moves"]["gained"])) == ([lost], 1)


@pytest.mark.parametrize(
    "state",
    [
        pytest.param(replace(assumed(hub()), bindings=()), id="snapshots"),
        pytest.param(hub(subject=DELETED), id="deleted"),
        pytest.param(hub(bindings=[SCHEDULED]), id="scheduled"),
    ],
)
def test_nothing_is_assumed_of_a_placement_that_may_have_no_clusters(state):
    assert with_assumed_rollouts(state, {identity_of(one) for one in state.placements}) == (state, ())


def test_only_named_placements_count_as_scheduled():
    state = hub()
    assert with_assumed_rollouts(state, ()) == (state, ())


@pytest.mark.parametrize(
    ("state", "changes", "adopted", "counts"),
    [
        pytest.param(hub(), NEW_RATES, (), True, id="rolling-update"),
        pytest.param(hub(subject=EXTERNAL), NEW_RATES, (), True, id="external"),
        pytest.param(hub(subject=EXTERNAL, runs=[RUN]), NEW_RATES, (), False, id="run-of-the-hub"),
        pytest.param(hub(subject=EXTERNAL), HypotheticalChanges(objects=[RUN]), (), False, id="run-of-the-changes"),
        pytest.param(hub(), NEW_RATES, [WEB], False, id="adopted"),
    ],
)
def test_a_placement_that_a_run_will_roll_out_does_not_count_as_rolled_out(state, changes, adopted, counts):
    assert settled_placements(state, changes, adopted) == ({identity_of(WEB)} if counts else set())


@pytest.mark.parametrize("runs", [[], [RUN]], ids=["no-run", "run"])
def test_a_placement_that_a_run_names_counts_as_rolled_out_where_runs_are_not_awaited(runs):
    state = hub(subject=EXTERNAL, runs=runs)
    assert settled_placements(state, NEW_RATES, (), await_runs=False) == {identity_of(WEB)}
