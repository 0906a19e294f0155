"""The run that rolls back the changes of another run. `scorer.staged_update.policy` defines when it is created."""

from collections.abc import Container, Iterable
from typing import Final

from scorer.api.conditions import TRUE
from scorer.api.meta import JsonObject
from scorer.api.names import CLUSTER_DEADLINE, MAX_FAILURES, ON_FAILURE, PREVIOUS_INDEX, ROLLBACK_OF
from scorer.api.placement.staged_update import RunState
from scorer.api.unstructured.documents import annotation, annotations_of, name_of, namespace_of, spec_of, text_at
from scorer.staged_update.policy import OnFailure, annotation_problem
from scorer.staged_update.record import STARTED, clusters_of, status

NO_INDEX: Final = "none"
"""Previous index of a run whose clusters had no resource snapshot before, or already the snapshot of the run."""
_LONGEST_NAME: Final = 63
_INDEX_DIGITS: Final = 18
_KEPT: Final = (MAX_FAILURES, CLUSTER_DEADLINE)


def changed_clusters(stages: Iterable[JsonObject]) -> bool:
    """Return whether a run has changed any cluster of its update stages."""
    return any(status(entry, STARTED) == TRUE for stage in stages for entry in clusters_of(stage))


def rolled_back_by(run: JsonObject, runs: Iterable[JsonObject]) -> str:
    """Return the name of the rollback run of *run*, or an empty string. Only newer runs count."""
    began = text_at(run, "metadata", "creationTimestamp")
    rollback_names = (
        name_of(other)
        for other in runs
        if annotation(other, ROLLBACK_OF) == name_of(run) and text_at(other, "metadata", "creationTimestamp") >= began
    )
    return min(rollback_names, default="")


def is_ordered_by_policy(run: JsonObject, runs: Iterable[JsonObject]) -> bool:
    """Return whether a failure policy has ordered *run*: it rolls back a run whose policy is Rollback.

    Args:
        run: The run. Empty: it does not exist.
        runs: All runs of its family and namespace.
    """
    failed = annotation(run, ROLLBACK_OF)
    return bool(failed) and any(
        name_of(other) == failed and annotation(other, ON_FAILURE) == OnFailure.ROLLBACK for other in runs
    )


def free_name(run: str, word: str, used_names: Container[str]) -> str:
    """Return an unused name for the rollback run of *run*: with the suffix *word*, and a number if necessary."""
    suffixes = (f"-{word}", *(f"-{word}-{number}" for number in range(2, 1000)))
    names = (f"{run[: _LONGEST_NAME - len(suffix)].rstrip('-.')}{suffix}" for suffix in suffixes)
    return next(name for name in names if name not in used_names)


def rollback_run(run: JsonObject, name: str, index: str, state: RunState = RunState.RUN) -> JsonObject:
    """Return the run that rolls the clusters of a run back to an older resource snapshot.

    It has the same stages, approvals and waits. If it fails, it stops: a rollback is not rolled back. An invalid
    annotation, which may be why the run failed, is not copied, so that it cannot end this run as well.

    Args:
        run: The run to roll back.
        name: Name of the new run.
        index: Resource snapshot to roll back to.
        state: State of the new run.
    """
    own = annotations_of(run)
    copied_annotations = {key: own[key] for key in _KEPT if key in own}
    remaining = {key: text for key, text in copied_annotations.items() if not text or not annotation_problem(key, text)}
    annotations = {ROLLBACK_OF: name_of(run), **remaining}
    if ON_FAILURE in own:  # its own annotation keeps Rollback from being copied from the strategy
        annotations[ON_FAILURE] = str(OnFailure.STOP)
    metadata: JsonObject = {"name": name, "annotations": annotations}
    if namespace := namespace_of(run):
        metadata["namespace"] = namespace
    return {
        "apiVersion": run.get("apiVersion"),
        "kind": run.get("kind"),
        "metadata": metadata,
        "spec": {
            "placementName": text_at(spec_of(run), "placementName"),
            "resourceSnapshotIndex": index,
            "stagedRolloutStrategyName": text_at(spec_of(run), "stagedRolloutStrategyName"),
            "state": str(state),
        },
    }


def is_index(text: str) -> bool:
    """Return whether *text* is the index of a resource snapshot."""
    return text.isascii() and text.isdecimal() and len(text) <= _INDEX_DIGITS


def previous_index(run: JsonObject) -> str:
    """Return the index of the resource snapshot that most clusters had before a run. Empty: unknown, or `NO_INDEX`."""
    recorded_index = annotation(run, PREVIOUS_INDEX)
    return recorded_index if is_index(recorded_index) else ""
