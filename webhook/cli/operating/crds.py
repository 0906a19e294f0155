"""``harbormaster crds``: the CustomResourceDefinitions of our kinds, made from the models, and their JSON Schemas."""

import os
from pathlib import Path

import click

from webhook.cli.errors import UserError
from webhook.cli.options.base import output_option
from webhook.cli.text.output import format_json, print_document

HELP = """Print the CustomResourceDefinitions of all kinds, or write JSON Schemas for editors.

HARBORMASTER_STAGED_RUNS_DEFAULT_STATE sets the default of spec.state of staged update runs.

\b
Examples:
  harbormaster crds | kubectl --context hub apply --server-side -f -
  harbormaster crds -o json
  harbormaster crds --json-schemas ~/.local/share/harbormaster/schemas      for editors and kubeconform

\b
The schemas are strict, and are written as GROUP/KIND_VERSION.json in lower case. all.json selects the schema for each
document of a file. Existing files of the same names are replaced.

\b
Exit codes:
  0  printed, or written
  1  an error, such as an invalid setting or a folder that cannot be written
"""


@click.command("crds", help=HELP, short_help="Print the CustomResourceDefinitions, or write JSON Schemas.")
@output_option("yaml", "json")
@click.option(
    "--json-schemas",
    type=click.Path(path_type=Path, file_okay=False),
    metavar="DIR",
    help="Write JSON Schemas into this folder instead. Created if missing.",
)
def command(output: str, json_schemas: Path | None) -> int:
    """Print the definitions: YAML documents, or one JSON list. Raises `UserError`."""
    if json_schemas is not None:
        _write_schemas(json_schemas)
        return 0
    from scorer.api.crd.definitions import custom_resource_definitions
    from webhook.settings.environment import SettingsError
    from webhook.settings.programs import DefinitionSettings

    try:
        state = DefinitionSettings.read(os.environ).staged_runs_default_state
    except SettingsError as error:
        raise UserError(str(error)) from error
    definitions = custom_resource_definitions(staged_run_default_state=state)
    if output == "json":
        print_document({"apiVersion": "v1", "kind": "List", "metadata": {}, "items": definitions}, "json")
        return 0
    from webhook.runtime.yaml import format_yaml

    click.echo("---\n".join(format_yaml(definition) for definition in definitions), nl=False)
    return 0


def _write_schemas(folder: Path) -> None:
    from scorer.api.crd.json_schema import json_schemas

    count = 0
    for name, schema in json_schemas():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(format_json(schema) + "\n", encoding="utf-8")
        count += 1
    click.echo(f"{count} schemas written to {folder}")
