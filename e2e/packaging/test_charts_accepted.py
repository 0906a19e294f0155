"""A real API server accepts every rendering of the charts, and ``helm test`` finds what it is to find."""

import contextlib
import http.client
import json
import os
import ssl
import subprocess
import sys

import pytest

from e2e.charts.changes import AGENT_VALUES
from e2e.charts.golden import cases
from e2e.charts.rendering import NAMESPACE, Helm, read_case
from e2e.controlplane.cluster import LOOPBACK, ApiError
from e2e.controlplane.process import PATIENCE
from e2e.controlplane.service import HARBORMASTER
from e2e.fleet.objects import APPLY, MERGE, Objects
from e2e.fleet.waiting import wait_until
from e2e.placements import PLACEMENTS, placement
from scorer.api.kinds import KINDS
from scorer.api.kinds import NAMESPACE as NAMESPACES
from tests.charts.made import AGENT, HUB

OF_OTHERS = ("monitoring.coreos.com/", "cert-manager.io/")
"""Groups whose definitions are not on these hubs."""
CASES = {f"{chart.name}-{path.stem}": (chart, path) for chart, path, _ in cases()}
PLURALS = {
    "ConfigMap": "configmaps",
    "Pod": "pods",
    "ResourceQuota": "resourcequotas",
    "Secret": "secrets",
    "Service": "services",
    "ServiceAccount": "serviceaccounts",
}
HOOK = "clusterresourceplacements.validate.harbormaster.dev"


@pytest.fixture(scope="session")
def helm(programs):
    """The real helm."""
    return Helm(programs["helm"])


@pytest.fixture(scope="module")
def quay(bare_hub):
    """The namespace of the release, where nothing but restricted pods may run."""
    levels = {f"pod-security.kubernetes.io/{mode}": "restricted" for mode in ("enforce", "warn")}
    Objects(bare_hub).create(
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE, "labels": levels}}
    )
    yield bare_hub
    Objects(bare_hub).delete(NAMESPACES, NAMESPACE)


def apply(cluster, document, query="dryRun=All&"):
    """Apply an object on the server's side, by default as a dry run; return the warnings."""
    group, _, version = document["apiVersion"].rpartition("/")
    metadata = document["metadata"]
    plural = PLURALS.get(document["kind"]) or KINDS[group, document["kind"]].plural
    base = f"/apis/{group}/{version}" if group else f"/api/{version}"
    scope = f"/namespaces/{metadata['namespace']}" if "namespace" in metadata else ""
    path = f"{base}{scope}/{plural}/{metadata['name']}?{query}fieldManager=helm&force=true"
    return cluster.request("PATCH", path, document, content_type=APPLY)[1]


@pytest.mark.parametrize("case", CASES)
def test_the_api_server_accepts_a_rendering(helm, quay, case):
    """All of it, without a warning where only restricted Pods may run, but for one about the network of the host."""
    chart, values = CASES[case]
    documents = [each for each in helm.render(chart, read_case(values)) if not each["apiVersion"].startswith(OF_OTHERS)]
    accounts = [each for each in documents if each["kind"] == "ServiceAccount"]
    for account in accounts:  # a Pod is refused where its account is not there
        apply(quay, account, query="")
    try:
        for document in documents:
            warnings = apply(quay, document)
            of_the_host = "hostNetwork" in json.dumps(document)
            assert [each for each in warnings if not of_the_host or "host namespaces" not in each] == []
    finally:
        for account in accounts:
            Objects(quay).delete(KINDS["", "ServiceAccount"], account["metadata"]["name"], NAMESPACE)


@pytest.mark.parametrize("kind", ["Deployment", "ValidatingWebhookConfiguration", "ValidatingAdmissionPolicy"])
def test_the_api_server_would_notice(helm, quay, kind):
    """What is wrong in any of these does not pass as a dry run."""
    document = next(each for each in helm.render(HUB) if each["kind"] == kind)
    spoilt = {
        "Deployment": {"spec": {**document.get("spec", {}), "template": {"metadata": {}, "spec": {"containers": []}}}},
        "ValidatingWebhookConfiguration": {"webhooks": [{**document.get("webhooks", [{}])[0], "sideEffects": "Some"}]},
        "ValidatingAdmissionPolicy": {
            "spec": {**document.get("spec", {}), "validations": [{"expression": "no such(", "message": "no"}]}
        },
    }[kind]
    with pytest.raises(ApiError, match=r"422|400|Invalid|invalid"):
        apply(quay, {**document, **spoilt})


