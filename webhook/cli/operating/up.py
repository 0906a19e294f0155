"""``harbormaster up``: a whole hub with simulated members in this process, filled from files."""

import asyncio
import os
import shlex
import signal
import sys
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Protocol

import click

from scorer.api.family import PlacementRef, placement_ref
from scorer.api.unstructured.documents import name_of, namespace_of, text_at
from scorer.api.unstructured.json_object import JsonObject
from scorer.api.values.quoting import format_count
from webhook.cli.errors import UserError, complain
from webhook.cli.files.documents import Loaded, check_metadata, load
from webhook.cli.files.search import Files, example_fleet
from webhook.cli.options.base import file_option, grouped
from webhook.cli.options.hub import HubOptions, default_data
from webhook.cli.options.times import Patience
from webhook.cli.process import end_in_order
from webhook.cli.program import called_by_kubectl, program
from webhook.cli.text.output import is_terminal, print_table

if TYPE_CHECKING:
    from collections.abc import Iterator

    from scorer.api.upgrade.run import ClusterUpgradeRun
    from scorer.staged_update.phase import RunSituation
    from scorer.upgrade.views.situation import UpgradeSituation
    from webhook.endpoints.http.services import PageFacts
    from webhook.processes.up import Up
    from webhook.settings.programs import UpSettings

HELP = """Run a hub with simulated members in one process.

Serves the admission webhooks, the page, the /v1 API and the Kubernetes API for the objects, runs the controllers, and
simulates the member clusters. Prints the addresses, applies the files, waits until everything has settled, prints what
was placed where, and runs until Ctrl-C. If it is killed, the next start continues where it stopped. An object that was
changed on the hub is overwritten only if its file has changed as well.

\b
Examples:
  harbormaster up --example                            with the example fleet that comes with the program
  harbormaster up -f examples/fleet --once             for scripts: exits after the table
  harbormaster up --data /tmp/hub --https-port 0       any free port

\b
The data folder is --data, else HARBORMASTER_DATA, else $XDG_STATE_HOME/harbormaster, else
~/.local/state/harbormaster. Every setting of the server is also a variable HARBORMASTER_<NAME>.

\b
While the hub runs, its data folder has a kubeconfig that only you can read. Its token allows everything.
  kubectl --kubeconfig ~/.local/state/harbormaster/kubeconfig get crp -o yaml
  kubectl --kubeconfig ~/.local/state/harbormaster/kubeconfig explain crp.spec.policy

\b
Exit codes:
  0  stopped (with --once: everything settled and every object was admitted)
  1  a file, a port or the data folder cannot be used (with --once also: an object was refused or did not settle)
"""

_POLL_SECONDS: Final = 0.25
_PLAIN_SECONDS: Final = 2.0
_MOST_WAITS: Final = 3
"""Maximum number of named conditions that a run waits for."""


@dataclass(frozen=True, slots=True)
class _Listeners:
    """Options of the listeners.

    Args:
        https_port: HTTPS port. None: unset.
        http_port: HTTP port. None: unset.
        page_actions: Whether the page offers actions.
    """

    https_port: int | None
    http_port: int | None
    page_actions: bool

    def settings(self) -> dict[str, int | bool | None]:
        """Return the settings, None for unset ones."""
        return {
            "https_port": self.https_port,
            "http_port": self.http_port,
            "page_actions": self.page_actions or None,
        }


