"""Attacks on confirmation by objects that are renamed, copied, created again or restored, and by concurrent writers.

`tests.webhook.controllers.removals.test_attacks` has routes by labels, records and clocks.
"""

import shutil
from datetime import timedelta
from functools import partial

import pytest

from scorer.api.kinds import CUSTOM_RESOURCE_DEFINITION, KINDS, PLACEMENT, RESOURCE_SNAPSHOT
from scorer.api.names import CARRIED_OUT, CONFIRM_REMOVAL, IS_LATEST_SNAPSHOT
from scorer.api.unstructured.documents import annotation, metadata_of, with_metadata, with_spec
from scorer.rollout.confirmation.policy import KindPattern, RemovalPolicy
from tests.builders.placement import make_placement, namespace_term
from tests.virtual_time import loop_now
from tests.waiting import until
from tests.webhook.controllers.placements.confirmed_world import (
    AT_ONCE,
    DATABASE,
    MEMBERS,
    STATEFUL_SET,
    confirm,
    confirming,
    delete,
    digests,
    is_available,
    make_database,
    on_members,
    pending,
)
from tests.webhook.controllers.world import running
from tests.webhook.edits import edit
from webhook.kube.ports import Key

ENVELOPE = KINDS["placement.kubernetes-fleet.io", "ResourceEnvelope"]
EVERYWHERE = list(MEMBERS)


async def annotate(world, name, **annotations):
    await edit(world.store, PLACEMENT, Key(name), lambda it: with_metadata(it, annotations=annotations))


async def lose_database(world, name="shop"):
    await delete(world, STATEFUL_SET, "db", "shop")
    await world.until(lambda: pending(world, name))


def make_envelope(name, *contents):
    data = {content["metadata"]["name"]: content for content in contents}
    metadata = {"name": name, "namespace": "shop"}
    return {"apiVersion": ENVELOPE.api_version, "kind": ENVELOPE.kind, "metadata": metadata, "data": data}


async def uids(world, kind, name):
    """Return the uid of an object on each member. Created again, it has another."""
    found = [await world.on_member(member, kind, name, "shop") for member in MEMBERS]
    return [each and metadata_of(each)["uid"] for each in found]


@pytest.mark.parametrize("is_first_deleted", [False, True], ids=["created-first", "deleted-first"])
async def test_a_renamed_envelope_keeps_its_content(is_first_deleted):
    """The entries are the same objects. Between both writes, nothing leaves a member unconfirmed."""
    async with confirming() as world:
        await world.add(make_envelope("crate", make_database("wrapped")))
        await until(lambda: on_members(world, STATEFUL_SET, "wrapped"))
        await world.until(lambda: is_available(world))
        before = await uids(world, STATEFUL_SET, "wrapped")
        renamed = make_envelope("box", make_database("wrapped"))
        if is_first_deleted:
            await delete(world, ENVELOPE, "crate", "shop")
            await world.until(lambda: pending(world))
            await world.add(renamed)
        else:
            await world.add(renamed)
            await delete(world, ENVELOPE, "crate", "shop")
        await world.until(lambda: not pending(world) and is_available(world))
        assert await uids(world, STATEFUL_SET, "wrapped") == before


async def test_a_confirmation_copied_to_another_placement_confirms_nothing_there():
    async with confirming() as world:
        other = make_placement("dock", home="dock", strategy=AT_ONCE)
        await world.add(make_database("db", "dock"), other)
        await world.until(lambda: is_available(world, "dock"))
        await lose_database(world)
        await delete(world, STATEFUL_SET, "db", "dock")
        await world.until(lambda: pending(world, "dock"))
        await confirm(world)
        await world.until(lambda: not pending(world))
        stored = world.cache.get(PLACEMENT, "shop")
        copied = {each: annotation(stored, each) for each in (CONFIRM_REMOVAL, CARRIED_OUT)}
        await annotate(world, "dock", **copied)
        await world.until(lambda: pending(world, "dock"))
        assert await on_members(world, STATEFUL_SET, "db", "dock") == EVERYWHERE


