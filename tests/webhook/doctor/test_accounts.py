"""Whether accounts have each right that they need, and none beyond."""

from copy import deepcopy
from dataclasses import replace

import pytest

from scorer.membership.access import agent_role, agent_role_binding
from tests.webhook.doctor.deployments import by_hand
from webhook.doctor.accounts import accounts_of, judge_account, judge_agents, judge_policies
from webhook.doctor.finding import State
from webhook.doctor.rights import Right, Roles, subject_of
from webhook.processes.account_policies import (
    certificate_policies,
    key_policies,
    member_policies,
    policy_documents,
    reconcile_policies,
    serve_policies,
)
from webhook.processes.member_objects import identity_of, on_hub
from webhook.processes.node_rights import NodeRights
from webhook.processes.rbac import default_selection, reconcile_roles, serve_roles
from webhook.processes.rbac_objects import documents
from webhook.settings.gate import NodeDisruptionMode

HOME = "harbormaster-system"
INSTALLATION = by_hand({"HARBORMASTER_CERTIFICATE_SECRET": "ca"})
READER = {
    "kind": "Role",
    "metadata": {"name": "extension-apiserver-authentication-reader", "namespace": "kube-system"},
    "rules": [{"apiGroups": [""], "resources": ["configmaps"], "verbs": ["get"]}],
}


def roles_of(*made):
    bindings = [each for each in made if each["kind"].endswith("Binding")]
    return Roles.of([READER, *(each for each in made if each not in bindings)], bindings)


def made(installation=INSTALLATION):
    """What is printed for both accounts."""
    serving = serve_roles(HOME, certificate_secret="ca")
    looping = reconcile_roles(default_selection(), HOME)
    parts = ((serving, installation.server), (looping, installation.loop))
    return [deepcopy(document) for needed, user in parts if user for document, _ in documents(needed, subject_of(user))]


def judge(*more, installation=INSTALLATION, denied=()):
    accounts = accounts_of(installation, roles_of(*made(installation), *more))
    return {account.check: judge_account(account, denied) for account in accounts}


def test_both_accounts_are_well():
    found = judge()
    assert {name: finding.state for name, finding in found.items()} == {
        "server-rights": State.OK,
        "loop-rights": State.OK,
    }
    assert found["loop-rights"].found.endswith("no others. Placements may select 47 kinds")


def test_one_account_for_both_needs_the_rights_of_both():
    same = by_hand({"HARBORMASTER_CERTIFICATE_SECRET": "ca"}, server=INSTALLATION.loop)
    assert {name: finding.state for name, finding in judge(installation=same).items()} == {"server-rights": State.OK}


def test_without_a_loop_its_account_does_not_count():
    alone = by_hand({"HARBORMASTER_CERTIFICATE_SECRET": "ca"}, has_loop=False)
    assert {name: finding.state for name, finding in judge(installation=alone).items()} == {"server-rights": State.OK}


def test_a_right_that_is_missing_is_named():
    found = made()
    role = next(each for each in found if each["kind"] == "Role" and each["metadata"]["name"] == "harbormaster-serve")
    role["rules"] = [each for each in role["rules"] if each["resources"] != ["leases"]]
    (server, loop) = (judge_account(each, ()) for each in accounts_of(INSTALLATION, roles_of(*found)))
    assert server.problems == (
        f"{INSTALLATION.server} may not create, delete, get, list, update, watch leases.coordination.k8s.io in "
        f"namespace {HOME}",
    )
    assert server.advice.startswith("harbormaster rbac serve | kubectl apply")
    assert loop.state is State.OK


def test_the_loop_needs_the_rights_to_what_may_approve_a_stage():
    analysing = by_hand(
        {"HARBORMASTER_CERTIFICATE_SECRET": "ca", "HARBORMASTER_ANALYSIS_KINDS": "canaries.example.com,jobs.batch"}
    )
    assert judge(installation=analysing)["loop-rights"].problems == (
        f"{INSTALLATION.loop} may not get canaries.example.com",
    )
    role = reconcile_roles(default_selection(), HOME, analysis_kinds=("canaries.example.com", "jobs.batch"))
    looping = [deepcopy(each) for each, _ in documents(role, subject_of(INSTALLATION.loop))]
    serving = made(by_hand({"HARBORMASTER_CERTIFICATE_SECRET": "ca"}, has_loop=False))
    accounts = accounts_of(analysing, roles_of(*serving, *looping))
    assert [judge_account(account, ()).state for account in accounts] == [State.OK, State.OK]


