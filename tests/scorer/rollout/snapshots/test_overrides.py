"""Snapshots of an override: one index per spec, always one labelled latest until the override is deleted."""

from base64 import b64decode

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scorer.api.placement.override import ClusterResourceOverrideSnapshot, ResourceOverrideSnapshot
from scorer.rollout.snapshots.overrides import (
    HISTORY_LIMIT,
    awaited_override_snapshots,
    latest_override_snapshots,
    override_hash,
    plan_override_snapshots,
    plan_retirement,
    surplus_override_snapshots,
)
from scorer.rollout.writes import Verb
from tests.scorer.builders import modest

FLEET = "kubernetes-fleet.io/"
LATEST = FLEET + "is-latest-snapshot"


def make_override(value="a", name="zone", namespace=""):
    selectors = [{"group": "", "version": "v1", "kind": "Namespace", "name": "shop"}]
    patch = {"op": "add", "path": "/metadata/labels/zone", "value": value}
    rule = {"clusterSelector": {"clusterSelectorTerms": []}, "jsonPatchOverrides": [patch]}
    return {
        "apiVersion": "placement.kubernetes-fleet.io/v1beta1",
        "kind": "ResourceOverride" if namespace else "ClusterResourceOverride",
        "metadata": {"name": name, "uid": "u"} | ({"namespace": namespace} if namespace else {}),
        "spec": {
            "resourceSelectors" if namespace else "clusterResourceSelectors": selectors,
            "policy": {"overrideRules": [rule]},
        },
    }


def apply(stored, plan, steps=None):
    """Carry out the first *steps* writes of a plan; all of them by default."""
    assert not plan.error
    for write in plan.writes[:steps]:
        assert (write.verb is Verb.CREATE) is (write.name not in stored)
        stored[write.name] = write.document
    return plan


def run(stored, override, steps=None):
    return apply(stored, plan_override_snapshots(override, list(stored.values())), steps)


def labelled(stored):
    return [name for name, document in stored.items() if document["metadata"]["labels"][LATEST] == "true"]


@pytest.mark.parametrize("namespace", [pytest.param("", id="cluster-scoped"), pytest.param("shop", id="namespaced")])
def test_a_first_snapshot(namespace):
    stored, override = {}, make_override(namespace=namespace)
    plan = run(stored, override)
    document = stored["zone-0"]
    assert (plan.name, plan.index) == ("zone-0", 0)
    assert document["kind"] == override["kind"] + "Snapshot"
    assert document["metadata"].get("namespace", "") == namespace
    assert document["metadata"]["labels"] == {
        FLEET + "parent-resource-override": "zone",
        FLEET + "override-index": "0",
        LATEST: "true",
    }
    assert "ownerReferences" not in document["metadata"]
    assert document["spec"]["overrideSpec"] == override["spec"]
    assert b64decode(document["spec"]["overrideHash"]).decode() == override_hash(override["spec"])
    (ResourceOverrideSnapshot if namespace else ClusterResourceOverrideSnapshot).read(document)
    assert run(stored, override).writes == ()


def test_another_spec_makes_the_next_index_before_the_old_one_loses_its_label():
    stored = {}
    run(stored, make_override("a"))
    plan = run(stored, make_override("b"))
    assert [(write.verb, write.name) for write in plan.writes] == [
        (Verb.CREATE, "zone-1"),
        (Verb.REPLACE, "zone-0"),
    ]
    assert labelled(stored) == ["zone-1"]
    run(stored, make_override("a"))
    assert labelled(stored) == ["zone-2"]


def test_all_but_ten_snapshots_are_surplus():
    stored = {}
    for number in range(13):
        run(stored, make_override(str(number)))
    surplus = [document["metadata"]["name"] for document in surplus_override_snapshots(stored.values())]
    assert surplus == ["zone-0", "zone-1", "zone-2"]
    assert len(stored) - len(surplus) == HISTORY_LIMIT


