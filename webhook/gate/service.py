"""Entry point for all questions about disruption: of nodes and of member clusters, with or without a reservation.

Methods raise the errors of `webhook.gate.errors`, and `UnknownObjectError` for an object that does not exist.

Source: docs/specifications/nodepool-disruption.md 14; docs/specifications/serving.md 3.1 and 3.3.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from scorer.api.family import PlacementRef
from scorer.member_gate.answer import MemberAnswer
from scorer.node_budgets.answer import NodeGateAnswer
from scorer.node_budgets.question import NodeGateQuestion
from scorer.reservations import Reservation, Thing
from webhook.access.rights import NODE_POOLS
from webhook.gate.errors import ASK_AGAIN_SECONDS, NotReadyError, ReservationRefusedError, as_gate_errors
from webhook.gate.keeper import Claimant, ReservationKeeper

if TYPE_CHECKING:  # a command that uses one of the gates does not load the other
    from webhook.gate.members import HubMemberGate
    from webhook.gate.nodes import HubNodeGate


class NodeGateService:
    """Answers for nodes of pools, and reserves them.

    Besides the errors that it lists, each method raises `GateError` if there is no answer.
    """

    def __init__(self, nodes: "HubNodeGate") -> None:
        self._nodes = nodes

    def require_synced(self) -> None:
        """Raise `NotReadyError` if pools cannot be read, or until pools and reservations have been read once."""
        if reason := self._nodes.pools.refusal:
            raise NotReadyError(
                f"node pools may not be read: {reason}. To allow it, {NODE_POOLS.advice}", ASK_AGAIN_SECONDS
            )
        if not self._nodes.synced:
            raise NotReadyError("node pools and reservations have not been read yet", 1)

    async def answer(self, questions: Sequence[NodeGateQuestion], claimant: Claimant) -> tuple[NodeGateAnswer, ...]:
        """Return for each question whether its nodes may be disrupted, and make the requested reservations.

        Args:
            questions: Questions in order. See `HubNodeGate.answer`.
            claimant: Holder of the reservations.

        Raises:
            UnknownObjectError: A pool does not exist.
        """
        with as_gate_errors():
            return await self._nodes.answer(questions, claimant)

    async def reserve(self, question: NodeGateQuestion, claimant: Claimant, seconds: int) -> NodeGateAnswer:
        """Answer one question and reserve the granted nodes.

        Raises:
            ReservationRefusedError: No node is granted.
            UnknownObjectError: The pool does not exist.
        """
        (answer,) = await self.answer([replace(question, reserve_seconds=seconds)], claimant)
        if answer.reservation is None:
            raise ReservationRefusedError(answer.document())
        return answer


class MemberGateService:
    """Answers for member clusters, and reserves them.

    Besides the errors that it lists, each method raises `GateError` if there is no answer.
    """

    def __init__(self, members: "HubMemberGate") -> None:
        self._members = members

    def require_synced(self) -> None:
        """Raise `NotReadyError` until the inputs of answers have been read once."""
        if not self._members.synced:
            raise NotReadyError("the disruptions of member clusters have not been read yet", 1)

    def rollout(self, ref: PlacementRef, cluster: str) -> MemberAnswer:
        """Return whether a placement may be changed on a cluster now.

        Raises:
            UnknownObjectError: The placement or the member cluster does not exist.
        """
        return self._members.rollout(ref, cluster)

    def cluster_update(self, cluster: str, run: str = "") -> MemberAnswer:
        """Return whether *run* may upgrade a cluster now. Empty: the oldest unfinished run that includes the cluster.

        Raises:
            UnknownObjectError: The member cluster or the run does not exist.
        """
        return self._members.cluster_update(cluster, run)

    async def reserve_rollout(self, ref: PlacementRef, cluster: str, claimant: Claimant, seconds: int) -> Reservation:
        """Evaluate as `rollout` does, then reserve the cluster of the placement, and the member.

        Raises:
            ReservationRefusedError: The placement must not be changed on the cluster now.
            UnknownObjectError: As in `rollout`.
        """
        with as_gate_errors():
            return await self._members.reserve_rollout(ref, cluster, claimant, seconds)

    async def reserve_update(self, cluster: str, run: str, claimant: Claimant, seconds: int) -> Reservation:
        """Evaluate as `cluster_update` does, then reserve the member.

        Raises:
            ReservationRefusedError: The cluster must not be upgraded now.
            UnknownObjectError: As in `cluster_update`.
        """
        with as_gate_errors():
            return await self._members.reserve_update(cluster, run, claimant, seconds)


class ReservationService:
    """Lists, renews and releases reservations of either gate. Methods raise `GateError`."""

    def __init__(self, keeper: ReservationKeeper) -> None:
        self._keeper = keeper

    def require_synced(self) -> None:
        """Raise `NotReadyError` until reservations have been read once."""
        if not self._keeper.reservations.synced:
            raise NotReadyError("reservations have not been read yet", 1)

    async def renew(self, identifier: str, identity: str, seconds: int) -> Reservation:
        """Set the expiry of a reservation to *seconds* from now. An expired one cannot be renewed."""
        with as_gate_errors():
            return await self._keeper.renew(identifier, identity, seconds)

    async def release(self, identifier: str, identity: str) -> None:
        """Release a reservation."""
        with as_gate_errors():
            await self._keeper.release(identifier, identity)

    def listed(self) -> tuple[tuple[tuple[Thing, Reservation], ...], tuple[str, ...]]:
        """Return all reservations by object, and errors for unreadable ones."""
        return self._keeper.listed()


@dataclass(frozen=True, slots=True)
class GateService:
    """Both gates and their reservations.

    Args:
        nodes: Answers for nodes of pools.
        members: Answers for member clusters.
        reservations: Lists, renews and releases reservations.
    """

    nodes: NodeGateService
    members: MemberGateService
    reservations: ReservationService
