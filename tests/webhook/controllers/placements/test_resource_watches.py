"""Only the kinds that placements select are watched; what may not be read is said, and takes nothing away."""

import asyncio
from contextlib import asynccontextmanager
from datetime import timedelta

import pytest

from scorer.api.family import PlacementRef
from scorer.api.kinds import CUSTOM_RESOURCE_DEFINITION, KINDS, NAMESPACE, PLACEMENT, RESOURCE_SNAPSHOT
from scorer.rollout.ownership.objects import EVIDENCE
from scorer.rollout.selection.exclusions import HOME
from tests.builders.placement import make_placement
from tests.waiting import PATIENCE_SECONDS
from tests.webhook.controllers.world import CONFIG_MAP, make_member, running
from webhook.controllers.placements import resource_watches
from webhook.kube.ports import ForbiddenError, Key, RetryError, UnavailableError

EVENT = KINDS["events.k8s.io", "Event"]
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


@pytest.mark.parametrize(
    ("kind", "evidence"), [pytest.param(KINDS[kind], other, id=kind[1]) for kind, other in EVIDENCE.items()]
)
async def test_a_kind_that_shows_the_origin_of_a_selected_one_is_watched_too(kind, evidence):
    async with running() as world:
        made = selecting("web", kind)
        scope = {"selectionScope": "NamespaceWithResourceSelectors"}
        made["spec"]["resourceSelectors"] += [
            {"group": "", "version": "v1", "kind": "Namespace", "name": "shop", **scope}
        ]
        await world.add(made)
        await world.until(lambda: scheduled(world, "web"))
        assert world.cache.watches(evidence)


@pytest.mark.parametrize("kind", [CONFIG_MAP, SECRET], ids=str)
async def test_data_in_the_namespace_of_the_installation_is_not_held_in_memory(kind):
    """The history alone takes up to 16 MiB there."""
    async with running() as world:
        own, users = (
            {**secret(namespace=namespace), "apiVersion": "v1", "kind": kind.kind} for namespace in (HOME, "shop")
        )
        await world.add(make_member("a"), own, users, selecting("one", NAMESPACE, name="shop"))
        await world.until(lambda: scheduled(world, "one").get("status") == "True")
        assert "data" not in world.cache.get(kind, "key", HOME)
        await world.store.replace(kind, {**await world.store.get(kind, Key("key", HOME)), "data": {"k": "ZA=="}})
        await world.until(lambda: (kind.kind, "key") in selected(world, "one"))
        assert "data" not in world.cache.get(kind, "key", HOME)
        assert world.cache.get(kind, "key", "shop")["data"] == {"k": "dg=="}


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

    def close(world, kind, error=ForbiddenError):
        store_list = world.store.list

        async def listing(asked, namespace=None, labels=None):
            if kinds.get(asked.kind):
                raise error(f"{asked.plural} is forbidden: harbormaster cannot list it")
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
            "harbormaster cannot read StorageClass objects on the hub: "
            "storageclasses is forbidden: harbormaster cannot list it"
        )


async def test_a_kind_in_a_namespace_that_may_not_be_read_is_left_out(closed):
    async with running() as world:
        closed(world, SECRET)
        await world.add(secret(), make_member("a"), make_placement("p"))
        await world.until(lambda: world.view("p")["state"] == "available")
        assert selected(world, "p") == {("Namespace", "shop"), ("ConfigMap", "rates")}
        await world.until(lambda: left_out(world) != [])
        assert left_out(world) == [
            "objects of these kinds are not placed: Secret: secrets is forbidden: harbormaster cannot list it"
        ]


def left_out(world) -> list[str]:
    """What Events say of kinds that are not placed."""
    return [each["note"] for each in world.store.objects(EVENT) if each["reason"] == "PlacementKindsNotRead"]


async def test_a_lost_right_takes_nothing_away():
    """After a restart without the right to read Secrets, those that are placed stay placed."""
    async with running() as world:
        await world.add(secret(), make_member("a"), make_placement("p"))
        await world.until(lambda: world.view("p")["state"] == "available")
        shelf = world.cache.of_kind(SECRET)
        shelf.refusal = "secrets is forbidden"
        for document in list(shelf.objects.values()):
            shelf.drop(document)
        await world.until(lambda: scheduled(world, "p").get("reason") == "InvalidResourceSelectors")
        assert "cannot read Secret objects" in scheduled(world, "p")["message"]
        assert ("Secret", "key") in selected(world, "p")
        assert await world.on_member("a", SECRET, "key", "shop") is not None


@pytest.fixture
def fast(monkeypatch):
    """Short times, for what is waited for in minutes."""
    monkeypatch.setattr("webhook.kube.cache.informer._RETRY_SECONDS", (0.05,))
    monkeypatch.setattr("webhook.controllers.placements.resource_watches.ANSWER_SECONDS", 0.1)
    monkeypatch.setattr("webhook.controllers.placements.resource_watches.PATIENCE_SECONDS", 0.5)
    monkeypatch.setattr("webhook.controllers.placements.resource_watches.REFRESH_SECONDS", 0.05)
    monkeypatch.setattr("webhook.controllers.placements.resource_watches.RETRY_INTERVAL", timedelta(milliseconds=50))
    monkeypatch.setattr("webhook.controllers.placements.placement.POLL_INTERVAL", timedelta(seconds=0.1))


