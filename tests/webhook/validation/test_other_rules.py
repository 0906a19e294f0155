"""Rules on overrides, envelopes, evictions, budgets, members and machine-written kinds, by their ids."""

import pytest

from tests.builders.placement import make_placement
from webhook.settings.admission import AdmissionSettings
from webhook.validation import internal_kinds, member_cluster
from webhook.validation.framework.context import Context
from webhook.validation.framework.field import FieldError, FieldWarning
from webhook.validation.placement import disruption_budget, envelope, eviction, override

NAMESPACE = {"group": "", "version": "v1", "kind": "Namespace", "name": "shop"}
DEPLOYMENT = {"group": "apps", "version": "v1", "kind": "Deployment", "name": "web"}
PATCH = {"op": "replace", "path": "/spec/replicas", "value": 3}
RULE = {"clusterSelector": {"clusterSelectorTerms": []}, "jsonPatchOverrides": [PATCH]}
PLACEMENT = {"name": "shop"}
AT_RULE = "spec.policy.overrideRules[0]"


def make_object(kind, spec, name="x", namespace="", **metadata):
    metadata = {"name": name, **metadata}
    if namespace:
        metadata["namespace"] = namespace
    return {"apiVersion": "placement.kubernetes-fleet.io/v1", "kind": kind, "metadata": metadata, "spec": spec}


def make_override(name="x", selectors=(NAMESPACE,), **rule):
    policy = {"overrideRules": [{**RULE, **rule}]}
    spec = {"placement": PLACEMENT, "clusterResourceSelectors": list(selectors), "policy": policy}
    return make_object("ClusterResourceOverride", spec, name)


def make_resource_override(name="x", namespace="shop", selectors=(DEPLOYMENT,)):
    spec = {"placement": PLACEMENT, "resourceSelectors": list(selectors), "policy": {"overrideRules": [RULE]}}
    return make_object("ResourceOverride", spec, name, namespace)


def make_envelope(data, kind="ClusterResourceEnvelope", namespace=""):
    document = make_object(kind, None, "e", namespace)
    del document["spec"]
    return {**document, "apiVersion": "placement.kubernetes-fleet.io/v1beta1", "data": data}


def make_manifest(kind="ConfigMap", api_version="v1", **metadata):
    return {"apiVersion": api_version, "kind": kind, "metadata": {"name": "x", **metadata}}


def make_member(**spec):
    spec = {"identity": {"kind": "User", "name": "agent"}, **spec}
    return {**make_object("MemberCluster", spec, "edge"), "apiVersion": "cluster.kubernetes-fleet.io/v1"}


def errors_of(findings):
    return {(finding.rule, str(finding.field)) for finding in findings if isinstance(finding, FieldError)}


def warnings_of(findings):
    return {(finding.rule, str(finding.field)) for finding in findings if isinstance(finding, FieldWarning)}


