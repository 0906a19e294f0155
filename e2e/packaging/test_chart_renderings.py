"""What helm makes of the charts: nothing that it warns of, what the program prints, and what the values say."""

import base64
import gzip
import json
import re

import pytest
import yaml

from e2e.charts.changes import AGENT_CHANGES, AGENT_VALUES, HUB_CHANGES, LOOP, SERVE
from e2e.charts.golden import AGENT_DEPLOYMENT, GOLDEN, agent_deployment, cases, golden
from e2e.charts.places import found_at
from e2e.charts.rendering import NAMESPACE, Helm, HelmError, name_of, place_of, read_case
from scorer.rollout.confirmation.policy import NO_CONFIRMATION, RemovalPolicy
from tests.charts.made import AGENT, HUB
from tests.charts.registration import SWITCHES
from tests.charts.settings import AGENT_PROGRAMS, HUB_PROGRAMS, settings_of
from tests.charts.values import read_values
from webhook.access.front_proxy import API_SERVICE
from webhook.admission.registration import WebhookEndpoint, webhook_configurations
from webhook.processes.node_rights import NodeRights
from webhook.processes.rbac import (
    SelectedResources,
    agent_roles,
    default_applied,
    default_selection,
    parse_selection,
    reconcile_roles,
    serve_roles,
)
from webhook.settings.admission import AdmissionSettings, PlacementAuthorization
from webhook.settings.gate import NodeDisruptionMode
from webhook.settings.values import format_value

CASES = {f"{chart.name}-{path.stem}": (chart, values, path) for chart, values, path in cases()}
CHANGES = {
    **{f"hub-{change.name}": (HUB, {}, change) for change in HUB_CHANGES},
    **{f"agent-{change.name}": (AGENT, AGENT_VALUES, change) for change in AGENT_CHANGES},
}
OF_AUTHORITY = ("HARBORMASTER_CERTIFICATE_SECRET", "HARBORMASTER_WEBHOOK_CONFIGURATION")
MOST = 1024 * 1024
"""Bytes that a Secret may hold: helm keeps a release in one."""


@pytest.fixture(scope="session")
def helm(programs):
    """The real helm."""
    return Helm(programs["helm"])


@pytest.mark.parametrize("case", CASES)
def test_helm_finds_nothing_wrong(helm, case):
    chart, values, _ = CASES[case]
    assert "0 chart(s) failed" in helm.lint(chart, values)


def test_the_deployment_that_join_applies_is_the_rendering_of_the_chart(helm):
    assert agent_deployment(helm) == AGENT_DEPLOYMENT.read_text(encoding="utf-8"), "run `make charts`"


@pytest.mark.parametrize("case", CASES)
def test_a_rendering_is_the_expected_one(helm, case):
    chart, values, path = CASES[case]
    assert golden(helm, chart, values) == path.read_text(encoding="utf-8"), "run `make charts`, and read the difference"


def test_no_expected_rendering_is_left_of_a_case_that_has_gone():
    assert set(GOLDEN.rglob("*.yaml")) == {path for _, _, path in CASES.values()}


@pytest.mark.parametrize(("chart", "changes"), [(HUB, HUB_CHANGES), (AGENT, AGENT_CHANGES)], ids=["hub", "agent"])
def test_every_value_has_its_change(chart, changes):
    named = {value.name for value in read_values(chart / "values.yaml") if value.path[0] != "settings"}
    assert named == {change.name for change in changes}


@pytest.fixture(scope="module")
def companions(request):
    """For each change that is asked about: those that are rendered with it, itself among them."""
    here = [item for item in request.session.items if item.path == request.path]
    mine = [item for item in here if "companions" in item.fixturenames]
    asked = [item.callspec.params["name"] for item in mine]
    groups = []
    for name in asked:
        fits = (group for group in groups if all(beside(CHANGES[name], CHANGES[other]) for other in group))
        group = next(fits, None)
        if group is None:
            groups.append(group := [])
        group.append(name)
    return {name: [CHANGES[other][2] for other in group] for group in groups for name in group}


