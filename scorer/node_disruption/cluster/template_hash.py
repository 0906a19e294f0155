"""The hash of a NodePool's template, and a cluster with changed NodePools, whose nodes drift.

The algorithm of the reference's hash is not a stable interface, so this is a different hash with its own version.
Claims that another controller has annotated are therefore never considered drifted (nodepool-disruption.md 3.2).

Source: docs/specifications/nodepool-disruption.md 3.1 and 3.2; Karpenter ``pkg/apis/v1/nodepool.go``, Hash.
"""

import hashlib
from collections.abc import Iterable
from dataclasses import replace
from typing import Final

from scorer.api.meta import JsonObject, dump_json
from scorer.api.node_pool import NodePool, NodeTaint, parse_duration_or_never
from scorer.api.values.duration import NEVER
from scorer.node_disruption.cluster.snapshot import (
    HASH,
    HASH_VERSION,
    ClusterNode,
    ClusterSnapshot,
    NodeClassState,
    NodePoolState,
)

HASH_VERSION_OWN: Final = "harbormaster-v1"
"""Value of the annotation ``karpenter.sh/nodepool-hash-version`` for our own hash."""
_DIGITS: Final = 16


def template_digest(pool: NodePool) -> str:
    """Return the hash of the drift-relevant part of a template: everything except for its requirements.

    The order of lists, the spelling of durations, and explicit empty lists do not change the hash.
    """
    template = pool.spec.template
    spec = template.spec
    content: JsonObject = {
        "labels": sorted(template.metadata.labels.items()),
        "annotations": sorted(template.metadata.annotations.items()),
        "taints": _sort_taints(spec.taints),
        "startupTaints": _sort_taints(spec.startup_taints),
        "nodeClassRef": [spec.node_class_ref.group, spec.node_class_ref.kind, spec.node_class_ref.name],
        "terminationGracePeriod": _seconds(spec.termination_grace_period),
        "expireAfter": _seconds(spec.expire_after),
    }
    return hashlib.sha256(dump_json(content)).hexdigest()[:_DIGITS]


def _sort_taints(taints: tuple[NodeTaint, ...]) -> list[list[str]]:
    return sorted([taint.key, taint.effect, taint.value or ""] for taint in taints)


def _seconds(text: str | None) -> float | str | None:
    """Return a duration in seconds, None if it is unset or ``Never``, or an invalid text unchanged."""
    if text is None or text == NEVER:
        return None
    try:
        duration = parse_duration_or_never(text)
    except ValueError:
        return text
    return None if duration is None else duration.total_seconds()


def with_pools(cluster: ClusterSnapshot, changed: Iterable[NodePoolState]) -> ClusterSnapshot:
    """Return the cluster with *changed* pools added or replaced by name.

    A pool's hash changes only if its template differs from today's. If the pool has no hash yet, claims without one are
    assumed to match today's pool. Nodes therefore drift exactly as they would after applying the change, even if
    another controller computed their hashes.
    """
    pools, nodes = dict(cluster.pools), dict(cluster.nodes)
    for pool in changed:
        today = cluster.pools.get(pool.name)
        if today is None:
            pools[pool.name] = pool
            continue
        mark, version = today.hash or template_digest(today.model), today.hash_version or HASH_VERSION_OWN
        is_same = template_digest(today.model) == template_digest(pool.model)
        pools[pool.name] = replace(
            pool,
            hash=mark if is_same else f"{mark}, changed",
            hash_version=version,
            in_use=today.in_use,
            deleting=today.deleting,
            node_class=pool.node_class or _same_class(today, pool),
            prices=today.prices,
        )
        if not today.hash:
            nodes.update(
                (name, _with_hash(node, mark, version)) for name, node in nodes.items() if node.pool == pool.name
            )
    return replace(cluster, pools=pools, nodes=nodes)


def _same_class(today: NodePoolState, pool: NodePoolState) -> NodeClassState | None:
    """Return today's class of a pool if the changed pool names the same one."""
    references = (state.model.spec.template.spec.node_class_ref for state in (today, pool))
    return today.node_class if next(references) == next(references) else None


def _with_hash(node: ClusterNode, mark: str, version: str) -> ClusterNode:
    """Return a node whose claim has a hash. An existing hash is kept."""
    if node.claim is None or HASH in node.claim.annotations:
        return node
    annotations = {**node.claim.annotations, HASH: mark, HASH_VERSION: version}
    return replace(node, claim=replace(node.claim, annotations=annotations))
