"""``harbormaster rbac``."""

import json

import pytest
import yaml

from webhook.settings.agent import AgentSettings
from webhook.settings.environment import SettingsError
from webhook.settings.programs import ServeSettings

NARROW = """\
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata:
  name: harbormaster-agent
rules:
# AppliedWorks record what was applied for each Work
- apiGroups: ["placement.kubernetes-fleet.io"]
  resources: ["appliedworks"]
  verbs: ["create", "delete", "get", "list", "update", "watch"]
# their status lists the applied objects
- apiGroups: ["placement.kubernetes-fleet.io"]
  resources: ["appliedworks/status"]
  verbs: ["update"]
# applied objects block the deletion of their owner, which OwnerReferencesPermissionEnforcement checks
- apiGroups: ["placement.kubernetes-fleet.io"]
  resources: ["appliedworks/finalizers"]
  verbs: ["update"]
# properties of the member: nodes and their available resources
- apiGroups: [""]
  resources: ["nodes", "pods"]
  verbs: ["get", "list", "watch"]
# the namespaces of the member
- apiGroups: [""]
  resources: ["namespaces"]
  verbs: ["get", "list", "watch"]
# kinds that the member serves
- apiGroups: ["apiextensions.k8s.io"]
  resources: ["customresourcedefinitions"]
  verbs: ["get", "list", "watch"]
# Events on objects that are kept although their Work was deleted
- apiGroups: ["events.k8s.io"]
  resources: ["events"]
  verbs: ["create"]
# health and version of the member
- nonResourceURLs: ["/readyz", "/version"]
  verbs: ["get"]
# objects that placements place on this member
- apiGroups: ["apps"]
  resources: ["deployments"]
  verbs: ["create", "delete", "get", "list", "patch", "update", "watch"]
# objects that placements place on this member too: all Secrets. Omit this rule if no Secrets are placed
- apiGroups: [""]
  resources: ["secrets"]
  verbs: ["create", "delete", "get", "list", "patch", "update", "watch"]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata:
  name: harbormaster-agent
roleRef:
  apiGroup: rbac.authorization.k8s.io
  kind: ClusterRole
  name: harbormaster-agent
subjects:
- kind: ServiceAccount
  name: harbormaster-agent
  namespace: fleet-system
---
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata:
  name: harbormaster-agent
  namespace: fleet-system
rules:
# identity of this member: its hub, and its name there; create cannot be limited to a name
- apiGroups: [""]
  resources: ["configmaps"]
  verbs: ["create"]
# identity of this member: its hub, and its name there
- apiGroups: [""]
  resources: ["configmaps"]
  resourceNames: ["harbormaster-member"]
  verbs: ["get", "update"]
# token for the hub, which the agent renews
- apiGroups: [""]
  resources: ["secrets"]
  resourceNames: ["harbormaster-hub"]
  verbs: ["get", "update"]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata:
  name: harbormaster-agent
  namespace: fleet-system
roleRef:
  apiGroup: rbac.authorization.k8s.io
  kind: Role
  name: harbormaster-agent
subjects:
- kind: ServiceAccount
  name: harbormaster-agent
  namespace: fleet-system
"""


def test_an_agent_with_two_kinds(cli, monkeypatch):
    monkeypatch.setenv("HARBORMASTER_NODE_DISRUPTION_MODE", "Off")
    result = cli("rbac", "agent", "-n", "fleet-system", "--apply", "deployments", "--apply", "secrets")
    assert (result.exit_code, result.stdout) == (0, NARROW)


def test_an_agent_that_advises_on_nodes_writes_only_what_it_says(cli):
    """By default it looks at nodes: besides what it needs anyway, it writes statuses of pools, Events and one Lease."""
    printed = cli("rbac", "agent", "-n", "fleet-system", "--apply", "deployments", "--apply", "secrets").stdout
    known = [rule for each in yaml.safe_load_all(NARROW) for rule in each.get("rules", ())]
    more = [rule for each in yaml.safe_load_all(printed) for rule in each.get("rules", ()) if rule not in known]
    written = {
        resource for rule in more if set(rule["verbs"]) - {"get", "list", "watch"} for resource in rule["resources"]
    }
    assert written == {"nodepools/status", "events", "leases"}


@pytest.mark.parametrize("process", ["reconcile", "serve", "agent"])
def test_yaml_and_json_say_the_same(cli, process):
    """The lists of the YAML are written by hand, so that they fit a line."""
    documents = list(yaml.safe_load_all(cli("rbac", process).stdout))
    assert json.loads(cli("rbac", process, "-o", "json").stdout)["items"] == documents


def test_long_lists_are_wrapped(cli):
    roles = cli("rbac", "reconcile").stdout.partition("kind: ClusterRole\n")[2]
    assert max(map(len, roles.splitlines())) <= 120


