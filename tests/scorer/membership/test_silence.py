"""When a member counts as silent."""

from datetime import UTC, datetime, timedelta

import pytest

from scorer.api.conditions import make_condition
from scorer.api.meta import format_time
from scorer.membership.silence import silence

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)


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
    found = silence(status(age, known), NOW - timedelta(seconds=listens), 1, NOW)
    assert (found.condition and found.condition["status"]) == said
    assert (found.again and found.again.total_seconds()) == again
