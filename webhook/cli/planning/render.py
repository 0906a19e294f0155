"""``harbormaster render``: the final objects of placements on each cluster, from files or from the running hub."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final, NamedTuple

import click
from click.shell_completion import CompletionItem

from scorer.api.unstructured.documents import name_of, namespace_of
from scorer.api.unstructured.json_object import JsonObject
from scorer.api.values.quoting import format_count, printable
from webhook.cli.errors import UserError, complain
from webhook.cli.files.documents import DEFAULT_NAMESPACE, Loaded
from webhook.cli.files.repositories import load_known
from webhook.cli.files.search import Files, reads_below
from webhook.cli.hub.connection import HubConnection
from webhook.cli.hub.resource_arguments import deleted_objects, parse_reference
from webhook.cli.options.base import (
    DELETION_WITHOUT_HUB,
    base_option,
    delete_option,
    grouped,
    placement_namespace_option,
    repository_option,
    run,
    tab,
)
from webhook.cli.options.field_validation import FieldCheck, Validation, validate_option
from webhook.cli.options.hub import HubOptions, hub_options
from webhook.cli.options.times import now_option
from webhook.cli.options.verdicts import check_admission, settled
from webhook.cli.planning.output import assumption_lines, coverage_lines, difference_lines, reference
from webhook.cli.program import called_by_kubectl
from webhook.cli.text.output import print_document

HELP: Final = """Print the final objects of placements on each cluster.

Prints the objects that the running hub would write into Works: without the fields that the hub sets, unwrapped from
envelopes, and with overrides and their variables applied. Agents apply them in this order. Nothing is written to the
hub.

With -f alone, the files are both the hub and the proposed changes. With --on, or on a running hub (--hub, or an option
that names one), -f holds the proposed changes. With --delete alone, the running hub is used. Objects that harbormaster
does not watch on the hub are taken from the latest resource snapshot of their placement. Removals that need a
confirmation are assumed to be confirmed.

-o diff compares with the objects that each cluster has now, or with --base, and prints clusters with equal changes
together. -o markdown prints the same as a comment for a pull request of at most 65,536 characters. With --delete, both
show the objects that are removed from each cluster.

-o dir=FOLDER writes a subfolder for each cluster, as Argo CD and Flux read it. FOLDER must be empty, missing or from an
earlier run, unless you give --overwrite. Files of earlier runs that are not rendered anymore are removed, except with
--cluster or --placement. Other files are kept. Nothing is written if an object cannot be rendered.

Values of Secrets are hidden in every output. A value that changes is marked. -o dir omits objects with Secrets.

\b
Examples:
  harbormaster render -f examples/fleet                              # objects of every cluster
  harbormaster render -f examples/fleet --cluster dover --placement crp/payments
  harbormaster render --hub -f payments.yaml -o diff                 # what would this change on each cluster?
  harbormaster render --on dump.yaml --delete crp/payments -o diff   # what would be removed?
  harbormaster render -f new/fleet --base old/fleet -o diff          # two versions of a repository
  harbormaster render -f fleet -o dir=rendered                       # for a GitOps tool

\b
Exit codes:
  0  success (with -o diff or markdown: no object would change)
  1  an error, an object that admission refuses, or an object that cannot be rendered for a cluster
  2  with -o diff or markdown: objects would change
