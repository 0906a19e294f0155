"""A kind that the hub does not name: gone for good, or only out of sight for now."""

import asyncio

import pytest

from scorer.api.family import PlacementRef
from scorer.api.kinds import CUSTOM_RESOURCE_DEFINITION, NAMESPACE, Kind
from scorer.rollout.selection.exclusions import SelectionSettings
from tests.webhook.controllers.by_hand import opened
from webhook.controllers.placements import resource_watches
from webhook.controllers.placements.resource_watches import Selectables
from webhook.kube.cache.changes import ObjectDelta
from webhook.kube.cache.informer import Cache
from webhook.kube.ports import RetryError

SHOP = PlacementRef("ClusterResourcePlacement", "shop")
WHOLE_NAMESPACE = {"group": "", "version": "v1", "kind": "Namespace", "name": "shop"}
MACHINE = Kind("example.com", ("v1",), "Machine", "machines", namespaced=True)
A_MACHINE = {"group": "example.com", "version": "v1", "kind": "Machine", "name": "m", "namespace": "shop"}
DEFINED = "the hub does not serve them, although they are defined"


def definition(*served, unserved=()):
    versions = [{"name": name, "served": name in served, "storage": False} for name in (*served, *unserved)]
    return {
        "metadata": {"name": "machines.example.com", "uid": "u", "resourceVersion": "1"},
        "spec": {"group": "example.com", "names": {"kind": "Machine"}, "versions": versions},
    }


class Hub:
    """A hub that serves namespaces, and machines where the test says so; it tells when it is asked again."""

    silent = frozenset()

    def __init__(self):
        self.serves_machines = False
        self.kinds = {}

    async def refresh(self):
        served = (NAMESPACE, MACHINE) if self.serves_machines else (NAMESPACE,)
        self.kinds = {kind.group_kind: kind for kind in served}


class Quay:
    """The selected kinds of that hub, for one placement."""

    def __init__(self, cache):
        self.hub, self.cache = Hub(), cache
        self.selectables = Selectables(cache, self.hub, SelectionSettings.of())

    def define(self, *served, unserved=()):
        self.cache.of_kind(CUSTOM_RESOURCE_DEFINITION).put(definition(*served, unserved=unserved))

    async def look(self, *terms, placed=(A_MACHINE,)):
        """Return what could not be read."""
        self.selectables.stale()
        await self.selectables.watch(SHOP, terms or (WHOLE_NAMESPACE,), placed)
        return dict(self.selectables.unreadable(SHOP))


@pytest.fixture
async def quay():
    with opened() as store:
        cache = Cache(store)
        running = asyncio.create_task(cache.run())
        yield Quay(cache)
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)


@pytest.fixture
def impatient(monkeypatch):
    """What is waited for has not come."""
    return lambda: monkeypatch.setattr(resource_watches, "PATIENCE_SECONDS", 0.0)


async def test_a_kind_that_is_placed_and_defined_nowhere_is_waited_for_and_then_gone(quay, impatient):
    with pytest.raises(RetryError, match="the hub does not serve Machine"):
        await quay.look()
    impatient()
    assert await quay.look() == {}


async def test_a_kind_whose_definition_was_deleted_is_gone_at_once(quay):
    quay.selectables.redefined(ObjectDelta(definition("v1"), None))
    assert await quay.look() == {}


async def test_the_same_kind_of_another_group_is_not_gone_with_it(quay):
    elsewhere = {"spec": {"group": "example.org", "names": {"kind": "Machine"}}}
    quay.selectables.redefined(ObjectDelta(elsewhere, None))
    with pytest.raises(RetryError):
        await quay.look()


async def test_a_definition_that_was_changed_is_still_there(quay):
    quay.selectables.redefined(ObjectDelta(definition("v1"), definition("v2")))
    with pytest.raises(RetryError):
        await quay.look()


async def test_a_kind_that_came_back_is_waited_for_again(quay):
    quay.selectables.redefined(ObjectDelta(definition("v1"), None))
    quay.hub.serves_machines = True
    await quay.look()
    quay.hub.serves_machines = False
    with pytest.raises(RetryError):
        await quay.look()


async def test_what_is_placed_is_defined_in_whatever_version(quay, impatient):
    """Its objects are there; they will be read in the version that is served."""
    quay.define("v2")
    impatient()
    assert await quay.look() == {MACHINE.group_kind: DEFINED}


async def test_a_definition_that_serves_no_version_defines_nothing(quay, impatient):
    quay.define(unserved=["v1"])
    impatient()
    assert await quay.look() == {}


async def test_a_term_waits_only_for_the_version_that_it_names(quay):
    quay.define("v2")
    term = {"group": "example.com", "version": "v1", "kind": "Machine"}
    assert await quay.look(term, placed=()) == {}
    with pytest.raises(RetryError):
        await quay.look({**term, "version": "v2"}, placed=())


async def test_the_hub_is_asked_again_for_what_is_placed(quay, monkeypatch):
    monkeypatch.setattr(resource_watches, "REFRESH_SECONDS", 0.0)
    await quay.look(placed=())
    quay.hub.serves_machines = True
    assert MACHINE.group_kind in await quay.selectables.watch(SHOP, [WHOLE_NAMESPACE], [A_MACHINE])


async def test_what_cannot_be_read_is_forgotten_with_its_placement(quay, impatient):
    quay.define("v1")
    impatient()
    await quay.look()
    quay.selectables.forget(SHOP)
    quay.hub.serves_machines = True
    assert (quay.selectables.unreadable(SHOP), await quay.selectables.recovered()) == ({}, [])
