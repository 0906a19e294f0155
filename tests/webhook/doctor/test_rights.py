"""What roles and bindings give, whatever they are called."""

import pytest

from webhook.doctor.rights import (
    READ_BY_CHOICE,
    Right,
    Roles,
    beyond,
    chosen,
    described,
    missing,
    partly,
    subject_of,
)
from webhook.processes.rbac import SelectedResources, default_selection, reconcile_roles, serve_roles
from webhook.processes.rbac_objects import documents, service_account

HOME = "quay"
SERVER = service_account(HOME, "harbor-serve")
READ = ("get", "list", "watch")


def bound(*made):
    """Roles of a hub on which these documents are."""
    roles = [each for each in made if not each["kind"].endswith("Binding")]
    return Roles.of(roles, [each for each in made if each["kind"].endswith("Binding")])


def role(name, *rules, namespace=""):
    return {"kind": "Role" if namespace else "ClusterRole", "metadata": meta(name, namespace), "rules": list(rules)}


def binding(name, subject, namespace="", kind="ClusterRole"):
    ref = {"kind": kind, "name": name}
    what = "RoleBinding" if namespace else "ClusterRoleBinding"
    return {"kind": what, "metadata": meta(name, namespace), "roleRef": ref, "subjects": [subject]}


def meta(name, namespace):
    return {"name": name} | ({"namespace": namespace} if namespace else {})


def rule(*verbs, group="", resource="pods", **more):
    return {"apiGroups": [group], "resources": [resource], "verbs": list(verbs), **more}


PODS = Right("", "get", "", "pods")


@pytest.mark.parametrize(
    ("right", "other", "holds"),
    [
        pytest.param(PODS, PODS, True, id="itself"),
        pytest.param(PODS, PODS._replace(where="a"), True, id="cluster-covers-namespace"),
        pytest.param(PODS._replace(where="a"), PODS, False, id="namespace-is-not-the-cluster"),
        pytest.param(PODS._replace(where="a"), PODS._replace(where="b"), False, id="other-namespace"),
        pytest.param(PODS, PODS._replace(name="x"), True, id="all-covers-one"),
        pytest.param(PODS._replace(name="x"), PODS, False, id="one-is-not-all"),
        pytest.param(PODS._replace(verb="*"), PODS, True, id="any-verb"),
        pytest.param(PODS, PODS._replace(verb="list"), False, id="other-verb"),
        pytest.param(PODS._replace(group="*"), PODS._replace(group="apps"), True, id="any-group"),
        pytest.param(PODS._replace(resource="*"), PODS._replace(resource="pods/status"), True, id="any-resource"),
        pytest.param(PODS, PODS._replace(resource="pods/status"), False, id="subresource-is-apart"),
        pytest.param(PODS._replace(resource="*/status"), PODS._replace(resource="pods/status"), True, id="any-status"),
        pytest.param(PODS._replace(resource="*/status"), PODS, False, id="status-is-not-all"),
        pytest.param(PODS._replace(resource="*"), Right("", "get", "", "/readyz"), False, id="paths-are-apart"),
        pytest.param(Right("", "get", "", "/a/*"), Right("", "get", "", "/a/b"), True, id="path-below"),
    ],
)
def test_one_right_covers_another(right, other, holds):
    assert right.covers(other) is holds


@pytest.mark.parametrize(
    "subject",
    [
        SERVER,
        {"kind": "Group", "name": f"system:serviceaccounts:{HOME}"},
        {"kind": "User", "name": f"system:serviceaccount:{HOME}:harbor-serve"},
    ],
    ids=["itself", "its-namespace", "as-a-user"],
)
def test_what_is_bound_is_held(subject):
    roles = bound(role("r", rule("get")), binding("r", subject))
    assert roles.held_by(SERVER) == {PODS}


@pytest.mark.parametrize(
    "subject",
    [
        service_account("elsewhere", "harbor-serve"),
        service_account(HOME, "other"),
        {"kind": "Group", "name": "system:serviceaccounts:elsewhere"},
        {"kind": "Group", "name": "system:authenticated"},
        {"kind": "User", "name": "harbor-serve"},
    ],
)
def test_what_is_bound_to_others_is_not_held(subject):
    assert bound(role("r", rule("get")), binding("r", subject)).held_by(SERVER) == frozenset()


