"""The status of a hub as in ``GET /v1/status``, computed from the answers of the other lists of ``/v1``.

An entry is about one object. Its command resolves the problem, such as an approval does, or shows the details.
"""

import shlex
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Annotated, Final

from typing_extensions import TypedDict

from scorer.api.conditions import FALSE
from scorer.api.values.answer import Count, Instant, one_of
from scorer.rollout.views.removals import PlacementRemovals, UnconfirmedRemoval
from scorer.windows.overview import WindowOverview
from webhook.answers.clusters import Cluster
from webhook.answers.placements import Placement
from webhook.answers.run_answers import UpdateRun

MOST_ITEMS: Final = 50
"""Maximum number of items in a section. Its total counts all."""

_FAILED_RUNS: Final = frozenset({"failed", "aborted"})
_FINISHED_RUNS: Final = _FAILED_RUNS | {"succeeded", "skipped"}
_FAILED_PLACEMENTS: Final = frozenset({"failed", "invalid"})
_STUCK_PLACEMENTS: Final = frozenset({"stalled", "short"})
_DECIDED_PLACEMENTS: Final = frozenset({"short", "invalid"})
"""`harbormaster explain` shows the details of these states, and `harbormaster tree` those of all others."""
_COMING_CLUSTERS: Final = frozenset({"leaving", "not joined"})
"""States of clusters that are expected while a cluster joins or leaves."""


class StatusTally(TypedDict):
    """Number of objects in each state."""

    total: Count
    states: dict[str, int]
    """States without an object are absent."""


class StatusItem(TypedDict):
    """An object that needs attention."""

    ref: str
    """Such as `cluster/east`, `crp/payments`, `csur/spring` or `cuprun/kubernetes-1-31`."""
    state: str
    """State of the object, as its own list shows it."""
    message: str
    since: Instant | None
    """Null: unknown."""
    command: str
    """The command that resolves the problem, such as an approval, or that shows the details."""


class StatusSection(TypedDict):
    """Objects that need attention, the longest waiting first, at most fifty."""

    total: Count
    items: list[StatusItem]


class StatusRemoval(TypedDict):
    """A removal of content that waits for confirmation, or orphaned content."""

    ref: str
    """Reference of the placement."""
    effect: str
    digest: str
    """Empty: orphaned content, which no confirmation removes, or details that the caller may not read."""
    objects: Count
    """Number of objects that each of the clusters loses. 0: unknown."""
    clusterCount: Count
    """Number of clusters that lose content. 0: unknown."""
    since: Instant | None
    """Null: unknown."""
    command: str
    """The command that confirms it. Empty: orphaned content."""


class StatusRemovals(TypedDict):
    """Pending removals, the longest waiting first, at most fifty."""

    total: Count
    items: list[StatusRemoval]


class StatusWindows(TypedDict):
    """Maintenance windows, those that open or close first, at most fifty."""

    total: Count
    items: list[WindowOverview]


class FleetStatus(TypedDict):
    """The status of a hub, as far as the caller may read it."""

    verdict: Annotated[str, one_of("ok", "attention")]
    """`attention`: something waits for a user, fails, is stuck, or waits for confirmation."""
    clusters: StatusTally
    placements: StatusTally
    runs: StatusTally
    """Unfinished runs."""
    waiting: StatusSection
    """Runs that continue only after user action."""
    failing: StatusSection
    """Placements, latest runs and clusters that fail."""
    stuck: StatusSection
    """Placements and runs without progress, and placements without enough clusters, or of type PickAll without any."""
    removals: StatusRemovals
    windows: StatusWindows
    unread: list[str]
    """Kinds that the caller may not read or that the hub does not serve, as `plural.group`: not included above."""


@dataclass(frozen=True, slots=True)
class FleetFacts:
    """The lists that a status is computed from.

    Args:
        clusters: All member clusters.
        placements: All placements.
        runs: All runs, the latest first.
        removals: Pending removals by placement.
        windows: All maintenance windows, in the order of their next change.
        unread: Kinds that the caller may not read.
    """

    clusters: Sequence[Cluster]
    placements: Sequence[Placement]
    runs: Sequence[UpdateRun]
    removals: Sequence[PlacementRemovals]
    windows: Sequence[WindowOverview]
    unread: Sequence[str]


def fleet_status(facts: FleetFacts) -> FleetStatus:
    """Return the number of objects in each state, and the objects that need attention."""
    waiting = [item for run in facts.runs if (item := _waiting_run(run))]
    failing = [
        *map(_failing_cluster, filter(_is_failing, facts.clusters)),
        *(_placement_item(item) for item in facts.placements if item["state"] in _FAILED_PLACEMENTS),
        *(_run_item(run) for run in _latest_runs(facts.runs) if run["state"] in _FAILED_RUNS),
    ]
    stuck = [
        *(_placement_item(item) for item in facts.placements if item["state"] in _STUCK_PLACEMENTS),
        *(_unplaced_item(item) for item in facts.placements if _is_unplaced(item)),
        *(_run_item(run) for run in facts.runs if run["state"] == "stuck"),
    ]
    removals = list(_removals(facts))
    removals.sort(key=lambda removal: (removal["since"] or "", removal["ref"], removal["digest"]))
    needs_attention = waiting or failing or stuck or removals
    return {
        "verdict": "attention" if needs_attention else "ok",
        "clusters": _tally(cluster["state"] for cluster in facts.clusters),
        "placements": _tally(item["state"] for item in facts.placements),
        "runs": _tally(run["state"] for run in facts.runs if run["state"] not in _FINISHED_RUNS),
        "waiting": _section(waiting),
        "failing": _section(failing),
        "stuck": _section(stuck),
        "removals": {"total": len(removals), "items": removals[:MOST_ITEMS]},
        "windows": {"total": len(facts.windows), "items": list(facts.windows[:MOST_ITEMS])},
        "unread": sorted(facts.unread),
    }


