"""Who works on which shard: several processes at once, by one Lease on the hub that all of them write.

The Lease is the one by which a leader leads, and its holder is then no process but a number: ``3 shards``. So there is
no moment at which a leader that knows nothing of shards works beside them, nor replicas that divide the work otherwise:
all of them wait until the Lease has not been renewed for as long as it lasts, or is free.

An annotation has an entry for each replica: a beat, which it raises with every renewal, and the shards that it works
on. A replica takes a shard by writing it into its entry, over the version in which nobody has it. It gives one back by
leaving it out, after its work has stopped. The terms of its shards end as a leader's does, counted from before its last
renewal was sent, and some seconds before others count it as gone: when its beat has not changed for as long as the
Lease lasts, by their own clocks. All that `webhook.kube.leader_election.leader` says of a term holds for each of them.

What nobody but the replicas should do to the Lease, a user may all the same: delete it, or write over its entries. Who
then misses its own entry, or finds entries without their digest, stops its work, and takes nothing until any work that
others may have has ended, too. Only one that has just started takes a deleted Lease for that of a new hub.

Source: serving.md 7, own elector.
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
"""Annotation of the Lease: the replicas, each with its beat and its shards, and a digest of that, as JSON."""
ATTEMPTS: Final = 16
"""How often a write that is urgent is tried before the next pause: every other replica may come in between."""
SOON: Final = 0.05

Body = Callable[[int, Term], Coroutine[Any, Any, None]]
"""The work on a shard, given its number; it ends when it is cancelled, with every task of its own."""

log = logging.getLogger(__name__)


class Move(StrEnum):
    """How a shard comes to a replica or leaves it."""

    TAKEN = "taken"
    HANDED_OVER = "handed_over"
    """Its work has stopped, and others may take it at once."""
    LOST = "lost"
    """The Lease could not be renewed in time, or somebody else has written over it."""


class _ReplicaEntry(NamedTuple):
    """What the Lease says of one replica."""

    beat: int
    shards: frozenset[int]


class _Strangers(NamedTuple):
    """Those who hold the Lease otherwise: a leader, or replicas of another count.

    Args:
        holder: As the Lease names them.
        spec: Of the Lease when they last renewed it.
        until: When it counts as free unless they renew it.
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
        store: Where the Lease is.
        lease: Its name and namespace.
        identity: Of this process alone; after a restart it has to be another one.
        count: How many shards there are, at least 2; those of another count wait for one another.
        around: Times, clocks, and what ends the process.
    """

    def __init__(
        self, store: Store, lease: Key, identity: str, count: int, around: LeaderElectionConfig = USUAL
    ) -> None:
        super().__init__(store, lease, identity, around)
        self.count = count
        self.clash = 0
        """The number of shards of the replicas that this one waits for; 0: it waits for none."""
        self.moved: Callable[[int, Move], None] = lambda _shard, _move: None
        """Is told of every shard that is taken, handed over or lost."""
        self._holder = f"{count} {PARTS}"
        self._holdings: dict[int, _Holding] = {}
        self._beat = 0
        """That of our entry when it was last sent. None is sent twice, whatever became of it: see `_others`."""
        self._enrolled = 0
        """The beat of our entry when it was last known to be stored; 0: it is not there, or not to be trusted."""
        self._renewed = float("-inf")
        """When that was."""
        self._shown = frozenset[int]()
        """The shards in it."""
        self._is_mere_beat = False
        """Whether what was sent last has the same shards."""
        self._seen: dict[str, tuple[int, float]] = {}
        """The beat of each other replica, and since when it has been that."""
        self._strangers = _NOBODY
        self._wary_until = float("-inf")
        """Until then nothing is taken: others may work on what no entry names."""
        self._wake = asyncio.Event()

    @property
    def held(self) -> frozenset[int]:
        """The shards that this process may write for now."""
        return frozenset(shard for shard, holding in self._holdings.items() if holding.term.left > 0)

    @property
    def leading(self) -> bool:
        """Whether this process works on any shard now."""
        return bool(self.held)

    async def run(self, body: Body) -> None:
        """Work on a fair share of the shards, until cancelled.

        Raises:
            ExceptionGroup: What *body* raises; all shards are given back.
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
        """Wait until it is time for the next beat: after a while, or when others count as gone or work has ended."""
        now = self._clock()
        ends = (since + self._times.lease for _, since in self._seen.values())
        # Of those that were due before: whatever has kept us from noting that they are gone may go on for long.
        seconds = min((self._pause(), *(max(SOON, end - now) for end in ends if end > now)))
        self._wake.clear()
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._wake.wait()

    async def _attempt(self, tasks: asyncio.TaskGroup, body: Body) -> None:
        """Renew our entry, with what it is time to take or to give back."""
        for _ in range(ATTEMPTS):
            try:
                trouble = await self._renew(tasks, body)
            except (ConflictError, AlreadyExistsError):
                # Another replica wrote first, or a write of ours was stored and its answer was lost. Many that tried
                # again at once would keep one another from it, so those go first whose time runs out.
                if self._is_mere_beat and self._clock() - self._renewed < self._times.renew / 2:
                    return
                continue
            except (StoreError, TimeoutError) as error:
                self._note(self._describe(error))
            else:
                self._note(trouble)
            return

    async def _renew(self, tasks: asyncio.TaskGroup, body: Body) -> str:
        """Write our entry; returns what keeps us from that, empty when nothing does."""
        record = await self._get()
        if trouble := self._clashes(record):
            return trouble
        others = self._others(record)
        elsewhere = frozenset[int]().union(*(entry.shards for entry in others.values()))
        if not elsewhere.isdisjoint(self._holdings):
            self._distrust()
        working = {name: entry.shards for name, entry in others.items()}
        share = fair_shares(self.count, {**working, self.identity: frozenset(self._holdings)})[self.identity]
        for shard in self._holdings.keys() - share:
            self._holdings[shard].task.cancel()  # the entry keeps it until its work has stopped
        may_take = self._clock() >= self._wary_until
        free_shards = share - elsewhere - self._holdings.keys() if may_take else frozenset[int]()
        self._beat += 1
        # What others have written into their entries is theirs, though work of ours may not have stopped yet.
        entry = _ReplicaEntry(self._beat, (frozenset(self._holdings) - elsewhere) | free_shards)
        sent_at = self._clock()  # before the request: others count from when they see it stored, never earlier
        self._is_mere_beat = entry.shards == self._shown
        holdings = tuple(self._holdings.values())
        await self._store_roll(record, {**others, self.identity: entry})
        self._enrolled, self._renewed, self._shown = entry.beat, sent_at, entry.shards
        if entry.shards:
            self._led = self._clock()
        until = sent_at + self._times.renew
        for holding in holdings:
            if holding.term.left > 0:  # a renewal that succeeds after the deadline does not revive a term
                holding.term.until = until
        for shard in sorted(free_shards):
            self._begin(shard, Term(until, self._clock), tasks, body)
        return ""

    def _clashes(self, record: JsonObject | None) -> str:
        """Return why the Lease is not ours to write now; empty when it is."""
        # Deleted: those that held it may not have noticed yet, so they are waited for all the same.
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
        others = f"replicas with {parts} shards work" if parts else f"{holder} works alone, with 1 shard,"
        return (
            f"{others} by this Lease, and this replica has {self.count} shards: it does nothing until those are gone, "
            "or all have the same number"
        )

    def _others(self, record: JsonObject | None) -> dict[str, _ReplicaEntry]:
        """Return the entries of the other replicas that are alive, and keep up when each was heard of last."""
        now = self._clock()
        roll: Mapping[str, _ReplicaEntry] = {}
        if record is not None and holder_of(record) == self._holder:
            try:
                roll = read_roll(annotations_of(record).get(REPLICAS))
            except ValueError as error:
                log.warning("lease damaged", extra={"lease": str(self._lease), "error": str(error)})
                self._distrust()
        if self._enrolled and (self.identity not in roll or roll[self.identity].beat < self._enrolled):
            self._distrust()
        if now - self._renewed > self._times.renew:
            # Others could not renew either, so all get the time for another beat before they count as gone. Not sooner:
            # a hub that is only slow would have them never do.
            least = now - self._times.lease + 2 * self._times.retry
            self._seen = {name: (beat, max(since, least)) for name, (beat, since) in self._seen.items()}
        sightings = {name: self._seen.get(name, (None, 0.0)) for name in roll if name != self.identity}
        if any(
            beat is not None and beat != roll[name].beat and roll[name].shards for name, (beat, _) in sightings.items()
        ):
            self._led = now
        self._seen = {
            name: (beat, since) if beat == roll[name].beat else (roll[name].beat, now)
            for name, (beat, since) in sightings.items()
        }
        return {name: roll[name] for name, (_, since) in self._seen.items() if now - since < self._times.lease}

    def _distrust(self) -> None:
        """Stop all work, and take nothing until what others may work on has ended: the Lease is not as we left it."""
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
        """Do the work of one term of a shard."""
        work = asyncio.create_task(body(shard, term), name=f"work on shard {shard}")
        expiry = asyncio.create_task(expired(term), name="expiring")
        has_ended = False
        try:
            await asyncio.wait((work, expiry), return_when=asyncio.FIRST_COMPLETED)
            has_ended = work.done() and term.left > 0
        finally:
            move = Move.HANDED_OVER if term.left > 0 else Move.LOST
            if move is Move.LOST:  # else what is being written may still be, while the work stops
                term.until = min(term.until, self._clock())
            try:  # nothing hurries while the term goes on: others take the shard only when its work has stopped
                await stop_work((work, expiry), term.left + self._times.stop, self._end)
            finally:
                term.until = float("-inf")
                self._holdings.pop(shard, None)
                self._tell(shard, move)
                self._wake.set()
        if has_ended:
            work.result()
        elif not work.cancelled() and (error := work.exception()) is not None:
            log.error("the work on a shard failed while it stopped", exc_info=error)

    def _tell(self, shard: int, move: Move) -> None:
        log.info("shard moved", extra={"lease": str(self._lease), "shard": shard, "move": str(move)})
        self.moved(shard, move)

    async def _leave(self) -> None:
        """Take our entry away, after the work has stopped: others begin at once. The last one frees the Lease."""
        self._enrolled = 0  # by us: who runs again has no reason to distrust the Lease
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
            except ValueError:  # as damaged as it was: what is in it nobody trusts
                return
            except (StoreError, TimeoutError) as error:
                log.warning("lease not released", extra={"lease": str(self._lease), "reason": self._describe(error)})
            return

    async def _store_roll(self, record: JsonObject | None, roll: Mapping[str, _ReplicaEntry]) -> None:
        """Write the entries over the version of the Lease that was read; without any, it is free."""
        if record is None:
            await self._create(self._held_by(self._holder), {REPLICAS: write_roll(roll)})
            return
        annotations = {name: text for name, text in annotations_of(record).items() if name != REPLICAS}
        if roll:
            annotations[REPLICAS] = write_roll(roll)
        spec = self._held_by(self._holder, record) if roll else self._freed(record)
        await self._replace({**record, "metadata": {**record["metadata"], "annotations": annotations}, "spec": spec})


def read_roll(text: object) -> dict[str, _ReplicaEntry]:
    """Return the entries of the replicas, by their identities.

    Raises:
        ValueError: *text* is not what a replica writes.
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
    """Return the entries as text, the same for equal ones."""
    entries = {name: [entry.beat, sorted(entry.shards)] for name, entry in roll.items()}
    return orjson.dumps({"digest": digest_of(entries), "replicas": entries}, option=orjson.OPT_SORT_KEYS).decode()


def digest_of(entries: Mapping[str, Any]) -> str:
    """Return what shows whether entries are as a replica has written them.

    An entry that is taken out by hand, of a replica that works on, would else look like one that has given all back.
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
