"""``harbormaster run``: start, stop, resume and show staged update runs."""

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

import click

from scorer.api.placement.staged_update import RunState
from scorer.api.unstructured.documents import name_of
from scorer.api.unstructured.json_object import JsonObject
from scorer.staged_update.orders import (
    RunOrder,
    order_resume,
    order_start,
    order_stop,
    state_patch,
)
from scorer.staged_update.phase import RunSituation
from webhook.cli.hub.client import Client
from webhook.cli.hub.connection import HubConnection
from webhook.cli.options.base import grouped, not_empty, output_option, run, run_argument, tab
from webhook.cli.options.hub import HubOptions, hub_options
from webhook.cli.staged_updates.output import news, print_run, run_document, wait_lines
from webhook.cli.staged_updates.run_client import Runs, RunView
from webhook.cli.staged_updates.run_list import list_runs
from webhook.cli.staged_updates.runs_of_kind import as_user_error
from webhook.cli.staged_updates.view import RunRenderer, Shown, show_status
from webhook.cli.staged_updates.wait import (
    WaitOptions,
    initialised,
    stopped,
    stopping_options,
    wait_for,
    waiting_options,
)

SHORT: Final = "Start, stop, resume, list and watch staged updates."
_WAITING_CODES: Final = """  1  an error (with --wait also: the run could not be initialized, or was aborted)
  2  with --wait: action required, standard output shows what the run waits for
  3  with --wait: timed out
"""
HELP: Final = """Start, stop, resume, list and watch staged updates.

A run rolls out a placement with strategy type External, in the stages of a staged update strategy. Approve or reject
its stages with `harbormaster approve` and `harbormaster reject`. Roll it back with `harbormaster undo`.

\b
Examples:
  harbormaster run start spring --placement payments --strategy careful
  harbormaster run list
  harbormaster run status spring
  harbormaster run stop spring --wait

\b
Exit codes:
  0  done
  1  an error, or the run has failed
  2  with --wait: action required
  3  with --wait: timed out
"""
START_HELP: Final = f"""Start a staged update.

Creates the run, or starts an existing one that is initialized or stopped. A new run requires --placement and
--strategy. With --initialize-only, the run is only planned: its stages and clusters are fixed and can be inspected, and
nothing is changed until it is started.

\b
Examples:
  harbormaster run start spring --placement payments --strategy careful
  harbormaster run start spring --placement payments --strategy careful --initialize-only
  harbormaster run start spring --wait --timeout 2h
  harbormaster run start web-7 -n team-a --placement web --strategy careful --snapshot 7

\b
Exit codes:
  0  started now or earlier (with --wait: succeeded, with --wait and --initialize-only: planned)
{_WAITING_CODES}"""
STOP_HELP: Final = """Stop a staged update.

No further cluster is started. Updates in progress are finished. `harbormaster run resume` continues the run.

\b
Examples:
  harbormaster run stop spring
  harbormaster run stop spring --wait --timeout 10m

\b
Exit codes:
  0  stop requested now or earlier (with --wait: nothing is in progress)
  1  an error: no such run, or a run that is finished or was never started (with --wait also: aborted)
  3  with --wait: timed out
"""
RESUME_HELP: Final = f"""Resume a stopped staged update.

\b
Examples:
  harbormaster run resume spring
  harbormaster run resume spring --wait --through-approvals

\b
Exit codes:
  0  resumed, or already running (with --wait: succeeded)
{_WAITING_CODES}"""
STATUS_HELP: Final = f"""Show the progress of a staged update.

Shows stages, clusters and pending waits, with the command that ends each wait. -w shows every change until the run is
finished. Without RUN, lists the unfinished runs. RUN is NAME, csur/NAME or sur/NAMESPACE/NAME.

\b
Examples:
  harbormaster run status
  harbormaster run status spring
  harbormaster run status spring -w
  harbormaster run status web-7 -n team-a -o json
  harbormaster run status spring --wait --timeout 2h --through-approvals

\b
Phases:  Initializing, Initialized, Running, Waiting, Stuck, Stopping, Stopped, Failed (not initialized), Aborted,
         Succeeded
States of a stage:    pending, waiting, updating, stopping, stopped, done, skipped, failed
States of a cluster:  pending, held (must not be changed now), updating, done, failed

\b
-o json (yaml: the same, with -w one document per change):
  run         kind namespace name placement strategy resourceSnapshotIndex state phase stage message rejected
              rollbackOf
  waits[]     kind (State, Approval, TimedWait, Cluster, Held) stage cluster approvalRequest since until needsPerson
              message command
  stages[]    stage state startTime endTime message clusters[]
  clusters[]  cluster state since finished message
  Without RUN: items[], as returned by /v1/runs

\b
Exit codes:
  0  shown (with --wait: succeeded)
{_WAITING_CODES}"""


LIST_HELP: Final = """List staged updates, the latest first.

Shows cluster-scoped runs and those of all namespaces.

\b
Examples:
  harbormaster run list
  harbormaster run list -n team-a -o json

\b
-o json (yaml: the same):
  items[]     as returned by /v1/runs

\b
Exit codes:
  0  shown (even if there are no runs)
  1  an error, such as an unreachable hub
"""


VIEW: Final = RunRenderer(run_document, print_run, news, wait_lines)


@dataclass(frozen=True, slots=True)
class _NewRunOptions:
    """Options of a new run.

    Args:
        placement: The placement.
        strategy: The strategy, which defines the stages.
        snapshot: The resource snapshot. None means the currently selected resources.
        initialize_only: Initialize the run without starting it.
    """

    placement: str | None
    strategy: str | None
    snapshot: str | None
    initialize_only: bool

    def order(self, name: str, namespace: str) -> RunOrder:
        """Return the requested run."""
        state = RunState.INITIALIZE if self.initialize_only else RunState.RUN
        return RunOrder(name, namespace, self.placement or "", self.strategy or "", self.snapshot or "", state)


