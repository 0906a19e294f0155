"""Boundaries of the rules on overrides, envelopes, budgets, members and machine-written kinds, through the hook."""

import pytest

from tests.builders.binding import make_binding
from webhook.admission.judge import judge
from webhook.validation.framework.context import Context

FLEET = "placement.kubernetes-fleet.io/v1beta1"
NAMESPACE = {"group": "", "version": "v1", "kind": "Namespace", "name": "shop"}
PATCH = {"op": "replace", "path": "/spec/replicas", "value": 3}
RULES = "spec.policy.overrideRules"
TERMS = f"{RULES}[0].clusterSelector.clusterSelectorTerms"
PATCHES = f"{RULES}[0].jsonPatchOverrides"
DECISION = {"clusterName": "c", "selected": True, "reason": "r"}


def make_object(kind, spec, api_version=FLEET):
    return {"apiVersion": api_version, "kind": kind, "metadata": {"name": "x", "namespace": "shop"}, "spec": spec}


def make_overrides(**rule):
    """Make one override of each kind with the rule."""
    rules = [{"clusterSelector": {"clusterSelectorTerms": []}, "jsonPatchOverrides": [PATCH], **rule}]
    policy = {"overrideRules": rules}
    yield make_object("ClusterResourceOverride", {"clusterResourceSelectors": [NAMESPACE], "policy": policy})
    yield make_object("ResourceOverride", {"resourceSelectors": [NAMESPACE], "policy": policy})


def refused_fields(document, old=None):
    judgement = judge("CREATE" if old is None else "UPDATE", document, old, Context())
    assert judgement.code in {200, 422}
    return sorted({str(error.field) for error in judgement.errors})


LABELS = {"labelSelector": {"matchLabels": {"a": "b"}}}


@pytest.mark.parametrize(
    ("rule", "refused"),
    [
        pytest.param({"clusterSelector": {"clusterSelectorTerms": [LABELS] * 10}}, [], id="O-11-ten"),
        pytest.param({"clusterSelector": {"clusterSelectorTerms": [LABELS] * 11}}, [TERMS], id="O-11-eleven"),
        pytest.param({"clusterSelector": {}}, [TERMS], id="O-11-terms-are-required"),
        pytest.param({"clusterSelector": None}, [], id="X-68-null"),
        pytest.param(
            {"clusterSelector": {"clusterSelectorTerms": [{**LABELS, "propertySelector": None}]}}, [], id="O-11-null"
        ),
        pytest.param(
            {"clusterSelector": {"clusterSelectorTerms": [{"labelSelector": None}]}},
            [f"{TERMS}[0].labelSelector"],
            id="O-12-null",
        ),
        pytest.param({"overrideType": None}, [], id="O-14-null"),
        pytest.param({"overrideType": "delete"}, [f"{RULES}[0].overrideType"], id="O-14-case"),
        pytest.param({"overrideType": "Delete", "jsonPatchOverrides": None}, [], id="O-15-null"),
        pytest.param({"jsonPatchOverrides": [PATCH] * 20}, [], id="O-16-twenty"),
        pytest.param({"jsonPatchOverrides": [PATCH] * 21}, [PATCHES], id="O-16-twenty-one"),
    ],
)
def test_override_rules(rule, refused):
    assert [refused_fields(document) for document in make_overrides(**rule)] == [refused] * 2


