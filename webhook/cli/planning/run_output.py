"""The expected course of runs in a plan: stages, waits, changes, and the earliest finish."""

from collections.abc import Iterator, Sequence
from typing import Final

import click

from scorer.api.unstructured.json_object import JsonObject
from scorer.api.values.quoting import format_count
from webhook.cli.text.output import print_line

_SIGNS: Final = {"Added": "+", "Removed": "-", "Changed": "~"}
_VERDICTS: Final = {
    "Refused": "cannot be initialized",
    "Aborted": "would be aborted",
    "Pending": "cannot start yet",
    "Over": "is finished",
}
_MOST_NAMED: Final = 12
"""Maximum number of named clusters per change, besides the stages."""
_MOST_BATCHES: Final = 20
"""Maximum number of batches of a stage."""


def print_runs(runs: Sequence[JsonObject], upgrades: Sequence[JsonObject], *, after_other: bool) -> None:
    """Print runs.

    Args:
        runs: Entries of staged update runs in a plan.
        upgrades: Entries of upgrade runs.
        after_other: Whether other output precedes them.
    """
    for place, lines in enumerate([*map(run_lines, runs), *map(upgrade_lines, upgrades)]):
        if place or after_other:
            click.echo()
        for line in lines:
            print_line(line)


def run_lines(run: JsonObject) -> Iterator[str]:
    """Yield what a run would do, line by line."""
    namespace = f"{run['namespace']}/" if run["namespace"] else ""
    placement = f"rp/{namespace}{run['placement']}" if namespace else f"crp/{run['placement']}"
    name = f"Run {namespace}{run['name']} of {placement}"
    if (finding := run["finding"]) is not None:
        yield f"{name} {_VERDICTS[run['phase']]}: {': '.join(filter(None, (finding['cause'], finding['message'])))}"
        return
    verb = "continues with" if run["phase"] == "UnderWay" else "rolls out"
    yield f"{name} {verb} {run['snapshot']} by strategy {run['strategy']}:"
    yield from (f"  {line}" for line in _course(run))


def changed_upgrades(plan: JsonObject) -> list[JsonObject]:
    """Return the upgrade runs of a plan that change, and those that cannot be initialized."""
    return [run for run in plan.get("upgrades", ()) if run["changed"] or run["phase"] == "Refused"]


def upgrade_lines(run: JsonObject) -> Iterator[str]:
    """Yield what an upgrade run would do, line by line."""
    version = f" to {run['kubernetesVersion']}" if run["kubernetesVersion"] else ""
    name = f"Upgrade run {run['name']} ({run['type']}{version})"
    if (finding := run["finding"]) is not None:
        yield f"{name} {_VERDICTS[run['phase']]}: {finding['cause']}: {finding['message']}"
        return
    strategy = f"follows strategy {run['strategy']}" if run["strategy"] else "has no referenced strategy"
    yield f"{name} {strategy}:"
    plan = run["plan"]
    if run["next"]:
        yield f"  Next: {_cluster_names(run['next'])}"
    by_turn: dict[str, list[str]] = {}
    for member in plan["members"]:
        by_turn.setdefault(_turn(member), []).append(member["name"])
    yield from (f"  {turn}: {_cluster_names(names)}" for turn, names in by_turn.items())
    yield from (f"  warning: {warning}" for warning in plan.get("warnings", ()))
    end = f"Done at {plan['eta']}" if plan.get("eta") else "The end is unknown"
    yield f"  {end}{':' if run['assumptions'] else ''}"
    yield from (f"    {assumption}" for assumption in run["assumptions"])


def _turn(member: JsonObject) -> str:
    """Return the start of a member's upgrade, or the action that is planned instead, with its reason."""
    if member["action"] == "Upgrade":
        bound = f", bound by {member['boundBy']}" if "boundBy" in member else ""
        return f"{member['start']}{bound}"
    reason = f" ({member['reason']})" if member.get("reason") else ""
    return f"{member['action']}{reason}"


