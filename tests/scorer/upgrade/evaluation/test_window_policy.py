"""What the window options of a run change."""

from datetime import timedelta

import pytest

from scorer.upgrade.simulation.hub import Start
from scorer.upgrade.state.facts import Estimate
from tests.scorer.upgrade.scenarios import BEGIN, at, daily, entry, member, prepared


def policy(**options):
    return {"windowPolicy": options}


def estimated(scenario, **minutes):
    for name, (p50, p90) in minutes.items():
        scenario.hub.durations[name] = Estimate(timedelta(minutes=p50), timedelta(minutes=p90))
    return scenario


def order(scenario):
    scenario.play()
    return scenario.seen()["startOrder"]


@pytest.mark.parametrize(
    ("tie_break", "names"),
    [
        pytest.param("Name", ["long", "short"], id="name"),
        pytest.param("ClosingSoonest", ["short", "long"], id="closing"),
    ],
)
def test_the_window_that_closes_first_goes_first_where_the_run_says_so(tie_break, names):
    members = member("long", windows=[daily("00:00", 8)]), member("short", windows=[daily("00:00", 2)])
    assert order(prepared(*members, spec=policy(tieBreak=tie_break))) == names


@pytest.mark.parametrize(
    ("fit", "estimate", "start"),
    [
        pytest.param(False, (60, 200), "0s", id="nobody-asks"),
        pytest.param(True, (60, 119), "0s", id="it-fits"),
        pytest.param(True, (60, 120), "0s", id="it-fits-exactly"),
        pytest.param(True, (60, 121), "20h", id="it-does-not-fit"),
        pytest.param(True, (300, 500), "0s", id="it-fits-into-no-window"),
        pytest.param(True, None, "0s", id="nobody-knows"),
    ],
)
def test_an_upgrade_starts_only_where_its_window_stays_open_long_enough(fit, estimate, start):
    """The window is open for another two of its four hours, and again at 20:00 in another one of five."""
    windows = [daily("22:00", 4), daily("20:00", 2)]
    scenario = prepared(member("a", duration="1h", windows=windows), spec=policy(requireFit=fit))
    scenario = estimated(scenario, a=estimate) if estimate else scenario
    scenario.play()
    assert scenario.seen()["times"]["a"][0] == start


def test_what_does_not_fit_says_when_the_next_window_opens():
    scenario = prepared(member("a", windows=[daily("00:00", 2)]), spec=policy(requireFit=True))
    hub = estimated(scenario, a=(90, 150)).hub
    found = entry(hub.evaluate(BEGIN, [Start()]).run, "a")
    assert (found.reason, found.next_window_open) == ("MaintenanceWindowClosed", at("1d"))
    assert "150 minutes" in found.message


@pytest.mark.parametrize(
    ("reservation", "p50", "names"),
    [
        pytest.param("None", 180, ["free", "soon"], id="nothing-is-kept-free"),
        pytest.param("Strict", 180, ["soon", "free"], id="kept-for-the-window"),
        pytest.param("Strict", 120, ["free", "soon"], id="done-before-the-window-opens"),
    ],
)
def test_the_last_slot_is_kept_for_a_window_about_to_open(reservation, p50, names):
    members = member("free", duration="3h"), member("soon", windows=[daily("02:00")])
    scenario = prepared(*members, spec=policy(reservation=reservation))
    assert order(estimated(scenario, free=(p50, 240))) == names


def test_a_slot_besides_the_last_is_not_kept():
    members = member("free", duration="3h"), member("soon", windows=[daily("02:00")])
    group = {"name": "g", "maxConcurrency": 2}
    scenario = prepared(
        *members, strategy={"stages": [{"name": "s", "groups": [group]}]}, spec=policy(reservation="Strict")
    )
    assert order(estimated(scenario, free=(180, 240))) == ["free", "soon"]
