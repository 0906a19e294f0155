"""Every order of events around a run: states are values, kept by what is written in them, with times as ages.

A state is followed by every pass of the loop, whole or ended between any two of its writes, and by everything that a
member, a person, another run or the clock may do. Times are rounded to ages: one step of the clock is longer than every
limit of the shape, so an age is zero or beyond all of them, and the number of states is finite.
"""

from collections import deque
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from hashlib import blake2b
from itertools import chain, combinations
from typing import Any

import orjson

from scorer.api.conditions import TRUE
from scorer.api.documents import annotation, dicts_at, spec_of, status_of, uid_of
from scorer.api.meta import format_time, parse_time
from scorer.api.names import UPDATED_BY
from scorer.staged_update.engine import is_over
from scorer.staged_update.record import (
    REQUEST_APPROVED,
    SUCCEEDED,
    Record,
    cluster_name,
    clusters_of,
    condition,
    stage_name,
    status,
)
from scorer.staged_update.stages import at_once
from scorer.staged_update.step import Update
from tests.scorer.staged_update.hub import START, Hub, Write, writes, writes_of

STEP = timedelta(minutes=10)
"""One step of the clock: longer than a cluster may take and than the waits of the shapes."""
NOW_TEXT = format_time(START)
PASS = "pass"

Event = tuple[str, Hub]


@dataclass(frozen=True)
class Shape:
    """What may happen in a walk.

    Args:
        hub: Where it begins.
        failing: Members may say that the content fails.
        stops: People may stop the run and let it go on.
        strangers: Requests may be deleted, approved wrongly, and approved before the run asks.
        others: Another run may take a cluster over.
        edits: Changes that end the run, or are nothing to it, by name.
        crashes: The process may end between two writes.
    """

    hub: Hub
    failing: bool = True
    stops: bool = True
    strangers: bool = True
    others: bool = True
    edits: Mapping[str, Callable[[Hub], Hub]] = field(default_factory=dict)
    crashes: bool = True


@dataclass
class Walk:
    """What a walk has found.

    Args:
        states: Every state, by the digest of its key, as a number.
        ways: From one state to another.
        came: How each state was reached first: from which one, and by what.
        passes: The state that a whole pass leads to, where one writes anything.
        back: From which states well-meaning people lead to one.
        ends: The states in which the run is over.
    """

    states: dict[bytes, int] = field(default_factory=dict)
    ways: int = 0
    came: list[tuple[int, str]] = field(default_factory=list)
    passes: dict[int, int] = field(default_factory=dict)
    back: dict[int, set[int]] = field(default_factory=dict)
    ends: set[int] = field(default_factory=set)

    def number(self, hub: Hub, before: int, name: str) -> tuple[int, bool]:
        """Return the number of a state, and whether it is new."""
        key = key_of(hub)
        known = self.states.get(key)
        if known is not None:
            return known, False
        self.states[key] = len(self.states)
        self.came.append((before, name))
        return len(self.states) - 1, True

    def way_to(self, number: int) -> str:
        """Return what leads to a state."""
        names: list[str] = []
        while number:
            number, name = self.came[number]
            names.append(name)
        return " · ".join(reversed(names))

    def without_rest(self) -> int:
        """Count the states from which the loop never comes to rest while nothing else happens."""
        rests: set[int] = set()
        for number in range(len(self.states)):
            path: dict[int, None] = {}
            at: int | None = number
            while at is not None and at not in rests and at not in path:
                path[at] = None
                at = self.passes.get(at)
            if at is None or at in rests:
                rests.update(path)
        return len(self.states) - len(rests)

    def without_an_end(self) -> int:
        """Count the states from which no way of well-meaning people leads to an end."""
        seen, todo = set(self.ends), deque(self.ends)
        while todo:
            for before in self.back.get(todo.popleft(), ()):
                if before not in seen:
                    seen.add(before)
                    todo.append(before)
        return len(self.states) - len(seen)


