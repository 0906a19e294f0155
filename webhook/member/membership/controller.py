"""The membership controller: joins and leaves as requested by the InternalMemberCluster on the hub.

State Join: the agent records the cluster as ours (`webhook.member.membership.registration`), then sends a heartbeat
each period and applies the Works. It does not touch a cluster that belongs to another hub or member, and reports that
to the hub instead of a heartbeat, so that the member does not look healthy.

State Leave: the agent stops applying and removes its finalizers from the Works. The placed objects remain, and the last
report announces that the agent has left. It is then idle until the state is Join again. Without an
InternalMemberCluster, or without permission to read it, the agent waits.

The local clock is never compared with that of the hub.

Source: docs/specifications/rollout.md 21.1 and 21.2; docs/specifications/scheduling.md 19; KubeFleet
pkg/controllers/internalmembercluster/v1beta1.
"""

import asyncio
import logging
import random
import time
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

from scorer.api.cluster.member_state import (
    DEFAULT_HEARTBEAT_PERIOD_SECONDS,
    LONGEST_HEARTBEAT_PERIOD_SECONDS,
    SHORTEST_HEARTBEAT_PERIOD_SECONDS,
    MemberState,
)
from scorer.api.conditions import FALSE
from scorer.api.kinds import INTERNAL_MEMBER_CLUSTER, WORK
from scorer.api.meta import JsonObject
from scorer.api.names import HUB_UID, MEMBER_AGENT, WORK_CLEANUP, member_namespace
from scorer.api.unstructured.documents import annotation, list_at, spec_of, without_finalizer
from webhook.kube.ports import EventType, Key, NotFoundError, Store, StoreError, WatchEvent, key_of
from webhook.member.membership.heartbeat import HeartbeatFigures, next_heartbeat, report, report_refusal
from webhook.member.membership.hub_state import HubMemberState, read_member_state
from webhook.member.membership.registration import ForeignClusterError, Registration
from webhook.member.store.reflector import Sleep, follow

RETRY_SECONDS: Final = (0.5, 1.0, 2.0, 5.0, 10.0)
"""Backoff after a failed heartbeat or last report. The last value repeats."""

PATIENCE: Final = 4
"""Failed attempts to clear the record on the cluster after which the agent leaves without clearing it."""

Wait = Callable[[asyncio.Event, float | None], Awaitable[None]]

_EPOCH: Final = datetime.fromtimestamp(0, UTC)

_log = logging.getLogger(__name__)


async def wait_for_news(news: asyncio.Event, seconds: float | None) -> None:
    """Wait for *news*, at most *seconds*. None: unlimited."""
    with suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            await news.wait()


@dataclass(frozen=True, slots=True)
class Rhythm:
    """Clocks and waits of a membership.

    Args:
        now: The time of day, for reports.
        clock: A monotonic clock in seconds, for waits.
        wait: Waits for news.
        sleep: Sleeps between attempts to watch.
        jitter: Returns a random number from -1 to 1.
    """

    now: Callable[[], datetime]
    clock: Callable[[], float] = time.monotonic
    wait: Wait = wait_for_news
    sleep: Sleep = asyncio.sleep
    jitter: Callable[[], float] = lambda: random.uniform(-1, 1)  # noqa: S311 - spreads load, hides nothing


