"""The access that a member's agent gets on the hub."""

import pytest

from scorer.membership.access import InvalidIdentityError, agent_role, agent_role_binding, subject

RBAC = "rbac.authorization.k8s.io"


def test_an_agent_reads_and_reports_in_its_own_namespace_and_no_more():
    role = agent_role("bravelion")
    assert (role["metadata"]["name"], role["metadata"]["namespace"]) == (
        "fleet-role-bravelion",
        "fleet-member-bravelion",
    )
    may = {
        (group, resource, verb)
        for rule in role["rules"]
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
    }
    works, members = "placement.kubernetes-fleet.io", "cluster.kubernetes-fleet.io"
    assert may == {
        *((works, "works", verb) for verb in ("get", "list", "watch", "update", "patch")),
        *((works, "works/status", verb) for verb in ("get", "update", "patch")),
        *((members, "internalmemberclusters", verb) for verb in ("get", "list", "watch")),
        *((members, "internalmemberclusters/status", verb) for verb in ("get", "update", "patch")),
        ("", "namespaces", "get"),
        ("events.k8s.io", "events", "create"),
    }


def test_the_role_is_bound_to_the_identity():
    binding = agent_role_binding("bravelion", {"kind": "User", "name": "lion"})
    assert binding["metadata"]["name"] == "fleet-rolebinding-bravelion"
    assert binding["roleRef"] == {"apiGroup": RBAC, "kind": "Role", "name": "fleet-role-bravelion"}
    assert binding["subjects"] == [{"kind": "User", "apiGroup": RBAC, "name": "lion"}]


@pytest.mark.parametrize(
    ("identity", "wanted"),
    [
        pytest.param({"kind": "User", "name": "lion"}, {"kind": "User", "apiGroup": RBAC, "name": "lion"}, id="user"),
        pytest.param(
            {"kind": "Group", "name": "lions", "apiGroup": RBAC},
            {"kind": "Group", "apiGroup": RBAC, "name": "lions"},
            id="group-as-written",
        ),
        pytest.param(
            {"kind": "User", "name": "lion", "namespace": "zoo"},
            {"kind": "User", "apiGroup": RBAC, "name": "lion"},
            id="a-user-has-no-namespace",
        ),
        pytest.param(
            {"kind": "ServiceAccount", "name": "lion", "namespace": "zoo"},
            {"kind": "ServiceAccount", "name": "lion", "namespace": "zoo"},
            id="service-account-has-no-group",
        ),
    ],
)
def test_subjects(identity, wanted):
    assert subject(identity) == wanted


@pytest.mark.parametrize(
    ("identity", "words"),
    [
        pytest.param(7, "spec.identity is 7, expected an object", id="no-object"),
        pytest.param(None, "spec.identity is None", id="absent"),
        pytest.param({"kind": "Robot", "name": "x"}, "spec.identity.kind is 'Robot', expected one of User", id="kind"),
        pytest.param({"kind": "User"}, "spec.identity.name is empty", id="no-name"),
        pytest.param({"kind": "User", "name": 5}, "spec.identity.name is 5, expected text", id="name-is-a-number"),
        pytest.param({"kind": "User", "name": "x", "apiGroup": "y"}, "apiGroup is 'y', expected none or", id="group"),
        pytest.param({"kind": "ServiceAccount", "name": "x"}, "namespace is empty", id="account-without-namespace"),
        pytest.param(
            {"kind": "ServiceAccount", "name": "x", "namespace": "y", "apiGroup": RBAC},
            "expected none for a ServiceAccount",
            id="account-with-group",
        ),
    ],
)
def test_an_identity_that_cannot_be_bound_is_named(identity, words):
    with pytest.raises(InvalidIdentityError, match=words):
        subject(identity)
