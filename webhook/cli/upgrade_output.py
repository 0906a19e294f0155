"""An upgrade run in a terminal: where it stands, its members, its plan, what it waits for and the command for that."""

import shlex
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any, Final

import click

from scorer.api.documents import dict_at, dicts_at, status_of, text_at
from scorer.api.duration import format_duration
from scorer.api.meta import JsonObject, format_time, parse_time
from scorer.api.quoting import printable
from scorer.upgrade.situation import UpgradeWait, WaitKind, overview
from webhook.cli.hub_options import HubOptions
from webhook.cli.output import print_table
from webhook.cli.run_output import hub_words
from webhook.cli.upgrade_runs import FoundUpgrade

HEADERS: Final = ("STAGE", "GROUP", "MEMBER", "STATE", "SINCE", "FINISHED", "MESSAGE")
PLAN_HEADERS: Final = ("MEMBER", "ACTION", "START", "END", "BOUND BY", "REASON")


def answer_to(wait: UpgradeWait, name: str, hub: HubOptions) -> str:
    """Return the command that answers what the run of that name waits for; empty: no command does."""
    match wait.kind:
        case WaitKind.GATE if wait.gate:
            words = ["approve", wait.gate]
        case WaitKind.START:
            words = ["upgrade", "start", name]
        case _:
            return ""
    context = click.get_current_context(silent=True)
    program = (context.find_root().info_name if context is not None else None) or "harbormaster"
    return f"{program} {shlex.join([*words, *hub_words(hub)])}"


def upgrade_document(found: FoundUpgrade, hub: HubOptions) -> JsonObject:
    """Return the whole of a run, with the commands that answer what it waits for."""
    document: JsonObject = dict(overview(found.read, found.situation))
    for shown, wait in zip(document["waits"], found.situation.waits, strict=True):
        shown["command"] = answer_to(wait, found.read.metadata.name, hub) or None
    plan = dict_at(status_of(found.run), "plan")
    document["plan"] = {key: plan.get(key) for key in ("computedAt", "eta", "etaP90")} if plan else None
    return document


def print_upgrade(document: JsonObject, now: datetime) -> None:
    """Print a run as a table."""
    about = document["run"]
    counts = about["counts"]
    version = f" to {about['kubernetesVersion']}" if about["kubernetesVersion"] else ""
    whole = (
        f"{about['name']}: {about['phase']}  {about['type']}{version}, {counts['completed']} of {counts['total']} done"
    )
    click.echo(printable(whole))
    if about["message"] and about["phase"] in ("Failed", "NotStarted", "Stopping", "Stopped"):
        click.echo(printable(about["message"]))
    rows = list(_rows(document))
    if rows:
        print_table(HEADERS, rows)
    for line in upgrade_wait_lines(document, now):
        click.echo(printable(line))
    if document["plan"] is not None:
        click.echo(printable(_expected(document["plan"], now)))


def _expected(plan: JsonObject, now: datetime) -> str:
    if plan["eta"] is None:
        return "no end is in sight: harbormaster upgrade plan says why"
    late = f", at the latest {plan['etaP90']}" if plan["etaP90"] else ""
    return f"expected to be over {plan['eta']} ({_from_now(plan['eta'], now)}{late})"


def _from_now(text: str, now: datetime) -> str:
    left = parse_time(text) - now
    return f"in {format_duration(left)}" if left > timedelta() else "now"


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
    said = f"{reason}: {message}" if reason and message else reason or message
    return (*place, part["state"], since, part.get("completionTime") or "-", said)


def upgrade_wait_lines(document: JsonObject, now: datetime) -> Iterator[str]:
    """Yield what a run waits for, each with the command that answers it."""
    for wait in document["waits"]:
        yield f"waits for {wait['message']}{_times(wait, now)}"
        if wait["command"]:
            yield f"  {wait['command']}"


def _times(wait: JsonObject, now: datetime) -> str:
    if wait["until"]:
        left = parse_time(wait["until"]) - now
        return f", until {wait['until']} (in {format_duration(max(left, timedelta()))})"
    if wait["since"]:
        return f", since {wait['since']} ({format_duration(now - parse_time(wait['since']))})"
    return ""


def upgrade_news(before: JsonObject, after: JsonObject) -> Iterator[str]:
    """Yield what has changed about a run, a line each, with the time in front."""
    at = format_time(datetime.now(UTC))
    if before["run"]["phase"] != after["run"]["phase"]:
        yield f"{at}  {after['run']['name']}: {after['run']['phase']}"
    known = {key: state for key, state, _ in _states(before)}
    for key, state, message in _states(after):
        if known.get(key) != state:
            yield f"{at}  {key}: {state}{f'  {message}' if message else ''}"
    seen = [wait["message"] for wait in before["waits"] if wait["needsPerson"]]
    for wait in after["waits"]:
        if wait["needsPerson"] and wait["message"] not in seen:
            yield f"{at}  waits for {wait['message']}{': ' + wait['command'] if wait['command'] else ''}"


def _states(document: JsonObject) -> Iterator[tuple[str, str, str]]:
    for stage in document["stages"]:
        yield f"stage {stage['name']}", stage["state"], stage.get("message", "")
        for group in dicts_at(stage, "groups"):
            for member in dicts_at(group, "members"):
                yield f"member {member['name']}", member["state"], _row(("", "", ""), member)[-1]


def print_plan(plan: JsonObject, name: str, now: datetime) -> None:
    """Print when each member of a run is reached, and what to know before."""
    over = f"over {plan['eta']} ({_from_now(plan['eta'], now)})" if plan.get("eta") else "no end in sight"
    late = f", at the latest {plan['etaP90']}" if plan.get("etaP90") else ""
    click.echo(printable(f"{name}: {over}{late}, as of {plan.get('computedAt', '')}"))
    many = f"{plan.get('maxConcurrent', 0)} at once at most"
    click.echo(printable(f"{many}; {plan.get('exposure', 0)} upgraded before anybody looks"))
    rows = [_planned(member) for member in dicts_at(plan, "members")]
    if rows:
        print_table(PLAN_HEADERS, rows)
    for line in _besides(plan):
        click.echo(printable(line))


def _planned(member: JsonObject) -> tuple[str, ...]:
    def text(key: str) -> str:
        return text_at(member, key) or "-"

    return (text("name"), text("action"), text("start"), text("end"), text("boundBy"), text("reason"))


def _besides(plan: JsonObject) -> Iterator[str]:
    path = [f"{step['type'].lower()} {step['name']}" for step in dicts_at(plan, "criticalPath")]
    if path:
        yield f"the end depends on: {' > '.join(path)}"
    for missed in dicts_at(plan, "windowsMissed"):
        lost = format_duration(timedelta(seconds=missed["lostSeconds"]))
        yield f"{missed['name']} just misses its window at {missed['turn']}, and waits for {lost}"
    for stage in dicts_at(plan, "blastRadius", "stages"):
        yield from _exposed(stage)
    for warning in plan.get("warnings") or ():
        yield f"warning: {warning}"


def _exposed(stage: dict[str, Any]) -> Iterator[str]:
    for each in dicts_at(stage, "placements"):
        if each.get("fullyExposed"):
            name = f"{each['namespace']}/{each['name']}" if each.get("namespace") else each["name"]
            yield f"stage {stage['name']}: all {each['clusters']} clusters of placement {name} are in upgrade at once"
