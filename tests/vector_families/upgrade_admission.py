"""Upgrade kinds at admission: the object is defaulted, then judged as a write of an ordinary user."""

from datetime import UTC, datetime
from typing import Any

from scorer.api.crd.pruning import apply_schema_defaults
from scorer.api.kinds import KINDS, group_kind
from scorer.api.meta import JsonObject
from tests.vector_families.line import Line
from webhook.access.user import UserInfo
from webhook.admission.judge import judge, mutate
from webhook.defaulting.defaulted import DefaultingContext
from webhook.validation.framework.context import Context

NOW = datetime(2025, 1, 6, tzinfo=UTC)
_UID = "5f0f1f6a-6f5e-4d8e-9a58-1c1f6a0b7d11"


def evaluate_admission(given: Line) -> Line:
    """Return what admission makes of a write: whether it is allowed, the first refused field, defaults and warnings."""
    operation, old, document = given["operation"], given.get("oldObject"), given.get("object")
    subresource = _subresource(document, old)
    if document is not None and not subresource:
        document = apply_schema_defaults(KINDS[group_kind(document)], document)
        document = mutate(document, old, operation, DefaultingContext(NOW, _UID)).document
    context = Context(now=NOW).with_user(UserInfo("alice"))
    verdict = judge(operation, document, old, context, subresource=subresource)
    return {
        "allowed": verdict.allowed,
        "field": str(verdict.errors[0].field) if verdict.errors else None,
        "defaulted": document,
        "warnings": list(verdict.warnings),
    }


def check_upgrade_admission(line: Line) -> None:
    """Only what the line wants counts; of the defaulted object, only what it shows."""
    seen, want = evaluate_admission(line["given"]), line["want"]
    for key, value in want.items():
        found = _part(seen[key], value) if key == "defaulted" else seen[key]
        assert found == value, (key, seen)


def _subresource(document: JsonObject | None, old: JsonObject | None) -> str:
    """Return ``status`` for an update that changes nothing else: a line does not say where it is written."""
    if document is None or old is None or document.get("status") == old.get("status"):
        return ""
    return "status" if document.get("spec") == old.get("spec") else ""


def _part(seen: Any, want: Any) -> Any:
    """Return what *seen* has of *want*; None where it has nothing."""
    if isinstance(seen, dict) and isinstance(want, dict):
        return {key: _part(seen.get(key), value) for key, value in want.items()}
    if isinstance(seen, list) and isinstance(want, list) and len(seen) == len(want):
        return [_part(one, other) for one, other in zip(seen, want, strict=True)]
    return seen
