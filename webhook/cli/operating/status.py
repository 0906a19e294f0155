"""``harbormaster status``: what needs attention on a hub, on one screen."""

import shlex
import textwrap
from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta
from shutil import get_terminal_size
from typing import Final

import click

from scorer.api.crd.table import format_age
from scorer.api.meta import JsonObject, parse_time
from scorer.api.values.duration import format_duration
from scorer.api.values.quoting import printable
from webhook.cli.errors import complain
from webhook.cli.options.base import output_option, run, tab
from webhook.cli.options.hub import HubOptions, hub_options
from webhook.cli.staged_updates.output import command_line
from webhook.cli.text.output import is_terminal, print_document
from webhook.runtime.clock import utc_now

HELP: Final = """Show what needs attention on a hub, with the commands to run.

Shows runs that wait for you, failing placements, runs and clusters, what is stuck and since when, removals that wait
for confirmation, and the next maintenance windows. Kinds that you may not read are named on standard error. With -n,
only objects of that namespace are read, so rights in the namespace are enough.

\b
Examples:
  harbormaster status
  harbormaster status --context production
  harbormaster status -n team-a                # only placements, runs and removals of a namespace
  harbormaster status -o json

\b
-o json (yaml: the same), as returned by /v1/status:
  verdict     ok or attention
  clusters, placements, runs (unfinished)
              total states
  waiting, failing, stuck
              total items[]: ref state message since command
  removals    total items[]: ref effect digest objects clusterCount since command
  windows     total items[]: name target open until members unreadable
  unread[]

\b
Exit codes:
  0  nothing needs attention
  1  an error, such as an unreachable hub
  2  something waits for you, fails, is stuck or waits for confirmation
"""
MOST_SHOWN: Final = 5
"""Maximum number of lines per section. -o json has more."""
_ATTENTION: Final = 2
_TITLES: Final = {"waiting": "WAITING FOR YOU", "failing": "FAILING", "stuck": "STUCK"}
_INDENT: Final = "  "
_NARROWEST: Final = 40
"""Minimum width that text is wrapped to."""


@click.command("status", help=HELP, short_help="Show what needs attention, with the commands to run.")
@output_option("text", "json", "yaml")
@click.option(
    "-n",
    "--namespace",
    default="",
    metavar="NS",
    shell_complete=tab("namespaces"),
    help="Show only placements, runs and removals of this namespace.  [default: all]",
)
@hub_options
def command(output: str, namespace: str, hub: HubOptions) -> int:
    """Show the status."""
    document = _with_commands(run(_ask(hub, namespace)), hub)
    if output == "text":
        _print(document, namespace)
    else:
        print_document(document, output)
    return 0 if document["verdict"] == "ok" else _ATTENTION


async def _ask(hub: HubOptions, namespace: str) -> JsonObject:
    from webhook.cli.hub.answers import hub_answers

    async with hub_answers(hub.find()) as answers:
        return await answers.status(namespace)


def _with_commands(document: JsonObject, hub: HubOptions) -> JsonObject:
    """Return the answer with commands of this program, as it was called, for the same hub."""
    sections = {name: document[name] for name in (*_TITLES, "removals")}
    for section in sections.values():
        for item in section["items"]:
            item["command"] = command_line(shlex.split(item["command"])[1:], hub) if item["command"] else ""
    return document


def _print(document: JsonObject, namespace: str) -> None:
    now, width = utc_now(), max(get_terminal_size().columns, _NARROWEST) if is_terminal() else 0
    for line in _lines(document, namespace, now):
        for part in _wrapped(printable(line), width):
            click.echo(part)
    if document["unread"]:
        complain(
            f"note: not including {', '.join(document['unread'])}, which you may not read or the hub does not have"
        )


def _wrapped(line: str, width: int) -> Sequence[str]:
    """Return the parts of a line that are at most *width* wide. 0: unlimited.

    Words are never divided, so that commands can be copied.
    """
    if not width or len(line) <= width:
        return [line]
    indent = line[: len(line) - len(line.lstrip())]
    return textwrap.wrap(
        line, width, subsequent_indent=indent + _INDENT, break_long_words=False, break_on_hyphens=False
    )


def _lines(document: JsonObject, namespace: str, now: datetime) -> Iterator[str]:
    if not namespace:
        yield _summary(document["clusters"], "member cluster")
    yield _summary(document["placements"], "placement")
    if document["runs"]["total"]:
        yield _summary(document["runs"], "unfinished run")
    for name, title in _TITLES.items():
        yield from _section(title, document[name], [_entry(item, now) for item in document[name]["items"]])
    removals = document["removals"]
    yield from _section("REMOVALS TO CONFIRM", removals, [_removal(item, now) for item in removals["items"]])
    windows = document["windows"]
    yield from _section("NEXT MAINTENANCE WINDOWS", windows, [(_window(item, now),) for item in windows["items"]])
    if document["verdict"] == "ok":
        yield ""
        yield "Nothing needs attention."


def _summary(tally: JsonObject, noun: str) -> str:
    total = tally["total"]
    states = ", ".join(f"{count} {state}" for state, count in tally["states"].items())
    return f"{total} {noun}{'' if total == 1 else 's'}{f': {states}' if states else ''}"


def _section(title: str, section: JsonObject, entries: Sequence[Sequence[str]]) -> Iterator[str]:
    """Yield the title and the first entries of a section, or nothing for an empty one."""
    if not section["total"]:
        return
    yield ""
    yield title
    for heading, *details in entries[:MOST_SHOWN]:
        yield f"{_INDENT}{heading}"
        yield from (f"{_INDENT * 2}{detail}" for detail in details if detail)
    if section["total"] > MOST_SHOWN:
        yield f"{_INDENT}and {section['total'] - MOST_SHOWN} more, see -o json"


def _entry(item: JsonObject, now: datetime) -> tuple[str, str]:
    message = f": {item['message']}" if item["message"] else ""
    return f"{item['ref']}  {item['state']}{_since(item, now)}{message}", item["command"]


def _removal(item: JsonObject, now: datetime) -> tuple[str, str]:
    count = item["clusterCount"]
    clusters = f" on {count} cluster{'' if count == 1 else 's'}" if count else ""
    digest = f" ({item['digest']})" if item["digest"] else ""
    return f"{item['ref']}  {item['effect']}{clusters}{_since(item, now)}{digest}", item["command"]


def _since(item: JsonObject, now: datetime) -> str:
    if not item["since"]:
        return ""
    seconds = max((now - parse_time(item["since"])).total_seconds(), 0)
    return f" since {item['since']} ({format_age(seconds)})"


def _window(item: JsonObject, now: datetime) -> str:
    members = f"{item['members']} member{'' if item['members'] == 1 else 's'}"
    if item.get("unreadable"):
        return f"{item['name']}  cannot be read, counts as closed, {members}"
    state, verb = ("open", "closes") if item["open"] else ("closed", "opens")
    until = item["until"]
    if not until:
        return f"{item['name']}  {state}, {members}"
    remaining_time = format_duration(max(parse_time(until) - now, timedelta()))
    return f"{item['name']}  {state}, {verb} {until} (in {remaining_time}), {members}"
