"""What a plan says about created, changed and deleted overrides, on a hub where everything is rolled out."""

from dataclasses import replace

import pytest

from scorer.api.meta import JsonObject
from scorer.api.names import RESOURCE_HASH, SNAPSHOT_REFUSED
from scorer.api.unstructured.documents import with_metadata, with_spec
from scorer.rollout.snapshots.overrides import plan_override_snapshots
from scorer.rollout.writes import applied
from scorer.what_if.changes import apply_changes
from scorer.what_if.document import what_if
from scorer.what_if.rendering import future_contents, present_contents
from scorer.what_if.state import HypotheticalChanges, identity_of
from tests.scorer.builders import pick_fixed
from tests.scorer.what_if.settled_hub import RATES, SHOP, cluster, placement, settled
from tests.webhook.controllers.override_rules import delete, make_override, rule
from webhook.cli.planning.output import changes_anything

ZONES = {"dover": "west", "faro": "east"}
BOTH = [["dover"], ["faro"]]
KIOSK = placement("kiosk", pick_fixed("dover", "faro"))
ENVELOPE = {
    "apiVersion": "placement.kubernetes-fleet.io/v1beta1",
    "kind": "ResourceEnvelope",
    "metadata": {"name": "box", "namespace": "shop"},
    "data": {"rates.yaml": RATES},
}


def hub(*overrides, content=(SHOP, RATES), bound=()):
    """Return a hub with overrides and their snapshots. *bound* are the names of snapshots that the bindings name."""
    state = settled(
        (KIOSK, ["dover", "faro"]), members_=[cluster(name, labels={"zone": z}) for name, z in ZONES.items()]
    )
    (resources,) = state.resource_snapshots
    made: list[JsonObject] = []
    for override in overrides:
        made = applied(made, plan_override_snapshots(override, made).writes)
    named = [{"name": name, "namespace": "shop"} for name in bound]
    return replace(
        state,
        overrides=overrides,
        override_snapshots=made,
        bindings=[with_spec(one, resourceOverrideSnapshots=named or None) for one in state.bindings],
        resource_snapshots=[with_spec(resources, selectedResources=list(content))],
    )


def entry(state, *, objects=(), deleted=()):
    changes = HypotheticalChanges(objects=objects, deleted=frozenset(map(identity_of, deleted)))
    plan = what_if(state, changes)
    (found,) = plan["placements"]
    assert changes_anything(plan) is found["changed"]
    return found


def updates(found):
    return [step["update"] for step in found["rollout"]["steps"]]


def failures(found):
    return {failure["cluster"]: failure["message"] for failure in found["rollout"]["failures"]}


ADDS = make_override("adds", rule("2", path="/data/b"), placement="kiosk")
OTHER = make_override("adds", rule("3", path="/data/b"), placement="kiosk")


@pytest.mark.parametrize(
    ("state", "objects", "deleted", "expected"),
    [
        pytest.param(hub(), [ADDS], [], BOTH, id="created"),
        pytest.param(hub(), [make_override("o", delete(), placement="kiosk")], [], BOTH, id="removes-the-object"),
        pytest.param(
            hub(), [make_override("o", rule("2", path="/data/b"), placement="")], [], BOTH, id="of-any-placement"
        ),
        pytest.param(
            hub(),
            [make_override("o", delete("west"), namespace="", placement="kiosk")],
            [],
            [["dover"]],
            id="cluster-scope",
        ),
        pytest.param(
            hub(), [make_override("o", rule("2", "west", "/data/b"), placement="kiosk")], [], [["dover"]], id="by-label"
        ),
        pytest.param(
            hub(), [make_override("o", rule("2", "north", "/data/b"), placement="kiosk")], [], [], id="no-such-label"
        ),
        pytest.param(
            hub(), [make_override("o", rule("2", path="/data/b"), placement="till")], [], [], id="of-another-placement"
        ),
        pytest.param(hub(content=[SHOP]), [ADDS], [], [], id="of-an-object-that-is-not-placed"),
        pytest.param(hub(content=[SHOP, ENVELOPE]), [ADDS], [], BOTH, id="in-an-envelope"),
        pytest.param(hub(ADDS, bound=["adds-0"]), [OTHER], [], BOTH, id="changed"),
        pytest.param(hub(ADDS, bound=["adds-0"]), [ADDS], [], [], id="unchanged"),
        pytest.param(hub(ADDS, bound=["adds-0"]), [], [ADDS], BOTH, id="deleted"),
    ],
)
def test_an_override_is_rolled_out_to_the_clusters_that_it_applies_to(state, objects, deleted, expected):
    found = entry(state, objects=objects, deleted=deleted)
    assert (updates(found), found["changed"], failures(found)) == (expected, bool(expected), {})
    assert found["moves"] == {"gained": [], "lost": [], "stays": ["dover", "faro"]}


def test_a_relabelled_cluster_gets_the_overrides_of_its_new_label():
    state = hub(make_override("west", rule("2", "west", "/data/b"), placement="kiosk"))
    state = replace(state, bindings=what_if_bound(state, "dover", "west-0"))
    assert not changes_anything(what_if(state))
    moved = cluster("faro", labels={"zone": "west"})
    (found,) = what_if(state, HypotheticalChanges(members=[moved]))["placements"]
    assert (updates(found), found["changed"]) == ([["faro"]], True)


def what_if_bound(state, name, snapshot):
    named = [{"name": snapshot, "namespace": "shop"}]
    return [
        with_spec(one, resourceOverrideSnapshots=named) if one["spec"]["targetCluster"] == name else one
        for one in state.bindings
    ]


