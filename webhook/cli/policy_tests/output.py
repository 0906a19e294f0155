"""Results of tests in human- and machine-readable formats: a table, JSON, JUnit, SARIF, GitHub annotations.

Source: Jenkins' junit-10.xsd for JUnit, which has no standard; SARIF and annotations as for ``lint``.
"""

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Final
from xml.etree.ElementTree import Element, SubElement, indent, tostring

import click

from scorer.api.unstructured.json_object import JsonObject
from scorer.api.values.quoting import LONGEST_NAME, printable, shortened
from webhook.cli.linting.sarif import SarifResult
from webhook.cli.policy_tests.coverage import Coverage
from webhook.cli.policy_tests.differences import Difference
from webhook.cli.policy_tests.file_format import described, shown_name
from webhook.cli.policy_tests.runner import CaseOutcome, CaseResult
from webhook.cli.text.output import print_table

RULES: Final = {
    "case-failed": "The result is as the case expects.",
    "case-error": "The case can be evaluated.",
}
"""Texts in place of rules of admission, in SARIF and annotations."""
_NOT_IN_XML: Final = re.compile("[^\t\n\r -\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def counts_of(outcomes: Sequence[CaseOutcome]) -> dict[CaseResult, int]:
    """Return the number of cases for each result."""
    counts = Counter(outcome.result for outcome in outcomes)
    return {result: counts[result] for result in CaseResult}


def summary(outcomes: Sequence[CaseOutcome]) -> str:
    """Return the counts in one line."""
    counts = counts_of(outcomes)
    words = {
        CaseResult.PASSED: "passed",
        CaseResult.FAILED: "failed",
        CaseResult.ERROR: "in error",
        CaseResult.NOT_RUN: "not run",
    }
    parts = [f"{count} {words[result]}" for result, count in counts.items() if count or result in _ALWAYS_TOLD]
    return f"{_cases(len(outcomes))}: {', '.join(parts)}"


_ALWAYS_TOLD: Final = (CaseResult.PASSED, CaseResult.FAILED)


def _cases(count: int) -> str:
    return "1 case" if count == 1 else f"{count} cases"


def place_of(outcome: CaseOutcome) -> str:
    """Return file and line of a case."""
    return f"{outcome.test.file}:{outcome.placed.place.line}"


def explained(outcome: CaseOutcome) -> Iterator[str]:
    """Yield the reasons why a case did not pass, line by line."""
    yield from map(shortened, map(printable, outcome.mistakes))
    for difference in outcome.differences:
        yield from map(shortened, _difference(difference))


def _difference(difference: Difference) -> Iterator[str]:
    yield f"{difference.what}:"
    yield f"  expected {difference.expected}"
    yield f"  actual   {difference.actual}"
    yield from (f"  {line}" for line in difference.why)


def print_outcomes(outcomes: Sequence[CaseOutcome], coverage: Coverage | None) -> None:
    """Print a table of all cases, and below it the reasons of the cases that did not pass."""
    rows = [
        [_result_text(outcome.result), *map(_short, (outcome.test.name, outcome.placed.case.name)), place_of(outcome)]
        for outcome in outcomes
    ]
    print_table(["RESULT", "TEST", "CASE", "AT"], rows)
    for outcome in outcomes:
        lines = list(explained(outcome))
        if lines:
            click.echo(f"\n{_result_text(outcome.result)} {printable(place_of(outcome))}: {_name(outcome)}")
            for line in lines:
                click.echo(f"  {line}")
    if coverage is not None:
        click.echo()
        print_table(["RULE", "CASES", "SEVERITY", "DEMANDS"], list(coverage.rows()))
        click.echo(f"\n{coverage.summary()}")
    click.echo(f"\n{summary(outcomes)}")


def _short(name: str) -> str:
    return printable(shortened(name, LONGEST_NAME))


def _result_text(result: CaseResult) -> str:
    return str(result) if result in (CaseResult.PASSED, CaseResult.NOT_RUN) else result.upper()


def _name(outcome: CaseOutcome) -> str:
    return shown_name(outcome.test, outcome.placed.case)


def document(outcomes: Sequence[CaseOutcome], coverage: Coverage | None) -> JsonObject:
    """Return all results as JSON."""
    counts = counts_of(outcomes)
    return {
        "cases": len(outcomes),
        "passed": counts[CaseResult.PASSED],
        "failed": counts[CaseResult.FAILED],
        "errors": counts[CaseResult.ERROR],
        "notRun": counts[CaseResult.NOT_RUN],
        "items": [_item(outcome) for outcome in outcomes],
        **({} if coverage is None else {"coverage": coverage.document()}),
    }


def _item(outcome: CaseOutcome) -> JsonObject:
    case, place = outcome.placed.case, outcome.placed.place
    return {
        "file": outcome.test.file,
        "line": place.line,
        "column": place.column,
        "test": outcome.test.name,
        "case": case.name,
        "asks": described(case),
        "result": "notRun" if outcome.result is CaseResult.NOT_RUN else outcome.result.value,
        "differences": [
            {
                "field": difference.what,
                "expected": difference.expected,
                "actual": difference.actual,
                "why": list(difference.why),
            }
            for difference in outcome.differences
        ],
        "mistakes": list(outcome.mistakes),
        **({} if outcome.judged is None else {"rules": sorted(outcome.judged.rules)}),
    }


def junit(outcomes: Sequence[CaseOutcome]) -> str:
    """Return the outcomes as JUnit XML, one suite per test."""
    root = Element("testsuites", _totals(outcomes, "harbormaster test"))
    by_test: dict[tuple[str, str], list[CaseOutcome]] = {}
    for outcome in outcomes:
        by_test.setdefault((outcome.test.file, outcome.test.name), []).append(outcome)
    for (file, name), several in by_test.items():
        suite = SubElement(root, "testsuite", {**_totals(several, name), "file": _xml(file)})
        for outcome in several:
            _test_case(suite, outcome)
    indent(root)
    return f'<?xml version="1.0" encoding="UTF-8"?>\n{tostring(root, encoding="unicode")}\n'


def _totals(outcomes: Sequence[CaseOutcome], name: str) -> dict[str, str]:
    counts = counts_of(outcomes)
    return {
        "name": _xml(shortened(name, LONGEST_NAME)),
        "tests": str(len(outcomes)),
        "failures": str(counts[CaseResult.FAILED]),
        "errors": str(counts[CaseResult.ERROR]),
        "skipped": str(counts[CaseResult.NOT_RUN]),
    }


def _test_case(suite: Element, outcome: CaseOutcome) -> None:
    case = outcome.placed.case
    names = {"name": case.name, "classname": outcome.test.name}
    attributes = {key: shortened(name, LONGEST_NAME) for key, name in names.items()} | {"file": outcome.test.file}
    element = SubElement(suite, "testcase", {name: _xml(value) for name, value in attributes.items()})
    element.set("line", str(outcome.placed.place.line))
    lines = list(explained(outcome))
    if outcome.result is CaseResult.NOT_RUN:
        SubElement(element, "skipped")
    elif lines:
        tag = "failure" if outcome.result is CaseResult.FAILED else "error"
        SubElement(element, tag, {"message": _xml(lines[0]), "type": described(case)}).text = _xml("\n".join(lines))


def _xml(text: str) -> str:
    """Return a text without characters that XML forbids."""
    return _NOT_IN_XML.sub("\N{REPLACEMENT CHARACTER}", text)


def findings(outcomes: Sequence[CaseOutcome]) -> list[SarifResult]:
    """Return the cases that did not pass, as findings in their files."""
    return [
        SarifResult(
            "case-failed" if outcome.result is CaseResult.FAILED else "case-error",
            "error",
            "\n".join([_name(outcome), *explained(outcome)]),
            outcome.test.file,
            outcome.placed.place,
        )
        for outcome in outcomes
        if outcome.result in (CaseResult.FAILED, CaseResult.ERROR)
    ]
