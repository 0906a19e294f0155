"""``harbormaster diff``: changes that ``apply`` would make."""

import difflib
import os
import shlex
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import click

from scorer.api.unstructured.documents import annotations_of
from scorer.api.unstructured.json_object import JsonObject
from scorer.api.unstructured.secrets import hidden
from scorer.api.values.quoting import printable
from webhook.cli.errors import UserError, complain
from webhook.cli.files.documents import Loaded, check_metadata, in_order_of_dependence
from webhook.cli.files.parsing import SourceDocument
from webhook.cli.hub.client import Client, HubRefusedError
from webhook.cli.hub.connection import HubConnection
from webhook.cli.hub.discovery import resolve_objects
from webhook.cli.objects.options import ObjectFiles, file_options
from webhook.cli.objects.patcher import LAST_APPLIED, merged
from webhook.cli.options.base import hub_namespace_option, run
from webhook.cli.options.field_validation import FieldCheck, Validation, unknown_lines, validate_option
from webhook.cli.options.hub import HubOptions, hub_options
from webhook.runtime.yaml import format_yaml
from webhook.settings.command_line import TerminalSettings

HELP = """Show what apply would change.

Compares the current objects with the result of a server-side dry run, which includes defaults and webhooks. As for
kubectl, KUBECTL_EXTERNAL_DIFF selects another diff program and its options.

\b
Examples:
  harbormaster diff -f placement.yaml
  harbormaster diff -k overlays/prod
  KUBECTL_EXTERNAL_DIFF="colordiff -N -u" harbormaster diff -f examples/fleet

\b
Exit codes:
  0  nothing would change
  1  something would change
  2  an error (kubectl: any code greater than 1)
"""
DIFFERENT: Final = 1
FAILED: Final = 2


class DiffCommand(click.Command):
    """A command whose exit code differs between errors and differences."""

    error_code = FAILED


@click.command("diff", cls=DiffCommand, help=HELP, short_help="Show what apply would change.")
@file_options
@hub_namespace_option
@validate_option
@hub_options
def command(files: ObjectFiles, namespace: str | None, validation: Validation, hub: HubOptions) -> int:
    """Show the differences. Raises `click.UsageError`."""
    if not files:
        raise click.UsageError("specify what to compare: -f FILE or -k DIR")
    try:
        documents = files.read()
        pairs = run(_pairs(hub.find(), documents, namespace, validation))
        return _external(pairs) if TerminalSettings.read(os.environ).external_diff else _print_differences(pairs)
    except UserError as error:
        error.show()
        return FAILED


class Pair(tuple[str, str, str]):
    """Name of an object, and its text before and after."""

    __slots__ = ()


async def _pairs(
    connection: HubConnection, documents: Sequence[SourceDocument], namespace: str | None, validation: Validation
) -> list[Pair]:
    async with Client(connection) as client:
        objects = await resolve_objects(client, documents, namespace)
        check_metadata(objects)
        fields = FieldCheck.of(validation, objects)
        return [await _pair(client, item, fields) for item in in_order_of_dependence(objects)]


async def _pair(client: Client, item: Loaded, fields: FieldCheck) -> Pair:
    try:
        live, answer = await merged(client, item, fields.validation)
    except HubRefusedError as error:
        lines = unknown_lines(error, fields.schema(item)) or error.lines()
        raise UserError(f"{item.source}: {line}" for line in lines) from error
    for warning in answer.warnings:
        complain(f"Warning: {item.title}: {warning}")
    parts = (item.kind.group, item.kind.kind, item.namespace, item.name)
    texts = _texts(live, answer.document)
    return Pair((".".join(filter(None, parts)), *texts))


def _texts(live: JsonObject | None, then: JsonObject) -> tuple[str, str]:
    before, after = hidden({} if live is None else _without_noise(live), _without_noise(then))
    return "" if live is None else format_yaml(before), format_yaml(after)


def _without_noise(document: JsonObject) -> JsonObject:
    """Return an object without the metadata that only describes how it was written."""
    metadata = {name: value for name, value in document["metadata"].items() if name != "managedFields"}
    annotations = {name: text for name, text in annotations_of(document).items() if name != LAST_APPLIED}
    metadata.pop("annotations", None)
    return {**document, "metadata": metadata | ({"annotations": annotations} if annotations else {})}


def _print_differences(pairs: Sequence[Pair]) -> int:
    different = False
    for name, before, after in pairs:
        lines = difflib.unified_diff(
            before.splitlines(), after.splitlines(), f"live/{name}", f"merged/{name}", lineterm=""
        )
        for line in lines:
            different = True
            click.echo(printable(line))
    return DIFFERENT if different else 0


def _external(pairs: Sequence[Pair]) -> int:
    """Compare two folders with the user's diff program. Raises `UserError`.

    Returns:
        0, `DIFFERENT`, or `FAILED` for other exit codes.
    """
    external_diff = TerminalSettings.read(os.environ).external_diff
    try:
        words = shlex.split(external_diff)
    except ValueError as error:
        raise UserError(f"KUBECTL_EXTERNAL_DIFF {external_diff!r}: {error}") from error
    if not words:
        raise UserError(f"KUBECTL_EXTERNAL_DIFF {external_diff!r}: names no program")
    with tempfile.TemporaryDirectory(prefix="harbormaster-diff-") as folder:
        sides = [Path(folder) / "LIVE", Path(folder) / "MERGED"]
        for side, folder_of_side in enumerate(sides, start=1):
            folder_of_side.mkdir()
            for pair in pairs:
                if pair[side]:
                    (folder_of_side / pair[0].replace("/", "_")).write_text(pair[side], encoding="utf-8")
        try:
            code = subprocess.call([*words, *map(str, sides)])  # noqa: S603 - the user's own program
        except OSError as error:
            raise UserError(f"KUBECTL_EXTERNAL_DIFF {words[0]!r}: {(error.strerror or str(error)).lower()}") from error
    if code not in (0, DIFFERENT):
        complain(f"error: KUBECTL_EXTERNAL_DIFF {words[0]!r} exited with code {code}")
        return FAILED
    return code
