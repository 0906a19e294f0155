"""Staged updates: stages, initialisation, one pass over a stage, what aborts a run, and what admission says."""

from dataclasses import replace
from typing import Any

import pytest

from scorer.api.unstructured.documents import dicts_at, status_of
from scorer.staged_update.outcome import RunFailedError
from scorer.staged_update.plan.initialization import initialise
from scorer.staged_update.plan.stages import stage_concurrency
from scorer.staged_update.record import SUCCEEDED, StagedUpdateRecord, cluster_name, cluster_names, clusters_of, status
from tests.scorer.staged_update.hub import (
    Hub,
    make_binding,
    make_hub,
    make_placement,
    make_policy_snapshot,
    make_run,
    make_strategy,
)
from tests.vector_families.line import Line
from webhook.admission.judge import judge, mutate
from webhook.validation.framework.context import Context

API = "placement.kubernetes-fleet.io/v1beta1"


def check_staged(line: Line) -> None:
    """The run is planned, goes on or ends as the line wants."""
    want = line["want"]
    if want.get("level") == "admission" or want.get("stateChange"):
        _check_admission(line)
        if want.get("level") == "admission":
            return
    hub = _hub(line)
    if want.get("retry"):
        assert hub.step.waits_for
        assert hub.step.status is None
        return
    if want.get("error"):
        _check_refused(hub, want)
        return
    begun = hub.settled() if "progress" not in line and "change" not in line else _initialised(hub)
    _check_plan(begun, want)
    if "progress" in line:
        begun = _under_way(begun, line["progress"])
        _check_pass(begun, want)
    if "change" in line:
        changed = _changed(begun, line["change"]).settled()
        assert (changed.said(SUCCEEDED) == "False UpdateRunFailed") == (want["afterChange"] == "abort")


def _hub(line: Line) -> Hub:
    given = line.get("placement") or {}
    policy: dict[str, Any] = {"placementType": given.get("type", "PickAll")}
    for key in ("numberOfClusters", "clusterNames"):
        if key in given:
            policy[key] = given[key]
    bindings, members = {}, {}
    for cluster in line["clusters"]:
        name, state = cluster["name"], cluster.get("binding", "Bound")
        if state != "none":
            old = "p-9" if cluster.get("policySnapshot") == "old" else "p-0"
            bindings[name] = make_binding(name, state, old)
        if cluster.get("memberCluster", True):
            members[name] = cluster.get("labels") or {}
    run = line.get("run") or {}
    indexes = line.get("resourceSnapshotIndexes")
    hub = make_hub(
        clusters={},
        run=make_run(run.get("name", "r"), "Run", run.get("resourceSnapshotIndex", "")),
        placement=None if given.get("missing") else make_placement(policy, given.get("strategyType", "External")),
        policies=(make_policy_snapshot(policy, scheduled=line.get("policyScheduled", True)),),
        bindings=bindings,
        members=members,
        strategy=None if line["strategy"] is None else {"metadata": {"name": "careful"}, "spec": line["strategy"]},
        snapshots=max(indexes, default=0) + 1 if indexes else 1,
    )
    if indexes is None:
        return hub
    kept = [
        each
        for each in hub.snapshots
        if int(each["metadata"]["labels"]["kubernetes-fleet.io/resource-index"]) in indexes
    ]
    return replace(hub, snapshots=tuple(kept))


def _check_refused(hub: Hub, want: Line) -> None:
    refused = hub.settled()
    assert refused.said("Initialized") == "False UpdateRunInitializedFailed", refused.said("Initialized")
    with pytest.raises(RunFailedError) as raised:
        initialise(hub.run, hub.facts)
    assert raised.value.cause == want["error"]
    message = refused.message("Initialized")
    assert want["error"] in message
    for word in want.get("errorMentions", ()):
        assert word in message
    shown = want.get("missingShown")
    if shown is not None:
        assert ", ".join(shown) in message
        assert str(want["missingTotal"]) in message


def _initialised(hub: Hub) -> Hub:
    """Return the hub as soon as the run is initialised."""
    while hub.said("Initialized") == "":
        hub = hub.passed()
    return hub


def _check_plan(hub: Hub, want: Line) -> None:
    record = status_of(hub.run)
    stages = record["stagesStatus"]
    if "stages" in want:
        assert [list(cluster_names(stage)) for stage in stages] == want["stages"]
    if "deleteStage" in want:
        assert list(cluster_names(record["deletionStageStatus"])) == want["deleteStage"]
    if "maxConcurrency" in want:
        strategy = StagedUpdateRecord(hub.run, hub.now).strategy()
        counts = [
            stage_concurrency(stage, len(clusters_of(known)))
            for stage, known in zip(strategy.stages, stages, strict=True)
        ]
        assert counts == want["maxConcurrency"]
    if "approvalRequestNames" in want:
        assert [_requests(stage) for stage in stages] == want["approvalRequestNames"]
    for key in ("policyObservedClusterCount", "resourceSnapshotIndexUsed"):
        if key in want:
            assert record[key] == want[key]


