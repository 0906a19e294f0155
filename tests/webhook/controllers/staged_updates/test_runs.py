"""Staged update runs from end to end, on the embedded store with simulated members."""

import pytest

from scorer.api.family import family_in
from scorer.api.kinds import APPROVAL_REQUEST, BINDING, MEMBER_CLUSTER, STAGED_RUN
from scorer.api.unstructured.documents import (
    finalizers_of,
    is_deleting,
    name_of,
    namespace_of,
    spec_of,
    uid_of,
    with_metadata,
)
from scorer.rollout.removal.marks import with_removal_mark
from tests.builders.placement import make_placement, namespace_term
from tests.webhook.controllers.staged_world import (
    STAGES,
    approve,
    contents,
    has_request,
    make_run,
    make_stage,
    make_strategy,
    message,
    pass_time,
    refuse,
    release,
    run_of,
    said,
    set_state,
    staged,
)
from tests.webhook.controllers.world import controller, held_up, make_config_map
from tests.webhook.edits import edit
from webhook.embedded.simulation.annotations import SIMULATE_APPLY
from webhook.kube.ports import Key

DONE = "True UpdateRunSucceeded"


async def test_a_run_goes_through_its_stages_and_waits_for_the_approval_between_them():
    async with staged() as world:
        await world.add(make_run("r"))
        await world.until(lambda: said(world, "Progressing") == "False UpdateRunWaiting")
        assert contents(world) == {"t1": "0", "t2": "0", "v1": "", "v2": "", "v3": ""}
        assert "r-after-test" in message(world, "Progressing")
        await approve(world, "r-after-test")
        await world.until(lambda: said(world, "Succeeded") == DONE)
        assert set(contents(world).values()) == {"0"}


async def test_a_second_pass_writes_nothing_in_any_state():
    async with staged() as world:
        await world.add(make_run("r", "Initialize"))
        for step, reached in (
            (None, lambda: said(world, "Initialized") == "True UpdateRunInitializedSuccessfully"),
            (set_state(world, "Run"), lambda: said(world, "Progressing") == "False UpdateRunWaiting"),
            (set_state(world, "Stop"), lambda: said(world, "Progressing") == "False UpdateRunStopped"),
            (set_state(world, "Run"), lambda: said(world, "Progressing") == "False UpdateRunWaiting"),
            (approve_when_there(world), lambda: said(world, "Succeeded") == DONE),
        ):
            if step is not None:
                await step
            await world.until(reached)
            before = world.hub.writes
            world.again()
            await world.until(lambda: True)
            assert world.hub.writes == before


async def approve_when_there(world):
    await approve(world, "r-after-test")


async def test_a_release_is_taken_back_by_a_run_with_the_older_index():
    async with staged(make_stage("test"), make_stage("live", maxConcurrency="100%")) as world:
        await world.add(make_run("first"))
        await world.until(lambda: said(world, "Succeeded", "first") == DONE)
        await release(world, "2")
        await world.until(lambda: True)
        await world.add(make_run("second"))
        await world.until(lambda: said(world, "Succeeded", "second") == DONE)
        assert set(contents(world).values()) == {"1"}
        assert run_of(world, "second")["metadata"]["annotations"]["harbormaster.dev/previous-index"] == "0"
        await world.add(make_run("back", index="0"))
        await world.until(lambda: said(world, "Succeeded", "back") == DONE)
        assert set(contents(world).values()) == {"0"}


async def test_a_stopped_run_starts_nothing_until_it_is_resumed():
    async with staged(make_stage("test"), make_stage("live"), stuck="t1") as world:
        await world.add(make_run("r"))
        await world.until(lambda: contents(world)["t1"] == "0")
        await set_state(world, "Stop")
        await world.until(lambda: said(world, "Progressing") == "Unknown UpdateRunStopping")
        assert "t1" in message(world, "Progressing")
        pass_time(world, minutes=6)
        await world.until(lambda: said(world, "Progressing") == "False UpdateRunStuck")
        assert contents(world)["t2"] == ""


async def test_a_cluster_that_never_becomes_available_is_reported():
    async with staged(make_stage("test"), make_stage("live"), stuck="t1") as world:
        await world.add(make_run("r"))
        await world.until(lambda: said(world, "Progressing") == "True UpdateRunProgressing")
        pass_time(world, minutes=5, seconds=5)
        await world.until(lambda: said(world, "Progressing") == "False UpdateRunStuck")
        assert "t1" in message(world, "Progressing")


