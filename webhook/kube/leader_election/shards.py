"""Assignment of shards to several concurrent processes, by one Lease on the hub that all of them write.

It is the same Lease that elects a leader, but its holder is a number of shards instead of a process: ``3 shards``.
Sharded replicas therefore never run alongside a leader that knows nothing of shards, nor alongside replicas with
another number of shards. All of them wait until the Lease is free or has expired.

An annotation has an entry for each replica: a beat, which the replica increments with every renewal, and its shards. A
replica acquires a shard by adding it to its entry, over a version without this shard in any entry. It releases a shard
by removing it from its entry, after its work has stopped.

The terms of a replica's shards end like a leader's: counted from before its last renewal was sent, and some seconds
before the other replicas consider the replica dead. They do so when its beat has not changed for the duration of the
Lease, by their own clocks. `webhook.kube.leader_election.term` describes the rules for terms.

A user may delete the Lease or overwrite its entries by mistake. A replica that does not find its entry, or finds
entries without their digest, stops its work. It acquires no shard until all work that others may still run has ended.
Only a replica that has just started assumes that a hub without the Lease is new.

Example: replicas a and b hold shards {0, 1} and {2}. If a user removes the entry of a, b cannot know whether a still
writes for shard 1. b therefore waits for a full Lease duration before it acquires shard 1.

Source: docs/specifications/serving.md 7, own elector.
"""

import asyncio
import hashlib
import logging
from collections.abc import Callable, Coroutine, Mapping
from contextlib import suppress
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final, NamedTuple

import orjson

from scorer.api.meta import JsonObject
from scorer.api.names import OURS
from scorer.api.unstructured.documents import annotations_of, spec_of
from scorer.shards import fair_shares
from webhook.kube.leader_election.lease import PARTS, believed_duration, excess_of, holder_of, is_released, parted_into
from webhook.kube.leader_election.term import USUAL, LeaderElectionConfig, LeaseClient, Term, expired, stop_work
from webhook.kube.ports import AlreadyExistsError, ConflictError, Key, Store, StoreError

REPLICAS: Final = OURS + "replicas"
"""Annotation of the Lease: the replicas with their beats and shards, and a digest of them, as JSON."""
ATTEMPTS: Final = 16
"""Attempts of an urgent write before the next pause: every other replica may write in between."""
SOON: Final = 0.05

Body = Callable[[int, Term], Coroutine[Any, Any, None]]
"""The work on a shard, given its number. It must stop with all of its tasks when cancelled."""

log = logging.getLogger(__name__)


class Move(StrEnum):
    """Change in the ownership of a shard."""

    TAKEN = "taken"
    HANDED_OVER = "handed_over"
    """The work has stopped, and other replicas may acquire the shard immediately."""
    LOST = "lost"
    """The Lease was not renewed in time, or another client has overwritten it."""


class _ReplicaEntry(NamedTuple):
    """Entry of one replica in the Lease."""

    beat: int
    shards: frozenset[int]


class _Strangers(NamedTuple):
    """Other lease holders: a leader, or replicas with another number of shards.

    Args:
        holder: The holder in the Lease.
        spec: Spec of the Lease at their last renewal.
        until: Time when the Lease counts as free unless they renew it.
    """

    holder: str
    spec: JsonObject
    until: float


_NOBODY: Final = _Strangers("", {}, float("-inf"))


@dataclass(slots=True)
class _Holding:
    """A shard that this process works on, until the work has stopped."""

    term: Term
    task: asyncio.Task[None]