def _requests(stage: Line) -> Line:
    return {
        word: task.get("approvalRequestName")
        for word in ("before", "after")
        for task in dicts_at(stage, f"{word}StageTaskStatus")
        if task["type"] == "Approval"
    }


def _under_way(hub: Hub, progress: Line) -> Hub:
    """Return the hub with the stage that is worked on as the line says, and everything before it done."""
    stages = status_of(hub.run)["stagesStatus"]
    for number in range(progress["stage"] + 1):
        names = list(cluster_names(stages[number]))
        last = number == progress["stage"]
        done = progress.get("succeeded") or [] if last else names
        for name in names:
            if name not in done and not (last and name in (progress.get("updating") or [])):
                continue
            hub = _until(hub, name)
            if name in done:
                hub = hub.reported(name).passed()
        if not last:
            hub = hub.settled()
    return hub.reported(*(progress.get("nowAvailable") or ()))


def _until(hub: Hub, cluster: str) -> Hub:
    """Let passes go by until a cluster has been given the content, and no more than that."""
    for _ in range(20):
        if cluster in hub.given():
            return hub
        hub = hub.passed()
    raise AssertionError(f"{cluster} is never begun")


def _check_pass(hub: Hub, want: Line) -> None:
    if not {"finishedNow", "startNext", "stageFinishes"} & set(want):
        return
    after = hub.passed()
    assert [name for name in sorted(after.given()) if name not in hub.given()] == sorted(want.get("startNext") or [])
    done = _succeeded(after) - _succeeded(hub)
    assert sorted(done) == sorted(want.get("finishedNow") or [])
    if want.get("stageFinishes"):
        assert any(status(stage, SUCCEEDED) == "True" for stage in status_of(after.run)["stagesStatus"])


def _succeeded(hub: Hub) -> set[str]:
    stages = status_of(hub.run)["stagesStatus"]
    entries = [entry for stage in stages for entry in clusters_of(stage)]
    return {cluster_name(entry) for entry in entries if status(entry, SUCCEEDED) == "True"}


def _changed(hub: Hub, change: Line) -> Hub:
    ((what, value),) = change.items()
    match what:
        case "relabel":
            members = {name: {**hub.members[name], **labels} for name, labels in value.items()}
            return replace(hub, members={**hub.members, **members})
        case "newCluster":
            name = value["name"]
            bindings = {**hub.bindings, name: make_binding(name, value["binding"])}
            return replace(hub, bindings=bindings, members={**hub.members, name: value["labels"]})
        case "unschedule":
            return replace(hub, bindings={**hub.bindings, value: make_binding(value, "Unscheduled")})
        case "bindingFails":
            return hub.reported(value, kind="Applied", status="False")
        case "otherRunRewrites":
            binding = hub.bindings[value]
            spec = {**binding["spec"], "resourceSnapshotName": "p-7-snapshot"}
            return replace(hub, bindings={**hub.bindings, value: {**binding, "spec": spec}})
        case "newPolicySnapshot":
            return replace(hub, policies=(make_policy_snapshot(index=1),))
        case "newResourceSnapshot":
            return replace(hub, content="another")
        case "overrideEdited":
            return hub  # no override is looked at once the run is initialised
        case "editStrategy":
            return replace(hub, strategy=make_strategy(*value["stages"]))
        case "deleteStrategy":
            return replace(hub, strategy=None)
        case "deletePlacement":
            return replace(hub, placement=None)
    placement = hub.placement
    assert placement is not None
    key = {"applyStrategy": "applyStrategy", "placementStrategyType": "type"}[what]
    strategy = {**placement["spec"]["strategy"], key: value}
    return replace(hub, placement={**placement, "spec": {**placement["spec"], "strategy": strategy}})


def _check_admission(line: Line) -> None:
    run = line.get("run") or {}
    refused = not line["want"].get("stateChange")
    if "stateFrom" in run or "update" in run or line["want"].get("error") == "run-name-too-long":
        old, new = _runs(run)
        verdict = judge("UPDATE" if old else "CREATE", new, old, Context.of_objects(()))
        assert verdict.allowed is not refused, verdict.errors
        return
    meta = {"name": "careful"}
    document = {"apiVersion": API, "kind": "ClusterStagedUpdateStrategy", "metadata": meta, "spec": line["strategy"]}
    document = mutate(document, None, "CREATE").document
    assert judge("CREATE", document, None, Context.of_objects(())).allowed is not refused


def _runs(run: Line) -> tuple[Line | None, Line]:
    changes = dict(run.get("update") or {})
    if "stateFrom" in run:
        changes["state"] = [run["stateFrom"], run["stateTo"]]
    spec = {"placementName": "p", "stagedRolloutStrategyName": "careful", "state": "Run"}
    head = {"apiVersion": API, "kind": "ClusterStagedUpdateRun", "metadata": {"name": run["name"]}}
    before = {**spec, **{key: values[0] for key, values in changes.items()}}
    after = {**spec, **{key: values[1] for key, values in changes.items()}}
    return ({**head, "spec": before} if changes else None), {**head, "spec": after}
