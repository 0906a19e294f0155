"""Patches that start, stop or retry a run, skip parts of it, or approve or reject a gate.

Source: docs/specifications/upgrade-runs.md 9 and 10.2.
"""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Final

from scorer.api.conditions import merge_conditions
from scorer.api.meta import JsonObject, format_time
from scorer.api.unstructured.documents import conditions_of, name_of, text_at
from scorer.api.upgrade.fields import LONGEST_NAME, NodeImageSelection, UpgradeState
from scorer.api.upgrade.run import MOST_SKIP_TARGETS, ClusterUpgradeRun, SkipTarget, UpgradeRunState
from scorer.upgrade.evaluation.gates import APPROVED, REJECTED
from scorer.upgrade.state.record import OVER, STOPPED
from scorer.upgrade.versions.images import UNLISTED, selection_of

_RETRY: Final = "-retry"


class UpgradeOrderRefusedError(Exception):
    """A run or a gate cannot execute a command. The message has the reason."""


def order_start(run: ClusterUpgradeRun, token: str) -> JsonObject | None:
    """Return the patch that starts or restarts a run, or None if it is running or its start has been requested.

    Args:
        run: The run.
        token: Restart token, new to the run.

    Raises:
        UpgradeOrderRefusedError: The run is finished or stopping. This includes a requested stop that the run has not
            observed yet, because a start would silently cancel it (C-39).
    """
    state, name = run.status.state, run.metadata.name
    if state in OVER:
        raise UpgradeOrderRefusedError(
            f"run {name} is {state.value}: create another one, or run harbormaster upgrade retry {name}"
        )
    if state is UpgradeState.STOPPING:
        raise UpgradeOrderRefusedError(f"run {name} is being stopped: start it again when nothing is in flight")
    if state in STOPPED:
        return {"spec": {"state": UpgradeRunState.RUN.value, "restartToken": token}}
    if run.spec.state is UpgradeRunState.STOP and run.status.start_time is not None:
        reason = f"is stopping and still {state.value}: it can be started again when it is Stopped or Failed"
        raise UpgradeOrderRefusedError(f"run {name} {reason}")
    return None if run.spec.state is UpgradeRunState.RUN else {"spec": {"state": UpgradeRunState.RUN.value}}


def order_stop(run: ClusterUpgradeRun) -> JsonObject | None:
    """Return the patch that stops a run, or None if it is stopped or stopping, or its stop has been requested.

    Raises:
        UpgradeOrderRefusedError: The run has not started, or is finished.
    """
    state, name = run.status.state, run.metadata.name
    if state in OVER:
        raise UpgradeOrderRefusedError(f"run {name} is {state.value}: nothing to stop")
    if run.status.start_time is None:
        raise UpgradeOrderRefusedError(f"run {name} has not started")
    if run.spec.state is UpgradeRunState.STOP or state in STOPPED or state is UpgradeState.STOPPING:
        return None
    return {"spec": {"state": UpgradeRunState.STOP.value}}


def order_skip(run: ClusterUpgradeRun, targets: Sequence[SkipTarget]) -> JsonObject:
    """Return the patch that skips parts of a run. Existing skip targets are kept, because the list is append-only.

    Raises:
        UpgradeOrderRefusedError: The run is finished, has no such part, or the list is full.
    """
    state, name = run.status.state, run.metadata.name
    if state in OVER:
        raise UpgradeOrderRefusedError(f"run {name} is {state.value}: nothing to skip")
    parts = set(parts_of(run))
    for target in targets:
        if parts and (target.type.value, target.name) not in parts:
            raise UpgradeOrderRefusedError(f"run {name} has no {target.type.value} {target.name[:64]!r}")
    skip_targets = (*run.spec.skip_targets, *targets)
    if len(skip_targets) > MOST_SKIP_TARGETS:
        raise UpgradeOrderRefusedError(f"run {name} can have at most {MOST_SKIP_TARGETS} skip targets")
    return {
        "spec": {
            "skipTargets": [{"type": skip_target.type.value, "name": skip_target.name} for skip_target in skip_targets]
        }
    }


