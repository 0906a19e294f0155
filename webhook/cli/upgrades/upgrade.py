"""``harbormaster upgrade``: start, stop, skip, retry and show upgrade runs."""

from contextlib import suppress
from typing import Final

import click

from scorer.api.unstructured.documents import name_of
from scorer.api.unstructured.json_object import JsonObject
from scorer.api.upgrade.fields import UpgradeState
from scorer.api.upgrade.run import SkipTarget, SkipTargetType
from scorer.api.values.quoting import printable
from scorer.upgrade.patches import order_skip, order_start, order_stop, retry_run
from scorer.upgrade.views.situation import UpgradeWaitKind
from webhook.actions.patches import new_token
from webhook.cli.errors import UserError, complain
from webhook.cli.hub.client import Client
from webhook.cli.options.base import output_option, run, run_argument, tab
from webhook.cli.options.hub import HubOptions, hub_options
from webhook.cli.staged_updates.output import command_line
from webhook.cli.staged_updates.runs_of_kind import as_user_error
from webhook.cli.staged_updates.view import RunRenderer, Shown, show_status
from webhook.cli.staged_updates.wait import (
    DONE,
    FAILED,
    NEEDS_PERSON,
    Verdict,
    WaitOptions,
    follow,
    print_waits,
    report,
    stopping_options,
    waiting_options,
)
from webhook.cli.text.output import print_document, print_line
from webhook.cli.upgrades.output import (
    list_upgrades,
    print_upgrade,
    upgrade_document,
    upgrade_news,
    upgrade_wait_lines,
)
from webhook.cli.upgrades.plan import command as plan
from webhook.cli.upgrades.run_client import (
    UpgradeRuns,
    UpgradeRunView,
    is_accepted,
    start_refusal,
    wait_accepted,
)
from webhook.cli.upgrades.skips import Effect, effects
from webhook.runtime.clock import utc_now

