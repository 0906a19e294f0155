"""Scenarios in short: what is given but the members is what most tests have in common."""

from datetime import timedelta

from scorer.api.conditions import find_condition
from scorer.api.meta import parse_time
from scorer.api.upgrade.run import ClusterUpgradeRun
from scorer.upgrade.simulation.hub import Start
from tests.vector_families.upgrade_runs import START, Scenario, duration

BEGIN = parse_time(START)


def member(name, group="g", **given):
    return {"name": name, "group": group, **given}


def daily(start, hours=4, **more):
    return {"schedule": {"daily": {"intervalDays": 1}}, "startTime": start, "durationHours": hours, **more}


def stage(name, *groups, **more):
    return {"name": name, "groups": [each if isinstance(each, dict) else {"name": each} for each in groups], **more}


def event(at, do, **more):
    return {"at": at, "do": do, **more}


def skip(at, kind, *names):
    return event(at, "skip", targets=[{"type": kind, "name": name} for name in names])


def prepared(*members, stages=(), events=(), start="0s", spec=None, **given):
    """Return a scenario that has not been played; without stages, the members go one by one.

    Args:
        members: Of the fleet.
        stages: Of the strategy.
        events: Besides the start.
        start: When the run starts; empty: it does not.
        spec: What the run's spec has besides.
        given: The rest of the scenario.
    """
    if stages:
        given["strategy"] = {"stages": list(stages)}
    begun = [event(start, "start")] if start else []
    scenario = Scenario({"members": list(members), "events": [*begun, *events], **given})
    return with_spec(scenario, spec) if spec else scenario


def with_spec(scenario, spec):
    """Return a scenario whose run has more in its spec."""
    document = scenario.hub.run.model_dump(mode="json", by_alias=True, exclude_none=True)
    document["spec"] |= spec
    scenario.hub.run = ClusterUpgradeRun.read(document)
    return scenario


def play(*members, **given):
    """Return a scenario that has been played."""
    scenario = prepared(*members, **given)
    scenario.play()
    return scenario


def seen(*members, **given):
    """Return what is seen of a scenario in the end."""
    return play(*members, **given).seen()


def started(*members, **given):
    """Return a hub whose run has just started, and the moment."""
    hub = prepared(*members, **given).hub
    return hub, hub.evaluate(BEGIN, [Start()])


def at(text):
    """Return an instant by the time since the beginning."""
    return BEGIN + duration(text)


def after(**lengths):
    return BEGIN + timedelta(**lengths)


def entry(run, name):
    """Return what the status of a run says about a member."""
    found = (each for stage in run.status.stages for group in stage.groups for each in group.members)
    return next(each for each in found if each.name == name)


def said(run, kind):
    """Return status and reason of a condition of a run, empty if it has none."""
    found = find_condition(run.status.conditions, kind)
    return "" if found is None else f"{found.status} {found.reason}"


def told(moments):
    """Return the reasons of all events, in order."""
    return [each.reason for moment in moments for each in moment.events]
