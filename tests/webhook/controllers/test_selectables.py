"""Only the kinds that placements select are watched; what may not be read is said, and takes nothing away."""

import pytest

from scorer.api.kinds import KINDS, PLACEMENT
from tests.webhook.controllers.world import CONFIG_MAP, make_member, make_placement, running
from webhook.kube.ports import ForbiddenError, Key

SECRET, STORAGE_CLASS = KINDS["", "Secret"], KINDS["storage.k8s.io", "StorageClass"]
MACHINES = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": "machines.example.com"},
    "spec": {
        "group": "example.com",
        "scope": "Namespaced",
        "names": {"kind": "Machine", "plural": "machines"},
        "versions": [{"name": "v1", "served": True, "storage": True}],
    },
}


def secret(name="key", namespace="shop"):
    metadata = {"name": name, "namespace": namespace}
    return {"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "type": "Opaque", "data": {"k": "dg=="}}


def selecting(placement, kind, **term):
    made = make_placement(placement)
    group, _, version = kind.api_version.rpartition("/")
    made["spec"]["resourceSelectors"] = [{"group": group, "version": version, "kind": kind.kind, **term}]
    return made


def scheduled(world, name):
    return world.condition(name, "Scheduled")


def selected(world, name):
    found = world.cache.get(PLACEMENT, name).get("status", {}).get("selectedResources") or ()
    return {(item["kind"], item["name"]) for item in found}


async def test_a_kind_is_watched_while_a_placement_selects_it():
    async with running() as world:
        await world.until(lambda: world.cache.synced)
        assert not world.cache.watches(STORAGE_CLASS)
        await world.add(make_member("a"))
        await world.add(selecting("one", STORAGE_CLASS), selecting("two", STORAGE_CLASS, name="fast"))
        await world.until(lambda: scheduled(world, "two").get("status") == "True")
        assert world.cache.watches(STORAGE_CLASS)
        assert not world.cache.watches(CONFIG_MAP)
        for name in ("one", "two"):
            assert world.cache.watches(STORAGE_CLASS)
            await world.store.delete(PLACEMENT, Key(name))
            await world.until(lambda name=name: world.cache.get(PLACEMENT, name) is None)
        assert not world.cache.watches(STORAGE_CLASS)


async def test_a_kind_that_others_watch_too_stays():
    async with running() as world:
        world.cache.require([STORAGE_CLASS])
        await world.add(selecting("one", STORAGE_CLASS))
        await world.until(lambda: bool(scheduled(world, "one")))
        await world.store.delete(PLACEMENT, Key("one"))
        await world.until(lambda: world.cache.get(PLACEMENT, "one") is None)
        assert world.cache.watches(STORAGE_CLASS)


async def test_a_kind_that_is_defined_later_is_found():
    async with running() as world:
        await world.add(make_member("a"), make_placement("p"))
        await world.until(lambda: world.view("p")["state"] == "available")
        await world.add(MACHINES)
        kind = world.store.kinds.find("example.com", "Machine")
        await world.until(lambda: world.cache.watches(kind))
        machine = {"apiVersion": "example.com/v1", "kind": "Machine", "metadata": {"name": "m", "namespace": "shop"}}
        await world.store.create(kind, machine)
        await world.until(lambda: ("Machine", "m") in selected(world, "p"))


async def test_a_term_for_a_kind_that_is_defined_later_works_then():
    async with running() as world:
        term = make_placement("p")
        term["spec"]["resourceSelectors"] = [
            {
                "group": "",
                "version": "v1",
                "kind": "Namespace",
                "name": "shop",
                "selectionScope": "NamespaceWithResourceSelectors",
            },
            {"group": "example.com", "version": "v1", "kind": "Machine"},
        ]
        await world.add(make_member("a"), term)
        await world.until(lambda: scheduled(world, "p").get("reason") == "InvalidResourceSelectors")
        assert "the hub serves no Machine of group 'example.com'" in scheduled(world, "p")["message"]
        await world.add(MACHINES)
        await world.until(lambda: scheduled(world, "p").get("status") == "True")


@pytest.fixture
def closed(monkeypatch):
    """Kinds that may not be read, by kind."""
    kinds = {}

    def close(world, kind):
        store_list = world.store.list

        async def listing(asked, namespace=None, labels=None):
            if kinds.get(asked.kind):
                raise ForbiddenError(f"{asked.plural} is forbidden: harbormaster cannot list it")
            return await store_list(asked, namespace, labels)

        monkeypatch.setattr(world.store, "list", listing)
        kinds[kind.kind] = True
        return kinds

    return close


async def test_a_named_kind_that_may_not_be_read_is_said(closed):
    async with running() as world:
        closed(world, STORAGE_CLASS)
        await world.add(selecting("one", STORAGE_CLASS))
        await world.until(lambda: bool(scheduled(world, "one")))
        condition = scheduled(world, "one")
        assert (condition["status"], condition["reason"]) == ("False", "InvalidResourceSelectors")
        assert condition["message"] == (
            "harbormaster may not read StorageClass objects on the hub: "
            "storageclasses is forbidden: harbormaster cannot list it"
        )


async def test_a_kind_in_a_namespace_that_may_not_be_read_is_left_out(closed):
    async with running() as world:
        closed(world, SECRET)
        await world.add(secret(), make_member("a"), make_placement("p"))
        await world.until(lambda: world.view("p")["state"] == "available")
        assert selected(world, "p") == {("Namespace", "shop"), ("ConfigMap", "rates")}


async def test_a_lost_right_takes_nothing_away():
    """After a restart without the right to read Secrets, those that are placed stay placed."""
    async with running() as world:
        await world.add(secret(), make_member("a"), make_placement("p"))
        await world.until(lambda: world.view("p")["state"] == "available")
        shelf = world.cache.shelf(SECRET)
        shelf.refusal = "secrets is forbidden"
        for document in list(shelf.objects.values()):
            shelf.drop(document)
        await world.until(lambda: scheduled(world, "p").get("reason") == "InvalidResourceSelectors")
        assert "may not read Secret objects" in scheduled(world, "p")["message"]
        assert ("Secret", "key") in selected(world, "p")
        assert await world.on_member("a", SECRET, "key", "shop") is not None
