"""Stages that are approved by a number or an object of the hub, from end to end."""

import asyncio
import json
from contextlib import asynccontextmanager

import pytest

from scorer.api.family import NAMESPACED
from scorer.api.kinds import KINDS, NAMESPACE, NODE, STAGED_STRATEGY
from scorer.api.unstructured.documents import conditions_of, current_condition, with_metadata
from scorer.staged_update.approval.requests import TaskPlace, make_request
from tests.virtual_time import loop_now
from tests.webhook.controllers.analysed_world import QUERY, STAGES, analysed, annotate, queried, request, shown, told
from tests.webhook.controllers.query_server import query_server
from tests.webhook.controllers.staged_world import (
    APPROVAL,
    approve,
    contents,
    make_run,
    make_stage,
    pass_time,
    said,
    set_state,
    staged,
)
from webhook.controllers.staged_updates.analysis import AnalysisController, RequestRef
from webhook.embedded.storage.kinds import EmbeddedKinds
from webhook.embedded.storage.store import EmbeddedStore
from webhook.kube.cache.hub import Hub
from webhook.kube.cache.informer import Cache
from webhook.kube.ports import Key
from webhook.settings.analysis import AnalysisOptions

JOB = KINDS["batch", "Job"]
DONE = "True UpdateRunSucceeded"
WAITS = "False UpdateRunWaiting"
SMOKE = {"apiVersion": "batch/v1", "kind": "Job", "namespace": "shop", "name": "smoke-{run}", "condition": "Complete"}


async def test_a_number_that_is_right_approves_the_stage_and_the_run_goes_on():
    async with queried() as (world, server):
        server.value = "0.25"
        await world.add(analysed(test={"query": QUERY}))
        await world.until(lambda: said(world, "Succeeded") == DONE)
        assert server.asked == ["errors"]
        assert shown(world, "Approved") == "True AnalysisPassed"
        assert told(world, "Approved") == "main returned 0.25, must be below 5"
        assert {each["type"] for each in conditions_of(request(world))} == {"Analyzed", "Approved", "ApprovalAccepted"}


async def test_a_run_keeps_the_analysis_that_its_strategy_had_at_the_start():
    async with queried() as (world, server):
        server.value = "7"
        strategy = await world.store.get(STAGED_STRATEGY, Key("careful"))
        checks = {"harbormaster.dev/analysis": json.dumps({"test": {"query": QUERY}})}
        strategy = await world.store.replace(STAGED_STRATEGY, with_metadata(strategy, annotations=checks))
        await world.until(lambda: True)
        await world.add(make_run("r"))
        await world.until(lambda: shown(world) == "False NotMet")
        loose = {"harbormaster.dev/analysis": json.dumps({"test": {"query": {**QUERY, "below": 100}}})}
        await world.store.replace(STAGED_STRATEGY, with_metadata(strategy, annotations=loose))
        asked = len(server.asked)
        pass_time(world, seconds=30)
        await world.until(lambda: len(server.asked) > asked)
        assert shown(world) == "False NotMet"


async def test_a_wrong_number_keeps_the_run_waiting_and_the_request_says_so():
    async with queried() as (world, server):
        server.value = "7.5"
        await world.add(analysed(test={"query": QUERY}))
        await world.until(lambda: shown(world) == "False NotMet")
        assert told(world).startswith("main returned 7.5, must be below 5")
        assert said(world, "Progressing") == WAITS
        server.value = "1"
        pass_time(world, seconds=30)
        await world.until(lambda: said(world, "Succeeded") == DONE)


async def test_a_number_has_to_be_right_for_as_long_as_it_is_asked():
    async with queried() as (world, server):
        await world.add(analysed(test={"query": {**QUERY, "for": "10m"}}))
        await world.until(lambda: shown(world) == "True Met")
        pass_time(world, minutes=9)
        await world.until(lambda: len(server.asked) >= 2)
        assert said(world, "Progressing") == WAITS
        pass_time(world, minutes=1, seconds=5)
        await world.until(lambda: said(world, "Succeeded") == DONE)


async def test_another_look_at_a_number_that_stays_right_writes_nothing():
    async with queried() as (world, server):
        await world.add(analysed(test={"query": {**QUERY, "for": "20m"}}))
        await world.until(lambda: shown(world) == "True Met")
        await world.until_silent()
        before, writes, questions = request(world), world.hub.writes, len(server.asked)
        pass_time(world, minutes=5)
        await world.until(lambda: len(server.asked) > questions)
        assert (request(world), world.hub.writes) == (before, writes)


async def test_an_endpoint_that_fails_is_told_on_the_request():
    async with queried() as (world, server):
        server.value = None
        await world.add(analysed(test={"query": QUERY}))
        await world.until(lambda: shown(world) == "Unknown NoData")
        assert said(world, "Progressing") == WAITS


