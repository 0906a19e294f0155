"""The plan of ResourcePlacements in namespaces that other placements put on members, and the truth."""

from datetime import timedelta

import pytest

from scorer.api.kinds import NAMESPACE, OVERRIDE, PLACEMENT, RESOURCE_PLACEMENT
from scorer.api.meta import format_time
from scorer.api.names import CONFIRM_REMOVAL
from scorer.api.unstructured.documents import annotation, with_metadata
from tests.builders.placement import fixed, make_placement, namespace_term
from tests.virtual_time import loop_now
from tests.webhook.answers.dumps import plan_on_files
from tests.webhook.controllers.override_rules import delete, make_override
from tests.webhook.controllers.world import make_member, running
from tests.webhook.edits import edit
from webhook.access.user import UserInfo
from webhook.admission.cached import CachedContext
from webhook.admission.rights import UndisputedRights
from webhook.answers.plans import HubPlanner
from webhook.answers.proposal import EVERYBODY, Deleted, Proposal, ProposedObject
from webhook.kube.ports import Key
from webhook.settings.admission import AdmissionSettings

OWNER = UserInfo("owner", frozenset({"system:masters"}))
RATES = [{"group": "", "version": "v1", "kind": "ConfigMap", "name": "rates"}]
BASE = [{**namespace_term("shop"), "selectionScope": "NamespaceOnly"}]
LOCAL = make_placement("local", selectors=RATES, namespace="shop")


def base(*clusters, strategy=None):
    """Return the placement that puts the namespace on clusters."""
    return make_placement("base", fixed(*clusters), selectors=BASE, strategy=strategy)


def member(name, *, collects=True):
    document = make_member(name)
    return {**document, "status": {**document["status"], **({"namespaces": {"default": ""}} if collects else {})}}


SHOP_OVERRIDE = make_override("o", delete(), namespace="", placement="base")
SHOP_OVERRIDE["spec"]["clusterResourceSelectors"] = [namespace_term("shop")]


async def plan_of(world, *documents, deleted=()):
    kinds = {kind.kind: kind for kind in (NAMESPACE, OVERRIDE, PLACEMENT, RESOURCE_PLACEMENT)}
    given = [ProposedObject(kinds[document["kind"]], document) for document in documents]
    admission = CachedContext(world.cache, AdmissionSettings(), loop_now)
    planner = HubPlanner(world.cache, admission, UndisputedRights(), loop_now)
    plan = await planner.plan(Proposal(given, deleted=deleted), OWNER, EVERYBODY)
    assert all(verdict["allowed"] for verdict in plan["admission"]), plan["admission"]
    return {entry["name"]: entry for entry in plan["placements"]}


def picked(entry):
    return sorted(pick["cluster"] for pick in entry["picked"])


def bound(world):
    bindings = world.view("local", "shop")["clusters"]
    return sorted(binding["cluster"] for binding in bindings)


async def test_a_namespace_that_another_placement_of_the_files_puts_on_clusters(tmp_path):
    async with running() as world:
        await world.add(member("a"), member("b"), member("c", collects=False))
        await world.until(lambda: all(map(world.has_joined, "abc")))
        placements = base("a"), LOCAL
        entries = await plan_of(world, *placements)
        assert picked(entries["local"]) == ["a", "c"]
        (rejected,) = entries["local"]["filtered"]
        assert (rejected["cluster"], "does not exist" in rejected["reason"]) == ("b", True)
        on_files = {entry["name"]: entry for entry in plan_on_files(world, tmp_path, *placements)["placements"]}
        assert picked(on_files["local"]) == ["a", "c"]
        await world.add(*placements)
        await world.until(lambda: bound(world) == picked(entries["local"]))
        wider = await plan_of(world, base("a", "b"))
        assert wider["local"]["moves"]["gained"] == ["b"]
        await world.change(PLACEMENT, "base", policy=fixed("a", "b"))
        await world.until(lambda: bound(world) == ["a", "b", "c"])
        assert not (await plan_of(world))["local"]["changed"]


@pytest.mark.parametrize(
    "document",
    [
        pytest.param(base("a", strategy={"type": "External"}), id="rolled-out-by-a-run"),
        pytest.param(base("nowhere"), id="on-no-cluster"),
    ],
)
async def test_a_placement_that_does_not_put_its_namespace_on_a_cluster(document):
    async with running() as world:
        await world.add(member("a"))
        await world.until(lambda: world.has_joined("a"))
        entries = await plan_of(world, document, LOCAL)
        assert picked(entries["local"]) == []


async def test_a_namespace_that_is_deleted_in_the_same_change():
    async with running() as world:
        await world.add(member("a"))
        await world.until(lambda: world.has_joined("a"))
        entries = await plan_of(world, base("a"), LOCAL, deleted=[Deleted("Namespace", "shop")])
        assert picked(entries["local"]) == []


async def test_an_override_deletes_the_namespace_on_a_cluster():
    async with running() as world:
        await world.add(member("a"))
        await world.until(lambda: world.has_joined("a"))
        entries = await plan_of(world, base("a"), LOCAL, SHOP_OVERRIDE)
        assert picked(entries["local"]) == []


async def test_a_new_placement_does_not_go_to_clusters_that_lose_its_namespace():
    """The namespace remains until its removal is confirmed."""
    async with running() as world:
        await world.add(member("a"), member("b"))
        await world.until(lambda: all(map(world.has_joined, "ab")))
        await world.add(base("a", "b"))
        await world.until(
            lambda: all("shop" in (world.cache.fleet.member(name).status.namespaces or {}) for name in "ab")
        )
        assert picked((await plan_of(world, base("a"), LOCAL))["local"]) == ["a"]
        abandoned = base("a", "b", strategy={"deleteStrategy": {"propagationPolicy": "Abandon"}})
        assert picked((await plan_of(world, abandoned, LOCAL))["local"]) == ["a", "b"]
        deletion = [Deleted(PLACEMENT.kind, "base")]
        entries = await plan_of(world, LOCAL, deleted=deletion)
        assert picked(entries["local"]) == ["a", "b"]
        (removal,) = entries["base"]["rollout"]["contentRemovals"]
        confirmation = {CONFIRM_REMOVAL: f"{removal['digest']}@{format_time(loop_now() + timedelta(hours=1))}"}
        await edit(world.store, PLACEMENT, Key("base"), lambda it: with_metadata(it, annotations=confirmation))
        await world.until(lambda: annotation(world.cache.get(PLACEMENT, "base"), CONFIRM_REMOVAL))
        assert picked((await plan_of(world, LOCAL, deleted=deletion))["local"]) == []