@click.group("run", help=HELP, short_help=SHORT)
def command() -> None:
    """Group the commands."""


@command.command("start", help=START_HELP, short_help="Start a staged update.")
@run_argument()
@grouped(
    "content",
    _NewRunOptions,
    click.option(
        "--placement",
        metavar="NAME",
        callback=not_empty,
        shell_complete=tab("updated"),
        help="Placement to roll out, with strategy type External.",
    ),
    click.option(
        "--strategy",
        metavar="NAME",
        callback=not_empty,
        shell_complete=tab("strategies"),
        help="Staged update strategy, which defines the stages.",
    ),
    click.option(
        "--snapshot",
        metavar="INDEX",
        callback=not_empty,
        help="Index of the resource snapshot to roll out.  [default: the resources selected now]",
    ),
    click.option("--initialize-only", is_flag=True, help="Only plan the run. Nothing is changed until it is started."),
)
@waiting_options
@hub_options
def start(name: str, content: _NewRunOptions, namespace: str, wait_options: WaitOptions, hub: HubOptions) -> int:
    """Start a run."""
    wait_options.check()
    return run(_start(hub.find(), content.order(name, namespace), wait_options, hub))


async def _start(connection: HubConnection, order: RunOrder, wait_options: WaitOptions, hub: HubOptions) -> int:
    only_plans = order.state is RunState.INITIALIZE
    async with Client(connection) as client:
        runs = Runs(client, order.namespace)
        view = await runs.find(order.name)
        if view is None:
            _check_complete(order)
            await runs.check(order)
            title = await runs.create(order.document())
            click.echo(f"{title} created{', for planning only' if only_plans else ''}")
        else:
            words = ("already planned", "planned") if only_plans else ("already running", "started")
            with as_user_error():
                state = order_start(view.run, view.situation, order)
            await _order(runs, view.run, state, *words)
        return await wait_for(runs, order.name, wait_options, initialised if only_plans else wait_options.finished, hub)


def _check_complete(order: RunOrder) -> None:
    arguments = {"--placement": order.placement, "--strategy": order.strategy}
    missing = " and ".join(option for option, value in arguments.items() if not value)
    if missing:
        raise click.UsageError(f"{missing}: required, because there is no run {order.name} yet")


async def _order(runs: Runs, document: JsonObject, state: RunState | None, unchanged_word: str, done_word: str) -> None:
    """Set the state of a run, and report it."""
    if state is not None:
        await runs.patch(document, state_patch(state))
    click.echo(f"{runs.title(name_of(document))} {done_word if state is not None else unchanged_word}")


@command.command("stop", help=STOP_HELP, short_help="Stop a staged update.")
@run_argument()
@stopping_options
@hub_options
def stop(name: str, namespace: str, wait_options: WaitOptions, hub: HubOptions) -> int:
    """Stop a run."""
    wait_options.check()
    return run(_change(hub, name, namespace, wait_options, order_stop, ("already stopped", "stopping")))


@command.command("resume", help=RESUME_HELP, short_help="Resume a stopped staged update.")
@run_argument()
@waiting_options
@hub_options
def resume(name: str, namespace: str, wait_options: WaitOptions, hub: HubOptions) -> int:
    """Resume a run."""
    wait_options.check()
    return run(_change(hub, name, namespace, wait_options, order_resume, ("already running", "resumed")))


async def _change(
    hub: HubOptions,
    name: str,
    namespace: str,
    wait_options: WaitOptions,
    order: Callable[[JsonObject, RunSituation], RunState | None],
    words: tuple[str, str],
) -> int:
    async with Client(hub.find()) as client:
        runs = Runs(client, namespace)
        view = await runs.get(name)
        with as_user_error():
            state = order(view.run, view.situation)
        await _order(runs, view.run, state, *words)
        return await wait_for(runs, name, wait_options, stopped if order is order_stop else wait_options.finished, hub)


@command.command("list", help=LIST_HELP, short_help="List staged updates.")
@output_option("table", "json", "yaml")
@click.option(
    "-n",
    "--namespace",
    default="",
    callback=not_empty,
    metavar="NS",
    shell_complete=tab("namespaces"),
    help="Only StagedUpdateRuns of this namespace.  [default: all runs]",
)
@hub_options
def every(output: str, namespace: str, hub: HubOptions) -> int:
    """List runs."""
    return run(list_runs(hub, namespace, output))


@command.command("status", help=STATUS_HELP, short_help="Show the progress of a staged update.")
@run_argument(required=False)
@click.option("-w", "--watch", is_flag=True, help="Show every change until the run is finished, or until Ctrl-C.")
@output_option("table", "json", "yaml")
@waiting_options
@hub_options
def status(name: str, watch: bool, output: str, namespace: str, wait_options: WaitOptions, hub: HubOptions) -> int:
    """Show a run. Raises `click.UsageError`."""
    wait_options.check()
    if not name:
        if watch or wait_options.wait:
            raise click.UsageError("specify the run to watch")
        return run(list_runs(hub, namespace, output, unfinished=True))
    with suppress(KeyboardInterrupt):
        return run(_status(name, namespace, wait_options, Shown(VIEW, output, hub, watch=watch)))
    return 0


async def _status(name: str, namespace: str, wait_options: WaitOptions, status_options: Shown[RunView]) -> int:
    async with Client(status_options.hub.find()) as client:
        return await show_status(Runs(client, namespace), name, wait_options, wait_options.finished, status_options)
