"""Answers of ``/v1/placements`` and below them, and the data of ``/v1/events``."""

from typing import Annotated, Any, Literal

from pydantic import WithJsonSchema

from scorer.api.conditions import Condition
from scorer.api.placement.placement import RolloutStrategy
from scorer.api.placement.status import ResourceIdentifier
from webhook.description.models.base import AnswerModel, ContinueToken, Instant
from webhook.description.models.timeline import UpdateTimeline


class PlacedCluster(AnswerModel):
    """How far a placement is on one cluster."""

    cluster: str
    state: Literal["available", "applying", "waiting", "failed", "removing"]
    detail: str
    """Why it is not available."""
    serves: Literal["new", "old", ""]
    """Which release is available there: the latest, or an earlier one that waits to be replaced; empty: it is not known
    that any is."""


class Placement(AnswerModel):
    """What a placement wants and has, and why not everything is fine."""

    ref: str
    """`crp/<name>` or `rp/<namespace>/<name>`."""
    kind: Literal["ClusterResourcePlacement", "ResourcePlacement"]
    namespace: str
    """Empty for a ClusterResourcePlacement."""
    name: str
    type: Literal["PickAll", "PickN", "PickFixed"]
    wanted: int | None
    """How many clusters it wants; null for all."""
    picked: int
    available: int
    """On how many of them everything of the latest release is available."""
    available_old: int
    """On how many others an earlier release is, until their turn comes."""
    satisfied: bool
    """Whether it has all the clusters it wants, and it is neither failed, nor stalled, nor going."""
    judged_again: bool
    """Whether it has been changed and there is no decision on that yet: clusters and states are the last known."""
    stalled_since: Instant | None
    """When something moved last, where the rollout has stood still for too long; else null."""
    state: Literal[
        "available", "rolling out", "stalled", "external", "pending", "removing", "short", "failed", "invalid"
    ]
    why: str
    """Why it is not available, empty where it is."""
    generation: int
    labels: dict[str, str]
    clusters: list[PlacedCluster]
    conditions: list[Condition]
    decided_at: Instant | None
    """When the decision last changed; null before the first one, and while it is being judged again."""


class PlacementDetail(Placement):
    """A placement with what it selects and how it is rolled out."""

    selected_resources: list[ResourceIdentifier]
    strategy: RolloutStrategy
    timeline: UpdateTimeline | None
    """The last rolling update; null where update runs decide."""


class PlacementList(AnswerModel):
    """Placements, by reference."""

    items: list[Placement]
    continue_: ContinueToken


class Change(AnswerModel):
    """Data of a `change` event: what to ask for again."""

    revision: int
    """Grows with every change."""
    clusters: bool
    """Whether some cluster is different."""
    cluster_names: list[str] | None = None
    """Names of the clusters that are different; absent where `clusters` is true: any of them may be."""
    placements: list[str]
    """References of the placements that are different."""
    runs: bool
    """Whether some update run is different."""


TreeCluster = Annotated[
    dict[str, Any],
    WithJsonSchema(
        {"type": "object", "description": "An entry of `clusters` of `harbormaster tree -o json`, as its help has it."}
    ),
]


class PlacementTree(AnswerModel):
    """What is below a placement on one cluster."""

    clusters: list[TreeCluster]
    """Empty where the placement has no binding there."""
    objects_known: bool
    """Whether the server may read Works; where it may not, `works` is empty."""
