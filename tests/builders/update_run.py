"""Staged update runs with a complete record, as they stand on the wire at the moments of one worked timeline.

The timeline is that of staged-updates.md 12: stage ``try`` with two clusters, one at a time, then ten minutes and an
approval; an approval, then stage ``all`` with five clusters, two at a time; then the deletion from one.
"""

from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from typing import Any

from scorer.api.kinds import NAMESPACED_STAGED_RUN, STAGED_RUN
from scorer.api.meta import JsonObject, format_time
from scorer.api.placement.staged_update import DELETE_STAGE
from tests.builders.condition import condition

START = datetime(2026, 11, 23, 8, 0, tzinfo=UTC)
"""0:00 of the worked timeline."""

STRATEGY: JsonObject = {
    "stages": [
        {
            "name": "try",
            "labelSelector": {"matchLabels": {"env": "try"}},
            "maxConcurrency": 1,
            "afterStageTasks": [{"type": "TimedWait", "waitTime": "10m"}, {"type": "Approval"}],
        },
        {
            "name": "all",
            "labelSelector": {"matchLabels": {"env": "all"}},
            "maxConcurrency": "40%",
            "beforeStageTasks": [{"type": "Approval"}],
        },
    ]
}


class Moments:
    """Writes times of the worked timeline, ``12:40``, as instants.

    Args:
        start: What 0:00 is.
    """

    def __init__(self, start: datetime = START) -> None:
        self.start = start

    def at(self, text: str) -> datetime:
        """Return the instant of a time, minutes and seconds after the start."""
        minutes, _, seconds = text.partition(":")
        return self.start + timedelta(minutes=int(minutes), seconds=int(seconds))

    def said(self, kind: str, status: str, reason: str, when: str, message: str = "") -> JsonObject:
        """Return a condition."""
        return condition(kind, status, reason, message, since=format_time(self.at(when)))

    def cluster(
        self, name: str, started: str = "", ended: str = "", *, failed: str = "", waits: str = "", trouble: str = ""
    ) -> JsonObject:
        """Return the entry of a cluster.

        Args:
            name: Of the cluster.
            started: When it was; empty: not yet.
            ended: When the outcome was known; empty: it is not.
            failed: The message of a failure.
            waits: Why it may not be begun.
            trouble: What is open there.
        """
        said = []
        if waits:
            said = [self.said("Started", "False", "ClusterUpdatingWaiting", "0:00", waits)]
        if started:
            said = [self.said("Started", "True", "ClusterUpdatingStarted", started, trouble)]
        if ended and failed:
            said.append(self.said("Succeeded", "False", "ClusterUpdatingFailed", ended, failed))
        elif ended:
            said.append(self.said("Succeeded", "True", "ClusterUpdatingSucceeded", ended))
        return {"clusterName": name, **({"conditions": said} if said else {})}

    def approval(self, request: str, asked: str = "", approved: str = "") -> JsonObject:
        """Return the status of an approval task."""
        said = []
        if asked:
            said.append(self.said("ApprovalRequestCreated", "True", "StageTaskApprovalRequestCreated", asked))
        if approved:
            said.append(self.said("ApprovalRequestApproved", "True", "StageTaskApprovalRequestApproved", approved))
        return {"type": "Approval", "approvalRequestName": request, **({"conditions": said} if said else {})}

    def wait(self, elapsed: str = "") -> JsonObject:
        """Return the status of a timed wait."""
        said = [self.said("WaitTimeElapsed", "True", "AfterStageTaskWaitTimeElapsed", elapsed)] if elapsed else []
        return {"type": "TimedWait", **({"conditions": said} if said else {})}

    def stage(
        self, name: str, clusters: Iterable[JsonObject], *said: JsonObject, start: str = "", end: str = "", **tasks: Any
    ) -> JsonObject:
        """Return the status of a stage."""
        times = {"startTime": start, "endTime": end}
        written = {key: format_time(self.at(text)) for key, text in times.items() if text}
        return {"stageName": name, "clusters": list(clusters), "conditions": list(said), **written, **tasks}

    def run(
        self,
        stages: Iterable[JsonObject],
        *said: JsonObject,
        deletion: JsonObject | None = None,
        name: str = "r",
        namespace: str = "",
        placement: str = "web",
        state: str = "Run",
        strategy: JsonObject = STRATEGY,
        annotations: JsonObject | None = None,
    ) -> JsonObject:
        """Return a run with its record."""
        kind = NAMESPACED_STAGED_RUN if namespace else STAGED_RUN
        head: JsonObject = {"name": name, "generation": 1, "creationTimestamp": format_time(self.start)}
        head |= {"namespace": namespace} if namespace else {}
        head |= {"annotations": annotations} if annotations else {}
        initialized = self.said("Initialized", "True", "UpdateRunInitializedSuccessfully", "0:00")
        return {
            "apiVersion": kind.api_version,
            "kind": kind.kind,
            "metadata": head,
            "spec": {"placementName": placement, "stagedRolloutStrategyName": "waves", "state": state},
            "status": {
                "resourceSnapshotIndexUsed": "3",
                "policySnapshotIndexUsed": "0",
                "stagedUpdateStrategySnapshot": strategy,
                "stagesStatus": list(stages),
                "deletionStageStatus": deletion
                if deletion is not None
                else self.stage(DELETE_STAGE, [self.cluster("z")]),
                "conditions": [initialized, *said],
            },
        }

    def tried(self) -> JsonObject:
        """Return the first stage when it is done."""
        return self.stage(
            "try",
            [self.cluster("a", "0:00", "0:30"), self.cluster("b", "0:30", "1:00")],
            self.said("Progressing", "False", "StageUpdatingSucceeded", "1:00"),
            self.said("Succeeded", "True", "StageUpdatingSucceeded", "11:00"),
            start="0:00",
            end="11:00",
            afterStageTaskStatus=[self.wait("11:00"), self.approval("r-after-try", "1:00", "4:00")],
        )

    def second(
        self, clusters: Iterable[JsonObject], *said: JsonObject, approved: str = "12:10", end: str = ""
    ) -> JsonObject:
        """Return the second stage; without conditions of its own, it is updating."""
        said = said or (self.said("Progressing", "True", "StageUpdatingStarted", "12:10"),)
        before = [self.approval("r-before-all", "11:00", approved)]
        start = "12:10" if approved else ""
        return self.stage("all", clusters, *said, start=start, end=end, beforeStageTaskStatus=before)

    def at_four(self, **head: Any) -> JsonObject:
        """4:00: the approval after the first stage has come, the wait goes on."""
        first = self.stage(
            "try",
            [self.cluster("a", "0:00", "0:30"), self.cluster("b", "0:30", "1:00")],
            self.said("Progressing", "False", "StageUpdatingWaiting", "1:00"),
            start="0:00",
            afterStageTaskStatus=[self.wait(), self.approval("r-after-try", "1:00", "4:00")],
        )
        untouched = self.stage("all", map(self.cluster, FIVE), beforeStageTaskStatus=[self.approval("r-before-all")])
        return self.run([first, untouched], self.said("Progressing", "False", "UpdateRunWaiting", "1:00"), **head)

    def at_eleven(self, **head: Any) -> JsonObject:
        """11:30: the second stage waits for its approval."""
        waiting = self.said("Progressing", "False", "StageUpdatingWaiting", "11:00")
        second = self.second(map(self.cluster, FIVE), waiting, approved="")
        return self.run([self.tried(), second], self.said("Progressing", "False", "UpdateRunWaiting", "11:00"), **head)

    def at_twelve(self, **head: Any) -> JsonObject:
        """12:27: two clusters of the second stage are being updated."""
        clusters = [self.cluster(name, "12:10" if name in ("c1", "c2") else "") for name in FIVE]
        return self.run(
            [self.tried(), self.second(clusters)],
            self.said("Progressing", "True", "UpdateRunProgressing", "12:10"),
            **head,
        )

    def stuck(self, **head: Any) -> JsonObject:
        """17:25: one cluster does not become available, the others have gone on."""
        clusters = [
            self.cluster("c1", "12:10", "12:40"),
            self.cluster("c2", "12:10", trouble="Deployment shop/web: 0 of 3 replicas available"),
            self.cluster("c3", "12:40", "13:10"),
            self.cluster("c4", "13:10", "13:40"),
            self.cluster("c5", waits="its maintenance window opens at 2026-11-23T13:00:00Z"),
        ]
        message = "clusters c2 of stage all are in flight for more than 5 minutes"
        said = self.said("Progressing", "False", "UpdateRunStuck", "17:25", message)
        return self.run([self.tried(), self.second(clusters)], said, **head)

    def stopped(self, **head: Any) -> JsonObject:
        """12:45: stopped with two clusters updated and three not begun."""
        clusters = [self.cluster(name, *(("12:10", "12:40") if name in ("c1", "c2") else ())) for name in FIVE]
        second = self.second(clusters, self.said("Progressing", "False", "StageUpdatingStopped", "12:45"))
        said = self.said("Progressing", "False", "UpdateRunStopped", "12:45")
        return self.run([self.tried(), second], said, state="Stop", **head)

    def aborted(self, **head: Any) -> JsonObject:
        """12:50: another run has taken a cluster, so this one is over."""
        preempted = "the binding of c1 was changed by another run"
        clusters = [self.cluster("c1", "12:10", "12:50", failed=preempted), self.cluster("c2", "12:10")]
        failed = (
            self.said("Progressing", "False", "StageUpdatingFailed", "12:50", preempted),
            self.said("Succeeded", "False", "StageUpdatingFailed", "12:50", preempted),
        )
        second = self.second([*clusters, *map(self.cluster, FIVE[2:])], *failed, end="12:50")
        said = [
            self.said(kind, "False", "UpdateRunFailed", "12:50", preempted) for kind in ("Progressing", "Succeeded")
        ]
        return self.run([self.tried(), second], *said, **head)

    def succeeded(self, **head: Any) -> JsonObject:
        """13:55: all is done."""
        times = {
            "c1": "12:10 12:40",
            "c2": "12:10 12:40",
            "c3": "12:40 13:10",
            "c4": "12:40 13:10",
            "c5": "13:10 13:40",
        }
        done = [self.said(kind, status, "StageUpdatingSucceeded", "13:40") for kind, status in DONE]
        second = self.second([self.cluster(name, *text.split()) for name, text in times.items()], *done, end="13:40")
        gone = [self.said(kind, status, "StageUpdatingSucceeded", "13:55") for kind, status in DONE]
        last = self.stage(DELETE_STAGE, [self.cluster("z", "13:40", "13:55")], *gone, start="13:40", end="13:55")
        said = [self.said(kind, status, "UpdateRunSucceeded", "13:55") for kind, status in DONE]
        return self.run([self.tried(), second], *said, deletion=last, **head)

    def unstarted(self, **head: Any) -> JsonObject:
        """0:00: initialised, and not told to run."""
        stages = [
            self.stage(
                "try", map(self.cluster, ("a", "b")), afterStageTaskStatus=[self.wait(), self.approval("r-after-try")]
            ),
            self.stage("all", map(self.cluster, FIVE), beforeStageTaskStatus=[self.approval("r-before-all")]),
        ]
        return self.run(stages, state="Initialize", **head)


FIVE = ("c1", "c2", "c3", "c4", "c5")
DONE = (("Progressing", "False"), ("Succeeded", "True"))
