"""``harbormaster help``: the help of a command, as with ``--help``."""

from collections.abc import Sequence

import click

HELP = """Show the help of a command.

\b
Examples:
  harbormaster help
  harbormaster help run start

\b
Exit codes:
  0  shown
  1  no such command
"""


@click.command("help", help=HELP, short_help="Show the help of a command.")
@click.argument("words", nargs=-1, metavar="[COMMAND]...")
@click.pass_context
def command(context: click.Context, words: Sequence[str]) -> int:
    """Show the help of the command that *words* call. Raises `click.exceptions.NoSuchCommand`."""
    shown = context.find_root()
    for word in words:
        group = shown.command
        inner = group.get_command(shown, word) if isinstance(group, click.Group) else None
        if inner is None:
            commands = group.list_commands(shown) if isinstance(group, click.Group) else ()
            raise click.exceptions.NoSuchCommand(word, possibilities=commands, ctx=shown)
        shown = click.Context(inner, parent=shown, info_name=word)
    click.echo(shown.get_help())
    return 0
