"""What becomes of objects on a simulated member, by the time alone."""

from datetime import UTC, datetime, timedelta

import pytest

from scorer.api.kinds import KINDS, NAMESPACE, group_kind
from scorer.rollout.works.availability import AvailabilityReason, availability
from webhook.embedded.simulation.kubelet import SIMULATED_KINDS, progress, settle
from webhook.embedded.simulation.scripts import SIMULATE, Script, parse_script
from webhook.embedded.simulation.workloads import requests
from webhook.embedded.storage.store import EmbeddedStore
from webhook.kube.ports import Key, key_of

START = datetime(2026, 3, 1, 12, tzinfo=UTC)
CRD = "apiextensions.k8s.io/v1"


def make(api_version, kind, spec, simulate="", **rest):
    metadata = {"name": "x", "namespace": "web", "uid": "u", "generation": 1}
    metadata["creationTimestamp"] = "2026-03-01T12:00:00Z"
    if simulate:
        metadata["annotations"] = {SIMULATE: simulate}
    return {"apiVersion": api_version, "kind": kind, "metadata": metadata, "spec": spec, **rest}


def workload(kind="Deployment", replicas=3, simulate=""):
    return make("apps/v1", kind, {"replicas": replicas}, simulate)


def after(document, *seconds):
    """Let time pass in steps; what is stored in between is all that is remembered."""
    for second in seconds:
        document = progress(document, START + timedelta(seconds=second)).document
    return document


@pytest.mark.parametrize(
    ("text", "script"),
    [
        ("", Script()),
        ("ready-after=5s", Script(timedelta(seconds=5))),
        ("ready-after=1m30s, crash-after=1h", Script(timedelta(seconds=90), timedelta(hours=1))),
        ("never-ready", Script(None)),
        ("never-ready,ready-after=1s", Script(None)),
    ],
)
def test_the_annotation_is_read(text, script):
    assert parse_script(text) == script


@pytest.mark.parametrize("text", ["ready", "ready-after", "ready-after=soon", "ready-after=-1s", "crash=5s"])
def test_a_mistake_in_the_annotation_is_shown(text):
    script = parse_script(text)
    assert script.ready_after is None
    assert SIMULATE in script.problem
    stuck = after(workload(simulate=text), 0, 3600)
    assert text in stuck["status"]["conditions"][0]["message"]
    assert availability(stuck).reason is AvailabilityReason.NOT_YET


@pytest.mark.parametrize(
    ("document", "at_first", "in_the_end"),
    [
        pytest.param(workload(), "ManifestNotAvailableYet", "Available", id="deployment"),
        pytest.param(workload(replicas=0), "Available", "Available", id="nothing-wanted"),
        pytest.param(workload("StatefulSet"), "ManifestNotAvailableYet", "Available", id="stateful-set"),
        pytest.param(workload("DaemonSet"), "ManifestNotAvailableYet", "Available", id="daemon-set"),
        pytest.param(make("v1", "Service", {"ports": []}), "Available", "Available", id="service"),
        pytest.param(make("v1", "Service", {"clusterIP": "None"}), "Available", "Available", id="headless"),
        pytest.param(
            make("v1", "Service", {"type": "LoadBalancer"}), "ManifestNotAvailableYet", "Available", id="load-balancer"
        ),
        pytest.param(make("v1", "Service", {"type": "ExternalName"}), "NotTrackable", "NotTrackable", id="external"),
        pytest.param(make("policy/v1", "PodDisruptionBudget", {}), "Available", "Available", id="budget"),
        pytest.param(make(CRD, "CustomResourceDefinition", {}), "Available", "Available", id="definition"),
    ],
)
def test_objects_become_available_after_a_while(document, at_first, in_the_end):
    first = after(document, 0)
    assert availability(first).reason == at_first
    assert availability(after(first, 1)).reason == at_first
    assert availability(after(first, 2)).reason == in_the_end
    assert availability(after(document, 500)).reason == in_the_end, "also when nobody looked in between"


@pytest.mark.parametrize(
    ("document", "seconds", "status"),
    [
        pytest.param(make("v1", "Namespace", {}), 0, {"phase": "Active"}, id="namespace"),
        pytest.param(make("v1", "PersistentVolumeClaim", {}), 0, {"phase": "Pending"}, id="claim-waits"),
        pytest.param(
            make("v1", "PersistentVolumeClaim", {"resources": {"requests": {"storage": "1Gi"}}}),
            2,
            {"phase": "Bound", "accessModes": [], "capacity": {"storage": "1Gi"}},
            id="claim",
        ),
        pytest.param(make("v1", "PersistentVolume", {}), 0, {"phase": "Available"}, id="volume"),
        pytest.param(
            make("batch/v1", "Job", {"completions": 3, "parallelism": 2}),
            0,
            {"startTime": "2026-03-01T12:00:00Z", "active": 2, "ready": 2},
            id="job-runs",
        ),
    ],
)
def test_status(document, seconds, status):
    assert after(document, seconds)["status"] == status


def test_a_job_completes_or_fails():
    done = after(make("batch/v1", "Job", {}), 0, 9)["status"]
    assert (done["succeeded"], done["completionTime"]) == (1, "2026-03-01T12:00:09Z")
    job = make("batch/v1", "Job", {}, "crash-after=10s")
    assert "conditions" not in after(job, 0, 5)["status"]
    assert after(job, 0, 12)["status"]["conditions"][0]["type"] == "Failed"


