"""``harbormaster lint``: all that is wrong or odd in files, with line and column, for CI."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

import click

from scorer.api.meta import JsonObject, dump_json
from scorer.api.values.field_path import FieldPath
from scorer.api.values.quoting import printable, shortened
from scorer.node_budgets.lints import block_style, flow_style
from webhook.access.user import UserInfo
from webhook.admission.catalogue import rule_texts
from webhook.admission.judge import as_warnings
from webhook.cli.errors import complain
from webhook.cli.files.documents import DEFAULT_NAMESPACE, Loaded, read, resolve, without_foreign
from webhook.cli.files.positions import Positions, TextRange
from webhook.cli.files.search import STDIN_NAME, Files
from webhook.cli.linting.placed_objects import IGNORED_FIELDS, placed_object_remarks
from webhook.cli.linting.reports import Report, annotations, report_failures, report_option, write
from webhook.cli.linting.sarif import ADMISSION, Replacement, SarifResult, sarif_log
from webhook.cli.offline.admission import admit, field_warnings, offline_context
from webhook.cli.options.base import file_option, namespace_option, output_option
from webhook.cli.options.field_validation import UNKNOWN, UNKNOWN_FIELD, FieldCheck, Validation, validate_option
from webhook.cli.text.output import print_document
from webhook.validation.framework.context import Context
from webhook.validation.framework.field import FieldWarning
from webhook.validation.live.check import counted
from webhook.validation.node_pool_budgets import BudgetHint, BudgetWarning

HELP = """Find what is wrong or odd in files, for CI.

Judges every object as `harbormaster validate` does, offline and by the same rules. PATH is a file or folder to search:
in it, objects of unknown kinds are skipped, with a note, as in a folder that -f names; a file that -f names has to
consist of objects of known kinds. Templates of Helm charts are skipped; --ignore skips more.

An error is what admission would refuse, or an unknown field. A warning is what would be admitted with a warning, or an
unknown field of a foreign kind whose definition is not among the files, such as NodePool. So is a workload without
harbormaster.dev/ignore-fields that is placed together with its HorizontalPodAutoscaler. All of them are shown, each
with file, line, column, rule and field. If the budgets of a NodePool do not do what they seem to, the output has the
corrected budgets, ready to paste.

\b
Output:
  text   FILE:LINE:COLUMN: SEVERITY RULE OBJECT: FIELD: WHY, and corrections below
  json   the same for programs
  sarif  SARIF 2.1.0, with corrections as fixes, for tools that show findings in a code review
  github one annotation per finding, which GitHub shows beside the changed lines

\b
Examples:
  harbormaster lint examples/budgets
  harbormaster lint -f pools -f placements.yaml --strict
  harbormaster lint . --ignore vendor --report sarif=harbormaster.sarif

\b
Exit codes:
  0  nothing, or only warnings
  1  an error, with --strict also a warning, or a file cannot be used
