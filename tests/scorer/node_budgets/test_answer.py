"""The gate's answers as they are sent."""

from datetime import UTC, datetime

from scorer.node_budgets.answer import GateVerdict, NodeGateAnswer

WEDNESDAY = datetime(2026, 6, 10, 12, tzinfo=UTC)


def test_a_document_may_have_a_reservation_and_the_end_of_the_search():
    answered = NodeGateAnswer(
        *(True, ("n1",), 3, 0, 3, 30, (0,), (0,), (), GateVerdict.ALLOWED, None, 10),
        searched_until=WEDNESDAY,
        message="",
        reservation=("abc", WEDNESDAY),
    )
    made = answered.document()
    assert (made["granted"], made["searchedUntil"]) == (["n1"], "2026-06-10T12:00:00Z")
    assert made["reservation"] == {"id": "abc", "expires": "2026-06-10T12:00:00Z"}
