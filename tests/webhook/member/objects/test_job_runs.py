"""Jobs with ``ttlSecondsAfterFinished`` are created once per manifest; on a real API server in e2e."""

from copy import deepcopy

import pytest

from scorer.api.kinds import APPLIED_WORK, KINDS, WORK
from scorer.api.names import JOB_RUNS, RUN_AGAIN
from scorer.api.unstructured.documents import annotation, with_metadata
from tests.webhook.member.hub_and_member import SPACE, config_map, namespace
from webhook.embedded.simulation.member_stores import ObservedStore
from webhook.kube.ports import ForbiddenError, Key, StoreError, UnavailableError
from webhook.member.objects.job_runs import LONGEST_RECORD, job_hash, read_runs
from webhook.member.works.reconciler import reconcile_work

JOB = KINDS["batch", "Job"]
SERVER = {"applyStrategy": {"type": "ServerSideApply"}}


def job(name="migrate", image="migrate:1", ttl=0, **annotations):
    template = {"spec": {"restartPolicy": "Never", "containers": [{"name": "a", "image": image}]}}
    metadata = {"name": name, "namespace": "web", **({"annotations": annotations} if annotations else {})}
    spec = {"ttlSecondsAfterFinished": ttl, "template": template}
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": metadata, "spec": spec}


def again(document, **of):
    return with_metadata(document, annotations={RUN_AGAIN: job_hash(of.get("manifest", document))})


class Killed(ObservedStore):
    """The member of an agent that is killed right before, or right after, it creates a Job."""

    def __init__(self, store, *, before):
        super().__init__(store)
        self._before = before

    async def create(self, kind, document):
        if kind == JOB and self._before:
            raise KilledError
        created = await super().create(kind, document)
        if kind == JOB:
            raise KilledError
        return created


class KilledError(Exception):
    pass


class Refusing(ObservedStore):
    """A member that does not create Jobs."""

    def __init__(self, store, error):
        super().__init__(store)
        self._error = error

    async def create(self, kind, document):
        if kind == JOB:
            raise self._error
        return await super().create(kind, document)


async def clean_up(cluster, name="migrate"):
    """Delete a Job as the TTL controller does, and return its uid."""
    live = await cluster.member.get(JOB, Key(name, "web"))
    await cluster.member.delete(JOB, Key(name, "web"))
    return live["metadata"]["uid"]


async def runs(cluster, name="web-work"):
    return read_runs(await cluster.member.get(APPLIED_WORK, Key(name)))


async def forget_runs(cluster):
    """Leave the AppliedWork as an earlier release does."""
    owner = await cluster.member.get(APPLIED_WORK, Key("web-work"))
    await cluster.member.replace(APPLIED_WORK, with_metadata(owner, annotations={JOB_RUNS: None}))


async def reconcile_with(cluster, member):
    return await reconcile_work(Key("web-work", SPACE), cluster.hub, member, cluster.time)


@pytest.mark.parametrize("spec", [{}, SERVER, {"applyStrategy": {"whenToApply": "IfNotDrifted"}}])
async def test_a_job_is_created_once_per_manifest(cluster, spec):
    await cluster.place(namespace(), job(), **spec)
    await cluster.reconcile()
    uid = await clean_up(cluster)
    await cluster.reconcile()
    assert await cluster.live(JOB, "migrate") is None
    assert await cluster.reasons() == ["Applied", "Applied"]
    assert uid in await cluster.message(1)
    assert (await cluster.conditions())["Available"] == ("True", "WorkNotTrackable")
    versions = cluster.versions
    await cluster.reconcile()
    assert cluster.versions == versions
    await cluster.place(namespace(), job(image="migrate:2"), **spec)
    await cluster.reconcile()
    assert await clean_up(cluster) != uid
    for _ in range(2):
        await cluster.reconcile()
    assert await cluster.live(JOB, "migrate") is None


async def test_a_rollback_does_not_run_the_job_of_the_earlier_manifest_again(cluster):
    uids = []
    for image in ("migrate:1", "migrate:2"):
        await cluster.place(namespace(), job(image=image))
        await cluster.reconcile()
        uids.append(await clean_up(cluster))
    for image, uid in (("migrate:1", uids[0]), ("migrate:2", uids[1])):
        await cluster.place(namespace(), job(image=image))
        await cluster.reconcile()
        assert await cluster.live(JOB, "migrate") is None
        assert uid in await cluster.message(1)
        versions = cluster.versions
        await cluster.reconcile()
        assert cluster.versions == versions
    await cluster.place(namespace(), again(job(image="migrate:1")))
    await cluster.reconcile()
    assert await clean_up(cluster) not in uids
    await cluster.reconcile()
    assert await cluster.live(JOB, "migrate") is None


