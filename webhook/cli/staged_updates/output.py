"""A staged update run in a terminal: state, clusters, pending conditions and the commands that answer them."""

import shlex
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from typing import Final

from scorer.api.unstructured.documents import dicts_at
from scorer.api.unstructured.json_object import JsonObject, format_time, parse_time
from scorer.api.values.duration import format_duration
from scorer.api.values.quoting import format_count
from scorer.staged_update.orders import approval_command
from scorer.staged_update.phase import RunWait
from scorer.staged_update.views.overview import overview
from webhook.cli.options.hub import HubOptions
from webhook.cli.program import program
from webhook.cli.staged_updates.run_client import RunView
from webhook.cli.text.output import print_line, print_table

HEADERS: Final = ("STAGE", "CLUSTER", "STATE", "SINCE", "FINISHED", "MESSAGE")
MOST_CLUSTERS: Final = 5
"""Maximum number of awaited clusters named below the table, which lists all."""


def hub_arguments(hub: HubOptions) -> list[str]:
    """Return the options that select the hub, as the user gave them. Printed commands repeat them."""
    arguments = {
        "--kubeconfig": hub.kubeconfig,
        "--context": hub.context,
        "--data": hub.data,
        "--server": hub.server,
        "--token-file": hub.token_file,
        "--ca-file": hub.ca_file,
    }
    return [word for option, value in arguments.items() if value is not None for word in (option, str(value))]


def answer_to(wait: RunWait, view: RunView, hub: HubOptions) -> str:
    """Return the command that answers a wait, or an empty string if no command does."""
    words = approval_command(view.run, view.situation, wait)
    return command_line(words, hub) if words else ""


def command_line(words: Sequence[str], hub: HubOptions) -> str:
    """Return a command of this program for the same hub, to be copied."""
    return f"{program()} {shlex.join([*words, *hub_arguments(hub)])}"


def run_document(view: RunView, hub: HubOptions) -> JsonObject:
    """Return a run in full, with the commands that answer its waits."""
    document = overview(view.run, view.situation)
    for item, wait in zip(document["waits"], view.situation.waits, strict=True):
        item["command"] = answer_to(wait, view, hub) or None
    return document


def print_run(document: JsonObject, now: datetime) -> None:
    """Print a run as a table."""
    about = document["run"]
    index = about["resourceSnapshotIndex"]
    content = f", resource snapshot {index}" if index else ""
    heading = (
        f"{about['name']}: {about['phase']}  placement {about['placement']}, strategy {about['strategy']}{content}"
    )
    print_line(heading)
    for line in _remarks(about):
        print_line(line)
    rows = list(_rows(document))
    if rows:
        print_table(HEADERS, rows)
    for line in wait_lines(document, now):
        print_line(line)


def _remarks(about: JsonObject) -> Iterator[str]:
    if about["rollbackOf"]:
        yield f"rolls back run {about['rollbackOf']}"
    if about["rejected"]:
        yield f"rejected: {about['rejected']}"
    if about["message"] and about["phase"] in ("Failed", "Aborted", "Stuck", "Initializing"):
        yield about["message"]


def _rows(document: JsonObject) -> Iterator[tuple[str, ...]]:
    """Yield a row per stage, and one per cluster below it."""
    for stage in document["stages"]:
        clusters = dicts_at(stage, "clusters")
        completed = sum(cluster["state"] == "done" for cluster in clusters)
        progress = f"{completed} of {len(clusters)}"
        yield (
            stage["stage"],
            progress,
            stage["state"],
            stage["startTime"] or "-",
            stage["endTime"] or "-",
            stage["message"],
        )
        for cluster in clusters:
            yield (
                "",
                cluster["cluster"],
                cluster["state"],
                cluster["since"] or "-",
                cluster["finished"] or "-",
                cluster["message"],
            )


def wait_lines(document: JsonObject, now: datetime) -> Iterator[str]:
    """Yield the waits of a run, each with the command that answers it."""
    clusters = [wait for wait in document["waits"] if wait["cluster"]]
    for wait in document["waits"]:
        if wait in clusters[MOST_CLUSTERS:]:
            continue
        yield f"waits for {wait['message']}{wait_times(wait, now)}"
        if wait["command"]:
            yield f"  {wait['command']}"
    if len(clusters) > MOST_CLUSTERS:
        yield f"waits for {format_count(len(clusters) - MOST_CLUSTERS, 'more cluster')}"


def wait_times(wait: JsonObject, now: datetime) -> str:
    """Return the end or the start of a wait, or an empty string if neither is known."""
    if wait["until"]:
        remaining_time = parse_time(wait["until"]) - now
        return f", until {wait['until']} (in {format_duration(max(remaining_time, timedelta()))})"
    if wait["since"]:
        return f", since {wait['since']} ({format_duration(now - parse_time(wait['since']))})"
    return ""


States = Iterator[tuple[str, str, str]]
"""Parts of a run, each with its state and a message."""


def news(before: JsonObject, after: JsonObject) -> Iterator[str]:
    """Yield the changes of a staged update, one line each."""
    return changes(before, after, _states)


def changes(before: JsonObject, after: JsonObject, states: Callable[[JsonObject], States]) -> Iterator[str]:
    """Yield the changes of a run, one line each, with the time in front.

    Args:
        before: The document of the run as it was shown last.
        after: Current document of the run.
        states: Yields the parts of a document.
    """
    at = format_time(datetime.now(UTC))
    if before["run"]["phase"] != after["run"]["phase"]:
        yield f"{at}  {after['run']['name']}: {after['run']['phase']}"
    previous_states = {key: state for key, state, _ in states(before)}
    for key, state, message in states(after):
        if previous_states.get(key) != state:
            yield f"{at}  {key}: {state}{f'  {message}' if message else ''}"
    waits = [wait["message"] for wait in before["waits"] if wait["needsPerson"]]
    for wait in after["waits"]:
        if wait["needsPerson"] and wait["message"] not in waits:
            yield f"{at}  waits for {wait['message']}{': ' + wait['command'] if wait['command'] else ''}"


def _states(document: JsonObject) -> States:
    for stage in document["stages"]:
        yield f"stage {stage['stage']}", stage["state"], stage["message"]
        for cluster in dicts_at(stage, "clusters"):
            yield f"stage {stage['stage']}, {cluster['cluster']}", cluster["state"], cluster["message"]