def parts_of(run: ClusterUpgradeRun) -> list[tuple[str, str]]:
    """Return type and name of every part of a run that can be skipped."""
    parts = []
    for stage in run.status.stages:
        parts += [("Stage", stage.name), ("AfterStageWait", stage.name)]
        for group in stage.groups:
            parts.append(("Group", group.name))
            parts += [("Member", entry.name) for entry in group.members]
    return parts


def retry_run(run: ClusterUpgradeRun, name: str = "") -> JsonObject:
    """Return a run that repeats the skipped and failed upgrades of another run.

    It selects members with the same strategy and selector, and has the versions that the other run resolved. Images of
    the selection ``Latest`` are chosen again. Members that are already at their target are skipped.

    Args:
        run: A finished, failed or stopped run.
        name: Name of the new run. If empty, the old name with the suffix ``-retry``.

    Raises:
        UpgradeOrderRefusedError: The run is in progress, or has never started.
    """
    status = run.status
    if status.start_time is None or (status.state not in OVER and status.state not in STOPPED):
        raise UpgradeOrderRefusedError(
            f"run {run.metadata.name} is {status.state.value}: only a finished, failed or stopped run can be retried"
        )
    upgrade: JsonObject = {"type": run.spec.upgrade.type.value}
    if status.resolved.kubernetes_version:
        upgrade["kubernetesVersion"] = status.resolved.kubernetes_version
    if (images := _images(run)) is not None:
        upgrade["nodeImage"] = images
    spec = run.spec.model_dump(mode="json", by_alias=True, exclude_none=True)
    for field in ("restartToken", "skipTargets", "strategyRef", "strategy"):
        spec.pop(field, None)
    spec |= {"state": UpgradeRunState.INITIALIZE.value, "upgrade": upgrade}
    if run.spec.strategy_ref is not None or run.spec.strategy is not None:
        snapshot = status.strategy_snapshot
        if snapshot is not None:
            spec["strategy"] = snapshot.model_dump(mode="json", by_alias=True, exclude_none=True)
    return {
        "apiVersion": "upgrade.harbormaster.dev/v1alpha1",
        "kind": "ClusterUpgradeRun",
        "metadata": {"name": name or _retry_name(run.metadata.name)},
        "spec": spec,
    }


def _images(run: ClusterUpgradeRun) -> JsonObject | None:
    """Return the node images of the new run: those that the old run resolved, or ``Latest`` again."""
    selection = selection_of(run.spec.upgrade)
    if selection is None:
        return None
    selected = [node_image for node_image in run.status.resolved.node_images if node_image.version != UNLISTED]
    if selection is NodeImageSelection.LATEST or not selected:
        return {"selection": NodeImageSelection.LATEST.value}
    versions = [{"family": image.family, "version": image.version} for image in selected]
    return {"selection": NodeImageSelection.CUSTOM.value, "customVersions": versions}


def _retry_name(name: str) -> str:
    return f"{name[: LONGEST_NAME - len(_RETRY)].rstrip('-')}{_RETRY}"


def order_answer(
    gate: Mapping[str, Any], message: str, now: datetime, *, approve: bool
) -> Sequence[Mapping[str, Any]] | None:
    """Return the conditions of a gate after its approval or rejection, or None if it needs no approval any more.

    Args:
        gate: The ClusterUpgradeGate.
        message: The user who approves, or the reason for a rejection.
        now: Current time.
        approve: False rejects the gate.

    Raises:
        UpgradeOrderRefusedError: The gate is not Pending.
    """
    name, state = name_of(gate), text_at(gate, "status", "state")
    condition = next((item for item in conditions_of(gate) if item.get("type") == APPROVED), {})
    if approve and (condition.get("status") == "True" or state == UpgradeState.COMPLETED):
        return None
    if state != UpgradeState.PENDING:
        hint = "only a Pending gate can be approved or rejected"
        raise UpgradeOrderRefusedError(f"gate {name} is {state or 'not reached yet'}: {hint}")
    answer = {
        "type": APPROVED,
        "status": "True" if approve else "False",
        "reason": "ApprovedByUser" if approve else REJECTED,
        "message": message,
        "lastTransitionTime": format_time(now),
    }
    other_conditions = [item for item in conditions_of(gate) if item.get("type") != APPROVED]
    return [*other_conditions, *merge_conditions([condition] if condition else [], [answer])]
