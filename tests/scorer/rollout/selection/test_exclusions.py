"""The objects that harbormaster depends on are never placed; and what else an agent leaves alone."""

import pytest

from scorer.api.kinds import NODE_POOL, OUR_KINDS
from scorer.rollout.selection.exclusions import MemberLimits, exclusion_reason, parse_kind_rules

DEFINITION = ("apiextensions.k8s.io", "CustomResourceDefinition")
POLICY = ("admissionregistration.k8s.io", "ValidatingAdmissionPolicy")
ROLE = ("rbac.authorization.k8s.io", "ClusterRole")


@pytest.mark.parametrize("kind", [kind for kind in OUR_KINDS if kind != NODE_POOL], ids=str)
def test_no_kind_of_ours_is_placed_nor_its_definition(kind):
    assert kind.group in exclusion_reason(kind.group, kind.kind, "any", "shop" if kind.namespaced else "")
    assert "defines a kind of the fleet" in exclusion_reason(*DEFINITION, kind.resource)
    service = f"{kind.versions[0]}.{kind.group}"
    assert exclusion_reason("apiregistration.k8s.io", "APIService", service)


@pytest.mark.parametrize(
    ("found", "why"),
    [
        pytest.param((*DEFINITION, "boats.example.com"), "", id="definition-of-others"),
        pytest.param((*DEFINITION, NODE_POOL.resource), "", id="node-pools-are-karpenters"),
        pytest.param((*DEFINITION, "things.more.harbormaster.dev"), "defines a kind", id="any-group-of-ours"),
        pytest.param((*DEFINITION, "things.notharbormaster.dev"), "", id="only-looks-like-ours"),
        pytest.param((NODE_POOL.group, NODE_POOL.kind, "batch"), "", id="node-pool"),
        pytest.param(("", "Namespace", "fleet-member-lion"), "is a namespace of the fleet", id="member-namespace"),
        pytest.param(
            ("", "ConfigMap", "a", "fleet-member-lion"), "is in fleet-member-lion", id="in-a-member-namespace"
        ),
        pytest.param(("", "Namespace", "home"), "is a namespace of the fleet", id="own-namespace"),
        pytest.param(("", "ServiceAccount", "harbormaster-agent", "home"), "is in home", id="own-account"),
        pytest.param(("", "Namespace", "fleet-market"), "", id="reserved-only-for-selectors"),
        pytest.param((*ROLE, "harbormaster-agent"), "own roles, webhook configurations or policies", id="own-role"),
        pytest.param((*ROLE, "harbormasters"), "", id="a-role-that-only-begins-like-it"),
        pytest.param(
            ("rbac.authorization.k8s.io", "ClusterRoleBinding", "harbormaster-agent"), "own roles", id="bound"
        ),
        pytest.param((*POLICY, "harbormaster-members"), "configurations or policies", id="own-policy"),
        pytest.param(("", "ConfigMap", "harbormaster-notes", "shop"), "", id="a-name-like-ours-elsewhere"),
    ],
)
def test_what_is_the_fleets_own(found, why):
    said = exclusion_reason(*found, homes=("home",))
    assert why in said
    assert bool(why) == bool(said)


@pytest.mark.parametrize(
    ("found", "why"),
    [
        pytest.param(("", "Namespace", "kube-system"), "is a namespace that the agent ignores (kube-*)", id="kube"),
        pytest.param(("", "ConfigMap", "a", "kube-system"), "is in a namespace that", id="in-kube"),
        pytest.param(("", "ConfigMap", "a", "vault"), "ignores (vault)", id="whole-name"),
        pytest.param(("", "ConfigMap", "a", "vault-2"), "", id="no-pattern"),
        pytest.param(("", "Namespace", "home"), "namespace of the fleet itself", id="own"),
        pytest.param(("", "Secret", "a", "shop"), "not allowed to apply", id="kind-not-allowed"),
        pytest.param(("", "Namespace", "shop"), "", id="kind-allowed"),
        pytest.param(("apps", "Deployment", "a", "shop"), "", id="group-allowed"),
        pytest.param((*DEFINITION, "boats.example.com"), "not allowed to apply", id="definition"),
    ],
)
def test_what_an_agent_leaves_alone(found, why):
    limits = MemberLimits("home", ("kube-*", "vault"), parse_kind_rules("v1/Namespace,ConfigMap; apps"))
    group, kind, *rest = found
    said = limits.refusal(group, ("v1",), kind, *rest)
    assert why in said
    assert bool(why) == bool(said)


def test_nothing_else_is_blocked_when_the_lists_are_empty_but_the_fleets_own_is():
    limits = MemberLimits("home", (), ())
    assert limits.refusal("", ("v1",), "Namespace", "kube-system") == ""
    assert limits.refusal("", ("v1",), "Namespace", "home")
    assert limits.refusal("", ("v1",), "ConfigMap", "a", "fleet-member-lion")