"""
CHANGES: Final = 2
_FOLDER: Final = "dir="


class _OutputType(click.ParamType[str]):
    """A format, or ``dir=OUT``."""

    name = "output"
    formats: Final = ("yaml", "json", "diff", "markdown")

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """Return the value if it is valid."""
        text = str(value)
        if text not in self.formats and not (text.startswith(_FOLDER) and text != _FOLDER):
            self.fail(f"{text!r} is not one of {', '.join(map(repr, self.formats))}, 'dir=FOLDER'.", param, ctx)
        return text


@dataclass(frozen=True, slots=True)
class _RenderOptions:
    """Inputs of a rendering.

    Args:
        files: Objects to apply. They are also the hub unless another option selects one.
        bases: The hub, as files.
        live: Render on the running hub.
        deleted: Objects to delete, as KIND/NAME or KIND/NAMESPACE/NAME.
        clusters: Only these clusters.
        placements: Only these placements.
        compared: Files to compare with. Empty: the content that the clusters have.
        overwrite: Whether to use a folder with other files.
        validation: How unknown fields in *files* are treated.
    """

    files: Files
    bases: Sequence[str]
    live: bool
    deleted: Sequence[str]
    clusters: Sequence[str]
    placements: Sequence[str]
    compared: Sequence[str]
    overwrite: bool
    validation: Validation

    def is_of_hub(self, hub: HubOptions, output: str, now: datetime | None) -> bool:
        """Return whether to render on the running hub.

        Raises:
            click.UsageError: The options do not fit together.
        """
        live = self.live or bool(hub)
        if live and self.bases:
            raise click.UsageError("--on cannot be used with a running hub: it reads the hub from files")
        if not (live or self.files or self.bases or self.deleted):
            raise click.UsageError("specify what to render: -f FILE, --on FILE or --hub")
        live = live or not (self.files or self.bases)
        if self.deleted and not (live or self.bases):
            raise click.UsageError(DELETION_WITHOUT_HUB)
        if self.compared and output not in ("diff", "markdown", "json"):
            raise click.UsageError(f"--base cannot be used with -o {output}: use diff, markdown or json")
        if self.compared and live:
            raise click.UsageError("--base requires files: with a running hub, -o diff compares with its clusters")
        if self.overwrite and not output.startswith(_FOLDER):
            raise click.UsageError("--overwrite requires -o dir=FOLDER")
        if live and now is not None:
            raise click.UsageError("--now requires files: the running hub uses its own clock")
        return live

    def check_output(self, folder: Path) -> None:
        """Check that the next run would not read its own output. Raises `UserError`."""
        source = reads_below(Files((*self.files.paths, *self.bases), self.files.ignored), folder)
        if source is not None:
            raise UserError(
                f"-o dir={folder}: is in {source}, so that the next run would read it: name another folder, or exclude "
                "it with --ignore"
            )


@click.command("render", help=HELP, short_help="Print the final objects of placements on each cluster.")
@grouped(
    "options",
    _RenderOptions,
    repository_option,
    base_option,
    click.option("--hub", "live", is_flag=True, help="Render on the running hub. Implied by options that name a hub."),
    delete_option,
    click.option(
        "--cluster",
        "clusters",
        multiple=True,
        metavar="CLUSTER",
        shell_complete=tab("clusters"),
        help="Only this member cluster. Repeatable.",
    ),
    click.option(
        "--placement",
        "placements",
        multiple=True,
        metavar="PLACEMENT",
        shell_complete=tab("placements"),
        help="Only this placement: NAME, crp/NAME or rp/NAMESPACE/NAME. Repeatable.",
    ),
    click.option(
        "--base",
        "compared",
        multiple=True,
        metavar="FILE",
        help="With -o diff, markdown or json: compare with the objects of these files, not with those on the clusters. "
        "Repeatable.",
    ),
    click.option(
        "--overwrite", is_flag=True, help="With -o dir: use a folder even if it contains other files. They are kept."
    ),
    validate_option,
)
@click.option(
    "-o",
    "--output",
    type=_OutputType(),
    default="yaml",
    show_default=True,
    metavar="yaml|json|diff|markdown|dir=FOLDER",
    shell_complete=lambda _ctx, _param, incomplete: [
        CompletionItem(word) for word in (*_OutputType.formats, _FOLDER) if word.startswith(incomplete)
    ],
    help="Format, or the folder to write.",
)
@placement_namespace_option
@now_option
@hub_options
def command(options: _RenderOptions, output: str, namespace: str | None, now: datetime | None, hub: HubOptions) -> int:
    """Print or write the objects of clusters. Return the exit code. Raises `UserError`."""
    live = options.is_of_hub(hub, output, now)
    if output.startswith(_FOLDER):
        options.check_output(Path(output.removeprefix(_FOLDER)))
    references = [parse_reference(text, namespace) for text in options.placements]
    document = _Question(
        tuple(dict.fromkeys(options.clusters)),
        tuple(dict.fromkeys((kind.kind, namespace, name) for kind, namespace, name in references)),
        unchanged=output not in ("diff", "markdown"),
    ).answer(options, namespace, hub.find() if live else None, now)
    notes = [*coverage_lines(document), *assumption_lines(document), *_uncertainties(document)]
    for line in notes:
        complain(f"note: {line}")
    problems = list(_problems(document))
    code, side = 0, "base" if options.compared else "live"
    if output == "markdown":
        from webhook.cli.planning.markdown import rendered_markdown

        click.echo(rendered_markdown(document, side, [*problems, *notes]), nl=False)
        code = CHANGES if any(entry["groups"] for entry in document["placements"]) else 0
    elif not output.startswith(_FOLDER):
        code = _print_rendered(document, output, side)
    elif not problems:
        _write(_objects_by_cluster(document), Path(output.removeprefix(_FOLDER)), options)
    if problems:
        raise UserError(problems)
    return code


class _Question(NamedTuple):
    """The part to render. See `webhook.cli.offline.render.RenderQuestion`, which is imported only when it is used."""

    clusters: Sequence[str]
    placements: Sequence[tuple[str, str, str]]
    unchanged: bool

    def answer(
        self,
        options: _RenderOptions,
        namespace: str | None,
        connection: HubConnection | None,
        now: datetime | None,
    ) -> JsonObject:
        """Return the answer for the objects of *options*, once admission has accepted them. Raises `UserError`."""
        from webhook.cli.offline.render import RenderQuestion, render_changes, render_files

        question, files, clock = RenderQuestion(*self), options.files, datetime.now(UTC)
        base = load_known(Files(options.compared, files.ignored)) if options.compared else None
        if connection is None and not options.bases:
            if called_by_kubectl():
                complain("rendering these files alone. To render on the hub of the current context, give --hub")
            objects = load_known(files)
            fields = FieldCheck.of(options.validation, objects)
            document, proposed_objects = render_files(objects, question, now=now, clock=clock, base=base)
            planned = {item.identity for item in proposed_objects}
            fields.check(item for item in objects if item.identity not in planned)
        else:
            default = connection.namespace if connection else DEFAULT_NAMESPACE
            hub = load_known(Files(options.bases, files.ignored)) if options.bases else []
            objects = load_known(files, namespace=default, hub=hub) if files else []
            if options.deleted:
                deletions = deleted_objects(options.deleted, namespace, default, hub, connection)
                question = replace(question, deleted=run(deletions))
            proposed_objects = [*objects, *question.deleted]
            fields = FieldCheck.of(options.validation, objects)
            if connection is not None:
                document = run(ask_to_render(connection, objects, question))
            else:
                document = render_changes(hub, objects, question, now=now, clock=clock, base=base)
        document = settled(document, proposed_objects, fields, of_hub=connection is not None)
        check_admission(document["admission"], proposed_objects)
        return document


async def ask_to_render(connection: HubConnection, objects: Sequence[Loaded], question: Any) -> JsonObject:
    """Return the answer of a running hub. *question* is a `RenderQuestion`. Raises `UserError`."""
    from webhook.cli.hub.answers import hub_answers
    from webhook.cli.hub.client import HubRefusedError

    try:
        async with hub_answers(connection) as hub:
            return await hub.render({"objects": [item.document for item in objects], **question.members()})
    except HubRefusedError as error:
        places = question.places(objects)
        mistakes = [places.command_line_mistake(pointer, detail) for pointer, detail in error.mistakes]
        raise UserError(mistakes or error.message) from error


def _uncertainties(document: JsonObject) -> Iterator[str]:
    """Yield the placements that may select more objects than an answer has."""
    for entry in document["placements"]:
        if entry["uncertain"]:
            yield f"{reference(entry)}: its selectors change, and may select objects that this plan cannot see"


def _problems(document: JsonObject) -> Iterator[str]:
    """Yield why objects are missing from an answer. Content that is unknown is only noted."""
    for entry in document["placements"]:
        if entry["message"]:
            yield f"{reference(entry)}: {entry['message']}"
        elif entry["hidden"]:
            yield f"{reference(entry)}: you may not list resource snapshots and override snapshots of this kind"
        for failure in entry["failures"]:
            yield f"{reference(entry)} on {failure['cluster']}: {failure['message']}"


def _print_rendered(document: JsonObject, output: str, side: str) -> int:
    """Print an answer, and return the exit code."""
    if output == "diff":
        return CHANGES if print_differences(document, side) else 0
    if output == "json":
        print_document(document, output)
    else:
        _print_objects(_objects_by_cluster(document))
    return 0


class _PlacedObject(NamedTuple):
    """An object of a placement on a cluster."""

    cluster: str
    placement: str
    manifest: JsonObject


def _objects_by_cluster(document: JsonObject) -> Iterator[_PlacedObject]:
    """Yield the objects of each cluster in the order of application: by wave, then by placement."""
    by_cluster: dict[str, list[tuple[int, _PlacedObject]]] = {}
    for entry in document["placements"]:
        for group in entry["groups"]:
            for cluster in group["clusters"]:
                by_cluster.setdefault(cluster, []).extend(
                    (item["wave"], _PlacedObject(cluster, reference(entry), item["manifest"]))
                    for item in group["objects"]
                    if item["manifest"] is not None
                )
    for _, objects in sorted(by_cluster.items()):
        yield from (item for _, item in sorted(objects, key=lambda pair: pair[0]))


def _print_objects(objects: Iterable[_PlacedObject]) -> None:
    from webhook.runtime.yaml import format_yaml

    for item in objects:
        click.echo(f"---\n# {printable(item.cluster)}: {printable(item.placement)}")
        click.echo(format_yaml(item.manifest), nl=False)


def print_differences(document: JsonObject, side: str) -> bool:
    """Print a unified diff of each object, once per group of clusters. Return whether anything differs.

    Args:
        document: An answer.
        side: Name of the earlier side.
    """
    differs = False
    for entry in document["placements"]:
        for group in entry["groups"]:
            differs = True
            for line in difference_lines(entry, group, side):
                click.echo(printable(line))
        if entry["unknown"]:
            names = " ".join(entry["unknown"])
            complain(f"note: {reference(entry)}: the current objects on {names} are unknown, so all are shown as added")
    return differs


def _write(objects: Iterable[_PlacedObject], folder: Path, options: _RenderOptions) -> None:
    """Write a folder per cluster. Files of earlier runs are removed only if all clusters and placements are rendered.

    Raises:
        UserError: Two placements have different content for one object, or the folder cannot be written.
    """
    from scorer.api.unstructured.secrets import holds_secret
    from webhook.cli.planning.rendered_folder import safe_name, write_folder
    from webhook.runtime.yaml import format_yaml

    files: dict[str, dict[str, str]] = {}
    owners: dict[tuple[str, str], str] = {}
    secrets, conflicts = 0, []
    for item in objects:
        texts = files.setdefault(safe_name(item.cluster), {})
        if holds_secret(item.manifest):
            secrets += 1
            continue
        manifest = item.manifest
        group, _, _ = str(manifest["apiVersion"]).rpartition("/")
        kind = ".".join(filter(None, (str(manifest["kind"]).lower(), group)))
        name = safe_name(*filter(None, (kind, namespace_of(manifest), name_of(manifest)))) + ".yaml"
        text = format_yaml(manifest)
        if texts.setdefault(name, text) != text:
            subject = f"{manifest['kind']} {'/'.join(filter(None, (namespace_of(manifest), name_of(manifest))))}"
            first = owners[item.cluster, name]
            conflicts.append(f"{item.cluster}: {first} and {item.placement} place different content of {subject}")
        owners.setdefault((item.cluster, name), item.placement)
    if conflicts:
        raise UserError(conflicts)
    removed = write_folder(
        folder,
        files,
        overwrite=options.overwrite,
        removes_others=not (options.clusters or options.placements),
    )
    count = sum(map(len, files.values()))
    written, stale = format_count(count, "file"), format_count(removed, "stale file")
    complain(f"{folder}: {written} for {format_count(len(files), 'cluster')} written, {stale} removed")
    if secrets:
        complain(f"note: not written, because values of Secrets are hidden: {format_count(secrets, 'object')}")
