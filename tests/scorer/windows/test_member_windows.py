"""Which maintenance windows a member has, and what it says while they are closed."""

from datetime import UTC, datetime

import pytest

from scorer.api.kinds import MAINTENANCE_WINDOW
from scorer.api.names import UPGRADE_WINDOWS
from scorer.windows.maintenance import window_state
from scorer.windows.member_windows import (
    OF_UPDATES,
    ClosedWindow,
    MemberWindows,
    WindowDefinition,
    closed_window,
    named_windows,
    windows_of,
)

NOW = datetime(2026, 11, 23, 12, tzinfo=UTC)


def definition(name, hour=1, **spec):
    """Return a window that is open from that hour on, for four hours a day."""
    fields = {"schedule": {"daily": {"intervalDays": 1}}, "startTime": f"{hour:02}:00", **spec}
    return {
        "apiVersion": MAINTENANCE_WINDOW.api_version,
        "kind": MAINTENANCE_WINDOW.kind,
        "metadata": {"name": name},
        "spec": fields,
    }


def member(named="", **labels):
    return {"metadata": {"name": "eu-1", "labels": labels, "annotations": {UPGRADE_WINDOWS: named}}}


def known(*documents):
    return {each.name: each for each in map(WindowDefinition.of, documents)}


def applying(document, *documents):
    definitions = known(*documents)
    selecting = [each for each in definitions.values() if each.selector is not None]
    return windows_of(document, definitions, OF_UPDATES, selecting)


def closed(named, *documents):
    """Return what a member says that names these windows."""
    definitions, windows = known(*documents), applying(member(named), *documents)
    readable = [found for name in windows.names if (found := definitions[name].window) is not None]
    return closed_window(windows, definitions, window_state(readable, NOW))


PROD = {"memberSelector": {"matchLabels": {"env": "prod"}}}


def test_a_member_has_the_windows_it_names_and_those_that_select_it():
    documents = definition("nights"), definition("prod", **PROD), definition("other")
    assert applying(member("nights"), *documents) == MemberWindows(("nights",))
    assert applying(member("nights", env="prod"), *documents) == MemberWindows(("nights", "prod"))
    assert applying(member("prod", env="prod"), *documents) == MemberWindows(("prod",))
    assert applying(member(env="test"), *documents) == MemberWindows()


def test_windows_of_upgrades_do_not_concern_updates():
    documents = definition("images", target="NodeImage"), definition("versions", target="KubernetesVersion", **PROD)
    assert applying(member("images", env="prod"), *documents) == MemberWindows()


def test_an_empty_selector_selects_every_member_and_an_absent_one_none():
    assert applying(member(), definition("all", memberSelector={}), definition("none")) == MemberWindows(("all",))


@pytest.mark.parametrize(
    ("text", "names"),
    [
        pytest.param("", (), id="empty"),
        pytest.param("a, b,a,", ("a", "b"), id="spaces-repeats-and-a-comma-at-the-end"),
        pytest.param("a,Not A Name", (), id="one-is-no-name"),
        pytest.param("a" * 51, (), id="too-long"),
        pytest.param(",".join(f"w{place}" for place in range(20)), tuple(f"w{place}" for place in range(20)), id="20"),
        pytest.param(",".join(f"w{place}" for place in range(21)), (), id="21"),
    ],
)
def test_a_list_of_windows_that_cannot_be_read_counts_as_absent(text, names):
    assert named_windows(member(text)) == names


def test_a_member_without_windows_is_not_closed():
    assert closed("", definition("nights")) is None


def test_a_member_is_open_while_one_of_its_windows_is():
    assert closed("nights,noon,missing", definition("nights"), definition("noon", 12)) is None


def test_a_closed_member_says_which_windows_it_has_and_when_the_first_opens():
    opens = datetime(2026, 11, 24, 1, tzinfo=UTC)
    assert closed("nights", definition("nights")) == ClosedWindow(
        "maintenance window nights is closed until 2026-11-24T01:00:00Z", opens
    )
    several = [definition(name, hour) for hour, name in enumerate("abcd", 1)]
    assert closed("a,b,c,d", *several) == ClosedWindow(
        "maintenance windows a, b, c and 1 more are closed until 2026-11-24T01:00:00Z", opens
    )


def test_a_window_that_does_not_open_within_the_horizon_says_so():
    never = definition("later", startDate="2030-01-01")
    assert closed("later", never) == ClosedWindow("maintenance window later is closed for the next 800 days")


def test_a_window_that_does_not_exist_is_closed():
    assert closed("nihgts", definition("nights")) == ClosedWindow("maintenance window nihgts does not exist")
    assert closed("nights,x,y", definition("nights")) == ClosedWindow(
        "maintenance window nights is closed until 2026-11-24T01:00:00Z; maintenance windows x, y do not exist",
        datetime(2026, 11, 24, 1, tzinfo=UTC),
    )


@pytest.mark.parametrize(
    ("spec", "error"),
    [
        ({"startTime": "25:00"}, "spec.startTime: '25:00' is not a time of day such as 22:00"),
        ({"durationHours": 0}, "spec.durationHours: Input should be greater than or equal to 1"),
        ({"schedule": 3}, "spec.schedule: Input should be an object"),
        (
            {"memberSelector": {"matchExpressions": [{"key": "env", "operator": "Is"}]}},
            "spec.memberSelector: operator 'Is' must be In, NotIn, Exists or DoesNotExist",
        ),
    ],
)
def test_a_window_that_cannot_be_read_is_closed_and_says_why(spec, error):
    found = closed("broken", definition("broken", **spec))
    assert found == ClosedWindow(f"maintenance window broken cannot be read: {error}")


def test_a_window_that_cannot_be_read_still_selects_its_members():
    broken = definition("broken", startTime="25:00", **PROD)
    assert applying(member(env="prod"), broken) == MemberWindows(("broken",))
    unknown = definition("broken", target="Nodes", **PROD)
    assert applying(member(env="prod"), unknown) == MemberWindows(("broken",))
    worse = definition("broken", memberSelector={"matchLabels": ["env"]})
    assert applying(member(env="prod"), worse) == MemberWindows()