"""

FORMATS: Final = ("text", "json", "sarif", "github")
ERROR: Final = "error"
WARNING: Final = "warning"

_AND_MORE: Final = re.compile(r"and [0-9]+ more warnings")
_LARGEST_FIX: Final = 16 * 1024
"""Bytes of the corrected budgets of one pool."""
_ADMINISTRATOR: Final = UserInfo("harbormaster:lint", frozenset({"system:masters", "system:authenticated"}))
_BUDGETS: Final = FieldPath.of("spec", "disruption", "budgets")
_REPLACES: Final = "Write the corrected budgets; comments between the old ones are lost."


@dataclass(frozen=True, slots=True)
class LintFinding:
    """One error or warning about one object.

    Args:
        about: The object.
        severity: `ERROR` or `WARNING`.
        rule: Its id.
        field: Path of the field, empty if the remark concerns no field.
        message: Why.
        place: Line and column.
        fix: The corrected budgets, as documents.
        replacement: The same as text in place of the old ones, where these can be found.
    """

    about: Loaded
    severity: str
    rule: str
    field: str
    message: str
    place: TextRange
    fix: tuple[JsonObject, ...] | None = None
    replacement: Replacement | None = None

    @property
    def file(self) -> str:
        """The file of the object."""
        return self.about.source.file

    @property
    def object(self) -> str:
        """The object, as one names it in a sentence."""
        one = self.about
        return f"{one.kind.kind} {one.shown_name}"

    @property
    def text(self) -> str:
        """Field and message."""
        return shortened(printable(f"{self.field}: {self.message}" if self.field else self.message))


@click.command("lint", help=HELP, short_help="Find what is wrong or odd in files, for CI.")
@click.argument("searched", nargs=-1, metavar="[PATH]...")
@file_option
@namespace_option
@output_option(*FORMATS)
@report_option(*FORMATS)
@validate_option
@click.option("--strict", is_flag=True, help="Exit with 1 for warnings, too.")
def command(
    searched: Sequence[str],
    files: Files,
    namespace: str | None,
    output: str,
    reports: Sequence[Report],
    validation: Validation,
    *,
    strict: bool,
) -> int:
    """Check files."""
    if not (files or searched):
        raise click.UsageError("say what to check: PATH, or -f FILE")
    with report_failures(output, reports):
        count, remarks = _lint(Files((*files.paths, *searched), files.ignored), files.paths, namespace, validation)
    write(reports, lambda wanted: _show(count, remarks, wanted))
    _show(count, remarks, output)
    return 1 if any(strict or remark.severity == ERROR for remark in remarks) else 0


def _lint(
    every: Files, named: Sequence[str], namespace: str | None, validation: Validation
) -> tuple[int, list[LintFinding]]:
    """Return how many objects there are, and what is wrong or odd about them. Raises `UserError`."""
    texts: dict[str, str] = {}
    documents = read(every, texts=texts, may_be_empty=len(named) < len(every.paths))
    ours, notes = without_foreign(documents, {*named, STDIN_NAME})
    loaded = resolve(ours, namespace=namespace or DEFAULT_NAMESPACE)
    for note in notes:
        complain(f"note: {note}")
    context = offline_context(loaded, datetime.now(UTC), user=_ADMINISTRATOR)
    positions = Positions(texts)
    fields = FieldCheck.of(validation, loaded)
    findings = [remark for one in loaded for remark in lint_object(one, context, positions, fields)]
    return len(loaded), [*findings, *_about_placed_objects(loaded, positions)]


def _about_placed_objects(loaded: Sequence[Loaded], positions: Positions) -> Iterator[LintFinding]:
    for remark in placed_object_remarks(loaded):
        severity, place = ERROR if remark.is_error else WARNING, positions.place(remark.about.source, remark.field)
        yield LintFinding(remark.about, severity, IGNORED_FIELDS, str(remark.field), remark.message, place)


def _show(count: int, remarks: Sequence[LintFinding], output: str) -> None:
    errors = sum(remark.severity == ERROR for remark in remarks)
    warnings = len(remarks) - errors
    if output == "text":
        _print(remarks)
        click.echo(f"{counted(count, 'object')}: {counted(errors, 'error')}, {counted(warnings, 'warning')}")
    elif output == "json":
        items = [_item(remark) for remark in remarks]
        print_document({"objects": count, "errors": errors, "warnings": warnings, "items": items}, "json")
    elif output == "sarif":
        print_document(sarif_log([result_of(remark) for remark in remarks], rule_texts(), Path.cwd()), "json")
    else:
        for line in annotations([result_of(remark) for remark in remarks], Path.cwd()):
            click.echo(line)


def lint_object(one: Loaded, context: Context, positions: Positions, fields: FieldCheck) -> list[LintFinding]:
    """Return all errors and warnings about one object, in the order of their places."""
    return sorted(_remarks(one, context, positions, fields), key=lambda remark: remark.place[:2])


def _remarks(one: Loaded, context: Context, positions: Positions, fields: FieldCheck) -> Iterator[LintFinding]:
    """Yield all errors and warnings about one object."""
    verdict = admit(one, context, fields=fields)
    for error in verdict.errors:
        place = positions.place(one.source, error.field)
        yield LintFinding(one, ERROR, error.rule or ADMISSION, str(error.field), error.text(), place)
    if verdict.refusal:
        yield LintFinding(one, ERROR, ADMISSION, "", verdict.refusal, positions.place(one.source, FieldPath()))
    warnings = field_warnings(verdict, context)
    for warning in warnings:
        if not isinstance(warning, BudgetHint):
            yield _from_warning(one, warning, positions)
    texts = {text for warning in warnings for text in as_warnings([warning])}
    for text in verdict.warnings:
        if text not in texts and not _AND_MORE.fullmatch(text):
            yield _from_text(one, text, positions)


def _from_warning(one: Loaded, warning: FieldWarning, positions: Positions) -> LintFinding:
    place = positions.place(one.source, warning.field)
    fix = warning.fix if isinstance(warning, BudgetWarning) else None
    if fix is not None and len(dump_json(list(fix))) > _LARGEST_FIX:
        fix = None
    replacement = None if fix is None else _replacement(one, fix, positions)
    return LintFinding(one, WARNING, warning.rule, str(warning.field), warning.message, place, fix, replacement)


def _from_text(one: Loaded, text: str, positions: Positions) -> LintFinding:
    """Return what is only known as the text of an answer: an unknown field, or a field and what became of it."""
    unknown = UNKNOWN.fullmatch(text)
    field, _, message = (unknown[1], "", "is no field of this kind") if unknown else text.partition(": ")
    path = positions.path(one.source, field)
    if path is None and not unknown:
        field, message = "", text
    place = positions.place(one.source, path or FieldPath())
    return LintFinding(one, WARNING, UNKNOWN_FIELD if unknown else ADMISSION, field, message, place)


def _replacement(one: Loaded, fix: Sequence[JsonObject], positions: Positions) -> Replacement | None:
    """Return the corrected budgets in the style of those that they replace."""
    value = positions.value(one.source, _BUDGETS)
    if value is None:
        return None
    if value.is_json:
        text = dump_json(list(fix)).decode()
    else:
        text = flow_style(fix) if value.is_flow else block_style(fix, indent=value.place.column - 1)
    return Replacement(value.place, text, _REPLACES)


def _print(remarks: Sequence[LintFinding]) -> None:
    """Print a line for each remark, and below it the corrected budgets, once where several ask for the same."""
    shown: list[tuple[Loaded, object]] = []
    for remark in remarks:
        place = f"{printable(remark.file)}:{remark.place.line}:{remark.place.column}"
        click.echo(f"{place}: {remark.severity} {remark.rule} {remark.object}: {remark.text}")
        if remark.fix is not None and (remark.about, remark.fix) not in shown:
            shown.append((remark.about, remark.fix))
            click.echo(f"  corrected:\n    budgets:\n    {block_style(remark.fix, indent=4)}")


def _item(remark: LintFinding) -> JsonObject:
    one = remark.about
    return {
        "file": remark.file,
        "document": one.source.number,
        **({} if one.source.item is None else {"item": one.source.item}),
        "line": remark.place.line,
        "column": remark.place.column,
        "severity": remark.severity,
        "rule": remark.rule,
        "apiVersion": one.document["apiVersion"],
        "kind": one.kind.kind,
        "namespace": one.namespace,
        "name": one.name,
        "field": remark.field,
        "message": remark.message,
        **({} if remark.fix is None else {"budgets": list(remark.fix)}),
    }


def result_of(remark: LintFinding) -> SarifResult:
    """Return a remark as a finding."""
    message = f"{remark.object}: {remark.text}"
    return SarifResult(remark.rule, remark.severity, message, remark.file, remark.place, remark.replacement)
