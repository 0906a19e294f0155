"""``harbormaster mcp``: questions of assistants and editors, by the Model Context Protocol."""

from dataclasses import replace
from pathlib import Path
from typing import Final

import click

from webhook.cli.errors import UserError
from webhook.cli.options.hub import HubOptions, hub_options
from webhook.cli.program import called_by_kubectl

HELP: Final = """Serve read-only tools for editors and assistants (MCP).

A client of the Model Context Protocol starts this command, and uses its standard input and output. The tools are
explain, plan, render, lint, gate, drain, budgets and history. They return what the commands print with -o json, with
your rights. Nothing is written or reserved, and values of Secrets are hidden. A long result is shortened, and lists the
omissions.

The tools use one hub, selected as for all commands. They read *.yaml, *.yml and *.json below --folder, except
hidden files. Paths and symbolic links that lead outside the folder are refused.

\b
Examples:
  harbormaster mcp
  harbormaster mcp --context hub --folder examples/fleet
  kubectl harbormaster mcp --folder examples/fleet

\b
Exit codes:
  0  the client has closed standard input
  1  an unknown folder or kubeconfig, or the Python SDK of MCP is not installed
"""


@click.command("mcp", help=HELP, short_help="Serve read-only tools for editors and assistants (MCP).")
@click.option(
    "--folder",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    default=Path(),
    metavar="DIR",
    help="The folder whose files tools may read.  [default: the working directory]",
)
@click.option(
    "--render/--no-render",
    default=False,
    help="Render kustomizations and charts in the folder with kustomize or kubectl, and helm.  [default: --no-render]",
)
@hub_options
def command(folder: Path, *, render: bool, hub: HubOptions) -> int:
    """Serve the tools until standard input ends. Raises `UserError` without the SDK, and `BrokenPipeError`."""
    try:
        import anyio
        import mcp  # noqa: F401 - only whether it is installed
    except ModuleNotFoundError as error:
        raise UserError(
            f"harbormaster mcp needs the Python SDK of MCP, which is not installed ({error.name}). Install it with: "
            "pip install --require-hashes -r requirements-mcp.txt"
        ) from error
    from webhook.cli.assistants.server import serve
    from webhook.cli.assistants.tools import ReadableFolder

    if called_by_kubectl() and not hub:
        connection = hub.find()
        hub = replace(hub, kubeconfig=connection.kubeconfig, context=connection.context)
    try:
        anyio.run(serve, ReadableFolder(folder.resolve(), render), hub.arguments())
    except* BrokenPipeError:
        raise BrokenPipeError from None
    return 0