def test_a_snapshot_that_is_latest_is_never_surplus():
    stored = {}
    for number in range(11):
        run(stored, make_override(str(number)))
    stored["zone-0"]["metadata"]["labels"][LATEST] = "true"
    assert surplus_override_snapshots(stored.values()) == []


def test_after_a_deletion_none_is_latest_and_the_next_index_is_a_new_one():
    stored = {}
    run(stored, make_override("a"))
    run(stored, make_override("b"), 1)
    assert labelled(stored) == ["zone-0", "zone-1"]
    stored |= {write.name: write.document for write in plan_retirement(stored.values())}
    assert labelled(stored) == []
    assert latest_override_snapshots(stored.values()) == []
    assert plan_retirement(stored.values()) == ()
    assert run(dict(stored), make_override("c")).name == "zone-2"
    assert run(stored, make_override("b")).name == "zone-1", "recreated unchanged"


@pytest.mark.parametrize("spec", [pytest.param("a", id="unchanged"), pytest.param("b", id="edited")])
def test_the_owner_of_earlier_snapshots_is_dropped(spec):
    """The garbage collector would delete them with the override, or before it."""
    stored = {}
    run(stored, make_override("a"))
    owners = [{"kind": "ClusterResourceOverride", "uid": "u"}, {"kind": "Application", "uid": "v"}]
    stored["zone-0"]["metadata"]["ownerReferences"] = owners
    run(stored, make_override(spec))
    assert stored["zone-0"]["metadata"]["ownerReferences"] == owners[1:]
    assert run(stored, make_override(spec)).writes == ()


@modest(200)
@given(data=st.data())
def test_every_step_may_be_the_last_before_a_crash(data):
    """Whatever was written before a crash, some snapshot is latest, and the next plan ends as if none had been."""
    stored = {}
    values = st.sampled_from("abc")
    for _ in range(data.draw(st.integers(1, 16))):
        override = make_override(data.draw(values))
        plan = plan_override_snapshots(override, list(stored.values()))
        apply(stored, plan, data.draw(st.integers(0, len(plan.writes))))
        assert bool(labelled(stored)) is bool(stored)
    final = make_override(data.draw(values))
    plan = run(stored, final)
    assert labelled(stored) == [plan.name]
    assert stored[plan.name]["spec"]["overrideSpec"] == final["spec"]
    assert run(stored, final).writes == ()


def test_a_label_that_the_reference_took_away_is_given_back():
    stored = {}
    run(stored, make_override("a"))
    stored["zone-0"]["metadata"]["labels"][LATEST] = "false"
    back = dict(stored)
    assert [(write.verb, write.name) for write in run(back, make_override("a")).writes] == [(Verb.REPLACE, "zone-0")]
    run(stored, make_override("b"))
    assert labelled(stored) == ["zone-1"]


def test_what_belongs_to_another_override_only_takes_its_name():
    stored = {}
    run(stored, make_override(name="zone-1"))
    foreign = {"metadata": {"name": "zone-0"}, "spec": {}}
    plan = plan_override_snapshots(make_override(), [*stored.values(), foreign])
    assert [(write.verb, write.name) for write in plan.writes] == [(Verb.CREATE, "zone-1")]


def test_a_snapshot_on_its_way_out_only_keeps_its_index():
    stored = {}
    run(stored, make_override("a"))
    stored["zone-0"]["metadata"]["deletionTimestamp"] = "2026-11-20T12:00:00Z"
    plan = run(stored, make_override("a"))
    assert [(write.verb, write.name) for write in plan.writes] == [(Verb.CREATE, "zone-1")]


