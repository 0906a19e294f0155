"""When a member counts as silent."""

from datetime import UTC, datetime, timedelta

import pytest

from scorer.api.conditions import make_condition
from scorer.api.meta import format_time
from scorer.membership.missed_heartbeats import silence, unheard

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)


FIVE_MINUTES = timedelta(minutes=5)


def status(age, known=None):
    """Make the status of a member whose agent reported *age* seconds ago."""
    agent = {"type": "MemberAgent", "lastReceivedHeartbeat": format_time(NOW - timedelta(seconds=age))}
    said = [make_condition("Reporting", known, "Said", "", generation=1, now=NOW)] if known else []
    return {"agentStatus": [agent], "conditions": said}


@pytest.mark.parametrize(
    ("age", "listens", "known", "said", "again"),
    [
        pytest.param(60, 3600, None, None, 240.001, id="reports"),
        pytest.param(300, 3600, None, None, 0.001, id="at-the-limit"),
        pytest.param(301, 3600, None, "False", None, id="silent"),
        pytest.param(301, 3600, "False", "False", None, id="still-silent"),
        pytest.param(10, 3600, "False", "True", 290.001, id="back"),
        pytest.param(10, 3600, "True", "True", 290.001, id="was-silent-once"),
        pytest.param(3600, 30, None, None, 270.001, id="nobody-listened"),
        pytest.param(3600, 30, "True", "True", 270.001, id="nobody-listened-after-it-was-back"),
        pytest.param(3600, 30, "False", "False", None, id="another-process-has-found-it-silent"),
    ],
)
def test_silence(age, listens, known, said, again):
    since = NOW - timedelta(seconds=listens)
    found = silence(status(age, known), since, 1, NOW, period=FIVE_MINUTES, identity="User edge")
    assert (found.condition and found.condition["status"]) == said
    assert (found.again and found.again.total_seconds()) == again


@pytest.mark.parametrize(
    ("age", "listens", "known", "said", "again"),
    [
        pytest.param(130, 3600, None, None, 0.001, id="one-heartbeat-is-late"),
        pytest.param(131, 3600, None, "Unknown", 169.001, id="two-are-missed"),
        pytest.param(131, 3600, "Unknown", "Unknown", 169.001, id="still-missed"),
        pytest.param(301, 3600, "Unknown", "False", None, id="silent"),
        pytest.param(10, 3600, "Unknown", "True", 120.001, id="back"),
        pytest.param(200, 30, None, None, 100.001, id="nobody-listened"),
        pytest.param(200, 30, "Unknown", "Unknown", 270.001, id="another-process-has-missed-them"),
    ],
)
def test_missed_heartbeats(age, listens, known, said, again):
    since = NOW - timedelta(seconds=listens)
    found = silence(status(age, known), since, 1, NOW, period=timedelta(minutes=1), identity="User edge")
    assert (found.condition and found.condition["status"]) == said
    assert (found.again and found.again.total_seconds()) == again


def test_a_member_that_is_not_heard_names_the_last_heartbeat_and_the_identity_until_it_reports():
    missed = silence(
        status(200), NOW - timedelta(hours=1), 1, NOW, period=timedelta(minutes=1), identity="User edge"
    ).condition
    assert unheard({"conditions": [missed]}) == (
        "its agent has not reported since 2026-03-01T11:56:40Z. The agent must run, reach this hub, and "
        "authenticate as the User edge of spec.identity"
    )
    assert not unheard(status(10, "True"))
    assert not unheard({})
