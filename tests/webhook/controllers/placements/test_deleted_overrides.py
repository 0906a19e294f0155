"""Deletion of an override while bindings or a run still name its snapshots, in a whole hub in memory."""

import pytest

from scorer.api.kinds import (
    BINDING,
    MEMBER_CLUSTER,
    NAMESPACED_ENVELOPE,
    NAMESPACED_OVERRIDE,
    NAMESPACED_OVERRIDE_SNAPSHOT,
    OVERRIDE,
    OVERRIDE_SNAPSHOT,
    PLACEMENT,
    STAGED_RUN,
)
from scorer.api.names import IS_LATEST_SNAPSHOT
from scorer.api.unstructured.documents import current_condition, label, name_of, with_metadata
from scorer.rollout.bindings import Overrides
from scorer.staged_update.phase import RunPhase, RunSituation
from scorer.staged_update.undo import undo
from tests.builders.placement import make_placement
from tests.webhook.controllers.override_rules import make_override, rule
from tests.webhook.controllers.staged_world import approve, make_run, make_stage, release, run_of, said, staged
from tests.webhook.controllers.world import CONFIG_MAP, make_config_map, make_member, running
from tests.webhook.edits import edit
from webhook.embedded.simulation.annotations import SIMULATE_APPLY
from webhook.kube.ports import Key