@pytest.mark.parametrize(
    ("path", "rule"),
    [
        pytest.param("/spec/replicas", None, id="spec"),
        pytest.param("/Kind", None, id="case-matters"),
        pytest.param("/apiVersionX", None, id="whole-segment"),
        pytest.param("/spec/kind", None, id="only-the-first-segment"),
        pytest.param("/metadata/labels/apiVersion", None, id="label"),
        pytest.param("/metadata/annotations", None, id="all-annotations"),
        pytest.param("/data/a~1b~0c", None, id="escapes"),
        pytest.param("", "O-18", id="empty"),
        pytest.param("spec/replicas", "O-18", id="no-slash"),
        pytest.param("/", "O-18", id="only-a-slash"),
        pytest.param("/spec//replicas", "O-18", id="empty-segment"),
        pytest.param("/spec/ /x", "O-18", id="blank-segment"),
        pytest.param("/spec/", "O-18", id="trailing-slash"),
        pytest.param("/kind", "O-18", id="kind"),
        pytest.param("/apiVersion/x", "O-18", id="apiVersion"),
        pytest.param("/status/replicas", "O-18", id="status"),
        pytest.param("/metadata", "O-18", id="metadata"),
        pytest.param("/metadata/name", "O-18", id="name"),
        pytest.param("/data/a~b", "X-64", id="tilde"),
        pytest.param("/data/a~", "X-64", id="last-tilde"),
        pytest.param("/spec/x/-1", "X-64", id="negative-position"),
        pytest.param("/spec/x/-0", "X-64", id="negative-zero"),
        pytest.param("/spec/x/-12/y", "X-64", id="negative-position-on-the-way"),
        pytest.param("/spec/x/+1", "X-64", id="plus"),
        pytest.param("/spec/x/01", "X-64", id="leading-zero"),
        pytest.param("/spec/x/00/y", "X-64", id="two-zeros"),
        pytest.param("/spec/x/0", None, id="first-position"),
        pytest.param("/spec/x/10/y", None, id="position"),
        pytest.param("/spec/x/-1a", None, id="a-key"),
        pytest.param("/spec/x/1e2", None, id="another-key"),
        pytest.param("/spec/x/-", "X-64", id="nothing-to-replace"),
        pytest.param("/spec/x/-/y", "X-64", id="below-nothing"),
        pytest.param("/metadata/labels/007", None, id="label-key"),
        pytest.param("/spec/template/metadata/annotations/-1", None, id="annotation-key"),
        pytest.param("/spec/selector/matchLabels/01", None, id="selector-key"),
        pytest.param("/data/-1", None, id="data-key"),
        pytest.param("/data/-", None, id="data-key-of-one-sign"),
    ],
)
def test_patch_paths(path, rule):
    found = errors_of(
        override.validate_cluster_override(make_override(jsonPatchOverrides=[{**PATCH, "path": path}]), None, Context())
    )
    assert found == ({(rule, f"{AT_RULE}.jsonPatchOverrides[0].path")} if rule else set())


@pytest.mark.parametrize(
    ("op", "path", "refused"),
    [
        pytest.param("add", "/spec/x/-", False, id="add"),
        pytest.param("add", "/spec/x/-/y", True, id="add-below"),
        pytest.param("add", "/spec/x/-1", True, id="add-before"),
        pytest.param("remove", "/spec/x/-", True, id="remove"),
        pytest.param("remove", "/spec/x/-1", True, id="remove-the-last"),
        pytest.param("remove", "/spec/x/0", False, id="remove-the-first"),
    ],
)
def test_only_an_add_may_lead_to_the_end_of_a_list(op, path, refused):
    patch = {"op": op, "path": path, **({"value": 1} if op == "add" else {})}
    found = errors_of(override.validate_cluster_override(make_override(jsonPatchOverrides=[patch]), None, Context()))
    assert found == ({("X-64", f"{AT_RULE}.jsonPatchOverrides[0].path")} if refused else set())


