"""The trace of a decision: every number that explains why a cluster was picked, kept or rejected.

The trace evaluates the plugins of the decision on its cycle, cluster by cluster. It computes only the numbers that the
decision did not need, so the trace and the decision cannot disagree.

Source: docs/specifications/scheduling.md 22.
"""

from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from operator import attrgetter
from typing import Any

import numpy as np

from scorer.api.meta import format_time, parse_time
from scorer.api.placement.binding import BindingState
from scorer.api.placement.placement import PlacementType
from scorer.framework.cycle import Cycle
from scorer.framework.status import Category, FilterRejection
from scorer.placement.explanation import (
    ExplainAnswer,
    ExplainedCluster,
    Gap,
    HeldBinding,
    PropertyObservation,
    SortKey,
    Trigger,
)
from scorer.placement.help import filter_advice, score_advice
from scorer.placement.holdings import Binding
from scorer.placement.plugin_numbers import (
    STALE_PERIODS,
    affinity_points,
    age,
    eligibility_check,
    filter_checks,
    topology_points,
)
from scorer.placement.policy_hash import policy_hash
from scorer.placement.record import scheduled_condition, unselected_counts
from scorer.placement.request import Request
from scorer.placement.schedule import Round, ScheduleResult, Scored, judge
from scorer.plugins.cluster_eligibility import eligible, ineligibility


@dataclass(frozen=True, slots=True)
class ClusterTrace:
    """One cluster in a decision."""

    cluster: str
    verdict: str
    rank: int | None = None
    scored: Scored | None = None
    binding: Binding | None = None
    rejection: FilterRejection | None = None


def cluster_traces(run: ScheduleResult) -> list[ClusterTrace]:
    """Return every cluster with its verdict, best first: selected, candidates, then the rest by name.

    It includes the clusters of the fleet, the clusters that the policy names, and the clusters that the run drops.

    Verdicts: ``Picked``, ``Kept``, ``ScoreTooLow``, ``NotNeeded`` (a candidate, but N is met), ``NotListed``,
    ``NotJudged`` (the policy cannot be evaluated), ``Dropped``, else the category of the filter that rejected it.
    """
    batch = _last_batch(run)
    traces = [ClusterTrace(pick.cluster, "Picked", scored=pick) for pick in run.picked]
    traces += [
        ClusterTrace(binding.cluster, "Kept", binding=binding)
        for binding in sorted(run.kept, key=attrgetter("recorded_keys"), reverse=True)
    ]
    selected = {trace.cluster for trace in traces}
    verdict = str(Category.SCORE_TOO_LOW) if run.last else "NotNeeded"
    losers = [loser for loser in batch.unselected() if loser.cluster not in selected] if batch else []
    traces += [ClusterTrace(loser.cluster, verdict, scored=loser) for loser in losers]
    traces = [replace(trace, rank=rank) for rank, trace in enumerate(traces, start=1)]
    traced_names = {trace.cluster for trace in traces}
    missing_clusters = dict(run.missed)
    all_names = {*run.fleet.names, *missing_clusters, *(binding.cluster for binding in run.dropped)}
    other_names = (name for name in sorted(all_names) if name not in traced_names)
    return traces + [_turned_away(run, batch, name, missing_clusters.get(name)) for name in other_names]


def _last_batch(run: ScheduleResult) -> Round | None:
    """Return the last batch. For a run that judged no cluster, return the batch that it would have had.

    None for such a run if it is PickFixed, or if its policy cannot be evaluated.
    """
    if run.last is not None or run.request is None:
        return run.last
    if run.request.policy.placement_type is PlacementType.PICK_FIXED:
        return None
    return judge(run.request, run.fleet, run.holdings, run.now)


def _turned_away(
    run: ScheduleResult, batch: Round | None, name: str, rejection: FilterRejection | None
) -> ClusterTrace:
    row = run.fleet.row(name)
    if rejection is None and batch is not None and row is not None:
        rejection = batch.reject(row)
    if rejection is not None:
        return ClusterTrace(name, str(rejection.category), rejection=rejection)
    binding = next((binding for binding in run.dropped if binding.cluster == name), None)
    verdict = "NotListed" if run.request is not None else "NotJudged"
    return ClusterTrace(name, verdict if binding is None else "Dropped", binding=binding)