async def test_a_placement_created_again_while_a_removal_is_pending_does_not_carry_it_out():
    async with confirming() as world:
        await lose_database(world)
        abandon = {"deleteStrategy": {"propagationPolicy": "Abandon"}}
        await edit(world.store, PLACEMENT, Key("shop"), lambda it: with_spec(it, strategy=abandon))
        stored = world.cache.get(PLACEMENT, "shop")
        await delete(world, PLACEMENT, "shop")
        await world.until(lambda: world.cache.get(PLACEMENT, "shop") is None)
        again = make_placement(strategy=AT_ONCE)
        await world.add(with_metadata(again, annotations=metadata_of(stored).get("annotations", {})))
        await world.until(lambda: is_available(world))
        assert await on_members(world, STATEFUL_SET, "db") == EVERYWHERE


async def test_a_definition_created_again_makes_other_objects():
    """The digest of an object that was deleted with its definition does not cover the object that follows it."""
    definition = {
        "apiVersion": CUSTOM_RESOURCE_DEFINITION.api_version,
        "kind": CUSTOM_RESOURCE_DEFINITION.kind,
        "metadata": {"name": "machines.example.com"},
        "spec": {
            "group": "example.com",
            "scope": "Namespaced",
            "names": {"kind": "Machine", "plural": "machines"},
            "versions": [{"name": "v1", "served": True, "storage": True}],
        },
    }
    machine = {"apiVersion": "example.com/v1", "kind": "Machine", "metadata": {"name": "m", "namespace": "shop"}}
    terms = [namespace_term("shop"), {**definition_term(), "name": "machines.example.com"}]
    policy = RemovalPolicy(kinds=(KindPattern.parse("Machine.example.com"),))
    async with confirming(placement=make_placement(selectors=terms, strategy=AT_ONCE), removal=policy) as world:

        async def define():
            await world.add(definition)
            kind = world.store.kinds.find("example.com", "Machine")
            await world.store.create(kind, machine)
            await world.until(lambda: "Machine" in str(world.cache.get(PLACEMENT, "shop")["status"]))
            await until(lambda: is_placed(world, kind))
            return kind

        async def is_placed(world, kind):
            return await on_members(world, kind, "m") == EVERYWHERE

        kind = await define()
        await delete(world, CUSTOM_RESOURCE_DEFINITION, "machines.example.com")
        await world.until(lambda: "Machine" in pending(world).get("message", ""))
        before = set(digests(world))
        await define()
        await world.until(lambda: not pending(world))
        await confirm(world, *before)
        await delete(world, kind, "m", "shop")
        await world.until(lambda: "Machine" in pending(world).get("message", ""))
        assert not before & set(digests(world))
        assert await is_placed(world, kind)


def definition_term():
    return {"group": "apiextensions.k8s.io", "version": "v1", "kind": "CustomResourceDefinition"}


async def test_a_hub_restored_from_a_backup_forgets_no_pending_removal(tmp_path):
    """What users did since the backup is lost with it: the removal is pending again, whatever ended it."""
    data, backup = tmp_path / "data", tmp_path / "backup.db"
    async with confirming(data=data) as world:
        await lose_database(world)
    shutil.copy(data / "hub.db", backup)
    async with running(data) as world:
        await world.add(make_database())
        await world.until(lambda: not pending(world) and is_available(world))
    for each in data.glob("hub.db*"):
        each.unlink()
    shutil.copy(backup, data / "hub.db")
    async with running(data) as world:
        world.again()
        await world.until(lambda: pending(world))
        assert await on_members(world, STATEFUL_SET, "db") == EVERYWHERE