class Shards(LeaseClient):
    """One of several replicas, with its fair share of the shards.

    Args:
        store: Store of the Lease.
        lease: Name and namespace.
        identity: Unique identity of this process. Must change on restart.
        count: Number of shards, at least 2. Replicas with different numbers wait for each other.
        around: Times, clocks, and the function that ends the process.
    """

    def __init__(
        self, store: Store, lease: Key, identity: str, count: int, around: LeaderElectionConfig = USUAL
    ) -> None:
        super().__init__(store, lease, identity, around)
        self.count = count
        self.clash = 0
        """Number of shards of the replicas that this one waits for, 0 if it waits for none."""
        self.moved: Callable[[int, Move], None] = lambda _shard, _move: None
        """Called for every shard that is acquired, handed over or lost."""
        self._holder = f"{count} {PARTS}"
        self._holdings: dict[int, _Holding] = {}
        self._beat = 0
        """Beat last sent. No beat is sent twice, regardless of the outcome: see `_others`."""
        self._enrolled = 0
        """Beat of our entry when last known to be stored. 0 if the entry is missing or not to be trusted."""
        self._renewed = float("-inf")
        """Time of that renewal."""
        self._entry_shards = frozenset[int]()
        """The shards in that entry."""
        self._is_mere_beat = False
        """Whether the last write sent did not change the shards."""
        self._sightings: dict[str, tuple[int, float]] = {}
        """Beat of each other replica, and the time since which it is unchanged."""
        self._strangers = _NOBODY
        self._wary_until = float("-inf")
        """Earliest time to acquire a shard. Until then, another replica may work on a shard that no entry names."""
        self._wake = asyncio.Event()

    @property
    def held(self) -> frozenset[int]:
        """The shards that this process may currently write for."""
        return frozenset(shard for shard, holding in self._holdings.items() if holding.term.left > 0)

    @property
    def leading(self) -> bool:
        """Whether this process may currently write for any shard."""
        return bool(self.held)

    async def run(self, body: Body) -> None:
        """Work on a fair share of the shards, until cancelled.

        Raises:
            ExceptionGroup: Errors of *body*. All shards are released.
        """
        self._led = self._clock()
        try:
            async with asyncio.TaskGroup() as tasks:
                while True:
                    await self._attempt(tasks, body)
                    await self._rest()
        finally:
            await self._leave()

    async def _rest(self) -> None:
        """Wait for the next beat: a pause, the expiry of another replica, or the end of some work."""
        now = self._clock()
        ends = (self._end_of(since) for _, since in self._sightings.values())
        # Only future expiries count. An earlier one may be undetected for long, for example during an outage.
        seconds = min((self._pause(), *(max(SOON, end - now) for end in ends if end > now)))
        self._wake.clear()
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._wake.wait()

    async def _attempt(self, tasks: asyncio.TaskGroup, body: Body) -> None:
        """Renew our entry, with shards to acquire or to release."""
        for _ in range(ATTEMPTS):
            try:
                trouble = await self._renew(tasks, body)
            except (ConflictError, AlreadyExistsError):
                # Another replica wrote first, or our write was stored and its response was lost. Many immediate retries
                # would block each other, so the replicas that are about to expire come first.
                if self._is_mere_beat and self._clock() - self._renewed < self._times.renew / 2:
                    return
                continue
            except (StoreError, TimeoutError) as error:
                self._note(self._describe(error))
            else:
                self._note(trouble)
            return

    async def _renew(self, tasks: asyncio.TaskGroup, body: Body) -> str:
        """Write our entry. Return the reason if it must not be written now, otherwise an empty string."""
        record = await self._get()
        if trouble := self._clashes(record):
            return trouble
        others = self._others(record)
        elsewhere = frozenset[int]().union(*(entry.shards for entry in others.values()))
        if not elsewhere.isdisjoint(self._holdings):
            self._distrust()
        working = {name: entry.shards for name, entry in others.items()}
        share = fair_shares(self.count, {**working, self.identity: frozenset(self._holdings)})[self.identity]
        # The entry keeps a surplus shard until its work has stopped, and only a later renewal removes it. If this one
        # did, another replica could start on the shard while this one still writes for it.
        for shard in self._holdings.keys() - share:
            self._holdings[shard].task.cancel()
        may_take = self._clock() >= self._wary_until
        free_shards = share - elsewhere - self._holdings.keys() if may_take else frozenset[int]()
        self._beat += 1
        # Shards that others have written into their entries are theirs, even if our work has not stopped yet.
        entry = _ReplicaEntry(self._beat, (frozenset(self._holdings) - elsewhere) | free_shards)
        sent_at = self._clock()  # before the request: others count from when they see it stored, never earlier
        self._is_mere_beat = entry.shards == self._entry_shards
        holdings = tuple(self._holdings.values())
        await self._store_roll(record, {**others, self.identity: entry})
        self._enrolled, self._renewed, self._entry_shards = entry.beat, sent_at, entry.shards
        if entry.shards:
            self._led = self._clock()
        until = sent_at + self._times.renew
        for holding in holdings:
            if holding.term.left > 0:  # a renewal after the deadline does not revive a term
                holding.term.until = until
        for shard in sorted(free_shards):
            self._begin(shard, Term(until, self._clock), tasks, body)
        return ""

    def _clashes(self, record: JsonObject | None) -> str:
        """Return why the Lease must not be written now, empty if it may be."""
        # A deleted Lease: its holders may not have noticed, so this replica still waits for them.
        if record is not None:
            holder = holder_of(record)
            if is_released(record) or holder == self._holder:
                self._strangers = _NOBODY
            elif holder and spec_of(record) != self._strangers.spec:  # renewed, by observed change
                if self._strangers is not _NOBODY and not excess_of(record):
                    self._led = self._clock()
                until = self._clock() + believed_duration(record, self._times.lease)
                self._strangers = _Strangers(holder, spec_of(record), until)
        if self._clock() >= self._strangers.until:
            self.clash = 0
            return ""
        if self._enrolled:
            self._distrust()
        holder = self._strangers.holder
        parts = parted_into(holder)
        self.clash = parts or 1
        if excess := excess_of({"spec": self._strangers.spec}):
            return excess
        others = f"replicas with {parts} shards hold" if parts else f"{holder}, with 1 shard, holds"
        return (
            f"{others} this Lease, and this replica has {self.count} shards. It remains idle until all of them have "
            "the same number (--shards)"
        )

    def _others(self, record: JsonObject | None) -> dict[str, _ReplicaEntry]:
        """Return the entries of the other live replicas, and track when each beat last changed."""
        now = self._clock()
        roll: Mapping[str, _ReplicaEntry] = {}
        if record is not None and holder_of(record) == self._holder:
            try:
                roll = read_roll(annotations_of(record).get(REPLICAS))
            except ValueError as error:
                log.warning("lease damaged", extra={"lease": str(self._lease), "error": str(error)})
                self._distrust()
        # Our entry is missing, or from an earlier beat: a user has edited the Lease or restored it from a file. Other
        # replicas read this version, too, so they may already have acquired our shards.
        if self._enrolled and (self.identity not in roll or roll[self.identity].beat < self._enrolled):
            self._distrust()
        if now - self._renewed > self._times.renew:
            # Others could not renew either, so all get time for another beat before they expire. Example: the hub is
            # down for 20 s. Without this, the first replica that reaches it finds all others expired, and acquires all
            # shards. Only that much time: with a slow hub they would otherwise never expire.
            least = now - self._times.lease + 2 * self._times.retry
            self._sightings = {name: (beat, max(since, least)) for name, (beat, since) in self._sightings.items()}
        sightings = {name: self._sightings.get(name, (None, 0.0)) for name in roll if name != self.identity}
        if any(
            beat is not None and beat != roll[name].beat and roll[name].shards for name, (beat, _) in sightings.items()
        ):
            self._led = now
        self._sightings = {
            name: (beat, since) if beat == roll[name].beat else (roll[name].beat, now)
            for name, (beat, since) in sightings.items()
        }
        return {name: roll[name] for name, (_, since) in self._sightings.items() if now < self._end_of(since)}

    def _end_of(self, since: float) -> float:
        """Return when another replica counts as dead if its beat has not changed since *since*."""
        # One sum for both comparisons. A difference may round to the other side, and this replica would then wake at
        # the expiry of another one, find it still alive, and sleep for a whole pause.
        return since + self._times.lease

    def _distrust(self) -> None:
        """Stop all work, and acquire no shard until the work of others has ended, because the Lease was altered."""
        self._enrolled = 0
        self._wary_until = self._clock() + self._times.lease
        for holding in self._holdings.values():
            holding.term.until = min(holding.term.until, self._clock())  # the fence refuses from here on
            holding.task.cancel()

    def _begin(self, shard: int, term: Term, tasks: asyncio.TaskGroup, body: Body) -> None:
        task = tasks.create_task(self._work(shard, term, body), name=f"shard {shard}")
        self._holdings[shard] = _Holding(term, task)
        self._tell(shard, Move.TAKEN)

    async def _work(self, shard: int, term: Term, body: Body) -> None:
        """Run the work of one term of a shard."""
        work = asyncio.create_task(body(shard, term), name=f"work on shard {shard}")
        expiry = asyncio.create_task(expired(term), name="expiring")
        has_ended = False
        try:
            await asyncio.wait((work, expiry), return_when=asyncio.FIRST_COMPLETED)
            has_ended = work.done() and term.left > 0
        finally:
            move = Move.HANDED_OVER if term.left > 0 else Move.LOST
            if move is Move.LOST:  # otherwise pending writes may finish while the work stops
                term.until = min(term.until, self._clock())
            try:  # no hurry while the term lasts: others acquire the shard only after its work has stopped
                await stop_work((work, expiry), term.left + self._times.stop, self._end)
            finally:
                term.until = float("-inf")
                self._holdings.pop(shard, None)
                self._tell(shard, move)
                self._wake.set()
        if has_ended:
            work.result()
        elif not work.cancelled() and (error := work.exception()) is not None:
            log.error("shard work failed during its stop", exc_info=error)

    def _tell(self, shard: int, move: Move) -> None:
        log.info("shard moved", extra={"lease": str(self._lease), "shard": shard, "move": str(move)})
        self.moved(shard, move)

    async def _leave(self) -> None:
        """Remove our entry after the work has stopped, so that others start immediately.

        The last replica frees the Lease.
        """
        self._enrolled = 0  # removed on purpose: the next run must not distrust the Lease because of it
        for _ in range(ATTEMPTS):
            try:
                record = await self._get()
                if record is None or holder_of(record) != self._holder:
                    return
                roll = read_roll(annotations_of(record).get(REPLICAS))
                others = self._others(record)
                if self.identity in roll or not others:
                    await self._store_roll(record, others)
            except ConflictError:  # another replica wrote first
                continue
            except ValueError:  # left damaged, because no replica trusts its content
                return
            except (StoreError, TimeoutError) as error:
                log.warning("lease not released", extra={"lease": str(self._lease), "reason": self._describe(error)})
            return

    async def _store_roll(self, record: JsonObject | None, roll: Mapping[str, _ReplicaEntry]) -> None:
        """Write the entries over the version of the Lease that was read. Without entries, the Lease is freed."""
        if record is None:
            await self._create(self._held_by(self._holder), {REPLICAS: write_roll(roll)})
            return
        annotations = {name: text for name, text in annotations_of(record).items() if name != REPLICAS}
        if roll:
            annotations[REPLICAS] = write_roll(roll)
        spec = self._held_by(self._holder, record) if roll else self._freed(record)
        await self._replace({**record, "metadata": {**record["metadata"], "annotations": annotations}, "spec": spec})


