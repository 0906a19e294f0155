"""The annotation that stores an accepted command on each of its nodes.

The annotation is the only state of a command: a new leader resumes from it. It is written together with the taint in
one update, so that every tainted node shows which command tainted it.

Source: docs/specifications/nodepool-disruption.md 5.1 and 7.1.
"""

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, Final

import orjson

from scorer.api.meta import JsonObject, format_time, read_instant
from scorer.api.names import OURS
from scorer.api.unstructured.documents import annotation, name_of, spec_of
from scorer.node_budgets.nodes import DISRUPTED_TAINT
from scorer.node_disruption.candidates.refusals import EXPIRED
from scorer.node_disruption.methods.command import Command

COMMAND: Final = OURS + "disruption-command"
"""Annotation of a node that a command disrupts, and of a NodeClaim that replaces such nodes."""
EXPIRATION: Final = "Expiration"
"""Pseudo-method: the node has expired."""
DELETION: Final = "Deletion"
"""Pseudo-method: another actor has deleted the node or its claim, which is drained in the same way."""
OUT_OF_BALANCERS: Final = "node.kubernetes.io/exclude-from-external-load-balancers"
"""Label of a node that is being drained. External load balancers stop sending it new connections."""

_ID_DIGITS: Final = 10


@dataclass(frozen=True, slots=True)
class Order:
    """An accepted command.

    Args:
        id: Id, equal on all nodes and replacements of the command.
        method: A `scorer.node_disruption.methods.command.Method`, `EXPIRATION` or `DELETION`.
        reason: Reason as budgets name it, or ``Expired``.
        nodes: Names of all its nodes.
        since: Time at which it was accepted.
        replacements: Names of the NodeClaims that are created before the nodes are deleted.
        draining: Start of the drain of the annotated node. None if it has not started.
    """

    id: str
    method: str
    reason: str
    nodes: tuple[str, ...]
    since: datetime
    replacements: tuple[str, ...] = ()
    draining: datetime | None = None


def order_of(command: Command, uids: Iterable[str], now: datetime) -> Order:
    """Return the order for a command.

    Args:
        command: The command.
        uids: Uids of its nodes, so that recreated nodes of the same names get another order.
        now: Current time.
    """
    since = now.replace(microsecond=0)
    identity = _digest(command.method, *command.nodes, *uids, format_time(since))
    replacement_names = [
        _replacement_name(replacement.pool, identity, index) for index, replacement in enumerate(command.replacements)
    ]
    return Order(
        identity, command.method, command.reason, tuple(sorted(command.nodes)), since, tuple(replacement_names)
    )


def expiration_of(node: str, uid: str, now: datetime) -> Order:
    """Return the order for an expired node."""
    since = now.replace(microsecond=0)
    return Order(_digest(EXPIRATION, node, uid, format_time(since)), EXPIRATION, EXPIRED, (node,), since)


def deletion_of(node: str, uid: str, since: datetime) -> Order:
    """Return the order for a node that another actor deletes."""
    since = since.replace(microsecond=0)
    return Order(_digest(DELETION, node, uid), DELETION, DELETION, (node,), since, draining=since)


def read_order(document: JsonObject) -> Order | None:
    """Return the order in the annotation of a node or claim, or None if it is missing or unreadable."""
    text = annotation(document, COMMAND)
    try:
        value = orjson.loads(text) if text else None
    except orjson.JSONDecodeError:
        return None
    if not isinstance(value, dict):
        return None
    words: Any = [value.get(key) for key in ("id", "method", "reason")]
    nodes: Any = value.get("nodes")
    since, replacements = read_instant(value.get("since")), value.get("replacements", [])
    if since is None or not _are_texts(words) or not _are_texts(nodes) or not _are_texts(replacements):
        return None
    identity, method, reason = words
    drain_start = read_instant(value.get("draining"))
    return Order(identity, method, reason, tuple(nodes), since, tuple(replacements), drain_start)


def is_marked(node: JsonObject) -> bool:
    """Return whether a node has the annotation, even an unreadable one."""
    return bool(annotation(node, COMMAND))


