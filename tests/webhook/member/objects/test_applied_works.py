"""Two hubs, or two members, that find the AppliedWorks of each other on one cluster."""

from contextlib import suppress
from datetime import UTC, datetime

import pytest

from scorer.api.kinds import APPLIED_WORK, CUSTOM_RESOURCE_DEFINITION, KINDS, NAMESPACE, WORK
from scorer.api.names import HUB_UID, RELEASED, member_namespace
from scorer.membership.identity import HubMember
from scorer.rollout.removal.marks import with_removal_mark
from webhook.embedded.simulation.member_stores import ObservedStore
from webhook.embedded.storage.store import EmbeddedStore
from webhook.kube.ports import AlreadyExistsError, Key, NotFoundError
from webhook.member.membership.registration import ForeignClusterError, Registration
from webhook.member.works.reconciler import clean_up_after, clean_up_without_work, reconcile_work

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
CONFIG_MAP = KINDS["", "ConfigMap"]


def namespace(name):
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}


def config_map(name, value="1"):
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": name, "namespace": "shop"},
        "data": {"key": value},
    }


class Side:
    """An agent: one member of one hub, at the cluster that both sides share."""

    def __init__(self, cluster, member, uid):
        self.cluster = cluster
        self.uid = uid
        self.member = member
        self.space = member_namespace(member)
        self.hub = EmbeddedStore.open(None, now=lambda: NOW)

    async def place(self, *manifests, name="shop-work", **spec):
        with suppress(AlreadyExistsError):
            await self.hub.create(NAMESPACE, namespace(self.space))
        metadata = {"name": name, "namespace": self.space}
        spec = {"workload": {"manifests": list(manifests)}, **spec}
        document = {"apiVersion": WORK.api_version, "kind": "Work", "metadata": metadata, "spec": spec}
        await self.hub.create(WORK, document)
        return await self.apply(name)

    async def apply(self, name="shop-work"):
        return await reconcile_work(Key(name, self.space), self.hub, ObservedStore(self.cluster), NOW, hub_uid=self.uid)

    async def remove(self, name="shop-work"):
        """Have the loop remove a Work; return whether that is done, and the Work as it was."""
        work = await self.work(name)
        work = await self.hub.replace(WORK, with_removal_mark(work) or work)
        await self.hub.delete(WORK, Key(name, self.space))
        return (await self.apply(name)).gone, work

    async def work(self, name="shop-work"):
        return await self.hub.get(WORK, Key(name, self.space))

    async def said(self, name="shop-work"):
        """Return the first condition of the Work, and the first one of each of its manifests."""
        status = (await self.work(name))["status"]
        return status["conditions"][0], [entry["conditions"][0] for entry in status["manifestConditions"]]

    def registration(self, *, take_over=False):
        async def home():
            return "agents"

        return Registration(self.member, self.cluster, home, take_over=take_over)


@pytest.fixture
async def cluster():
    found = EmbeddedStore.open(None, now=lambda: NOW)
    for name in ("shop", "agents"):
        await found.create(NAMESPACE, namespace(name))
    yield found
    found.close()


@pytest.fixture
def side(cluster):
    """Makes agents of one cluster."""
    made = []

    def make(member, uid):
        made.append(Side(cluster, member, uid))
        return made[-1]

    yield make
    for each in made:
        each.hub.close()


async def live(cluster, name):
    try:
        return (await cluster.get(CONFIG_MAP, Key(name, "shop")))["data"]["key"]
    except NotFoundError:
        return None


ANOTHERS = [
    pytest.param(("paris", "hub-1"), id="another-member"),
    pytest.param(("berlin", "hub-2"), id="another-hub"),
    pytest.param(("berlin", ""), id="a-hub-that-does-not-say-which"),
]


