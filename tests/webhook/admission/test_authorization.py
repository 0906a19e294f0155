"""The rights of whoever writes a placement: what is asked, and what becomes of the answers."""

from dataclasses import replace

import pytest

from scorer.api.crd.pruning import apply_schema_defaults
from tests.webhook.validation.upgrade_objects import make
from webhook.access.rights import MOST_REVIEWED, Access, Reviewed, resource_attributes
from webhook.access.user import UserInfo
from webhook.admission import authorization
from webhook.admission.authorization import authorized, needed_access
from webhook.admission.judge import MOST_WARNINGS, Judgement, mutate
from webhook.settings.admission import AdmissionSettings, PlacementAuthorization
from webhook.validation.framework.context import Context

ALICE = UserInfo("alice", frozenset({"system:authenticated"}))
OWN = "harbormaster-system"
CONTEXT = Context(user=ALICE, settings=AdmissionSettings(unblocked_namespaces=frozenset({OWN})))


def term(kind="Namespace", group="", **rest):
    return {"group": group, "version": "v1", "kind": kind, **rest}


def request(*terms, operation="CREATE", kind="ClusterResourcePlacement", member="resourceSelectors", old=None, **rest):
    def document(selectors):
        metadata = {
            "name": "web",
            **({"namespace": "shop"} if kind in {"ResourcePlacement", "ResourceOverride"} else {}),
        }
        return {"kind": kind, "metadata": metadata, "spec": {member: list(selectors)}}

    return {
        "operation": operation,
        "kind": {"group": "placement.kubernetes-fleet.io", "version": "v1", "kind": kind},
        "object": document(terms),
        "oldObject": None if old is None else document(old),
        **rest,
    }


def words(found):
    return [str(access) for access in found]


@pytest.mark.parametrize(
    ("terms", "wanted"),
    [
        pytest.param(
            [term(name="shop")],
            ['get namespaces "shop"', 'get secrets in namespace "shop"'],
            id="a-namespace-comes-with-its-secrets",
        ),
        pytest.param(
            [term(name="shop", selectionScope="NamespaceOnly")], ['get namespaces "shop"'], id="a-namespace-alone"
        ),
        pytest.param(
            [term(labelSelector={"matchLabels": {"a": "b"}})], ["get namespaces", "get secrets"], id="by-label-is-all"
        ),
        pytest.param(
            [term("ClusterRole", "rbac.authorization.k8s.io", name="admin")],
            [
                'get clusterroles.rbac.authorization.k8s.io "admin"',
                'place clusterroles.rbac.authorization.k8s.io "admin"',
            ],
            id="what-gives-power-must-be-placeable",
        ),
        pytest.param(
            [term(name="kube-public", selectionScope="NamespaceOnly")],
            ['get namespaces "kube-public"', 'place namespaces "kube-public"'],
            id="namespaces-of-the-system",
        ),
        pytest.param(
            [term(name=OWN, selectionScope="NamespaceOnly")],
            [f'get namespaces "{OWN}"', f'place namespaces "{OWN}"'],
            id="our-own-namespace",
        ),
        pytest.param([term("PersistentVolume", name="pv-1")] * 2, ['get persistentvolumes "pv-1"'], id="asked-once"),
        pytest.param([term("Nothing", "example.com", name="a")], [], id="unknown-kind"),
        pytest.param(["x", None, 3, {"kind": 7}, {"group": 3}], [], id="no-terms-at-all"),
    ],
)
def test_what_a_cluster_placement_needs(terms, wanted):
    assert words(needed_access(request(*terms), ALICE, CONTEXT)) == wanted


@pytest.mark.parametrize(
    ("kind", "member", "wanted"),
    [
        pytest.param(
            "ResourcePlacement", "resourceSelectors", 'get configmaps "a" in namespace "shop"', id="namespaced"
        ),
        pytest.param(
            "ResourceOverride",
            "resourceSelectors",
            'update configmaps "a" in namespace "shop" or place it',
            id="override",
        ),
        pytest.param(
            "ClusterResourceOverride",
            "clusterResourceSelectors",
            'update configmaps "a" or place it',
            id="cluster-override",
        ),
    ],
)
def test_others_that_select_are_asked_about_it(kind, member, wanted):
    asked = request(term("ConfigMap", name="a"), kind=kind, member=member)
    assert words(needed_access(asked, ALICE, CONTEXT)) == [wanted]


PATCH = {"clusterSelector": {}, "jsonPatchOverrides": [{"op": "remove", "path": "/spec"}]}
DELETE = {"clusterSelector": {}, "overrideType": "Delete"}
OVERRIDES = [("ClusterResourceOverride", "clusterResourceSelectors"), ("ResourceOverride", "resourceSelectors")]


