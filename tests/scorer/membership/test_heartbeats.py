"""When a heartbeat arrived, whatever the agent's clock says."""

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scorer.api.meta import format_time
from scorer.membership.heartbeats import Heartbeat, record_heartbeats

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)


def status(minute=None, *, observed=None, kind="MemberAgent"):
    """Make a status whose heartbeat and sums are from *minutes* after noon."""
    agent = {"type": kind, **({} if minute is None else {"lastReceivedHeartbeat": at(minute)})}
    usage = {} if observed is None else {"resourceUsage": {"observationTime": at(observed)}}
    return {"agentStatus": [agent], **usage}


def at(minute):
    return format_time(NOW + timedelta(minutes=minute))


def heard(minute, received):
    return {"MemberAgent": Heartbeat(at(minute), NOW + timedelta(minutes=received))}


@pytest.mark.parametrize(
    ("reported", "stored", "before", "received"),
    [
        pytest.param(status(-1), {}, {}, -1, id="first-of-all-is-taken-at-its-word"),
        pytest.param(status(9), {}, {}, 0, id="first-of-all-is-never-later-than-now"),
        pytest.param(status(5), status(-1), heard(4, -1), 0, id="a-new-one-came-now"),
        pytest.param(status(-90), status(-1), heard(-91, -1), 0, id="a-new-one-came-now-by-a-slow-clock"),
        pytest.param(status(3), status(-1), heard(4, -1), 0, id="a-new-one-came-now-though-the-clock-went-back"),
        pytest.param(status(4), status(-1), heard(4, -1), -1, id="the-same-one-keeps-its-time"),
        pytest.param(status(4), {}, heard(4, -1), -1, id="the-same-one-though-the-status-was-lost"),
        pytest.param(
            status(-30, observed=-30), status(-25, observed=-30), {}, -25, id="restart-does-not-freshen-the-dead"
        ),
        pytest.param(
            status(-20, observed=-20), status(-25, observed=-30), {}, -15, id="restart-adds-what-the-agent-lived-on"
        ),
        pytest.param(
            status(-1, observed=-1), status(-5, observed=-30), {}, 0, id="restart-adds-no-more-than-up-to-now"
        ),
        pytest.param(
            status(-1, observed=-40), status(-5, observed=-30), {}, -5, id="restart-and-a-clock-that-went-back"
        ),
        pytest.param(status(-1), status(-5), {}, -5, id="restart-of-a-hub-whose-agent-reports-no-sums"),
    ],
)
def test_when_it_was_received(reported, stored, before, received):
    assert record_heartbeats(reported, stored, before, NOW)["MemberAgent"].received == NOW + timedelta(minutes=received)


@pytest.mark.parametrize(
    "reported",
    [
        pytest.param({}, id="nothing"),
        pytest.param(status(), id="no-heartbeat"),
        pytest.param({"agentStatus": [{"type": "MemberAgent", "lastReceivedHeartbeat": "soon"}]}, id="no-time"),
        pytest.param({"agentStatus": ["MemberAgent", {"type": 7}]}, id="no-agents"),
    ],
)
def test_what_is_no_heartbeat_is_not_heard(reported):
    assert record_heartbeats(reported, {}, {}, NOW) == {}
    assert record_heartbeats(reported, {}, heard(1, -1), NOW) == heard(1, -1), "and nothing is forgotten"


def test_only_the_member_agent_collects_sums():
    reported = status(-20, observed=-20, kind="ServiceExportImportAgent")
    stored = status(-25, observed=-30, kind="ServiceExportImportAgent")
    assert record_heartbeats(reported, stored, {}, NOW)["ServiceExportImportAgent"].received == NOW - timedelta(
        minutes=25
    )


minutes = st.integers(-600, 600)


@given(skew=minutes, beats=st.lists(st.integers(0, 20), max_size=8), restart=st.sets(st.integers(0, 8)))
def test_a_clock_that_is_wrong_by_a_constant_does_no_harm(skew, beats, restart):
    """However wrong the agent's clock, and however often the hub restarts, no member looks younger than it is.

    And while the hub runs, or came back while its members went on, none looks older.
    """
    stored, known, now = {}, {}, NOW
    for number, gap in enumerate(beats):
        now += timedelta(minutes=gap + 1)
        if number in restart:
            known = {}
        minute = (now - NOW) / timedelta(minutes=1) + skew
        reported = status(minute, observed=minute)
        known = record_heartbeats(reported, stored, known, now)
        received = known["MemberAgent"].received
        assert received <= now
        assert received == now or (number == 0 and skew < 0) or number in restart
        later = record_heartbeats(reported, stored, known, now + timedelta(hours=1))
        assert later == known, "time alone changes nothing"
        agent = {"type": "MemberAgent", "lastReceivedHeartbeat": format_time(received)}
        stored = {**reported, "agentStatus": [agent]}
        after_restart = record_heartbeats(reported, stored, {}, now + timedelta(hours=1))
        assert after_restart["MemberAgent"].received == received, "nor does a restart"
