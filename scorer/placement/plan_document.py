"""The effect of a scheduling run on a placement, as an entry of the plan for users and programs.

Source: design of the command line, ``harbormaster plan -o json``; docs/specifications/scheduling.md 14.
"""

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from operator import attrgetter
from typing import Annotated, Any

from typing_extensions import TypedDict

from scorer.api.conditions import TRUE
from scorer.api.names import PARENT_PLACEMENT
from scorer.api.placement.placement import PlacementType
from scorer.api.unstructured.documents import dict_at, is_labelled_latest, label, namespace_of, spec_of
from scorer.api.values.answer import one_of
from scorer.fleet import Fleet
from scorer.placement.binding_plan import read_binding
from scorer.placement.explanation import PairOfScores
from scorer.placement.holdings import Binding
from scorer.placement.policy_hash import policy_hash
from scorer.placement.record import scheduled_condition
from scorer.placement.request import read_request
from scorer.placement.schedule import ScheduleResult, Scored, hold, schedule
from scorer.selectors import InvalidPolicyError

WOULD_BE_NEXT = "?"
"""Placeholder for the policy snapshot of a changed policy, which has none yet: every binding counts as obsolete."""


class PlannedPick(TypedDict):
    """A cluster that the placement would have."""

    cluster: str
    rank: int
    new: bool
    """Whether the placement gains the cluster."""
    score: PairOfScores


class Loser(TypedDict):
    """A cluster that passes every filter but is not among the best."""

    cluster: str
    score: PairOfScores


class Filtered(TypedDict):
    """A cluster that a filter rejects."""

    cluster: str
    plugin: str
    reason: str


class DroppedBinding(TypedDict):
    """A binding that would be dropped."""

    cluster: str
    binding: str


class PlacementDecision(TypedDict):
    """The scheduler's decision about one placement."""

    name: str
    namespace: str
    type: Annotated[str, one_of(*PlacementType)]
    wanted: int | None
    """Number of clusters that the placement requests. Null: all, or the policy cannot be evaluated."""
    picked: list[PlannedPick]
    """Picked clusters by their current scores, then kept ones by the scores recorded when they were picked.

    `/v1/score` ranks all of them by their current scores.
    """
    notPicked: list[Loser]
    filtered: list[Filtered]
    dropped: list[DroppedBinding]
    satisfied: bool
    message: str
    """The message of the Scheduled condition."""


def decide(
    placement: Mapping[str, Any],
    fleet: Fleet,
    bindings: Iterable[Mapping[str, Any]],
    snapshots: Sequence[Mapping[str, Any]],
    now: datetime,
    previous: ScheduleResult | None = None,
) -> ScheduleResult:
    """Schedule a placement by its current policy, without writing anything.

    Args:
        placement: ClusterResourcePlacement or ResourcePlacement.
        fleet: The clusters to schedule it on.
        bindings: Bindings of the placement.
        snapshots: Its policy snapshots. If the latest one holds the current policy, its bindings are current and all
            others obsolete. If it holds an earlier policy, all bindings are obsolete. Without any snapshot, all
            bindings are current.
        now: Reference instant for heartbeats and expirations.
        previous: Another run, as for `schedule`.

    Raises:
        scorer.placement.binding_plan.BrokenBindingError: A binding cannot be read.
    """
    policy = spec_of(placement).get("policy")
    name = _policy_in_force(policy, snapshots)
    current_bindings: list[Binding] = []
    for document in bindings:
        current = name if name is not None else document["spec"].get("schedulingPolicySnapshotName") or ""
        current_bindings.append(read_binding(document, current))
    try:
        request = read_request(policy, namespace=namespace_of(placement))
    except InvalidPolicyError as error:
        return hold(str(error), fleet, current_bindings, now)
    return schedule(request, fleet, current_bindings, now, previous)


def _policy_in_force(policy: Mapping[str, Any] | None, snapshots: Sequence[Mapping[str, Any]]) -> str | None:
    if not snapshots:
        return None
    digest = policy_hash(policy)
    for snapshot in snapshots:
        latest = is_labelled_latest(snapshot)
        if latest and policy_hash(snapshot["spec"].get("policy")) == digest:
            return str(snapshot["metadata"]["name"])
    return WOULD_BE_NEXT


def children_of(placement: Mapping[str, Any], documents: Iterable[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Return the bindings or snapshots among *documents* that were made for *placement*."""
    owner = placement["metadata"]
    namespace = owner.get("namespace", "")
    return [
        document
        for document in documents
        if label(document, PARENT_PLACEMENT) == owner["name"] and document["metadata"].get("namespace", "") == namespace
    ]


def plan_entry(placement: Mapping[str, Any], run: ScheduleResult) -> PlacementDecision:
    """Return the decision of *run* for one placement.

    ``picked`` lists the picked clusters by rank, then the kept ones by recorded scores. ``filtered`` and ``notPicked``
    are complete, unlike a record. A cluster that is picked again under another policy is not new.
    """
    metadata = placement["metadata"]
    request = run.request
    obsolete_clusters = {binding.cluster for binding in run.holdings.obsolete}
    picked: list[PlannedPick] = [
        {"cluster": pick.cluster, "rank": rank, "new": pick.cluster not in obsolete_clusters, "score": _score(pick)}
        for rank, pick in enumerate(run.picked, start=1)
    ]
    for rank, binding in enumerate(
        sorted(run.kept, key=attrgetter("recorded_keys"), reverse=True), start=len(picked) + 1
    ):
        score: PairOfScores = {"topologySpread": binding.topology or 0, "affinity": binding.affinity or 0}
        picked.append({"cluster": binding.cluster, "rank": rank, "new": False, "score": score})
    selected = {entry["cluster"] for entry in picked}
    rejections: list[Filtered] = [
        {"cluster": name, "plugin": rejection.plugin, "reason": str(rejection)} for name, rejection in run.missed
    ]
    losers: list[Scored] = []
    if run.last is not None:
        losers = [loser for loser in run.last.unselected() if loser.cluster not in selected]
        for row in run.last.rejected_rows().tolist():
            rejection = run.last.reject(row)
            name = run.fleet.names[row]
            if rejection is not None and name not in selected:
                rejections.append({"cluster": name, "plugin": rejection.plugin, "reason": str(rejection)})
    status, _, message = scheduled_condition(run)
    return {
        "name": metadata["name"],
        "namespace": metadata.get("namespace", ""),
        "type": str(request.policy.placement_type) if request else (_written_type(placement)),
        "wanted": request.wanted if request else None,
        "picked": picked,
        "notPicked": [{"cluster": loser.cluster, "score": _score(loser)} for loser in losers],
        "filtered": rejections,
        "dropped": [{"cluster": binding.cluster, "binding": binding.name} for binding in run.dropped],
        "satisfied": status == TRUE,
        "message": message,
    }


def _written_type(placement: Mapping[str, Any]) -> str:
    return str(dict_at(placement, "spec", "policy").get("placementType") or "PickAll")


def _score(pick: Scored) -> PairOfScores:
    return {"topologySpread": pick.topology, "affinity": pick.affinity}
