"""``harbormaster settings``: the settings that a program would find in this environment."""

import os
from collections.abc import Iterator
from typing import Any, Final

import click

from scorer.api.unstructured.json_object import JsonObject
from webhook.cli.errors import UserError
from webhook.cli.options.base import output_option
from webhook.cli.text.output import print_document, print_table
from webhook.kube.transport.addresses import check_address
from webhook.settings.environment import Settings, SettingsError
from webhook.settings.groups import GROUPS
from webhook.settings.programs import PROGRAMS
from webhook.settings.reference import schema_of
from webhook.settings.values import format_value

_USUAL: Final = "serve"
HELP = f"""Print the effective settings and their sources.

Reads the environment as PROGRAM would. Options on the command line of PROGRAM take precedence. PROGRAM is one of
{", ".join(PROGRAMS)}. The default is {_USUAL}. `cli` stands for all commands that use a hub.
-o json also prints the defaults, descriptions and the schema. A value that may hold a password is shown as `set`.

\b
Examples:
  harbormaster settings
  harbormaster settings agent
  HARBORMASTER_GUARD_RAIL=true harbormaster settings -o json
  harbormaster settings | grep environment

\b
Exit codes:
  0  printed
  1  invalid settings (all of them are named)
"""

_COMMANDS: Final = "cli"
_ADDRESS: Final = "server"
"""The setting that is a URL. A command that uses it refuses a URL with more than host and port, such as a user."""


@click.command("settings", help=HELP, short_help="Print the effective settings and their sources.")
@click.argument("program", type=click.Choice(list(PROGRAMS)), default=_USUAL, metavar="[PROGRAM]")
@output_option()
def command(program: str, output: str) -> int:
    """Print all settings of one program. Raises `UserError`."""
    settings = PROGRAMS[program]
    try:
        items = list(_items(settings, settings.read(os.environ)))
    except SettingsError as error:
        raise UserError(error.mistakes) from error
    if output != "table":
        print_document({"program": program, "settings": items, "schema": schema_of(program)}, output)
        return 0
    owner = "the commands that use a hub" if program == _COMMANDS else f"harbormaster {program}"
    click.echo(f"Settings of {owner}:\n")
    rows = [(item["variable"], item["source"], _text(item["value"])) for item in items]
    print_table(["VARIABLE", "FROM", "VALUE"], rows, whole=("VARIABLE",))
    return 0


def _text(value: Any) -> str:
    """Return a value as in the environment, but with blanks at which a long list can be wrapped."""
    match value:
        case [str(), *_]:
            return ", ".join(value)
        case _:
            return format_value(value)


def _items(settings: type[Settings], settings_in_effect: Settings) -> Iterator[JsonObject]:
    """Yield one item per setting, in the order of the reference."""
    environment = settings.from_environment(os.environ)
    values, defaults = (
        model.model_dump(mode="json", by_alias=True) for model in (settings_in_effect, settings.read({}))
    )
    for room in GROUPS:
        for name in room.names():
            if name in settings.names():
                yield {
                    "name": name,
                    "variable": settings.variable(name),
                    "value": _redacted(name, values[name]),
                    "default": defaults[name],
                    "source": "environment" if name in environment else "default",
                    "room": room.title,
                    "description": settings.model_fields[name].description,
                }


def _redacted(name: str, value: Any) -> Any:
    """Return the value of a setting, or `set` in place of one that may hold a password."""
    if name != _ADDRESS or not value:
        return value
    try:
        check_address(value, "")
    except ValueError:
        return "set"
    return value
