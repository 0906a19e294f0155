"""NodePool (``karpenter.sh/v1``): the nodes that a pool may have, and how freely they may be disrupted.

Strings with their own grammar (durations, budgets, schedules, keys) are plain strings here. Their patterns are only in
the CRD. A stored pool may be older than the rules, and a budget that cannot be parsed must block all disruption
(nodepool-disruption.md 4.2), not make its pool unreadable. Admission checks the strings in
``webhook.validation.node_pool``.

Source: docs/specifications/nodepool-disruption.md 1; Karpenter ``pkg/apis/v1`` and
``pkg/apis/crds/karpenter.sh_nodepools.yaml``.
"""

from datetime import timedelta
from enum import StrEnum
from functools import lru_cache
from typing import Annotated, Any, Final, TypeAlias

from pydantic import Field, WithJsonSchema

from scorer.api.conditions import Condition
from scorer.api.meta import ApiModel, ApiObject, Int32, Int64, Name, shared_default
from scorer.api.values.duration import LONGEST_DURATION, NEVER, parse_sum
from scorer.api.values.int_or_percent import IntOrString
from scorer.api.values.label_selector import LONGEST_LABEL_KEY, LONGEST_LABEL_VALUE

DEFAULT_EXPIRE_AFTER: Final = "720h"
DEFAULT_CONSOLIDATE_AFTER: Final = "0s"
DEFAULT_BUDGET_NODES: Final = "10%"

LONGEST_LIST: Final = 100
"""Maximum number of requirements, and of template labels."""
MOST_BUDGETS: Final = 50
MOST_REASONS: Final = 50
MOST_MIN_VALUES: Final = 50
LONGEST_KEY: Final = 316
"""Characters of a requirement's key."""
LONGEST_NODES: Final = 256
"""Characters of a budget's ``nodes``."""
LONGEST_SCHEDULE: Final = 512
"""Maximum length of a schedule, in characters. One that lists every minute, hour, day and month has 413."""

CAPACITY_TYPE: Final = "karpenter.sh/capacity-type"
NODE_POOL_LABEL: Final = "karpenter.sh/nodepool"
HOSTNAME: Final = "kubernetes.io/hostname"
KARPENTER_DOMAIN: Final = "karpenter.sh"

DURATION_OR_NEVER_PATTERN: Final = r"^(([0-9]+(s|m|h))+|Never)$"
DURATION_PATTERN: Final = r"^([0-9]+(s|m|h))+$"
BUDGET_DURATION_PATTERN: Final = r"^((([0-9]+(h|m))|([0-9]+h[0-9]+m))(0s)?)$"
BUDGET_NODES_PATTERN: Final = r"^((100|[0-9]{1,2})%|[0-9]+)$"
SCHEDULE_PATTERN: Final = r"^(@(annually|yearly|monthly|weekly|daily|midnight|hourly))|((.+)\s(.+)\s(.+)\s(.+)\s(.+))$"
"""For the CRD only: in Python it takes polynomial time. ``scorer.windows.cron`` checks the same in linear time."""
LABEL_VALUE_PATTERN: Final = r"^(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?$"
QUALIFIED_NAME_PATTERN: Final = (
    r"^([a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*(\/))?([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]$"
)
QUANTITY_PATTERN: Final = (
    r"^(\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))(([KMGTPE]i)|[numkMGTPE]|([eE](\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))))?$"
)


class DisruptionReason(StrEnum):
    """Reason for a disruption. A budget may name its reasons."""

    UNDERUTILIZED = "Underutilized"
    EMPTY = "Empty"
    DRIFTED = "Drifted"
    UNHEALTHY = "Unhealthy"


class ConsolidationPolicy(StrEnum):
    """Nodes that may be removed to save cost."""

    WHEN_EMPTY = "WhenEmpty"
    WHEN_EMPTY_OR_UNDERUTILIZED = "WhenEmptyOrUnderutilized"
    BALANCED = "Balanced"


