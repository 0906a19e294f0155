"""What running processes tell about themselves: every metric that the reference lists, and traces."""

import base64
import contextlib
import json
import re
import urllib.request
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest
from prometheus_client.metrics_core import Metric
from prometheus_client.parser import text_string_to_metric_families

from e2e.conftest import StartService
from e2e.controlplane.cluster import LOOPBACK, ApiError, Cluster
from e2e.controlplane.collector import Collector, attributes_of
from e2e.controlplane.printed import printed_with
from e2e.controlplane.process import PATIENCE, Program, free_port, kill
from e2e.controlplane.service import HARBORMASTER, REGISTRATIONS, Service
from e2e.fleet.waiting import wait_until
from e2e.placements import PLACEMENTS, placement
from tests.docs.pages import REFERENCE

NAMESPACE, SECRET = "lookout", "harbormaster-ca"
AGENT, POOLS, PROCESS = "The agent", "Node pools", "Every process"
UPGRADES, NODES, WORKERS, SHARDS = "Upgrade runs", "Node disruption", "Workers", "Shards"
TRACE, PARENT = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
CALLER = f"00-{TRACE}-{PARENT}-01"
SERVE = "harbormaster-serve"


def documented() -> dict[str, dict[str, tuple[str, frozenset[str]]]]:
    """What ``docs/reference/metrics.md`` says: type and labels of each metric, by section."""
    found: dict[str, dict[str, tuple[str, frozenset[str]]]] = {}
    section = ""
    for line in (REFERENCE / "metrics.md").read_text(encoding="utf-8").splitlines():
        if line.startswith("## "):
            section = line.removeprefix("## ")
        elif row := re.match(r"\| `(harbormaster_\w+)` \| (\w+) \| ([^|]*)\|", line):
            labels = frozenset(filter(None, row[3].strip().split(", ")))
            found.setdefault(section, {})[row[1]] = (row[2], labels)
    return found


def exposed(http_port: int) -> dict[str, Metric]:
    """What a process shows under our name."""
    with urllib.request.urlopen(f"http://{LOOPBACK}:{http_port}/metrics", timeout=PATIENCE) as answer:
        families = list(text_string_to_metric_families(answer.read().decode()))
    return {family.name: family for family in families if family.name.startswith("harbormaster_")}


def labels_of(metric: Metric) -> set[frozenset[str]]:
    return {frozenset(sample.labels.keys() - {"le"}) for sample in metric.samples}


@pytest.fixture(scope="module")
def collector() -> Iterator[Collector]:
    with Collector() as found:
        yield found


@pytest.fixture(scope="module")
def started(
    own_hub: Cluster, start_service: StartService, collector: Collector
) -> tuple[Service, Mapping[str, Metric]]:
    """Start a replica with every role; return it, and its metrics before any call."""
    own_hub.request("POST", "/api/v1/namespaces", {"metadata": {"name": NAMESPACE}})
    settings = {
        "namespace": NAMESPACE,
        "certificate_secret": SECRET,
        "extender_allow_anonymous": True,
        "tracing_endpoint": collector.endpoint,
    }
    with pytest.MonkeyPatch.context() as environment:
        environment.setenv("OTEL_BSP_SCHEDULE_DELAY", "200")
        found = start_service(own_hub, wait=False, words=("--reconcile",), **settings)
    for configuration in json.loads(
        printed_with(
            {"HARBORMASTER_WEBHOOK_SECRET_FILE": str(found.settings["webhook_secret_file"])},
            *("webhook-configuration", "-o", "json", f"--url={found.url}", "--no-ca"),
        )
    )["items"]:
        own_hub.request("POST", f"{REGISTRATIONS}/{configuration['kind'].lower()}s", configuration)
    found.program.wait_ready(found.ready)
    secret, _ = own_hub.request("GET", f"/api/v1/namespaces/{NAMESPACE}/secrets/{SECRET}")
    found.ca_file.write_bytes(base64.b64decode(secret["data"]["ca.crt"]))
    wait_until("it leads", lambda: "" if found.metric("harbormaster_leader") == 1 else "it does not")
    return found, exposed(found.http_port)


@pytest.fixture(scope="module")
def serving(started: tuple[Service, Mapping[str, Metric]]) -> Service:
    return started[0]


