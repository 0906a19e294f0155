"""Requests, creation and lists of reservations, below ``/v1/gate/reservations`` and for the command line.

No HTTP: the callers of this module have authenticated the user, and check rights.

Source: docs/specifications/serving.md 3.1 and 3.3.
"""

from collections.abc import Awaitable, Callable
from datetime import datetime
from typing import Annotated, Final, NotRequired

from typing_extensions import TypedDict

from scorer.api.meta import format_time
from scorer.api.values.answer import Described, Instant, one_of
from scorer.api.values.quoting import printable, quote
from scorer.member_gate.holds import rollout_holder
from scorer.node_budgets.answer import ReservationGrant
from scorer.reservations import ADMISSION_HOLDER, DISRUPTION, MEMBER, ROLLOUT, Reservation, Thing, without_halves
from webhook.endpoints.gate.request_bodies import (
    ClusterUpdateModel,
    DisruptionModel,
    ReservationModel,
    RolloutModel,
    problems,
    refusal,
)
from webhook.endpoints.http.problems import Mistake, ProblemError
from webhook.endpoints.http.request_models import ModelT, read_model
from webhook.gate.keeper import Claimant
from webhook.gate.service import MemberGateService, NodeGateService, ReservationService

QUESTION: Final = "/question"
_OF_ROLLOUTS: Final = rollout_holder("")


class TakenReservation(ReservationGrant, TypedDict):
    """A granted reservation."""

    granted: list[str] | int
    """Names of nodes that may be disrupted, or of the member cluster. If the question named no nodes, their number."""


_ListedReservation = TypedDict(
    "_ListedReservation",
    {
        "gate": Annotated[
            str,
            one_of(DISRUPTION, ROLLOUT, MEMBER),
            Described(
                "Whether the reservation is for a NodePool, a placement on a member cluster, or a member cluster."
            ),
        ],
        "of": Annotated[
            str, Described("Name of the NodePool, the placement, such as `crp/payments`, or the member cluster.")
        ],
        "for": Annotated[str, Described("Reason or kind of disruption that it was granted for.")],
    },
)


class ListedReservation(_ListedReservation, TypedDict):
    """An active reservation."""

    holder: str
    """Holder, as given by the caller."""
    granted: list[str] | int
    """Names of nodes, or of the member cluster. If the question named no nodes, their number."""
    expires: Instant
    """The reservation is active until this instant, unless it is renewed or released."""
    mine: bool
    """Whether it is the caller's own."""
    id: NotRequired[str]
    """ID, required to renew or release it. Present only for the caller's own reservations."""


class ReservationList(TypedDict):
    """Active reservations."""

    items: list[ListedReservation]
    unreadable: list[str]
    """Reservation Leases that cannot be read, with the reason. The gate grants nothing that they may cover."""


AdmitQuestion = Callable[[RolloutModel | ClusterUpdateModel], Awaitable[None]]
"""Raises `ProblemError` if the caller may not ask about the objects of a question."""


def claimant_of(body: ReservationModel, identity: str) -> Claimant:
    """Return the claimant of a reservation.

    Raises:
        ProblemError: The holder is the one that admission uses.
    """
    if body.holder == ADMISSION_HOLDER:
        raise refusal(
            [Mistake("/holder", "invalid", f"{quote(ADMISSION_HOLDER)}: must not be the holder that admission uses")]
        )
    return Claimant(body.holder, identity)


async def reserve_nodes(nodes: NodeGateService, body: ReservationModel, claimant: Claimant) -> TakenReservation:
    """Reserve nodes of a pool.

    Raises:
        ProblemError: The question is invalid, the gate refuses the reservation, or its caches have not synced.
    """
    with problems(_in_question):
        nodes.require_synced()
        question = _read_question(DisruptionModel, body).question("question")
        if question.reserve_seconds:
            raise refusal(
                [Mistake(f"{QUESTION}/reserveSeconds", "invalid", "must not be set: ttlSeconds sets the duration")]
            )
        answer = await nodes.reserve(question, claimant, body.ttl_seconds)
    assert answer.reservation is not None
    identifier, expires = answer.reservation
    return _taken_reservation(identifier, expires, answer.granted)


