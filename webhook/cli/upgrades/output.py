"""Upgrade runs in a terminal, one in detail or all in a list, with their waits and the commands that answer them."""

from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Final

import click

from scorer.api.unstructured.documents import dict_at, dicts_at, status_of
from scorer.api.unstructured.json_object import JsonObject, parse_time
from scorer.api.values.duration import format_duration
from scorer.upgrade.views.situation import UpgradeWait, UpgradeWaitKind, overview
from webhook.cli.hub.client import Client
from webhook.cli.options.hub import HubOptions
from webhook.cli.staged_updates.output import States, changes, command_line, wait_times
from webhook.cli.text.output import print_document, print_line, print_table
from webhook.cli.upgrades.run_client import UpgradeRuns, UpgradeRunView
from webhook.runtime.clock import utc_now

HEADERS: Final = ("STAGE", "GROUP", "MEMBER", "STATE", "VERSION", "SINCE", "FINISHED", "MESSAGE")
_NOT_GOING_ON: Final = ("NotStarted", "Stopped", "Failed")
"""Phases that have a plan for a hypothetical start."""


def answer_to(wait: UpgradeWait, name: str, hub: HubOptions) -> str:
    """Return the command that answers a wait of the named run, or an empty string if no command does."""
    match wait.kind:
        case UpgradeWaitKind.GATE if wait.gate and not wait.answered:
            words = ["approve", wait.gate]
        case UpgradeWaitKind.START:
            words = ["upgrade", "start", name]
        case _:
            return ""
    return command_line(words, hub)


def upgrade_document(view: UpgradeRunView, hub: HubOptions) -> JsonObject:
    """Return a run in full, with the commands that answer its waits and show its plan."""
    document: JsonObject = dict(overview(view.read, view.situation))
    for item, wait in zip(document["waits"], view.situation.waits, strict=True):
        item["command"] = answer_to(wait, view.read.metadata.name, hub) or None
    plan = dict_at(status_of(view.run), "plan")
    document["plan"] = None
    if plan:
        shows = command_line(["upgrade", "plan", view.read.metadata.name], hub)
        document["plan"] = {**{key: plan.get(key) for key in ("computedAt", "eta", "etaP90")}, "command": shows}
    return document


def print_upgrade(document: JsonObject, now: datetime) -> None:
    """Print a run as a table."""
    about = document["run"]
    counts = about["counts"]
    version = f" to {about['kubernetesVersion']}" if about["kubernetesVersion"] else ""
    heading = (
        f"{about['name']}: {about['phase']}  {about['type']}{version}, {counts['completed']} of {counts['total']} done"
    )
    print_line(heading)
    if about["message"] and about["phase"] in ("Failed", "NotStarted", "Stopping", "Stopped"):
        print_line(about["message"])
    if rows := list(_rows(document)):
        columns = [at for at, header in enumerate(HEADERS) if header != "VERSION" or any(row[at] for row in rows)]
        print_table([HEADERS[at] for at in columns], [[row[at] for at in columns] for row in rows])
    for line in upgrade_wait_lines(document, now):
        print_line(line)
    if document["plan"] is not None and (end := expected_end(document["plan"], about["phase"], now)):
        print_line(end)


def expected_end(plan: JsonObject, phase: str, now: datetime) -> str:
    """Return when a run is expected to finish, or an empty string if that is meaningless.

    Args:
        plan: The plan with ``eta`` and ``etaP90``, and the ``command`` that shows all of it.
        phase: Phase of the run. A run that is not in progress only finishes once a user starts it.
        now: The current time.
    """
    if plan["eta"] is None:
        return f"no end time can be predicted. For the reason, run: {plan['command']}"
    remaining_time = parse_time(plan["eta"]) - now
    late = f", at the latest {plan['etaP90']}" if plan["etaP90"] else ""
    if phase in _NOT_GOING_ON:
        sentence = (
            f"if it were started now, it would finish at {plan['eta']} (in {format_duration(remaining_time)}{late})"
        )
        return sentence if remaining_time > timedelta() else ""
    if phase == "Stopping":
        return ""
    if remaining_time >= timedelta():
        return f"expected to finish at {plan['eta']} (in {format_duration(remaining_time)}{late})"
    return f"overdue by {format_duration(-remaining_time)}: it was expected to finish at {plan['eta']}{late}"


