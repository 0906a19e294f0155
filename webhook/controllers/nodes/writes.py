"""Writes of node disruption: taint and untaint nodes, set conditions on NodeClaims, create replacements, delete.

Every write carries the resource version that was read, or the UID of its object, and a write without changes is
skipped. A sequence of writes can therefore be interrupted and repeated.

Source: docs/specifications/nodepool-disruption.md 7.1 and 9.
"""

from collections.abc import Callable, Iterable
from contextlib import suppress
from datetime import datetime
from typing import Final

from scorer.api import kinds
from scorer.api.conditions import make_condition
from scorer.api.meta import JsonObject, format_time
from scorer.api.unstructured.documents import (
    annotation,
    conditions_of,
    generation_of,
    is_deleting,
    metadata_of,
    name_of,
    status_of,
    uid_of,
)
from scorer.node_disruption.cluster.snapshot import TERMINATION_TIMESTAMP
from scorer.node_disruption.execution.command_annotation import (
    Order,
    is_marked,
    is_tainted,
    mark_node,
    read_order,
    unmark_node,
)
from webhook.controllers.nodes.cache import NodeWorld
from webhook.kube.ports import AlreadyExistsError, ConflictError, Key, NotFoundError, NotServedError

DISRUPTION_REASON: Final = "DisruptionReason"
"""Condition of a NodeClaim that is being disrupted."""
_ATTEMPTS: Final = 5

Change = Callable[[JsonObject], JsonObject | None]
"""Returns the desired form of a node. None if the node is skipped."""


class NodeCommands:
    """Writes to nodes and claims. All methods that write may raise `StoreError`.

    Args:
        world: The cached cluster.
        now: The clock.
    """

    def __init__(self, world: NodeWorld, now: Callable[[], datetime]) -> None:
        self._world = world
        self._hub = world.hub
        self._now = now

    async def mark(self, name: str, uid: str, order: Order) -> bool:
        """Set the taint and the annotation of a command on a node.

        Return False if the node no longer exists, or if another command or client has marked or tainted it.

        Args:
            name: Name of the node.
            uid: UID of the node. Another node of that name is skipped.
            order: Content of the annotation.
        """

        def change(node: JsonObject) -> JsonObject | None:
            order_on_node = read_order(node)
            has_other_order = (
                order_on_node.id != order.id if order_on_node is not None else is_marked(node) or is_tainted(node)
            )
            return None if has_other_order else mark_node(node, order)

        return await self._change(name, uid, change) is not None

    async def mark_deleted(self, name: str, uid: str, order: Order) -> bool:
        """Mark a node that another client deletes, regardless of its taints. Return False if it no longer exists."""
        return await self._change(name, uid, lambda node: mark_node(node, order)) is not None

    async def unmark(self, name: str, uid: str) -> None:
        """Remove the condition from a node's claim, and taint and annotation from the node if it is marked."""
        claim = self._world.claim_of(name)
        if claim is not None:
            await self.set_condition(claim, "")
        await self._change(name, uid, lambda node: unmark_node(node) if is_marked(node) else None)

    async def set_condition(self, claim: JsonObject, reason: str, message: str = "") -> None:
        """Set the disruption condition of a claim, unless it is True already. An empty *reason* removes it."""
        previous = next(
            (condition for condition in conditions_of(claim) if condition.get("type") == DISRUPTION_REASON), None
        )
        if (previous or {}).get("status") == "True" if reason else previous is None:
            return
        conditions = [condition for condition in conditions_of(claim) if condition.get("type") != DISRUPTION_REASON]
        if reason:
            generation = generation_of(claim)
            conditions.append(
                make_condition(DISRUPTION_REASON, "True", reason, message, generation=generation, now=self._now())
            )
        await self._hub.store_status(kinds.NODE_CLAIM, claim, {**status_of(claim), "conditions": conditions})

    async def set_deadline(self, claim: JsonObject, deadline: datetime) -> None:
        """Write the drain deadline on a claim, unless unchanged."""
        time = format_time(deadline)
        if annotation(claim, TERMINATION_TIMESTAMP) == time:
            return
        metadata = metadata_of(claim)
        annotations = {**(metadata.get("annotations") or {}), TERMINATION_TIMESTAMP: time}
        changed = {**claim, "metadata": {**metadata, "annotations": annotations}}
        await self._hub.amend(kinds.NODE_CLAIM, changed)

    async def create(self, claims: Iterable[JsonObject]) -> None:
        """Create the missing claims."""
        for claim in claims:
            if self._world.claim(name_of(claim)) is None:
                with suppress(AlreadyExistsError):
                    await self._hub.create(kinds.NODE_CLAIM, claim)

    def is_deleted(self, name: str) -> bool:
        """Return whether the claim, or the node if it has no claim, is being deleted or no longer exists."""
        document = self._world.claim_of(name) or self._world.cache.get(kinds.NODE, name)
        return document is None or is_deleting(document)

    async def delete(self, name: str, uid: str) -> None:
        """Delete the claim of a drained node, or the node if it has no claim. No-op if the name has another UID."""
        node = self._world.cache.get(kinds.NODE, name)
        if node is None or uid_of(node) != uid:
            return
        if (claim := self._world.claim_of(name)) is not None:
            await self.delete_claim(claim)
        elif not is_deleting(node):
            await self._hub.delete(kinds.NODE, node)

    async def delete_claim(self, claim: JsonObject) -> None:
        """Delete a claim, unless it is being deleted already."""
        if not is_deleting(claim):
            await self._hub.delete(kinds.NODE_CLAIM, claim)

    async def _change(self, name: str, uid: str, change: Change) -> JsonObject | None:
        """Change a node as stored: the cached one is trimmed. Return None if it is missing, recreated or skipped.

        Raises:
            NotServedError: The cluster does not serve nodes.
            ConflictError: Other clients have changed the node between every read and write.
        """
        cached = self._world.cache.get(kinds.NODE, name)
        for _ in range(_ATTEMPTS):
            try:
                node = await self._hub.store.get(kinds.NODE, Key(name))
            except NotServedError:
                raise
            except NotFoundError:
                if cached is not None:
                    self._world.cache.of_kind(kinds.NODE).drop(cached)
                return None
            if uid_of(node) != uid:
                self._world.cache.of_kind(kinds.NODE).put(node)
                return None
            changed = change(node)
            if changed is None or changed == node:
                self._world.cache.of_kind(kinds.NODE).put(node)
                return changed
            with suppress(ConflictError):  # the kubelet writes nodes, too: read again
                return await self._hub.replace(kinds.NODE, changed)
        raise ConflictError(f"conflict: other clients keep changing node {name}")