def explain(run: ScheduleResult, names: Iterable[str] | None = None) -> list[ExplainedCluster]:
    """Explain a decision, cluster by cluster.

    Args:
        run: The decision.
        names: Only these clusters, None for all.

    Returns:
        One object per cluster as in scheduling.md 22, with the strings ``summary``, ``reason`` and ``help``.
    """
    selected = None if names is None else set(names)
    traces = cluster_traces(run)
    last_first = traces[::-1]
    last = next((entry for verdict in ("Picked", "Kept") for entry in last_first if entry.verdict == verdict), None)
    batch = _last_batch(run)
    border = _present_keys(run, batch, last) if last else None
    dropped_bindings = {binding.cluster: binding for binding in run.dropped}
    shown_traces = (entry for entry in traces if selected is None or entry.cluster in selected)
    return [_item(run, batch, entry, border, dropped_bindings.get(entry.cluster)) for entry in shown_traces]


@dataclass(frozen=True, slots=True)
class DecisionContext:
    """The placement that a decision was made for, and the cause of the decision.

    Args:
        placement: Reference of the placement, such as ``crp/payments``. Empty: a policy without a placement.
        snapshot: Name of the policy snapshot in force. Empty: none yet.
        trigger: The cause of the last decision. None: unknown.
    """

    placement: str = ""
    snapshot: str = ""
    trigger: Trigger | None = None


NO_OCCASION = DecisionContext()


def explanation(
    run: ScheduleResult,
    policy: Mapping[str, Any] | None,
    fleet_revision: str,
    names: Iterable[str] | None = None,
    occasion: DecisionContext = NO_OCCASION,
) -> ExplainAnswer:
    """Return the whole explanation of a decision, as ``/v1/explain`` returns it.

    Args:
        run: The decision.
        policy: The policy as written.
        fleet_revision: Revision of the fleet that was judged.
        names: Only these clusters, None for all.
        occasion: The placement that the decision was made for.
    """
    return {
        "placement": occasion.placement or None,
        "snapshot": occasion.snapshot or None,
        "trigger": occasion.trigger,
        "fleetRevision": fleet_revision,
        "policyHash": f"sha256:{policy_hash(policy)}",
        "evaluatedAt": format_time(run.now),
        "wanted": run.request.wanted if run.request else None,
        "found": run.selected_count,
        "fleetSize": len(run.fleet),
        "batches": run.last.number if run.last else 0,
        "counts": unselected_counts(run),
        "message": scheduled_condition(run)[2],
        "items": explain(run, names),
    }


def _keys(trace: ClusterTrace) -> Scored:
    """Return the sort keys of a cluster. A kept cluster has the keys that were recorded when it was picked."""
    binding = trace.binding
    if trace.scored is None and binding is not None:
        return Scored(trace.cluster, binding.topology or 0, binding.affinity or 0)
    return trace.scored or Scored(trace.cluster)


def _present_keys(run: ScheduleResult, batch: Round | None, trace: ClusterTrace) -> Scored:
    """Return the current sort keys of a selected cluster, because recorded keys are not comparable."""
    row = run.fleet.row(trace.cluster)
    if trace.verdict != "Kept" or batch is None or row is None or run.request is None:
        return _keys(trace)
    cycle = _cycle_of(run, batch, trace)
    affinity = run.request.profile.affinity.score(cycle, np.array([row]))
    topology = topology_points(run.request, cycle, row)["score"]
    return Scored(trace.cluster, topology, 0 if affinity is None else int(affinity[0]))