@click.command("up", help=HELP, short_help="Run a hub with simulated members in one process.")
@click.option(
    "--data", type=click.Path(path_type=Path), metavar="DIR", help="Data folder, see above. Created if missing."
)
@file_option
@click.option("--example", is_flag=True, help="Apply the example fleet: 12 members, their applications and placements.")
@grouped(
    "listeners",
    _Listeners,
    click.option("--https-port", type=click.IntRange(0, 65535), help="HTTPS port. 0: any free port.  [default: 9443]"),
    click.option(
        "--http-port",
        type=click.IntRange(0, 65535),
        help="HTTP port for the page and probes. 0: any free port.  [default: 8081]",
    ),
    click.option(
        "--page-actions", is_flag=True, help="Offer actions on the page, to viewers with the token in the data folder."
    ),
)
@click.option("--once", is_flag=True, help="Print the table, then exit.")
@click.option(
    "--timeout",
    default="2m",
    show_default=True,
    type=Patience(),
    help="Maximum time to wait for the fleet to settle.",
)
@click.option("--no-color", is_flag=True, help="Disable colors, as NO_COLOR does.")
def command(
    data: Path | None,
    files: Files,
    example: bool,
    listeners: _Listeners,
    once: bool,
    timeout: float,
    no_color: bool,
) -> int:
    """Run a hub with simulated members until SIGTERM or SIGINT, or once. Raises `UserError`."""
    if example:
        files = replace(files, paths=(*files.paths, str(example_fleet())))
    objects = load(files) if files else []
    check_metadata(objects)
    from webhook.settings.environment import SettingsError
    from webhook.settings.programs import UpSettings

    try:
        settings = UpSettings.read(os.environ, data=data, **listeners.settings())
    except SettingsError as error:
        raise UserError(str(error)) from error
    from webhook.telemetry.allocator import limit_allocator
    from webhook.telemetry.logs import configure

    configure(settings.log_format, settings.log_level)
    limit_allocator(os.environ)
    folder = settings.data.absolute()
    return _run(_Session(settings, folder, objects, once=once, timeout_seconds=timeout, colour=not no_color))


def _run(session: "_Session") -> int:
    import uvloop

    from certs.context import CertificateError
    from webhook.kube.ports import StoreError
    from webhook.processes.data_folder import DataFolderError
    from webhook.processes.up import Up
    from webhook.server.listening import ListenError
    from webhook.settings.environment import SettingsError

    end_in_order()
    try:
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            return runner.run(session.run(Up))
    except (DataFolderError, StoreError, ListenError, CertificateError, SettingsError) as error:
        raise UserError(str(error)) from error


class _Progress(Protocol):
    """Shows the progress of waiting."""

    def say(self, text: str) -> None:
        """Show *text*."""
        ...


