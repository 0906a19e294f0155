"""``harbormaster apply``: objects from files to the running hub."""

import click

from webhook.cli.applying import Outcome, apply_all
from webhook.cli.client import Client
from webhook.cli.connection import Connection
from webhook.cli.documents import Found, check_metadata
from webhook.cli.dry_run import DryRun, DryRunCommand, dry_run_option
from webhook.cli.failure import complain
from webhook.cli.hub_options import HubOptions, hub_options
from webhook.cli.known_objects import known_objects
from webhook.cli.object_files import ObjectFiles, file_options
from webhook.cli.options import hub_namespace_option, run

HELP = """Create objects, or change them to what the files say.

Works like kubectl apply: a field that was in the file last time and no longer is, is removed; a field that only
other clients have set is left alone. All files are read and checked before anything is written. If the hub refuses an
object, the reasons are printed, and the other objects are still applied.

On the hub of `harbormaster up`, the status of a MemberCluster says what its simulated agent reports. Fields that only a
hub sets are left out.

\b
Examples:
  harbormaster apply -f placement.yaml
  harbormaster apply -f examples/fleet -f extra.json
  harbormaster apply -k overlays/prod --dry-run=server
  kubectl get crp -o yaml | harbormaster apply -f -

\b
Exit codes:
  0  all objects are as the files say
  1  a file cannot be used (nothing was written), or the hub refused an object
"""


@click.command(
    "apply", cls=DryRunCommand, help=HELP, short_help="Create objects, or change them to what the files say."
)
@file_options
@hub_namespace_option
@dry_run_option("store nothing")
@hub_options
def command(files: ObjectFiles, namespace: str | None, dry_run: DryRun, hub: HubOptions) -> int:
    """Apply files."""
    if not files:
        raise click.UsageError("say what to apply: -f FILE or -k DIR")
    found = files.read()
    connection = hub.find()
    return run(_apply(connection, found, namespace, dry_run))


async def _apply(connection: Connection, found: list[Found], namespace: str | None, dry_run: DryRun) -> int:
    refused = False
    async with Client(connection) as client:
        loaded = await known_objects(client, found, namespace)
        check_metadata(loaded)
        async for outcome in apply_all(client, loaded, dry_run=dry_run):
            tell(outcome, dry_run=dry_run)
            refused |= outcome.refusal is not None
    return 1 if refused else 0


def tell(outcome: Outcome, *, dry_run: DryRun = DryRun.NONE) -> None:
    """Print what became of one object: the result to standard output, warnings and refusals to standard error."""
    for warning in outcome.warnings:
        complain(f"Warning: {outcome.loaded.title}: {warning}")
    if outcome.refusal is None:
        click.echo(f"{outcome.loaded.title} {outcome.action}{dry_run.note}")
        return
    first, *others = outcome.refusal.lines()
    complain(f"{outcome.loaded.source}: {first}")
    for line in others:
        complain(line)
