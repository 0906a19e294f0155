"""Analysis of a stage: the annotation ``harbormaster.dev/analysis`` on a strategy or a run.

A JSON object with names of stages as keys. An entry has a ``query`` for one number, with a threshold and a duration, or
an ``object`` of the hub with a condition to reach. The stage must have an Approval task after it. The run itself only
sees the approval, whether a user or the loop gives it.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from enum import StrEnum
from hashlib import sha256
from typing import Annotated, Any, Final, Self

from pydantic import AfterValidator, ConfigDict, Field, TypeAdapter, ValidationError, model_validator
from pydantic_core import PydanticCustomError

from scorer.api.meta import ApiModel, dump_json
from scorer.api.placement.staged_update import StageConfig, StageTaskType
from scorer.api.values.duration import parse_wait_time
from scorer.api.values.name_grammar import dns_subdomain_error
from scorer.api.values.quoting import quote

LONGEST_TEXT: Final = 16 * 1024
"""Maximum length of an annotation that is read, in characters."""
LONGEST_EXPRESSION: Final = 1024
LONGEST_HOLD: Final = timedelta(days=30)
MOST_OFTEN: Final = timedelta(seconds=5)
LEAST_OFTEN: Final = timedelta(hours=1)
OBJECT_EVERY: Final = timedelta(seconds=15)
"""Polling interval of objects, as for clusters in flight (staged-updates.md 11).

