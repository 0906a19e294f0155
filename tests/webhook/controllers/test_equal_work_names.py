"""Two placements whose Works have the same names: the first keeps its Work, the second says what is in its way."""

from datetime import timedelta

import pytest

from scorer.api.kinds import BINDING, NAMESPACED_BINDING, PLACEMENT, RESOURCE_PLACEMENT
from scorer.api.names import PARENT_PLACEMENT_NAMESPACE
from tests.builders.placement import make_placement
from tests.webhook.controllers.world import CONFIG_MAP, make_config_map, make_member, running
from webhook.controllers import work_generator
from webhook.kube.ports import Key

NAMESPACE_ONLY = {"group": "", "version": "v1", "kind": "Namespace", "name": "shop", "selectionScope": "NamespaceOnly"}
RATES = {"group": "", "version": "v1", "kind": "ConfigMap", "name": "rates"}
NAMESPACED = {
    "apiVersion": RESOURCE_PLACEMENT.api_version,
    "kind": RESOURCE_PLACEMENT.kind,
    "metadata": {"name": "web", "namespace": "shop"},
    "spec": {"resourceSelectors": [RATES]},
}


@pytest.fixture
async def world(monkeypatch):
    monkeypatch.setattr(work_generator, "FOREIGN_WORK", timedelta(milliseconds=50))
    async with running() as found:
        await found.add(make_member("a"), make_config_map("cranes", "dock", value="1"))
        await found.add(make_placement("home", resourceSelectors=[NAMESPACE_ONLY]))
        await found.until(lambda: found.condition("home", "Available").get("status") == "True")
        yield found


def failures(world, kind, placement):
    """What the bindings of a placement say of their controller."""
    return [
        condition["message"]
        for binding in world.cache.list(kind)
        if binding["metadata"]["name"].startswith(placement)
        for condition in binding.get("status", {}).get("conditions", ())
        if condition["type"] == "harbormaster.dev/WorkFailed"
    ]


@pytest.mark.parametrize("namespaced_first", [True, False], ids=["namespaced-first", "cluster-wide-first"])
async def test_the_work_stays_whose_it_is_until_that_goes(world, namespaced_first):
    wide = make_placement("shop.web", home="dock")
    first, second = (NAMESPACED, wide) if namespaced_first else (wide, NAMESPACED)
    kind, name = (BINDING, "shop.web") if namespaced_first else (NAMESPACED_BINDING, "web")
    await world.add(first)
    await world.until(lambda: "shop.web-work" in {work["metadata"]["name"] for work in world.works()})
    await world.add(second)
    await world.until(lambda: bool(failures(world, kind, name)))
    (said,) = failures(world, kind, name)
    assert "Work shop.web-work" in said
    assert "ResourcePlacement shop/web" in said
    assert "ClusterResourcePlacement shop.web" in said
    owners = {work["metadata"]["labels"].get(PARENT_PLACEMENT_NAMESPACE, "") for work in world.works()} - {""}
    assert owners == ({"shop"} if namespaced_first else set())
    assert bool(await world.on_member("a", CONFIG_MAP, "rates", "shop")) is namespaced_first
    assert bool(await world.on_member("a", CONFIG_MAP, "cranes", "dock")) is not namespaced_first
    goes = RESOURCE_PLACEMENT if namespaced_first else PLACEMENT
    await world.store.delete(goes, Key(first["metadata"]["name"], first["metadata"].get("namespace", "")))
    await world.until(lambda: not failures(world, kind, name))
    assert bool(await world.on_member("a", CONFIG_MAP, "rates", "shop")) is not namespaced_first
    assert bool(await world.on_member("a", CONFIG_MAP, "cranes", "dock")) is namespaced_first
