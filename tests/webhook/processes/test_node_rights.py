"""What the disruption of nodes may do: nothing in mode Off, look and tell in Advise, and more only in Act."""

import pytest

from webhook.processes.node_rights import NodeRights
from webhook.processes.rbac import SelectedResources, agent_roles, reconcile_roles
from webhook.settings.gate import NodeDisruptionMode

OFF, ADVISE, ACT = (NodeRights(mode, "lead") for mode in NodeDisruptionMode)


def rights(rules):
    return {(verb, resource.plural, rule.names) for rule in rules for resource in rule.resources for verb in rule.verbs}


def test_off_needs_nothing():
    assert rights(OFF.rules()) == rights(OFF.own_rules("lease")) == set()


def test_advise_writes_the_status_of_pools_and_events_alone():
    written = {right for right in rights(ADVISE.rules()) if right[0] not in ("get", "list", "watch")}
    assert {resource for _, resource, _ in written} == {"nodepools/status", "events"}


def test_act_adds_what_acting_takes():
    more = rights(ACT.rules()) - rights(ADVISE.rules())
    assert {(verb, resource) for verb, resource, _ in more} == {
        ("update", "nodes"),
        ("delete", "nodes"),
        ("create", "pods/eviction"),
        ("delete", "pods"),
        ("create", "nodeclaims"),
        ("delete", "nodeclaims"),
        ("patch", "nodeclaims"),
        ("update", "nodeclaims/status"),
        ("update", "nodepools/finalizers"),
        ("get", "leases"),
        ("list", "leases"),
    }
    assert {names for _, resource, names in more if resource == "leases"} == {("lead",)}


def test_both_programs_get_them():
    for mode in (OFF, ADVISE, ACT):
        wide, own = agent_roles(SelectedResources(), nodes=mode)
        assert rights(mode.rules()) <= rights(wide.rules)
        assert rights(mode.own_rules("harbormaster-node-disruption")) <= rights(own.rules)
        assert rights(mode.rules()) <= rights(reconcile_roles(SelectedResources(), "ns", nodes=mode)[0].rules)


EVICTIONS = {"apiGroups": [""], "resources": ["pods/eviction"], "verbs": ["create"]}
LEASE = {"apiGroups": ["coordination.k8s.io"], "resources": ["leases"], "resourceNames": ["lead"], "verbs": ["get"]}


@pytest.mark.parametrize(
    ("rules", "held"),
    [
        pytest.param([rule.document() for rule in ACT.rules()], ACT, id="act"),
        pytest.param([rule.document() for rule in ADVISE.rules()], NodeRights(), id="advise"),
        pytest.param([], NodeRights(), id="none"),
        pytest.param([EVICTIONS], NodeRights(NodeDisruptionMode.ACT), id="the-default-lease"),
        pytest.param([LEASE, EVICTIONS, {**LEASE, "apiGroups": ["x"], "resourceNames": ["y"]}], ACT, id="other-group"),
        pytest.param([{**EVICTIONS, "verbs": ["get"]}], NodeRights(), id="reading-is-not-acting"),
        pytest.param([{**EVICTIONS, "apiGroups": ["example.com"]}], NodeRights(), id="evictions-of-another-group"),
        pytest.param([{"nonResourceURLs": ["/version"], "verbs": ["create"]}], NodeRights(), id="no-resources"),
    ],
)
def test_join_keeps_the_rights_that_a_role_has(rules, held):
    assert NodeRights.held_by(rules) == held


def test_the_lease_of_a_setting_is_named_without_its_namespace():
    assert NodeRights.of(NodeDisruptionMode.ACT, "karpenter/lead").karpenter_lease == "lead"
    assert NodeRights.of(NodeDisruptionMode.ACT, "lead").karpenter_lease == "lead"
