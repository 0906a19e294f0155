"""Definitions that Works placed: deleted only if no object goes with them that did not come from a Work."""

from contextlib import suppress

import pytest

from scorer.api.kinds import APPLIED_WORK, CUSTOM_RESOURCE_DEFINITION, EVENT, KINDS, NAMESPACE, WORK, Kind
from scorer.api.names import ABANDON, HUB_UID, KEEP, RELEASED, WRITTEN
from scorer.api.unstructured.documents import with_metadata
from scorer.membership.identity import HubMember
from scorer.rollout.removal.marks import with_removal_mark
from tests.webhook.member.hub_and_member import SPACE, Cluster, config_map, namespace
from webhook.embedded.simulation.member_stores import ObservedStore
from webhook.kube.ports import ForbiddenError, Key, NotFoundError, NotServedError, StoreError, UnavailableError
from webhook.member.works.reconciler import clean_up_without_work, reconcile_work

CONFIG_MAP = KINDS["", "ConfigMap"]
NAME = "boats.example.com"
BOAT = Kind("example.com", ("v1",), "Boat", "boats", namespaced=True)


@pytest.fixture
async def cluster():
    made = Cluster()
    await made.hub.create(NAMESPACE, namespace(SPACE))
    for name in ("web", "default"):
        await made.member.create(NAMESPACE, namespace(name))
    yield made
    made.hub.close()
    made.member.close()


def definition(scope="Namespaced", *, served=True):
    versions = [{"name": "v1", "served": served, "storage": True}]
    spec = {"group": "example.com", "scope": scope, "names": {"kind": "Boat", "plural": "boats"}, "versions": versions}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": NAME},
        "spec": spec,
    }


def boat(name, space="web"):
    place = {"namespace": space} if space else {}
    return {"apiVersion": "example.com/v1", "kind": "Boat", "metadata": {"name": name, **place}}


async def defined(cluster):
    """Return the owners of the definition on the member; None: it is not there."""
    live = await cluster.live(CUSTOM_RESOURCE_DEFINITION, NAME, "")
    return None if live is None else [owner["name"] for owner in live["metadata"].get("ownerReferences") or ()]


async def notes(store):
    return [event["note"] for event in (await store.list(EVENT)).items if event["reason"] == "DefinitionReleased"]


async def drop(cluster, way):
    """Take the definition off its Work, or the Work off the hub; return whether the Work is gone."""
    if way == "dropped":
        await cluster.place(config_map())
    else:
        await cluster.remove()
    outcome = await cluster.reconcile()
    return outcome.gone


ways = pytest.mark.parametrize("way", ["dropped", "deleted"])


@ways
@pytest.mark.parametrize("scope", ["Namespaced", "Cluster"])
async def test_a_definition_with_an_object_of_the_member_is_released(cluster, scope, way):
    await cluster.place(config_map(), definition(scope))
    await cluster.reconcile()
    kind = cluster.member.kinds.find("example.com", "Boat")
    await cluster.member.create(kind, boat("theirs", "web" if scope == "Namespaced" else ""))
    assert await drop(cluster, way) == (way == "deleted"), "the Work completes"
    assert await defined(cluster) == []
    for store in (cluster.hub, cluster.member):
        (note,) = await notes(store)
        where = "web/theirs" if scope == "Namespaced" else "theirs"
        assert f"Boat {where} may not have come from a Work" in note
        assert f"kubectl delete crd {NAME}" in note
    if way == "dropped":
        assert (await cluster.conditions())["Applied"][0] == "True"
        before = cluster.versions
        await cluster.reconcile()
        assert cluster.versions == before


@ways
async def test_a_definition_without_objects_or_with_placed_ones_is_deleted(cluster, way):
    await cluster.place(config_map(), definition(), boat("placed"))
    await cluster.reconcile()
    await cluster.place(boat("another"), name="other-work")
    await cluster.reconcile("other-work")
    assert await drop(cluster, way) == (way == "deleted")
    assert await defined(cluster) is None
    assert await notes(cluster.hub) == []


async def of_another_hub(cluster):
    await cluster.place(boat("placed"), name="other-work")
    await cluster.reconcile("other-work")
    owner = await cluster.member.get(APPLIED_WORK, Key("other-work"))
    await cluster.member.replace(APPLIED_WORK, with_metadata(owner, annotations={HUB_UID: "hub-2"}))


