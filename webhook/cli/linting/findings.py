"""Findings of ``harbormaster lint``: errors and questionable settings in files, with line and column."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

import click

from scorer.api.unstructured.json_object import JsonObject, dump_json
from scorer.api.values.field_path import FieldPath
from scorer.api.values.quoting import format_count, printable, shortened
from scorer.node_budgets.lints import block_style, flow_style
from webhook.access.user import UserInfo
from webhook.admission.judge import as_warnings
from webhook.cli.files.documents import Loaded
from webhook.cli.files.parsing import FileMistake
from webhook.cli.files.positions import Positions, TextRange
from webhook.cli.files.repositories import Repository
from webhook.cli.linting.environments import contexts_of
from webhook.cli.linting.placed_objects import IGNORED_FIELDS, placed_object_remarks
from webhook.cli.linting.reports import annotations
from webhook.cli.linting.sarif import ADMISSION, Replacement, SarifResult, sarif_log
from webhook.cli.offline.admission import admit, field_warnings
from webhook.cli.options.field_validation import UNKNOWN, UNKNOWN_FIELD, FieldCheck, Validation
from webhook.cli.text.links import FINDING, hyperlink, url_of
from webhook.cli.text.output import print_document
from webhook.validation.framework.context import Context
from webhook.validation.framework.field import FieldWarning
from webhook.validation.node_pool_budgets import BudgetHint, BudgetWarning

ERROR: Final = "error"
UNUSABLE: Final = "file"
"""Replaces the rule ID of a file, or of an object in it, that cannot be used."""
WARNING: Final = "warning"

_AND_MORE: Final = re.compile(r"and [0-9]+ more warnings")
_LARGEST_FIX: Final = 16 * 1024
"""Maximum size of the corrected budgets of one pool, in bytes."""
_ADMINISTRATOR: Final = UserInfo("harbormaster:lint", frozenset({"system:masters", "system:authenticated"}))
_BUDGETS: Final = FieldPath.of("spec", "disruption", "budgets")
_REPLACES: Final = "Write the corrected budgets to the files. Comments between the old budgets are lost."


@dataclass(frozen=True, slots=True)
class LintFinding:
    """One error or warning about one object, or an error about a file.

    Args:
        about: The object. None: unknown, the file or a document in it cannot be used.
        file: File of the object.
        severity: `ERROR` or `WARNING`.
        rule: ID of the rule.
        field: Path of the field, empty if the finding concerns no field.
        message: Reason for the finding.
        place: Line and column.
        fixes: The corrected budgets, each with the reading that it implements, which is empty if there is only one.
        replacements: The corrected budgets as texts that replace the old ones, if their position is known.
    """

    about: Loaded | None
    file: str
    severity: str
    rule: str
    field: str
    message: str
    place: TextRange
    fixes: tuple[tuple[str, tuple[JsonObject, ...]], ...] = ()
    replacements: tuple[Replacement, ...] = ()

    @property
    def object(self) -> str:
        """The object as messages name it, with the rendered folder, if any. Empty if unknown."""
        if self.about is None:
            return ""
        title = f"{self.about.kind.kind} {self.about.shown_name}"
        source = self.about.source
        return f"{title} of {printable(str(Path(source.file).parent))}" if source.rendered_by else title

    @property
    def text(self) -> str:
        """Field and message."""
        return shortened(printable(f"{self.field}: {self.message}" if self.field else self.message))


def lint_repository(repository: Repository, validation: Validation) -> list[LintFinding]:
    """Return all errors and warnings about the objects of some files, and about the files, by file and position."""
    contexts = contexts_of(repository.loaded, datetime.now(UTC), _ADMINISTRATOR)
    positions = Positions(repository.texts)
    fields = FieldCheck.of(validation, repository.loaded)
    remarks = [_from_mistake(mistake, positions) for mistake in repository.mistakes]
    for item in repository.loaded:
        remarks += lint_object(item, contexts(item), positions, fields)
    remarks += _about_placed_objects(repository.loaded, positions)
    order = {file: number for number, file in enumerate(repository.texts)}
    return sorted(remarks, key=lambda remark: (order.get(remark.file, len(order)), remark.place[:2]))


def _about_placed_objects(objects: Sequence[Loaded], positions: Positions) -> Iterator[LintFinding]:
    for remark in placed_object_remarks(objects):
        source = remark.about.source.written
        severity, place = ERROR if remark.is_error else WARNING, positions.place(source, remark.field)
        yield LintFinding(remark.about, source.file, severity, IGNORED_FIELDS, str(remark.field), remark.message, place)


def show(count: int, remarks: Sequence[LintFinding], output: str) -> None:
    """Print findings about *count* objects in one of the formats of ``harbormaster lint``."""
    errors = sum(remark.severity == ERROR for remark in remarks)
    warnings = len(remarks) - errors
    if output in ("text", "wide"):
        _print(remarks, wide=output == "wide")
        click.echo(
            f"{format_count(count, 'object')}: {format_count(errors, 'error')}, {format_count(warnings, 'warning')}"
        )
    elif output == "json":
        items = [_item(remark) for remark in remarks]
        print_document({"objects": count, "errors": errors, "warnings": warnings, "items": items}, "json")
    elif output == "sarif":
        from webhook.admission.catalogue import rule_texts

        print_document(sarif_log([result_of(remark) for remark in remarks], rule_texts(), Path.cwd()), "json")
    else:
        for line in annotations([result_of(remark) for remark in remarks], Path.cwd()):
            click.echo(line)


def lint_object(item: Loaded, context: Context, positions: Positions, fields: FieldCheck) -> list[LintFinding]:
    """Return all errors and warnings about one object, sorted by position."""
    return sorted(_remarks(item, context, positions, fields), key=lambda remark: remark.place[:2])


def _remarks(item: Loaded, context: Context, positions: Positions, fields: FieldCheck) -> Iterator[LintFinding]:
    """Yield all errors and warnings about one object."""
    verdict = admit(item, context, fields=fields)
    for error in verdict.errors:
        place = positions.place(item.source.written, error.field)
        yield LintFinding(
            item, item.source.written.file, ERROR, error.rule or ADMISSION, str(error.field), error.text(), place
        )
    if verdict.refusal:
        yield LintFinding(
            item,
            item.source.written.file,
            ERROR,
            ADMISSION,
            "",
            verdict.refusal,
            positions.place(item.source.written, FieldPath()),
        )
    warnings = field_warnings(verdict, context)
    for warning in warnings:
        if not isinstance(warning, BudgetHint):
            yield _from_warning(item, warning, positions)
    texts = {text for warning in warnings for text in as_warnings([warning])}
    for text in verdict.warnings:
        if text not in texts and not _AND_MORE.fullmatch(text):
            yield _from_text(item, text, positions)


def _from_mistake(mistake: FileMistake, positions: Positions) -> LintFinding:
    """Return the finding for an unusable file or object, at the line of a syntax error or at the field."""
    source, line = mistake.source, mistake.line
    place = positions.place(source, mistake.path) if source.number else TextRange(line, 1, line, 1)
    return LintFinding(None, source.file, ERROR, UNUSABLE, str(mistake.path), mistake.message, place)


def _from_warning(item: Loaded, warning: FieldWarning, positions: Positions) -> LintFinding:
    place = positions.place(item.source.written, warning.field)
    fixes = warning.readings if isinstance(warning, BudgetWarning) else ()
    if any(len(dump_json(list(fix))) > _LARGEST_FIX for _, fix in fixes):
        fixes = ()
    return LintFinding(
        item,
        item.source.written.file,
        WARNING,
        warning.rule,
        str(warning.field),
        warning.message,
        place,
        fixes,
        tuple(_replacements(item, fixes, positions)),
    )


def _from_text(item: Loaded, text: str, positions: Positions) -> LintFinding:
    """Return the finding in a warning that exists only as text: an unknown field, or a change of a field."""
    unknown = UNKNOWN.fullmatch(text)
    field, _, message = (unknown[1], "", "is not a field of this kind") if unknown else text.partition(": ")
    path = positions.path(item.source.written, field)
    if path is None and not unknown:
        field, message = "", text
    place = positions.place(item.source.written, path or FieldPath())
    return LintFinding(
        item, item.source.written.file, WARNING, UNKNOWN_FIELD if unknown else ADMISSION, field, message, place
    )


def _replacements(
    item: Loaded, fixes: Sequence[tuple[str, Sequence[JsonObject]]], positions: Positions
) -> Iterator[Replacement]:
    """Yield the corrected budgets in the YAML style of the old ones. Nothing if they cannot be replaced."""
    value = positions.value(item.source, _BUDGETS) if fixes and not item.source.rendered_by else None
    if value is None:  # a patch may have written the rendered budgets
        return
    for reading, fix in fixes:
        if value.is_json:
            text = dump_json(list(fix)).decode()
        else:
            text = flow_style(fix) if value.is_flow else block_style(fix, indent=value.place.column - 1)
        yield Replacement(value.place, text, f"For {reading} the windows. {_REPLACES}" if reading else _REPLACES)


def _print(remarks: Sequence[LintFinding], *, wide: bool) -> None:
    """Print a line for each finding, with the corrected budgets below. Equal corrections are printed once."""
    printed_fixes: list[tuple[Loaded | None, object]] = []
    for remark in remarks:
        place = f"{printable(remark.file)}:{remark.place.line}:{remark.place.column}"
        url = url_of(remark.rule, FINDING)
        subject = f"{hyperlink(remark.rule, url)} {remark.object}".rstrip()
        click.echo(f"{place}: {remark.severity} {subject}: {remark.text}{f' ({url})' if wide and url else ''}")
        for reading, fix in remark.fixes:
            if (remark.about, fix) not in printed_fixes:
                printed_fixes.append((remark.about, fix))
                title = f"corrected for {reading} the windows" if reading else "corrected"
                click.echo(f"  {title}:\n    budgets:\n    {block_style(fix, indent=4)}")


def _item(remark: LintFinding) -> JsonObject:
    return {
        "file": remark.file,
        **_object_item(remark.about),
        "line": remark.place.line,
        "column": remark.place.column,
        "severity": remark.severity,
        "rule": remark.rule,
        "field": remark.field,
        "message": remark.message,
        **{key: list(fix) for key, (_, fix) in zip(("budgets", "alternative"), remark.fixes, strict=False)},
    }


def _object_item(item: Loaded | None) -> JsonObject:
    if item is None:
        return {}
    return {
        "document": item.source.written.number,
        **({} if item.source.item is None else {"item": item.source.item}),
        "apiVersion": item.document["apiVersion"],
        "kind": item.kind.kind,
        "namespace": item.namespace,
        "name": item.name,
    }


def result_of(remark: LintFinding) -> SarifResult:
    """Return a finding in the form of SARIF."""
    message = f"{remark.object}: {remark.text}" if remark.about else remark.text
    return SarifResult(remark.rule, remark.severity, message, remark.file, remark.place, remark.replacements)
