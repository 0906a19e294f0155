"""What the first pass of a run takes from the hub, and what it refuses for good."""

from dataclasses import replace

import pytest

from scorer.staged_update.outcome import RunFailedError
from scorer.staged_update.plan.initialization import initialise
from tests.scorer.staged_update.hub import make_hub, make_run, make_stage, make_strategy


@pytest.mark.parametrize(
    ("index", "cause"),
    [
        pytest.param("0", "", id="first"),
        pytest.param("1", "", id="latest"),
        pytest.param("01", "resource-snapshot-not-found", id="leading-zero"),
        pytest.param("00", "resource-snapshot-not-found", id="two-zeros"),
        pytest.param("2", "resource-snapshot-not-found", id="none"),
        pytest.param("+1", "resource-index-invalid", id="sign"),
        pytest.param("-1", "resource-index-invalid", id="negative"),
        pytest.param("\u0660", "resource-index-invalid", id="another-script"),
    ],
)
def test_an_index_is_that_of_the_label(index, cause):
    """The reference lists the snapshots whose label has this very text."""
    hub = make_hub(make_stage("one"), clusters={"a": "one"}, run=make_run(index=index), snapshots=2)
    if not cause:
        assert initialise(hub.run, hub.facts).status["resourceSnapshotIndexUsed"] == index
        return
    with pytest.raises(RunFailedError) as raised:
        initialise(hub.run, hub.facts)
    assert raised.value.cause == cause
    assert index in str(raised.value)


def test_the_wait_time_of_an_approval_after_a_stage_is_ignored():
    """Admission refuses it; a strategy from before may have it. The reference drops it from the copy as well."""
    tasks = [{"type": "Approval", "waitTime": "1h"}, {"type": "TimedWait", "waitTime": "2h"}]
    strategy = make_strategy(make_stage("one", afterStageTasks=tasks), make_stage("two"))
    hub = make_hub(clusters={"a": "one", "b": "two"}, strategy=strategy).settled().reported("a").settled()
    assert hub.strategy == strategy
    (one, two) = hub.run["status"]["stagedUpdateStrategySnapshot"]["stages"]
    assert one == {**make_stage("one"), "afterStageTasks": [{"type": "Approval"}, tasks[1]]}
    assert two == make_stage("two")
    assert "approval r-after-one" in hub.message("Progressing")
    waited = hub.approved("r-after-one").settled()
    assert sorted(waited.given()) == ["a"]
    assert sorted(waited.later(hours=2).settled().given()) == ["a", "b"]


def test_a_record_of_an_earlier_release_may_have_that_wait_time():
    stage = make_stage("one", afterStageTasks=[{"type": "Approval"}])
    hub = make_hub(stage, clusters={"a": "one"}).settled()
    status = hub.run["status"]
    old = {**stage, "afterStageTasks": [{"type": "Approval", "waitTime": "1h"}]}
    run = {**hub.run, "status": {**status, "stagedUpdateStrategySnapshot": {"stages": [old]}}}
    done = replace(hub, run=run).reported("a").settled().approved("r-after-one").settled()
    assert done.said("Succeeded") == "True UpdateRunSucceeded"


def test_the_wait_time_of_an_approval_before_a_stage_is_refused():
    stage = make_stage("one", beforeStageTasks=[{"type": "Approval", "waitTime": "1h"}])
    hub = make_hub(stage, clusters={"a": "one"}).settled()
    assert "before-stage-tasks-invalid" in hub.message("Initialized")