async def let_go(cluster):
    await cluster.place(boat("placed"), name="other-work")
    await cluster.reconcile("other-work")
    owner = await cluster.member.get(APPLIED_WORK, Key("other-work"))
    await cluster.member.replace(APPLIED_WORK, with_metadata(owner, annotations={RELEASED: "true"}))


async def kept_without_order(cluster):
    await cluster.place(boat("placed"), name="other-work")
    await cluster.reconcile("other-work")
    await cluster.hub.delete(WORK, Key("other-work", SPACE))


async def abandoned(cluster):
    await cluster.place(boat("placed"), name="other-work")
    await cluster.reconcile("other-work")
    await cluster.remove("other-work", **{ABANDON: "true"})


async def held(cluster):
    await cluster.place(boat("placed"), boat("forgotten"), name="other-work")
    await cluster.reconcile("other-work")
    work = await cluster.work("other-work")
    await cluster.hub.replace(WORK, with_metadata({**work, "metadata": {**work["metadata"], "finalizers": []}}))
    await cluster.hub.delete(WORK, Key("other-work", SPACE))
    await cluster.place(boat("placed"), name="other-work")
    older = with_metadata(await cluster.work("other-work"), annotations={WRITTEN: "2026-01-01T00:00:00Z"})
    await cluster.hub.replace(WORK, older)
    assert (await cluster.reconcile("other-work")).held


async def marked(cluster):
    await cluster.place(boat("placed"), name="other-work")
    await cluster.reconcile("other-work")
    live = await cluster.live(BOAT, "placed")
    await cluster.member.replace(BOAT, with_metadata(live, annotations={KEEP: "true"}))


async def shared(cluster):
    await cluster.place(boat("placed"), name="other-work")
    await cluster.reconcile("other-work")
    live = await cluster.live(BOAT, "placed")
    other = {"apiVersion": "v1", "kind": "ConfigMap", "name": "stranger", "uid": "1"}
    live["metadata"]["ownerReferences"].append(other)
    await cluster.member.replace(BOAT, live)


@ways
@pytest.mark.parametrize("arrange", [of_another_hub, let_go, kept_without_order, abandoned, held, marked, shared])
async def test_placed_objects_that_are_to_stay_or_that_the_hub_cannot_create_again_keep_it(cluster, arrange, way):
    await cluster.place(config_map(), definition())
    await cluster.reconcile()
    await arrange(cluster)
    await drop(cluster, way)
    assert await defined(cluster) == []
    assert len(await notes(cluster.member)) == 1


@ways
async def test_an_owner_that_is_no_applied_work_does_not_count(cluster, way):
    await cluster.place(config_map(), definition())
    await cluster.reconcile()
    made, owner = boat("theirs"), await cluster.member.create(CONFIG_MAP, config_map("local"))
    reference = {"apiVersion": "v1", "kind": "ConfigMap", "name": "local", "uid": owner["metadata"]["uid"]}
    made["metadata"]["ownerReferences"] = [reference]
    await cluster.member.create(BOAT, made)
    await drop(cluster, way)
    assert await defined(cluster) == []


class Silent(ObservedStore):
    """A member that does not list boats.

    Args:
        store: The store itself.
        error: Its answer.
    """

    def __init__(self, store, error):
        super().__init__(store)
        self.error = error

    async def list(self, kind, namespace=None, labels=None):
        if kind.kind == "Boat" and self.error is not None:
            raise self.error
        return await super().list(kind, namespace, labels)


@ways
@pytest.mark.parametrize(
    "error",
    [
        ForbiddenError("boats is forbidden"),
        NotFoundError("the server could not find the requested resource"),
        UnavailableError("conversion webhook for example.com/v1beta1, Kind=Boat failed: connection refused"),
    ],
)
async def test_a_definition_whose_objects_cannot_be_listed_is_released(cluster, way, error):
    await cluster.place(config_map(), definition())
    await cluster.reconcile()
    await (cluster.place(config_map()) if way == "dropped" else cluster.remove())
    outcome = await reconcile_work(Key("web-work", SPACE), cluster.hub, Silent(cluster.member, error), cluster.time)
    assert outcome.gone == (way == "deleted")
    assert await defined(cluster) == []
    assert str(error) in (await notes(cluster.hub))[0]


@ways
async def test_a_definition_that_serves_no_version_is_released(cluster, way):
    await cluster.place(config_map(), definition())
    await cluster.reconcile()
    await cluster.edit(CUSTOM_RESOURCE_DEFINITION, NAME, "", spec=definition(served=False)["spec"])
    await drop(cluster, way)
    assert await defined(cluster) == []