class RequirementOperator(StrEnum):
    """Comparison of the label with the values of a requirement."""

    IN = "In"
    NOT_IN = "NotIn"
    EXISTS = "Exists"
    DOES_NOT_EXIST = "DoesNotExist"
    GT = "Gt"
    LT = "Lt"
    GTE = "Gte"
    LTE = "Lte"


class TaintEffect(StrEnum):
    """Effect of a node's taint on pods that do not tolerate it."""

    NO_SCHEDULE = "NoSchedule"
    PREFER_NO_SCHEDULE = "PreferNoSchedule"
    NO_EXECUTE = "NoExecute"


def _words(enum: type[StrEnum]) -> dict[str, Any]:
    return {"enum": [word.value for word in enum]}


LabelValue: TypeAlias = Annotated[
    str, Field(json_schema_extra={"maxLength": LONGEST_LABEL_VALUE, "pattern": LABEL_VALUE_PATTERN})
]
ReasonWord: TypeAlias = Annotated[str, Field(json_schema_extra=_words(DisruptionReason))]
ResourceAmount: TypeAlias = Annotated[
    IntOrString,
    WithJsonSchema(
        {
            "x-kubernetes-int-or-string": True,
            "anyOf": [{"type": "integer"}, {"type": "string"}],
            "pattern": QUANTITY_PATTERN,
        }
    ),
]


class Requirement(ApiModel):
    """One condition on the label *key* of the pool's nodes."""

    key: str = Field(json_schema_extra={"maxLength": LONGEST_KEY, "pattern": QUALIFIED_NAME_PATTERN})
    """Label of the nodes, such as ``kubernetes.io/arch``."""
    operator: str = Field(json_schema_extra=_words(RequirementOperator))
    """Comparison of the label. In and NotIn: with ``values``. Exists and DoesNotExist: whether the label exists. Gt,
    Gte, Lt and Lte: as a whole number with the only value."""
    values: tuple[Annotated[str, Field(json_schema_extra={"maxLength": LONGEST_LABEL_VALUE})], ...] = ()
    """Values to compare with. At least one for In, exactly one number for Gt, Gte, Lt and Lte. Absent: no values."""
    min_values: Int64 | None = Field(default=None, ge=1, le=MOST_MIN_VALUES)
    """Minimum number of different values of the label that the pool can choose from. Absent: 1."""


class NodeTaint(ApiModel):
    """A taint that the pool's nodes are created with. If ``value`` is set, it must not be empty."""

    key: str = Field(
        json_schema_extra={"minLength": 1, "maxLength": LONGEST_LABEL_KEY, "pattern": QUALIFIED_NAME_PATTERN}
    )
    """Key of the taint, a qualified name such as ``example.com/gpu``."""
    effect: str = Field(json_schema_extra=_words(TaintEffect))
    """Effect on pods that do not tolerate it. NoSchedule: they are not placed there. PreferNoSchedule: only if no other
    node fits. NoExecute: they are also evicted."""
    value: str | None = Field(
        default=None, json_schema_extra={"maxLength": LONGEST_LABEL_KEY, "pattern": QUALIFIED_NAME_PATTERN}
    )
    """Value of the taint. Absent: none. An empty string is refused."""
    time_added: str | None = Field(default=None, json_schema_extra={"format": "date-time"})
    """Time when the taint was added, as an RFC 3339 instant such as ``2026-03-01T10:00:00Z``. Absent: unknown."""


class NodeClassReference(ApiModel):
    """The provider's object that defines the nodes' infrastructure. Only ``name`` may change."""

    group: str = Field(max_length=253, json_schema_extra={"pattern": "^[^/]*$"})
    """API group of the provider's kind. Cannot be changed."""
    kind: Name
    """The provider's kind. Cannot be changed."""
    name: Name
    """Name of the provider's object."""