BROKEN = make_override("bad", rule("2", path="/data/nothing", op="replace"), placement="kiosk")
PATH = "path '/data/nothing' does not exist"
LABEL = rule("x", path="/metadata/labels/nope", op="replace")


@pytest.mark.parametrize(
    ("override", "content", "subject", "reason"),
    [
        pytest.param(BROKEN, [SHOP, RATES], "ConfigMap shop/rates", PATH, id="path"),
        pytest.param(BROKEN, [SHOP, ENVELOPE], "ConfigMap shop/rates", PATH, id="in-an-envelope"),
        pytest.param(
            make_override("bad", LABEL, namespace="", placement="kiosk"),
            [SHOP],
            "Namespace shop",
            "path '/metadata/labels/nope' does not exist",
            id="cluster-scoped",
        ),
        pytest.param(
            make_override("bad", rule("${MEMBER-CLUSTER-LABEL-KEY-tier}"), placement="kiosk"),
            [SHOP, RATES],
            "ConfigMap shop/rates",
            "cluster dover has no label tier",
            id="variable",
        ),
    ],
)
def test_an_override_that_cannot_be_applied_fails_by_name_and_stops_the_rollout(override, content, subject, reason):
    found = entry(hub(content=content), objects=[override])
    message = failures(found)["dover"]
    assert f"on {subject} for cluster dover" in message
    assert reason in message
    assert (updates(found), found["changed"]) == ([["dover"]], True)
    assert found["rollout"]["blocked"]["reason"] == "BudgetUsedUp"
    assert found["rollout"]["blocked"]["clusters"] == ["faro"]


def test_the_correction_of_a_broken_override_is_rolled_out():
    failed = [{"type": "Overridden", "status": "False", "reason": "OverriddenFailed", "observedGeneration": 1}]
    state = hub(BROKEN, bound=["bad-0"])
    state = replace(state, bindings=[{**one, "status": {"conditions": failed}} for one in state.bindings])
    found = entry(state, objects=[make_override("bad", rule("2", path="/data/nothing"), placement="kiosk")])
    assert (updates(found), failures(found), found["rollout"]["blocked"]) == ([["dover", "faro"]], {}, None)


def test_a_dump_without_overrides_leaves_those_of_its_bindings_alone():
    """They were not dumped. If they counted as deleted, every rollout of the hub would be announced."""
    state = replace(hub(bound=["adds-0"]), overrides=(), override_snapshots=())
    assert not changes_anything(what_if(state))
    assert not changes_anything(what_if(state, HypotheticalChanges(lost=["oslo"])))


def test_overrides_of_files_have_no_snapshots_yet():
    """Files are both the hub and the changes: the controller has not made the snapshots."""
    fresh = placement("kiosk", pick_fixed("dover", "faro"))
    state = replace(
        hub(),
        placements=[fresh],
        bindings=(),
        resource_snapshots=(),
        overrides=[BROKEN],
        content=lambda: [SHOP, RATES],
    )
    assert sorted(failures(entry(state))) == ["dover", "faro"]


def test_new_content_that_an_override_cannot_change_is_a_failure_of_the_content():
    override = make_override("own", rule("2", path="/data/a", op="replace"), placement="kiosk")
    state = hub(override, bound=["own-0"])
    found = entry(state, objects=[{**RATES, "data": {"b": "1"}}])
    assert "path '/data/a' does not exist" in failures(found)["dover"]


def test_a_hash_that_another_release_has_written_is_no_change():
    """The content decides, not its hash."""
    state = hub(ADDS, bound=["adds-0"])
    (resources,) = state.resource_snapshots
    state = replace(state, resource_snapshots=[with_metadata(resources, annotations={RESOURCE_HASH: "old"})])
    assert not changes_anything(what_if(state))


def test_an_override_that_cannot_have_a_snapshot_stops_the_rollout():
    """The loop waits for the snapshot, and would otherwise place the object without the override."""
    long = make_override("n" * 64, rule("x"), placement="kiosk")
    content = {**RATES, "data": {"a": "2"}}
    found = entry(hub(long), objects=[content])
    assert (found["rollout"]["steps"], found["rollout"]["blocked"]["reason"]) == ([], "OverrideWithoutSnapshot")
    assert "has 64 characters, must have at most 63" in found["rollout"]["blocked"]["message"]
    changed = apply_changes(hub(long), HypotheticalChanges(objects=[content]))
    (rendered,) = future_contents(changed).values()
    assert rendered.problem == found["rollout"]["blocked"]["message"]
    assert rendered.clusters == present_contents(hub(long))[identity_of(KIOSK)].clusters


@pytest.mark.parametrize(
    ("value", "blocked"),
    [pytest.param("2", True, id="same-spec"), pytest.param("3", False, id="another-spec-may-be-accepted")],
)
def test_a_snapshot_that_the_api_server_has_refused_stays_refused(value, blocked):
    refused = with_metadata(ADDS, annotations={SNAPSHOT_REFUSED: "too large"})
    state = replace(hub(), overrides=[refused], overrides_complete=True)
    change = make_override("adds", rule(value, path="/data/b"), placement="kiosk")
    change = with_metadata(change, annotations={SNAPSHOT_REFUSED: "too large"})
    found = entry(state, objects=[change])["rollout"]
    message = "waits for the snapshot of ResourceOverride shop/adds (too large)"
    assert (found["blocked"] or {}).get("message", "") == (message if blocked else "")
    assert bool(found["steps"]) is not blocked
