"""What a run that is under way notices of changes around it."""

from dataclasses import replace

from scorer.staged_update.execution.engine import advance
from scorer.staged_update.views.forecast import initialize_run
from tests.scorer.staged_update.hub import make_hub, make_stage
from tests.scorer.staged_update.plans import config_map, facts, policy_snapshot, run


def test_a_policy_that_is_being_replaced_is_named_before_its_new_snapshot_is_there():
    """The old snapshot loses its label first, in a write of its own."""
    hub = facts(old=([config_map(level="1")],))
    initialised, _ = initialize_run(run(), hub)
    known = {"type": "Initialized", "status": "True"}
    under_way = {**initialised, "status": {**initialised["status"], "conditions": [known]}}
    old = policy_snapshot()
    old["metadata"]["labels"]["kubernetes-fleet.io/is-latest-snapshot"] = "false"
    found = advance(under_way, replace(hub, policy_snapshots=[old])).status
    said = {each["type"]: each.get("message", "") for each in found["conditions"]}
    assert said["Succeeded"] == (
        "policy-changed: the policy of the placement has changed: policy snapshot 0, which the run uses, is outdated"
    )


def test_a_record_that_names_a_cluster_twice_ends_the_run_and_not_the_pass():
    hub = make_hub(make_stage("one"), clusters={"a": "one", "b": "one"}).passed()
    status = hub.run["status"]
    (stage,) = status["stagesStatus"]
    doubled = {**stage, "clusters": [*stage["clusters"], stage["clusters"][0]]}
    ended = replace(hub, run={**hub.run, "status": {**status, "stagesStatus": [doubled]}}).settled()
    assert "the status of the run contradicts itself: it names cluster a twice" in ended.message("Succeeded")
