"""Predicates on bindings and what is written on them."""

from datetime import UTC, datetime, timedelta

import pytest

from scorer.rollout.apply_strategy import effective_apply_strategy, plan_apply_strategy
from scorer.rollout.bindings import (
    BindingView,
    Overrides,
    bound,
    has_diff_reported,
    is_failed,
    readiness,
    rollout_started_status,
    views,
)

NOW = datetime(2026, 11, 20, 12, tzinfo=UTC)
MINUTE = timedelta(seconds=60)


def make_binding(*conditions, name="b", state="Bound", observed=5, **spec):
    return {
        "metadata": {"name": name, "generation": 5, "resourceVersion": "9"},
        "spec": {"state": state, "targetCluster": "a", "clusterDecision": {}, **spec},
        "status": {
            "conditions": [
                {
                    "type": kind,
                    "status": status,
                    "reason": reason,
                    "observedGeneration": observed,
                    "lastTransitionTime": since,
                }
                for kind, status, reason, since in conditions
            ]
        },
    }


def ago(seconds):
    return (NOW - timedelta(seconds=seconds)).isoformat()


@pytest.mark.parametrize(
    ("kind", "status", "reason", "failed"),
    [
        pytest.param("Applied", "False", "ApplyInProgress", True, id="in-progress-is-literal"),
        pytest.param("Applied", "False", "ApplyPending", False, id="pending"),
        pytest.param("Available", "False", "ResourceNotAvailableYet", False, id="not-yet"),
        pytest.param("Available", "False", "NotAllWorkAreAvailable", True, id="not-available"),
        pytest.param("Overridden", "False", "", True, id="no-reason"),
        pytest.param("Available", "Unknown", "x", False, id="unknown"),
        pytest.param("DiffReported", "False", "x", False, id="diff-takes-no-part"),
        pytest.param("RolloutStarted", "False", "x", False, id="rollout-takes-no-part"),
    ],
)
def test_failed(kind, status, reason, failed):
    document = make_binding((kind, status, reason, ago(1)))
    assert is_failed(BindingView.of(document)) is failed
    stale = make_binding((kind, status, reason, ago(1)), observed=4)
    assert not is_failed(BindingView.of(stale))


@pytest.mark.parametrize(
    ("kind", "status", "reason", "age", "answer"),
    [
        pytest.param("DiffReported", "True", "", 0, (True, timedelta()), id="diff-reported"),
        pytest.param("DiffReported", "False", "", 0, (False, None), id="diff-not-reported"),
        pytest.param("Available", "True", "AllWorkAreAvailable", 0, (True, timedelta()), id="available"),
        pytest.param("Available", "True", "WorkNotTrackable", 20, (False, timedelta(seconds=40)), id="young"),
        pytest.param(
            "Available", "True", "NotAllWorkAreAvailabilityTrackable", 60, (False, timedelta()), id="on-the-dot"
        ),
        pytest.param(
            "Available", "True", "NotAllWorkAreAvailabilityTrackable", 61, (True, timedelta()), id="old-enough"
        ),
        pytest.param("Available", "False", "x", 100, (False, None), id="not-available"),
        pytest.param("Applied", "True", "x", 100, (False, None), id="applied-is-not-enough"),
        pytest.param("Available", "True", "WorkNotTrackable", -60, (False, 2 * MINUTE), id="of-a-clock-that-is-ahead"),
        pytest.param("Available", "True", "WorkNotTrackable", -61, (True, timedelta()), id="of-a-clock-that-was-wrong"),
    ],
)
def test_readiness(kind, status, reason, age, answer):
    view = BindingView.of(make_binding((kind, status, reason, ago(age))))
    assert readiness(view, NOW, MINUTE) == answer
    assert has_diff_reported(view) is (kind == "DiffReported")


def test_binding_writes_the_state_the_snapshot_and_both_lists():
    document = make_binding(state="Scheduled", resourceOverrideSnapshots=[{"name": "old-0", "namespace": "x"}])
    overrides = Overrides(("cro-1",), (("shop", "ro-2"),))
    made = bound(document, "shop-4-snapshot", overrides)
    view = BindingView.of(made)
    assert (view.state, view.snapshot, view.overrides) == ("Bound", "shop-4-snapshot", overrides)
    assert document["spec"]["state"] == "Scheduled"
    assert (
        bound(made, "shop-4-snapshot", Overrides())["spec"]
        .keys()
        .isdisjoint({"resourceOverrideSnapshots", "clusterResourceOverrideSnapshots"})
    )


def test_why_a_binding_is_held_back_is_renewed_and_why_it_has_started_is_not():
    document = make_binding(("Applied", "True", "AllWorkHaveBeenApplied", ago(100)))
    status = rollout_started_status(document, is_started=False, message="held back", now=NOW)
    assert status is not None
    assert [condition["type"] for condition in status["conditions"]] == ["RolloutStarted", "Applied"]
    after = {**document, "status": status}
    assert rollout_started_status(after, is_started=False, message="held back", now=NOW + MINUTE) is None
    renewed = rollout_started_status(after, is_started=False, message="other words", now=NOW + MINUTE)
    assert renewed is not None
    assert renewed["conditions"][0] == status["conditions"][0] | {"message": "other words"}
    started = rollout_started_status(after, is_started=True, message="", now=NOW)
    assert started is not None
    assert rollout_started_status({**after, "status": started}, is_started=True, message="more", now=NOW) is None


def test_an_apply_strategy_that_only_spells_out_defaults_is_not_pushed():
    same = make_binding(name="same", applyStrategy=effective_apply_strategy(None))
    bare = make_binding(name="bare")
    other = make_binding(name="other", state="Scheduled", applyStrategy={"type": "ServerSideApply"})
    going = make_binding(name="going", applyStrategy={"type": "ReportDiff"})
    going["metadata"]["deletionTimestamp"] = ago(1)
    written = plan_apply_strategy(None, [same, bare, other, going])
    assert [document["metadata"]["name"] for document in written] == ["other"]
    assert plan_apply_strategy(None, [same, bare, *written]) == []
    forced = plan_apply_strategy({"applyStrategy": {"type": "ServerSideApply"}}, [bare])
    assert forced[0]["spec"]["applyStrategy"]["serverSideApplyConfig"] == {"force": False}
    assert [view.name for view in views([same, bare])] == ["bare", "same"]


def test_an_unknown_state_is_refused():
    with pytest.raises(ValueError, match="Sleeping"):
        BindingView.of(make_binding(state="Sleeping"))


@pytest.mark.parametrize(
    ("conditions", "superseded", "failed"),
    [
        pytest.param((), "shop-1-snapshot", True, id="its-works-are-never-made"),
        pytest.param((("RolloutStarted", "True", "RolloutStarted", ago(1)),), "shop-1-snapshot", True, id="started"),
        pytest.param(
            (("WorkSynchronized", "True", "AllWorkSynced", ago(1)),), "shop-1-snapshot", False, id="made-before"
        ),
        pytest.param((), "shop-0-snapshot", False, id="another-group"),
    ],
)
def test_a_binding_on_a_superseded_incomplete_group_has_failed(conditions, superseded, failed):
    (view,) = views([make_binding(*conditions, resourceSnapshotName="shop-1-snapshot")], superseded_names={superseded})
    assert is_failed(view) is failed
