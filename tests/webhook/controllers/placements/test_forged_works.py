"""What the agent of a member can write on its Works gives its cluster nothing: no binding, no content.

The whole world runs. The agent is played by writes to the store, as on a hub without admission: its Role lets it write
all of its Works but create none.
"""

import pytest

from scorer.api.kinds import BINDING, KINDS, MEMBER_CLUSTER, PLACEMENT, WORK
from scorer.api.names import (
    PARENT_BINDING,
    PARENT_PLACEMENT,
    PARENT_RESOURCE_SNAPSHOT_NAME,
    PROVENANCE,
    member_namespace,
)
from scorer.api.unstructured.documents import annotation, with_metadata
from tests.builders.placement import make_placement
from tests.waiting import until
from tests.webhook.controllers.placements.deleted_bindings import delete_bindings, placed
from tests.webhook.controllers.world import CONFIG_MAP, make_config_map, make_member, running
from webhook.kube.ports import Key
from webhook.kube.work_signing_keys import CURRENT, NAME, PREVIOUS

SECRET = KINDS["", "Secret"]
HOME = "harbormaster-system"
ROGUE = member_namespace("rogue")


def required(**labels):
    terms = {"clusterSelectorTerms": [{"labelSelector": {"matchLabels": labels}}]}
    return {
        "placementType": "PickAll",
        "affinity": {"clusterAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}},
    }


@pytest.fixture
async def world():
    """Two members; the placement "vault" is for the good one only, "web" is on both."""
    async with running() as found:
        await found.add(make_member("good", pci="yes"), make_member("rogue"), make_config_map("secret", "dock", x="1"))
        await found.add(make_placement("web"), make_placement("vault", required(pci="yes"), home="dock"))
        await found.until(lambda: len(found.bound("web")) == 2 and found.bound("vault") == ["good"])
        await found.until(lambda: len(found.works()) == 3)
        yield found


def work_of(world, name, namespace=ROGUE):
    return next(
        work for work in world.works() if (work["metadata"]["name"], work["metadata"]["namespace"]) == (name, namespace)
    )


async def forge(world, **annotations):
    """Let the agent of "rogue" claim that its Work of "web" belongs to "vault", and make the scheduler look."""
    claims = {PARENT_RESOURCE_SNAPSHOT_NAME: "vault-0-snapshot", **annotations}
    labels = {PARENT_PLACEMENT: "vault", PARENT_BINDING: "x"}
    forged = with_metadata(work_of(world, "web-work"), labels=labels, annotations=claims)
    await world.store.replace(WORK, forged)
    await world.until(lambda: work_of(world, "web-work")["metadata"]["labels"][PARENT_PLACEMENT])
    world.again()
    await world.until(lambda: world.loop.queues["scheduler"].idle)


async def assert_nothing_gained(world):
    assert world.bound("vault") == ["good"]
    bindings = world.cache.labelled(BINDING, PARENT_PLACEMENT, "vault")
    assert [binding["spec"]["targetCluster"] for binding in bindings] == ["good"]
    assert await world.on_member("rogue", CONFIG_MAP, "secret", "dock") is None


@pytest.mark.parametrize(
    "proof_of",
    [
        pytest.param(None, id="none"),
        pytest.param(("web-work", ROGUE), id="of-the-same-work-for-another-placement"),
        pytest.param(("vault-work", member_namespace("good")), id="of-the-placement-on-another-cluster"),
        pytest.param(("web-work", member_namespace("good")), id="of-a-work-of-the-same-name"),
    ],
)
async def test_a_work_that_claims_another_placement_brings_it_nothing(world, proof_of):
    proof = annotation(work_of(world, *proof_of), PROVENANCE) if proof_of else None
    await forge(world, **{PROVENANCE: proof})
    await assert_nothing_gained(world)


@pytest.mark.parametrize("proof", ["", "0" * 64, "é" * 64, "f" * 100_000], ids=["empty", "zeros", "no-ascii", "long"])
async def test_a_proof_that_is_made_up_is_none(world, proof):
    await forge(world, **{PROVENANCE: proof})
    await assert_nothing_gained(world)


async def test_the_placement_reports_works_that_prove_nothing(world):
    await forge(world, **{PROVENANCE: None})
    await world.until(lambda: world.events("UnprovenWorks"))
    (note,) = world.events("UnprovenWorks")
    assert "rogue" in note
    assert "web-work" in note


async def test_a_proof_does_not_hold_for_another_snapshot(world):
    """An agent cannot bring its own cluster back to content that it prefers."""
    await world.change(PLACEMENT, "web", policy=required(pci="yes"))
    stale = work_of(world, "web-work")
    forged = with_metadata(stale, annotations={PARENT_RESOURCE_SNAPSHOT_NAME: "web-9-snapshot"})
    await world.store.replace(WORK, forged)
    for binding in world.cache.labelled(BINDING, PARENT_PLACEMENT, "web"):
        assert binding["spec"]["resourceSnapshotName"] in ("", "web-0-snapshot")


@pytest.mark.parametrize(
    "change",
    [
        pytest.param({"policy": {"placementType": "PickFixed", "clusterNames": ["good"]}}, id="pick-fixed"),
        pytest.param({"policy": required(pci="yes")}, id="selector"),
    ],
)
async def test_a_lost_binding_is_judged_by_the_policy_of_now(world, change):
    for binding in world.cache.labelled(BINDING, PARENT_PLACEMENT, "web"):
        free = {**binding, "metadata": {**binding["metadata"], "finalizers": []}}
        await world.store.replace(BINDING, free)
        await world.store.delete(BINDING, Key(binding["metadata"]["name"]))
    await world.change(PLACEMENT, "web", **change)
    await world.until(lambda: world.bound("web") == ["good"] and len(world.works()) == 2)
    assert await placed(world, "rogue") == {"rogue": None}


async def test_a_lost_binding_on_a_tainted_member_is_not_created_as_bound(world):
    await world.change(MEMBER_CLUSTER, "rogue", taints=[{"key": "closed", "effect": "NoSchedule"}])
    await delete_bindings(world)
    await world.until(lambda: world.bound("web") == ["good"] and len(world.works()) == 2)
    assert await placed(world, "rogue") == {"rogue": None}


async def test_a_silent_member_keeps_what_it_has_until_it_reports_again(world):
    """As after the hub was restored: no heartbeat has arrived yet, so no cluster qualifies."""
    before = await placed(world, "good", "rogue")
    await world.until_silent()
    await delete_bindings(world)
    assert not world.cache.labelled(BINDING, PARENT_PLACEMENT, "web")
    assert await placed(world, "good", "rogue") == before
    world.ahead *= 0
    world.again()
    await world.until(lambda: world.bound("web") == ["good", "rogue"])
    assert await placed(world, "good", "rogue") == before


async def test_works_of_an_earlier_release_are_signed_once(world):
    works = world.works()
    for work in works:
        await world.store.replace(WORK, with_metadata(work, annotations={PROVENANCE: None}))
    world.again()
    await world.until(lambda: all(annotation(work, PROVENANCE) for work in world.works()))
    signed = world.works()
    assert [work["metadata"]["generation"] for work in signed] == [work["metadata"]["generation"] for work in works]
    written = world.hub.writes
    world.again()
    await world.until(lambda: True)
    assert world.hub.writes == written


async def rotate(world, **entries):
    secret = await world.store.get(SECRET, Key(NAME, HOME))
    await world.store.replace(SECRET, {**secret, "data": entries})
    generator = next(each.reconcile.__self__ for each in world.loop.controllers if each.name == "work")
    await generator._keys.load()
    return secret["data"][CURRENT]


NEW_KEY = "bmV3IG5ldyBuZXcgbmV3IG5ldyBuZXcgbmV3IG5ldyE="


async def test_after_a_rotation_works_are_signed_with_the_new_key_and_the_old_one_still_counts(world):
    before = {work["metadata"]["name"]: annotation(work, PROVENANCE) for work in world.works()}
    secret = await world.store.get(SECRET, Key(NAME, HOME))
    await rotate(world, **{CURRENT: NEW_KEY, PREVIOUS: secret["data"][CURRENT]})
    await delete_bindings(world)
    await world.until(lambda: world.bound("web") == ["good", "rogue"])
    world.again()
    await world.until(lambda: all(annotation(w, PROVENANCE) != before[w["metadata"]["name"]] for w in world.works()))


async def test_with_another_key_alone_nothing_is_proved(world):
    """The decision places "web" anew; nothing is taken from a member meanwhile."""
    before = await placed(world, "good", "rogue")
    await rotate(world, **{CURRENT: NEW_KEY})
    await delete_bindings(world)
    await world.until(lambda: world.bound("web") == ["good", "rogue"])
    assert await placed(world, "good", "rogue") == before


async def test_a_deleted_key_is_stored_again(world):
    before = (await world.store.get(SECRET, Key(NAME, HOME)))["data"]
    await world.store.delete(SECRET, Key(NAME, HOME))
    generator = next(each.reconcile.__self__ for each in world.loop.controllers if each.name == "work")
    await generator._keys.load()
    assert (await world.store.get(SECRET, Key(NAME, HOME)))["data"] == before


@pytest.mark.parametrize("entry", ["c2hvcnQ=", "no base64", ""], ids=["short", "no-base64", "empty"])
async def test_an_unusable_key_signs_nothing_and_is_left_alone(world, entry):
    await rotate(world, **{CURRENT: entry})
    assert (await world.store.get(SECRET, Key(NAME, HOME)))["data"] == {CURRENT: entry}
    before = [work["metadata"]["resourceVersion"] for work in world.works()]
    world.again()
    await until(lambda: world.loop.idle)
    assert [work["metadata"]["resourceVersion"] for work in world.works()] == before
