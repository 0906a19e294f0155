"""Who may write what (placement-api.md 8, X-50), through the verdict a user would see."""

from dataclasses import replace

import pytest

from webhook.access.user import UserInfo
from webhook.admission.judge import judge
from webhook.settings.admission import AdmissionSettings
from webhook.validation.framework.context import Context

DEVELOPER = UserInfo("dev@example.org", frozenset({"system:authenticated"}))
ADMIN = UserInfo("root", frozenset({"system:masters"}))
ACCOUNT = UserInfo("system:serviceaccount:ci:bot", frozenset({"system:serviceaccounts"}))
COLLECTOR = UserInfo("system:serviceaccount:kube-system:generic-garbage-collector")
RAIL = AdmissionSettings(guard_rail=True)
BLOCK = AdmissionSettings(block_workloads=True, block_pod_disruption_budgets=True)


def make_object(api_version, kind, name="x", namespace="", spec=None, **metadata):
    metadata["name"] = name
    if namespace:
        metadata["namespace"] = namespace
    return {"apiVersion": api_version, "kind": kind, "metadata": metadata, "spec": spec or {}}


def make_member(labels=None, annotations=None, **spec):
    spec = {"identity": {"kind": "User", "name": "edge-agent"}, **spec}
    return make_object(
        "cluster.kubernetes-fleet.io/v1",
        "MemberCluster",
        "edge",
        spec=spec,
        labels=labels or {},
        annotations=annotations or {},
    )


MANAGED = {"fleet.azure.com/cluster-resource-id": "r1"}
WORK = make_object("placement.kubernetes-fleet.io/v1", "Work", namespace="fleet-member-edge")
DEFINITION = make_object("apiextensions.k8s.io/v1", "CustomResourceDefinition", "works.placement.kubernetes-fleet.io")
FOREIGN = make_object("apiextensions.k8s.io/v1", "CustomResourceDefinition", "toys.example.org")


def code(operation, document, old, user, settings, existing=()):
    return judge(operation, document, old, Context.of_objects(existing, user=user, settings=settings)).code


@pytest.mark.parametrize(
    ("document", "user", "settings", "wanted"),
    [
        pytest.param(make_object("v1", "Pod", namespace="shop"), DEVELOPER, BLOCK, 403, id="G-01"),
        pytest.param(make_object("v1", "Pod", namespace="kube-system"), DEVELOPER, BLOCK, 200, id="G-01-reserved"),
        pytest.param(make_object("v1", "Pod", namespace="shop"), DEVELOPER, AdmissionSettings(), 200, id="G-01-off"),
        pytest.param(
            make_object("apps/v1", "ReplicaSet", namespace="shop"), ADMIN, BLOCK, 403, id="G-02-for-everybody"
        ),
        pytest.param(make_object("policy/v1", "PodDisruptionBudget", namespace="shop"), ADMIN, BLOCK, 403, id="G-03"),
        pytest.param(DEFINITION, ACCOUNT, RAIL, 403, id="G-04-accounts-are-not-enough"),
        pytest.param(DEFINITION, ADMIN, RAIL, 200, id="G-04-admin"),
        pytest.param(FOREIGN, DEVELOPER, RAIL, 200, id="G-04-foreign-group"),
        pytest.param(make_member(annotations=MANAGED), DEVELOPER, RAIL, 403, id="G-05"),
        pytest.param(make_member(annotations=MANAGED), ACCOUNT, RAIL, 403, id="G-05-accounts-are-not-trusted"),
        pytest.param(make_member(annotations=MANAGED), COLLECTOR, RAIL, 200, id="G-05-trusted"),
        pytest.param(make_object("v1", "Namespace", "fleet-member-b"), DEVELOPER, RAIL, 403, id="G-10"),
        pytest.param(make_object("v1", "Namespace", "kube-b"), DEVELOPER, RAIL, 200, id="G-10-fleet-only"),
    ],
)
def test_creations(document, user, settings, wanted):
    assert code("CREATE", document, None, user, settings) == wanted


