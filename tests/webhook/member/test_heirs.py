"""What a Work holds no longer and another one of its binding does changes its owner, in whatever order they come."""

from datetime import UTC, datetime

import pytest

from scorer.api.kinds import APPLIED_WORK, KINDS, NAMESPACE, WORK
from scorer.api.names import PARENT_BINDING, PARENT_PLACEMENT, PARENT_RESOURCE_SNAPSHOT_NAME, WORK_OBJECTS
from scorer.rollout.documents import with_metadata
from scorer.rollout.intent import meant
from scorer.rollout.removal import objects_digest
from webhook.embedded.member_stores import ObservedStore
from webhook.embedded.store import EmbeddedStore
from webhook.kube.ports import Key, NotFoundError
from webhook.member.applier import reconcile_work

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
SPACE = "fleet-member-lyon"
CONFIG_MAP = KINDS["", "ConfigMap"]


def config_map(name):
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": "web"}, "data": {"a": "b"}}


class Fleet:
    """A hub and a member, and what the loop and the agent do."""

    def __init__(self):
        self.hub, self.member = EmbeddedStore.open(None), EmbeddedStore.open(None)

    async def place(self, name, *objects, snapshot, binding="web-lyon-1"):
        manifests = [config_map(each) for each in objects]
        labels = {PARENT_BINDING: binding, PARENT_PLACEMENT: "web"}
        annotations = {WORK_OBJECTS: objects_digest(manifests), PARENT_RESOURCE_SNAPSHOT_NAME: snapshot}
        metadata = {"name": name, "namespace": SPACE, "labels": labels, "annotations": annotations}
        strategy = {"type": "ClientSideApply", "whenToTakeOver": "Never"}
        spec = {"workload": {"manifests": manifests}, "applyStrategy": strategy}
        try:
            stored = await self.hub.get(WORK, Key(name, SPACE))
        except NotFoundError:
            await self.hub.create(
                WORK, {"apiVersion": WORK.api_version, "kind": "Work", "metadata": metadata, "spec": spec}
            )
        else:
            changed = with_metadata(stored, annotations=annotations)
            await self.hub.replace(WORK, {**changed, "spec": spec})

    async def remove(self, name):
        await self.hub.replace(WORK, meant(await self.hub.get(WORK, Key(name, SPACE))))
        await self.hub.delete(WORK, Key(name, SPACE))

    async def look(self, *names):
        for name in names:
            await reconcile_work(Key(name, SPACE), self.hub, ObservedStore(self.member), NOW)

    async def live(self, name):
        """Return the uid of an object and the AppliedWorks that own it; None: it is not there."""
        try:
            found = await self.member.get(CONFIG_MAP, Key(name, "web"))
        except NotFoundError:
            return None
        return found["metadata"]["uid"], [owner["name"] for owner in found["metadata"].get("ownerReferences", ())]


@pytest.fixture
async def fleet():
    fleet = Fleet()
    await fleet.hub.create(NAMESPACE, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": SPACE}})
    await fleet.member.create(NAMESPACE, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "web"}})
    await fleet.place("web-work", "first", "moves", snapshot="web-0-snapshot")
    await fleet.look("web-work")
    yield fleet
    fleet.hub.close()
    fleet.member.close()


@pytest.mark.parametrize("order", [("web-work", "web-0"), ("web-0", "web-work")], ids=["loser-first", "heir-first"])
async def test_what_another_work_holds_is_handed_over(fleet, order):
    uid, _ = await fleet.live("moves")
    await fleet.place("web-0", "moves", snapshot="web-1-snapshot")
    await fleet.place("web-work", "first", snapshot="web-1-snapshot")
    await fleet.look(*order, *order)
    assert await fleet.live("moves") == (uid, ["web-0"])
    await fleet.remove("web-0")
    await fleet.look("web-0", "web-0")
    assert await fleet.live("moves") is None, "its new Work may take it away"


async def test_nothing_goes_while_another_work_is_still_of_the_old_snapshot(fleet):
    await fleet.place("web-0", "other", snapshot="web-0-snapshot")
    await fleet.look("web-0")
    uid, _ = await fleet.live("moves")
    await fleet.place("web-work", "first", snapshot="web-1-snapshot")
    await fleet.look("web-work")
    assert await fleet.live("moves") == (uid, ["web-work"])
    await fleet.place("web-0", "other", snapshot="web-1-snapshot")
    await fleet.look("web-work")
    assert await fleet.live("moves") is None


@pytest.mark.parametrize("order", [("web-work", "web-0"), ("web-0", "web-work")], ids=["heir-first", "going-first"])
async def test_what_a_going_work_held_is_handed_over_before_it_goes(fleet, order):
    await fleet.place("web-0", "back", "gone", snapshot="web-0-snapshot")
    await fleet.look("web-0")
    uid, _ = await fleet.live("back")
    await fleet.place("web-work", "first", "moves", "back", snapshot="web-1-snapshot")
    await fleet.remove("web-0")
    await fleet.look(*order, *order)
    assert await fleet.live("back") == (uid, ["web-work"])
    assert await fleet.live("gone") is None


async def test_an_heir_that_has_not_come_to_the_member_yet_is_waited_for(fleet):
    await fleet.place("web-0", "moves", snapshot="web-1-snapshot")
    await fleet.remove("web-work")
    await fleet.look("web-work", "web-work")
    uid, owners = await fleet.live("moves")
    assert owners == ["web-work"]
    await fleet.look("web-0", "web-work")
    assert await fleet.live("moves") == (uid, ["web-0"])
    with pytest.raises(NotFoundError):
        await fleet.member.get(APPLIED_WORK, Key("web-work"))


async def test_a_work_of_another_binding_inherits_nothing(fleet):
    await fleet.place("shop-work", "moves", snapshot="web-1-snapshot", binding="shop-lyon-1")
    await fleet.place("web-work", "first", snapshot="web-1-snapshot")
    await fleet.look("web-work")
    assert await fleet.live("moves") is None
