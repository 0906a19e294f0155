"""Reservations of nodes at the pool gate, from the decision until the taint is on the nodes.

A reservation is needed only until the taint is on the nodes: from then on they count as being disrupted by themselves.
One that is left behind by a process that was killed is given back by the next one.

Source: nodepool-disruption.md 14.2; serving.md 3.1.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from typing import Final

from scorer.api.family import UnknownObjectError
from scorer.node_budgets.answer import NodeGateAnswer
from scorer.node_budgets.blockers import DisruptionClass
from scorer.node_budgets.question import NodeGateQuestion
from scorer.node_disruption.execution.command_annotation import Order
from scorer.node_disruption.methods.command import Command, Method
from scorer.reservations import TooManyReservationsError, UnreadableReservationsError
from webhook.controllers.nodes.cache import NodeWorld
from webhook.gate.errors import GateError
from webhook.gate.keeper import Claimant, ReservationKeeper
from webhook.gate.nodes import HubNodeGate
from webhook.gate.reservations import LeaseReservations
from webhook.kube.ports import Store
from webhook.settings.gate import GateSettings

IDENTITY: Final = "harbormaster:node-disruption"
"""Who our reservations belong to; no user name that Kubernetes gives has this form."""
SECONDS: Final = 60
"""How long a reservation lasts that is not given back."""

_DRIFT: Final = (Method.DRIFT, Method.STATIC_DRIFT)


class NodeReservations:
    """Reservations of nodes for commands.

    Args:
        world: The pools.
        reservations: Where reservations are kept.
        store: Of the cluster.
        settings: Of the gate.
        now: The clock.
    """

    def __init__(
        self,
        world: NodeWorld,
        reservations: LeaseReservations,
        store: Store,
        settings: GateSettings,
        now: Callable[[], datetime],
    ) -> None:
        self.reservations = reservations
        self._keeper = ReservationKeeper(reservations, now)
        self._gate = HubNodeGate(world.pools, self._keeper, store, settings, now)

    async def reserve(
        self, order: Order, pools: Mapping[str, Sequence[str]], command: Command | None
    ) -> tuple[str, list[str]]:
        """Reserve the nodes of an order, of all its pools or of none.

        Args:
            order: For which.
            pools: Its nodes by their pools.
            command: It was made from; None: its nodes have reached their age.

        Returns:
            Why the gate refuses, empty when it does not; and the ids of what has been reserved.

        Raises:
            StoreError: Nothing can be reserved now.
        """
        eventual = command is not None and command.method in _DRIFT
        class_ = DisruptionClass.EVENTUAL if eventual else DisruptionClass.GRACEFUL
        questions = [
            NodeGateQuestion(pool, order.reason, tuple(names), class_=class_, reserve_seconds=SECONDS)
            for pool, names in pools.items()
        ]
        try:
            answers = await self._gate.answer(questions, Claimant(f"command {order.id}", IDENTITY))
        except (UnreadableReservationsError, TooManyReservationsError, UnknownObjectError, GateError) as error:
            return str(error), []  # the last two: pool or node has gone since the decision
        ids = [answer.reservation[0] for answer in answers if answer.reservation is not None]
        refusals = [_said(pool, answer) for pool, answer in zip(pools, answers, strict=True) if not answer.allowed]
        return "; ".join(refusals), ids

    async def release_all(self) -> None:
        """Give back what processes before this one have left behind; only one has a term at a time."""
        reservations, _ = self.reservations.all_cached()
        await self.release(
            reservation.id
            for _, pool_reservations in reservations
            for reservation in pool_reservations
            if reservation.identity == IDENTITY
        )

    async def release(self, identifiers: Iterable[str]) -> None:
        """Give reservations back; one that cannot be given back now expires."""
        for identifier in identifiers:
            await self._keeper.drop(identifier)


def _said(pool: str, answer: NodeGateAnswer) -> str:
    return f"NodePool {pool}: {answer.verdict}: {answer.message}"
