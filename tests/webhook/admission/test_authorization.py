"""The rights of whoever writes a placement: what is asked, and what becomes of the answers."""

from dataclasses import replace

import pytest

from webhook.admission.authorization import Access, Reviewed, authorized, needed_access, resource_attributes
from webhook.admission.context import AdmissionSettings, Context, PlacementAuthorization, UserInfo
from webhook.admission.judge import MOST_WARNINGS, Judgement

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
        pytest.param("ResourceOverride", "resourceSelectors", 'get configmaps "a" in namespace "shop"', id="override"),
        pytest.param(
            "ClusterResourceOverride", "clusterResourceSelectors", 'get configmaps "a"', id="cluster-override"
        ),
    ],
)
def test_others_that_select_need_the_same(kind, member, wanted):
    asked = request(term("ConfigMap", name="a"), kind=kind, member=member)
    assert words(needed_access(asked, ALICE, CONTEXT)) == [wanted]


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


DENIED = Reviewed((Access("get", "", "secrets", "", "shop"),))


def test_by_default_a_missing_right_is_a_warning():
    verdict = authorized(Judgement(warnings=("first",)), DENIED, ALICE, PlacementAuthorization.WARN)
    assert verdict.allowed
    assert verdict.warnings == ('"alice" may not get secrets in namespace "shop"', "first")


def test_enforced_it_is_a_refusal():
    verdict = authorized(Judgement(), DENIED, ALICE, PlacementAuthorization.ENFORCE)
    assert (verdict.allowed, verdict.code, verdict.reason) == (False, 403, "Forbidden")
    assert '"alice" may not get secrets in namespace "shop"' in verdict.message


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