def overriding(terms, rules, kind="ClusterResourceOverride", member="clusterResourceSelectors", old=None):
    """Return the review of an override; *old*: the terms and rules before."""
    asked = request(*terms, kind=kind, member=member, **({} if old is None else {"operation": "UPDATE", "old": old[0]}))
    asked["object"]["spec"]["policy"] = {"overrideRules": rules}
    if old is not None:
        asked["oldObject"]["spec"]["policy"] = {"overrideRules": old[1]}
    return asked


@pytest.mark.parametrize(
    ("rules", "verbs"),
    [
        pytest.param([PATCH], ["update"], id="a-patch"),
        pytest.param([PATCH | {"overrideType": "JSONPatch"}], ["update"], id="a-patch-by-its-type"),
        pytest.param([PATCH | {"overrideType": None}], ["update"], id="null-is-the-default"),
        pytest.param([DELETE], ["delete"], id="a-deletion"),
        pytest.param([PATCH, DELETE, PATCH], ["update", "delete"], id="both"),
        pytest.param([], ["update"], id="no-rules"),
        pytest.param([DELETE, {"overrideType": ["Delete"]}, "x"], ["update", "delete"], id="junk"),
        pytest.param([{"overrideType": "delete"}], ["update"], id="an-unknown-type"),
    ],
)
@pytest.mark.parametrize(("kind", "member"), OVERRIDES)
def test_an_override_needs_the_right_to_do_by_itself_what_its_rules_do(kind, member, rules, verbs):
    where = ' in namespace "shop"' if kind == "ResourceOverride" else ""
    found = needed_access(overriding([term("ConfigMap", name="a")], rules, kind, member), ALICE, CONTEXT)
    assert words(found) == [f'{verb} configmaps "a"{where} or place it' for verb in verbs]


@pytest.mark.parametrize("group", ["flowcontrol.apiserver.k8s.io", "node.k8s.io"])
def test_what_can_starve_a_cluster_takes_the_verb_place(group):
    """Flow control decides whose requests an API server answers, a runtime class how Pods are isolated."""
    kind = {"flowcontrol.apiserver.k8s.io": "FlowSchema", "node.k8s.io": "RuntimeClass"}[group]
    plural = {"FlowSchema": "flowschemas", "RuntimeClass": "runtimeclasses"}[kind]
    named = term(kind, group, name="a")
    for asked in (
        request(named),
        overriding([named], [PATCH]),
        overriding([named], [DELETE]),
        wrapped(manifest(kind, "a", group)),
    ):
        found = [access for access in needed_access(asked, ALICE, CONTEXT) if access.verb == "place"]
        assert found
        assert {(access.group, access.or_place) for access in found} == {(group, False)}, plural


@pytest.mark.parametrize(
    ("named", "wanted"),
    [
        pytest.param(
            term(name="shop", selectionScope="NamespaceOnly"),
            {
                'update namespaces "shop" or place it',
                'update *.* in namespace "shop" or place them',
                'place roles.rbac.authorization.k8s.io in namespace "shop"',
                'place rolebindings.rbac.authorization.k8s.io in namespace "shop"',
            },
            id="all-that-is-in-a-namespace-whatever-its-scope",
        ),
        pytest.param(
            term("Policy", "kyverno.io", name="a"),
            {'update *.kyverno.io "a" or place it'},
            id="a-kind-that-only-members-have",
        ),
        pytest.param(
            term("NewPolicy", "admissionregistration.k8s.io", name="a"),
            {'get *.admissionregistration.k8s.io "a"', 'place *.admissionregistration.k8s.io "a"'},
            id="a-powerful-kind-that-only-members-have",
        ),
    ],
)
def test_an_override_needs_the_rights_to_all_that_it_can_rewrite(named, wanted):
    asked = request(named, kind="ClusterResourceOverride", member="clusterResourceSelectors")
    assert {*words(needed_access(asked, ALICE, CONTEXT))} == wanted
    spec = {"overrideSpec": {"clusterResourceSelectors": [named]}}
    assert {*words(needed_access(snapshot("ClusterResourceOverrideSnapshot", spec), ALICE, CONTEXT))} == wanted


SHOP = term(name="shop")


