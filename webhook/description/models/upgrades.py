"""Answers of ``/v1/upgrade``.

Source: upgrade-runs.md 9 and 14.
"""

from typing import Annotated

from pydantic import Field

from scorer.api.upgrade.plan import Bound, PlannedAction, UpgradePlan
from webhook.description.models.base import AnswerModel, Instant, KubernetesObject


class PlannedTurn(AnswerModel):
    """What is expected of a member."""

    action: PlannedAction
    start: Instant | None = None
    end: Instant | None = None
    reason: str = ""
    bound_by: Bound | None = None
    """What its turn waits for."""


class PlannedChange(AnswerModel):
    """A member for which the changes matter."""

    name: str
    before: PlannedTurn | None
    """Null: it is not in the plan."""
    after: PlannedTurn | None


class PlanDifference(AnswerModel):
    """What the changes make of the plan."""

    eta_seconds: int | None
    """How much later the run ends; null where one of the plans has no end."""
    exposure: int
    """How many more members have the version before anybody looks."""
    max_concurrent: int
    """How many more clusters are in upgrade at one instant."""
    members: list[PlannedChange]


class UpgradeWhatIfAnswer(AnswerModel):
    """The plan of an upgrade run as things are, and after the changes."""

    before: UpgradePlan
    after: UpgradePlan
    difference: PlanDifference


class OrderAnswer(AnswerModel):
    """What has come of an order."""

    name: str
    """Of the object."""
    changed: bool
    """False: it was so already."""
    generation: Annotated[int, Field(ge=0)]
    """The loop has taken the order in when `status.observedGeneration` of the object has got there."""
    state: str
    """Where the object stood when the order was given; empty: it has no status yet."""


class RetryAnswer(AnswerModel):
    """A ClusterUpgradeRun that is not on the hub."""

    object_: Annotated[KubernetesObject, Field(alias="object")]
