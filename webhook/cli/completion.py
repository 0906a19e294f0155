"""``harbormaster completion``: the shell script that completes commands and options of harbormaster."""

import sys
from collections.abc import Sequence
from typing import Final

import click
from click.shell_completion import ShellComplete, get_completion_class

KUBECTL: Final = "kubectl harbormaster"
_NO_FILES: Final = 4
_FILES: Final = 0
"""Directive for the shell: no further action, or complete file names. Source: cobra ``ShellCompDirective``."""

HELP = """Print the completion script of a shell.

Completes commands, options, kinds, formats, conditions, reservation IDs, rule IDs, and the names of objects, clusters,
pools, namespaces, runs, stages, gates and contexts. Names are omitted if the hub does not answer within 2 seconds. For
the plugin `kubectl harbormaster`, kubectl's own completion script calls kubectl_complete-harbormaster, which is
installed with this program.

\b
Examples:
  source <(harbormaster completion bash)                # this shell, or all shells if in ~/.bashrc
  source <(harbormaster completion zsh)                 # the same in ~/.zshrc
  harbormaster completion fish > ~/.config/fish/completions/harbormaster.fish

\b
Exit codes:
  0  printed
  1  an error
"""


@click.command("completion", help=HELP, short_help="Print the completion script of a shell.")
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]), metavar="SHELL")
@click.pass_context
def command(context: click.Context, shell: str) -> int:
    """Print the script. With it, the shell sets an environment variable and calls this program for completions."""
    program = "harbormaster"
    kind = get_completion_class(shell)
    assert kind is not None
    complete = kind(context.find_root().command, {}, program, f"_{program}_COMPLETE".upper())
    click.echo(ShellComplete.source(complete))  # that of bash would run bash to check its version
    return 0


def print_for_kubectl(words: Sequence[str] | None = None) -> None:
    """Print candidates as kubectl reads them from a plugin: one per line, optionally with help, and a directive.

    Args:
        words: The words after ``kubectl harbormaster``, the last one incomplete. None means those of the process.
    """
    from webhook.cli.root import root

    *complete_words, incomplete = [*(sys.argv[1:] if words is None else words)] or [""]
    completions = ShellComplete(root, {}, KUBECTL, "_KUBECTL_HARBORMASTER_COMPLETE").get_completions(
        complete_words, incomplete
    )
    files = any(completion.type in ("file", "dir") for completion in completions)
    for completion in completions:
        if completion.type == "plain":
            click.echo(
                f"{completion.value}\t{' '.join(completion.help.split())}" if completion.help else completion.value
            )
    click.echo(f":{_FILES if files else _NO_FILES}")
