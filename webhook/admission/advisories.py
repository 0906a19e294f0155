"""Warnings that apply to a stored object, by the rules of admission.

Admission would give the same warnings if the object were created now. Warnings about the write itself are excluded:
objects that an update removes or that a creation takes over. The loop keeps the warnings in the status
(`scorer.rollout.status.advisories`).

Source: docs/specifications/placement-api.md 11.1.
"""

from itertools import islice

from scorer.api.kinds import group_kind
from scorer.api.meta import JsonObject
from scorer.rollout.status.advisories import acknowledged
from webhook.admission.admitted import MOST_COLLECTED
from webhook.admission.registry import REGISTRY
from webhook.validation.framework.context import Context
from webhook.validation.framework.field import FieldWarning, path_order
from webhook.validation.live.check import run_checks


def stored_warnings(document: JsonObject, context: Context) -> list[FieldWarning]:
    """Return the warnings about a stored object, sorted by rule and path, except those that users have acknowledged.

    Args:
        document: The stored object.
        context: The present hub.
    """
    entry = REGISTRY.get(group_kind(document))
    if entry is None or not entry.lasting:
        return []
    findings = () if entry.validate is None else islice(entry.validate(document, document, context), MOST_COLLECTED)
    warnings = [finding for finding in findings if isinstance(finding, FieldWarning)]
    warnings += run_checks(entry.lasting, document, None, context)
    omitted = acknowledged(document)
    remaining = (warning for warning in dict.fromkeys(warnings) if warning.rule not in omitted)
    return sorted(remaining, key=lambda warning: (warning.rule, path_order(warning)))


def advisory_text(warning: FieldWarning, subject: str = "") -> str:
    """Return a warning as a line of the condition Advisories.

    Args:
        warning: The warning.
        subject: The object that it is about, if that is not the one with the condition.
    """
    return f"{warning.rule} {f'{subject}: ' if subject else ''}{warning}"
