"""The API for teams, as an installation expects it; `e2e/rollouts/test_team_answers.py` examines a real one."""

from base64 import b64encode
from datetime import UTC, datetime, timedelta

import pytest

from certs.authority import Authority
from certs.rotation import Lineage, pem_of
from tests.webhook.doctor.deployments import by_hand
from tests.webhook.doctor.empty_hub import EmptyHub
from webhook.admission.registration import WebhookEndpoint, webhook_configurations
from webhook.doctor.api_service import TeamAnswersState, examine_team_answers, judge_team_answers
from webhook.doctor.finding import State
from webhook.kube.ports import ForbiddenError
from webhook.kube.webhook_configurations.ca_bundles import Registered
from webhook.settings.admission import AdmissionSettings

NOW = datetime(2026, 3, 1, 10, tzinfo=UTC)
LINEAGE = Lineage.begin(NOW)
TRUSTED = pem_of(LINEAGE.trusted())
USERS, PROXIES, OLD = Authority.new(NOW), Authority.new(NOW), Authority.new(NOW - timedelta(days=9000))
ON, OFF = by_hand({"HARBORMASTER_TEAM_ANSWERS": "true"}), by_hand()
HOME = ON.namespace
FLAGS = {
    "client-ca-file": USERS.pem.decode(),
    "requestheader-client-ca-file": PROXIES.pem.decode(),
    "requestheader-allowed-names": '["front-proxy-client"]',
}


def hooks(pem=TRUSTED, **endpoint):
    documents = webhook_configurations(WebhookEndpoint(HOME, **endpoint), AdmissionSettings())
    return {each["kind"]: Registered(each, {hook["name"]: pem for hook in each["webhooks"]}) for each in documents}


def service(pem=TRUSTED, status="True", reason="Passed", message="", **spec):
    address = {"namespace": HOME, "name": "harbormaster"}
    spec = {"group": "answers.harbormaster.dev", "version": "v1", "service": address, **spec}
    condition = {"type": "Available", "status": status, "reason": reason, "message": message}
    return Registered({"spec": spec, "status": {"conditions": [condition]}}, {"": pem})


def judged(registered=None, flags=FLAGS, installation=ON, **how):
    how = {"configurations": hooks(), "lineage": LINEAGE, **how}
    state = TeamAnswersState(registered, now=NOW, front_proxy={"data": flags}, **how)
    return judge_team_answers(state, installation)


def test_an_api_that_is_available():
    finding = judged(service())
    assert (finding.state, finding.found) == (
        State.OK,
        "APIService v1.answers.harbormaster.dev is available",
    )


def test_the_port_of_an_api_service_is_443_unless_it_is_set():
    assert judged(service(), configurations=hooks(port=443)).state is State.OK
    assert judged(service(), configurations=hooks(port=8443)).state is State.WRONG


def test_a_server_by_url_may_have_any_service():
    elsewhere = {"namespace": HOME, "name": "quay", "port": 9443}
    assert judged(service(service=elsewhere), configurations=hooks(url="https://quay:9443")).state is State.OK


