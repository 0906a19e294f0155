"""Answers of ``/v1/clusters`` and of the history of a cluster."""

from typing import Annotated, Literal

from pydantic import Field, WithJsonSchema

from scorer.api.upgrade.maintenance_window import WindowTarget
from scorer.framework.status import Category
from webhook.description.models.base import AnswerModel, ContinueToken, Instant
from webhook.description.models.timeline import TimelineSpan

INELIGIBLE = (
    *(Category.CLUSTER_LEAVING, Category.AGENT_NOT_REPORTING, Category.HEARTBEAT_STALE),
    *(Category.AGENT_NOT_JOINED, Category.HEALTH_UNKNOWN, Category.CLUSTER_UNHEALTHY),
)
"""Why a cluster may not be picked by any placement."""
Ineligibility = Annotated[str, WithJsonSchema({"type": "string", "enum": ["", *map(str, INELIGIBLE)]})]


class ClusterTaint(AnswerModel):
    """Keeps away new placements without a matching toleration."""

    key: str
    value: str
    effect: str


class ReportedProperty(AnswerModel):
    """A property as the cluster's agent reports it, or an external score, from an annotation."""

    value: str
    """As reported; of a score that cannot be read, its raw text."""
    observed_at: Instant | None
    """Null where that is not known."""
    unreadable: Literal[True] | None = None
    """It is a score, and cannot be read."""
    valid_until: Instant | None = None
    """It is an external score: when it expires or has expired."""
    expired: Literal[True] | None = None
    """It has expired, and no longer counts."""


class Capacity(AnswerModel):
    """One resource, summed over the nodes."""

    available: str
    allocatable: str
    ratio: float | None
    """Available as a share of allocatable."""


class MemberWindow(AnswerModel):
    """One of the maintenance windows of a cluster."""

    name: str
    """Of the ClusterMaintenanceWindow."""
    target: WindowTarget | None = None
    """Which upgrades it is for; absent: the window is not there, or cannot be read."""
    open: bool | None = None
    until: Instant | None = None
    """When it closes or opens; absent: never."""
    missing: Literal[True] | None = None
    """The cluster names it, and there is none of that name."""
    unreadable: Literal[True] | None = None
    """It cannot be read, and counts as closed."""


class MemberHold(AnswerModel):
    """What is disrupting a cluster now; other disruptions wait for it."""

    kind: Literal["Eviction", "Rollout", "StagedUpdate", "Upgrade", ""]
    """Empty: a reservation for an unknown purpose."""
    by: str
    """Such as `upgrade/kubernetes-1-31`; empty: not known, or nothing that the caller may list."""
    message: str
    until: Instant | None = None
    """When it ends by itself; absent: when it is done."""


class MemberUpgrade(AnswerModel):
    """What an upgrade run that is not over says of a cluster."""

    run: str
    """Name of the ClusterUpgradeRun."""
    state: Literal["Running", "Pending", "Failed", "NotStarted"]
    """`NotStarted` only of a single cluster: the run is going to reach it."""
    message: str
    """What it waits for, or what is wrong."""
    from_version: str = ""
    """What it ran before; absent: its upgrade has not begun."""
    to_version: str = ""
    """What it is upgraded to; absent: as before, or only node images change."""
    expected: TimelineSpan | None = None
    """When its upgrade is expected; only of a single cluster, absent: not known."""


class ClusterUpkeep(AnswerModel):
    """What a cluster runs, when it may be upgraded, and what upgrades it."""

    version: str = ""
    """Of its control plane, as its upgrader has reported."""
    on_hold: Literal[True] | None = None
    """Nothing upgrades it: annotation `harbormaster.dev/upgrade-hold`."""
    window_open: bool | None = None
    """Whether one of its maintenance windows is open; absent: it has none."""
    window_until: Instant | None = None
    """When that changes."""
    upgrade: MemberUpgrade | None = None
    windows: list[MemberWindow] | None = None
    """All of them; only of a single cluster."""


class Cluster(AnswerModel):
    """One member cluster as the engine sees it."""

    name: str
    state: Literal["eligible", "leaving", "not reporting", "silent", "not joined", "health unknown", "unhealthy"]
    """In a word or two."""
    state_detail: str
    """The reason in words, empty for eligible clusters."""
    eligible: bool
    reason: Ineligibility
    """The reason as a category, empty for eligible clusters."""
    labels: dict[str, str]
    taints: list[ClusterTaint]
    last_heartbeat: Instant | None
    properties: dict[str, ReportedProperty]
    """By name."""
    nodes: int | None
    cpu: Capacity | None
    memory: Capacity | None
    placements: list[str]
    """References of the placements on it, such as `crp/payments`."""
    upkeep: ClusterUpkeep | None = None
    """Absent: nothing is known."""
    holds: list[MemberHold] | None = None
    """Only of a single cluster; absent: nothing disrupts it."""


class ClusterList(AnswerModel):
    """Member clusters, by name."""

    items: list[Cluster]
    continue_: ContinueToken


class PropertySeries(AnswerModel):
    """One property over the last day."""

    name: str
    """Of the property; `available cpu` and `available memory` are resources."""
    values: list[float | None]
    """The last value of every step; null where none was reported."""


class ClusterHistory(AnswerModel):
    """What a cluster has reported over the last day, as far as this server saw it."""

    cluster: str
    from_: Annotated[Instant, Field(alias="from")]
    """When the first step begins."""
    step_seconds: int
    series: list[PropertySeries]
