"""Placements of both families whose Works have the same names by the rules of the reference: each gets its own."""

import asyncio
from types import SimpleNamespace

import pytest

from scorer.api.family import placement_of_work
from scorer.api.kinds import BINDING, PLACEMENT, RESOURCE_PLACEMENT
from scorer.api.names import PARENT_PLACEMENT
from scorer.api.unstructured.documents import label, name_of
from scorer.placement import binding_plan
from tests.builders.placement import make_placement
from tests.webhook.controllers.world import CONFIG_MAP, make_config_map, make_member, running
from webhook.controllers.placements import work_generator
from webhook.kube.ports import Key

NAMESPACE_ONLY = {"group": "", "version": "v1", "kind": "Namespace", "name": "shop", "selectionScope": "NamespaceOnly"}
RATES = {"group": "", "version": "v1", "kind": "ConfigMap", "name": "rates"}
NAMESPACED = {
    "apiVersion": RESOURCE_PLACEMENT.api_version,
    "kind": RESOURCE_PLACEMENT.kind,
    "metadata": {"name": "web", "namespace": "shop"},
    "spec": {"resourceSelectors": [RATES]},
}
WIDE = make_placement("shop.web", home="dock")


@pytest.fixture
async def world():
    async with running() as found:
        await found.add(make_member("a"), make_config_map("cranes", "dock", value="1"))
        await found.add(make_placement("home", resourceSelectors=[NAMESPACE_ONLY]))
        await found.until(lambda: found.condition("home", "Available").get("status") == "True")
        yield found


def owners(world):
    """Whose each Work is."""
    return {name_of(work): str(placement_of_work(work)) for work in world.works()}


async def content(world):
    rates = await world.on_member("a", CONFIG_MAP, "rates", "shop")
    cranes = await world.on_member("a", CONFIG_MAP, "cranes", "dock")
    return rates is not None, cranes is not None


@pytest.mark.parametrize("namespaced_first", [True, False], ids=["namespaced-first", "cluster-wide-first"])
async def test_the_second_placement_gets_a_work_of_another_name(world, namespaced_first):
    first, second = (NAMESPACED, WIDE) if namespaced_first else (WIDE, NAMESPACED)
    await world.add(first)
    await world.until(lambda: "shop.web-work" in owners(world))
    (uid,) = (work["metadata"]["uid"] for work in world.works() if name_of(work) == "shop.web-work")
    await world.add(second)
    other = "shop.web-work-crp" if namespaced_first else "shop.web-work-rp"
    await world.until(lambda: other in owners(world))
    plain, suffixed = ("rp/shop/web", "crp/shop.web") if namespaced_first else ("crp/shop.web", "rp/shop/web")
    assert owners(world) == {"home-work": "crp/home", "shop.web-work": plain, other: suffixed}
    assert uid in {work["metadata"]["uid"] for work in world.works()}
    assert await content(world) == (True, True)
    goes = RESOURCE_PLACEMENT if namespaced_first else PLACEMENT
    await world.store.delete(goes, Key(first["metadata"]["name"], first["metadata"].get("namespace", "")))
    await world.until(lambda: "shop.web-work" not in owners(world))
    assert owners(world) == {"home-work": "crp/home", other: suffixed}
    assert await content(world) == (not namespaced_first, namespaced_first)
    world.again()
    await world.until(lambda: True)
    assert owners(world) == {"home-work": "crp/home", other: suffixed}


async def test_both_placements_at_the_same_time(world):
    await asyncio.gather(world.add(NAMESPACED), world.add(WIDE))
    await world.until(lambda: len(owners(world)) == 3)
    assert sorted(owners(world).values()) == ["crp/home", "crp/shop.web", "rp/shop/web"]
    assert await content(world) == (True, True)


async def test_a_work_of_another_placement_that_the_plan_did_not_know_is_not_taken_over(world, monkeypatch):
    """Two replicas write at the same time."""
    await world.add(NAMESPACED)
    await world.until(lambda: "shop.web-work" in owners(world))
    plan, plans = work_generator.plan_content, []

    def late(sources, works, **how):
        plans.append(plan(sources, works, **how | ({} if plans else {"is_taken": lambda name: False})))
        return plans[-1]

    monkeypatch.setattr(work_generator, "plan_content", late)
    await world.add(WIDE)
    await world.until(lambda: "shop.web-work-crp" in owners(world))
    assert plans[0].writes[0].name == "shop.web-work"
    assert owners(world)["shop.web-work"] == "rp/shop/web"
    assert await content(world) == (True, True)


async def test_bindings_of_two_placements_never_have_one_name(world, monkeypatch):
    """Names are cut, and 32 bits of a hash are left: the second binding gets a name of its own."""
    shared = "payments-" * 4
    weak = SimpleNamespace(hexdigest=lambda: "0badcafe" * 8)
    strong = binding_plan.sha256
    monkeypatch.setattr(binding_plan, "sha256", lambda data: strong(data) if data.count(b"/") > 1 else weak)
    await world.add(make_placement(f"{shared}one", home="dock"), make_config_map("bollards", "quay", value="1"))
    await world.until(lambda: world.condition(f"{shared}one", "Available").get("status") == "True")
    before = {name_of(binding) for binding in world.cache.list(BINDING)}
    await world.add(make_placement(f"{shared}two", home="quay"))
    await world.until(lambda: world.condition(f"{shared}two", "Applied").get("status") == "True")
    bindings = {name_of(binding): label(binding, PARENT_PLACEMENT) for binding in world.cache.list(BINDING)}
    assert sorted(bindings.values()) == ["home", f"{shared}one", f"{shared}two"]
    assert before <= bindings.keys()