ONE_AT_A_TIME = {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": 1, "maxSurge": 1}}
HELD = {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": 0, "maxSurge": 1}}
CONFIG_MAP_SELECTOR = {"group": "", "version": "v1", "kind": "ConfigMap"}
ADDS, ADDS_OTHER = rule("new", path="/data/zone"), rule("other", path="/data/zone")
NAMESPACES = [pytest.param("", id="cluster-scoped"), pytest.param("shop", id="namespaced")]


def kinds_in(namespace):
    return (NAMESPACED_OVERRIDE, NAMESPACED_OVERRIDE_SNAPSHOT) if namespace else (OVERRIDE, OVERRIDE_SNAPSHOT)


def make(namespace):
    """Make an override that annotates everything it selects."""
    return make_override("own", rule({"own": "yes"}, path="/metadata/annotations"), namespace=namespace)


async def placed(world, cluster, name="rates"):
    found = await world.on_member(cluster, CONFIG_MAP, name, "shop")
    return found["data"] if found else None


def is_available(world):
    return world.view("p")["state"] == "available"


def contents(world):
    """Return the resource snapshot and the override snapshots of each cluster."""
    specs = (binding["spec"] for binding in world.cache.list(BINDING))
    return {
        spec["targetCluster"]: (spec["resourceSnapshotName"], [name for _, name in Overrides.of(spec).keys])
        for spec in specs
    }


def snapshots(world, namespace="shop"):
    """Return the snapshots of overrides, with whether they are the latest."""
    _, kind = kinds_in(namespace)
    return {name_of(one): label(one, IS_LATEST_SNAPSHOT) == "true" for one in world.cache.list(kind)}


async def simulate_refusals(world, cluster, behavior):
    await edit(
        world.store, MEMBER_CLUSTER, Key(cluster), lambda it: with_metadata(it, annotations={SIMULATE_APPLY: behavior})
    )


async def stop_at_the_first_cluster(world, override=None, *content):
    """Roll out a release that fails on the first cluster, so that the others wait with what they have."""
    override = override or make_override("own", ADDS)
    await world.add(*map(make_member, "abc"), override, *content)
    await world.until(lambda: snapshots(world, override["metadata"].get("namespace", "")) == {"own-0": True})
    await world.add(make_placement("p", strategy=ONE_AT_A_TIME))
    await world.until(lambda: is_available(world) and len(contents(world)) == 3)
    await simulate_refusals(world, "a", "fail")
    await edit(world.store, CONFIG_MAP, Key("rates", "shop"), lambda it: {**it, "data": {"value": "2"}})
    await world.until(lambda: contents(world)["a"][0] == "p-1-snapshot")
    await world.until(lambda: contents(world) == {"a": ("p-1-snapshot", ["own-0"]), **WAITING})


async def delete_override(world, namespace="shop"):
    kind, _ = kinds_in(namespace)
    await world.store.delete(kind, Key("own", namespace))
    await world.until(lambda: world.cache.get(kind, "own", namespace) is None)


async def finish(world):
    """Let the first cluster take the release, so that the rollout continues."""
    await simulate_refusals(world, "a", "")
    await edit(world.store, CONFIG_MAP, Key("rates", "shop"), lambda it: {**it, "data": {"value": "3"}})
    await world.until(
        lambda: is_available(world) and {name for name, _ in contents(world).values()} == {"p-2-snapshot"}
    )


WAITING = {"b": ("p-0-snapshot", ["own-0"]), "c": ("p-0-snapshot", ["own-0"])}


async def test_clusters_that_wait_keep_what_they_have_until_their_turn():
    async with running() as world:
        await stop_at_the_first_cluster(world)
        await delete_override(world)
        await edit(world.store, MEMBER_CLUSTER, Key("b"), lambda it: with_metadata(it, labels={"requeues": "it"}))
        await world.until(lambda: contents(world)["a"] == ("p-1-snapshot", []))
        assert contents(world) == {"a": ("p-1-snapshot", []), **WAITING}
        assert snapshots(world) == {"own-0": False}
        overridden = [current_condition(one, "Overridden")["status"] for one in world.cache.list(BINDING)]
        assert overridden == ["True"] * 3
        assert [await placed(world, cluster) for cluster in "bc"] == [{"value": "1", "zone": "new"}] * 2
        await finish(world)
        assert [await placed(world, cluster) for cluster in "abc"] == [{"value": "3"}] * 3


@pytest.mark.parametrize("namespace", NAMESPACES)
async def test_objects_in_envelopes_keep_what_they_have(namespace):
    kind = NAMESPACED_ENVELOPE
    wrapped = make_config_map("wrapped", value="1")
    metadata = {"name": "box", "namespace": "shop"}
    envelope = {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": metadata, "data": {"a.yaml": wrapped}}
    override = make(namespace)
    if namespace:
        override["spec"]["resourceSelectors"][0]["name"] = "wrapped"
    async with running() as world:
        await stop_at_the_first_cluster(world, override, envelope)
        await delete_override(world, namespace)
        await edit(world.store, MEMBER_CLUSTER, Key("b"), lambda it: with_metadata(it, labels={"requeues": "it"}))
        await world.until(lambda: contents(world) == {"a": ("p-1-snapshot", []), **WAITING})
        found = await world.on_member("b", CONFIG_MAP, "wrapped", "shop")
        assert found["metadata"]["annotations"]["own"] == "yes"
        await finish(world)
        found = await world.on_member("b", CONFIG_MAP, "wrapped", "shop")
        assert "own" not in found["metadata"].get("annotations", {})


async def test_many_overrides_are_deleted_together():
    overrides = [make_override(f"own-{number}", rule(str(number), path=f"/data/n{number}")) for number in range(101)]
    for number, override in enumerate(overrides):
        override["spec"]["resourceSelectors"].append({**CONFIG_MAP_SELECTOR, "name": f"other-{number}"})
        del override["spec"]["resourceSelectors"][0]
    async with running() as world:
        await world.add(*map(make_member, "ab"), *(make_config_map(f"other-{n}", value="1") for n in range(101)))
        await world.add(*overrides)
        await world.until(lambda: len(snapshots(world)) == 101)
        await world.add(make_placement("p", strategy=HELD))
        await world.until(lambda: is_available(world) and len(contents(world)) == 2)
        for override in overrides:
            await world.store.delete(NAMESPACED_OVERRIDE, Key(name_of(override), "shop"))
        await world.until(lambda: not world.cache.list(NAMESPACED_OVERRIDE))
        assert set(snapshots(world).values()) == {False}
        assert {len(names) for _, names in contents(world).values()} == {101}
        assert {current_condition(one, "Overridden")["status"] for one in world.cache.list(BINDING)} == {"True"}
        await world.change(PLACEMENT, "p", strategy=ONE_AT_A_TIME)
        await world.until(lambda: snapshots(world) == {})
        assert {len(names) for _, names in contents(world).values()} == {0}


async def test_the_snapshots_are_deleted_once_the_last_cluster_has_moved_on():
    async with running() as world:
        await stop_at_the_first_cluster(world)
        await delete_override(world)
        await finish(world)
        await world.until(lambda: snapshots(world) == {})
        writes = world.hub.writes
        world.again()
        await world.until(lambda: True)
        assert world.hub.writes == writes


async def test_an_override_that_is_recreated_unchanged_is_in_force_where_it_still_is():
    async with running() as world:
        await stop_at_the_first_cluster(world)
        await delete_override(world)
        await world.add(make_override("own", ADDS))
        await world.until(lambda: snapshots(world) == {"own-0": True})
        assert contents(world) == {"a": ("p-1-snapshot", ["own-0"]), **WAITING}
        await finish(world)
        assert [await placed(world, cluster) for cluster in "abc"] == [{"value": "3", "zone": "new"}] * 3


async def test_an_override_that_is_recreated_with_another_spec_gets_the_next_index():
    async with running() as world:
        await stop_at_the_first_cluster(world)
        await delete_override(world)
        await world.add(make_override("own", ADDS_OTHER))
        await world.until(lambda: contents(world)["a"] == ("p-1-snapshot", ["own-1"]))
        assert snapshots(world) == {"own-0": False, "own-1": True}
        assert contents(world) == {"a": ("p-1-snapshot", ["own-1"]), **WAITING}
        await finish(world)
        assert [await placed(world, cluster) for cluster in "abc"] == [{"value": "3", "zone": "other"}] * 3


async def test_snapshots_older_than_the_history_remain_while_clusters_wait_with_them():
    async with running() as world:
        await stop_at_the_first_cluster(world)
        for number in range(12):
            policy = {"overrideRules": [rule(str(number), path="/data/zone")]}
            await world.change(NAMESPACED_OVERRIDE, "own", "shop", policy=policy)
            await world.until(lambda number=number: snapshots(world).get(f"own-{number + 1}"))
        remaining = {"own-0", *(f"own-{index}" for index in range(3, 13))}
        await world.until(lambda: snapshots(world).keys() == remaining)
        assert contents(world) == {"a": ("p-1-snapshot", ["own-12"]), **WAITING}
        await finish(world)
        await world.until(lambda: len(snapshots(world)) == 10)
        assert snapshots(world)["own-12"]


@pytest.mark.parametrize("namespace", NAMESPACES)
async def test_an_override_that_loses_its_finalizer_has_no_latest_snapshot_either(namespace):
    """As after a deletion while no controller was running, or from a backup that lacks the override."""
    async with running() as world:
        kind, _ = kinds_in(namespace)
        await world.add(make(namespace))
        await world.until(lambda: snapshots(world, namespace) == {"own-0": True})
        world.mortal.writes_left = 0
        free = {"finalizers": []}
        await edit(world.store, kind, Key("own", namespace), lambda it: {**it, "metadata": {**it["metadata"], **free}})
        await world.store.delete(kind, Key("own", namespace))
        await world.restart()
        await world.until(lambda: snapshots(world, namespace) == {"own-0": False})
        await world.until(lambda: snapshots(world, namespace) == {})


async def test_a_run_applies_the_overrides_that_it_was_started_with():
    async with staged() as world:
        await world.add(make_override("own", ADDS))
        await world.until(lambda: snapshots(world) == {"own-0": True})
        await world.add(make_run("r"))
        await world.until(lambda: contents(world)["t2"] == ("p-0-snapshot", ["own-0"]))
        await delete_override(world)
        await world.add(make_override("own", ADDS_OTHER))
        await world.until(lambda: snapshots(world) == {"own-0": False, "own-1": True})
        await approve(world, "r-after-test")
        await world.until(lambda: said(world, "Succeeded") != "")
        assert [await placed(world, cluster) for cluster in ("t1", "v3")] == [{"value": "1", "zone": "new"}] * 2
        assert "own-0" in snapshots(world)


async def test_a_run_that_is_undone_after_the_override_is_gone_does_without_it():
    """Overrides are not rolled back: the older content is placed with those that exist now."""
    async with staged(make_stage("test"), make_stage("live")) as world:
        await world.add(make_override("own", ADDS))
        await world.until(lambda: snapshots(world) == {"own-0": True})
        await world.add(make_run("first"))
        await world.until(lambda: said(world, "Succeeded", "first") != "")
        await release(world, "2")
        await world.add(make_run("second"))
        await world.until(lambda: said(world, "Succeeded", "second") != "")
        assert set(map(str, contents(world).values())) == {str(("p-1-snapshot", ["own-0"]))}
        await delete_override(world)
        assert snapshots(world) == {"own-0": False}
        undone = undo(run_of(world, "second"), RunSituation(RunPhase.SUCCEEDED), world.cache.list(STAGED_RUN), [0, 1])
        await world.store.create(STAGED_RUN, undone)
        await world.until(lambda: said(world, "Succeeded", name_of(undone)) != "")
        assert set(map(str, contents(world).values())) == {str(("p-0-snapshot", []))}
        assert await placed(world, "v3") == {"value": "1"}
        await world.until(lambda: snapshots(world) == {})
