"""What a gate says when it gives no answer, or does not do what it is asked to: errors of one family.

Each message is fit for the caller. What the Leases and the store raise becomes one of them at one place,
`as_gate_errors`, which the desk uses.

Source: nodepool-disruption.md 14.3; serving.md 3.1 and 3.3.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from scorer.api.values.quoting import printable
from scorer.member_gate.answer import MemberGateAnswer
from scorer.node_budgets.answer import GateAnswer
from scorer.reservations import Reservation, TooManyReservationsError, UnreadableReservationsError
from webhook.gate.reservations import BusyError
from webhook.kube.ports import StoreError

ASK_AGAIN_SECONDS: Final = 10
"""How soon to ask again where it is not known when the answer will change (nodepool-disruption.md 14.3)."""


class GateError(Exception):
    """A gate gives no answer.

    Args:
        message: Why, for people.
        retry_after: Seconds after which asking again may help; None: that alone does not.
    """

    def __init__(self, message: str, retry_after: int | None = None) -> None:
        super().__init__(message)
        self.retry_after = retry_after


class MistakenQuestionError(GateError):
    """A question cannot be answered as it is.

    Args:
        pointer: JSON Pointer, in the question, to the member that is wrong.
        code: One word for machines; see `scorer.node_budgets.question.InvalidQuestion`.
        detail: For people.
        position: Of the question among those that came with it.
    """

    def __init__(self, pointer: str, code: str, detail: str, position: int = 0) -> None:
        super().__init__(f"{pointer}: {detail}")
        self.pointer = pointer
        self.code = code
        self.detail = detail
        self.position = position


class UnknownReservationError(GateError):
    """There is no such reservation, or it has expired."""


class NotYoursError(GateError):
    """Another user has taken the reservation."""


class ReservationRefusedError(GateError):
    """What was to be reserved may not be disrupted now, so nothing is reserved.

    Args:
        answer: Why, as a question without a reservation would be answered.
    """

    def __init__(self, answer: GateAnswer | MemberGateAnswer) -> None:
        super().__init__(answer["message"], answer["retryAfterSeconds"] or ASK_AGAIN_SECONDS)
        self.answer = answer


class MemberHeldError(GateError):
    """A member cluster is being disrupted by something else.

    Args:
        message: Says by what, for whom and until when.
        by: The reservation in the way.
    """

    def __init__(self, message: str, by: Reservation) -> None:
        super().__init__(message, ASK_AGAIN_SECONDS)
        self.by = by


class LeaseFullError(GateError):
    """So many reservations are held of one thing that its Lease has no room for more."""


class ContendedError(GateError):
    """Other writers have changed the same reservations again and again."""


class NotReadyError(GateError):
    """What the answer depends on is not known yet, or cannot be read or written now."""


@contextmanager
def as_gate_errors() -> Iterator[None]:
    """Turn what the Leases and the store raise into errors of a gate."""
    try:
        yield
    except TooManyReservationsError as error:
        raise LeaseFullError(str(error), ASK_AGAIN_SECONDS) from error
    except BusyError as error:
        raise ContendedError(str(error), 1) from error
    except (UnreadableReservationsError, StoreError) as error:
        raise NotReadyError(printable(str(error)), ASK_AGAIN_SECONDS) from error
