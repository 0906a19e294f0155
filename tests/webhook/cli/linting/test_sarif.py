"""The log against what SARIF 2.1.0 demands of the members that are used (sections 3.13 to 3.56)."""

import re
from pathlib import Path

import jsonschema
import pytest

from tests.webhook.cli.sarif_schema import LOG
from webhook.cli.files.positions import TextRange
from webhook.cli.linting.sarif import Replacement, SarifResult, artifact_uri, sarif_log

FOLDER = Path("/work folder")
FIX = Replacement(TextRange(3, 5, 4, 9), "- nodes: 1", "Write this.")
RESULTS = [
    SarifResult("K-30", "warning", "why", "pools/a b.yaml", TextRange(4, 7, 4, 12), (FIX,)),
    SarifResult("K-18", "error", "no", "pools/a b.yaml", TextRange(1, 1, 1, 1)),
    SarifResult("K-30", "warning", "again", "/elsewhere/c.yaml", TextRange(9, 1, 9, 1)),
]


@pytest.mark.parametrize("results", [pytest.param([], id="clean"), pytest.param(RESULTS, id="findings")])
def test_the_log_is_as_the_standard_has_it(results):
    jsonschema.validate(sarif_log(results, {"K-30": "No zero."}, FOLDER), LOG)


def test_results_point_at_their_rules():
    run = sarif_log(RESULTS, {"K-30": "No zero."}, FOLDER)["runs"][0]
    rules = run["tool"]["driver"]["rules"]
    page = "https://harbormaster.dev/docs/reference/rules.html"
    assert rules == [
        {"id": "K-18", "helpUri": f"{page}#k-18"},
        {"id": "K-30", "shortDescription": {"text": "No zero."}, "helpUri": f"{page}#k-30"},
    ]
    assert run["tool"]["driver"]["informationUri"] == "https://harbormaster.dev"
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
