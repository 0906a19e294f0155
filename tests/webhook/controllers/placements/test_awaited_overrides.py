"""Overrides without a snapshot: the rollout waits for it, so that no member gets what the override deletes."""

from contextlib import asynccontextmanager

import pytest

from scorer.api.kinds import NAMESPACED_OVERRIDE, NAMESPACED_OVERRIDE_SNAPSHOT, STAGED_RUN
from scorer.api.names import SNAPSHOT_REFUSED
from scorer.api.unstructured.documents import annotation, current_condition
from tests.builders.placement import make_placement
from tests.waiting import until
from tests.webhook.controllers.placements.confirmed_world import (
    CONFIG_MAP,
    DATABASE,
    MEMBERS,
    STATEFUL_SET,
    bindings,
    dropping,
    is_available,
    make_database,
    on_members,
)
from tests.webhook.controllers.staged_world import make_run, staged
from tests.webhook.controllers.world import held_up, make_config_map, make_member, running
from tests.webhook.edits import edit
from webhook.kube.ports import ForbiddenError, Key

OVERRIDE_KEY = Key("no-db", "shop")
MESSAGE = "waits for the snapshot of ResourceOverride shop/no-db"
ALL_WAIT = dict.fromkeys(MEMBERS, MESSAGE)
"""The messages of a placement whose clusters all wait for the snapshot."""


@asynccontextmanager
async def joined_members():
    """Run a hub with a database and a ConfigMap that no placement selects yet."""
    async with running() as world:
        await world.add(*map(make_member, MEMBERS), make_database(), make_config_map("c0"))
        await world.until(lambda: all(map(world.has_joined, MEMBERS)))
        yield world


def messages(world):
    """Return the message of RolloutStarted by the cluster of the binding, None where it is not set yet."""
    return {
        cluster: (current_condition(binding, "RolloutStarted") or {}).get("message")
        for cluster, binding in bindings(world).items()
    }


def for_any_placement(override):
    return {**override, "spec": {field: value for field, value in override["spec"].items() if field != "placement"}}


@pytest.mark.parametrize(
    "override",
    [
        pytest.param(dropping("no-db", DATABASE), id="for-one-placement"),
        pytest.param(for_any_placement(dropping("no-db", DATABASE)), id="for-any-placement"),
    ],
)
async def test_a_new_placement_waits_for_the_snapshot_of_its_override(override):
    """Otherwise members get the database, and its removal waits for a confirmation."""
    async with joined_members() as world:
        async with held_up(world.loop.queues["override"]):
            await world.add(override, make_placement())
            await until(lambda: messages(world) == ALL_WAIT)
            assert not world.works()
        await world.until(lambda: is_available(world))
        assert await on_members(world, STATEFUL_SET, "db") == []
        assert await on_members(world, CONFIG_MAP, "c0") == list(MEMBERS)
        assert not world.events("RemovalPending")


async def test_an_override_that_is_deleted_before_its_first_snapshot_is_not_awaited():
    async with joined_members() as world:
        async with held_up(world.loop.queues["override"]):
            await world.add(for_any_placement(dropping("no-db", DATABASE)), make_placement())
            await until(lambda: messages(world) == ALL_WAIT)
            await world.store.delete(NAMESPACED_OVERRIDE, OVERRIDE_KEY)
            await until(lambda: is_available(world))
        assert await on_members(world, STATEFUL_SET, "db") == list(MEMBERS)


async def test_a_snapshot_that_the_api_server_refuses_is_explained_and_awaited(monkeypatch):
    async with joined_members() as world:
        create = world.store.create

        async def create_others(kind, document, **options):
            if kind == NAMESPACED_OVERRIDE_SNAPSHOT:
                raise ForbiddenError("exceeded quota: objects")
            return await create(kind, document, **options)

        with monkeypatch.context() as patched:
            patched.setattr(world.store, "create", create_others)
            await world.add(dropping("no-db", DATABASE), make_placement())
            await world.until(lambda: any("exceeded quota: objects" in note for note in world.events("OverrideFailed")))
            await world.until(lambda: messages(world) == dict.fromkeys(MEMBERS, f"{MESSAGE} (exceeded quota: objects)"))
            assert not world.works()
        await world.until(lambda: is_available(world))
        assert annotation(world.cache.get(NAMESPACED_OVERRIDE, "no-db", "shop"), SNAPSHOT_REFUSED) == ""
        assert await on_members(world, STATEFUL_SET, "db") == []


async def test_an_override_that_cannot_have_a_snapshot_stops_the_rollout_until_it_is_deleted():
    async with joined_members() as world:
        await world.add(dropping("n" * 64, DATABASE), make_placement())
        await world.until(lambda: any("must have at most 63" in str(message) for message in messages(world).values()))
        assert any("must have at most 63" in note for note in world.events("OverrideWithoutSnapshot"))
        assert not world.works()
        await world.store.delete(NAMESPACED_OVERRIDE, Key("n" * 64, "shop"))
        await world.until(lambda: is_available(world))


async def test_new_content_waits_for_the_snapshot_of_an_edited_override():
    async with joined_members() as world:
        await world.add(dropping("no-db", {**DATABASE, "name": "other"}), make_placement())
        await world.until(lambda: is_available(world))
        async with held_up(world.loop.queues["override"]):
            present = messages(world)
            await edit(
                world.store,
                NAMESPACED_OVERRIDE,
                OVERRIDE_KEY,
                lambda override: {**override, "spec": dropping("no-db", {**DATABASE, "name": "second"})["spec"]},
            )
            await world.add(make_config_map("c1"))
            await until(lambda: world.condition("shop", "RolloutStarted").get("status") == "True")
            assert messages(world) == present, "the override matches no object yet"
            await world.add(make_database("second"))
            await until(lambda: messages(world) == ALL_WAIT)
        await world.until(lambda: is_available(world))
        assert await on_members(world, STATEFUL_SET, "second") == []
        assert await on_members(world, CONFIG_MAP, "c1") == list(MEMBERS)
        assert not world.events("RemovalPending")


async def test_a_run_is_initialized_with_the_override_that_was_created_before_it():
    async with staged() as world:
        async with held_up(world.loop.queues["override"]):
            rates = {"group": "", "version": "v1", "kind": "ConfigMap", "name": "rates"}
            override = dropping("no-db", rates)
            await world.add({**override, "spec": {**override["spec"], "placement": {"name": "p", "scope": "Cluster"}}})
            attempts = world.loop.queues["staged_update"].reconciled
            await world.add(make_run("r"))
            await until(lambda: world.loop.queues["staged_update"].reconciled > attempts + 1)
        await world.until(lambda: (world.cache.get(STAGED_RUN, "r").get("status") or {}).get("stagesStatus"))
        (stage, *_) = world.cache.get(STAGED_RUN, "r")["status"]["stagesStatus"]
        assert [cluster["resourceOverrideSnapshots"] for cluster in stage["clusters"]] == [
            [{"name": "no-db-0", "namespace": "shop"}] for _ in stage["clusters"]
        ]
