"""Verdicts of admission on objects in files: the steps of a write to the hub, without the hub.

Source: docs/specifications/placement-api.md 2.8.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from scorer.api.kinds import CUSTOM_RESOURCE_DEFINITION, group_kind
from scorer.api.unstructured.documents import metadata_of
from scorer.api.unstructured.json_object import JsonObject
from webhook.access.user import UserInfo
from webhook.admission.admitted import Operation
from webhook.admission.failures import log_failure
from webhook.admission.judge import as_warnings, judge
from webhook.admission.registry import REGISTRY, has_rules
from webhook.admission.rehearsal import WriteOperation, rehearse
from webhook.cli.files.documents import Loaded
from webhook.cli.options.field_validation import UNKNOWN, FieldCheck
from webhook.settings.admission import AdmissionSettings
from webhook.validation.framework.context import Context, HubKinds
from webhook.validation.framework.field import FieldError, FieldWarning, path_order
from webhook.validation.framework.rule import rules_of
from webhook.validation.guard_rails.writes import ReviewedWrite
from webhook.validation.live.check import run_checks

_REMEDY: Final = ": include its CustomResourceDefinition with -f"
ANY_NAME: Final = "A-01"
"""The rule for names of all kinds."""


@dataclass(frozen=True, slots=True)
class OfflineVerdict:
    """Verdict of admission on one object.

    Args:
        loaded: The object as read. For a deletion, as stored.
        document: The object as it would be stored.
        errors: Field errors, by path. Empty: no field is invalid.
        refusal: Reason for a refusal that is not about a field. Empty: not refused.
        warnings: Warnings for the user.
        has_rules: Whether the kind has rules.
        operation: The operation.
        old: The stored object, on an update.
    """

    loaded: Loaded
    document: JsonObject
    errors: tuple[FieldError, ...] = ()
    refusal: str = ""
    warnings: tuple[str, ...] = ()
    has_rules: bool = True
    operation: Operation = "CREATE"
    old: JsonObject | None = None

    @property
    def allowed(self) -> bool:
        """Whether the write is allowed."""
        return not self.errors and not self.refusal

    def lines(self) -> list[str]:
        """Return one line per error, with file, document, field and value."""
        mistakes = [str(error) for error in self.errors] or ([self.refusal] if self.refusal else [])
        return [f"{self.loaded.source}: {mistake}" for mistake in mistakes]


def offline_context(
    objects: Iterable[Loaded], now: datetime, *, user: UserInfo | None = None, settings: AdmissionSettings | None = None
) -> Context:
    """Return the context of a hub that holds all of *objects*.

    Files rarely hold every CustomResourceDefinition of their hub. The kinds are complete only in a dump, where the
    definitions have the ``uid`` that an API server gives them.
    """
    documents = [item.document for item in objects]
    definitions = [document for document in documents if group_kind(document) == CUSTOM_RESOURCE_DEFINITION.group_kind]
    is_dump = any(metadata_of(definition).get("uid") for definition in definitions)
    kinds = HubKinds.of_definitions(definitions, complete=is_dump, remedy=_REMEDY)
    return Context.of_objects(documents, user=user, settings=settings, now=now, on_failure=log_failure, kinds=kinds)


def admit(
    item: Loaded, context: Context, old: JsonObject | None = None, fields: FieldCheck | None = None
) -> OfflineVerdict:
    """Run admission for an object that is created, or that replaces *old*.

    Args:
        item: The object.
        context: Objects and settings that rules may read.
        old: The stored object, on an update.
        fields: The check for unknown fields. None means that unknown fields of kinds with rules are warnings.
    """
    operation: WriteOperation = "CREATE" if old is None else "UPDATE"
    verdict = rehearse(item.document, old, operation, context)
    any_rules = has_rules(item.document)
    warnings = verdict.warnings if any_rules else ()
    errors = _said_once(verdict.errors)
    if fields is not None:
        errors = tuple(sorted((*errors, *fields.errors(item)), key=path_order))
        warnings = (*fields.warnings(item), *(text for text in warnings if not UNKNOWN.fullmatch(text)))
    return OfflineVerdict(item, verdict.document, errors, verdict.refusal, warnings, any_rules, operation, old)


def admit_deletion(live: Loaded, context: Context) -> OfflineVerdict:
    """Run admission for an object that is deleted."""
    any_rules = has_rules(live.document)
    judgement = judge("DELETE", None, live.document, context)
    refusal = "" if judgement.allowed or judgement.errors else judgement.message
    warnings = judgement.warnings if any_rules else ()
    return OfflineVerdict(live, live.document, judgement.errors, refusal, warnings, any_rules, "DELETE")


def field_warnings(verdict: OfflineVerdict, context: Context) -> list[FieldWarning]:
    """Return the warnings of a kind's rules as objects. The verdict only has the first few, as text."""
    entry = REGISTRY.get(verdict.loaded.kind.group_kind) if verdict.has_rules else None
    if entry is None:
        return []
    warnings: list[FieldWarning] = []
    if verdict.operation == "DELETE":
        if entry.warn_about_deletion is not None:
            warnings += entry.warn_about_deletion(verdict.document)
        if verdict.allowed and context.settings.live_warnings:
            warnings += run_checks(entry.live_on_deletion, None, verdict.document, context)
        return [warning for warning in dict.fromkeys(warnings) if as_warnings([warning])[0] in verdict.warnings]
    if entry.default is not None:  # the object as submitted may yield warnings that the defaulted object does not
        default_warnings = entry.default(verdict.loaded.document, verdict.old).warnings
        warnings += (warning for warning in default_warnings if as_warnings([warning])[0] in verdict.warnings)
    if entry.validate is not None:
        findings = entry.validate(verdict.document, verdict.old, context)
        warnings += (finding for finding in findings if isinstance(finding, FieldWarning))
    if verdict.allowed and context.settings.live_warnings:
        warnings += run_checks(entry.live, verdict.document, verdict.old, context)
    return list(dict.fromkeys(warnings))


def refusing_rules(verdict: OfflineVerdict, context: Context) -> tuple[str, ...]:
    """Return the IDs of the rules behind a refusal that is not about a field: guard rails, or rules for deletions."""
    entry = REGISTRY.get(verdict.loaded.kind.group_kind)
    if entry is None or not verdict.refusal:
        return ()
    is_deletion = verdict.operation == "DELETE"
    document, old = (None, verdict.document) if is_deletion else (verdict.document, verdict.old)
    write = ReviewedWrite(verdict.operation, document, old, "")
    functions: list[object] = (
        [rail for rail in entry.guards if any(rail(write, context))] if not context.is_ours else []
    )
    if not functions and is_deletion:
        functions = [entry.refuse_deletion]
    return tuple(
        rule.id
        for function in functions
        for rule in rules_of(function)
        if (not rule.operations or verdict.operation in rule.operations) and (not rule.only or entry.kind in rule.only)
    )


def _said_once(errors: tuple[FieldError, ...]) -> tuple[FieldError, ...]:
    """Return *errors* without those of the rule for all names on fields that a rule of the kind has also refused."""
    own = {error.field for error in errors if error.rule != ANY_NAME}
    return tuple(error for error in errors if error.rule != ANY_NAME or error.field not in own)