class NodeTemplateMetadata(ApiModel):
    """Labels and annotations that every node of the pool gets."""

    labels: dict[str, LabelValue] = Field(default_factory=dict, max_length=LONGEST_LIST)
    """Labels of every node of the pool. Absent: none besides the usual ones."""
    annotations: dict[str, str] = Field(default_factory=dict)
    """Annotations of every node of the pool. Absent: none."""


def _lifetime(schema: dict[str, Any]) -> None:
    """Leave the default out of the schema: the API server would set it, and hide that the field was absent.

    Admission fills it in, with the value from the field's former place if there is one (nodepool-disruption.md 16).
    """
    schema |= {"maxLength": LONGEST_DURATION, "pattern": DURATION_OR_NEVER_PATTERN}
    schema.pop("default", None)


class NodeTemplateSpec(ApiModel):
    """``spec.template.spec``: what a node of the pool is."""

    node_class_ref: NodeClassReference
    """The provider's object that defines the machines."""
    requirements: tuple[Requirement, ...] = Field(max_length=LONGEST_LIST)
    """Conditions on the labels of the nodes, which must all hold. An empty list sets none."""
    taints: tuple[NodeTaint, ...] = ()
    """Taints that nodes keep. Pods must tolerate them. Absent: none."""
    startup_taints: tuple[NodeTaint, ...] = ()
    """Taints of new nodes, which a component on the node removes. Pods need not tolerate them. Absent: none."""
    expire_after: str = Field(default=DEFAULT_EXPIRE_AFTER, json_schema_extra=_lifetime)
    """Age at which a node is replaced, a duration in hours, minutes and seconds such as ``720h``, or Never. Absent:
    720h."""
    termination_grace_period: str | None = Field(
        default=None, json_schema_extra={"maxLength": LONGEST_DURATION, "pattern": DURATION_PATTERN}
    )
    """Maximum duration of the drain of a node, such as ``1h30m``. Its remaining pods are then terminated forcibly.
    Absent: unlimited."""


class NodeTemplate(ApiModel):
    """``spec.template``."""

    metadata: NodeTemplateMetadata = Field(default_factory=shared_default(NodeTemplateMetadata))
    """Labels and annotations of the nodes. Absent: none."""
    spec: NodeTemplateSpec
    """Properties of the nodes."""


class Budget(ApiModel):
    """Maximum number of concurrent disruptions, with their reasons and windows.

    ``reasons`` None means every reason, an empty list means no reason (nodepool-disruption.md 4.3).
    """

    nodes: str = Field(
        default=DEFAULT_BUDGET_NODES, json_schema_extra={"maxLength": LONGEST_NODES, "pattern": BUDGET_NODES_PATTERN}
    )
    """Maximum number of concurrent disruptions of the pool's nodes, as a count such as ``5`` or a percentage such as
    ``10%``, rounded up. ``0`` allows none."""
    reasons: tuple[ReasonWord, ...] | None = Field(
        default=None, max_length=MOST_REASONS, json_schema_extra={"x-kubernetes-list-type": "set"}
    )
    """Reasons that the budget limits: Underutilized, Empty, Drifted, Unhealthy. Absent: every reason. An empty list: no
    reason."""
    schedule: str | None = Field(
        default=None, json_schema_extra={"maxLength": LONGEST_SCHEDULE, "pattern": SCHEDULE_PATTERN}
    )
    """Start times of the budget's windows, a cron expression with five fields in UTC, or a word such as ``@daily``.
    Only together with ``duration``. Absent: the budget is always active."""
    duration: str | None = Field(
        default=None, json_schema_extra={"maxLength": LONGEST_DURATION, "pattern": BUDGET_DURATION_PATTERN}
    )
    """Length of the budget's windows, a duration in hours and minutes such as ``8h`` or ``1h30m``. Only together with
    ``schedule``. Absent: the budget is always active."""


