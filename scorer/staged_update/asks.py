"""What a run is doing, in a word, and what it waits for, each with the command that answers it.

Source: staged-updates.md 8.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from scorer.api.conditions import FALSE, TRUE
from scorer.api.documents import name_of, namespace_of, spec_of, status_of, text_at
from scorer.api.meta import JsonObject
from scorer.api.staged_update import RunState
from scorer.rollout.bands import Band, BarState, MarkKind, Timeline, written
from scorer.staged_update.record import INITIALIZED, PROGRESSING, SUCCEEDED, condition, reason, status

NAMED: Final = 3
"""Of clusters that wait in the same way, so many are named."""

_WORDS: Final = {
    "UpdateRunWaiting": "waiting",
    "UpdateRunStuck": "stuck",
    "UpdateRunStopping": "stopping",
    "UpdateRunStopped": "stopped",
}


@dataclass(frozen=True, slots=True)
class Ask:
    """One thing that a run waits for.

    Args:
        kind: ``State``, ``Approval``, ``TimedWait``, ``Cluster`` or ``Held``.
        message: In words.
        stage: Where; empty: before all stages.
        cluster: Which may not be touched now; empty: it is not about a cluster.
        request: Name of the approval request; empty: it is not about an approval.
        since: When the wait began; None: that is unknown.
        until: When it ends by itself; None: nobody knows.
        command: What answers it; empty: nothing has to be done.
    """

    kind: str
    message: str
    stage: str = ""
    cluster: str = ""
    request: str = ""
    since: datetime | None = None
    until: datetime | None = None
    command: str = ""

    def document(self) -> JsonObject:
        """Return it as JSON."""
        return {
            "kind": self.kind,
            "message": self.message,
            "stage": self.stage,
            "cluster": self.cluster,
            "request": self.request,
            "since": written(self.since),
            "until": written(self.until),
            "command": self.command,
        }


def state_word(run: JsonObject) -> str:
    """Return the state of a run in a word or two."""
    record = status_of(run)
    if status(record, INITIALIZED) == FALSE:
        return "failed"
    if outcome := status(record, SUCCEEDED):
        return "succeeded" if outcome == TRUE else "aborted"
    if status(record, INITIALIZED) != TRUE:
        return "initializing"
    if not status(record, PROGRESSING):
        return "initialized"
    return _WORDS.get(reason(record, PROGRESSING), "running")


def stage_at(timeline: Timeline) -> str:
    """Return the first stage that is not done; empty: there is none."""
    return next((band.name for band in timeline.bands if band.state not in ("done", "skipped")), "")


def trouble_of(run: JsonObject) -> str:
    """Return what is wrong with a run; empty: nothing is."""
    record = status_of(run)
    for kind in (INITIALIZED, SUCCEEDED):
        if status(record, kind) == FALSE:
            return text_at(condition(record, kind), "message")
    stuck = reason(record, PROGRESSING) == "UpdateRunStuck"
    return text_at(condition(record, PROGRESSING), "message") if stuck else ""


def asks_of(run: JsonObject, timeline: Timeline) -> tuple[Ask, ...]:
    """Return what a run that is not over waits for, what a person has to answer first."""
    if timeline.ended is not None:
        return ()
    name, where = name_of(run), f" -n {namespace}" if (namespace := namespace_of(run)) else ""
    match state_word(run), spec_of(run).get("state"):
        case "initialized", state if state != RunState.RUN:
            return (Ask("State", "it waits to be started", command=f"harbormaster run start {name}{where}"),)
        case "stopped", state if state == RunState.STOP:
            return (Ask("State", "it is stopped", command=f"harbormaster run resume {name}{where}"),)
    if spec_of(run).get("state") == RunState.STOP:
        return ()
    found = [ask for band in timeline.bands for ask in (*_tasks(band, name, where), *_held(band))]
    return tuple(sorted(found, key=lambda ask: not ask.command))


def _tasks(band: Band, run: str, where: str) -> Iterator[Ask]:
    for mark in band.marks:
        if mark.over or mark.since is None:
            continue
        if mark.kind is MarkKind.TIMED_WAIT:
            message = f"it waits after stage {band.name}"
            yield Ask("TimedWait", message, band.name, since=mark.since, until=mark.until)
            continue
        when = "before" if mark.kind is MarkKind.APPROVAL_BEFORE else "after"
        command = f"harbormaster approve {run} --stage {band.name}{where}"
        message = f"it needs an approval {when} stage {band.name}"
        yield Ask("Approval", message, band.name, request=mark.request, since=mark.since, command=command)


def _held(band: Band) -> Iterator[Ask]:
    """Yield the clusters that may not be touched now; those that only wait for their turn say nothing."""
    held = [bar for bar in band.bars if bar.state is BarState.WAITING and bar.detail]
    for bar in held[:NAMED]:
        yield Ask("Held", f"{bar.cluster}: {bar.detail}", band.name, bar.cluster)
    if len(held) > NAMED:
        yield Ask("Held", f"{len(held) - NAMED} more clusters that may not be touched now", band.name)
