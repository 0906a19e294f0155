"""Work conditions from manifest results."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from scorer.api.placement.work import WorkStatus
from scorer.rollout.object_size import OBJECT_SIZE_LIMIT, stored_size
from scorer.rollout.snapshots.resources import UNTHROTTLED, plan_resource_snapshots
from scorer.rollout.works.status import ManifestReason, work_status
from tests.builders.manifest_result import make_result

NOW = datetime(2026, 11, 20, 12, tzinfo=UTC)
LATER = NOW + timedelta(minutes=5)


def make_work(strategy="ClientSideApply", status=None):
    spec = {"applyStrategy": {"type": strategy}}
    return {"metadata": {"name": "w", "generation": 4}, "spec": spec, "status": status or {}}


def summary(status):
    return [(condition["type"], condition["status"], condition["reason"]) for condition in status["conditions"]]


APPLIED = ("Applied", "True", "AllManifestsApplied")


@pytest.mark.parametrize(
    ("results", "conditions"),
    [
        pytest.param([], [APPLIED, ("Available", "True", "AllManifestsAvailable")], id="empty-work"),
        pytest.param([make_result()], [APPLIED, ("Available", "True", "AllManifestsAvailable")], id="all-good"),
        pytest.param(
            [make_result(), make_result("b", available="NotTrackable")],
            [APPLIED, ("Available", "True", "WorkNotTrackable")],
            id="untrackable",
        ),
        pytest.param(
            [make_result(available="NotTrackable"), make_result("b", available="ManifestNotAvailableYet")],
            [APPLIED, ("Available", "False", "SomeManifestsAreNotAvailable")],
            id="one-not-available",
        ),
        pytest.param(
            [make_result(), make_result("b", ManifestReason.APPLY_FAILED)],
            [("Applied", "False", "SomeManifestsAreNotApplied")],
            id="one-not-applied",
        ),
        pytest.param(
            [make_result(), make_result("b", ManifestReason.APPLIED_WITH_FAILED_DRIFT_DETECTION, None)],
            [APPLIED, ("Available", "False", "SomeManifestsAreNotAvailable")],
            id="failed-drift-detection-counts-as-applied",
        ),
    ],
)
def test_conditions_of_the_work(results, conditions):
    status = work_status(make_work(), results, NOW)
    assert summary(status) == conditions
    WorkStatus.read(status)


@pytest.mark.parametrize(
    ("reason", "status"),
    [
        pytest.param(ManifestReason.NO_DIFF_FOUND, "True", id="none"),
        pytest.param(ManifestReason.FOUND_DIFF_DEGRADED, "True", id="degraded-mode-counts"),
        pytest.param(ManifestReason.FAILED_TO_TAKE_OVER, "False", id="take-over"),
    ],
)
def test_report_diff_replaces_applied_and_available(reason, status):
    before = work_status(make_work(), [make_result()], NOW)
    found = work_status(make_work("ReportDiff", before), [make_result(reason=reason)], NOW)
    assert [(condition["type"], condition["status"]) for condition in found["conditions"]] == [("DiffReported", status)]


@pytest.mark.parametrize(
    ("reason", "message"),
    [
        pytest.param(ManifestReason.FAILED_TO_REPORT_DIFF, "refused", id="comparison"),
        pytest.param(ManifestReason.FAILED_TO_TAKE_OVER, "FailedToTakeOver: refused", id="take-over"),
        pytest.param(ManifestReason.DECODING_ERRED, "DecodingErred: refused", id="decoding"),
        pytest.param(ManifestReason.DUPLICATED, "Duplicated: refused", id="duplicate"),
        pytest.param(ManifestReason.FOUND_GENERATE_NAME, "FoundGenerateName: refused", id="generate-name"),
        pytest.param(ManifestReason.FAILED_TO_FIND, "FailedToFindObjInMemberCluster: refused", id="find"),
        pytest.param(ManifestReason.REFUSED, "RefusedByAgent: refused", id="agent"),
    ],
)
def test_whatever_prevents_a_comparison_is_the_message_of_one_reason(reason, message):
    status = work_status(make_work("ReportDiff"), [replace(make_result(reason=reason), message="refused")], NOW)
    (condition,) = status["manifestConditions"][0]["conditions"]
    assert (condition["type"], condition["status"]) == ("DiffReported", "False")
    assert (condition["reason"], condition["message"]) == ("FailedToReportDiff", message)


def test_times_are_kept_until_a_status_changes():
    drift = ({"path": "/data/a", "valueInMember": "1", "valueInHub": "2"},)
    first = work_status(make_work(), [make_result(drifts=drift), make_result("b")], NOW)
    second = work_status(make_work(status=first), [make_result("b"), make_result(drifts=drift)], LATER)
    assert {condition["lastTransitionTime"] for condition in second["conditions"]} == {"2026-11-20T12:00:00Z"}
    details = second["manifestConditions"][1]["driftDetails"]
    assert details["firstDriftedObservedTime"] == "2026-11-20T12:00:00Z"
    assert details["observationTime"] == "2026-11-20T12:05:00Z"
    gone = work_status(make_work(status=second), [make_result("b"), make_result()], LATER)
    again = work_status(make_work(status=gone), [make_result("b"), make_result(drifts=drift)], LATER)
    assert again["manifestConditions"][1]["driftDetails"]["firstDriftedObservedTime"] == "2026-11-20T12:05:00Z"
    WorkStatus.read(second)


def test_a_second_pass_at_the_same_moment_changes_nothing():
    results = [make_result(diffs=({"path": "/"},)), make_result("b", ManifestReason.APPLY_FAILED)]
    first = work_status(make_work(), results, NOW)
    assert work_status(make_work(status=first), results, NOW) == first


def test_an_oversized_status_is_trimmed():
    long = "x" * 20_000
    drifts = tuple({"path": f"/data/{at}", "valueInMember": long, "valueInHub": ""} for at in range(120))
    results = [make_result(drifts=drifts, observed_status={"a": long})]
    status = work_status(make_work(), results, NOW)
    assert summary(status)[-1] == ("StatusTrimmed", "True", "Oversized")
    entry = status["manifestConditions"][0]
    assert entry["driftDetails"]["observedDrifts"] == [
        {"path": "/data/0 and 99 more", "valueInMember": "(omitted)", "valueInHub": "(omitted)"}
    ]
    assert "backReportedStatus" not in entry


def test_sizes_count_as_in_etcd():
    """Diffs of HTML take six times the bytes there."""
    drifts = ({"path": "/data/page", "valueInMember": "<" * 300_000, "valueInHub": ""},)
    assert summary(work_status(make_work(), [make_result(drifts=drifts)], NOW))[-1][0] == "StatusTrimmed"


@pytest.mark.parametrize("reason", [ManifestReason.APPLIED, ManifestReason.APPLY_FAILED], ids=["applied", "failed"])
def test_the_status_of_many_small_objects_fits_beside_them(reason):
    """A status has more bytes for an object than a small object has itself."""
    objects = [
        {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": f"settings-{number}", "namespace": "shop"}}
        for number in range(8_000)
    ]
    placement = {"apiVersion": "x/v1", "kind": "K", "metadata": {"name": "shop", "uid": "u"}, "spec": {}}
    plan = plan_resource_snapshots(placement, [], objects, NOW, UNTHROTTLED)
    contents = [write.document["spec"]["selectedResources"] for write in plan.writes]
    assert sum(map(len, contents)) == len(objects)
    for manifests in contents:
        work = {**make_work(), "spec": {"workload": {"manifests": manifests}}}
        results = [make_result(manifest["metadata"]["name"], reason) for manifest in manifests]
        status = work_status(work, [replace(result, message="m" * 200) for result in results], NOW)
        assert stored_size({**work, "status": status}) <= OBJECT_SIZE_LIMIT
