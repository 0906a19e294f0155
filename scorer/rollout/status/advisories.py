"""Advisories: warnings of admission that still hold for a stored placement, kept in its condition ``Advisories``.

GitOps tools drop the warnings of responses. The condition exists only while there are advisories. Its message has one
line for each: the id of the rule, the field and the text. Users remove advisories with the annotation
``harbormaster.dev/acknowledge``.

Source: docs/specifications/placement-api.md 11.1.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from scorer.api.conditions import LONGEST_MESSAGE, TRUE, make_condition, merge_conditions
from scorer.api.event import Event
from scorer.api.meta import JsonObject
from scorer.api.names import ACKNOWLEDGE, ADVISORIES
from scorer.api.unstructured.documents import annotation, conditions_of
from scorer.api.values.quoting import shortened

MOST_ADVISORIES: Final = 10
LONGEST_ADVISORY: Final = 512
"""Maximum number of characters of one advisory."""
REASON: Final = "WarningsFound"
CHANGED: Final = "AdvisoriesChanged"
"""Reason of the Event about new advisories."""
CLEARED: Final = "AdvisoriesCleared"


@dataclass(frozen=True, slots=True)
class Advisories:
    """The advisories about one generation of a placement.

    Args:
        generation: The evaluated generation.
        lines: One text for each advisory, in the order of the condition.
    """

    generation: int
    lines: tuple[str, ...] = ()

    @classmethod
    def of(cls, generation: int, lines: Iterable[str]) -> "Advisories":
        """Return the advisories of some texts, in their order: without duplicates, and at most `MOST_ADVISORIES`."""
        texts = list(dict.fromkeys(shortened(line.replace("\n", " "), LONGEST_ADVISORY) for line in lines))
        if len(texts) > MOST_ADVISORIES:
            rest = len(texts) - MOST_ADVISORIES + 1
            texts = [*texts[: MOST_ADVISORIES - 1], f"and {rest} more"]
        return cls(generation, tuple(texts))

    def is_stored(self, placement: JsonObject) -> bool:
        """Return whether the status of a placement holds these advisories, about this generation."""
        stored = _stored(conditions_of(placement))
        if stored is None or not self.lines:
            return stored is None and not self.lines
        return advisory_lines(placement) == self.lines and stored.get("observedGeneration") == self.generation


def acknowledged(document: JsonObject) -> frozenset[str]:
    """Return the ids of the rules whose advisories a user has acknowledged on an object."""
    return frozenset(part.strip() for part in annotation(document, ACKNOWLEDGE).split(",")) - {""}


def advisory_lines(placement: JsonObject) -> tuple[str, ...]:
    """Return the advisories that the status of a placement holds."""
    message = (_stored(conditions_of(placement)) or {}).get("message")
    return tuple(message.split("\n")) if isinstance(message, str) and message else ()


def with_advisories(
    placement: JsonObject, status: JsonObject, advisories: Advisories | None, now: datetime
) -> JsonObject:
    """Return *status* with the condition Advisories, last, if there are any.

    Args:
        placement: With its stored status.
        status: The status to store.
        advisories: Those of the placement. None: unknown, the stored condition is kept.
        now: Transition time of conditions that change.
    """
    others = [condition for condition in status.get("conditions") or () if condition.get("type") != ADVISORIES]
    stored = _stored(conditions_of(placement))
    if advisories is None:
        advisory = [dict(stored)] if stored else []
    elif advisories.lines:
        message, generation = "\n".join(advisories.lines), advisories.generation
        advisory = [make_condition(ADVISORIES, TRUE, REASON, message, generation=generation, now=now)]
    else:
        advisory = []
    conditions = [*others, *merge_conditions([stored] if stored else [], advisory)]
    return {**status, "conditions": conditions} if conditions or "conditions" in status else status


def advisory_events(placement: JsonObject, status: Mapping[str, Any]) -> Iterator[Event]:
    """Yield an Event when advisories of a placement are added, or when none remain.

    Args:
        placement: With its stored status.
        status: The status to store.
    """
    old, new = advisory_lines(placement), advisory_lines({"status": status})
    if added := [line for line in new if line not in old]:
        yield Event(CHANGED, shortened("; ".join(added), LONGEST_MESSAGE), "Warning")
    elif old and not new:
        yield Event(CLEARED, "no warnings about the placement remain")


def _stored(conditions: Sequence[JsonObject]) -> JsonObject | None:
    return next((condition for condition in conditions if condition.get("type") == ADVISORIES), None)