@pytest.mark.parametrize(
    ("asked", "context"),
    [
        pytest.param(request(SHOP, operation="DELETE"), CONTEXT, id="deletion"),
        pytest.param(request(SHOP, operation="UPDATE", old=[SHOP]), CONTEXT, id="selectors-left-alone"),
        pytest.param(request(SHOP, subResource="status"), CONTEXT, id="status"),
        pytest.param(request(SHOP, kind="MemberCluster"), CONTEXT, id="other-kind"),
        pytest.param(request(SHOP), Context(user=UserInfo("root", frozenset({"system:masters"}))), id="superuser"),
        pytest.param(request(SHOP), Context(), id="ourselves"),
        pytest.param(
            request(SHOP),
            replace(CONTEXT, settings=AdmissionSettings(placement_authorization=PlacementAuthorization.OFF)),
            id="switched-off",
        ),
        pytest.param(request(SHOP, operation=["CREATE"]), CONTEXT, id="operation-is-a-list"),
        pytest.param({}, CONTEXT, id="empty-request"),
        pytest.param({"operation": "CREATE", "kind": {"kind": ["x"]}, "object": {}}, CONTEXT, id="junk"),
    ],
)
def test_nobody_is_asked(asked, context):
    assert needed_access(asked, context.user, context) == ()


def test_an_update_that_selects_something_else_is_asked_about():
    asked = request(SHOP, term("ConfigMap", name="a"), operation="UPDATE", old=[SHOP])
    assert 'get configmaps "a"' in words(needed_access(asked, ALICE, CONTEXT))


PATCHES = {"policy": {"overrideRules": [{"jsonPatchOverrides": [{"op": "remove", "path": "/spec"}]}]}}


@pytest.mark.parametrize(("kind", "member"), OVERRIDES)
def test_an_override_is_asked_about_when_anything_in_its_spec_changes(kind, member):
    """What a patch writes matters as much as what it is written to."""
    asked = request(SHOP, kind=kind, member=member, operation="UPDATE", old=[SHOP])
    assert needed_access(asked, ALICE, CONTEXT) == ()
    asked["object"]["spec"] |= PATCHES
    assert words(needed_access(asked, ALICE, CONTEXT))


A, B = term("ConfigMap", name="a"), term("ConfigMap", name="b")
ELSEWHERE = PATCH | {"clusterSelector": {"clusterSelectorTerms": [{"labelSelector": {"matchLabels": {"a": "b"}}}]}}
NEWER = PATCH | {"jsonPatchOverrides": [{"op": "remove", "path": "/data"}]}


@pytest.mark.parametrize(
    ("terms", "rules", "old_terms", "old_rules", "advisory"),
    [
        pytest.param([A], [PATCH], [A, B], [PATCH], True, id="fewer-objects"),
        pytest.param([A], [PATCH], [A, B], [PATCH | {"overrideType": "JSONPatch"}], True, id="a-default"),
        pytest.param([B, A], [PATCH], [A, B], [PATCH], True, id="objects-in-another-order"),
        pytest.param([A, B], [PATCH], [A], [PATCH], False, id="another-object"),
        pytest.param([B], [PATCH], [A], [PATCH], False, id="an-object-in-place-of-another"),
        pytest.param([A | {"version": "v2"}], [PATCH], [A], [PATCH], False, id="another-version"),
        pytest.param([A], [PATCH, DELETE], [A], [PATCH], False, id="another-type"),
        pytest.param([A], [NEWER], [A], [PATCH], False, id="other-content"),
        pytest.param([A], [PATCH, PATCH], [A], [PATCH], False, id="a-rule-twice"),
        pytest.param([A], [NEWER, PATCH], [A], [PATCH, NEWER], False, id="rules-in-another-order"),
        pytest.param([A], [PATCH], [A], [PATCH, NEWER], False, id="without-the-rule-that-wins"),
        pytest.param([A], [PATCH], [A], [DELETE, PATCH], False, id="without-the-deletion"),
        pytest.param([A], [PATCH], [A], [PATCH, ELSEWHERE], False, id="fewer-rules-for-other-clusters"),
        pytest.param([A], [], [A], [PATCH], False, id="no-rules"),
        pytest.param([A], [PATCH], [A], [ELSEWHERE], False, id="other-clusters"),
        pytest.param([A], [PATCH | {"jsonPatchOverrides": []}], [A], [PATCH], False, id="part-of-a-rule"),
        pytest.param([A], [PATCH], [], [], False, id="nothing-before"),
    ],
)
@pytest.mark.parametrize(("kind", "member"), OVERRIDES)
def test_an_override_that_is_there_already_may_do_less_without_the_rights(
    kind, member, terms, rules, old_terms, old_rules, advisory
):
    asked = needed_access(overriding(terms, rules, kind, member, old=(old_terms, old_rules)), ALICE, CONTEXT)
    assert asked
    assert {access.advisory for access in asked} == {advisory}


def test_an_override_for_another_placement_does_not_do_less():
    asked = overriding([A], [PATCH], old=([A, B], [PATCH]))
    asked["oldObject"]["spec"]["placement"] = {"name": "web"}
    assert not any(access.advisory for access in needed_access(asked, ALICE, CONTEXT))


