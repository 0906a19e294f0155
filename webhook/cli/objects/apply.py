"""``harbormaster apply``: objects from files to the running hub."""

import click

from scorer.api.meta import JsonObject
from webhook.cli.errors import complain
from webhook.cli.files.documents import check_metadata
from webhook.cli.files.parsing import SourceDocument
from webhook.cli.hub.client import Client
from webhook.cli.hub.connection import HubConnection
from webhook.cli.hub.discovery import resolve_objects
from webhook.cli.objects.options import DryRun, DryRunCommand, ObjectFiles, dry_run_option, file_options
from webhook.cli.objects.patcher import ApplyOutcome, apply_all
from webhook.cli.options.base import hub_namespace_option, output_option, run
from webhook.cli.options.field_validation import FieldCheck, Validation, unknown_lines, validate_option
from webhook.cli.options.hub import HubOptions, hub_options
from webhook.cli.text.output import print_document

HELP = """Create or update objects from files.

Works like kubectl apply: a field that was deleted from the file since the last apply is removed, and a field that only
other clients have set is left unchanged. All files are read and checked before anything is written. If the hub refuses
an object, the reasons are printed, and the other objects are still applied.

Fields that only a hub sets, such as the status and metadata.uid, are not sent. On the hub of `harbormaster up`, the
simulated agent of a MemberCluster reports the status given in the file.

\b
Examples:
  harbormaster apply -f placement.yaml
  harbormaster apply -f examples/fleet -f extra.json
  harbormaster apply -k overlays/prod --dry-run=server
  harbormaster apply -f placement.yaml --dry-run=server -o yaml
  kubectl get crp -o yaml | harbormaster apply -f -

\b
Exit codes:
  0  all objects match the files
  1  an unusable file (nothing was written), or an object refused by the hub, such as one with an unknown field
"""


@click.command("apply", cls=DryRunCommand, help=HELP, short_help="Create or update objects from files.")
@file_options
@hub_namespace_option
@dry_run_option("store nothing")
@validate_option
@output_option("text", "name", "json", "yaml")
@hub_options
def command(
    files: ObjectFiles, namespace: str | None, dry_run: DryRun, validation: Validation, output: str, hub: HubOptions
) -> int:
    """Apply files. Raises `click.UsageError`."""
    if not files:
        raise click.UsageError("specify what to apply: -f FILE or -k DIR")
    documents = files.read()
    connection = hub.find()
    return run(_apply(connection, documents, namespace, dry_run, validation, output))


async def _apply(
    connection: HubConnection,
    documents: list[SourceDocument],
    namespace: str | None,
    dry_run: DryRun,
    validation: Validation,
    output: str,
) -> int:
    any_refused = False
    stored: list[JsonObject] = []
    async with Client(connection) as client:
        objects = await resolve_objects(client, documents, namespace)
        check_metadata(objects)
        fields = FieldCheck.of(validation, objects)
        if dry_run is DryRun.CLIENT:  # a client dry run sends nothing for the hub to validate
            fields.check(objects)
        async for outcome in apply_all(client, objects, dry_run=dry_run, validation=validation):
            print_outcome(outcome, fields, dry_run=dry_run, output=output)
            any_refused |= outcome.refusal is not None
            if outcome.refusal is None:
                item = outcome.loaded
                about = {"apiVersion": item.document["apiVersion"], "kind": item.kind.kind}
                stored.append({**about, **(item.document if outcome.live is None else outcome.live)})
    if output in ("json", "yaml") and stored:
        listing = {"apiVersion": "v1", "kind": "List", "metadata": {"resourceVersion": ""}, "items": stored}
        print_document(stored[0] if len(stored) == 1 else listing, output)
    return 1 if any_refused else 0


def print_outcome(
    outcome: ApplyOutcome, fields: FieldCheck, *, dry_run: DryRun = DryRun.NONE, output: str = "text"
) -> None:
    """Print the outcome for one object: the result to standard output, warnings and refusals to standard error."""
    item = outcome.loaded
    for warning in outcome.warnings:
        complain(f"Warning: {item.title}: {warning}")
    if outcome.refusal is None:
        if output == "text":
            click.echo(f"{item.title} {outcome.action}{dry_run.note}")
        elif output == "name":
            click.echo(item.title)
        return
    unknown = unknown_lines(outcome.refusal, fields.schema(item))
    first, *others = outcome.refusal.lines()
    for line in [f"{item.source}: {error}" for error in unknown] or [f"{item.source}: {first}", *others]:
        complain(line)
