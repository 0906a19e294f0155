"""Answers about what is behind and below what is listed: the day of a cluster, objects on it, the log of admission."""

from typing import Annotated, Any, Literal

from pydantic import Field, WithJsonSchema

from webhook.description.model import AnswerModel, ContinueToken, Instant

TreeCluster = Annotated[
    dict[str, Any],
    WithJsonSchema(
        {"type": "object", "description": "An entry of `clusters` of `harbormaster tree -o json`, as its help has it."}
    ),
]


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


class PlacementTree(AnswerModel):
    """What is below a placement on one cluster."""

    clusters: list[TreeCluster]
    """Empty where the placement has no binding there."""
    objects_known: bool
    """Whether the server may read Works; where it may not, `works` is empty."""


class AdmissionEntry(AnswerModel):
    """An answer of admission that was no plain yes."""

    number: int
    """Counts the entries since the server was started."""
    at: Instant
    user: str
    operation: str
    group: str
    kind: str
    namespace: str
    """Empty for an object without one."""
    name: str
    """Empty where the API server was to make one."""
    subresource: str
    """Empty for the object itself."""
    verdict: Literal["refused", "warned"]
    code: int
    """Of the refusal; 200 for warnings."""
    messages: list[str]
    rules: list[str]
    """Ids of the rules that say so, as far as they have one; `harbormaster rules` explains them."""
    dry_run: bool
    """The write was only tried."""


class AdmissionList(AnswerModel):
    """What admission refused or warned about lately, the latest first."""

    items: list[AdmissionEntry]
    continue_: ContinueToken
