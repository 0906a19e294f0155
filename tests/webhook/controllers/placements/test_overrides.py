"""Overrides on a store: their snapshots, crashes between any two writes, deletion, and who asks for them."""

from contextlib import suppress
from datetime import UTC, datetime, timedelta
from itertools import count

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scorer.api.conditions import make_condition
from scorer.api.family import FAMILIES, PlacementRef
from scorer.api.kinds import BINDING, MEMBER_CLUSTER, NAMESPACE, OVERRIDE, STAGED_RUN
from scorer.api.names import IS_LATEST_SNAPSHOT, OVERRIDE_CLEANUP
from scorer.rollout.bindings import Overrides
from scorer.rollout.overrides.application import binding_override
from scorer.rollout.snapshots.groups import snapshot_groups
from scorer.rollout.snapshots.resources import UNTHROTTLED, plan_resource_snapshots
from scorer.rollout.works.plan import OverrideError
from tests.builders.binding import make_binding
from tests.scorer.builders import modest
from tests.webhook.controllers.by_hand import CrashError, life, opened
from webhook.controllers.machinery.result import DONE, Result, TerminalError
from webhook.controllers.placements.overrides import UNUSED_GRACE, OverrideController, OverrideRef, placement_of
from webhook.kube.listers.overrides import DesiredOverrides, desired_overrides, named_override_snapshots
from webhook.kube.ports import AlreadyExistsError, ConflictError, Key, NotFoundError, RetryError

KINDS = (
    *(kind for family in FAMILIES for kind in (family.override, family.override_snapshot, family.binding, family.run)),
    MEMBER_CLUSTER,
)
NOW = datetime(2026, 11, 20, 12, tzinfo=UTC)
REFS = [
    pytest.param(OverrideRef("zone"), id="cluster-scoped"),
    pytest.param(OverrideRef("zone", "shop"), id="namespaced"),
]


@pytest.fixture
def store():
    with opened() as store:
        yield store


def make_spec(ref, value="a", placement=None, clusters=()):
    selector = {"group": "", "version": "v1", "kind": "ConfigMap" if ref.namespace else "Namespace"}
    terms = [{"labelSelector": {"matchLabels": labels}} for labels in clusters]
    patch = {"op": "add", "path": "/metadata/labels", "value": {"zone": value}}
    rule = {"clusterSelector": {"clusterSelectorTerms": terms}, "jsonPatchOverrides": [patch]}
    spec = {
        "resourceSelectors" if ref.namespace else "clusterResourceSelectors": [
            {**selector, "name": "rates" if ref.namespace else "shop"}
        ],
        "policy": {"overrideRules": [rule]},
    }
    return spec | ({"placement": placement} if placement else {})


async def add(store, ref, value="a", **more):
    with suppress(AlreadyExistsError):
        await store.create(NAMESPACE, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "shop"}})
    metadata = {"name": ref.name} | ({"namespace": ref.namespace} if ref.namespace else {})
    document = {
        "apiVersion": ref.kind.api_version,
        "kind": ref.kind.kind,
        "metadata": metadata,
        "spec": make_spec(ref, value, **more),
    }
    return await store.create(ref.kind, document)


async def change(store, ref, value):
    stored = await store.get(ref.kind, Key(ref.name, ref.namespace))
    await store.replace(ref.kind, {**stored, "spec": make_spec(ref, value)})


def make_controller(process, record=lambda *_: None):
    """Make a controller for which the grace period ends before the next pass."""
    passes = count()
    return OverrideController(process.hub, lambda: NOW + next(passes) * UNUSED_GRACE, record)


async def reconcile(store, ref, told=None):
    """Let a new process reconcile until nothing is left to do; return how many writes it sent."""
    async with life(store, *KINDS) as process:
        record = lambda document, event: told is not None and told.append((document["metadata"]["name"], event))  # noqa: E731
        controller = make_controller(process, record)
        while await controller.reconcile(ref) != DONE:
            pass
        return process.hub.writes


async def snapshots(store, ref):
    listing = await store.list(ref.snapshot_kind, ref.namespace or None)
    return {item["metadata"]["name"]: item for item in listing.items}


def latest(found):
    return [name for name, item in found.items() if item["metadata"]["labels"][IS_LATEST_SNAPSHOT] == "true"]


