"""Plans as tables: moves first, then the rollout. Also single lines about a placement or a cluster.

Unchanged placements are only counted.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import click

from scorer.api.unstructured.json_object import JsonObject
from scorer.api.values.quoting import format_count, printable
from webhook.cli.errors import complain
from webhook.cli.planning.run_output import changed_upgrades, print_runs
from webhook.cli.text.output import print_line, print_table

MOST_KEPT: Final = 12
"""Maximum number of kept clusters of a placement that are named. Gained and lost clusters are all named."""

_REMOVALS: Final = {
    "Pending": "remains until its removal is confirmed",
    "Confirmed": "removed, as confirmed",
    "Warned": "removed without a confirmation",
    "Removed": "removed without a confirmation",
    "Orphaned": "remains on the clusters",
}
"""The verdicts on content that leaves a placement, for users."""

_HEADERS: Final = ("PLACEMENT", "TYPE", "WANTED", "PICKED", "CLUSTERS", "WHY")


def changes_anything(plan: Mapping[str, Any]) -> bool:
    """Return whether any placement, run or upgrade run of *plan* changes."""
    return any(entry["changed"] for key in ("placements", "runs", "upgrades") for entry in plan.get(key, ()))


def print_plan(plan: JsonObject, *, everything: bool) -> None:
    """Print a plan.

    Args:
        plan: The document.
        everything: Also show unchanged placements and clusters.
    """
    runs = [run for run in plan.get("runs", ()) if everything or run["changed"]]
    entries = sorted(plan["placements"], key=lambda entry: not entry["changed"])
    visible = entries if everything else [entry for entry in entries if entry["changed"]]
    upgrades = plan.get("upgrades", ()) if everything else changed_upgrades(plan)
    if not (entries or runs or upgrades):
        missing = "that you may list" if plan.get("hidden") or plan.get("unread") else "found"
        complain("No placements in these files" if everything else f"No placements {missing}")
        _print_rest(plan)
        return
    _print_fleet(plan["fleet"])
    if visible:
        print_table(_HEADERS, [_row(entry) for entry in visible])
    for line in _rollouts(visible):
        print_line(line)
    if rest := len(entries) - len(visible):
        subject = "1 placement does not change." if rest == 1 else f"{rest} placements do not change."
        click.echo(f"\n{subject}" if visible else subject)
    print_runs(runs, upgrades, after_other=bool(entries))
    _print_rest(plan)


def _print_rest(plan: JsonObject) -> None:
    for line in rest_lines(plan):
        print_line(line)
    for line in assumption_lines(plan):
        complain(f"note: {line}")


def rest_lines(plan: JsonObject) -> Iterator[str]:
    """Yield the outcomes of changes that are about no placement, and everything that a plan does not cover."""
    for outcome in plan.get("outcomes", ()):
        yield f"{outcome['kind']} {_place(outcome)}: {outcome['message']}"
    yield from coverage_lines(plan)


def coverage_lines(plan: JsonObject) -> Iterator[str]:
    """Yield everything that a plan does not cover."""
    for unjudged in plan.get("notJudged", ()):
        yield f"not judged: {unjudged['kind']} ({unjudged['count']})"
    for hidden in plan.get("hidden", ()):
        yield f"left out because you may not list its kind or its snapshots: {hidden['kind']} {_place(hidden)}"
    if unread := plan.get("unread"):
        yield f"not read because these kinds cannot be listed: {', '.join(unread)}"


def assumption_lines(plan: JsonObject) -> Iterator[str]:
    """Yield a line with the placements that the plan assumes to be rolled out, if any."""
    references = [reference(entry) for entry in plan.get("assumed", ())]
    if references:
        more = f" and {len(references) - MOST_KEPT} more" if len(references) > MOST_KEPT else ""
        named = " ".join(references[:MOST_KEPT])
        yield f"assumed to be rolled out, as the hub has no resource snapshots of them: {named}{more}"


def _place(item: Mapping[str, Any]) -> str:
    return f"{item['namespace']}/{item['name']}" if item["namespace"] else str(item["name"])


def _print_fleet(fleet: Mapping[str, Sequence[str]]) -> None:
    if words := describe_fleet(fleet):
        print_line(f"Fleet: {words}")
        click.echo()


def describe_fleet(fleet: Mapping[str, Sequence[str]]) -> str:
    """Return the members that a plan assumes to join, change or leave, or an empty string."""
    return ", ".join(
        f"{word} {' '.join(fleet[word])}" for word in ("gained", "changed", "drained", "lost") if fleet[word]
    )


def _row(entry: JsonObject) -> list[str]:
    """Return one placement. ``+`` marks gained clusters, ``-`` lost ones."""
    gained, lost = set(entry["moves"]["gained"]), entry["moves"]["lost"]
    picked = [pick["cluster"] for pick in entry["picked"]]
    remaining = [cluster for cluster in picked if cluster not in gained]
    words = [f"+{cluster}" for cluster in picked if cluster in gained]
    words += remaining[:MOST_KEPT]
    if len(remaining) > MOST_KEPT:
        words.append(f"(and {len(remaining) - MOST_KEPT} more)")
    words += [f"-{cluster}" for cluster in lost]
    requested = "all" if entry["wanted"] is None else str(entry["wanted"])
    ends = entry["rollout"]["type"] == "Deletion"
    reason = "" if entry["satisfied"] and not ends else entry["message"]
    return [reference(entry), entry["type"], requested, str(len(picked)), " ".join(words), reason]


def _rollouts(entries: Sequence[JsonObject]) -> Iterator[str]:
    """Yield the rollouts of placements, except those that reach all their clusters in one step."""
    first = True
    for entry in entries:
        lines = list(rollout_lines(entry["rollout"], entry["moves"]["stays"]))
        if lines:
            if first:
                yield ""
                yield "Rollout:"
                first = False
            yield f"  {reference(entry)}"
            yield from (f"    {line}" for line in lines)


def print_comparison(answer: JsonObject, names: tuple[str, str]) -> None:
    """Print two policies side by side: the clusters they disagree about, and a count of the rest.

    Args:
        answer: The document.
        names: Names of the two policies.
    """
    for name, side in zip(names, ("left", "right"), strict=True):
        head = answer[side]
        requested = "all" if head["wanted"] is None else head["wanted"]
        line = f"{name}: {reference(head)}, {head['type']}, wants {requested}, gets {head['found']}"
        print_line(line if head["satisfied"] else f"{line}: {head['message']}")
    different = [cluster for cluster in answer["clusters"] if cluster["differs"]]
    if different:
        click.echo()
        rows = [[row["cluster"], *_sides(row), row["why"]] for row in different]
        print_table(["CLUSTER", *names, "WHY"], rows)
    if rest := len(answer["clusters"]) - len(different):
        subject = "1 cluster is" if rest == 1 else f"{rest} clusters are"
        click.echo(f"\n{subject} evaluated the same by both.")


def _sides(row: JsonObject) -> list[str]:
    return [_verdict(row["left"]), _verdict(row["right"])]


def _verdict(verdict: JsonObject) -> str:
    if verdict["rank"] is None:
        return str(verdict["verdict"])
    score = verdict["score"]
    points = str(score["affinity"]) + (f"{score['topologySpread']:+d}" if score["topologySpread"] else "")
    return f"{verdict['rank']}. {verdict['verdict']} ({points})"


def reference(entry: Mapping[str, Any]) -> str:
    """Return the user-facing reference of a placement."""
    return f"rp/{entry['namespace']}/{entry['name']}" if entry["namespace"] else f"crp/{entry['name']}"


def describe_cluster(entry: JsonObject, cluster: str) -> str:
    """Return the outcome for a cluster in the decision on a placement, in one line."""
    for pick in entry["picked"]:
        if pick["cluster"] == cluster:
            return f"{cluster}: picked as number {pick['rank']}{_scored(pick.get('score'))}"
    for cluster_entry in entry["filtered"]:
        if cluster_entry["cluster"] == cluster:
            return printable(f"{cluster}: {cluster_entry['plugin']}: {cluster_entry['reason']}")
    for cluster_entry in entry["notPicked"]:
        if cluster_entry["cluster"] == cluster:
            last = entry["picked"][-1] if entry["picked"] else None
            against = f"; the last one picked, {last['cluster']}, has{_scored(last.get('score'))[1:]}" if last else ""
            return f"{cluster}: ScoreTooLow: passes every check{_scored(cluster_entry.get('score'))}{against}"
    if any(cluster_entry["cluster"] == cluster for cluster_entry in entry["dropped"]):
        ends = entry["rollout"]["type"] == "Deletion"
        return f"{cluster}: {'removed with the placement' if ends else 'removed: no longer a member of the fleet'}"
    return f"{cluster}: is not a member of the fleet, or was not evaluated"


def _scored(score: Mapping[str, Any] | None) -> str:
    if not score:
        return ""
    spread = f", spread {score['topologySpread']}" if score["topologySpread"] else ""
    return f", affinity score {score['affinity']}{spread}"


def rollout_lines(rollout: JsonObject, stays: Sequence[str]) -> Iterator[str]:
    """Yield information that the table lacks: blockers of the rollout, and the order of several steps."""
    for eviction in rollout["evictions"]:
        cluster = eviction["cluster"]
        if not eviction["executed"]:
            yield f"not evicted from {cluster}: {eviction['message']}"
        elif cluster in stays:
            reason = "it still qualifies" if eviction.get("name") else "it tolerates the taint"
            yield f"evicted from {cluster}, and placed there again, because {reason}"
        elif eviction["budget"] or eviction.get("name"):
            yield f"evicted from {cluster}: {eviction['message']}"
    if rollout["applyStrategy"]:
        yield f"apply strategy changed immediately on {' '.join(rollout['applyStrategy'])}"
    for wait in rollout["waits"]:
        yield f"waits: {wait['cluster']}: {wait['message']}"
    steps = rollout["steps"]
    if len(steps) > 1 or any(step["update"] for step in steps) or (steps and rollout["blocked"]):
        yield from (f"{step['step']}. {_step(step)}" for step in steps)
        if rollout["more"]:
            yield f"   and so on, for {format_count(rollout['more'], 'more cluster')}"
    for removal in rollout.get("removals", ()):
        digest = f" (digest {removal['digest']})" if removal["digest"] else ""
        yield f"keeps its content: {removal['cluster']}: {removal['message']}{digest}"
    for removal in rollout.get("contentRemovals", ()):
        digest = f" (digest {removal['digest']})" if removal["verdict"] == "Pending" else ""
        place = f" on {' '.join(removal['clusters'])}" if removal.get("clusters") else ""
        yield f"{_REMOVALS[removal['verdict']]}: {removal['effect']}{place}{digest}"
    for failure in rollout.get("failures", ()):
        yield f"fails: {failure['cluster']}: {failure['message']}"
    if blockage := rollout["blocked"]:
        cluster_names = f"{' '.join(blockage['clusters'])}: " if blockage["clusters"] else ""
        yield f"waits: {cluster_names}{blockage['message']}"


def _step(step: JsonObject) -> str:
    words = (("update", "update"), ("bind", "place on"), ("remove", "remove from"))
    return "; ".join(f"{verb} {' '.join(step[key])}" for key, verb in words if step[key])


def difference_lines(entry: JsonObject, group: JsonObject, side: str) -> Iterator[str]:
    """Yield the lines of the differences on a group of clusters."""
    yield f"# {reference(entry)} on {' '.join(group['clusters'])}"
    for item in group["objects"]:
        kind = f"{item['kind']}.{item['group']}" if item["group"] else item["kind"]
        place = "/".join(filter(None, (kind, item["namespace"], item["name"])))
        yield "--- /dev/null" if item["change"] == "Added" else f"--- {side}/{place}"
        yield "+++ /dev/null" if item["change"] == "Removed" else f"+++ rendered/{place}"
        yield from item["diff"]
