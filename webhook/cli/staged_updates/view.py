"""Prints a run of any kind, once or on every change."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Generic

import click

from scorer.api.meta import JsonObject
from scorer.api.values.quoting import printable
from webhook.cli.options.hub import HubOptions
from webhook.cli.staged_updates.wait import DONE, F, RunReader, Verdict, WaitOptions, follow, report
from webhook.cli.text.output import print_document
from webhook.runtime.clock import utc_now


@dataclass(frozen=True, slots=True)
class RunRenderer(Generic[F]):
    """How runs of one kind are shown.

    Args:
        document: Returns the whole of a run, with the commands that answer what it waits for.
        table: Prints such a document for people.
        news: Returns the changes from one document to the next, a line each.
        waits: Returns what the run of a document waits for, a line each.
    """

    document: Callable[[F, HubOptions], JsonObject]
    table: Callable[[JsonObject, datetime], None]
    news: Callable[[JsonObject, JsonObject], Iterable[str]]
    waits: Callable[[JsonObject, datetime], Iterable[str]]


class Shown(Generic[F]):
    """Shows a run, and with ``watch`` what changes about it.

    Args:
        view: How.
        output: ``table``, ``json`` or ``yaml``.
        hub: How the user has named the hub.
        watch: Whether it is shown more than once.
    """

    def __init__(self, view: RunRenderer[F], output: str, hub: HubOptions, *, watch: bool) -> None:
        self.output = output
        self.hub = hub
        self.watch = watch
        self._view = view
        self._last: JsonObject | None = None

    def show(self, run: F) -> None:
        """Print the run, or what is new about it."""
        document, last = self._view.document(run, self.hub), self._last
        self._last = document
        if document == last:
            return
        if self.output != "table":
            if self.output == "yaml" and self.watch:
                click.echo("---")
            print_document(document, self.output)
        elif last is None:
            self._view.table(document, utc_now())
        else:
            for line in self._view.news(last, document):
                click.echo(printable(line))

    def wait_lines(self, run: F) -> Iterable[str]:
        """Return what a run waits for, a line each."""
        return self._view.waits(self._view.document(run, self.hub), utc_now())


async def show_status(
    runs: RunReader[F], name: str, waiting: WaitOptions, finished: Verdict[F], shown: Shown[F]
) -> int:
    """Show a run, its changes with ``--watch`` and its end with ``--wait``, and return the exit code.

    Args:
        runs: Where it is.
        name: Its name.
        waiting: Whether and how long to wait.
        finished: When a wait ends.
        shown: Shows the run.
    """
    if shown.watch:
        ends = finished if waiting.wait else (lambda run: DONE if run.situation.is_over else None)
        code, run = await follow(runs, name, waiting, ends, shown.show)
    elif waiting.wait:
        code, run = await follow(runs, name, waiting, finished)
        shown.show(run)
    else:
        shown.show(await runs.get(name))
        return DONE
    if not waiting.wait or shown.output != "table":
        return code
    return report(code, run, waiting, lambda: shown.wait_lines(run))
