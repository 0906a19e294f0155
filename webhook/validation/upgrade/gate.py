"""Rules on ClusterUpgradeGate: runs create and delete gates, users approve them.

Approval requires the right to update ``clusterupgradegates/status``, which the API server checks itself.

Source: docs/specifications/upgrade-runs.md 3.5 and 4.4.
"""

from collections.abc import Iterator
from typing import Final

from scorer.api.meta import JsonObject
from scorer.api.unstructured.documents import dicts_at, is_deleting, name_of, text_at
from scorer.api.upgrade.gate import ClusterUpgradeGate, GateState
from scorer.api.upgrade.strategy import GateConfiguration
from scorer.api.values.field_path import FieldPath
from scorer.api.values.quoting import quote
from webhook.validation.framework.context import Context
from webhook.validation.framework.field import SPEC, Cause, FieldError, invalid
from webhook.validation.framework.reading import Finding, read_object
from webhook.validation.framework.rule import CREATE, DELETE, OURS, UPDATE, deny, enforces, shape_rules
from webhook.validation.guard_rails.writes import ReviewedWrite
from webhook.validation.upgrade.shape import GENERATED, TIMES, WRITTEN_BY_RUNS, validate_about
from webhook.validation.upgrade.strategy import SCHEDULED, validate_gate

RULES: Final = (
    *WRITTEN_BY_RUNS,
    SCHEDULED,
    TIMES,
    deny("C-26", "The spec of a gate is immutable.", OURS, on=UPDATE),
)
SHAPE_RULES: Final = shape_rules(RULES)
STATUS_RULES: Final = (deny("C-51", "Only a gate that is Pending may be approved or rejected.", OURS, on=UPDATE),)
GUARDS: Final = (deny("C-52", "Only harbormaster may create and delete gates.", OURS, on=CREATE | DELETE),)

CLEANERS: Final = frozenset(
    {
        "system:serviceaccount:kube-system:generic-garbage-collector",
        "system:kube-controller-manager",
        "system:apiserver",
    }
)
"""Users that may delete a gate, as Kubernetes does after the deletion of its run or of its definition.

The garbage collector, under each of its names, and the API server.
"""


@enforces(*RULES)
def validate(document: JsonObject, old: JsonObject | None, context: Context) -> Iterator[Finding]:
    """Yield the errors of a gate."""
    reading = read_object(ClusterUpgradeGate, document, SHAPE_RULES)
    yield from reading.errors
    if reading.view is not None:
        before = read_object(ClusterUpgradeGate, old).view if old is not None else None
        yield from reading.trusted(_judge(reading.view, before, context))


def _judge(new: ClusterUpgradeGate, old: ClusterUpgradeGate | None, context: Context) -> Iterator[Finding]:
    yield from validate_about(new.metadata, old.metadata if old else None, context, name=GENERATED)
    if old is not None and new.spec != old.spec:
        yield FieldError(SPEC, Cause.FORBIDDEN, "cannot be changed. To use other gates, create another run", "C-26")
    else:
        yield from validate_gate(GateConfiguration(type=new.spec.type, scheduled_start=new.spec.scheduled_start), SPEC)


@enforces(*STATUS_RULES)
def validate_status(document: JsonObject, old: JsonObject | None, context: Context) -> Iterator[Finding]:
    """A gate is approved or rejected only while it is Pending. Later, the answer has no effect (C-51)."""
    if context.is_ours or old is None:
        return
    state = text_at(old, "status", "state") or GateState.PENDING.value
    answer, before = _answer(document), _answer(old)
    if state != GateState.PENDING and answer and answer != before:
        at = FieldPath.of("status", "state")
        yield invalid(at, state, f"the gate is no longer Pending, so Approved={answer} has no effect", "C-51")


def _answer(document: JsonObject) -> str:
    """Return the status of the condition Approved, the user's answer. Empty: unset."""
    conditions = dicts_at(document, "status", "conditions")
    return next((text_at(condition, "status") for condition in conditions if condition.get("type") == "Approved"), "")


@enforces(*GUARDS)
def guard(write: ReviewedWrite, context: Context) -> Iterator[str]:
    """Users must not create gates, which could already be approved, or delete gates, which block a run (C-52)."""
    if write.subresource:
        return
    if write.operation == "CREATE":
        yield "only harbormaster may create gates, when a run reaches them. Approve the one that it creates"
    elif write.operation == "DELETE" and context.user.username not in CLEANERS and not is_deleting(write.old or {}):
        run = text_at(write.old, "spec", "runName")
        subject = f"run {quote(run)}" if run else "its run"
        yield f"gate {quote(name_of(write.subject))} belongs to {subject}: approve the gate, or delete the run instead"