@ways
async def test_a_list_that_fails_for_the_moment_decides_nothing(cluster, way):
    await cluster.place(config_map(), definition())
    await cluster.reconcile()
    await (cluster.place(config_map()) if way == "dropped" else cluster.remove())
    member = Silent(cluster.member, UnavailableError("etcdserver: request timed out"))
    for _ in range(2):
        try:
            outcome = await reconcile_work(Key("web-work", SPACE), cluster.hub, member, cluster.time)
        except StoreError:
            assert way == "deleted"
        else:
            assert not outcome.gone
        assert await defined(cluster) == ["web-work"]
    member.error = None
    await reconcile_work(Key("web-work", SPACE), cluster.hub, member, cluster.time)
    assert await defined(cluster) is None


class _Served:
    """The kinds that a new agent discovers while the server of one group is down."""

    silent = frozenset({"example.com"})

    def __init__(self, served):
        self.kinds = {name: kind for name, kind in served.kinds.items() if name[0] not in self.silent}

    async def refresh(self):
        """Discover nothing else."""


@ways
async def test_objects_of_a_group_whose_server_is_down_remain_with_their_owner(cluster, way):
    await cluster.place(config_map(), definition(), name="other-work")
    await cluster.reconcile("other-work")
    await cluster.place(config_map("more"), boat("placed"))
    await cluster.reconcile()
    live = await cluster.live(BOAT, "placed")
    await cluster.member.replace(BOAT, with_metadata(live, annotations={KEEP: "true"}))
    await (cluster.place(config_map("more")) if way == "dropped" else cluster.remove())
    member = ObservedStore(cluster.member)
    member._served = _Served(member.served)
    with suppress(StoreError):
        await reconcile_work(Key("web-work", SPACE), cluster.hub, member, cluster.time)
    assert await cluster.live(APPLIED_WORK, "web-work", "") is not None
    assert (await cluster.live(BOAT, "placed"))["metadata"]["ownerReferences"], "its owner is not deleted"
    outcome = await cluster.reconcile()
    assert outcome.gone == (way == "deleted")
    assert not (await cluster.live(BOAT, "placed"))["metadata"].get("ownerReferences")


class WithoutKind(ObservedStore):
    """A cluster that has just lost the definition of a kind: it does not list its objects any more."""

    def __init__(self, store, kind):
        super().__init__(store)
        self.kind = kind

    async def list(self, kind, namespace=None, labels=None):
        if kind == self.kind:
            raise NotServedError(f"{kind} is not served")
        return await super().list(kind, namespace, labels)


@ways
@pytest.mark.parametrize("side", ["hub", "member"])
async def test_a_cluster_that_loses_our_definitions_meanwhile_decides_nothing(cluster, way, side):
    await cluster.place(config_map(), definition())
    await cluster.reconcile()
    await cluster.member.create(BOAT, boat("theirs"))
    await (cluster.place(config_map()) if way == "dropped" else cluster.remove())
    hub = WithoutKind(cluster.hub, WORK) if side == "hub" else cluster.hub
    member = WithoutKind(cluster.member, APPLIED_WORK) if side == "member" else ObservedStore(cluster.member)
    with suppress(StoreError):
        await reconcile_work(Key("web-work", SPACE), hub, member, cluster.time)
    assert await defined(cluster) == ["web-work"]
    assert await cluster.live(APPLIED_WORK, "web-work", "") is not None


@pytest.mark.parametrize("occupied", [False, True])
async def test_an_administrator_who_removes_what_has_no_work_keeps_such_definitions_too(cluster, occupied):
    await cluster.place(config_map(), definition())
    await cluster.reconcile()
    if occupied:
        await cluster.member.create(BOAT, boat("theirs"))
    await cluster.hub.delete(WORK, Key("web-work", SPACE))
    await cluster.reconcile()
    owner = await cluster.member.get(APPLIED_WORK, Key("web-work"))
    await cluster.member.replace(APPLIED_WORK, with_removal_mark(owner))
    await cluster.member.delete(APPLIED_WORK, Key("web-work"))
    us, member = HubMember("", SPACE), ObservedStore(cluster.member)
    await clean_up_without_work("web-work", cluster.hub, member, cluster.time, us)
    assert await cluster.live(APPLIED_WORK, "web-work", "") is None
    assert await defined(cluster) == ([] if occupied else None)
