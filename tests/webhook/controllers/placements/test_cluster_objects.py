"""An upgrade that recognizes more objects of clusters removes none of them from a member: they are released there."""

from contextlib import contextmanager
from datetime import timedelta

import pytest

from scorer.api.kinds import KINDS, PLACEMENT
from scorer.api.names import IGNORE_FIELDS, LEFT_OUT, RELEASE
from scorer.api.unstructured.documents import with_metadata
from scorer.rollout.object_size import parse_left_out
from scorer.rollout.ownership.objects import ClusterObjects
from tests.builders.placement import make_placement
from tests.webhook.controllers.staged_world import make_run, make_stage, make_strategy
from tests.webhook.controllers.world import CONFIG_MAP, make_config_map, make_member, running
from webhook.kube.ports import Key
from webhook.member.deletion import removal
from webhook.member.works import backoff

STATEFUL_SET = {
    "apiVersion": "apps/v1",
    "kind": "StatefulSet",
    "metadata": {"name": "db", "namespace": "shop"},
    "spec": {"volumeClaimTemplates": [{"metadata": {"name": "data"}}]},
}


def make(api_version, kind, name, **more):
    metadata = {"name": name, "namespace": "shop"} | more.pop("metadata", {})
    return {"apiVersion": api_version, "kind": kind, "metadata": metadata, **more}


OWNERS = [
    make("batch/v1", "CronJob", "backup"),
    make("v1", "Pod", "web-0"),
    make("v1", "ServiceAccount", "robot"),
    make("v1", "Service", "web"),
    STATEFUL_SET,
]


def owned_by(api_version, kind):
    owner = next(each for each in OWNERS if each["kind"] == kind)
    return {"ownerReferences": [{"apiVersion": api_version, "kind": kind, "name": owner["metadata"]["name"]}]}


CLASSES = [
    make("batch/v1", "Job", "backup-1", metadata=owned_by("batch/v1", "CronJob")),
    make("v1", "PersistentVolumeClaim", "data-db-0"),
    make("v1", "PersistentVolumeClaim", "scratch", metadata=owned_by("v1", "Pod")),
    make("v1", "ConfigMap", "istio-ca-root-cert", data={"root-cert.pem": "x"}),
    make("v1", "ConfigMap", "istio-ca-crl", data={"ca-crl.pem": "x"}),
    make("v1", "ConfigMap", "openshift-service-ca.crt", data={"service-ca.crt": "x"}),
    make("v1", "Secret", "robot-dockercfg", metadata=owned_by("v1", "ServiceAccount")),
    make("v1", "Endpoints", "web-extra", metadata=owned_by("v1", "Service")),
    make("discovery.k8s.io/v1", "EndpointSlice", "web-1", metadata=owned_by("v1", "Service")),
]


def kind_of(document):
    return KINDS[document["apiVersion"].rpartition("/")[0], document["kind"]]


