"""What admission does about deletions and drains beyond the budgets: a hub in memory, and two replicas over it."""

import asyncio
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta

import pytest

from scorer.api import kinds
from scorer.reservations import DISRUPTION, Reservation, lease_name, reservation_id
from tests.waiting import until
from webhook.admission.enforcement import DELETION_HELD, RULE, DisruptionEnforcement
from webhook.admission.judge import Judgement
from webhook.embedded.storage.store import EmbeddedStore
from webhook.gate.pools import HubNodePools
from webhook.gate.reservations import LeaseReservations
from webhook.kube.cache.informer import Cache
from webhook.kube.ports import ForbiddenError, Key
from webhook.settings.admission import AdmissionSettings

NAMESPACE = "harbormaster-system"
WEDNESDAY = datetime(2026, 6, 10, 12, tzinfo=UTC)
EXEMPT = "system:serviceaccount:karpenter:karpenter"
OURS = "system:serviceaccount:harbormaster-system:harbormaster-reconcile"
ON = AdmissionSettings(enforce_budgets=True, enforcement_exempt_users=frozenset({EXEMPT}))
ONE = {"nodes": "1"}
OFFICE_HOURS = {"nodes": "0", "schedule": "0 9 * * 1-5", "duration": "8h"}


class Clock:
    """Stands still unless it is moved."""

    def __init__(self) -> None:
        self.now = WEDNESDAY

    def __call__(self) -> datetime:
        return self.now


def pool(*budgets, name="a"):
    return {
        "apiVersion": "karpenter.sh/v1",
        "kind": "NodePool",
        "metadata": {"name": name},
        "spec": {"disruption": {"budgets": list(budgets)}},
    }


def node(name, *, of="a", ready=True, initialized=True, cordoned=False, finalizers=()):
    labels = {"karpenter.sh/nodepool": of} if of else {}
    labels |= {"karpenter.sh/initialized": "true"} if initialized else {}
    status = "True" if ready else "Unknown"
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": labels, "finalizers": list(finalizers)},
        "spec": {"unschedulable": True} if cordoned else {},
        "status": {"conditions": [{"type": "Ready", "status": status}]},
    }


def claim(name, *, finalizers=()):
    """The claim of a node of the same name."""
    return {
        "apiVersion": "karpenter.sh/v1",
        "kind": "NodeClaim",
        "metadata": {"name": f"claim-{name}", "finalizers": list(finalizers)},
        "spec": {},
        "status": {"nodeName": name},
    }


def pod(name, on, phase="Running"):
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"nodeName": on},
        "status": {"phase": phase},
    }


@dataclass
class Replica:
    """One replica: what it knows, and what it decides by that."""

    store: EmbeddedStore
    cache: Cache
    reservations: LeaseReservations
    enforcement: DisruptionEnforcement

    async def judge(self, request) -> Judgement:
        return await self.enforcement.judge(request, asyncio.get_running_loop().time() + 10)

    async def delete(self, kind, name, user="jane", **more) -> Judgement:
        old = await self.store.get(kind, Key(name))
        resource = {"group": kind.group, "version": kind.versions[0], "resource": kind.plural}
        asked = {"operation": "DELETE", "resource": resource, "name": name, "oldObject": old}
        return await self.judge(asked | {"userInfo": {"username": user}} | more)

    async def evict(self, name, user="jane", **options) -> Judgement:
        eviction = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": name}} | options
        resource = {"group": "", "version": "v1", "resource": "pods"}
        asked = {"operation": "CREATE", "resource": resource, "subResource": "eviction", "object": eviction}
        return await self.judge(asked | {"name": name, "namespace": "default", "userInfo": {"username": user}})

    async def until(self, condition) -> None:
        await until(condition)


class Denied:
    """A hub that lets nobody read or write Leases."""

    def __init__(self, store):
        self._store = store

    def __getattr__(self, name):
        return getattr(self._store, name)

    async def get(self, kind, key):
        if kind == kinds.LEASE:
            raise ForbiddenError("leases is forbidden")
        return await self._store.get(kind, key)


