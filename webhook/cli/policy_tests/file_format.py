"""Test files: their models, discovery and parsing.

A test defines a hub as files. Each case asks one question of the engine: the clusters of a placement, the verdict of
admission on a write, the answer of the gate, or the limits of a pool's budgets. Unknown fields are errors, as is
anything else that would make a case pass without a check.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from difflib import get_close_matches
from pathlib import Path
from typing import Annotated, Any, Final, Literal, TypeAlias

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError, model_validator
from pydantic.alias_generators import to_camel

from scorer.api.unstructured.json_object import JsonObject, parse_time
from scorer.api.values.field_path import FieldPath
from scorer.api.values.quoting import LONGEST_NAME, printable, quote, shortened
from scorer.node_budgets.answer import GateVerdict
from scorer.node_budgets.blockers import DisruptionClass
from scorer.node_budgets.question import QUESTION_REASONS
from webhook.admission.catalogue import rule_texts
from webhook.cli.disruption.options import LARGEST_COUNT
from webhook.cli.errors import UserError
from webhook.cli.files.parsing import DocumentSource, FileMistake, UnreadableFileError, objects_in
from webhook.cli.files.positions import Positions, TextRange
from webhook.cli.files.search import TEST_FILE, Files, Search
from webhook.settings.admission import AdmissionSettings, ReviewSettings
from webhook.settings.environment import SettingsError
from webhook.validation.framework.field import Cause, FieldError, invalid, path_of, shape_errors

API_VERSION: Final = "cli.harbormaster.dev/v1alpha1"
KIND: Final = "Test"
MOST_CASES: Final = 10_000
FILE_NAMES: Final = "harbormaster-test.yaml or *.harbormaster-test.yaml"

UNLIMITED: Final = "unlimited"
_KINDS: Final = ("placement", "admission", "gate", "budget")
"""Types of cases."""


def _read_instant(value: object) -> object:
    if not isinstance(value, str):
        raise ValueError("must be an instant such as 2026-03-01T10:00:00Z")  # noqa: TRY004 - what pydantic takes
    try:
        return parse_time(value)
    except (ValueError, OverflowError):
        raise ValueError("must be an instant such as 2026-03-01T10:00:00Z") from None


def _read_object(value: object) -> object:
    if not (isinstance(value, dict) or (isinstance(value, str) and value)):
        raise ValueError("must be an object, the path of a file, or KIND/NAME")
    return value


def _read_granted(value: object) -> object:
    if not (_is_count(value) or (isinstance(value, list) and all(isinstance(name, str) for name in value))):
        raise ValueError("must be a number, or the names of nodes")
    return value


def _read_limit(value: object) -> object:
    if not (_is_count(value) or value == UNLIMITED):
        raise ValueError("must be a number, or unlimited")
    return value


def _is_count(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= LARGEST_COUNT


Instant: TypeAlias = Annotated[datetime, BeforeValidator(_read_instant)]
Text: TypeAlias = Annotated[str, Field(min_length=1)]
ObjectOrPath: TypeAlias = Annotated[Any, BeforeValidator(_read_object)]
Granted: TypeAlias = Annotated[Any, BeforeValidator(_read_granted)]
Limit: TypeAlias = Annotated[Any, BeforeValidator(_read_limit)]
Count: TypeAlias = Annotated[int, Field(ge=0, le=LARGEST_COUNT)]


class _Shape(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, alias_generator=to_camel, populate_by_name=True)


class _Expectation(_Shape):
    @model_validator(mode="after")
    def _expects_something(self) -> "_Expectation":
        if not self.model_fields_set:
            raise ValueError("must have an expectation")
        return self

    def wants(self, name: str) -> bool:
        """Return whether the case sets the field, null included."""
        return name in self.model_fields_set


class NotPicked(_Shape):
    """A cluster that must not be picked, optionally with the plugin that rejects it and a part of the reason."""

    cluster: Text
    plugin: Text | None = None
    reason: Text | None = None


class PlacementExpectation(_Expectation):
    """Expected result for a placement.

    Args:
        picked: Exactly these clusters, in any order.
        ranking: Exactly these clusters, in this order.
        includes: These clusters, among others.
        not_picked: These clusters must not be picked.
        count: Number of clusters.
        satisfied: Whether the placement gets all clusters it wants.
        message: A part of the message.
    """

    picked: list[Text] | None = None
    ranking: list[Text] | None = None
    includes: list[Text] | None = None
    not_picked: list[NotPicked] | None = None
    count: Count | None = None
    satisfied: bool | None = None
    message: Text | None = None


class WarningExpectation(_Shape):
    """One expected warning of admission. Omitted fields match anything. A plain text matches a part of the message."""

    rule: Text | None = None
    message: Text | None = None

    @model_validator(mode="before")
    @classmethod
    def _is_message(cls, value: Any) -> Any:
        return {"message": value} if isinstance(value, str) else value


class ErrorExpectation(WarningExpectation):
    """One expected error of admission, matched like a warning. The field is empty for an error about no field."""

    field: str | None = None


class AdmissionExpectation(_Expectation):
    """Expected verdict of admission. The lists are complete. ``stored`` is a part of the object to be stored."""

    allowed: bool | None = None
    errors: list[ErrorExpectation] | None = None
    warnings: list[WarningExpectation] | None = None
    stored: JsonObject | None = None


class GateExpectation(_Expectation):
    """Expected answer of the gate. See ``/v1/gate/disruption``."""

    allowed: bool | None = None
    granted: Granted = None
    verdict: Literal[tuple(verdict.value for verdict in GateVerdict)] | None = None  # type: ignore[valid-type]  # as above
    next_open: Instant | None = None
    message: Text | None = None


class BudgetExpectation(_Expectation):
    """Expected limits of the budgets. See ``/v1/budgets``."""

    limit: Limit = None
    remaining: Limit = None
    next_open: Instant | None = None
    never_opens: bool | None = None


class User(_Shape):
    """User of a write."""

    name: Text
    groups: list[Text] = []


class AdmissionQuestion(_Shape):
    """A write.

    Args:
        operation: The operation.
        object: The object itself, the path of a file with one object, or KIND/NAME or KIND/NAMESPACE/NAME of an object
            in the files of the test.
        patch: Changes to it, as a JSON merge patch.
        user: The user who writes. None means an administrator.
    """

    operation: Literal["create", "update", "delete"] = "create"
    object: ObjectOrPath
    patch: JsonObject | None = None
    user: User | None = None

    @model_validator(mode="after")
    def _deletes_what_is_stored(self) -> "AdmissionQuestion":
        if self.operation == "delete" and self.patch is not None:
            raise ValueError("patch must not be set when operation is delete")
        return self


class Counts(_Shape):
    """The nodes of a pool, for files without nodes."""

    total: Count
    deleting: Count = 0
    not_ready: Count = 0

    @model_validator(mode="after")
    def _parts_fit(self) -> "Counts":
        if self.deleting + self.not_ready > self.total:
            raise ValueError("the sum of deleting and notReady must not exceed total")
        return self


class GateQuestion(_Shape):
    """A request to check whether nodes of a pool may be disrupted."""

    pool: Text
    reason: Literal[QUESTION_REASONS]  # type: ignore[valid-type]  # the words that the engine knows
    nodes: list[Text] | None = Field(default=None, min_length=1)
    count: Count | None = None
    class_: Literal[tuple(disruption_class.value for disruption_class in DisruptionClass)] = Field(  # type: ignore[valid-type]  # the same
        default=DisruptionClass.GRACEFUL.value, alias="class"
    )
    up_to: bool = False
    observed: Counts | None = None

    @model_validator(mode="after")
    def _asks_for_something(self) -> "GateQuestion":
        if (self.nodes is None) == (self.count is None):
            raise ValueError("must name the nodes, or give their number with count")
        return self


class BudgetQuestion(_Shape):
    """A question about the disruptions that the budgets of a pool allow."""

    pool: Text
    reason: Literal["Underutilized", "Empty", "Drifted"]
    observed: Counts | None = None


class _Case(_Shape):
    name: Text
    now: Instant | None = None


class PlacementCase(_Case):
    """A case about the clusters of a placement, optionally with lost or drained members."""

    placement: Text
    lost: list[Text] = []
    drained: list[Text] = []
    expect: PlacementExpectation


class AdmissionCase(_Case):
    """A case about the result of admission for a write."""

    admission: AdmissionQuestion
    expect: AdmissionExpectation


class GateCase(_Case):
    """A case about the disruption of nodes."""

    gate: GateQuestion
    expect: GateExpectation


class BudgetCase(_Case):
    """A case about the disruptions that budgets allow."""

    budget: BudgetQuestion
    expect: BudgetExpectation


Case: TypeAlias = PlacementCase | AdmissionCase | GateCase | BudgetCase
_CASES: Final[Mapping[str, type[Case]]] = {
    "placement": PlacementCase,
    "admission": AdmissionCase,
    "gate": GateCase,
    "budget": BudgetCase,
}


class _TestShape(_Shape):
    api_version: Literal["cli.harbormaster.dev/v1alpha1"]
    kind: Literal["Test"]
    name: Text | None = None
    fleet: list[Text] = []
    objects: list[Text] = []
    now: Instant | None = None
    settings: JsonObject = {}
    cases: list[JsonObject] = Field(min_length=1, max_length=MOST_CASES)


@dataclass(frozen=True, slots=True)
class PlacedCase:
    """A case and its position in the file."""

    case: Case
    place: TextRange


@dataclass(frozen=True, slots=True)
class PolicyTest:
    """One test as written.

    Args:
        file: File name in messages.
        name: Name of the test.
        fleet: Paths of the files of the hub.
        objects: Paths of the files that are applied to it.
        now: The default instant of its cases.
        settings: The admission settings.
        cases: The cases.
    """

    file: str
    name: str
    fleet: Sequence[str]
    objects: Sequence[str]
    now: datetime | None
    settings: AdmissionSettings
    cases: Sequence[PlacedCase]

    def path(self, path: str) -> str:
        """Resolve a path in the file, which is relative to its folder."""
        return str(Path(self.file).parent / path)


def read_tests(files: Files, *, may_be_absent: bool = False) -> list[PolicyTest]:
    """Read the tests in *files*. In folders, only files with the name of a test file count.

    Args:
        files: The files to read.
        may_be_absent: Whether files without tests are accepted.

    Raises:
        UserError: Files cannot be read or parsed, or no test is found. Lists every error.
    """
    policy_tests: list[PolicyTest] = []
    every: list[str] = []
    search = Search(files, wanted=lambda name: TEST_FILE.fullmatch(name) is not None, may_be_empty=True)
    for name, text in search.texts():
        positions = Positions({name: text})
        problems: list[str] = []
        strange: list[FileMistake] = []
        try:
            documents = objects_in(name, text, strange)
            problems += map(str, strange)
            tests = [_read(document.document, document.source, positions, problems) for document in documents]
            policy_tests += (test for test in tests if test is not None)
        except UnreadableFileError as error:
            problems.append(str(error))
        if problems and search.is_confidential(name):
            problems = [f"{name}: is not a test. Its errors are not shown, because the file was found through a link"]
        every += problems
    every += map(str, search.problems)
    if every:
        raise UserError(every)
    if not (policy_tests or may_be_absent):
        raise UserError(f"no tests in {files}: no file is named {FILE_NAMES}")
    return policy_tests


def _read(document: JsonObject, source: DocumentSource, positions: Positions, problems: list[str]) -> PolicyTest | None:
    """Return one test, or None after recording its errors in *problems*."""
    mistakes: list[FieldError] = []
    shape, cases = None, []
    try:
        shape = _TestShape.model_validate(document)
    except ValidationError as error:
        mistakes += _mistakes(error, _TestShape, FieldPath())
    raw = document.get("cases")
    for position, raw_case in enumerate(raw if isinstance(raw, list) else ()):
        if isinstance(raw_case, dict):
            at = FieldPath.of("cases") / position
            case = _read_case(raw_case, at, mistakes)
            if case is not None:
                cases.append(PlacedCase(case, positions.place(source, at)))
                mistakes += _unknown_rules(case, at)
    mistakes += _doubled(cases)
    settings, settings_document = AdmissionSettings(), document.get("settings")
    if isinstance(settings_document, dict):
        try:
            settings = _read_settings(settings_document)
        except SettingsError as error:
            at = FieldPath.of("settings")
            mistakes += (FieldError(at, Cause.INVALID, mistake) for mistake in error.mistakes)
    mistake_places = sorted((positions.place(source, mistake.field)[:2], str(mistake)) for mistake in mistakes)
    problems += (f"{source.file}:{line}:{column}: {mistake}" for (line, column), mistake in mistake_places)
    if shape is None or mistakes:
        return None
    name = shape.name or Path(source.file).parent.name or source.file
    return PolicyTest(source.file, name, shape.fleet, shape.objects, shape.now, settings, cases)


def _read_case(document: JsonObject, at: FieldPath, mistakes: list[FieldError]) -> Case | None:
    kinds = [kind for kind in _KINDS if kind in document]
    if len(kinds) != 1:
        subject = f"asks about {' and '.join(kinds)}" if kinds else "must have a question"
        mistakes.append(FieldError(at, Cause.INVALID, f"a case {subject}: give one of {', '.join(_KINDS)}"))
        return None
    model = _CASES[kinds[0]]
    try:
        return model.model_validate(document)
    except ValidationError as error:
        mistakes += _mistakes(error, model, at)
        return None


def _unknown_rules(case: Case, at: FieldPath) -> Iterator[FieldError]:
    """Yield an error for each unknown rule that a case expects: the case could never pass."""
    if not isinstance(case, AdmissionCase):
        return
    expectations_by_field: Mapping[str, Sequence[WarningExpectation]] = {
        "errors": case.expect.errors or (),
        "warnings": case.expect.warnings or (),
    }
    texts = (
        rule_texts()
        if any(expectation.rule for several in expectations_by_field.values() for expectation in several)
        else {}
    )
    for name, several in expectations_by_field.items():
        for position, expectation in enumerate(several):
            if expectation.rule is not None and expectation.rule not in texts:
                reason = "no such rule. `harbormaster rules` lists all rules"
                yield invalid(at.below("expect", name, position, "rule"), expectation.rule, reason)


def _doubled(cases: Sequence[PlacedCase]) -> Iterator[FieldError]:
    """Yield an error for each case with the name of an earlier one: a report could not distinguish them."""
    names: set[str] = set()
    for position, placed_case in enumerate(cases):
        if placed_case.case.name in names:
            yield FieldError(FieldPath.of("cases") / position / "name", Cause.DUPLICATE, quote(placed_case.case.name))
        names.add(placed_case.case.name)


def _read_settings(document: JsonObject) -> AdmissionSettings:
    """Return the admission settings. Raises `SettingsError`."""
    values = {name: ",".join(map(str, value)) if isinstance(value, list) else value for name, value in document.items()}
    return ReviewSettings.read({}, **values).admission()


def _mistakes(error: ValidationError, model: type[BaseModel], at: FieldPath) -> Iterator[FieldError]:
    """Yield the errors in the shape of a part of the file, field by field."""
    strange = {
        path_of(detail["loc"]): detail["input"]
        for detail in error.errors(include_url=False)
        if detail["type"] == "extra_forbidden"
    }
    for mistake in shape_errors(error):
        path = FieldPath((*at, *mistake.field))
        if mistake.field in strange:
            *parents, name = mistake.field
            close = get_close_matches(str(name), _fields_at(model, parents), n=1)
            hint = f". Did you mean {close[0]}?" if close else ""
            yield FieldError(path, Cause.FORBIDDEN, f"no such field{hint}")
        else:
            yield FieldError(path, mistake.cause, mistake.message)


def _fields_at(model: type[BaseModel], parents: Sequence[Any]) -> list[str]:
    """Return the names of the fields that are valid at a path."""
    schema = model.model_json_schema(by_alias=True)
    node: Any = schema
    for part in parents:
        node = _resolved(schema, node)
        node = node.get("items", {}) if isinstance(part, int) else node.get("properties", {}).get(part, {})
    return list(_resolved(schema, node).get("properties", ()))


def _resolved(schema: JsonObject, node: Any) -> Any:
    for branch in (node, *node.get("anyOf", ())):
        if "$ref" in branch:
            return schema["$defs"][branch["$ref"].rpartition("/")[2]]
        if "items" in branch:
            return branch
    return node


def described(case: Case) -> str:
    """Return the type of a case."""
    return next(kind for kind, model in _CASES.items() if isinstance(case, model))


def shown_name(test: PolicyTest, case: Case) -> str:
    """Return the full name of a case, fit for a terminal."""
    return printable(f"{shortened(test.name, LONGEST_NAME)}: {shortened(case.name, LONGEST_NAME)}")