def beside(one, other):
    """Return whether two changes can be looked at in one rendering: neither says what the other one is to say."""
    (chart, _, first), (same_chart, _, second) = one, other
    if chart != same_chart or first.base != second.base or first.renames or second.renames:
        return False
    names = f"{first.name}.", f"{second.name}."
    within = names[0].startswith(names[1]) or names[1].startswith(names[0])
    return not within and (first.target, first.place) != (second.target, second.place)


@pytest.mark.parametrize("name", CHANGES)
def test_a_value_changes_what_it_says(helm, companions, name):
    chart, given, change = CHANGES[name]
    before = helm.render(chart, given, change.base)
    after = helm.render(chart, given, change.base, *(each.values() for each in companions[name]))
    if found_at(after, change.target, change.place) != change.found:  # another value outweighs it
        after = helm.render(chart, given, change.base, change.values())
    assert found_at(after, change.target, change.place) == change.found
    assert found_at(before, change.target, change.place) != change.found


@pytest.mark.parametrize(
    ("programs_of_chart", "chart", "given", "deployments"),
    [
        pytest.param(HUB_PROGRAMS, HUB, {}, {"serve": SERVE, "reconcile": LOOP}, id="hub"),
        pytest.param(AGENT_PROGRAMS, AGENT, AGENT_VALUES, {"agent": "Deployment/hb-harbormaster-agent"}, id="agent"),
    ],
)
def test_every_setting_reaches_the_programs_that_read_it(helm, programs_of_chart, chart, given, deployments):
    """All of them at once, but for one that excludes another."""
    other = {name: another(setting) for name, setting in settings_of(programs_of_chart).items()}
    apart = {name: other.pop(name) for name in ("blockedKinds",) if name in other}
    for changed in filter(None, (other, apart)):
        documents = helm.render(chart, given, {"settings": changed})
        usual = helm.render(chart, given)
        for program in programs_of_chart:
            for name, setting in settings_of((program,)).items():
                if name in changed:
                    place = f"spec.template.spec.containers.0.env.{setting.variable}.value"
                    found = found_at(documents, deployments[program], place)
                    assert spelled(found) == spelled(format_value(changed[name])), name
                    assert found_at(usual, deployments[program], place) is None or name == "tokenAudience"


def spelled(text):
    """Return a variable, JSON without regard to the order of its members."""
    return json.loads(text) if text and text.startswith("[{") else text


def another(setting):
    """Return another value than the default of a setting."""
    match setting.default, setting.schema:
        case bool(), _:
            return not setting.default
        case _, {"enum": choices}:
            return next(choice for choice in choices if choice != setting.default)
        case int() | float(), _:
            step = 1 if setting.default + 1 <= setting.schema.get("maximum", setting.default + 1) else -1
            return setting.default + step
        case list(), {"items": {"type": "object"}}:
            return [{"weight": 50, "preference": {"labelSelector": {"matchLabels": {"region": "north"}}}}]
        case list(), {"items": {"enum": choices}}:
            return choices[:1]
        case list(), {"items": {"pattern": pattern}} if not re.search(pattern, "other"):
            return ["Other"]
        case list(), _:
            return ["other"]
        case _:
            return "other"


