"""``harbormaster lint``: errors and questionable settings in files, with line and column, for CI."""

from collections.abc import Sequence
from typing import Final

import click

from webhook.cli.files.documents import DEFAULT_NAMESPACE
from webhook.cli.files.repositories import read_repository
from webhook.cli.files.search import Files
from webhook.cli.linting.reports import Report, report_failures, report_option, write
from webhook.cli.options.base import namespace_option, output_option, repository_option
from webhook.cli.options.field_validation import Validation, validate_option

HELP = """Find errors and questionable settings in files, for CI.

Validates every object offline, with the same rules as `harbormaster validate`. PATH is a file or folder to search.
Other content is skipped and counted in notes: objects of unknown kinds, values files, templates, patches of
kustomizations, and YAML and JSON of other tools. --ignore skips more. A file given with -f must contain an object of a
known kind.

An object may occur in several environments, but not twice in one file or kustomization. An object with only
generateName is validated with a name that the API server might generate.

\b
Errors:
  objects that admission would refuse
  unknown fields, and invalid values of harbormaster.dev/ignore-fields
  files with harbormaster objects that cannot be read
Warnings:
  objects that admission would accept with a warning
  unknown fields of other projects' kinds, such as NodePool, without their CustomResourceDefinition among the files
  workloads without harbormaster.dev/ignore-fields that are placed together with their HorizontalPodAutoscaler

Each finding has file, line, column, rule and field. If the budgets of a NodePool probably differ from their author's
intent, the output includes corrected budgets, ready to paste. If the windows can be read in two ways, it includes both
corrections.

\b
Output:
  text   FILE:LINE:COLUMN: SEVERITY RULE OBJECT: FIELD: WHY, with corrections below
  wide   the same, followed by the URL of the rule
  json   the findings as JSON
  sarif  SARIF 2.1.0 for code review tools, with corrections as fixes
  github one annotation per finding, which GitHub shows next to the line

\b
Examples:
  harbormaster lint examples/budgets
  harbormaster lint -f pools -f placements.yaml --strict
  harbormaster lint . --ignore vendor --report sarif=harbormaster.sarif

\b
Exit codes:
  0  no findings, or only warnings
  1  errors (with --strict also warnings), or a file cannot be used
"""

FORMATS: Final = ("text", "wide", "json", "sarif", "github")


@click.command("lint", help=HELP, short_help="Find errors and questionable settings in files, for CI.")
@click.argument("searched", nargs=-1, metavar="[PATH]...")
@repository_option
@namespace_option
@output_option(*FORMATS)
@report_option(*FORMATS)
@validate_option
@click.option("--strict", is_flag=True, help="Also exit with 1 for warnings.")
def command(
    files: Files,
    namespace: str | None,
    output: str,
    reports: Sequence[Report],
    validation: Validation,
    *,
    strict: bool,
) -> int:
    """Check files. Raises `click.UsageError`."""
    from webhook.cli.linting.findings import ERROR, lint_repository, show

    if not files:
        raise click.UsageError("specify what to check: PATH, or -f FILE")
    with report_failures(output, reports):
        repository = read_repository(files, namespace=namespace or DEFAULT_NAMESPACE)
    remarks = lint_repository(repository, validation)
    count = len(repository.loaded)
    write(reports, lambda output: show(count, remarks, output))
    show(count, remarks, output)
    return 1 if any(strict or remark.severity == ERROR for remark in remarks) else 0
