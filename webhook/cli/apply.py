"""``harbormaster apply``: objects from files to the running hub."""

from collections.abc import Sequence

import click

from webhook.cli.applying import Outcome, apply_all
from webhook.cli.client import Client, RefusedError
from webhook.cli.connection import Connection
from webhook.cli.documents import Found, Loaded, check_metadata, read, resolve
from webhook.cli.failure import UserError, complain
from webhook.cli.hub_options import HubOptions, hub_options
from webhook.cli.options import file_option, hub_namespace_option, run

HELP = """Create or change objects to be as the files say.

Works as kubectl apply does: a field that was in the file last time and is not any more is removed, a field that only
others set is left alone. All files are read and checked before anything is written. What the hub refuses is told with
the reasons; the other objects are still applied.

On the hub of `harbormaster up` a MemberCluster's status is kept as what its simulated agent shall report; what only a
hub sets is left out.

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


@click.command("apply", help=HELP, short_help="Create or change objects to be as the files say.")
@file_option
@hub_namespace_option
@click.option("--dry-run", is_flag=True, help="Let the hub check everything and store nothing.")
@hub_options
def command(
    files: Sequence[str],
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
    """Check what was read; kinds that only the hub knows are asked for when there are such.

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
