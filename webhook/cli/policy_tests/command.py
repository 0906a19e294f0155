"""``harbormaster test``: runs test files for placements, admission, budgets and the gate, in CI."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

import click

from webhook.cli.errors import UserError, complain
from webhook.cli.files.search import Files
from webhook.cli.linting.reports import Report, annotations, report_failures, report_option, write
from webhook.cli.linting.sarif import sarif_log
from webhook.cli.options.base import grouped, ignore_option, output_option
from webhook.cli.policy_tests.coverage import Coverage
from webhook.cli.policy_tests.file_format import PlacedCase, PolicyTest, read_tests, shown_name
from webhook.cli.policy_tests.output import RULES, counts_of, document, findings, junit, print_outcomes, summary
from webhook.cli.policy_tests.runner import CaseOutcome, CaseResult, Scene
from webhook.cli.text.output import print_document

HELP: Final = """Run tests of placements, admission, budgets and the gate.

PATH is a test file, or a folder that is searched recursively for files named harbormaster-test.yaml or
NAME.harbormaster-test.yaml. The default is the current folder.

A test names the files of a hub and has cases: the clusters that a placement gets, the result of admission, the verdict
of the gate, or the disruptions that budgets allow at a given time. The commands `plan`, `validate`, `gate` and
`budgets` give the same results, as does a running hub.

\b
A test:
  apiVersion: cli.harbormaster.dev/v1alpha1
  kind: Test
  fleet: [../fleet]
  cases:
  - name: payments goes to production only
    placement: crp/payments
    expect:
      picked: [bravelion, smartfish, calmheron]
      notPicked: [{cluster: dryduck, plugin: TaintToleration}]

\b
Output:
  table   all cases, followed by unexpected results and their reasons
  json    the results as JSON
  junit   JUnit XML, which most CI systems show
  sarif   SARIF 2.1.0 for code review tools
  github  one annotation per case that did not pass, which GitHub shows next to the line

\b
Examples:
  harbormaster test examples
  harbormaster test --filter payments
  harbormaster test examples --coverage --coverage-minimum 20
  harbormaster test --report junit=results.xml

\b
Exit codes:
  0  every case passed
  1  an error: an unusable file, a case that cannot be evaluated, or no cases
  2  a case failed, or --coverage-minimum is not reached
"""
FAILED: Final = 2
FORMATS: Final = ("table", "json", "junit", "sarif", "github")


@dataclass(frozen=True, slots=True)
class _TestOptions:
    """Selection of cases, and requirements for success.

    Args:
        wanted: A part of the names of the cases to run.
        fail_fast: Stop after the first case that does not pass.
        coverage: Show the rules of admission that were exercised.
        coverage_minimum: Minimum coverage in percent, with *coverage* or without.
        if_present: Accept a repository without tests.
    """

    wanted: str
    fail_fast: bool
    coverage: bool
    coverage_minimum: float | None
    if_present: bool


@click.command("test", help=HELP, short_help="Run tests of placements, admission, budgets and the gate.")
@click.argument("paths", nargs=-1, metavar="[PATH]...")
@ignore_option
@grouped(
    "choices",
    _TestOptions,
    click.option(
        "--filter",
        "wanted",
        default="",
        metavar="TEXT",
        help="Run only cases with this text in their name (`TEST: CASE`), ignoring case.",
    ),
    click.option("--fail-fast", is_flag=True, help="Stop after the first case that does not pass."),
    click.option("--coverage", is_flag=True, help="Show how many cases exercised each admission rule."),
    click.option(
        "--coverage-minimum",
        type=click.FloatRange(0, 100),
        metavar="PERCENT",
        help="Exit with 2 if a smaller percentage of the rules was exercised.",
    ),
    click.option("--if-present", is_flag=True, help="Exit with 0 if there are no tests."),
)
@output_option(*FORMATS)
@report_option(*FORMATS)
def command(
    paths: Sequence[str], ignored: Sequence[str], choices: _TestOptions, output: str, reports: Sequence[Report]
) -> int:
    """Run tests."""
    files = Files(paths or (".",), ignored)
    with report_failures(output, reports):
        tests = read_tests(files, may_be_absent=choices.if_present)
        outcomes = list(_run(_chosen(tests, choices.wanted), choices)) if tests else []
    with_coverage = tests and (choices.coverage or choices.coverage_minimum is not None)
    coverage = (
        Coverage.of(outcome.judged for outcome in outcomes if outcome.judged is not None) if with_coverage else None
    )
    write(reports, lambda output: _print(outcomes, coverage, choices, output))
    _print(outcomes, coverage, choices, output)
    counts = counts_of(outcomes)
    if counts[CaseResult.ERROR]:
        return 1
    short = (
        coverage is not None and choices.coverage_minimum is not None and coverage.percent < choices.coverage_minimum
    )
    if short and coverage is not None:
        complain(f"{coverage.summary()}, required: {choices.coverage_minimum:g} %")
    return FAILED if counts[CaseResult.FAILED] or short else 0


def _chosen(tests: Sequence[PolicyTest], fragment: str) -> list[tuple[PolicyTest, list[PlacedCase]]]:
    """Return the cases to run, by test. Raises `UserError` if no case matches."""
    selected = [
        (
            test,
            [
                placed_case
                for placed_case in test.cases
                if fragment.lower() in shown_name(test, placed_case.case).lower()
            ],
        )
        for test in tests
    ]
    if not any(cases for _, cases in selected):
        raise UserError(f"--filter {fragment!r}: no case has this in its name")
    return [(test, cases) for test, cases in selected if cases]


def _run(selection: Sequence[tuple[PolicyTest, list[PlacedCase]]], choices: _TestOptions) -> Iterator[CaseOutcome]:
    """Yield the outcomes of the cases, in order. Raises `UserError` before the first if files cannot be used."""
    clock, problems, scenes = datetime.now(UTC), list[str](), list[tuple[Scene, list[PlacedCase]]]()
    for test, cases in selection:
        try:
            scenes.append((Scene.of(test, clock), cases))
        except UserError as error:
            problems += (f"{test.file}: {line}" for line in error.lines)
    if problems:
        raise UserError(problems)
    is_stopped = False
    for scene, cases in scenes:
        for placed_case in cases:
            outcome = CaseOutcome(scene.test, placed_case, CaseResult.NOT_RUN) if is_stopped else scene.run(placed_case)
            is_stopped = is_stopped or (choices.fail_fast and outcome.result is not CaseResult.PASSED)
            yield outcome


def _print(outcomes: Sequence[CaseOutcome], coverage: Coverage | None, choices: _TestOptions, output: str) -> None:
    match output:
        case "table":
            print_outcomes(outcomes, coverage if choices.coverage else None)
        case "json":
            print_document(document(outcomes, coverage), "json")
        case "junit":
            click.echo(junit(outcomes), nl=False)
        case "sarif":
            print_document(sarif_log(findings(outcomes), RULES, Path.cwd()), "json")
        case _:
            for line in annotations(findings(outcomes), Path.cwd()):
                click.echo(line)
            click.echo(summary(outcomes))