@pytest.mark.parametrize("label", ["parent-resource-override", "override-index", "is-latest-snapshot"])
def test_a_version_of_an_override_does_not_take_effect_by_its_labels_without_the_rights(label):
    spec = {"overrideSpec": {"clusterResourceSelectors": [A], "policy": {"overrideRules": [DELETE]}}}
    asked = snapshot("ClusterResourceOverrideSnapshot", spec, old=spec)
    assert needed_access(asked, ALICE, CONTEXT) == ()
    asked["object"]["metadata"]["labels"] = {f"kubernetes-fleet.io/{label}": "true"}
    assert words(needed_access(asked, ALICE, CONTEXT)) == ['delete configmaps "a" or place it']


@pytest.mark.parametrize("kind", ["ClusterResourcePlacement", "ResourcePlacement"])
@pytest.mark.parametrize(
    ("spec", "asked_about"),
    [
        pytest.param({"policy": {"placementType": "PickFixed", "clusterNames": ["mine"]}}, True, id="where"),
        pytest.param({"policy": {"placementType": "PickAll", "tolerations": [{"key": "mine"}]}}, True, id="tolerating"),
        pytest.param({"strategy": {"applyStrategy": {"whenToTakeOver": "Never"}}}, True, id="how"),
        pytest.param({"policy": {"placementType": "PickAll", "numberOfClusters": 3}}, False, id="how-many"),
        pytest.param(
            {"policy": {"placementType": "PickAll"}, "strategy": {"rollingUpdate": {"maxSurge": 3}}},
            False,
            id="how-fast",
        ),
        pytest.param(
            {"policy": {"placementType": "PickAll"}, "strategy": {"applyStrategy": {"whenToTakeOver": "Always"}}},
            False,
            id="defaults",
        ),
    ],
)
def test_a_placement_is_asked_about_when_what_where_or_how_changes(kind, spec, asked_about):
    old = request(SHOP, kind=kind)["object"]
    old = {"apiVersion": "placement.kubernetes-fleet.io/v1", **old}
    stored = mutate(old, None, "CREATE").document
    asked = request(SHOP, kind=kind, operation="UPDATE") | {
        "oldObject": stored,
        "object": {**old, "spec": old["spec"] | spec},
    }
    assert bool(needed_access(asked, ALICE, CONTEXT)) == asked_about


def manifest(kind, name="x", group="", version="v1", namespace=""):
    metadata = {"name": name, **({"namespace": namespace} if namespace else {})}
    return {"apiVersion": f"{group}/{version}" if group else version, "kind": kind, "metadata": metadata}


def wrapped(*entries, namespace="", old=None):
    kind = "ResourceEnvelope" if namespace else "ClusterResourceEnvelope"

    def document(objects):
        data = {f"{number}.yaml": entry for number, entry in enumerate(objects)}
        return manifest(kind, "web", "placement.kubernetes-fleet.io", "v1beta1", namespace) | {"data": data}

    return {
        "operation": "CREATE" if old is None else "UPDATE",
        "kind": {"group": "placement.kubernetes-fleet.io", "version": "v1beta1", "kind": kind},
        "object": document(entries),
        "oldObject": None if old is None else document(old),
    }


RBAC = "rbac.authorization.k8s.io"
ADMIN = manifest("ClusterRoleBinding", "admin", RBAC)
GET_ADMIN = 'get clusterrolebindings.rbac.authorization.k8s.io "admin"'
PLACE_ADMIN = 'place clusterrolebindings.rbac.authorization.k8s.io "admin"'


