"""``harbormaster plan``: a dry run of changes to placements, on files or on the running hub."""

import secrets
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

import click

from scorer.api.family import PLACEMENTS, family_in
from scorer.api.unstructured.json_object import JsonObject
from webhook.cli.errors import UserError, complain
from webhook.cli.files.documents import DEFAULT_NAMESPACE, Loaded, load
from webhook.cli.files.repositories import load_known
from webhook.cli.files.search import Files
from webhook.cli.hub.connection import HubConnection
from webhook.cli.linting.reports import report_failures
from webhook.cli.options.base import (
    DELETION_WITHOUT_HUB,
    base_option,
    delete_option,
    grouped,
    not_empty,
    output_option,
    repository_option,
    run,
    tab,
)
from webhook.cli.options.field_validation import FieldCheck, Validation, validate_option
from webhook.cli.options.hub import HubOptions, hub_options
from webhook.cli.options.times import now_option
from webhook.cli.options.verdicts import check_admission, settled
from webhook.cli.planning.node_pools import node_pool_effects
from webhook.cli.planning.output import print_comparison
from webhook.cli.planning.report import CHANGES, PlanReport, with_unused
from webhook.cli.program import called_by_kubectl
from webhook.cli.text.output import print_document

if TYPE_CHECKING:
    from scorer.what_if.state import ObjectKey

HELP = """Preview changes to placements and runs, without making them.

With -f alone, the files are both the hub and the proposed changes: MemberClusters, placements, and existing bindings
and snapshots, if any. A member that has never reported is simulated as in `harbormaster up`. A dump of a real hub is
evaluated at the time it was taken.

With --on, or on a running hub (--hub, or an option that names one), -f holds the proposed changes: new or changed
placements, overrides, runs, member clusters, budgets or other objects, and --delete names objects to delete. Admission
validates all of them first. Nothing is written. Without -f and --on, the running hub is used.

A changed override is shown by the rollout that it causes. A cluster where it cannot be applied is shown as `fails`,
with the path and the object.

With --on, the plan also shows the nodes that changed NodePools, node classes and NodeOverlays disrupt within a week:
those that drift, expire, are empty or are consolidated, with the first and the last time, and with --prices the cost. A
dump with more than 1,000 nodes is not simulated: use `harbormaster simulate disruption`.

An unfinished staged update run is shown with its stages, their clusters in order, pending waits, the changes on the
clusters, and the earliest completion time. Problems that would abort the run are shown, and do not fail the command.

An upgrade run is shown with the members whose upgrades start next, and with its plan. An approval request or a gate
with the condition Approved is shown with the clusters that its run updates next.

Changed objects of kinds that a plan does not evaluate are counted as `not judged: KIND (n)`. Objects and kinds that you
may not read are named. In both cases, -o json has "complete": false, and --require-complete exits with 1.

-o markdown prints a comment for a pull request of at most 65,536 characters, with a table of changes, folded reasons,
and the differences of the objects on the clusters. -o sarif prints the findings of admission.

\b
Examples:
  harbormaster plan -f examples/fleet                        # what would these placements get?
  harbormaster plan --hub -f payments.yaml                   # what would this change on the running hub?
  harbormaster plan --context hub --lost dover               # what if dover were lost?
  harbormaster plan --on dump.yaml --drained dover           # on a dump: what if dover were drained?
  harbormaster plan --delete crp/payments                    # what would its deletion remove, and how is it confirmed?
  harbormaster plan --hub --run spring                       # what remains to be done in this run?
  harbormaster plan --compare a.yaml b.yaml -f examples/fleet
  kubectl --context hub get fleet -A -o yaml > dump.yaml     # all objects of harbormaster on the hub
  harbormaster plan --on dump.yaml -f new.yaml

\b
Exit codes:
  0  no changes: no placement would move, roll out, be evicted, become blocked or lack clusters, no run would change a
     cluster, and no disruptions, nodes or cost of a NodePool would change
  1  an error, or an object that admission refuses: file, document and field are on standard error. Or a change is left
     out because you lack rights. With --require-complete, also: the plan does not cover everything
  2  changes: a placement would change or is new, a run would change a cluster, or the disruptions, nodes or cost of a
     NodePool would change (with --compare: a policy picks a cluster that the other does not)
"""


