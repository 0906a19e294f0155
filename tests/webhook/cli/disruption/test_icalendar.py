"""The calendar for calendar programs, read back as RFC 5545 has it."""

import re
from datetime import UTC, datetime, timedelta

import pytest

from scorer.api.node_pool import Budget
from scorer.node_budgets.budgets import NodeCounts
from scorer.node_budgets.documents import BudgetedPool, CalendarMaker
from webhook.cli.disruption.icalendar import _stamp, icalendar

MONDAY = datetime(2026, 6, 15, tzinfo=UTC)
MADE = datetime(2026, 6, 1, 8, 30, tzinfo=UTC)
COUNTS = NodeCounts(40, 1)
WORK = {"schedule": "0 9 * * 1-5", "duration": "8h"}


def made(*budgets, start=MONDAY, days=3, name="general", generated=MADE, margin=8, counts=COUNTS):
    maker = CalendarMaker(1, start - timedelta(days=margin), days + 2 * margin)
    maker.add(BudgetedPool(name, tuple(map(Budget.read, budgets)), counts))
    return icalendar(maker.document(), start, start + timedelta(days=days), generated)


def parse(text):
    """Read a calendar: unfold, split, unescape; fail on whatever a strict reader would refuse."""
    assert text.endswith("\r\n")
    assert "\n" not in text.replace("\r\n", "")
    for line in text.encode().split(b"\r\n"):
        assert len(line) <= 75
        line.decode()  # no letter is cut in two
    lines = re.sub(r"\r\n[ \t]", "", text).split("\r\n")[:-1]
    root, stack = None, []
    for line in lines:
        name, colon, value = line.partition(":")
        assert colon
        assert re.fullmatch(r"[A-Z-]+", name)
        if name == "BEGIN":
            component = {"": value, "parts": []}
            if stack:
                stack[-1]["parts"].append(component)
            root = root or component
            stack.append(component)
        elif name == "END":
            assert stack.pop()[""] == value
        else:
            assert name not in stack[-1]
            stack[-1][name] = value
    assert not stack
    assert root[""] == "VCALENDAR"
    assert (root["VERSION"], root["CALSCALE"]) == ("2.0", "GREGORIAN")
    assert root["PRODID"]
    events = root["parts"]
    assert len({event["UID"] for event in events}) == len(events)
    return [Event(event) for event in events]


class Event:
    def __init__(self, members):
        assert members[""] == "VEVENT"
        self.uid = members["UID"]
        self.start, self.end, self.stamp = (instant(members[name]) for name in ("DTSTART", "DTEND", "DTSTAMP"))
        assert self.start < self.end
        self.summary, self.description = (unescape(members[name]) for name in ("SUMMARY", "DESCRIPTION"))
        self.reasons = members["CATEGORIES"].split(",")
        self.busy = {"OPAQUE": True, "TRANSPARENT": False}[members["TRANSP"]]


def instant(text):
    return datetime.strptime(text, "%Y%m%dT%H%M%SZ").replace(tzinfo=UTC)


def unescape(text):
    assert not re.search(r"(?<!\\)(?:\\\\)*[,;]", text)
    return re.sub(r"\\(.)", lambda found: "\n" if found[1] in "nN" else found[1], text)


def hours(day, first, last):
    return MONDAY + timedelta(days=day, hours=first), MONDAY + timedelta(days=day, hours=last)


def test_closed_hours_are_busy_and_limits_are_not():
    events = parse(made({"nodes": "10%"}, {"nodes": "0", "reasons": ["Drifted"], **WORK}))
    closed = [event for event in events if event.busy]
    assert [(event.start, event.end) for event in closed] == [hours(day, 9, 17) for day in range(3)]
    assert {event.summary for event in closed} == {"general: no Drifted disruption (budgets[1])"}
    assert {tuple(event.reasons) for event in closed} == {("Drifted",)}
    assert 'budgets[1] (nodes "0", reasons Drifted, schedule "0 9 * * 1-5", duration 8h)' in closed[0].description
    limited = [event for event in events if not event.busy]
    assert "general: at most 4 Drifted disruptions (budgets[0])" in {event.summary for event in limited}
    assert "general: at most 4 Underutilized, Empty or Unhealthy disruptions (budgets[0])" in {
        event.summary for event in limited
    }
    assert {event.stamp for event in events} == {MADE}


def test_reasons_of_which_the_same_holds_share_an_event():
    events = parse(made({"nodes": "1"}, {"nodes": "0", **WORK}))
    assert {event.summary for event in events} == {
        "general: no disruption (budgets[1])",
        "general: at most 1 disruption (budgets[0])",
    }


@pytest.mark.parametrize(
    ("counts", "nodes", "unavailable"),
    [
        (NodeCounts(1, 1), "NodePool general, 1 node. ", "1 of the nodes was being deleted or not ready"),
        (NodeCounts(9, 2), "NodePool general, 9 nodes. ", "2 of the nodes were being deleted or not ready"),
    ],
)
def test_counts_of_one_are_in_the_singular(counts, nodes, unavailable):
    [event] = parse(made({"nodes": "1"}, counts=counts))
    assert event.description.startswith(nodes)
    assert unavailable in event.description


def test_hours_without_a_limit_have_no_event():
    events = parse(made({"nodes": "0", **WORK}))
    assert [(event.start, event.end) for event in events] == [hours(day, 9, 17) for day in range(3)]


def test_an_event_at_the_edge_has_its_true_length_and_the_same_uid_in_the_next_file():
    weekend = {"nodes": "0", "schedule": "0 18 * * 5", "duration": "62h"}
    [first] = parse(made(weekend, start=MONDAY - timedelta(days=2), days=1))
    [again] = parse(made(weekend, start=MONDAY - timedelta(days=1), days=1, generated=MADE + timedelta(days=1)))
    assert first.start == MONDAY - timedelta(hours=54)
    assert (first.start, first.end, first.uid) == (again.start, again.end, again.uid)
    assert first.stamp != again.stamp
    [other] = parse(made(weekend, start=MONDAY - timedelta(days=1), days=1, name="batch"))
    assert other.uid != first.uid


def test_what_never_opens_is_one_event_with_one_uid():
    [event] = parse(made({"nodes": "0"}))
    [later] = parse(made({"nodes": "0"}, start=MONDAY + timedelta(days=5)))
    assert event.uid == later.uid
    assert event.busy


def test_a_long_text_of_many_letters_is_folded_and_comes_back():
    name = "größe-" + "ü" * 200
    events = parse(made({"nodes": "0", **WORK}, name=name))
    assert events[0].summary == f"{name}: no disruption (budgets[0])"
    assert events[0].description.startswith(f"NodePool {name}, 40 nodes.")


def test_a_budget_that_cannot_be_used_is_told():
    [event] = parse(made({"nodes": "0", "schedule": "x;y,z\\", "duration": "1h"}))
    assert event.summary == "general: no disruption"
    assert "budgets[0] is invalid" in event.description
    assert "x;y,z\\" in event.description.replace("\\\\", "\\")


def test_no_control_character_gets_into_the_file():
    text = made({"nodes": "0", "schedule": "0\f9 *\r* 1-5", "duration": "8h"})
    assert not re.search(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]|\r[^\n]", text)
    assert 'schedule "0\N{REPLACEMENT CHARACTER}9 *' in parse(text)[0].description


def test_years_have_four_digits():
    long_ago = datetime(33, 4, 3, tzinfo=UTC)
    assert _stamp(long_ago) == "00330403T000000Z"


def test_nothing_to_tell_is_a_calendar_without_events():
    assert parse(made()) == []