@pytest.mark.parametrize("spec", [{}, {"ttlSecondsAfterFinished": None}], ids=["absent", "null"])
async def test_a_job_without_a_ttl_is_created_again(cluster, spec):
    document = job()
    del document["spec"]["ttlSecondsAfterFinished"]
    document["spec"] |= spec
    await cluster.place(namespace(), document)
    await cluster.reconcile()
    await clean_up(cluster)
    await cluster.reconcile()
    assert await cluster.live(JOB, "migrate") is not None
    assert not annotation(await cluster.member.get(APPLIED_WORK, Key("web-work")), JOB_RUNS)


@pytest.mark.parametrize("before", [True, False], ids=["before-the-create", "after-the-create"])
async def test_an_agent_that_was_killed_while_it_created_a_job_reports_the_run_as_unknown(cluster, before):
    await cluster.place(namespace(), job())
    with pytest.raises(BaseExceptionGroup):
        await reconcile_with(cluster, Killed(cluster.member, before=before))
    if not before:
        await clean_up(cluster)
    for _ in range(2):
        await cluster.reconcile()
    assert await cluster.reasons() == ["Applied", "JobRunUnknown"]
    assert await cluster.message(1) == (
        "it is unknown whether the Job has run: the agent was interrupted while it created the Job, or an earlier "
        "release did not record the run. To run it again, "
        f"set the annotation {RUN_AGAIN}={job_hash(job())} on the Job on the hub. If it is already set to this value, "
        "remove it first"
    )
    await cluster.place(namespace(), again(job()))
    await cluster.reconcile()
    assert await cluster.reasons() == ["Applied", "Applied"]
    await clean_up(cluster)
    for manifest in (again(job()), job()):
        await cluster.place(namespace(), manifest)
        await cluster.reconcile()
        assert await cluster.live(JOB, "migrate") is None
        assert await cluster.reasons() == ["Applied", "Applied"]


async def test_an_agent_that_was_killed_after_it_created_a_job_finds_it(cluster):
    await cluster.place(namespace(), job())
    with pytest.raises(BaseExceptionGroup):
        await reconcile_with(cluster, Killed(cluster.member, before=False))
    assert (await runs(cluster))["web/migrate"].uid == ""
    await cluster.reconcile()
    live = await cluster.live(JOB, "migrate")
    assert (await runs(cluster))["web/migrate"].uid == live["metadata"]["uid"]


async def test_each_request_runs_a_job_once(cluster):
    await cluster.place(namespace(), job())
    await cluster.reconcile()
    uids = [await clean_up(cluster)]
    for _ in range(2):
        await cluster.place(namespace(), again(job()))
        await cluster.reconcile()
        uids.append(await clean_up(cluster))
        await cluster.reconcile()
        await cluster.place(namespace(), job())
        await cluster.reconcile()
        assert await cluster.live(JOB, "migrate") is None
    assert len(set(uids)) == 3
    await cluster.place(namespace(), again(job(), manifest=job(image="other")))
    await cluster.reconcile()
    assert await cluster.live(JOB, "migrate") is None, "the request names another manifest"


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        pytest.param(ForbiddenError("jobs is forbidden"), "Applied", id="forbidden"),
        pytest.param(StoreError("quota exceeded"), "Applied", id="refused"),
        pytest.param(UnavailableError("failed calling webhook x: EOF"), "Applied", id="webhook"),
        pytest.param(UnavailableError("etcdserver: request timed out"), "JobRunUnknown", id="no-answer"),
    ],
)
async def test_a_job_that_was_certainly_not_created_is_tried_again(cluster, error, reason):
    await cluster.place(namespace(), job())
    await reconcile_with(cluster, Refusing(cluster.member, error))
    await cluster.reconcile()
    assert await cluster.reasons() == ["Applied", reason]