@pytest.mark.parametrize("ref", REFS)
async def test_a_snapshot_per_spec_and_no_write_twice(store, ref):
    await add(store, ref)
    assert await reconcile(store, ref) == 2
    assert await reconcile(store, ref) == 0
    await change(store, ref, "b")
    assert await reconcile(store, ref) == 2
    assert await reconcile(store, ref) == 0
    found = await snapshots(store, ref)
    assert (list(found), latest(found)) == (["zone-0", "zone-1"], ["zone-1"])
    override = await store.get(ref.kind, Key(ref.name, ref.namespace))
    assert override["metadata"]["finalizers"] == [OVERRIDE_CLEANUP]
    assert found["zone-1"]["spec"]["overrideSpec"] == override["spec"]


@pytest.mark.parametrize("ref", REFS)
async def test_deleting_an_override_deletes_its_snapshots_and_no_others(store, ref):
    other = OverrideRef("zone-1", ref.namespace)
    for each in (ref, other):
        await add(store, each)
        await reconcile(store, each)
    await store.delete(ref.kind, Key(ref.name, ref.namespace))
    assert list(await snapshots(store, ref)) == ["zone-0", "zone-1-0"]
    await reconcile(store, ref)
    assert list(await snapshots(store, ref)) == ["zone-1-0"]
    with pytest.raises(NotFoundError):
        await store.get(ref.kind, Key(ref.name, ref.namespace))
    assert await reconcile(store, ref) == 0


async def bind(store, *names):
    """Let the binding of a placement name ClusterResourceOverrideSnapshots."""
    with suppress(NotFoundError):
        await store.delete(BINDING, Key("p-a"))
    if names:
        await store.create(BINDING, make_binding("p", "a", **Overrides(names).fields()))


@pytest.mark.parametrize("writes", range(5))
@pytest.mark.parametrize("lands", [pytest.param(False, id="lost"), pytest.param(True, id="stored")])
async def test_a_deletion_keeps_what_bindings_name_wherever_the_process_dies(store, writes, lands):
    ref = OverrideRef("zone")
    await add(store, ref)
    await reconcile(store, ref)
    await bind(store, "zone-0")
    await change(store, ref, "b")
    await reconcile(store, ref)
    await store.delete(OVERRIDE, Key("zone"))
    async with life(store, *KINDS) as process:
        process.store.writes_left, process.store.last_one_lands = writes, lands
        controller = make_controller(process)
        with suppress(CrashError, BaseExceptionGroup):
            while await controller.reconcile(ref) != DONE:
                pass
    await reconcile(store, ref)
    assert latest(found := await snapshots(store, ref)) == []
    assert list(found) == ["zone-0"]
    with pytest.raises(NotFoundError):
        await store.get(OVERRIDE, Key("zone"))
    assert await reconcile(store, ref) == 0
    await bind(store)
    assert await reconcile(store, ref) == 1
    assert await snapshots(store, ref) == {}


async def test_a_snapshot_is_deleted_after_it_was_unused_for_the_whole_grace_period(store):
    """A rollout that has read it as the latest one may write a binding that names it after the deletion."""
    ref, now = OverrideRef("zone"), NOW
    await add(store, ref)
    await reconcile(store, ref)
    await store.delete(OVERRIDE, Key("zone"))
    async with life(store, *KINDS) as process:
        controller = OverrideController(process.hub, lambda: now, lambda *_: None)

        async def reconciled():
            await process.hear()
            return await controller.reconcile(ref)

        assert await reconciled() == Result(UNUSED_GRACE)
        now += UNUSED_GRACE - timedelta(seconds=1)
        assert await reconciled() == Result(timedelta(seconds=1))
        await bind(store, "zone-0")
        now += timedelta(seconds=1)
        assert await reconciled() == DONE
        await bind(store)
        assert await reconciled() == Result(UNUSED_GRACE)
        assert list(await snapshots(store, ref)) == ["zone-0"]
        now += UNUSED_GRACE
        assert await reconciled() == DONE
    assert await snapshots(store, ref) == {}


async def test_a_replica_that_lags_does_not_delete_the_snapshot_of_a_recreated_override(store):
    ref = OverrideRef("zone")
    await add(store, ref)
    await reconcile(store, ref)
    await store.delete(OVERRIDE, Key("zone"))
    async with life(store, *KINDS) as lagging:
        controller = make_controller(lagging)
        assert await controller.reconcile(ref) != DONE
        await add(store, ref)
        await reconcile(store, ref)
        with pytest.raises(ConflictError):
            await controller.reconcile(ref)
    assert latest(await snapshots(store, ref)) == ["zone-0"]


