"""Every order of events around a run: states are values, kept by what is written in them, with times as ages.

A state is followed by every pass of the loop, whole or ended between any two of its writes, and by everything that a
member, a person, another run or the clock may do. Times are rounded to ages: one step of the clock is longer than every
limit of the shape, so an age is zero or beyond all of them, and the number of states is finite.

What ends a run whenever it is next looked at (another run takes a cluster over, a relabelled member, another policy)
happens once in a history: after it comes nothing but the end.
"""

from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import timedelta
from itertools import product
from typing import Any

from scorer.api.conditions import TRUE
from scorer.api.meta import JsonObject
from scorer.api.names import UPDATED_BY
from scorer.api.unstructured.documents import annotation, dicts_at, is_deleting, spec_of, status_of, uid_of
from scorer.staged_update.execution.engine import is_over
from scorer.staged_update.outcome import Discard, Remove, StagedUpdateStep, Update
from scorer.staged_update.plan.stages import stage_concurrency
from scorer.staged_update.record import (
    REQUEST_APPROVED,
    SUCCEEDED,
    StagedUpdateRecord,
    cluster_name,
    clusters_of,
    condition,
    stage_name,
    status,
)
from tests.scorer.staged_update.execution.states import STEP, Documents, aged
from tests.scorer.staged_update.hub import Hub, Write, without, writes, writes_of
from tests.walks import Walk

