"""``harbormaster edit``: one object of the running hub, in an editor."""

import os
import shlex
import subprocess
import tempfile
from pathlib import Path

import click

from scorer.api.crd.pruning import object_schema
from scorer.api.kinds import Kind
from scorer.api.unstructured.json_object import JsonObject
from scorer.api.values.quoting import printable
from webhook.cli.errors import UserError, complain
from webhook.cli.files.documents import title_of
from webhook.cli.hub.client import Client, HubRefusedError, place_of
from webhook.cli.hub.connection import HubConnection
from webhook.cli.hub.resource_arguments import parse_resources
from webhook.cli.objects.patcher import two_way_patch
from webhook.cli.options.base import hub_namespace_option, run, tab
from webhook.cli.options.field_validation import Validation, unknown_lines, validate_option
from webhook.cli.options.hub import HubOptions, hub_options
from webhook.runtime.yaml import YamlError, format_yaml, parse_yaml
from webhook.settings.command_line import TerminalSettings

HELP = """Edit an object in your editor.

Opens the object as YAML in the editor of $KUBE_EDITOR, else $EDITOR, else vi. Your changes are applied when the editor
closes. If the text is not valid or the hub refuses it, the editor opens again with the reasons at the top. To cancel,
leave the text unchanged, or delete all of it.

\b
Examples:
  harbormaster edit crp/payments
  EDITOR="code --wait" harbormaster edit cluster/bravelion

\b
Exit codes:
  0  edited, or cancelled without a change
  1  an error (no such object, an unreachable hub, a failed editor), or the text was left unchanged after a refusal
     (it is saved to a file)
"""

_INTRODUCTION = (
    "Please edit the object below. Lines beginning with a '#' are ignored, and an empty text cancels the edit.",
    "When the hub refuses your changes, this text opens again with the reasons.",
)
_HIDDEN = ("managedFields",)


@click.command("edit", help=HELP, short_help="Edit an object in your editor.")
@click.argument("word", metavar="KIND/NAME | KIND NAME", shell_complete=tab("objects"))
@click.argument("name", required=False, metavar="")
@hub_namespace_option
@validate_option
@hub_options
def command(
    word: str,
    name: str | None,
    namespace: str | None,
    validation: Validation,
    hub: HubOptions,
) -> int:
    """Edit one object."""
    connection = hub.find()
    return run(_edit(connection, [word, name] if name else [word], namespace, validation))


async def _edit(connection: HubConnection, words: list[str], namespace: str | None, validation: Validation) -> int:
    async with Client(connection) as client:
        resource = (await parse_resources(words, client))[0]
        if not resource.name:
            raise UserError(f"{words[0]!r}: name the object: {resource.kind.kind.lower()}/NAME")
        place = resource.place(namespace, client.namespace)
        try:
            live = await client.get(place)
        except HubRefusedError as error:
            raise UserError(error.lines()) from error
        with tempfile.TemporaryDirectory(prefix="harbormaster-edit-") as folder:
            file = Path(folder) / f"{resource.kind.kind.lower()}-{resource.name}.yaml"
            return await _Session(client, resource.kind, live, file, validation).run()


class _Session:
    """Opens the editor until the hub accepts the text or the user gives up."""

    def __init__(self, client: Client, kind: Kind, live: JsonObject, file: Path, validation: Validation) -> None:
        self._client = client
        self._validation = validation.parameter
        self._kind = kind
        self._stored = live
        self._file = file
        metadata = {name: value for name, value in live["metadata"].items() if name not in _HIDDEN}
        self._editable = {**live, "metadata": metadata}
        self._title = title_of(kind, live["metadata"]["name"])

    async def run(self) -> int:
        """Open the editor until the change is stored or cancelled. Return the exit code."""
        body = format_yaml(self._editable)
        reasons: list[str] = []
        while True:
            before = body
            body = _without_introduction(await self._open(_introduction(reasons) + body))
            if not body.strip() or (body == before and not reasons):
                reason = "the text is unchanged" if body.strip() else "the text is empty"
                click.echo(f"Edit cancelled, no changes made: {reason}.")
                return 0
            if body == before:
                return self._give_up(body)
            try:
                document = self._read(body)
            except ValueError as error:
                reasons = [str(error)]
                continue
            # Send only the user's changes, without resourceVersion: an object may be open in an editor for long, and
            # writes of other clients to other fields in that time are neither undone nor a conflict.
            patch = two_way_patch(self._editable, document)
            if not patch:
                click.echo("Edit cancelled, no changes made: the text differs, but all fields have the same values.")
                return 0
            try:
                place = place_of(self._stored, self._kind)
                answer = await self._client.patch(place, patch, validation=self._validation)
            except HubRefusedError as error:
                reasons = unknown_lines(error, object_schema(self._kind)) or error.lines()
                for reason in reasons:
                    complain(reason)
                if error.code == 404:
                    return self._give_up(body)
                continue
            for warning in answer.warnings:
                complain(f"Warning: {warning}")
            click.echo(f"{self._title} edited")
            return 0

    async def _open(self, text: str) -> str:
        self._file.write_text(text, encoding="utf-8")
        words = shlex.split(TerminalSettings.read(os.environ).editor)
        try:
            # Blocks the event loop, which is idle until the editor exits.
            code = subprocess.call([*words, str(self._file)])  # noqa: S603, ASYNC221 - the user's own editor
        except OSError as error:
            raise UserError(f"editor {words[0]!r}: {(error.strerror or str(error)).lower()}") from error
        if code:
            raise UserError(f"editor {words[0]!r} exited with code {code}: nothing was changed")
        try:
            return self._file.read_text(encoding="utf-8")
        except UnicodeDecodeError as error:
            raise UserError(f"the edited text is not UTF-8 at byte {error.start}: nothing was changed") from None

    def _read(self, body: str) -> JsonObject:
        """Read the edited text. Raises `ValueError`."""
        documents = [parsed_document.value for parsed_document in parse_yaml(body) if parsed_document.value is not None]
        if len(documents) != 1 or not isinstance(documents[0], dict):
            raise YamlError(1, "expected one object")
        document: JsonObject = documents[0]
        metadata = document.get("metadata")
        if not isinstance(metadata, dict):
            raise YamlError(1, "metadata: must be an object")
        original = self._editable["metadata"]
        for field, now, was in (
            ("apiVersion", document.get("apiVersion"), self._editable["apiVersion"]),
            ("kind", document.get("kind"), self._editable["kind"]),
            ("metadata.name", metadata.get("name"), original["name"]),
            ("metadata.namespace", metadata.get("namespace"), original.get("namespace")),
        ):
            if now != was:
                raise ValueError(f"{field}: {now!r:.66}: cannot be changed, it was {was!r}")
        return document

    def _give_up(self, body: str) -> int:
        handle, backup = tempfile.mkstemp(prefix="harbormaster-edit-", suffix=".yaml")
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(body)
        complain(f"error: Edit cancelled, no valid changes were saved. Your text is kept in {backup}")
        return 1


def _introduction(reasons: list[str]) -> str:
    lines = [*_INTRODUCTION, *(["", *map(printable, reasons)] if reasons else [])]
    return "".join(f"# {line}".rstrip() + "\n" for line in lines) + "#\n"


def _without_introduction(text: str) -> str:
    """Return a text without the comment lines at its top. Comments further down are the user's."""
    lines = text.splitlines(keepends=True)
    while lines and lines[0].startswith("#"):
        del lines[0]
    return "".join(lines)