It costs one small read per waiting stage, and none if the kind is watched anyway.
"""
RUN: Final = "{run}"
_DIGEST_DIGITS: Final = 8


class ThresholdComparison(StrEnum):
    """Comparison of a number with the threshold."""

    ABOVE = "above"
    BELOW = "below"
    EQUALS = "equals"


@dataclass(frozen=True, slots=True)
class QueryCheck:
    """A number that a query endpoint must return.

    Args:
        endpoint: Name in the settings of the loop.
        expression: The query.
        comparison: Required comparison with *limit*.
        limit: The threshold.
        hold: Time for which the number must meet the threshold without interruption.
        every: Polling interval.
    """

    endpoint: str
    expression: str
    comparison: ThresholdComparison
    limit: float
    hold: timedelta
    every: timedelta

    def is_met_by(self, value: float) -> bool:
        """Return whether a number meets the threshold."""
        match self.comparison:
            case ThresholdComparison.ABOVE:
                return value > self.limit
            case ThresholdComparison.BELOW:
                return value < self.limit
            case ThresholdComparison.EQUALS:
                return value == self.limit


@dataclass(frozen=True, slots=True)
class ObjectCheck:
    """A condition that an object of the hub must reach.

    Args:
        api_version: API version of its kind.
        kind: Kind.
        namespace: Namespace. If empty, that of the run, or none for a cluster-scoped kind.
        name: Name, with ``{run}`` as placeholder for the name of the run. Without the placeholder, the object of an
            earlier run would count for the next one.
        condition: Type of the condition.
        status: Required status.
    """

    api_version: str
    kind: str
    namespace: str
    name: str
    condition: str
    status: str

    @property
    def group(self) -> str:
        """API group of its kind."""
        group, slash, _ = self.api_version.rpartition("/")
        return group if slash else ""

    @property
    def version(self) -> str:
        """Version of that group."""
        return self.api_version.rpartition("/")[2]

    @property
    def every(self) -> timedelta:
        """Polling interval."""
        return OBJECT_EVERY

    def of_run(self, run: str, namespace: str) -> "ObjectCheck":
        """Return the check of one run: with its name instead of the placeholder, and its namespace as the default."""
        return replace(self, name=self.name.replace(RUN, run), namespace=self.namespace or namespace)


Check = QueryCheck | ObjectCheck


class AnalysisError(ValueError):
    """The annotation is invalid. The message names the error."""


def _check_duration(text: str) -> str:
    parse_wait_time(text)
    return text


def _check_name(text: str) -> str:
    if error := dns_subdomain_error(text.replace(RUN, "r")):
        raise ValueError(error)
    return text


_Duration = Annotated[str, AfterValidator(_check_duration)]
_Condition = Annotated[str, Field(max_length=316, pattern=r"^[A-Za-z0-9]([-A-Za-z0-9_./]*[A-Za-z0-9])?$")]
_Number = Annotated[float, Field(allow_inf_nan=False)]


class _Strict(ApiModel):
    """Like the API models, but unknown fields are errors: no other component would report them."""

    model_config = ConfigDict(extra="forbid", populate_by_name=False)


class _Query(_Strict):
    endpoint: str = Field(min_length=1, max_length=63, pattern=r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$")
    expr: str = Field(min_length=1, max_length=LONGEST_EXPRESSION)
    above: _Number | None = None
    below: _Number | None = None
    equals: _Number | None = None
    hold: _Duration = Field(default="0s", alias="for")
    every: _Duration = "30s"

    @model_validator(mode="after")
    def _check_bounds(self) -> Self:
        if len(self._limits()) != 1:
            raise PydanticCustomError("limits", "must have exactly one of above, below and equals")
        if parse_wait_time(self.hold) > LONGEST_HOLD:
            raise PydanticCustomError("for", "for is {given}, must be at most 720h", {"given": self.hold})
        if not MOST_OFTEN <= parse_wait_time(self.every) <= LEAST_OFTEN:
            raise PydanticCustomError("every", "every is {given}, must be from 5s to 1h", {"given": self.every})
        return self

    def _limits(self) -> list[tuple[ThresholdComparison, float]]:
        limits = ((word, getattr(self, word)) for word in ThresholdComparison)
        return [(word, limit) for word, limit in limits if limit is not None]

    def check(self) -> QueryCheck:
        [(comparison, limit)] = self._limits()
        hold, every = parse_wait_time(self.hold), parse_wait_time(self.every)
        return QueryCheck(self.endpoint, self.expr, comparison, limit, hold, every)


class _Object(_Strict):
    api_version: str = Field(pattern=r"^([a-z0-9]([-a-z0-9.]*[a-z0-9])?/)?v[a-z0-9]+$", max_length=317)
    kind: str = Field(pattern=r"^[A-Z][A-Za-z0-9]*$", max_length=63)
    namespace: str = Field(default="", pattern=r"^([a-z0-9]([-a-z0-9]*[a-z0-9])?)?$", max_length=63)
    name: Annotated[str, AfterValidator(_check_name)]
    condition: _Condition
    status: str = Field(default="True", pattern="^(True|False|Unknown)$")

    def check(self) -> ObjectCheck:
        return ObjectCheck(self.api_version, self.kind, self.namespace, self.name, self.condition, self.status)


class _Stage(_Strict):
    query: _Query | None = None
    object: _Object | None = None

    @model_validator(mode="after")
    def _check_one(self) -> Self:
        if (self.query is None) == (self.object is None):
            raise PydanticCustomError("one", "must have exactly one of query and object")
        return self

    def check(self) -> Check:
        if self.query is not None:
            return self.query.check()
        assert self.object is not None
        return self.object.check()


_STAGES: Final = TypeAdapter(dict[str, _Stage], config=ConfigDict(defer_build=True))


def read_analysis(text: str, namespace: str) -> Mapping[str, Check]:
    """Return the check of each stage in the annotation.

    Args:
        text: The annotation.
        namespace: Namespace of the annotated object, if any. Checks of a namespaced object may only read objects of its
            namespace, because its author need not have any rights elsewhere, unlike the loop.

    Raises:
        AnalysisError: The annotation is invalid.
    """
    if len(text) > LONGEST_TEXT:
        raise AnalysisError(f"has {len(text)} characters, must have at most {LONGEST_TEXT}")
    try:
        stages = _STAGES.validate_json(text)
    except ValidationError as error:
        raise AnalysisError(_first_mistake(error)) from error
    checks = {stage: entry.check() for stage, entry in stages.items()}
    for stage, check in checks.items():
        if isinstance(check, ObjectCheck) and namespace and check.namespace not in ("", namespace):
            path = f"{stage}.object.namespace: {quote(check.namespace)}"
            raise AnalysisError(f"{path}: must be {namespace}, the namespace of the annotated object")
    return checks


def _first_mistake(error: ValidationError) -> str:
    mistake = error.errors(include_url=False)[0]
    message = mistake["msg"].removeprefix("Value error, ")
    message = message[:1].lower() + message[1:]
    path = ".".join(str(part)[:64] for part in mistake["loc"])
    input_shown: Any = mistake["input"]
    value = "" if mistake["type"] == "missing" or isinstance(input_shown, (dict, bytes)) else f"{quote(input_shown)}: "
    return f"{path}: {value}{message}" if path else f"{value}{message}"


def stage_problems(checks: Mapping[str, Check], stages: Sequence[StageConfig]) -> Iterator[str]:
    """Yield the reasons why checks have no effect: stages that do not exist or have no Approval after them."""
    stages_by_name = {stage.name: stage for stage in stages}
    for name in checks:
        if name not in stages_by_name:
            yield f"{quote(name)} is not a stage of the strategy"
        elif not any(task.type is StageTaskType.APPROVAL for task in stages_by_name[name].after_stage_tasks):
            yield f"stage {name} has no Approval in afterStageTasks"


def digest(check: Check) -> str:
    """Return a short digest of a check."""
    fields = [str(getattr(check, name)) for name in check.__dataclass_fields__]
    return sha256(dump_json([type(check).__name__, *fields])).hexdigest()[:_DIGEST_DIGITS]