@pytest.mark.parametrize(
    ("document", "wanted"),
    [
        pytest.param(
            make_override(selectors=[{**NAMESPACE, "name": "", "labelSelector": {}}]),
            {
                ("O-05", "spec.clusterResourceSelectors[0].labelSelector"),
                ("O-06", "spec.clusterResourceSelectors[0].name"),
            },
            id="O-05-O-06",
        ),
        pytest.param(
            make_override(selectors=[NAMESPACE, {**NAMESPACE, "selectionScope": "NamespaceOnly"}]),
            {("O-07", "spec.clusterResourceSelectors[1]")},
            id="X-61-whatever-scope",
        ),
        pytest.param(make_override(selectors=[]), {("O-04", "spec.clusterResourceSelectors")}, id="O-04"),
        pytest.param(
            make_override(clusterSelector={"clusterSelectorTerms": [{"propertySelector": {"matchExpressions": []}}]}),
            {
                ("O-11", f"{AT_RULE}.clusterSelector.clusterSelectorTerms[0].propertySelector"),
                ("O-12", f"{AT_RULE}.clusterSelector.clusterSelectorTerms[0].labelSelector"),
            },
            id="O-11-O-12",
        ),
        pytest.param(
            make_override(clusterSelector={"clusterSelectorTerms": [{"labelSelector": {"matchLabels": {"a": "-"}}}]}),
            {("O-13", f"{AT_RULE}.clusterSelector.clusterSelectorTerms[0].labelSelector.matchLabels.a")},
            id="O-13",
        ),
        pytest.param(make_override(overrideType="Hide"), {("O-14", f"{AT_RULE}.overrideType")}, id="O-14"),
        pytest.param(make_override(overrideType="Delete"), {("O-15", f"{AT_RULE}.jsonPatchOverrides")}, id="O-15"),
        pytest.param(make_override(jsonPatchOverrides=None), {("O-16", f"{AT_RULE}.jsonPatchOverrides")}, id="O-16"),
        pytest.param(
            make_override(jsonPatchOverrides=[]), {("O-16", f"{AT_RULE}.jsonPatchOverrides")}, id="O-16-empty"
        ),
        pytest.param(
            make_override(jsonPatchOverrides=[{**PATCH, "op": "move"}]),
            {("O-17", f"{AT_RULE}.jsonPatchOverrides[0].op")},
            id="O-17",
        ),
        pytest.param(
            make_override(jsonPatchOverrides=[{**PATCH, "op": "remove"}]),
            {("O-19", f"{AT_RULE}.jsonPatchOverrides[0].value")},
            id="O-19",
        ),
        pytest.param(
            make_override(
                selectors=[
                    {
                        "group": "placement.kubernetes-fleet.io",
                        "version": "v1beta1",
                        "kind": "ClusterResourceEnvelope",
                        "name": "e",
                    }
                ]
            ),
            {("X-60", "spec.clusterResourceSelectors[0].kind")},
            id="X-60",
        ),
        pytest.param(
            make_override(jsonPatchOverrides=[{**PATCH, "value": {"a": ["${MEMBER-CLUSTER-LABEL-KEY-region"]}}]),
            {("X-65", f"{AT_RULE}.jsonPatchOverrides[0].value")},
            id="X-65-no-brace",
        ),
        pytest.param(
            make_override(jsonPatchOverrides=[{**PATCH, "value": "${MEMBER-CLUSTER-LABEL-KEY-a b}"}]),
            {("X-65", f"{AT_RULE}.jsonPatchOverrides[0].value")},
            id="X-65-no-label-key",
        ),
        pytest.param(
            make_override(
                jsonPatchOverrides=[{**PATCH, "value": "${MEMBER-CLUSTER-LABEL-KEY-a/b} ${MEMBER-CLUSTER-NAME}"}]
            ),
            set(),
            id="X-65-fits",
        ),
    ],
)
def test_cluster_overrides(document, wanted):
    assert errors_of(override.validate_cluster_override(document, None, Context())) == wanted


def test_resource_overrides_name_their_objects():
    document = make_resource_override(selectors=[{**DEPLOYMENT, "name": "", "kind": ""}])
    assert errors_of(override.validate_resource_override(document, None, Context())) == {
        ("X-67", "spec.resourceSelectors[0].name"),
        ("X-67", "spec.resourceSelectors[0].kind"),
    }


@pytest.mark.parametrize(
    ("old", "new", "wanted"),
    [
        pytest.param({"name": "a"}, {"name": "a", "scope": "Cluster"}, set(), id="after-defaults"),
        pytest.param({"name": "a"}, {"name": "b"}, {("O-01", "spec.placement")}, id="changed"),
        pytest.param({"name": "a"}, None, {("O-01", "spec.placement")}, id="gone"),
        pytest.param(None, {"name": "a"}, {("O-01", "spec.placement")}, id="appeared"),
        pytest.param(
            {"name": "a", "scope": "Namespaced"},
            {"name": "a", "scope": "Namespaced"},
            {("O-02", "spec.placement.scope")},
            id="O-02",
        ),
    ],
)
def test_the_placement_of_an_override_is_fixed(old, new, wanted):
    before, after = make_override(), make_override()
    before["spec"]["placement"], after["spec"]["placement"] = old, new
    assert errors_of(override.validate_cluster_override(after, before, Context())) == wanted


def test_two_overrides_of_one_object():
    """O-08: within a namespace, and not against itself."""
    context = Context.of_objects([make_resource_override("a"), make_resource_override("b", "other")])
    taken = {("O-08", "spec.resourceSelectors[0]")}
    assert errors_of(override.validate_resource_override(make_resource_override("b"), None, context)) == taken
    assert errors_of(override.validate_resource_override(make_resource_override("a"), None, context)) == set()
    assert errors_of(override.validate_resource_override(make_resource_override("b", "third"), None, context)) == set()


