"""Rehearsals: every step of a write to the hub except the write itself.

The steps are those of an API server with both hooks: it drops unknown fields and nulls, sets the defaults of the
schema, and calls the mutating hook, then the validating one. Its own rules for ``metadata`` apply, too.

Source: docs/specifications/serving.md 3.1; docs/specifications/placement-api.md 2.8.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final, Literal, NotRequired, TypeAlias

from typing_extensions import TypedDict

from scorer.api.crd.pruning import apply_schema_defaults, prune, strip_nulls
from scorer.api.kinds import Kind, split_api_version
from scorer.api.meta import JsonObject
from scorer.api.unstructured.documents import is_deleting, metadata_of
from webhook.access.rights import UNDISPUTED, Reviewed
from webhook.admission.authorization import authorized
from webhook.admission.judge import AdmissionRequest, Judgement, decide, judge
from webhook.admission.patch import Patch, apply_patch
from webhook.admission.registry import has_rules
from webhook.validation.framework.context import Context
from webhook.validation.framework.field import FieldError, path_order
from webhook.validation.framework.object_meta import validate_members, validate_place, validate_update

WriteOperation: TypeAlias = Literal["CREATE", "UPDATE"]

_ANY_NAMESPACE: Final = "default"
_INVALID: Final = 422


class FieldMistake(TypedDict):
    """One reason to refuse an object."""

    field: str
    """Path as kubectl prints it, such as `spec.policy.numberOfClusters`; empty if the reason concerns no field."""
    reason: str
    """Such as `FieldValueInvalid`; if no field is concerned, the reason of the refusal, such as `Forbidden`."""
    message: str
    rule: NotRequired[str]
    """Id of the rule."""


@dataclass(frozen=True, slots=True)
class RehearsalVerdict:
    """The outcome of a write.

    Args:
        document: The object as it would be stored.
        errors: All errors that refuse it, by path.
        refusal: Message of a refusal that no field causes.
        reason: Machine-readable reason of *refusal*.
        warnings: Warnings for the author.
    """

    document: JsonObject
    errors: tuple[FieldError, ...] = ()
    refusal: str = ""
    reason: str = ""
    warnings: tuple[str, ...] = ()

    @property
    def allowed(self) -> bool:
        """Whether the write would be accepted."""
        return not self.errors and not self.refusal


@dataclass(frozen=True, slots=True)
class MutationResult:
    """Result of the mutating hook: the object after *patch*, and warnings for its author."""

    document: JsonObject
    patch: Patch = ()
    warnings: tuple[str, ...] = ()


def rehearse(
    document: JsonObject,
    old: JsonObject | None,
    operation: WriteOperation,
    context: Context,
    reviewed: Reviewed = UNDISPUTED,
) -> RehearsalVerdict:
    """Return the outcome of a write. A kind without rules is allowed, with a warning.

    Args:
        document: The object as its author wrote it, with ``apiVersion`` and ``kind``.
        old: The stored object on an update.
        operation: The operation.
        context: Inputs of the rules, including the author.
        reviewed: The review of the author's rights.
    """
    kind = _kind_of(document, context)
    if kind is None:
        judgement = judge(operation, document, old, context)
        return RehearsalVerdict(document, judgement.errors, *_refusal(judgement), judgement.warnings)
    pruned = prune(kind, document)
    document = _unmarked(strip_nulls(kind, pruned.document), old)
    warnings = [f'unknown field "{field}"' for field in pruned.dropped]
    demanded = list(_demands(kind, document, old))
    if has_rules(document):
        old = None if old is None else _spelled_out(kind, strip_nulls(kind, prune(kind, old).document), context)
        defaulted = default(_spelled_out(kind, document, context), old, operation)
        warnings += defaulted.warnings
        document = _spelled_out(kind, defaulted.document, context)
    judgement = authorized(
        judge(operation, document, old, context), reviewed, context.user, context.settings.placement_authorization
    )
    fields = {str(error.field) for error in judgement.errors}
    errors = [*judgement.errors, *(error for error in demanded if str(error.field) not in fields)]
    warnings += judgement.warnings
    sorted_errors = tuple(sorted(dict.fromkeys(errors), key=path_order))
    return RehearsalVerdict(document, sorted_errors, *_refusal(judgement), tuple(dict.fromkeys(warnings)))


def default(document: JsonObject, old: JsonObject | None, operation: WriteOperation) -> MutationResult:
    """Return the result of the mutating hook for *document*, which depends only on the arguments."""
    kind = dict(zip(("group", "version"), split_api_version(str(document.get("apiVersion", ""))), strict=True))
    kind["kind"] = str(document.get("kind", ""))
    judgement = decide(AdmissionRequest("mutate", operation, kind, {}, document, old, "", Context()))
    return MutationResult(apply_patch(document, judgement.patch), judgement.patch, judgement.warnings)


def _kind_of(document: JsonObject, context: Context) -> Kind | None:
    group, _ = split_api_version(str(document.get("apiVersion", "")))
    return context.kinds.find(group, str(document.get("kind", "")))


def _spelled_out(kind: Kind, document: JsonObject, context: Context) -> JsonObject:
    """Return *document* with the defaults of the schema, which an API server sets on every read."""
    return apply_schema_defaults(
        kind, document, staged_run_default_state=context.settings.staged_run_default_state.value
    )


def _unmarked(document: JsonObject, old: JsonObject | None) -> JsonObject:
    """Return *document* without a deletionTimestamp set by its author, which would bypass all rules."""
    if "deletionTimestamp" not in metadata_of(document) or is_deleting(old or {}):
        return document
    metadata = {name: value for name, value in document["metadata"].items() if name != "deletionTimestamp"}
    return {**document, "metadata": metadata}


def _demands(kind: Kind, document: JsonObject, old: JsonObject | None) -> Iterator[FieldError]:
    """Yield the errors of an API server about ``metadata``. The namespace may come from the URL of the write."""
    metadata: dict[str, Any] = {name: value for name, value in metadata_of(document).items() if value is not None}
    stored = dict(metadata_of(old)) if old is not None else {}
    if kind.namespaced:
        metadata.setdefault("namespace", _ANY_NAMESPACE)
    yield from validate_place(kind, metadata)
    yield from validate_members(metadata, stored)
    if old is not None:
        yield from validate_update(metadata, stored)


def _refusal(judgement: Judgement) -> tuple[str, str]:
    """Return message and reason of a refusal that no field causes."""
    if judgement.allowed or judgement.code == _INVALID:
        return "", ""
    return judgement.message, judgement.reason