def _item(
    run: ScheduleResult,
    batch: Round | None,
    trace: ClusterTrace,
    border: Scored | None,
    dropped_binding: Binding | None,
) -> ExplainedCluster:
    row = run.fleet.row(trace.cluster)
    item: ExplainedCluster = {
        "cluster": trace.cluster,
        "verdict": trace.verdict,
        "rank": trace.rank,
        "reason": "",
        "help": "",
        "summary": "",
    }
    if trace.scored:
        item["batch"] = trace.scored.batch
    if row is not None and run.request is not None:
        _add_columns(item, run, run.request, batch, trace, row)
    binding = dropped_binding or trace.binding or run.holdings.by_cluster.get(trace.cluster)
    if binding is not None and binding.state is not BindingState.UNSCHEDULED:
        item["binding"] = _binding(run, binding, batch, row)
        if dropped_binding:
            item["binding"]["dropped"] = True
    loses = trace.verdict in (Category.SCORE_TOO_LOW, "NotNeeded")
    if border and loses:
        item["gap"] = _gap(_keys(trace), border)
    item["reason"] = str(trace.rejection) if trace.rejection else _reason(run, trace, item)
    single = batch is None or row is None or batch.refusals(row) == 1
    item["help"] = filter_advice(trace.rejection) if single else ""
    if row is not None and _is_unlisted(run, trace.cluster) and eligible(run.fleet, run.now)[row]:
        item["help"] = "would be picked with: its name in clusterNames"
    if loses and border:
        item["help"] = score_advice(run, batch, _keys(trace), border, trace.rank or 0)
    if warnings := _warnings(item):
        item["warnings"] = warnings
    loss = "; it loses its binding" if dropped_binding is not None and trace.verdict != "Dropped" else ""
    item["summary"] = f"{trace.cluster}: {_sentence(run, trace, item)}{loss}"
    return item


def _is_unlisted(run: ScheduleResult, cluster: str) -> bool:
    if run.request is None or run.request.policy.placement_type is not PlacementType.PICK_FIXED:
        return False
    return cluster not in run.request.policy.cluster_names


def _warnings(item: ExplainedCluster) -> list[str]:
    """Return messages about the stale or expired readings among the shown ones."""
    checks = (check for check in item.get("filters", ()) if check["name"] == "affinity")
    required = (term for check in checks for term in check.get("terms", ()))
    readings: list[PropertyObservation] = [entry for term in required for entry in term.get("properties", ())]
    preferred = item["affinity"]["terms"] if "affinity" in item else ()
    readings += [term["sorter"] for term in preferred if "sorter" in term]
    warnings = []
    for entry in readings:
        if entry.get("stale"):
            limit = f"more than {STALE_PERIODS} heartbeat periods"
            warnings.append(f"{entry['name']} was observed {entry['age']} ago, {limit}")
        if entry.get("expired"):
            warnings.append(f"{entry['name']} expired {entry['expiredFor']} ago and counts as not reported")
    return list(dict.fromkeys(warnings))


def _add_columns(
    item: ExplainedCluster,
    run: ScheduleResult,
    request: Request,
    batch: Round | None,
    trace: ClusterTrace,
    row: int,
) -> None:
    """Add the verdicts and points of the plugins for a cluster."""
    if batch is None:
        item["filters"] = [eligibility_check(run.fleet, row, run.now)]
        return
    cycle = _cycle_of(run, batch, trace)
    item["filters"] = filter_checks(request, cycle, row)
    if request.policy.placement_type is PlacementType.PICK_N:
        if request.profile.spread.constraints:
            item["topology"] = topology_points(request, cycle, row)
        item["affinity"] = affinity_points(request, batch, cycle, row)
        item["tieBonus"] = bool(trace.scored and trace.scored.bonus)


def _cycle_of(run: ScheduleResult, batch: Round, trace: ClusterTrace) -> Cycle:
    """Return the cycle of the batch that picked the cluster, or of the last batch.

    A kept cluster is judged as if only this cluster were not placed yet. Otherwise the spread would count it twice.
    """
    if trace.verdict == "Kept":
        return replace(batch.cycle, placed=batch.cycle.placed & ~run.fleet.rows([trace.cluster]))
    if trace.scored is None or trace.verdict != "Picked" or trace.scored.batch == batch.number:
        return batch.cycle
    placed_mask = run.holdings.placed(run.fleet)
    placed_mask |= run.fleet.rows(pick.cluster for pick in run.picked if pick.batch < trace.scored.batch)
    return replace(batch.cycle, placed=placed_mask, obsolete=run.holdings.stale(run.fleet))


