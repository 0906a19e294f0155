"""What a compromised agent tries besides a plain claim: replays, refusals, hostile reports.

The whole world runs. The agent of "rogue" is played by writes to the store, as on a hub without admission policies: it
can change its own Works, and the status of its InternalMemberCluster. "vault" is for members with the label "pci".
"""

import pytest

from scorer.api.kinds import (
    BINDING,
    EVICTION,
    INTERNAL_MEMBER_CLUSTER,
    KINDS,
    MEMBER_CLUSTER,
    NAMESPACE,
    PLACEMENT,
    WORK,
)
from scorer.api.names import (
    PARENT_BINDING,
    PARENT_PLACEMENT,
    member_namespace,
)
from scorer.api.unstructured.documents import (
    annotations_of,
    finalizers_of,
    labels_of,
    name_of,
    namespace_of,
    with_metadata,
)
from tests.builders.placement import make_placement
from tests.webhook.controllers.world import CONFIG_MAP, controller, make_config_map, make_member, pick_n, running
from webhook.kube.ports import Key
from webhook.kube.work_signing_keys import CURRENT, NAME
from webhook.settings.loop import LoopSettings

SECRET = KINDS["", "Secret"]
ROGUE, GOOD = member_namespace("rogue"), member_namespace("good")


def needs_pci(**policy):
    terms = {"clusterSelectorTerms": [{"labelSelector": {"matchLabels": {"pci": "yes"}}}]}
    affinity = {"clusterAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}}
    return {"placementType": "PickAll", "affinity": affinity, **policy}


VAULT = make_placement("vault", needs_pci(), home="dock")


@pytest.fixture
async def world():
    """Two members with "web"; only the good one may have "vault"."""
    async with running() as found:
        await found.add(make_member("good", pci="yes"), make_member("rogue"), make_config_map("card", "dock", x="1"))
        await found.add(make_placement("web"))
        await found.until(lambda: found.bound("web") == ["good", "rogue"])
        yield found


def work_of(world, name, namespace=ROGUE):
    return next(work for work in world.works() if (name_of(work), namespace_of(work)) == (name, namespace))


def names_of_works(world):
    return sorted((namespace_of(work), name_of(work)) for work in world.works())


async def claim(world, claims):
    """Let the agent write the labels and annotations of another Work on its own, and have everything evaluated."""
    labels = {**labels_of(claims), PARENT_BINDING: "x"}
    forged = with_metadata(work_of(world, "web-work"), labels=labels, annotations=annotations_of(claims))
    await world.store.replace(WORK, forged)
    await settled(world)


async def settled(world):
    await world.until(lambda: True)
    world.again()
    await world.until(lambda: True)


async def card_on(world, cluster):
    card = await world.on_member(cluster, CONFIG_MAP, "card", "dock")
    return card and card["data"]


async def delete_all(world, kind, name):
    """Delete the bindings of a placement past their finalizers, as with their definition."""
    for found in world.cache.labelled(kind, PARENT_PLACEMENT, name):
        stored = await world.store.replace(kind, {**found, "metadata": {**found["metadata"], "finalizers": []}})
        await world.store.delete(kind, Key(name_of(stored)))


async def report(world, **status):
    """Let the agent of "rogue" report."""
    stored = await world.store.get(INTERNAL_MEMBER_CLUSTER, Key("rogue", ROGUE))
    await world.store.replace_status(INTERNAL_MEMBER_CLUSTER, {**stored, "status": {**stored["status"], **status}})
    await world.until(lambda: True)


async def label_rogue(world, **labels):
    stored = await world.store.get(MEMBER_CLUSTER, Key("rogue"))
    await world.store.replace(MEMBER_CLUSTER, with_metadata(stored, labels=labels))
    await world.until(lambda: True)


@pytest.mark.parametrize(
    "policy",
    [
        pytest.param(needs_pci(), id="pick-all"),
        pytest.param({"placementType": "PickFixed", "clusterNames": ["good"]}, id="pick-fixed"),
        pytest.param(pick_n(1, affinity=needs_pci()["affinity"]), id="pick-n"),
    ],
)
@pytest.mark.parametrize("strategy", ["RollingUpdate", "External"])
async def test_a_copy_of_all_that_the_loop_wrote_on_another_members_work_claims_nothing(world, policy, strategy):
    await world.add(make_placement("vault", policy, home="dock", strategy={"type": strategy}))
    await world.until(lambda: world.bound("vault") == ["good"])
    claims = next((work for work in world.works() if name_of(work) == "vault-work"), work_of(world, "web-work", GOOD))
    await claim(world, with_metadata(claims, labels={PARENT_PLACEMENT: "vault"}))
    assert world.bound("vault") == ["good"]
    assert await card_on(world, "rogue") is None


async def test_a_claim_while_the_real_binding_is_lost_brings_nothing(world):
    await world.add(VAULT)
    await world.until(lambda: world.bound("vault") == ["good"])
    before = await world.on_member("good", CONFIG_MAP, "card", "dock")
    await delete_all(world, BINDING, "vault")
    await claim(world, work_of(world, "vault-work", GOOD))
    assert world.bound("vault") == ["good"]
    assert await card_on(world, "rogue") is None
    assert (await world.on_member("good", CONFIG_MAP, "card", "dock"))["metadata"]["uid"] == before["metadata"]["uid"]


async def test_a_proof_of_the_past_claims_nothing_once_the_placement_is_gone_from_the_cluster(world):
    """The cluster had the placement once, and its agent kept a copy of the Work."""
    await label_rogue(world, pci="yes")
    await world.add(VAULT)
    await world.until(lambda: world.bound("vault") == ["good", "rogue"])
    kept = work_of(world, "vault-work")
    await label_rogue(world, pci="no")
    await world.add(eviction("vault", "rogue"))
    await world.until(lambda: world.bound("vault") == ["good"] and (ROGUE, "vault-work") not in names_of_works(world))
    await claim(world, kept)
    assert world.bound("vault") == ["good"]
    assert await card_on(world, "rogue") is None


async def test_a_proof_of_an_earlier_placement_of_that_name_claims_nothing(world):
    """Its Work stays, because the agent keeps its finalizer on it; the new placement is for another member."""
    await label_rogue(world, pci="yes")
    await world.add(VAULT)
    await world.until(lambda: world.bound("vault") == ["good", "rogue"])
    kept = annotations_of(work_of(world, "vault-work"))
    await world.delete_placement("vault")
    await world.until(lambda: world.cache.get(PLACEMENT, "vault") is None)
    await label_rogue(world, pci="no")
    metadata = {"name": "vault-work", "namespace": ROGUE, "labels": {PARENT_PLACEMENT: "vault", PARENT_BINDING: "x"}}
    restored = {"apiVersion": WORK.api_version, "kind": WORK.kind, "metadata": {**metadata, "annotations": kept}}
    await world.add({**restored, "spec": {"workload": {"manifests": []}}}, VAULT)
    await settled(world)
    assert world.bound("vault") == ["good"]
    assert await card_on(world, "rogue") is None
    assert world.events("UnprovenWorks")


async def test_an_agent_that_refuses_to_remove_gets_no_later_content(world):
    """The Work stays because of a finalizer, and its binding is deleted by force meanwhile."""
    await label_rogue(world, pci="yes")
    await world.add(VAULT)
    await world.until(lambda: world.bound("vault") == ["good", "rogue"])
    work = work_of(world, "vault-work")
    finalizers = [*finalizers_of(work), "example.com/mine"]
    await world.store.replace(WORK, {**work, "metadata": {**work["metadata"], "finalizers": finalizers}})
    await label_rogue(world, pci="no")
    await world.add(eviction("vault", "rogue"))
    await world.until(lambda: world.bound("vault") == ["good"])
    for binding in world.cache.labelled(BINDING, PARENT_PLACEMENT, "vault"):
        if binding["spec"]["targetCluster"] == "rogue":
            free = {**binding, "metadata": {**binding["metadata"], "finalizers": []}}
            await world.store.replace(BINDING, free)
    card = await world.store.get(CONFIG_MAP, Key("card", "dock"))
    await world.store.replace(CONFIG_MAP, {**card, "data": {"x": "2"}})
    await settled(world)
    assert await card_on(world, "good") == {"x": "2"}
    assert world.bound("vault") == ["good"]
    assert "2" not in str(work_of(world, "vault-work")["spec"])


async def test_a_work_that_claims_another_placement_of_its_cluster_takes_nothing_along(world):
    """Both placements are on the cluster: neither the claim nor the end of one of them costs the other its content."""
    await world.add(make_placement("quay", home="dock"))
    await world.until(lambda: world.bound("quay") == ["good", "rogue"])
    await claim(world, work_of(world, "quay-work"))
    await world.delete_placement("web")
    await world.until(lambda: world.cache.get(PLACEMENT, "web") is None)
    await settled(world)
    assert await card_on(world, "good") == await card_on(world, "rogue") == {"x": "1"}
    assert {(GOOD, "quay-work"), (ROGUE, "quay-work")} <= set(names_of_works(world))


async def test_works_in_a_namespace_that_only_looks_like_a_members_claim_nothing(world):
    await world.add(VAULT)
    await world.until(lambda: world.bound("vault") == ["good"])
    claims = work_of(world, "vault-work", GOOD)["metadata"]
    for cluster in ("ghost", "good-rogue", "rogue-good"):
        space = member_namespace(cluster)
        await world.store.create(NAMESPACE, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": space}})
        metadata = {"name": "vault-work", "namespace": space, **{key: claims[key] for key in ("labels", "annotations")}}
        await world.add({"apiVersion": WORK.api_version, "kind": WORK.kind, "metadata": metadata, "spec": {}})
    await settled(world)
    assert world.bound("vault") == ["good"]


async def test_a_key_that_was_rolled_back_and_forth_finds_lost_bindings_and_no_others(world):
    secret, keys = Key(NAME, LoopSettings().namespace), controller(world.loop, "work")._keys
    stored = await world.store.get(SECRET, secret)
    first = stored["data"][CURRENT]
    for key in ("bmV3IG5ldyBuZXcgbmV3IG5ldyBuZXcgbmV3IG5ldyE=", first):
        stored = await world.store.replace(SECRET, {**stored, "data": {CURRENT: key}})
        await keys.load()
        await settled(world)
    await world.add(VAULT)
    await world.until(lambda: world.bound("vault") == ["good"])
    await delete_all(world, BINDING, "web")
    await world.until(lambda: world.bound("web") == ["good", "rogue"])
    await claim(world, work_of(world, "vault-work", GOOD))
    assert world.bound("vault") == ["good"]


@pytest.mark.parametrize(
    "instant",
    [
        pytest.param("0000-01-01T00:00:00Z", id="year-0"),
        pytest.param("2026-11-28T12:00:00+99:99", id="offset"),
        pytest.param("2026-11-28T12:00:00x5Z", id="fraction"),
    ],
)
@pytest.mark.parametrize("field", ["properties", "resourceUsage"])
async def test_a_report_that_cannot_be_read_keeps_no_cluster_open(world, field, instant):
    """The API server takes these instants, and the scheduler keeps the last state of a member that it cannot read."""
    observed = {"observationTime": instant}
    await report(world, **{field: {"example.com/x": {"value": "1", **observed}} if field == "properties" else observed})
    await world.change(MEMBER_CLUSTER, "rogue", taints=[{"key": "closed", "effect": "NoSchedule"}])
    await world.add(make_placement("vault", home="dock"))
    await world.until(lambda: "good" in world.bound("vault"))
    assert world.bound("vault") == ["good"]
    (note,) = world.events("UnreadableReport")
    assert field in note


def eviction(placement, cluster):
    spec = {"placementName": placement, "clusterName": cluster}
    return {"apiVersion": EVICTION.api_version, "kind": EVICTION.kind, "metadata": {"name": "away"}, "spec": spec}
