"""What admission refused or warned about lately: who asked for what, by which rule.

Kept in memory, by number: a replica knows what it answered itself since it was started. Whoever reads it knows only
`AdmissionLog`, so that a history which outlives the process can take its place.
"""

from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from itertools import count
from typing import Any, Final, Protocol

from scorer.api.documents import name_of, text_at
from scorer.api.meta import JsonObject, format_time
from scorer.api.quoting import printable
from webhook.admission.judge import Judgement

MOST_ENTRIES: Final = 1000
MOST_MESSAGES: Final = 10
LONGEST_MESSAGE: Final = 1000
LONGEST_NAME: Final = 253


@dataclass(frozen=True, slots=True)
class Entry:
    """One answer that was no plain yes.

    Args:
        number: Counts the entries since the process was started.
        at: When it was given.
        user: Who asked.
        operation: ``CREATE``, ``UPDATE`` or ``DELETE``.
        group: Of the object.
        kind: Likewise.
        namespace: Empty for an object without one.
        name: Empty where the API server was to make one.
        subresource: Empty for the object itself.
        allowed: False: refused. True: there were warnings.
        code: Of the refusal; 200 for warnings.
        messages: Why, or what was warned about.
        rules: Ids of the rules that say so, as far as they have one.
        dry_run: The write was only tried.
    """

    number: int
    at: datetime
    user: str
    operation: str
    group: str
    kind: str
    namespace: str
    name: str
    subresource: str
    allowed: bool
    code: int
    messages: tuple[str, ...]
    rules: tuple[str, ...]
    dry_run: bool

    def document(self) -> JsonObject:
        """Return it as JSON."""
        return {
            "number": self.number,
            "at": format_time(self.at),
            "user": self.user,
            "operation": self.operation,
            "group": self.group,
            "kind": self.kind,
            "namespace": self.namespace,
            "name": self.name,
            "subresource": self.subresource,
            "verdict": "warned" if self.allowed else "refused",
            "code": self.code,
            "messages": list(self.messages),
            "rules": list(self.rules),
            "dryRun": self.dry_run,
        }


class AdmissionLog(Protocol):
    """Remembers answers of admission."""

    def note(self, judgement: Judgement, request: Mapping[str, Any], at: datetime) -> None:
        """Remember a verdict on ``request`` of a review, unless it is a plain yes."""
        ...

    def entries(self) -> Iterable[Entry]:
        """Return what is remembered, the latest first."""
        ...


class RecentAdmissions:
    """The last answers of this process.

    Args:
        most: How many are kept.
    """

    def __init__(self, most: int = MOST_ENTRIES) -> None:
        self._entries: deque[Entry] = deque(maxlen=most)
        self._numbers = count(1)

    def note(self, judgement: Judgement, request: Mapping[str, Any], at: datetime) -> None:
        """See `AdmissionLog.note`."""
        if judgement.allowed and not judgement.warnings:
            return
        document = request.get("object") or request.get("oldObject")
        self._entries.append(
            Entry(
                number=next(self._numbers),
                at=at,
                user=_short(text_at(request, "userInfo", "username")),
                operation=_short(text_at(request, "operation")),
                group=_short(text_at(request, "kind", "group")),
                kind=_short(text_at(request, "kind", "kind")),
                namespace=_short(text_at(request, "namespace")),
                name=_short(text_at(request, "name") or (name_of(document) if isinstance(document, dict) else "")),
                subresource=_short(text_at(request, "subResource")),
                allowed=judgement.allowed,
                code=judgement.code,
                messages=_messages(judgement),
                rules=tuple(sorted(_rules(judgement))),
                dry_run=request.get("dryRun") is True,
            )
        )

    def entries(self) -> Iterable[Entry]:
        """See `AdmissionLog.entries`."""
        return reversed(tuple(self._entries))


def _rules(judgement: Judgement) -> set[str]:
    if judgement.allowed:
        return set(judgement.warned_by)
    return {error.rule for error in judgement.errors if error.rule} or {judgement.rule} - {""}


def _messages(judgement: Judgement) -> tuple[str, ...]:
    if judgement.allowed:
        found = list(judgement.warnings)
    else:
        found = [f"{error.field}: {error.text()}" for error in judgement.errors] or [judgement.message]
    if len(found) > MOST_MESSAGES:
        found = [*found[: MOST_MESSAGES - 1], f"and {len(found) - MOST_MESSAGES + 1} more"]
    return tuple(printable(text)[:LONGEST_MESSAGE] for text in found)


def _short(text: str) -> str:
    return printable(text)[:LONGEST_NAME]
