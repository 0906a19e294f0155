"""Prints a run of any kind, once or on every change."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Generic

import click

from scorer.api.meta import JsonObject
from scorer.api.values.quoting import printable
from webhook.cli.options.hub import HubOptions
from webhook.cli.staged_updates.wait import F
from webhook.cli.text.output import print_document
from webhook.runtime.clock import utc_now


@dataclass(frozen=True, slots=True)
class RunRenderer(Generic[F]):
    """How runs of one kind are shown.

    Args:
        document: Returns the whole of a run, with the commands that answer what it waits for.
        table: Prints such a document for people.
        news: Returns what has changed from one document to the next, a line each.
    """

    document: Callable[[F, HubOptions], JsonObject]
    table: Callable[[JsonObject, datetime], None]
    news: Callable[[JsonObject, JsonObject], Iterable[str]]


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

    def show(self, found: F) -> None:
        """Print the run, or what is new about it."""
        document, last = self._view.document(found, self.hub), self._last
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