@pytest.mark.parametrize(
    "on", [(), *((name,) for name in SWITCHES), tuple(SWITCHES)], ids=lambda on: "+".join(on) or "none"
)
def test_the_hooks_are_those_that_the_program_prints(helm, on):
    switched = {name: name in on for name in SWITCHES if name not in ("enforce_rights", "removals")}
    rights = "Enforce" if "enforce_rights" in on else "Warn"
    exempt = ["system:kube-controller-manager", "o'hara"]
    values = {
        "settings": {
            **{camel(name): value for name, value in switched.items()},
            "placementAuthorization": rights,
            "enforcementExemptUsers": exempt,
            "removalConfirmation": "" if "removals" in on else "Off",
            "removalConfirmationExempt": "example.com/preview=yes",
        },
        "webhook": {"secrets": ["s" * 32]},
        "service": {"port": 8443},
    }
    rendered = {each["kind"]: each for each in helm.render(HUB, values)}
    endpoint = WebhookEndpoint(
        NAMESPACE,
        "hb-harbormaster",
        8443,
        user=f"system:serviceaccount:{NAMESPACE}:hb-harbormaster-reconcile",
        secret_path=f"/hooks/{'s' * 32}",
    )
    settings = AdmissionSettings(
        placement_authorization=PlacementAuthorization(rights),
        enforcement_exempt_users=frozenset(exempt),
        removal=RemovalPolicy(exempt=("example.com/preview", "yes")) if "removals" in on else NO_CONFIRMATION,
        **switched,
    )
    for wanted in webhook_configurations(endpoint, settings):
        hooks = rendered[wanted["kind"]]["webhooks"]
        assert {hook["name"]: hook for hook in hooks} == {hook["name"]: hook for hook in wanted["webhooks"]}
        assert len(hooks) == len(wanted["webhooks"])


def camel(name):
    """Return the name of a switch as a value."""
    first, *rest = name.split("_")
    return first + "".join(map(str.capitalize, rest))


WORDS = ["namespaces", "configmaps", "deployments.apps", "boats.example.com"]
SELECTIONS = {
    "usual": ({}, default_selection(), False),
    "secrets": ({"secrets": True}, default_selection(secrets=True), False),
    "words": ({"select": WORDS}, parse_selection(WORDS), False),
    "words-and-secrets": ({"select": WORDS, "secrets": True}, parse_selection([*WORDS, "secrets"]), False),
    "everything": ({"selectEverything": True}, SelectedResources(everything=True), False),
    "usual-back": ({"backReport": True}, default_selection(), True),
    "words-back": ({"select": WORDS, "backReport": True}, parse_selection(WORDS), True),
    "everything-back": ({"selectEverything": True, "backReport": True}, SelectedResources(everything=True), True),
}


@pytest.mark.parametrize("name", SELECTIONS)
def test_the_loop_has_the_rights_that_the_program_prints(helm, name):
    values, selected, back_report = SELECTIONS[name]
    rendered = helm.render(HUB, {"reconcile": values})
    roles = reconcile_roles(selected, NAMESPACE, back_report=back_report)
    assert rights_of(rendered, "reconcile") == rights(rule.document() for role in roles for rule in role.rules)


@pytest.mark.parametrize(
    ("networking", "outside"),
    [
        pytest.param(False, "", id="usual"),
        pytest.param(True, "", id="with-networking-agents"),
        pytest.param(False, "outside", id="with-an-upgrader-outside"),
    ],
)
@pytest.mark.parametrize("mode", ["own", "cert-manager"])
def test_the_server_has_the_rights_that_the_program_prints(helm, networking, outside, mode):
    """Those to an authority only where it keeps one, in its Secret; to its webhook configurations what that takes."""
    values = {"networkingAgents": networking}
    rendered = helm.render(HUB, {"settings": values, "certs": {"mode": mode}, "handOff": {"secret": outside}})
    secret = "hb-harbormaster-ca" if mode == "own" else ""
    configuration = "harbormaster-hb-harbormaster"
    roles = serve_roles(
        NAMESPACE,
        networking_agents=networking,
        certificate_secret=secret,
        webhook_configuration=configuration,
        hand_off=bool(outside),
    )
    assert rights_of(rendered, "serve") == rights(rule.document() for role in roles for rule in role.rules)
    pod = {
        name: found_at(rendered, SERVE, f"spec.template.spec.containers.0.env.{name}.value") for name in OF_AUTHORITY
    }
    assert list(pod.values()) == [secret or None, configuration]