def test_an_update_keeps_the_old_pods_until_the_new_ones_are_ready():
    ready = after(workload(), 0, 2)
    changed = {**ready, "metadata": {**ready["metadata"], "generation": 2}}
    updating = after(changed, 100)
    status = updating["status"]
    assert (status["updatedReplicas"], status["availableReplicas"], status["observedGeneration"]) == (0, 3, 2)
    assert availability(updating).reason is AvailabilityReason.NOT_YET
    assert availability(after(updating, 101)).reason is AvailabilityReason.NOT_YET
    assert availability(after(updating, 102)).reason is AvailabilityReason.AVAILABLE


def test_a_crash_comes_after_it_was_ready_and_stays():
    document = workload(simulate="ready-after=5s,crash-after=10s")
    assert availability(after(document, 0, 5)).reason is AvailabilityReason.AVAILABLE
    assert progress(document, START + timedelta(seconds=6)).changes_at == START + timedelta(seconds=15)
    crashed = after(document, 0, 5, 15)
    assert crashed["status"]["availableReplicas"] == 0
    assert after(crashed, 1000) == crashed


@pytest.mark.parametrize("kind", ["Deployment", "StatefulSet", "DaemonSet", "ReplicaSet"])
@pytest.mark.parametrize("simulate", ["", "never-ready", "crash-after=3s"])
def test_looking_again_changes_nothing(kind, simulate):
    document = workload(kind, simulate=simulate)
    for second in (0, 1, 2, 3, 5, 60):
        document = after(document, second)
        assert after(document, second) == document


def test_a_daemon_runs_on_every_node():
    step = progress(workload("DaemonSet"), START, nodes=7)
    assert step.document["status"]["desiredNumberScheduled"] == 7
    assert step.changes_at == START + timedelta(seconds=2)


def test_nothing_happens_to_other_kinds_and_to_what_is_being_deleted():
    config_map = make("v1", "ConfigMap", {})
    assert progress(config_map, START).document is config_map
    going = workload()
    going["metadata"]["deletionTimestamp"] = "2026-03-01T12:00:00Z"
    assert progress(going, START).document is going


@pytest.mark.parametrize("kind", sorted({kind.kind for kind in SIMULATED_KINDS}))
@pytest.mark.parametrize(
    "spec", ["text", [], {"replicas": "x", "template": 3, "versions": [1], "resources": 1, "type": 2}]
)
def test_no_shape_of_an_object_breaks_it(kind, spec):
    (found,) = [known for known in SIMULATED_KINDS if known.kind == kind]
    document = make(found.api_version, kind, spec, status="text" if spec == "text" else {"conditions": ["x"]})
    step = progress(document, START)
    assert isinstance(step.document["status"], dict) or kind == "Service"
    requests(document)


def test_a_wait_beyond_the_calendar_is_never_over():
    step = progress(workload(simulate="ready-after=2562047h,crash-after=2562047h"), START)
    assert availability(step.document).reason is AvailabilityReason.NOT_YET


async def test_settle_writes_only_what_differs():
    clock = [START]
    store = EmbeddedStore.open(None, now=lambda: clock[0])
    await store.create(NAMESPACE, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "web"}})
    service = KINDS["", "Service"]
    document = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "x", "namespace": "web"}}
    key = key_of(await store.create(service, {**document, "spec": {"type": "LoadBalancer"}}))
    first = await settle(store, service, key, clock[0])
    assert first.changes_at == START, "the address came first, the rest is looked at again"
    assert (await settle(store, service, key, clock[0])).changes_at == START + timedelta(seconds=2)
    clock[0] += timedelta(seconds=2)
    assert (await settle(store, service, key, clock[0])).changes_at is None
    stored = await store.get(service, key)
    assert stored["spec"]["clusterIPs"] == [stored["spec"]["clusterIP"]]
    assert stored["status"]["loadBalancer"]["ingress"][0]["ip"]
    version = store.resource_version
    await settle(store, service, key, clock[0])
    assert store.resource_version == version
    assert (await settle(store, service, Key("gone", "web"), clock[0])).changes_at is None
    store.close()


@pytest.mark.parametrize(
    ("kind", "spec", "wanted"),
    [
        ("apps/v1 Deployment", {"replicas": 3}, {"cpu": 3 * 10**8, "memory": 3 * 2**20 * 10**9}),
        ("apps/v1 Deployment", {}, {"cpu": 10**8, "memory": 2**20 * 10**9}),
        ("apps/v1 DaemonSet", {}, {"cpu": 5 * 10**8, "memory": 5 * 2**20 * 10**9}),
        ("v1 ConfigMap", {}, {}),
    ],
)
def test_requests_are_summed_over_pods(kind, spec, wanted):
    api_version, name = kind.split()
    container = {"name": "a", "resources": {"requests": {"cpu": "100m", "memory": "1Mi"}}}
    pods = {"spec": {"containers": [container, {"name": "b"}], "initContainers": [container]}}
    document = make(api_version, name, {**spec, "template": pods})
    assert group_kind(document) in KINDS
    assert requests(document, nodes=5) == wanted
