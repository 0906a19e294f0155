"""``harbormaster completion``: the script by which a shell completes our commands and options."""

import click
from click.shell_completion import ShellComplete, get_completion_class

HELP = """Print the completion script of a shell.

\b
Examples:
  source <(harbormaster completion bash)                # this shell; put it into ~/.bashrc for all shells
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
    """Print the script; the shell then asks us, by an environment variable, what can follow."""
    program = "harbormaster"
    kind = get_completion_class(shell)
    assert kind is not None
    complete = kind(context.find_root().command, {}, program, f"_{program}_COMPLETE".upper())
    click.echo(ShellComplete.source(complete))  # without asking bash for its version
    return 0