@pytest.mark.parametrize(
    ("values", "applied", "apply_rbac"),
    [
        pytest.param({}, default_applied(), False, id="usual"),
        pytest.param({"apply": WORDS}, parse_selection(WORDS), False, id="words"),
        pytest.param({"applyRoles": True}, default_applied(), True, id="roles-too"),
        pytest.param({"applyControlPlane": False}, default_applied(control_plane=False), False, id="narrow"),
        pytest.param({"applyControlPlane": None}, default_applied(), False, id="values-of-an-older-chart"),
        pytest.param({"applyControlPlane": False, "apply": WORDS}, parse_selection(WORDS), False, id="words-win"),
    ],
)
def test_the_agent_has_the_rights_that_the_program_prints(helm, values, applied, apply_rbac):
    rendered = helm.render(AGENT, AGENT_VALUES, {"rbac": values})
    roles = agent_roles(applied, NAMESPACE, apply_rbac=apply_rbac)
    assert rights_of(rendered, "agent") == rights(rule.document() for role in roles for rule in role.rules)


@pytest.mark.parametrize("orders", [True, False, None], ids=["orders", "no-orders", "orders-of-an-older-chart"])
@pytest.mark.parametrize("pools", [True, False, None], ids=["pools", "no-pools", "pools-of-an-older-chart"])
def test_the_server_has_its_optional_rights_unless_they_are_off(helm, orders, pools):
    """None: the values are those of a chart that did not know them, as with --reuse-values."""
    rendered = helm.render(HUB, {"rbac": {"upgradeOrders": orders, "nodePools": pools}})
    roles = serve_roles(
        NAMESPACE,
        certificate_secret="hb-harbormaster-ca",
        webhook_configuration="harbormaster-hb-harbormaster",
        upgrade_orders=orders is not False,
        node_pools=pools is not False,
    )
    assert rights_of(rendered, "serve") == rights(rule.document() for role in roles for rule in role.rules)


@pytest.mark.parametrize(
    ("certs", "bundle", "annotations"),
    [
        pytest.param({}, None, None, id="own"),
        pytest.param({"mode": "files", "files": {"secretName": "tls", "caBundle": "Q0E="}}, "Q0E=", None, id="files"),
        pytest.param(
            {"mode": "cert-manager"},
            None,
            {"cert-manager.io/inject-ca-from": f"{NAMESPACE}/hb-harbormaster"},
            id="cert-manager",
        ),
    ],
)
def test_the_api_for_teams_takes_a_value(helm, certs, bundle, annotations):
    """An APIService that is not available delays the deletion of every namespace, so there is none by default."""
    assert not [each for each in helm.render(HUB, {"certs": certs}) if each["kind"] == "APIService"]
    rendered = helm.render(HUB, {"certs": certs, "settings": {"teamAnswers": True}, "service": {"port": 8443}})
    (found,) = [each for each in rendered if each["kind"] == "APIService"]
    assert (found["metadata"]["name"], found["metadata"].get("annotations")) == (API_SERVICE, annotations)
    spec = found["spec"]
    assert f"{spec['version']}.{spec['group']}" == API_SERVICE
    assert spec["service"] == {"namespace": NAMESPACE, "name": "hb-harbormaster", "port": 8443}
    assert (spec.get("caBundle"), spec.get("insecureSkipTLSVerify")) == (bundle, None)
    own = "mode" not in certs
    roles = serve_roles(
        NAMESPACE,
        certificate_secret="hb-harbormaster-ca" if own else "",
        webhook_configuration="harbormaster-hb-harbormaster",
        team_answers=True,
    )
    assert rights_of(rendered, "serve") == rights(rule.document() for role in roles for rule in role.rules)