def is_tainted(node: JsonObject) -> bool:
    """Return whether a node has the disruption taint, regardless of who added it."""
    return any(_is_ours(taint) for taint in _taints(node))


def mark_node(node: JsonObject, order: Order) -> JsonObject:
    """Return a node with taint and annotation. A draining node is also excluded from load balancers."""
    metadata = node["metadata"]
    taints = _taints(node)
    if not any(map(_is_ours, taints)):
        taints = [*taints, {"key": DISRUPTED_TAINT, "effect": "NoSchedule"}]
    changed = {**metadata, "annotations": {**(metadata.get("annotations") or {}), COMMAND: format_order(order)}}
    if order.draining is not None:
        changed["labels"] = {OUT_OF_BALANCERS: "harbormaster", **(metadata.get("labels") or {})}
    return {**node, "metadata": changed, "spec": {**spec_of(node), "taints": taints}}


def unmark_node(node: JsonObject) -> JsonObject:
    """Return a node without the marks of `mark_node`."""
    metadata = node["metadata"]
    annotations = {key: value for key, value in (metadata.get("annotations") or {}).items() if key != COMMAND}
    labels = {
        key: value
        for key, value in (metadata.get("labels") or {}).items()
        if (key, value) != (OUT_OF_BALANCERS, "harbormaster")
    }
    taints = [taint for taint in _taints(node) if not _is_ours(taint)]
    changed = {**metadata, "annotations": annotations, "labels": labels}
    return {**node, "metadata": changed, "spec": {**spec_of(node), "taints": taints}}


def format_order(order: Order) -> str:
    """Return an order serialized for the annotation."""
    document: JsonObject = {
        "id": order.id,
        "method": order.method,
        "reason": order.reason,
        "nodes": list(order.nodes),
        "replacements": list(order.replacements),
        "since": format_time(order.since),
    }
    if order.draining is not None:
        document["draining"] = format_time(order.draining)
    return orjson.dumps(document).decode()


def drained_from(order: Order, now: datetime) -> Order:
    """Return an order for a node whose drain starts now, unless it has started already."""
    return order if order.draining is not None else replace(order, draining=now.replace(microsecond=0))


def orders_on(nodes: Iterable[JsonObject]) -> dict[str, tuple[Order, dict[str, JsonObject]]]:
    """Return the orders on nodes, each with its nodes by name.

    Nodes with an unreadable annotation, or with one that does not name them, are omitted: see `orphaned_nodes`.
    Annotations are grouped by their complete content, so a node with a differing one never counts for the others, even
    under the same id.
    """
    orders: dict[str, tuple[Order, dict[str, JsonObject]]] = {}
    for node in nodes:
        order = own_order(node)
        if order is not None:
            plain_order = replace(order, draining=None)
            _, marked_nodes = orders.setdefault(format_order(plain_order), (plain_order, {}))
            marked_nodes[name_of(node)] = node
    return dict(sorted(orders.items()))


def orphaned_nodes(nodes: Iterable[JsonObject]) -> list[JsonObject]:
    """Return the nodes with our annotation that belong to no order."""
    return [node for node in nodes if is_marked(node) and own_order(node) is None]


def own_order(node: JsonObject) -> Order | None:
    """Return the order that disrupts a node, or None. An annotation about other nodes is ignored."""
    order = read_order(node)
    return order if order is not None and name_of(node) in order.nodes else None


def _taints(node: JsonObject) -> list[JsonObject]:
    taints = spec_of(node).get("taints")
    return [taint for taint in taints if isinstance(taint, dict)] if isinstance(taints, list) else []


def _is_ours(taint: JsonObject) -> bool:
    return taint.get("key") == DISRUPTED_TAINT and taint.get("effect") == "NoSchedule"


def _replacement_name(pool: str, identity: str, index: int) -> str:
    return f"{pool[:40].rstrip('-.')}-{identity}-{index}"


def _digest(*words: str) -> str:
    return hashlib.sha256("\n".join(words).encode()).hexdigest()[:_ID_DIGITS]


def _are_texts(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(text, str) for text in value)