async def test_an_earlier_snapshot_labelled_as_the_latest_removes_nothing():
    """The loop has not judged the step back to it."""
    async with confirming() as world:
        await world.add(make_database("later"))
        await until(lambda: on_members(world, STATEFUL_SET, "later"))
        await world.until(lambda: is_available(world))
        for name, is_latest in (("shop-0-snapshot", "true"), ("shop-1-snapshot", "false")):
            labels = {IS_LATEST_SNAPSHOT: is_latest}
            relabelled = partial(with_metadata, labels=labels)
            await edit(world.store, RESOURCE_SNAPSHOT, Key(name), relabelled)
        await delete(world, STATEFUL_SET, "later", "shop")
        await world.until(lambda: pending(world))
        assert await on_members(world, STATEFUL_SET, "later") == EVERYWHERE


async def test_a_confirmation_withdrawn_while_the_loop_records_it_confirms_nothing():
    """The loop records on the version that it has judged. It judges again when another client was faster."""
    async with confirming() as world:
        await lose_database(world)
        withdrawn = []

        async def withdraw(_verb, kind, subject):
            if kind == PLACEMENT and not withdrawn and CARRIED_OUT in str(subject):
                withdrawn.append(subject)
                await annotate(world, "shop", **{CONFIRM_REMOVAL: None})

        world.mortal.before_write = withdraw
        await confirm(world)
        await until(lambda: withdrawn)
        await world.until(lambda: pending(world))
        assert await on_members(world, STATEFUL_SET, "db") == EVERYWHERE


async def test_an_object_of_two_placements_remains_when_one_of_them_drops_it():
    """The other one has placed it. Even confirmed, the removal takes nothing from that."""
    async with confirming() as world:
        before = await uids(world, STATEFUL_SET, "db")
        scoped = {**namespace_term("shop"), "selectionScope": "NamespaceWithResourceSelectors"}
        await world.add(make_placement("second", selectors=[scoped, DATABASE], strategy=AT_ONCE))
        await world.until(lambda: world.condition("second", "Applied").get("status") == "False")
        home = [{**namespace_term("shop"), "selectionScope": "NamespaceOnly"}]
        await edit(world.store, PLACEMENT, Key("second"), lambda it: with_spec(it, resourceSelectors=home))
        await world.until(lambda: pending(world, "second"))
        await confirm(world, name="second")
        await world.until(lambda: not pending(world, "second"))
        assert await uids(world, STATEFUL_SET, "db") == before
        await lose_database(world)
        assert await uids(world, STATEFUL_SET, "db") == before


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("{}@2026-11-30T00:00:00Z", id="braces"),
        pytest.param("\N{FULLWIDTH DIGIT ONE}" * 20 + "@{expiry}", id="full-width-digits"),
        pytest.param("\N{RIGHT-TO-LEFT OVERRIDE}{digest}@{expiry}", id="right-to-left"),
        pytest.param("{digest}\N{ZERO WIDTH SPACE}@{expiry}", id="zero-width-space"),
        pytest.param("{digest}@{expiry}\N{NULL}", id="null"),
        pytest.param("{digest}," + "0" * 200_000 + "@{expiry}", id="oversize"),
        pytest.param(",".join(["f" * 20] * 10_000) + "@{expiry}", id="ten-thousand-digests"),
    ],
)
async def test_a_confirmation_of_nonsense_confirms_nothing_and_stops_nothing(text):
    async with confirming() as world:
        await lose_database(world)
        expiry = (loop_now() + timedelta(hours=1)).strftime("%Y-%m-%dT%H:%M:%SZ")
        nonsense = text.replace("{digest}", digests(world)[0]).replace("{expiry}", expiry)
        await annotate(world, "shop", **{CONFIRM_REMOVAL: nonsense})
        await world.until(lambda: pending(world))
        assert await on_members(world, STATEFUL_SET, "db") == EVERYWHERE
        await confirm(world, digests(world)[0])
        await world.until(lambda: not pending(world))