async def test_a_failed_release_is_rolled_back_where_the_strategy_says_so():
    policy = {"on-failure": "Rollback", "cluster-deadline": "60s"}
    async with staged(make_stage("test"), make_stage("live")) as world:
        await world.add(make_run("first"))
        await world.until(lambda: said(world, "Succeeded", "first") == DONE)
        await release(world, "2")
        await refuse(world, "t2")
        run = make_run("r")
        run["metadata"]["annotations"] = {f"harbormaster.dev/{key}": text for key, text in policy.items()}
        await world.until(lambda: True)
        await world.add(run)
        await world.until(lambda: contents(world)["t2"] == "1")
        pass_time(world, seconds=61)
        await world.until(lambda: said(world, "Succeeded") == "False UpdateRunFailed")
        assert "r-rollback" in message(world, "Succeeded")
        await world.until(lambda: contents(world)["t1"] == "0")
        back = run_of(world, "r-rollback")
        assert back["spec"]["resourceSnapshotIndex"] == "0"
        assert back["metadata"]["annotations"]["harbormaster.dev/rollback-of"] == "r"


async def test_an_evicted_binding_that_hangs_in_deletion_holds_up_only_its_own_cluster():
    async with staged() as world:
        await world.add(make_run("r"))
        await world.until(lambda: said(world, "Progressing") == "False UpdateRunWaiting")
        # The scheduler removes a mark that no eviction stands behind, and would see it before the deletion.
        async with held_up(world.loop.queues["scheduler"]):
            await evict(world, "t1")  # finished
            old = await evict(world, "v2")  # to come
        await approve(world, "r-after-test")
        held = f"cluster v2 of stage live waits: binding {old.name} of cluster v2 is being deleted"
        await world.until(lambda: held in message(world, "Progressing"))
        assert [contents(world)[name] for name in ("v1", "v3")] == ["0", "0"]
        await edit(world.store, BINDING, old, lambda it: with_finalizers(it, []))
        await world.until(lambda: said(world, "Succeeded") == DONE)
        assert contents(world)["v2"] == "0"
        assert [spec_of(each)["targetCluster"] for each in world.cache.list(BINDING) if is_deleting(each)] == ["t1"]


async def evict(world, cluster):
    """Delete a binding as an eviction does, on a member that does not answer; return its key."""
    key = Key(name_of(binding_of(world, cluster)))
    held = [*finalizers_of(binding_of(world, cluster)), "example.com/hold"]
    await edit(world.store, BINDING, key, lambda it: with_finalizers(with_removal_mark(it), held))
    await world.store.delete(BINDING, key)
    return key


async def test_a_binding_in_flight_that_a_user_deletes_is_created_again_and_the_run_goes_on():
    async with staged(make_stage("test"), make_stage("live"), stuck="t1") as world:
        await world.add(make_run("r"))
        await world.until(lambda: any(namespace_of(work) == "fleet-member-t1" for work in world.works()))
        before = binding_of(world, "t1")
        await world.store.delete(BINDING, Key(name_of(before)))
        await world.until(lambda: uid_of(binding_of(world, "t1")) not in ("", uid_of(before)))
        accepting = {SIMULATE_APPLY: None}
        await edit(world.store, MEMBER_CLUSTER, Key("t1"), lambda it: with_metadata(it, annotations=accepting))
        await world.until(lambda: said(world, "Succeeded") == DONE)


def binding_of(world, cluster):
    bindings = world.cache.list(BINDING)
    return next((each for each in bindings if each["spec"]["targetCluster"] == cluster), {})


def with_finalizers(document, finalizers):
    return {**document, "metadata": {**document["metadata"], "finalizers": finalizers}}


async def test_an_approval_for_another_generation_does_not_count():
    async with staged() as world:
        await world.add(make_run("r"))
        await world.until(lambda: said(world, "Progressing") == "False UpdateRunWaiting")
        await approve(world, "r-after-test", generation=7)
        await world.until(lambda: True)
        assert said(world, "Progressing") == "False UpdateRunWaiting"


async def test_a_deleted_request_is_made_again_and_a_deleted_run_takes_its_requests_along():
    async with staged() as world:
        await world.add(make_run("r"))
        await world.until(lambda: said(world, "Progressing") == "False UpdateRunWaiting")
        first = await world.store.get(APPROVAL_REQUEST, Key("r-after-test"))
        await world.store.delete(APPROVAL_REQUEST, Key("r-after-test"))
        await world.until(lambda: True)
        assert (await world.store.get(APPROVAL_REQUEST, Key("r-after-test")))["metadata"]["uid"] != first["metadata"][
            "uid"
        ]
        await world.store.delete(STAGED_RUN, Key("r"))
        await world.until(lambda: not run_of(world))
        assert not await has_request(world, "r-after-test")


