"""Request bodies of ``/v1/score``, ``/v1/filter`` and ``/v1/explain``.

Source: docs/specifications/serving.md 3.2.
"""

from typing import Annotated, Any, Final, Self

import pydantic
from pydantic import Field, ValidationInfo, field_validator, model_validator

from scorer.api.cluster.member_cluster import MemberCluster
from scorer.api.family import PlacementRef
from scorer.api.meta import JsonObject
from scorer.api.placement.placement import PlacementPolicy
from scorer.api.values.field_path import json_pointer
from scorer.api.values.label_selector import LabelSelector, selector_error
from scorer.plugins.cluster_affinity import MOST_REQUIREMENTS, label_requirement_count, too_many_requirements
from webhook.answers.questions import PlacementQuestion
from webhook.endpoints.http.problems import Mistake, ProblemError
from webhook.endpoints.http.request_models import Name, PlacementModel, RequestModel
from webhook.validation.framework.field import FieldError, shape_errors

MOST_EXPLAINED: Final = 50
"""Maximum number of clusters that are explained by name in one request."""
USUAL_PAGE: Final = 100


class CandidatesModel(RequestModel):
    """Clusters of the question: by name, by label, or given in full. Exactly one of the three."""

    names: Annotated[tuple[Name, ...], Field(max_length=1000)] | None = None
    """Limit the answer to these clusters. The rest of the fleet still counts in ranges and spread."""
    label_selector: LabelSelector | None = None
    """Limit the answer to clusters with these labels."""
    inline: Annotated[tuple[dict[str, Any], ...], Field(max_length=500)] | None = None
    """MemberClusters to use instead of the real fleet. No others are considered."""

    @field_validator("label_selector")
    @classmethod
    def _check_size(cls, selector: LabelSelector | None) -> LabelSelector | None:
        if (count := label_requirement_count(selector)) > MOST_REQUIREMENTS:
            raise ValueError(too_many_requirements(count))
        if selector is not None and (error := selector_error(selector)):
            raise ValueError(error)
        return selector

    @model_validator(mode="after")
    def _check(self) -> Self:
        selectors = [value for value in (self.names, self.label_selector, self.inline) if value is not None]
        if len(selectors) != 1:
            raise ValueError(
                "exactly one of names, labelSelector and inline must be set. Leave candidates out for the whole fleet"
            )
        return self


class QuestionModel(RequestModel):
    """A placement, and the clusters that the question is about."""

    placement: PlacementModel
    candidates: CandidatesModel | None = None
    """Absent: the whole fleet."""

    def question(self) -> PlacementQuestion:
        """Return the question that the body asks.

        Raises:
            ProblemError: A cluster given in full is not a valid MemberCluster.
        """
        placement: PlacementRef | PlacementPolicy
        if self.placement.inline is not None:
            placement = self.placement.inline
        else:
            ref = self.placement.ref
            assert ref is not None
            placement = PlacementRef(ref.kind, ref.name, ref.namespace)
        if self.candidates is None:
            return PlacementQuestion(placement)
        inline = self.candidates.inline
        return PlacementQuestion(
            placement,
            names=self.candidates.names,
            selector=self.candidates.label_selector,
            clusters=None if inline is None else tuple(_cluster(item, index) for index, item in enumerate(inline)),
        )


class ScoreModel(QuestionModel):
    """A placement to rank clusters for, and the page of the ranking."""

    explain: bool = False
    """Put the explanation of each cluster into its item."""
    limit: Annotated[int, Field(ge=1, le=500)] | None = None
    """Items per page, 100 by default. With `explain` at most 50, which is then the default."""
    continue_: Annotated[str, Field(alias="continue", max_length=512)] = ""
    """The token `continue` of the previous answer, for the page after it."""

    @field_validator("limit")
    @classmethod
    def _check_limit(cls, limit: int | None, others: ValidationInfo) -> int | None:
        if limit is not None and limit > MOST_EXPLAINED and others.data.get("explain"):
            raise ValueError(f"must be at most {MOST_EXPLAINED} when explain is set")
        return limit

    @property
    def page(self) -> int:
        """Maximum number of items in the answer."""
        return self.limit or (MOST_EXPLAINED if self.explain else USUAL_PAGE)


class ExplainModel(QuestionModel):
    """A placement to explain, and the clusters that the question is about: at most 50 by name."""

    @model_validator(mode="after")
    def _check(self) -> Self:
        names = self.candidates.names if self.candidates else None
        if names is not None and len(names) > MOST_EXPLAINED:
            raise ValueError(f"{len(names)} clusters: must have at most {MOST_EXPLAINED}")
        return self


def _cluster(document: JsonObject, index: int) -> MemberCluster:
    at = ("candidates", "inline", index)
    try:
        cluster = MemberCluster.read(document)
    except pydantic.ValidationError as error:
        mistakes = [_mistake(shape_error, at) for shape_error in shape_errors(error)]
        raise ProblemError.of_mistakes(mistakes) from error
    if not cluster.metadata.name:
        raise ProblemError.of_mistakes([Mistake(json_pointer((*at, "metadata", "name")), "required", "must be set")])
    return cluster


def _mistake(error: FieldError, at: tuple[str | int, ...]) -> Mistake:
    return Mistake(json_pointer((*at, *error.field.parts)), "invalid", error.text())