@pytest.mark.parametrize(
    ("patch", "refused"),
    [
        pytest.param({"op": "Add"}, ["op"], id="O-17-case"),
        pytest.param({"op": None}, ["op"], id="O-17-null"),
        pytest.param({"op": "remove", "value": None}, [], id="O-19-null-is-absent"),
        pytest.param({"op": "remove", "value": False}, ["value"], id="O-19-false-is-a-value"),
        pytest.param({"op": "remove", "value": ""}, ["value"], id="O-19-empty-is-a-value"),
        pytest.param({"path": "/\t/a"}, ["path"], id="O-18-blank"),
        pytest.param({"path": "/metadata/labelsx"}, ["path"], id="O-18-labelsx"),
        pytest.param({"path": "/metadata/Labels/a"}, ["path"], id="O-18-case"),
        pytest.param({"path": "/statuses"}, [], id="O-18-statuses"),
        pytest.param({"op": "add", "path": "/spec/list/-"}, [], id="O-18-end-of-a-list"),
        pytest.param({"path": "/spec/list/-"}, ["path"], id="X-64-end-of-a-list"),
        pytest.param({"path": 1}, ["path"], id="O-18-number"),
        pytest.param({"path": "/spec/a~2"}, ["path"], id="X-64"),
        pytest.param({"value": "${MEMBER-CLUSTER-LABEL-KEY-}"}, ["value"], id="X-65-empty-key"),
        pytest.param({"value": {"${MEMBER-CLUSTER-LABEL-KEY-a": 1}}, ["value"], id="X-65-in-a-key"),
        pytest.param({"value": "${MEMBER-CLUSTER-NAME"}, [], id="X-65-another-variable"),
    ],
)
def test_patches(patch, refused):
    wanted = [f"{PATCHES}[0].{field}" for field in refused]
    documents = make_overrides(jsonPatchOverrides=[{**PATCH, **patch}])
    assert [refused_fields(document) for document in documents] == [wanted] * 2


def make_manifest(kind, **metadata):
    api_version = "rbac.authorization.k8s.io/v1" if kind.startswith("Cluster") else "v1"
    return {"apiVersion": api_version, "kind": kind, "metadata": {"name": "x", **metadata}}


@pytest.mark.parametrize(
    ("kind", "data", "refused"),
    [
        pytest.param("ClusterResourceEnvelope", {"a": None}, ["data"], id="E-01-null-is-absent"),
        pytest.param("ClusterResourceEnvelope", {"a": []}, ["data.a"], id="E-01-list"),
        pytest.param(
            "ClusterResourceEnvelope",
            {f"k{i}": make_manifest("ClusterRole", name=f"n{i}") for i in range(50)},
            [],
            id="E-01-fifty",
        ),
        pytest.param(
            "ClusterResourceEnvelope", {"a": make_manifest("ClusterRole", name=5)}, ["data.a.metadata.name"], id="X-70"
        ),
        pytest.param("ClusterResourceEnvelope", {"a": make_manifest("ClusterRole", namespace="")}, [], id="X-71-empty"),
        pytest.param("ResourceEnvelope", {"": make_manifest("ConfigMap", namespace="shop")}, [], id="X-72-empty-key"),
        pytest.param(
            "ResourceEnvelope", {"a": make_manifest("ConfigMap", namespace=5)}, ["data.a.metadata.namespace"], id="X-72"
        ),
        pytest.param(
            "ResourceEnvelope",
            {"a": make_manifest("ConfigMap", namespace="shop"), "b": make_manifest("ConfigMap", namespace="shop")},
            ["data.b"],
            id="X-74",
        ),
    ],
)
def test_envelopes(kind, data, refused):
    document = make_object(kind, None)
    del document["spec"]
    assert refused_fields({**document, "data": data}) == refused


@pytest.mark.parametrize("field", ["maxUnavailable", "minAvailable"])
@pytest.mark.parametrize(
    ("value", "fits"),
    [("0%", True), ("05%", True), ("100%", True), (None, True), (1000, True)]
    + [(value, False) for value in ("000%", "101%", "5%\n", "\u0665%", "", True, 1.0, [])],
)
def test_budget_limits(field, value, fits):
    """B-02."""
    document = make_object("ClusterResourcePlacementDisruptionBudget", {field: value})
    assert refused_fields(document) == ([] if fits else [f"spec.{field}"])


def make_member(**spec):
    spec = {"identity": {"kind": "User", "name": "u"}, **spec}
    return make_object("MemberCluster", spec, "cluster.kubernetes-fleet.io/v1beta1")