@pytest.mark.parametrize(
    ("left_out", "named"),
    [
        pytest.param({}, (), id="none"),
        pytest.param({"upgrade_orders": False}, ("rbac.upgradeOrders",), id="orders"),
        pytest.param({"node_pools": False}, ("rbac.nodePools",), id="pools"),
        pytest.param(
            {"upgrade_orders": False, "node_pools": False}, ("rbac.upgradeOrders", "rbac.nodePools"), id="both"
        ),
    ],
)
def test_optional_rights_that_are_left_out_are_named_and_not_missed(left_out, named):
    alone = by_hand(has_loop=False)
    subject = subject_of(alone.server)
    given = [deepcopy(each) for each, _ in documents(serve_roles(HOME, **left_out), subject)]
    (account,) = accounts_of(alone, roles_of(*given))
    finding = judge_account(account, ())
    assert finding.state is State.OK
    assert tuple(value for value in ("rbac.upgradeOrders", "rbac.nodePools") if value in finding.found) == named


def test_one_account_for_both_may_lack_what_only_the_server_needs():
    """The loop writes upgrade runs and reads claims for purposes of its own."""
    same = by_hand({"HARBORMASTER_LOOP_USER": "hub"}, server="hub")
    roles = (
        *serve_roles(HOME, upgrade_orders=False, node_pools=False),
        *reconcile_roles(default_selection(), HOME, nodes=NodeRights(NodeDisruptionMode.OFF)),
    )
    given = [deepcopy(each) for each, _ in documents(roles, subject_of("hub"))]
    off = replace(same, settings=same.settings.model_copy(update={"node_disruption_mode": NodeDisruptionMode.OFF}))
    (account,) = accounts_of(off, roles_of(*given))
    finding = judge_account(account, ())
    assert finding.problems == ()
    assert "rbac.upgradeOrders" in finding.found


def test_a_part_of_an_optional_right_is_not_enough():
    alone = by_hand(has_loop=False)
    given = [deepcopy(each) for each, _ in documents(serve_roles(HOME), subject_of(alone.server))]
    wide = next(each for each in given if each["kind"] == "ClusterRole")
    wide["rules"] = [each for each in wide["rules"] if each["resources"] != ["clusterupgradegates/status"]]
    (account,) = accounts_of(alone, roles_of(*given))
    assert judge_account(account, ()).problems == (
        f"{alone.server} may not update clusterupgradegates/status.upgrade.harbormaster.dev",
    )


def test_a_right_too_many_is_named():
    admin = {"kind": "ClusterRole", "metadata": {"name": "admin"}, "rules": [rule("*", "*", "*")]}
    ref = {"kind": "ClusterRole", "name": "admin"}
    subjects = [subject_of(INSTALLATION.loop)]
    binding = {"kind": "ClusterRoleBinding", "metadata": {"name": "x"}, "roleRef": ref, "subjects": subjects}
    found = judge(admin, binding)
    assert found["server-rights"].state is State.OK
    assert found["loop-rights"].problems == (f"{INSTALLATION.loop} may * *.*, but does not need to",)
    assert found["loop-rights"].advice.startswith("remove the bindings")


def rule(verb, group, resource):
    return {"apiGroups": [group], "resources": [resource], "verbs": [verb]}


def test_what_the_api_server_denies_counts_although_the_roles_allow_it():
    finding = judge(denied=[Right("", "create", "authentication.k8s.io", "tokenreviews")])["server-rights"]
    assert "may not create tokenreviews.authentication.k8s.io, although its roles allow it" in finding.problems[0]


def test_an_api_server_that_was_not_asked_is_told():
    finding = judge(denied=None)["server-rights"]
    assert finding.state is State.OK
    assert finding.found.endswith("because you may not create subjectaccessreviews")


MEMBER = {"metadata": {"name": "berlin"}, "spec": {"identity": identity_of("berlin", HOME)}}
NAMESPACES = {"fleet-member-berlin"}


def agents(*more, members=(MEMBER,), namespaces=NAMESPACES):
    own = [wanted.document for wanted in on_hub("berlin", HOME) if wanted.kind.group]
    granted = [agent_role("berlin"), agent_role_binding("berlin", MEMBER["spec"]["identity"])]
    return judge_agents(members, namespaces, roles_of(*own, *granted, *more), HOME)


def test_an_agent_that_joined_is_well():
    assert (agents().state, agents().found) == (
        State.OK,
        "1 agent may write to the namespace of their member, and nowhere else",
    )


def test_a_member_that_comes_or_goes_is_left_out():
    leaving = {**MEMBER, "metadata": {"name": "berlin", "deletionTimestamp": "2026-03-01T10:00:00Z"}}
    assert agents(namespaces=()).found == agents(members=[leaving]).found == "there are no members yet"


