"""``harbormaster upgrade``: upgrade runs are started, stopped, skipped through, tried again and looked at."""

from collections.abc import Callable
from contextlib import suppress
from typing import Final

import click

from scorer.api.documents import dict_at, name_of, status_of
from scorer.api.meta import JsonObject
from scorer.api.quoting import printable
from scorer.api.upgrade.run import SkipTarget, SkipTargetType
from scorer.upgrade.orders import order_skip, order_start, order_stop, retry_run
from scorer.upgrade.situation import WaitKind
from webhook.cli.client import Client
from webhook.cli.documents import load
from webhook.cli.failure import UserError
from webhook.cli.hub_options import HubOptions, hub_options
from webhook.cli.options import file_option, output_option, run
from webhook.cli.output import print_document
from webhook.cli.run_following import (
    DONE,
    FAILED,
    NEEDS_PERSON,
    Verdict,
    Waiting,
    follow,
    report,
    stopping_options,
    tell_waits,
    waiting_options,
)
from webhook.cli.run_showing import Shown, View
from webhook.cli.update_runs import not_empty, told_to_user
from webhook.cli.upgrade_output import (
    print_plan,
    print_upgrade,
    upgrade_document,
    upgrade_news,
    upgrade_wait_lines,
)
from webhook.cli.upgrade_questions import plan_question
from webhook.cli.upgrade_runs import FoundUpgrade, UpgradeRuns, new_token
from webhook.settings.clock import utc_now

_WAITING_CODES: Final = """  1  an error; with --wait also: the run has failed
  2  with --wait: it goes on only when somebody acts; what it waits for is on standard output
  3  with --wait: the time is up
"""
HELP: Final = """Start, stop and watch upgrades of member clusters.

A ClusterUpgradeRun takes members to a Kubernetes version or to newer node images, in the stages and groups of a
strategy. It is made with `harbormaster apply`; `harbormaster approve` and `harbormaster reject` answer its gates.

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
  2  with --wait: it goes on only when somebody acts
  3  with --wait: the time is up
"""
START_HELP: Final = f"""Start an upgrade run, or start one again that is stopped or has failed.

After a failure, the members of the stage that failed have another turn; what is upgraded stays so.

\b
Examples:
  harbormaster upgrade start kubernetes-1-31
  harbormaster upgrade start kubernetes-1-31 --wait --timeout 8h

\b
Exit codes:
  0  started, or had been; with --wait: it is over
{_WAITING_CODES}"""
STOP_HELP: Final = """Stop an upgrade run.

No further member is upgraded; upgrades that are under way are brought to an end.

\b
Examples:
  harbormaster upgrade stop kubernetes-1-31 --wait

\b
Exit codes:
  0  told to stop, or had been; with --wait: nothing is in flight any more
  1  an error: no such run, or it is over or has not been started; with --wait also: it has failed
  3  with --wait: the time is up
"""
SKIP_HELP: Final = """Leave out members, groups, stages or the wait after a stage.

What is in upgrade, or has been upgraded, is not affected. Skipping cannot be taken back.

\b
Examples:
  harbormaster upgrade skip kubernetes-1-31 --member east --member west
  harbormaster upgrade skip kubernetes-1-31 --stage production
  harbormaster upgrade skip kubernetes-1-31 --wait-after canary

\b
Exit codes:
  0  written; the run's events say what it has come to
  1  an error: no such run or part of it, or it is over
"""
RETRY_HELP: Final = """Make a run that does again what another one has skipped or failed to do.

It has the versions and images that the other one had chosen, and is not started: look at it, then start it.

\b
Examples:
  harbormaster upgrade retry kubernetes-1-31
  harbormaster upgrade retry kubernetes-1-31 --name second-try --dry-run

\b
Exit codes:
  0  made; with --dry-run: printed
  1  an error: no such run, it is going on, or there is a run of the new name
"""
STATUS_HELP: Final = f"""Show where an upgrade run stands.

Its stages, groups and members, what it waits for, and the command that answers it. -w shows every change until the run
is over.

\b
Examples:
  harbormaster upgrade status kubernetes-1-31
  harbormaster upgrade status kubernetes-1-31 -w
  harbormaster upgrade status kubernetes-1-31 -o json
  harbormaster upgrade status kubernetes-1-31 --wait --timeout 8h --through-approvals

\b
States:  NotStarted, Running, Pending (waits), Stopping, Stopped, Failed, Completed, Skipped

\b
-o json (yaml: the same; with -w one document per change):
  run      name phase stage message type kubernetesVersion counts startTime completionTime
  waits[]  kind (Initialization, Start, Gate, TimedWait, Members) stage gate members since until needsPerson message
           command
  stages[] as in status.stages of the run
  plan     computedAt eta etaP90

\b
Exit codes:
  0  shown; with --wait: it is over
{_WAITING_CODES}"""
PLAN_HELP: Final = """Show when an upgrade run reaches each member.

The plan in the run's status: the engine on a moved clock, with upgrades that take as long as expected, approvals given
at once, and no failures. It is made anew when something changes, at most once a minute.

With -f, the plan of a run that need not be on the hub: of the one in the files, or of that of the given name. A
strategy, and windows, catalogs and members in the files take the place of all that the hub has of their kind. Nothing
is written.

\b
Examples:
  harbormaster upgrade plan kubernetes-1-31
  harbormaster upgrade plan kubernetes-1-31 -o json
  harbormaster upgrade plan -f run.yaml
  harbormaster upgrade plan kubernetes-1-31 -f windows.yaml

\b
Actions:   Upgrade, Skip, Blocked (never, as things are), Fail, NotReached
Bound by:  Sequence, Window, Gate, Wait, StageCeiling, Version

\b
Exit codes:
  0  shown
  1  an error: no such run, or it has no plan: it is over, or the loop does not run; or a mistake in a file
"""


