"""The status of a run as it is stored.

Source: upgrade-runs.md 3.4.
"""

from scorer.api.meta import JsonObject
from scorer.api.upgrade.run import UpgradeRunStatus


def status_document(status: UpgradeRunStatus) -> JsonObject:
    """Return a status for the API server.

    Members leave out what is empty: there may be a thousand of them in one object.
    """
    document = status.model_dump(mode="json", by_alias=True, exclude_none=True)
    for stage in document["stages"]:
        for group in stage["groups"]:
            group["members"] = [_short(member) for member in group["members"]]
    return document


def _short(member: JsonObject) -> JsonObject:
    return {key: value for key, value in member.items() if value not in ("", 0)}
