"""``harbormaster history``: events of the last days, from the record on the hub."""

import os
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Final

import click

from scorer.api.kinds import CONFIG_MAP, Kind
from scorer.api.unstructured.documents import dicts_at
from scorer.api.unstructured.json_object import JsonObject, dump_json, format_time
from webhook.access.front_proxy import HISTORIES
from webhook.cli.errors import UserError, complain
from webhook.cli.hub.client import Client, HubRefusedError, ResourcePath
from webhook.cli.hub.resource_arguments import ResourceArgument, parse_resources
from webhook.cli.options.base import grouped, output_option, run, tab
from webhook.cli.options.hub import HubOptions, hub_options
from webhook.cli.options.times import Duration
from webhook.cli.text.output import print_document, print_table, with_urls
from webhook.history.entry import EntryType, RecordEntry, read_entry
from webhook.history.query import MOST_ITEMS, USUAL_ITEMS, HistoryPage, Query, find, words_of
from webhook.history.record import LABEL, LABELS
from webhook.runtime.clock import utc_now
from webhook.settings.installation import NamespaceSettings

HELP: Final = """Show past decisions, rollouts, user actions, refusals and warnings.

The loop and the servers record their actions for some days in ConfigMaps in the namespace of the installation
(HARBORMASTER_HISTORY_DAYS, HARBORMASTER_HISTORY_MEGABYTES). Any user who may read these ConfigMaps sees everything. For
other users, the server shows the entries of one namespace: that of -n, or of the kubeconfig's context. Entries of the
last seconds may be missing.

Without KIND, shows the entries of all objects. The latest entry is last in the table, and first in -o json.

\b
Types of entries:
  Decision  clusters that a placement gained and lost
  Rollout   the progress of a placement or a run
  Action    a user created, changed or deleted a placement, started, stopped, resumed or undid a run,
            approved or rejected, confirmed a removal, or registered, cordoned or deleted a member
  Refusal   a write that admission refused
  Warning   a warning of admission
  Gate      a disruption that was not allowed
  Event     any other Event of the loop

\b
Examples:
  harbormaster history
  harbormaster history crp/payments --since 24h
  harbormaster history --type refusal --by jane
  harbormaster history --type action -q canary    who approved the stage canary, among others
  harbormaster history --reason C-02              refusals by this rule
  harbormaster history nodepool/general --type gate -o json

\b
-o json (yaml: the same):
  items[]     id time type object{kind name namespace} reason message by count lastTime
  more        whether older entries exist
  unreadable  number of entries that could not be read

\b
Exit codes:
  0  shown (even if nothing matches)
  1  an error, such as an unknown kind, or an unreachable hub
"""
_FORBIDDEN: Final = 403
HEADERS: Final = ("LAST", "TYPE", "OBJECT", "REASON", "BY", "MESSAGE")


@dataclass(frozen=True, slots=True)
class _HistoryFilter:
    """Selection of entries.

    Args:
        types: Types of entries. If empty, all types.
        q: Words that entries contain.
        reason: Reason of entries, or the ID of a rule.
        by: User or controller that caused them.
        since: Maximum age. None: unlimited, the whole record.
        limit: Maximum number of entries.
        namespace: Namespace of their objects. None means any.
        installed_in: Namespace of the record.
    """

    types: tuple[str, ...]
    q: str
    reason: str
    by: str
    since: timedelta | None
    limit: int
    namespace: str | None
    installed_in: str | None


@click.command("history", help=HELP, short_help="Show past decisions, rollouts, user actions, refusals and warnings.")
@click.argument("words", nargs=-1, metavar="[KIND[/NAME] [NAME]]", shell_complete=tab("objects"))
@grouped(
    "choice",
    _HistoryFilter,
    click.option(
        "--type",
        "types",
        multiple=True,
        type=click.Choice([str(entry_type) for entry_type in EntryType], case_sensitive=False),
        help="Show only entries of this type. Repeatable.",
    ),
    click.option("-q", default="", metavar="WORDS", help="Show only entries that contain all of these words."),
    click.option(
        "--reason",
        default="",
        metavar="WORD",
        shell_complete=tab("rules"),
        help="Show only entries with this reason or admission rule.",
    ),
    click.option("--by", default="", metavar="USER", help="Show only entries caused by this user."),
    click.option("--since", type=Duration(), help="Show only entries newer than this, such as 24h or 30m."),
    click.option(
        "--limit",
        type=click.IntRange(1, MOST_ITEMS),
        default=USUAL_ITEMS,
        show_default=True,
        help="Maximum number of entries. The latest ones are shown.",
    ),
    click.option(
        "-n",
        "--namespace",
        metavar="NS",
        shell_complete=tab("namespaces"),
        help="Namespace of the objects.  [default: with NAME that of the kubeconfig's context, else all namespaces]",
    ),
    click.option(
        "--installed-in",
        metavar="NS",
        help="Namespace where harbormaster is installed.  [env: HARBORMASTER_NAMESPACE]  "
        "[default: harbormaster-system]",
    ),
)
@output_option("table", "wide", "json", "yaml")
@hub_options
def command(words: Sequence[str], choice: _HistoryFilter, output: str, hub: HubOptions) -> int:
    """Show entries of the history."""
    return run(_history(hub, words, choice, output))


