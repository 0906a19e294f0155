"""The run that takes back what another one has changed.

Source: ours; `scorer.staged_update.policy` says when.
"""

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
"""What a run notes as its previous index where its clusters had no resource snapshot but, perhaps, its own."""
_LONGEST_NAME: Final = 63
_KEPT: Final = (MAX_FAILURES, CLUSTER_DEADLINE)


def changed_clusters(stages: Iterable[JsonObject]) -> bool:
    """Say whether a run has touched any cluster of its update stages."""
    return any(status(entry, STARTED) == TRUE for stage in stages for entry in clusters_of(stage))


def rolled_back_by(run: JsonObject, runs: Iterable[JsonObject]) -> str:
    """Return the name of the run that takes *run* back, empty when there is none: one that is younger and says so."""
    began = text_at(run, "metadata", "creationTimestamp")
    found = (
        name_of(other)
        for other in runs
        if annotation(other, ROLLBACK_OF) == name_of(run) and text_at(other, "metadata", "creationTimestamp") >= began
    )
    return min(found, default="")


def free_name(run: str, word: str, taken: Container[str]) -> str:
    """Return a free name for the run that takes *run* back: with *word* at its end, and a number where it is taken."""
    suffixes = (f"-{word}", *(f"-{word}-{number}" for number in range(2, 1000)))
    names = (f"{run[: _LONGEST_NAME - len(suffix)].rstrip('-.')}{suffix}" for suffix in suffixes)
    return next(name for name in names if name not in taken)


def rollback_run(run: JsonObject, name: str, index: str, state: RunState = RunState.RUN) -> JsonObject:
    """Return the run that brings the clusters of a run to an older resource snapshot.

    It goes through the same stages with their approvals and waits, and ends where it fails: a rollback is not rolled
    back. An annotation that cannot be read, which has perhaps ended the run, must not end this one as well.

    Args:
        run: The run to take back.
        name: Of the new one.
        index: Of the resource snapshot to go back to.
        state: Of the new one.
    """
    own = annotations_of(run)
    found = {key: own[key] for key in _KEPT if key in own}
    remaining = {key: text for key, text in found.items() if not text or not annotation_problem(key, text)}
    noted = {ROLLBACK_OF: name_of(run), **remaining}
    if ON_FAILURE in own:  # said here, it keeps the new run from copying Rollback from the strategy
        noted[ON_FAILURE] = str(OnFailure.STOP)
    metadata: JsonObject = {"name": name, "annotations": noted}
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


def previous_index(run: JsonObject) -> str:
    """Return the resource snapshot that most clusters of a run had before it; empty: they had none, or only its own."""
    noted = annotation(run, PREVIOUS_INDEX)
    return "" if noted == NO_INDEX else noted