async def reserve_member(
    members: MemberGateService, body: ReservationModel, claimant: Claimant, admit: AdmitQuestion
) -> TakenReservation:
    """Reserve a member cluster, for a rollout or an upgrade.

    Raises:
        ProblemError: The question is invalid, *admit* or the gate refuses it, or the caches have not synced.
    """
    with problems(_in_question):
        members.require_synced()
        if body.gate == "rollout":
            rollout = _read_question(RolloutModel, body)
            await admit(rollout)
            reservation = await members.reserve_rollout(rollout.ref, rollout.cluster, claimant, body.ttl_seconds)
        else:
            update = _read_question(ClusterUpdateModel, body)
            await admit(update)
            reservation = await members.reserve_update(update.cluster, update.run or "", claimant, body.ttl_seconds)
    return reservation_document(reservation)


def reservation_list(reservations: ReservationService, identity: str, prefixes: tuple[str, ...]) -> ReservationList:
    """Return the reservations that a caller may see.

    Args:
        reservations: All reservations.
        identity: The caller's identity.
        prefixes: Prefixes of references to the placements that the caller may list.

    Raises:
        ProblemError: The reservations have not been read yet.
    """
    with problems():
        reservations.require_synced()
    all_reservations, unreadable = reservations.listed()
    visible = [
        (thing, reservation)
        for thing, reservation in all_reservations
        if reservation.identity == identity or thing.gate != ROLLOUT or thing.name.startswith(prefixes)
    ]
    remaining = {reservation.id for reservation in without_halves(reservation for _, reservation in visible)}
    items = [
        _listed(thing, reservation, prefixes, mine=reservation.identity == identity)
        for thing, reservation in visible
        if reservation.id in remaining
    ]
    return {"items": items, "unreadable": [printable(text) for text in unreadable]}


def reservation_document(reservation: Reservation) -> TakenReservation:
    """Return a reservation as JSON for its owner, with the ID."""
    return _taken_reservation(reservation.id, reservation.expires, reservation.granted)


def _in_question(_position: int) -> str:
    return QUESTION


def _read_question(model: type[ModelT], body: ReservationModel) -> ModelT:
    """Read the question inside a reservation. Raises `ProblemError`."""
    try:
        return read_model(model, body.question)
    except ProblemError as error:
        mistakes = [Mistake(QUESTION + mistake.pointer, mistake.code, mistake.detail) for mistake in error.mistakes]
        raise ProblemError.of_mistakes(mistakes, error.problem) from error


def _listed(thing: Thing, reservation: Reservation, prefixes: tuple[str, ...], *, mine: bool) -> ListedReservation:
    """Return a reservation as a list item. Only its owner gets the ID, which is required to release it.

    Args:
        thing: The reserved object.
        reservation: An active reservation.
        prefixes: Prefixes of references to the placements that the caller may list: the holder of a rollout names one.
        mine: Whether it is the caller's own.
    """
    holder = reservation.holder
    if holder.startswith(_OF_ROLLOUTS) and not holder.removeprefix(_OF_ROLLOUTS).startswith(prefixes) and not mine:
        holder = _OF_ROLLOUTS.removesuffix("/")
    document: ListedReservation = {
        "gate": thing.gate,
        "of": thing.name,
        "for": reservation.purpose,
        "holder": holder,
        "granted": _granted(reservation.granted),
        "expires": format_time(reservation.expires),
        "mine": mine,
    }
    if mine:
        document["id"] = reservation.id
    return document


def _taken_reservation(identifier: str, expires: datetime, grant: tuple[str, ...] | int) -> TakenReservation:
    return {"id": identifier, "expires": format_time(expires), "granted": _granted(grant)}


def _granted(grant: tuple[str, ...] | int) -> list[str] | int:
    return grant if isinstance(grant, int) else list(grant)