@pytest.mark.parametrize("chart", [HUB, AGENT], ids=["hub", "agent"])
def test_values_for_a_new_installation_only_take_rights_away(helm, chart):
    given = AGENT_VALUES if chart == AGENT else {}
    suffix = "agent" if chart == AGENT else "serve"
    usual = helm.render(chart, given)
    new = helm.render(chart, given, yaml.safe_load((chart / "new-installation.yaml").read_text(encoding="utf-8")))
    assert rights_of(new, suffix) < rights_of(usual, suffix)
    assert [each for each in new if "Role" not in each["kind"]] == [
        each for each in usual if "Role" not in each["kind"]
    ]


def test_a_server_that_enforces_budgets_counts_nodes(helm):
    with pytest.raises(HelmError, match=r"rbac\.nodePools: must be true with settings\.enforceBudgets"):
        helm.render(HUB, {"settings": {"enforceBudgets": True}, "rbac": {"nodePools": False}})


@pytest.mark.parametrize(
    ("chart", "given", "setting"),
    [
        pytest.param(HUB, {}, "handoffUnboundReports", id="hub"),
        pytest.param(AGENT, AGENT_VALUES, "nodeDisruptionSpotToSpot", id="agent"),
    ],
)
def test_a_setting_that_older_values_lack_has_its_default(helm, chart, given, setting):
    assert helm.render(chart, given, {"settings": {setting: None}}) == helm.render(chart, given)


@pytest.mark.parametrize("mode", NodeDisruptionMode)
def test_the_disruption_of_nodes_has_the_rights_that_its_mode_takes(helm, mode):
    settings = {"settings": {"nodeDisruptionMode": mode.value, "nodeDisruptionKarpenterLease": "karpenter/lead"}}
    nodes = NodeRights(mode, "lead")
    for rendered, suffix, roles in (
        (helm.render(HUB, settings), "reconcile", reconcile_roles(default_selection(), NAMESPACE, nodes=nodes)),
        (helm.render(AGENT, AGENT_VALUES, settings), "agent", agent_roles(default_applied(), NAMESPACE, nodes=nodes)),
    ):
        assert rights_of(rendered, suffix) == rights(rule.document() for role in roles for rule in role.rules)
    policies = {each["metadata"]["name"] for each in helm.render(HUB, settings) if each["kind"].endswith("Policy")}
    assert ("harbormaster-hb-harbormaster-reconcile-nodes" in policies) is (mode is NodeDisruptionMode.ACT)


def rights_of(documents, suffix):
    """Return the rights in the roles whose name ends with *suffix*."""
    roles = [each for each in documents if each["kind"] in {"Role", "ClusterRole"}]
    ours = [each for each in roles if each["metadata"]["name"].endswith(f"-{suffix}")]
    assert sorted(each["kind"] for each in ours) == ["ClusterRole", "Role"]
    return rights(rule for each in ours for rule in each["rules"])


def rights(rules):
    """Return every single right that rules give."""
    return {
        (verb, group, what, name)
        for rule in rules
        for verb in rule["verbs"]
        for group in rule.get("apiGroups", [""])
        for what in (*rule.get("resources", ()), *rule.get("nonResourceURLs", ()))
        for name in rule.get("resourceNames", [""])
    }


@pytest.mark.parametrize("mode", ["Deployment", "Server", "Off"])
def test_roles_are_bound_to_the_accounts_that_the_pods_run_as(helm, mode):
    documents = [
        each
        for each in helm.render(HUB, {"reconcile": {"mode": mode}})
        if "helm.sh/hook" not in each["metadata"].get("annotations", {})
    ]
    accounts = {each["metadata"]["name"] for each in documents if each["kind"] == "ServiceAccount"}
    running = {
        each["spec"]["template"]["spec"]["serviceAccountName"] for each in documents if each["kind"] == "Deployment"
    }
    bound = {
        subject["name"] for each in documents if each["kind"].endswith("RoleBinding") for subject in each["subjects"]
    }
    assert running == bound == accounts