class Forgetful:
    """The kinds of a hub that loses sight of some of them, as an API server that is just starting."""

    def __init__(self, served):
        self.served = served
        self.lost = set()
        self.silent = frozenset()

    @property
    def kinds(self):
        return {identity: kind for identity, kind in self.served.kinds.items() if identity not in self.lost}

    async def refresh(self):
        await self.served.refresh()


@asynccontextmanager
async def placed_machine():
    """A world in which a Machine has been placed with its namespace, and what tells its hub's kinds."""
    async with running() as world:
        selectables = world.selectables
        served = selectables.served = Forgetful(selectables.served)
        await world.add(MACHINES, make_member("a"), make_placement("p"))
        kind = world.store.kinds.find("example.com", "Machine")
        machine = {"apiVersion": "example.com/v1", "kind": "Machine", "metadata": {"name": "m", "namespace": "shop"}}
        await world.store.create(kind, machine)
        await world.until(lambda: ("Machine", "m") in selected(world, "p"))
        yield world, served


async def look_again(world, name="p"):
    """Have a placement select once more."""
    done = world.loop.queues["placement"].reconciled + 3
    async with asyncio.timeout(PATIENCE_SECONDS):
        while world.loop.queues["placement"].reconciled < done:
            world.loop.queues["placement"].add(PlacementRef(PLACEMENT.kind, name))
            await asyncio.sleep(0.02)


async def test_what_is_placed_stays_while_the_hub_does_not_name_its_kind():
    """An API server that starts names kinds of definitions and of other servers only a little later."""
    async with placed_machine() as (world, served):
        served.lost = {("example.com", "Machine")}
        await look_again(world)
        assert ("Machine", "m") in selected(world, "p")
        assert len(world.cache.list(RESOURCE_SNAPSHOT)) <= 2
        served.lost = set()
        await world.change(PLACEMENT, "p", revisionHistoryLimit=3)
        await world.until(lambda: scheduled(world, "p").get("observedGeneration") == 2)
        assert ("Machine", "m") in selected(world, "p")


@pytest.mark.usefixtures("fast")
async def test_a_kind_that_is_defined_is_never_taken_for_gone():
    async with placed_machine() as (world, served):
        served.lost = {("example.com", "Machine")}
        await world.until(lambda: True)
        world.loop.queues["placement"].add(PlacementRef(PLACEMENT.kind, "p"))
        await world.until(lambda: scheduled(world, "p").get("reason") == "InvalidResourceSelectors")
        assert "the hub does not serve" in scheduled(world, "p")["message"]
        assert ("Machine", "m") in selected(world, "p")
        served.lost = set()  # nothing tells of it: it is looked for
        await world.until(lambda: scheduled(world, "p").get("status") == "True")


@pytest.mark.usefixtures("fast")
async def test_a_kind_whose_definition_is_deleted_goes_with_its_objects():
    async with placed_machine() as (world, _):
        await world.store.delete(CUSTOM_RESOURCE_DEFINITION, Key("machines.example.com"))
        await world.until(lambda: ("Machine", "m") not in selected(world, "p"))
        await world.until(lambda: world.view("p")["state"] == "available")


@pytest.mark.usefixtures("fast")
async def test_a_kind_that_is_gone_for_long_and_defined_nowhere_is_believed_to_be_gone():
    """An aggregated API that was taken away."""
    async with placed_machine() as (world, served):
        served.lost = {("", "ConfigMap")}
        world.loop.queues["placement"].add(PlacementRef(PLACEMENT.kind, "p"))
        await world.until(lambda: ("ConfigMap", "rates") not in selected(world, "p"))


@pytest.mark.usefixtures("fast")
async def test_a_kind_that_does_not_answer_holds_up_nothing_that_does_without_it(closed):
    async with running() as world:
        kinds = closed(world, SECRET, UnavailableError)
        homes = ("shop", "dock", "quay")
        await world.add(secret(), make_member("a"), *(make_placement(home, home=home) for home in homes))
        await world.until(lambda: all(world.view(home)["state"] == "available" for home in homes))
        assert selected(world, "shop") == {("Namespace", "shop"), ("ConfigMap", "rates")}
        kinds["Secret"] = False  # nothing else changes: what was left out is looked for
        await world.until(lambda: ("Secret", "key") in selected(world, "shop"))


@pytest.mark.usefixtures("fast")
async def test_what_is_placed_stays_while_its_kind_does_not_answer(closed):
    """After a restart, when a kind cannot be listed for a while."""
    async with running() as world:
        await world.add(secret(), make_member("a"), make_placement("p"))
        await world.until(lambda: ("Secret", "key") in selected(world, "p"))
        kinds = closed(world, SECRET, UnavailableError)
        world.selectables.end()
        await look_again(world)
        assert ("Secret", "key") in selected(world, "p")
        assert await world.on_member("a", SECRET, "key", "shop") is not None
        await world.until(lambda: scheduled(world, "p").get("reason") == "InvalidResourceSelectors")
        kinds["Secret"] = False
        await world.until(lambda: scheduled(world, "p").get("status") == "True")
        assert ("Secret", "key") in selected(world, "p")


