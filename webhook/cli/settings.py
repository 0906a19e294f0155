"""``harbormaster settings``: the settings that a program would find in this environment."""

import os
from collections.abc import Iterator
from typing import Any, Final

import click

from scorer.api.meta import JsonObject
from webhook.cli.failure import UserError
from webhook.cli.options import output_option
from webhook.cli.output import print_document, print_table
from webhook.kube.addresses import check_address
from webhook.settings.environment import Settings, SettingsError
from webhook.settings.programs import PROGRAMS
from webhook.settings.rooms import ROOMS
from webhook.settings.schema import schema_of
from webhook.settings.values import format_value

HELP = """Print the settings in force, and where they come from.

Reads the environment as the program named by --program would; that program's own options win over the environment.
`cli` stands for all commands that ask a hub. The table shows the default only of settings that are set; -o json shows
it for all, with descriptions and the schema. A value that may hold a password is shown as `set`.

\b
Examples:
  harbormaster settings
  harbormaster settings --program agent
  HARBORMASTER_GUARD_RAIL=true harbormaster settings -o json
  harbormaster settings | grep environment

\b
Exit codes:
  0  printed
  1  a setting has an invalid value; all invalid ones are named
"""

_ADDRESS: Final = "server"
"""The setting that is a URL. One with more in it than host and port, a user for example, is refused when it is used."""


@click.command("settings", help=HELP, short_help="Print the settings in force, and where they come from.")
@click.option("--program", type=click.Choice(list(PROGRAMS)), default="serve", show_default=True, help="The program.")
@output_option()
def command(program: str, output: str) -> int:
    """Print all settings of one program, by room."""
    settings = PROGRAMS[program]
    try:
        items = list(_items(settings, settings.read(os.environ)))
    except SettingsError as error:
        raise UserError(error.mistakes) from error
    if output != "table":
        print_document({"program": program, "settings": items, "schema": schema_of(program)}, output)
        return 0
    print_table(["VARIABLE", "FROM", "DEFAULT", "VALUE"], [_row(item) for item in items], whole=("VARIABLE",))
    return 0


def _row(item: JsonObject) -> tuple[str, ...]:
    """Return what is told of a setting. The value comes last, as some are long; it is the default unless told."""
    default = "" if item["source"] == "default" else _text(item["default"])
    return item["variable"], item["source"], default, _text(item["value"])


def _text(value: Any) -> str:
    """Write a value as in the environment, but with blanks at which a long list can be wrapped."""
    match value:
        case [str(), *_]:
            return ", ".join(value)
        case _:
            return format_value(value)


def _items(settings: type[Settings], found: Settings) -> Iterator[JsonObject]:
    """Yield one item per setting, room by room."""
    set_here = settings.found(os.environ)
    values, defaults = (each.model_dump(mode="json", by_alias=True) for each in (found, settings.read({})))
    for room in ROOMS:
        for name in room.names():
            if name in settings.model_fields:
                yield {
                    "name": name,
                    "variable": settings.variable(name),
                    "value": _shown(name, values[name]),
                    "default": defaults[name],
                    "source": "environment" if name in set_here else "default",
                    "room": room.title,
                    "description": settings.model_fields[name].description,
                }


def _shown(name: str, value: Any) -> Any:
    """Return the value of a setting, or `set` in place of one that may hold a password."""
    if name != _ADDRESS or not value:
        return value
    try:
        check_address(value, "")
    except ValueError:
        return "set"
    return value
