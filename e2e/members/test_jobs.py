"""Jobs that the TTL controller of a real member deletes: the agent creates each once per manifest."""

from collections.abc import AsyncIterator, Iterator

import pytest

from e2e.controlplane.cluster import Cluster
from e2e.controlplane.process import PATIENCE, kill
from e2e.fleet.bed import COLLECTORS
from e2e.members.applying import CLIENT, FULL, IF_NOT_DRIFTED, SERVER, Bed, JsonObject, running_bed
from scorer.api.kinds import KINDS, Kind
from scorer.api.names import RUN_AGAIN
from scorer.rollout.selection.content import stored_content
from tests.waiting import until
from webhook.kube.client.api_server import ApiServer
from webhook.member.objects.job_runs import job_hash
from webhook.member.store.api_server import RemoteMember

JOBS = "batch/v1/jobs"
JOB = KINDS["batch", "Job"]


@pytest.fixture(scope="module")
def cluster(own_hub: Cluster) -> Iterator[Cluster]:
    """A member whose controllers run; no kubelet does."""
    controllers = own_hub.start_controller_manager(("*", *(f"-{name}" for name in COLLECTORS)))
    yield own_hub
    kill(controllers)


@pytest.fixture
async def bed(cluster: Cluster) -> AsyncIterator[Bed]:
    async with running_bed(cluster) as bed:
        yield bed


def job(bed: Bed, ttl: int = 0, image: str = "migrate:1") -> JsonObject:
    """Return a Job as a hub stores it that has defaulted it and generated its selector."""
    spec = {"restartPolicy": "Never", "containers": [{"name": "a", "image": image}]}
    body = {"ttlSecondsAfterFinished": ttl, "backoffLimit": 0, "template": {"spec": spec}}
    metadata = {"name": "migrate", "namespace": bed.space}
    document = {"apiVersion": "batch/v1", "kind": "Job", "metadata": metadata, "spec": body}
    path = bed.path(JOBS, "").rstrip("/") + "?dryRun=All"
    return dict(stored_content(bed.cluster.request("POST", path, document)[0]))


def again(document: JsonObject) -> JsonObject:
    annotations = {RUN_AGAIN: job_hash(document)}
    return {**document, "metadata": {**document["metadata"], "annotations": annotations}}


async def finish(bed: Bed, phase: str = "Succeeded") -> str:
    """Have the pod of the Job end, wait until the TTL controller has deleted the Job, and return its uid."""
    uid = str((bed.live(JOBS, "migrate") or {})["metadata"]["uid"])
    selector = f"?labelSelector=batch.kubernetes.io/controller-uid%3D{uid}"
    pods_path = bed.path("pods", "").rstrip("/")

    def pods() -> list[JsonObject]:
        return list(bed.cluster.request("GET", pods_path + selector)[0]["items"])

    await until(lambda: len(pods()) == 1, PATIENCE)
    (pod,) = pods()
    ended = {"terminated": {"exitCode": int(phase == "Failed"), "finishedAt": "2026-03-01T12:00:00Z"}}
    container = {"name": "a", "image": "a", "imageID": "a", "ready": False, "restartCount": 0, "state": ended}
    status = {"phase": phase, "containerStatuses": [container]}
    path = f"{pods_path}/{pod['metadata']['name']}/status"
    bed.cluster.request("PATCH", path, {"status": status}, content_type="application/merge-patch+json")
    await until(lambda: bed.live(JOBS, "migrate") is None, PATIENCE)
    return uid


def created(bed: Bed, mark: int) -> int:
    """Return how many Jobs the agent has created since a mark of the audit log."""
    paths = [path for verb, path in bed.writes(mark) if verb in ("create", "patch") and "/jobs" in path]
    return len(paths)


@pytest.mark.parametrize(
    ("strategy", "ttl", "phase"),
    [
        pytest.param(CLIENT, 1, "Succeeded", id="client-side"),
        pytest.param(CLIENT, 0, "Succeeded", id="no-time"),
        pytest.param(CLIENT, 1, "Failed", id="failed"),
        pytest.param(SERVER, 1, "Succeeded", id="server-side"),
        pytest.param({**CLIENT, **IF_NOT_DRIFTED, **FULL}, 1, "Succeeded", id="client-side-if-not-drifted"),
        pytest.param({**SERVER, **IF_NOT_DRIFTED, **FULL}, 1, "Succeeded", id="server-side-if-not-drifted"),
    ],
)
async def test_a_job_runs_once_per_manifest(bed, strategy, ttl, phase):
    mark = bed.cluster.audit_mark()
    await bed.place(job(bed, ttl), applyStrategy=strategy)
    await bed.reconcile()
    await bed.reconcile()
    assert await bed.reasons() == ["Applied"]
    await bed.assert_quiet()
    uid = await finish(bed, phase)
    for _ in range(3):
        await bed.reconcile()
        assert bed.live(JOBS, "migrate") is None
    assert await bed.reasons() == ["Applied"]
    assert uid in await bed.message()
    assert created(bed, mark) == 1
    await bed.assert_quiet()
    await bed.place(job(bed, ttl, image="migrate:2"), applyStrategy=strategy)
    await bed.reconcile()
    assert await finish(bed, phase) != uid
    for _ in range(2):
        await bed.reconcile()
    assert created(bed, mark) == 2
    await bed.assert_quiet()


class AgentKilledError(Exception):
    """The agent was killed."""


class InterruptedMember(RemoteMember):
    """A member whose agent is killed when it creates a Job."""

    async def create(self, kind: Kind, document: JsonObject) -> JsonObject:
        """See `RemoteMember.create`."""
        if kind.group_kind == JOB.group_kind:
            raise AgentKilledError
        return await super().create(kind, document)


async def test_an_interrupted_run_is_unknown_until_a_user_requests_it(bed):
    await bed.place(job(bed))
    async with await ApiServer.connect(bed.cluster.kubeconfigs["loop-a"]) as server:
        with pytest.raises(BaseExceptionGroup):
            await bed.reconcile(member=InterruptedMember(server))
    for _ in range(2):
        await bed.reconcile()
    assert await bed.reasons() == ["JobRunUnknown"]
    assert f"{RUN_AGAIN}={job_hash(job(bed))}" in await bed.message()
    await bed.assert_quiet()
    mark = bed.cluster.audit_mark()
    await bed.place(again(job(bed)))
    await bed.reconcile()
    await finish(bed)
    for manifest in (again(job(bed)), job(bed)):
        await bed.place(manifest)
        await bed.reconcile()
        assert await bed.reasons() == ["Applied"]
    assert created(bed, mark) == 1
    await bed.assert_quiet()