async def test_a_kind_that_moves_to_another_version_is_watched_there():
    """Else its objects would stay as they were, for ever."""
    async with placed_machine() as (world, _):
        stored = await world.store.get(CUSTOM_RESOURCE_DEFINITION, Key("machines.example.com"))
        versions = [{"name": "v2", "served": True, "storage": True}]
        await world.store.replace(
            CUSTOM_RESOURCE_DEFINITION, {**stored, "spec": {**stored["spec"], "versions": versions}}
        )
        await world.until(
            lambda: world.cache.of_kind(world.store.kinds.find("example.com", "Machine")).kind.versions == ("v2",)
        )


@pytest.mark.usefixtures("fast")
async def test_a_kind_of_a_group_that_is_silent_is_never_taken_for_gone():
    """The server of an aggregated API is down while we start: the hub names its group, and none of its kinds."""
    async with placed_machine() as (world, served):
        served.lost, served.silent = {("", "ConfigMap")}, frozenset({""})
        world.loop.queues["placement"].add(PlacementRef(PLACEMENT.kind, "p"))
        await world.until(lambda: scheduled(world, "p").get("reason") == "InvalidResourceSelectors")
        assert ("ConfigMap", "rates") in selected(world, "p")


@pytest.mark.usefixtures("fast")
async def test_a_right_that_is_given_later_is_noticed(closed):
    async with running() as world:
        kinds = closed(world, STORAGE_CLASS)
        await world.add(make_member("a"), selecting("one", STORAGE_CLASS))
        await world.until(lambda: scheduled(world, "one").get("status") == "False")
        kinds["StorageClass"] = False
        await world.until(lambda: scheduled(world, "one").get("status") == "True")


async def test_a_replica_that_leads_again_soon_lists_nothing_anew():
    async with running() as world:
        await world.add(make_member("a"), selecting("one", STORAGE_CLASS))
        await world.until(lambda: scheduled(world, "one").get("status") == "True")
        shelf = world.cache.of_kind(STORAGE_CLASS)
        world.selectables.pause()
        await look_again(world, "one")
        assert world.cache.watches(STORAGE_CLASS)
        assert world.cache.of_kind(STORAGE_CLASS) is shelf


async def test_a_term_in_which_nothing_was_selected_leaves_no_end_behind():
    async with running() as world:
        await world.add(make_member("a"), selecting("one", STORAGE_CLASS))
        await world.until(lambda: scheduled(world, "one").get("status") == "True")
        shelf = world.cache.of_kind(STORAGE_CLASS)
        ends = []
        for _ in range(2):
            world.selectables.pause()
            ends.append(world.selectables._ending)
        await look_again(world, "one")
        assert all(end.cancelled() for end in ends)
        assert world.selectables._ending is None
        assert world.cache.watches(STORAGE_CLASS)
        assert world.cache.of_kind(STORAGE_CLASS) is shelf


async def test_a_kind_that_was_missing_in_an_earlier_term_is_waited_for_again(monkeypatch):
    """A hub that starts has ended that term; days later it starts once more, and this replica leads again."""
    monkeypatch.setattr(resource_watches, "PATIENCE_SECONDS", 0.2)
    async with running() as world:
        served = world.selectables.served = Forgetful(world.selectables.served)
        served.lost = {CONFIG_MAP.group_kind}
        ref, item = PlacementRef(PLACEMENT.kind, "p"), {"group": "", "version": "v1", "kind": "ConfigMap"}
        for _ in range(2):
            with pytest.raises(RetryError):
                await world.selectables.watch(ref, [item], [item])
            world.selectables.pause()
            await asyncio.sleep(0.3)


async def test_what_a_replica_watched_is_given_up_when_it_does_not_lead_again(monkeypatch):
    monkeypatch.setattr(resource_watches, "KEPT_SECONDS", 0.1)
    async with running() as world:
        await world.add(make_member("a"), selecting("one", STORAGE_CLASS))
        await world.until(lambda: scheduled(world, "one").get("status") == "True")
        world.selectables.pause()
        await world.until(lambda: not world.cache.watches(STORAGE_CLASS))


async def test_a_placement_that_went_between_two_terms_keeps_nothing_watched():
    async with running() as world:
        await world.add(make_member("a"), selecting("one", STORAGE_CLASS))
        await world.until(lambda: scheduled(world, "one").get("status") == "True")
        terms = [{"group": "", "version": "v1", "kind": "ConfigMap"}]
        await world.selectables.watch(PlacementRef("ClusterResourcePlacement", "gone"), terms)
        assert world.cache.watches(CONFIG_MAP)
        world.selectables.pause()
        await look_again(world, "one")
        assert not world.cache.watches(CONFIG_MAP)
        assert world.cache.watches(STORAGE_CLASS)