def test_overrides_of_different_versions_do_not_conflict():
    """The loop matches an object in the version in which it is placed, so at most one of the two has an effect."""
    context = Context.of_objects([make_resource_override("a", selectors=[{**DEPLOYMENT, "version": "v2"}])])
    assert errors_of(override.validate_resource_override(make_resource_override("b"), None, context)) == set()
    both = make_resource_override("b", selectors=[DEPLOYMENT, {**DEPLOYMENT, "version": "v3"}])
    assert errors_of(override.validate_resource_override(both, None, context)) == set()


def test_a_hundred_overrides_are_enough():
    """O-09 looks at creations only."""
    many = [make_override(f"o{i}", [{**NAMESPACE, "name": f"n{i}"}]) for i in range(100)]
    context = Context.of_objects(many)
    document = make_override("new", [{**NAMESPACE, "name": "new"}])
    assert errors_of(override.validate_cluster_override(document, None, context)) == {("O-09", "metadata.name")}
    assert errors_of(override.validate_cluster_override(document, document, context)) == set()
    assert errors_of(override.validate_cluster_override(many[0], None, context)) == set()


def test_odd_overrides_warn():
    document = make_override(clusterSelector=None, jsonPatchOverrides=[{"op": "add", "path": "/data/x"}])
    del document["spec"]["placement"]
    assert warnings_of(override.validate_cluster_override(document, None, Context())) == {
        ("X-62", "spec.placement"),
        ("X-66", f"{AT_RULE}.jsonPatchOverrides[0].value"),
        ("X-68", f"{AT_RULE}.clusterSelector"),
    }


def test_more_rights_on_members_warn_or_are_denied():
    """X-63."""
    role = {"group": "rbac.authorization.k8s.io", "version": "v1", "kind": "ClusterRole", "name": "r"}
    document = make_override(selectors=[role], jsonPatchOverrides=[{**PATCH, "path": "/rules/0/verbs"}])
    wanted = {("X-63", f"{AT_RULE}.jsonPatchOverrides[0].path")}
    assert warnings_of(override.validate_cluster_override(document, None, Context())) == wanted
    strict = Context(settings=AdmissionSettings(strict_overrides=True))
    assert errors_of(override.validate_cluster_override(document, None, strict)) == wanted


@pytest.mark.parametrize(
    ("data", "wanted"),
    [
        pytest.param(None, {("E-01", "data")}, id="E-01-missing"),
        pytest.param({}, {("E-01", "data")}, id="E-01-empty"),
        pytest.param(
            {str(i): make_manifest("Namespace", name=f"n{i}") for i in range(51)}, {("E-01", "data")}, id="E-01-51"
        ),
        pytest.param({"a": "x"}, {("E-01", "data.a")}, id="E-01-no-object"),
        pytest.param(
            {"a.yaml": {}},
            {
                ("X-70", "data[a.yaml].apiVersion"),
                ("X-70", "data[a.yaml].kind"),
                ("X-70", "data[a.yaml].metadata.name"),
            },
            id="X-70",
        ),
        pytest.param(
            {"a": make_manifest("Widget", "toys.example.org/v1", namespace="shop")},
            {("X-71", "data.a.metadata.namespace")},
            id="X-71-namespace",
        ),
        pytest.param({"a": make_manifest()}, {("X-71", "data.a.metadata.namespace")}, id="X-71-namespaced-kind"),
        pytest.param(
            {"a": make_manifest("ClusterResourceEnvelope", "placement.kubernetes-fleet.io/v1beta1")},
            {("X-73", "data.a.kind")},
            id="X-73",
        ),
        pytest.param(
            {
                "a": make_manifest("ClusterRole", "rbac.authorization.k8s.io/v1"),
                "b": make_manifest("ClusterRole", "rbac.authorization.k8s.io/v1beta1"),
            },
            {("X-74", "data.b")},
            id="X-74",
        ),
    ],
)
def test_cluster_envelopes(data, wanted):
    assert errors_of(envelope.validate_cluster_envelope(make_envelope(data), None, Context())) == wanted


