"""May a member be disrupted now: every answer of both gates, each from a hub in that state."""

import asyncio
import random
from contextlib import suppress
from datetime import UTC, datetime, timedelta

import pytest

from scorer.api.family import PlacementRef, UnknownObjectError
from scorer.api.kinds import (
    BINDING,
    EVICTION,
    LEASE,
    MAINTENANCE_WINDOW,
    MEMBER_CLUSTER,
    NAMESPACE,
    OVERRIDE,
    PLACEMENT,
    RESOURCE_SNAPSHOT,
    STAGED_RUN,
    UPGRADE_RUN,
)
from scorer.api.meta import format_time
from scorer.api.names import (
    IS_LATEST_SNAPSHOT,
    NUMBER_OF_RESOURCE_SNAPSHOTS,
    PARENT_PLACEMENT,
    RESOURCE_HASH,
    RESOURCE_INDEX,
    UPGRADE_WINDOWS,
)
from scorer.api.unstructured.documents import with_metadata
from scorer.member_gate.holds import MemberDisruption
from scorer.reservations import (
    MEMBER,
    RESERVATIONS,
    ROLLOUT,
    Reservation,
    UnreadableReservationsError,
    lease_name,
    read_reservations,
)
from scorer.rollout.removal.eviction import EVICTED_BINDING
from tests.builders.condition import condition
from tests.webhook.controllers.by_hand import CrashError, life, opened
from webhook.gate.errors import MemberHeldError, NotYoursError, ReservationRefusedError, UnknownReservationError
from webhook.gate.keeper import Claimant, ReservationKeeper
from webhook.gate.members import WATCHED, HubMemberGate, _promises
from webhook.gate.reservations import LeaseReservations
from webhook.kube.ports import Key, UnavailableError
from webhook.settings.answers import DisruptionSettings

NOW = datetime(2026, 11, 20, 12, tzinfo=UTC)
WEB = PlacementRef(PLACEMENT.kind, "web")


@pytest.fixture
async def store():
    with opened() as store:
        await add(store, NAMESPACE, "harbormaster-system", None)
        yield store


