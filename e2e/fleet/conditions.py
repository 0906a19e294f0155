"""The conditions of a rollout that has come to its end, written down from the tables of the specification.

A condition is a row here: type, status, reason, observedGeneration; lists of rows are compared as lists, so that order
and absence count. Messages are not compared, but each must have one, and each must know when it changed last.

Source: docs/specifications/rollout.md 5.3, 12, 13, 15 and 16.
"""

from collections.abc import Iterable, Sequence

from e2e.controlplane.cluster import JsonObject
from e2e.fleet.objects import name_of
from scorer.api.names import ADVISORIES

Row = tuple[str, str, str, int]


def rows(conditions: Iterable[JsonObject] | None) -> list[Row]:
    """Conditions as rows, in their order."""
    made: list[Row] = []
    for condition in conditions or ():
        assert condition["lastTransitionTime"], condition
        assert "message" in condition, condition
        made.append((condition["type"], condition["status"], condition["reason"], condition["observedGeneration"]))
    return made


def rows_of(document: JsonObject) -> list[Row]:
    """Return the conditions of an object as rows, without the warnings that admission gave as well."""
    found = rows((document.get("status") or {}).get("conditions"))
    return [row for row in found if row[0] != ADVISORIES]


def placement_rows(
    document: JsonObject, *, overridden: bool = False, report_diff: bool = False, fulfilled: bool = True
) -> list[Row]:
    """What a placement says whose rollout is complete on all clusters that were found (rollout.md 16.1, 16.2)."""
    scheduled = ("True", "SchedulingPolicyFulfilled") if fulfilled else ("False", "SchedulingPolicyUnfulfilled")
    reasons = [
        ("Scheduled", *scheduled),
        ("RolloutStarted", "True", "RolloutStarted"),
        ("Overridden", "True", "OverriddenSucceeded" if overridden else "NoOverrideSpecified"),
        ("WorkSynchronized", "True", "WorkSynchronized"),
    ]
    if report_diff:
        reasons.append(("DiffReported", "True", "DiffReportingCompleted"))
    else:
        reasons += [("Applied", "True", "ApplySucceeded"), ("Available", "True", "ResourceAvailable")]
    prefix, generation = document["kind"], document["metadata"]["generation"]
    return [(prefix + word, status, reason, generation) for word, status, reason in reasons]


def binding_rows(
    generation: int, *, overridden: bool = False, report_diff: bool = False, trackable: bool = True
) -> list[Row]:
    """What a binding says that is on its resources (rollout.md 5.3)."""
    reasons = [
        ("RolloutStarted", "RolloutStarted"),
        ("Overridden", "OverriddenSucceeded" if overridden else "NoOverrideSpecified"),
        ("WorkSynchronized", "AllWorkSynced"),
    ]
    if report_diff:
        reasons.append(("DiffReported", "AllWorkHaveDiffReported"))
    else:
        available = "AllWorkAreAvailable" if trackable else "NotAllWorkAreAvailabilityTrackable"
        reasons += [("Applied", "AllWorkHaveBeenApplied"), ("Available", available)]
    return [(word, "True", reason, generation) for word, reason in reasons]


def cluster_rows(generation: int, **how: bool) -> list[Row]:
    """What a placement says of one cluster: that it was scheduled, and what its binding says (rollout.md 16.4)."""
    return [("Scheduled", "True", "Scheduled", generation), *binding_rows(generation, **how)]


def work_rows(generation: int, *, report_diff: bool = False, trackable: bool = True) -> list[Row]:
    """What a Work says that is applied and available (rollout.md 13)."""
    if report_diff:
        return [("DiffReported", "True", "AllManifestsDiffReported", generation)]
    available = "AllManifestsAvailable" if trackable else "WorkNotTrackable"
    return [
        ("Applied", "True", "AllManifestsApplied", generation),
        ("Available", "True", available, generation),
    ]


def check_rows(what: str, found: Sequence[Row], wanted: Sequence[Row]) -> str:
    """Say how *found* differs from *wanted*; empty when it does not."""
    if list(found) == list(wanted):
        return ""
    return f"{what}: conditions are {list(found)}, not {list(wanted)}"


def check_policy_snapshot(document: JsonObject, placement: JsonObject, *, fulfilled: bool = True) -> str:
    """Say how the verdict of the scheduler differs from the table (rollout.md 4)."""
    status, reason = ("True", "SchedulingPolicyFulfilled") if fulfilled else ("False", "SchedulingPolicyUnfulfilled")
    wanted = [("Scheduled", status, reason, document["metadata"]["generation"])]
    observed = (document.get("status") or {}).get("observedCRPGeneration")
    if observed != placement["metadata"]["generation"]:
        return f"{name_of(document)}: observedCRPGeneration is {observed}, not {placement['metadata']['generation']}"
    return check_rows(name_of(document), rows_of(document), wanted)
