"""A hub with node pools: documents, and gates over a store of its own that answer as soon as they have seen them."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

from scorer.api import kinds
from scorer.member_gate.holds import MemberDisruption
from scorer.node_budgets.answer import NodeGateAnswer
from scorer.node_budgets.question import NodeGateQuestion
from scorer.reservations import Reservation
from tests.waiting import until
from webhook.embedded.storage.store import EmbeddedStore
from webhook.gate.assembly import DisruptionGate, disruption_of
from webhook.gate.keeper import Claimant, ReservationKeeper
from webhook.gate.reservations import LeaseReservations
from webhook.kube.cache.informer import Cache
from webhook.kube.ports import Store
from webhook.settings.answers import DisruptionSettings

WEDNESDAY = datetime(2026, 6, 10, 3, 0, tzinfo=UTC)
NAMESPACE = "harbormaster-system"
PATCHER = Claimant("patcher", "ops")


def node_pool(name: str, *budgets: dict[str, Any]) -> dict[str, Any]:
    """Make a NodePool with these budgets."""
    reference = {"group": "example.com", "kind": "NodeClass", "name": "default"}
    return {
        "apiVersion": kinds.NODE_POOL.api_version,
        "kind": "NodePool",
        "metadata": {"name": name},
        "spec": {
            "template": {"spec": {"nodeClassRef": reference, "requirements": []}},
            "disruption": {"consolidateAfter": "0s", "budgets": list(budgets)},
        },
    }


def node(name: str, pool: str, *, ready: bool = True) -> dict[str, Any]:
    """Make an initialized Node of a pool."""
    labels = {"karpenter.sh/nodepool": pool, "karpenter.sh/initialized": "true"}
    condition = {"type": "Ready", "status": "True" if ready else "False"}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": labels},
        "spec": {"providerID": f"example://{name}"},
        "status": {"conditions": [condition]},
    }


def claim(name: str, pool: str) -> dict[str, Any]:
    """Make the NodeClaim of the node of the same name."""
    labels = {"karpenter.sh/nodepool": pool}
    return {
        "apiVersion": kinds.NODE_CLAIM.api_version,
        "kind": "NodeClaim",
        "metadata": {
            "name": name,
            "labels": labels,
            "finalizers": ["karpenter.sh/termination"],
        },
        "spec": {},
        "status": {"nodeName": name, "providerID": f"example://{name}"},
    }


async def put(store: Store, kind: kinds.Kind, document: dict[str, Any]) -> None:
    """Store a new object with its status."""
    stored = await store.create(kind, document)
    if kind.has_status and "status" in document:
        await store.replace_status(kind, {**stored, "status": document["status"]})


async def put_pool(store: Store, name: str, count: int, *budgets: dict[str, Any]) -> None:
    """Store a NodePool with nodes ``<name>-0`` and so on."""
    await put(store, kinds.NODE_POOL, node_pool(name, *budgets))
    for number in range(count):
        await put(store, kinds.NODE, node(f"{name}-{number}", name))
        await put(store, kinds.NODE_CLAIM, claim(f"{name}-{number}", name))


class Clock:
    """A clock that is set by hand."""

    def __init__(self) -> None:
        self.at = WEDNESDAY

    def __call__(self) -> datetime:
        return self.at

    def pass_by(self, **delta: float) -> None:
        self.at += timedelta(**delta)


@asynccontextmanager
async def replica(store: Store, clock: Callable[[], datetime]) -> AsyncIterator[DisruptionGate]:
    """Run the gates over a store, with a cache of their own."""
    cache = Cache(store)
    gates = disruption_of(cache, store, DisruptionSettings(namespace=NAMESPACE), clock)
    running = [asyncio.create_task(cache.run()), asyncio.create_task(gates.run())]
    try:
        await until(lambda: gates.nodes.synced)
        yield gates
    finally:
        for task in running:
            task.cancel()
        await asyncio.wait(running)


async def empty_store() -> EmbeddedStore:
    """Open a store that has the namespace of harbormaster."""
    store = EmbeddedStore.open(None)
    await store.create(kinds.NAMESPACE, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}})
    return store


def drifted(pool: str, wanted: int | tuple[str, ...], **changes: Any) -> NodeGateQuestion:
    """Ask for so many nodes, or for these, as drifted."""
    if isinstance(wanted, int):
        return NodeGateQuestion(pool, "Drifted", None, wanted, **changes)
    return NodeGateQuestion(pool, "Drifted", wanted, 0, **changes)


async def ask(gates: DisruptionGate, *questions: NodeGateQuestion) -> Any:
    """Ask for nodes, as *PATCHER*; return the answer to one question, the answers to several."""
    answers = await gates.nodes.answer(questions, PATCHER)
    return answers[0] if len(questions) == 1 else answers


async def reserve(gates: DisruptionGate, question: NodeGateQuestion) -> NodeGateAnswer:
    """Ask for nodes, and for a minute's reservation of what is granted."""
    answer: NodeGateAnswer = await ask(gates, replace(question, reserve_seconds=60))
    return answer


class Tool:
    """A tool of somebody else that upgrades members: it holds each by a reservation of its own.

    Args:
        store: The hub.
        now: The clock.
    """

    def __init__(self, store: Store, now: Callable[[], datetime], namespace: str = NAMESPACE) -> None:
        self.keeper = ReservationKeeper(LeaseReservations(store, namespace, now), now)
        self._held: dict[str, Reservation] = {}

    async def hold(self, member: str, seconds: int = 60) -> None:
        """Hold a member. Raises `MemberHeldError`."""
        who = Claimant("tool", "ann")
        self._held[member] = await self.keeper.hold_member(member, MemberDisruption.UPGRADE, who, seconds)

    async def give_back(self, member: str) -> None:
        """Hold it no longer, if it was held."""
        held = self._held.pop(member, None)
        if held is not None:
            await self.keeper.release(held.id, "ann")
