"""Approvals of stages whose reason is a phrase instead of one word.

A condition's reason is one word in CamelCase, and an API server refuses any other. Seed 004 approves with the reason
``tested as OK``. The hook moves such words to the message, and changes nothing else in the status.

Source: docs/specifications/placement-api.md 6 (F-18); seed 004.
"""

from typing import Final

from scorer.api.conditions import MOST_MESSAGE_CHARACTERS, is_reason
from scorer.api.meta import JsonObject
from scorer.api.placement.staged_update import APPROVED_BY_USER
from scorer.api.values.field_path import FieldPath
from scorer.api.values.quoting import quote
from webhook.defaulting.defaulted import DefaultedObject
from webhook.validation.framework.field import FieldWarning
from webhook.validation.framework.rule import OURS, UPDATE, Rule, Severity, enforces

STATUS_RULES: Final = (
    Rule(
        "F-18",
        (Severity.WARN, Severity.MUTATE),
        f"A free-text reason of an approval is moved to its message. The reason is then {APPROVED_BY_USER}.",
        OURS,
        operations=UPDATE,
    ),
)


@enforces(*STATUS_RULES)
def default_status(document: JsonObject, old: JsonObject | None = None) -> DefaultedObject:
    """Replace a multi-word reason of a True ``Approved`` condition by one word, and move it to the message (F-18).

    An absent or empty reason and values of a wrong type are left to the schema. So is a text that does not fit into the
    message.
    """
    del old
    status = document.get("status")
    conditions = status.get("conditions") if isinstance(status, dict) else None
    if not isinstance(status, dict) or not isinstance(conditions, list):
        return DefaultedObject(document)
    for index, condition in enumerate(conditions):
        if isinstance(condition, dict) and (condition.get("type"), condition.get("status")) == ("Approved", "True"):
            worded = _worded(condition)
            if worded is condition:
                return DefaultedObject(document)
            changed = [*conditions[:index], worded, *conditions[index + 1 :]]
            at = FieldPath.of("status", "conditions") / index / "reason"
            text = f"{quote(condition['reason'])} is not one word: moved to the message, and the reason is now"
            warning = FieldWarning(at, f"{text} {APPROVED_BY_USER}", "F-18")
            return DefaultedObject({**document, "status": {**status, "conditions": changed}}, (warning,))
    return DefaultedObject(document)


def _worded(condition: JsonObject) -> JsonObject:
    reason, message = condition.get("reason"), condition.get("message")
    if not isinstance(reason, str) or not reason or is_reason(reason) or not isinstance(message or "", str):
        return condition
    text = f"{reason}: {message}" if message else reason
    return (
        condition if len(text) > MOST_MESSAGE_CHARACTERS else {**condition, "reason": APPROVED_BY_USER, "message": text}
    )