_WAITS: Final = """  2  with --wait: action required, standard output shows what the run waits for
  3  with --wait: timed out
"""
_WAITING_CODES: Final = f"""  1  an error (with --wait also: the run has failed)
{_WAITS}"""
HELP: Final = """Start, stop and watch upgrades of member clusters.

A ClusterUpgradeRun upgrades members to a Kubernetes version or to newer node images, in the stages and groups of a
strategy. Create it with `harbormaster apply`. Approve or reject its gates with `harbormaster approve` and `harbormaster
reject`.

\b
Examples:
  harbormaster upgrade plan kubernetes-1-31
  harbormaster upgrade start kubernetes-1-31 --wait
  harbormaster upgrade status kubernetes-1-31 -w
  harbormaster upgrade skip kubernetes-1-31 --member east

\b
Exit codes:
  0  done
  1  an error, or the run has failed
  2  with --wait: action required
  3  with --wait: timed out
"""
START_HELP: Final = f"""Start an upgrade run, or restart one that is stopped or has failed.

After a failure, the members of the failed stage are retried. Upgraded members remain upgraded. A run that cannot start
yet starts as soon as nothing blocks it.

\b
Examples:
  harbormaster upgrade start kubernetes-1-31
  harbormaster upgrade start kubernetes-1-31 --wait --timeout 8h

\b
Exit codes:
  0  started now or earlier (with --wait: finished)
  1  an error, or the run cannot start (with --wait also: failed)
{_WAITS}"""
STOP_HELP: Final = """Stop an upgrade run.

No further member is upgraded. Upgrades in progress are finished. `harbormaster upgrade start` continues the run.

\b
Examples:
  harbormaster upgrade stop kubernetes-1-31 --wait

\b
Exit codes:
  0  stop requested now or earlier (with --wait: nothing is in progress)
  1  an error: no such run, or a run that is finished or was never started (with --wait also: failed)
  3  with --wait: timed out
"""
SKIP_HELP: Final = """Skip members, groups, stages or the wait after a stage.

Skipping a group also skips its gates. Skipping a stage also skips its gates and the wait after it. Members that are
being upgraded or have been upgraded are not affected. A failed member can be skipped only while the run is stopped or
has failed. Notes on standard error name the members that are not skipped. A skip cannot be undone.

\b
Examples:
  harbormaster upgrade skip kubernetes-1-31 --member east --member west
  harbormaster upgrade skip kubernetes-1-31 --stage production
  harbormaster upgrade skip kubernetes-1-31 --wait-after canary

\b
Exit codes:
  0  at least one part will be skipped
  1  an error: no such run or part of it, a finished run, or nothing left to skip
"""
RETRY_HELP: Final = """Create a run for the members that an earlier run skipped, failed to upgrade or did not reach.

The earlier run must have finished, failed or stopped. The new run has the same members and uses the versions and images
that the earlier run had chosen. Members that already run them are skipped. The new run is not started: inspect it, then
start it.

\b
Examples:
  harbormaster upgrade retry kubernetes-1-31
  harbormaster upgrade retry kubernetes-1-31 --name second-try --dry-run

\b
Exit codes:
  0  created (with --dry-run: printed)
  1  an error: no such run, a run in progress or not started, nothing to retry, or an existing run of the new name
"""
STATUS_HELP: Final = f"""Show the progress of an upgrade run, or of all upgrade runs.

Shows stages, groups, members and pending waits, with the command that ends each wait. -w shows every change until the
run is finished.

\b
Examples:
  harbormaster upgrade status
  harbormaster upgrade status kubernetes-1-31
  harbormaster upgrade status kubernetes-1-31 -w
  harbormaster upgrade status kubernetes-1-31 -o json
  harbormaster upgrade status kubernetes-1-31 --wait --timeout 8h --through-approvals

\b
States:  NotStarted, Running, Pending (waits), Stopping, Stopped, Failed, Completed, Skipped

\b
-o json (yaml: the same, with -w one document per change):
  run      name phase stage message type kubernetesVersion counts startTime completionTime
  waits[]  kind (Initialization, Start, Gate, TimedWait, Members) stage gate members since until needsPerson message
           command
  stages[] as in status.stages of the run
  plan     computedAt eta etaP90 command
  Without a name: items[], each with run, waits[] and plan.

\b
Exit codes:
  0  shown (with --wait: finished)
{_WAITING_CODES}"""
VIEW: Final = RunRenderer(upgrade_document, print_upgrade, upgrade_news, upgrade_wait_lines)


@click.group("upgrade", help=HELP, short_help="Start, stop and watch upgrades of member clusters.")
def command() -> None:
    """Group the commands."""


def finished(wait_options: WaitOptions) -> Verdict[UpgradeRunView]:
    """Return the verdict for waiting until the run is finished, or does not progress until a user acts."""

    def verdict(view: UpgradeRunView) -> int | None:
        if view.situation.is_over:
            return DONE
        if view.situation.phase == "Failed":
            return FAILED
        persons = [wait.kind for wait in view.situation.waits if wait.needs_person]
        if wait_options.through_approvals:
            persons = [kind for kind in persons if kind is not UpgradeWaitKind.GATE]
        return NEEDS_PERSON if persons else None

    return verdict


def _stopped(view: UpgradeRunView) -> int | None:
    """Return the exit code if the run is stopped or finished, else None."""
    if view.situation.phase == "Failed":
        return FAILED
    return DONE if view.situation.is_over or view.situation.is_halted else None


@command.command("start", help=START_HELP, short_help="Start or restart an upgrade run.")
@run_argument("upgrades")
@waiting_options
@hub_options
def start(name: str, wait_options: WaitOptions, hub: HubOptions) -> int:
    """Start a run."""
    wait_options.check()
    return run(_start(hub, name, wait_options, new_token()))