def _binding(run: ScheduleResult, binding: Binding, batch: Round | None, row: int | None) -> HeldBinding:
    """Return the document about a cluster's binding, and whether the cluster would still pass the filters."""
    entry: HeldBinding = {"name": binding.name, "state": str(binding.state), "currentPolicy": binding.current}
    if binding.snapshot:
        entry["snapshot"] = binding.snapshot
    if binding.since:
        entry["since"] = binding.since
        with suppress(ValueError):
            entry["age"] = age(run.now, parse_time(binding.since))
    if binding.topology is not None or binding.affinity is not None:
        entry["recordedScore"] = {"topologySpread": binding.topology or 0, "affinity": binding.affinity or 0}
    if row is not None and run.request is not None:
        rejection = batch.reject(row) if batch is not None else ineligibility(run.fleet, row, run.now)
        entry["wouldStillMatch"] = rejection is None and not _is_unlisted(run, binding.cluster)
        if rejection is not None:
            entry["wouldBeRefused"] = str(rejection)
        elif _is_unlisted(run, binding.cluster):
            entry["wouldBeRefused"] = NOT_LISTED
    return entry


NOT_LISTED = "NotListed: spec.policy.clusterNames does not list it"


def _gap(loser: Scored, border: Scored) -> Gap:
    """Return the first sort key that separates a loser from the last picked cluster."""
    keys: tuple[tuple[SortKey, int, int], ...] = (
        ("topologySpread", loser.topology, border.topology),
        ("affinity", loser.affinity, border.affinity),
        ("tieBonus", int(loser.bonus), int(border.bonus)),
    )
    for name, own, other in keys:
        if own != other:
            return {"toLastPicked": border.cluster, "decidedBy": name, "difference": own - other}
    return {"toLastPicked": border.cluster, "decidedBy": "name", "difference": 0}


def _reason(run: ScheduleResult, trace: ClusterTrace, item: Mapping[str, Any]) -> str:
    match trace.verdict:
        case "Picked" | "Kept":
            return ""
        case "ScoreTooLow":
            return f"{Category.SCORE_TOO_LOW}: {_distance(item.get('gap'))}"
        case "NotNeeded":
            return f"NotNeeded: the placement has all requested clusters; {_distance(item.get('gap'))}"
        case "Dropped":
            return f"Dropped: {_loss(run, trace)}"
        case "NotJudged":
            return f"NotJudged: the policy cannot be evaluated: {run.invalid}"
        case _:
            return NOT_LISTED


def _loss(run: ScheduleResult, trace: ClusterTrace) -> str:
    """Return why a cluster that no filter rejected loses its binding."""
    if trace.binding is None or not run.fleet.rows([trace.cluster]).any():
        return "it is no longer a member of the fleet"
    if run.request is None:
        return "it is leaving the fleet"
    if _is_unlisted(run, trace.cluster):
        return "spec.policy.clusterNames no longer lists it"
    if not trace.binding.current:
        return "it was picked under an earlier policy, and the current policy has all requested clusters"
    if trace.binding.state is not BindingState.BOUND:
        return "the placement requests fewer clusters, and this one is not rolled out yet"
    return "the placement requests fewer clusters, and this one was recorded with the lowest score"


_KEY_NAMES = {"topologySpread": "topology spread", "affinity": "affinity", "tieBonus": "the tie bonus"}


def _distance(gap: Mapping[str, Any] | None) -> str:
    if gap is None:
        return "not among the best"
    if gap["decidedBy"] == "name":
        return f"has the same scores as {gap['toLastPicked']}, and the later name wins"
    if gap["difference"] > 0:
        return f"scores {gap['difference']} more than {gap['toLastPicked']} by {_KEY_NAMES[gap['decidedBy']]}"
    return f"{-gap['difference']} short of {gap['toLastPicked']} by {_KEY_NAMES[gap['decidedBy']]}"


def _sentence(run: ScheduleResult, trace: ClusterTrace, item: Mapping[str, Any]) -> str:
    keys, scores = _keys(trace), ""
    if run.request is not None and run.request.policy.placement_type is PlacementType.PICK_N:
        scores = f" with affinity {keys.affinity}"
        if run.request.profile.spread.constraints:
            scores += f" and topology spread {keys.topology}"
    match trace.verdict:
        case "Picked":
            again_text = "again " if "binding" in item else ""
            return f"picked {again_text}as number {trace.rank}{scores}"
        case "Kept":
            would_be_refused = item.get("binding", {}).get("wouldBeRefused")
            reason = f"; it would not be picked today: {would_be_refused}" if would_be_refused else ""
            return f"kept, it was picked earlier{scores}{reason}"
        case "ScoreTooLow" | "NotNeeded":
            return f"a candidate{scores}, but {item['reason'].partition(': ')[2]}"
        case _:
            return str(item["reason"])