def test_a_server_that_leads_exposes_every_metric_of_the_reference_from_its_start(started):
    """Names, types and labels; no others; and counters of calls are 0. It shares no work."""
    sections = documented()
    listed = {
        name: row
        for section in sections
        if section not in {AGENT, SHARDS, WORKERS}
        for name, row in sections[section].items()
    }
    _, found = started
    assert {name: metric.type for name, metric in found.items()} == {name: kind for name, (kind, _) in listed.items()}
    later = {*sections[POOLS], *sections[UPGRADES], *sections[NODES]}
    with_samples = {name: labels for name, (_, labels) in listed.items() if name not in later}
    assert {name: labels_of(found[name]) for name in with_samples} == {
        name: {labels} for name, labels in with_samples.items()
    }
    for name in ("extender_requests", "extender_nodes", "api_requests", "filter_rejections", "auth_reviews"):
        assert {sample.value for sample in found[f"harbormaster_{name}"].samples} == {0}, name
    errors = [each for each in found["harbormaster_admission_requests"].samples if each.labels["result"] == "error"]
    assert {each.value for each in errors} == {0}
    assert {each.value for each in found["harbormaster_ca_bundle_in_sync"].samples} == {1}


def test_an_agent_exposes_its_metrics_from_its_start(own_hub, serving, tmp_path):
    """Also one whose cluster no hub has heard of."""
    port = free_port()
    kubeconfigs = (f"--hub-kubeconfig={own_hub.kubeconfig}", f"--kubeconfig={own_hub.kubeconfig}")
    words = (f"--namespace={NAMESPACE}", f"--http-port={port}")
    agent = Program([HARBORMASTER, "agent", "--cluster=berlin", *kubeconfigs, *words], Path(tmp_path, "agent.log"))
    agent.start()
    try:
        agent.wait_ready(lambda: bool(exposed(port)))
        found, sections = exposed(port), documented()
    finally:
        kill(agent)
    of_agents = sections[AGENT]
    assert {name: (metric.type, *labels_of(metric)) for name, metric in found.items() if name in of_agents} == of_agents
    assert found.keys() <= {*of_agents, *sections[NODES], *sections[PROCESS]}
    assert {sample.value for name in of_agents for sample in found[name].samples} == {0}


def test_reviews_calls_and_reconciles_come_to_the_collector(own_hub, serving, collector):
    own_hub.request("POST", PLACEMENTS, placement("traced"))
    for name, attributes in (
        (
            "admission.validate",
            {"harbormaster.resource": "clusterresourceplacements", "harbormaster.decision": "allowed"},
        ),
        (
            "admission.mutate",
            {"harbormaster.resource": "clusterresourceplacements", "harbormaster.operation": "CREATE"},
        ),
        ("reconcile", {"harbormaster.controller": "placement"}),
    ):
        wait_sent(collector, name, attributes)
    with contextlib.suppress(ApiError):
        own_hub.request("DELETE", f"{PLACEMENTS}/traced")


def wait_sent(collector: Collector, name: str, attributes: dict[str, str]) -> None:
    """Wait until a span of that name, with these attributes among others, has come."""

    def problem() -> str:
        spans = [attributes_of(span) for span in collector.of(SERVE, name)]
        return "" if any(attributes.items() <= found.items() for found in spans) else f"{spans[-3:]} have come"

    wait_until(f"{name} with {attributes} is sent", problem)


@pytest.mark.parametrize("verb", ["filter", "prioritize"])
def test_a_call_of_a_scheduler_continues_its_trace(serving, collector, verb):
    pod = {"metadata": {"name": "web", "namespace": "default", "uid": "u"}, "spec": {"containers": []}}
    question = {"Pod": pod, "NodeNames": ["n"]}
    assert serving.ask("POST", f"/extender/v1/{verb}", question, traceparent=CALLER).status == 200
    wait_until("the span is sent", lambda: "" if continued(collector, f"extender.{verb}") else "not yet")


def test_a_review_continues_the_trace_of_the_api_server_and_of_nobody_else(serving, collector):
    """The API server is known by the secret path that is registered."""
    review = {
        "apiVersion": "admission.k8s.io/v1",
        "kind": "AdmissionReview",
        "request": {"uid": "u-1", "operation": "X"},
    }
    for path in ("/validate", serving.hook("/validate")):
        assert serving.ask("POST", path, review, traceparent=CALLER).status == 200
    wait_until("the spans are sent", lambda: "" if len(of_uid(collector, "u-1")) == 2 else "not yet")
    assert len(continued(collector, "admission.validate")) == 1


def of_uid(collector: Collector, uid: str) -> list[dict[str, str]]:
    found = map(attributes_of, collector.of(SERVE, "admission.validate"))
    return [attributes for attributes in found if attributes.get("harbormaster.uid") == uid]


def continued(collector: Collector, name: str) -> list[str]:
    """The spans of a name that are children of the caller's."""
    spans = collector.of(SERVE, name)
    return [span.name for span in spans if (span.trace_id.hex(), span.parent_span_id.hex()) == (TRACE, PARENT)]
