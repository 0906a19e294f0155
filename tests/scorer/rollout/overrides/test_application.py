"""Objects on one cluster after their overrides."""

import copy

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scorer.rollout.overrides.application import VariableError, binding_override, substitute
from scorer.rollout.snapshots.groups import SnapshotGroup
from scorer.rollout.works.plan import OverrideError, WorkCause, plan_works
from tests.scorer.builders import modest

FLEET = "kubernetes-fleet.io/"
GROUP = "placement.kubernetes-fleet.io/v1beta1"
EVERYWHERE = {"clusterSelectorTerms": []}
NAMESPACE = {"group": "", "version": "v1", "kind": "Namespace", "name": "shop"}
RATES = {"group": "", "version": "v1", "kind": "ConfigMap", "name": "rates"}
MEMBER = {"metadata": {"name": "a", "labels": {"zone": "west", "team.example.com/tier": "gold"}}}
DELETE = {"clusterSelector": EVERYWHERE, "overrideType": "Delete"}


def make_object(name="rates", namespace="shop", kind="ConfigMap", **data):
    metadata = {"name": name} | ({"namespace": namespace} if namespace else {})
    return {"apiVersion": "v1", "kind": kind, "metadata": metadata, "data": data}


def put(key, value, op="add", clusters=EVERYWHERE):
    return {"clusterSelector": clusters, "jsonPatchOverrides": [{"op": op, "path": f"/data/{key}", "value": value}]}


def make_snapshot(name, *rules, selector=NAMESPACE, namespace=""):
    labels = {FLEET + "parent-resource-override": name.rpartition("-")[0]}
    metadata = {"name": name, "labels": labels} | ({"namespace": namespace} if namespace else {})
    selectors = "resourceSelectors" if namespace else "clusterResourceSelectors"
    spec = {selectors: [selector], "policy": {"overrideRules": list(rules)}}
    return {"metadata": metadata, "spec": {"overrideSpec": spec}}


def make_binding(*snapshots):
    namespaced = [item["metadata"] for item in snapshots if "namespace" in item["metadata"]]
    spec = {
        "clusterResourceOverrideSnapshots": [
            item["metadata"]["name"] for item in snapshots if "namespace" not in item["metadata"]
        ],
        "resourceOverrideSnapshots": [{"name": item["name"], "namespace": item["namespace"]} for item in namespaced],
        "targetCluster": "a",
        "resourceSnapshotName": "p-0-snapshot",
    }
    return {"metadata": {"name": "p-a-1", "labels": {FLEET + "parent-CRP": "p"}}, "spec": spec}


def overridden(content, *snapshots, member=MEMBER):
    kept = copy.deepcopy((content, snapshots))
    result = binding_override(make_binding(*snapshots), member, snapshots)(content)
    assert (content, snapshots) == kept
    return result


def test_the_last_write_wins_and_namespaced_overrides_come_last():
    cluster_wide = [make_snapshot("a-0", put("who", "a"), put("a", "1")), make_snapshot("b-0", put("who", "b"))]
    namespaced = make_snapshot("a-0", put("who", "ro"), put("who", "last"), selector=RATES, namespace="shop")
    assert overridden(make_object(), *cluster_wide)["data"] == {"who": "b", "a": "1"}
    assert overridden(make_object(), namespaced, *cluster_wide)["data"] == {"who": "last", "a": "1"}


@pytest.mark.parametrize(
    ("content", "touched"),
    [
        pytest.param(make_object("shop", "", "Namespace"), True, id="the-namespace"),
        pytest.param(make_object(), True, id="what-is-in-it"),
        pytest.param(make_object(namespace="dock"), False, id="another-namespace"),
        pytest.param(make_object("dock", "", "Namespace"), False, id="another-namespace-itself"),
        pytest.param(make_object("shop", "", "Node"), False, id="another-kind"),
    ],
)
def test_selecting_a_namespace_selects_everything_in_it(content, touched):
    assert (overridden(content, make_snapshot("o-0", put("x", "1"))) != content) is touched