class _Losses(NamedTuple):
    """See `webhook.cli.offline.plan.PlannedLosses`, which is imported only when it is used."""

    lost: Sequence[str] = ()
    drained: Sequence[str] = ()
    deleted: Sequence[Loaded] = ()


_NO_LOSSES: Final = _Losses()


@dataclass(frozen=True, slots=True)
class _Ground:
    """The hub to plan on: a running one, or files.

    Args:
        connection: The running hub. None if the plan is made on files.
        base: The objects of a hub of files.
        now: The instant to plan for, if the user gives one.
    """

    connection: HubConnection | None
    base: Sequence[Loaded] = ()
    now: datetime | None = None

    def plan(
        self,
        objects: Sequence[Loaded],
        losses: _Losses = _NO_LOSSES,
        *,
        only: Sequence[Loaded] | None = None,
        only_key: "ObjectKey | None" = None,
    ) -> JsonObject:
        """Return the plan of applying *objects*. Raises `UserError`.

        *only* limits it to some placements, *only_key* to one run.
        """
        if self.connection is not None:
            return run(_ask(self.connection, objects, losses, _wanted_part(only, only_key)))
        from webhook.cli.offline.plan import PlannedLosses, plan_changes

        document = plan_changes(
            self.base, objects, PlannedLosses(*losses), now=self.now, clock=datetime.now(UTC), only=only_key
        )
        if only is not None:
            selected = {(item.namespace, item.name) for item in only}
            placements = [entry for entry in document["placements"] if (entry["namespace"], entry["name"]) in selected]
            document = {**document, "placements": placements}
        return document

    def rendered(self, objects: Sequence[Loaded], deleted: Sequence[Loaded], plan: JsonObject) -> JsonObject | None:
        """Return the objects that change on clusters, for the placements that *plan* changes.

        None if no placement changes, or if admission refuses an object. If the objects cannot be rendered, the answer
        only has the reason, as ``problem``.
        """
        changed = [entry for entry in plan["placements"] if entry["changed"]]
        if not changed or any(verdict["errors"] for verdict in plan["admission"]):
            return None
        from webhook.cli.offline.render import RenderQuestion, render_changes
        from webhook.cli.planning.render import ask_to_render

        kinds = {entry["namespace"]: family_in(entry["namespace"]).placement.kind for entry in changed}
        places = [(kinds[entry["namespace"]], entry["namespace"], entry["name"]) for entry in changed]
        question = RenderQuestion(placements=places, deleted=deleted)
        try:
            if self.connection is not None:
                return run(ask_to_render(self.connection, objects, question))
            return render_changes(self.base, objects, question, now=self.now, clock=datetime.now(UTC))
        except UserError as error:
            return {"problem": "; ".join(error.lines)}


