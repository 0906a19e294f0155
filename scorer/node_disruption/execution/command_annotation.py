"""The annotation in which an accepted command is stored on each of its nodes.

The annotation is all that is kept of it: a process that takes over finds there what was under way, and goes on. It is
written together with the taint, in one write, so that no node is tainted of which nobody could tell by whom.

Source: nodepool-disruption.md 5.1 and 7.1.
"""

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, Final

import orjson

from scorer.api.meta import JsonObject, format_time
from scorer.api.names import OURS
from scorer.api.unstructured.documents import annotation, name_of, spec_of
from scorer.node_budgets.nodes import DISRUPTED_TAINT
from scorer.node_disruption.candidates.refusals import EXPIRED
from scorer.node_disruption.cluster.pod import read_instant
from scorer.node_disruption.methods.command import Command

COMMAND: Final = OURS + "disruption-command"
"""On a node that a command takes, and on a NodeClaim that is made in the place of such nodes."""
EXPIRATION: Final = "Expiration"
"""In place of the method: the node has reached its age."""
DELETION: Final = "Deletion"
"""In place of the method: somebody else has deleted the node or its claim, which is drained all the same."""
OUT_OF_BALANCERS: Final = "node.kubernetes.io/exclude-from-external-load-balancers"
"""Label of a node that is drained: load balancers outside send it nothing new."""

_ID_DIGITS: Final = 10


@dataclass(frozen=True, slots=True)
class Order:
    """A command that has been accepted.

    Args:
        id: The same on all its nodes and replacements.
        method: A `scorer.node_disruption.methods.command.Method`, `EXPIRATION` or `DELETION`.
        reason: What budgets call it, or ``Expired``.
        nodes: Names of all its nodes.
        since: When it was accepted.
        replacements: Names of the NodeClaims that are made before the nodes go.
        draining: When the drain of the node began on which this stands; None: it has not.
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
        command: What is to be done.
        uids: Of its nodes: the same names later are another order.
        now: The instant.
    """
    since = now.replace(microsecond=0)
    identity = _digest(command.method, *command.nodes, *uids, format_time(since))
    named = [
        _replacement_name(replacement.pool, identity, index) for index, replacement in enumerate(command.replacements)
    ]
    return Order(identity, command.method, command.reason, tuple(sorted(command.nodes)), since, tuple(named))


def expiration_of(node: str, uid: str, now: datetime) -> Order:
    """Return the order for a node that has reached its age."""
    since = now.replace(microsecond=0)
    return Order(_digest(EXPIRATION, node, uid, format_time(since)), EXPIRATION, EXPIRED, (node,), since)


def deletion_of(node: str, uid: str, since: datetime) -> Order:
    """Return the order for a node that somebody else deletes."""
    since = since.replace(microsecond=0)
    return Order(_digest(DELETION, node, uid), DELETION, DELETION, (node,), since, draining=since)


def read_order(document: JsonObject) -> Order | None:
    """Return the order that is written on a node or a claim; None: there is none, or it cannot be read."""
    text = annotation(document, COMMAND)
    try:
        found = orjson.loads(text) if text else None
    except orjson.JSONDecodeError:
        return None
    if not isinstance(found, dict):
        return None
    words: Any = [found.get(key) for key in ("id", "method", "reason")]
    nodes: Any = found.get("nodes")
    since, replacements = read_instant(found.get("since")), found.get("replacements", [])
    if since is None or not _are_texts(words) or not _are_texts(nodes) or not _are_texts(replacements):
        return None
    identity, method, reason = words
    draining = read_instant(found.get("draining"))
    return Order(identity, method, reason, tuple(nodes), since, tuple(replacements), draining)


def is_marked(node: JsonObject) -> bool:
    """Say whether a node has the annotation, whatever it says."""
    return bool(annotation(node, COMMAND))


def is_tainted(node: JsonObject) -> bool:
    """Say whether a node has the taint of a node that goes, whoever has put it there."""
    return any(_is_ours(taint) for taint in _taints(node))


def marked(node: JsonObject, order: Order) -> JsonObject:
    """Return a node with taint and annotation; one that is drained is kept out of load balancers, too."""
    metadata = node["metadata"]
    taints = _taints(node)
    if not any(map(_is_ours, taints)):
        taints = [*taints, {"key": DISRUPTED_TAINT, "effect": "NoSchedule"}]
    changed = {**metadata, "annotations": {**(metadata.get("annotations") or {}), COMMAND: written(order)}}
    if order.draining is not None:
        changed["labels"] = {OUT_OF_BALANCERS: "harbormaster", **(metadata.get("labels") or {})}
    return {**node, "metadata": changed, "spec": {**spec_of(node), "taints": taints}}


def unmarked(node: JsonObject) -> JsonObject:
    """Return a node without what `marked` has put on it."""
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


def written(order: Order) -> str:
    """Return an order as the annotation has it."""
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
    """Return an order for a node whose drain begins now, if it has not begun."""
    return order if order.draining is not None else replace(order, draining=now.replace(microsecond=0))


def orders_on(nodes: Iterable[JsonObject]) -> dict[str, tuple[Order, dict[str, JsonObject]]]:
    """Return the orders that nodes carry, by what they say, each with its nodes by name.

    A node whose annotation cannot be read, or does not name it, carries none: see `orphaned_nodes`. One whose
    annotation says anything else than those of the other nodes, under the same id or not, does not speak for them.
    """
    orders: dict[str, tuple[Order, dict[str, JsonObject]]] = {}
    for node in nodes:
        order = own_order(node)
        if order is not None:
            accepted = replace(order, draining=None)
            _, carrying = orders.setdefault(written(accepted), (accepted, {}))
            carrying[name_of(node)] = node
    return dict(sorted(orders.items()))


def orphaned_nodes(nodes: Iterable[JsonObject]) -> list[JsonObject]:
    """Return the nodes with our annotation that no command holds."""
    return [node for node in nodes if is_marked(node) and own_order(node) is None]


def own_order(node: JsonObject) -> Order | None:
    """Return the order that takes a node; None: there is none, whatever its annotation says of others."""
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


def _are_texts(found: Any) -> bool:
    return isinstance(found, list) and all(isinstance(text, str) for text in found)
