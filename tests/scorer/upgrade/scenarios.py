"""Scenarios in short: what is given but the members is what most tests have in common."""

from tests.vector_families.upgrade_runs import Scenario


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


def play(*members, stages=(), events=(), start="0s", **given):
    """Return a scenario that has been played; without stages, the members go one by one."""
    if stages:
        given["strategy"] = {"stages": list(stages)}
    begun = [event(start, "start")] if start else []
    scenario = Scenario({"members": list(members), "events": [*begun, *events], **given})
    scenario.play()
    return scenario


def seen(*members, **given):
    """Return what is seen of a scenario in the end."""
    return play(*members, **given).seen()
