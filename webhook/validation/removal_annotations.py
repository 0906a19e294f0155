"""Rules on the annotations that confirm removals of content from members, or switch confirmation off.

An unreadable or expired confirmation has no effect, and its author would not notice. Only a value that the write
changes is checked, so an expired one does not block other changes. On creation, only the syntax is checked: a fleet
that is recreated from Git must not fail on a confirmation that has expired there. The rules also apply to a placement
that is being deleted, because its deletion may wait for the confirmation.

Source: docs/specifications/removal.md 5 and 10.
"""

from collections.abc import Iterator, Mapping
from typing import Any, Final

from scorer.api.meta import JsonObject
from scorer.api.names import CONFIRM_REMOVAL, REMOVAL_CONFIRMATION
from scorer.api.unstructured.documents import dict_at
from scorer.rollout.confirmation.digests import Confirmation, validity_error
from scorer.rollout.confirmation.policy import ConfirmationMode
from webhook.validation.framework.context import UNKNOWN_TIME, Context
from webhook.validation.framework.field import FieldError, invalid, not_supported
from webhook.validation.framework.metadata import METADATA
from webhook.validation.framework.rule import OURS, deny, enforces

CONFIRMATION_RULE: Final = deny(
    "X-84", f"The annotation {CONFIRM_REMOVAL} must be DIGEST[,DIGEST…]@EXPIRY, at most 72 h ahead.", OURS
)
MODE_RULE: Final = deny("X-85", f"The annotation {REMOVAL_CONFIRMATION} must be Off, Warn or Confirm.", OURS)
RULES: Final = (CONFIRMATION_RULE, MODE_RULE)
ANNOTATIONS: Final = frozenset({CONFIRM_REMOVAL, REMOVAL_CONFIRMATION})
_FORM: Final = "must be DIGEST[,DIGEST…]@EXPIRY, as `harbormaster confirm` writes it"


@enforces(*RULES)
def validate_removal_annotations(
    document: Mapping[str, Any], old: Mapping[str, Any] | None, context: Context
) -> Iterator[FieldError]:
    """Yield the errors in the annotations that a write changes (X-84, X-85)."""
    new, before = _annotations(document), _annotations(old or {})
    text = new.get(CONFIRM_REMOVAL)
    if isinstance(text, str) and text and text != before.get(CONFIRM_REMOVAL):
        at = METADATA / "annotations" / CONFIRM_REMOVAL
        try:
            confirmation = Confirmation.parse(text)
            is_timed = old is not None and context.now != UNKNOWN_TIME
            reason = validity_error(confirmation, context.now) if is_timed else ""
        except ValueError as error:
            reason = str(error)
        if reason:
            yield invalid(at, text, f"{reason}; {_FORM}", "X-84")
    mode = new.get(REMOVAL_CONFIRMATION)
    if isinstance(mode, str) and mode != before.get(REMOVAL_CONFIRMATION) and mode not in set(ConfirmationMode):
        yield not_supported(METADATA / "annotations" / REMOVAL_CONFIRMATION, mode, ConfirmationMode, "X-85")


def _annotations(document: Mapping[str, Any]) -> JsonObject:
    return dict_at(document, "metadata", "annotations")
