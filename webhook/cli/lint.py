"""``harbormaster lint``: all that is wrong or odd in files, with line and column, for CI."""

import re
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

import click

from scorer.api.field_path import FieldPath
from scorer.api.kinds import KINDS, OUR_KINDS, group_kind, split_api_version
from scorer.api.meta import JsonObject, dump_json
from scorer.api.quoting import printable
from scorer.node_budgets.lints import block_style, flow_style
from webhook.access.user import UserInfo
from webhook.admission import registry
from webhook.admission.catalogue import catalogue
from webhook.admission.judge import as_warnings
from webhook.cli.documents import DEFAULT_NAMESPACE, STDIN_NAME, Found, Loaded, definitions, read, resolve
from webhook.cli.failure import complain
from webhook.cli.offline_admission import Verdict, admit, context_of
from webhook.cli.options import file_option, namespace_option, output_option
from webhook.cli.output import print_document
from webhook.cli.positions import Place, Positions
from webhook.cli.sarif import Replacement, Result, sarif_log
from webhook.validation.context import Context
from webhook.validation.field import FieldWarning
from webhook.validation.live.check import counted, run_checks
from webhook.validation.node_pool import BudgetHint, BudgetWarning

HELP = """Find what is wrong or odd in files, for CI.

Judges every object as `harbormaster validate` does, offline and by the same rules. In a folder, objects of unknown
kinds are skipped, with a note. An error is what admission would refuse; a warning is what it would admit with a
warning. All of them are shown, each with file, line, column, rule and field. If the budgets of a NodePool do not do
what they seem to, the output has the corrected budgets, ready to paste.

\b
Output:
  text   FILE:LINE:COLUMN: SEVERITY RULE OBJECT: FIELD: WHY, and corrections below
  json   the same for programs
  sarif  SARIF 2.1.0, with corrections as fixes, for tools that show findings in a code review

\b
Examples:
  harbormaster lint -f examples/budgets
  harbormaster lint -f pools -f placements.yaml --strict
  harbormaster lint -f . -o sarif > harbormaster.sarif

\b
Exit codes:
  0  nothing, or only warnings
  1  an error, with --strict also a warning, or a file cannot be used
"""

ERROR: Final = "error"
WARNING: Final = "warning"
UNKNOWN_FIELD: Final = "unknown-field"
"""Takes the place of a rule id for a field that is dropped because no schema knows it."""
ADMISSION: Final = "admission"
"""Takes the place of a rule id where admission names no rule."""

_UNKNOWN: Final = re.compile(r'unknown field "(.*)"', re.DOTALL)
_AND_MORE: Final = re.compile(r"and [0-9]+ more warnings")
_ADMINISTRATOR: Final = UserInfo("harbormaster:lint", frozenset({"system:masters", "system:authenticated"}))
_BUDGETS: Final = FieldPath.of("spec", "disruption", "budgets")
_REPLACES: Final = "Write the corrected budgets; comments between the old ones are lost."


@dataclass(frozen=True, slots=True)
class Remark:
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
    place: Place
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
        return f"{one.kind.kind} {one.namespace}/{one.name}" if one.namespace else f"{one.kind.kind} {one.name}"

    @property
    def text(self) -> str:
        """Field and message."""
        return printable(f"{self.field}: {self.message}" if self.field else self.message)


@click.command("lint", help=HELP, short_help="Find what is wrong or odd in files, for CI.")
@file_option
@namespace_option
@output_option("text", "json", "sarif")
@click.option("--strict", is_flag=True, help="Exit with 1 for warnings, too.")
def command(files: Sequence[str], namespace: str | None, output: str, *, strict: bool) -> int:
    """Check files."""
    if not files:
        raise click.UsageError("say what to check: -f FILE")
    texts: dict[str, str] = {}
    ours, notes = without_foreign(read(files, texts=texts), {*files, STDIN_NAME})
    loaded = resolve(ours, namespace=namespace or DEFAULT_NAMESPACE)
    for note in notes:
        complain(f"note: {note}")
    context = context_of(loaded, datetime.now(UTC)).asked_by(_ADMINISTRATOR)
    positions = Positions(texts)
    remarks = [remark for one in loaded for remark in _sorted(_remarks(one, context, positions))]
    errors = sum(remark.severity == ERROR for remark in remarks)
    warnings = len(remarks) - errors
    if output == "text":
        _print(remarks)
        click.echo(f"{counted(len(loaded), 'object')}: {counted(errors, 'error')}, {counted(warnings, 'warning')}")
    elif output == "json":
        items = [_item(remark) for remark in remarks]
        print_document({"objects": len(loaded), "errors": errors, "warnings": warnings, "items": items}, "json")
    else:
        words = {entry.rule.id: entry.rule.what for entry in catalogue()}
        print_document(sarif_log([_result(remark) for remark in remarks], words, Path.cwd()), "json")
    return 1 if errors or (strict and warnings) else 0


