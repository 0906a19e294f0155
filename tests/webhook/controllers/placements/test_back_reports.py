"""Back-reporting on a store: the hub's object gets the status, once, and what cannot be is told of once."""

from dataclasses import replace

import pytest

from scorer.api.family import CLUSTER, NAMESPACED, PlacementRef
from scorer.api.kinds import BINDING, KINDS, NAMESPACE, PLACEMENT, RESOURCE_PLACEMENT, WORK
from scorer.api.names import PARENT_BINDING, PARENT_PLACEMENT, PARENT_PLACEMENT_NAMESPACE
from tests.builders.placement import make_placement
from tests.webhook.controllers.by_hand import Served, life
from tests.webhook.controllers.world import make_member, pick_n, running
from webhook.controllers.placements.back_reports import BackReportController
from webhook.embedded.storage.store import EmbeddedStore
from webhook.kube.ports import ConflictError, ForbiddenError, InvalidObjectError, Key, RetryError

DEPLOYMENT = KINDS["apps", "Deployment"]
WEB = {"group": "apps", "version": "v1", "kind": "Deployment", "namespace": "shop", "name": "web"}
STATUS = {"replicas": 2, "readyReplicas": 2}
REF = PlacementRef(PLACEMENT.kind, "p")
CACHED = (PLACEMENT, BINDING, RESOURCE_PLACEMENT, NAMESPACED.binding, WORK)


SERVED = Served(DEPLOYMENT)