def test_the_lease_is_in_the_namespace_of_the_installation(cli, monkeypatch):
    printed = yaml.safe_load_all(cli("rbac", "reconcile", "-n", "quay", "--select", "ns").stdout)
    documents = [each for each in printed if each["apiVersion"].startswith("rbac.")]
    assert [each["metadata"].get("namespace") for each in documents] == [None, None, "quay", "quay"]
    assert documents[2]["rules"][1]["resourceNames"] == ["harbormaster-reconcile"]
    monkeypatch.setenv("HARBORMASTER_NAMESPACE", "pier")
    assert "namespace: pier" in cli("rbac", "reconcile").stdout


def test_everything_only_when_asked_for(cli):
    wide = cli("rbac", "reconcile", "--select-everything", "--back-report").stdout
    assert '- apiGroups: ["*"]\n  resources: ["*"]\n  verbs: ["get", "list", "watch"]\n' in wide
    assert '- apiGroups: ["*"]\n  resources: ["*/status"]\n  verbs: ["update"]\n' in wide
    assert '"*' not in cli("rbac", "reconcile", "--back-report").stdout


def test_kinds_that_may_approve_a_stage_are_read_one_by_one(cli, monkeypatch):
    monkeypatch.setenv("HARBORMASTER_ANALYSIS_KINDS", "jobs.batch,canaries.example.com,pods")
    printed = cli("rbac", "reconcile", "--select", "ns", "-o", "json").stdout
    rules = next(each["rules"] for each in json.loads(printed)["items"] if each["kind"] == "ClusterRole")
    found = [(rule["apiGroups"], rule["resources"]) for rule in rules if rule["verbs"] == ["get"]]
    assert found[-3:] == [([""], ["pods"]), (["batch"], ["jobs"]), (["example.com"], ["canaries"])]


def test_what_narrows_an_account_comes_before_what_it_is_given(cli):
    kinds = [each["kind"] for each in yaml.safe_load_all(cli("rbac", "reconcile").stdout)]
    policies = ["ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding"] * 7
    assert kinds == [*policies, "ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding"]


def test_one_account_for_both_may_lead(cli):
    """The policy of the server would keep it from the Lease of the loop."""
    made = list(yaml.safe_load_all(cli("rbac", "reconcile", "--serve").stdout))
    names = [each["metadata"]["name"] for each in made if each["kind"] == "ValidatingAdmissionPolicy"]
    own = [f"harbormaster-reconcile-{what}" for what in ("namespaces", "roles", "leases", "configmaps")]
    assert names == [*own, "harbormaster-agent-tokens", "harbormaster-member-works", "harbormaster-reconcile-secrets"]
    bound = [each for each in made if each["kind"] in ("ClusterRoleBinding", "RoleBinding")]
    assert {each["roleRef"]["name"] for each in bound} >= {"harbormaster-reconcile", "harbormaster-serve"}
    assert {each["subjects"][0]["name"] for each in bound} == {"harbormaster-reconcile"}


OF_AGENTS = 'request.userInfo.username == "system:serviceaccount:" + request.namespace + ":" + request.name'
OF_OTHERS = 'request.namespace.startsWith("fleet-member-")'


def test_no_agent_gets_a_token_that_lasts_longer_than_one_may_be_set_to_last(cli):
    made = list(yaml.safe_load_all(cli("rbac", "reconcile").stdout))
    (policy,) = (
        each["spec"]
        for each in made
        if each["metadata"]["name"] == "harbormaster-agent-tokens" and "validations" in each["spec"]
    )
    (rule,) = policy["matchConstraints"]["resourceRules"]
    assert (rule["apiGroups"], rule["resources"]) == ([""], ["serviceaccounts/token"])
    assert policy["matchConditions"] == [{"name": "whose", "expression": OF_AGENTS}]
    longest = int(policy["validations"][0]["expression"].removeprefix("object.spec.expirationSeconds <= "))
    assert AgentSettings.read({"HARBORMASTER_HUB_TOKEN_SECONDS": str(longest)})
    with pytest.raises(SettingsError, match="HUB_TOKEN_SECONDS"):
        AgentSettings.read({"HARBORMASTER_HUB_TOKEN_SECONDS": str(longest + 1)})


def test_each_process_has_an_account_of_its_own(cli, monkeypatch):
    monkeypatch.setenv("HARBORMASTER_SERVICE_ACCOUNT", "captain")
    for process, account in (("reconcile", "captain"), ("serve", "harbormaster-serve")):
        made = list(yaml.safe_load_all(cli("rbac", process).stdout))
        assert {subject["name"] for each in made for subject in each.get("subjects", ())} == {account}
        user = f'request.userInfo.username == "system:serviceaccount:harbormaster-system:{account}"'
        conditions = [
            each["spec"]["matchConditions"][0] for each in made if each["kind"] == "ValidatingAdmissionPolicy"
        ]
        assert {each["expression"] for each in conditions} - {OF_AGENTS, OF_OTHERS} == {user}


