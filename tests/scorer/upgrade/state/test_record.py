"""The status of a run as it is stored."""

from datetime import timedelta

from scorer.api.meta import dump_json
from scorer.api.upgrade.fields import UpgradeError
from scorer.api.upgrade.run import UpgradeRunStatus
from scorer.upgrade.planning.plan import plan_of
from scorer.upgrade.simulation.back_end import AttemptOutcome, SimulatedBackEnd
from scorer.upgrade.simulation.hub import Start, simulate
from scorer.upgrade.state.record import status_document
from tests.scorer.upgrade.planning.planned import half_hour
from tests.scorer.upgrade.scenarios import BEGIN, at, daily, member, play, prepared, stage

LARGEST_MEMBER = 600


def test_what_is_stored_reads_as_what_it_was():
    gates = [{"type": "Approval", "displayName": "healthy?"}]
    played = play(
        *(member("a", outcomes=["fail"]), member("b", windows=[daily("10:00")]), member("c", version="1.31.2")),
        stages=[stage("s", {"name": "g", "maxAllowedFailures": 1}, maxAllowedFailures="50%", afterGates=gates)],
    )
    status = played.hub.run.status
    assert UpgradeRunStatus.read(status_document(status)) == status


def test_numbers_that_are_0_are_stored_but_for_those_of_members():
    run = prepared(member("a")).hub.evaluate(BEGIN).run
    document = status_document(run.status)
    assert (document["state"], document["counts"]["completed"], document["failureCount"]) == ("NotStarted", 0, 0)
    assert document["stages"][0]["groups"][0]["maxAllowedFailures"] == 0
    assert document["stages"][0]["groups"][0]["members"] == [{"name": "a", "state": "NotStarted"}]


def test_the_status_of_a_member_is_small_enough_for_a_thousand_of_them():
    name = "production-westeurope-payments"
    hub = prepared(member(name)).hub
    error = UpgradeError(code="NodesDoNotDrainInTime", message="y" * 1000)
    hub.back_end = SimulatedBackEnd(
        lambda name, attempt: AttemptOutcome(timedelta(minutes=30), fails=True, error=error)
    )
    hub.run = hub.run.model_copy(update={"metadata": hub.run.metadata.model_copy(update={"uid": "u" * 36})})
    hub.evaluate(BEGIN, [Start()])
    played = hub.evaluate(hub.next_instant(BEGIN))
    (found,) = status_document(played.run.status)["stages"][0]["groups"][0]["members"]
    assert (found["state"], found["reason"]) == ("Failed", "NodesDoNotDrainInTime")
    assert len(dump_json(found)) < LARGEST_MEMBER


def test_the_record_and_the_plan_of_a_thousand_members_fit_into_one_object():
    """Issue 17: under 700 kB, also with long names, half of them upgraded and the others waiting for a window."""
    names = [f"member-{'x' * 30}-{number:04}" for number in range(1000)]
    members = [
        member(name, windows=[daily("12:00")] if place % 2 else [], duration="1m") for place, name in enumerate(names)
    ]
    hub = half_hour(prepared(*members, stages=[stage("s", {"name": "g", "maxConcurrency": 50})]).hub)
    for _ in simulate(hub, BEGIN, [(BEGIN, Start())], at("2h")):
        pass
    assert (hub.run.status.counts.completed, hub.run.status.counts.pending) == (500, 500)
    plan = plan_of(hub.run, hub.facts(at("2h")), ())
    stored = status_document(hub.run.status.model_copy(update={"plan": plan}))
    assert len(dump_json(stored)) < 700_000
