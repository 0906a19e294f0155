"""Hubs whose upgrades are expected to take as long as they do."""

from datetime import timedelta

from scorer.upgrade.state.facts import Estimate
from tests.vector_families.upgrade_runs import duration


def durations_of(hub, members):
    """Let a hub know how long the upgrades of its members take; *members* are those of a scenario."""
    for each in members:
        length = duration(each.get("duration", "30m"))
        hub.durations[each["name"]] = Estimate(length, length)
    return hub


def half_hour(hub):
    """Let a hub know that every upgrade takes half an hour, or three quarters of one."""
    hub.durations = dict.fromkeys(hub.members, Estimate(timedelta(minutes=30), timedelta(minutes=45)))
    return hub
