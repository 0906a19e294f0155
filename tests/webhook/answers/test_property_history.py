"""A day of what members report, a value per quarter of an hour."""

from datetime import UTC, datetime, timedelta

import pytest

from scorer.api.meta import format_time
from tests.webhook.controllers.world import make_member
from tests.webhook.services import Unread
from webhook.answers import property_history
from webhook.answers.property_history import STEP, STEPS, PropertyHistory
from webhook.kube.cache.changes import ObjectDelta
from webhook.kube.cache.informer import Cache

NOON = datetime(2026, 11, 24, 12, tzinfo=UTC)


class Watched:
    """A history whose clock and member a test moves."""

    def __init__(self):
        self.now = NOON
        self.history = PropertyHistory(Cache(Unread()), lambda: self.now)
        self.last = None

    def report(self, value, *, name="oslo", observed=None, key="nodes", **usage):
        at = {} if observed is None else {"observationTime": format_time(observed)}
        status = {"properties": {key: {"value": value, **at}}}
        if usage:
            status["resourceUsage"] = {"available": usage}
        member = {**make_member(name), "status": status}
        self.history._note(ObjectDelta(self.last, member))
        self.last = member

    def values(self, key="nodes", name="oslo"):
        series = {each["name"]: each["values"] for each in self.history.document(name)["series"]}
        return series.get(key)


@pytest.fixture
def watched():
    return Watched()


def test_the_last_value_of_a_step_counts(watched):
    watched.report("3")
    watched.report("5")
    values = watched.values()
    assert (len(values), values[-1], set(values[:-1])) == (STEPS, 5.0, {None})


def test_a_day_has_gaps_where_nothing_was_reported_and_forgets_what_is_older(watched):
    watched.report("1")
    watched.now += 3 * STEP
    watched.report("2")
    assert watched.values()[-4:] == [1.0, None, None, 2.0]
    watched.now += (STEPS - 1) * STEP
    assert watched.values()[0] == 2.0
    assert set(watched.values()[1:]) == {None}
    watched.now += STEP
    watched.report("7")
    assert [value for value in watched.values() if value is not None] == [7.0]


def test_a_value_counts_when_it_was_observed(watched):
    watched.report("1")
    watched.report("4", observed=NOON - 2 * STEP)
    assert watched.values()[-3:] == [4.0, None, 1.0]
    watched.report("9", observed=NOON - timedelta(days=2))
    assert 9.0 not in watched.values()
    watched.report("8", observed=NOON + timedelta(days=2))  # by the clock of a member that is wrong
    assert watched.values()[-1] == 8.0


@pytest.mark.parametrize("text", ["", "abc", "1 Gi", "nan", "1e999"])
def test_what_is_no_number_is_not_kept(watched, text):
    watched.report(text)
    assert watched.values() is None


def test_resources_are_kept_as_well(watched):
    watched.report("3", cpu="1500m", memory="2Gi")
    assert watched.values("available cpu")[-1] == 1.5
    assert watched.values("available memory")[-1] == 2 * 2**30


def test_a_member_that_leaves_is_forgotten_and_makes_room(watched, monkeypatch):
    monkeypatch.setattr(property_history, "MOST_SERIES", 1)
    watched.report("3")
    watched.report("4", key="cost")
    assert watched.values("cost") is None
    watched.history._note(ObjectDelta(watched.last, None))
    assert watched.values() is None
    watched.last = None
    watched.report("4", key="cost")
    assert watched.values("cost")[-1] == 4.0


def test_nobody_knows_an_unknown_member(watched):
    assert watched.history.document("nobody") == {
        "cluster": "nobody",
        "from": format_time(NOON - (STEPS - 1) * STEP),
        "stepSeconds": 900,
        "series": [],
    }