async def test_the_first_pass_after_an_upgrade_records_the_jobs_that_have_run(cluster):
    await cluster.place(namespace(), job())
    await cluster.reconcile()
    uid = await clean_up(cluster)
    await forget_runs(cluster)
    for _ in range(2):
        await cluster.reconcile()
    assert await cluster.live(JOB, "migrate") is None
    assert (await runs(cluster))["web/migrate"].uid == uid
    await cluster.place(namespace(), job(image="migrate:2"))
    await cluster.reconcile()
    assert await cluster.live(JOB, "migrate") is not None


async def test_a_manifest_that_may_have_changed_during_an_upgrade_is_reported_as_unknown(cluster):
    await cluster.place(namespace(), job())
    await cluster.reconcile()
    await clean_up(cluster)
    await forget_runs(cluster)
    await cluster.place(namespace(), job(), config_map())
    await cluster.reconcile()
    assert await cluster.reasons() == ["Applied", "JobRunUnknown", "Applied"]
    assert await cluster.live(JOB, "migrate") is None


async def test_a_job_that_moves_to_another_work_does_not_run_again(cluster):
    await cluster.place(namespace(), job())
    await cluster.reconcile()
    uid = await clean_up(cluster)
    await cluster.reconcile()
    await cluster.place(namespace())
    await cluster.reconcile()
    await cluster.place(job(), name="web-1")
    await cluster.reconcile("web-1")
    assert await cluster.live(JOB, "migrate") is None
    assert (await runs(cluster, "web-1"))["web/migrate"].uid == uid


async def test_the_record_is_bounded(cluster):
    """Jobs that the Work no longer holds leave first. Those that it holds are refused, and not run unrecorded."""
    old = [job(f"old-{number}-{'x' * 200}") for number in range(150)]
    await cluster.place(namespace(), *old)
    await cluster.reconcile()
    new = [job(f"new-{number}-{'y' * 200}") for number in range(300)]
    await cluster.place(namespace(), *new)
    await cluster.reconcile()
    owner = await cluster.member.get(APPLIED_WORK, Key("web-work"))
    assert len(annotation(owner, JOB_RUNS)) <= LONGEST_RECORD
    reasons = await cluster.reasons()
    created = sum([await cluster.live(JOB, each["metadata"]["name"]) is not None for each in new])
    assert 0 < created == reasons.count("Applied") - 1 < 300
    assert "too many Jobs" in await cluster.message(reasons.index("ManifestApplyFailed"))
    assert created == len(read_runs(owner))


def test_the_hash_of_a_job_does_not_depend_on_what_a_cluster_generates():
    generated = deepcopy(job())
    generated["spec"]["selector"] = {"matchLabels": {}}
    labels = {"controller-uid": "u", "batch.kubernetes.io/job-name": "migrate", "job-name": "migrate"}
    generated["spec"]["template"]["metadata"] = {"labels": labels, "creationTimestamp": None}
    assert job_hash(generated) == job_hash(job()) == job_hash(again(job()))
    assert job_hash(job()) != job_hash(job(image="migrate:2"))


@pytest.mark.parametrize("text", ['{"web/migrate": 3}', "[]", "{", '{"web/migrate": ["a"]}'])
async def test_a_record_that_cannot_be_read_is_made_again_from_the_status(cluster, text):
    await cluster.place(namespace(), job())
    await cluster.reconcile()
    uid = await clean_up(cluster)
    owner = await cluster.member.get(APPLIED_WORK, Key("web-work"))
    await cluster.member.replace(APPLIED_WORK, with_metadata(owner, annotations={JOB_RUNS: text}))
    await cluster.reconcile()
    assert await cluster.live(JOB, "migrate") is None
    assert (await runs(cluster))["web/migrate"].uid == uid


@pytest.mark.parametrize("template", ["x", [1], {"metadata": "x"}, {"metadata": [1]}])
async def test_a_template_of_the_wrong_type_does_not_stop_the_pass(cluster, template):
    malformed = job()
    malformed["spec"]["template"] = template
    await cluster.place(namespace(), malformed, config_map())
    await cluster.reconcile()
    assert (await cluster.reasons())[::2] == ["Applied", "Applied"]


async def test_a_comparison_records_nothing(cluster):
    await cluster.place(namespace(), job(), applyStrategy={"type": "ReportDiff"})
    await cluster.reconcile()
    assert not annotation(await cluster.member.get(APPLIED_WORK, Key("web-work")), JOB_RUNS)
    assert (await cluster.hub.get(WORK, Key("web-work", SPACE)))["status"]["conditions"][0]["type"] == "DiffReported"
