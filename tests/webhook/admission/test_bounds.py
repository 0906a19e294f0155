"""What is sent to admission may be of any size; what is made of it is not."""

import json
import sys

import pytest

from scorer.api import kinds
from scorer.api.values.duration import parse_budget_duration, parse_sum, parse_wait_time
from scorer.api.values.field_path import FieldPath
from scorer.api.values.quantity import parse_quantity
from scorer.windows.cron import parse_schedule
from webhook.admission.admitted import MOST_VALUES as MOST_JUDGED
from webhook.admission.judge import judge
from webhook.admission.review import LARGE_BYTES, MOST_VALUES, InvalidReviewError, answer, parse_object
from webhook.validation.framework.context import Context

PLACEMENT = {
    "apiVersion": "placement.kubernetes-fleet.io/v1",
    "kind": "ClusterResourcePlacement",
    "metadata": {"name": "payments"},
    "spec": {"resourceSelectors": [{"group": "", "version": "v1", "kind": "Namespace", "name": "shop"}]},
}
SWOLLEN = {**PLACEMENT, "spec": {**PLACEMENT["spec"], "more": [0] * MOST_JUDGED}}


@pytest.mark.parametrize("parse", [parse_wait_time, parse_sum, parse_budget_duration, parse_schedule, parse_quantity])
@pytest.mark.parametrize("text", ["9" * 1_000_001 + "h", "0" * 1_000_001 + "h", "0" * 1_000_000, "0 " * 500_000])
def test_a_text_that_is_too_long_is_refused_in_a_short_sentence(parse, text):
    with pytest.raises(ValueError, match=r"is not a|characters, at most") as refused:
        parse(text)
    assert len(str(refused.value)) < 200


def test_long_quantities_are_not_remembered():
    """One that is remembered is the same object."""
    short, long = "1" * 10, "1" * 300
    assert parse_quantity(short) is parse_quantity(short)
    assert parse_quantity(long) is not parse_quantity(long)


@pytest.mark.parametrize(
    "body",
    [
        pytest.param(b"[" + b"1," * MOST_VALUES + b"1]", id="numbers"),
        pytest.param(b"[" + b'"",' * MOST_VALUES + b'""]', id="texts"),
        pytest.param(b"[" + b"[]," * MOST_VALUES + b"[]]", id="lists"),
        pytest.param(b'{"a":' + b"[" * MOST_VALUES, id="broken"),
        pytest.param(b'{"' + b'":[{"a":"\\\\"},"b"],"' * MOST_VALUES + b'":1}', id="objects-among-escapes"),
    ],
)
def test_a_body_of_too_many_values_is_not_parsed(body):
    with pytest.raises(InvalidReviewError, match=f"more than {MOST_VALUES} JSON values") as refused:
        parse_object(body, MOST_VALUES)
    assert refused.value.code == 413


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(",[{" * MOST_VALUES, id="separators"),
        pytest.param('",[{' * MOST_VALUES, id="after-quotes"),
        pytest.param('\\"' * (MOST_VALUES + 1), id="after-backslashes"),
        pytest.param(",[{" * MOST_VALUES + "\\", id="before-a-backslash"),
        pytest.param('\\\\",' * MOST_VALUES, id="after-many-backslashes"),
    ],
)
def test_what_stands_in_a_text_is_no_value(text):
    assert parse_object(json.dumps({"a": text}).encode(), MOST_VALUES) == {"a": text}


def test_a_text_without_end_is_looked_through_once():
    """A search for whole texts begins anew at each of its quotes: a body as short as this took hours."""
    body = b'{"a": "' + b'\\"' * MOST_VALUES + b"," * MOST_VALUES
    with pytest.raises(InvalidReviewError, match="is not JSON") as refused:
        parse_object(body, MOST_VALUES)
    assert refused.value.code == 400


def test_a_large_body_is_plain_json():
    body = b'{"a":"\\ud800","b":"' + b"x" * LARGE_BYTES + b'"}'
    with pytest.raises(InvalidReviewError, match="lone surrogates"):
        parse_object(body)


@pytest.mark.parametrize("operation", ["CREATE", "UPDATE"])
def test_an_object_of_too_many_values_is_refused(operation):
    found = judge(operation, SWOLLEN, PLACEMENT if operation == "UPDATE" else None, Context())
    assert [str(error.field) for error in found.errors] == ["spec"]
    assert str(MOST_JUDGED) in found.message


@pytest.mark.parametrize(
    ("kind", "member", "most"),
    [
        (kinds.PLACEMENT, "spec", 10_000),
        (kinds.OVERRIDE, "spec", 10_000),
        (kinds.ENVELOPE, "data", 50_000),
        (kinds.WORK, "spec", 50_000),
    ],
)
def test_how_much_of_an_object_is_judged_depends_on_whether_it_holds_manifests(kind, member, most):
    def refused(count):
        document = {
            "apiVersion": kind.api_version,
            "kind": kind.kind,
            "metadata": {"name": "a"},
            member: {"x": [0] * count},
        }
        return f"more than {most} JSON values" in judge("CREATE", document, None, Context()).message

    assert refused(most)
    assert not refused(most - 20)


def test_what_controllers_wrote_does_not_count():
    metadata = {"name": "payments", "managedFields": [{"manager": str(i)} for i in range(MOST_JUDGED)]}
    written = {**PLACEMENT, "metadata": metadata, "status": {"selectedResources": [{}] * MOST_JUDGED}}
    assert judge("UPDATE", written, PLACEMENT, Context()).allowed


def test_a_stored_object_of_too_many_values_can_be_put_right_and_let_go():
    assert judge("UPDATE", PLACEMENT, SWOLLEN, Context()).allowed
    assert judge("DELETE", None, SWOLLEN, Context()).allowed
    going = {**SWOLLEN, "metadata": {"name": "payments", "deletionTimestamp": "2026-01-01T00:00:00Z"}}
    assert judge("UPDATE", going, SWOLLEN, Context()).allowed


def test_an_answer_repeats_no_more_than_a_name():
    document = {**PLACEMENT, "metadata": {"name": "A" * 7_000_000, "labels": {"b" * 100_000: "-"}}}
    kind = {"group": "placement.kubernetes-fleet.io", "version": "v1", "kind": "ClusterResourcePlacement"}
    request = {"uid": "u", "operation": "CREATE", "kind": kind, "resource": {}, "object": document}
    response = answer({"request": request}, "validate", Context())["response"]
    assert len(response["status"]["details"]["name"]) <= 253
    assert len(json.dumps(response)) < 4000


def test_a_path_prints_no_more_than_a_label_key():
    key = "a" * 253 + "/" + "b" * 63
    assert str(FieldPath.of("metadata", "labels", key)) == f"metadata.labels[{key}]"
    assert len(str(FieldPath.of("metadata", "labels", "c" * sys.getrecursionlimit() * 100))) < 400