JOB = {**make_manifest("Job", "batch/v1", namespace="shop"), "spec": {"ttlSecondsAfterFinished": 0}}


def test_x75_fields_to_ignore_in_an_envelope_can_be_read():
    annotations = {"harbormaster.dev/ignore-fields": "data.a"}
    document = make_envelope(
        {"a": make_manifest("ClusterRole", "rbac.authorization.k8s.io/v1", annotations=annotations)}
    )
    (at,) = errors_of(envelope.validate_cluster_envelope(document, None, Context()))
    assert at == ("X-75", "data.a.metadata.annotations[harbormaster.dev/ignore-fields]")


def test_x76_a_job_with_a_ttl_in_an_envelope_is_warned_about_once():
    document = make_envelope({"a": JOB})
    findings = list(envelope.validate_resource_envelope(document, None, Context()))
    assert ("X-76", "data.a.spec.ttlSecondsAfterFinished") in warnings_of(findings)
    assert not warnings_of(envelope.validate_resource_envelope(document, document, Context()))


@pytest.mark.parametrize(
    ("entry", "wanted"),
    [
        pytest.param(make_manifest("Namespace", name="kube-system"), {("X-01", "data.a.metadata.name")}, id="kube"),
        pytest.param(make_manifest("Namespace", name="fleet-member-x"), {("X-01", "data.a.metadata.name")}, id="fleet"),
        pytest.param(make_manifest("Namespace", name="default"), {("X-01", "data.a.metadata.name")}, id="default"),
        pytest.param(make_manifest("Namespace", name="vault"), {("X-01", "data.a.metadata.name")}, id="operator-name"),
        pytest.param(make_manifest("Namespace", name="shop"), set(), id="any-other-namespace"),
        pytest.param(
            make_manifest(
                "CustomResourceDefinition", "apiextensions.k8s.io/v1", name="works.placement.kubernetes-fleet.io"
            ),
            {("X-02", "data.a.metadata.name")},
            id="definition-of-the-fleet",
        ),
        pytest.param(
            make_manifest("ClusterRoleBinding", "rbac.authorization.k8s.io/v1", name="harbormaster-agent"),
            {("X-02", "data.a.metadata.name")},
            id="what-harbormaster-may-do",
        ),
        pytest.param(
            make_manifest("ClusterUpgradeRun", "upgrade.harbormaster.dev/v1alpha1"), {("X-73", "data.a.kind")}, id="run"
        ),
        pytest.param(make_manifest("Node"), {("X-02", "data.a.kind")}, id="never-placed"),
        pytest.param(
            make_manifest("APIService", "apiregistration.k8s.io/v1"), {("X-02", "data.a.kind")}, id="operator"
        ),
    ],
)
def test_what_no_selector_may_name_is_in_no_cluster_envelope(entry, wanted):
    """X-01 and X-02, with what the operator has added to them."""
    settings = AdmissionSettings(
        skipped_namespaces=frozenset({"vault"}), skipped_kinds=frozenset({("apiregistration.k8s.io", "APIService")})
    )
    document = make_envelope({"a": entry})
    assert errors_of(envelope.validate_cluster_envelope(document, None, Context(settings=settings))) == wanted


@pytest.mark.parametrize(
    ("namespace", "entry", "wanted"),
    [
        pytest.param("shop", {"kind": "Pod"}, {("X-02", "data.a.kind")}, id="pod"),
        pytest.param("shop", {"kind": "Event"}, {("X-02", "data.a.kind")}, id="event"),
        pytest.param(
            "shop",
            {"kind": "Lease", "api_version": "coordination.k8s.io/v1"},
            {("X-02", "data.a.kind")},
            id="lease",
        ),
        pytest.param("kube-system", {}, {("X-01", "data.a.metadata.namespace")}, id="kube-system"),
        pytest.param("fleet-member-x", {}, {("X-01", "data.a.metadata.namespace")}, id="of-a-member"),
        pytest.param("vault", {}, {("X-01", "data.a.metadata.namespace")}, id="operator-namespace"),
        pytest.param("default", {}, set(), id="default-is-on-every-member"),
        pytest.param("shop", {}, set(), id="any-other"),
    ],
)
def test_what_no_selector_may_name_is_in_no_resource_envelope(namespace, entry, wanted):
    """X-01 and X-02."""
    context = Context(settings=AdmissionSettings(skipped_namespaces=frozenset({"vault"})))
    document = make_envelope({"a": make_manifest(namespace=namespace, **entry)}, "ResourceEnvelope", namespace)
    assert errors_of(envelope.validate_resource_envelope(document, None, context)) == wanted


