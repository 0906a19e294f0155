"""Apply strategy: the part of a placement that its Works carry to the agent of the member.

Source: docs/specifications/placement-api.md 3.1.
"""

from typing import Literal

from scorer.api.meta import ApiModel


class ServerSideApplyConfig(ApiModel):
    """Options of server-side apply."""

    force: bool = False
    """Whether to take over fields that another manager owns instead of reporting a conflict. Absent: false."""


class ApplyStrategy(ApiModel):
    """Rules for applying objects to a member cluster, including drift and objects with another owner."""

    type: Literal["ClientSideApply", "ServerSideApply", "ReportDiff"] = "ClientSideApply"
    """Method of writing objects. ClientSideApply: as a three-way merge. ServerSideApply: with field ownership on the
    member. ReportDiff: nothing is written, and differences are reported."""
    comparison_option: Literal["PartialComparison", "FullComparison"] = "PartialComparison"
    """Fields that are compared to detect drift and differences. PartialComparison: those that the hub's object has.
    FullComparison: all of them."""
    when_to_apply: Literal["Always", "IfNotDrifted"] = "Always"
    """Always: changes on the member are overwritten. IfNotDrifted: an object that was changed there is not written.
    """
    when_to_take_over: Literal["Always", "IfNoDiff", "Never"] = "Always"
    """Handling of an object that already exists on the member. Always: take it over. IfNoDiff: only if it equals the
    hub's. Never: do not change it."""
    allow_co_ownership: bool = False
    """Whether to apply objects that also have other owners, and keep their owner references. Absent: false, such an
    object is reported as failed."""
    server_side_apply_config: ServerSideApplyConfig | None = None
    """Options of server-side apply. Only with type ServerSideApply. Absent: conflicts are not forced."""
