"""What an agent cannot remove from its member is named by the binding and the placement, while the placement exists.

The whole world runs: store, loop and simulated members. One agent is silent, so that its Work keeps its status.
"""

from datetime import UTC, datetime

import pytest

from scorer.api.conditions import make_condition
from scorer.api.kinds import MEMBER_CLUSTER, PLACEMENT, WORK
from scorer.api.unstructured.documents import conditions_of, generation_of, status_of, with_metadata, with_spec
from scorer.rollout.removal.marks import is_marked_for_removal
from tests.builders.placement import fixed, make_placement
from tests.webhook.controllers.world import make_member, running
from tests.webhook.edits import edit
from webhook.kube.ports import Key

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
WORK_KEY = Key("web-work", "fleet-member-a")
OBSTACLE = "ConfigMap shop/rates: finalizer example.com/hold"


@pytest.fixture
async def world():
    async with running() as found:
        await found.add(*map(make_member, "ab"), make_placement("web", policy=fixed("a", "b")))
        await found.until(lambda: found.condition("web", "Available").get("status") == "True")
        silent = {"harbormaster.dev/simulate": "silent"}
        await edit(found.store, MEMBER_CLUSTER, Key("a"), lambda it: with_metadata(it, annotations=silent))
        await found.until(lambda: True)
        yield found


async def report(world, *obstacles):
    """Write into the Work what its agent reports."""
    work = await world.store.get(WORK, WORK_KEY)
    others = [each for each in conditions_of(work) if each["type"] != "Removed"]
    added = [
        make_condition("Removed", "False", "FinalizersRemain", text, generation=generation_of(work), now=NOW)
        for text in obstacles
    ]
    status = {**status_of(work), "conditions": [*others, *added]}
    await world.store.replace_status(WORK, {**work, "status": status})


def reported(world):
    return world.condition("web", "Removed").get("message", "")


async def test_a_placement_names_an_object_that_it_no_longer_places_and_that_remains(world):
    await report(world, OBSTACLE)
    message = f"objects that are no longer placed cannot be deleted: on a: {OBSTACLE}"
    await world.until(lambda: reported(world) == message)
    assert world.condition("web", "Available")["status"] == "True"
    await world.until(lambda: world.events("PlacementObjectsRemain") == [message])
    await report(world)
    await world.until(lambda: not reported(world))


async def test_a_placement_names_what_remains_on_a_cluster_that_it_leaves(world):
    await edit(world.store, PLACEMENT, Key("web"), lambda it: with_spec(it, policy=fixed("b")))
    await world.until(lambda: any(map(is_marked_for_removal, world.works())))
    await report(world, OBSTACLE)
    await world.until(lambda: f"on a: {OBSTACLE}" in reported(world))