async def test_a_person_may_approve_before_the_number_is_right():
    async with queried() as (world, server):
        server.value = "9"
        await world.add(analysed(test={"query": QUERY}))
        await world.until(lambda: shown(world) == "False NotMet")
        await approve(world, "r-after-test")
        await world.until(lambda: said(world, "Succeeded") == DONE)
        assert shown(world, "Approved") == "True LooksGood"


async def test_a_run_that_is_stopped_is_not_approved_and_counts_anew_once_it_goes_on():
    async with queried() as (world, _):
        await world.add(analysed(test={"query": {**QUERY, "for": "10m"}}))
        await world.until(lambda: shown(world) == "True Met")
        await set_state(world, "Stop")
        await world.until(lambda: shown(world) == "Unknown NotAsked")
        pass_time(world, minutes=20)
        await world.until(lambda: True)
        assert shown(world, "Approved") == ""
        await set_state(world, "Run")
        await world.until(lambda: shown(world) == "True Met")
        assert said(world, "Progressing") == WAITS


async def test_what_a_person_has_rejected_only_a_person_approves():
    async with queried() as (world, server):
        server.value = "9"
        await world.add(analysed(test={"query": QUERY}))
        await world.until(lambda: shown(world) == "False NotMet")
        await annotate(world, **{"harbormaster.dev/rejected": "r-after-test: too slow"})
        await world.until(lambda: shown(world) == "Unknown Rejected")
        server.value = "1"
        pass_time(world, minutes=1)
        await world.until(lambda: True)
        assert said(world, "Progressing") == WAITS
        await approve(world, "r-after-test")
        await world.until(lambda: said(world, "Succeeded") == DONE)


async def test_an_annotation_that_cannot_be_read_is_told_and_can_be_put_right():
    async with queried() as (world, _):
        await world.add(analysed(test={"query": {**QUERY, "for": "soon"}}))
        await world.until(lambda: shown(world) == "Unknown AnalysisInvalid")
        assert 'test.query.for: "soon"' in told(world)
        await annotate(world, **{"harbormaster.dev/analysis": json.dumps({"test": {"query": QUERY}})})
        await world.until(lambda: said(world, "Succeeded") == DONE)


async def test_a_stage_that_the_annotation_does_not_name_waits_for_a_person():
    async with queried() as (world, server):
        await world.add(analysed(live={"query": QUERY}))
        await world.until(lambda: said(world, "Progressing") == WAITS)
        assert (server.asked, request(world).get("status")) == ([], None)


async def test_without_settings_nothing_is_looked_at():
    async with query_server() as server, staged(*STAGES) as world:
        await world.add(analysed(test={"query": QUERY}))
        await world.until(lambda: said(world, "Progressing") == WAITS)
        assert (server.asked, request(world).get("status")) == ([], None)


async def test_a_request_before_a_stage_is_never_approved_by_analysis():
    before = make_stage("test", beforeStageTasks=APPROVAL)
    async with query_server() as server:
        options = AnalysisOptions(endpoints={"main": server.url})
        async with staged(before, make_stage("live"), analysis=options) as world:
            await world.add(analysed(test={"query": QUERY}))
            await world.until(lambda: said(world, "Progressing") == WAITS)
            assert (server.asked, request(world, "r-before-test").get("status")) == ([], None)


async def put(store, kind, document):
    """Create an object, and store its status, too."""
    stored = await store.create(kind, document)
    return await store.replace_status(kind, {**stored, "status": document.get("status", {})})


def make_job(name="smoke-r", namespace="shop", **conditions):
    found = [{"type": kind, "status": text} for kind, text in conditions.items()]
    meta = {"name": name, "namespace": namespace}
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": meta, "status": {"conditions": found}}


async def test_the_job_of_a_run_approves_the_stage_once_it_is_complete():
    async with staged(*STAGES, analysis=AnalysisOptions(kinds=frozenset({"jobs.batch"}))) as world:
        await put(world.store, JOB, make_job("smoke-earlier", Complete="True"))
        await world.add(analysed(test={"object": SMOKE}))
        await world.until(lambda: shown(world) == "Unknown NotFound")
        assert "Job shop/smoke-r does not exist" in told(world)
        stored = await world.store.create(JOB, make_job())
        pass_time(world, seconds=15)
        await world.until(lambda: shown(world) == "False NotMet")
        await world.store.replace_status(JOB, {**stored, **make_job(Complete="True"), "metadata": stored["metadata"]})
        pass_time(world, seconds=15)
        await world.until(lambda: said(world, "Succeeded") == DONE)
        assert set(contents(world).values()) == {"0"}


@pytest.mark.parametrize(
    ("changed", "reason"),
    [
        pytest.param({"kind": "CronJob"}, "KindNotAllowed", id="another-kind"),
        pytest.param({"apiVersion": "batch/v7"}, "KindNotAllowed", id="another-version"),
        pytest.param({"apiVersion": "v1", "kind": "Secret"}, "KindNotAllowed", id="secret"),
        pytest.param({"namespace": ""}, "NamespaceMissing", id="no-namespace"),
    ],
)
async def test_only_objects_of_the_kinds_in_the_settings_are_looked_at(changed, reason):
    async with staged(*STAGES, analysis=AnalysisOptions(kinds=frozenset({"jobs.batch"}))) as world:
        await world.add(analysed(test={"object": {**SMOKE, **changed}}))
        await world.until(lambda: shown(world) == f"Unknown {reason}")


