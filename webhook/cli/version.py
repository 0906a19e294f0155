"""``harbormaster version``."""

from importlib.metadata import version

import click

from webhook.cli.options import output_option
from webhook.cli.output import print_document

HELP = """Print the version.

\b
Examples:
  harbormaster version
  harbormaster version -o json

\b
Exit codes:
  0  printed
"""


@click.command("version", help=HELP, short_help="Print the version.")
@output_option()
def command(output: str) -> int:
    """Print the version."""
    number = version("harbormaster")
    if output == "table":
        click.echo(f"harbormaster {number}")
    else:
        print_document({"version": number}, output)
    return 0