async def _history(hub: HubOptions, words: Sequence[str], choice: _HistoryFilter, output: str) -> int:
    own = choice.installed_in or NamespaceSettings.read(os.environ).namespace
    async with Client(hub.find()) as client:
        argument = await _one(words, client)
        if argument is not None and argument.name:
            namespace = argument.place(choice.namespace, client.namespace).namespace or ""
        else:
            namespace = choice.namespace or ""
        try:
            documents = dicts_at(await client.list(ResourcePath(CONFIG_MAP, own), f"{LABEL}={LABELS[LABEL]}"), "items")
        except HubRefusedError as error:
            if error.code != _FORBIDDEN:
                raise
            return await _of_namespace(client, namespace or client.namespace, argument, choice, output, error)
    kind: Kind | None = argument.kind if argument else None
    query = Query(
        types=frozenset(EntryType(word) for word in choice.types),
        kind=kind.kind if kind else "",
        name=argument.name if argument else "",
        namespace=namespace if kind is None or kind.namespaced else "",
        reason=choice.reason,
        by=choice.by,
        words=words_of(choice.q),
        since=None if choice.since is None else utc_now() - choice.since,
        limit=choice.limit,
    )
    _show(find(documents, (), query), output, own, is_kept=bool(documents))
    return 0


async def _of_namespace(
    client: Client,
    namespace: str,
    argument: ResourceArgument | None,
    choice: _HistoryFilter,
    output: str,
    refusal: HubRefusedError,
) -> int:
    """Show the history of one namespace, from the server of the hub: the user may not read the record."""
    from webhook.cli.hub.team_answers import NotOfferedError, ask_about_namespace

    question: JsonObject = {"type": list(choice.types), "reason": choice.reason, "by": choice.by, "limit": choice.limit}
    if choice.q:
        question["q"] = choice.q
    if argument is not None:
        question |= {"kind": argument.kind.kind, "name": argument.name}
    if choice.since is not None:
        question["since"] = format_time(utc_now() - choice.since)
    try:
        answer = await ask_about_namespace(client, HISTORIES, namespace, question)
    except NotOfferedError as error:
        raise UserError(f"{refusal.lines()[0]}. {error}") from refusal
    entries = [read_entry(dump_json(item).decode()) for item in dicts_at(answer, "items")]
    found = tuple(entry for entry in entries if entry is not None)
    page = HistoryPage(found, bool(answer.get("more")), int(answer.get("unreadable") or 0) + len(entries) - len(found))
    _show(page, output, namespace, is_kept=True)
    if not answer.get("kept"):
        complain("the hub keeps no history")
    return 0


async def _one(words: Sequence[str], client: Client) -> ResourceArgument | None:
    """Return the selected object or kind, or None for all objects. Raises `UserError`."""
    if not words:
        return None
    resources = await parse_resources(words, client)
    if len(resources) > 1:
        raise UserError(f"{' '.join(words)}: expected one kind or one object")
    return resources[0]


def _show(page: HistoryPage, output: str, namespace: str, *, is_kept: bool) -> None:
    if output not in ("table", "wide"):
        print_document(page.document(), output)
        return
    if page.entries:
        rows = [_row(entry) for entry in reversed(page.entries)]
        print_table(*(with_urls(HEADERS, rows) if output == "wide" else (HEADERS, rows)))
    elif is_kept:
        complain("No entries found")
    else:
        complain(
            f"no history in namespace {namespace}: nothing has happened yet, or harbormaster is installed in another "
            "namespace (--installed-in NS)"
        )
    if page.more:
        complain(f"older entries exist: raise --limit (up to {MOST_ITEMS}), or filter with --since and --type")
    if page.unreadable:
        complain(f"{page.unreadable} {'entry' if page.unreadable == 1 else 'entries'} could not be read")


def _row(entry: RecordEntry) -> tuple[str, ...]:
    about = entry.about
    name = f"{about.namespace}/{about.name}" if about.namespace else about.name
    times = f" ({entry.count} times)" if entry.count > 1 else ""
    return (
        format_time(entry.until),
        str(entry.type),
        f"{about.kind} {name}",
        entry.reason,
        entry.by or "-",
        entry.message + times,
    )
