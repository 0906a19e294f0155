"""The rights of our processes: enough, and nothing else."""

import pytest

from scorer.api.family import FAMILIES
from scorer.api.kinds import KINDS, OUR_KINDS
from scorer.member_gate.holds import MemberDisruption
from scorer.membership.access import agent_rules
from webhook.admission.cached import ADMISSION_KINDS, WANTED_KINDS
from webhook.answers.extender import WATCHED
from webhook.answers.proposal import PLANNED_KINDS
from webhook.controllers.assembly import required
from webhook.gate.members import WATCHED as GATED_KINDS
from webhook.gate.pools import COUNTED
from webhook.gate.pools import WATCHED as POOL_KINDS
from webhook.processes.rbac import (
    OWN,
    UnknownKindError,
    agent_roles,
    checked_applied,
    default_applied,
    default_selection,
    parse_selection,
    reconcile_roles,
    serve_roles,
)
from webhook.processes.rbac_objects import documents, service_account, user
from webhook.settings.loop import LoopSettings

REVIEWS = {("authentication.k8s.io", "tokenreviews"), ("authorization.k8s.io", "subjectaccessreviews")}
"""What is only ever created; no kinds of objects."""
HOOKS = ("admissionpolicies", "admissionpolicybindings", "webhookconfigurations")
LEASES = ("coordination.k8s.io", "leases")


def all_roles():
    selected = default_selection()
    loop = reconcile_roles(selected, "harbormaster-system", back_report=True)
    return [*loop, *serve_roles(), *agent_roles(default_applied(), apply_rbac=True)]


def rights(roles):
    """Return (verb, group, resource) of every rule that is not limited to names."""
    return {
        (verb, resource.group, resource.plural)
        for role in roles
        for rule in role.rules
        for resource in rule.resources
        for verb in rule.verbs
        if not rule.names
    }


def test_every_resource_is_one_of_a_known_kind():
    known = {(kind.group, kind.plural) for kind in KINDS.values()} | REVIEWS
    for role in all_roles():
        for rule in role.rules:
            for resource in rule.resources:
                assert (resource.group, resource.plural.partition("/")[0]) in known


def test_every_rule_says_why_and_names_one_group():
    for role in all_roles():
        for rule in role.rules:
            assert rule.why
            assert rule.verbs == tuple(sorted(rule.verbs))
            assert len({resource.group for resource in rule.resources}) == (0 if rule.paths else 1)


def test_the_hub_is_never_written_but_for_what_the_loop_owns():
    """Of other kinds, only namespaces, roles of agents, Events, Leases, the history and the keys are written."""
    ours = {(kind.group, kind.plural) for kind in OUR_KINDS}
    written = {
        (group, plural)
        for verb, group, plural in rights(reconcile_roles(default_selection(), "ns"))
        if verb not in ("get", "list", "watch") and (group, plural.partition("/")[0]) not in ours
    }
    assert written == {
        ("", "configmaps"),
        ("", "namespaces"),
        ("", "secrets"),
        ("coordination.k8s.io", "leases"),
        ("events.k8s.io", "events"),
        ("rbac.authorization.k8s.io", "rolebindings"),
        ("rbac.authorization.k8s.io", "roles"),
    }


ORDERS = {
    (verb, "upgrade.harbormaster.dev", resource)
    for verb, resource in (
        ("create", "clusterupgraderuns"),
        ("update", "clusterupgraderuns"),
        ("patch", "clusterupgradegates"),
        ("update", "clusterupgradegates/status"),
    )
}
"""What callers order of upgrade runs, with rights of their own."""


def test_the_server_writes_nothing_but_orders_reservations_and_the_history():
    """In the whole cluster it asks, carries out orders or tells why not; the rest is in its own namespace."""
    wide, own, reader = serve_roles("quay")
    found = {right for right in rights([wide, reader]) if right[0] not in ("get", "list", "watch")}
    told = {(verb, "events.k8s.io", "events") for verb in ("create", "update")}
    assert found == {("create", *review) for review in REVIEWS} | ORDERS | told
    assert (wide.namespace, own.namespace, reader.namespace) == ("", "quay", "kube-system")
    history = {(verb, "", "configmaps") for verb in OWN if verb != "watch"}
    assert rights([own]) == {(verb, *LEASES) for verb in OWN} | history


