"""The rule on the annotations by which a staged update strategy or a run says what happens when clusters fail.

A run whose annotations cannot be read is aborted, perhaps halfway: the rule reports a mistake when it is written.
"""

from collections.abc import Iterator
from typing import Final

from scorer.api.meta import ObjectMeta
from scorer.api.names import CLUSTER_DEADLINE, MAX_FAILURES, ON_FAILURE
from scorer.staged_update.policy import annotation_problem
from webhook.validation.context import Context
from webhook.validation.field import Cause, FieldError
from webhook.validation.metadata import METADATA
from webhook.validation.rule import OURS, deny

POLICY_READABLE: Final = deny(
    "X-55", "The annotations of a failure policy can be read: on-failure, max-failures, cluster-deadline.", OURS
)


def validate_failure_policy(metadata: ObjectMeta, old: ObjectMeta | None, context: Context) -> Iterator[FieldError]:
    """The annotations can be read (X-55); an empty one counts as absent.

    The loop copies those of a strategy onto the run, also ones that were stored before there was this rule.
    """
    if context.is_ours and old is not None:
        return
    for key in (ON_FAILURE, MAX_FAILURES, CLUSTER_DEADLINE):
        text = metadata.annotations.get(key, "")
        if text and (problem := annotation_problem(key, text)):
            yield FieldError(METADATA / "annotations" / key, Cause.INVALID, problem, "X-55")
