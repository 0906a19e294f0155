"""Answers of ``/v1/runs``."""

from typing import Literal

from scorer.api.conditions import Condition
from webhook.description.model import AnswerModel, Instant
from webhook.description.timeline import UpdateTimeline


class UpdateRunWait(AnswerModel):
    """One thing that a run waits for."""

    kind: Literal["State", "Approval", "TimedWait", "Held"]
    """Held: a cluster that may not be touched now."""
    message: str
    """It goes on after "the run waits for"."""
    stage: str
    """Empty: it is not about a stage."""
    cluster: str
    """Empty: it is not about a cluster."""
    request: str
    """Name of the approval request; empty: it is not about an approval."""
    since: Instant | None
    until: Instant | None
    """When it ends by itself; null where nobody knows."""
    command: str
    """What answers it; empty: nobody has to do anything."""


class UpdateRun(AnswerModel):
    """A staged update run: of which placement, how far, and what it waits for."""

    ref: str
    """`csur/<name>` or `sur/<namespace>/<name>`."""
    kind: Literal["ClusterStagedUpdateRun", "StagedUpdateRun"]
    namespace: str
    """Empty for a ClusterStagedUpdateRun."""
    name: str
    placement: str
    """Reference of the placement."""
    strategy: str
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
    ]
    """Failed: it could not be initialised."""
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
    """Staged update runs, the latest first."""

    items: list[UpdateRun]