def walk(shape: Shape) -> Walk:
    """Go every way there is, and check every state and every step.

    Raises:
        AssertionError: An invariant does not hold; the message has the way there.
    """
    found = Walk()
    first = aged(shape.hub)
    found.number(first, 0, "")
    todo: deque[tuple[int, Hub]] = deque([(0, first)])
    while todo:
        number, hub = todo.popleft()
        try:
            check(hub)
            after = list(events(shape, hub))
        except AssertionError as error:
            raise AssertionError(f"after {found.way_to(number)}: {error}") from error
        if is_over(hub.run):
            found.ends.add(number)
        for name, other in after:
            other = aged(other)
            there, is_new = found.number(other, number, name)
            if is_new:
                todo.append((there, other))
            found.ways += 1
            if name == PASS and there != number:
                found.passes[number] = there
            elif name == PASS:  # it has written nothing but a message
                assert other.passed() == other, f"after {found.way_to(number)}: every pass writes"
            if not name.startswith("!"):
                found.back.setdefault(there, set()).add(number)
    return found


def events(shape: Shape, hub: Hub) -> Iterator[Event]:
    """Yield what may happen, and what comes of it; what keeps a run from its end has a mark."""
    yield from passes(shape, hub)
    if is_over(hub.run):
        return
    yield "clock", replace(hub, now=hub.now + STEP)
    for cluster, binding in hub.bindings.items():
        if not spec_of(binding).get("resourceSnapshotName") or not status(status_of(binding), "RolloutStarted"):
            continue
        if not _says(binding, "Available"):
            yield f"{cluster} available", hub.reported(cluster)
            if shape.failing and not _says(binding, "Applied"):
                yield f"! {cluster} fails", hub.reported(cluster, kind="Applied", status="False")
    for name, request in hub.requests.items():
        said = {each["status"] + str(each["observedGeneration"]) for each in dicts_at(request, "status", "conditions")}
        if "True1" not in said:
            yield f"approve {name}", hub.approved(name)
            if shape.strangers and not said:
                yield f"! approve {name} wrongly", hub.approved(name, generation=7)
        if shape.strangers:
            kept = {other: each for other, each in hub.requests.items() if other != name}
            yield f"! delete {name}", replace(hub, requests=kept)
    state = spec_of(hub.run)["state"]
    if state != "Run":
        yield "run", hub.state("Run")
    elif shape.stops:
        yield "! stop", hub.state("Stop")
    if shape.others:
        yield from _taken_over(hub)
    for name, edit in shape.edits.items():
        yield f"! {name}", edit(hub)


def _taken_over(hub: Hub) -> Iterator[Event]:
    """Have another run bind a cluster that this one has bound."""
    for cluster, binding in hub.bindings.items():
        if annotation(binding, UPDATED_BY) == uid_of(hub.run):
            meta = {**binding["metadata"], "annotations": {UPDATED_BY: "another"}}
            spec = {**spec_of(binding), "resourceSnapshotName": "p-7-snapshot"}
            taken = {**binding, "metadata": meta, "spec": spec}
            yield f"! other run takes {cluster}", replace(hub, bindings={**hub.bindings, cluster: taken})


def _says(binding: dict[str, Any], kind: str) -> bool:
    found = condition(status_of(binding), kind)
    return bool(found) and found["observedGeneration"] == binding["metadata"]["generation"]


def passes(shape: Shape, hub: Hub) -> Iterator[Event]:
    """Yield a whole pass, and every way in which it may end before."""
    step = hub.step
    ordered: list[Write] = []
    if step.annotations or step.snapshots:
        ordered = list(_leading(hub))
    sets = [list(writes_of(action)) for action in step.actions]
    after = hub.passed()
    if after != hub:
        yield PASS, after
    if not shape.crashes:
        return
    for many in range(1, len(ordered) + 1):
        yield f"crash after {many}", carried(hub, ordered[:many])
    begun = carried(hub, ordered)
    chosen = chain.from_iterable(combinations(range(len(sets)), size) for size in range(len(sets) + 1))
    for those in chosen:
        # The condition of a binding is the second write of its update, and may be lost.
        kept = [write for place in those for write in _stored(step.actions[place], sets[place])]
        yield f"crash with {those} done", carried(begun, kept)
    lost = [write for place in range(len(sets)) for write in _stored(step.actions[place], sets[place])]
    if step.status is not None and any(isinstance(action, Update) for action in step.actions):
        recorded = replace(carried(begun, lost), run={**hub.run, "status": step.status})
        yield "crash with conditions lost", recorded


