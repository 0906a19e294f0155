"""The reason of an approval: words become its message, everything else stays."""

from copy import deepcopy

import pytest

from scorer.api.conditions import MOST_MESSAGE_CHARACTERS
from webhook.defaulting.approval_request import default_status

OTHER = {"type": "Analyzed", "status": "False", "reason": "too slow", "message": ""}


def request(*conditions):
    return {
        "kind": "ClusterApprovalRequest",
        "spec": {"targetStage": "canary"},
        "status": {"conditions": [*conditions]},
    }


def approved(**fields):
    return {"type": "Approved", "status": "True", "observedGeneration": 1, **fields}


@pytest.mark.parametrize(
    ("given", "message"),
    [
        pytest.param({"reason": "tested as OK", "message": "lgtm"}, "tested as OK: lgtm", id="seed-004"),
        pytest.param({"reason": "tested as OK"}, "tested as OK", id="no-message"),
        pytest.param({"reason": "tested as OK", "message": ""}, "tested as OK", id="empty-message"),
        pytest.param({"reason": "Approved\n", "message": "a"}, "Approved\n: a", id="line-break"),
        pytest.param({"reason": "r" * 1025, "message": None}, "r" * 1025, id="too-long-for-a-word"),
        pytest.param({"reason": "größer"}, "größer", id="letters-beyond-ascii"),
    ],
)
def test_words_of_a_reason_become_the_message(given, message):
    document = request(OTHER, approved(**given))
    kept = deepcopy(document)
    defaulted = default_status(document)
    assert document == kept
    expected = approved(**given) | {"reason": "ApprovedByUser", "message": message}
    assert defaulted.document == {**kept, "status": {"conditions": [OTHER, expected]}}
    assert [warning.rule for warning in defaulted.warnings] == ["F-18"]
    assert default_status(defaulted.document).document is defaulted.document


@pytest.mark.parametrize(
    "condition",
    [
        pytest.param(approved(reason="TestedAsOK", message="lgtm"), id="one-word"),
        pytest.param(approved(message="lgtm"), id="no-reason"),
        pytest.param(approved(reason=""), id="empty-reason"),
        pytest.param(approved(reason=["a b"]), id="reason-of-another-type"),
        pytest.param(approved(reason="a b", message=7), id="message-of-another-type"),
        pytest.param(approved(reason="a b", message="m" * MOST_MESSAGE_CHARACTERS), id="no-room"),
        pytest.param(approved(reason="not yet", status="False"), id="not-approved"),
        pytest.param(approved(reason="a b", type="ApprovalAccepted"), id="condition-of-the-run"),
        pytest.param("Approved", id="no-condition"),
    ],
)
def test_everything_else_is_left_to_the_schema(condition):
    document = request(condition)
    assert default_status(document).document is document


@pytest.mark.parametrize("status", [None, [], {}, {"conditions": None}, {"conditions": {}}])
def test_a_status_without_a_list_of_conditions_is_left_alone(status):
    document = {"status": status}
    assert default_status(document).document is document
