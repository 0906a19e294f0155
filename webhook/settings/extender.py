"""Settings of the scheduler extender."""

from enum import StrEnum
from typing import Annotated, Final

from pydantic import Field

from scorer.extender.preferences import Preferences
from webhook.settings.environment import Settings
from webhook.settings.values import JSON, Words

CLUSTER_LABELS: Final = (
    "harbormaster.dev/member-cluster",
    "kubernetes-fleet.io/member-name",
    "liqo.io/remote-cluster-id",
    "multicluster.admiralty.io/cluster-target-name",
    "multicluster.admiralty.io/target-name",
)


class DuringUpdate(StrEnum):
    """Whether a member in upgrade accepts new pods."""

    FILTER = "Filter"
    IGNORE = "Ignore"


class OrdinaryNodes(StrEnum):
    """Whether a node that represents no member cluster accepts pods with a placement."""

    ALLOW = "Allow"
    REJECT = "Reject"


class UnknownNodes(StrEnum):
    """Whether an unknown node accepts pods."""

    ALLOW = "Allow"
    REJECT = "Reject"


class ExtenderSettings(Settings):
    """Filters and preferences for the nodes of pods."""

    extender_during_update: DuringUpdate = Field(
        default=DuringUpdate.FILTER,
        description=(
            "Handling of nodes of a member that an upgrade run is working on: `Filter` excludes them, `Ignore` does "
            "not."
        ),
    )
    extender_unknown_nodes: UnknownNodes = Field(
        default=UnknownNodes.ALLOW,
        description=(
            "Handling of nodes that are not in the cache yet: `Allow` accepts them, except for a pod that names a "
            "placement while `HARBORMASTER_EXTENDER_ORDINARY_NODES` is `Reject`. `Reject` excludes them."
        ),
    )
    extender_ordinary_nodes: OrdinaryNodes = Field(
        default=OrdinaryNodes.REJECT,
        description=(
            "Handling of nodes outside of member clusters and node pools: `Reject` excludes them for pods that name "
            "a placement, `Allow` does not."
        ),
    )
    extender_max_score: int = Field(
        default=10,
        ge=1,
        le=100,
        description=(
            "Highest score of the extender. If you raise it, lower `weight`: kube-scheduler expects at most 10, but "
            "version 1.36 does not check that."
        ),
    )
    extender_cluster_labels: Words = Field(
        default=CLUSTER_LABELS,
        description="Labels of a node that name its member cluster. The first one present is used.",
    )
    extender_default_preferences: Annotated[Preferences, JSON] = Field(
        default=(),
        description="Preferred terms for pods that do not name a placement, as in "
        "`preferredDuringSchedulingIgnoredDuringExecution` of a placement.",
    )
    extender_node_pool_preferences: Annotated[Preferences, JSON] = Field(
        default=(),
        description="Preferred terms among the nodes of node pools, in the form of "
        "`HARBORMASTER_EXTENDER_DEFAULT_PREFERENCES`.",
    )
    extender_protect_do_not_disrupt: bool = Field(
        default=True,
        description=(
            "Refuse preemption if a victim has the annotation `karpenter.sh/do-not-disrupt`. The extender sees "
            "annotations only with `nodeCacheCapable: false`."
        ),
    )
