"""The admission chain: processing of an object between the request and the store, in the order of an API server.

Unknown fields and nulls are dropped, defaults of the schema are filled in, and the mutating hook is called, then the
validating one. A status is checked against the schema between the two, because the rules do not read all of it. The
HTTPS hooks use the same functions, so the chain cannot be more lenient.

Source: docs/specifications/placement-api.md 2.8.
"""

import json
import uuid
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias, get_args

from scorer.api.crd.definitions import structural_schema
from scorer.api.crd.models import MODELS
from scorer.api.crd.pruning import apply_schema_defaults, prune, strip_nulls
from scorer.api.kinds import Kind
from scorer.api.meta import JsonObject, dump_json
from scorer.api.placement.staged_update import RunState
from scorer.api.unstructured.documents import dict_at, name_of, uid_of
from scorer.api.values.field_path import FieldPath
from scorer.api.values.quoting import quote
from webhook.admission import registry
from webhook.admission.judge import MOST_CAUSES, Judgement, judge, mutate
from webhook.admission.removal_effects import removal_losses
from webhook.admission.removals import removal_verdict
from webhook.admission.review import for_headers, status_of
from webhook.defaulting.defaulted import DefaultingContext
from webhook.embedded.api_server.request_info import RequestInfo
from webhook.embedded.api_server.status import ApiError, causes
from webhook.history.actions import AcceptedWrite
from webhook.history.entry import InvolvedObject
from webhook.history.service import HistoryService
from webhook.validation.framework.context import Context
from webhook.validation.framework.field import Cause, FieldError, path_order
from webhook.validation.framework.schema import schema_errors

FieldValidation: TypeAlias = Literal["Ignore", "Warn", "Strict"]
FIELD_VALIDATIONS: Final = get_args(FieldValidation)


@dataclass(frozen=True, slots=True)
class WriteRules:
    """Admission of the write of one request.

    Args:
        context: Inputs of the rules.
        validation: ``fieldValidation`` of the request, for unknown fields.
        patched: Whether the object is the result of a patch, not the body of the request.
        content: Schema of the objects, if only a stored definition has it.
        staged_run_default_state: Default of ``spec.state`` of a staged update run.
        history: Records refusals, warnings and actions of users. None: disabled.
    """

    context: Context
    validation: FieldValidation = "Warn"
    patched: bool = False
    content: JsonObject | None = None
    staged_run_default_state: str = RunState.INITIALIZE.value
    history: HistoryService | None = None

    def admit(
        self, target: RequestInfo, document: JsonObject, old: JsonObject | None
    ) -> tuple[JsonObject, tuple[str, ...]]:
        """Return *document* as it will be stored, and warnings.

        Args:
            target: Target of the request.
            document: Object as received, in the version of *target*.
            old: The stored object on an update.

        Raises:
            ApiError: The write is refused. The error has every reason.
        """
        kind = target.kind
        pruning = prune(kind, document, self.content)
        warnings = list(self._unknown_fields(target, document, pruning.dropped))
        document = strip_nulls(kind, pruning.document)
        if not _has_rules(target):
            self._check_status(target, document, old)
            return document, tuple(warnings)
        before = target.present(old) if old is not None else None
        operation = "CREATE" if old is None else "UPDATE"
        if not target.subresource:
            document = self._with_defaults(kind, _as_stored(kind, document, old))
        occasion = DefaultingContext(self.context.now, str(uuid.uuid4()))
        mutation = mutate(document, before, operation, occasion, subresource=target.subresource)
        warnings.extend(for_headers(mutation.warnings))
        document = mutation.document
        if not target.subresource:
            document = self._with_defaults(kind, document)
        self._check_status(target, document, old)
        judgement = judge(operation, document, before, self.context, subresource=target.subresource)
        if not target.subresource:
            judgement = self._with_removals(operation, document, before, judgement)
        warnings.extend(for_headers(judgement.warnings))
        self._note(operation, target, document, judgement, tuple(warnings))
        _check(target, judgement, document, tuple(warnings))
        self._note_write(AcceptedWrite(document, before, target.subresource))
        return document, tuple(warnings)

    def _check_status(self, target: RequestInfo, document: JsonObject, old: JsonObject | None) -> None:
        """Raise `ApiError` if a write of the status has an error that the stored status does not have."""
        if not target.subresource:
            return
        kind = target.kind
        errors = sorted(self._status_errors(kind, document) - self._status_errors(kind, old or {}), key=path_order)
        if errors:
            name, words = name_of(document), ", ".join(map(str, errors[:MOST_CAUSES]))
            message = f"{kind} {quote(name)} is invalid: {words if len(errors) == 1 else f'[{words}]'}"
            details = {"name": name, "group": kind.group, "kind": kind.kind, "causes": causes(errors[:MOST_CAUSES])}
            raise ApiError(422, message, details=details)

    def _status_errors(self, kind: Kind, document: JsonObject) -> set[FieldError]:
        if "status" not in document:
            return set()
        is_ours = kind.group_kind in MODELS
        content = self.content if self.content is not None else structural_schema(kind) if is_ours else {}
        schema = dict_at(content, "properties", "status")
        return set(schema_errors(document["status"], schema, FieldPath.of("status"), patterns=self.content is None))

    def admit_deletion(self, target: RequestInfo, old: JsonObject) -> tuple[str, ...]:
        """Return the warnings of a deletion. Raises `ApiError` if it is refused."""
        if not _has_rules(target):
            return ()
        before = target.present(old)
        judgement = self._with_removals("DELETE", None, before, judge("DELETE", None, before, self.context))
        warnings = tuple(for_headers(judgement.warnings))
        self._note("DELETE", target, old, judgement, warnings)
        _check(target, judgement, old, warnings)
        self._note_write(AcceptedWrite(None, before))
        return warnings

    def _with_removals(
        self, operation: str, document: JsonObject | None, old: JsonObject | None, judgement: Judgement
    ) -> Judgement:
        """Return the verdict, refused if the write removes content from members without confirmation.

        The author of the write has the right to read everything.
        """
        request = {"operation": operation, "object": document, "oldObject": old, "name": name_of(old or {})}
        losses = removal_losses(request, self.context)
        return removal_verdict(request, losses, [uid_of(loss.owner) for loss in losses]).applied_to(judgement)

    def _note(
        self, operation: str, target: RequestInfo, document: JsonObject, judgement: Judgement, warnings: tuple[str, ...]
    ) -> None:
        if self.history is not None:
            self.history.note_review(
                operation.lower(),
                InvolvedObject(target.kind.kind, name_of(document), target.namespace or ""),
                self.context.user.username,
                refused="" if judgement.allowed else judgement.message,
                rules=judgement.rules or judgement.reason,
                warnings=warnings,
            )

    def _note_write(self, write: AcceptedWrite) -> None:
        if self.history is not None:
            self.history.note_write(write, self.context.user.username)

    def _with_defaults(self, kind: Kind, document: JsonObject) -> JsonObject:
        return apply_schema_defaults(kind, document, staged_run_default_state=self.staged_run_default_state)

    def _unknown_fields(self, target: RequestInfo, document: JsonObject, fields: Iterable[FieldPath]) -> Iterator[str]:
        """Yield a warning about each unknown field with ``Warn``, and raise `ApiError` about all with ``Strict``."""
        words = sorted(f'unknown field "{field}"' for field in fields)
        if words and self.validation == "Strict":
            reason = f"strict decoding error: {', '.join(words)}"
            raise _unknown_in_patch(document, reason) if self.patched else _unknown_in_body(target, reason)
        if self.validation == "Warn":
            yield from words