def without_foreign(found: Sequence[Found], named: Collection[str]) -> tuple[list[Found], list[str]]:
    """Return the objects that can be judged, and a note for each kind of the others.

    An object is foreign if its group is neither ours nor Kubernetes', or if it is no Kubernetes object at all. An
    object that looks like one of our kinds is kept: it has a mistake, and `resolve` reports it.

    Args:
        found: What was read.
        named: Files that the user named, as opposed to files in a folder: nothing in them is skipped.
    """
    known = {**definitions(found), **KINDS}
    groups, names = {kind.group for kind in OUR_KINDS}, {kind.kind for kind in OUR_KINDS}
    ours: list[Found] = []
    skipped: dict[str, list[Found]] = {}
    for each in found:
        version, kind = each.document.get("apiVersion"), each.document.get("kind")
        if each.source.file in named:
            ours.append(each)
        elif version is None and kind is None and "metadata" not in each.document:
            skipped.setdefault("no Kubernetes object", []).append(each)
        elif (
            isinstance(version, str)
            and isinstance(kind, str)
            and group_kind(each.document) not in known
            and split_api_version(version)[0] not in (groups | {""})
            and kind not in names
        ):
            skipped.setdefault(f"{kind} of {version}, which is not known here", []).append(each)
        else:
            ours.append(each)
    notes = []
    for what, objects in skipped.items():
        more = f", and {len(objects) - 1} more" if len(objects) > 1 else ""
        notes.append(f"{objects[0].source}{more}: skipped: {what}")
    return ours, notes


def _sorted(remarks: Iterator[Remark]) -> list[Remark]:
    return sorted(remarks, key=lambda remark: remark.place[:2])


def _remarks(one: Loaded, context: Context, positions: Positions) -> Iterator[Remark]:
    """Yield all errors and warnings about one object."""
    verdict = admit(one, context)
    for error in verdict.errors:
        place = positions.place(one.source, error.field)
        yield Remark(one, ERROR, error.rule or ADMISSION, str(error.field), error.text(), place)
    if verdict.refusal:
        yield Remark(one, ERROR, ADMISSION, "", verdict.refusal, positions.place(one.source, FieldPath()))
    told = _field_warnings(one, verdict, context)
    for warning in told:
        if not isinstance(warning, BudgetHint):
            yield _from_warning(one, warning, positions)
    known = {text for warning in told for text in as_warnings([warning])}
    for text in verdict.warnings:
        if text not in known and not _AND_MORE.fullmatch(text):
            yield _from_text(one, text, positions)


def _field_warnings(one: Loaded, verdict: Verdict, context: Context) -> list[FieldWarning]:
    """Return the warnings of the rules of a kind; the verdict has only the first few of them, as text."""
    entry = registry.REGISTRY.get(one.kind.group_kind) if verdict.has_rules else None
    if entry is None:
        return []
    told: list[FieldWarning] = []
    if entry.default is not None:  # of the object as written it may say more than of the one that was judged
        defaulted = entry.default(one.document, None).warnings
        told += (warning for warning in defaulted if as_warnings([warning])[0] in verdict.warnings)
    if entry.validate is not None:
        found = entry.validate(verdict.document, None, context)
        told += (finding for finding in found if isinstance(finding, FieldWarning))
    if verdict.allowed and context.settings.live_warnings:
        told += run_checks(entry.live, verdict.document, None, context)
    return list(dict.fromkeys(told))


def _from_warning(one: Loaded, warning: FieldWarning, positions: Positions) -> Remark:
    place = positions.place(one.source, warning.field)
    fix = warning.fix if isinstance(warning, BudgetWarning) else None
    replacement = None if fix is None else _replacement(one, fix, positions)
    return Remark(one, WARNING, warning.rule, str(warning.field), warning.message, place, fix, replacement)


def _from_text(one: Loaded, text: str, positions: Positions) -> Remark:
    """Return what is only known as the text of an answer: an unknown field, or a field and what became of it."""
    unknown = _UNKNOWN.fullmatch(text)
    field, _, message = (unknown[1], "", "is no field of this kind") if unknown else text.partition(": ")
    path = positions.path(one.source, field)
    if path is None and not unknown:
        field, message = "", text
    place = positions.place(one.source, path or FieldPath())
    return Remark(one, WARNING, UNKNOWN_FIELD if unknown else ADMISSION, field, message, place)


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


def _print(remarks: Sequence[Remark]) -> None:
    """Print a line for each remark, and below it the corrected budgets, once where several ask for the same."""
    shown: list[tuple[Loaded, object]] = []
    for remark in remarks:
        place = f"{printable(remark.file)}:{remark.place.line}:{remark.place.column}"
        click.echo(f"{place}: {remark.severity} {remark.rule} {remark.object}: {remark.text}")
        if remark.fix is not None and (remark.about, remark.fix) not in shown:
            shown.append((remark.about, remark.fix))
            click.echo(f"  corrected:\n    budgets:\n    {block_style(remark.fix, indent=4)}")


def _item(remark: Remark) -> JsonObject:
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


def _result(remark: Remark) -> Result:
    message = f"{remark.object}: {remark.text}"
    return Result(remark.rule, remark.severity, message, remark.file, remark.place, remark.replacement)
