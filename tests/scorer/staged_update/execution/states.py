"""Keeping the states of a hub few and small: times become ages, and each document is kept once.

Two hubs are the same state when every document says the same, with its generation counted only as far as conditions are
about it, and with its times only as ages: zero, or beyond every limit.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import timedelta
from hashlib import blake2b
from typing import Any

import orjson

from scorer.api.meta import format_time, parse_time
from scorer.api.unstructured.documents import status_of
from tests.scorer.staged_update.hub import START, Hub
from tests.walks import Key

STEP = timedelta(minutes=10)
"""One step of the clock: longer than a cluster may take and than the waits of the shapes."""
NOW_TEXT = format_time(START)


def aged(hub: Hub) -> Hub:
    """Return the hub at `START`, with the times that count as far back as they are, and no further than one step.

    Two kinds count: since when a cluster is in flight, and since when a stage waits. All others become `START`.
    """
    shift = START - hub.now

    def moved(text: str) -> str:
        instant = parse_time(text) + shift
        return format_time(START if instant >= START else START - STEP)

    def said(conditions: list[dict[str, Any]], counting: str) -> list[dict[str, Any]]:
        return [
            {**each, "lastTransitionTime": moved(each["lastTransitionTime"]) if each["type"] == counting else NOW_TEXT}
            for each in conditions
        ]

    def owner(document: dict[str, Any], counting: str) -> dict[str, Any]:
        times = {key: NOW_TEXT for key in ("startTime", "endTime") if key in document}
        kept = {"conditions": said(document["conditions"], counting)} if "conditions" in document else {}
        return {**document, **times, **kept}

    def stage(document: dict[str, Any]) -> dict[str, Any]:
        clusters = [owner(entry, "Started") for entry in document["clusters"]]
        tasks = {
            key: [owner(task, "") for task in document[key]]
            for key in ("beforeStageTaskStatus", "afterStageTaskStatus")
            if key in document
        }
        return {**owner(document, "Progressing"), **tasks, "clusters": clusters}

    def whole(document: dict[str, Any]) -> dict[str, Any]:
        return {**document, "status": owner(status_of(document), "")}

    record = owner(status_of(hub.run), "")
    if "stagesStatus" in record:
        record["stagesStatus"] = [stage(each) for each in record["stagesStatus"]]
        record["deletionStageStatus"] = stage(record["deletionStageStatus"])
    return replace(
        hub,
        now=START,
        run={**hub.run, "status": record} if record else hub.run,
        bindings={name: whole(each) for name, each in hub.bindings.items()},
        requests={name: whole(each) for name, each in hub.requests.items()},
    )


@dataclass
class Documents:
    """Every document of a walk once, and the number of each.

    Args:
        numbers: By what a document shows.
        found: The first document that shows it.
        known: The numbers of those that were found, by their identity: they live as long as the walk.
    """

    numbers: dict[bytes, int] = field(default_factory=dict)
    found: list[dict[str, Any]] = field(default_factory=list)
    known: dict[int, int] = field(default_factory=dict)

    def number(self, document: dict[str, Any]) -> int:
        """Return the number of a document."""
        if (known := self.known.get(id(document))) is not None:
            return known
        shown = orjson.dumps(_shown(document), option=orjson.OPT_SORT_KEYS)
        key = blake2b(shown, digest_size=16).digest()
        if key not in self.numbers:
            self.numbers[key] = self.known[id(document)] = len(self.found)
            self.found.append(document)
        return self.numbers[key]

    def key_of(self, hub: Hub) -> Key:
        """Return what tells a state from others."""
        return (
            self.number(hub.run),
            *((name, self.number(each)) for name, each in sorted(hub.bindings.items())),
            *((name, self.number(each)) for name, each in sorted(hub.requests.items())),
            *((name, *sorted(labels.items())) for name, labels in sorted(hub.members.items())),
            *(each["metadata"]["name"] for each in (*hub.snapshots, *hub.policies, *hub.runs)),
            hub.strategy is None,
            hub.placement is None,
        )

    def kept(self, hub: Hub) -> Hub:
        """Return the hub made of documents that are kept anyway."""
        return replace(
            hub,
            run=self.found[self.number(hub.run)],
            bindings=self._same(hub.bindings),
            requests=self._same(hub.requests),
        )

    def _same(self, documents: Mapping[str, dict[str, Any]]) -> dict[str, dict[str, Any]]:
        return {name: self.found[self.number(each)] for name, each in documents.items()}


def _shown(document: dict[str, Any]) -> dict[str, Any]:
    """Return a document with its generation as one, and conditions of that generation or of an older one."""
    generation = document["metadata"].get("generation", 1)

    def look(value: Any) -> Any:
        if isinstance(value, dict):
            shown = {key: look(each) for key, each in value.items() if key != "message"}
            if "observedGeneration" in shown:
                shown["observedGeneration"] = int(shown["observedGeneration"] == generation)
            return shown
        return [look(each) for each in value] if isinstance(value, list) else value

    meta = document["metadata"]
    return {
        "metadata": (meta.get("annotations"), meta.get("deletionTimestamp")),
        "spec": document.get("spec"),
        "status": look(status_of(document)),
    }
