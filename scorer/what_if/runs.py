"""Forecast of staged update runs after changes to a hub, as one document for users and programs.

A run that has not started is initialized hypothetically, with the scheduler's decision for its placement. For one that
is in progress, the remaining steps of its record are shown. A refusal by the engine is reported as a finding.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Final

from scorer.api.conditions import TRUE
from scorer.api.family import FAMILIES, family_in, placement_ref
from scorer.api.meta import JsonObject, format_time
from scorer.api.placement.staged_update import RunState, StageTaskType
from scorer.api.unstructured.documents import (
    generation_of,
    is_deleting,
    name_of,
    namespace_of,
    spec_of,
    status_of,
    text_at,
)
from scorer.api.values.duration import format_duration
from scorer.api.values.quoting import quote
from scorer.placement.binding_plan import BrokenBindingError
from scorer.rollout.apply_strategy import effective_apply_strategy
from scorer.rollout.bindings import Overrides
from scorer.rollout.snapshots.groups import SnapshotGroup, latest_group, placed_group, snapshot_groups
from scorer.staged_update.execution.engine import is_over
from scorer.staged_update.facts import ClusterWait, StagedUpdateFacts
from scorer.staged_update.orders import is_approved, parent_run
from scorer.staged_update.outcome import NotYetError, RunFailedError
from scorer.staged_update.phase import stages_of
from scorer.staged_update.policy import FailurePolicy
from scorer.staged_update.record import INITIALIZED, REQUEST_APPROVED, SUCCEEDED, condition, status, tasks_of
from scorer.staged_update.rollback import is_ordered_by_policy
from scorer.staged_update.views.content_diff import ContentDiff, ObjectChange, content_diff
from scorer.staged_update.views.forecast import (
    ForecastCluster,
    ForecastProgress,
    ForecastStage,
    ForecastTask,
    StagedUpdateForecast,
    forecast,
)
from scorer.staged_update.views.next_passes import NextPasses, next_passes
from scorer.what_if.changed import Changed
from scorer.what_if.changes import apply_changes, unchanged
from scorer.what_if.cluster_removals import ClusterContent, cluster_object_removals
from scorer.what_if.content import select_content
from scorer.what_if.overrides import overrides_of_placement
from scorer.what_if.planned import (
    ApprovalReason,
    ContentRemoval,
    ForeseenRun,
    PlannedOutcome,
    PlannedRun,
    RunCluster,
    RunContent,
    RunDifference,
    RunFailurePolicy,
    RunObjectChange,
    RunOutlook,
    RunStage,
    RunTask,
)
from scorer.what_if.scheduling import scheduled
from scorer.what_if.state import FIELDS, HubState, HypotheticalChanges, ObjectKey, identity_of

NO_CHANGES: Final = HypotheticalChanges()
MOST_NAMED: Final = 10
"""Maximum number of clusters that a sentence names."""
BROKEN_BINDING: Final = "broken-binding"
"""Finding if the scheduler cannot process the placement. The run waits until a user has repaired the binding."""


def planned_runs(
    state: HubState,
    changes: HypotheticalChanges = NO_CHANGES,
    only: Collection[ObjectKey] | None = None,
    shown: Collection[str] | None = None,
) -> list[PlannedRun]:
    """Return the forecasts of runs, sorted by namespace and name.

    Args:
        state: The present hub.
        changes: The hypothetical changes. Without any, the forecast shows what happens anyway.
        only: The runs to report, finished or not. None means all unfinished runs.
        shown: The kinds of resource snapshots whose content may be shown. None: unlimited.
    """
    changed_identities = {identity_of(document) for document in changes.objects}
    if not state.runs and all(FIELDS.get((item.group, item.kind)) != "runs" for item in changed_identities):
        return []
    new_state, old_state = apply_changes(state, changes), unchanged(state)
    old_runs = {identity_of(run): run for run in state.runs}
    entries: list[PlannedRun] = []
    for run in sorted(new_state.state.runs, key=lambda item: (namespace_of(item), name_of(item))):
        identity = identity_of(run)
        if is_over(run) if only is None else identity not in only:
            continue
        visible = shown is None or family_in(identity.namespace).resource_snapshot.kind in shown
        entry = _entry(run, new_state, visible=visible)
        changed = _acts(entry)
        if changes and identity in old_runs and identity not in changed_identities:
            changed = _entry(old_runs[identity], old_state, visible=visible) != entry
        entries.append({**entry, "changed": changed})
    return entries


def approval_outcomes(state: HubState, changes: HypotheticalChanges) -> Iterator[PlannedOutcome]:
    """Yield the outcome of each approval request that changes: the run accepts it, or why it does not.

    Args:
        state: The present hub.
        changes: The hypothetical changes.
    """
    kinds = {family.approval_request.group_kind for family in FAMILIES}
    changed = {identity: request for request in changes.objects if (identity := identity_of(request))[:2] in kinds}
    if not changed:
        return
    hub = apply_changes(state, changes)
    for identity, request in sorted(changed.items()):
        reason, message = _approval_outcome(request, hub)
        yield {
            "kind": identity.kind,
            "namespace": identity.namespace,
            "name": identity.name,
            "reason": reason,
            "message": message,
        }


def _approval_outcome(request: JsonObject, hub: Changed) -> tuple[ApprovalReason, str]:
    """Return reason and message of a changed approval request."""
    name, parent = name_of(request), parent_run(request)
    run = _find_document(hub.state.runs, parent, namespace_of(request))
    if run is None:
        return "UnknownRun", f"there is no run {quote(parent)}"
    if is_over(run) or is_deleting(run):
        return "RunFinished", f"run {parent} is finished"
    if not is_approved(request):
        generation = generation_of(request)
        return "NotApproved", f"it has no condition Approved with status True and observedGeneration {generation}"
    try:
        run_forecast = forecast(run, run_facts(run, hub)[0], waits=hub.state.waits)
    except (RunFailedError, NotYetError, BrokenBindingError) as error:
        return "NotAccepted", f"run {parent} cannot continue: {error}"
    passes = next_passes(run_forecast.run, run_forecast.facts)
    if passes.failure:
        return "NotAccepted", f"run {parent} cannot continue: {passes.failure}"
    tasks = [task for stage in stages_of(run_forecast.run) for task in tasks_of(stage)]
    approved = {text_at(task, "approvalRequestName") for task in tasks if status(task, REQUEST_APPROVED) == TRUE}
    if name in passes.accepted | approved:
        return "Accepted", f"run {parent} accepts it"
    if name in passes.discarded:
        return "Discarded", f"run {parent} has not requested this approval yet, and will delete the request"
    return "NotAccepted", f"run {parent} does not wait for it now"


def _acts(entry: ForeseenRun) -> bool:
    """Return whether a run would change anything on a cluster."""
    clusters = (cluster for stage in entry["stages"] for cluster in stage["clusters"])
    return bool(entry["removed"]) or any(cluster["differs"] for cluster in clusters)


def _entry(run: JsonObject, hub: Changed, *, visible: bool) -> ForeseenRun:
    if is_over(run) or is_deleting(run):
        return _bare(run, "Over", *_outcome(run))
    is_initialized = status(status_of(run), INITIALIZED) == TRUE
    try:
        facts, notes = run_facts(run, hub)
        run_forecast = forecast(run, facts, waits=hub.state.waits)
    except RunFailedError as error:
        return _bare(run, "Aborted" if is_initialized else "Refused", str(error.cause), str(error))
    except NotYetError as error:
        return _bare(run, "Pending", "", str(error))
    except BrokenBindingError as error:
        return _bare(run, "Pending", BROKEN_BINDING, str(error))
    passes = next_passes(run_forecast.run, run_forecast.facts)
    if passes.failure:
        cause, _, message = passes.failure.partition(": ")
        return _bare(run, "Aborted", cause, message)
    phase: RunOutlook = "UnderWay" if is_initialized else "New"
    return _foreseen_run(run, run_forecast, passes, phase, notes, visible=visible)


def run_removals(placement: JsonObject, hub: Changed) -> Iterator[ContentRemoval]:
    """Yield the objects of the latest snapshot that unfinished runs remove from single clusters of a placement."""
    for run in hub.state.runs:
        place = namespace_of(run), text_at(spec_of(run), "placementName")
        if place != (namespace_of(placement), name_of(placement)) or is_over(run) or is_deleting(run):
            continue
        try:
            facts, _ = run_facts(run, hub)
            run_forecast = forecast(run, facts, waits=hub.state.waits)
        except (RunFailedError, NotYetError, BrokenBindingError):
            continue
        groups = run_forecast.facts.groups
        desired = next((group for group in groups if group.name == run_forecast.snapshot), None)
        latest = placed_group(groups)
        if desired is None or latest is None:
            continue
        clusters = [cluster for stage in run_forecast.stages for cluster in stage.clusters if cluster.binding]
        upcoming = [cluster for cluster in clusters if cluster.progress is ForecastProgress.TO_COME]
        documents = [document for group in groups for document in group.documents]
        overrides = {cluster.name: cluster.wanted.overrides for cluster in upcoming}
        content = ClusterContent(documents, latest, overrides, desired)
        bindings = [cluster.binding for cluster in upcoming if cluster.binding]
        # A rollback that a failure policy has ordered does not wait for confirmation.
        siblings = (other for other in hub.state.runs if namespace_of(other) == namespace_of(run))
        is_exempt = is_ordered_by_policy(run, siblings)
        for removal in cluster_object_removals(placement, bindings, content, hub):
            yield {**removal, "verdict": "Removed"} if is_exempt else removal


def _outcome(run: JsonObject) -> tuple[str, str]:
    """Return reason and message of a run that has ended."""
    if is_deleting(run):
        return "Deleted", "the run is being deleted"
    outcome = condition(status_of(run), SUCCEEDED) or condition(status_of(run), INITIALIZED)
    return text_at(outcome, "reason"), text_at(outcome, "message")


def _bare(run: JsonObject, phase: RunOutlook, cause: str, message: str) -> ForeseenRun:
    """Return the entry of a run without a forecast."""
    spec = spec_of(run)
    return {
        "name": name_of(run),
        "namespace": namespace_of(run),
        "placement": text_at(spec, "placementName"),
        "strategy": text_at(spec, "stagedRolloutStrategyName"),
        "state": text_at(spec, "state") or str(RunState.INITIALIZE),
        "phase": phase,
        "finding": {"cause": cause, "message": message} if cause or message else None,
        "snapshot": "",
        "failurePolicy": None,
        "next": [],
        "stages": [],
        "removed": [],
        "contents": [],
        "earliestFinish": None,
        "assumptions": [],
    }


def _foreseen_run(
    run: JsonObject,
    run_forecast: StagedUpdateForecast,
    passes: NextPasses,
    phase: RunOutlook,
    notes: Sequence[str],
    *,
    visible: bool,
) -> ForeseenRun:
    bare = _bare(run, phase, "", "")
    return {
        **bare,
        "snapshot": run_forecast.snapshot,
        "failurePolicy": _failure_policy(run_forecast.policy),
        "next": list(passes.clusters),
        "stages": [_stage(stage, passes) for stage in run_forecast.stages],
        "removed": list(run_forecast.removed),
        "contents": list(_contents(run_forecast, visible=visible)),
        "earliestFinish": format_time(run_forecast.ends),
        "assumptions": [*_assumptions(bare["state"], run_forecast), *notes],
    }


def _failure_policy(policy: FailurePolicy | None) -> RunFailurePolicy | None:
    if policy is None:
        return None
    deadline = format_duration(policy.deadline)
    return {"onFailure": str(policy.on_failure), "maxFailures": policy.max_failures, "clusterDeadline": deadline}


def _stage(stage: ForecastStage, passes: NextPasses) -> RunStage:
    return {
        "name": stage.planned.name,
        "progress": str(stage.progress),
        "atOnce": stage.planned.max_concurrency,
        "sortedBy": stage.planned.stage.sorting_label_key or "",
        "clusters": [_cluster(cluster) for cluster in stage.clusters],
        "batches": stage.batches,
        "tasks": [_task(task, passes) for task in stage.tasks],
        "earliestStart": format_time(stage.begins) if stage.begins else None,
        "earliestEnd": format_time(stage.ends) if stage.ends else None,
    }


def _cluster(cluster: ForecastCluster) -> RunCluster:
    wait = cluster.wait
    return {
        "cluster": cluster.name,
        "progress": str(cluster.progress),
        "from": _snapshot_of(cluster),
        "differs": list(_differences(cluster)) if cluster.progress is ForecastProgress.TO_COME else [],
        "earliestStart": format_time(cluster.starts) if cluster.starts else None,
        "waitsFor": wait.message if wait else "",
    }


def _snapshot_of(cluster: ForecastCluster) -> str:
    return text_at(cluster.binding, "spec", "resourceSnapshotName")


def _differences(cluster: ForecastCluster) -> Iterator[RunDifference]:
    """Yield the parts of a binding that the run changes."""
    spec, desired = spec_of(cluster.binding or {}), cluster.wanted
    if _snapshot_of(cluster) != desired.snapshot:
        yield "content"
    if Overrides.of(spec) != desired.overrides:
        yield "overrides"
    if _snapshot_of(cluster) and effective_apply_strategy(spec.get("applyStrategy")) != desired.apply_strategy:
        yield "applyStrategy"


def _task(task: ForecastTask, passes: NextPasses) -> RunTask:
    return {
        "place": "Before" if task.place == "beforeStage" else "After",
        "type": str(task.type),
        "done": task.done or task.request in passes.accepted,
        "request": task.request,
        "wait": format_duration(task.wait) if task.type is StageTaskType.TIMED_WAIT else "",
        "until": format_time(task.until) if task.until else None,
    }


def _contents(run_forecast: StagedUpdateForecast, *, visible: bool) -> Iterator[RunContent]:
    """Yield the changes on clusters that have not been started, once per content that they have now."""
    groups = {group.name: group for group in run_forecast.facts.groups}
    by_snapshot: dict[str, list[str]] = {}
    for stage in run_forecast.stages:
        for cluster in stage.clusters:
            if cluster.progress is ForecastProgress.TO_COME and _snapshot_of(cluster) != run_forecast.snapshot:
                by_snapshot.setdefault(_snapshot_of(cluster), []).append(cluster.name)
    for old_snapshot, clusters in by_snapshot.items():
        are_known = (not old_snapshot or old_snapshot in groups) and run_forecast.snapshot in groups
        diff = (
            content_diff(_objects(groups, old_snapshot), _objects(groups, run_forecast.snapshot))
            if are_known
            else ContentDiff()
        )
        yield {
            "from": old_snapshot,
            "to": run_forecast.snapshot,
            "clusters": clusters,
            "known": are_known,
            "hidden": not visible,
            "objects": [_change(change) for change in diff.objects] if visible else [],
            "more": diff.more if visible else 0,
        }


def _objects(groups: Mapping[str, SnapshotGroup], name: str) -> Iterable[JsonObject]:
    return groups[name].objects() if name in groups else ()


def _change(change: ObjectChange) -> RunObjectChange:
    place = change.place
    return {
        "change": str(change.change),
        "group": place.group,
        "kind": place.kind,
        "namespace": place.namespace,
        "name": place.name,
        "envelope": str(place.envelope) if place.envelope else "",
        "fields": [{"path": field.path, "before": field.before, "after": field.after} for field in change.fields],
        "more": change.more,
    }


def _assumptions(state: str, run_forecast: StagedUpdateForecast) -> Iterator[str]:
    """Yield the assumptions of the earliest finish."""
    if state != RunState.RUN:
        yield f"spec.state is {state}: it is assumed to be set to Run now"
    open_stages = [stage for stage in run_forecast.stages if stage.progress is not ForecastProgress.DONE]
    if any(stage.batches for stage in open_stages):
        yield "the update of a cluster is assumed to take no time"
    if any(task.request and not task.done for stage in open_stages for task in stage.tasks):
        yield "an approval is assumed to be given when it is requested"
    waiting = [
        cluster.name
        for stage in open_stages
        for cluster in stage.clusters
        if cluster.wait and cluster.wait.until is None
    ]
    if waiting:
        more = f" and {len(waiting) - MOST_NAMED} more" if len(waiting) > MOST_NAMED else ""
        yield f"it is unknown when these clusters may be changed: {', '.join(sorted(waiting)[:MOST_NAMED])}{more}"


def run_facts(run: JsonObject, hub: Changed) -> tuple[StagedUpdateFacts, Sequence[str]]:
    """Return the inputs of the engine, and the assumptions about them.

    Raises:
        BrokenBindingError: The scheduler cannot process the placement.
    """
    state, spec, namespace = hub.state, spec_of(run), namespace_of(run)
    ref = placement_ref(text_at(spec, "placementName"), namespace)
    placement = _find_document(state.placements, ref.name, namespace)
    requests = {name_of(one): one for one in state.approval_requests if namespace_of(one) == namespace}
    facts = StagedUpdateFacts(now=state.now, members=_labels(state), requests=requests)
    if placement is None:
        return facts, ()
    schedule = scheduled(state, placement)
    groups = snapshot_groups(state.resource_snapshots_of(placement))

    def overrides(group: SnapshotGroup) -> Mapping[str, Overrides]:
        return overrides_of_placement(state, placement, group, state.fleet.names)

    facts = replace(
        facts,
        placement=placement,
        policy_snapshots=schedule.policy_snapshots,
        bindings=schedule.bindings,
        strategy=_find_document(state.strategies, text_at(spec, "stagedRolloutStrategyName"), namespace),
        groups=groups,
        overrides=overrides,
        waits=_waits(state, schedule.bindings),
    )
    if text_at(spec, "resourceSnapshotIndex") or status(status_of(run), INITIALIZED):
        return facts, ()
    latest = latest_group(groups)
    rest = f"; all others are taken from resource snapshot {latest.name}" if latest else ""
    note = f"the placement selects from the objects that the plan knows{rest}"
    return replace(facts, selection=select_content(placement, groups, hub)), (note,)


def _waits(state: HubState, bindings: Iterable[JsonObject]) -> Mapping[str, ClusterWait]:
    clusters = (text_at(spec_of(binding), "targetCluster") for binding in bindings)
    return {name: wait for name in clusters if (wait := state.waits(name, state.now)) is not None}


def _find_document(documents: Iterable[JsonObject], name: str, namespace: str) -> JsonObject | None:
    matches = (document for document in documents if (name_of(document), namespace_of(document)) == (name, namespace))
    return next(matches, None)


def _labels(state: HubState) -> Mapping[str, Mapping[str, str]]:
    return {member.metadata.name: member.metadata.labels for member in state.fleet.members}