@dataclass(frozen=True, slots=True)
class _PlanOptions:
    """Inputs of a plan.

    Args:
        files: Objects to apply. They are also the hub unless another option selects one.
        bases: The hub, as files.
        live: Plan on the running hub.
        lost: Members that are lost.
        drained: Members that are tainted and drained.
        deleted: Objects to delete, as KIND/NAME or KIND/NAMESPACE/NAME.
        pair: Two files whose policies are compared.
        named: The run to plan. None means all placements and all unfinished runs.
        namespace: Namespace of the run, and of deleted objects.
        require_complete: Fail if the plan does not cover every change and everything that it depends on.
        prices: Instance types and their prices, for the cost of NodePools. None: unset.
        validation: How unknown fields in *files* are treated.
    """

    files: Files
    bases: Sequence[str]
    live: bool
    lost: Sequence[str]
    drained: Sequence[str]
    deleted: Sequence[str]
    pair: tuple[str, str] | None
    named: str | None
    namespace: str
    require_complete: bool
    prices: Path | None
    validation: Validation

    @property
    def run(self) -> "ObjectKey | None":
        """Key of the run, or None if the plan is not limited to a run."""
        if self.named is None:
            return None
        from scorer.what_if.state import ObjectKey

        return ObjectKey(*family_in(self.namespace).run.group_kind, self.named, self.namespace)

    def losses(self, default: str, stored: Sequence[Loaded], connection: HubConnection | None) -> _Losses:
        """Return the losses. *default* is the namespace of the hub, *stored* its files. Raises `UserError`."""
        if not self.deleted:
            return _Losses(self.lost, self.drained)
        from webhook.cli.hub.resource_arguments import deleted_objects

        deletions = deleted_objects(self.deleted, self.namespace, default, stored, connection)
        return _Losses(self.lost, self.drained, run(deletions))

    def is_of_hub(self, hub: HubOptions, now: datetime | None) -> bool:
        """Return whether to plan on the running hub, which the user requests explicitly or by giving no files.

        Raises:
            click.UsageError: The options do not fit together.
        """
        live = self.live or bool(hub)
        if self.namespace and self.named is None and not self.deleted:
            raise click.UsageError("-n requires --run or --delete: it is the namespace of that run or object")
        if self.prices is not None and not self.bases:
            raise click.UsageError("--prices requires --on FILE: the cost is that of the nodes in a dump")
        given = {"--lost": self.lost, "--drained": self.drained, "--delete": self.deleted, "--run": self.named}
        if self.pair is not None and (any(given.values()) or self.require_complete):
            option = next((option for option, value in given.items() if value), "--require-complete")
            raise click.UsageError(
                f"--compare cannot be used with {option}: it compares two policies on an unchanged fleet: "
                "that of a hub (--hub), of a dump (--on FILE), or of files (-f FILE)"
            )
        if live and self.bases:
            raise click.UsageError("--on cannot be used with a running hub: it reads the hub from files")
        if not (live or self.files or self.bases or self.pair or any(given.values())):
            raise click.UsageError(
                "specify what to plan: -f FILE, --run NAME, --delete KIND/NAME, --lost CLUSTER or --drained CLUSTER"
            )
        live = live or not (self.files or self.bases)
        if self.deleted and not (live or self.bases):
            raise click.UsageError(DELETION_WITHOUT_HUB)
        if live and now is not None:
            raise click.UsageError("--now requires files: the running hub uses its own clock")
        return live


@click.command("plan", help=HELP, short_help="Preview changes to placements and runs.")
@grouped(
    "options",
    _PlanOptions,
    repository_option,
    base_option,
    click.option("--hub", "live", is_flag=True, help="Plan on the running hub. Implied by options that name a hub."),
    click.option(
        "--lost",
        multiple=True,
        metavar="CLUSTER",
        shell_complete=tab("clusters"),
        help="Assume that this member cluster is lost. Repeatable.",
    ),
    click.option(
        "--drained",
        multiple=True,
        metavar="CLUSTER",
        shell_complete=tab("clusters"),
        help="Assume that this member cluster is tainted and drained. Repeatable.",
    ),
    delete_option,
    click.option(
        "--compare",
        "pair",
        nargs=2,
        metavar="A B",
        help="Compare the policies of two files with one placement each, as if nothing were placed yet.",
    ),
    click.option(
        "--run",
        "named",
        metavar="NAME",
        shell_complete=tab("updates"),
        help="Show only what this staged update run would do.",
    ),
    click.option(
        "-n",
        "--namespace",
        default="",
        callback=not_empty,
        metavar="NS",
        shell_complete=tab("namespaces"),
        help="Namespace of --run, which is then a StagedUpdateRun, and of --delete KIND/NAME.  [default: none for "
        "--run, that of the kubeconfig's context for --delete]",
    ),
    click.option(
        "--require-complete",
        is_flag=True,
        help="Exit with 1 if a change cannot be evaluated, or if an object that the plan depends on cannot be read.",
    ),
    click.option(
        "--prices",
        type=click.Path(path_type=Path),
        metavar="FILE",
        help="With --on: instance types and their prices per hour, for the cost of changed NodePools.",
    ),
    validate_option,
)
@output_option("table", "json", "yaml", "markdown", "sarif")
@now_option
@hub_options
def command(options: _PlanOptions, output: str, now: datetime | None, hub: HubOptions) -> int:
    """Print the effects of changes. Return the exit code."""
    with report_failures(output):
        return _plan(options, output, now, hub)