class Silent(Denied):
    """A hub that does not answer about Leases."""

    async def get(self, kind, key):
        if kind == kinds.LEASE:
            await asyncio.Event().wait()
        return await self._store.get(kind, key)


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
async def harbour(clock):
    """Make replicas over one hub that holds the objects given."""

    @asynccontextmanager
    async def start(*documents, settings=ON, replicas=1, lease_store=lambda store: store):
        store = EmbeddedStore.open(None)
        for name in ("default", NAMESPACE):
            await store.create(kinds.NAMESPACE, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
        for document in documents:
            kind = next(kind for kind in kinds.KINDS.values() if kind.kind == document["kind"])
            stored = await store.create(kind, document)
            if stored.get("status") != document.get("status"):  # where it is a subresource
                await store.replace_status(kind, stored | {"status": document["status"]})
        made, tasks = [], []
        for _ in range(replicas):
            cache = Cache(store)
            pools = HubNodePools(cache)
            reservations = LeaseReservations(lease_store(store), NAMESPACE, clock)
            tasks += [asyncio.create_task(cache.run()), asyncio.create_task(reservations.run())]
            made.append(
                Replica(store, cache, reservations, DisruptionEnforcement(pools, reservations, store, settings, clock))
            )
            await cache.wait_synced((kinds.NODE_POOL, kinds.NODE_CLAIM, kinds.NODE))
        try:
            yield made[0] if replicas == 1 else made
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.wait(tasks)
            store.close()

    return start


def members(*names):
    """Nodes with their claims."""
    return [document for name in names for document in (node(name), claim(name))]


async def test_within_the_budget_a_node_goes_and_is_held_on_the_lease_of_its_pool(harbour):
    async with harbour(pool(ONE), *members("n1", "n2")) as replica:
        assert (await replica.delete(kinds.NODE, "n1")).allowed
        [held] = replica.reservations.cached(DISRUPTION, "a")
        assert (held.granted, held.holder, held.identity) == (("n1",), "admission", "jane")
        assert held.expires == WEDNESDAY + DELETION_HELD


async def test_beyond_the_budget_the_refusal_names_the_budget_and_what_uses_it(harbour):
    async with harbour(pool({"nodes": "0", "reasons": ["Drifted"]}, ONE), *members("n1", "n2", "n3")) as replica:
        assert (await replica.delete(kinds.NODE, "n1")).allowed
        refused = await replica.delete(kinds.NODE, "n2")
    assert (refused.allowed, refused.code, refused.reason, refused.rule) == (False, 403, "Forbidden", RULE)
    assert refused.message == (
        'deleting Node "n2" exceeds the disruption budgets of NodePool "a": budgets[1] (nodes "1") allows 1 of 3 '
        "nodes to be disrupted concurrently, and 1 counts against that: n1 (reserved). Retry once some of them have "
        "finished or are ready"
    )


async def test_a_refusal_counts_nodes_that_are_reserved_by_number_beside_those_that_it_leaves_out(harbour):
    names = [f"n{number}" for number in range(1, 9)]
    async with harbour(pool({"nodes": "7"}), *members(*names)) as replica:
        held = (make_reservation(tuple(names[:6]), "upgrader"), replace(make_reservation(1, "drainer"), id="other"))
        await replica.reservations.change(DISRUPTION, "a", lambda _: held)
        refused = await replica.delete(kinds.NODE, "n8")
    assert "n5 (reserved by tool until 2026-06-10T" in refused.message
    assert "n6" not in refused.message
    assert ", and 1 more, 1 reserved without a name (" in refused.message


async def test_a_window_is_refused_with_the_instant_at_which_it_opens(harbour):
    async with harbour(pool(OFFICE_HOURS), *members("n1")) as replica:
        refused = await replica.delete(kinds.NODE_CLAIM, "claim-n1")
    assert refused.message == (
        'deleting NodeClaim "claim-n1" of node "n1" exceeds the disruption budgets of NodePool "a": budgets[0] '
        '(nodes "0", schedule "0 9 * * 1-5", duration 8h) allows 0 of 1 node to be disrupted concurrently. The '
        "next disruption is allowed at 2026-06-10T17:00:00Z"
    )


@pytest.mark.parametrize(
    ("budget", "words"),
    [
        pytest.param({"nodes": "0"}, "This does not change by itself: change the budget", id="never"),
        pytest.param(
            {"nodes": "1", "schedule": "every day", "duration": "1h"}, "budgets[0]", id="one-that-cannot-be-used"
        ),
    ],
)
async def test_what_no_time_will_open_says_so(harbour, budget, words):
    async with harbour(pool(budget), *members("n1")) as replica:
        refused = await replica.delete(kinds.NODE, "n1")
    assert not refused.allowed
    assert words in refused.message


@pytest.mark.parametrize(
    "documents",
    [
        pytest.param([node("n1", of="")], id="of-no-pool"),
        pytest.param([node("n1", of="b"), claim("n1")], id="of-a-pool-that-does-not-exist"),
        pytest.param([node("n1", ready=False), claim("n1")], id="not-ready"),
        pytest.param([node("n1", initialized=False), claim("n1")], id="not-initialized"),
        pytest.param([node("n1")], id="without-a-claim"),
    ],
)
async def test_what_uses_no_budget_or_uses_it_already_goes(harbour, documents):
    async with harbour(pool({"nodes": "0"}), *documents) as replica:
        assert await replica.delete(kinds.NODE, "n1") == Judgement()
        assert replica.reservations.cached(DISRUPTION, "a") == ()


async def test_the_claim_and_its_node_count_once(harbour, clock):
    async with harbour(pool(ONE), node("n1"), claim("n1", finalizers=["example.com/keep"]), *members("n2")) as replica:
        assert (await replica.delete(kinds.NODE_CLAIM, "claim-n1")).allowed
        assert (await replica.delete(kinds.NODE, "n1")).allowed
        await replica.store.delete(kinds.NODE_CLAIM, Key("claim-n1"))
        clock.now += timedelta(hours=1)
        await replica.until(lambda: replica.enforcement._pools.node("n1")[1].deleting)
        assert (await replica.delete(kinds.NODE, "n1")).allowed
        refused = await replica.delete(kinds.NODE, "n2")
        assert "n1 (being deleted)" in refused.message


async def test_a_pool_that_is_being_deleted_takes_its_nodes_along(harbour):
    leaving = pool({"nodes": "0"})
    leaving["metadata"]["finalizers"] = ["example.com/keep"]
    async with harbour(leaving, *members("n1")) as replica:
        assert not (await replica.delete(kinds.NODE, "n1")).allowed
        await replica.store.delete(kinds.NODE_POOL, Key("a"))
        assert (await replica.delete(kinds.NODE, "n1")).allowed


@pytest.mark.parametrize("user", [EXEMPT, OURS])
async def test_who_is_exempt_is_not_held(harbour, user):
    async with harbour(pool({"nodes": "0"}), *members("n1")) as replica:
        assert (await replica.delete(kinds.NODE, "n1", user)).allowed
        assert not (await replica.delete(kinds.NODE, "n1")).allowed


async def test_where_it_is_switched_off_nothing_is_held(harbour):
    async with harbour(pool({"nodes": "0"}), *members("n1"), settings=AdmissionSettings()) as replica:
        assert (await replica.delete(kinds.NODE, "n1")).allowed


async def test_a_dry_run_is_judged_and_reserves_nothing(harbour):
    async with harbour(pool(ONE), *members("n1", "n2"), pod("p", "n1")) as replica:
        assert (await replica.delete(kinds.NODE, "n1", dryRun=True)).allowed
        assert replica.reservations.cached(DISRUPTION, "a") == ()
        assert (await replica.delete(kinds.NODE, "n1")).allowed
        assert not (await replica.delete(kinds.NODE, "n2", dryRun=True)).allowed


async def test_a_drain_needs_what_the_deletion_of_its_node_needs_once(harbour):
    documents = [node("n1", cordoned=True), claim("n1"), *members("n2"), pod("p", "n1"), pod("q", "n1"), pod("r", "n2")]
    async with harbour(pool(ONE), *documents) as replica:
        assert (await replica.evict("p")).allowed
        assert (await replica.evict("q")).allowed
        assert len(replica.reservations.cached(DISRUPTION, "a")) == 1
        assert not (await replica.delete(kinds.NODE, "n2")).allowed
        assert (await replica.evict("r")).allowed  # its node goes on


async def test_a_drain_beyond_the_budget_is_asked_to_come_again(harbour):
    cordoned = [node("n1", cordoned=True), claim("n1"), pod("p", "n1"), pod("done", "n1", "Succeeded")]
    async with harbour(pool({"nodes": "0"}), *cordoned) as replica:
        refused = await replica.evict("p")
        assert (refused.code, refused.reason, refused.retry_after_seconds) == (429, "TooManyRequests", 0)
        assert refused.message.startswith('evicting Pod "default/p", which drains node "n1", exceeds')
        assert (await replica.evict("done")).allowed
        assert (await replica.evict("nobody")).allowed
        assert not (await replica.evict("p", deleteOptions={"dryRun": ["All"]})).allowed


async def test_a_drain_that_goes_on_is_held_anew(harbour, clock):
    async with harbour(pool(ONE), node("n1", cordoned=True), claim("n1"), pod("p", "n1")) as replica:
        for seconds, until in ((0, 60), (20, 60), (20, 100)):
            clock.now += timedelta(seconds=seconds)
            assert (await replica.evict("p")).allowed
            [held] = replica.reservations.cached(DISRUPTION, "a")
            assert held.expires == WEDNESDAY + timedelta(seconds=until)


def changed(document, **metadata):
    return document | {"metadata": document["metadata"] | metadata}


@pytest.mark.parametrize(
    "metadata",
    [
        pytest.param({"uid": None}, id="no-uid"),
        pytest.param({"uid": "made-up"}, id="another-uid"),
        pytest.param({"resourceVersion": "1"}, id="another-version"),
    ],
)
@pytest.mark.parametrize("kind", [kinds.NODE, kinds.NODE_CLAIM], ids=["node", "claim"])
async def test_a_review_of_an_object_that_is_not_the_stored_one_holds_no_budget(harbour, kind, metadata):
    """Nor does it use up what its author has reserved."""
    name = "n1" if kind == kinds.NODE else "claim-n1"
    async with harbour(pool({"nodes": "2"}), *members("n1", "n2")) as replica:
        held = make_reservation(1, "jane")
        await replica.reservations.change(DISRUPTION, "a", lambda _: (held,))
        forged = changed(await replica.store.get(kind, Key(name)), **metadata)
        verdict = await replica.delete(kind, name, oldObject=forged)
        assert replica.reservations.cached(DISRUPTION, "a") == (held,)
    assert verdict.allowed
    assert "has changed since the review was sent" in verdict.warnings[0]


async def test_a_claim_cannot_be_said_to_be_of_another_node(harbour):
    async with harbour(pool(ONE), *members("n1", "n2"), claim("n3")) as replica:
        forged = await replica.store.get(kinds.NODE_CLAIM, Key("claim-n2")) | {"status": {"nodeName": "n1"}}
        assert (await replica.delete(kinds.NODE_CLAIM, "claim-n2", oldObject=forged)).allowed
        [held] = replica.reservations.cached(DISRUPTION, "a")
    assert held.granted == ("n2",)


async def test_a_deletion_that_does_not_come_counts_for_five_seconds(harbour, clock):
    async with harbour(pool(ONE), *members("n1", "n2")) as replica:
        assert (await replica.delete(kinds.NODE, "n1")).allowed
        clock.now += timedelta(seconds=4.9)
        assert not (await replica.delete(kinds.NODE, "n2")).allowed
        clock.now += timedelta(seconds=0.1)
        assert (await replica.delete(kinds.NODE, "n2")).allowed


async def test_a_deletion_does_not_cut_short_what_a_drain_holds(harbour, clock):
    async with harbour(pool(ONE), node("n1", cordoned=True), claim("n1"), pod("p", "n1")) as replica:
        assert (await replica.evict("p")).allowed
        clock.now += timedelta(seconds=40)
        assert (await replica.delete(kinds.NODE, "n1")).allowed
        [held] = replica.reservations.cached(DISRUPTION, "a")
    assert held.expires == WEDNESDAY + timedelta(seconds=60)


async def test_a_reservation_of_somebody_else_for_the_node_covers_its_deletion(harbour):
    async with harbour(pool(ONE), *members("n1", "n2")) as replica:
        held = make_reservation(("n1",), "upgrader")
        await replica.reservations.change(DISRUPTION, "a", lambda _: (held,))
        assert (await replica.delete(kinds.NODE, "n1")).allowed
        assert replica.reservations.cached(DISRUPTION, "a") == (held,)
        assert not (await replica.delete(kinds.NODE, "n2", "upgrader")).allowed


async def test_who_has_reserved_a_number_of_nodes_may_delete_so_many(harbour):
    async with harbour(pool({"nodes": "2"}), *members("n1", "n2", "n3")) as replica:
        await replica.reservations.change(DISRUPTION, "a", lambda _: (make_reservation(2, "upgrader"),))
        assert not (await replica.delete(kinds.NODE, "n1")).allowed
        assert (await replica.delete(kinds.NODE, "n1", "upgrader")).allowed
        assert (await replica.delete(kinds.NODE, "n2", "upgrader")).allowed
        assert [each.granted for each in replica.reservations.cached(DISRUPTION, "a")] == [("n1",), ("n2",)]
        assert not (await replica.delete(kinds.NODE, "n3", "upgrader")).allowed


def make_reservation(granted, identity):
    return Reservation(
        reservation_id(DISRUPTION, "a", "secret"),
        "tool",
        identity,
        DISRUPTION,
        granted,
        WEDNESDAY + timedelta(minutes=10),
        {"reason": "Drifted"},
    )


async def test_deletions_at_once_through_two_replicas_share_what_there_is(harbour):
    names = [f"n{number}" for number in range(20)]
    async with harbour(pool({"nodes": "7"}), *members(*names), replicas=2) as replicas:
        asked = (replicas[number % 2].delete(kinds.NODE, name) for number, name in enumerate(names))
        verdicts = await asyncio.gather(*asked)
    assert sum(verdict.allowed for verdict in verdicts) == 7
    assert all(verdict.code == 403 for verdict in verdicts if not verdict.allowed)


async def test_a_node_and_its_claim_that_are_deleted_at_once_count_once(harbour):
    """Of fifty nodes, each deleted with its claim through another replica, five go, and those with their claims."""
    names = [f"n{number}" for number in range(50)]
    async with harbour(pool({"nodes": "5"}), *members(*names), replicas=2) as replicas:
        nodes = (replicas[number % 2].delete(kinds.NODE, name) for number, name in enumerate(names))
        claims = (
            replicas[number % 2 - 1].delete(kinds.NODE_CLAIM, f"claim-{name}") for number, name in enumerate(names)
        )
        verdicts = await asyncio.gather(*nodes, *claims)
    gone = [[verdict.allowed for verdict in part] for part in (verdicts[:50], verdicts[50:])]
    assert sum(gone[0]) == 5
    assert gone[0] == gone[1]


async def test_where_nothing_can_be_reserved_the_write_goes_on_with_a_warning(harbour):
    async with harbour(pool(ONE), *members("n1"), lease_store=Denied) as replica:
        verdict = await replica.delete(kinds.NODE, "n1")
    assert verdict.allowed
    [warning] = verdict.warnings
    assert warning.startswith("disruption budgets are not enforced: not allowed to write reservations")


async def test_a_lease_that_does_not_tell_holds_nobody(harbour):
    lease = {
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": {"name": lease_name(DISRUPTION, "a"), "namespace": NAMESPACE},
        "spec": {},
    }
    async with harbour(pool(ONE), *members("n1"), lease) as replica:
        verdict = await replica.delete(kinds.NODE, "n1")
    assert verdict.allowed
    assert verdict.warnings[0].startswith(f"disruption budgets are not enforced: the Lease {NAMESPACE}/hb-res-")


async def test_when_time_is_up_the_write_goes_on_with_a_warning(harbour):
    async with harbour(pool(ONE), *members("n1"), lease_store=Silent) as replica:
        old = await replica.store.get(kinds.NODE, Key("n1"))
        asked = {"operation": "DELETE", "resource": {"resource": "nodes"}, "name": "n1", "oldObject": old}
        verdict = await replica.enforcement.judge(asked, asyncio.get_running_loop().time() + 0.02)
    assert verdict.allowed
    assert verdict.warnings == ("disruption budgets are not enforced: timed out",)


@pytest.mark.parametrize(
    "asked",
    [
        pytest.param({}, id="nothing"),
        pytest.param({"operation": "DELETE", "resource": {"resource": "pods"}}, id="another-kind"),
        pytest.param({"operation": "DELETE", "resource": {"resource": "nodes"}, "oldObject": 3}, id="no-object"),
        pytest.param({"operation": "DELETE", "resource": "nodes"}, id="no-resource"),
        pytest.param(
            {"operation": "DELETE", "resource": {"resource": "nodes"}, "subResource": "status", "name": "n1"},
            id="a-subresource",
        ),
        pytest.param(
            {"operation": "DELETE", "resource": {"resource": "nodeclaims"}, "oldObject": {"status": []}}, id="odd-claim"
        ),
    ],
)
async def test_what_is_no_disruption_goes(harbour, asked):
    async with harbour(pool({"nodes": "0"}), *members("n1")) as replica:
        assert await replica.judge(asked) == Judgement()
