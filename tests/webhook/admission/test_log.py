"""What admission remembers of its answers."""

from datetime import UTC, datetime

import pytest

from scorer.api.field_path import FieldPath
from webhook.admission.judge import ALLOWED, Judgement
from webhook.admission.log import LONGEST_MESSAGE, MOST_MESSAGES, RecentAdmissions
from webhook.validation.field import Cause, FieldError

NOW = datetime(2026, 11, 24, 12, tzinfo=UTC)
REQUEST = {
    "operation": "CREATE",
    "kind": {"group": "placement.kubernetes-fleet.io", "kind": "ClusterResourcePlacement"},
    "name": "web",
    "userInfo": {"username": "ann"},
}


def refusal(*rules, message="must be given"):
    errors = tuple(FieldError(FieldPath.of("spec"), Cause.REQUIRED, message, rule) for rule in rules)
    return Judgement(allowed=False, errors=errors, code=422, reason="Invalid", message="the whole")


def noted(judgement, **request):
    log = RecentAdmissions()
    log.note(judgement, REQUEST | request, NOW)
    return [entry.document() for entry in log.entries()]


def test_a_plain_yes_is_not_kept():
    assert noted(ALLOWED) == []


def test_a_refusal_says_who_what_and_by_which_rules():
    (entry,) = noted(refusal("P-2", "P-1", ""))
    assert entry == {
        "number": 1,
        "at": "2026-11-24T12:00:00Z",
        "user": "ann",
        "operation": "CREATE",
        "group": "placement.kubernetes-fleet.io",
        "kind": "ClusterResourcePlacement",
        "namespace": "",
        "name": "web",
        "subresource": "",
        "verdict": "refused",
        "code": 422,
        "messages": ["spec: Required value: must be given"] * 3,
        "rules": ["P-1", "P-2"],
        "dryRun": False,
    }


def test_a_refusal_without_fields_says_its_message():
    (entry,) = noted(Judgement(allowed=False, code=409, message="still in use", rule="X-9"))
    assert (entry["messages"], entry["rules"]) == (["still in use"], ["X-9"])


def test_warnings_are_kept_with_their_rules():
    (entry,) = noted(Judgement(warnings=("odd",), warned_by=("X-14",)), dryRun=True)
    assert (entry["verdict"], entry["messages"], entry["rules"], entry["dryRun"]) == ("warned", ["odd"], ["X-14"], True)


@pytest.mark.parametrize(
    "request_",
    [
        pytest.param({"userInfo": None, "kind": [], "name": 7, "operation": {}}, id="of-other-types"),
        pytest.param({"object": "x", "oldObject": 3}, id="no-objects"),
        pytest.param({"name": None, "object": {"metadata": None}}, id="no-metadata"),
    ],
)
def test_a_request_of_any_form_can_be_noted(request_):
    assert len(noted(refusal("P-1"), **request_)) == 1


def test_what_is_kept_is_bounded_and_without_control_characters():
    log = RecentAdmissions(most=2)
    many = refusal(*(str(number) for number in range(50)), message="\x1b[31m" + "long " * 1000)
    for number in range(3):
        log.note(many, REQUEST | {"name": f"\x07{number}" + "n" * 999}, NOW)
    entries = list(log.entries())
    assert [entry.number for entry in entries] == [3, 2]
    assert len(entries[0].messages) == MOST_MESSAGES
    assert entries[0].messages[-1] == "and 41 more"
    assert max(map(len, entries[0].messages)) <= LONGEST_MESSAGE
    assert "\x1b" not in entries[0].messages[0]
    assert len(entries[0].name) == 253