def test_a_server_writes_reports_only_where_upgraders_report_to_it():
    usual, reported = (rights(serve_roles("quay", hand_off=hand_off)) for hand_off in (False, True))
    assert reported - usual == {("update", "upgrade.harbormaster.dev", "clusterupgraderequests/status")}


def test_a_server_without_its_optional_rights_lacks_nothing_else():
    usual = rights(serve_roles("quay"))
    assert usual - rights(serve_roles("quay", upgrade_orders=False)) == ORDERS
    without_pools = usual - rights(serve_roles("quay", node_pools=False))
    assert {plural for _, _, plural in without_pools} == {"nodeclaims", "pods", "poddisruptionbudgets"}
    narrow = rights(serve_roles("quay", upgrade_orders=False, node_pools=False))
    for kind in (*ADMISSION_KINDS, *WANTED_KINDS, *PLANNED_KINDS, *WATCHED, *GATED_KINDS):
        assert ("watch", kind.group, kind.plural) in narrow


def test_kinds_that_act_on_every_request_can_be_left_out():
    usual, narrow = set(default_applied().resources), set(default_applied(control_plane=False).resources)
    assert narrow < usual
    assert {(each.group, each.plural) for each in usual - narrow} == {
        *(("admissionregistration.k8s.io", f"mutating{rest}") for rest in HOOKS),
        *(("admissionregistration.k8s.io", f"validating{rest}") for rest in HOOKS),
        ("apiregistration.k8s.io", "apiservices"),
        ("certificates.k8s.io", "certificatesigningrequests"),
        ("flowcontrol.apiserver.k8s.io", "flowschemas"),
        ("flowcontrol.apiserver.k8s.io", "prioritylevelconfigurations"),
    }


def test_the_budgets_of_placements_are_listed_at_once():
    for roles in (serve_roles(), reconcile_roles(parse_selection(["ns"]), "quay")):
        assert ("list", "placement.kubernetes-fleet.io", "clusterresourceplacementdisruptionbudgets") in rights(roles)


def test_a_server_that_keeps_an_authority_writes_its_secret_and_its_configurations_and_no_others():
    wide, own, _ = serve_roles("quay", certificate_secret="ca", webhook_configuration="hooks")
    usual_wide, usual_own, _ = serve_roles("quay")
    (announcing,) = set(wide.rules) - set(usual_wide.rules)
    assert (announcing.verbs, announcing.names) == (("get", "patch", "watch"), ("hooks",))
    assert {each.plural for each in announcing.resources} == {
        "mutatingwebhookconfigurations",
        "validatingwebhookconfigurations",
    }
    keeping = [rule for rule in own.rules if rule not in usual_own.rules]
    assert [(rule.verbs, rule.names) for rule in keeping] == [
        (("create",), ()),
        (("get", "update", "watch"), ("ca",)),
    ]


def test_the_loop_may_reserve_as_the_server_does():
    """They take turns on the same Leases."""
    _, own = reconcile_roles(parse_selection(["ns"]), "quay")
    _, server, _ = serve_roles("quay")
    assert own.namespace == server.namespace == "quay"
    assert rights([server]) <= rights([own])


def test_the_server_reads_whatever_it_watches():
    allowed = rights(serve_roles())
    families = [kind for family in FAMILIES for kind in (family.placement, family.binding, family.policy_snapshot)]
    for kind in (*ADMISSION_KINDS, *WANTED_KINDS, *PLANNED_KINDS, *WATCHED, *POOL_KINDS, *GATED_KINDS, *families):
        assert {("list", kind.group, kind.plural), ("watch", kind.group, kind.plural)} <= allowed


def test_the_loop_reads_whatever_it_watches():
    allowed = rights(reconcile_roles(parse_selection(["configmaps"]), "ns"))
    for kind in (*required(LoopSettings(gate_members=tuple(MemberDisruption))), *COUNTED):
        assert {("list", kind.group, kind.plural), ("watch", kind.group, kind.plural)} <= allowed


def test_the_loop_holds_what_it_gives_to_agents():
    """Otherwise the API server would not let it make their Roles."""
    given = {
        (verb, rule["apiGroups"][0], resource)
        for rule in agent_rules()
        for resource in rule["resources"]
        for verb in rule["verbs"]
    }
    assert given <= rights(reconcile_roles(parse_selection(["namespaces"]), "ns"))