@pytest.mark.parametrize(
    ("old", "new", "user", "wanted"),
    [
        pytest.param(make_member(annotations=MANAGED), make_member(), ADMIN, 403, id="G-06-for-everybody"),
        pytest.param(
            make_member(annotations=MANAGED), make_member({"a": "b"}, MANAGED), DEVELOPER, 200, id="labels-are-free"
        ),
        pytest.param(
            make_member(annotations=MANAGED),
            make_member(None, MANAGED, heartbeatPeriodSeconds=5),
            DEVELOPER,
            403,
            id="G-08",
        ),
        pytest.param(
            make_member(annotations=MANAGED),
            make_member(None, MANAGED, taints=[{"key": "a", "effect": "NoSchedule"}]),
            DEVELOPER,
            200,
            id="G-08-taints-are-free",
        ),
        pytest.param(make_member(), make_member(annotations=MANAGED), ADMIN, 403, id="G-09-for-everybody"),
        pytest.param(make_member(), make_member(heartbeatPeriodSeconds=5), DEVELOPER, 200, id="G-09-spec-is-free"),
    ],
)
def test_updates_of_members(old, new, user, wanted):
    assert code("UPDATE", new, old, user, RAIL) == wanted


def test_labels_of_managed_members_can_be_locked():
    """G-07: for everybody but admins, the system's own labels excepted."""
    locked = AdmissionSettings(guard_rail=True, deny_member_label_changes=True)
    old, new = make_member({"env": "qa"}, MANAGED), make_member({"env": "prod"}, MANAGED)
    assert code("UPDATE", new, old, ACCOUNT, locked) == 403
    assert code("UPDATE", new, old, ADMIN, locked) == 200
    ours = make_member({"env": "qa", "kubernetes-fleet.io/member-name": "edge"}, MANAGED)
    assert code("UPDATE", ours, old, ACCOUNT, locked) == 200


AGENT = UserInfo("edge-agent")


@pytest.mark.parametrize(
    ("user", "existing", "wanted"),
    [
        pytest.param(DEVELOPER, [make_member()], 403, id="another-user"),
        pytest.param(ACCOUNT, [make_member()], 403, id="another-service-account"),
        pytest.param(UserInfo("system:node:n1", frozenset({"system:nodes"})), [make_member()], 403, id="a-node"),
        pytest.param(ADMIN, [make_member()], 200, id="an-admin"),
        pytest.param(COLLECTOR, [make_member()], 200, id="the-garbage-collector"),
        pytest.param(UserInfo("system:kube-controller-manager"), [make_member()], 200, id="the-controller-manager"),
        pytest.param(DEVELOPER, [], 200, id="member-unreadable"),
    ],
)
@pytest.mark.parametrize("operation", ["CREATE", "UPDATE", "DELETE"])
def test_works_belong_to_their_member(operation, user, existing, wanted):
    """G-11, on by default; it also holds for finalizer updates and deletions."""
    document = None if operation == "DELETE" else WORK
    old = None if operation == "CREATE" else WORK
    assert code(operation, document, old, user, AdmissionSettings(), existing) == wanted


OWN, FOREIGN_FINALIZER = "kubernetes-fleet.io/work-cleanup", "example.com/keep"


def held_work(spec=None, **metadata):
    kept = {"labels": {"a": "b"}, "annotations": {"c": "d"}, "finalizers": [FOREIGN_FINALIZER, OWN]}
    return make_object(WORK["apiVersion"], "Work", namespace="fleet-member-edge", spec=spec, **(kept | metadata))


@pytest.mark.parametrize(
    ("new", "wanted"),
    [
        pytest.param(held_work(), 200, id="nothing"),
        pytest.param(held_work(finalizers=[FOREIGN_FINALIZER]), 200, id="own-finalizer-removed"),
        pytest.param(held_work(finalizers=[OWN, FOREIGN_FINALIZER]), 200, id="own-finalizer-moved"),
        pytest.param(held_work(finalizers=[OWN]), 403, id="foreign-finalizer-removed"),
        pytest.param(held_work(finalizers=[FOREIGN_FINALIZER, OWN, "example.com/more"]), 403, id="finalizer-added"),
        pytest.param(held_work(labels={"a": "c"}), 403, id="label-changed"),
        pytest.param(held_work(labels={}), 403, id="labels-removed"),
        pytest.param(held_work(annotations={"c": "d", "e": "f"}), 403, id="annotation-added"),
        pytest.param(held_work(ownerReferences=[{"kind": "X", "name": "x", "uid": "1"}]), 403, id="owner-added"),
        pytest.param(held_work({"workload": {"manifests": [{}]}}), 403, id="spec-changed"),
    ],
)
@pytest.mark.parametrize("agent", [AGENT, UserInfo("system:serviceaccount:fleet-system:edge-agent")])
def test_an_agent_changes_only_its_finalizer(agent, new, wanted):
    """G-11."""
    assert code("UPDATE", new, held_work(), agent, AdmissionSettings(), [make_member()]) == wanted