async def test_a_request_that_was_approved_before_anybody_asked_is_not_believed():
    async with staged() as world:
        spec = {"parentStageRollout": "r", "targetStage": "test"}
        made = {"apiVersion": APPROVAL_REQUEST.api_version, "kind": APPROVAL_REQUEST.kind, "spec": spec}
        await world.add({**made, "metadata": {"name": "r-after-test"}})
        await approve(world, "r-after-test")
        await world.add(make_run("r"))
        await world.until(lambda: said(world, "Progressing") == "False UpdateRunWaiting")
        assert contents(world)["v1"] == ""


@pytest.mark.parametrize("label", ["live", "nowhere"])
async def test_a_relabelled_member_ends_the_run_at_once(label):
    async with staged() as world:
        await world.add(make_run("r"))
        await world.until(lambda: said(world, "Progressing") == "False UpdateRunWaiting")
        member = await world.store.get(MEMBER_CLUSTER, Key("t2"))
        await world.store.replace(
            MEMBER_CLUSTER, {**member, "metadata": {**member["metadata"], "labels": {"stage": label}}}
        )
        await world.until(lambda: said(world, "Succeeded") == "False UpdateRunFailed")
        assert "t2" in message(world, "Succeeded")


async def test_of_two_runs_the_later_writer_wins():
    async with staged(make_stage("test", maxConcurrency=2), make_stage("live"), stuck="t1") as world:
        await world.add(make_run("r"))
        await world.until(lambda: contents(world)["t1"] == "0" and contents(world)["t2"] == "0")
        await release(world, "2")
        await world.until(lambda: True)
        await world.add(make_run("other"))
        await world.until(lambda: said(world, "Succeeded") == "False UpdateRunFailed")
        assert "preempted" in message(world, "Succeeded")
        assert contents(world)["t1"] == "1"
        assert said(world, "Succeeded", "other") == ""


async def test_nothing_is_kept_of_runs_that_are_gone_also_if_they_were_of_another_placement_meanwhile():
    async with staged() as world:
        await world.add(make_run("r"))
        await world.until(lambda: said(world, "Progressing") == "False UpdateRunWaiting")
        await world.change(STAGED_RUN, "r", placementName="q")
        await world.until(lambda: True)
        await world.store.delete(STAGED_RUN, Key("r"))
        await world.until(lambda: not run_of(world))
        kept = vars(controller(world.loop, "staged_update"))
        assert {name: each for name, each in kept.items() if isinstance(each, dict) and each} == {}


async def test_runs_of_equal_names_in_namespaces_are_runs_of_their_own():
    """Everything has the same name: placement, strategy, run and request, on the hub and in two namespaces."""
    async with staged() as world:
        homes = [{**namespace_term(each), "selectionScope": "NamespaceOnly"} for each in ("dock", "quay")]
        await world.add(make_placement("homes", selectors=homes))
        for namespace in ("dock", "quay"):
            await world.add(make_config_map("fares", namespace, value="1"))
            await world.add(*in_namespace(namespace))
        await world.add(make_run("r"))
        await world.until(lambda: all(has_come_to_approval(world, each) for each in ("", "dock", "quay")))
        await approve(world, "r-after-test", namespace="quay")
        await world.until(lambda: said(world, "Succeeded", namespace="quay") == DONE)
        assert set(contents(world, "quay").values()) == {"0"}
        for other in ("", "dock"):
            assert has_come_to_approval(world, other)
            assert contents(world, other) == {"t1": "0", "t2": "0", "v1": "", "v2": "", "v3": ""}
        await world.store.delete(family_in("dock").run, Key("r", "dock"))
        await world.until(lambda: not run_of(world, namespace="dock"))
        assert not await has_request(world, "r-after-test", namespace="dock")
        assert await has_request(world, "r-after-test")


def has_come_to_approval(world, namespace):
    return said(world, "Progressing", namespace=namespace) == "False UpdateRunWaiting"


def in_namespace(namespace):
    """Return placement, strategy and run of the hub's names, as they are in a namespace."""
    selected = [{"group": "", "version": "v1", "kind": "ConfigMap", "name": "fares"}]
    placement = make_placement("p", namespace=namespace, selectors=selected, strategy={"type": "External"})
    others = (make_strategy(*STAGES), make_run("r"))
    moved = [
        {**each, "kind": each["kind"].removeprefix("Cluster"), "metadata": {**each["metadata"], "namespace": namespace}}
        for each in others
    ]
    return placement, *moved
