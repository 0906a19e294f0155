"""Whether the webhook configurations say what this release would write."""

from copy import deepcopy

import pytest

from tests.webhook.doctor.deployments import by_hand, deployment
from webhook.admission.registration import WebhookEndpoint, webhook_configurations
from webhook.doctor.finding import State
from webhook.doctor.installation import InstallationOptions, find_installation
from webhook.doctor.registration import judge_registration

SECRET = "/hooks/" + "c0ffee" * 10
VALIDATING, MUTATING = "ValidatingWebhookConfiguration", "MutatingWebhookConfiguration"
INSTALLATION = by_hand()


def registered(installation=INSTALLATION, **endpoint):
    """What an API server has stored of what is printed."""
    place = {"namespace": installation.namespace, "ca_pem": b"x", "user": installation.settings.username_of_loop}
    made = webhook_configurations(WebhookEndpoint(**(place | endpoint)), installation.settings.admission())
    for each in made:
        for hook in each["webhooks"]:
            hook["namespaceSelector"] = hook.get("namespaceSelector", {})
            hook["objectSelector"] = hook.get("objectSelector", {})
    return {each["kind"]: deepcopy(each) for each in made}


def judge(stored, installation=INSTALLATION):
    return judge_registration(stored, "hooks", installation)


@pytest.mark.parametrize(
    "endpoint",
    [
        {},
        {"service": "dock", "port": 8443},
        {"url": "https://10.0.0.7:9443"},
        {"url": "https://[::1]:9443", "secret_path": SECRET},
        {"secret_path": SECRET},
    ],
    ids=["service", "other-service", "url", "url-and-secret", "secret"],
)
def test_what_is_printed_is_well(endpoint):
    stored = registered(**endpoint)
    count = sum(len(each["webhooks"]) for each in stored.values())
    finding = judge(stored)
    assert (finding.state, finding.found) == (
        State.OK,
        f"2 configurations hooks with {count} hooks, as of this release",
    )


def test_settings_decide_which_hooks_there_are():
    railed = by_hand({"HARBORMASTER_GUARD_RAIL": "true", "HARBORMASTER_ENFORCE_BUDGETS": "true"})
    assert judge(registered(railed), railed).state is State.OK
    said = judge(registered(railed)).problems
    assert any("is not of this release, or belongs to a setting that is off" in each for each in said)
    assert any("is missing" in each for each in judge(registered(), railed).problems)


def loosen(hook):
    hook["failurePolicy"] = "Ignore"


def narrow(hook):
    hook["namespaceSelector"] = {"matchLabels": {"a": "b"}}


def lead_astray(hook):
    hook["clientConfig"]["service"]["name"] = "elsewhere"


def lose_operation(hook):
    hook["rules"][0]["operations"].remove("CREATE")


def exempt_another(hook):
    hook["matchConditions"].append({"name": "mine", "expression": "false"})


@pytest.mark.parametrize(
    ("spoil", "said"),
    [
        (loosen, 'failurePolicy is "Ignore", not "Fail"'),
        (narrow, 'namespaceSelector is {"matchLabels":{"a":"b"}}, not {}'),
        (lead_astray, 'clientConfig.service.name is "elsewhere", not "harbormaster"'),
        (lose_operation, 'rules[0].operations is ["UPDATE"], not ["CREATE","UPDATE"]'),
        (exempt_another, "matchConditions is "),
    ],
)
def test_a_hook_that_was_changed_is_named(spoil, said):
    stored = registered()
    hook = next(
        each for each in stored[VALIDATING]["webhooks"] if each["name"].startswith("clusterresourceplacements.")
    )
    spoil(hook)
    (problem,) = judge(stored).problems
    assert problem.startswith(f"{VALIDATING} hooks: clusterresourceplacements.validate.harbormaster.dev: {said}")


def test_a_missing_configuration_is_named():
    stored = registered()
    del stored[MUTATING]
    assert judge(stored).problems == (f"{MUTATING} hooks is missing: the API server calls none of its webhooks",)
    assert len(judge({}).problems) == 2


def test_a_loop_of_another_name_is_named():
    finding = judge(registered(user="system:serviceaccount:quay:other"))
    assert finding.state is State.WRONG
    assert "matchConditions[0].expression is" in finding.problems[0]


def test_the_hooks_of_another_namespace_are_told():
    assert judge(registered(namespace="pier")).problems[-1] == (
        "the webhooks point to namespace pier, but the installation is in harbormaster-system"
    )


def test_no_secret_is_printed():
    stored = registered(secret_path=SECRET)
    first, second = (each["clientConfig"]["service"] for each in stored[VALIDATING]["webhooks"][:2])
    first["path"] += "/astray"
    second["path"] = second["path"].replace("c0ffee", "f00d")
    said = judge(stored).problems
    assert 'clientConfig.service.path is "/hooks/…/validate/astray", not "/hooks/…/validate"' in said[0]
    assert 'clientConfig.service.path is "/hooks/(another)/validate", not "/hooks/…/validate"' in said[1]
    assert len(said) == 2


@pytest.mark.parametrize(
    ("holds", "called", "certificate", "said"),
    [
        pytest.param(True, SECRET, False, "", id="both"),
        pytest.param(True, "", False, "Run helm upgrade again", id="not-called-yet"),
        pytest.param(False, SECRET, False, "that the server does not have", id="not-held"),
        pytest.param(False, "", False, "it has no secret path. Set webhook.secrets", id="neither"),
        pytest.param(False, "", True, "", id="neither-but-certificates"),
        pytest.param(False, SECRET, True, "", id="not-held-but-certificates"),
        pytest.param(True, "", True, "", id="not-called-but-certificates"),
    ],
)
def test_where_any_client_counts_as_the_api_server_the_chart_is_asked_for_a_secret_path(
    holds, called, certificate, said
):
    given = {"SERVICE_ACCOUNT": "harbor-harbormaster-reconcile"}
    given |= {"WEBHOOK_SECRET_FILE": "/hooks/secrets"} if holds else {}
    given |= {"REQUIRE_CLIENT_CERTIFICATE": "true"} if certificate else {}
    charts = [deployment(environment=given), deployment("reconcile")]
    installation = find_installation(charts, InstallationOptions(), {})
    problems = judge(registered(installation, secret_path=called), installation).problems
    assert len(problems) == bool(said)
    assert all(said in each for each in problems)
