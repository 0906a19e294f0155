"""Answers about what is behind and below what is listed: the day of a cluster, and objects on it."""

from typing import Annotated, Any

from pydantic import Field, WithJsonSchema

from webhook.description.model import AnswerModel, Instant

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