class _Session:
    """One run of ``up``."""

    def __init__(
        self,
        settings: "UpSettings",
        folder: Path,
        objects: list[Loaded],
        *,
        once: bool,
        timeout_seconds: float,
        colour: bool,
    ) -> None:
        self._settings = settings
        self._folder = folder
        self._loaded = objects
        self._once = once
        self._timeout = timeout_seconds
        self._colour = colour

    async def run(self, make: "type[Up]") -> int:
        """Run until a signal, or with ``--once`` until the table is printed. Return the exit code."""
        async with _signals() as stop, make(self._settings, self._folder, page=self._page()) as up:
            self._print_addresses(up)
            work = asyncio.create_task(self._fill_and_wait(up))
            stop_task = asyncio.create_task(stop.wait())
            failure_task = asyncio.create_task(up.wait())
            try:
                await asyncio.wait((work, stop_task, failure_task), return_when=asyncio.FIRST_COMPLETED)
                if failure_task.done():
                    failure_task.result()
                if not work.done():  # stopped before everything settled
                    return 1 if self._once else 0
                code = work.result()
                if self._once:
                    self._print_end()
                    return code
                if not stop_task.done():
                    click.echo("\nPress Ctrl-C to stop.")
                    await asyncio.wait((stop_task, failure_task), return_when=asyncio.FIRST_COMPLETED)
                if failure_task.done():
                    failure_task.result()
                return 0
            finally:
                for task in (work, stop_task, failure_task):
                    task.cancel()
                await asyncio.gather(work, stop_task, failure_task, return_exceptions=True)

    def _print_addresses(self, up: "Up") -> None:
        """Print all addresses, ready to be copied."""
        to_all = self._settings.page_on_http
        audience = "none: open to all users of this machine (HARBORMASTER_PAGE_ON_HTTP=false requires a token)"
        for name, value in (
            ("page", up.http_url if to_all else up.https_url),
            ("auth", audience if to_all else "token"),
            ("https", up.https_url),
            ("CA", up.ca_file),
            ("token", up.token_file),
            ("data", self._folder),
        ):
            click.echo(f"{name + ':':<7}{value}")
        click.echo(f"try:   {program()} get crp{self._data_option()}")
        click.echo(f"or:    kubectl --kubeconfig {shlex.quote(str(up.kubeconfig))} get crp\n")
        sys.stdout.flush()

    def _print_end(self) -> None:
        """Print that the addresses above no longer respond, and how to inspect the stored objects."""
        again = f"{program()} up{self._data_option()}"
        click.echo(f"\nStopped. The state is kept in {self._folder}. To reopen the page and continue runs: {again}")

    def _page(self) -> "PageFacts":
        from webhook.endpoints.http.services import PageFacts

        return PageFacts(program(), self._data_option(), simulated=True)

    def _data_option(self) -> str:
        is_default = self._folder == default_data(os.environ).absolute()
        return "" if is_default and not called_by_kubectl() else f" --data {shlex.quote(str(self._folder))}"

    async def _fill_and_wait(self, up: "Up") -> int:
        any_refused = await self._apply()
        settled = await self._settle(up)
        runs = up.runs()
        busy = {str(_placement_of(run)): name_of(run) for run, _ in runs}
        rows = [_row(item, busy.get(str(item["ref"]), "")) for item in up.placements()]
        if rows:
            headers = ["PLACEMENT", "TYPE", "WANTED", "PICKED", "AVAILABLE", "STATE", "WHY NOT"]
            print_table(headers, rows, colour=self._colour)
        self._print_runs(runs)
        self._print_upgrades(up.upgrades())
        if not settled:
            late = [*(str(item["ref"]) for item in up.unsettled), *(f"run {name}" for name in up.moving_runs)]
            late_placements = ", ".join(late[:10]) or "the fleet is still busy"
            complain(f"error: not settled after {self._timeout:g} s: {late_placements}")
        sys.stdout.flush()
        return 0 if settled and not any_refused else 1

    def _print_runs(self, runs: "Sequence[tuple[JsonObject, RunSituation]]") -> None:
        """Print the unfinished runs, the condition that each waits for, and the command that answers."""
        from webhook.cli.staged_updates.output import answer_to
        from webhook.cli.staged_updates.run_client import RunView

        if not runs:
            return
        rows, answers = [], []
        for run, situation in runs:
            waits = "; ".join(wait.message for wait in situation.waits[:_MOST_WAITS]) or situation.message
            rows.append([name_of(run), str(_placement_of(run)), str(situation.phase).lower(), situation.stage, waits])
            commands = (answer_to(wait, RunView(run, [], situation), self._hub()) for wait in situation.waits)
            answers += [command for command in commands if command]
        click.echo()
        print_table(["RUN", "PLACEMENT", "STATE", "STAGE", "WAITS FOR"], rows, colour=self._colour)
        for command in answers:
            click.echo(f"  {command}")

    def _print_upgrades(self, runs: "Sequence[tuple[ClusterUpgradeRun, UpgradeSituation]]") -> None:
        """Print the unfinished upgrade runs, the condition that each waits for, and the command that answers."""
        from webhook.cli.upgrades.output import answer_to

        if not runs:
            return
        rows, answers = [], []
        for run, situation in runs:
            name, counts = run.metadata.name, run.status.counts
            waits = "; ".join(wait.message for wait in situation.waits[:_MOST_WAITS]) or situation.message
            progress = f"{counts.completed} of {counts.total}"
            rows.append([name, situation.phase.value, situation.stage, progress, waits])
            commands = (answer_to(wait, name, self._hub()) for wait in situation.waits)
            answers += [command for command in commands if command]
        click.echo()
        print_table(["UPGRADE", "STATE", "STAGE", "DONE", "WAITS FOR"], rows, colour=self._colour)
        for command in answers:
            click.echo(f"  {command}")

    def _hub(self) -> HubOptions:
        """Return the options that name this hub in printed commands."""
        return HubOptions(data=None if self._folder == default_data(os.environ).absolute() else self._folder)

    async def _apply(self) -> int:
        """Apply the files through the public API. Return the number of refused objects."""
        from webhook.cli.hub.client import Client
        from webhook.cli.objects.apply import print_outcome
        from webhook.cli.objects.patcher import apply_all
        from webhook.cli.options.field_validation import FieldCheck

        refusals = 0
        counts: dict[str, int] = {}
        if not self._loaded:
            return 0
        async with Client(HubOptions(data=self._folder).find({})) as client:
            with _progress(colour=self._colour) as progress:
                async for outcome in apply_all(client, self._loaded, keep_edits=True):
                    count = sum(counts.values()) + refusals + 1
                    progress.say(f"applying: {count} of {format_count(len(self._loaded), 'object')}")
                    if outcome.refusal is None:
                        counts[outcome.action] = counts.get(outcome.action, 0) + 1
                    else:
                        refusals += 1
                        print_outcome(outcome, FieldCheck())
        notes = {"kept": "kept (edited on the hub)"}
        words = [f"{count} {notes.get(action, action)}" for action, count in sorted(counts.items())]
        if refusals:
            words.append(f"{refusals} refused")
        click.echo(f"{format_count(len(self._loaded), 'object')}: {', '.join(words)}")
        sys.stdout.flush()
        return refusals

    async def _settle(self, up: "Up") -> bool:
        """Wait until everything has settled, and show the progress. Return False after a timeout."""
        rest = asyncio.create_task(up.settled(self._timeout))
        try:
            with _progress(colour=self._colour) as progress:
                while not rest.done():
                    unsettled, every = len(up.unsettled), len(up.placements())
                    progress.say(f"settling: {every - unsettled} of {format_count(every, 'placement')}")
                    await asyncio.wait((rest,), timeout=_POLL_SECONDS)
            return rest.result()
        finally:
            rest.cancel()


