"""The plan of an upgrade run in a terminal: when each member is reached, with notes for the operator."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, Final

from scorer.api.unstructured.documents import dict_at, dicts_at, text_at
from scorer.api.unstructured.json_object import JsonObject, parse_time
from scorer.api.upgrade.fields import LONGEST_GENERATED_NAME
from scorer.api.values.duration import format_duration
from webhook.cli.text.output import print_line, print_table

HEADERS: Final = ("MEMBER", "ACTION", "START", "END", "BOUND BY", "REASON")
_HASH: Final = 9
"""Length of the suffix of a gate's object name: a dash and a hash."""
_DONE: Final = {"Completed": "Upgraded", "Failed": "Failed", "Skipped": "Skipped", "Running": "Upgrading"}
"""Text for a member, by its state, in place of the planned action."""


@dataclass(frozen=True, slots=True)
class Background:
    """Known facts about a run besides its plan.

    Args:
        strategy: Strategy, which has the full names of gates. Empty if unknown.
        states: Current state of each member. Empty if the run is not on the hub.
    """

    strategy: JsonObject = field(default_factory=dict)
    states: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def of(cls, run: JsonObject) -> "Background":
        """Return the facts that a run on the hub records."""
        states = {
            str(entry.get("name", "")): str(entry.get("state", ""))
            for stage in dicts_at(run, "status", "stages")
            for group in dicts_at(stage, "groups")
            for entry in dicts_at(group, "members")
        }
        return cls(dict_at(run, "status", "strategySnapshot"), states)


def print_plan(plan: JsonObject, name: str, now: datetime, background: Background) -> None:
    """Print a plan as a table.

    Args:
        plan: Plan of an upgrade run.
        name: Name of the run.
        now: The current time.
        background: Other known facts about the run.
    """
    late = f", at the latest {plan['etaP90']}" if plan.get("etaP90") else ""
    print_line(f"{name}: {_over(plan, now)}{late}, as of {plan.get('computedAt', '')}")
    many = f"at most {plan.get('maxConcurrent', 0)} concurrently"
    print_line(f"{many}, {plan.get('exposure', 0)} upgraded before the first gate or wait")
    rows = [_planned(member, background.states) for member in dicts_at(plan, "members")]
    if rows:
        print_table(HEADERS, rows)
    for line in _besides(plan, gates_by_name(name, background.strategy)):
        print_line(line)


def _over(plan: JsonObject, now: datetime) -> str:
    if not plan.get("eta"):
        return "no end time can be predicted"
    remaining_time = parse_time(plan["eta"]) - now
    if remaining_time < timedelta():
        return f"overdue by {format_duration(-remaining_time)}, it was expected to finish at {plan['eta']}"
    return f"finishes at {plan['eta']} (in {format_duration(remaining_time)})"


def _planned(member: JsonObject, states: Mapping[str, str]) -> tuple[str, ...]:
    def text(key: str) -> str:
        return text_at(member, key) or "-"

    action = _DONE.get(states.get(member["name"], ""), text("action"))
    return (text("name"), action, text("start"), text("end"), text("boundBy"), text("reason"))


def _besides(plan: JsonObject, gates: Mapping[str, str]) -> Iterator[str]:
    path = [_step(step, gates) for step in dicts_at(plan, "criticalPath")]
    if path:
        yield f"critical path: {' > '.join(path)}"
    for missed_window in dicts_at(plan, "windowsMissed"):
        lost_time = format_duration(timedelta(seconds=missed_window["lostSeconds"]))
        yield f"{missed_window['name']} just misses its window at {missed_window['turn']}, and waits for {lost_time}"
    for stage in dicts_at(plan, "blastRadius", "stages"):
        yield from _exposed(stage)
    for warning in plan.get("warnings") or ():
        yield f"warning: {warning}"


def _step(step: JsonObject, gates: Mapping[str, str]) -> str:
    name = step["name"]
    match step["type"]:
        case "Gate":
            return gates.get(name[:-_HASH], f"gate {name}")
        case "Wait":
            return f"wait after {name}"
        case _:
            return f"member {name}"


def gates_by_name(run: str, strategy: JsonObject) -> dict[str, str]:
    """Return locations and names of the gates of a run, by the name of their objects without the hash.

    Args:
        run: Name of the run.
        strategy: Strategy with its stages.

    Source: docs/specifications/upgrade-runs.md 3.5.
    """
    gates: dict[str, str] = {}
    for stage in dicts_at(strategy, "stages"):
        _add_gates(gates, stage, [run, stage["name"]], f"stage {stage['name']}")
        for group in dicts_at(stage, "groups"):
            _add_gates(gates, group, [run, stage["name"], group["name"]], f"group {group['name']}")
    return gates


def _add_gates(gates: dict[str, str], part: JsonObject, place: Sequence[str], location: str) -> None:
    for timing in ("before", "after"):
        for index, gate in enumerate(dicts_at(part, f"{timing}Gates")):
            name = "-".join((*place, timing, str(index)))[: LONGEST_GENERATED_NAME - _HASH]
            title = f' "{gate["displayName"]}"' if gate.get("displayName") else ""
            gates.setdefault(name, f"gate{title} {timing} {location}")


def _exposed(stage: dict[str, Any]) -> Iterator[str]:
    for placement in dicts_at(stage, "placements"):
        if placement.get("fullyExposed"):
            name = f"{placement['namespace']}/{placement['name']}" if placement.get("namespace") else placement["name"]
            all_clusters_note = f"all {placement['clusters']} clusters of placement {name} are upgraded concurrently"
            only = f"the only cluster of placement {name} is upgraded"
            yield f"stage {stage['name']}: {only if placement['clusters'] == 1 else all_clusters_note}"