@pytest.mark.parametrize(
    ("values", "said"),
    [
        pytest.param(
            {"serve": {"podDisruptionBudget": {"minAvailable": 1, "maxUnavailable": 1}}},
            "serve.podDisruptionBudget: minAvailable (1) and maxUnavailable (1)",
            id="both-fields-of-the-budget",
        ),
        pytest.param(
            {"serve": {"replicas": 1, "podDisruptionBudget": {"minAvailable": 1}}},
            "serve.podDisruptionBudget.minAvailable: 1 of 1 replicas",
            id="nothing-may-go",
        ),
        pytest.param(
            {"serve": {"autoscaling": {"enabled": True, "minReplicas": 9, "maxReplicas": 3}}},
            "minReplicas (9) is more than maxReplicas (3)",
            id="more-than-most",
        ),
        pytest.param({"certs": {"mode": "files"}}, "certs.files.secretName", id="files-without-a-secret"),
        pytest.param(
            {"certs": {"files": {"secretName": "mine"}}},
            "certs.files: not used with certs.mode own",
            id="files-in-another-mode",
        ),
        pytest.param(
            {"reconcile": {"select": ["configmaps"], "selectEverything": True}},
            "reconcile.select and reconcile.selectEverything",
            id="some-and-everything",
        ),
        pytest.param(
            {"settings": {"drainLimitSeconds": 3}},
            "settings.drainLimitSeconds: 3 is less than settings.drainSeconds, 15",
            id="drain-limit",
        ),
        pytest.param(
            {"settings": {"allowedKinds": "apps", "blockedKinds": "v1/Secret"}}, "cannot be used together", id="kinds"
        ),
        pytest.param({"webhook": {"securePort": 8081}}, "both are 8081", id="one-port-for-two"),
        pytest.param(
            {"serve": {"serviceAccount": {"name": "hb-harbormaster-reconcile"}}}, "both are", id="one-account-for-two"
        ),
        pytest.param({"scheduler": {"enabled": True}}, "scheduler.clientCertificateSecret", id="scheduler-unknown"),
        pytest.param({"webhook": {"secrets": ["short"]}}, "/webhook/secrets/0", id="short-secret"),
        pytest.param({"webhook": {"secrets": ["S" * 32]}}, "/webhook/secrets/0", id="secret-for-no-service"),
        pytest.param({"serve": {"replicas": 0}}, "/serve/replicas", id="no-replica"),
        pytest.param({"settings": {"placementAuthorization": "warn"}}, "/settings/placementAuthorization", id="enum"),
        pytest.param({"serve": {"replica": 3}}, "replica", id="misspelled"),
        pytest.param({"settings": {"guardRails": True}}, "guardRails", id="misspelled-setting"),
        pytest.param({"servce": {}}, "servce", id="misspelled-group"),
    ],
)
def test_wrong_values_are_refused_by_name(helm, values, said):
    with pytest.raises(HelmError) as refused:
        helm.render(HUB, values)
    assert said in str(refused.value).replace("'", "")


def test_a_release_that_no_service_can_be_named_after_is_refused(helm):
    with pytest.raises(HelmError, match="fullnameOverride: 2026-harbormaster must start with a letter"):
        helm.render(HUB, release="2026")
    assert helm.render(HUB, {"fullnameOverride": "pier"}, release="2026")


@pytest.mark.parametrize(("chart", "given"), [(HUB, {}), (AGENT, AGENT_VALUES)], ids=["hub", "agent"])
@pytest.mark.parametrize(
    ("release", "namespace"),
    [("a" * 53, "quay"), ("hb", "2026"), ("true", "null"), ("x", "0x1f")],
    ids=["longest", "number", "words-of-yaml", "hexadecimal"],
)
def test_any_release_in_any_namespace_has_names_that_are_texts_and_fit(helm, chart, given, release, namespace):
    more = {"networkPolicy": {"enabled": True}, "apiPriority": {"enabled": True}} if chart == HUB else {}
    for document in helm.render(chart, given, more, release=release, namespace=namespace):
        metadata = document["metadata"]
        assert metadata.get("namespace", namespace) in (namespace, "kube-system"), name_of(document)
        assert metadata["labels"]["app.kubernetes.io/instance"] == release, name_of(document)
        assert len(metadata["name"]) <= (63 if document["kind"] in ("Service", "Job", "Pod") else 253), name_of(
            document
        )
        for subject in document.get("subjects", ()):
            assert subject["namespace"] == namespace, name_of(document)