@pytest.mark.parametrize("other", ANOTHERS)
@pytest.mark.parametrize("strategy", ["ClientSideApply", "ServerSideApply", "ReportDiff"])
async def test_what_another_has_placed_is_not_written_and_not_deleted(cluster, side, other, strategy):
    ours, theirs = side("berlin", "hub-1"), side(*other)
    await ours.place(config_map("cart"), config_map("till"))
    before = cluster.resource_version
    await theirs.place(config_map("cart", "2"), config_map("new"), applyStrategy={"type": strategy})
    whole, each = await theirs.said()
    assert (whole["status"], whole["reason"]) == ("False", "AppliedWorkOfAnother")
    assert "AppliedWork shop-work on this cluster belongs to member berlin of hub hub-1" in whole["message"]
    assert {found["reason"] for found in each} == {
        "FailedToReportDiff" if strategy == "ReportDiff" else "AppliedWorkOfAnother"
    }
    stored = await theirs.work()
    await theirs.apply()
    assert await theirs.work() == stored
    gone, work = await theirs.remove()
    assert gone
    assert (await clean_up_after(work, theirs.hub, ObservedStore(cluster), NOW, hub_uid=theirs.uid)).gone
    assert cluster.resource_version == before
    assert (await live(cluster, "cart"), await live(cluster, "till")) == ("1", "1")


async def test_a_work_without_manifests_says_so_too(cluster, side):
    await side("berlin", "hub-1").place(config_map("cart"))
    theirs = side("paris", "hub-1")
    await theirs.place()
    assert (await theirs.said())[0]["status"] == "False"


@pytest.mark.parametrize("other", ANOTHERS[:2])
async def test_an_object_that_another_owns_is_not_taken_over_although_our_hub_knows_no_such_work(cluster, side, other):
    ours, theirs = side("berlin", "hub-1"), side(*other)
    await ours.place(config_map("cart"))
    await theirs.place(config_map("cart", "2"), name="other-work")
    _, (found,) = await theirs.said("other-work")
    assert (found["reason"], await live(cluster, "cart")) == ("FailedToTakeOver", "1")


async def test_an_applied_work_of_which_no_hub_was_written_down_becomes_ours(cluster, side):
    """It is from an agent of before, or from one of another make."""
    await side("berlin", "").place(config_map("cart"))
    assert HUB_UID not in (await cluster.get(APPLIED_WORK, Key("shop-work")))["metadata"].get("annotations", {})
    ours = side("berlin", "hub-1")
    await ours.place(config_map("cart"))
    found = await cluster.get(APPLIED_WORK, Key("shop-work"))
    assert found["metadata"]["annotations"][HUB_UID] == "hub-1"
    assert found["spec"] == {"workName": "shop-work", "workNamespace": "fleet-member-berlin"}
    before = cluster.resource_version
    await ours.apply()
    assert cluster.resource_version == before
    assert (await side("paris", "hub-1").place(config_map("cart"))).settled is False


@pytest.mark.parametrize("leaves", [True, False], ids=["it-has-left", "it-is-taken-over"])
async def test_what_was_let_go_of_may_be_taken_over_and_the_rest_of_it_stays(cluster, side, leaves):
    old, new = side("berlin", "hub-1"), side("paris", "hub-2")
    await old.registration().claim("hub-1")
    await old.place(config_map("cart"), config_map("till"))
    if leaves:
        await old.registration().release("hub-1")
    await new.registration(take_over=not leaves).claim("hub-2")
    assert (await cluster.get(APPLIED_WORK, Key("shop-work")))["metadata"]["annotations"][RELEASED] == "true"
    await new.place(config_map("cart", "2"))
    assert (await live(cluster, "cart"), await live(cluster, "till")) == ("2", "1")
    await old.remove()
    assert (await live(cluster, "cart"), await live(cluster, "till")) == ("2", "1")
    assert (await new.remove())[0]
    assert (await live(cluster, "cart"), await live(cluster, "till")) == (None, "1")


async def test_an_agent_that_was_taken_over_applies_nothing_of_what_it_had(cluster, side):
    """Until it finds out by the note, which it reads with every heartbeat."""
    old, new = side("berlin", "hub-1"), side("paris", "hub-2")
    await old.registration().claim("hub-1")
    await old.place(config_map("cart"))
    await new.registration(take_over=True).claim("hub-2")
    before = cluster.resource_version
    await old.apply()
    assert "another agent has taken over" in (await old.said())[0]["message"]
    await old.remove()
    assert cluster.resource_version == before


