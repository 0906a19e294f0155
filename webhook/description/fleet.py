"""Answers of ``/v1/clusters``."""

from typing import Literal

from webhook.description.model import AnswerModel, DurationText, Instant


class ClusterTaint(AnswerModel):
    """Keeps new placements without a matching toleration away."""

    key: str
    value: str
    effect: str


class ReportedProperty(AnswerModel):
    """A property as the cluster reports it, or a score that somebody else computed."""

    value: str
    """As reported; of a score that cannot be read, its raw text."""
    age: DurationText | None
    """How long ago it was observed, null where that is not known."""
    unreadable: Literal[True] | None = None
    """It is a score, and cannot be read."""
    valid_until: Instant | None = None
    """It is a score: when it ends to count, or ended to."""
    expires_in: DurationText | None = None
    """How long it still counts."""
    expired: Literal[True] | None = None
    """It does not count any more."""
    expired_for: DurationText | None = None
    """Since when it does not."""


class Capacity(AnswerModel):
    """One resource, summed over the nodes."""

    available: str
    allocatable: str
    ratio: float | None
    """Available as a share of allocatable."""


class Cluster(AnswerModel):
    """One member cluster as the engine sees it."""

    name: str
    state: str
    """One word: eligible, leaving, not reporting, silent, not joined, health unknown, unhealthy."""
    state_detail: str
    """The reason in words, empty for eligible clusters."""
    eligible: bool
    reason: str
    """The reason as a category, empty for eligible clusters."""
    labels: dict[str, str]
    taints: list[ClusterTaint]
    heartbeat_age: DurationText | None
    properties: dict[str, ReportedProperty]
    """By name."""
    nodes: int | None
    cpu: Capacity | None
    memory: Capacity | None
    placements: list[str]
    """References of the placements on it, such as `crp/payments`."""


class ClusterList(AnswerModel):
    """All member clusters, by name."""

    fleet_revision: str
    evaluated_at: Instant
    items: list[Cluster]