def test_a_loop_that_is_a_user_has_one_name_everywhere(cli, monkeypatch):
    """In its roles, in what narrows them, among those whom the API server does not call the webhooks about, and in "
    "admission."""
    monkeypatch.setenv("HARBORMASTER_LOOP_USER", "hub-loop")
    for words in ((), ("--user", "hub-loop")):
        made = list(yaml.safe_load_all(cli("rbac", "reconcile", *words).stdout))
        assert {subject["name"] for each in made for subject in each.get("subjects", ())} == {"hub-loop"}
        policies = [each for each in made if each["kind"] == "ValidatingAdmissionPolicy"]
        conditions = {each["spec"]["matchConditions"][0]["expression"] for each in policies}
        assert conditions - {OF_AGENTS, OF_OTHERS} == {'request.userInfo.username == "hub-loop"'}
    configurations = yaml.safe_load_all(cli("webhook-configuration", "--no-ca").stdout)
    exempt = {hook["matchConditions"][0]["expression"] for each in configurations for hook in each["webhooks"]}
    assert exempt == {'request.userInfo.username != "hub-loop"'}
    assert ServeSettings.read({"HARBORMASTER_LOOP_USER": "hub-loop"}).admission().controllers == {"hub-loop"}


def test_roles_for_another_account_than_admission_knows_come_with_a_word(cli, monkeypatch):
    words = ("rbac", "reconcile", "--service-account", "quay")
    assert "set HARBORMASTER_SERVICE_ACCOUNT=quay" in cli(*words).stderr
    monkeypatch.setenv("HARBORMASTER_SERVICE_ACCOUNT", "quay")
    assert cli(*words).stderr == ""


@pytest.mark.parametrize(
    ("words", "mistake"),
    [
        pytest.param(
            ("reconcile", "--select", "pods"), "--select 'pods': objects of kind Pod are never selected", id="blocked"
        ),
        pytest.param(("reconcile", "--select", "boats"), "'boats' is not a known kind", id="unknown-kind"),
        pytest.param(("agent", "--apply", "roles"), "--apply 'roles': placing roles requires more rights", id="roles"),
        pytest.param(
            ("reconcile", "--select", "ns", "--select-everything"), "cannot be used together", id="some-and-everything"
        ),
        pytest.param(("serve", "--user", "a", "--service-account", "b"), "cannot be used together", id="two-subjects"),
        pytest.param(("serve", "--user", ""), "--user ''", id="no-user"),
        pytest.param(("serve", "--user", "system:admin"), "must not start with system:", id="system-user"),
        pytest.param(("serve", "--service-account", "A B"), "--service-account 'A B'", id="bad-account"),
        pytest.param(
            ("serve", "--service-account", "harbormaster-reconcile"), "rbac reconcile --serve", id="account-of-the-loop"
        ),
        pytest.param(("serve", "-n", "Quay"), "Quay", id="bad-namespace"),
        pytest.param(
            ("reconcile", "--user", "hub-loop"),
            "Set HARBORMASTER_LOOP_USER=hub-loop here, for serve",
            id="unknown-loop",
        ),
        pytest.param(("captain",), "No such command 'captain'", id="process"),
    ],
)
def test_mistakes_are_told_in_one_line(cli, words, mistake):
    result = cli("rbac", *words)
    assert (result.exit_code, result.stdout) == (1, "")
    assert mistake in result.stderr
    assert len(result.stderr.splitlines()) == 1


@pytest.mark.parametrize(
    ("words", "resource"),
    [
        pytest.param(["serve", "--no-upgrade-orders"], "clusterupgradegates/status", id="orders"),
        pytest.param(["serve", "--no-node-pools"], "nodeclaims", id="pools"),
        pytest.param(["reconcile", "--serve", "--no-upgrade-orders"], "PATCH clusterupgradegates", id="orders-of-both"),
        pytest.param(["agent", "--no-apply-control-plane"], "validatingwebhookconfigurations", id="hooks"),
        pytest.param(["agent", "--no-apply-control-plane"], "apiservices", id="api-services"),
        pytest.param(["agent", "--no-apply-control-plane"], "certificatesigningrequests", id="certificates"),
        pytest.param(["agent", "--no-apply-control-plane"], "flowschemas", id="flow-schemas"),
    ],
)
def test_a_right_is_printed_unless_it_is_left_out(cli, words, resource):
    def printed(*given):
        items = json.loads(cli("rbac", *given, "-o", "json").stdout)["items"]
        rules = [rule for each in items if each["kind"] == "ClusterRole" for rule in each["rules"]]
        verb, _, plural = resource.rpartition(" ")
        return any(plural in rule.get("resources", ()) and verb.lower() in ("", *rule["verbs"]) for rule in rules)

    assert printed(*(word for word in words if not word.startswith("--no-")))
    assert not printed(*words)
