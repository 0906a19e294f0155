"""What a forecast says, and that it comes true."""

from dataclasses import replace
from datetime import timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scorer.upgrade.back_ends.interface import Inventory
from scorer.upgrade.planning.forecast import ForecastAssumptions, forecast
from scorer.upgrade.simulation.hub import Approve, Start, gates_of, simulate
from scorer.upgrade.state.facts import Estimate
from scorer.upgrade.state.record import OVER
from tests.scorer.upgrade.planning.planned import durations_of, half_hour
from tests.scorer.upgrade.random_runs import made, scenarios
from tests.scorer.upgrade.scenarios import BEGIN, after, at, daily, entry, member, prepared, stage
from tests.thoroughness import examples

PROMPT = ForecastAssumptions()


def approving(delay):
    """Return what approves every gate some time after it opens."""
    given = set()

    def react(moment):
        for place, gate in gates_of(moment.run.status):
            if gate.state == "Pending" and gate.type == "Approval" and gate.gate not in given:
                given.add(gate.gate)
                due = max(gate.start_time + delay, moment.now)
                yield due, Approve(place.stage, place.group, place.timing, place.index)

    return react


def outcome(run):
    """Return what has become of every member."""
    return [
        (each.name, each.state, each.reason, each.start_time if each.attempt else None, each.attempt)
        + ((each.completion_time,) if each.attempt else ())
        for stage in run.status.stages
        for group in stage.groups
        for each in group.members
    ]


@settings(max_examples=examples(100))
@given(scenarios(), st.integers(0, 12), st.sampled_from([0, 0, 25, 90]))
def test_a_run_without_failures_keeps_to_its_forecast(given, moments, minutes):
    """Forecast and outcome of 200 random runs are equal, from any moment of the run on.

    Upgrades do not fail; what a run refuses to upgrade, or waits for in vain, may halt it.
    """
    calm = {**given, "members": [{**each, "outcomes": []} for each in given["members"]], "events": []}
    calm["spec"] = {**given["spec"], "timeouts": {**given["spec"]["timeouts"], "memberUpgradeSeconds": 0}}
    scenario, delay = made(calm), timedelta(minutes=minutes)
    hub, react = scenario.hub, approving(delay)
    durations_of(hub, calm["members"])
    found, until = None, scenario.begin + timedelta(days=90)
    for number, moment in enumerate(simulate(hub, scenario.begin, [(scenario.begin, Start())], until, react)):
        if number == moments and moment.run.status.state not in ("Stopped", "Failed"):  # those would be started again
            found = forecast(moment.run, hub.facts(moment.now), ForecastAssumptions(approve_after=delay))
        if moment.run.status.state in OVER:
            break
    if found is not None and hub.run.status.start_time is not None:
        assert outcome(found.run) == outcome(hub.run)
        assert found.run.status.state == hub.run.status.state
        assert found.run.status.completion_time == hub.run.status.completion_time


def test_a_forecast_changes_nothing_of_what_it_is_made_from():
    hub = half_hour(prepared(member("a"), member("b")).hub)
    facts, run = hub.facts(BEGIN), hub.run
    members = dict(facts.members)
    assert forecast(run, facts, PROMPT).eta == at("1h")
    assert (facts.members, run) == (members, hub.run)
    assert not run.status.stages


def test_an_upgrade_under_way_is_followed_from_where_it_is():
    hub = half_hour(prepared(member("a"), member("b")).hub)
    hub.evaluate(BEGIN, [Start()])
    found = forecast(hub.run, hub.facts(at("20m")), PROMPT)
    assert [entry(found.run, name).completion_time for name in ("a", "b")] == [at("30m"), at("1h")]


def test_an_upgrade_that_takes_longer_than_expected_is_expected_to_go_on_for_a_quarter_of_its_time():
    hub = prepared(member("a", duration="10h")).hub
    hub.durations = {"a": Estimate(timedelta(minutes=30), timedelta(minutes=45))}
    hub.evaluate(BEGIN, [Start()])
    assert forecast(hub.run, hub.facts(at("40m")), PROMPT).eta == at("50m")


def test_a_report_that_is_older_than_the_upgrade_does_not_hold_it_up():
    hub = half_hour(prepared(member("a")).hub)
    hub.members["a"] = replace(
        hub.members["a"], inventory=replace(hub.members["a"].inventory, observed_at=after(hours=-1))
    )
    assert forecast(hub.run, hub.facts(BEGIN), PROMPT).eta == at("30m")


@pytest.mark.parametrize("kind", ["run", "cluster"])
def test_what_is_busy_is_free_again_after_the_time_of_an_upgrade(kind):
    hub = half_hour(prepared(member("a")).hub)
    if kind == "run":
        hub.busy = {"a": "another"}
    else:
        hub.members["a"] = replace(hub.members["a"], inventory=Inventory("1.30.4", busy="etcd backup"))
    assert forecast(hub.run, hub.facts(BEGIN), PROMPT).eta == at("1h")


def test_a_run_with_a_member_that_is_held_has_no_end():
    hub = half_hour(prepared(member("a"), member("b")).hub)
    hub.members["a"] = replace(hub.members["a"], upgrades_paused=True)
    found = forecast(hub.run, hub.facts(BEGIN), PROMPT)
    assert (found.eta, entry(found.run, "a").reason, entry(found.run, "b").state) == (None, "MemberOnHold", "Completed")


def test_a_failure_that_is_assumed_stops_the_run():
    hub = half_hour(prepared(member("a"), member("b")).hub)
    found = forecast(hub.run, hub.facts(BEGIN), ForecastAssumptions(failures={"a": timedelta(minutes=5)}))
    assert (found.run.status.state, entry(found.run, "b").state) == ("Failed", "NotStarted")


def test_windows_open_when_the_forecast_says():
    hub = half_hour(prepared(member("a", windows=[daily("12:00")]), stages=[stage("s", "g")]).hub)
    found = forecast(hub.run, hub.facts(BEGIN), PROMPT)
    assert entry(found.run, "a").start_time == at("12h")


def test_a_forecast_can_be_ended_at_every_set_of_windows_that_it_looks_at():
    """One instant may have thousands of them to look at."""
    members = [member(f"m{number}", "a", windows=[daily(f"12:{number:02}")]) for number in range(40)]
    hub = half_hour(prepared(*members, stages=[stage("one", "a")]).hub)
    calls = []

    def give_up():
        calls.append(None)
        if len(calls) > 20:
            raise TimeoutError

    with pytest.raises(TimeoutError):
        forecast(hub.run, hub.facts(BEGIN), PROMPT, pulse=give_up)
    instants = []
    assert forecast(hub.run, hub.facts(BEGIN), PROMPT, pulse=lambda: instants.append(None)).eta is not None
    assert len(instants) > 40 * 2
