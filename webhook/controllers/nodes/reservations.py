"""Reservations of nodes at the pool gate, from the decision until the taint is on the nodes.

A tainted node counts as being disrupted without a reservation, so the reservation is released then. A reservation left
behind by a killed process is released by the next one.

Source: docs/specifications/nodepool-disruption.md 14.2; docs/specifications/serving.md 3.1.
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
"""Owner of the reservations. No Kubernetes user name has this form."""
SECONDS: Final = 60
"""Lifetime of a reservation that is not released."""

_DRIFT: Final = (Method.DRIFT, Method.STATIC_DRIFT)


class NodeReservations:
    """Reservations of nodes for commands.

    Args:
        world: The pools.
        reservations: Store of the reservations.
        store: The cluster.
        settings: Settings of the gate.
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
        """Reserve the nodes of an order, in all its pools or in none.

        Args:
            order: The order.
            pools: Nodes of the order by pool.
            command: Command of the order. None if its nodes have expired.

        Returns:
            The refusal of the gate, or an empty string, and the ids of the reservations.

        Raises:
            StoreError: The reservation cannot be written now.
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
            return str(error), []  # the last two: pool or node was deleted after the decision
        ids = [answer.reservation[0] for answer in answers if answer.reservation is not None]
        refusals = [
            _refusal_text(pool, answer) for pool, answer in zip(pools, answers, strict=True) if not answer.allowed
        ]
        return "; ".join(refusals), ids

    async def release_all(self) -> None:
        """Release the reservations that earlier processes have left behind: only one process has a term."""
        reservations, _ = self.reservations.all_cached()
        await self.release(
            reservation.id
            for _, pool_reservations in reservations
            for reservation in pool_reservations
            if reservation.identity == IDENTITY
        )

    async def release(self, identifiers: Iterable[str]) -> None:
        """Release reservations. If that fails, they expire."""
        for identifier in identifiers:
            await self._keeper.drop(identifier)


def _refusal_text(pool: str, answer: NodeGateAnswer) -> str:
    return f"NodePool {pool}: {answer.verdict}: {answer.message}"
