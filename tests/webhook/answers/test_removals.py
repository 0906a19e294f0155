"""Removals that wait for confirmation, in the answers about placements."""

from dataclasses import dataclass

from scorer.api.family import CLUSTER, PlacementRef
from scorer.api.kinds import NAMESPACE, PLACEMENT
from scorer.rollout.views.tree import Sources, placement_tree
from tests.builders.placement import make_placement
from tests.virtual_time import loop_now
from tests.webhook.controllers.placements.confirmed_world import (
    confirm,
    confirming,
    delete,
    digests,
    is_available,
    pending,
)
from webhook.answers.advisor import HubAdvisor
from webhook.cli.objects.tree_output import make_nodes, plain_lines
from webhook.kube.listers.placements import children

SHOP = PlacementRef("ClusterResourcePlacement", "shop")
FIVE = ("m1", "m2", "m3", "m4", "m5")


@dataclass
class Views:
    """The ways in which people see the placement ``shop``."""

    world: object

    @property
    def advisor(self):
        return HubAdvisor(self.world.cache, loop_now)

    def detail(self):
        return self.advisor.placement(SHOP)

    def tree(self):
        cache = self.world.cache
        bindings, snapshots = (children(cache, kind, SHOP) for kind in (CLUSTER.binding, CLUSTER.resource_snapshot))
        return placement_tree(Sources(cache.get(PLACEMENT, "shop"), bindings, [], snapshots[-1:]))

    def states(self):
        return self.detail()["state"], self.tree()["placement"]["state"]


async def test_objects_that_wait_are_shown_with_digest_count_and_clusters():
    async with confirming() as world:
        views = Views(world)
        assert views.advisor.pending_removal_refs() == []
        await delete(world, NAMESPACE, "shop")
        await world.until(lambda: pending(world))
        await world.until(lambda: views.states() == ("removal pending", "removal pending"))
        assert views.advisor.pending_removal_refs() == [SHOP]
        [item] = views.advisor.removals([SHOP])
        [removal] = item["removals"]
        assert (item["placement"], [removal["digest"]]) == ("crp/shop", digests(world))
        assert (removal["kind"], removal["effect"]) == ("Object", "Namespace shop and 8 objects in it")
        assert (removal["objects"], removal["clusters"], removal["clusterCount"]) == (9, ["fish", "lion", "wolf"], 3)
        assert removal["ageSeconds"] >= 0
        detail = views.detail()
        assert [each["digest"] for each in detail["removals"]] == digests(world)
        assert detail["removalPendingSince"] == removal["since"]
        assert detail["satisfied"]
        await confirm(world)
        await world.until(lambda: not pending(world))
        assert views.detail()["removals"] == []
        assert views.detail()["removalPendingSince"] is None


async def test_clusters_that_wait_are_neither_removed_nor_busy():
    policy = {"placementType": "PickFixed", "clusterNames": [*FIVE]}
    async with confirming(*FIVE, placement=make_placement(policy=policy)) as world:
        views = Views(world)
        await world.change(PLACEMENT, "shop", policy={**policy, "clusterNames": ["m1"]})
        await world.until(lambda: pending(world) and is_available(world))
        await world.until(lambda: views.states() == ("removal pending", "removal pending"))
        dropped = [each["cluster"] for each in views.detail()["clusters"] if each["state"] == "removal pending"]
        assert dropped == ["m2", "m3", "m4", "m5"]
        assert (views.detail()["picked"], views.tree()["placement"]["picked"]) == (1, 1)
        removals = views.detail()["removals"]
        assert [(each["kind"], each["clusters"], each["objects"]) for each in removals] == [
            ("Cluster", [name], 9) for name in dropped
        ]


async def test_a_deleted_placement_waits_with_all_of_its_content():
    async with confirming() as world:
        views = Views(world)
        await delete(world, PLACEMENT, "shop")
        await world.until(lambda: pending(world))
        assert views.states() == ("removal pending", "removal pending")
        [removal] = views.detail()["removals"]
        assert [removal["digest"]] == digests(world)
        assert (removal["kind"], removal["effect"]) == ("Placement", "ClusterResourcePlacement shop")
        assert (removal["objects"], removal["clusters"]) == (9, ["fish", "lion", "wolf"])


async def test_the_tree_has_a_row_with_the_command():
    async with confirming() as world:
        await delete(world, NAMESPACE, "shop")
        await world.until(lambda: pending(world))
        lines = list(plain_lines(make_nodes(Views(world).tree()), ascii_only=True))
        [row] = [
            number for number, line in enumerate(lines) if line.startswith("|-- removal pending: 9 objects remain")
        ]
        assert digests(world)[0] in lines[row]
        assert lines[row + 1].endswith("harbormaster confirm crp/shop")
        assert digests(world)[0] not in lines[0]


async def test_a_placement_without_content_is_empty():
    placement = make_placement(home="none")
    async with confirming(placement=placement) as world:
        assert Views(world).states() == ("empty", "empty")
        assert "no object on the hub" in Views(world).detail()["why"]
        assert not Views(world).detail()["removals"]
