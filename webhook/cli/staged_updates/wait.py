"""Waits for a run, with an exit code for pipelines (``--wait``)."""

import asyncio
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum
from typing import Any, Final, Protocol, TypeVar

import click

from scorer.api.unstructured.json_object import JsonObject
from scorer.api.values.duration import format_duration
from scorer.staged_update.phase import RunPhase, RunWaitKind
from webhook.cli.errors import UserError, complain
from webhook.cli.hub.client import HubRefusedError
from webhook.cli.options.base import grouped
from webhook.cli.options.hub import HubOptions
from webhook.cli.options.times import Duration
from webhook.cli.staged_updates.output import run_document, wait_lines
from webhook.cli.staged_updates.run_client import Runs, RunView
from webhook.cli.text.output import print_line
from webhook.runtime.clock import utc_now

_Command = TypeVar("_Command", bound=Callable[..., Any])

DONE: Final = 0
FAILED: Final = 1
NEEDS_PERSON: Final = 2
TIMED_OUT: Final = 3

POLL_SECONDS: Final = 1.0
_PASSING: Final = frozenset({429, 500, 502, 503, 504})
"""Status codes of transient failures of an API server."""

_WAIT: Final = (
    click.option("--wait", is_flag=True, help="Wait for the run, and report its result in the exit code."),
    click.option("--timeout", type=Duration(), help="With --wait: maximum time to wait, such as 90s or 1h30m."),
)
_THROUGH_APPROVALS: Final = click.option(
    "--through-approvals",
    is_flag=True,
    help="With --wait: wait for missing approvals instead of exiting with 2.",
)


class _WaitMessage(Protocol):
    """A condition that a run waits for."""

    @property
    def message(self) -> str:
        """Human-readable message."""
        ...


class RunProgress(Protocol):
    """Progress of a run of any kind."""

    @property
    def phase(self) -> StrEnum:
        """Phase of the run."""
        ...

    @property
    def stage(self) -> str:
        """The current stage, or an empty string."""
        ...

    @property
    def message(self) -> str:
        """Human-readable message, or an empty string."""
        ...

    @property
    def waits(self) -> Sequence[_WaitMessage]:
        """The pending conditions."""
        ...

    @property
    def is_over(self) -> bool:
        """Whether the run is finished."""
        ...


class FollowedRun(Protocol):
    """A run of any kind, and its progress."""

    @property
    def run(self) -> JsonObject:
        """The run as stored."""
        ...

    @property
    def situation(self) -> RunProgress:
        """Progress of the run."""
        ...


F = TypeVar("F", bound=FollowedRun)
F_co = TypeVar("F_co", bound=FollowedRun, covariant=True)


class RunReader(Protocol[F_co]):
    """Source of runs of one kind."""

    async def find(self, name: str) -> F_co | None:
        """Return a run, or None if it does not exist."""
        ...

    async def get(self, name: str) -> F_co:
        """Return a run. Raises `UserError` if it does not exist."""
        ...

    def title(self, name: str) -> str:
        """Return the name of a run for messages."""
        ...


Verdict = Callable[[F], int | None]
"""Returns the exit code at which the wait ends. None: unknown, keep waiting."""


@dataclass(frozen=True, slots=True)
class WaitOptions:
    """Whether and how long to wait.

    Args:
        wait: Wait for the run.
        timeout: The timeout. None: unlimited.
        through_approvals: Keep waiting while an approval is pending. Waiting for a stop always does.
    """

    wait: bool
    timeout: timedelta | None
    through_approvals: bool = False

    def check(self) -> None:
        """Raise `click.UsageError` for options of waiting without ``--wait``."""
        if not self.wait and (self.timeout is not None or self.through_approvals):
            option = "--timeout" if self.timeout is not None else "--through-approvals"
            raise click.UsageError(f"{option}: requires --wait")

    def finished(self, run: RunView) -> int | None:
        """Return the exit code if the run is finished, or does not progress until a user acts, else None."""
        if run.situation.is_over:
            return DONE if run.situation.phase is RunPhase.SUCCEEDED else FAILED
        persons = [wait.kind for wait in run.situation.waits if wait.needs_person]
        if self.through_approvals:
            persons = [kind for kind in persons if kind is not RunWaitKind.APPROVAL]
        return NEEDS_PERSON if persons else None