VIEW: Final = View(upgrade_document, print_upgrade, upgrade_news)


@click.group("upgrade", help=HELP, short_help="Start, stop and watch upgrades of member clusters.")
def command() -> None:
    """Hold the commands."""


def finished(waiting: Waiting) -> Verdict[FoundUpgrade]:
    """Return what ends a wait when the run is over, or when nothing happens until somebody acts."""

    def verdict(found: FoundUpgrade) -> int | None:
        if found.situation.is_over:
            return DONE
        if found.situation.phase == "Failed":
            return FAILED
        persons = [wait.kind for wait in found.situation.waits if wait.needs_person]
        if waiting.through_approvals:
            persons = [kind for kind in persons if kind is not WaitKind.GATE]
        return NEEDS_PERSON if persons else None

    return verdict


def _stopped(found: FoundUpgrade) -> int | None:
    """End when the run is stopped, or over."""
    if found.situation.phase == "Failed":
        return FAILED
    return DONE if found.situation.is_over or found.situation.is_halted else None


@command.command("start", help=START_HELP, short_help="Start an upgrade run, or start it again.")
@click.argument("name", callback=not_empty)
@waiting_options
@hub_options
def start(name: str, waiting: Waiting, hub: HubOptions) -> int:
    """Start a run."""
    waiting.check()
    token = new_token()
    said = ("running already", "started")
    return run(_order(hub, name, waiting, finished(waiting), lambda found: order_start(found.read, token), said))


@command.command("stop", help=STOP_HELP, short_help="Stop an upgrade run.")
@click.argument("name", callback=not_empty)
@stopping_options
@hub_options
def stop(name: str, waiting: Waiting, hub: HubOptions) -> int:
    """Stop a run."""
    waiting.check()
    said = ("stopped already", "told to stop")
    return run(_order(hub, name, waiting, _stopped, lambda found: order_stop(found.read), said))


async def _order(
    hub: HubOptions,
    name: str,
    waiting: Waiting,
    verdict: Verdict[FoundUpgrade],
    order: Callable[[FoundUpgrade], JsonObject | None],
    said: tuple[str, str],
) -> int:
    async with Client(hub.find()) as client:
        runs = UpgradeRuns(client)
        found = await runs.get(name)
        with told_to_user():
            patch = order(found)
        if patch is not None:
            await runs.patch(found, patch)
        click.echo(f"{runs.title(name)} {said[patch is not None]}")
        if not waiting.wait:
            return DONE
        generation = None if patch is None else (await runs.get(name)).read.metadata.generation

        def taken(now: FoundUpgrade) -> int | None:
            """Say how the wait ends, once the run has taken the order in."""
            seen = generation is None or now.read.status.observed_generation >= generation
            return verdict(now) if seen else None

        code, ended = await follow(runs, name, waiting, taken, tell_waits())
        return report(code, ended, waiting, lambda: upgrade_wait_lines(upgrade_document(ended, hub), utc_now()))


def _targets(kind: SkipTargetType, names: tuple[str, ...]) -> list[SkipTarget]:
    return [SkipTarget(type=kind, name=name) for name in names]


@command.command("skip", help=SKIP_HELP, short_help="Leave out members, groups, stages or waits.")
@click.argument("name", callback=not_empty)
@click.option("--member", "members", multiple=True, metavar="NAME", help="A member; may be repeated.")
@click.option("--group", "groups", multiple=True, metavar="NAME", help="A group; may be repeated.")
@click.option("--stage", "stages", multiple=True, metavar="NAME", help="A stage; may be repeated.")
@click.option("--wait-after", "waits", multiple=True, metavar="STAGE", help="The wait after a stage; may be repeated.")
@hub_options
def skip(
    name: str,
    members: tuple[str, ...],
    groups: tuple[str, ...],
    stages: tuple[str, ...],
    waits: tuple[str, ...],
    hub: HubOptions,
) -> int:
    """Skip parts of a run."""
    given = {
        SkipTargetType.MEMBER: members,
        SkipTargetType.GROUP: groups,
        SkipTargetType.STAGE: stages,
        SkipTargetType.AFTER_STAGE_WAIT: waits,
    }
    if any(not each for names in given.values() for each in names):
        raise click.UsageError("'' is empty: a part of the run has a name")
    targets = [target for kind, names in given.items() for target in _targets(kind, names)]
    if not targets:
        raise click.UsageError("say what to skip: --member, --group, --stage or --wait-after")
    return run(_skip(hub, name, targets))


