"""Prints a run of any kind, once or on every change."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Generic

import click

from scorer.api.unstructured.json_object import JsonObject
from webhook.cli.options.hub import HubOptions
from webhook.cli.staged_updates.wait import DONE, F, RunReader, Verdict, WaitOptions, follow, report
from webhook.cli.text.output import print_document, print_line
from webhook.runtime.clock import utc_now


@dataclass(frozen=True, slots=True)
class RunRenderer(Generic[F]):
    """Output functions for runs of one kind.

    Args:
        document: Returns a run in full, with the commands that answer its waits.
        table: Prints such a document as a table.
        news: Returns the changes from one document to the next, one line each.
        waits: Returns the waits of the run of a document, one line each.
    """

    document: Callable[[F, HubOptions], JsonObject]
    table: Callable[[JsonObject, datetime], None]
    news: Callable[[JsonObject, JsonObject], Iterable[str]]
    waits: Callable[[JsonObject, datetime], Iterable[str]]


class Shown(Generic[F]):
    """Shows a run, and with ``watch`` its changes.

    Args:
        view: Output functions.
        output: ``table``, ``json`` or ``yaml``.
        hub: The hub as named by the user.
        watch: Whether it is shown more than once.
    """

    def __init__(self, view: RunRenderer[F], output: str, hub: HubOptions, *, watch: bool) -> None:
        self.output = output
        self.hub = hub
        self.watch = watch
        self._view = view
        self._last: JsonObject | None = None

    def show(self, run: F) -> None:
        """Print the run, or its changes."""
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
                print_line(line)

    def wait_lines(self, run: F) -> Iterable[str]:
        """Return the waits of a run, one line each."""
        return self._view.waits(self._view.document(run, self.hub), utc_now())


async def show_status(
    runs: RunReader[F], name: str, wait_options: WaitOptions, verdict: Verdict[F], status_options: Shown[F]
) -> int:
    """Show a run, with ``--watch`` its changes, and with ``--wait`` its end. Return the exit code.

    Args:
        runs: Source of the run.
        name: Name of the run.
        wait_options: Whether and how long to wait.
        verdict: Decides when a wait ends.
        status_options: Shows the run.
    """
    if status_options.watch:
        ends = verdict if wait_options.wait else (lambda run: DONE if run.situation.is_over else None)
        code, run = await follow(runs, name, wait_options, ends, status_options.show)
    elif wait_options.wait:
        code, run = await follow(runs, name, wait_options, verdict)
        status_options.show(run)
    else:
        status_options.show(await runs.get(name))
        return DONE
    if not wait_options.wait or status_options.output != "table":
        return code
    return report(code, run, wait_options, lambda: status_options.wait_lines(run))