@pytest.mark.parametrize(
    ("finding", "problem", "fix"),
    [
        pytest.param(judged(None), "is missing: teams get no answers", "apiservice.yaml", id="missing"),
        pytest.param(
            judged(service(service={"namespace": "pier", "name": "harbormaster"})),
            f"points to Service pier/harbormaster/443, but the server is {HOME}/harbormaster/443",
            "apiservice.yaml",
            id="of-another-namespace",
        ),
        pytest.param(judged(service(service=None)), "points to Service //443", "apiservice.yaml", id="no-service"),
        pytest.param(judged(service(version="v2")), "answers.harbormaster.dev/v2", "apiservice.yaml", id="version"),
        pytest.param(
            judged(service(insecureSkipTLSVerify=True)), "insecureSkipTLSVerify", "apiservice.yaml", id="unverified"
        ),
        pytest.param(judged(service(PROXIES.pem)), "does not trust", "certs inspect", id="another-authority"),
        pytest.param(judged(service(b"")), "does not trust", "certs inspect", id="no-bundle"),
        pytest.param(
            judged(service(TRUSTED + PROXIES.pem)),
            "does not trust exactly the authorities",
            "certs inspect",
            id="one-authority-too-many",
        ),
        pytest.param(
            judged(service(PROXIES.pem), lineage=None), "their caBundles differ", "certs.files.caBundle", id="files"
        ),
        pytest.param(
            judged(service(OLD.pem), lineage=None), "no certificate that is valid now", "caBundle", id="files-expired"
        ),
        pytest.param(
            judged(service(status="False", reason="MissingEndpoints", message="no endpoints\nfor service")),
            "so the hub deletes no namespace: MissingEndpoints: no endpoints for service",
            f"kubectl get pods -n {HOME}",
            id="no-pods",
        ),
        pytest.param(
            judged(service(status="False", reason="ServiceNotFound")), "ServiceNotFound", "apiservice.yaml", id="named"
        ),
        pytest.param(
            judged(service(status="False", reason="FailedDiscoveryCheck", message="got: 401")),
            "FailedDiscoveryCheck: got: 401",
            "with the client certificate of its front proxy",
            id="discovery",
        ),
        pytest.param(
            judged(Registered({**service().document, "status": {}}, service().bundles)),
            "the API server has not checked it yet",
            "admit the API server",
            id="new",
        ),
        pytest.param(
            judged(service(), flags={}), "has no requestheader-client-ca-file", "aggregation layer", id="no-layer"
        ),
        pytest.param(
            judged(service(), flags={**FLAGS, "requestheader-client-ca-file": "quay"}),
            "contains no certificate",
            "aggregation layer",
            id="no-certificate",
        ),
        pytest.param(
            judged(service(), flags={**FLAGS, "requestheader-client-ca-file": USERS.pem.decode()}),
            "also signs client certificates of users (client-ca-file): the server refuses it",
            "an authority of its own",
            id="authority-of-users",
        ),
        pytest.param(
            judged(service(), flags={**FLAGS, "requestheader-client-ca-file": OLD.pem.decode()}),
            "has expired",
            "renew the authority",
            id="authority-expired",
        ),
        pytest.param(
            judged(service(), flags={**FLAGS, "requestheader-allowed-names": "quay"}),
            "requestheader-allowed-names: must be a JSON list of strings",
            "flag of kube-apiserver",
            id="names",
        ),
        pytest.param(
            judged(service(), is_denied=True), "recognizes no front proxy", "harbormaster rbac serve", id="denied"
        ),
        pytest.param(
            judged(service(), installation=OFF),
            "settings.teamAnswers (HARBORMASTER_TEAM_ANSWERS) is off",
            "kubectl delete apiservice v1.answers.harbormaster.dev",
            id="left-over",
        ),
    ],
)
def test_each_problem_has_its_fix(finding, problem, fix):
    assert finding.state is State.WRONG
    assert len(finding.problems) == 1, finding
    assert problem in finding.problems[0]
    assert fix in finding.advice
    assert finding.advice.endswith("see docs/troubleshooting.md, The check team-answers")


def test_without_the_setting_nothing_is_expected():
    assert judged(None, installation=OFF).found == "the API for teams is disabled (settings.teamAnswers)"
    of_others = service(service={"namespace": "pier", "name": "harbormaster"})
    assert judged(of_others, installation=OFF).state is State.OK


async def test_a_right_that_is_missing_is_named():
    denied = ForbiddenError(
        'User "bob" cannot get resource "configmaps" in API group "" in the namespace "kube-system"'
    )
    hub = EmptyHub(**{"apiservices": service().document, "extension-apiserver-authentication": denied})
    finding = await examine_team_answers(hub, ON, hooks(url="https://quay"), NOW)
    assert finding.state is State.WRONG, "its caBundle is empty"
    hub.answers["apiservices"] = {
        **service().document,
        "spec": {**service().document["spec"], "caBundle": b64encode(TRUSTED).decode()},
    }
    finding = await examine_team_answers(hub, ON, hooks(url="https://quay"), NOW)
    assert (finding.state, finding.found) == (
        State.UNCHECKED,
        "not checked: you may not get configmaps in namespace kube-system",
    )


async def test_a_hub_without_it():
    finding = await examine_team_answers(EmptyHub(), ON, {}, NOW)
    assert [problem.partition(": ")[0] for problem in finding.problems] == [
        "APIService v1.answers.harbormaster.dev is missing",
        "ConfigMap kube-system/extension-apiserver-authentication",
    ]
    assert (await examine_team_answers(EmptyHub(), OFF, {}, NOW)).state is State.OK
