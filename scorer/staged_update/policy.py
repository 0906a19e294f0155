"""What a run does when clusters fail: ours, by annotations; without them a cluster in trouble is waited for.

``harbormaster.dev/cluster-deadline`` says how long one cluster may take, ``harbormaster.dev/max-failures`` how many of
a stage may miss that, and ``harbormaster.dev/on-failure`` what happens when more do: the run ends (``Stop``), or it
ends and another run takes back what it has changed (``Rollback``). Any of the three switches the policy on; the others
have their defaults then. The annotations of the run count before those of its strategy, which are copied onto the run
when it is initialised: what a run does later never depends on an object that somebody may have edited meanwhile.
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
"""The annotations that a run takes over from its strategy."""
DEFAULT_DEADLINE: Final = timedelta(minutes=5)


class OnFailure(StrEnum):
    """What happens when too many clusters of a stage have failed."""

    STOP = "Stop"
    ROLLBACK = "Rollback"


@dataclass(frozen=True, slots=True)
class FailurePolicy:
    """What a run does when clusters fail.

    Args:
        on_failure: What happens to the run.
        max_failures: How many clusters of one stage may fail.
        deadline: How long a cluster may be in flight.
    """

    on_failure: OnFailure = OnFailure.STOP
    max_failures: int = 0
    deadline: timedelta = DEFAULT_DEADLINE


def annotation_problem(key: str, text: str) -> str:
    """Return what is wrong with one of the three annotations, empty when it can be read."""
    match key:
        case _ if key == ON_FAILURE:
            return "" if text in tuple(OnFailure) else f"{text[:64]!r} is neither Stop nor Rollback"
        case _ if key == MAX_FAILURES:
            fits = text.isascii() and text.isdecimal() and len(text) <= 9
            return "" if fits else f"{text[:64]!r} is no integer from 0 to 999999999"
        case _:
            try:
                return "" if parse_wait_time(text) > timedelta() else f"{text[:64]!r} is not positive"
            except ValueError as error:
                return str(error)


def policy_of(run: JsonObject) -> FailurePolicy | None:
    """Read the failure policy of a run; None: it has none.

    Raises:
        RunFailedError: An annotation cannot be read.
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
    """Return the annotations that a run takes over from its strategy: those that it does not have itself."""
    own, found = annotations_of(run), annotations_of(strategy)
    return {key: found[key] for key in COPIED if key in found and key not in own}