def _tally(states: Iterable[str]) -> StatusTally:
    counts = Counter(states)
    return {"total": counts.total(), "states": dict(sorted(counts.items()))}


def _section(items: list[StatusItem]) -> StatusSection:
    """Return the items, the longest waiting first. Those without a known time are last."""
    ordered = sorted(items, key=lambda item: (item["since"] is None, item["since"] or "", item["ref"]))
    return {"total": len(ordered), "items": ordered[:MOST_ITEMS]}


def _waiting_run(run: UpdateRun) -> StatusItem | None:
    wait = next((wait for wait in run["waits"] if wait["command"]), None)
    if wait is None:
        return None
    message = f"waits for {wait['message']}"
    return _item(run["ref"], run["state"], message, wait["since"], wait["command"])


def _latest_runs(runs: Iterable[UpdateRun]) -> Iterator[UpdateRun]:
    """Yield the latest run of each placement, and the latest upgrade run. *runs* has the latest first."""
    placements = set()
    for run in runs:
        if run["placement"] not in placements:
            placements.add(run["placement"])
            yield run


def _run_item(run: UpdateRun) -> StatusItem:
    is_upgrade = "upgrade" in run
    words = ["upgrade" if is_upgrade else "run", "status", run["name"]]
    words += ["-n", run["namespace"]] if run["namespace"] else []
    since = run["endedAt"] or next((wait["since"] for wait in run["waits"] if wait["since"]), None)
    return _item(run["ref"], run["state"], run["why"] or run["rejected"], since, _command(*words))


def _is_failing(cluster: Cluster) -> bool:
    return cluster["state"] != "eligible" and cluster["state"] not in _COMING_CLUSTERS


def _failing_cluster(cluster: Cluster) -> StatusItem:
    ref = f"cluster/{cluster['name']}"
    since = cluster.get("refusingSince") if cluster["eligible"] else cluster["lastHeartbeat"]
    return _item(ref, cluster["state"], cluster["stateDetail"], since, _command("describe", ref))


def _placement_item(placement: Placement) -> StatusItem:
    state = placement["state"]
    word = "explain" if state in _DECIDED_PLACEMENTS else "tree"
    command = _command(word, placement["ref"])
    return _item(placement["ref"], state, placement["why"], placement["stalledSince"] or _since(placement), command)


def _is_unplaced(placement: Placement) -> bool:
    """Return whether no member cluster meets the policy of a PickAll placement.

    The conditions of such a placement do not show this: they are those of a successful one.
    """
    return placement["type"] == "PickAll" and placement["state"] == "available" and not placement["clusters"]


def _unplaced_item(placement: Placement) -> StatusItem:
    command = _command("explain", placement["ref"])
    message = "no member cluster meets its policy"
    return _item(placement["ref"], placement["state"], message, placement["decidedAt"], command)


def _since(placement: Placement) -> str | None:
    """Return the earliest transition time of the conditions that are False, or None."""
    conditions = (entry for entry in placement["conditions"] if entry.get("status") == FALSE)
    times = (str(entry["lastTransitionTime"]) for entry in conditions if entry.get("lastTransitionTime"))
    return min(times, default=None)


def _removals(facts: FleetFacts) -> Iterator[StatusRemoval]:
    """Yield the pending removals. Those of a placement without details are one entry, without a digest."""
    detailed = set()
    for item in facts.removals:
        for removal in item["removals"]:
            detailed.add(item["placement"])
            yield _removal(item["placement"], removal)
    for placement in facts.placements:
        if (since := placement["removalPendingSince"]) and (ref := placement["ref"]) not in detailed:
            effect, command = "removals that wait for confirmation", _command("confirm", ref)
            yield StatusRemoval(
                ref=ref, effect=effect, digest="", objects=0, clusterCount=0, since=since, command=command
            )


def _removal(ref: str, removal: UnconfirmedRemoval) -> StatusRemoval:
    digest = removal["digest"]
    return {
        "ref": ref,
        "effect": removal["effect"],
        "digest": digest,
        "objects": removal["objects"],
        "clusterCount": removal["clusterCount"],
        "since": removal["since"],
        "command": _command("confirm", ref, "--digest", digest) if digest else "",
    }


def _item(ref: str, state: str, message: str, since: str | None, command: str) -> StatusItem:
    return {"ref": ref, "state": state, "message": message, "since": since, "command": command}


def _command(*words: str) -> str:
    return shlex.join(["harbormaster", *words])