def read_roll(text: object) -> dict[str, _ReplicaEntry]:
    """Return the entries of the replicas by identity.

    Raises:
        ValueError: *text* was not written by a replica, or was edited.
    """
    try:
        roll: Mapping[str, Any] = orjson.loads(text if isinstance(text, str) else "")
        entries = _undisturbed(roll["replicas"], roll["digest"])
        return {
            name: _ReplicaEntry(_whole(beat), frozenset(map(_whole, shards)))
            for name, (beat, shards) in entries.items()
        }
    except (ValueError, TypeError, AttributeError, KeyError) as error:
        raise ValueError(f"annotation {REPLICAS}: {str(text)[:200]!r}") from error


def write_roll(roll: Mapping[str, _ReplicaEntry]) -> str:
    """Return the entries with their digest as JSON, with sorted keys."""
    entries = {name: [entry.beat, sorted(entry.shards)] for name, entry in roll.items()}
    return orjson.dumps({"digest": digest_of(entries), "replicas": entries}, option=orjson.OPT_SORT_KEYS).decode()


def digest_of(entries: Mapping[str, Any]) -> str:
    """Return a digest that detects edits by other clients.

    Without it, removing the entry of a running replica by hand would look like a release of all its shards.
    """
    return hashlib.blake2b(orjson.dumps(entries, option=orjson.OPT_SORT_KEYS), digest_size=8).hexdigest()


def _undisturbed(entries: Mapping[str, Any], digest: object) -> Mapping[str, Any]:
    if digest != digest_of(entries):
        raise ValueError(digest)
    return entries


def _whole(number: object) -> int:
    if type(number) is not int or number < 0:
        raise ValueError(number)
    return number
