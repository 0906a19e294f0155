"""Answers of ``/v1/runs``."""

from typing import Literal

from scorer.api.conditions import Condition
from webhook.description.models.base import AnswerModel, Instant
from webhook.description.models.timeline import UpdateTimeline


class UpdateRunWait(AnswerModel):
    """One thing that a run waits for."""

    kind: Literal["State", "Approval", "TimedWait", "Held"]
    """Approval: also a gate that opens at a time. Held: a cluster that may not be touched now."""
    message: str
    """It goes on after "the run waits for"."""
    stage: str
    """Empty: it is not about a stage."""
    cluster: str
    """Empty: it is not about a cluster."""
    request: str
    """Name of the approval request, or of the gate; empty: it is not about an approval."""
    since: Instant | None
    until: Instant | None
    """When it ends by itself; null where nobody knows."""
    command: str
    """What answers it; empty: nobody has to do anything."""


class UpdateRun(AnswerModel):
    """A run through clusters: a staged update of a placement, or an upgrade of the clusters themselves."""

    ref: str
    """`csur/<name>`, `sur/<namespace>/<name>` or `cuprun/<name>`."""
    kind: Literal["ClusterStagedUpdateRun", "StagedUpdateRun", "ClusterUpgradeRun"]
    namespace: str
    """Of a StagedUpdateRun; the others have none."""
    name: str
    placement: str
    """Reference of the placement; empty for an upgrade."""
    upgrade: str = ""
    """What an upgrade brings, such as `Kubernetes 1.31.2`."""
    expected_end: Instant | None = None
    """When an upgrade is expected to be over, by its plan; null: it is over, or no end is in sight."""
    strategy: str
    """Empty: an upgrade without one."""
    resource_snapshot_index: str
    """The version that it rolls out; empty while that is not decided."""
    rollback_of: str
    """The run that it takes back; empty: none."""
    rejected: str
    """Which approval was refused, and why, while it is stopped for that; else empty."""
    state: Literal[
        "initializing",
        "initialized",
        "running",
        "waiting",
        "stuck",
        "stopping",
        "stopped",
        "failed",
        "aborted",
        "succeeded",
        "not started",
        "skipped",
    ]
    """Failed: a staged update that could not be initialised, or an upgrade with too many failures."""
    stage: str
    """The stage that it is at; empty: none."""
    why: str
    """What is wrong with it, or missing."""
    waits: list[UpdateRunWait]
    """What a person has to answer comes first. Clusters that are being updated are not among them: the timeline has
    those. Of clusters that may not be touched now, ten are named."""
    clusters: int
    updated: int
    created_at: Instant | None
    started_at: Instant | None
    ended_at: Instant | None
    """Null while it is not over."""


class UpdateRunDetail(UpdateRun):
    """A run with its timeline."""

    conditions: list[Condition]
    timeline: UpdateTimeline


class UpdateRunList(AnswerModel):
    """Runs, the latest first."""

    items: list[UpdateRun]
