"""Parts of a plan in plain words: what a placement is called, what became of a cluster, how a rollout would go."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from scorer.api.meta import JsonObject
from scorer.api.quoting import printable


def reference(entry: Mapping[str, Any]) -> str:
    """Return what users call the placement of an entry."""
    return f"rp/{entry['namespace']}/{entry['name']}" if entry["namespace"] else f"crp/{entry['name']}"


def fate_of(entry: JsonObject, cluster: str) -> str:
    """Return what became of a cluster in the decision on a placement, in one line."""
    for pick in entry["picked"]:
        if pick["cluster"] == cluster:
            return f"{cluster}: picked as number {pick['rank']}{_scored(pick.get('score'))}"
    for one in entry["filtered"]:
        if one["cluster"] == cluster:
            return printable(f"{cluster}: {one['plugin']}: {one['reason']}")
    for one in entry["notPicked"]:
        if one["cluster"] == cluster:
            last = entry["picked"][-1] if entry["picked"] else None
            against = f"; the last one picked, {last['cluster']}, has{_scored(last.get('score'))[1:]}" if last else ""
            return f"{cluster}: ScoreTooLow: passes every check{_scored(one.get('score'))}{against}"
    if any(one["cluster"] == cluster for one in entry["dropped"]):
        ends = entry["rollout"]["type"] == "Deletion"
        return f"{cluster}: {'goes with the placement' if ends else 'goes: it is no longer a member of the fleet'}"
    return f"{cluster}: is no member of the fleet, or was not looked at"


def _scored(score: Mapping[str, Any] | None) -> str:
    if not score:
        return ""
    spread = f", spread {score['topologySpread']}" if score["topologySpread"] else ""
    return f", affinity score {score['affinity']}{spread}"


def rollout_lines(rollout: JsonObject, stays: Sequence[str]) -> Iterator[str]:
    """Yield what the table does not say: what blocks the rollout, and the order of its steps if there are several."""
    for eviction in rollout["evictions"]:
        cluster = eviction["cluster"]
        if not eviction["executed"]:
            yield f"not evicted from {cluster}: {eviction['message']}"
        elif cluster in stays:
            yield f"evicted from {cluster}, and placed there again, because it tolerates the taint"
        elif eviction["budget"]:
            yield f"evicted from {cluster}: {eviction['message']}"
    if rollout["applyStrategy"]:
        yield f"apply strategy changed at once on {' '.join(rollout['applyStrategy'])}"
    for wait in rollout["waits"]:
        yield f"waits: {wait['cluster']}: {wait['message']}"
    steps = rollout["steps"]
    if len(steps) > 1 or any(step["update"] for step in steps) or (steps and rollout["blocked"]):
        yield from (f"{step['step']}. {_step(step)}" for step in steps)
        if rollout["more"]:
            yield f"   and so on, for {rollout['more']} more clusters"
    if blocked := rollout["blocked"]:
        waiting = f"{' '.join(blocked['clusters'])}: " if blocked["clusters"] else ""
        yield f"waits: {waiting}{blocked['message']}"


def _step(step: JsonObject) -> str:
    words = (("update", "update"), ("bind", "place on"), ("remove", "remove from"))
    return "; ".join(f"{verb} {' '.join(step[key])}" for key, verb in words if step[key])
