"""``harbormaster upgrade plan``: the times at which a run on the hub or in files reaches each member."""

import asyncio
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime
from typing import Final

import click

from scorer.api.kinds import UPGRADE_RUN, UPGRADE_STRATEGY
from scorer.api.unstructured.documents import annotation, dict_at, name_of, spec_of, status_of, text_at
from scorer.api.unstructured.json_object import JsonObject
from scorer.upgrade.back_ends.inventories import OBSERVED
from webhook.cli.errors import UserError, complain
from webhook.cli.files.documents import Loaded
from webhook.cli.files.repositories import load_known
from webhook.cli.files.search import Files
from webhook.cli.hub.answers import answers_of
from webhook.cli.hub.client import Client, HubRefusedError, ResourcePath
from webhook.cli.offline.admission import admit, offline_context
from webhook.cli.options.base import output_option, repository_option, run, tab
from webhook.cli.options.field_validation import FieldCheck, Validation, validate_option
from webhook.cli.options.hub import HubOptions, hub_options
from webhook.cli.staged_updates.output import command_line
from webhook.cli.text.output import print_document
from webhook.cli.upgrades.plan_output import Background, print_plan
from webhook.cli.upgrades.plan_request import PLANNED, plan_question
from webhook.cli.upgrades.run_client import UpgradeRuns, UpgradeRunView
from webhook.runtime.clock import utc_now

HELP: Final = """Show when an upgrade run reaches each member.

Shows the plan in the run's status. It is simulated: upgrades take as long as expected, approvals are given immediately,
and nothing fails. It is recomputed when something changes, at most once a minute.

With -f, plans a run that need not be on the hub: the run in the files, or the named run from the files or the hub. A
strategy in the files replaces that of the run. Windows, catalogs and members in the files replace all objects of their
kind on the hub. Other objects are ignored, with a note. The files are checked first, as by `harbormaster validate`.
Nothing is written.

\b
Examples:
  harbormaster upgrade plan kubernetes-1-31
  harbormaster upgrade plan kubernetes-1-31 -o json
  harbormaster upgrade plan -f run.yaml
  harbormaster upgrade plan kubernetes-1-31 -f windows.yaml
  harbormaster upgrade plan kubernetes-1-31 -f examples/fleet/upgrades.yaml

\b
Actions:   Upgrade, Skip, Blocked (cannot start unless something changes), Fail, NotReached. For members in
           progress or finished: Upgrading, Upgraded, Skipped, Failed
Bound by:  Sequence, Window, Gate, Wait, StageCeiling, Version

\b
Exit codes:
  0  shown
  1  an error: no such run, a run without a plan (finished, or the loop is not running), or an error in a file
"""

_MOST_NAMED: Final = 3
POLL_SECONDS: Final = 0.5
PATIENCE_SECONDS: Final = 6.0
"""Timeout for the plan of a new run, which the loop makes within seconds."""


@click.command("plan", help=HELP, short_help="Show when an upgrade run reaches each member.")
@click.argument("name", default="", metavar="[RUN]", shell_complete=tab("upgrades"))
@repository_option
@validate_option
@output_option("table", "json", "yaml")
@hub_options
def command(name: str, files: Files, validation: Validation, output: str, hub: HubOptions) -> int:
    """Show the plan of a run. Raises `click.UsageError`."""
    if not name and not files:
        raise click.UsageError("specify a run, or files with -f")
    return run(_plan_of_files(hub, name, files, validation, output) if files else _plan(hub, name, output))


async def _plan_of_files(hub: HubOptions, name: str, files: Files, validation: Validation, output: str) -> int:
    objects = _checked(files, validation)
    run_names = {item.name for item in objects if item.kind == UPGRADE_RUN}
    async with Client(hub.find()) as client:
        follows = ""
        if name and name not in run_names:
            follows = text_at((await UpgradeRuns(client).get(name)).run, "spec", "strategyRef", "name")
        question, notes = plan_question(name, objects, follows)
        for note in (*notes, *_unknown(question)):
            complain(f"note: {note}")
        async with answers_of(client) as answers:
            planned = await answers.plan_upgrade(question)
        if output != "table":
            print_document(planned, output)
            return 0
        run_question = question["run"]
        title = run_question if isinstance(run_question, str) else name_of(run_question)
        print_plan(planned, title, utc_now(), await _background(client, question))
    return 0


def _checked(files: Files, validation: Validation) -> list[Loaded]:
    """Read files, and validate the inputs of a plan as admission would.

    Raises:
        UserError: An object is invalid. Lists every error.
    """
    objects = load_known(files)
    FieldCheck.of(validation, objects).check(objects)
    context = offline_context(objects, datetime.now(UTC))
    verdicts = [admit(item, context) for item in objects if item.kind in PLANNED]
    if mistakes := [line for verdict in verdicts if not verdict.allowed for line in verdict.lines()]:
        raise UserError(mistakes)
    return objects


def _unknown(question: JsonObject) -> Iterator[str]:
    """Yield a note on members of the files whose version is unknown: a run never reaches them."""
    if names := [name_of(member) for member in question.get("members", ()) if not annotation(member, OBSERVED)]:
        more = f" and {len(names) - _MOST_NAMED} more" if len(names) > _MOST_NAMED else ""
        missing = ", ".join(names[:_MOST_NAMED]) + more
        yield f"members in the files must have their versions in annotation {OBSERVED}, which is missing from {missing}"


async def _background(client: Client, question: JsonObject) -> Background:
    """Return the known facts about the run of a question."""
    run = question["run"]
    if isinstance(run, str):
        view = await UpgradeRuns(client).find(run)
        background = Background() if view is None else Background.of(view.run)
        return replace(background, strategy=spec_of(question["strategy"])) if "strategy" in question else background
    if "strategy" in question:
        return Background(spec_of(question["strategy"]))
    if strategy := dict_at(spec_of(run), "strategy"):
        return Background(strategy)
    if not (name := text_at(run, "spec", "strategyRef", "name")):
        return Background()
    try:
        return Background(spec_of(await client.get(ResourcePath(UPGRADE_STRATEGY, name=name))))
    except HubRefusedError:
        return Background()


async def _plan(hub: HubOptions, name: str, output: str) -> int:
    async with Client(hub.find()) as client:
        view = await _planned(UpgradeRuns(client), name)
    planned = dict_at(status_of(view.run), "plan")
    if not planned:
        reason = "the loop has not computed one: is it running?"
        if view.situation.is_over:
            status = command_line(["upgrade", "status", name], hub)
            reason = f"it is {view.situation.phase.value}. For its result, run: {status}"
        raise UserError(f"run {name} has no plan: {reason}")
    if output == "table":
        print_plan(planned, name, utc_now(), Background.of(view.run))
    else:
        print_document(planned, output)
    return 0


async def _planned(runs: UpgradeRuns, name: str) -> UpgradeRunView:
    """Return a run, as soon as it has a plan or is finished, or after `PATIENCE_SECONDS`."""
    clock = asyncio.get_running_loop().time
    end = clock() + PATIENCE_SECONDS
    view = await runs.get(name)
    while not view.situation.is_over and not dict_at(status_of(view.run), "plan") and clock() < end:
        await asyncio.sleep(POLL_SECONDS)
        view = await runs.find(name) or view
    return view
