"""Events on nodes, Pods and pools about disruption, and the disruption condition of pools.

Events are deduplicated for a while, in memory only. A new leader may repeat one, which the API server then counts.

Source: docs/specifications/nodepool-disruption.md 12.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from datetime import datetime
from typing import Final

from scorer.api import kinds
from scorer.api.conditions import UNKNOWN, make_condition
from scorer.api.event import Event
from scorer.api.meta import JsonObject
from scorer.api.names import OURS
from scorer.api.unstructured.documents import annotation, conditions_of, generation_of, status_of, text_at
from scorer.node_budgets.nodes import DO_NOT_DISRUPT
from scorer.node_disruption.execution.reporting import (
    DISRUPTION,
    NodePoolCondition,
    NodePoolConditionReason,
    NodePoolEventReason,
    Note,
)
from webhook.controllers.nodes.cache import NodeWorld

CONDITION: Final = OURS + DISRUPTION
MOST_EVENTS: Final = 100
"""Maximum number of Events that one pass records. Later passes record the rest."""
_SAID_ONCE: Final = frozenset((NodePoolEventReason.FAILED_DRAINING,))
"""Reasons of Events whose message changes every second. The message does not count for deduplication."""

Record = Callable[[JsonObject, Event], None]


class NodeAdvice:
    """Reports findings as Events and conditions.

    Args:
        world: The cached cluster.
        record: Records Events.
        now: The clock.
    """

    def __init__(self, world: NodeWorld, record: Record, now: Callable[[], datetime]) -> None:
        self._world = world
        self._record = record
        self._now = now
        self._quiet_until: dict[Note, datetime] = {}
        self._recorded = 0

    def begin_pass(self) -> None:
        """Reset the number of Events of the pass, and forget Events that may be repeated."""
        now = self._now()
        self._recorded = 0
        self._quiet_until = {note: until for note, until in self._quiet_until.items() if until > now}

    def forget(self) -> None:
        """Forget the recorded Events: the clock has been set."""
        self._quiet_until = {}

    def set_conditions(self, standings: Mapping[str, NodePoolCondition]) -> None:
        """Set the condition of pools by name. Unchanged conditions are not written."""
        for name, condition in standings.items():
            document = self._world.cache.get(kinds.NODE_POOL, name)
            if document is not None:
                self._world.hub.report(kinds.NODE_POOL, document, _status(document, condition, self._now()))

    def cannot_read(self, reason: str) -> None:
        """Set a condition on all pools: no decision is possible, for this reason."""
        condition = NodePoolCondition(UNKNOWN, NodePoolConditionReason.CANNOT_READ, reason)
        names = (document["metadata"]["name"] for document in self._world.cache.list(kinds.NODE_POOL))
        self.set_conditions(dict.fromkeys(names, condition))

    def record_events(self, notes: Iterable[Note]) -> None:
        """Record Events that were not recorded recently, up to the limit per pass."""
        now = self._now()
        for note in notes:
            if self._recorded >= MOST_EVENTS:
                return
            event_key = replace(note, message="") if note.reason in _SAID_ONCE else note
            if self._quiet_until.get(event_key, now) <= now:
                self._quiet_until[event_key] = now + note.quiet
                self._recorded += self._tell(note)

    def report_invalid_annotations(self) -> None:
        """Report pods whose do-not-disrupt annotation is invalid."""
        self.record_events(
            Note(
                kinds.POD.kind,
                pod.name,
                NodePoolEventReason.INVALID_ANNOTATION,
                _INVALID,
                warning=True,
                namespace=pod.namespace,
            )
            for node in self._world.nodes()
            for pod in self._world.pools.pods_on(node["metadata"]["name"])
            if pod.active and not pod.protected and self._says_something(pod.namespace, pod.name)
        )

    def _says_something(self, namespace: str, name: str) -> bool:
        document = self._world.cache.get(kinds.POD, name, namespace)
        return document is not None and annotation(document, DO_NOT_DISRUPT) not in ("", "false")

    def _tell(self, note: Note) -> int:
        event = Event(note.reason, note.message, "Warning" if note.warning else "Normal")
        documents = [document for document in self._objects(note) if document is not None]
        for document in documents:
            self._record(document, event)
        return len(documents)

    def _objects(self, note: Note) -> list[JsonObject | None]:
        cache = self._world.cache
        match note.kind:
            case kinds.NODE.kind:
                return [cache.get(kinds.NODE, note.name), self._world.claim_of(note.name)]
            case kinds.NODE_POOL.kind:
                return [cache.get(kinds.NODE_POOL, note.name)]
        return [cache.get(kinds.POD, note.name, note.namespace)]


_INVALID: Final = f'annotation {DO_NOT_DISRUPT} is ignored: it must be "true" or a positive duration such as "4h"'


def joined(notes: Iterable[Note]) -> Iterator[Note]:
    """Yield *notes*, merged by object and reason: an API server keeps only the first of several Events."""
    by_event: dict[tuple[str, str, str, str], list[Note]] = {}
    for note in notes:
        by_event.setdefault((note.kind, note.namespace, note.name, note.reason), []).append(note)
    for several in by_event.values():
        messages = "; ".join(dict.fromkeys(note.message for note in several))
        yield replace(several[0], message=messages, quiet=min(note.quiet for note in several))


def counted_by_cause(holds: Iterable[tuple[str, str]]) -> dict[str, int]:
    """Return the number of nodes per cause, from pairs of cause and node."""
    return dict(sorted(Counter(cause for cause, _ in set(holds)).items()))


def _status(pool: JsonObject, pool_condition: NodePoolCondition, now: datetime) -> JsonObject:
    """Return the status of a pool with this controller's condition. Other conditions are kept."""
    status, generation = status_of(pool), generation_of(pool)
    previous = next((condition for condition in conditions_of(pool) if condition.get("type") == CONDITION), None)
    condition = make_condition(
        CONDITION,
        pool_condition.status,
        pool_condition.reason,
        pool_condition.message[:_LONGEST],
        generation=generation,
        now=now,
    )
    if previous is not None and text_at(previous, "status") == pool_condition.status:
        condition["lastTransitionTime"] = previous.get("lastTransitionTime") or condition["lastTransitionTime"]
    if previous == condition:
        return status
    others = [condition for condition in conditions_of(pool) if condition.get("type") != CONDITION]
    return {**status, "conditions": [*others, condition]}


_LONGEST: Final = 4096
"""Maximum length of a message, in characters."""