def test_where_a_role_is_bound_decides_where_it_holds():
    there = PODS._replace(where="a")
    cluster_role, namespaced = role("r", rule("get")), role("r", rule("list"), namespace="a")
    assert bound(cluster_role, binding("r", SERVER, "a")).held_by(SERVER) == {there}
    assert bound(namespaced, binding("r", SERVER, "a", "Role")).held_by(SERVER) == {there._replace(verb="list")}
    assert bound(namespaced, binding("r", SERVER, "b", "Role")).held_by(SERVER) == frozenset()
    path = role("p", {"nonResourceURLs": ["/readyz"], "verbs": ["get"]})
    assert bound(path, binding("p", SERVER)).held_by(SERVER) == {Right("", "get", "", "/readyz")}


def test_a_user_is_found_as_subject():
    assert subject_of("system:serviceaccount:quay:harbor-serve") == SERVER
    assert subject_of("bob")["kind"] == "User"


AUTHENTICATION = role(
    "extension-apiserver-authentication-reader", rule("get", resource="configmaps"), namespace="kube-system"
)


@pytest.mark.parametrize(
    "needed",
    [
        pytest.param(serve_roles(HOME), id="serve"),
        pytest.param(serve_roles(HOME, certificate_secret="ca", networking_agents=True), id="serve-with-authority"),
        pytest.param(reconcile_roles(SelectedResources(), HOME), id="reconcile"),
    ],
)
def test_what_is_printed_is_exactly_enough(needed):
    roles = bound(AUTHENTICATION, *(document for document, _ in documents(needed, SERVER)))
    held, wanted = roles.held_by(SERVER), frozenset(roles.rights(needed))
    assert wanted
    assert missing(wanted, held) == beyond(held, wanted) == []


def test_each_right_that_is_lost_is_missed():
    needed = serve_roles(HOME, certificate_secret="ca")
    roles = bound(AUTHENTICATION, *(document for document, _ in documents(needed, SERVER)))
    wanted = set(roles.rights(needed))
    lost = {right for right in wanted if missing(wanted, wanted - {right}) != [right]}
    assert lost == set()


def held_by_loop(selected, **how):
    needed = reconcile_roles(selected, HOME, **how)
    return bound(*(document for document, _ in documents(needed, SERVER))).held_by(SERVER)


LOOP = frozenset(Roles().rights(reconcile_roles(SelectedResources(), HOME)))


@pytest.mark.parametrize(
    ("selected", "said"),
    [
        pytest.param(default_selection(), "47 kinds", id="default"),
        pytest.param(default_selection(secrets=True), "48 kinds, including Secrets", id="secrets"),
        pytest.param(SelectedResources(everything=True), "every kind, including Secrets", id="everything"),
    ],
)
def test_what_placements_select_is_the_operators_choice(selected, said):
    held = held_by_loop(selected, back_report=True)
    assert beyond(held, LOOP | READ_BY_CHOICE) == partly(held, LOOP, READ) == missing(LOOP, held) == []
    assert chosen(held, LOOP) == said


def test_a_kind_that_is_read_in_part_lacks_the_rest():
    held = held_by_loop(default_selection()) - {Right("", "watch", "apps", "deployments")}
    assert partly(held, LOOP, READ) == [Right("", "watch", "apps", "deployments")]


def test_a_loop_may_not_write_by_choice():
    extra = Right("", "delete", "apps", "deployments")
    assert beyond({*LOOP, extra}, LOOP | READ_BY_CHOICE) == [extra]


def test_rights_are_written_together():
    rights = [Right("a", verb, "apps", "deployments") for verb in READ] + [Right("", "get", "", "/readyz"), PODS]
    assert described(rights) == ["get /readyz", "get pods", "get, list, watch deployments.apps in namespace a"]
    assert described([Right("", "get", "", "secrets", "ca")]) == ["get secrets ca"]