@pytest.mark.parametrize(
    ("content", "touched"),
    [
        pytest.param(make_object(), True, id="by-name"),
        pytest.param(make_object("other"), False, id="another-name"),
        pytest.param(make_object(namespace="dock"), False, id="another-namespace"),
        pytest.param(make_object(kind="Secret"), False, id="another-kind"),
    ],
)
def test_a_resource_override_selects_by_name(content, touched):
    snapshot = make_snapshot("o-0", put("x", "1"), selector=RATES, namespace="shop")
    assert (overridden(content, snapshot) != content) is touched


def test_rules_for_other_clusters_are_skipped():
    elsewhere = {"clusterSelectorTerms": [{"labelSelector": {"matchLabels": {"zone": "east"}}}]}
    here = {"clusterSelectorTerms": [{"labelSelector": {"matchLabels": {"zone": "west"}}}]}
    rules = [put("x", "1", clusters=elsewhere), {**DELETE, "clusterSelector": elsewhere}, put("y", "2", clusters=here)]
    assert overridden(make_object(), make_snapshot("o-0", *rules))["data"] == {"y": "2"}
    nowhere = {"overrideType": "Delete"}
    assert overridden(make_object(), make_snapshot("o-0", nowhere)) == make_object()


def test_deletion_ends_everything():
    """Neither a later rule nor a later override runs on an object that is deleted; the reference would fail."""
    broken = put("no/where", "1", op="replace")
    first = make_snapshot("a-0", put("x", "1"), DELETE, broken)
    later = make_snapshot("b-0", broken)
    own = make_snapshot("c-0", broken, selector=RATES, namespace="shop")
    assert overridden(make_object(), first, later, own) is None


def test_the_patches_of_a_rule_are_one_patch():
    patches = [
        {"op": "add", "path": "/data/list", "value": [1]},
        {"op": "add", "path": "/data/list/-", "value": 2},
        {"op": "replace", "path": "/data/list/0", "value": {"n": None}},
        {"op": "remove", "path": "/data/gone"},
        {"op": "add", "path": "/data/a~1b", "value": "slash"},
        {"op": "add", "path": "/data/null"},
    ]
    rule = {"clusterSelector": EVERYWHERE, "jsonPatchOverrides": patches}
    result = overridden(make_object(gone="1"), make_snapshot("o-0", rule))
    assert result["data"] == {"list": [{"n": None}, 2], "a/b": "slash", "null": None}


@pytest.mark.parametrize(
    ("value", "wanted"),
    [
        pytest.param("${MEMBER-CLUSTER-NAME}", "a", id="name"),
        pytest.param("x-${MEMBER-CLUSTER-NAME}-${MEMBER-CLUSTER-LABEL-KEY-zone}", "x-a-west", id="several"),
        pytest.param("${MEMBER-CLUSTER-LABEL-KEY-team.example.com/tier}", "gold", id="qualified-key"),
        pytest.param("${MEMBER-CLUSTER-LABEL-KEY-kubernetes-fleet.io/member-name}", "a", id="member-name"),
        pytest.param({"${MEMBER-CLUSTER-NAME}": ["${MEMBER-CLUSTER-NAME}", 1, None]}, {"a": ["a", 1, None]}, id="deep"),
        pytest.param("${member-cluster-name}", "${member-cluster-name}", id="case-matters"),
        pytest.param("$MEMBER-CLUSTER-NAME ${OTHER}", "$MEMBER-CLUSTER-NAME ${OTHER}", id="other-text"),
        pytest.param('"${MEMBER-CLUSTER-NAME}" ü', '"a" ü', id="quotes"),
        pytest.param(1.5, 1.5, id="no-text"),
    ],
)
def test_variables(value, wanted):
    assert overridden(make_object(), make_snapshot("o-0", put("x", value)))["data"] == {"x": wanted}