class Membership:
    """Membership of one cluster in the fleet.

    Args:
        cluster: Name of the MemberCluster.
        hub: Store of its InternalMemberCluster and its Works.
        collect: Returns the figures for a heartbeat.
        apply: Takes the uid of the hub, and returns a coroutine that applies the Works until it is cancelled.
        registration: Records the owner of the cluster on it.
        rhythm: Clocks and waits.
        beaten: Called after each heartbeat with whether it was delivered.
    """

    def __init__(
        self,
        cluster: str,
        hub: Store,
        collect: Callable[[], Awaitable[HeartbeatFigures]],
        apply: Callable[[str], Coroutine[Any, Any, None]],
        registration: Registration,
        *,
        rhythm: Rhythm,
        beaten: Callable[[bool], None] = lambda _: None,
    ) -> None:
        self._key = Key(cluster, member_namespace(cluster))
        self._hub = hub
        self._collect = collect
        self._apply = apply
        self._registration = registration
        self._rhythm = rhythm
        self._beaten = beaten
        self._document: JsonObject | None = None
        self._news = asyncio.Event()
        self._applying: asyncio.Task[None] | None = None
        self._applied_for = ""
        self._logged = ("", "")
        self._due = float("-inf")
        self._period = 0
        self._failures = 0
        self._failed_releases = 0
        self._refusals = 0
        self._is_listed = False
        self.problem = "the hub has not responded yet"
        """Why the hub cannot be read now, empty if it can."""
        self.undelivered = ""
        """Why a heartbeat or the last report was not delivered, empty if it was delivered or none is due."""
        self.refused = ""
        """Why this cluster is not joined although the hub requests it, empty otherwise."""

    @property
    def joined(self) -> bool:
        """Whether Works are being applied."""
        return self._applying is not None

    async def run(self) -> None:
        """Act on the requested state until cancelled."""
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(
                    follow(
                        self._hub,
                        INTERNAL_MEMBER_CLUSTER,
                        self,
                        namespace=self._key.namespace,
                        sleep=self._rhythm.sleep,
                    )
                )
                while True:
                    self._news.clear()  # before the step reads the state: a change during the step causes another
                    seconds = await self._step(group)
                    await self._rhythm.wait(self._news, seconds)
        finally:
            await self._stop_applying()

    async def hub_state(self) -> HubMemberState:
        """Read the hub's state of this member.

        Raises:
            StoreError: The hub refused the request or did not respond.
        """
        return await read_member_state(self._hub, self._key.name, self._rhythm.now())

    def listed(self, items: Sequence[JsonObject]) -> None:
        """See `webhook.member.store.reflector.ResourceEventHandler`."""
        if not self._is_listed:
            self._is_listed = True
            self._news.set()
        self.problem = ""
        self._set(next((item for item in items if key_of(item).name == self._key.name), None))

    def changed(self, event: WatchEvent) -> None:
        """See `webhook.member.store.reflector.ResourceEventHandler`."""
        if key_of(event.document).name == self._key.name:
            self._set(None if event.type is EventType.DELETED else event.document)

    def failed(self, error: StoreError) -> None:
        """See `webhook.member.store.reflector.ResourceEventHandler`. The member remains joined during an outage."""
        self.problem = str(error)

    def _set(self, document: JsonObject | None) -> None:
        if _mark(document) != _mark(self._document):
            self._news.set()
        self._document = document

    async def _step(self, group: asyncio.TaskGroup) -> float | None:
        """Act on the requested state, and return the seconds until the next step. None: unlimited, wait for news."""
        document = self._document
        if document is None or (state := _state(document)) not in set(MemberState):
            await self._stop_applying()
            self.refused = self.undelivered = ""
            if self._is_listed:
                self._log_state("waiting for the hub to admit this cluster", "warning")
            return None
        if state == MemberState.LEAVE:
            # Before the finalizers are removed: a running pass would add the finalizer to its Work again.
            await self._stop_applying()
            self.refused = ""
            return await self._attempt(self._leave(document), 0.0)
        if not await self._is_ours(document):
            await self._stop_applying()
            self.undelivered = ""
            self._refusals += 1
            return RETRY_SECONDS[min(self._refusals, len(RETRY_SECONDS)) - 1]
        self._refusals = self._failed_releases = 0
        self._log_state("joined the fleet", "info")
        if self._applying is None:
            self._applied_for = hub_uid(document)
            self._applying = group.create_task(self._apply(self._applied_for), name="applying")
        return await self._beat_when_due(document)

    async def _is_ours(self, document: JsonObject) -> bool:
        """Return whether the cluster is ours. Checked before the first Work, and with every heartbeat.

        A joined member remains joined while its cluster does not respond.
        """
        hub, was_applied = hub_uid(document), self._applying is not None and self._applied_for == hub_uid(document)
        if was_applied and self._rhythm.clock() < self._due:
            return True
        try:
            await (self._registration.verify(hub) if was_applied else self._registration.claim(hub))
        except ForeignClusterError as error:
            await self._complain("ClusterOfAnother", f"{error}. To take it over: `harbormaster agent --take-over`")
            return False
        except StoreError as error:
            if was_applied:
                return True
            await self._complain("NotRecorded", str(error))
            return False
        if not was_applied:
            await self._stop_applying()  # it may still apply for a hub of another uid
        self.refused = ""
        return True

    async def _complain(self, reason: str, refusal: str) -> None:
        """Report in the log, in the readiness check and on the hub why this cluster is not joined."""
        self.refused = refusal
        self._log_state("not joined", "error", refusal)
        with suppress(StoreError):
            await report_refusal(self._hub, self._key, reason, refusal, self._rhythm.now())

    def _log_state(self, action: str, level: str, reason: str = "") -> None:
        """Log the state of the membership, once per change."""
        if (action, reason) != self._logged:
            self._logged = action, reason
            extra = {"cluster": self._key.name, "namespace": self._key.namespace} | (
                {"reason": reason} if reason else {}
            )
            _log.log(logging.getLevelNamesMapping()[level.upper()], action, extra=extra)

    async def _stop_applying(self) -> None:
        """Cancel the apply, which every pass tolerates at any point, and wait until no pass is running."""
        task, self._applying = self._applying, None
        self._due = float("-inf")
        if task is not None:
            task.cancel()
            await asyncio.wait([task])  # cancel is only a request: requests may be in flight until the task ends

    async def _beat_when_due(self, document: JsonObject) -> float | None:
        period = _period(document)
        if period != self._period:
            self._period, self._due = period, float("-inf")
        if self._rhythm.clock() < self._due:
            return self._due - self._rhythm.clock()
        start = self._rhythm.clock()
        wait = await self._attempt(
            self._beat(), (next_heartbeat(_EPOCH, period, self._rhythm.jitter()) - _EPOCH).total_seconds()
        )
        assert wait is not None
        self._due = (start if not self._failures else self._rhythm.clock()) + wait
        return max(0.0, self._due - self._rhythm.clock())

    async def _attempt(self, coroutine: Coroutine[Any, Any, None], then: float) -> float | None:
        """Await *coroutine*. Return *then* (0: None), or a short backoff after a failure."""
        try:
            await coroutine
        except StoreError as error:
            wait = RETRY_SECONDS[min(self._failures, len(RETRY_SECONDS) - 1)]
            self._failures += 1
            self.undelivered = f"{'heartbeat' if self.joined else 'last report'} not delivered: {error}"
            _log.warning("report not delivered, will retry", extra={"error": str(error), "seconds": wait})
            return wait
        self._failures = 0
        self.undelivered = ""
        return then or None

    async def _beat(self) -> None:
        """Collect the figures and report them, unless the hub no longer wants the member to be joined."""
        figures = await self._collect()
        # Collecting may take seconds. The hub may have requested leaving, which a late "Joined" would contradict.
        if self._document is None or _state(self._document) != MemberState.JOIN:
            return
        try:
            await report(self._hub, INTERNAL_MEMBER_CLUSTER, self._key, figures, self._rhythm.now())
        except StoreError:
            self._beaten(False)
            raise
        self._beaten(True)

    async def _leave(self, document: JsonObject) -> None:
        """Release the Works and the cluster, then report that the agent has left. A second run is a no-op.

        The report comes last: after it, the hub may delete the namespace, and with it our permissions.
        """
        for work in (await self._hub.list(WORK, self._key.namespace)).items:
            await self._let_go(work)
        if not has_left(document):
            await self._release(hub_uid(document))
            figures = await self._collect()
            with suppress(NotFoundError):
                await report(
                    self._hub, INTERNAL_MEMBER_CLUSTER, self._key, figures, self._rhythm.now(), is_joined=False
                )
        self._log_state("left the fleet", "info")

    async def _release(self, hub: str) -> None:
        """Release the cluster. After some attempts, leave even if it is unreachable."""
        try:
            await self._registration.release(hub)
        except StoreError as error:
            self._failed_releases += 1
            if self._failed_releases <= PATIENCE:
                raise
            _log.warning(
                "cluster record not cleared",
                extra={"cluster": self._key.name, "error": str(error)},
            )

    async def _let_go(self, work: JsonObject) -> None:
        """Remove our finalizer from a Work. Its objects remain on the member."""
        if (free := without_finalizer(work, WORK_CLEANUP)) is not None:
            with suppress(NotFoundError):
                await self._hub.replace(WORK, free)