def of_hook(helm, word):
    """What of a release belongs to a hook of helm."""
    return [each for each in helm.render(HUB) if each["metadata"].get("annotations", {}).get("helm.sh/hook") == word]


def make_accounts(cluster, documents):
    """Make the account of a hook with its rights; return its name."""
    for document in documents:
        if document["kind"] in {"ServiceAccount", "ClusterRole", "ClusterRoleBinding"}:
            apply(cluster, document, query="")
    return next(each["metadata"]["name"] for each in documents if each["kind"] == "ServiceAccount")


@pytest.fixture
def tested(helm, quay, tmp_path):
    """What the Pod of ``helm test`` has: its account with its rights, and its program; returns how to run that."""
    documents = of_hook(helm, "test")
    account = make_accounts(quay, documents)
    (tmp_path / "token").write_text(quay.token_of(NAMESPACE, account), encoding="ascii")
    (tmp_path / "ca.crt").write_bytes(quay.ca_file.read_bytes())
    program = next(each["data"]["check.py"] for each in documents if each["kind"] == "ConfigMap")
    (tmp_path / "check.py").write_text(program, encoding="utf-8")
    pod = next(each for each in documents if each["kind"] == "Pod")
    hook = pod["spec"]["containers"][0]["command"][-1]
    environment = {**os.environ, "KUBERNETES_SERVICE_HOST": "127.0.0.1", "KUBERNETES_SERVICE_PORT": str(quay.port)}

    def run(readiness):
        return subprocess.run(
            [sys.executable, tmp_path / "check.py", readiness, tmp_path, hook],
            capture_output=True,
            text=True,
            check=False,
            timeout=600,
            env=environment,
        )

    return run


def test_helm_test_passes_where_admission_works(hub, service, tested):
    done = tested(f"http://127.0.0.1:{service.http_port}/readyz?verbose")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "admission works" in done.stdout


def test_helm_test_fails_where_the_api_server_does_not_ask(hub, service, tested, left_registered):
    for kind in ("validating", "mutating"):
        path = f"/apis/admissionregistration.k8s.io/v1/{kind}webhookconfigurations/harbormaster"
        hub.request("DELETE", path)
    left_registered.clear()
    done = tested(f"http://127.0.0.1:{service.http_port}/readyz?verbose")
    assert done.returncode == 1
    assert "the API server does not call harbormaster" in done.stdout
    assert "harbormaster doctor --context HUB" in done.stdout


def test_helm_test_names_the_hook_of_the_chart(helm):
    pod = next(each for each in helm.render(HUB) if each["kind"] == "Pod")
    hooks = next(each["webhooks"] for each in helm.render(HUB) if each["kind"] == "ValidatingWebhookConfiguration")
    assert pod["spec"]["containers"][0]["command"][-1] == HOOK
    assert HOOK in {hook["name"] for hook in hooks}


@pytest.fixture
def unregistering(helm, quay, tmp_path):
    """What the Job before an uninstall runs, as its account: returns how to run that."""
    documents = of_hook(helm, "pre-delete")
    token = quay.token_of(NAMESPACE, make_accounts(quay, documents))
    kubeconfig = quay.write_kubeconfig("unregister", token, folder=tmp_path)
    job = next(each for each in documents if each["kind"] == "Job")
    container = job["spec"]["template"]["spec"]["containers"][0]
    given = {each["name"]: each["value"] for each in container["env"]}
    program, *words = container["command"]
    assert program == HARBORMASTER.name

    def run():
        environment = {**os.environ, **given, "KUBECONFIG": str(kubeconfig)}
        return subprocess.run(
            [HARBORMASTER, *words], capture_output=True, text=True, check=False, timeout=600, env=environment
        )

    return run