def _plan(options: _PlanOptions, output: str, now: datetime | None, hub: HubOptions) -> int:
    live = options.is_of_hub(hub, now)
    files, bases = options.files, options.bases
    connection, texts, unused = hub.find() if live else None, dict[str, str](), Counter[str]()
    objects: list[Loaded] = []
    if options.pair is not None:
        if output in ("markdown", "sarif"):
            raise click.UsageError(f"--compare cannot be used with -o {output}: use table, json or yaml")
        if files and (live or bases):
            raise click.UsageError(
                "--compare takes two files and one fleet: that of a hub (--hub), of a dump (--on FILE), or of files "
                "(-f FILE)"
            )
        ground = _Ground(connection, load_known(Files((*files.paths, *bases), files.ignored)) if not live else (), now)
        return _compare(options.pair, ground, output, options.validation)
    if connection is None and not bases:
        if called_by_kubectl():
            complain("planning on these files alone. To plan on the hub of the current context, give --hub")
        objects = load_known(files, texts=texts, unused=unused)
        return _plan_files(objects, unused, options, PlanReport(output, texts, options.require_complete), now)
    namespace = connection.namespace if connection else DEFAULT_NAMESPACE
    read_only: tuple[list[JsonObject], list[JsonObject]] = ([], [])
    used = read_only[1] if bases else None  # a running hub is not simulated, so that classes are noted as skipped
    stored = load_known(Files(bases, files.ignored), read_only=read_only[0]) if bases else []
    if files:
        objects = load_known(files, namespace=namespace, texts=texts, read_only=used, unused=unused, hub=stored)
    fields = FieldCheck.of(options.validation, objects)
    ground = _Ground(connection, stored, now)
    losses = options.losses(namespace, stored, connection)
    document = ground.plan(objects, losses, only_key=options.run)
    document = settled(document, objects, fields, of_hub=connection is not None)
    if bases and not any(verdict["errors"] for verdict in document["admission"]):
        effects = node_pool_effects(
            (ground.base, read_only[0]), (objects, read_only[1]), options.prices, now or datetime.now(UTC)
        )
        document |= {} if effects is None else {"nodePools": effects}
    if "nodePools" not in document:
        unused += Counter(str(one["kind"]) for one in read_only[1])
    document = with_unused(document, unused)
    if output == "markdown" and not (losses.lost or losses.drained):
        document = {**document, "rendered": ground.rendered(objects, losses.deleted, document)}
    report = PlanReport(output, texts, options.require_complete)
    return report.show(document, [*objects, *losses.deleted], everything=options.run is not None)


def _plan_files(
    objects: Sequence[Loaded], unused: Counter[str], options: _PlanOptions, report: PlanReport, now: datetime | None
) -> int:
    """Plan on files that are both the hub and the proposed changes."""
    from webhook.cli.offline.plan import PlannedLosses, is_planned, plan_files

    outages = PlannedLosses(options.lost, options.drained)
    fields = FieldCheck.of(options.validation, objects)
    fields.check(item for item in objects if not is_planned(item))
    document, planned = plan_files(objects, outages, now=now, clock=datetime.now(UTC), only=options.run)
    document = with_unused(settled(document, planned, fields, of_hub=False), unused)
    everything = options.run is not None or not (options.lost or options.drained)
    return report.show(document, planned, everything=everything)


