"""Rules on ClusterUpgradeRequest: runs create requests, an external upgrader reports in their status.

Source: docs/specifications/upgrade-runs.md 4.4 and 13.4.
"""

from collections.abc import Iterator, Mapping
from typing import Final

from scorer.api.meta import JsonObject
from scorer.api.unstructured.documents import text_at
from scorer.api.upgrade.request import ClusterUpgradeRequest, RequestPhase, UpgradeRequestSpec
from scorer.api.values.field_path import FieldPath
from scorer.api.values.quoting import quote
from webhook.validation.framework.context import Context
from webhook.validation.framework.field import SPEC, Cause, FieldError, duplicate, invalid, not_supported
from webhook.validation.framework.reading import Finding, read_object
from webhook.validation.framework.rule import OURS, UPDATE, deny, enforces, shape_rules
from webhook.validation.upgrade.shape import GENERATED, VERSIONS, WRITTEN_BY_RUNS, validate_about, validate_version

RULES: Final = (
    *WRITTEN_BY_RUNS,
    VERSIONS,
    deny("C-24", "Only cancelRequested may change in the spec of a request.", OURS, on=UPDATE),
    deny("C-55", "nodeImages must have one entry for each family.", OURS),
)
SHAPE_RULES: Final = shape_rules(RULES)
STATUS_RULES: Final = (
    deny(
        "C-25",
        "The phase of a request may only advance: Accepted, InProgress, then Succeeded, Failed or Cancelled.",
        OURS,
        on=UPDATE,
    ),
)
PHASE: Final = FieldPath.of("status", "phase")
_NEXT: Final[Mapping[str, frozenset[str]]] = {
    "": frozenset(RequestPhase),
    RequestPhase.ACCEPTED: frozenset(RequestPhase),
    RequestPhase.IN_PROGRESS: frozenset(RequestPhase) - {RequestPhase.ACCEPTED},
    **{end: frozenset({end}) for end in (RequestPhase.SUCCEEDED, RequestPhase.FAILED, RequestPhase.CANCELLED)},
}
"""Allowed next phases by phase. An unchanged phase is always allowed."""


@enforces(*RULES)
def validate(document: JsonObject, old: JsonObject | None, context: Context) -> Iterator[Finding]:
    """Yield the errors of a request."""
    reading = read_object(ClusterUpgradeRequest, document, SHAPE_RULES)
    yield from reading.errors
    if reading.view is not None:
        before = read_object(ClusterUpgradeRequest, old).view if old is not None else None
        yield from reading.trusted(_judge(reading.view, before, context))


def _judge(new: ClusterUpgradeRequest, old: ClusterUpgradeRequest | None, context: Context) -> Iterator[Finding]:
    yield from validate_about(new.metadata, old.metadata if old else None, context, name=GENERATED)
    yield from validate_version(new.spec.kubernetes_version, SPEC / "kubernetesVersion")
    visited: set[str] = set()
    for i, image in enumerate(new.spec.node_images):
        if image.family in visited:
            yield duplicate(SPEC / "nodeImages" / i / "family", image.family, rule="C-55")
        visited.add(image.family)
    if old is not None:
        yield from _validate_changes(new.spec, old.spec)


def _validate_changes(new: UpgradeRequestSpec, old: UpgradeRequestSpec) -> Iterator[FieldError]:
    """Only ``cancelRequested`` of an existing request may change (C-24)."""
    now, then = (spec.model_dump(mode="json", by_alias=True) for spec in (new, old))
    changed = [name for name in now if name != "cancelRequested" and now[name] != then[name]]
    if changed:
        first = changed[0]
        reason = (
            f"{first} cannot be changed from {quote(then[first])} to {quote(now[first])}: only "
            "cancelRequested can be changed"
        )
        yield FieldError(SPEC, Cause.FORBIDDEN, reason, "C-24")


@enforces(*STATUS_RULES)
def validate_status(document: JsonObject, old: JsonObject | None, context: Context) -> Iterator[Finding]:
    """The phase never returns to an earlier one, and never leaves a final one (C-25)."""
    del context
    phase, before = (text_at(each, "status", "phase") for each in (document, old))
    if phase == before or before not in _NEXT:
        return
    if phase and phase not in tuple(RequestPhase):
        yield not_supported(PHASE, phase, tuple(RequestPhase), "C-25")
    elif phase not in _NEXT[before]:
        yield invalid(PHASE, phase, f"cannot follow {before}", "C-25")
