"""Values against a schema, with the verdicts and the words of an API server."""

import pytest

from scorer.api.crd.definitions import structural_schema
from scorer.api.kinds import APPROVAL_REQUEST
from scorer.api.values.field_path import FieldPath
from webhook.validation.framework.schema import schema_errors

STATUS = structural_schema(APPROVAL_REQUEST)["properties"]["status"]
APPROVED = {
    "type": "Approved",
    "status": "True",
    "reason": "TestedAsOK",
    "message": "",
    "lastTransitionTime": "2025-03-12T06:15:21Z",
    "observedGeneration": 1,
}
REASON = "^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$"


def words(value, schema, at="v", *, patterns=True):
    return [str(error) for error in schema_errors(value, schema, FieldPath.of(at), patterns=patterns)]


@pytest.mark.parametrize(
    ("field", "value", "message"),
    [
        pytest.param("reason", "a b", f"Invalid value: \"a b\": {{body}} should match '{REASON}'", id="pattern"),
        pytest.param("reason", "", 'Invalid value: "": {body} should be at least 1 chars long', id="empty"),
        pytest.param("reason", "r" * 1025, "Too long: may not be more than 1024 bytes", id="long"),
        pytest.param("status", "Y", 'Unsupported value: "Y": supported values: "True", "False", "Unknown"', id="enum"),
        pytest.param("status", True, 'Invalid value: "boolean": {body} must be of type string: "boolean"', id="type"),
        pytest.param(
            "observedGeneration", -1, "Invalid value: -1: {body} should be greater than or equal to 0", id="minimum"
        ),
        pytest.param(
            "observedGeneration", 1.5, 'Invalid value: "number": {body} must be of type integer: "number"', id="integer"
        ),
        pytest.param(
            "lastTransitionTime", "now", 'Invalid value: "now": {body} must be of type date-time: "now"', id="time"
        ),
    ],
)
def test_a_wrong_field_of_a_condition(field, value, message):
    at = f"status.conditions[0].{field}"
    found = words({"conditions": [{**APPROVED, field: value}]}, STATUS, "status")
    assert found == [f"{at}: {message.format(body=f'{at} in body')}"]


def test_a_missing_field_a_repeated_key_and_no_object():
    incomplete = {name: value for name, value in APPROVED.items() if name != "lastTransitionTime"}
    given = {"conditions": [APPROVED, incomplete, 3]}
    assert words(given, STATUS, "status") == [
        "status.conditions[1].lastTransitionTime: Required value",
        'status.conditions[2]: Invalid value: "integer": status.conditions[2] in body must be of type object: '
        '"integer"',
        'status.conditions[1]: Duplicate value: {"type":"Approved"}',
    ]


def test_right_values_have_no_errors():
    assert words({"conditions": [APPROVED, {**APPROVED, "type": "Other", "observedGeneration": 2.0}]}, STATUS) == []


@pytest.mark.parametrize(
    ("value", "schema", "errors"),
    [
        pytest.param(3, {"x-kubernetes-int-or-string": True}, 0, id="int-or-string"),
        pytest.param(True, {"x-kubernetes-int-or-string": True}, 1, id="neither"),
        pytest.param(None, {"type": "string", "nullable": True}, 0, id="nullable"),
        pytest.param(None, {"type": "string"}, 1, id="null"),
        pytest.param(["a", "a"], {"type": "array", "x-kubernetes-list-type": "set"}, 1, id="set"),
        pytest.param(["a"] * 3, {"type": "array", "maxItems": 2}, 1, id="too-many"),
        pytest.param([], {"type": "array", "minItems": 1}, 1, id="too-few"),
        pytest.param({"a": 1}, {"type": "object", "additionalProperties": {"type": "string"}}, 1, id="values"),
        pytest.param({"a": 1}, {"type": "object", "properties": 7, "required": "a", "enum": 1}, 0, id="not-a-schema"),
        pytest.param(9, {"type": "number", "maximum": 8.5, "minimum": True}, 1, id="maximum"),
    ],
)
def test_other_parts_of_a_schema(value, schema, errors):
    assert len(words(value, schema)) == errors


def test_the_patterns_of_a_user_are_not_run():
    """Such as one that takes years on thirty letters."""
    assert words("a" * 30 + "!", {"type": "string", "pattern": "^(a+)+$"}, patterns=False) == []
