"""Members that refuse everything, as their MemberCluster reports it."""

from datetime import UTC, datetime

import pytest

from scorer.membership.refused_content import REFUSALS, content_condition
from scorer.rollout.works.status import ManifestReason
from tests.builders.condition import condition

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
BEFORE = [condition("ContentApplied", "False", "AllContentRefused")]


def work(*reasons, **metadata):
    """Make a Work whose manifests have these outcomes."""
    entries = [
        {"conditions": [condition("Applied", "True" if reason == "Applied" else "False", reason, f"because {reason}")]}
        for reason in reasons
    ]
    return {"metadata": {"name": "w", **metadata}, "status": {"manifestConditions": entries}}


def judged(*works, old=()):
    found = content_condition(works, old, 3, NOW)
    return found and (found["status"], found["reason"], found["message"])


def test_a_member_without_any_applied_object_refuses_everything():
    status, reason, message = judged(work("ManifestApplyFailed", "PreparingToProcess"), work("RefusedByAgent"))
    assert (status, reason) == ("False", "AllContentRefused")
    assert message == (
        "refuses all content: 0 of 3 objects in 2 Works could be applied. One of the errors: "
        "because ManifestApplyFailed"
    )


@pytest.mark.parametrize(
    "works",
    [
        pytest.param([], id="no-content"),
        pytest.param([work()], id="not-processed-yet"),
        pytest.param([work("PreparingToProcess")], id="in-progress"),
        pytest.param([work("ManifestApplyFailed", "Applied")], id="some-objects"),
        pytest.param([work("ManifestApplyFailed"), work("Applied")], id="another-work"),
        pytest.param([work("ManifestApplyFailed"), work("FoundDrifts")], id="drift-is-no-refusal"),
        pytest.param([work("NotTakenOver")], id="of-another-owner"),
        pytest.param([work("ManifestApplyFailed", deletionTimestamp="2026-03-01T12:00:00Z")], id="being-deleted"),
    ],
)
def test_every_other_member_has_no_condition_or_a_true_one(works):
    assert judged(*works) is None
    assert judged(*works, old=BEFORE)[:2] == ("True", "ContentAccepted")


def test_refusals_are_reasons_that_agents_report():
    assert {*ManifestReason} >= REFUSALS