def stopped(run: RunView) -> int | None:
    """Return the exit code if the run is stopped or finished, else None."""
    if run.situation.is_over:
        return DONE if run.situation.phase is RunPhase.SUCCEEDED else FAILED
    return DONE if run.situation.phase is RunPhase.STOPPED else None


def initialised(run: RunView) -> int | None:
    """Return the exit code if the run has been initialized, or cannot be, else None."""
    if run.situation.phase is RunPhase.INITIALIZING:
        return None
    return FAILED if run.situation.phase is RunPhase.FAILED else DONE


def stopping_options(command: _Command) -> _Command:
    """Add to a command those options of `WaitOptions` that apply to a wait for work in flight."""
    return grouped("wait_options", WaitOptions, *_WAIT)(command)


def waiting_options(command: _Command) -> _Command:
    """Add the options of `WaitOptions` to a command, as ``wait_options``."""
    return grouped("wait_options", WaitOptions, *_WAIT, _THROUGH_APPROVALS)(command)


async def follow(
    runs: RunReader[F],
    name: str,
    wait_options: WaitOptions,
    verdict: Verdict[F],
    on_view: Callable[[F], None] | None = None,
) -> tuple[int, F]:
    """Wait for a run, and return the exit code and the run as last read.

    A temporarily unavailable hub is polled again: a rollout takes hours, and a pipeline must survive short outages.

    Args:
        runs: Source of the run.
        name: Name of the run.
        wait_options: The timeout.
        verdict: Decides when the wait ends.
        on_view: Called with the run after each read.

    Raises:
        UserError: The run does not exist, or was deleted.
    """
    clock = asyncio.get_running_loop().time
    end = None if wait_options.timeout is None else clock() + wait_options.timeout.total_seconds()
    run = await runs.get(name)
    while True:
        if on_view is not None:
            on_view(run)
        code = verdict(run)
        if code is not None:
            return code, run
        if end is not None and clock() >= end:
            return TIMED_OUT, run
        await asyncio.sleep(POLL_SECONDS if end is None else max(0.0, min(POLL_SECONDS, end - clock())))
        run = await _again(runs, name) or run


async def _again(runs: RunReader[F], name: str) -> F | None:
    """Read a run again, and return None if the hub is temporarily unavailable.

    Raises:
        UserError: The run was deleted.
    """
    try:
        run = await runs.find(name)
    except HubRefusedError as error:
        if error.code not in _PASSING:
            raise
        complain(f"waiting: {error.message}")
        return None
    except UserError as error:
        complain(f"waiting: {error.message}")
        return None
    if run is None:
        raise UserError(f"run {runs.title(name)} was deleted")
    return run


def print_waits() -> Callable[[FollowedRun], None]:
    """Return a function that reports the pending conditions of a run on standard error when they change."""
    last_line = ""

    def tell(run: FollowedRun) -> None:
        nonlocal last_line
        waits = "; ".join(wait.message for wait in run.situation.waits) or run.situation.message
        line = f"{run.situation.phase}: {waits}" if waits else str(run.situation.phase)
        if line != last_line and not run.situation.is_over:
            complain(f"waiting: {line}")
        last_line = line

    return tell


def report(code: int, run: FollowedRun, wait_options: WaitOptions, lines: Callable[[], Iterable[str]]) -> int:
    """Report how a wait ended, and return the exit code.

    Args:
        code: The exit code.
        run: The run as last read.
        wait_options: Options of the wait.
        lines: Returns the pending conditions of the run, if action is required.
    """
    name, situation = run.run["metadata"]["name"], run.situation
    if code == FAILED:
        location = f" at stage {situation.stage}" if situation.stage else ""
        complain(f"error: run {name} finished as {situation.phase}{location}: {situation.message}")
    elif code == TIMED_OUT:
        after = format_duration(wait_options.timeout or timedelta())
        complain(f"error: run {name} is still {situation.phase} after {after}: {situation.message}")
    else:
        click.echo(f"run {name}: {situation.phase}")
    if code == NEEDS_PERSON:
        for line in lines():
            print_line(line)
    return code


async def wait_for(runs: Runs, name: str, wait_options: WaitOptions, verdict: Verdict[RunView], hub: HubOptions) -> int:
    """Wait for a run if requested, and return the exit code."""
    if not wait_options.wait:
        return DONE
    code, run = await follow(runs, name, wait_options, verdict, print_waits())
    return report(code, run, wait_options, lambda: wait_lines(run_document(run, hub), utc_now()))
