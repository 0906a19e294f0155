"""The client of the upgrade back ends: every call has a timeout and is retried with backoff.

A failed or timed out call reveals nothing about the cluster, so the run is not changed. The call is retried after 5
seconds, with backoff up to 5 minutes.

Source: docs/specifications/upgrade-runs.md 13.1.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any, Final, Protocol, TypeVar

from scorer.api.meta import JsonObject
from scorer.api.unstructured.documents import uid_of
from scorer.api.upgrade.fields import UpgradeType
from scorer.upgrade.back_ends.interface import (
    CancelResult,
    Capabilities,
    Inventory,
    Issue,
    Observation,
    Operation,
    OperationState,
    Rejected,
    Started,
    Target,
)
from webhook.controllers.machinery.result import is_cancelled
from webhook.controllers.upgraders.type_check import check_answer
from webhook.controllers.upgraders.upgrader import MemberRef, Upgrader
from webhook.kube.cache.hub import run_concurrently
from webhook.settings.upgraders import UpgraderOptions

FIRST_PAUSE: Final = timedelta(seconds=5)
LONGEST_PAUSE: Final = timedelta(minutes=5)
POLL_INTERVAL: Final = timedelta(minutes=1)
"""Lifetime of preflight results."""
_INVENTORY: Final = Inventory | None

T = TypeVar("T")
Place = tuple[str, str]
"""Key of a backoff: a back end with a call, and the member or operation of the call."""

log = logging.getLogger(__name__)


class ErrorObserver(Protocol):
    """Called on every failed call of a back end. Must be quick and must not raise."""

    def __call__(self, upgrader: str, call: str) -> None:
        """Count a call that has failed or timed out."""
        ...


def _nobody(upgrader: str, call: str) -> None:
    """Ignore the failure."""


@dataclass(slots=True)
class _Pause:
    """Backoff of a failing call: consecutive failures, time of the last one, and delay."""

    failures: int
    since: datetime
    wait: timedelta

    def lasts(self, now: datetime) -> bool:
        """Return whether the call is backed off. A clock that was set back ends the backoff."""
        return timedelta() <= now - self.since < self.wait


@dataclass(frozen=True, slots=True)
class _CachedInventory:
    """Result of an inspection."""

    document: JsonObject
    at: datetime
    inventory: Inventory | None


@dataclass(frozen=True, slots=True)
class _Asked:
    """Result of a preflight check."""

    at: datetime
    issues: Sequence[Issue]


class UpgraderBackEnds:
    """The back ends of a hub.

    Args:
        upgraders: Back ends by name.
        options: Settings of the operator.
        now: The clock.
        failed: Called on failed calls.
    """

    def __init__(
        self,
        upgraders: Mapping[str, Upgrader],
        options: UpgraderOptions,
        now: Callable[[], datetime],
        failed: ErrorObserver = _nobody,
    ) -> None:
        self._upgraders = upgraders
        self._options = options
        self._now = now
        self._failed = failed
        self._pauses: dict[Place, _Pause] = {}
        self._inventories: dict[str, _CachedInventory] = {}
        self._issues: dict[tuple[UpgradeType, str], dict[str, _Asked]] = {}
        self._observations: dict[str, Observation] = {}

    @property
    def default(self) -> str:
        """Back end of members that name none."""
        return self._options.default

    @property
    def poll(self) -> timedelta:
        """Poll interval of operations."""
        return self._options.poll

    @property
    def capabilities(self) -> Mapping[str, Capabilities]:
        """Capabilities by back end. A back end that fails to report them supports no upgrade type."""
        return {name: self._capabilities(name, upgrader) for name, upgrader in self._upgraders.items()}

    def _capabilities(self, name: str, upgrader: Upgrader) -> Capabilities:
        try:
            capabilities = upgrader.capabilities
            check_answer(capabilities, Capabilities)
        except Exception as error:  # noqa: BLE001 - as for the calls
            self._pause((f"{name}/capabilities", name), name, "capabilities", name, error)
            return Capabilities(types=frozenset())
        return capabilities

    async def inspect(
        self, members: Mapping[str, tuple[JsonObject, str]], *, anew: bool = False
    ) -> Mapping[str, Inventory]:
        """Return the inventories of members. Unknown inventories are omitted.

        Args:
            members: All MemberClusters, each with its back end, by name.
            anew: Whether to also inspect members whose inventory is still fresh.
        """
        now = self._now()
        due_members = [
            (document, upgrader)
            for name, (document, upgrader) in members.items()
            if anew or not self._is_fresh(name, document, now)
        ]
        await run_concurrently(self._look(document, upgrader, now) for document, upgrader in due_members)
        for name in self._inventories.keys() - members.keys():
            del self._inventories[name]
        inventories = ((name, look.inventory) for name, look in self._inventories.items())
        return {name: inventory for name, inventory in inventories if inventory is not None}

    def _is_fresh(self, name: str, document: JsonObject, now: datetime) -> bool:
        cached = self._inventories.get(name)
        return cached is not None and cached.document is document and abs(now - cached.at) < self._options.poll

    async def _look(self, document: JsonObject, upgrader: str, now: datetime) -> None:
        """Inspect a member. If the call fails, the last inventory of the same cluster still counts."""
        member = MemberRef.of(document)
        is_answered, inventory = await self._ask(
            upgrader, "inspect", member.name, lambda back_end: back_end.inspect(member), _INVENTORY
        )
        cached = self._inventories.get(member.name)
        if not is_answered and cached is not None and uid_of(cached.document) == uid_of(document):
            inventory = cached.inventory
        self._inventories[member.name] = _CachedInventory(document, now, inventory)

    async def preflight(
        self, members: Mapping[str, tuple[JsonObject, str]], target: Target, *, anew: bool = False
    ) -> Mapping[str, Sequence[Issue]]:
        """Return the issues that back ends expect, by member. Members without issues are left out.

        If a call fails, the previous result for the member counts.

        Args:
            members: The MemberClusters, each with its back end, by name.
            target: Target of the upgrade.
            anew: Whether to also check members whose result is still fresh.
        """
        now = self._now()

        async def ask(document: JsonObject, upgrader: str) -> None:
            member = MemberRef.of(document)
            is_answered, issues = await self._ask(
                upgrader, "preflight", member.name, lambda back_end: back_end.preflight(member, target), Sequence
            )
            if is_answered:
                issues_by_member[member.name] = _Asked(now, _issues_in(issues or ()))

        issues_by_member = self._issues.setdefault((target.type, target.kubernetes_version), {})
        due_members = [
            member
            for name, member in members.items()
            if anew or (previous := issues_by_member.get(name)) is None or abs(now - previous.at) >= POLL_INTERVAL
        ]
        await run_concurrently(ask(document, upgrader) for document, upgrader in due_members)
        for name in issues_by_member.keys() - members.keys():
            del issues_by_member[name]
        return {name: entry.issues for name, entry in issues_by_member.items() if entry.issues}

    async def observe(
        self, operations: Iterable[Operation], documents: Mapping[str, JsonObject]
    ) -> Mapping[str, Observation]:
        """Return observations of operations, by id. Operations whose calls failed or are backed off are left out.

        Args:
            operations: The operations.
            documents: The MemberClusters. After a successful upgrade, the cluster is inspected once more unless the
                observation contains its inventory.
        """
        observations: dict[str, Observation] = {}

        async def ask(operation: Operation) -> None:
            _, observation = await self._ask(
                operation.upgrader, "observe", operation.id, lambda back_end: back_end.observe(operation), Observation
            )
            if observation is not None and observation.trouble:
                self._failed(operation.upgrader, "observe")
            document = documents.get(operation.member)
            if observation is not None and observation.state is OperationState.SUCCEEDED and document is not None:
                observation = await self._verified(operation, observation, document)
            if observation is not None:
                observations[operation.id] = self._observations[operation.id] = observation

        operation_list = list(operations)
        await run_concurrently(ask(operation) for operation in operation_list)
        return observations

    async def _verified(
        self, operation: Operation, observation: Observation, document: JsonObject
    ) -> Observation | None:
        """Return an observation with the new inventory of the cluster. None: unknown, the inspection failed."""
        if observation.inventory is not None:
            self._inventories[operation.member] = _CachedInventory(document, self._now(), observation.inventory)
            return observation
        member = MemberRef.of(document)
        is_answered, inventory = await self._ask(
            operation.upgrader, "inspect", member.name, lambda back_end: back_end.inspect(member), _INVENTORY
        )
        if not is_answered:
            return None
        self._inventories[member.name] = _CachedInventory(document, self._now(), inventory)
        return observation if inventory is None else replace(observation, inventory=inventory)

    @property
    def seen(self) -> Mapping[str, Observation]:
        """Last observations by operation id, as far as this process has them."""
        return self._observations

    def forget(self, run: str) -> None:
        """Drop all operations of the run with this UID."""
        for key in [key for key in self._observations if key.partition("/")[0] == run]:
            del self._observations[key]
        for place in [pause for pause in self._pauses if pause[1].partition("/")[0] == run]:
            del self._pauses[place]

    async def start(self, operation: Operation) -> Rejected | None:
        """Start an operation. Return its rejection, None if it was started or the call failed.

        A failed call may have arrived. It is repeated once the back end reports that it does not know the operation.
        """
        _, result = await self._ask(
            operation.upgrader,
            "start",
            operation.id,
            lambda back_end: back_end.start_upgrade(operation),
            Started | Rejected,
        )
        return result if isinstance(result, Rejected) else None

    async def cancel(self, operation: Operation) -> None:
        """Cancel an operation, best effort."""
        await self._ask(
            operation.upgrader, "cancel", operation.id, lambda back_end: back_end.cancel(operation), CancelResult
        )

    async def _ask(
        self,
        upgrader: str,
        call: str,
        about: str,
        ask: Callable[[Upgrader], Awaitable[T]],
        expected: Any,
    ) -> tuple[bool, T | None]:
        """Make one call, unless it is backed off. Return whether the back end responded, and its response or None.

        A response of the wrong type counts as a failure. An unknown back end is not called. A CancelledError from an
        inner task of the back end does not cancel this task.
        """
        cached = self._upgraders.get(upgrader)
        place = f"{upgrader}/{call}", about
        pause = self._pauses.get(place)
        if cached is None or (pause is not None and pause.lasts(self._now())):
            return False, None
        try:
            async with asyncio.timeout(self._options.call.total_seconds()):
                answer = await ask(cached)
            check_answer(answer, expected)
        except (Exception, asyncio.CancelledError) as error:  # a bug in a back end must not stop the run
            if is_cancelled(error):
                raise
            self._pause(place, upgrader, call, about, error)
            return False, None
        self._pauses.pop(place, None)
        return True, answer

    def _pause(self, place: Place, upgrader: str, call: str, about: str, error: BaseException) -> None:
        cached = self._pauses.get(place)
        failures = 0 if cached is None else cached.failures
        wait = min(FIRST_PAUSE * 2**failures, LONGEST_PAUSE)
        self._pauses[place] = _Pause(min(failures + 1, 16), self._now(), wait)
        self._failed(upgrader, call)
        fields = {"upgrader": upgrader, "call": call, "about": about, "error": repr(error)}
        log.warning("upgrader not responding", extra=fields)


def _issues_in(answer: Iterable[object]) -> tuple[Issue, ...]:
    """Return the issues in an answer, without elements of other types."""
    return tuple(issue for issue in answer if isinstance(issue, Issue))