@contextmanager
def earlier_release():
    """Select objects as a release did that does not know the table."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ClusterObjects, "origin", lambda self, document: "")
        yield


@pytest.fixture
async def world(monkeypatch):
    monkeypatch.setattr(backoff, "FIRST", timedelta(seconds=0.2))
    async with running() as found:
        await found.add(make_member("a", stage="test"))
        yield found


async def on_member(world, documents):
    return [await world.on_member("a", kind_of(each), each["metadata"]["name"], "shop") for each in documents]


def manifests(world):
    return {
        manifest["metadata"]["name"] for work in world.works() for manifest in work["spec"]["workload"]["manifests"]
    }


def released(world):
    return {name for work in world.works() for _, _, _, name in recorded(work, RELEASE)}


def recorded(work, annotation):
    return parse_left_out((work["metadata"].get("annotations") or {}).get(annotation, ""))


def is_applied(work):
    status = work.get("status", {})
    good = {entry["type"]: entry["observedGeneration"] for entry in status.get("conditions", ())}
    return good.get("Applied") == work["metadata"]["generation"]


async def place_by_an_earlier_release(world, *documents):
    await world.add(*OWNERS)
    for document in documents:
        metadata = {**document["metadata"]}
        if references := metadata.get("ownerReferences"):
            owner = await world.store.get(kind_of(references[0]), Key(references[0]["name"], "shop"))
            metadata["ownerReferences"] = [{**references[0], "uid": owner["metadata"]["uid"]}]
        await world.add({**document, "metadata": metadata})
    names = {each["metadata"]["name"] for each in documents}
    with earlier_release():
        await world.add(make_placement("web"))
        await world.until(lambda: names <= manifests(world) and all(map(is_applied, world.works())))
        placed = await on_member(world, documents)  # before the present release selects again
    assert all(placed)
    return {each["metadata"]["uid"] for each in placed}


async def test_each_class_of_objects_that_an_earlier_release_placed_is_released(world):
    uids = await place_by_an_earlier_release(world, *CLASSES)
    names = {each["metadata"]["name"] for each in CLASSES}
    world.again()
    await world.until(lambda: not names & manifests(world) and all(map(is_applied, world.works())))
    await world.until(lambda: world.events(removal.OBJECTS_RELEASED))
    left = await on_member(world, CLASSES)
    assert {each["metadata"]["uid"] for each in left} == uids
    assert not any(each["metadata"].get("ownerReferences") for each in left)
    assert released(world) == names
    assert "Job shop/backup-1" in world.events(removal.OBJECTS_RELEASED)[0]
    condition = world.condition("web", "ObjectsNotSelected")
    assert condition["status"] == "True"
    assert "Jobs of CronJobs (1)" in condition["message"]
    assert condition["message"].startswith(f"{len(CLASSES)} objects are not placed")


async def test_an_agent_of_an_earlier_release_keeps_them(world, monkeypatch):
    monkeypatch.setattr(removal, "RELEASE", "harbormaster.dev/not-known-yet")
    uids = await place_by_an_earlier_release(world, *CLASSES)
    world.again()
    await world.until(lambda: released(world) and all(map(is_applied, world.works())))
    await world.change(PLACEMENT, "web", revisionHistoryLimit=1)
    await world.add(make_config_map("more"))
    await world.until(lambda: "more" in manifests(world) and all(map(is_applied, world.works())))
    left = await on_member(world, CLASSES)
    assert {each["metadata"]["uid"] for each in left} == uids
    assert all(each["metadata"]["ownerReferences"] for each in left)
    assert all(recorded(work, RELEASE) <= recorded(work, LEFT_OUT) for work in world.works())


async def test_a_work_that_nothing_is_left_of_is_kept_until_its_objects_are_released(world):
    large = {"text": "x" * 500_000}
    last = make("batch/v1", "Job", "backup-1", metadata=owned_by("batch/v1", "CronJob"), data=large)
    uids = await place_by_an_earlier_release(world, make_config_map("first", **large), last)
    assert len(world.works()) == 2
    world.again()
    await world.until(lambda: "first" in manifests(world) and "backup-1" not in manifests(world))
    await world.until(lambda: world.events(removal.OBJECTS_RELEASED) and all(map(is_applied, world.works())))
    (job,) = await on_member(world, [last])
    assert job["metadata"]["uid"] in uids
    assert not job["metadata"].get("ownerReferences")
    assert [recorded(work, RELEASE) for work in world.works() if work["metadata"]["name"] == "web-work"] == [set()]


async def test_an_object_that_its_author_takes_back_is_placed_again(world):
    job = make("batch/v1", "Job", "backup-1", metadata=owned_by("batch/v1", "CronJob"))
    await place_by_an_earlier_release(world, job)
    world.again()
    await world.until(lambda: released(world) == {"backup-1"})
    stored = await world.store.get(kind_of(job), Key("backup-1", "shop"))
    metadata = {key: value for key, value in stored["metadata"].items() if key != "ownerReferences"}
    await world.store.replace(kind_of(job), {**stored, "metadata": metadata})
    await world.until(lambda: "backup-1" in manifests(world) and all(map(is_applied, world.works())))
    assert not released(world)
    assert not world.condition("web", "ObjectsNotSelected")
    await world.store.delete(kind_of(job), Key("backup-1", "shop"))
    await world.until(lambda: "backup-1" not in manifests(world) and all(map(is_applied, world.works())))
    assert await on_member(world, [job]) == [None]


async def test_an_object_that_the_hub_deletes_before_the_rollout_is_removed_as_ever(world):
    await place_by_an_earlier_release(world, make_config_map("istio-ca-root-cert"), make_config_map("other"))
    await world.store.delete(CONFIG_MAP, Key("istio-ca-root-cert", "shop"))
    await world.until(lambda: "istio-ca-root-cert" not in manifests(world) and all(map(is_applied, world.works())))
    assert await world.on_member("a", CONFIG_MAP, "istio-ca-root-cert", "shop") is None


async def test_fields_to_ignore_are_content_that_is_rolled_out(world):
    await world.add(make_placement("web"))
    await world.until(lambda: "rates" in manifests(world) and all(map(is_applied, world.works())))
    for text in ("/data/value", "/data/other", None):
        stored = await world.store.get(CONFIG_MAP, Key("rates", "shop"))
        await world.store.replace(CONFIG_MAP, with_metadata(stored, annotations={IGNORE_FIELDS: text}))
        await world.until(lambda text=text: ignored(world) == text and all(map(is_applied, world.works())))
    assert world.cache.get(PLACEMENT, "web")["status"]["observedResourceIndex"] == "3"


def ignored(world):
    """Return the annotation of the placed ConfigMap."""
    (work,) = world.works()
    metadata = next(each["metadata"] for each in work["spec"]["workload"]["manifests"] if each["kind"] == "ConfigMap")
    return metadata.get("annotations", {}).get(IGNORE_FIELDS)


async def test_an_update_run_releases_them_as_well(world):
    await world.add(make_config_map("istio-ca-root-cert"), make_placement("p", strategy={"type": "External"}))
    await world.add(make_strategy(make_stage("test")))
    with earlier_release():
        await world.until(lambda: world.bound("p"))
        await world.add(make_run("first"))
        await world.until(lambda: "istio-ca-root-cert" in manifests(world) and all(map(is_applied, world.works())))
    await world.add(make_run("second"))
    await world.until(lambda: released(world) == {"istio-ca-root-cert"} and all(map(is_applied, world.works())))
    live = await world.on_member("a", CONFIG_MAP, "istio-ca-root-cert", "shop")
    assert not live["metadata"].get("ownerReferences")