async def add(store, kind, name, spec, status=None, **metadata):
    document = {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": {"name": name, **metadata}}
    created = await store.create(kind, document | ({} if spec is None else {"spec": spec}))
    return created if status is None else await store.replace_status(kind, {**created, "status": status})


async def add_member(store, name="a", **annotations):
    return await add(store, MEMBER_CLUSTER, name, {"identity": {"kind": "User", "name": name}}, annotations=annotations)


class Hub:
    """The gate of one process over a store."""

    def __init__(self, process, **settings):
        chosen = DisruptionSettings(**settings)
        self.reservations = LeaseReservations(process.store, chosen.namespace, lambda: NOW)
        self.keeper = ReservationKeeper(self.reservations, lambda: NOW)
        self.gate = HubMemberGate(process.cache, self.keeper, process.store, chosen, lambda: NOW)

    async def upgrade(self, member, seconds=60):
        """Hold a member for a tool that upgrades it."""
        return await self.keeper.hold_member(member, MemberDisruption.UPGRADE, Claimant("run-7", "loop"), seconds)


def told(answer):
    """Return the answer as it is sent; `allowed` says the same as the reason."""
    return consistent(answer.document())


def consistent(document):
    assert document["allowed"] is (document["reason"] == "Allowed")
    return document


async def ask(store, question, **settings):
    async with life(store, *WATCHED) as process:
        return told(question(Hub(process, **settings).gate))


async def ask_rollout(store, cluster="a", **settings):
    return await ask(store, lambda gate: gate.rollout(WEB, cluster), **settings)


async def ask_update(store, cluster="a", run="", **settings):
    return await ask(store, lambda gate: gate.cluster_update(cluster, run), **settings)


# Rolling updates.


async def add_placement(store, **strategy):
    policy = {"placementType": "PickN", "numberOfClusters": 2}
    await add(store, PLACEMENT, "web", {"resourceSelectors": [], "policy": policy, "strategy": strategy})


async def add_snapshot(store, index=1, contents=()):
    labels = {PARENT_PLACEMENT: "web", RESOURCE_INDEX: str(index), IS_LATEST_SNAPSHOT: "true"}
    annotations = {RESOURCE_HASH: "x", NUMBER_OF_RESOURCE_SNAPSHOTS: "1"}
    spec = {"selectedResources": list(contents)}
    await add(store, RESOURCE_SNAPSHOT, f"web-{index}-snapshot", spec, labels=labels, annotations=annotations)


def ready_conditions(available="True"):
    return [
        {"type": kind, "status": status, "reason": "AllWorkAreAvailable", "observedGeneration": 1}
        for kind, status in (("RolloutStarted", "True"), ("Available", available))
        if status
    ]


async def add_binding(store, cluster, *, snapshot="web-0-snapshot", state="Bound", available="True", placement="web"):
    return await add(
        store,
        BINDING,
        f"{placement}-{cluster}",
        {"state": state, "targetCluster": cluster, "resourceSnapshotName": snapshot},
        {"conditions": ready_conditions(available)},
        labels={PARENT_PLACEMENT: placement},
        finalizers=["example.com/hold"],
    )


async def add_rollout(store, a="web-0-snapshot", b="web-0-snapshot", **strategy):
    await add_placement(store, **strategy)
    await add_snapshot(store)
    for cluster, snapshot in (("a", a), ("b", b)):
        await add_member(store, cluster)
        await add_binding(store, cluster, snapshot=snapshot)


ONE_UNAVAILABLE = {"rollingUpdate": {"maxUnavailable": 1}}


async def test_nothing_is_allowed_while_an_old_binding_of_a_cluster_is_being_deleted(store):
    await add_rollout(store, **ONE_UNAVAILABLE)
    await store.delete(BINDING, Key("web-a"))
    labels = {PARENT_PLACEMENT: "web"}
    await add(store, BINDING, "web-a-again", {"state": "Scheduled", "targetCluster": "a"}, labels=labels)
    answer = await ask_rollout(store, "b")
    assert (answer["reason"], answer["retryAfterSeconds"]) == ("BudgetUsedUp", 5)
    assert answer["message"] == "crp/web waits until the old binding of a cluster that was picked again is deleted"


async def test_the_first_cluster_may_be_updated_and_the_second_waits_for_it(store):
    await add_rollout(store, **ONE_UNAVAILABLE)
    first, second = [await ask_rollout(store, cluster) for cluster in "ab"]
    assert (first["reason"], first["retryAfterSeconds"]) == ("Allowed", 0)
    assert first["message"] == "crp/web may be updated on cluster a"
    numbers = {"snapshot": "web-1-snapshot", "wanted": 2, "ready": 2, "mayBeTakenAway": 1, "mayBeAdded": 1}
    assert first["detail"] == numbers
    assert second["reason"] == "BudgetUsedUp"
    assert second["message"] == (
        "crp/web: 2 of 2 clusters are ready, so 1 may be updated or removed, and 1 added, and other clusters come first"
    )
    assert second["retryAfterSeconds"] == 10


async def test_what_is_up_to_date_has_nothing_to_do(store):
    await add_rollout(store, a="web-1-snapshot")
    answer = await ask_rollout(store)
    assert (answer["reason"], answer["message"]) == ("NothingToDo", "crp/web is on its latest resources on cluster a")
    assert (await ask_rollout(store, "b"))["reason"] == "Allowed"


async def test_no_cluster_may_be_updated_before_an_override_has_a_snapshot(store):
    await add_placement(store, **ONE_UNAVAILABLE)
    await add_snapshot(store, contents=[{"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "shop"}}])
    await add_member(store)
    await add_binding(store, "a")
    selector = {"group": "", "version": "v1", "kind": "Namespace", "name": "shop"}
    await add(store, OVERRIDE, "zone", {"clusterResourceSelectors": [selector], "policy": {"overrideRules": []}})
    answer = await ask_rollout(store)
    assert (answer["reason"], answer["message"]) == (
        "BudgetUsedUp",
        "the rollout of crp/web waits for the snapshot of ClusterResourceOverride zone",
    )


@pytest.mark.parametrize("snapshot", ["web-0-snapshot", "web-1-snapshot"])
async def test_a_cluster_that_is_being_left_has_nothing_to_do(store, snapshot):
    await add_rollout(store, a=snapshot)
    await store.delete(BINDING, Key("web-a"))
    answer = await ask_rollout(store)
    assert (answer["reason"], answer["message"]) == ("NothingToDo", "crp/web is leaving cluster a")


async def test_a_cluster_that_is_not_picked_is_not_selected(store):
    await add_rollout(store)
    await add_member(store, "c")
    answer = await ask_rollout(store, "c")
    assert (answer["reason"], answer["message"]) == ("NotSelected", "crp/web has not picked cluster c")


async def test_a_placement_without_resources_has_nothing_to_do(store):
    await add_placement(store)
    await add_member(store)
    await add_binding(store, "a")
    assert (await ask_rollout(store))["message"] == "nothing of crp/web has been selected yet"


async def test_a_rollout_that_is_stopped_is_told(store):
    await add_rollout(store)
    await add(
        store,
        BINDING,
        "web-a-again",
        {"state": "Bound", "targetCluster": "a"},
        labels={PARENT_PLACEMENT: "web"},
    )
    answer = await ask_rollout(store)
    assert answer["reason"] == "BudgetUsedUp"
    assert "cluster a has several bindings" in answer["message"]


async def test_a_placement_that_is_being_deleted_has_nothing_to_do(store):
    await add_member(store)
    await add(store, PLACEMENT, "web", {"resourceSelectors": []}, finalizers=["example.com/hold"])
    async with life(store, *WATCHED) as process:
        await store.delete(PLACEMENT, ("web", ""))
        await process.hear()
        assert told(Hub(process).gate.rollout(WEB, "a"))["reason"] == "NothingToDo"


@pytest.mark.parametrize("what", ["placement", "cluster"])
async def test_what_does_not_exist_is_not_answered_for(store, what):
    await (add_member(store) if what == "placement" else add_placement(store))
    with pytest.raises(UnknownObjectError, match=r"there is no (placement crp/web|member cluster 'a')"):
        await ask_rollout(store)


# What holds a member.


async def test_a_rollout_to_a_member_that_is_upgraded_is_held(store):
    await add_rollout(store)
    await add_run(store, a="Running")
    answer = await ask_rollout(store)
    assert (answer["reason"], answer["message"]) == ("MemberHeld", "member a is being upgraded by run v131")
    assert answer["detail"]["heldBy"] == {"kind": "Upgrade", "by": "upgrade/v131"}
    assert (await ask_rollout(store, gate_members=()))["reason"] == "Allowed"


@pytest.mark.parametrize(("gated", "reason"), [((), "BudgetUsedUp"), (("Rollout",), "Allowed")])
async def test_a_held_member_leaves_its_turn_to_others_where_rollouts_take_part(store, gated, reason):
    await add_rollout(store, **ONE_UNAVAILABLE)
    await add_run(store, a="Running")
    assert (await ask_rollout(store, "a", gate_members=("Upgrade", *gated)))["reason"] == "MemberHeld"
    assert (await ask_rollout(store, "b", gate_members=("Upgrade", *gated)))["reason"] == reason


async def test_an_eviction_that_is_under_way_holds_its_member(store):
    await add_rollout(store)
    await add_run(store, a="NotStarted")
    uid = (await add_binding(store, "a", placement="other"))["metadata"]["uid"]
    await add(
        store, EVICTION, "off-a", {"placementName": "other", "clusterName": "a"}, annotations={EVICTED_BINDING: uid}
    )
    for answer in (await ask_rollout(store), await ask_update(store)):
        assert answer["reason"] == "MemberHeld"
        assert answer["message"] == "eviction off-a is removing placement other from member a"
    assert (await ask_update(store, gate_members=("Upgrade",)))["reason"] == "Allowed"


async def test_a_rollout_holds_its_member_where_rollouts_take_part(store):
    await add_member(store)
    await add_binding(store, "a", available="")
    await add_run(store, a="NotStarted")
    assert (await ask_update(store))["reason"] == "Allowed"
    answer = await ask_update(store, gate_members=tuple(MemberDisruption))
    assert answer["detail"]["heldBy"] == {"kind": "Rollout", "by": "rollout/crp/web"}


async def test_a_reservation_holds_for_others_and_says_until_when(store):
    await add_rollout(store)
    await add_run(store, a="NotStarted")
    async with life(store, *WATCHED) as process:
        hub = Hub(process, gate_members=())
        await hub.upgrade("a", 5)
        answer = told(hub.gate.rollout(WEB, "a"))
        assert answer["reason"] == "MemberHeld"
        held = {"kind": "Upgrade", "by": "run-7", "until": format_time(NOW + timedelta(seconds=5))}
        assert answer["detail"]["heldBy"] == held
        assert answer["retryAfterSeconds"] == 5
        assert told(hub.gate.cluster_update("a"))["reason"] == "Allowed"


# Maintenance windows.


async def add_window(store, begins=15):
    spec = {"schedule": {"daily": {"intervalDays": 1}}, "startTime": f"{begins}:00"}
    await add(store, MAINTENANCE_WINDOW, "nights", spec)


async def name_window(store, cluster):
    stored = await store.get(MEMBER_CLUSTER, Key(cluster))
    await store.replace(MEMBER_CLUSTER, with_metadata(stored, annotations={UPGRADE_WINDOWS: "nights"}))


async def test_a_rollout_to_a_member_whose_windows_are_closed_is_refused_until_one_opens(store):
    await add_rollout(store)
    await add_window(store)
    await name_window(store, "a")
    answer = await ask_rollout(store)
    opens = NOW.replace(hour=15, minute=0)
    assert (answer["reason"], answer["retryAfterSeconds"]) == (
        "MaintenanceWindowClosed",
        (opens - NOW).total_seconds(),
    )
    assert answer["message"] == f"maintenance window nights is closed until {format_time(opens)}"
    await store.delete(MAINTENANCE_WINDOW, Key("nights"))
    answer = await ask_rollout(store)
    assert (answer["message"], answer["retryAfterSeconds"]) == ("maintenance window nights does not exist", 10)


async def test_a_member_whose_windows_are_closed_leaves_its_turn_to_others(store):
    await add_rollout(store, **ONE_UNAVAILABLE)
    await add_window(store)
    assert [(await ask_rollout(store, cluster))["reason"] for cluster in "ab"] == ["Allowed", "BudgetUsedUp"]
    await name_window(store, "a")
    assert [(await ask_rollout(store, cluster))["reason"] for cluster in "ab"] == ["MaintenanceWindowClosed", "Allowed"]


async def test_what_there_is_nothing_to_do_about_does_not_wait_for_a_window(store):
    await add_rollout(store, a="web-1-snapshot")
    await add_window(store)
    await name_window(store, "a")
    assert (await ask_rollout(store))["reason"] == "NothingToDo"


@pytest.mark.parametrize(("said", "reason"), [((), "MaintenanceWindowClosed"), (("Started",), "Allowed")])
async def test_a_staged_update_that_is_under_way_when_the_window_closes_goes_on(store, said, reason):
    await add_staged(store, stage("one", entry("b", *said)))
    await add_window(store)
    await name_window(store, "b")
    assert (await ask_rollout(store, "b"))["reason"] == reason


# What is reserved of a placement.


async def reserve(gate, cluster, holder="tool", identity="ann", seconds=60):
    return await gate.reserve_rollout(WEB, cluster, Claimant(holder, identity), seconds)


async def lease_of(store, gate, thing):
    """Return who holds a thing and what, as it is stored."""
    listing = await store.list(LEASE)
    found = [each for each in listing.items if each["metadata"]["name"] == lease_name(gate, thing)]
    return [(each.holder, each.granted) for lease in found for each in read_reservations(lease)]


async def finish(store, cluster, snapshot="web-1-snapshot"):
    """Bring the binding of a cluster to a snapshot, the latest by default, available at once."""
    found = await store.get(BINDING, Key(f"web-{cluster}"))
    stored = await store.replace(BINDING, {**found, "spec": {**found["spec"], "resourceSnapshotName": snapshot}})
    conditions = [each | {"observedGeneration": stored["metadata"]["generation"]} for each in ready_conditions()]
    await store.replace_status(BINDING, {**stored, "status": {"conditions": conditions}})


async def test_a_reservation_holds_the_placement_and_the_member(store):
    await add_rollout(store, **ONE_UNAVAILABLE)
    async with life(store, *WATCHED) as process:
        hub = Hub(process)
        held = await reserve(hub.gate, "a")
        assert (held.granted, held.purpose) == (("a",), "Rollout")
        for gate, thing in ((ROLLOUT, "crp/web"), (MEMBER, "a")):
            assert await lease_of(store, gate, thing) == [("tool", ("a",))]
        renewed = await hub.keeper.renew(held.id, "ann", 600)
        assert renewed.expires == NOW + timedelta(seconds=600)
        (member,) = hub.reservations.cached(MEMBER, "a")
        assert member.expires == renewed.expires
        with pytest.raises(NotYoursError):
            await hub.keeper.release(held.id, "eve")
        await hub.keeper.release(held.id, "ann")
        assert (await store.list(LEASE)).items == ()
        with pytest.raises(UnknownReservationError):
            await hub.keeper.release(held.id, "ann")


async def test_what_is_reserved_uses_the_budget_until_it_is_given_back(store):
    """Also when the hub shows it as done: whoever has reserved it is not done."""
    await add_rollout(store, **ONE_UNAVAILABLE)
    async with life(store, *WATCHED) as process:
        hub = Hub(process)
        held = await reserve(hub.gate, "a")
        await finish(store, "a")
        await process.hear()
        for _ in range(2):
            with pytest.raises(ReservationRefusedError) as caught:
                await reserve(hub.gate, "b", "another tool")
            refused = consistent(caught.value.answer)
            assert (refused["reason"], refused["detail"]["ready"]) == ("BudgetUsedUp", 1)
        assert told(hub.gate.rollout(WEB, "b"))["reason"] == "BudgetUsedUp"
        await hub.keeper.release(held.id, "ann")
        assert (await reserve(hub.gate, "b", "another tool")).granted == ("b",)


@pytest.mark.parametrize(("count", "end"), [(4, " and 1 more reservation"), (5, " and 2 more reservations")])
def test_further_reservations_are_counted(count, end):
    until = datetime(2026, 11, 20, 12, tzinfo=UTC)
    reservations = [
        Reservation(str(number), "tool", "jane", ROLLOUT, ("a",), until + timedelta(minutes=number))
        for number in range(count)
    ]
    assert _promises(reservations, {"a"}).endswith(f"2026-11-20T12:02:00Z{end}")


async def test_a_cluster_that_is_to_be_added_counts_as_added(store):
    await add_placement(store, rollingUpdate={"maxUnavailable": 1, "maxSurge": 0})
    await add_snapshot(store)
    for cluster in "ab":
        await add_member(store, cluster)
        await add_binding(store, cluster, state="Scheduled")
    await add_member(store, "c")
    await add_binding(store, "c", snapshot="web-1-snapshot")
    async with life(store, *WATCHED) as process:
        gate = Hub(process).gate
        await reserve(gate, "a")
        answer = told(gate.rollout(WEB, "b"))
        assert answer["detail"]["mayBeAdded"] == 0
        assert answer["message"].endswith("; a reserved by tool until 2026-11-20T12:01:00Z")
        with pytest.raises(ReservationRefusedError):
            await reserve(gate, "b")


async def test_a_cluster_that_somebody_has_reserved_is_told_to_be_theirs(store):
    await add_rollout(store)
    async with life(store, *WATCHED) as process:
        gate = Hub(process).gate
        first = await reserve(gate, "a")
        answer = told(gate.rollout(WEB, "a"))
        assert (answer["reason"], answer["message"]) == (
            "MemberHeld",
            "crp/web is reserved on member a by tool until 2026-11-20T12:01:00Z",
        )
        assert answer["detail"]["heldBy"]["until"] == format_time(NOW + timedelta(seconds=60))
        for holder, identity in (("another tool", "ann"), ("tool", "bob")):
            with pytest.raises(ReservationRefusedError):
                await reserve(gate, "a", holder, identity)
        again = await reserve(gate, "a", seconds=90)
        assert (again.id, again.expires - first.expires) == (first.id, timedelta(seconds=30))


async def test_when_the_member_is_not_to_be_had_the_placement_is_given_back(store):
    await add_rollout(store)
    async with life(store, *WATCHED) as process, life(store, *WATCHED) as behind:
        await Hub(process).upgrade("a")
        with pytest.raises(MemberHeldError, match="reserved for Upgrade by run-7"):
            await reserve(Hub(behind).gate, "a")
        assert await lease_of(store, ROLLOUT, "crp/web") == []
        assert await lease_of(store, MEMBER, "a") == [("run-7", ("a",))]


@pytest.mark.parametrize("lands", [False, True])
@pytest.mark.parametrize("writes", [0, 1])
async def test_a_write_that_is_not_answered_leaves_no_half(store, writes, lands):
    """A process that goes on gives back what it cannot tell anybody of."""
    await add_rollout(store)
    async with life(store, *WATCHED) as process:
        gate = Hub(process).gate
        real, left = process.store.create, [writes]

        async def create(kind, document):
            if left[0] == 0:
                left[0] = -1
                if lands:
                    await real(kind, document)
                raise UnavailableError("no answer")
            left[0] -= 1
            return await real(kind, document)

        process.store.create = create
        with pytest.raises(UnavailableError):
            await reserve(gate, "a")
        assert (await store.list(LEASE)).items == ()
        assert (await reserve(gate, "a")).granted == ("a",)


@pytest.mark.parametrize("writes", [0, 1])
async def test_what_a_crash_leaves_behind_is_had_by_asking_again(store, writes):
    await add_rollout(store)
    async with life(store, *WATCHED) as process:
        process.store.writes_left, process.store.last_one_lands = writes, True
        with pytest.raises(CrashError):
            await reserve(Hub(process).gate, "a")
    async with life(store, *WATCHED) as process:
        await process.cache.catch_up((LEASE,))
        again = await reserve(Hub(process).gate, "a")
        assert await lease_of(store, ROLLOUT, "crp/web") == [("tool", ("a",))]
        assert await lease_of(store, MEMBER, "a") == [("tool", ("a",))]
        await Hub(process).keeper.release(again.id, "ann")
        assert (await store.list(LEASE)).items == ()


async def test_a_renewal_brings_the_half_back_that_was_lost_unless_somebody_else_has_the_member(store):
    await add_rollout(store)
    async with life(store, *WATCHED) as process:
        hub = Hub(process)
        held = await reserve(hub.gate, "a")
        await store.delete(LEASE, Key(lease_name(MEMBER, "a"), "harbormaster-system"))
        await hub.keeper.renew(held.id, "ann", 60)
        assert await lease_of(store, MEMBER, "a") == [("tool", ("a",))]
        await store.delete(LEASE, Key(lease_name(MEMBER, "a"), "harbormaster-system"))
        await hub.upgrade("a")
        with pytest.raises(UnknownReservationError, match="reserved for Upgrade by run-7"):
            await hub.keeper.renew(held.id, "ann", 60)
        assert await lease_of(store, ROLLOUT, "crp/web") == []


async def test_what_was_done_and_given_back_is_seen_by_a_replica_whose_watch_is_behind(store):
    await add_rollout(store, b="web-1-snapshot", **ONE_UNAVAILABLE)
    async with life(store, *WATCHED) as process, life(store, *WATCHED) as behind:
        hub = Hub(process)
        held = await reserve(hub.gate, "a")
        found = await store.get(BINDING, Key("web-b"))
        await store.replace_status(BINDING, {**found, "status": {"conditions": []}})
        await hub.keeper.release(held.id, "ann")
        with pytest.raises(ReservationRefusedError):
            await reserve(Hub(behind).gate, "a")


async def test_a_lease_of_a_placement_that_cannot_be_read_holds_it(store):
    await add_rollout(store)
    async with life(store, *WATCHED) as process:
        hub = Hub(process)
        await reserve(hub.gate, "a")
        lease = await store.get(LEASE, Key(lease_name(ROLLOUT, "crp/web"), "harbormaster-system"))
        annotations = {**lease["metadata"]["annotations"], RESERVATIONS: "x"}
        edited = await store.replace(LEASE, {**lease, "metadata": {**lease["metadata"], "annotations": annotations}})
        hub.reservations._cache.of_kind(LEASE).put(edited)
        answer = told(hub.gate.rollout(WEB, "b"))
        assert answer["reason"] == "MemberHeld"
        assert "has reservations that cannot be read" in answer["message"]
        with pytest.raises(UnreadableReservationsError):
            await reserve(hub.gate, "b")


async def test_replicas_at_once_never_exceed_the_limits_of_a_placement(store):
    """Whoever asks whom, in whatever order: of five clusters never more than two are promised or being changed."""
    await add(
        store,
        PLACEMENT,
        "web",
        {
            "resourceSelectors": [],
            "policy": {"placementType": "PickN", "numberOfClusters": 5},
            "strategy": {"rollingUpdate": {"maxUnavailable": 2, "maxSurge": 0}},
        },
    )
    await add_snapshot(store)
    for cluster in "abcde":
        await add_member(store, cluster)
        await add_binding(store, cluster)
    dice = random.Random(7)
    async with life(store, *WATCHED) as first, life(store, *WATCHED) as second:
        hubs = [Hub(first), Hub(second)]
        taken, changed = {}, 0

        async def ask(cluster):
            with suppress(ReservationRefusedError):
                held = await reserve(dice.choice(hubs).gate, cluster, "tool", cluster)
                taken[cluster] = held.id

        for _ in range(60):
            asked = [each for each in dice.sample("abcde", 3) if each not in taken]
            await asyncio.gather(*map(ask, asked))
            assert len(taken) <= 2
            for cluster in [each for each in taken if dice.random() < 0.5]:
                await finish(store, cluster)
                changed += 1
                await dice.choice(hubs).keeper.release(taken.pop(cluster), cluster)
            for cluster in sorted(set("abcde") - taken.keys()):
                if dice.random() < 0.3:
                    await finish(store, cluster, "web-0-snapshot")
        assert changed > 10


# Staged updates.


def entry(name, *said):
    return {"clusterName": name, "conditions": [condition(*each.split("=")) for each in said]}


def stage(name, *clusters, done=False, since=0, **tasks):
    conditions = [condition("Succeeded")] if done else []
    waiting = format_time(NOW - timedelta(seconds=since))
    conditions.append(condition("Progressing", "False", since=waiting))
    return {"stageName": name, "clusters": list(clusters), "conditions": conditions, **tasks}


def task(kind, *said, request=""):
    return {"type": kind, "approvalRequestName": request, "conditions": [condition(each) for each in said]}


STRATEGY = {
    "stages": [
        {"name": "one", "maxConcurrency": 1, "afterStageTasks": [{"type": "TimedWait", "waitTime": "10m"}]},
        {"name": "two", "maxConcurrency": "50%"},
    ]
}
DONE = ("Started", "Succeeded")


async def add_staged(store, *stages, state="Run", said=("Initialized",), last=None):
    await add_placement(store, type="External")
    for cluster in "abcd":
        await add_member(store, cluster)
        await add_binding(store, cluster)
    status = {
        "conditions": [condition(*each.split("=")) for each in said],
        "stagesStatus": list(stages),
        "stagedUpdateStrategySnapshot": STRATEGY,
    } | ({"deletionStageStatus": last} if last else {})
    spec = {"placementName": "web", "stagedRolloutStrategyName": "s", "state": state}
    await add(store, STAGED_RUN, "spring", spec, status)


@pytest.mark.parametrize(
    ("reason", "message", "stages", "more"),
    [
        pytest.param("WaitingForRun", "has not been initialized yet", [], {"said": ()}, id="new"),
        pytest.param("WaitingForRun", "waits for state Run", [], {"state": "Initialize"}, id="initialised"),
        pytest.param("WaitingForRun", "does not change cluster b", [stage("one", entry("a"))], {}, id="not-covered"),
        pytest.param("Allowed", "stage one of run", [stage("one", entry("b"))], {}, id="its-turn"),
        pytest.param("Allowed", "is updating cluster b", [stage("one", entry("b", "Started"))], {}, id="in-flight"),
        pytest.param("NothingToDo", "has updated cluster b", [stage("one", entry("b", *DONE))], {}, id="updated"),
        pytest.param("RunStopped", "is stopped", [stage("one", entry("b"))], {"state": "Stop"}, id="stopped"),
        pytest.param(
            "BudgetUsedUp",
            "changes at most 1 concurrently, and is busy with a",
            [stage("one", entry("a", "Started"), entry("b"))],
            {},
            id="slots",
        ),
        pytest.param(
            "WaitingForStage",
            "stage one of run spring comes first",
            [stage("one", entry("a")), stage("two", entry("b"))],
            {},
            id="later",
        ),
        pytest.param(
            "WaitTime",
            "waits after its stage one",
            [
                stage("one", entry("a", *DONE), since=90, afterStageTaskStatus=[task("TimedWait")]),
                stage("two", entry("b")),
            ],
            {},
            id="timed-wait",
        ),
        pytest.param(
            "WaitingForApproval",
            "after stage one of run spring, approval of spring-after-one is required",
            [
                stage(
                    "one",
                    entry("a", *DONE),
                    afterStageTaskStatus=[
                        task("TimedWait", "WaitTimeElapsed"),
                        task("Approval", "ApprovalRequestCreated", request="spring-after-one"),
                    ],
                ),
                stage("two", entry("b")),
            ],
            {},
            id="approval-after",
        ),
        pytest.param(
            "WaitingForApproval",
            "before stage two of run spring, approval of spring-before-two is required",
            [
                stage("one", entry("a", *DONE), done=True),
                stage("two", entry("b"), beforeStageTaskStatus=[task("Approval", request="spring-before-two")]),
            ],
            {},
            id="approval-before",
        ),
        pytest.param(
            "Allowed",
            "stage two of run",
            [
                stage("one", entry("a", *DONE), done=True),
                stage(
                    "two",
                    entry("c", "Started"),
                    entry("b"),
                    entry("d"),
                    entry("e"),
                    beforeStageTaskStatus=[task("Approval", "ApprovalRequestApproved")],
                ),
            ],
            {},
            id="half-at-once",
        ),
        pytest.param(
            "WaitingForStage",
            "stage one of run spring comes first",
            [stage("one", entry("a"))],
            {"last": stage("kubernetes-fleet.io/deleteStage", entry("b"))},
            id="deleted-last",
        ),
        pytest.param(
            "WaitingForRun",
            "there is no unfinished one",
            [stage("one", entry("b"))],
            {"said": ("Initialized", "Succeeded=False")},
            id="aborted",
        ),
    ],
)
async def test_a_staged_update_tells_whose_turn_it_is(store, reason, message, stages, more):
    await add_staged(store, *stages, **more)
    answer = await ask_rollout(store, "b")
    assert answer["reason"] == reason
    assert message in answer["message"]
    assert answer["retryAfterSeconds"] == (0 if reason == "Allowed" else 510 if reason == "WaitTime" else 10)


async def test_what_is_reserved_of_a_staged_update_uses_the_slots_of_its_stage(store):
    await add_staged(store, stage("one", *map(entry, "abcd")))
    async with life(store, *WATCHED) as process:
        hub = Hub(process)
        held = await reserve(hub.gate, "a")
        assert held.purpose == "StagedUpdate"
        with pytest.raises(ReservationRefusedError, match="changes at most 1 concurrently, and is busy with a"):
            await reserve(hub.gate, "b")
        await hub.keeper.release(held.id, "ann")
        assert (await reserve(hub.gate, "b")).granted == ("b",)


# Upgrades.


async def add_run(
    store, name="v131", *, state="Running", spec_state="Run", before=None, groups=None, plan=None, **members
):
    listed = [member if isinstance(member, dict) else {"state": member} for member in members.values()]
    entries = [{"name": name_, **said} for name_, said in zip(members, listed, strict=True)]
    group = {"name": "g", "state": "Running", "maxConcurrency": 1, "members": entries, **(groups or {})}
    stages = [*(before or []), {"name": "s", "state": "Running", "maxConcurrency": 50, "groups": [group]}]
    upgrade = {"type": "ControlPlaneOnly", "kubernetesVersion": "1.31"}
    spec = {"state": spec_state, "upgrade": upgrade}
    status = {"state": state, "stages": stages, **({"plan": plan} if plan else {})}
    await add(store, UPGRADE_RUN, name, spec, status)


def earlier(state="Running", group="Running", **more):
    return [{"name": "first", "state": state, "groups": [{"name": "f", "state": group}], **more}]


SOON = format_time(NOW + timedelta(minutes=5))
CLOSED = {"state": "Pending", "reason": "MaintenanceWindowClosed", "message": "opens soon", "nextWindowOpen": SOON}
GATE = {"type": "Approval", "state": "Pending", "displayName": "Ask Ann", "gate": "v131-s-before-0"}
LATER = {"type": "ScheduledStart", "state": "Pending", "absoluteStartTime": SOON}


@pytest.mark.parametrize(
    ("reason", "seconds", "run"),
    [
        pytest.param("NotInRun", 10, {"b": "NotStarted"}, id="another-member"),
        pytest.param("NotInRun", 10, {"a": "NotStarted", "state": "Completed"}, id="run-is-over"),
        pytest.param("Allowed", 0, {"a": "NotStarted"}, id="its-turn"),
        pytest.param("Allowed", 0, {"a": "Running"}, id="under-way"),
        pytest.param("NothingToDo", 10, {"a": "Completed"}, id="completed"),
        pytest.param("NothingToDo", 10, {"a": "Skipped"}, id="skipped"),
        pytest.param("NothingToDo", 10, {"a": "Failed"}, id="failed-and-tolerated"),
        pytest.param("RunHalted", 10, {"a": "Failed", "state": "Failed"}, id="failed"),
        pytest.param("RunHalted", 10, {"a": "Stopped", "state": "Stopped"}, id="stopped"),
        pytest.param("RunHalted", 10, {"a": "NotStarted", "state": "Stopping"}, id="stopping"),
        pytest.param("RunHalted", 10, {"a": "NotStarted", "spec_state": "Stop"}, id="to-be-stopped"),
        pytest.param("NotItsTurn", 10, {"a": "NotStarted", "state": "NotStarted"}, id="not-started"),
        pytest.param("NotItsTurn", 10, {"a": "NotStarted", "b": "Running"}, id="no-slot"),
        pytest.param("NotItsTurn", 10, {"a": "NotStarted", "before": earlier()}, id="later-stage"),
        pytest.param("Allowed", 0, {"a": "NotStarted", "before": earlier("Skipped")}, id="after-a-stage"),
        pytest.param(
            "NotItsTurn",
            540,
            {
                "a": "NotStarted",
                "before": earlier(
                    group="Completed",
                    afterStageWait={
                        "seconds": 600,
                        "state": "Running",
                        "startTime": format_time(NOW - timedelta(minutes=1)),
                    },
                ),
            },
            id="wait",
        ),
        pytest.param(
            "GatePending",
            10,
            {"a": "NotStarted", "before": earlier(group="Completed", afterGates=[GATE])},
            id="after-gate",
        ),
        pytest.param("GatePending", 10, {"a": "NotStarted", "groups": {"beforeGates": [GATE]}}, id="before-gate"),
        pytest.param("GatePending", 300, {"a": "NotStarted", "groups": {"beforeGates": [LATER]}}, id="scheduled"),
        pytest.param("MaintenanceWindowClosed", 300, {"a": CLOSED}, id="window"),
        pytest.param("PlacementGuard", 10, {"a": {"state": "Pending", "reason": "PlacementGuard"}}, id="guard"),
        pytest.param("Allowed", 0, {"a": {"state": "Pending", "reason": "MemberOnHold"}}, id="hold-taken-off"),
    ],
)
async def test_an_upgrade_run_tells_whose_turn_it_is(store, reason, seconds, run):
    await add_member(store)
    await add_run(store, **run)
    answer = await ask_update(store)
    assert (answer["reason"], answer["retryAfterSeconds"]) == (reason, seconds)


async def test_a_member_that_is_not_reached_yet_is_told_when_the_plan_reaches_it(store):
    start = NOW + timedelta(hours=3)
    await add_member(store)
    await add_member(store, "b")
    members = [
        {"name": "b", "action": "Upgrade", "start": format_time(NOW), "end": format_time(start)},
        {"name": "a", "action": "Upgrade", "start": format_time(start)},
    ]
    await add_run(store, a="NotStarted", b="Running", plan={"members": members})
    answer = await ask_update(store)
    assert (answer["reason"], answer["retryAfterSeconds"]) == ("NotItsTurn", 3 * 3600)
    assert answer["detail"]["expectedAt"] == format_time(start)
    assert "expectedAt" not in (await ask_update(store, cluster="b"))["detail"], "it is under way"


async def test_a_member_on_hold_says_so(store):
    await add_member(store, "a", **{"harbormaster.dev/upgrade-hold": "true"})
    await add_run(store, a="NotStarted")
    answer = await ask_update(store)
    assert answer["reason"] == "MemberOnHold"
    assert "harbormaster.dev/upgrade-hold" in answer["message"]


async def test_a_member_that_another_run_upgrades_is_busy(store):
    await add_member(store)
    await add_run(store, "autumn", a="Running")
    await add_run(store, "v131", a="NotStarted")
    answer = await ask_update(store, run="v131")
    assert (answer["reason"], answer["detail"]["busyWith"]) == ("ClusterBusy", "autumn")
    assert (await ask_update(store, run="autumn"))["reason"] == "Allowed"


async def test_the_run_that_is_named_is_asked_even_when_it_has_ended(store):
    await add_member(store)
    await add_run(store, "v130", a="Completed", state="Completed")
    await add_run(store, "v131", b="NotStarted")
    assert (await ask_update(store, run="v130"))["reason"] == "NothingToDo"
    assert (await ask_update(store, run="v131"))["message"] == "member a is not in run v131"
    assert (await ask_update(store))["message"] == "no unfinished upgrade run includes member a"
    with pytest.raises(UnknownObjectError, match="there is no ClusterUpgradeRun 'v132'"):
        await ask_update(store, run="v132")


async def test_a_run_that_cannot_be_read_is_left_out(store):
    await add_member(store)
    await add_run(store, a={"state": "Sleeping"})
    assert (await ask_update(store))["reason"] == "NotInRun"