def test_resource_envelopes_hold_their_own_namespace():
    """X-72."""
    data = {
        "own": make_manifest(namespace="shop"),
        "none": make_manifest(name="y"),
        "other": make_manifest(name="z", namespace="bar"),
    }
    document = make_envelope(data, "ResourceEnvelope", "shop")
    assert errors_of(envelope.validate_resource_envelope(document, None, Context())) == {
        ("X-72", "data.none.metadata.namespace"),
        ("X-72", "data.other.metadata.namespace"),
    }


@pytest.mark.parametrize(
    ("placement", "wanted"),
    [
        pytest.param(None, set(), id="V-05-unknown"),
        pytest.param(make_placement("shop"), set(), id="no-policy"),
        pytest.param(make_placement("other", {"placementType": "PickFixed"}), set(), id="another"),
        pytest.param(
            make_placement("shop", {"placementType": "PickFixed"}), {("V-04", "spec.placementName")}, id="V-04"
        ),
        pytest.param(
            make_placement(metadata={"deletionTimestamp": "2026-01-01T00:00:00Z"}),
            {("V-03", "spec.placementName")},
            id="V-03",
        ),
    ],
)
def test_evictions(placement, wanted):
    document = make_object("ClusterResourcePlacementEviction", {"placementName": "shop", "clusterName": "edge"})
    context = Context.of_objects([placement] if placement else [])
    assert errors_of(eviction.validate(document, None, context)) == wanted
    assert errors_of(eviction.validate(document, document, context)) == set()


def test_an_eviction_names_one_binding_for_ever():
    old = make_object("ClusterResourcePlacementEviction", {"placementName": "shop", "clusterName": "edge"})
    new = make_object("ClusterResourcePlacementEviction", {"placementName": "web", "clusterName": "a" * 256})
    assert errors_of(eviction.validate(new, old, Context())) == {
        ("V-01", "spec.clusterName"),
        ("V-02", "spec.placementName"),
    }


@pytest.mark.parametrize(
    ("spec", "wanted"),
    [
        pytest.param({"maxUnavailable": 1, "minAvailable": 1}, {("B-01", "spec")}, id="B-01"),
        pytest.param({"maxUnavailable": "30"}, {("B-02", "spec.maxUnavailable")}, id="B-02-digits"),
        pytest.param({"minAvailable": -1}, {("B-02", "spec.minAvailable")}, id="B-02-negative"),
        pytest.param({"minAvailable": 1.5}, {("B-02", "spec.minAvailable")}, id="B-02-float"),
        pytest.param({"minAvailable": 2**31 - 1}, set(), id="B-02-largest"),
        pytest.param({"minAvailable": 2**31}, {("B-02", "spec.minAvailable")}, id="B-02-more-than-32-bits"),
        pytest.param({"minAvailable": "00%"}, set(), id="B-02-leading-zero-is-fine"),
    ],
)
def test_budgets(spec, wanted):
    document = make_object("ClusterResourcePlacementDisruptionBudget", spec, "shop")
    assert errors_of(disruption_budget.validate(document, None, Context())) == wanted


@pytest.mark.parametrize(
    ("policy", "spec", "wanted"),
    [
        pytest.param(None, {"maxUnavailable": 1}, {("B-03", "spec.maxUnavailable")}, id="B-03-no-policy"),
        pytest.param({}, {"minAvailable": "50%"}, {("B-04", "spec.minAvailable")}, id="B-04"),
        pytest.param({}, {"minAvailable": 1}, set(), id="B-04-integer"),
        pytest.param({"placementType": "PickN"}, {"maxUnavailable": "50%"}, set(), id="PickN"),
    ],
)
def test_budgets_of_placements_without_a_number(policy, spec, wanted):
    document = make_object("ClusterResourcePlacementDisruptionBudget", spec, "shop")
    context = Context.of_objects([make_placement("shop", policy)])
    assert errors_of(disruption_budget.validate(document, None, context)) == wanted