async def test_the_snapshots_of_a_run_remain_until_it_is_over(store):
    ref = OverrideRef("zone")
    await add(store, ref)
    await reconcile(store, ref)
    stages = [{"stageName": "s", "clusters": [{"clusterName": "a", "clusterResourceOverrideSnapshots": ["zone-0"]}]}]
    kind, metadata = STAGED_RUN, {"name": "r"}
    spec = {"placementName": "p", "stagedRolloutStrategyName": "careful"}
    run = {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": metadata, "spec": spec}
    run = await store.replace_status(kind, {**await store.create(kind, run), "status": {"stagesStatus": stages}})
    await store.delete(OVERRIDE, Key("zone"))
    await reconcile(store, ref)
    assert list(await snapshots(store, ref)) == ["zone-0"]
    succeeded = make_condition("Succeeded", "True", "Done", "", generation=1, now=NOW)
    await store.replace_status(kind, {**run, "status": {"stagesStatus": stages, "conditions": [succeeded]}})
    await reconcile(store, ref)
    assert await snapshots(store, ref) == {}


@modest(60)
@given(data=st.data())
async def test_a_process_may_die_at_any_write(data):
    """There is always a latest snapshot once there was one, and in the end there is one, with the last spec."""
    ref = data.draw(st.sampled_from([OverrideRef("zone"), OverrideRef("zone", "shop")]))
    with opened() as store:
        await add(store, ref)
        for _ in range(data.draw(st.integers(1, 8))):
            await change(store, ref, data.draw(st.sampled_from("abc")))
            async with life(store, *KINDS) as process:
                process.store.writes_left = data.draw(st.integers(0, 3))
                process.store.last_one_lands = data.draw(st.booleans())
                with suppress(CrashError, BaseExceptionGroup):
                    await make_controller(process).reconcile(ref)
            found = await snapshots(store, ref)
            assert bool(latest(found)) is bool(found)
        await reconcile(store, ref)
        assert await reconcile(store, ref) == 0
        found = await snapshots(store, ref)
        override = await store.get(ref.kind, Key(ref.name, ref.namespace))
        (name,) = latest(found)
        assert found[name]["spec"]["overrideSpec"] == override["spec"]
        await store.delete(ref.kind, Key(ref.name, ref.namespace))
        async with life(store, *KINDS) as process:
            process.store.writes_left = data.draw(st.integers(0, 4))
            controller = make_controller(process)
            with suppress(CrashError, BaseExceptionGroup):
                while await controller.reconcile(ref) != DONE:
                    pass
        await reconcile(store, ref)
        assert await snapshots(store, ref) == {}
        with pytest.raises(NotFoundError):
            await store.get(ref.kind, Key(ref.name, ref.namespace))


async def test_a_name_that_cannot_be_a_label_is_told(store):
    ref, told = OverrideRef("n" * 64), []
    await add(store, ref)
    with pytest.raises(TerminalError, match=r"metadata\.name"):
        await reconcile(store, ref, told)
    assert [(name, event.reason, event.type) for name, event in told] == [
        ("n" * 64, "OverrideWithoutSnapshot", "Warning")
    ]
    assert await snapshots(store, ref) == {}


@pytest.mark.parametrize(
    ("ref", "placement", "woken"),
    [
        pytest.param(
            OverrideRef("o"), {"name": "p"}, PlacementRef("ClusterResourcePlacement", "p"), id="scope-by-default"
        ),
        pytest.param(
            OverrideRef("o", "shop"),
            {"name": "p", "scope": "Cluster"},
            PlacementRef("ClusterResourcePlacement", "p"),
            id="namespaced-override-of-a-cluster-scoped-placement",
        ),
        pytest.param(
            OverrideRef("o", "shop"),
            {"name": "p", "scope": "Namespaced"},
            PlacementRef("ResourcePlacement", "p", "shop"),
            id="namespaced-placement",
        ),
        pytest.param(OverrideRef("o", "shop"), None, None, id="any-placement"),
    ],
)
async def test_the_placement_that_a_snapshot_wakes(store, ref, placement, woken):
    await add(store, ref, placement=placement)
    await reconcile(store, ref)
    (snapshot,) = (await snapshots(store, ref)).values()
    assert placement_of(snapshot) == woken
    assert OverrideRef.parent(snapshot) == ref


PLACEMENT = {"apiVersion": "v", "kind": "K", "metadata": {"name": "p", "uid": "u"}, "spec": {}}
CONFIG_MAP = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "rates", "namespace": "shop"}}


def make_group(*objects):
    plan = plan_resource_snapshots(PLACEMENT, [], objects, datetime(2026, 11, 20, tzinfo=UTC), UNTHROTTLED)
    return snapshot_groups(write.document for write in plan.writes)[0]


