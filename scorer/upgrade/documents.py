"""The status of a run as it is stored, and its plan.

Source: upgrade-runs.md 3.4.
"""

from scorer.api.meta import JsonObject
from scorer.api.upgrade.plan import UpgradePlan
from scorer.api.upgrade.run import UpgradeRunStatus


def status_document(status: UpgradeRunStatus) -> JsonObject:
    """Return a status for the API server.

    Members leave out what is empty: there may be a thousand of them in one object.
    """
    document = status.model_dump(mode="json", by_alias=True, exclude_none=True, exclude={"plan"})
    if status.plan is not None:
        document["plan"] = plan_document(status.plan)
    for stage in document["stages"]:
        for group in stage["groups"]:
            group["members"] = [_short(member) for member in group["members"]]
    return document


def _short(member: JsonObject) -> JsonObject:
    return {key: value for key, value in member.items() if value not in ("", 0)}


def plan_document(plan: UpgradePlan) -> JsonObject:
    """Return a plan for the API server, and for everybody else who reads it."""
    document = plan.model_dump(mode="json", by_alias=True, exclude_none=True)
    document["members"] = [_short(member) for member in document["members"]]
    return document