def _unknown_in_body(target: RequestInfo, reason: str) -> ApiError:
    """Return the refusal of the object of a request, with the message of an API server."""
    kind = target.kind.kind
    return ApiError(400, f'{kind} in version "{target.version}" cannot be handled as a {kind}: {reason}')


def _unknown_in_patch(document: JsonObject, reason: str) -> ApiError:
    """Return the refusal of the result of a patch, with the message of an API server."""
    message = f"Invalid value: {json.dumps(dump_json(document).decode(), ensure_ascii=False)}: {reason}"
    cause = {"reason": Cause.INVALID.value, "message": message, "field": "patch"}
    return ApiError(422, f' "" is invalid: patch: {message}', details={"causes": [cause]})


def _as_stored(kind: Kind, document: JsonObject, old: JsonObject | None) -> JsonObject:
    """Return *document* with the stored status and deletionTimestamp, which a write to the object cannot change.

    A deletionTimestamp from the author is ignored: it would bypass every rule.
    """
    document = dict(document)
    if kind.has_status:
        document.pop("status", None)
        if old is not None and "status" in old:
            document["status"] = old["status"]
    metadata = document.get("metadata")
    if isinstance(metadata, dict):
        mark = None if old is None else old["metadata"].get("deletionTimestamp")
        alive_metadata = {member: value for member, value in metadata.items() if member != "deletionTimestamp"}
        document["metadata"] = {**alive_metadata, "deletionTimestamp": mark} if mark else alive_metadata
    return document


def _has_rules(target: RequestInfo) -> bool:
    return registry.find(target.kind.group, target.version, target.kind.kind) is not None


def _check(target: RequestInfo, judgement: Judgement, document: JsonObject, warnings: tuple[str, ...]) -> None:
    if judgement.allowed:
        return
    request = {"kind": {"group": target.kind.group, "kind": target.kind.kind}, "object": document}
    raise ApiError(
        judgement.code,
        judgement.message,
        reason=judgement.reason,
        details=status_of(judgement, request).get("details"),
        warnings=warnings,
        headers={"Retry-After": str(judgement.retry_after_seconds)} if judgement.retry_after_seconds else None,
    )