PASS = "pass"
ANOTHER = "another"
"""The uid of another run."""

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
        edits: Changes that end the run, or are nothing to it, by name; each history has one of them at most, or a
            cluster that is taken over.
        crashes: The process may end between two writes.
    """

    hub: Hub
    failing: bool = True
    stops: bool = True
    strangers: bool = True
    others: bool = True
    edits: Mapping[str, Callable[[Hub], Hub]] = field(default_factory=dict)
    crashes: bool = True


def walk(shape: Shape) -> Walk:
    """Go every way there is, and check every state and every step.

    Raises:
        AssertionError: An invariant does not hold; the message has the way there.
    """
    found, known = Walk(), Documents()
    first = aged(shape.hub)
    found.number(known.key_of(first), 0, "")
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
            there, is_new = found.number(known.key_of(other), number, name)
            if is_new:
                todo.append((there, known.kept(other)))
            found.ways += 1
            if name == PASS and there != number:
                found.passes[number] = there
                if is_restless(hub.step):
                    found.restless.add(number)
            elif name == PASS and other is not hub:  # it has written nothing but a message
                assert other.passed() == other, f"after {found.way_to(number)}: every pass writes"
            if not name.startswith("!"):
                found.back.setdefault(there, set()).add(number)
    return found


def is_restless(step: StagedUpdateStep) -> bool:
    """Say whether another pass follows at once.

    It is asked for, or it comes of what this one writes: a condition that was lost is stored again, or a request is
    deleted that was approved before the record knew of it, to be made anew.
    """
    return step.again == timedelta() or any(
        isinstance(action, Discard) or (isinstance(action, Update) and action.wanted is action.binding)
        for action in step.actions
    )


def events(shape: Shape, hub: Hub) -> Iterator[Event]:
    """Yield what may happen, and what comes of it; what keeps a run from its end has a mark."""
    yield from passes(shape, hub)
    if is_over(hub.run):
        return
    yield "clock", aged(replace(hub, now=hub.now + STEP))
    for cluster, binding in hub.bindings.items():
        yield from _reports(shape, hub, cluster, binding)
    for name, request in hub.requests.items():
        yield from _approvals(shape, hub, name, request)
    if spec_of(hub.run)["state"] != "Run":
        yield "run", hub.state("Run")
    elif shape.stops:
        yield "! stop", hub.state("Stop")
    if not is_disturbed(shape.hub, hub):
        yield from _disturbances(shape, hub)


def _reports(shape: Shape, hub: Hub, cluster: str, binding: JsonObject) -> Iterator[Event]:
    """Have a member report, or the objects of a binding that is being deleted be gone."""
    if is_deleting(binding):
        yield f"{cluster} gone", replace(hub, bindings=without(hub.bindings, cluster))
        return
    if not spec_of(binding).get("resourceSnapshotName") or not status(status_of(binding), "RolloutStarted"):
        return
    if not _says(binding, "Available"):
        yield f"{cluster} available", hub.reported(cluster, kind="Applied").reported(cluster)
        if shape.failing and not _says(binding, "Applied"):
            yield f"! {cluster} fails", hub.reported(cluster, kind="Applied", status="False")


def _approvals(shape: Shape, hub: Hub, name: str, request: JsonObject) -> Iterator[Event]:
    """Have people answer a request, rightly and wrongly, or delete it."""
    said = {each["status"] + str(each["observedGeneration"]) for each in dicts_at(request, "status", "conditions")}
    if "True1" not in said:
        yield f"approve {name}", hub.approved(name)
        if shape.strangers and not said:
            yield f"! approve {name} wrongly", hub.approved(name, generation=7)
    if shape.strangers:
        yield f"! delete {name}", replace(hub, requests=without(hub.requests, name))


def is_disturbed(first: Hub, hub: Hub) -> bool:
    """Say whether something has happened that ends the run, or that happens once in a history."""
    return (
        hub.members != first.members
        or hub.policies != first.policies
        or hub.strategy is not first.strategy
        or any(annotation(binding, UPDATED_BY) == ANOTHER for binding in hub.bindings.values())
    )


def _disturbances(shape: Shape, hub: Hub) -> Iterator[Event]:
    """Edit something, or have another run bind a cluster that this one has bound."""
    for name, edit in shape.edits.items():
        yield f"! {name}", edit(hub)
    for cluster, binding in hub.bindings.items():
        if shape.others and annotation(binding, UPDATED_BY) == uid_of(hub.run):
            yield f"! other run takes {cluster}", taken_over(hub, cluster)


def taken_over(hub: Hub, cluster: str) -> Hub:
    """Have another run bind a cluster."""
    binding = hub.bindings[cluster]
    meta = {**binding["metadata"], "annotations": {UPDATED_BY: ANOTHER}}
    spec = {**spec_of(binding), "resourceSnapshotName": "p-7-snapshot"}
    return replace(hub, bindings={**hub.bindings, cluster: {**binding, "metadata": meta, "spec": spec}})


def _says(binding: dict[str, Any], kind: str) -> bool:
    found = condition(status_of(binding), kind)
    return bool(found) and found["observedGeneration"] == binding["metadata"]["generation"]


def passes(shape: Shape, hub: Hub) -> Iterator[Event]:
    """Yield a whole pass, and every way in which it may end before."""
    yield PASS, hub.passed()
    if not shape.crashes:
        return
    before, sets, after = parts(hub.step)
    for many in range(1, len(before) + 1):
        yield f"! crash after {many}", carried(hub, before[:many])
    for many in product(*(range(len(each) + 1) for each in sets)):
        for last in range(len(after) + 1):
            if (found := cut_short(hub, many, last)) is not None:
                yield f"! crash with {many} done, and {last} after", found


def parts(step: StagedUpdateStep) -> tuple[list[Write], list[list[Write]], list[Write]]:
    """Return the writes of a pass: before its actions, of each action, and after them."""
    before = list(writes(replace(step, actions=(), rollback=None, status=None)))
    after = list(writes(replace(step, annotations={}, snapshots=(), actions=())))
    return before, [list(writes_of(action)) for action in step.actions], after


def cut_short(hub: Hub, many: Sequence[int], last: int) -> Hub | None:
    """Return what a pass has written when its process ends; None: it cannot end like that.

    Actions are carried out side by side, each write by write; what comes before and after them is one write at a time.
    The condition of a binding is stored a little after its spec: it may be lost even when all that follows is done.

    Args:
        hub: Before the pass.
        many: How many writes of each action are done.
        last: How many writes after the actions are done.
    """
    before, sets, after = parts(hub.step)
    needed = (len(each) - isinstance(action, Update) for each, action in zip(sets, hub.step.actions, strict=True))
    if last and any(count < least for count, least in zip(many, needed, strict=True)):
        return None
    those = [write for each, count in zip(sets, many, strict=True) for write in each[:count]]
    return carried(hub, [*before, *those, *after[:last]])


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
        assert step.status is None or unstamped(step.status) == unstamped(found), "a run that is over writes"
        return
    changes = [
        action
        for action in step.actions
        if isinstance(action, Remove) or (isinstance(action, Update) and action.wanted is not action.binding)
    ]
    state = spec_of(hub.run)["state"]
    assert not changes or state == "Run", f"a run in state {state} begins {changes[0].cluster}"
    held = [action.cluster for action in changes if action.cluster in hub.waits]
    assert not held, f"{held} may not be touched now"
    going = [action.cluster for action in changes if is_deleting(action.binding)]
    assert not going, f"bindings of {going} are being deleted"
    if not dicts_at(found, "stagesStatus"):
        assert not changes, "a run that is not initialised changes clusters"
        return
    for cluster, binding in hub.bindings.items():
        open_ = [stage_name(stage) for stage in dicts_at(found, "stagesStatus") if status(stage, SUCCEEDED) != TRUE]
        going = is_deleting(binding) and spec_of(binding)["state"] == "Unscheduled"
        assert not (open_ and going), f"{cluster} is removed while stage {open_[0]} is open"
    check_stages(hub)


def unstamped(value: Any) -> Any:
    """Return a status without the generations that it is about: also a run that is over says it of the present one."""
    if isinstance(value, dict):
        return {key: unstamped(each) for key, each in value.items() if key != "observedGeneration"}
    return [unstamped(each) for each in value] if isinstance(value, list) else value


def check_stages(hub: Hub) -> None:
    """Check that clusters come stage by stage, never more of them than may, and only behind their approvals."""
    record = StagedUpdateRecord(hub.run, hub.now)
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
            for task in dicts_at(earlier, "afterStageTaskStatus") if clusters_of(earlier) else ():
                assert task["type"] != "Approval" or status(task, REQUEST_APPROVED) == TRUE, (
                    "an approval is passed over"
                )
        for task in dicts_at(known, "beforeStageTaskStatus"):
            assert status(task, REQUEST_APPROVED) == TRUE, f"stage {name} is begun without its approval"
        busy = [entry for entry in changed if not status(entry, SUCCEEDED) and not _available(hub, entry)]
        most = stage_concurrency(strategy.stages[place], len(entries))
        assert len(busy) <= most, f"{len(busy)} clusters of stage {name} are in flight, {most} may be"


def _has(hub: Hub, cluster: str, wanted: str) -> bool:
    binding = hub.bindings.get(cluster)
    ours = binding is not None and annotation(binding, UPDATED_BY) == uid_of(hub.run)
    return ours and spec_of(binding or {}).get("resourceSnapshotName") == wanted


def _available(hub: Hub, entry: dict[str, Any]) -> bool:
    binding = hub.bindings[cluster_name(entry)]
    return _says(binding, "Available")