def _placement_of(run: JsonObject) -> PlacementRef:
    """Return the placement of a staged update run."""
    return placement_ref(text_at(run, "spec", "placementName"), namespace_of(run))


def _row(item: Mapping[str, Any], run: str) -> list[str]:
    """Return the row of a placement. *run* is the staged update that is rolling it out, or empty."""
    total = "all" if item["wanted"] is None else str(item["wanted"])
    return [
        str(item["ref"]),
        str(item["type"]),
        total,
        str(item["picked"]),
        str(item["available"]) + (f" (+{item['availableOld']} old)" if item["availableOld"] else ""),
        str(item["state"]),
        f"run {run} is in progress" if run and item["state"] == "external" else str(item["why"]),
    ]


@contextmanager
def _progress(*, colour: bool) -> "Iterator[_Progress]":
    if not is_terminal():
        yield _PlainProgress()
        return
    from rich.console import Console

    console = Console(no_color=None if colour else True, highlight=False)
    with console.status("") as status:
        yield _StatusLine(status)


class _StatusLine:
    """A line with a spinner, replaced by each new text."""

    def __init__(self, status: Any) -> None:
        self._status = status

    def say(self, text: str) -> None:
        """Show *text*."""
        self._status.update(text)


class _PlainProgress:
    """Prints changes as lines, throttled."""

    def __init__(self) -> None:
        self._text = ""
        self._last = time.monotonic()

    def say(self, text: str) -> None:
        """Print *text* if it is new and the throttle allows it."""
        if text != self._text and time.monotonic() - self._last >= _PLAIN_SECONDS:
            click.echo(text)
            sys.stdout.flush()
            self._text, self._last = text, time.monotonic()


@asynccontextmanager
async def _signals() -> AsyncIterator[asyncio.Event]:
    """Yield an event that SIGINT and SIGTERM set."""
    loop = asyncio.get_running_loop()
    stop = asyncio.Event()
    numbers = (signal.SIGINT, signal.SIGTERM)
    for number in numbers:
        loop.add_signal_handler(number, stop.set)
    try:
        yield stop
    finally:
        for number in numbers:
            loop.remove_signal_handler(number)