class Disruption(ApiModel):
    """``spec.disruption``: when nodes may be disrupted. An empty list of budgets means no limit.

    ``expireAfter`` was once documented here. It is kept only so that defaulting can copy it to the template
    (nodepool-disruption.md 16).
    """

    consolidation_policy: ConsolidationPolicy = ConsolidationPolicy.WHEN_EMPTY_OR_UNDERUTILIZED
    """Nodes that may be removed or replaced to reduce cost. WhenEmpty: those without pods. WhenEmptyOrUnderutilized:
    also those whose pods fit elsewhere. Balanced: the latter only where the gain outweighs the disruption."""
    consolidate_after: str = Field(
        default=DEFAULT_CONSOLIDATE_AFTER,
        json_schema_extra={"maxLength": LONGEST_DURATION, "pattern": DURATION_OR_NEVER_PATTERN},
    )
    """Minimum time without changes to the pods of a node before it may be consolidated, a duration such as ``30s`` or
    ``5m``, or Never."""
    budgets: tuple[Budget, ...] = Field(
        default=(Budget.model_construct(),),
        max_length=MOST_BUDGETS,
        json_schema_extra={"default": [{"nodes": DEFAULT_BUDGET_NODES}]},
    )
    """Limits on disruption. The strictest active one applies. An empty list sets no limit."""
    expire_after: Any = Field(
        default=None, deprecated=True, json_schema_extra={"x-kubernetes-preserve-unknown-fields": True}
    )
    """Deprecated, the former place of the duration ``template.spec.expireAfter``. Absent: nothing is copied."""


class NodePoolSpec(ApiModel):
    """``spec`` of a NodePool. ``replicas`` makes the pool *static*."""

    template: NodeTemplate
    """Template of the pool's nodes."""
    disruption: Disruption = Field(
        default_factory=shared_default(Disruption),
        json_schema_extra={"default": {"consolidateAfter": DEFAULT_CONSOLIDATE_AFTER}},
    )
    """Times at which nodes may be removed or replaced, and the number of concurrent disruptions."""
    limits: dict[str, ResourceAmount] = Field(default_factory=dict)
    """Maximum sums over all nodes of the pool, by resource name, as quantities, such as ``cpu: 1000``. ``nodes`` limits
    their number. Absent: no limit."""
    weight: Int32 | None = Field(default=None, ge=1, le=100)
    """Preference among pools that fit a pod: the largest weight is preferred. Absent: 0, the least preferred. Not for
    static pools."""
    replicas: Int64 | None = Field(default=None, ge=0)
    """Number of nodes that a static pool keeps, regardless of pods. Absent: nodes are added and removed with the pods.
    It can be neither added nor removed later."""


class NodePoolStatus(ApiModel):
    """``status`` of a NodePool, written by controllers."""

    resources: dict[str, ResourceAmount] = Field(default_factory=dict)
    """Sums over the nodes of the pool, by resource name, as quantities."""
    nodes: Int64 = 0
    """Number of nodes of the pool."""
    node_class_observed_generation: Int64 = 0
    """Last observed generation of the provider's object."""
    conditions: tuple[Condition, ...] = ()
    """Whether the pool is valid, its node class ready, and the pool therefore Ready."""


class NodePool(ApiObject):
    """A group of similar nodes in one cluster, with limits on their disruption."""

    spec: NodePoolSpec
    """Properties of the pool's nodes, and limits on their disruption."""
    status: NodePoolStatus = Field(default_factory=shared_default(NodePoolStatus))
    """Present state of the pool, written by controllers."""


def parse_duration_or_never(text: str) -> timedelta | None:
    """Parse ``expireAfter`` or ``consolidateAfter``. ``Never`` becomes None.

    Raises:
        ValueError: Neither ``Never`` nor whole hours, minutes and seconds of at most 64 bits of nanoseconds.
    """
    return None if text == NEVER else parse_sum(text)


@lru_cache(maxsize=1024)
def read_duration_or_never(text: str) -> timedelta | None:
    """Return a duration, or None if it is ``Never`` or invalid."""
    try:
        return parse_duration_or_never(text)
    except ValueError:
        return None