@pytest.mark.parametrize(
    ("entries", "namespace", "wanted"),
    [
        pytest.param([ADMIN], "", [GET_ADMIN, PLACE_ADMIN], id="what-gives-power"),
        pytest.param(
            [manifest("Namespace", "shop")],
            "",
            ['get namespaces "shop"', 'create namespaces "shop" or place it'],
            id="a-namespace-comes-alone",
        ),
        pytest.param(
            [manifest("Namespace", "kube-system")],
            "",
            [
                'get namespaces "kube-system"',
                'create namespaces "kube-system" or place it',
                'place namespaces "kube-system"',
            ],
            id="namespaces-of-the-system",
        ),
        pytest.param(
            [manifest("APIService", "v1.example.com", "apiregistration.k8s.io")],
            "",
            [
                'get apiservices.apiregistration.k8s.io "v1.example.com"',
                'place apiservices.apiregistration.k8s.io "v1.example.com"',
            ],
            id="aggregated-apis",
        ),
        pytest.param(
            [manifest("ConfigMap", "a", namespace="shop"), manifest("RoleBinding", "b", RBAC, namespace="shop")],
            "shop",
            [
                'get configmaps "a" in namespace "shop"',
                'create configmaps "a" in namespace "shop" or place it',
                'get rolebindings.rbac.authorization.k8s.io "b" in namespace "shop"',
                'place rolebindings.rbac.authorization.k8s.io "b" in namespace "shop"',
            ],
            id="every-entry-in-its-namespace",
        ),
        pytest.param(
            [manifest("ConfigMap", "a", namespace="kube-system")],
            "kube-system",
            [
                'place namespaces "kube-system"',
                'get configmaps "a" in namespace "kube-system"',
                'create configmaps "a" in namespace "kube-system" or place it',
            ],
            id="in-a-namespace-of-the-system",
        ),
        pytest.param(
            [manifest("Policy", "a", "kyverno.io")],
            "",
            ['get *.kyverno.io "a"', 'create *.kyverno.io "a" or place it'],
            id="a-kind-that-only-members-have",
        ),
        pytest.param(
            ["x", None, 3, {"kind": 7}, {"apiVersion": 3}], "", ["get *", "create * or place them"], id="junk"
        ),
    ],
)
def test_an_envelope_needs_for_each_entry_what_a_selector_of_it_would_need(entries, namespace, wanted):
    assert words(needed_access(wrapped(*entries, namespace=namespace), ALICE, CONTEXT)) == wanted


def test_an_envelope_is_asked_about_at_each_change_of_its_data_and_then_for_all_of_it():
    assert needed_access(wrapped(ADMIN, old=[ADMIN]), ALICE, CONTEXT) == ()
    asked = wrapped(ADMIN, manifest("Namespace", "shop"), old=[ADMIN])
    made = 'create namespaces "shop" or place it'
    assert words(needed_access(asked, ALICE, CONTEXT)) == [GET_ADMIN, PLACE_ADMIN, 'get namespaces "shop"', made]


def snapshot(kind, spec, old=None):
    asked = wrapped(old=None if old is None else [])
    asked["kind"]["kind"] = kind
    asked["object"]["spec"] = spec
    if old is not None:
        asked["oldObject"]["spec"] = old
    return asked


@pytest.mark.parametrize(
    ("kind", "spec"),
    [
        pytest.param("ClusterResourceSnapshot", {"selectedResources": [ADMIN]}, id="resources"),
        pytest.param(
            "ClusterResourceSnapshot", {"selectedResources": [wrapped(ADMIN)["object"]]}, id="resources-in-an-envelope"
        ),
        pytest.param(
            "ClusterResourceOverrideSnapshot",
            {"overrideSpec": {"clusterResourceSelectors": [term("ClusterRoleBinding", RBAC, name="admin")]}},
            id="overrides",
        ),
    ],
)
def test_a_snapshot_written_by_hand_needs_what_its_content_would(kind, spec):
    assert {GET_ADMIN, PLACE_ADMIN} <= {*words(needed_access(snapshot(kind, spec), ALICE, CONTEXT))}
    assert needed_access(snapshot(kind, spec, old=spec), ALICE, CONTEXT) == ()


