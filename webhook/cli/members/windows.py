"""``harbormaster windows``: list maintenance windows, and show when those of each member open and close."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Final

import click

from scorer.api.kinds import MAINTENANCE_WINDOW, MEMBER_CLUSTER, Kind
from scorer.api.unstructured.documents import dicts_at, name_of
from scorer.api.unstructured.json_object import JsonObject, format_time, parse_time
from scorer.api.upgrade.fields import UpgradeType
from scorer.api.values.duration import format_duration
from scorer.upgrade.members.windows import targets_of
from scorer.windows.maintenance import WindowState, window_state
from scorer.windows.member_windows import OF_UPDATES, MemberWindows, WindowDefinition, windows_of
from scorer.windows.overview import WindowOverview, window_overviews
from webhook.cli.errors import UserError, complain
from webhook.cli.hub.client import Client, ResourcePath
from webhook.cli.options.base import output_option, run, tab
from webhook.cli.options.hub import HubOptions, hub_options
from webhook.cli.text.output import print_document, print_table
from webhook.runtime.clock import utc_now

HELP: Final = """Show maintenance windows, and those of each member.

\b
Examples:
  harbormaster windows list
  harbormaster windows next
  harbormaster windows next east west

\b
Exit codes:
  0  shown
  1  an error
"""
LIST_HELP: Final = """List maintenance windows: open or closed, until when, and for how many members.

The windows that open or close first come first. FOR shows the changes that wait for a window: KubernetesVersion and
NodeImage are upgrades, All also includes rolling and staged updates of placements. A window that cannot be read counts
as closed. `harbormaster windows next` shows the result for each member.

\b
Examples:
  harbormaster windows list
  harbormaster windows list -o json

\b
-o json (yaml: the same):
  items[]  name target open until members unreadable

\b
Exit codes:
  0  shown (even if there are no windows)
  1  an error, such as an unreachable hub
"""
NEXT_HELP: Final = """Show the maintenance windows of members: open or closed, and until when.

The column FOR shows what the windows apply to: Updates are rolling and staged updates of placements, the others are
types of upgrade runs. --for shows only one of them. Updates wait only for windows with target All, upgrades also for
those with the target of their type, KubernetesVersion or NodeImage.

A member without windows may be changed at any time. If a member names a window that does not exist, upgrades ignore
that window, and updates treat it as closed.

\b
Examples:
  harbormaster windows next
  harbormaster windows next --for Full             when upgrade runs may change the Kubernetes version
  harbormaster windows next east --for NodeImageOnly
  harbormaster windows next -o json

\b
-o json (yaml: the same):
  items[]  member for[] (Updates, Full, ControlPlaneOnly, NodeImageOnly) windows missing unreadable isOpen until

\b
Exit codes:
  0  shown
  1  an error: no such member, or an unreachable hub
