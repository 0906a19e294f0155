"""The controller of a member's Works: reconciles each on changes of it or its objects, and after a backoff.

Source: docs/specifications/rollout.md 11; KubeFleet pkg/controllers/workapplier.
"""

import asyncio
import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any, Final

from scorer.api.kinds import WORK
from scorer.api.meta import JsonObject
from scorer.api.unstructured.documents import list_at
from scorer.membership.identity import HubMember
from scorer.rollout.selection.exclusions import MemberLimits
from webhook.kube.ports import ConflictError, EventType, Key, Store, StoreError, WatchEvent, key_of
from webhook.member.apply.contention import Memory
from webhook.member.membership.hub_state import MemberStateReader
from webhook.member.objects.manifests import DEFAULT_LIMITS
from webhook.member.store.ports import MemberStore
from webhook.member.store.reflector import Sleep, follow
from webhook.member.works.backoff import CONFLICT_DELAY, Pace, next_pace
from webhook.member.works.object_watches import AppliedObjects
from webhook.member.works.queue import DelayingQueue
from webhook.member.works.reconciler import WORDS, clean_up_after, clean_up_without_work, reconcile_work, went_early

WORKERS: Final = 8
LONGEST_BACKOFF: Final = timedelta(seconds=20)
"""Maximum backoff between two passes while the hub or the member fails.

On a bad network one of the many requests of a pass often fails. Removals and changes should not wait a minute for a
retry.
"""
AFTER_DOUBT: Final = timedelta(seconds=10)
"""Delay of a retry if the hub does not find a Work whose deletion the watch has not reported.

A starting hub may give wrong answers.
"""

WITHOUT_WORK_AFTER: Final = timedelta(seconds=30)

_log = logging.getLogger(__name__)


class PassResult(StrEnum):
    """The outcome of one pass over a Work."""

    DONE = "done"
    CONFLICT = "conflict"
    UNAVAILABLE = "unavailable"
    ERROR = "error"


@dataclass(frozen=True, slots=True)
class Time:
    """Clocks of an agent that applies.

    Args:
        now: The time of day, for written times.
        steady: A monotonic clock, for waits.
        sleep: Sleeps for a number of seconds of *steady*.
    """

    now: Callable[[], datetime]
    steady: Callable[[], datetime]
    sleep: Sleep = asyncio.sleep


