"""Rules on ClusterApprovalRequest and ApprovalRequest.

Source: docs/specifications/placement-api.md 7.6 and 10.2; docs/specifications/staged-updates.md 6.2.
"""

from collections.abc import Iterator
from typing import Final

from scorer.api.conditions import find_condition
from scorer.api.meta import JsonObject
from scorer.api.placement.staged_update import ClusterApprovalRequest
from scorer.api.values.field_path import FieldPath
from webhook.validation.framework.context import Context
from webhook.validation.framework.field import Cause, FieldError, FieldWarning
from webhook.validation.framework.metadata import METADATA_RULES, validate_metadata
from webhook.validation.framework.reading import Finding, read_object
from webhook.validation.framework.rule import CEL, CRD, UPDATE, deny, enforces, schema, shape_rules, warn

RULES: Final = (
    *METADATA_RULES,
    schema("Q-01", "parentStageRollout and targetStage must be set.", CRD, "spec"),
    deny("Q-02", "The spec is immutable.", CEL, on=UPDATE),
)
STATUS_RULES: Final = (
    warn("X-51", "An approval should have the current generation of the request. Otherwise it is ignored.", on=UPDATE),
)
SHAPE_RULES: Final = shape_rules(RULES)


@enforces(*RULES)
def validate(document: JsonObject, old: JsonObject | None, context: Context) -> Iterator[Finding]:
    """Yield the errors of an approval request. A guard rail refuses its creation by users (X-50)."""
    del context
    reading = read_object(ClusterApprovalRequest, document, SHAPE_RULES)
    yield from reading.errors
    if reading.view is not None:
        before = read_object(ClusterApprovalRequest, old).view if old is not None else None
        yield from reading.trusted(_judge(reading.view, before))


def _judge(new: ClusterApprovalRequest, old: ClusterApprovalRequest | None) -> Iterator[Finding]:
    yield from validate_metadata(new.metadata, old.metadata if old else None)
    if old is not None and new.spec != old.spec:
        yield FieldError(FieldPath.of("spec"), Cause.FORBIDDEN, "cannot be changed", "Q-02")


@enforces(*STATUS_RULES)
def warn_about_status(document: JsonObject) -> Iterator[FieldWarning]:
    """An approval is for the generation of the request (X-51). The run silently ignores any other approval."""
    try:
        request = ClusterApprovalRequest.read(document)
    except ValueError:
        return
    approved = find_condition(request.status.conditions, "Approved")
    generation = request.metadata.generation
    if approved is not None and approved.status == "True" and approved.observed_generation != generation:
        message = f"Approved is ignored: its observedGeneration must be {generation}"
        yield FieldWarning(FieldPath.of("status", "conditions"), message, "X-51")
