"""What a Work holds no longer and another one of its binding does changes its owner, in whatever order they come."""

import asyncio
from contextlib import suppress
from datetime import UTC, datetime

import pytest

from scorer.api.kinds import APPLIED_WORK, KINDS, NAMESPACE, WORK
from scorer.api.names import (
    ABANDON,
    KEEP,
    PARENT_BINDING,
    PARENT_PLACEMENT,
    PARENT_RESOURCE_SNAPSHOT_NAME,
    WORK_OBJECTS,
)
from scorer.api.unstructured.documents import with_metadata
from scorer.rollout.removal.marks import objects_digest, with_removal_mark
from webhook.embedded.simulation.member_stores import ObservedStore
from webhook.embedded.storage.store import EmbeddedStore
from webhook.kube.ports import ConflictError, Key, NotFoundError
from webhook.member.works.reconciler import reconcile_work

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

    async def remove(self, name, **annotations):
        work = with_metadata(await self.hub.get(WORK, Key(name, SPACE)), annotations=annotations)
        await self.hub.replace(WORK, with_removal_mark(work))
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


async def mark(fleet, name):
    live = await fleet.member.get(CONFIG_MAP, Key(name, "web"))
    await fleet.member.replace(CONFIG_MAP, with_metadata(live, annotations={KEEP: "true"}))


async def moving(fleet):
    """Let an object move to an heir that is there already, and has not been looked at since."""
    await fleet.place("web-0", "other", snapshot="web-0-snapshot")
    await fleet.look("web-0")
    await fleet.place("web-0", "other", "moves", snapshot="web-1-snapshot")
    await fleet.place("web-work", "first", snapshot="web-1-snapshot")


@pytest.mark.parametrize("stays", ["abandoned", "marked"])
async def test_what_was_handed_over_stays_when_its_heir_goes_without_having_looked_at_it(fleet, stays):
    await moving(fleet)
    uid, _ = await fleet.live("moves")
    if stays == "marked":
        await mark(fleet, "moves")
    await fleet.look("web-work")
    assert await fleet.live("moves") == (uid, ["web-0"])
    await fleet.remove("web-0", **{ABANDON: "true"} if stays == "abandoned" else {})
    await fleet.look("web-0", "web-0")
    assert await fleet.live("moves") == (uid, [])
    assert (await fleet.live("other") is None) == (stays == "marked")


async def test_what_was_handed_over_stays_when_somebody_deletes_the_appliedwork_of_its_heir(fleet):
    await moving(fleet)
    await fleet.look("web-work")
    uid, _ = await fleet.live("moves")
    await fleet.member.delete(APPLIED_WORK, Key("web-0"))
    await fleet.look("web-0")
    assert await fleet.live("moves") == (uid, ["web-0"])


async def test_what_is_handed_over_again_after_a_break_is_written_down_once(fleet):
    await moving(fleet)
    await fleet.look("web-work")
    before = await fleet.member.get(APPLIED_WORK, Key("web-0"))
    live = await fleet.member.get(CONFIG_MAP, Key("moves", "web"))
    (heir,) = live["metadata"]["ownerReferences"]
    loser = await fleet.member.get(APPLIED_WORK, Key("web-work"))
    ours = {**heir, "name": "web-work", "uid": loser["metadata"]["uid"]}
    await fleet.member.replace(CONFIG_MAP, {**live, "metadata": {**live["metadata"], "ownerReferences": [ours, heir]}})
    entry = {"ordinal": 1, "kind": "ConfigMap", "namespace": "web", "name": "moves"}
    await fleet.member.replace_status(APPLIED_WORK, {**loser, "status": {"appliedResources": [entry]}})
    await fleet.look("web-work")
    assert (await fleet.live("moves"))[1] == ["web-0"]
    assert (await fleet.member.get(APPLIED_WORK, Key("web-0")))["status"] == before["status"]


class Meeting(ObservedStore):
    """Lets something happen right before the first write of one object."""

    def __init__(self, store, kind, happens):
        super().__init__(store)
        self.met, self.happens = kind, happens

    async def replace(self, kind, document, *, dry_run=False):
        if kind == self.met and self.happens is not None:
            happens, self.happens = self.happens, None
            await happens()
        return await super().replace(kind, document, dry_run=dry_run)


@pytest.mark.parametrize("gone", [True, False], ids=["gone", "going"])
async def test_an_heir_that_goes_in_the_same_moment_takes_nothing_along(fleet, gone):
    """It is ordered away after the loser has found it; and goes before the object is its own, or right after."""
    await moving(fleet)
    await mark(fleet, "moves")
    uid, _ = await fleet.live("moves")
    looked, handed = asyncio.Event(), asyncio.Event()

    async def last_look():
        looked.set()
        await handed.wait()

    async def heir_goes():
        with suppress(ConflictError):
            member = Meeting(fleet.member, APPLIED_WORK, None if gone else last_look)
            await reconcile_work(Key("web-0", SPACE), fleet.hub, member, NOW)

    async def meanwhile():
        await fleet.remove("web-0")
        task = asyncio.create_task(heir_goes())
        tasks.append(task)
        await (task if gone else looked.wait())

    tasks: list[asyncio.Task[None]] = []
    loser = Meeting(fleet.member, CONFIG_MAP, meanwhile)
    await reconcile_work(Key("web-work", SPACE), fleet.hub, loser, NOW)
    handed.set()
    await asyncio.gather(*tasks)
    await fleet.look("web-0", "web-work", "web-0")
    assert await fleet.live("moves") == (uid, [])
    assert await fleet.live("other") is None


async def test_a_manifest_that_its_heir_cannot_apply_yet_still_keeps_the_object(fleet):
    """What the placement selects is not deleted; within one Work it would not be either."""
    await moving(fleet)
    uid, _ = await fleet.live("moves")
    work = await fleet.hub.get(WORK, Key("web-0", SPACE))
    other, moves = work["spec"]["workload"]["manifests"]
    workload = {"manifests": [other, {**moves, "apiVersion": "v2"}]}
    await fleet.hub.replace(WORK, {**work, "spec": {**work["spec"], "workload": workload}})
    await fleet.look("web-work", "web-0", "web-0")
    assert await fleet.live("moves") == (uid, ["web-0"])
    await fleet.remove("web-0")
    await fleet.look("web-0", "web-0")
    assert await fleet.live("moves") is None


async def test_a_work_that_only_compares_still_keeps_the_object(fleet):
    await moving(fleet)
    uid, _ = await fleet.live("moves")
    work = await fleet.hub.get(WORK, Key("web-0", SPACE))
    await fleet.hub.replace(WORK, {**work, "spec": {**work["spec"], "applyStrategy": {"type": "ReportDiff"}}})
    await fleet.remove("web-work")
    await fleet.look("web-work", "web-0", "web-work")
    assert await fleet.live("moves") == (uid, ["web-0"])
    assert await fleet.live("first") is None
    await fleet.remove("web-0", **{ABANDON: "true"})
    await fleet.look("web-0", "web-0")
    assert await fleet.live("moves") == (uid, [])
