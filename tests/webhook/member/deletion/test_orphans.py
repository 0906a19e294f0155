"""What an AppliedWork owned that somebody deletes belongs to the next one, wherever the agent stops in between."""

from datetime import UTC, datetime

import pytest

from scorer.api.kinds import APPLIED_WORK, KINDS, NAMESPACE, WORK
from scorer.api.names import FREED, KEEP, WORK_OBJECTS
from scorer.api.unstructured.documents import annotation, with_metadata
from scorer.rollout.removal.marks import objects_digest, with_removal_mark
from webhook.embedded.simulation.member_stores import ObservedStore
from webhook.embedded.storage.store import EmbeddedStore
from webhook.kube.ports import ForbiddenError, Key, NotFoundError, StoreError, UnavailableError
from webhook.member.works.reconciler import reconcile_work

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
SPACE = "fleet-member-lyon"
NAME = Key("web-work", SPACE)
CONFIG_MAP = KINDS["", "ConfigMap"]
SECRET = KINDS["", "Secret"]


def document(kind, name):
    metadata = {"name": name, "namespace": "web"}
    return {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": metadata}


class Unsteady(ObservedStore):
    """A member that is away from its n-th write on."""

    def __init__(self, store, writes):
        super().__init__(store)
        self.left = writes

    def _count(self):
        if not self.left:
            raise UnavailableError("away")
        self.left -= 1

    async def replace(self, kind, document, *, dry_run=False):
        self._count()
        return await super().replace(kind, document, dry_run=dry_run)

    async def create(self, kind, document):
        self._count()
        return await super().create(kind, document)


class WithoutSecrets(ObservedStore):
    async def get(self, kind, key):
        if kind == SECRET:
            raise ForbiddenError("secrets is forbidden")
        return await super().get(kind, key)


class Place:
    """A Work that may take nothing over, and its member."""

    def __init__(self):
        self.hub, self.member = EmbeddedStore.open(None), EmbeddedStore.open(None)

    async def place(self, *manifests, signed=True):
        annotations = {WORK_OBJECTS: objects_digest(manifests) if signed else "of another hub"}
        strategy = {"type": "ClientSideApply", "whenToTakeOver": "Never"}
        spec = {"workload": {"manifests": list(manifests)}, "applyStrategy": strategy}
        try:
            stored = await self.hub.get(WORK, NAME)
        except NotFoundError:
            metadata = {"name": NAME.name, "namespace": SPACE, "annotations": annotations}
            work = {"apiVersion": WORK.api_version, "kind": "Work", "metadata": metadata, "spec": spec}
            await self.hub.create(WORK, work)
        else:
            await self.hub.replace(WORK, {**with_metadata(stored, annotations=annotations), "spec": spec})

    async def look(self, times=1, member=None):
        for _ in range(times):
            await reconcile_work(NAME, self.hub, member or ObservedStore(self.member), NOW)

    async def order(self):
        await self.hub.replace(WORK, with_removal_mark(await self.hub.get(WORK, NAME)))
        await self.hub.delete(WORK, NAME)

    async def break_at(self, writes):
        """Let somebody delete the AppliedWork, and the member be away after so many writes."""
        await self.member.delete(APPLIED_WORK, Key(NAME.name))
        with pytest.raises(StoreError):
            await self.look(member=Unsteady(self.member, writes))

    async def owned(self, name):
        """Return the uid of an object and how many AppliedWorks that are there own it; None: it is not there."""
        try:
            live = await self.member.get(CONFIG_MAP, Key(name, "web"))
        except NotFoundError:
            return None
        present = {item["metadata"]["uid"] for item in (await self.member.list(APPLIED_WORK)).items}
        known = [owner["uid"] for owner in live["metadata"].get("ownerReferences") or ()]
        assert set(known) <= present, "an owner that is gone takes it along"
        return live["metadata"]["uid"], len(known)

    async def applied(self):
        entries = (await self.hub.get(WORK, NAME))["status"]["manifestConditions"]
        return [found["status"] for entry in entries for found in entry["conditions"] if found["type"] == "Applied"]


@pytest.fixture
async def fleet():
    """Return a Work with two objects and one that it does not hold any more, which nobody has allowed to go."""
    place = Place()
    for store, name in ((place.hub, SPACE), (place.member, "web")):
        await store.create(NAMESPACE, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
    await place.place(*(document(CONFIG_MAP, name) for name in ("cart", "till", "left")))
    await place.look()
    await place.place(document(CONFIG_MAP, "cart"), document(CONFIG_MAP, "till"), signed=False)
    await place.look()
    yield place
    place.hub.close()
    place.member.close()


NAMES = ("cart", "till", "left")
BREAKS = pytest.mark.parametrize("writes", range(8))
"""Three objects freed, the old AppliedWork let go of, the new one made, three objects taken back."""


@BREAKS
async def test_what_was_freed_is_taken_back_after_a_break(fleet, writes):
    before = {name: (await fleet.owned(name))[0] for name in NAMES}
    await fleet.break_at(writes)
    for name in NAMES:
        await fleet.owned(name)
    await fleet.look(2)
    assert {name: await fleet.owned(name) for name in NAMES} == {name: (uid, 1) for name, uid in before.items()}
    assert set(await fleet.applied()) == {"True"}
    for name in NAMES:
        assert not annotation(await fleet.member.get(CONFIG_MAP, Key(name, "web")), FREED)
    versions = fleet.hub.resource_version, fleet.member.resource_version
    await fleet.look()
    assert (fleet.hub.resource_version, fleet.member.resource_version) == versions


@BREAKS
async def test_what_was_freed_goes_when_its_work_is_to_go_right_after_a_break(fleet, writes):
    live = await fleet.member.get(CONFIG_MAP, Key("left", "web"))
    await fleet.member.replace(CONFIG_MAP, with_metadata(live, annotations={KEEP: "true"}))
    await fleet.break_at(writes)
    await fleet.order()
    await fleet.look(3)
    assert [await fleet.owned(name) for name in NAMES] == [None, None, (live["metadata"]["uid"], 0)]
    assert (await fleet.member.list(APPLIED_WORK)).items == ()
    with pytest.raises(NotFoundError):
        await fleet.hub.get(WORK, NAME)


@BREAKS
async def test_what_was_freed_is_taken_back_by_the_next_work_of_the_name(fleet, writes):
    """Its Work goes without an order while the member is away, and comes back."""
    uid, _ = await fleet.owned("cart")
    await fleet.break_at(writes)
    await fleet.hub.delete(WORK, NAME)
    await fleet.look()
    await fleet.place(document(CONFIG_MAP, "cart"))
    await fleet.look(2)
    assert (await fleet.owned("cart"), await fleet.applied()) == ((uid, 1), ["True"])


async def test_what_was_there_before_is_not_taken_for_freed(fleet):
    await fleet.member.create(CONFIG_MAP, document(CONFIG_MAP, "theirs"))
    await fleet.place(document(CONFIG_MAP, "cart"), document(CONFIG_MAP, "theirs"), signed=False)
    await fleet.look()
    await fleet.break_at(3)
    await fleet.look(2)
    assert ((await fleet.owned("cart"))[1], (await fleet.owned("theirs"))[1]) == (1, 0)
    await fleet.order()
    await fleet.look(3)
    assert (await fleet.owned("cart"), (await fleet.owned("theirs"))[1]) == (None, 0)


async def test_what_was_freed_for_another_hub_is_not_taken_back(fleet):
    await fleet.break_at(4)
    live = await fleet.member.get(CONFIG_MAP, Key("cart", "web"))
    assert annotation(live, FREED) == f"/{SPACE}/web-work"
    await fleet.member.replace(CONFIG_MAP, with_metadata(live, annotations={FREED: f"hub-2/{SPACE}/web-work"}))
    await fleet.look(2)
    assert (await fleet.owned("cart"))[1] == 0


async def test_a_kind_that_may_not_be_read_does_not_keep_an_applied_work_from_being_made_anew(fleet):
    member = WithoutSecrets(fleet.member)
    await fleet.place(document(CONFIG_MAP, "cart"), document(SECRET, "key"), signed=False)
    await fleet.look(member=member)
    uid, _ = await fleet.owned("cart")
    await fleet.member.delete(APPLIED_WORK, Key(NAME.name))
    await fleet.look(2, member=member)
    assert await fleet.owned("cart") == (uid, 1)
    assert sorted(await fleet.applied()) == ["False", "True"]