@pytest.mark.parametrize("operation", ["CREATE", "DELETE"])
def test_an_agent_neither_creates_nor_deletes_works(operation):
    new, old = (held_work(), None) if operation == "CREATE" else (None, held_work())
    assert code(operation, new, old, AGENT, AdmissionSettings(), [make_member()]) == 403


ALLOWED = {"harbormaster.dev/allow-deletion": "true"}
GOING = "2026-01-01T00:00:00Z"
EDGE = make_object("v1", "Namespace", "fleet-member-edge")
CRD = ("apiextensions.k8s.io/v1", "CustomResourceDefinition")


@pytest.mark.parametrize("user", [DEVELOPER, ADMIN, ACCOUNT], ids=["developer", "admin", "account"])
@pytest.mark.parametrize(
    ("old", "existing", "wanted"),
    [
        pytest.param(EDGE, [make_member()], 403, id="member-is-there"),
        pytest.param(
            EDGE, [make_member() | {"metadata": {"name": "edge", "deletionTimestamp": GOING}}], 403, id="leaving"
        ),
        pytest.param(EDGE, [], 200, id="member-is-gone"),
        pytest.param(make_object("v1", "Namespace", "fleet-member-b"), [make_member()], 200, id="of-another-member"),
        pytest.param(make_object("v1", "Namespace", "edge"), [make_member()], 200, id="any-other-namespace"),
        pytest.param(
            make_object("v1", "Namespace", "fleet-member-edge", annotations=ALLOWED), [make_member()], 200, id="meant"
        ),
        pytest.param(
            make_object("v1", "Namespace", "fleet-member-edge", annotations=dict.fromkeys(ALLOWED, "false")),
            [make_member()],
            403,
            id="not-meant",
        ),
        pytest.param(
            make_object("v1", "Namespace", "fleet-member-edge", deletionTimestamp=GOING),
            [make_member()],
            200,
            id="going-already",
        ),
        pytest.param(DEFINITION, [make_member()], 403, id="definition-that-nobody-watches-while-there-are-members"),
        pytest.param(DEFINITION, [WORK], 403, id="definition-in-use"),
        pytest.param(DEFINITION, [], 200, id="definition-of-a-hub-without-members"),
        pytest.param(
            make_object(*CRD, DEFINITION["metadata"]["name"], annotations=ALLOWED), [WORK], 200, id="def-meant"
        ),
        pytest.param(FOREIGN, [make_member(), WORK], 200, id="definition-of-others"),
        pytest.param(
            make_object(*CRD, "nodepools.karpenter.sh"), [make_member(), WORK], 200, id="definition-of-karpenter"
        ),
    ],
)
def test_what_holds_a_members_content_is_not_deleted_by_mistake(user, old, existing, wanted):
    """G-17 and G-18, on by default and for everybody: it is admins who make this mistake."""
    assert code("DELETE", None, old, user, AdmissionSettings(), existing) == wanted
    assert code("DELETE", None, old, user, AdmissionSettings(protect_deletions=False), existing) == 200


HOME = make_object("v1", "Namespace", "quay")


@pytest.mark.parametrize("rail", [False, True], ids=["", "guard-rail"])
@pytest.mark.parametrize("user", [DEVELOPER, ADMIN, ACCOUNT], ids=["developer", "admin", "account"])
@pytest.mark.parametrize(
    ("old", "wanted"),
    [
        pytest.param(HOME, 403, id="our-own"),
        pytest.param(make_object("v1", "Namespace", "quay-2"), 200, id="another"),
        pytest.param(make_object("v1", "Namespace", "quay", annotations=ALLOWED), 200, id="meant"),
        pytest.param(make_object("v1", "Namespace", "quay", deletionTimestamp=GOING), 200, id="going-already"),
    ],
)
def test_the_namespace_of_the_installation_is_not_deleted_by_mistake(rail, user, old, wanted):
    """G-19, also on a hub without members."""
    home = AdmissionSettings(own_namespace="quay", guard_rail=rail)
    assert code("DELETE", None, old, user, home) == wanted
    assert code("UPDATE", old, old, user, home) == 200
    assert code("DELETE", None, old, user, replace(home, protect_deletions=False)) == 200
    message = judge("DELETE", None, HOME, Context(user=user, settings=home)).message
    assert "kubectl annotate namespace quay harbormaster.dev/allow-deletion=true" in message
    assert "helm uninstall" in message