class Applying:
    """Applies the Works of one namespace to the member, while `run` is running.

    Args:
        namespace: The member's namespace on the hub.
        hub: Store of the Works.
        member: Store of their objects.
        time: The clocks.
        read_hub_state: Reads the hub's state of the member, before the content of a deleted Work is removed and before
            an older Work is applied.
        count: Called after every pass.
        hub_uid: The uid of the hub, empty if unknown.
        limits: Objects that the agent must not touch, regardless of the Works.
    """

    def __init__(
        self,
        namespace: str,
        hub: Store,
        member: MemberStore,
        *,
        time: Time,
        read_hub_state: MemberStateReader,
        count: Callable[[PassResult], None] = lambda _: None,
        hub_uid: str = "",
        limits: MemberLimits = DEFAULT_LIMITS,
    ) -> None:
        self._namespace = namespace
        self._hub = hub
        self._member = member
        self._time = time
        self._read_hub_state = read_hub_state
        self._count = count
        self._hub_uid = hub_uid
        self._limits = limits
        self._agenda: DelayingQueue[str] = DelayingQueue(time.steady, time.sleep)
        self._works: dict[str, tuple[Any, ...]] = {}
        self._early: dict[str, JsonObject] = {}
        """The last state of Works that were deleted early. Their content may have to be removed."""
        self._paces: dict[str, Pace] = {}
        self._failures: dict[str, int] = {}
        self._memory = Memory()
        self._objects = AppliedObjects(
            member,
            member.served,
            self._wake,
            clock=lambda: time.steady().timestamp(),
            sleep=time.sleep,
            us=HubMember(hub_uid, namespace),
        )
        self._without_work: dict[str, datetime] = {}
        self.problem = "Works have not been listed yet"
        """Why the Works cannot be read now, empty if they can."""

    @property
    def works(self) -> int:
        """The number of Works."""
        return len(self._works)

    def without_work(self) -> dict[str, int] | None:
        """Return the AppliedWorks whose Work the hub does not have, each with the number of its objects.

        None: unknown. Either the hub does not list Works now, or the member has not listed AppliedWorks yet, or one of
        them was first seen without a Work within the last half minute. The watches on the two clusters are not
        synchronized, and a starting hub may return incomplete lists.
        """
        sizes = self._objects.applied_works
        if self.problem or sizes is None:
            return None
        now = self._time.steady()
        self._without_work = {name: self._without_work.get(name, now) for name in sizes if name not in self._works}
        if any(now - since < WITHOUT_WORK_AFTER for since in self._without_work.values()):
            return None
        return {name: sizes[name] for name in self._without_work}

    @property
    def busy(self) -> bool:
        """Whether a pass is running or ready to run."""
        return self._agenda.busy

    async def run(self) -> None:
        """Apply until cancelled."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._agenda.run())
            group.create_task(self._objects.run())
            group.create_task(follow(self._hub, WORK, self, namespace=self._namespace, sleep=self._time.sleep))
            for _ in range(WORKERS):
                group.create_task(self._worker())

    def listed(self, items: Sequence[JsonObject]) -> None:
        """See `webhook.member.store.reflector.ResourceEventHandler`."""
        self.problem = ""
        for name in self._works.keys() - {item["metadata"]["name"] for item in items}:
            self._forget(name)
        for item in items:
            self._note(item)

    def changed(self, event: WatchEvent) -> None:
        """See `webhook.member.store.reflector.ResourceEventHandler`."""
        if event.type is EventType.DELETED:
            name = key_of(event.document).name
            self._forget(name)  # only enqueues a pass: no worker runs before the next line, which that pass depends on
            if went_early(event.document):
                self._early[name] = event.document
        else:
            self._note(event.document)

    def failed(self, error: StoreError) -> None:
        """See `webhook.member.store.reflector.ResourceEventHandler`."""
        self.problem = str(error)

    def _note(self, document: JsonObject) -> None:
        metadata = document["metadata"]
        name = metadata["name"]
        marks = tuple((metadata.get("annotations") or {}).get(name) for name in WORDS)
        mark = (metadata["uid"], metadata.get("generation"), metadata.get("deletionTimestamp"), marks)
        if self._works.get(name) == mark:
            return  # only the status has changed, which this agent writes
        self._works[name] = mark
        self._early.pop(name, None)
        self._objects.hold(name, list_at(document, "spec", "workload", "manifests"))
        self._agenda.add(name)

    def _forget(self, name: str) -> None:
        self._works.pop(name, None)
        self._paces.pop(name, None)
        self._failures.pop(name, None)
        self._objects.forget(name)
        self._agenda.add(name)  # its AppliedWork may be waiting to be freed

    def _wake(self, name: str, seconds: float) -> None:
        self._agenda.add_at(name, self._time.steady() + timedelta(seconds=seconds))

    async def _worker(self) -> None:
        while True:
            name = await self._agenda.take()
            try:
                await self._pass(name)
            finally:
                self._agenda.done(name)

    async def _pass(self, name: str) -> None:
        """Reconcile one Work, and requeue it."""
        try:
            again = await self._reconcile(name)
            self._failures.pop(name, None)
            result = PassResult.DONE
        except ConflictError:
            result, again = PassResult.CONFLICT, CONFLICT_DELAY
        except StoreError as error:
            _log.warning("reconcile failed, will retry", extra={"work": name, "error": str(error)})
            result, again = PassResult.UNAVAILABLE, self._backoff(name)
        except Exception:  # noqa: BLE001 - the loop of the queue: a bug must not stop the other Works
            _log.exception("failed", extra={"work": name})
            result, again = PassResult.ERROR, self._backoff(name)
        self._count(result)
        if again is not None:
            # While this worker still holds the entry: if the Work has changed in the meantime, it is already queued for
            # an immediate pass, and the queue ignores the delay.
            self._agenda.add_at(name, self._time.steady() + again)

    def _backoff(self, name: str) -> timedelta:
        count = self._failures[name] = self._failures.get(name, 0) + 1
        return min(timedelta(seconds=2 ** min(count, 10) / 2), LONGEST_BACKOFF)

    async def _reconcile(self, name: str) -> timedelta | None:
        """Reconcile a Work or clean up after it. Return the delay to the next pass, or None when finished.

        Only the hub decides whether a Work exists: after a start, the watch may not have delivered it yet.
        """
        early, key = self._early.get(name), Key(name, self._namespace)
        if early is not None:
            outcome = await clean_up_after(
                early,
                self._hub,
                self._member,
                self._time.now(),
                self._read_hub_state,
                hub_uid=self._hub_uid,
                limits=self._limits,
            )
        else:
            outcome = await reconcile_work(
                key,
                self._hub,
                self._member,
                self._time.now(),
                self._memory,
                self._read_hub_state,
                hub_uid=self._hub_uid,
                limits=self._limits,
            )
        if not outcome.gone:
            pace = self._paces[name] = next_pace(self._paces.get(name), outcome)
            return pace.delay
        self._paces.pop(name, None)
        # `is`: another Work of that name may have been created and deleted during the clean-up, and needs its own.
        if early is not None and self._early.get(name) is early:
            del self._early[name]
            return timedelta()  # a Work of that name may exist again
        if name in self._works:
            return AFTER_DOUBT
        us = HubMember(self._hub_uid, self._namespace)
        await clean_up_without_work(name, self._hub, self._member, self._time.now(), us, self._limits)
        return None