def _stored(action: object, found: list[Write]) -> list[Write]:
    """Return the writes of an action that are stored when it is done: not yet the condition of a binding."""
    return found[:-1] if isinstance(action, Update) else found


def _leading(hub: Hub) -> Iterator[Write]:
    """Yield the writes of a pass that come before its actions: annotations and snapshots."""
    yield from writes(replace(hub.step, actions=(), rollback=None, status=None))


def carried(hub: Hub, those: list[Write]) -> Hub:
    """Carry writes out."""
    for write in those:
        hub = write(hub)
    return hub


# What has to hold.


def check(hub: Hub) -> None:
    """Check one state."""
    step = hub.step
    found = status_of(hub.run)
    if is_over(hub.run):
        assert not step.actions, "a run that is over acts"
        assert step.status is None, "a run that is over writes"
        return
    changes = [action for action in step.actions if isinstance(action, Update) and action.wanted is not action.binding]
    state = spec_of(hub.run)["state"]
    assert not changes or state == "Run", f"a run in state {state} begins {changes[0].cluster}"
    if not dicts_at(found, "stagesStatus"):
        assert not changes, "a run that is not initialised changes clusters"
        return
    check_stages(hub)


def check_stages(hub: Hub) -> None:
    """Check that clusters come stage by stage, never more of them than may, and only behind their approvals."""
    record = Record(hub.run, hub.now)
    strategy = record.strategy()
    wanted = f"p-{record.status['resourceSnapshotIndexUsed']}-snapshot"
    for place, known in enumerate(record.stages):
        name, entries = stage_name(known), clusters_of(known)
        changed = [entry for entry in entries if _has(hub, cluster_name(entry), wanted)]
        if not changed:
            continue
        for earlier in record.stages[:place]:
            done = status(earlier, SUCCEEDED)
            assert done == TRUE, f"stage {name} is begun before {stage_name(earlier)} is done: {done or 'open'}"
            for task in dicts_at(earlier, "afterStageTaskStatus"):
                assert task["type"] != "Approval" or status(task, REQUEST_APPROVED) == TRUE, (
                    "an approval is passed over"
                )
        for task in dicts_at(known, "beforeStageTaskStatus"):
            assert status(task, REQUEST_APPROVED) == TRUE, f"stage {name} is begun without its approval"
        busy = [entry for entry in changed if not status(entry, SUCCEEDED) and not _available(hub, entry)]
        most = at_once(strategy.stages[place], len(entries))
        assert len(busy) <= most, f"{len(busy)} clusters of stage {name} are in flight, {most} may be"


def _has(hub: Hub, cluster: str, wanted: str) -> bool:
    binding = hub.bindings.get(cluster)
    ours = binding is not None and annotation(binding, UPDATED_BY) == uid_of(hub.run)
    return ours and spec_of(binding or {}).get("resourceSnapshotName") == wanted


def _available(hub: Hub, entry: dict[str, Any]) -> bool:
    binding = hub.bindings[cluster_name(entry)]
    return _says(binding, "Available")


# Keeping states few.


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


def key_of(hub: Hub) -> bytes:
    """Return a digest of what tells two states apart; generations count only as far as conditions are about them."""
    found = (
        _shown(hub.run),
        sorted((name, _shown(each)) for name, each in hub.bindings.items()),
        sorted((name, _shown(each)) for name, each in hub.requests.items()),
        sorted((name, sorted(labels.items())) for name, labels in hub.members.items()),
        [each["metadata"]["name"] for each in (*hub.snapshots, *hub.policies, *hub.runs)],
        hub.strategy is None,
        hub.placement is None,
    )
    return blake2b(orjson.dumps(_plain(found), option=orjson.OPT_SORT_KEYS), digest_size=16).digest()


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

    return {
        "metadata": document["metadata"].get("annotations"),
        "spec": document.get("spec"),
        "status": look(status_of(document)),
    }


def _plain(value: Any) -> Any:
    if isinstance(value, datetime):
        return format_time(value)
    return [_plain(each) for each in value] if isinstance(value, (list, tuple)) else value