def test_the_refusal_of_a_deletion_says_what_to_do_instead():
    context = Context.of_objects([make_member(), WORK], user=ADMIN)
    namespace = judge("DELETE", None, EDGE, context).message
    assert "kubectl delete membercluster edge" in namespace
    assert "kubectl annotate namespace fleet-member-edge harbormaster.dev/allow-deletion=true" in namespace
    definition = judge("DELETE", None, DEFINITION, context).message
    assert definition.startswith("there is 1 Work: deleting definition")
    assert "kubectl annotate crd works.placement.kubernetes-fleet.io harbormaster.dev/allow-deletion=true" in definition


def test_the_loop_itself_deletes_the_namespace_of_a_member_that_has_left():
    context = Context.of_objects([make_member()])
    assert judge("DELETE", None, EDGE, context).code == 200


def test_works_elsewhere_are_free():
    work = make_object("placement.kubernetes-fleet.io/v1", "Work", namespace="shop")
    assert code("CREATE", work, None, DEVELOPER, AdmissionSettings(), [make_member()]) == 200


def test_the_identity_of_a_member_can_be_reserved_for_admins():
    settings = AdmissionSettings(identity_by_admins_only=True)
    new = make_member(identity={"kind": "User", "name": "mallory"})
    assert code("UPDATE", new, make_member(), DEVELOPER, settings) == 403
    assert code("UPDATE", new, make_member(), ADMIN, settings) == 200
    assert code("UPDATE", new, make_member(), DEVELOPER, AdmissionSettings()) == 200


def test_approval_requests_come_from_the_controller():
    """X-50."""
    spec = {"parentStageRollout": "run", "targetStage": "pilot"}
    request = make_object("placement.kubernetes-fleet.io/v1", "ClusterApprovalRequest", spec=spec)
    assert code("CREATE", request, None, ADMIN, AdmissionSettings()) == 403
    assert judge("CREATE", request, None, Context()).allowed
    assert code("UPDATE", request, request, DEVELOPER, AdmissionSettings()) == 200


def make_binding(state, **metadata):
    spec = {
        "state": state,
        "resourceSnapshotName": "web-0-snapshot",
        "schedulingPolicySnapshotName": "web-0",
        "targetCluster": "edge",
        "clusterDecision": {"clusterName": "edge", "selected": True, "reason": "picked"},
    }
    return make_object("placement.kubernetes-fleet.io/v1", "ClusterResourceBinding", "web-edge", spec=spec, **metadata)


LOOP = UserInfo(next(iter(AdmissionSettings().controllers)))
SECOND_LOOP = AdmissionSettings(allowed_users=frozenset({ACCOUNT.username}))


@pytest.mark.parametrize(
    ("before", "after", "user", "settings", "wanted"),
    [
        pytest.param("Bound", "Unscheduled", DEVELOPER, AdmissionSettings(), 403, id="user"),
        pytest.param("Bound", "Unscheduled", ADMIN, AdmissionSettings(), 403, id="admin"),
        pytest.param("Bound", "Unscheduled", COLLECTOR, AdmissionSettings(), 403, id="component-of-kubernetes"),
        pytest.param("Bound", "Unscheduled", LOOP, AdmissionSettings(), 200, id="loop"),
        pytest.param("Bound", "Unscheduled", ACCOUNT, SECOND_LOOP, 200, id="allowed-user"),
        pytest.param("Bound", "Unscheduled", ADMIN, AdmissionSettings(protect_works=False), 200, id="off"),
        pytest.param("Unscheduled", "Unscheduled", ADMIN, AdmissionSettings(), 200, id="unscheduled-before"),
        pytest.param("Unscheduled", "Bound", ADMIN, AdmissionSettings(), 200, id="back"),
    ],
)
def test_only_the_loop_unschedules_a_binding(before, after, user, settings, wanted):
    """G-20, on by default; it holds for administrators, who make this mistake."""
    assert code("UPDATE", make_binding(after), make_binding(before), user, settings) == wanted