def test_a_snapshot_that_is_being_deleted_takes_no_other_content_without_the_rights():
    """It is placed until it has gone, and whoever put a finalizer on it says when."""
    asked = snapshot("ClusterResourceSnapshot", {"selectedResources": [ADMIN]}, old={"selectedResources": []})
    for member in ("object", "oldObject"):
        asked[member]["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    assert words(needed_access(asked, ALICE, CONTEXT)) == [GET_ADMIN, PLACE_ADMIN]
    assert needed_access({**asked, "oldObject": asked["object"]}, ALICE, CONTEXT) == ()


def test_a_work_written_by_hand_needs_what_its_manifests_would():
    spec = {"workload": {"manifests": [ADMIN, manifest("ConfigMap", "a", namespace="kube-system")]}}
    found = words(needed_access(snapshot("Work", spec), ALICE, CONTEXT))
    assert found[:3] == [GET_ADMIN, PLACE_ADMIN, 'place namespaces "kube-system"']
    assert needed_access(snapshot("Work", spec, old=spec), ALICE, CONTEXT) == ()  # an agent's finalizer


@pytest.mark.parametrize("kind", ["ClusterResourceBinding", "ClusterSchedulingPolicySnapshot"])
def test_who_sends_a_placement_elsewhere_by_hand_needs_what_it_selects(kind):
    selecting = {"resourceSelectors": [term(name="shop")]}
    stored = manifest("ClusterResourcePlacement", "web", "placement.kubernetes-fleet.io") | {"spec": selecting}
    hub = replace(Context.of_objects([stored], user=ALICE), settings=CONTEXT.settings)
    asked = snapshot(kind, {"targetCluster": "mine"})
    asked["object"]["metadata"]["labels"] = {"kubernetes-fleet.io/parent-CRP": "web"}
    assert words(needed_access(asked, ALICE, hub)) == ['get namespaces "shop"', 'get secrets in namespace "shop"']
    unknown = 'place clusterresourceplacements.placement.kubernetes-fleet.io "web"'
    assert words(needed_access(asked, ALICE, CONTEXT)) == [unknown]
    assert needed_access(asked | {"operation": "UPDATE", "oldObject": asked["object"]}, ALICE, hub) == ()


def test_a_snapshot_that_becomes_another_placements_needs_the_rights_to_its_content():
    spec = {"selectedResources": [ADMIN]}
    asked = snapshot("ClusterResourceSnapshot", spec, old=spec)
    asked["object"]["metadata"]["labels"] = {"kubernetes-fleet.io/parent-CRP": "mine"}
    assert words(needed_access(asked, ALICE, CONTEXT)) == [GET_ADMIN, PLACE_ADMIN]


def test_a_snapshot_written_by_hand_brings_nothing_into_namespaces_of_the_system():
    spec = {"selectedResources": [manifest("ConfigMap", "a", namespace="kube-system")]}
    wanted = words(needed_access(snapshot("ClusterResourceSnapshot", spec), ALICE, CONTEXT))
    assert 'place namespaces "kube-system"' in wanted


def test_the_rights_that_one_write_can_ask_about_are_bounded():
    many = [manifest("ConfigMap", f"c{number}", namespace="shop") for number in range(10 * MOST_REVIEWED)]
    assert len(needed_access(wrapped(*many, namespace="shop"), ALICE, CONTEXT)) == MOST_REVIEWED + 1


@pytest.mark.parametrize(
    "version",
    [
        f"{RBAC}/v2",
        f"{RBAC}/v1/",
        f"{RBAC}/",
        f"/{RBAC}/v1",
        RBAC,
        f" {RBAC}/v1",
        f"{RBAC.upper()}/v1",
        "v1",
        "",
        None,
        7,
    ],
)
@pytest.mark.parametrize("kind", ["ClusterRoleBinding", "clusterrolebinding", "ClusterRoleBinding ", "List", ["x"], 7])
@pytest.mark.parametrize("namespace", ["", "shop"])
def test_no_spelling_of_a_kind_in_an_envelope_takes_no_right_to_create(version, kind, namespace):
    """A member may know what the hub does not: of an unknown kind, the author needs the right to all kinds."""
    entry = {**ADMIN, "apiVersion": version, "kind": kind}
    for asked in (
        wrapped(entry, namespace=namespace),
        snapshot("ClusterResourceSnapshot", {"selectedResources": [wrapped(entry)["object"]]}),
        snapshot("Work", {"workload": {"manifests": [entry]}}),
    ):
        found = needed_access(asked, ALICE, CONTEXT)
        writing = [
            access
            for access in found
            if access.verb in {"create", "place"} and not access.resource.endswith("envelopes")
        ]
        assert writing
        if writing[0].group == RBAC:
            assert [(access.verb, access.or_place) for access in writing] == [("place", False)]
        else:
            assert {access.resource for access in writing} == {"*"}


@pytest.mark.parametrize("version", ["v1", "v1beta1", "v9", "", None, ["v1"]])
@pytest.mark.parametrize(("kind", "member"), OVERRIDES)
def test_neither_version_nor_further_fields_of_a_selector_take_fewer_rights(kind, member, version):
    """The API server refuses those that no schema knows; no right is left out for them."""
    plain, odd = term("ConfigMap", name="a"), {"labelSelector": {}, "scope": "x", "namespace": "kube-system"}
    wanted = needed_access(overriding([plain], [DELETE], kind, member), ALICE, CONTEXT)
    assert (
        needed_access(overriding([{**plain, **odd, "version": version}], [DELETE], kind, member), ALICE, CONTEXT)
        == wanted
    )
    both = overriding([plain], [DELETE], kind, member)
    for other in ("clusterResourceSelectors", "resourceSelectors"):
        both["object"]["spec"].setdefault(other, [term("Secret", name="b")])
    assert {*wanted} < {*needed_access(both, ALICE, CONTEXT)}


DENIED = Reviewed((Access("get", "", "secrets", "", "shop"),))


def test_by_default_a_missing_right_is_a_warning():
    verdict = authorized(Judgement(warnings=("first",)), DENIED, ALICE, PlacementAuthorization.WARN)
    assert verdict.allowed
    assert verdict.warnings == ('"alice" may not get secrets in namespace "shop"', "first")


def test_enforced_it_is_a_refusal():
    verdict = authorized(Judgement(), DENIED, ALICE, PlacementAuthorization.ENFORCE)
    assert (verdict.allowed, verdict.code, verdict.reason) == (False, 403, "Forbidden")
    assert '"alice" may not get secrets in namespace "shop"' in verdict.message


@pytest.mark.parametrize("mode", [PlacementAuthorization.WARN, PlacementAuthorization.ENFORCE])
def test_a_right_that_is_missing_for_what_was_there_before_is_a_warning(mode):
    access = Access("update", "", "configmaps", "a", "shop", or_place=True, advisory=True)
    for reviewed, wanted in (
        (Reviewed((access,)), '"alice" may not update configmaps "a" in namespace "shop" or place it'),
        (Reviewed((), "no answer"), 'the rights of "alice" could not be reviewed: no answer'),
    ):
        found = authorization.weighed(reviewed, [access])
        assert not authorization.is_enforced(found, mode)
        verdict = authorized(Judgement(), found, ALICE, mode)
        assert (verdict.allowed, verdict.warnings) == (True, (wanted,))
    assert authorization.is_enforced(
        authorization.weighed(Reviewed(), [access, replace(access, advisory=False)]), PlacementAuthorization.ENFORCE
    )


def test_a_refusal_for_another_reason_stays_what_it_is():
    refusal = Judgement(allowed=False, code=422, reason="Invalid", message="wrong")
    assert authorized(refusal, DENIED, ALICE, PlacementAuthorization.ENFORCE) is refusal


def test_rights_that_could_not_be_reviewed_are_said():
    verdict = authorized(Judgement(), Reviewed((), "no answer"), ALICE, PlacementAuthorization.WARN)
    assert verdict.warnings == ('the rights of "alice" could not be reviewed: no answer',)


def test_there_are_never_too_many_warnings():
    many = Reviewed(tuple(Access("get", "", "secrets", "", f"n{i}") for i in range(50)))
    verdict = authorized(Judgement(warnings=("first",)), many, ALICE, PlacementAuthorization.WARN)
    assert len(verdict.warnings) == MOST_WARNINGS


def test_the_question_as_the_api_server_reads_it():
    assert resource_attributes(Access("get", "apps", "deployments", "web", "shop")) == {
        "verb": "get",
        "version": "*",
        "group": "apps",
        "resource": "deployments",
        "name": "web",
        "namespace": "shop",
    }
    assert resource_attributes(Access("get", "", "secrets")) == {"verb": "get", "version": "*", "resource": "secrets"}


def test_a_very_large_object_that_is_not_the_same_is_changed_and_nothing_is_filled_in(monkeypatch):
    filled_in = []

    def note(kind, document, **how):
        filled_in.append(document)
        return apply_schema_defaults(kind, document, **how)

    monkeypatch.setattr(authorization, "apply_schema_defaults", note)
    monkeypatch.setattr(authorization, "mutate", lambda *given: filled_in.append(given) or mutate(*given))
    scope = {"selectionScope": "NamespaceWithResources"}
    for count, compared in ((10, True), (20_000, False)):
        many = term(name="shop", labelSelector={"matchExpressions": [{}] * count})
        asked = needed_access(request(many | scope, operation="UPDATE", old=[many]), ALICE, CONTEXT)
        assert bool(filled_in) is compared
        assert bool(asked) is not compared
        filled_in.clear()
        assert not needed_access(request(many, operation="UPDATE", old=[many]), ALICE, CONTEXT)
        filled_in.clear()


def test_nobody_is_asked_about_what_says_no_kind_and_is_refused_for_it():
    nothing = [{} for _ in range(1000)]
    assert not needed_access(request(*nothing, kind="ClusterResourcePlacement"), ALICE, CONTEXT)
    overridden = request(*nothing, kind="ClusterResourceOverride", member="clusterResourceSelectors")
    assert not needed_access(overridden, ALICE, CONTEXT)
    for kind in ("ClusterResourceSnapshot", "Work"):
        asked = request(kind=kind)
        asked["object"]["spec"] = {"selectedResources": nothing, "workload": {"manifests": nothing}}
        assert not needed_access(asked, ALICE, CONTEXT)


def run(namespace="", **annotations):
    """Return a staged update run with these annotations of ours."""
    kind = "StagedUpdateRun" if namespace else "ClusterStagedUpdateRun"
    about = {f"harbormaster.dev/{key}": text for key, text in annotations.items()}
    metadata = {"name": "r", "annotations": about, **({"namespace": namespace} if namespace else {})}
    return {"apiVersion": "placement.kubernetes-fleet.io/v1", "kind": kind, "metadata": metadata, "spec": {}}


def written(document, old=None):
    kind = {"group": "placement.kubernetes-fleet.io", "version": "v1", "kind": document["kind"]}
    operation = "CREATE" if old is None else "UPDATE"
    return needed_access({"operation": operation, "kind": kind, "object": document, "oldObject": old}, ALICE, CONTEXT)


@pytest.mark.parametrize(
    ("namespace", "wanted"),
    [
        ("", "patch clusterapprovalrequests.placement.kubernetes-fleet.io/status"),
        ("shop", 'patch approvalrequests.placement.kubernetes-fleet.io/status in namespace "shop"'),
    ],
)
def test_a_run_that_says_what_approves_it_needs_the_right_to_approve(namespace, wanted):
    assert words(written(run(namespace, analysis="{}"))) == [wanted]
    assert words(written(run(namespace, analysis="{}"), run(namespace))) == [wanted]


@pytest.mark.parametrize(
    ("new", "old"),
    [
        pytest.param(run(), None, id="none"),
        pytest.param(run(analysis="{}", rejected="a: b"), run(analysis="{}"), id="the-same"),
        pytest.param(run(), run(analysis="{}"), id="taken-away"),
    ],
)
def test_a_run_that_has_nothing_new_approve_it_needs_no_right(new, old):
    assert written(new, old) == ()


def test_a_right_to_the_status_alone_is_asked_about_as_the_api_server_knows_it():
    asked = resource_attributes(Access("patch", "example.com", "things/status"))
    assert (asked["resource"], asked["subresource"]) == ("things", "status")


IGNORING = {"windowPolicy": {"mode": "Ignore"}}
UPGRADE = {"upgrade": {"type": "Full", "kubernetesVersion": "1.31.2"}}
OFF = replace(CONTEXT, settings=AdmissionSettings(placement_authorization=PlacementAuthorization.OFF))


def upgrade_run(**spec):
    return make("ClusterUpgradeRun", {**UPGRADE, **spec}, name="r")


def upgraded(new, old=None, context=CONTEXT):
    kind = {"group": "upgrade.harbormaster.dev", "version": "v1alpha1", "kind": "ClusterUpgradeRun"}
    operation = "CREATE" if old is None else "UPDATE"
    asked = {"operation": operation, "kind": kind, "object": new, "oldObject": old}
    return words(needed_access(asked, context.user, context))


IGNORE = 'ignorewindows clusterupgraderuns.upgrade.harbormaster.dev "r"'


@pytest.mark.parametrize("context", [CONTEXT, OFF])
def test_an_upgrade_outside_maintenance_windows_needs_a_right_of_its_own(context):
    """Also where the author of a placement needs none."""
    assert upgraded(upgrade_run(**IGNORING), context=context) == [IGNORE]
    assert upgraded(upgrade_run(**IGNORING), upgrade_run(), context) == [IGNORE]
    assert upgraded(upgrade_run(**IGNORING, memberSelector={}), upgrade_run(**IGNORING), context) == [IGNORE]


@pytest.mark.parametrize(
    ("new", "old"),
    [
        pytest.param(upgrade_run(), None, id="windows-respected"),
        pytest.param(
            upgrade_run(windowPolicy={"mode": "Respect"}), upgrade_run(**IGNORING), id="respected-from-now-on"
        ),
        pytest.param(upgrade_run(**IGNORING, state="Stop"), upgrade_run(**IGNORING, state="Run"), id="stopped"),
        pytest.param(upgrade_run(windowPolicy="Ignore"), None, id="junk"),
    ],
)
def test_an_upgrade_that_ignores_no_more_windows_than_before_needs_no_right(new, old):
    assert upgraded(new, old) == []


@pytest.mark.parametrize("mode", list(PlacementAuthorization))
def test_without_the_right_windows_are_never_ignored(mode):
    access = Access("ignorewindows", "upgrade.harbormaster.dev", "clusterupgraderuns", "r")
    assert authorization.is_binding([access])
    verdict = authorized(Judgement(), Reviewed((access,), binding=True), ALICE, mode)
    assert (verdict.allowed, verdict.code, verdict.reason) == (False, 403, "Forbidden")
    assert verdict.message == f'"alice" may not {IGNORE} (windowPolicy.mode Ignore)'


@pytest.mark.parametrize("mode", list(PlacementAuthorization))
def test_a_right_to_ignore_windows_that_is_not_known_is_none(mode):
    unknown = Reviewed((), "no answer", binding=True)
    assert authorization.is_enforced(unknown, mode)
    assert not authorized(Judgement(), unknown, ALICE, mode).allowed
    assert authorized(Judgement(), Reviewed(binding=True), ALICE, mode).allowed
