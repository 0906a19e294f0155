"""Rules on the annotation ``harbormaster.dev/analysis`` of staged update strategies and runs.

A run whose annotation cannot be used waits for a person, as one without it does, and says so only on the approval
request: these rules report a mistake when it is written. Endpoints and kinds are not looked up: which of them there are
is a setting of the loop, and may change.
"""

from collections.abc import Iterator
from typing import Final

from scorer.api.field_path import FieldPath
from scorer.api.meta import ObjectMeta
from scorer.api.names import ANALYSIS
from scorer.api.staged_update import UpdateStrategySpec
from scorer.staged_update.analysis import AnalysisError, read_analysis, stage_problems
from webhook.validation.context import Context
from webhook.validation.field import Cause, FieldError
from webhook.validation.metadata import METADATA
from webhook.validation.rule import OURS, deny

READABLE: Final = deny("X-52", f"The annotation {ANALYSIS} is a map of checks by stage.", OURS)
OF_STAGES: Final = deny("X-53", f"The annotation {ANALYSIS} names stages that wait for an Approval after them.", OURS)

_AT: Final = METADATA / "annotations" / ANALYSIS
_STAGES: Final = FieldPath.of("spec", "stages")


def validate_analysis(metadata: ObjectMeta, old: ObjectMeta | None, context: Context) -> Iterator[FieldError]:
    """The annotation can be read (X-52).

    The loop copies that of a strategy onto a run, also one that was stored before there was this rule.
    """
    text = metadata.annotations.get(ANALYSIS, "")
    if not text or (context.is_ours and old is not None):
        return
    try:
        read_analysis(text, metadata.namespace)
    except AnalysisError as error:
        yield FieldError(_AT, Cause.INVALID, str(error), "X-52")


def validate_analysed_stages(metadata: ObjectMeta, spec: UpdateStrategySpec) -> Iterator[FieldError]:
    """What is analysed are stages that wait for the approval that comes of it (X-53)."""
    try:
        checks = read_analysis(metadata.annotations.get(ANALYSIS) or "{}", metadata.namespace)
    except AnalysisError:
        return
    for problem in stage_problems(checks, spec.stages):
        yield FieldError(_AT, Cause.INVALID, problem, "X-53", (_AT, _STAGES))