class _Part(NamedTuple):
    """The part of a plan to answer with.

    Args:
        members: Fields of the request body. Empty: the whole plan.
        named: The only run. None: unlimited.
    """

    members: JsonObject
    named: "ObjectKey | None"


def _wanted_part(only: Sequence[Loaded] | None, only_key: "ObjectKey | None") -> _Part:
    if only_key is not None:
        return _Part({"placements": [], "runs": [{"name": only_key.name, "namespace": only_key.namespace}]}, only_key)
    if only is None:
        return _Part({}, None)
    places = [item.reference for item in only]
    return _Part({"placements": places}, None)


async def _ask(
    connection: HubConnection,
    objects: Sequence[Loaded],
    losses: _Losses,
    part: "_Part",
) -> JsonObject:
    from webhook.cli.hub.answers import hub_answers
    from webhook.cli.hub.client import HubRefusedError

    changes: JsonObject = {
        "objects": [item.document for item in objects],
        "lost": list(losses.lost),
        "drained": list(losses.drained),
        "deleted": [item.reference for item in losses.deleted],
    }
    try:
        async with hub_answers(connection) as hub:
            return await hub.plan(changes | part.members)
    except HubRefusedError as error:
        if not error.mistakes:
            raise UserError(error.message) from error
        from webhook.cli.offline.plan import Places, PlannedLosses

        places = Places(objects, PlannedLosses(*losses), part.named)
        mistakes = [places.command_line_mistake(pointer, detail) for pointer, detail in error.mistakes]
        raise UserError(mistakes) from error


def _compare(pair: tuple[str, str], ground: _Ground, output: str, validation: Validation) -> int:
    """Compare two policies as those of new placements, in one request, on the same fleet. Raises `UserError`."""
    originals = [_the_placement(file) for file in pair]
    suffix = secrets.token_hex(4)  # so that the new names do not collide with placements of the hub
    renamed_items = [
        item.with_document({**item.document, "metadata": {**_place(item), "name": f"compare-{side}-{suffix}"}})
        for side, item in zip(("left", "right"), originals, strict=True)
    ]
    fields = FieldCheck.of(validation, originals)
    document = settled(
        ground.plan(renamed_items, only=renamed_items), originals, fields, of_hub=ground.connection is not None
    )
    check_admission(document["admission"], originals)
    entries = {entry["name"]: entry for entry in document["placements"]}
    if any(item.name not in entries for item in renamed_items):
        raise UserError("you may not list placements of this kind on the hub, so it cannot compare their policies")
    sides = [
        {**entries[new.name], "name": old.name, "file": file}
        for new, old, file in zip(renamed_items, originals, pair, strict=True)
    ]
    names = _names(pair)
    from scorer.what_if.comparison import compare

    answer = compare(sides[0], sides[1], names)
    for side, file in zip(("left", "right"), pair, strict=True):
        answer[side] = {"file": file, **answer[side]}
    answer |= {key: document[key] for key in ("evaluatedAt", "fleetRevision") if key in document}
    if output != "table":
        print_document(answer, output)
    else:
        print_comparison(answer, names)
    return CHANGES if answer["differs"] else 0


def _names(pair: tuple[str, str]) -> tuple[str, str]:
    """Return display names for two files: their base names, unless those are equal."""
    left, right = (Path(file).name for file in pair)
    if left != right:
        return left, right
    return pair if pair[0] != pair[1] else (f"{left} (1)", f"{right} (2)")


def _place(item: Loaded) -> JsonObject:
    return {"namespace": item.namespace} if item.namespace else {}


def _the_placement(file: str) -> Loaded:
    """Return the only placement in *file*. Raises `UserError`."""
    placements = [item for item in load(Files((file,))) if item.kind in PLACEMENTS]
    if len(placements) != 1:
        raise UserError(f"{file}: has {len(placements) or 'no'} placements, expected one")
    return placements[0]
