"""The verdict on one write, row by row of the admission contract.

`decide` calls `ROWS` in the order of serving.md 1.8 part B, and returns the first verdict. `judge` and `mutate` do the
same without a review, for the embedded store and the command line.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from math import inf
from typing import Any, Final, Literal, TypeAlias

from scorer.api.crd.pruning import apply_schema_defaults
from scorer.api.kinds import api_version, split_api_version
from scorer.api.meta import JsonObject, json_equal, without_nulls
from scorer.api.unstructured.documents import is_deleting, name_of
from scorer.api.values.field_path import FieldPath
from scorer.api.values.quoting import printable, quote
from webhook.admission import impact
from webhook.admission.admitted import MOST_COLLECTED, Admitted
from webhook.admission.patch import Patch, difference
from webhook.admission.registry import find
from webhook.defaulting.defaulted import DefaultingContext
from webhook.validation.framework.context import Context
from webhook.validation.framework.field import Cause, FieldError, FieldWarning, path_order
from webhook.validation.framework.metadata import METADATA
from webhook.validation.framework.reading import DEEPEST, Finding, has_more_values, is_deeper, value_at, wish
from webhook.validation.guard_rails.writes import ReviewedWrite
from webhook.validation.live.check import run_checks

Hook: TypeAlias = Literal["validate", "mutate"]

OPERATIONS: Final = ("CREATE", "UPDATE", "DELETE", "CONNECT")
MOST_CAUSES: Final = 50
MOST_WARNINGS: Final = 10
SHORTEST_MEMBER: Final = 2
"""Bytes of the shortest item of a JSON list, with its separator."""


@dataclass(frozen=True, slots=True)
class Judgement:
    """One verdict.

    Args:
        allowed: Whether the write is allowed.
        errors: All errors, sorted by path.
        warnings: Warnings for the user. `webhook.admission.review.for_headers` makes them fit into a header.
        code: 200, or the HTTP status of the refusal: 422, 403, 409, 429 or 400.
        reason: Machine-readable reason for *code*.
        message: Human-readable refusal.
        patch: Changes of the mutating hook.
        retry_after_seconds: Delay before a retry may succeed, 0 if waiting does not help.
        rule: The rule that refused, for the audit log, if no error names it.
        removals: Machine-readable removals by a refused write, as causes of the ``Status``.
    """

    allowed: bool = True
    errors: tuple[FieldError, ...] = ()
    warnings: tuple[str, ...] = ()
    code: int = 200
    reason: str = ""
    message: str = ""
    patch: Patch = ()
    retry_after_seconds: int = 0
    rule: str = ""
    removals: tuple[JsonObject, ...] = ()

    @property
    def rules(self) -> str:
        """Ids of the rules that refused, comma-separated."""
        return ",".join(sorted({error.rule for error in self.errors if error.rule} or {self.rule} - {""}))


@dataclass(frozen=True, slots=True)
class Mutation:
    """Result of the mutating hook for one object."""

    document: JsonObject
    patch: Patch = ()
    warnings: tuple[str, ...] = ()


@dataclass(slots=True)
class AdmissionRequest:
    """One write to review, unvalidated.

    Args:
        hook: The called hook.
        operation: Operation as received.
        kind: ``request.kind``.
        resource: ``request.resource``.
        document: The object. None on DELETE.
        old: The stored object. None on CREATE.
        subresource: Empty for the object itself.
        context: Inputs of the rules.
        uid: Uid of the request. Empty without a request: defaults that depend on one are not set.
        entry: Set once the kind is known.
        size: Size in bytes of the text of both objects, infinite if unknown.
    """

    hook: Hook
    operation: Any
    kind: Any
    resource: Any
    document: Any
    old: Any
    subresource: Any
    context: Context
    uid: str = ""
    entry: Admitted | None = field(default=None)
    size: float = inf


ALLOWED: Final = Judgement()


def decide(question: AdmissionRequest) -> Judgement:
    """Return the verdict of the first row that applies."""
    for row in ROWS:
        if (judgement := row(question)) is not None:
            return judgement
    return ALLOWED


def judge(
    operation: str, document: JsonObject | None, old: JsonObject | None, context: Context, *, subresource: str = ""
) -> Judgement:
    """Return the verdict of the validating hook on one write.

    The models know the defaults of the schema, so an object gets the same verdict with and without them.

    Args:
        operation: ``CREATE``, ``UPDATE`` or ``DELETE``.
        document: The object. None on DELETE.
        old: The stored object. None on CREATE.
        context: Inputs of the rules.
        subresource: ``status`` for a write of the status.
    """
    if _is_too_deep(document) or _is_too_deep(old):
        return _bad_request(f"the object is nested deeper than {DEEPEST} levels")
    return decide(_ask("validate", operation, document, old, context, subresource))


def mutate(
    document: JsonObject,
    old: JsonObject | None,
    operation: str,
    occasion: DefaultingContext | None = None,
    *,
    subresource: str = "",
) -> Mutation:
    """Return *document* as the mutating hook would leave it.

    Args:
        document: The object.
        old: The stored object on UPDATE.
        operation: ``CREATE`` or ``UPDATE``.
        occasion: The request. None means that defaults that depend on a request are not set.
        subresource: ``status`` for a write of the status.
    """
    if _is_too_deep(document) or _is_too_deep(old):
        return Mutation(document)
    context = Context() if occasion is None else Context(now=occasion.now)
    uid = "" if occasion is None else occasion.uid
    question = _ask("mutate", operation, document, old, context, subresource, uid=uid)
    judgement, changed = _default(question)
    return Mutation(changed, judgement.patch, judgement.warnings)


def _is_too_deep(document: JsonObject | None) -> bool:
    return document is not None and is_deeper(document, DEEPEST)


def _ask(
    hook: Hook,
    operation: str,
    document: JsonObject | None,
    old: JsonObject | None,
    context: Context,
    subresource: str,
    *,
    uid: str = "",
) -> AdmissionRequest:
    subject = document if document is not None else old
    group, version = split_api_version(str((subject or {}).get("apiVersion", "")))
    kind = {"group": group, "version": version, "kind": (subject or {}).get("kind", "")}
    return AdmissionRequest(hook, operation, kind, {}, document, old, subresource, context, uid, _entry(kind))


def _bad_request(message: str) -> Judgement:
    return Judgement(allowed=False, code=400, reason="BadRequest", message=message)


def _operation_is_known(question: AdmissionRequest) -> Judgement | None:
    if question.operation in OPERATIONS:
        return None
    return _bad_request(f"operation {quote(question.operation)}: must be one of {', '.join(OPERATIONS)}")


def _kind_is_given(question: AdmissionRequest) -> Judgement | None:
    if isinstance(question.kind, dict) and isinstance(question.resource, dict):
        return None
    return _bad_request("request.kind and request.resource must be objects")


def _object_is_given(question: AdmissionRequest) -> Judgement | None:
    if question.operation not in {"CREATE", "UPDATE"} or isinstance(question.document, dict):
        return None
    return _bad_request(f"request.object must be an object for {question.operation}, not {quote(question.document)}")


def _old_object_is_given(question: AdmissionRequest) -> Judgement | None:
    if question.operation != "UPDATE" or isinstance(question.old, dict):
        return None
    return _bad_request(f"request.oldObject must be an object for UPDATE, not {quote(question.old)}")


def _object_is_of_the_kind(question: AdmissionRequest) -> Judgement | None:
    if question.operation not in {"CREATE", "UPDATE"}:
        return None
    kind, document = question.kind, question.document
    expected = api_version(str(kind.get("group") or ""), str(kind.get("version") or ""))
    if document.get("kind") == kind.get("kind") and document.get("apiVersion") == expected:
        return None
    actual = f"{quote(document.get('apiVersion'))}, {quote(document.get('kind'))}"
    return _bad_request(f"the object is of {actual}, but request.kind is {quote(expected)}, {quote(kind.get('kind'))}")


def _kind_has_rules(question: AdmissionRequest) -> Judgement | None:
    question.entry = question.entry or _entry(question.kind)
    if question.entry is not None:
        return None
    kind = question.kind
    version = api_version(str(kind.get("group") or ""), str(kind.get("version") or ""))
    return Judgement(warnings=as_warnings([f"harbormaster has no rules for {kind.get('kind')} of {version}"]))


def _guard_rails(question: AdmissionRequest) -> Judgement | None:
    entry, context = question.entry, question.context
    if entry is None or not entry.guards or question.hook == "mutate" or context.is_ours:
        return None
    write = ReviewedWrite(
        question.operation, _object(question.document), _object(question.old), str(question.subresource or "")
    )
    refusals = [refusal for rail in entry.guards for refusal in rail(write, context)]
    if not refusals:
        return None
    return Judgement(allowed=False, code=403, reason="Forbidden", message=printable("; ".join(refusals)))


def _subresource(question: AdmissionRequest) -> Judgement | None:
    if not question.subresource:
        return None
    entry = question.entry
    if entry is None or (question.subresource, question.operation) != ("status", "UPDATE"):
        return ALLOWED
    if question.hook == "mutate":
        return _default(question)[0]
    if is_deleting(question.document):
        return ALLOWED
    notes = [] if entry.warn_about_status is None else list(entry.warn_about_status(question.document))
    validate = entry.validate_status
    findings = () if validate is None else validate(question.document, question.old, question.context)
    if (refusal := _refusal(entry, findings, question, notes)) is not None:
        return refusal
    return Judgement(warnings=as_warnings(notes)) if notes else ALLOWED


def _refusal(
    entry: Admitted, findings: Iterable[Finding], question: AdmissionRequest, notes: Iterable[FieldWarning | str] = ()
) -> Judgement | None:
    errors = sorted((finding for finding in findings if isinstance(finding, FieldError)), key=path_order)
    if not errors:
        return None
    message = _summary(errors, entry, question.document)
    return Judgement(False, tuple(errors), as_warnings(notes), 422, "Invalid", message)


def _connect(question: AdmissionRequest) -> Judgement | None:
    return ALLOWED if question.operation == "CONNECT" else None


def _delete(question: AdmissionRequest) -> Judgement | None:
    if question.operation != "DELETE":
        return None
    entry, old = question.entry, _object(question.old)
    if question.hook == "mutate" or entry is None or old is None:
        return ALLOWED
    if entry.refuse_deletion is not None and (message := entry.refuse_deletion(old, question.context)):
        return Judgement(allowed=False, code=409, reason="Conflict", message=printable(message), retry_after_seconds=10)
    notes = list(entry.warn_about_deletion(old)) if entry.warn_about_deletion is not None else []
    notes += _live_findings(question)
    return Judgement(warnings=as_warnings(notes)) if notes else ALLOWED


def _being_deleted(question: AdmissionRequest) -> Judgement | None:
    if question.operation != "UPDATE" or not is_deleting(question.document):
        return None
    entry = question.entry
    if entry is None or entry.validate_deleted is None or question.hook == "mutate":
        return ALLOWED
    return (
        _refusal(entry, entry.validate_deleted(question.document, question.old, question.context), question) or ALLOWED
    )


def _is_bounded(question: AdmissionRequest) -> Judgement | None:
    """Return the verdict on an object without rules, or too large for them. None: unknown, the rules decide.

    If only the stored object is too large, the update is reviewed as a creation.
    """
    entry = question.entry
    if entry is None or (entry.validate is None and entry.default is None):
        return ALLOWED
    if question.size < SHORTEST_MEMBER * entry.most_values:  # almost always: no need to count
        return None
    if has_more_values(wish(question.document), entry.most_values):
        if question.hook == "mutate":
            return ALLOWED
        field = FieldPath.of(entry.body)
        error = FieldError(field, Cause.TOO_MANY, f"the object has more than {entry.most_values} JSON values")
        return Judgement(False, (error,), (), 422, "Invalid", _summary([error], entry, question.document))
    if question.operation == "UPDATE" and has_more_values(wish(question.old), entry.most_values):
        question.operation, question.old = "CREATE", None
    return None


def _defaults(question: AdmissionRequest) -> Judgement | None:
    return _default(question)[0] if question.hook == "mutate" else None


def _default(question: AdmissionRequest) -> tuple[Judgement, JsonObject]:
    """Return the answer of the mutating hook, and the object as the patch leaves it."""
    entry, document = question.entry, question.document
    default = None if entry is None else entry.default_status if question.subresource else entry.default
    if entry is None or default is None or question.operation not in {"CREATE", "UPDATE"} or is_deleting(document):
        return ALLOWED, document
    old = question.old if question.operation == "UPDATE" else None
    defaulted = default(document, old)
    changed = defaulted.document
    if entry.stamp is not None and question.uid and not question.subresource:
        changed = entry.stamp(changed, old, DefaultingContext(question.context.now, question.uid))
    patch = difference(document, changed)
    return Judgement(warnings=as_warnings(defaulted.warnings), patch=patch), changed


def _rules(question: AdmissionRequest) -> Judgement | None:
    """Apply the rules of the kind. Unless it is judged whole, an update is only refused for what it changed (X-21)."""
    entry = question.entry
    if entry is None or entry.validate is None:
        return ALLOWED
    old = question.old if question.operation == "UPDATE" else None
    findings = list(islice(entry.validate(question.document, old, question.context), MOST_COLLECTED))
    if not findings:
        live = _live_findings(question)
        return Judgement(warnings=as_warnings(live)) if live else ALLOWED
    errors = [finding for finding in findings if isinstance(finding, FieldError)]
    notes: list[FieldWarning | str] = [finding for finding in findings if isinstance(finding, FieldWarning)]
    if errors and old is not None:
        errors, tolerated = _separate(errors, question.document, old, entry, question.context)
        notes = [*(f"{error.field}: {error.text()} (unchanged, not refused)" for error in tolerated), *notes]
    if not errors:
        live = _live_findings(question)
        urgent = [finding for finding in live if finding.rule == impact.RULE]
        return Judgement(
            warnings=as_warnings([*urgent, *notes, *(finding for finding in live if finding not in urgent)])
        )
    errors = sorted(dict.fromkeys(errors), key=path_order)
    message = _summary(errors, entry, question.document)
    return Judgement(False, tuple(errors), as_warnings(notes), 422, "Invalid", message)


def _live_findings(question: AdmissionRequest) -> list[FieldWarning]:
    """Run the live checks on an allowed write.

    Our own writes are skipped. So are updates that do not change the body: the warnings would repeat earlier ones, and
    the removal of a finalizer should not wait.
    """
    entry, context, old = question.entry, question.context, _object(question.old)
    if entry is None or context.is_ours or not context.settings.live_warnings:
        return []
    checks = entry.live_on_deletion if question.operation == "DELETE" else entry.live
    document = None if question.operation == "DELETE" else question.document
    old = None if question.operation == "CREATE" else old
    if not checks or (document is not None and old is not None and _leaves_body_alone(document, old, entry)):
        return []
    return run_checks(checks, document, old, context)


def _leaves_body_alone(document: JsonObject, old: JsonObject, entry: Admitted) -> bool:
    return json_equal(document.get(entry.body), old.get(entry.body))


ROWS: Final[tuple[Callable[[AdmissionRequest], Judgement | None], ...]] = (
    _operation_is_known,
    _kind_is_given,
    _object_is_given,
    _old_object_is_given,
    _object_is_of_the_kind,
    _kind_has_rules,
    _guard_rails,
    _subresource,
    _connect,
    _delete,
    _being_deleted,
    _is_bounded,
    _defaults,
    _rules,
)
"""Rows of the admission contract, in order."""


def _separate(
    errors: Sequence[FieldError], document: JsonObject, old: JsonObject, entry: Admitted, context: Context
) -> tuple[list[FieldError], list[FieldError]]:
    """Separate the errors that an update introduced from existing ones.

    An update that does not change the body introduces no error in it. Otherwise, an error counts as existing if the
    stored object has the same one, and the fields that it depends on have the same values. It may have moved within a
    list: a new rule refuses two stored terms, and a user removes the first. Writing out a default is not a change.
    """
    assert entry.validate is not None
    old = _defaulted_like(document, old, entry)
    new, stored = _spelled_out(document, entry, context), _spelled_out(old, entry, context)
    untouched = json_equal(stored.get(entry.body), new.get(entry.body))
    before: dict[Any, list[FieldError]] = {}
    if not entry.judged_whole or untouched:
        for finding in islice(entry.validate(old, None, context), MOST_COLLECTED):
            if isinstance(finding, FieldError):
                before.setdefault(_signature(finding), []).append(finding)
    broken: list[FieldError] = []
    left_alone: list[FieldError] = []
    for error in errors:
        in_body = not error.field.starts_with(METADATA)
        candidates = before.get(_signature(error), [])
        old_error = next((old_error for old_error in candidates if _same_parts(error, new, old_error, stored)), None)
        if old_error is not None:
            candidates.remove(old_error)
        (left_alone if old_error is not None or (untouched and in_body) else broken).append(error)
    return broken, left_alone


def _defaulted_like(document: JsonObject, old: JsonObject, entry: Admitted) -> JsonObject:
    """Return *old*, which may be older than the mutating hook, with its defaults if *document* has them."""
    if entry.default is None or entry.default(document, old).document is not document:
        return old
    return entry.default(old, None).document


def _spelled_out(document: JsonObject, entry: Admitted, context: Context) -> JsonObject:
    """Return *document* as an API server would store it: with the defaults of the schema, and without nulls."""
    state = context.settings.staged_run_default_state.value
    plain: JsonObject = without_nulls(apply_schema_defaults(entry.kind, document, staged_run_default_state=state))
    return plain


def _signature(error: FieldError) -> tuple[Any, ...]:
    """Return the part of an error that is equal for the same error at another position of a list."""
    path = tuple("*" if isinstance(part, int) else part for part in error.field.parts)
    return error.rule, error.cause, error.message, path


def _same_parts(new: FieldError, document: JsonObject, old: FieldError, stored: JsonObject) -> bool:
    new_parts, old_parts = new.parts or (new.field,), old.parts or (old.field,)
    return len(new_parts) == len(old_parts) and all(
        json_equal(value_at(document, now), value_at(stored, then))
        for now, then in zip(new_parts, old_parts, strict=True)
    )


def _summary(errors: Sequence[FieldError], entry: Admitted, document: Mapping[str, Any]) -> str:
    """Return the message of a refusal, in the form of an API server."""
    messages = [str(error) for error in errors[:MOST_CAUSES]]
    if len(errors) > MOST_CAUSES:
        messages.append(f"and {len(errors) - MOST_CAUSES} more")
    text = messages[0] if len(messages) == 1 else f"[{', '.join(messages)}]"
    return printable(f"{entry.kind} {quote(name_of(document))} is invalid: {text}")


def as_warnings(notes: Iterable[FieldWarning | str]) -> tuple[str, ...]:
    """Return warnings as strings without control characters: a limited number, of any length."""
    texts = list(dict.fromkeys(printable(str(note)) for note in islice(notes, MOST_COLLECTED)))
    if len(texts) > MOST_WARNINGS:
        rest = len(texts) - MOST_WARNINGS + 1
        texts = [*texts[: MOST_WARNINGS - 1], f"and {rest} more warnings"]
    return tuple(texts)


def _entry(kind: Mapping[str, Any]) -> Admitted | None:
    group, version, name = kind.get("group") or "", kind.get("version"), kind.get("kind")
    if isinstance(group, str) and isinstance(version, str) and isinstance(name, str):
        return find(group, version, name)
    return None


def _object(value: Any) -> JsonObject | None:
    return value if isinstance(value, dict) else None