@pytest.mark.parametrize(
    "verb", [pytest.param(verb, id=verb) for verb in ("escalate", "bind", "impersonate", "*", "deletecollection")]
)
def test_verbs_that_nobody_gets_unasked(verb):
    selected = default_selection()
    usual = [*reconcile_roles(selected, "ns", back_report=True), *serve_roles(), *agent_roles(default_applied())]
    assert not [right for right in rights(usual) if right[0] == verb]


class TestSelection:
    """Which kinds are read, or applied, for placements."""

    def test_the_default_leaves_out_what_no_placement_selects(self):
        found = {resource.plural for resource in default_selection().resources}
        assert {"configmaps", "deployments", "clusterresourceenvelopes"} <= found
        assert not found & {"pods", "nodes", "events", "leases", "bindings", "clusterresourceplacements", "works"}

    def test_secrets_are_read_only_when_asked_for(self):
        secrets = ("list", "", "secrets")
        assert secrets not in rights(reconcile_roles(default_selection(), "ns"))
        for selected in (default_selection(secrets=True), parse_selection(["secrets"])):
            assert secrets in rights(reconcile_roles(selected, "ns"))
        assert ("create", "", "secrets") in rights(agent_roles(default_applied()))

    def test_secrets_have_a_rule_of_their_own(self):
        (role, _) = reconcile_roles(default_selection(secrets=True), "ns")
        (rule,) = (rule for rule in role.rules if any(each.plural == "secrets" for each in rule.resources))
        assert (len(rule.resources), rule.verbs) == (1, ("get", "list", "watch"))
        assert "Omit this rule" in rule.why

    def test_words_are_read_as_people_write_them(self):
        found = parse_selection(["deploy", "Deployment", "configmaps", "ns", "boats.example.com"])
        assert [(each.group, each.plural) for each in found.resources] == [
            ("", "configmaps"),
            ("", "namespaces"),
            ("apps", "deployments"),
            ("example.com", "boats"),
        ]

    @pytest.mark.parametrize(
        ("word", "message"),
        [
            pytest.param("pods", "objects of kind Pod are never selected", id="blocked"),
            pytest.param("crp", "are never selected", id="ours"),
            pytest.param("boats", "in full, as PLURAL.GROUP", id="no-group"),
            pytest.param("*.*", "is not a known kind", id="wildcard"),
            pytest.param("Boats.example.com", "is not a known kind", id="upper-case"),
            pytest.param("boats.example.com/status", "is not a known kind", id="subresource"),
        ],
    )
    def test_what_is_no_kind_is_named(self, word, message):
        with pytest.raises(UnknownKindError, match=message) as caught:
            parse_selection([word])
        assert repr(word) in str(caught.value)

    def test_roles_are_applied_only_when_asked_for(self):
        assert not {each.group for each in default_applied().resources} & {"rbac.authorization.k8s.io"}
        with pytest.raises(UnknownKindError, match="--apply-rbac"):
            checked_applied(parse_selection(["clusterroles"]))
        with_roles = rights(agent_roles(default_applied(), apply_rbac=True))
        assert ("escalate", "rbac.authorization.k8s.io", "clusterroles") in with_roles

    def test_back_reporting_writes_the_status_of_what_has_one(self):
        selected = parse_selection(["configmaps", "deployments", "boats.example.com"])
        more = rights(reconcile_roles(selected, "ns", back_report=True)) - rights(reconcile_roles(selected, "ns"))
        assert more == {("update", "apps", "deployments/status"), ("update", "example.com", "boats/status")}


@pytest.mark.parametrize(
    ("subject", "wanted"),
    [
        (service_account("ns", "sa"), {"kind": "ServiceAccount", "name": "sa", "namespace": "ns"}),
        (user("me"), {"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "me"}),
    ],
    ids=["service-account", "user"],
)
def test_every_role_is_bound_to_the_subject(subject, wanted):
    made = [document for document, _ in documents(reconcile_roles(parse_selection(["ns"]), "ns"), subject)]
    assert [document["kind"] for document in made] == ["ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding"]
    for role, bound in (made[:2], made[2:]):
        assert bound["roleRef"]["name"] == role["metadata"]["name"]
        assert bound["roleRef"]["kind"] == role["kind"]
        assert bound["metadata"] == role["metadata"]
        assert bound["subjects"] == [wanted]