async def _skip(hub: HubOptions, name: str, targets: list[SkipTarget]) -> int:
    async with Client(hub.find()) as client:
        runs = UpgradeRuns(client)
        found = await runs.get(name)
        with told_to_user():
            patch = order_skip(found.read, targets)
        await runs.patch(found, patch)
    words = ", ".join(f"{target.type.value} {target.name}" for target in targets)
    click.echo(printable(f"{runs.title(name)} is to leave out {words}"))
    return DONE


@command.command("retry", help=RETRY_HELP, short_help="Make a run that does again what another has not done.")
@click.argument("name", callback=not_empty)
@click.option("--name", "new", default="", metavar="NAME", help="Of the new run.  [default: the old one with -retry]")
@click.option("--dry-run", is_flag=True, help="Print the new run, and do not create it.")
@hub_options
def retry(name: str, new: str, dry_run: bool, hub: HubOptions) -> int:
    """Make a run again."""
    return run(_retry(hub, name, new, dry_run=dry_run))


async def _retry(hub: HubOptions, name: str, new: str, *, dry_run: bool) -> int:
    async with Client(hub.find()) as client:
        runs = UpgradeRuns(client)
        with told_to_user():
            document = retry_run((await runs.get(name)).read, new)
        if dry_run:
            print_document(document, "yaml")
            return DONE
        title = await runs.create(document)
    click.echo(f"{title} created, not started: harbormaster upgrade start {name_of(document)}")
    return DONE


@command.command("status", help=STATUS_HELP, short_help="Show where an upgrade run stands.")
@click.argument("name", callback=not_empty)
@click.option("-w", "--watch", is_flag=True, help="Show every change until the run is over, or until Ctrl-C.")
@output_option("table", "json", "yaml")
@waiting_options
@hub_options
def status(name: str, watch: bool, output: str, waiting: Waiting, hub: HubOptions) -> int:
    """Show a run."""
    waiting.check()
    with suppress(KeyboardInterrupt):
        return run(_status(name, waiting, Shown(VIEW, output, hub, watch=watch)))
    return DONE


async def _status(name: str, waiting: Waiting, shown: Shown[FoundUpgrade]) -> int:
    async with Client(shown.hub.find()) as client:
        runs = UpgradeRuns(client)
        verdict = finished(waiting)
        if shown.watch:
            ends = verdict if waiting.wait else (lambda found: DONE if found.situation.is_over else None)
            code, found = await follow(runs, name, waiting, ends, shown.show)
        elif waiting.wait:
            code, found = await follow(runs, name, waiting, verdict)
            shown.show(found)
        else:
            shown.show(await runs.get(name))
            return DONE
        if not waiting.wait or shown.output != "table":
            return code
        return report(code, found, waiting, lambda: upgrade_wait_lines(upgrade_document(found, shown.hub), utc_now()))


@command.command("plan", help=PLAN_HELP, short_help="Show when an upgrade run reaches each member.")
@click.argument("name", default="")
@file_option
@output_option("table", "json", "yaml")
@hub_options
def plan(name: str, files: tuple[str, ...], output: str, hub: HubOptions) -> int:
    """Show the plan of a run."""
    if not name and not files:
        raise click.UsageError("name a run, or give files with -f")
    return run(_plan_of_files(hub, name, files, output) if files else _plan(hub, name, output))


async def _plan_of_files(hub: HubOptions, name: str, files: tuple[str, ...], output: str) -> int:
    question = plan_question(name, load(files))
    async with Client(hub.find()) as client:
        planned = await client.ask("/v1/upgrade/plan", question)
    if output == "table":
        print_plan(planned, name or question["run"]["metadata"]["name"], utc_now())
    else:
        print_document(planned, output)
    return DONE


async def _plan(hub: HubOptions, name: str, output: str) -> int:
    async with Client(hub.find()) as client:
        found = await UpgradeRuns(client).get(name)
    planned = dict_at(status_of(found.run), "plan")
    if not planned:
        why = f"it is {found.situation.phase.value}" if found.situation.is_over else "the loop has not made one yet"
        raise UserError(f"run {name} has no plan: {why}")
    if output == "table":
        print_plan(planned, name, utc_now())
    else:
        print_document(planned, output)
    return DONE
