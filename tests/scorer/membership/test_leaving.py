"""How far a leaving member has got."""

from datetime import UTC, datetime, timedelta

import pytest

from scorer.api.conditions import make_condition
from scorer.membership.leaving import Departure, DepartureStage, departure, released

START = datetime(2026, 3, 1, 12, tzinfo=UTC)
WAIT = timedelta(minutes=15)


def member(*agents):
    metadata = {"name": "lion", "deletionTimestamp": "2026-03-01T12:00:00Z"}
    return {"metadata": metadata, "status": {"agentStatus": list(agents)}}


def agent(joined):
    return {"type": "MemberAgent", "conditions": [make_condition("Joined", joined, "X", "", generation=1, now=START)]}


def internal(state, *agents):
    return {"spec": {"state": state}, "status": {"agentStatus": list(agents)}}


SPACE = {"metadata": {"name": "fleet-member-lion"}}
TERMINATING = {"metadata": {"name": "fleet-member-lion", "deletionTimestamp": "2026-03-01T12:01:00Z"}}
CLEARING = Departure(DepartureStage.CLEARING)


@pytest.mark.parametrize(
    ("who", "namespace", "told", "minutes", "wanted"),
    [
        pytest.param(member(), None, None, 0, Departure(DepartureStage.GONE), id="namespace-gone"),
        pytest.param(member(), TERMINATING, internal("Join"), 0, CLEARING, id="namespace-going"),
        pytest.param(member(), SPACE, None, 0, CLEARING, id="nobody-was-ever-told-to-join"),
        pytest.param(
            member(agent("True")),
            SPACE,
            None,
            1,
            Departure(DepartureStage.ASKED, WAIT - timedelta(minutes=1)),
            id="order-lost",
        ),
        pytest.param(member(agent("False")), SPACE, None, 1, CLEARING, id="left-and-order-gone"),
        pytest.param(member(), SPACE, internal("Join"), 0, Departure(DepartureStage.ASKED, WAIT), id="not-asked-yet"),
        pytest.param(
            member(),
            SPACE,
            internal("Join", agent("False")),
            0,
            Departure(DepartureStage.ASKED, WAIT),
            id="left-unasked",
        ),
        pytest.param(
            member(),
            SPACE,
            internal("Leave", agent("True")),
            14,
            Departure(DepartureStage.ASKED, timedelta(minutes=1)),
            id="still-busy",
        ),
        pytest.param(member(), SPACE, internal("Leave", agent("False")), 0, CLEARING, id="has-left"),
        pytest.param(
            member(),
            SPACE,
            internal("Leave", agent("True")),
            15,
            Departure(DepartureStage.CLEARING, forced=True),
            id="too-long",
        ),
        pytest.param(
            member(), SPACE, internal("Join"), 99, Departure(DepartureStage.CLEARING, forced=True), id="hub-was-down"
        ),
    ],
)
def test_departure(who, namespace, told, minutes, wanted):
    assert departure(who, namespace, told, START + timedelta(minutes=minutes), wait=WAIT) == wanted


def test_all_finalizers_of_a_work_go():
    work = {"metadata": {"name": "w", "finalizers": ["a", "b"]}, "spec": {}}
    assert released(work) == {"metadata": {"name": "w", "finalizers": []}, "spec": {}}
    assert released({"metadata": {"name": "w"}}) is None
