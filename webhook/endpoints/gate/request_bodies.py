"""Request bodies of the node gate and of reservations, and the problem details for the gate's errors.

The shape (members and types) is validated as everywhere below ``/v1``. A well-formed question that contradicts itself,
or requests more than exists, is refused with every error (422, like a wrong shape). A question about a pool or node
that does not exist is refused, too (404).

Source: docs/specifications/nodepool-disruption.md 14.1; docs/specifications/serving.md 3.1 and 3.3.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Annotated, Any, Final, Literal

import pydantic
from pydantic import Field, WithJsonSchema, field_validator

from scorer.api.family import PlacementRef
from scorer.api.meta import JsonObject, parse_time
from scorer.api.node_pool import NodePool
from scorer.api.unstructured.documents import name_of
from scorer.api.values.field_path import json_pointer
from scorer.api.values.quoting import quote
from scorer.node_budgets.blockers import DisruptionClass
from scorer.node_budgets.budgets import UNLIMITED, NodeCounts
from scorer.node_budgets.question import QUESTION_REASONS, Mode, NodeGateQuestion
from scorer.reservations import LONGEST_SECONDS, SHORTEST_SECONDS
from webhook.endpoints.http.problems import Mistake, Problem, ProblemError
from webhook.endpoints.http.request_models import Name, PlacementModel, RequestModel
from webhook.gate.errors import (
    ContendedError,
    GateError,
    LeaseFullError,
    MemberHeldError,
    MistakenQuestionError,
    NotReadyError,
    NotYoursError,
    ReservationRefusedError,
    UnknownReservationError,
)
from webhook.validation.framework.field import shape_errors

MOST_QUESTIONS: Final = 100
MOST_NODES: Final = 1000
YEARS: Final = (1970, 9990)
"""First and last year of an instant in a question. The calendar ends after that."""

Reason = Annotated[str, WithJsonSchema({"type": "string", "enum": list(QUESTION_REASONS)})]
ClassWord = Annotated[str, WithJsonSchema({"type": "string", "enum": list(DisruptionClass)})]
ModeWord = Annotated[str, WithJsonSchema({"type": "string", "enum": list(Mode)})]
Count = Annotated[int, WithJsonSchema({"type": "integer", "minimum": 0, "maximum": UNLIMITED})]
Seconds = Annotated[int, WithJsonSchema({"type": "integer", "minimum": 0, "maximum": LONGEST_SECONDS})]
InstantText = Annotated[str, WithJsonSchema({"type": "string", "format": "date-time"})]


class ObservedModel(RequestModel):
    """Nodes of the pool as the caller sees them."""

    total: Count
    """All nodes, including those that the other fields count."""
    deleting: Count = 0
    """Nodes that are being deleted or rebooted."""
    not_ready: Count = 0
    """Nodes that are not ready, excluding those that are being deleted."""

    def counts(self) -> NodeCounts:
        """Return the counts. Raises `ValueError` if the parts exceed the total."""
        return NodeCounts(self.total, self.deleting, self.not_ready)


class DisruptionModel(RequestModel):
    """A request to check whether nodes of a pool may be disrupted.

    One of `pool` and `nodePool` must be set, and one of `nodes` and `count`.
    """

    pool: Name | None = None
    """Name of a NodePool of the hub."""
    node_pool: dict[str, Any] | None = None
    """A NodePool that need not be on the hub. Defaults are filled in as admission does. Its nodes cannot be reserved.
    """
    reason: Reason
    """Reason for the disruption. Budgets do not limit `Expired` unless the operator sets them to."""
    nodes: Annotated[tuple[Name, ...], Field(max_length=MOST_NODES)] | None = None
    """Names of nodes, the preferred ones first."""
    count: Count | None = None
    """Number of nodes of the pool, without naming them."""
    class_: Annotated[ClassWord, Field(alias="class")] = DisruptionClass.GRACEFUL.value
    """`eventual` does not wait for pods on nodes whose claim has a `terminationGracePeriod`."""
    mode: ModeWord = Mode.ALL.value
    """`all` grants all nodes or none. `upTo` grants as many as may be disrupted."""
    now: InstantText | None = None
    """The instant that the question is about. Absent: the current time. A reservation is possible only for the current
    time."""
    observed: ObservedModel | None = None
    """Node counts to use. Absent: those of the hub. Reservations are counted in addition."""
    reserve_seconds: Seconds = 0
    """Reserve granted nodes for this long, 10 to 3600 seconds. 0: do not reserve."""

    def question(self, *at: str | int) -> NodeGateQuestion:
        """Return the question. *at* is its path in the body.

        Raises:
            ProblemError: The question cannot be answered. Lists every error.
        """
        mistakes = list(self._mistakes(at))
        if mistakes:
            raise refusal(mistakes)
        counts = self.observed
        return NodeGateQuestion(
            pool=self.pool if self.pool is not None else self._inline_name(),
            reason=self.reason,
            nodes=self.nodes,
            count=self.count or 0,
            class_=DisruptionClass(self.class_),
            mode=Mode(self.mode),
            now=None if self.now is None else parse_time(self.now),
            observed=counts.counts() if counts is not None else None,
            reserve_seconds=self.reserve_seconds,
            node_pool=self.node_pool,
        )

    def _inline_name(self) -> str:
        return name_of(self.node_pool or {})

    def _mistakes(self, at: Sequence[str | int]) -> Iterator[Mistake]:
        if (self.pool is None) == (self.node_pool is None):
            yield Mistake(json_pointer((*at, "pool")), "invalid", "exactly one of pool and nodePool must be set")
        if (self.nodes is None) == (self.count is None):
            yield Mistake(json_pointer((*at, "nodes")), "invalid", "exactly one of nodes and count must be set")
        yield from _not_among(QUESTION_REASONS, self.reason, (*at, "reason"))
        yield from _not_among(list(DisruptionClass), self.class_, (*at, "class"))
        yield from _not_among(list(Mode), self.mode, (*at, "mode"))
        if self.count is not None and not 0 <= self.count <= UNLIMITED:
            yield Mistake(json_pointer((*at, "count")), "invalid", f"{self.count}: must be from 0 to {UNLIMITED}")
        names: set[str] = set()
        for position, name in enumerate(self.nodes or ()):
            if name in names:
                yield Mistake(json_pointer((*at, "nodes", position)), "duplicate", f"{quote(name)} is listed twice")
            names.add(name)
        yield from self._time_mistakes((*at, "now"))
        yield from self._count_mistakes((*at, "observed"))
        if self.reserve_seconds and not SHORTEST_SECONDS <= self.reserve_seconds <= LONGEST_SECONDS:
            detail = f"{self.reserve_seconds}: must be 0, or from {SHORTEST_SECONDS} to {LONGEST_SECONDS}"
            yield Mistake(json_pointer((*at, "reserveSeconds")), "invalid", detail)
        if self.node_pool is not None:
            yield from self._pool_mistakes(self.node_pool, (*at, "nodePool"))

    @staticmethod
    def _pool_mistakes(node_pool: JsonObject, at: Sequence[str | int]) -> Iterator[Mistake]:
        """Yield the errors in the NodePool. Its ``spec.template`` is not checked, and may be omitted."""
        try:
            NodePool.read(node_pool)
        except pydantic.ValidationError as error:
            for mistake in shape_errors(error):
                if mistake.field.parts[:2] != ("spec", "template"):
                    yield Mistake(json_pointer((*at, *mistake.field.parts)), "invalid", mistake.text())

    def _time_mistakes(self, at: Sequence[str | int]) -> Iterator[Mistake]:
        if self.now is None:
            return
        try:
            instant = parse_time(self.now)
        except (ValueError, OverflowError):
            expected = "an instant with an offset, such as 2026-06-12T19:00:00Z"
            yield Mistake(json_pointer(at), "invalid", f"{quote(self.now)}: must be {expected}")
            return
        if not YEARS[0] <= instant.year <= YEARS[1]:
            yield Mistake(
                json_pointer(at), "invalid", f"{quote(self.now)}: must be in the years {YEARS[0]} to {YEARS[1]}"
            )

    def _count_mistakes(self, at: Sequence[str | int]) -> Iterator[Mistake]:
        if self.observed is None:
            return
        counts = self.observed.model_dump(by_alias=True)
        for member, value in counts.items():
            if not 0 <= value <= UNLIMITED:
                yield Mistake(json_pointer((*at, member)), "invalid", f"{value}: must be from 0 to {UNLIMITED}")
        if self.observed.deleting + self.observed.not_ready > self.observed.total:
            detail = "total {total} must not be less than deleting {deleting} plus notReady {notReady}"
            yield Mistake(json_pointer(at), "invalid", detail.format(**counts))


class DisruptionBatchModel(RequestModel):
    """Several questions, answered in order from one snapshot: nodes granted to one are not available to the next."""

    questions: Annotated[tuple[DisruptionModel, ...], Field(max_length=MOST_QUESTIONS)]
    """Questions as for a single request."""


class RolloutModel(RequestModel):
    """A request to check whether a placement may be changed on a cluster now."""

    placement: PlacementModel
    """A placement on the hub, by `ref`. An inline policy has no rollout."""
    cluster: Name
    """Name of a member cluster."""

    @field_validator("placement")
    @classmethod
    def _check(cls, placement: PlacementModel) -> PlacementModel:
        if placement.ref is None:
            raise ValueError("ref must be set: only placements of the hub are rolled out")
        return placement

    @property
    def ref(self) -> PlacementRef:
        """The placement."""
        ref = self.placement.ref
        assert ref is not None
        return PlacementRef(ref.kind, ref.name, ref.namespace)


class ClusterUpdateModel(RequestModel):
    """A request to check whether a cluster may be upgraded now."""

    cluster: Name
    """Name of a member cluster."""
    run: Name | None = None
    """Name of the requesting ClusterUpgradeRun. Absent: the oldest unfinished run that includes the cluster."""


class ReservationModel(RequestModel):
    """A question to one of the gates, and the duration of the reservation of the granted nodes or member."""

    gate: Literal["disruption", "rollout", "cluster-update"]
    """The gate that grants the reservation."""
    question: dict[str, Any]
    """The request body of that gate."""
    holder: Annotated[str, Field(min_length=1, max_length=253)]
    """Name of the disrupting system or person, shown to other callers who have to wait."""
    ttl_seconds: Annotated[int, Field(ge=SHORTEST_SECONDS, le=LONGEST_SECONDS)]
    """Lifetime of the reservation in seconds, unless it is renewed."""


class RenewalModel(RequestModel):
    """New lifetime of a reservation, from now on."""

    ttl_seconds: Annotated[int, Field(ge=SHORTEST_SECONDS, le=LONGEST_SECONDS)]
    """New lifetime of the reservation in seconds, counted from now."""


def refusal(mistakes: Sequence[Mistake]) -> ProblemError:
    """Return the refusal (422) of a question that cannot be answered."""
    return ProblemError.of_mistakes(mistakes)


def _not_among(words: Sequence[str], value: str, at: Sequence[str | int]) -> Iterator[Mistake]:
    if value not in words:
        yield Mistake(json_pointer(at), "invalid", f"{quote(value)}: must be one of {', '.join(words)}")


_PROBLEMS: Final[Mapping[type[GateError], Problem]] = {
    UnknownReservationError: Problem.NOT_FOUND,
    NotYoursError: Problem.FORBIDDEN,
    ReservationRefusedError: Problem.CONFLICT,
    MemberHeldError: Problem.CONFLICT,
    LeaseFullError: Problem.CONFLICT,
    ContendedError: Problem.DEADLINE_EXCEEDED,
    NotReadyError: Problem.NOT_READY,
}
_UNKNOWN_NODE: Final = "unknown-node"
_CODES: Final = {_UNKNOWN_NODE: "unknown", "more-than-exist": "too-many", "duplicate": "duplicate"}
"""Codes of errors in a request, by the engine's codes."""


def _whole_body(_position: int) -> str:
    return ""


@contextmanager
def problems(place: Callable[[int], str] = _whole_body) -> Iterator[None]:
    """Raise a gate's errors as problem details.

    Args:
        place: Returns the JSON Pointer, in the body of the request, to a question by its position.
    """
    try:
        yield
    except MistakenQuestionError as error:
        pointer = place(error.position) + error.pointer
        mistakes = [Mistake(pointer, _CODES.get(error.code, "invalid"), error.detail)]
        if error.code == _UNKNOWN_NODE:  # as for a pool or cluster that does not exist
            raise ProblemError(Problem.NOT_FOUND, error.detail, mistakes=mistakes) from error
        raise refusal(mistakes) from error
    except GateError as error:
        answer = error.answer if isinstance(error, ReservationRefusedError) else None
        raise ProblemError(_PROBLEMS[type(error)], str(error), retry_after=error.retry_after, answer=answer) from error