def _course(run: JsonObject) -> Iterator[str]:
    for number, stage in enumerate(run["stages"], start=1):
        yield f"{number}. {_stage(stage)}"
        yield from (f"   {line}" for line in _waits(stage))
    if run["removed"]:
        yield f"{len(run['stages']) + 1}. removed from {_cluster_names(run['removed'])}"
    if run.get("next"):
        yield f"Next: {_cluster_names(run['next'])}"
    for content in run["contents"]:
        yield from _content(content)
    yield from _overrides(run)
    if (policy := run["failurePolicy"]) is not None:
        some = policy["maxFailures"]
        verb = "is" if some < 2 else "are"
        failed = f"more than {format_count(some, 'cluster')} of a stage {verb}" if some else "a cluster is"
        yield f"{policy['onFailure']} as soon as {failed} not done within {policy['clusterDeadline']}"
    assuming = ", assuming:" if run["assumptions"] else ""
    yield f"Earliest finish: {run['earliestFinish']}{assuming}"
    yield from (f"  {assumption}" for assumption in run["assumptions"])


def _stage(stage: JsonObject) -> str:
    if stage["progress"] == "Done":
        return f"{stage['name']}: done"
    if not stage["clusters"]:
        return f"{stage['name']}: no clusters, skipped with its tasks"
    batches = [" ".join(batch) for batch in stage["batches"][:_MOST_BATCHES]]
    more = f"; and {further} more such batches" if (further := len(stage["batches"]) - len(batches)) else ""
    batch_note = f", {stage['atOnce']} at a time" if len(stage["batches"]) > 1 else ""
    return f"{stage['name']}{batch_note}: {'; '.join(batches) or 'all clusters are done'}{more}"


def _waits(stage: JsonObject) -> Iterator[str]:
    """Yield the conditions that a stage waits for."""
    if stage["progress"] == "Done":
        return
    for task in (task for task in stage["tasks"] if not task["done"]):
        timing = "before it starts" if task["place"] == "Before" else "after it"
        if task["request"]:
            yield f"{timing}: approval {task['request']}"
        else:
            yield f"{timing}: {task['wait']}, until {task['until']} at the earliest"
    for cluster in stage["clusters"]:
        if cluster["waitsFor"]:
            yield f"{cluster['cluster']} waits: {cluster['waitsFor']}"


def _content(content: JsonObject) -> Iterator[str]:
    clusters = _cluster_names(content["clusters"])
    if not content["from"]:
        yield f"New on {clusters}:"
    else:
        yield f"Changes from {content['from']}, on {clusters}:"
    if content["hidden"]:
        yield "  you may not list resource snapshots, so the changes are not shown"
    elif not content["known"]:
        yield f"  {content['from']} is not retained, so the changes are unknown"
    elif not content["objects"]:
        yield "  none: the objects are the same"
    for change in content["objects"]:
        yield from (f"  {line}" for line in _change(change))
    if content["more"]:
        yield f"  and {format_count(content['more'], 'more object')}"


def _change(change: JsonObject) -> Iterator[str]:
    kind = f"{change['kind']}.{change['group']}" if change["group"] else change["kind"]
    name = f"{change['namespace']}/{change['name']}" if change["namespace"] else change["name"]
    inside = f" in {change['envelope']}" if change["envelope"] else ""
    yield f"{_SIGNS[change['change']]} {kind} {name}{inside}"
    for field in change["fields"]:
        yield f"    {field['path']}: {field['before'] or '(absent)'} -> {field['after'] or '(absent)'}"
    if change["more"]:
        yield f"    and {format_count(change['more'], 'more field')}"


def _overrides(run: JsonObject) -> Iterator[str]:
    """Yield the clusters whose overrides or apply strategy change."""
    clusters = [cluster for stage in run["stages"] for cluster in stage["clusters"]]
    for key, words in (("overrides", "Other overrides"), ("applyStrategy", "Another apply strategy")):
        if names := [cluster["cluster"] for cluster in clusters if key in cluster["differs"]]:
            yield f"{words} on {_cluster_names(names)}"


def _cluster_names(clusters: Sequence[str]) -> str:
    more = f" (and {len(clusters) - _MOST_NAMED} more)" if len(clusters) > _MOST_NAMED else ""
    return " ".join(clusters[:_MOST_NAMED]) + more