def test_an_agent_that_may_read_another_member_is_named():
    ref = {"kind": "Role", "name": "fleet-role-paris"}
    subjects = [subject_of(f"system:serviceaccount:{HOME}:member-berlin")]
    metadata = {"name": "x", "namespace": "fleet-member-paris"}
    binding = {"kind": "RoleBinding", "metadata": metadata, "roleRef": ref, "subjects": subjects}
    problems = agents(agent_role("paris"), binding).problems
    assert any(
        "berlin: its agent" in each and "works.placement" in each and "-paris, but does not need to" in each
        for each in problems
    )


def test_an_agent_without_its_role_is_named():
    other = {"metadata": {"name": "berlin"}, "spec": {"identity": {"kind": "Group", "name": "crew"}}}
    assert len(agents(members=[other]).problems) == len(agent_role("berlin")["rules"])
    assert (
        agents(members=[other]).problems[0].startswith("berlin: its agent (crew) may not create events.events.k8s.io")
    )
    bad = {"metadata": {"name": "berlin"}, "spec": {"identity": {"kind": "Robot", "name": "r2"}}}
    assert agents(members=[bad]).problems[0].startswith("berlin: spec.identity.kind is 'Robot'")


def policies():
    """What is printed for both accounts, as an API server stores it."""
    printed = [
        *policy_documents(serve_policies() + certificate_policies("ca"), INSTALLATION.server),
        *policy_documents(reconcile_policies("harbormaster-reconcile"), INSTALLATION.loop),
        *policy_documents((*key_policies(), *member_policies(())), INSTALLATION.loop),
    ]
    for each in printed:
        if "matchConstraints" in each["spec"]:
            each["spec"]["matchConstraints"] |= {
                "matchPolicy": "Equivalent",
                "namespaceSelector": {},
                "objectSelector": {},
            }
            each["spec"]["matchConstraints"]["resourceRules"][0]["scope"] = "*"
    return printed


def judged_policies(stored):
    return judge_policies(
        INSTALLATION,
        [each for each in stored if not each["kind"].endswith("Binding")],
        [each for each in stored if each["kind"].endswith("Binding")],
    )


def test_policies_are_well_under_any_name():
    stored = policies()
    for each in stored:
        each["metadata"]["name"] += "-x"
        if "policyName" in each["spec"]:
            each["spec"]["policyName"] += "-x"
    assert (judged_policies(stored).state, judged_policies(stored).found) == (
        State.OK,
        "10 policies restrict harbormaster's accounts beyond their roles",
    )


def lose(policy, binding):
    policy["metadata"]["name"] = "renamed"


def loosen(policy, binding):
    policy["spec"]["validations"][0]["expression"] = "true"


def narrow(policy, binding):
    policy["spec"]["matchConstraints"]["namespaceSelector"] = {"matchLabels": {"a": "b"}}


def add_condition(policy, binding):
    policy["spec"]["matchConditions"].append({"name": "never", "expression": "false"})


def exclude(policy, binding):
    rule = {"apiGroups": ["*"], "apiVersions": ["*"], "operations": ["*"], "resources": ["*"]}
    policy["spec"]["matchConstraints"]["excludeResourceRules"] = [rule]


def name_objects(policy, binding):
    policy["spec"]["matchConstraints"]["resourceRules"][0]["resourceNames"] = ["another"]


def match_no_namespaced_objects(policy, binding):
    policy["spec"]["matchConstraints"]["resourceRules"][0]["scope"] = "Cluster"


def depend_on_parameters(policy, binding):
    policy["spec"]["paramKind"] = {"apiVersion": "v1", "kind": "ConfigMap"}
    binding["spec"]["paramRef"] = {"name": "missing", "parameterNotFoundAction": "Allow"}


def only_warn(policy, binding):
    binding["spec"]["validationActions"] = ["Warn"]


def bind_narrowly(policy, binding):
    binding["spec"]["matchResources"] = {"namespaceSelector": {"matchLabels": {"a": "b"}}}


@pytest.mark.parametrize(
    "spoil",
    [
        lose,
        loosen,
        narrow,
        exclude,
        name_objects,
        match_no_namespaced_objects,
        depend_on_parameters,
        add_condition,
        only_warn,
        bind_narrowly,
    ],
)
def test_a_policy_that_does_not_hold_is_named(spoil):
    stored = policies()
    spoil(stored[0], stored[1])
    (problem,) = judged_policies(stored).problems
    assert f"so {INSTALLATION.server} is not restricted (harbormaster's server may write only Leases" in problem


def test_the_policies_of_the_server_do_not_hold_for_one_account_with_the_loop():
    same = by_hand(server=INSTALLATION.loop)
    assert judge_policies(same, (), ()).found == "7 problems"
