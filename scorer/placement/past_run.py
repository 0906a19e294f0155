"""Past decisions as the hub recorded them, and how one differs from the one before it, in words.

The record is the status of a policy snapshot: the selected clusters, the first of those that were not selected, and the
condition ``Scheduled``.

Source: docs/specifications/scheduling.md 17 and 22.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final, NamedTuple, NotRequired

from typing_extensions import TypedDict

from scorer.api.meta import format_time
from scorer.api.names import NUMBER_OF_CLUSTERS
from scorer.api.placement.placement import PlacementType
from scorer.api.unstructured.documents import annotation, conditions_of, dict_at, list_at
from scorer.api.values.answer import Instant
from scorer.placement.explanation import PairOfScores, Trigger, TriggerEvent
from scorer.placement.record import reason_category

MOST_SHOWN: Final = 10
"""Maximum number of listed differences of one kind."""

_TOTALS: Final = re.compile(r"; [0-9]+ of [0-9]+ do(?:es)? not qualify: ((?:[0-9]+ [A-Za-z]+(?:, )?)+)$", re.ASCII)


class RecordedClusterDecision(NamedTuple):
    """The recorded decision about one cluster. Scores are None if unrecorded, *reason* is empty for a selected one."""

    cluster: str
    topology: int | None
    affinity: int | None
    reason: str = ""


class RecordedPick(TypedDict):
    """A cluster as it was picked."""

    cluster: str
    score: NotRequired[PairOfScores]
    """Absent if scores did not matter."""


class PastRun(TypedDict):
    """One decision as it was recorded, compared with the one before it."""

    time: Instant
    """When it was made."""
    trigger: Trigger
    snapshot: str
    """The policy snapshot it was made under."""
    wanted: int | None
    """Number of requested clusters. Null: all."""
    found: int
    satisfied: bool
    fleetSize: int | None
    """Number of clusters in the fleet. Null: unknown, because the decision was made before the server started."""
    picked: list[RecordedPick]
    gained: list[str]
    lost: list[str]
    counts: dict[str, int]
    """Number of clusters that were not selected, by reason."""
    message: str
    """The message of the Scheduled condition."""
    difference: list[str]
    """Differences from the previous run, in words."""
    until: NotRequired[Instant]
    """When an equal decision was last made."""
    times: NotRequired[int]
    """Number of consecutive equal decisions."""


@dataclass(frozen=True, slots=True)
class DecisionTrigger:
    """The cause of a decision.

    Args:
        event: Machine-readable cause.
        objects: Names of the changed objects, the likeliest cause first.
        message: Human-readable cause.
    """

    event: TriggerEvent
    objects: tuple[str, ...] = ()
    message: str = ""

    def document(self) -> Trigger:
        """Return the trigger as JSON."""
        return {"event": self.event, "objects": list(self.objects), "message": self.message}


@dataclass(frozen=True, slots=True)
class RecordedDecision:
    """One decision as it was recorded.

    Args:
        time: Time at which it was observed. For a record from before this process started, the last transition of its
            condition.
        trigger: Cause.
        snapshot: Name of the policy snapshot.
        index: Index of the policy snapshot.
        wanted: Number of clusters that the policy requested. None: unlimited, all that pass.
        picked: The selected clusters, in the order of the record.
        others: The first of those that were not selected.
        satisfied: Whether the placement has all clusters that its policy requests.
        message: Message of the Scheduled condition.
        fleet_size: Number of clusters in the fleet. None: unknown.
        until: Time at which an equal decision was last observed.
        times: Number of consecutive equal decisions.
    """

    time: datetime
    trigger: DecisionTrigger
    snapshot: str
    index: int
    wanted: int | None
    picked: tuple[RecordedClusterDecision, ...]
    others: tuple[RecordedClusterDecision, ...]
    satisfied: bool
    message: str
    fleet_size: int | None
    until: datetime
    times: int = 1

    @property
    def clusters(self) -> dict[str, RecordedClusterDecision]:
        """The selected clusters by name."""
        return {decision.cluster: decision for decision in self.picked}

    def repeats(self, other: "RecordedDecision") -> bool:
        """Return whether both decisions are equal: policy snapshot, requested number, selected clusters, and outcome.

        The selected clusters must have the same scores.
        """
        return (self.snapshot, self.wanted, self.picked, self.satisfied) == (
            other.snapshot,
            other.wanted,
            other.picked,
            other.satisfied,
        )


def scheduled(snapshot: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """Return the condition ``Scheduled`` of a policy snapshot. None: not decided yet."""
    conditions = conditions_of(snapshot)
    return next((condition for condition in conditions if condition.get("type") == "Scheduled"), None)


def requested_clusters(snapshot: Mapping[str, Any]) -> int | None:
    """Return how many clusters a policy snapshot requests. None: unlimited, or an invalid number."""
    policy = dict_at(snapshot, "spec", "policy")
    match policy.get("placementType"):
        case PlacementType.PICK_FIXED:
            return len(policy.get("clusterNames") or ())
        case PlacementType.PICK_N:
            number = annotation(snapshot, NUMBER_OF_CLUSTERS)
            return int(number) if number.isdecimal() else None
        case _:
            return None


def decisions_in(
    snapshot: Mapping[str, Any],
) -> tuple[tuple[RecordedClusterDecision, ...], tuple[RecordedClusterDecision, ...]]:
    """Return the recorded decisions of a policy snapshot: the selected clusters, and the others."""
    picked: list[RecordedClusterDecision] = []
    other_decisions: list[RecordedClusterDecision] = []
    for entry in list_at(snapshot, "status", "targetClusters"):
        score = entry.get("clusterScore")
        topology = None if score is None else score.get("priorityScore") or 0
        affinity = None if score is None else score.get("affinityScore") or 0
        selected = bool(entry.get("selected"))
        reason = "" if selected else entry.get("reason") or ""
        (picked if selected else other_decisions).append(
            RecordedClusterDecision(entry["clusterName"], topology, affinity, reason)
        )
    return tuple(picked), tuple(other_decisions)


def counts_of(run: RecordedDecision) -> dict[str, int]:
    """Count the clusters that were not selected, by category.

    Counts in the message cover the whole fleet and take precedence. The record lists only the first of these clusters.
    """
    if (totals := _TOTALS.search(run.message)) is not None:
        pairs = (part.split(" ") for part in totals[1].split(", "))
        return {category: int(count) for count, category in pairs}
    counts: dict[str, int] = {}
    for decision in run.others:
        category = reason_category({"reason": decision.reason})
        counts[category] = counts.get(category, 0) + 1
    return dict(sorted(counts.items(), key=lambda entry: (-entry[1], entry[0])))


def run_document(run: RecordedDecision, previous: RecordedDecision | None) -> PastRun:
    """Return one run as JSON, compared with *previous*, the run before it."""
    gains, losses = changes(previous, run)
    document: PastRun = {
        "time": format_time(run.time),
        "trigger": run.trigger.document(),
        "snapshot": run.snapshot,
        "wanted": run.wanted,
        "found": len(run.picked),
        "satisfied": run.satisfied,
        "fleetSize": run.fleet_size,
        "picked": [_recorded_pick(decision) for decision in run.picked],
        "gained": [decision.cluster for decision in gains],
        "lost": [decision.cluster for decision in losses],
        "counts": counts_of(run),
        "message": run.message,
        "difference": difference(previous, run),
    }
    if run.times > 1:
        document |= {"until": format_time(run.until), "times": run.times}
    return document


def _recorded_pick(decision: RecordedClusterDecision) -> RecordedPick:
    if decision.affinity is None:
        return {"cluster": decision.cluster}
    return {
        "cluster": decision.cluster,
        "score": {"topologySpread": decision.topology or 0, "affinity": decision.affinity},
    }


def changes(
    old_run: RecordedDecision | None, new_run: RecordedDecision
) -> tuple[list[RecordedClusterDecision], list[RecordedClusterDecision]]:
    """Return the clusters that only *new_run* selected, and the clusters that only *old_run* selected."""
    if old_run is None:
        return list(new_run.picked), []
    old_clusters, new_clusters = old_run.clusters, new_run.clusters
    gains = [decision for decision in new_run.picked if decision.cluster not in old_clusters]
    return gains, [decision for decision in old_run.picked if decision.cluster not in new_clusters]


def difference(old_run: RecordedDecision | None, new_run: RecordedDecision) -> list[str]:
    """Return messages about the differences between two runs: which cluster replaced which, and why."""
    if old_run is None:
        return ["the first recorded decision"]
    notes = []
    if old_run.wanted != new_run.wanted:
        notes.append(f"requests {_number(new_run.wanted)} instead of {_number(old_run.wanted)}")
    gains, losses = changes(old_run, new_run)
    notes += _cut([_swap(new, old, new_run) for new, old in zip(gains, losses, strict=False)])
    notes += _cut([f"{new.cluster} added{_scores(new)}" for new in gains[len(losses) :]])
    notes += _cut([f"{old.cluster} dropped{_loss_reason(old, new_run)}" for old in losses[len(gains) :]])
    notes += _cut([*_moves(old_run, new_run)])
    if old_run.satisfied != new_run.satisfied:
        notes.append("has all requested clusters" if new_run.satisfied else "no longer has all requested clusters")
    return notes or ["the same clusters with the same scores"]


def _number(number: int | None) -> str:
    return "every cluster that passes" if number is None else str(number)


def _cut(notes: Sequence[str]) -> list[str]:
    more = len(notes) - MOST_SHOWN
    return [*notes[:MOST_SHOWN], *([f"and {more} more"] if more > 0 else [])]


def _swap(new: RecordedClusterDecision, old: RecordedClusterDecision, run: RecordedDecision) -> str:
    """Return a message about the replacement of *old* by *new*, with the reason."""
    now = next((decision for decision in run.others if decision.cluster == old.cluster), None)
    words = f"{new.cluster} instead of {old.cluster}"
    if now is None:
        return f"{words}: {old.cluster} is no longer in the record{_scores(old, 'had')}"
    if now.affinity is None or new.affinity is None:
        return f"{words}: {now.reason}"
    return f"{words}: {_deciding_key(new, now)}"


def _deciding_key(winner: RecordedClusterDecision, loser: RecordedClusterDecision) -> str:
    """Return the first sort key that separates two clusters, as in ``affinity 91 > 78``."""
    for name, own, other in (
        ("topology spread", winner.topology or 0, loser.topology or 0),
        ("affinity", winner.affinity or 0, loser.affinity or 0),
    ):
        if own > other:
            return f"{name} {own} > {other}"
        if own < other:
            # The two were scored in different batches. The record does not contain the loser's score in the batch of
            # the winner.
            return f"scored in different batches, {name} {own} < {other}"
    return "equal scores, and the later name wins" if winner.cluster > loser.cluster else "equal scores"


def _scores(decision: RecordedClusterDecision, verb: str = "with") -> str:
    if decision.affinity is None:
        return ""
    spread = f" and topology spread {decision.topology}" if decision.topology else ""
    return f", {verb} affinity {decision.affinity}{spread}"


def _loss_reason(old: RecordedClusterDecision, run: RecordedDecision) -> str:
    now = next((decision for decision in run.others if decision.cluster == old.cluster), None)
    return f": {now.reason}" if now is not None and now.reason else _scores(old, "had")


def _moves(old_run: RecordedDecision, new_run: RecordedDecision) -> Iterable[str]:
    """Yield messages about the clusters in both runs whose recorded scores differ."""
    old_clusters = old_run.clusters
    for decision in new_run.picked:
        old = old_clusters.get(decision.cluster)
        if old is None or None in (old.affinity, decision.affinity):
            continue
        if old.affinity != decision.affinity:
            yield f"{decision.cluster}: affinity {old.affinity} → {decision.affinity}"
        if old.topology != decision.topology:
            yield f"{decision.cluster}: topology spread {old.topology} → {decision.topology}"