def has_left(document: Mapping[str, Any]) -> bool:
    """Return whether the status of an InternalMemberCluster reports for its current generation that the agent left."""
    for agent in list_at(document, "status", "agentStatus"):
        if agent.get("type") == MEMBER_AGENT:
            joined_condition: Mapping[str, Any] = next(
                (condition for condition in agent.get("conditions") or () if condition.get("type") == "Joined"), {}
            )
            current = joined_condition.get("observedGeneration") == document["metadata"].get("generation")
            return bool(joined_condition.get("status") == FALSE and current)
    return False


def hub_uid(document: Mapping[str, Any]) -> str:
    """Return the uid of the hub of an InternalMemberCluster, empty if it has none."""
    return annotation(document, HUB_UID)


def _state(document: Mapping[str, Any]) -> str:
    return str(spec_of(document).get("state") or "")


def _period(document: Mapping[str, Any]) -> int:
    """Return the seconds between two heartbeats, clamped to the bounds."""
    period = spec_of(document).get("heartbeatPeriodSeconds")
    if not isinstance(period, int):
        return DEFAULT_HEARTBEAT_PERIOD_SECONDS
    return min(max(period, SHORTEST_HEARTBEAT_PERIOD_SECONDS), LONGEST_HEARTBEAT_PERIOD_SECONDS)


def _mark(document: JsonObject | None) -> object:
    """Return the part of the object whose changes trigger a pass. The agent's own reports are not part of it."""
    if document is None:
        return None
    return document["metadata"].get("uid"), _state(document), _period(document), hub_uid(document)
