"""Errors of the gates: no answer, or a refused reservation.

Each message may be shown to the caller. `as_gate_errors`, which the service uses, wraps the errors of the Leases and of
the store.

Source: docs/specifications/nodepool-disruption.md 14.3; docs/specifications/serving.md 3.1 and 3.3.
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
"""Retry interval if it is unknown when the answer will change (nodepool-disruption.md 14.3)."""


class GateError(Exception):
    """The gate has no answer.

    Args:
        message: Human-readable message.
        retry_after: Seconds after which a retry may help. None if a retry alone does not help.
    """

    def __init__(self, message: str, retry_after: int | None = None) -> None:
        super().__init__(message)
        self.retry_after = retry_after


class MistakenQuestionError(GateError):
    """A question is invalid.

    Args:
        pointer: JSON Pointer to the invalid field of the question.
        code: Machine-readable error. See `scorer.node_budgets.question.InvalidQuestion`.
        detail: Human-readable message.
        position: Position of the question in its request.
    """

    def __init__(self, pointer: str, code: str, detail: str, position: int = 0) -> None:
        super().__init__(f"{pointer}: {detail}")
        self.pointer = pointer
        self.code = code
        self.detail = detail
        self.position = position


class UnknownReservationError(GateError):
    """The reservation does not exist or has expired."""


class NotYoursError(GateError):
    """The reservation belongs to another user."""


class ReservationRefusedError(GateError):
    """The object must not be disrupted now, so it was not reserved.

    Args:
        answer: The answer, as for a question without a reservation.
    """

    def __init__(self, answer: GateAnswer | MemberGateAnswer) -> None:
        seconds = answer["retryAfterSeconds"]
        super().__init__(answer["message"], ASK_AGAIN_SECONDS if seconds == 0 else seconds)
        self.answer = answer


class MemberHeldError(GateError):
    """Another disruption holds the member cluster.

    Args:
        message: Kind, holder and expiry of that disruption.
        by: The reservation of that disruption.
    """

    def __init__(self, message: str, by: Reservation) -> None:
        super().__init__(message, ASK_AGAIN_SECONDS)
        self.by = by


class LeaseFullError(GateError):
    """The Lease of an object has no room for another reservation."""


class ContendedError(GateError):
    """Other clients keep changing the same reservations."""


class NotReadyError(GateError):
    """The inputs of an answer are not synced yet, or cannot be read or written now."""


@contextmanager
def as_gate_errors() -> Iterator[None]:
    """Wrap the errors of the Leases and of the store in errors of a gate."""
    try:
        yield
    except TooManyReservationsError as error:
        raise LeaseFullError(str(error), ASK_AGAIN_SECONDS) from error
    except BusyError as error:
        raise ContendedError(str(error), 1) from error
    except (UnreadableReservationsError, StoreError) as error:
        raise NotReadyError(printable(str(error)), ASK_AGAIN_SECONDS) from error
