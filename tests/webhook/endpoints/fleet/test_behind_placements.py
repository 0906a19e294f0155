"""What is behind and below a placement: its object, its objects on a cluster; and the day of a cluster."""

import yaml

from scorer.api.kinds import PLACEMENT
from tests.builders.placement import make_placement
from tests.webhook.controllers.world import make_member, pick_n, running
from tests.webhook.endpoints.asking import assert_problem, get
from tests.webhook.endpoints.world_server import serving
from webhook.access.rights import Access


class Unable:
    """May ask everything, and read no placement."""

    async def may(self, user, wanted):
        return not isinstance(wanted, Access)


async def placed(world):
    await world.add(make_member("oslo", nodes=4), make_placement("payments", pick_n(1)))
    await world.until(lambda: world.condition("payments", "Available").get("status") == "True")


async def test_a_placement_is_shown_as_it_is_stored():
    async with running() as world, serving(world) as port:
        await placed(world)
        answer = await get(port, "/v1/placements/crp/payments/object")
        stored = world.cache.get(PLACEMENT, "payments")
        assert answer.json["spec"] == stored["spec"]
        assert (answer.json["kind"], "managedFields" in answer.json["metadata"]) == ("ClusterResourcePlacement", False)
        text = await get(port, "/v1/placements/crp/payments/object", Accept="application/yaml")
        assert text.headers["Content-Type"] == "application/yaml; charset=utf-8"
        assert yaml.safe_load(text.body) == answer.json
        assert_problem(await get(port, "/v1/placements/crp/nobody/object"), "not-found", 404)


async def test_the_objects_below_a_cluster_are_read_from_the_hub():
    async with running() as world, serving(world) as port:
        await placed(world)
        answer = (await get(port, "/v1/placements/crp/payments/tree/oslo")).json
        assert answer["objectsKnown"]
        (cluster,) = answer["clusters"]
        objects = [(each["kind"], each["state"]) for work in cluster["works"] for each in work["objects"]]
        assert (cluster["cluster"], ("Namespace", "available") in objects) == ("oslo", True)
        assert (await get(port, "/v1/placements/crp/payments/tree/nowhere")).json["clusters"] == []
        assert_problem(await get(port, "/v1/placements/rp/no/body/tree/oslo"), "not-found", 404)


async def test_a_placement_that_a_caller_may_not_read_has_nothing_behind_it():
    async with running() as world, serving(world, authorizer=Unable()) as port:
        await placed(world)
        for what in ("object", "tree/oslo", "runs"):
            assert_problem(await get(port, f"/v1/placements/crp/payments/{what}"), "not-found", 404)


async def test_the_day_of_a_cluster():
    async with running() as world, serving(world) as port:
        await placed(world)
        answer = (await get(port, "/v1/clusters/oslo/history")).json
        (nodes,) = [each for each in answer["series"] if each["name"].endswith("node-count")]
        assert (nodes["values"][-1], len(nodes["values"]), answer["stepSeconds"]) == (4.0, 96, 900)
        assert_problem(await get(port, "/v1/clusters/nobody/history"), "not-found", 404)