async def _start(hub: HubOptions, name: str, wait_options: WaitOptions, token: str) -> int:
    async with Client(hub.find()) as client:
        runs = UpgradeRuns(client)
        new_view = await runs.order(name, lambda view: order_start(view.read, token))
        view = await runs.get(name)
        if not new_view and view.read.status.start_time is not None:
            click.echo(f"{runs.title(name)} already running")
        else:
            await _tell_start(runs, view, wait_options)
        return await _follow(runs, view, wait_options, finished(wait_options), hub)


async def _tell_start(runs: UpgradeRuns, view: UpgradeRunView, wait_options: WaitOptions) -> None:
    """Report the result of the order to start.

    Raises:
        UserError: The run cannot start, and the command does not wait.
    """
    title = runs.title(name_of(view.run))
    view = await wait_accepted(runs, view)
    if reason := start_refusal(view):
        text = f"{title} start requested, but blocked: {reason}"
        if not wait_options.wait:
            raise UserError(text)
        complain(text)
    elif is_accepted(view):
        click.echo(f"{title} started")
    else:
        click.echo(f"{title} start requested, not yet accepted by the loop")


@command.command("stop", help=STOP_HELP, short_help="Stop an upgrade run.")
@run_argument("upgrades")
@stopping_options
@hub_options
def stop(name: str, wait_options: WaitOptions, hub: HubOptions) -> int:
    """Stop a run."""
    wait_options.check()
    return run(_stop(hub, name, wait_options))


async def _stop(hub: HubOptions, name: str, wait_options: WaitOptions) -> int:
    async with Client(hub.find()) as client:
        runs = UpgradeRuns(client)
        new_view = await runs.order(name, lambda view: order_stop(view.read))
        view = await runs.get(name)
        click.echo(f"{runs.title(name)} {'stopping' if new_view else 'already stopped'}")
        return await _follow(runs, view, wait_options, _stopped, hub)


async def _follow(
    runs: UpgradeRuns,
    view: UpgradeRunView,
    wait_options: WaitOptions,
    verdict: Verdict[UpgradeRunView],
    hub: HubOptions,
) -> int:
    """Wait for the result of an order if requested, and return the exit code."""
    if not wait_options.wait:
        return DONE
    generation = view.read.metadata.generation

    def exit_code(now: UpgradeRunView) -> int | None:
        """Return the exit code once the run has processed the order, and None until then."""
        return verdict(now) if now.read.status.observed_generation >= generation else None

    code, last_view = await follow(runs, name_of(view.run), wait_options, exit_code, print_waits())
    return report(
        code, last_view, wait_options, lambda: upgrade_wait_lines(upgrade_document(last_view, hub), utc_now())
    )


def _targets(kind: SkipTargetType, names: tuple[str, ...]) -> list[SkipTarget]:
    return [SkipTarget(type=kind, name=name) for name in names]


@command.command("skip", help=SKIP_HELP, short_help="Skip members, groups, stages or waits.")
@run_argument("upgrades")
@click.option(
    "--member",
    "members",
    multiple=True,
    metavar="NAME",
    shell_complete=tab("clusters"),
    help="Member to skip. Repeatable.",
)
@click.option("--group", "groups", multiple=True, metavar="NAME", help="Group to skip. Repeatable.")
@click.option(
    "--stage",
    "stages",
    multiple=True,
    metavar="NAME",
    shell_complete=tab("upgrade_stages"),
    help="Stage to skip. Repeatable.",
)
@click.option(
    "--wait-after",
    "waits",
    multiple=True,
    metavar="STAGE",
    shell_complete=tab("upgrade_stages"),
    help="Stage after which to skip the wait. Repeatable.",
)
@hub_options
def skip(
    name: str,
    members: tuple[str, ...],
    groups: tuple[str, ...],
    stages: tuple[str, ...],
    waits: tuple[str, ...],
    hub: HubOptions,
) -> int:
    """Skip parts of a run. Raises `click.UsageError`."""
    arguments = {
        SkipTargetType.MEMBER: members,
        SkipTargetType.GROUP: groups,
        SkipTargetType.STAGE: stages,
        SkipTargetType.AFTER_STAGE_WAIT: waits,
    }
    if any(not name for names in arguments.values() for name in names):
        raise click.UsageError("the name of a member, group or stage must not be empty")
    targets = [target for kind, names in arguments.items() for target in _targets(kind, names)]
    if not targets:
        raise click.UsageError("specify what to skip: --member, --group, --stage or --wait-after")
    return run(_skip(hub, name, targets))