class Counting:
    """A store that notes which jobs are read from it."""

    def __init__(self, store):
        self._store = store
        self.read = []

    def __getattr__(self, name):
        return getattr(self._store, name)

    async def get(self, kind, key):
        self.read += [key.name] if kind == JOB else []
        return await self._store.get(kind, key)


@asynccontextmanager
async def in_namespace(check, *objects, watched=()):
    """Yield a controller that looks at jobs and nodes, and the request of a run in the namespace ``shop``."""
    waiting = {"type": "Progressing", "status": "False", "reason": "StageUpdatingWaiting"}
    created = {"type": "ApprovalRequestCreated", "status": "True"}
    task = {"type": "Approval", "approvalRequestName": "r-after-test", "conditions": [created]}
    stage = {"stageName": "test", "clusters": [], "afterStageTaskStatus": [task], "conditions": [waiting]}
    run = {**analysed(test={"object": check}), "kind": NAMESPACED.run.kind, "status": {"stagesStatus": [stage]}}
    run["metadata"]["namespace"] = "shop"
    store = Counting(EmbeddedStore.open(None))
    for name in ("shop", "dock"):
        await store.create(NAMESPACE, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
    await put(store, NAMESPACED.run, run)
    await store.create(NAMESPACED.approval_request, make_request(run, "test", TaskPlace.AFTER))
    for kind, document in objects:
        await put(store, kind, document)
    cache = Cache(store)
    hub = Hub(store, cache)
    options = AnalysisOptions(kinds=frozenset({"jobs.batch", "nodes"}))
    served = EmbeddedKinds(store.kinds)
    task = asyncio.create_task(cache.run())
    needed = (NAMESPACED.run, NAMESPACED.approval_request, *watched)
    cache.require(needed)
    await cache.wait_synced(needed)
    try:
        yield AnalysisController(hub, loop_now, served, options, lambda *_: None), store
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        store.close()


async def test_a_run_in_a_namespace_looks_at_the_job_there():
    check = {**SMOKE, "namespace": ""}
    jobs = (JOB, make_job(Complete="True")), (JOB, make_job(namespace="dock"))
    async with in_namespace(check, *jobs) as (controller, store):
        await controller.reconcile(RequestRef("r-after-test", "shop"))
        found = await store.get(NAMESPACED.approval_request, Key("r-after-test", "shop"))
        assert current_condition(found, "Approved")["reason"] == "AnalysisPassed"


@pytest.mark.parametrize(
    ("watched", "complete", "reason", "read"),
    [
        pytest.param((JOB,), "False", "NotMet", [], id="watched"),
        pytest.param((JOB,), "True", "Met", ["smoke-r"], id="watched, and about to approve"),
        pytest.param((), "False", "NotMet", ["smoke-r"], id="not watched"),
    ],
)
async def test_an_object_that_is_watched_anyway_is_read_only_to_approve(watched, complete, reason, read):
    async with in_namespace(SMOKE, (JOB, make_job(Complete=complete)), watched=watched) as (controller, store):
        await controller.reconcile(RequestRef("r-after-test", "shop"))
        assert store.read == read
        found = await store.get(NAMESPACED.approval_request, Key("r-after-test", "shop"))
        assert current_condition(found, "Analyzed")["reason"] == reason


async def test_what_of_a_watched_object_is_not_kept_is_read():
    job = JOB, make_job(Complete="True")
    async with in_namespace(SMOKE, job, watched=(JOB,)) as (controller, store):
        controller._hub.cache.trim(JOB, lambda each: {**each, "status": {}})
        await controller.reconcile(RequestRef("r-after-test", "shop"))
        assert store.read == ["smoke-r"]


@pytest.mark.parametrize(
    ("check", "reason"),
    [
        pytest.param({**SMOKE, "namespace": "dock"}, "AnalysisInvalid", id="another-namespace"),
        pytest.param(
            {"apiVersion": "v1", "kind": "Node", "name": "n", "condition": "Ready"}, "KindNotAllowed", id="no-namespace"
        ),
    ],
)
async def test_a_run_in_a_namespace_learns_nothing_of_other_places(check, reason):
    node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n"}}
    ready = {"conditions": [{"type": "Ready", "status": "True"}]}
    objects = (JOB, make_job(namespace="dock", Complete="True")), (NODE, {**node, "status": ready})
    async with in_namespace(check, *objects) as (controller, store):
        await controller.reconcile(RequestRef("r-after-test", "shop"))
        found = await store.get(NAMESPACED.approval_request, Key("r-after-test", "shop"))
        assert [(each["type"], each["reason"]) for each in conditions_of(found)] == [("Analyzed", reason)]
