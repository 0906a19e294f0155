"""What is said of a placement while it is changed, and when its rollout stands still."""

from datetime import timedelta

from scorer.api.kinds import BINDING, PLACEMENT, RESOURCE_SNAPSHOT
from scorer.api.meta import JsonObject
from scorer.api.unstructured.documents import current_condition
from scorer.rollout.bindings import ROLLOUT_STARTED
from tests.builders.placement import make_placement
from tests.webhook.controllers.world import DEPLOYMENT, World, make_member, pick_n, running
from webhook.kube.cache.changes import ObjectDelta
from webhook.kube.ports import Key

STRATEGY = {
    "type": "RollingUpdate",
    "rollingUpdate": {"maxUnavailable": 1, "maxSurge": 0, "unavailablePeriodSeconds": 0},
}


def deployment(image: str, simulate: str) -> JsonObject:
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "web", "namespace": "shop", "annotations": {"harbormaster.dev/simulate": simulate}},
        "spec": {
            "replicas": 1,
            "selector": {"matchLabels": {"app": "web"}},
            "template": {
                "metadata": {"labels": {"app": "web"}},
                "spec": {"containers": [{"name": "web", "image": image}]},
            },
        },
    }


async def release(world: World, image: str, simulate: str) -> None:
    stored = await world.store.get(DEPLOYMENT, Key("web", "shop"))
    made = deployment(image, simulate)
    metadata = {**stored["metadata"], "annotations": made["metadata"]["annotations"]}
    await world.store.replace(DEPLOYMENT, {**stored, "metadata": metadata, "spec": made["spec"]})


async def test_a_stopped_rollout_says_why_it_stands_still_since_when_and_which_release_serves():
    async with running(stalled_after=timedelta(seconds=1), renewed_after=timedelta(seconds=0.1)) as world:
        await world.add(*(make_member(name) for name in "abcd"))
        await world.add(deployment("web:1", "ready-after=0s"), make_placement("p", strategy=STRATEGY))
        await world.until(lambda: world.view("p")["state"] == "available")
        await release(world, "web:2", "never-ready")
        await world.until(lambda: world.view("p")["state"] == "stalled" and len(why_old(world)) == 1)
        found = world.view("p")
        assert (found["picked"], found["available"], found["availableOld"], found["satisfied"]) == (4, 0, 3, False)
        (updated,) = (entry["cluster"] for entry in found["clusters"] if entry["serves"] != "old")
        assert f". {updated}: Deployment shop/web: " in found["why"]
        assert found["why"].startswith(f"no progress since {found['stalledSince']}")
        assert why_old(world) == {
            f"waiting: 3 of 4 clusters are ready, so 0 may be updated or removed now; not ready: {updated}"
        }
        before = world.hub.writes, world.store.resource_version
        world.again()
        await world.until(lambda: True)
        assert (world.hub.writes, world.store.resource_version) == before
        await release(world, "web:3", "ready-after=0s")
        await world.until(lambda: world.view("p")["state"] == "available" and world.view("p")["available"] == 4)
        found = world.view("p")
        assert (found["availableOld"], found["stalledSince"], found["satisfied"]) == (0, None, True)
        assert world.condition("p", "Stalled") == {}


def why_old(world: World) -> set[str]:
    """Return what is said of the clusters with the release before."""
    return {entry["detail"] for entry in world.view("p")["clusters"] if entry["serves"] == "old"}


async def test_while_a_rollout_moves_its_steps_are_not_written_on_all_clusters_that_wait():
    """With a thousand clusters each step would be written on hundreds of them."""
    async with running(renewed_after=timedelta(hours=1)) as world:
        await world.add(*(make_member(name) for name in "abcdef"))
        await world.add(deployment("web:1", "ready-after=0s"), make_placement("p", strategy=STRATEGY))
        await world.until(lambda: world.view("p")["state"] == "available")
        told: list[tuple[str, str]] = []

        def watch(change: ObjectDelta) -> None:
            before, now = (current_condition(each or {}, ROLLOUT_STARTED) or {} for each in change)
            if before.get("status") == now.get("status") == "False" and before != now:
                told.append((before["message"], now["message"]))

        world.cache.subscribe(BINDING, watch)
        await release(world, "web:2", "ready-after=0s")
        await world.until(
            lambda: world.view("p")["state"] == "available" and len(world.cache.list(RESOURCE_SNAPSHOT)) == 2
        )
        assert told == []


async def test_while_an_edit_is_judged_the_last_known_is_shown():
    async with running() as world:
        await world.add(*(make_member(name, nodes=nodes) for nodes, name in enumerate("abcd", 1)))
        await world.add(make_placement("p", pick_n(2)))
        await world.until(lambda: world.view("p")["state"] == "available")
        seen: list[JsonObject] = []
        stop = world.cache.subscribe(PLACEMENT, lambda _: seen.append(world.view("p")))
        await world.change(PLACEMENT, "p", policy=pick_n(3))
        await world.until(lambda: world.view("p")["available"] == 3 and world.view("p")["state"] == "available")
        stop()
    judged = [view for view in seen if view["judgedAgain"]]
    first = judged[0]
    assert (first["state"], first["why"], first["wanted"]) == ("available", "being evaluated again", 3)
    assert all(view["why"].startswith("being evaluated again") and view["wanted"] == 3 for view in judged)
    assert [view for view in seen if view["picked"] < 2 or view["state"] == "pending"] == []
    assert not seen[-1]["judgedAgain"]