async def left_and_joined_again(cluster, side):
    ours = side("berlin", "hub-1")
    await ours.registration().claim("hub-1")
    await ours.place(config_map("cart"))
    await ours.registration().release("hub-1")
    await ours.registration().claim("hub-1")
    before = cluster.resource_version
    await ours.registration().claim("hub-1")
    assert cluster.resource_version == before
    return ours


async def test_what_stayed_when_a_member_left_does_not_go_with_the_definition_of_its_books(cluster, side):
    """The Work has gone to another member meanwhile; only what was left behind is there."""
    ours = await left_and_joined_again(cluster, side)
    definition = {
        "apiVersion": CUSTOM_RESOURCE_DEFINITION.api_version,
        "kind": CUSTOM_RESOURCE_DEFINITION.kind,
        "metadata": {"name": APPLIED_WORK.resource, "finalizers": ["customresourcecleanup.apiextensions.k8s.io"]},
        "spec": {},
    }
    await cluster.create(CUSTOM_RESOURCE_DEFINITION, definition)
    await cluster.delete(CUSTOM_RESOURCE_DEFINITION, Key(APPLIED_WORK.resource))
    await cluster.delete(APPLIED_WORK, Key("shop-work"))
    await clean_up_without_work("shop-work", ours.hub, ObservedStore(cluster), NOW, HubMember("hub-1", ours.space))
    assert await live(cluster, "cart") == "1"
    with pytest.raises(NotFoundError):
        await cluster.get(APPLIED_WORK, Key("shop-work"))


async def test_what_stayed_when_a_member_left_stays_also_when_its_books_are_deleted_one_by_one(cluster, side):
    ours = await left_and_joined_again(cluster, side)
    await cluster.delete(APPLIED_WORK, Key("shop-work"))
    await clean_up_without_work("shop-work", ours.hub, ObservedStore(cluster), NOW, HubMember("hub-1", ours.space))
    assert await live(cluster, "cart") == "1"
    with pytest.raises(NotFoundError):
        await cluster.get(APPLIED_WORK, Key("shop-work"))


async def test_an_administrator_who_says_so_gets_rid_of_what_stayed_when_a_member_left(cluster, side):
    ours = await left_and_joined_again(cluster, side)
    stayed = await cluster.get(APPLIED_WORK, Key("shop-work"))
    await cluster.replace(APPLIED_WORK, with_removal_mark(stayed))
    await cluster.delete(APPLIED_WORK, Key("shop-work"))
    await clean_up_without_work("shop-work", ours.hub, ObservedStore(cluster), NOW, HubMember("hub-1", ours.space))
    assert await live(cluster, "cart") is None


async def test_who_joins_again_goes_on_with_what_it_had(cluster, side):
    ours = side("berlin", "hub-1")
    await ours.registration().claim("hub-1")
    await ours.place(config_map("cart"))
    await ours.registration().release("hub-1")
    await ours.registration().claim("hub-1")
    assert RELEASED not in (await cluster.get(APPLIED_WORK, Key("shop-work")))["metadata"]["annotations"]
    assert (await ours.remove())[0]
    assert await live(cluster, "cart") is None


async def test_who_a_cluster_is_recorded_for_is_known_without_the_hub(side):
    ours, theirs, elsewhere = side("berlin", "hub-1"), side("paris", "hub-1"), side("berlin", "hub-2")
    assert not await ours.registration().is_recorded()
    registration = ours.registration()
    await registration.claim("hub-1")
    assert await registration.is_recorded()
    assert await ours.registration().is_recorded()  # an agent that was started again
    assert not await theirs.registration().is_recorded()
    other = elsewhere.registration()
    with pytest.raises(ForeignClusterError):
        await other.claim("hub-2")
    assert not await other.is_recorded()
    await registration.release("hub-1")
    assert not await ours.registration().is_recorded()