@pytest.mark.parametrize(
    ("values", "said"),
    [
        pytest.param({}, "cluster: required", id="no-cluster"),
        pytest.param({"cluster": "berlin", "hub": {"context": "fleet"}}, "hub.context: fleet", id="no-kubeconfig"),
        pytest.param({**AGENT_VALUES, "cluster": "Berlin"}, "/cluster", id="no-name"),
        pytest.param({**AGENT_VALUES, "hubs": {}}, "hubs", id="misspelled"),
    ],
)
def test_an_agent_is_not_installed_without_its_hub(helm, values, said):
    with pytest.raises(HelmError) as refused:
        helm.render(AGENT, values)
    assert said in str(refused.value).replace("'", "")


@pytest.mark.parametrize(("chart", "given"), [(HUB, {}), (AGENT, AGENT_VALUES)], ids=["hub", "agent"])
@pytest.mark.parametrize("namespaces", [("one", "two"), ("one", "one")], ids=["two-namespaces", "one-namespace"])
def test_two_releases_have_no_object_in_common(helm, chart, given, namespaces):
    """But for the definitions, which only one of them may install."""
    first, second = (
        {
            place_of(each)
            for each in helm.render(chart, given, release=release, namespace=namespace)
            if each["kind"] != "CustomResourceDefinition"
        }
        for release, namespace in zip(("harbormaster", "quay"), namespaces, strict=True)
    )
    assert first & second == set()


@pytest.mark.parametrize("case", CASES)
def test_a_release_stays_in_its_namespace(helm, case):
    chart, values, _ = CASES[case]
    for document in helm.render(chart, read_case(values), namespace="elsewhere"):
        assert document["metadata"].get("namespace", "elsewhere") in {"elsewhere", "kube-system"}, name_of(document)
        assert "harbormaster-system" not in json.dumps(document) or document["kind"] == "CustomResourceDefinition"


@pytest.mark.parametrize("chart", [HUB, AGENT], ids=["hub", "agent"])
def test_what_has_no_namespace_is_named_so_that_agents_never_place_it(helm, chart):
    """Cluster roles, webhook configurations and policies named ``harbormaster`` or ``harbormaster-*``."""
    given = AGENT_VALUES if chart == AGENT else {}
    for release in ("quay", "harbormaster", "harbormaster-agent"):
        for document in helm.render(chart, given, release=release):
            if "namespace" not in document["metadata"] and document["kind"] != "CustomResourceDefinition":
                name = document["metadata"]["name"]
                assert name == "harbormaster" or name.startswith("harbormaster-"), name_of(document)


@pytest.mark.parametrize(
    ("limit", "shutdown", "period"), [(100, 10, 130), (45.5, 10, 76), (200, 30, 250)], ids=["usual", "half", "long"]
)
def test_a_pod_has_as_long_as_its_drain_may_take(helm, limit, shutdown, period):
    values = {"settings": {"drainLimitSeconds": limit, "shutdownSeconds": shutdown}}
    place = "spec.template.spec.terminationGracePeriodSeconds"
    assert found_at(helm.render(HUB, values), SERVE, place) == period


@pytest.mark.parametrize("case", [case for case in CASES if "files" not in case])
def test_no_bundle_is_in_a_chart_that_does_not_own_it(helm, case):
    """helm would take it back from the one who injects it."""
    chart, values, _ = CASES[case]
    assert "caBundle" not in {
        key
        for document in helm.render(chart, read_case(values))
        for hook in document.get("webhooks", ())
        for key in hook["clientConfig"]
    }