def test_a_path_is_not_substituted():
    snapshot = make_snapshot("o-0", put("${MEMBER-CLUSTER-NAME}", "1"))
    assert overridden(make_object(), snapshot)["data"] == {"${MEMBER-CLUSTER-NAME}": "1"}


@modest(200)
@given(name=st.text(), label=st.text(), prefix=st.text())
def test_whatever_a_label_holds_it_stays_one_text(name, label, prefix):
    """A label value is put into JSON text and can never become anything but text."""
    value = [prefix, "${MEMBER-CLUSTER-LABEL-KEY-k}", "${MEMBER-CLUSTER-NAME}"]
    if any("${MEMBER" in text for text in (name, label, prefix)):
        return
    assert substitute(value, name, {"k": label}) == [prefix, label, name]


@pytest.mark.parametrize(
    ("value", "words"),
    [
        pytest.param("${MEMBER-CLUSTER-LABEL-KEY-no}", "has no label no", id="missing-label"),
        pytest.param("${MEMBER-CLUSTER-LABEL-KEY-zone", "lacks its closing brace", id="not-closed"),
        pytest.param({"a": "${MEMBER-CLUSTER-LABEL-KEY-zone"}, "lacks its closing brace", id="not-closed-in-an-object"),
        pytest.param("${MEMBER-CLUSTER-LABEL-KEY-}", "has no label ", id="no-key"),
    ],
)
def test_variables_without_meaning(value, words):
    with pytest.raises(VariableError, match=words):
        substitute(value, "a", MEMBER["metadata"]["labels"])


@pytest.mark.parametrize(
    ("rule", "words"),
    [
        pytest.param(put("x", "new", "replace"), ["replace /data/x", '"new"', "does not exist"], id="missing-target"),
        pytest.param(put("x/y", "new"), ["add /data/x/y", '"new"', "does not exist"], id="missing-parent"),
        pytest.param(put("x~", "new"), ["add /data/x~", "JSON Pointer"], id="bad-path"),
        pytest.param(
            put("x", "${MEMBER-CLUSTER-LABEL-KEY-no}"), ["${MEMBER-CLUSTER-LABEL-KEY-no}", "no label no"], id="label"
        ),
        pytest.param(
            {"clusterSelector": EVERYWHERE, "jsonPatchOverrides": [{"op": "remove", "path": "/data/x"}]},
            ["remove /data/x: "],
            id="nothing-to-remove",
        ),
        pytest.param(
            {
                "clusterSelector": EVERYWHERE,
                "jsonPatchOverrides": [{"op": "replace", "path": "/kind", "value": "Secret"}],
            },
            ["must not change apiVersion, kind, name or namespace"],
            id="another-object",
        ),
    ],
)
def test_what_cannot_be_applied_says_where(rule, words):
    error = overridden(make_object(), make_snapshot("zone-3", put("first", "1"), rule))
    assert isinstance(error, OverrideError)
    start = "ClusterResourceOverride zone (snapshot zone-3): spec.policy.overrideRules[1] on ConfigMap shop/rates"
    assert error.message.startswith(start)
    assert all(word in error.message for word in words), error.message


def test_a_long_value_is_cut_and_a_secret_is_not_told():
    snapshot = make_snapshot("o-0", put("x/y", "v" * 5000))
    error = overridden(make_object(), snapshot)
    assert "vvv" in error.message
    assert len(error.message) < 1000
    secret = overridden(make_object(kind="Secret"), snapshot)
    assert "vvv" not in secret.message
    assert "(hidden)" in secret.message


SECRET = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "keys"}, "stringData": {"token": "plain"}}