def test_defaults_spelled_out_make_no_snapshot():
    plain, spelled = make_override()["spec"], make_override()["spec"]
    plain["placement"] = {"name": "p"}
    spelled["placement"] = {"name": "p", "scope": "Cluster"}
    spelled["policy"]["overrideRules"][0] |= {"overrideType": "JSONPatch", "unknown": None}
    assert override_hash(plain) == override_hash(spelled)
    plain["policy"]["overrideRules"][0]["jsonPatchOverrides"][0]["value"] = {"a": None}
    spelled["policy"]["overrideRules"][0]["jsonPatchOverrides"][0]["value"] = {}
    assert override_hash(plain) != override_hash(spelled)


def test_a_name_that_is_no_label_value_is_an_error():
    plan = plan_override_snapshots(make_override(name="n" * 64), [])
    assert plan.writes == ()
    assert "metadata.name" in plan.error
    assert "n" * 64 in plan.error
    assert not plan_override_snapshots(make_override(name="n" * 63), []).error


def with_spelled_defaults():
    override = make_override()
    override["spec"]["policy"]["overrideRules"][0]["overrideType"] = "JSONPatch"
    return override


def being_deleted():
    override = make_override("b")
    return {**override, "metadata": {**override["metadata"], "deletionTimestamp": "2026-11-20T12:00:00Z"}}


@pytest.mark.parametrize(
    ("stored", "override", "is_awaited"),
    [
        pytest.param([], make_override(), True, id="without-a-snapshot"),
        pytest.param([make_override()], make_override(), False, id="with-its-snapshot"),
        pytest.param([make_override("a")], make_override("b"), True, id="edited"),
        pytest.param([make_override("a"), make_override("b")], make_override("a"), True, id="edited-back"),
        pytest.param([make_override()], with_spelled_defaults(), False, id="defaults-spelled-out"),
        pytest.param([make_override("a")], being_deleted(), False, id="being-deleted"),
        pytest.param([make_override(name="other")], make_override(), True, id="another-override"),
        pytest.param([make_override(namespace="dock")], make_override(namespace="shop"), True, id="another-namespace"),
    ],
)
def test_an_override_is_awaited_until_a_snapshot_has_its_spec(stored, override, is_awaited):
    snapshots = {}
    for earlier in stored:
        run(snapshots, earlier)
    awaited = awaited_override_snapshots([override], snapshots.values())
    assert [snapshot["spec"]["overrideSpec"] for snapshot in awaited] == ([override["spec"]] if is_awaited else [])
    if is_awaited:
        namespace = override["metadata"].get("namespace")
        neighbours = [item for item in snapshots.values() if item["metadata"].get("namespace") == namespace]
        plan = plan_override_snapshots(override, neighbours)
        assert awaited[0]["spec"] == plan.writes[0].document["spec"], "what the controller creates"


def test_an_override_that_cannot_have_a_snapshot_is_awaited():
    override = make_override(name="n" * 64)
    (awaited,) = awaited_override_snapshots([override], [])
    assert awaited["spec"]["overrideSpec"] == override["spec"]


@given(st.lists(st.sampled_from("ab"), max_size=4), st.sampled_from("ab"))
def test_no_override_is_awaited_once_its_plan_is_carried_out(values, value):
    snapshots = {}
    for earlier in (*values, value):
        run(snapshots, make_override(earlier))
    assert awaited_override_snapshots([make_override(value)], snapshots.values()) == []


def test_the_latest_of_each_override_in_the_order_of_application():
    stored = {}
    for name, namespace in (("b", ""), ("a", "y"), ("a", ""), ("b", "x"), ("a-1", "")):
        kept = {}
        run(kept, make_override("old", name, namespace))
        run(kept, make_override("new", name, namespace), 1)  # the old one is still labelled
        stored |= {(namespace, name, at): document for at, document in kept.items()}
    found = latest_override_snapshots(stored.values())
    assert [(item["metadata"].get("namespace", ""), item["metadata"]["name"]) for item in found] == [
        ("", "a-1"),
        ("", "a-1-1"),
        ("", "b-1"),
        ("x", "b-1"),
        ("y", "a-1"),
    ]
