"""Failure policy of a run, set by annotations. Without them, a run waits for failing clusters.

Any of these annotations enables the policy, and the others then have defaults:

- ``harbormaster.dev/cluster-deadline``: time limit per cluster
- ``harbormaster.dev/max-failures``: number of clusters per stage that may exceed the limit
- ``harbormaster.dev/on-failure``: action when more clusters exceed it. ``Stop`` ends the run, and ``Rollback`` also
  creates a run that rolls back its changes.

Annotations of the run have precedence over those of its strategy, which are copied onto the run during initialization.
Later edits of the strategy thus never affect the run.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum
from typing import Final

from scorer.api.meta import JsonObject
from scorer.api.names import ANALYSIS, CLUSTER_DEADLINE, MAX_FAILURES, ON_FAILURE
from scorer.api.unstructured.documents import annotation, annotations_of
from scorer.api.values.duration import parse_wait_time
from scorer.staged_update.outcome import RunFailedError, RunFailureCause

COPIED: Final = (ON_FAILURE, MAX_FAILURES, CLUSTER_DEADLINE, ANALYSIS)
"""Annotations that a run inherits from its strategy."""
DEFAULT_DEADLINE: Final = timedelta(minutes=5)


class OnFailure(StrEnum):
    """Action when too many clusters of a stage have failed."""

    STOP = "Stop"
    ROLLBACK = "Rollback"


@dataclass(frozen=True, slots=True)
class FailurePolicy:
    """Failure policy of a run.

    Args:
        on_failure: Action for the run.
        max_failures: Maximum number of failed clusters per stage.
        deadline: Longest time that a cluster may be in flight.
    """

    on_failure: OnFailure = OnFailure.STOP
    max_failures: int = 0
    deadline: timedelta = DEFAULT_DEADLINE


def annotation_problem(key: str, text: str) -> str:
    """Return the error in one of the three annotations, or an empty string."""
    match key:
        case _ if key == ON_FAILURE:
            return "" if text in tuple(OnFailure) else f"{text[:64]!r}: must be Stop or Rollback"
        case _ if key == MAX_FAILURES:
            fits = text.isascii() and text.isdecimal() and len(text) <= 9
            return "" if fits else f"{text[:64]!r}: must be an integer from 0 to 999999999"
        case _:
            try:
                return "" if parse_wait_time(text) > timedelta() else f"{text[:64]!r} is not positive"
            except ValueError as error:
                return str(error)


def policy_of(run: JsonObject) -> FailurePolicy | None:
    """Parse the failure policy of a run. None: disabled, it has none.

    Raises:
        RunFailedError: An annotation is invalid.
    """
    texts = {key: annotation(run, key) for key in (ON_FAILURE, MAX_FAILURES, CLUSTER_DEADLINE)}
    texts = {key: text for key, text in texts.items() if text}
    if not texts:
        return None
    for key, text in texts.items():
        if problem := annotation_problem(key, text):
            raise RunFailedError(RunFailureCause.FAILURE_POLICY_INVALID, f"annotation {key}: {problem}")
    return FailurePolicy(
        OnFailure(texts.get(ON_FAILURE, OnFailure.STOP)),
        int(texts.get(MAX_FAILURES, "0")),
        parse_wait_time(texts[CLUSTER_DEADLINE]) if CLUSTER_DEADLINE in texts else DEFAULT_DEADLINE,
    )


def inherited_annotations(run: JsonObject, strategy: JsonObject) -> Mapping[str, str]:
    """Return the annotations that a run inherits from its strategy. Annotations of the run have precedence."""
    own, inherited = annotations_of(run), annotations_of(strategy)
    return {key: inherited[key] for key in COPIED if key in inherited and key not in own}