def _rows(document: JsonObject) -> Iterator[tuple[str, ...]]:
    """Yield a row per stage, one per group, and one per member below it."""
    for stage in document["stages"]:
        yield _row((stage["name"], "", ""), stage)
        for group in dicts_at(stage, "groups"):
            yield _row(("", group["name"], ""), group)
            for member in dicts_at(group, "members"):
                yield _row(("", "", member["name"]), member)


def _row(place: tuple[str, str, str], part: JsonObject) -> tuple[str, ...]:
    since = part.get("pendingSince") or part.get("startTime") or "-"
    reason, message = part.get("reason", ""), part.get("message", "")
    text = f"{reason}: {message}" if reason and message else reason or message
    return (*place, part["state"], _version(part), since, part.get("completionTime") or "-", text)


def _version(part: JsonObject) -> str:
    """Return the current and the target version of a member. Empty if unknown, as for stages and groups."""
    before, after = part.get("fromVersion", ""), part.get("toVersion", "")
    return f"{before} -> {after}" if before and after and before != after else after or before


def upgrade_wait_lines(document: JsonObject, now: datetime) -> Iterator[str]:
    """Yield the waits of a run, each with the command that answers it."""
    for wait in document["waits"]:
        yield f"waits for {wait['message']}{_times(wait, now)}"
        if wait["command"]:
            yield f"  {wait['command']}"


def _times(wait: JsonObject, now: datetime) -> str:
    if wait["until"] and wait["kind"] == UpgradeWaitKind.MEMBERS:  # the message has the opening time
        first = "the first " if len(wait["members"]) > 1 else ""
        return f" ({first}in {format_duration(max(parse_time(wait['until']) - now, timedelta()))})"
    return wait_times(wait, now)


def upgrade_news(before: JsonObject, after: JsonObject) -> Iterator[str]:
    """Yield the changes of an upgrade run, one line each."""
    return changes(before, after, _states)


def _states(document: JsonObject) -> States:
    for stage in document["stages"]:
        yield f"stage {stage['name']}", stage["state"], stage.get("message", "")
        for group in dicts_at(stage, "groups"):
            for member in dicts_at(group, "members"):
                yield f"member {member['name']}", member["state"], _row(("", "", ""), member)[-1]


LIST_HEADERS: Final = ("RUN", "STATE", "STAGE", "UPGRADE", "DONE", "OVER", "WAITS FOR")
_MOST_WAITS: Final = 3
"""Maximum number of named waits of a run."""


async def list_upgrades(hub: HubOptions, output: str) -> int:
    """Print all upgrade runs, unfinished ones first."""
    async with Client(hub.find()) as client:
        views = await UpgradeRuns(client).all()
    views.sort(key=lambda view: (view.situation.is_over, view.read.metadata.name))
    documents = [upgrade_document(view, hub) for view in views]
    if output != "table":
        print_document(
            {"items": [{key: document[key] for key in ("run", "waits", "plan")} for document in documents]}, output
        )
    elif documents:
        print_table(LIST_HEADERS, [_list_row(document, utc_now()) for document in documents])
    else:
        click.echo("No upgrade runs found", err=True)
    return 0


def _list_row(document: JsonObject, now: datetime) -> tuple[str, ...]:
    about, counts = document["run"], document["run"]["counts"]
    version = f" to {about['kubernetesVersion']}" if about["kubernetesVersion"] else ""
    waits = "; ".join(wait["message"] for wait in document["waits"][:_MOST_WAITS]) or about["message"]
    return (
        about["name"],
        about["phase"],
        about["stage"] or "-",
        f"{about['type']}{version}",
        f"{counts['completed']} of {counts['total']}",
        about["completionTime"] or _expected(document, now),
        waits,
    )


def _expected(document: JsonObject, now: datetime) -> str:
    """Return the expected finish of a run: "overdue" if it has passed, "-" if it is unknown or not in progress."""
    eta = (document["plan"] or {}).get("eta")
    if not eta or document["run"]["phase"] not in ("Running", "Pending"):
        return "-"
    return f"~{eta}" if parse_time(eta) >= now else "overdue"