def test_a_budget_without_limits_warns():
    document = make_object("ClusterResourcePlacementDisruptionBudget", {}, "shop")
    assert warnings_of(disruption_budget.validate(document, None, Context())) == {("X-80", "spec")}


@pytest.mark.parametrize(
    ("spec", "wanted"),
    [
        pytest.param({"identity": None}, {("M-02", "spec.identity")}, id="M-02"),
        pytest.param({"heartbeatPeriodSeconds": 601}, {("M-03", "spec.heartbeatPeriodSeconds")}, id="M-03"),
        pytest.param(
            {"taints": [{"effect": "NoExecute"}]},
            {("M-04", "spec.taints[0].key"), ("M-04", "spec.taints[0].effect")},
            id="M-04",
        ),
        pytest.param({"taints": [{"key": " ", "effect": "NoSchedule"}]}, {("M-05", "spec.taints[0].key")}, id="M-05"),
        pytest.param(
            {"taints": [{"key": "a", "value": "b c", "effect": "NoSchedule"}]},
            {("M-06", "spec.taints[0].value")},
            id="M-06",
        ),
        pytest.param({"taints": [{"key": "a", "effect": "NoSchedule"}] * 2}, {("M-07", "spec.taints[1]")}, id="M-07"),
        pytest.param(
            {"deleteOptions": {"validationMode": "Lax"}}, {("M-08", "spec.deleteOptions.validationMode")}, id="M-08"
        ),
        pytest.param(
            {"identity": {"kind": "Robot", "name": ""}},
            {("X-90", "spec.identity.kind"), ("X-90", "spec.identity.name")},
            id="X-90",
        ),
        pytest.param(
            {"identity": {"kind": "ServiceAccount", "name": "a", "apiGroup": "rbac.authorization.k8s.io"}},
            {("X-90", "spec.identity.namespace"), ("X-90", "spec.identity.apiGroup")},
            id="X-90-service-account",
        ),
        pytest.param(
            {"identity": {"kind": "Group", "name": "a", "apiGroup": "apps"}},
            {("X-90", "spec.identity.apiGroup")},
            id="X-90-group",
        ),
    ],
)
def test_members(spec, wanted):
    assert errors_of(member_cluster.validate(make_member(**spec), None, Context())) == wanted


def test_a_member_carries_its_own_name_only():
    member = make_member()
    member["metadata"]["labels"] = {"kubernetes-fleet.io/member-name": "other"}
    wanted = {("X-91", "metadata.labels[kubernetes-fleet.io/member-name]")}
    assert errors_of(member_cluster.validate(member, None, Context())) == wanted


@pytest.mark.parametrize(("length", "refused"), [pytest.param(63, False, id="63"), pytest.param(64, True, id="64")])
def test_the_name_of_a_member_becomes_a_label(length, refused):
    """M-01."""
    member = make_member()
    member["metadata"]["name"] = "m" * length
    wanted = {("M-01", "metadata.name")} if refused else set()
    assert errors_of(member_cluster.validate(member, None, Context())) == wanted


def make_export(namespace, **metadata):
    metadata = {"name": "web", "namespace": namespace, **metadata}
    return {"apiVersion": "networking.fleet.azure.com/v1alpha1", "kind": "InternalServiceExport", "metadata": metadata}


@pytest.mark.parametrize(
    ("agents", "member", "export", "refused"),
    [
        pytest.param(True, make_member(), make_export("fleet-member-edge"), True, id="exported"),
        pytest.param(False, make_member(), make_export("fleet-member-edge"), False, id="no-agents"),
        pytest.param(True, make_member(), make_export("fleet-member-other"), False, id="another-member"),
        pytest.param(
            True,
            make_member(),
            make_export("fleet-member-edge", deletionTimestamp="2026-01-01T00:00:00Z"),
            False,
            id="going",
        ),
        pytest.param(
            True,
            make_member(deleteOptions={"validationMode": "Skip"}),
            make_export("fleet-member-edge"),
            False,
            id="skipped",
        ),
    ],
)
def test_a_member_that_exports_services_stays(agents, member, export, refused):
    """M-09."""
    context = Context.of_objects([export], settings=AdmissionSettings(networking_agents=agents))
    assert bool(member_cluster.refuse_deletion(member, context)) is refused


