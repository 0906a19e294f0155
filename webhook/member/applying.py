"""Applies the Works of one member: looks at each when it changes, when its objects do, and from time to time.

Source: rollout.md 11; KubeFleet pkg/controllers/workapplier.
"""

import asyncio
import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any, Final

from scorer.api.documents import list_at
from scorer.api.kinds import WORK
from scorer.api.meta import JsonObject
from scorer.membership.identity import HubMember
from scorer.rollout.never_placed import MemberLimits
from webhook.kube.ports import ConflictError, EventType, Key, Store, StoreError, WatchEvent, key_of
from webhook.member.agenda import Agenda
from webhook.member.applied_objects import AppliedObjects
from webhook.member.applier import WORDS, clean_up_after, reconcile_work, went_early
from webhook.member.fingerprints import Fingerprints
from webhook.member.following import Sleep, follow
from webhook.member.manifests import DEFAULT_LIMITS
from webhook.member.ports import MemberStore
from webhook.member.requeue import Pace, next_pace
from webhook.member.rescue import free_without_work
from webhook.member.word import AskHub

WORKERS: Final = 8
AFTER_CONFLICT: Final = timedelta(milliseconds=100)
LONGEST_BACKOFF: Final = timedelta(seconds=20)
"""Between two passes over a Work while the hub or the member fails: one of the many requests of a pass often does, on a
bad network, and content that was ordered to go or to change should not wait a minute for the next try."""
AFTER_DOUBT: Final = timedelta(seconds=10)
"""When to look again at a Work that is said to be gone while the watch has not said so: a hub that starts says much."""

_log = logging.getLogger(__name__)


class PassResult(StrEnum):
    """What became of one pass over a Work."""

    DONE = "done"
    CONFLICT = "conflict"
    UNAVAILABLE = "unavailable"
    ERROR = "error"


@dataclass(frozen=True, slots=True)
class Time:
    """How time passes for an agent that applies.

    Args:
        now: The time of day, for what is written down.
        steady: A clock that nobody sets, for what is waited for.
        sleep: Waits for a number of seconds of *steady*.
    """

    now: Callable[[], datetime]
    steady: Callable[[], datetime]
    sleep: Sleep = asyncio.sleep


class Applying:
    """Brings the Works of one namespace to the member, while `run` is running.

    Args:
        namespace: The member's namespace on the hub.
        hub: Where the Works are.
        member: Where their objects go.
        time: How it passes.
        word: Asks the hub about the member, before anything of a deleted Work is removed.
        count: Told of every pass.
        hub_uid: Which hub it is; empty: it does not say.
        limits: What the agent leaves alone, whatever the Works hold.
    """

    def __init__(
        self,
        namespace: str,
        hub: Store,
        member: MemberStore,
        *,
        time: Time,
        word: AskHub,
        count: Callable[[PassResult], None] = lambda _: None,
        hub_uid: str = "",
        limits: MemberLimits = DEFAULT_LIMITS,
    ) -> None:
        self._namespace = namespace
        self._hub = hub
        self._member = member
        self._time = time
        self._word = word
        self._count = count
        self._hub_uid = hub_uid
        self._limits = limits
        self._agenda: Agenda[str] = Agenda(time.steady, time.sleep)
        self._works: dict[str, tuple[Any, ...]] = {}
        self._early: dict[str, JsonObject] = {}
        """Works that went early, as they were last: what they put on the member may have to go after them."""
        self._paces: dict[str, Pace] = {}
        self._failures: dict[str, int] = {}
        self._fingerprints = Fingerprints()
        self._objects = AppliedObjects(
            member, member.served, self._wake, clock=lambda: time.steady().timestamp(), sleep=time.sleep
        )
        self.problem = "Works have not been listed yet"
        """Why the Works cannot be read now; empty when they can."""

    @property
    def works(self) -> int:
        """How many Works there are."""
        return len(self._works)

    @property
    def busy(self) -> bool:
        """Whether something is being done right now, or could be at once."""
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
        """See `webhook.member.following.Listener`."""
        self.problem = ""
        for name in self._works.keys() - {item["metadata"]["name"] for item in items}:
            self._gone(name)
        for item in items:
            self._note(item)

    def changed(self, event: WatchEvent) -> None:
        """See `webhook.member.following.Listener`."""
        if event.type is EventType.DELETED:
            name = key_of(event.document).name
            self._gone(name)
            if went_early(event.document):
                self._early[name] = event.document
        else:
            self._note(event.document)

    def failed(self, error: StoreError) -> None:
        """See `webhook.member.following.Listener`."""
        self.problem = str(error)

    def _note(self, document: JsonObject) -> None:
        metadata = document["metadata"]
        name = metadata["name"]
        said = tuple((metadata.get("annotations") or {}).get(name) for name in WORDS)
        mark = (metadata["uid"], metadata.get("generation"), metadata.get("deletionTimestamp"), said)
        if self._works.get(name) == mark:
            return  # only the status, which we write ourselves
        self._works[name] = mark
        self._early.pop(name, None)
        self._objects.hold(name, list_at(document, "spec", "workload", "manifests"))
        self._agenda.add(name)

    def _gone(self, name: str) -> None:
        self._works.pop(name, None)
        self._paces.pop(name, None)
        self._failures.pop(name, None)
        self._objects.forget(name)
        self._agenda.add(name)  # its AppliedWork may be on its way out, or have to go

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
        """Look at one Work, and settle when to look again."""
        try:
            again = await self._reconcile(name)
            self._failures.pop(name, None)
            result = PassResult.DONE
        except ConflictError:
            result, again = PassResult.CONFLICT, AFTER_CONFLICT
        except StoreError as error:
            _log.warning("will try again", extra={"work": name, "error": str(error)})
            result, again = PassResult.UNAVAILABLE, self._backoff(name)
        except Exception:  # noqa: BLE001 - the loop of the queue: a mistake of ours must not end the other Works
            _log.exception("failed", extra={"work": name})
            result, again = PassResult.ERROR, self._backoff(name)
        self._count(result)
        if again is not None:
            self._agenda.add_at(name, self._time.steady() + again)

    def _backoff(self, name: str) -> timedelta:
        count = self._failures[name] = self._failures.get(name, 0) + 1
        return min(timedelta(seconds=2 ** min(count, 10) / 2), LONGEST_BACKOFF)

    async def _reconcile(self, name: str) -> timedelta | None:
        """Reconcile a Work, or what is left of one; return when to look again, None when there is nothing left.

        Whether there is a Work is for the hub to say: what is not heard of yet, after a start, may well be there.
        """
        early, key = self._early.get(name), Key(name, self._namespace)
        if early is not None:
            outcome = await clean_up_after(
                early, self._hub, self._member, self._time.now(), self._word, hub_uid=self._hub_uid, limits=self._limits
            )
        else:
            outcome = await reconcile_work(
                key,
                self._hub,
                self._member,
                self._time.now(),
                self._fingerprints,
                self._word,
                hub_uid=self._hub_uid,
                limits=self._limits,
            )
        if not outcome.gone:
            pace = self._paces[name] = next_pace(self._paces.get(name), outcome)
            return pace.delay
        self._paces.pop(name, None)
        if early is not None and self._early.get(name) is early:
            del self._early[name]
            return timedelta()  # there may be a Work of that name again
        if name in self._works:
            return AFTER_DOUBT
        await free_without_work(name, self._member, HubMember(self._hub_uid, self._namespace))
        return None
