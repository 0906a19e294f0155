"""How long a staged update run still waits, read off what it has recorded."""

from datetime import UTC, datetime, timedelta

import pytest

from scorer.api.staged_update import ClusterStagedUpdateRun
from scorer.member_gate.answer import MemberReason
from scorer.staged_update.turn import staged_turn

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)


def said(kind: str, status: str = "True") -> dict[str, str]:
    return {"type": kind, "status": status, "lastTransitionTime": "2026-03-01T11:59:00Z"}


def make_run(wait: str) -> ClusterStagedUpdateRun:
    """A run whose first stage is done with its only cluster, and waits."""
    first = {
        "stageName": "one",
        "clusters": [{"clusterName": "a", "conditions": [said("Succeeded")]}],
        "conditions": [said("Progressing", "False")],
        "afterStageTaskStatus": [{"type": "TimedWait"}],
    }
    stages = [{"name": "one", "afterStageTasks": [{"type": "TimedWait", "waitTime": wait}]}, {"name": "two"}]
    return ClusterStagedUpdateRun.read(
        {
            "metadata": {"name": "spring"},
            "spec": {"placementName": "p", "stagedRolloutStrategyName": "s", "state": "Run"},
            "status": {
                "conditions": [said("Initialized")],
                "stagesStatus": [first, {"stageName": "two", "clusters": [{"clusterName": "b"}]}],
                "stagedUpdateStrategySnapshot": {"stages": stages},
            },
        }
    )


@pytest.mark.parametrize(
    ("text", "left"),
    [
        pytest.param("10m", timedelta(minutes=9), id="some-time"),
        pytest.param("30s", timedelta(seconds=1), id="about-to-end"),
        pytest.param("2562048h", timedelta(hours=2562047), id="longer-than-can-be-counted"),
        pytest.param("9" * 50 + "h", timedelta(hours=2562047), id="much-longer"),
        pytest.param("2562047h", timedelta(hours=2562047) - timedelta(minutes=1), id="as-long-as-can-be-counted"),
    ],
)
def test_a_wait_that_is_too_long_to_be_counted_is_no_short_one(text, left):
    answer = staged_turn(make_run(text), "b", NOW)
    assert (answer.reason, answer.retry_after) == (MemberReason.WAIT_TIME, left)
