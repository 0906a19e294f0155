"""Runs a case against the engine, and compares the answer with its expectations.

Answers are those of ``plan``, of admission, of the gate and of ``budgets``: nothing is decided here. Differences list
the expected and the actual value, and the reason as the engine words it.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from enum import StrEnum
from typing import Any, Final

from scorer.api.kinds import MEMBER_CLUSTER, Kind, find_kind
from scorer.api.unstructured.json_object import JsonObject, format_instant, format_time
from scorer.api.values.quoting import format_share, printable, quote
from webhook.access.user import UserInfo
from webhook.admission.judge import as_warnings
from webhook.answers.proposed_objects import as_written
from webhook.cli.disruption.budgets import pools_in_files
from webhook.cli.errors import UserError
from webhook.cli.files.documents import Loaded, definitions, load, resolve
from webhook.cli.files.parsing import DocumentSource, SourceDocument
from webhook.cli.files.repositories import load_known
from webhook.cli.files.search import SUFFIXES, Files
from webhook.cli.hub.resource_arguments import parse_reference
from webhook.cli.offline.admission import (
    OfflineVerdict,
    admit,
    admit_deletion,
    field_warnings,
    offline_context,
    refusing_rules,
)
from webhook.cli.offline.plan import PlannedLosses, plan_changes, plan_files
from webhook.cli.offline.pools import gate_answer, offline_pools
from webhook.cli.offline.stored_files import store
from webhook.cli.planning.output import reference
from webhook.cli.policy_tests.differences import (
    AdmissionMessage,
    Difference,
    compact,
    compare_admission,
    compare_placement,
    compare_values,
    has_part,
)
from webhook.cli.policy_tests.file_format import (
    UNLIMITED,
    AdmissionCase,
    BudgetCase,
    Case,
    Counts,
    GateCase,
    PlacedCase,
    PlacementCase,
    PolicyTest,
)
from webhook.embedded.patches.merge_patches import merge_patch
from webhook.validation.framework.context import Context

_ADMINISTRATOR: Final = UserInfo("harbormaster:test", frozenset({"system:masters", "system:authenticated"}))
_UNKNOWN_FIELD: Final = "unknown field"


class CaseResult(StrEnum):
    """Result of a case."""

    PASSED = "passed"
    FAILED = "failed"
    ERROR = "error"
    NOT_RUN = "not run"


@dataclass(frozen=True, slots=True)
class Judged:
    """The write of a case: its kind and operation, and the rules that reported something."""

    kind: Kind
    operation: str
    rules: frozenset[str]


@dataclass(frozen=True, slots=True)
class CaseOutcome:
    """Outcome of a case.

    Args:
        test: The test.
        placed: The case.
        result: Whether it passed.
        differences: Deviations from the expectation.
        mistakes: Errors that prevented a run of the case.
        judged: The write of the case, if any.
    """

    test: PolicyTest
    placed: PlacedCase
    result: CaseResult
    differences: tuple[Difference, ...] = ()
    mistakes: tuple[str, ...] = ()
    judged: Judged | None = None


@dataclass(slots=True)
class Scene:
    """The hub of one test, and its answers. Each plan is computed once.

    Args:
        test: The test.
        clock: The current time, for cases without an instant.
        fleet: The objects of the hub.
        objects: The objects that are applied to it.
    """

    test: PolicyTest
    clock: datetime
    fleet: Sequence[Loaded]
    objects: Sequence[Loaded]
    _plans: dict[tuple[Any, ...], JsonObject] = field(default_factory=dict)

    @classmethod
    def of(cls, test: PolicyTest, clock: datetime) -> "Scene":
        """Read the files of a test.

        Raises:
            UserError: A file cannot be used. Lists every error.
        """
        fleet, objects = (
            load_known(Files(tuple(map(test.path, paths)), named_in=test.file)) if paths else []
            for paths in (test.fleet, test.objects)
        )
        return cls(test, clock, fleet, objects)

    def run(self, placed_case: PlacedCase) -> CaseOutcome:
        """Run a case."""
        case, judgement = placed_case.case, None
        try:
            match case:
                case PlacementCase():
                    differences = list(self._placement(case))
                case AdmissionCase():
                    verdict, context = self._verdict(case)
                    messages = list(_errors(verdict, context)), list(_warnings(verdict, context))
                    rules = frozenset(rule for message in (*messages[0], *messages[1]) for rule in message.rules)
                    judgement = Judged(verdict.loaded.kind, verdict.operation, rules)
                    differences = list(compare_admission(case, verdict, *messages))
                case GateCase():
                    differences = list(self._gate(case))
                case BudgetCase():
                    differences = list(self._budget(case))
        except UserError as error:
            return CaseOutcome(self.test, placed_case, CaseResult.ERROR, mistakes=error.lines)
        result = CaseResult.FAILED if differences else CaseResult.PASSED
        return CaseOutcome(self.test, placed_case, result, tuple(differences), judged=judgement)

    def _now(self, case: Case) -> datetime | None:
        return case.now or self.test.now

    def _instant(self, case: Case) -> datetime:
        """Return the instant of a case that depends on one. Raises `UserError`."""
        now = self._now(case)
        if now is None:
            raise UserError("now: must be set in the case or in the test: the answer depends on the time")
        return now

    def _plan(self, case: PlacementCase) -> JsonObject:
        now, outages = self._now(case), PlannedLosses(tuple(case.lost), tuple(case.drained))
        key = (now, outages)
        if key not in self._plans:
            instants = {"now": now, "clock": self.clock}
            settings = self.test.settings
            if self.objects:
                plan = plan_changes(
                    self.fleet,
                    self.objects,
                    outages,
                    **instants,  # type: ignore[arg-type]
                    settings=settings,
                    settles=False,
                )
            else:
                plan, _ = plan_files(self.fleet, outages, **instants, settings=settings)  # type: ignore[arg-type]
            self._plans[key] = plan
        return self._plans[key]

    def _placement(self, case: PlacementCase) -> Iterator[Difference]:
        kind, namespace, name = parse_reference(case.placement)
        plan = self._plan(case)
        key = (namespace, name)
        entry = next((item for item in plan["placements"] if (item["namespace"], item["name"]) == key), None)
        refusals = [
            printable(": ".join(filter(None, (error["rule"], error["field"], error["message"]))))
            for verdict in plan["admission"]
            if (verdict["kind"], verdict["namespace"], verdict["name"]) == (kind.kind, *key)
            for error in verdict["errors"]
        ]
        if refusals:
            yield Difference("placement", "admitted", "refused by admission", tuple(refusals))
        elif entry is None:
            others = ", ".join(reference(item) for item in plan["placements"][:10]) or "none"
            raise UserError(f"there is no {case.placement} in the files of the test, available: {others}")
        else:
            yield from compare_placement(case, entry)

    def _verdict(self, case: AdmissionCase) -> tuple[OfflineVerdict, Context]:
        question = case.admission
        user = _ADMINISTRATOR if question.user is None else _user(question.user.name, question.user.groups)
        context = self._context(case).with_user(user)
        objects_by_identity = {item.identity: item for item in self.fleet}
        item = self._object(question.object)
        document = item.document if question.patch is None else merge_patch(item.document, question.patch)
        if question.operation == "create":
            (patched,) = resolve([SourceDocument(document, item.source)], custom=self._custom())
            return admit(patched, context), context
        old = objects_by_identity.get(item.identity)
        if old is None:
            place = f"{item.namespace}/{item.name}" if item.namespace else item.name
            raise UserError(f"{item.kind.kind} {place} is not in the fleet and cannot be {question.operation}d")
        if question.operation == "delete":
            return admit_deletion(old, context), context
        document, _ = as_written(old.kind, document, old.document, context.now)
        return admit(old.with_document(document), context, old.document), context

    def _context(self, case: AdmissionCase) -> Context:
        """Return the input of admission. Without members in the files, missing objects are unknown, not absent."""
        every = [*self.fleet, *self.objects]
        now = self._now(case)
        context = offline_context(every, now or self.clock, settings=self.test.settings)
        if not any(item.kind == MEMBER_CLUSTER for item in every):
            return context
        stored_files = store(every, now=now, clock=self.clock)
        return replace(context, hub=stored_files.hub, existing=stored_files.hub.existing, now=stored_files.now)

    def _custom(self) -> Mapping[tuple[str, str], Kind]:
        return definitions(SourceDocument(item.document, item.source) for item in (*self.fleet, *self.objects))

    def _object(self, reference: Any) -> Loaded:
        """Return the object that a case names. Raises `UserError`."""
        if isinstance(reference, dict):
            (inline_object,) = resolve(
                [SourceDocument(reference, DocumentSource(self.test.file))], custom=self._custom()
            )
            return inline_object
        if reference.endswith(SUFFIXES):
            several = load(Files((self.test.path(reference),), named_in=self.test.file))
            if len(several) != 1:
                raise UserError(
                    f"{reference}: has {len(several)} objects: name one of the files of the test as KIND/NAME"
                )
            return several[0]
        word, *names = reference.split("/")
        kind = find_kind(word)
        if kind is None or len(names) != (2 if kind.namespaced else 1) or not all(names):
            raise UserError(f"{quote(reference)}: neither the path of a file nor KIND/NAME or KIND/NAMESPACE/NAME")
        identity = (*kind.group_kind, *(names if kind.namespaced else ("", *names)))
        for item in (*self.objects, *self.fleet):
            if item.identity == identity:
                return item
        raise UserError(f"there is no {reference} in the files of the test")

    def _gate(self, case: GateCase) -> Iterator[Difference]:
        gate_question = case.gate
        question: JsonObject = {
            "pool": gate_question.pool,
            "reason": gate_question.reason,
            "class": gate_question.class_,
        }
        question |= {"mode": "upTo" if gate_question.up_to else "all", "now": format_time(self._instant(case))}
        question |= (
            {"nodes": list(gate_question.nodes)} if gate_question.nodes is not None else {"count": gate_question.count}
        )
        if gate_question.observed is not None:
            question["observed"] = _counts(gate_question.observed)
        answer = gate_answer(offline_pools((*self.fleet, *self.objects)), question, self.clock)
        expect, reason = case.expect, (answer["message"],)
        for name, key in (("allowed", "allowed"), ("granted", "granted"), ("verdict", "verdict")):
            if expect.wants(name):
                yield from compare_values(key, getattr(expect, name), answer[key], reason)
        if expect.wants("next_open"):
            yield from compare_values("nextOpen", format_instant(expect.next_open), answer["nextOpen"], reason)
        if expect.message is not None:
            yield from has_part("message", expect.message, answer["message"])

    def _budget(self, case: BudgetCase) -> Iterator[Difference]:
        from scorer.node_budgets.budgets import NodeCounts
        from scorer.node_budgets.documents import overview

        question, at = case.budget, self._instant(case)
        observation = question.observed
        counts = (
            None if observation is None else NodeCounts(observation.total, observation.deleting, observation.not_ready)
        )
        pools = pools_in_files((*self.fleet, *self.objects), [question.pool], counts)
        answer = overview(pools, at)
        (item,) = (item for item in answer["items"] if item["reason"] == question.reason)
        actual = {**item, **({"limit": UNLIMITED, "remaining": UNLIMITED} if item["unlimited"] else {})}
        expect, reason = case.expect, tuple(_budgets_in_force(item, answer["pools"][0]))
        for name, key in (("limit", "limit"), ("remaining", "remaining"), ("never_opens", "neverOpens")):
            if expect.wants(name):
                yield from compare_values(key, getattr(expect, name), actual[key], reason)
        if expect.wants("next_open"):
            yield from compare_values("nextOpen", format_instant(expect.next_open), item["nextOpen"], reason)


def _user(name: str, groups: Iterable[str]) -> UserInfo:
    return UserInfo(name, frozenset(groups))


def _counts(counts: Counts) -> JsonObject:
    return {"total": counts.total, "deleting": counts.deleting, "notReady": counts.not_ready}


def _budgets_in_force(item: Mapping[str, Any], pool: Mapping[str, Any]) -> Iterator[str]:
    yield f"{format_share(item['disrupting'], item['total'], 'node')} being disrupted or not ready"
    for position in item["active"]:
        sets = ", which sets the limit" if position in item["binding"] else ""
        yield f"budgets[{position}] is in force{sets}: {compact(pool['budgets'][position])}"
    if not item["active"]:
        yield "no budget is in force"


def _errors(verdict: OfflineVerdict, context: Context) -> Iterator[AdmissionMessage]:
    for error in verdict.errors:
        yield AdmissionMessage((error.rule,) if error.rule else (), str(error.field), error.text())
    if verdict.refusal:
        yield AdmissionMessage(refusing_rules(verdict, context), "", verdict.refusal)


def _warnings(verdict: OfflineVerdict, context: Context) -> Iterator[AdmissionMessage]:
    texts: set[str] = set()
    for warning in field_warnings(verdict, context):
        texts.update(as_warnings([warning]))
        yield AdmissionMessage((warning.rule,) if warning.rule else (), str(warning.field), warning.message)
    for text in verdict.warnings:
        if text not in texts:
            yield AdmissionMessage((), "", text)
