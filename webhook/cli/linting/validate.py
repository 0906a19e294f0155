"""``harbormaster validate``: verdicts of admission without a hub."""

from datetime import UTC, datetime
from pathlib import Path

import click

from scorer.api.unstructured.json_object import JsonObject
from scorer.api.values.quoting import shortened
from webhook.access.user import UserInfo
from webhook.admission.catalogue import rule_texts
from webhook.cli.errors import UserError
from webhook.cli.files.documents import DEFAULT_NAMESPACE
from webhook.cli.files.repositories import read_repository
from webhook.cli.files.search import Files
from webhook.cli.linting.environments import contexts_of
from webhook.cli.linting.findings import lint_repository, result_of
from webhook.cli.linting.reports import report_failures
from webhook.cli.linting.sarif import sarif_log
from webhook.cli.offline.admission import OfflineVerdict, admit
from webhook.cli.options.base import namespace_option, output_option, repository_option
from webhook.cli.options.field_validation import FieldCheck, Validation, validate_option
from webhook.cli.text.output import print_document, print_table

HELP = """Validate objects as admission would, without a hub.

Prints the verdict of admission on every object, including those that would be admitted. In CI, use `harbormaster lint`:
it applies the same rules, adds further checks, and prints only findings, with line and column.

Applies defaults and validates every object by the rules of the webhook and of `harbormaster up`, as if an administrator
created it. Reports every error with its field path. For kinds without rules, only the metadata is checked. An unknown
field of another project's kind, such as NodePool, is a warning unless its CustomResourceDefinition is among the files.

\b
Examples:
  harbormaster validate -f examples/fleet
  harbormaster validate -f placement.yaml -o json
  harbormaster validate -f . -o sarif > harbormaster.sarif

\b
Exit codes:
  0  all objects would be admitted
  1  an object would be refused, or a file with harbormaster objects cannot be read
"""

_ADMINISTRATOR = UserInfo("harbormaster:validate", frozenset({"system:masters", "system:authenticated"}))


@click.command("validate", help=HELP, short_help="Validate objects as admission would, without a hub.")
@repository_option
@namespace_option
@validate_option
@output_option("table", "json", "yaml", "sarif")
def command(files: Files, namespace: str | None, validation: Validation, output: str) -> int:
    """Check files. Raises `click.UsageError` or `UserError`."""
    if not files:
        raise click.UsageError("specify what to validate: -f FILE")
    with report_failures(output):
        repository = read_repository(files, namespace=namespace or DEFAULT_NAMESPACE)
    contexts = contexts_of(repository.loaded, datetime.now(UTC), _ADMINISTRATOR)
    fields = FieldCheck.of(validation, repository.loaded)
    verdicts = [admit(item, contexts(item), fields=fields) for item in repository.loaded]
    allowed = not repository.mistakes and all(verdict.allowed for verdict in verdicts)
    if output == "table" and verdicts:
        rows = [row for verdict in verdicts for row in _rows(verdict)]
        print_table(["DOCUMENT", "OBJECT", "VERDICT", "WHY"], rows)
    elif output == "sarif":
        results = map(result_of, lint_repository(repository, validation))
        print_document(sarif_log(list(results), rule_texts(), Path.cwd()), "json")
    elif output != "table":
        print_document({"allowed": allowed, "items": [_item(verdict) for verdict in verdicts]}, output)
    if repository.mistakes:
        raise UserError(map(str, repository.mistakes))
    return 0 if allowed else 1


def _rows(verdict: OfflineVerdict) -> list[list[str]]:
    """Return one row per object. Further errors and warnings get rows of their own below it."""
    notes = [str(error) for error in verdict.errors] + ([verdict.refusal] if verdict.refusal else [])
    notes += [f"warning: {warning}" for warning in verdict.warnings]
    notes = list(map(shortened, notes))
    item = verdict.loaded
    word = "allowed" if verdict.allowed else "refused"
    first = [str(item.source), f"{item.kind.kind} {item.shown_name}", word, notes[0] if notes else ""]
    return [first, *(["", "", "", note] for note in notes[1:])]


def _item(verdict: OfflineVerdict) -> JsonObject:
    item = verdict.loaded
    return {
        "file": item.source.file,
        "document": item.source.number,
        **({} if item.source.item is None else {"item": item.source.item}),
        "apiVersion": item.document["apiVersion"],
        "kind": item.kind.kind,
        "namespace": item.namespace,
        "name": item.name,
        "allowed": verdict.allowed,
        "errors": [
            {"field": str(error.field), "reason": error.cause.value, "message": error.text()}
            | ({"rule": error.rule} if error.rule else {})
            for error in verdict.errors
        ],
        **({"message": verdict.refusal} if verdict.refusal else {}),
        "warnings": list(verdict.warnings),
    }