async def _skip(hub: HubOptions, name: str, targets: list[SkipTarget]) -> int:
    skips: list[Effect] = []
    notes: list[str] = []

    def decide(view: UpgradeRunView) -> JsonObject:
        order_skip(view.read, targets)  # names that the run does not have are mistakes
        skips[:] = effects(view.read, targets)
        notes[:] = dict.fromkeys(note for effect in skips for note in effect.notes)
        effective = [effect.target for effect in skips if effect.does_something]
        if not effective:
            raise UserError([f"{note}: nothing to skip" for note in notes])
        return order_skip(view.read, effective)

    async with Client(hub.find()) as client:
        runs = UpgradeRuns(client)
        await runs.order(name, decide)
    words = ", ".join(effect.description for effect in skips if effect.does_something)
    print_line(f"{runs.title(name)} will skip {words}")
    for note in notes:
        complain(printable(f"note: {note}"))
    return DONE


@command.command(
    "retry", help=RETRY_HELP, short_help="Create a run for the members that an earlier run did not upgrade."
)
@run_argument("upgrades")
@click.option(
    "--name",
    "new",
    default="",
    metavar="NAME",
    help="Name of the new run.  [default: the old name with the suffix -retry]",
)
@click.option("--dry-run", is_flag=True, help="Print the new run without creating it.")
@hub_options
def retry(name: str, new: str, dry_run: bool, hub: HubOptions) -> int:
    """Retry a run."""
    return run(_retry(hub, name, new, dry_run=dry_run))


async def _retry(hub: HubOptions, name: str, new: str, *, dry_run: bool) -> int:
    async with Client(hub.find()) as client:
        runs = UpgradeRuns(client)
        view = await runs.get(name)
        with as_user_error():
            document = retry_run(view.read, new)
        if not _is_left(view):
            raise UserError(f"run {name} has nothing to retry: its members already run the target version")
        if dry_run:
            print_document(document, "yaml")
            return DONE
        title = await runs.create(document)
    start_command = command_line(["upgrade", "start", name_of(document)], hub)
    click.echo(f"{title} created, not started. To start it: {start_command}")
    return DONE


def _is_left(view: UpgradeRunView) -> bool:
    """Return whether a retry of a run has a member to upgrade."""
    entries = (entry for stage in view.read.status.stages for group in stage.groups for entry in group.members)
    return any(
        entry.state is not UpgradeState.COMPLETED and entry.reason not in ("AlreadyAtTarget", "AheadOfTarget")
        for entry in entries
    )


@command.command("status", help=STATUS_HELP, short_help="Show the progress of upgrade runs.")
@run_argument("upgrades", required=False)
@click.option("-w", "--watch", is_flag=True, help="Show every change until the run is finished, or until Ctrl-C.")
@output_option("table", "json", "yaml")
@waiting_options
@hub_options
def status(name: str, watch: bool, output: str, wait_options: WaitOptions, hub: HubOptions) -> int:
    """Show a run. Raises `click.UsageError`."""
    wait_options.check()
    if not name:
        if watch or wait_options.wait:
            raise click.UsageError("specify the run to watch")
        return run(list_upgrades(hub, output))
    with suppress(KeyboardInterrupt):
        return run(_status(name, wait_options, Shown(VIEW, output, hub, watch=watch)))
    return DONE


async def _status(name: str, wait_options: WaitOptions, status_options: Shown[UpgradeRunView]) -> int:
    async with Client(status_options.hub.find()) as client:
        return await show_status(UpgradeRuns(client), name, wait_options, finished(wait_options), status_options)


command.add_command(plan)