@pytest.mark.parametrize(
    ("content", "patches"),
    [
        pytest.param(make_object(), [{"op": "add", "path": "/data/none/x", "value": SECRET}], id="value"),
        pytest.param(
            make_object(),
            [
                {"op": "add", "path": "/data/keys", "value": SECRET},
                {"op": "add", "path": "/data/keys/stringData/none/x", "value": "plain"},
            ],
            id="earlier-value",
        ),
        pytest.param(
            {**make_object(), "data": {"keys": SECRET}},
            [{"op": "replace", "path": "/data/keys/stringData/none", "value": "plain"}],
            id="object-with-a-secret",
        ),
        pytest.param(
            {**make_object(), "data": {"keys": SECRET}},
            [{"op": "add", "path": "/data/keys/stringData/x", "value": "${MEMBER-CLUSTER-LABEL-KEY-plain}"}],
            id="variable",
        ),
    ],
)
def test_a_secret_in_another_object_is_not_told(content, patches):
    error = overridden(content, make_snapshot("o-0", {"clusterSelector": EVERYWHERE, "jsonPatchOverrides": patches}))
    assert "(hidden)" in error.message
    assert "plain" not in error.message


def test_a_snapshot_that_is_gone_is_an_error_for_every_object():
    kept, gone = make_snapshot("a-0", put("x", "1")), make_snapshot("b-0", put("y", "1"), namespace="dock")
    override = binding_override(make_binding(kept, gone), MEMBER, [kept])
    error = override(make_object(namespace="elsewhere"))
    assert isinstance(error, OverrideError)
    assert error.message == "ResourceOverrideSnapshot dock/b-0 no longer exists"
    assert binding_override(make_binding(), MEMBER, [])(make_object()) == make_object()


def test_rules_that_cannot_be_read_are_an_error():
    snapshot = make_snapshot("o-0", {"overrideType": "Merge"})
    assert overridden(make_object(namespace="dock"), snapshot) == make_object(namespace="dock")
    error = overridden(make_object(), snapshot)
    assert "spec.policy.overrideRules[0].overrideType" in error.message


def make_group(*objects):
    metadata = {
        "name": "p-0-snapshot",
        "annotations": {FLEET + "number-of-resource-snapshots": "1"},
        "labels": {FLEET + "resource-index": "0"},
    }
    return SnapshotGroup(0, {"metadata": metadata, "spec": {"selectedResources": list(objects)}})


def planned(group, *snapshots):
    binding = make_binding(*snapshots)
    return plan_works(binding, group, [], override=binding_override(binding, MEMBER, snapshots))


def manifests(plan):
    assert plan.problem is None
    return {
        write.name: [item["metadata"]["name"] for item in write.document["spec"]["workload"]["manifests"]]
        for write in plan.writes
    }


def test_a_work_without_its_deleted_objects():
    group = make_group(make_object(), make_object("other"))
    only = make_snapshot("o-0", DELETE, selector=RATES, namespace="shop")
    assert manifests(planned(group, only)) == {"p-work": ["other"]}
    assert manifests(planned(group, make_snapshot("o-0", DELETE))) == {"p-work": []}


def test_what_is_in_envelopes_is_overridden_one_by_one():
    inner, other = make_object(), make_object("other")
    wrapped = {**make_object("e", kind="ResourceEnvelope"), "apiVersion": GROUP, "data": {"a": inner, "b": other}}
    only = make_snapshot("o-0", DELETE, selector=RATES, namespace="shop")
    plan = planned(make_group(wrapped), only)
    assert sorted(manifests(plan).values()) == [[], ["other"]]
    touched = planned(make_group(wrapped), make_snapshot("o-0", put("x", "${MEMBER-CLUSTER-NAME}")))
    work = touched.writes[1].document["spec"]["workload"]["manifests"]
    assert [item["data"] for item in work] == [{"x": "a"}, {"x": "a"}]


def test_a_failure_writes_nothing():
    plan = planned(make_group(make_object("fine", "dock"), make_object()), make_snapshot("o-0", put("x/y", "1")))
    assert plan.writes == ()
    assert (plan.problem.cause, plan.problem.retry) == (WorkCause.OVERRIDDEN, False)
    assert "spec.policy.overrideRules[0]" in plan.problem.message
