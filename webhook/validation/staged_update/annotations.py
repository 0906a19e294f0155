"""Rules on the annotations of staged update strategies and runs: analysis and failure policy.

A run with an unreadable analysis waits for an approval by a user. A run with an unreadable failure policy is aborted.
These rules report the error when the annotation is written. They do not check whether the endpoints and kinds of an
analysis exist, because these are settings of the loop and may change.
"""

from collections.abc import Iterator
from typing import Final

from scorer.api.meta import ObjectMeta
from scorer.api.names import ANALYSIS, CLUSTER_DEADLINE, MAX_FAILURES, ON_FAILURE
from scorer.api.placement.staged_update import UpdateStrategySpec
from scorer.api.values.field_path import FieldPath
from scorer.staged_update.approval.analysis import AnalysisError, read_analysis, stage_problems
from scorer.staged_update.policy import annotation_problem
from webhook.validation.framework.context import Context
from webhook.validation.framework.field import Cause, FieldError
from webhook.validation.framework.metadata import METADATA
from webhook.validation.framework.rule import OURS, deny

READABLE: Final = deny("X-52", f"The annotation {ANALYSIS} must be a map of checks by stage.", OURS)
OF_STAGES: Final = deny(
    "X-53", f"The annotation {ANALYSIS} must name only stages with an Approval in afterStageTasks.", OURS
)

_AT: Final = METADATA / "annotations" / ANALYSIS
_STAGES: Final = FieldPath.of("spec", "stages")


def validate_analysis(metadata: ObjectMeta, old: ObjectMeta | None, context: Context) -> Iterator[FieldError]:
    """The annotation of an analysis is readable (X-52).

    Updates by the loop pass: it copies the annotation of a strategy onto a run, even if it is older than this rule.
    """
    text = metadata.annotations.get(ANALYSIS, "")
    if not text or (context.is_ours and old is not None):
        return
    try:
        read_analysis(text, metadata.namespace)
    except AnalysisError as error:
        yield FieldError(_AT, Cause.INVALID, str(error), "X-52")


def validate_analysed_stages(metadata: ObjectMeta, spec: UpdateStrategySpec) -> Iterator[FieldError]:
    """Only existing stages with an Approval in ``afterStageTasks`` have an analysis (X-53)."""
    text = metadata.annotations.get(ANALYSIS, "")
    if not text:
        return
    try:
        checks = read_analysis(text, metadata.namespace)
    except AnalysisError:
        return
    for problem in stage_problems(checks, spec.stages):
        yield FieldError(_AT, Cause.INVALID, problem, "X-53", (_AT, _STAGES))


POLICY_READABLE: Final = deny(
    "X-55", "The annotations of a failure policy must be well formed: on-failure, max-failures, cluster-deadline.", OURS
)


def validate_failure_policy(metadata: ObjectMeta, old: ObjectMeta | None, context: Context) -> Iterator[FieldError]:
    """The annotations of a failure policy are readable (X-55). An empty annotation counts as absent.

    Updates by the loop pass: it copies the annotations of a strategy onto a run, even if they are older than this rule.
    """
    if context.is_ours and old is not None:
        return
    for key in (ON_FAILURE, MAX_FAILURES, CLUSTER_DEADLINE):
        text = metadata.annotations.get(key, "")
        if text and (problem := annotation_problem(key, text)):
            yield FieldError(METADATA / "annotations" / key, Cause.INVALID, problem, "X-55")