DECISION = {"clusterName": "edge", "selected": True, "reason": "picked"}
BINDING = {
    "state": "Bound",
    "resourceSnapshotName": "",
    "schedulingPolicySnapshotName": "p-0",
    "targetCluster": "edge",
    "clusterDecision": DECISION,
}
SNAPSHOT = {"policyHash": "MTIz", "policy": {"placementType": "PickN", "clusterNames": ["a"]}}


@pytest.mark.parametrize(
    ("validate", "spec", "wanted"),
    [
        pytest.param(internal_kinds.validate_policy_snapshot, SNAPSHOT, set(), id="N-01-no-matrix-rules"),
        pytest.param(internal_kinds.validate_policy_snapshot, {}, {("N-01", "spec.policyHash")}, id="N-01"),
        pytest.param(
            internal_kinds.validate_policy_snapshot,
            {**SNAPSHOT, "policy": {"tolerations": [{"value": "a b"}]}},
            {("P-40", "spec.policy.tolerations[0].operator")},
            id="N-01-tolerations-of-the-schema",
        ),
        pytest.param(internal_kinds.validate_internal_member_cluster, {}, {("N-02", "spec.state")}, id="N-02"),
        pytest.param(
            internal_kinds.validate_internal_member_cluster, {"state": "Stay"}, {("X-94", "spec.state")}, id="X-94"
        ),
        pytest.param(
            internal_kinds.validate_resource_binding,
            {**BINDING, "clusterDecision": {"clusterName": "edge", "selected": True}},
            {("N-03", "spec.clusterDecision.reason")},
            id="N-03",
        ),
        pytest.param(
            internal_kinds.validate_resource_binding, {**BINDING, "state": "Lost"}, {("X-96", "spec.state")}, id="X-96"
        ),
        pytest.param(
            internal_kinds.validate_work,
            {"applyStrategy": {"type": "Force"}},
            {("N-04", "spec.applyStrategy.type")},
            id="N-04",
        ),
        pytest.param(
            internal_kinds.validate_applied_work, {"workName": "w"}, {("N-05", "spec.workNamespace")}, id="N-05"
        ),
        pytest.param(
            internal_kinds.validate_resource_snapshot,
            {"selectedResources": [{"kind": "Namespace"}]},
            {("N-06", "spec.selectedResources[0].apiVersion")},
            id="N-06",
        ),
        pytest.param(
            internal_kinds.validate_cluster_override_snapshot,
            {"overrideHash": "MTIz"},
            {("N-08", "spec.overrideSpec")},
            id="N-08",
        ),
    ],
)
def test_machine_written_kinds(validate, spec, wanted):
    assert errors_of(validate(make_object("Any", spec), None, Context())) == wanted


def test_snapshots_never_change():
    """X-95, on what is stored, not on how it is spelled."""
    old = make_object("ClusterResourceSnapshot", {"selectedResources": [{**make_manifest(), "data": {"a": 1}}]})
    same = make_object(
        "ClusterResourceSnapshot", {"selectedResources": [{**make_manifest(), "data": {"a": 1, "b": None}}]}
    )
    other = make_object("ClusterResourceSnapshot", {"selectedResources": [{**make_manifest(), "data": {"a": True}}]})
    assert errors_of(internal_kinds.validate_resource_snapshot(same, old, Context())) == set()
    assert errors_of(internal_kinds.validate_resource_snapshot(other, old, Context())) == {("X-95", "spec")}


def test_a_binding_stays_on_its_cluster():
    old, new = make_object("Any", BINDING), make_object("Any", {**BINDING, "targetCluster": "b"})
    wanted = {("X-96", "spec.targetCluster")}
    assert errors_of(internal_kinds.validate_resource_binding(new, old, Context())) == wanted
