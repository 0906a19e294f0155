"""The ClusterUpgradeRequests of a hub: create, cancel, report, read.

Source: docs/specifications/upgrade-runs.md 13.4.
"""

from collections.abc import Callable, Mapping
from contextlib import suppress
from datetime import datetime
from typing import Final

import orjson

from scorer.api.kinds import MEMBER_CLUSTER, UPGRADE_REQUEST
from scorer.api.meta import JsonObject, format_time
from scorer.api.names import UPGRADED_MEMBER
from scorer.api.unstructured.documents import annotation, status_of, text_at, with_metadata, with_spec
from scorer.upgrade.back_ends.interface import Inventory, Operation, Rejected, Started, StartResult
from scorer.upgrade.back_ends.inventories import LONGEST_OBSERVED, OBSERVED, reported_inventory
from scorer.upgrade.back_ends.requests import (
    LONGEST_LABEL,
    is_of,
    observation_of,
    report_of,
    request_document,
    request_name,
)
from webhook.controllers.upgraders.upgrader import MemberRef
from webhook.kube.cache.hub import Hub
from webhook.kube.ports import AlreadyExistsError, ConflictError, InvalidObjectError, Key, key_of

_ATTEMPTS: Final = 4
_CONFLICT: Final = Rejected("NameTaken", "a ClusterUpgradeRequest of the same name belongs to another operation")


class UpgradeRequestStore:
    """Reads and writes ClusterUpgradeRequests.

    Args:
        hub: The hub cluster.
        now: The clock.
    """

    def __init__(self, hub: Hub, now: Callable[[], datetime]) -> None:
        self._hub = hub
        self._now = now
        hub.cache.require((UPGRADE_REQUEST,))

    def find(self, operation: Operation) -> JsonObject | None:
        """Return the request of an operation, None if it does not exist."""
        request = self._hub.cache.get(UPGRADE_REQUEST, request_name(operation))
        return request if request is not None and is_of(request, operation.id) else None

    async def make(self, operation: Operation) -> StartResult:
        """Create the request of an operation, unless it exists. A name taken by another operation is a rejection."""
        request = self._hub.cache.get(UPGRADE_REQUEST, request_name(operation))
        if request is None:
            try:
                await self._hub.create(UPGRADE_REQUEST, request_document(operation))
            except AlreadyExistsError:
                request = self._hub.cache.get(UPGRADE_REQUEST, request_name(operation))
            else:
                return Started.ACCEPTED
        return Started.ALREADY_RUNNING if request is not None and is_of(request, operation.id) else _CONFLICT

    async def request_cancellation(self, operation: Operation) -> bool:
        """Request the cancellation of an operation from the upgrader. Return whether the operation has a request."""
        if (request := self.find(operation)) is None:
            return False
        if request["spec"].get("cancelRequested") is not True:
            await self._hub.replace(UPGRADE_REQUEST, with_spec(request, cancelRequested=True))
        return True

    async def report(self, request: JsonObject, **fields: object) -> JsonObject:
        """Write fields of the status of a request, with the time as its heartbeat. Return the stored request."""
        status = {**status_of(request), **fields, "heartbeatTime": format_time(self._now())}
        return await self._hub.store_status(UPGRADE_REQUEST, request, status)

    def member(self, name: str) -> MemberRef | None:
        """Return the reference of a MemberCluster, or None if it does not exist."""
        document = self._hub.cache.get(MEMBER_CLUSTER, name)
        return None if document is None else MemberRef.of(document)

    def inventory(self, member: MemberRef) -> Inventory | None:
        """Return the last reported inventory of a member. None: unknown."""
        document = {"metadata": {"name": member.name, "annotations": dict(member.annotations)}}
        return reported_inventory(document, self._of(member.name))

    def _of(self, member: str) -> list[JsonObject]:
        if len(member) <= LONGEST_LABEL:
            requests = self._hub.cache.labelled(UPGRADE_REQUEST, UPGRADED_MEMBER, member)
        else:
            requests = self._hub.cache.list(UPGRADE_REQUEST)
        return [request for request in requests if text_at(request, "spec", "memberName") == member]

    def all(self) -> Mapping[Key, JsonObject]:
        """Return all present requests."""
        return dict(self._hub.cache.of_kind(UPGRADE_REQUEST).objects)

    def has_news_of(self, member: str, before: Mapping[Key, JsonObject]) -> bool:
        """Return whether any request of a member has changed since *before*."""
        return any(before.get(key_of(request)) is not request for request in self._of(member))

    async def note_inspected(self, member: JsonObject, inventory: Inventory) -> None:
        """Store an inspected inventory in an annotation of a member, unless it equals the last reported one.

        An inventory without a version, or longer than `LONGEST_OBSERVED`, is not stored.

        Raises:
            ConflictError: Another client has written the member.
        """
        previous = self.inventory(MemberRef.of(member))
        if not inventory.version or (
            previous is not None and (previous.version, previous.pools) == (inventory.version, inventory.pools)
        ):
            return
        text = orjson.dumps({**report_of(inventory), "heartbeatTime": format_time(self._now())}).decode()
        if len(text) <= LONGEST_OBSERVED:
            await self._hub.amend(MEMBER_CLUSTER, with_metadata(member, annotations={OBSERVED: text}))

    async def note(self, request: JsonObject) -> None:
        """Annotate a member with the inventory that a request reports: the request is deleted with its run.

        A no-op without an inventory, or if it is recorded already or too long.

        Raises:
            ConflictError: Other clients keep writing the member.
        """
        for _ in range(_ATTEMPTS - 1):
            with suppress(ConflictError):  # the cache has read the member again
                return await self._note(request)
        return await self._note(request)

    async def _note(self, request: JsonObject) -> None:
        status = status_of(request)
        member = self._hub.cache.get(MEMBER_CLUSTER, text_at(request, "spec", "memberName"))
        inventory = observation_of(request).inventory
        if member is None or inventory is None:
            return
        previous = reported_inventory(member, ())
        if previous is not None and (previous.version, previous.pools) == (inventory.version, inventory.pools):
            return
        report = {key: status[key] for key in ("heartbeatTime", "finishedTime") if key in status}
        text = orjson.dumps({**report_of(inventory), **report})
        if len(text) > LONGEST_OBSERVED or annotation(member, OBSERVED) == text.decode():  # longer ones are not parsed
            return
        with suppress(InvalidObjectError):  # the annotations are full: the upgrade has ended anyway
            await self._hub.amend(MEMBER_CLUSTER, with_metadata(member, annotations={OBSERVED: text.decode()}))