def test_an_uninstall_leaves_nothing_that_asks_and_says_what_waits_for_a_loop(helm, quay, unregistering):
    configurations = [each for each in helm.render(HUB) if each["kind"].endswith("WebhookConfiguration")]
    for document in configurations:  # without entries: nobody is there who could answer
        apply(quay, {**document, "webhooks": []}, query="")
    held = {**placement("held"), "metadata": {"name": "held", "finalizers": ["example.com/hold"]}}
    quay.request("POST", PLACEMENTS, held)
    try:
        done = unregistering()
        assert (done.returncode, done.stderr) == (0, "")
        assert done.stdout.splitlines() == [
            "ValidatingWebhookConfiguration/harbormaster-hb-harbormaster removed",
            "MutatingWebhookConfiguration/harbormaster-hb-harbormaster removed",
            "ClusterResourcePlacement: 1 remaining, 1 with finalizers, which cannot be deleted while no loop runs",
        ]
        for document in configurations:
            assert not Objects(quay).find(
                KINDS["admissionregistration.k8s.io", document["kind"]], document["metadata"]["name"]
            )
    finally:
        quay.request("PATCH", f"{PLACEMENTS}/held", {"metadata": {"finalizers": None}}, content_type=MERGE)
        quay.request("DELETE", f"{PLACEMENTS}/held")
    again = unregistering()
    assert (again.returncode, again.stdout.count("not found")) == (0, 2)


def test_an_uninstall_that_may_not_remove_them_fails(quay, unregistering):
    role = KINDS["rbac.authorization.k8s.io", "ClusterRole"]
    Objects(quay).patch(role, "harbormaster-hb-harbormaster-quay-unregister", {"rules": []})

    def problem():
        done = unregistering()
        return "" if done.returncode == 1 and "cannot delete resource" in done.stderr else done.stdout + done.stderr

    wait_until("the Job is refused", problem)


def flow_of(cluster, token, path):
    """The uid of the FlowSchema that the API server has put a request to, whatever it answers."""
    context = ssl.create_default_context(cafile=str(cluster.ca_file))
    connection = http.client.HTTPSConnection(LOOPBACK, cluster.port, timeout=PATIENCE, context=context)
    with contextlib.closing(connection):
        connection.request("GET", path, headers={"Authorization": f"Bearer {token}"})
        answer = connection.getresponse()
        answer.read()
        return answer.headers["X-Kubernetes-PF-FlowSchema-UID"]


def test_leases_and_heartbeats_come_before_other_requests(helm, quay):
    documents = {each["kind"]: each for each in helm.render(HUB, {"apiPriority": {"enabled": True}})}
    names = [
        (KINDS["flowcontrol.apiserver.k8s.io", kind], documents[kind]["metadata"]["name"])
        for kind in ("PriorityLevelConfiguration", "FlowSchema")
    ]
    loop = documents["ServiceAccount"] | {"metadata": {"name": "hb-harbormaster-reconcile", "namespace": NAMESPACE}}
    apply(quay, loop, query="")
    token, bob = quay.token_of(NAMESPACE, loop["metadata"]["name"]), quay.users["bob"].token
    leases = "/apis/coordination.k8s.io/v1/namespaces/{}/leases/harbormaster-reconcile"
    beat = "/apis/cluster.kubernetes-fleet.io/v1beta1/namespaces/fleet-member-a/internalmemberclusters/a"
    try:
        for kind in ("PriorityLevelConfiguration", "FlowSchema"):
            apply(quay, documents[kind], query="")
        ours = Objects(quay).get(*names[1])["metadata"]["uid"]
        wait_until(
            "the API server knows of it",
            lambda: "" if flow_of(quay, token, leases.format(NAMESPACE)) == ours else "another flow",
        )
        assert flow_of(quay, bob, beat) == ours
        assert flow_of(quay, bob, leases.format(NAMESPACE)) != ours
        assert flow_of(quay, token, leases.format("default")) != ours
        assert flow_of(quay, token, "/api/v1/namespaces") != ours
    finally:
        for kind, name in reversed(names):
            Objects(quay).delete(kind, name)
        Objects(quay).delete(KINDS["", "ServiceAccount"], loop["metadata"]["name"], NAMESPACE)


def test_the_agent_chart_runs_beside_the_hub_chart(helm, quay):
    """A hub may be its own member: both charts in one namespace, each accepted."""
    for document in helm.render(AGENT, AGENT_VALUES):
        assert apply(quay, document) == []