@pytest.fixture
async def store():
    store = EmbeddedStore.open(None)
    for name in ("shop", "fleet-member-a"):
        await store.create(NAMESPACE, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
    yield store
    store.close()


async def add(store, kind, document, status=None):
    made = await store.create(kind, {"apiVersion": kind.api_version, "kind": kind.kind, **document})
    return made if status is None else await store.replace_status(kind, {**made, "status": status})


async def add_deployment(store, status=None):
    return await add(store, DEPLOYMENT, {"metadata": {"name": "web", "namespace": "shop"}, "spec": {}}, status)


async def add_world(store, *, number=1, family=CLUSTER, report_back="OriginalResource", reported=STATUS):
    """Add a placement that reports back, on cluster a, with a Work that says *reported*."""
    home = {"namespace": "shop"} if family is NAMESPACED else {}
    strategy = {"reportBackStrategy": {"type": "Mirror", "destination": report_back}}
    policy = {"placementType": "PickN", "numberOfClusters": number}
    spec = {"resourceSelectors": [], "policy": policy, "strategy": strategy}
    await add(store, family.placement, {"metadata": {"name": "p", **home}, "spec": spec}, {"selectedResources": [WEB]})
    labels = {PARENT_PLACEMENT: "p"}
    await add(
        store,
        family.binding,
        {"metadata": {"name": "p-a", "labels": labels, **home}, "spec": {"state": "Bound", "targetCluster": "a"}},
    )
    entry = {"identifier": {"ordinal": 0, **WEB}, "backReportedStatus": {"observedStatus": reported}}
    applied = {"type": "Applied", "status": "True", "observedGeneration": 1}
    labels = {**labels, PARENT_BINDING: "p-a", **({PARENT_PLACEMENT_NAMESPACE: "shop"} if home else {})}
    await add(
        store,
        WORK,
        {"metadata": {"name": "p-work", "namespace": "fleet-member-a", "labels": labels}, "spec": {}},
        {"conditions": [applied], "manifestConditions": [entry]},
    )


async def status_of_web(store):
    return (await store.get(DEPLOYMENT, Key("web", "shop"))).get("status")


@pytest.mark.parametrize("family", [CLUSTER, NAMESPACED], ids=["cluster-scoped", "namespaced"])
async def test_the_object_gets_the_status_of_the_member_and_a_second_pass_writes_nothing(store, family):
    await add_deployment(store, {"replicas": 0})
    await add_world(store, family=family)
    ref = PlacementRef(family.placement.kind, "p", "shop" if family is NAMESPACED else "")
    async with life(store, *CACHED) as process:
        controller = BackReportController(process.hub, SERVED, lambda *_: pytest.fail("nothing to tell"))
        await controller.reconcile(ref)
        assert await status_of_web(store) == STATUS
        before = process.hub.writes, store.resource_version
        await controller.reconcile(ref)
        assert (process.hub.writes, store.resource_version) == before
    assert before[0] == 1


async def test_to_the_work_api_nothing_is_copied(store):
    await add_deployment(store)
    await add_world(store, report_back="WorkAPI")
    async with life(store, *CACHED) as process:
        await BackReportController(process.hub, SERVED, lambda *_: None).reconcile(REF)
        assert process.hub.writes == 0
    assert await status_of_web(store) is None


async def test_an_object_that_is_gone_is_no_problem(store):
    await add_world(store)
    async with life(store, *CACHED) as process:
        controller = BackReportController(process.hub, SERVED, lambda *_: pytest.fail("nothing to tell"))
        await controller.reconcile(REF)
        assert process.hub.writes == 0


async def test_a_placement_on_two_clusters_is_told_once_for_every_new_reason(store):
    await add_deployment(store)
    await add_world(store, number=2)
    told = []
    async with life(store, *CACHED) as process:
        controller = BackReportController(process.hub, SERVED, lambda document, event: told.append(event))
        for number in (2, 2, 3, 1, 2):
            stored = await store.get(PLACEMENT, Key("p"))
            policy = {**stored["spec"]["policy"], "numberOfClusters": number}
            await store.replace(PLACEMENT, {**stored, "spec": {**stored["spec"], "policy": policy}})
            await process.hear()
            await controller.reconcile(REF)
    assert [event.message[-1] for event in told] == ["2", "3", "2"]
    assert {(event.type, event.reason) for event in told} == {("Warning", "InvalidReportBackStrategy")}


@pytest.mark.parametrize(
    ("served", "refusal", "words"),
    [
        pytest.param(Served(NAMESPACE), None, "serve kind Deployment of apps/v1", id="kind-not-served"),
        pytest.param(
            Served(replace(DEPLOYMENT, versions=("v2",))), None, "does not serve kind", id="version-not-served"
        ),
        pytest.param(Served(replace(DEPLOYMENT, has_status=False)), None, "subresource", id="no-status-subresource"),
        pytest.param(SERVED, ForbiddenError("may not"), "Deployment shop/web: may not", id="forbidden"),
        pytest.param(SERVED, InvalidObjectError("is wrong"), "Deployment shop/web: is wrong", id="refused"),
    ],
)
async def test_what_cannot_be_written_is_told_of_once(store, served, refusal, words):
    await add_deployment(store)
    await add_world(store)
    told = []
    async with life(store, *CACHED) as process:

        async def refuse(kind, document):
            raise refusal

        if refusal is not None:
            process.store.replace_status = refuse
        controller = BackReportController(process.hub, served, lambda document, event: told.append(event))
        await controller.reconcile(REF)
        await controller.reconcile(REF)
    (event,) = told
    assert words in event.message
    assert (event.type, event.reason) == ("Warning", "StatusNotReportedBack")
    assert await status_of_web(store) is None


async def test_before_the_hub_was_asked_what_it_serves_nothing_is_said(store):
    await add_deployment(store)
    await add_world(store)
    async with life(store, *CACHED) as process:
        controller = BackReportController(process.hub, Served(), lambda *_: pytest.fail("nothing to tell"))
        with pytest.raises(RetryError):
            await controller.reconcile(REF)


async def test_an_object_that_somebody_else_writes_to_is_left_for_the_next_attempt(store):
    stored = await add_deployment(store)
    await add_world(store)
    async with life(store, *CACHED) as process:
        replace_status = process.store.replace_status

        async def late(kind, document):
            process.store.replace_status = replace_status
            await store.replace(DEPLOYMENT, {**stored, "spec": {"replicas": 5}})
            return await replace_status(kind, document)

        process.store.replace_status = late
        controller = BackReportController(process.hub, SERVED, lambda *_: pytest.fail("nothing to tell"))
        with pytest.raises(ConflictError):
            await controller.reconcile(REF)
        await controller.reconcile(REF)
    kept = await store.get(DEPLOYMENT, Key("web", "shop"))
    assert (kept["spec"], kept["status"]) == ({"replicas": 5}, STATUS)


async def test_the_object_is_spoken_to_in_the_version_that_was_placed(store):
    """Another version may say the same in other fields."""
    await add_deployment(store)
    await add_world(store)
    served = Served(replace(DEPLOYMENT, versions=("v2", "v1")))
    spoken = []
    async with life(store, *CACHED) as process:
        replace_status = process.store.replace_status

        async def listen(kind, document):
            spoken.append(kind.api_version)
            return await replace_status(kind, document)

        process.store.replace_status = listen
        await BackReportController(process.hub, served, lambda *_: None).reconcile(REF)
    assert spoken == ["apps/v1"]


async def test_in_the_running_loop_the_original_says_what_the_member_says():
    async with running() as world:
        await world.add(make_member("a"))
        await world.until(lambda: all(member.status.properties for member in world.cache.fleet.members))
        labels = {"app": "web"}
        pod = {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "web", "image": "web:1"}]}}
        deployment = {
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "metadata": {
                "name": "web",
                "namespace": "shop",
                "annotations": {"harbormaster.dev/simulate": "ready-after=0s"},
            },
            "spec": {"replicas": 2, "selector": {"matchLabels": labels}, "template": pod},
        }
        strategy = {"reportBackStrategy": {"type": "Mirror", "destination": "OriginalResource"}}
        await world.add(deployment, make_placement("p", pick_n(1), strategy=strategy))
        await world.until(lambda: world.view("p")["state"] == "available")
        status = await status_of_web(world.store)
        assert status is not None
        assert (status["replicas"], status["readyReplicas"]) == (2, 2)
