"""Findings as SARIF 2.1.0, which code hosts show alongside changed lines. Also converts the verdicts in a plan.

Source: OASIS SARIF 2.1.0, sections 3.13 (log), 3.14 (run), 3.20 (invocation), 3.27 (result), 3.30 (region), 3.55 (fix).
"""

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final
from urllib.parse import quote

from scorer.api.unstructured.json_object import JsonObject
from scorer.api.values.field_path import FieldPath
from scorer.api.values.quoting import printable, shortened
from webhook.cli.files.documents import Loaded
from webhook.cli.files.positions import Positions, TextRange
from webhook.cli.text.links import FINDING, url_of
from webhook.runtime.distribution import HOMEPAGE, installed_version

SCHEMA: Final = "https://json.schemastore.org/sarif-2.1.0.json"


@dataclass(frozen=True, slots=True)
class Replacement:
    """Text that fixes a finding.

    Args:
        place: Range to replace.
        text: New text.
        description: Effect of the fix.
    """

    place: TextRange
    text: str
    description: str


@dataclass(frozen=True, slots=True)
class SarifResult:
    """One finding.

    Args:
        rule: ID of the rule.
        level: ``error``, ``warning`` or ``note``.
        message: Human-readable message.
        file: The file as the user named it.
        place: Position of the finding.
        replacements: Alternative fixes.
    """

    rule: str
    level: str
    message: str
    file: str
    place: TextRange
    replacements: tuple[Replacement, ...] = ()


def sarif_log(
    results: Sequence[SarifResult], rules: Mapping[str, str], folder: Path, *, failures: Sequence[str] = ()
) -> JsonObject:
    """Return the log of one run.

    Args:
        results: Findings in the order of output.
        rules: Description of each rule, by ID. A rule with an empty text gets no description.
        folder: File names within it are relative to it.
        failures: Reasons why files could not be used, so that results are missing.
    """
    ids = sorted({result.rule for result in results})
    driver = {
        "name": "harbormaster",
        "version": installed_version(),
        "informationUri": HOMEPAGE,
        "rules": [_rule(rule, rules.get(rule, "")) for rule in ids],
    }
    run: JsonObject = {
        "tool": {"driver": driver},
        "columnKind": "unicodeCodePoints",
        "results": [_result(result, ids.index(result.rule), folder) for result in results],
    }
    if failures:
        notes = [{"level": "error", "message": {"text": shortened(printable(failure))}} for failure in failures]
        run["invocations"] = [{"executionSuccessful": False, "toolExecutionNotifications": notes}]
    return {"$schema": SCHEMA, "version": "2.1.0", "runs": [run]}


def _rule(rule: str, words: str) -> JsonObject:
    url = url_of(rule, FINDING)
    help_uri = {"helpUri": url} if url else {}
    return {"id": rule, **({"shortDescription": {"text": words}} if words else {}), **help_uri}


def _result(result: SarifResult, index: int, folder: Path) -> JsonObject:
    artifact = {"uri": artifact_uri(result.file, folder)}
    place = result.place
    region = {"startLine": place.line, "startColumn": place.column}
    finding: JsonObject = {
        "ruleId": result.rule,
        "ruleIndex": index,
        "level": result.level,
        "message": {"text": shortened(result.message)},
        "locations": [{"physicalLocation": {"artifactLocation": artifact, "region": region}}],
    }
    if result.replacements:
        finding["fixes"] = [_fix(replacement, artifact) for replacement in result.replacements]
    return finding


def _fix(replacement: Replacement, artifact: JsonObject) -> JsonObject:
    place = replacement.place
    region = {
        "startLine": place.line,
        "startColumn": place.column,
        "endLine": place.end_line,
        "endColumn": place.end_column,
    }
    change = {"deletedRegion": region, "insertedContent": {"text": replacement.text}}
    return {
        "description": {"text": replacement.description},
        "artifactChanges": [{"artifactLocation": artifact, "replacements": [change]}],
    }


def artifact_uri(file: str, folder: Path) -> str:
    """Return the URI of a file: relative to *folder* within it, else absolute."""
    path = relative_path(file, folder)
    return Path(path).as_uri() if Path(path).is_absolute() else quote(path)


def relative_path(file: str, folder: Path) -> str:
    """Return the path of a file: relative to *folder* within it, else absolute."""
    place = Path(os.path.normpath(folder / file))
    return (place.relative_to(folder) if place.is_relative_to(folder) else place).as_posix()


ADMISSION: Final = "admission"
"""Replaces the rule ID if admission names no rule."""


def findings(
    admission: Sequence[JsonObject], objects: Sequence[Loaded], texts: Mapping[str, str]
) -> Iterator[SarifResult]:
    """Yield the errors and warnings of a plan.

    Args:
        admission: The verdicts of the plan.
        objects: The objects of the verdicts, in the same order.
        texts: Texts of the files, by the file of a `DocumentSource`.
    """
    positions = Positions(texts)
    for verdict, item in zip(admission, objects, strict=False):
        name = f"{item.kind.kind} {item.shown_name}"
        messages = [
            ("error", error["rule"] or ADMISSION, error["field"], error["message"]) for error in verdict["errors"]
        ]
        for warning in verdict["warnings"]:
            field, _, message = warning.partition(": ")
            messages.append(("warning", ADMISSION, field, message) if message else ("warning", ADMISSION, "", warning))
        for level, rule, field, message in messages:
            place = positions.place(item.source, _nearest(positions, item, field))
            text = printable(f"{field}: {message}" if field else message)
            yield SarifResult(rule, level, f"{name}: {text}", item.source.file, place)


def _nearest(positions: Positions, item: Loaded, field: str) -> FieldPath:
    """Return the path of a field, or of its nearest existing parent."""
    while field:
        if (path := positions.path(item.source, field)) is not None:
            return path
        field = field[: max(field.rfind("."), field.rfind("["), 0)]
    return FieldPath()
