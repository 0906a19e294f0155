"""The log against what SARIF 2.1.0 demands of the members that are used (sections 3.13 to 3.56)."""

import re
from pathlib import Path

import jsonschema
import pytest

from webhook.cli.positions import Place
from webhook.cli.sarif import Replacement, Result, artifact_uri, sarif_log

TEXT = {"type": "string", "minLength": 1}
COUNT = {"type": "integer", "minimum": 1}
MESSAGE = {"type": "object", "required": ["text"], "properties": {"text": TEXT}, "additionalProperties": False}
ARTIFACT = {
    "type": "object",
    "required": ["uri"],
    "properties": {"uri": {"type": "string", "pattern": r"^[^\s\\]+$"}},
    "additionalProperties": False,
}
REGION = {
    "type": "object",
    "required": ["startLine"],
    "properties": dict.fromkeys(("startLine", "startColumn", "endLine", "endColumn"), COUNT),
    "additionalProperties": False,
}
CHANGE = {
    "type": "object",
    "required": ["artifactLocation", "replacements"],
    "properties": {
        "artifactLocation": ARTIFACT,
        "replacements": {
            "type": "array",
            "minItems": 1,
            "items": {
                "type": "object",
                "required": ["deletedRegion"],
                "properties": {"deletedRegion": REGION, "insertedContent": MESSAGE},
                "additionalProperties": False,
            },
        },
    },
    "additionalProperties": False,
}
RESULT = {
    "type": "object",
    "required": ["message", "ruleId", "locations"],
    "properties": {
        "ruleId": TEXT,
        "ruleIndex": {"type": "integer", "minimum": 0},
        "level": {"enum": ["none", "note", "warning", "error"]},
        "message": MESSAGE,
        "locations": {
            "type": "array",
            "items": {
                "type": "object",
                "properties": {
                    "physicalLocation": {
                        "type": "object",
                        "required": ["artifactLocation"],
                        "properties": {"artifactLocation": ARTIFACT, "region": REGION},
                        "additionalProperties": False,
                    }
                },
                "additionalProperties": False,
            },
        },
        "fixes": {
            "type": "array",
            "items": {
                "type": "object",
                "required": ["artifactChanges"],
                "properties": {
                    "description": MESSAGE,
                    "artifactChanges": {"type": "array", "minItems": 1, "items": CHANGE},
                },
                "additionalProperties": False,
            },
        },
    },
    "additionalProperties": False,
}
DRIVER = {
    "type": "object",
    "required": ["name"],
    "properties": {
        "name": TEXT,
        "version": TEXT,
        "rules": {
            "type": "array",
            "uniqueItems": True,
            "items": {
                "type": "object",
                "required": ["id"],
                "properties": {"id": TEXT, "shortDescription": MESSAGE},
                "additionalProperties": False,
            },
        },
    },
    "additionalProperties": False,
}
INVOCATION = {
    "type": "object",
    "required": ["executionSuccessful"],
    "properties": {
        "executionSuccessful": {"type": "boolean"},
        "toolExecutionNotifications": {
            "type": "array",
            "items": {
                "type": "object",
                "required": ["message"],
                "properties": {"level": {"enum": ["none", "note", "warning", "error"]}, "message": MESSAGE},
                "additionalProperties": False,
            },
        },
    },
    "additionalProperties": False,
}
RUN = {
    "type": "object",
    "required": ["tool"],
    "properties": {
        "tool": {"type": "object", "required": ["driver"], "properties": {"driver": DRIVER}},
        "columnKind": {"enum": ["utf16CodeUnits", "unicodeCodePoints"]},
        "results": {"type": "array", "items": RESULT},
        "invocations": {"type": "array", "items": INVOCATION},
    },
    "additionalProperties": False,
}
LOG = {
    "type": "object",
    "required": ["version", "runs"],
    "properties": {
        "$schema": {"type": "string", "format": "uri"},
        "version": {"const": "2.1.0"},
        "runs": {"type": "array", "items": RUN, "minItems": 1, "maxItems": 1},
    },
    "additionalProperties": False,
}
"""What the standard demands of these members; it knows more of them, and none of ours may be unknown to it."""

FOLDER = Path("/work folder")
FIX = Replacement(Place(3, 5, 4, 9), "- nodes: 1", "Write this.")
RESULTS = [
    Result("K-30", "warning", "why", "pools/a b.yaml", Place(4, 7, 4, 12), FIX),
    Result("K-18", "error", "no", "pools/a b.yaml", Place(1, 1, 1, 1)),
    Result("K-30", "warning", "again", "/elsewhere/c.yaml", Place(9, 1, 9, 1)),
]


@pytest.mark.parametrize("results", [pytest.param([], id="clean"), pytest.param(RESULTS, id="findings")])
def test_the_log_is_as_the_standard_has_it(results):
    jsonschema.validate(sarif_log(results, {"K-30": "No zero."}, FOLDER), LOG)


def test_results_point_at_their_rules():
    run = sarif_log(RESULTS, {"K-30": "No zero."}, FOLDER)["runs"][0]
    rules = run["tool"]["driver"]["rules"]
    assert rules == [{"id": "K-18"}, {"id": "K-30", "shortDescription": {"text": "No zero."}}]
    assert [rules[result["ruleIndex"]]["id"] for result in run["results"]] == [one.rule for one in RESULTS]
    assert re.fullmatch(r"[0-9]+(\.[0-9]+)+.*", run["tool"]["driver"]["version"])


def test_a_fix_says_what_goes_and_what_comes():
    (result, *rest) = sarif_log(RESULTS, {}, FOLDER)["runs"][0]["results"]
    assert result["fixes"] == [
        {
            "description": {"text": "Write this."},
            "artifactChanges": [
                {
                    "artifactLocation": {"uri": "pools/a%20b.yaml"},
                    "replacements": [
                        {
                            "deletedRegion": {"startLine": 3, "startColumn": 5, "endLine": 4, "endColumn": 9},
                            "insertedContent": {"text": "- nodes: 1"},
                        }
                    ],
                }
            ],
        }
    ]
    assert not any("fixes" in other for other in rest)


@pytest.mark.parametrize(
    ("file", "uri"),
    [
        pytest.param("a.yaml", "a.yaml", id="here"),
        pytest.param("./deep/../a#1.yaml", "a%231.yaml", id="detour"),
        pytest.param("/work folder/x/a.yaml", "x/a.yaml", id="absolute-but-within"),
        pytest.param("../a.yaml", "file:///a.yaml", id="outside"),
        pytest.param("standard input", "standard%20input", id="standard-input"),
    ],
)
def test_files_are_named_relative_to_the_folder(file, uri):
    assert artifact_uri(file, FOLDER) == uri
