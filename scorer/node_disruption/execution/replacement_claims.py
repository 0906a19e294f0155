"""NodeClaims of new nodes, which a provisioner must launch before old nodes are deleted.

Source: docs/specifications/nodepool-disruption.md 6.3, 7.1 and 15; Karpenter v1.15.0
``pkg/controllers/provisioning/scheduling/nodeclaimtemplate.go``.
"""

from collections.abc import Iterator, Mapping
from typing import Final

from scorer.api.kinds import NODE_CLAIM, NODE_POOL
from scorer.api.meta import JsonObject
from scorer.api.node_pool import HOSTNAME, NODE_POOL_LABEL
from scorer.api.unstructured.documents import annotations_of, dict_at, labels_of, metadata_of
from scorer.node_disruption.cluster.requirements import INSTANCE_TYPE, Allowed, one_of
from scorer.node_disruption.cluster.resources import CPU, total
from scorer.node_disruption.cluster.snapshot import HASH, HASH_VERSION
from scorer.node_disruption.execution.command_annotation import COMMAND, Order, format_order
from scorer.node_disruption.instance_types.new_node import NewNode

MOST_TYPES: Final = 600
"""Maximum number of instance types that a claim names, the cheapest first."""

_COPIED: Final = ("nodeClassRef", "taints", "startupTaints", "expireAfter", "terminationGracePeriod")
_IN_LABELS: Final = (NODE_POOL_LABEL, HOSTNAME)


def claims_of(order: Order, nodes: tuple[NewNode, ...], pools: Mapping[str, JsonObject]) -> list[JsonObject]:
    """Return the claims of an order, in the order of its names.

    Args:
        order: The order, which names the claims.
        nodes: The new nodes.
        pools: Stored NodePools by name. Each pool of *nodes* must be present.
    """
    return [_claim(name, node, order, pools[node.pool]) for name, node in zip(order.replacements, nodes, strict=True)]


def _claim(name: str, node: NewNode, order: Order, pool: JsonObject) -> JsonObject:
    template = dict_at(pool, "spec", "template")
    marks = {key: value for key, value in annotations_of(pool).items() if key in (HASH, HASH_VERSION)}
    certain = {key: value for key, requirement in node.requirements.items() if (value := requirement.only) is not None}
    reference = {
        "apiVersion": NODE_POOL.api_version,
        "kind": NODE_POOL.kind,
        "name": node.pool,
        "uid": metadata_of(pool).get("uid", ""),
        "blockOwnerDeletion": True,
    }
    template_spec = dict_at(template, "spec")
    return {
        "apiVersion": NODE_CLAIM.api_version,
        "kind": NODE_CLAIM.kind,
        "metadata": {
            "name": name,
            "labels": {**certain, **labels_of(template), NODE_POOL_LABEL: node.pool},
            "annotations": {**annotations_of(template), **marks, COMMAND: format_order(order)},
            "ownerReferences": [reference],
        },
        "spec": {
            **{key: template_spec[key] for key in _COPIED if key in template_spec},
            "requirements": list(_requirements(node)),
            "resources": {"requests": _requests(node)},
        },
    }


def _requirements(node: NewNode) -> Iterator[JsonObject]:
    requirements = {key: requirement for key, requirement in node.requirements.items() if key not in _IN_LABELS}
    if node.types and node.pods:  # a replacement in a static pool may have any type that the pool allows
        requirements[INSTANCE_TYPE] = one_of(*(instance_type.name for instance_type in node.types[:MOST_TYPES]))
    for key, requirement in sorted(requirements.items()):
        equivalents = list(_equivalent_requirements(key, requirement))
        if key in node.min_values:
            equivalents[0]["minValues"] = node.min_values[key]
        yield from equivalents


def _equivalent_requirements(key: str, requirement: Allowed) -> Iterator[JsonObject]:
    """Yield requirements that together are equivalent to *requirement*."""
    if not requirement.others:
        values = sorted(requirement.values)
        yield {"key": key, "operator": "In", "values": values} if values else {"key": key, "operator": "DoesNotExist"}
        return
    if requirement.values:
        yield {"key": key, "operator": "NotIn", "values": sorted(requirement.values)}
    if requirement.low is not None:
        yield {"key": key, "operator": "Gte", "values": [str(max(0, requirement.low))]}
    if requirement.high is not None:
        yield {"key": key, "operator": "Lte", "values": [str(max(0, requirement.high))]}
    if not requirement.values and requirement.low is None and requirement.high is None:
        yield {"key": key, "operator": "Exists"}


def _requests(node: NewNode) -> dict[str, str]:
    needs = total((node.daemons, *(pod.requests for pod in node.pods)))
    return {key: f"{amount}m" if key == CPU else str(amount) for key, amount in sorted(needs.items())}