"""
HEADERS: Final = ("MEMBER", "FOR", "NOW", "UNTIL", "IN", "WINDOWS")
LIST_HEADERS: Final = ("WINDOW", "FOR", "NOW", "UNTIL", "IN", "MEMBERS")
UPDATES: Final = "Updates"
"""Changes to the content of a member, as opposed to upgrades of the member itself."""
PURPOSES: Final = (UPDATES, *(upgrade_type.value for upgrade_type in UpgradeType))
"""Purposes of a window."""
_NO_WINDOWS: Final = "-"


@dataclass(frozen=True, slots=True)
class MemberWindowState:
    """The windows of a member at one moment.

    Args:
        member: Name of the member.
        purposes: Purposes that this state applies to.
        windows: Windows for these purposes.
        unreadable: The members of *windows* that cannot be read.
        found: State of the readable windows. None if the member has no window for these purposes.
    """

    member: str
    purposes: tuple[str, ...]
    windows: MemberWindows
    unreadable: tuple[str, ...]
    found: WindowState | None

    @property
    def is_open(self) -> bool:
        """Whether the member may be changed. An unreadable window counts as closed, and for updates a missing one."""
        return self.found is None or self.found.is_open


@click.group("windows", help=HELP, short_help="Show maintenance windows, and those of each member.")
def command() -> None:
    """Group the commands."""


@command.command("list", help=LIST_HELP, short_help="List maintenance windows.")
@output_option("table", "json", "yaml")
@hub_options
def every(output: str, hub: HubOptions) -> int:
    """List windows."""
    return run(_every(hub, output))


async def _every(hub: HubOptions, output: str) -> int:
    async with Client(hub.find()) as client:
        members = await _all(client, MEMBER_CLUSTER)
        definitions = await _definitions(client)
    now = utc_now().replace(microsecond=0)
    windows = window_overviews(members, definitions, now)
    if output != "table":
        print_document({"items": windows}, output)
    elif windows:
        print_table(LIST_HEADERS, [_window_row(window, now) for window in windows])
    else:
        complain("No maintenance windows found: members may be changed at any time")
    return 0


def _window_row(window: WindowOverview, now: datetime) -> tuple[str, ...]:
    until = parse_time(window["until"]) if window["until"] else None
    return (
        window["name"],
        window.get("target", "(cannot be read)"),
        "open" if window["open"] else "closed",
        window["until"] or _NO_WINDOWS,
        format_duration(until - now) if until is not None and until > now else _NO_WINDOWS,
        str(window["members"]),
    )


@command.command("next", help=NEXT_HELP, short_help="Show when the windows of members open and close.")
@click.argument("members", nargs=-1, metavar="[MEMBER]...", shell_complete=tab("clusters"))
@click.option(
    "--for",
    "purpose",
    type=click.Choice(PURPOSES, case_sensitive=False),
    help="Show only windows that apply to this kind of change.  [default: all]",
)
@output_option("table", "json", "yaml")
@hub_options
def following(members: tuple[str, ...], purpose: str | None, output: str, hub: HubOptions) -> int:
    """Show the windows of members."""
    return run(_following(hub, members, purpose, output))


async def _following(hub: HubOptions, members: tuple[str, ...], purpose: str | None, output: str) -> int:
    async with Client(hub.find()) as client:
        documents = {name_of(cluster): cluster for cluster in await _all(client, MEMBER_CLUSTER)}
        definitions = await _definitions(client)
    for name in members:
        if name not in documents:
            raise UserError(f"there is no {MEMBER_CLUSTER.kind} {name}")
    now = utc_now().replace(microsecond=0)
    selected = [documents[name] for name in members or sorted(documents)]
    purposes = PURPOSES if purpose is None else (purpose,)
    states = [state for member in selected for state in _alike(member, definitions, purposes, now)]
    if output == "table":
        print_table(HEADERS, [_row(state, now) for state in states])
    else:
        print_document({"items": [_window_document(state) for state in states]}, output)
    return 0


async def _definitions(client: Client) -> dict[str, WindowDefinition]:
    return {name_of(window): WindowDefinition.of(window) for window in await _all(client, MAINTENANCE_WINDOW)}


async def _all(client: Client, kind: Kind) -> list[JsonObject]:
    return dicts_at(await client.list(ResourcePath(kind)), "items")


def _alike(
    member: JsonObject, definitions: dict[str, WindowDefinition], purposes: Sequence[str], now: datetime
) -> Iterator[MemberWindowState]:
    """Yield the states of a member. Purposes with the same state share one."""
    alike: list[MemberWindowState] = []
    for purpose in purposes:
        state = _standing(member, definitions, purpose, now)
        position = (at for at, other in enumerate(alike) if replace(other, purposes=state.purposes) == state)
        if (at := next(position, None)) is None:
            alike.append(state)
        else:
            alike[at] = replace(state, purposes=(*alike[at].purposes, purpose))
    yield from alike


def _standing(
    member: JsonObject, definitions: dict[str, WindowDefinition], purpose: str, now: datetime
) -> MemberWindowState:
    targets = OF_UPDATES if purpose == UPDATES else targets_of(UpgradeType(purpose))
    definitions_with_selector = [definition for definition in definitions.values() if definition.selector is not None]
    windows = windows_of(member, definitions, targets, definitions_with_selector)
    readable = [window for name in windows.names if (window := definitions[name].window) is not None]
    unreadable = tuple(name for name in windows.names if definitions[name].window is None)
    any_window = windows.names or (windows.missing and purpose == UPDATES)
    state = window_state(readable, now) if any_window else None
    return MemberWindowState(name_of(member), (purpose,), windows, unreadable, state)


def _row(state: MemberWindowState, now: datetime) -> tuple[str, ...]:
    until = state.found.until if state.found is not None else None
    remaining_time = format_duration(until - now) if until is not None and until > now else _NO_WINDOWS
    return (
        state.member,
        "everything" if state.purposes == PURPOSES else ", ".join(state.purposes),
        "open" if state.is_open else "closed",
        format_time(until) if until is not None else _NO_WINDOWS,
        remaining_time,
        ", ".join(_window_names(state)) or _NO_WINDOWS,
    )


def _window_names(state: MemberWindowState) -> Iterator[str]:
    for name in state.windows.names:
        yield f"{name} (cannot be read)" if name in state.unreadable else name
    for name in state.windows.missing:
        yield f"{name} (does not exist)"


def _window_document(state: MemberWindowState) -> JsonObject:
    until = state.found.until if state.found is not None else None
    return {
        "member": state.member,
        "for": list(state.purposes),
        "windows": list(state.windows.names),
        "missing": list(state.windows.missing),
        "unreadable": list(state.unreadable),
        "isOpen": state.is_open,
        "until": None if until is None else format_time(until),
    }