async def add_member(store, name, **labels):
    metadata = {"name": name, "labels": labels}
    kind = MEMBER_CLUSTER
    await store.create(kind, {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": metadata, "spec": {}})


async def test_bindings_get_what_holds_for_their_clusters(store):
    everywhere, west = OverrideRef("all"), OverrideRef("west", "shop")
    await add(store, everywhere)
    await add(store, west, clusters=[{"zone": "west"}])
    for ref in (everywhere, west):
        await reconcile(store, ref)
    await add_member(store, "a", zone="west")
    await add_member(store, "b")
    async with life(store, *KINDS) as process:
        bindings = [
            make_binding("p", "a"),
            make_binding("p", "b", state="Scheduled"),
            make_binding("p", "gone", state="Unscheduled"),
        ]
        desired = desired_overrides(process.cache, PLACEMENT, make_group(CONFIG_MAP), bindings)
        assert desired.by_cluster == {"a": Overrides(("all-0",), (("shop", "west-0"),)), "b": Overrides(("all-0",))}
        assert not desired.awaited
        assert desired_overrides(process.cache, PLACEMENT, None, bindings) == DesiredOverrides()
        other = {**CONFIG_MAP, "metadata": {"name": "rates", "namespace": "dock"}}
        assert desired_overrides(process.cache, PLACEMENT, make_group(other), bindings) == DesiredOverrides()
        with pytest.raises(RetryError, match="gone"):
            desired_overrides(process.cache, PLACEMENT, make_group(CONFIG_MAP), [make_binding("p", "gone")])
        assert (
            desired_overrides(process.cache, PLACEMENT, make_group(other), [make_binding("p", "gone")])
            == DesiredOverrides()
        )


async def test_overrides_without_a_snapshot_are_named(store):
    for name in "abcde":
        await add(store, OverrideRef(name))
    await reconcile(store, OverrideRef("a"))
    async with life(store, *KINDS) as process:
        desired = desired_overrides(process.cache, PLACEMENT, make_group(CONFIG_MAP), [])
    assert desired.waits() == (
        "waits for the snapshot of ClusterResourceOverride b, ClusterResourceOverride c, ClusterResourceOverride d "
        "and 1 more"
    )


async def test_an_override_that_cannot_have_a_snapshot_is_awaited_with_the_reason(store):
    """Otherwise its placements would roll out as if there were no override."""
    await add(store, OverrideRef("n" * 64))
    async with life(store, *KINDS) as process:
        desired = desired_overrides(process.cache, PLACEMENT, make_group(CONFIG_MAP), [])
    assert desired.waits() == (
        f"waits for the snapshot of ClusterResourceOverride {'n' * 64} "
        f"(metadata.name '{'n' * 64}' has 64 characters, must have at most 63)"
    )


async def test_a_group_that_is_still_being_made_is_waited_for(store):
    big = [{**CONFIG_MAP, "data": {"d": "z" * 500_000}}, {**CONFIG_MAP, "data": {"d": "z" * 500_001}}]
    half = snapshot_groups([make_group(*big).master])[0]
    async with life(store, *KINDS) as process:
        assert desired_overrides(process.cache, PLACEMENT, half, [make_binding("p", "a")]) == DesiredOverrides()
    await add(store, OverrideRef("all"))
    await reconcile(store, OverrideRef("all"))
    async with life(store, *KINDS) as process:
        with pytest.raises(RetryError, match="index 0"):
            desired_overrides(process.cache, PLACEMENT, half, [make_binding("p", "a")])


async def test_a_binding_applies_the_snapshots_it_names_and_no_newer_ones(store):
    ref = OverrideRef("zone")
    await add(store, ref, "old")
    await reconcile(store, ref)
    await change(store, ref, "new")
    await reconcile(store, ref)
    await add_member(store, "a")
    async with life(store, *KINDS) as process:
        member = process.cache.get(MEMBER_CLUSTER, "a")

        def applied(*names):
            binding = make_binding("p", "a", **Overrides(names).fields())
            return binding_override(binding, member, named_override_snapshots(process.cache, binding))(CONFIG_MAP)

        assert applied("zone-0")["metadata"]["labels"] == {"zone": "old"}
        assert applied("zone-1")["metadata"]["labels"] == {"zone": "new"}
        gone = applied("zone-2")
        assert isinstance(gone, OverrideError)
        assert "zone-2" in gone.message
        assert applied() == CONFIG_MAP
