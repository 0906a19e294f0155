"""The fields of a node that the extender reads: its cluster or pool, and whether it is being removed.

Source: docs/specifications/serving.md 2.4.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from scorer.api.cluster.member_cluster import (
    Identity,
    MemberCluster,
    MemberClusterSpec,
    MemberClusterStatus,
    PropertyValue,
)
from scorer.api.meta import ObjectMeta
from scorer.api.node_pool import NODE_POOL_LABEL
from scorer.extender.pod import ExtenderTaint
from scorer.extender.reading import read_list, read_object, read_text, read_texts, wrong_type

DISRUPTED: Final = "karpenter.sh/disrupted"
"""Key of the taint that Karpenter puts on a node before it removes the node."""
PRICE: Final = "harbormaster.dev/price-per-hour"
"""Annotation of a node, and the property derived from it."""
WEIGHT: Final = "karpenter.sh/nodepool-weight"
"""The property derived from the weight of a node's pool."""
_NO_SPEC: Final = MemberClusterSpec(identity=Identity(kind="", name=""))


@dataclass(frozen=True, slots=True)
class ExtenderNode:
    """The parts of a node that the extender needs.

    Args:
        name: Name of the node.
        cluster: Name or alias of the member cluster that the node represents. Empty: no cluster.
        pool: Name of its node pool. None: unset.
        removed: Whether the node is being deleted.
        disrupted: Taints that announce its removal. Set only for a node of a pool.
        labels: Labels of the node, which preferences may select. Set only for a node of a pool.
        price: Value of the annotation with its price. Set only for a node of a pool.
    """

    name: str
    cluster: str = ""
    pool: str | None = None
    removed: bool = False
    disrupted: tuple[ExtenderTaint, ...] = ()
    labels: Mapping[str, str] | None = None
    price: str | None = None

    @property
    def is_of_pool(self) -> bool:
        """Whether the node belongs to a node pool and represents no member cluster."""
        return not self.cluster and self.pool is not None


def read_node(document: Any, cluster_labels: Sequence[str], path: str) -> ExtenderNode:
    """Read a node.

    Args:
        document: The node as decoded JSON.
        cluster_labels: Labels that name a member cluster, by descending precedence.
        path: Path of the node in the request, for messages.

    Raises:
        scorer.extender.reading.MalformedArgsError: A field that the extender reads has the wrong type.
    """
    if not isinstance(document, dict):
        raise wrong_type(document, path, "an object")
    metadata = read_object(document.get("metadata"), f"{path}.metadata")
    name = read_text(metadata.get("name"), f"{path}.metadata.name")
    labels = read_texts(metadata.get("labels"), f"{path}.metadata.labels")
    is_deleting = bool(read_text(metadata.get("deletionTimestamp"), f"{path}.metadata.deletionTimestamp"))
    for label in cluster_labels:
        if value := labels.get(label):
            return ExtenderNode(name, cluster=value, removed=is_deleting)
    pool = labels.get(NODE_POOL_LABEL)
    if pool is None:
        return ExtenderNode(name, removed=is_deleting)
    annotations = read_texts(metadata.get("annotations"), f"{path}.metadata.annotations")
    spec = read_object(document.get("spec"), f"{path}.spec")
    taints = read_list(spec.get("taints"), f"{path}.spec.taints")
    taints_present = [_read_taint(taint, f"{path}.spec.taints[{index}]") for index, taint in enumerate(taints)]
    return ExtenderNode(
        name,
        pool=pool,
        removed=is_deleting,
        disrupted=tuple(taint for taint in taints_present if taint.key == DISRUPTED),
        labels=labels,
        price=annotations.get(PRICE),
    )


def _read_taint(document: Any, path: str) -> ExtenderTaint:
    if not isinstance(document, dict):
        raise wrong_type(document, path, "an object")
    return ExtenderTaint(*(read_text(document.get(part), f"{path}.{part}") for part in ExtenderTaint._fields))


def as_member(node: ExtenderNode, weight: int) -> MemberCluster:
    """Return the node of a pool as a member of a fleet of nodes, so that preferences can score it like a cluster.

    Args:
        node: A node of a pool.
        weight: Weight of the pool.
    """
    properties = {WEIGHT: PropertyValue.model_construct(value=str(weight))}
    if node.price is not None:
        properties[PRICE] = PropertyValue.model_construct(value=node.price)
    return MemberCluster.model_construct(
        metadata=ObjectMeta.model_construct(name=node.name, labels=dict(node.labels or {})),
        spec=_NO_SPEC,
        status=MemberClusterStatus.model_construct(properties=properties),
    )