def test_policies_are_left_out_where_kubernetes_has_none(helm):
    kinds = {each["kind"] for each in helm.render(HUB, kubernetes="1.29.0")}
    assert not any("Policy" in kind for kind in kinds)


@pytest.mark.parametrize(("kubernetes", "there"), [("1.28.0", False), ("1.29.0", True)])
def test_priority_is_left_out_where_kubernetes_does_not_know_it_as_it_is_written(helm, kubernetes, there):
    kinds = {each["kind"] for each in helm.render(HUB, {"apiPriority": {"enabled": True}}, kubernetes=kubernetes)}
    assert ({"FlowSchema", "PriorityLevelConfiguration"} <= kinds) is there


@pytest.mark.parametrize(
    ("mode", "accounts"),
    [
        ("Deployment", ["hb-harbormaster-serve", "hb-harbormaster-reconcile"]),
        ("Server", ["hb-harbormaster-reconcile"]),
        ("Off", ["hb-harbormaster-serve"]),
    ],
)
def test_priority_is_for_the_accounts_that_there_are(helm, mode, accounts):
    documents = helm.render(HUB, {"apiPriority": {"enabled": True}, "reconcile": {"mode": mode}})
    subjects = found_at(documents, "FlowSchema/harbormaster-hb-harbormaster", "spec.rules.0.subjects")
    assert [each["serviceAccount"]["name"] for each in subjects] == accounts


def test_a_job_of_the_release_may_do_no_more_than_a_server(helm):
    """Pods of hooks obey the same security context."""
    documents = helm.render(HUB)
    server = found_at(documents, SERVE, "spec.template.spec")
    pods = [
        each["spec"] if each["kind"] == "Pod" else each["spec"]["template"]["spec"]
        for each in documents
        if each["kind"] in {"Pod", "Job"}
    ]
    assert len(pods) == 2
    for pod in pods:
        assert pod["securityContext"] == server["securityContext"]
        assert pod["containers"][0]["securityContext"] == server["containers"][0]["securityContext"]
        assert pod["containers"][0]["image"] == server["containers"][0]["image"]


def test_selectors_never_hold_a_version(helm):
    """They cannot be changed, and a version is."""
    for chart, given in ((HUB, {}), (AGENT, AGENT_VALUES)):
        for document in helm.render(chart, given):
            if document["kind"] == "Deployment":
                assert sorted(document["spec"]["selector"]["matchLabels"]) == [
                    "app.kubernetes.io/component",
                    "app.kubernetes.io/instance",
                    "app.kubernetes.io/name",
                ]


def test_definitions_have_the_default_state_of_the_setting(helm):
    """The API server applies it before it asks a hook, so no process can."""
    changes = {"crds": {"fleet": {"install": True}}, "settings": {"stagedRunsDefaultState": "Run"}}
    runs = [
        document
        for document in helm.render(HUB, changes)
        if document["kind"] == "CustomResourceDefinition"
        and document["spec"]["names"]["kind"].endswith("StagedUpdateRun")
    ]
    states = [
        version["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]["state"]["default"]
        for run in runs
        for version in run["spec"]["versions"]
    ]
    assert len(runs) == 2
    assert set(states) == {"Run"}


def test_a_release_with_all_definitions_fits_into_its_secret(helm):
    """As helm keeps it: the files of the chart and what they rendered, compressed, in base64. A quarter is to spare."""
    switches = {"crds": {"fleet": {"install": True}, "karpenter": {"install": True}}}
    files = {
        str(path): base64.b64encode(path.read_bytes()).decode()
        for path in HUB.rglob("*")
        if path.is_file() and "ci" not in path.parts
    }
    kept = json.dumps({"chart": files, "manifest": helm.render_text(HUB, switches)}).encode()
    assert len(base64.b64encode(gzip.compress(kept))) < MOST * 3 / 4
