"""``harbormaster apply``: objects from files to the running hub."""

import click

from webhook.cli.applying import Outcome, apply_all
from webhook.cli.client import Client, RefusedError
from webhook.cli.connection import Connection
from webhook.cli.documents import Found, Loaded, check_metadata, read, resolve
from webhook.cli.failure import UserError, complain
from webhook.cli.files import Files
from webhook.cli.hub_options import HubOptions, hub_options
from webhook.cli.options import file_option, hub_namespace_option, run

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
  kubectl get crp -o yaml | harbormaster apply -f -

\b
Exit codes:
  0  all objects are as the files say
  1  a file cannot be used (nothing was written), or the hub refused an object
"""


@click.command("apply", help=HELP, short_help="Create objects, or change them to what the files say.")
@file_option
@hub_namespace_option
@click.option("--dry-run", is_flag=True, help="Let the hub check everything and store nothing.")
@hub_options
def command(
    files: Files,
    namespace: str | None,
    dry_run: bool,
    hub: HubOptions,
) -> int:
    """Apply files."""
    if not files:
        raise click.UsageError("say what to apply: -f FILE")
    found = read(files)
    connection = hub.find()
    return run(_apply(connection, found, namespace, dry_run=dry_run))


async def _apply(connection: Connection, found: list[Found], namespace: str | None, *, dry_run: bool) -> int:
    refused = False
    async with Client(connection) as client:
        loaded = await known_objects(client, found, namespace)
        check_metadata(loaded)
        async for outcome in apply_all(client, loaded, dry_run=dry_run):
            tell(outcome, dry_run=dry_run)
            refused |= outcome.refusal is not None
    return 1 if refused else 0


async def known_objects(client: Client, found: list[Found], namespace: str | None) -> list[Loaded]:
    """Check what was read; if it has kinds that are not known here, look for them among the hub's definitions.

    Raises:
        UserError: As `resolve`; or an object is in another namespace than *namespace*.
    """
    space = namespace or client.namespace
    try:
        loaded = resolve(found, namespace=space)
    except UserError:
        try:
            custom = {name: kind for name, (kind, _) in (await client.custom_kinds()).items()}
        except RefusedError:
            custom = {}
        if not custom:
            raise
        loaded = resolve(found, custom=custom, namespace=space)
    problems = [
        f'{one.source}: metadata.namespace: "{one.namespace}" is not the namespace of --namespace, "{namespace}"'
        for one in loaded
        if namespace and one.namespace not in ("", namespace)
    ]
    if problems:
        raise UserError(problems)
    return loaded


def tell(outcome: Outcome, *, dry_run: bool = False) -> None:
    """Print what became of one object: the result to standard output, warnings and refusals to standard error."""
    for warning in outcome.warnings:
        complain(f"Warning: {outcome.loaded.title}: {warning}")
    if outcome.refusal is None:
        click.echo(f"{outcome.loaded.title} {outcome.action}{' (dry run)' if dry_run else ''}")
        return
    first, *others = outcome.refusal.lines()
    complain(f"{outcome.loaded.source}: {first}")
    for line in others:
        complain(line)
