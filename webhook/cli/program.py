"""The name of the program as the user has typed it, and texts with this name.

kubectl calls a plugin by its file name, which the user may choose: ``kubectl-hm`` is called as ``kubectl hm``. click
keeps the name in its root context, where every command finds it.
"""

import copy
import re
from pathlib import Path
from typing import Final

import click

PLUGIN: Final = "kubectl-"
"""Prefix of the file name of a kubectl plugin. Users type the rest."""
KUBECTL: Final = "kubectl "
"""Prefix of the program's name when users call it through kubectl."""
PROGRAM: Final = "harbormaster"
"""The program's name in texts."""
_EXAMPLE: Final = re.compile(rf"^( +(?:\S+ \| )?){PROGRAM} ", re.MULTILINE)


def typed_name(path: str) -> str:
    """Return the name of the program that is started by the file *path*."""
    file = Path(path)
    if file.name.startswith(PLUGIN):
        return KUBECTL + file.stem.removeprefix(PLUGIN)
    return PROGRAM if file.suffix == ".py" or not file.name.isprintable() else file.stem or PROGRAM


def program(context: click.Context | None = None) -> str:
    """Return the name of the program. *context* defaults to that of the running command."""
    context = context or click.get_current_context(silent=True)
    return (context.find_root().info_name if context else None) or PROGRAM


def called_by_kubectl(context: click.Context | None = None) -> bool:
    """Return whether this process is ``kubectl harbormaster``, under any name the user gave the plugin."""
    return program(context).startswith(KUBECTL)


def with_examples_of(command: click.Command, name: str) -> click.Command:
    """Return a copy of a command whose examples, and those of its subcommands, start with *name*."""
    renamed = copy.copy(command)
    renamed.help = examples_of(command.help or "", name)
    if isinstance(renamed, click.Group) and isinstance(command, click.Group):
        renamed.commands = {key: with_examples_of(inner, name) for key, inner in command.commands.items()}
    return renamed


def examples_of(text: str, name: str) -> str:
    """Return a help text whose examples start with *name*."""
    return _EXAMPLE.sub(lambda match: f"{match[1]}{name} ", text)