TAINT = {"key": "a", "effect": "NoSchedule"}


@pytest.mark.parametrize(
    ("spec", "refused"),
    [
        pytest.param({"identity": {}}, ["identity.kind", "identity.name"], id="M-02-empty"),
        pytest.param({"heartbeatPeriodSeconds": 600}, [], id="M-03-600"),
        pytest.param({"heartbeatPeriodSeconds": 601}, ["heartbeatPeriodSeconds"], id="M-03-601"),
        pytest.param({"heartbeatPeriodSeconds": None}, [], id="M-03-null"),
        pytest.param({"heartbeatPeriodSeconds": 60.0}, ["heartbeatPeriodSeconds"], id="M-03-float"),
        pytest.param({"taints": [{**TAINT, "key": f"k{i}"} for i in range(100)]}, [], id="M-04-a-hundred"),
        pytest.param({"taints": [{**TAINT, "effect": ""}]}, ["taints[0].effect"], id="M-04-empty-effect"),
        pytest.param({"taints": [{**TAINT, "key": " "}]}, ["taints[0].key"], id="M-05-blank"),
        pytest.param({"taints": [{**TAINT, "value": "a\n"}]}, ["taints[0].value"], id="M-06-newline"),
        pytest.param({"taints": [TAINT, {**TAINT, "value": ""}]}, ["taints[1]"], id="M-07-empty-is-absent"),
        pytest.param({"deleteOptions": {"validationMode": None}}, [], id="M-08-null"),
        pytest.param({"deleteOptions": {"validationMode": "skip"}}, ["deleteOptions.validationMode"], id="M-08-case"),
        pytest.param({"identity": {"kind": "user", "name": "u"}}, ["identity.kind"], id="X-90-case"),
        pytest.param(
            {"identity": {"kind": "ServiceAccount", "name": "u", "namespace": ""}}, ["identity.namespace"], id="X-90-sa"
        ),
    ],
)
def test_members(spec, refused):
    assert refused_fields(make_member(**spec)) == [f"spec.{field}" for field in refused]


def make_policy_snapshot(policy):
    return make_object("SchedulingPolicySnapshot", {"policyHash": "YQ==", "policy": policy})


@pytest.mark.parametrize(
    ("document", "refused"),
    [
        pytest.param(make_policy_snapshot({"placementType": "PickFixed", "tolerations": []}), [], id="N-01-no-matrix"),
        pytest.param(make_policy_snapshot({"tolerations": [{"key": "a b"}]}), [], id="N-01-no-grammar"),
        pytest.param(make_policy_snapshot({"tolerations": [{}]}), ["spec.policy.tolerations[0].operator"], id="P-40"),
        pytest.param(make_binding("shop", "c"), [], id="N-03-empty-snapshot-name"),
        pytest.param(make_binding("shop", "c", state="bound"), ["spec.state"], id="X-96-case"),
        pytest.param(
            make_binding("shop", "c", clusterDecision={**DECISION, "selected": 1}),
            ["spec.clusterDecision.selected"],
            id="N-03-1",
        ),
        pytest.param(make_object("Work", {}), [], id="N-04-empty"),
        pytest.param(
            make_object("Work", {"reportBackStrategy": {"type": "Mirror"}}), [], id="N-04-no-rule-between-fields"
        ),
        pytest.param(make_object("ClusterResourceSnapshot", {"selectedResources": []}), [], id="N-06-none"),
        pytest.param(
            make_object("ClusterResourceSnapshot", {"selectedResources": None}), ["spec.selectedResources"], id="N-06"
        ),
    ],
)
def test_machine_written_kinds(document, refused):
    assert refused_fields(document) == refused


def test_snapshots_do_not_change():
    """X-95: writing out a default is no change."""
    assert refused_fields(make_policy_snapshot({"placementType": "PickAll"}), make_policy_snapshot({})) == []
    assert refused_fields(make_policy_snapshot(None), make_policy_snapshot({})) == ["spec"]
