"""Leader election among several processes by a Lease."""

import asyncio

from scorer.api.meta import JsonObject
from scorer.api.unstructured.documents import spec_of
from webhook.kube.leader_election.lease import (
    believed_duration,
    excess_of,
    holder_of,
    is_released,
    parted_into,
)
from webhook.kube.leader_election.term import (
    USUAL,
    Body,
    LeaderElectionConfig,
    LeaseClient,
    NotLeaderError,
    Term,
    expired,
    log,
    stop_work,
)
from webhook.kube.ports import (
    AlreadyExistsError,
    ConflictError,
    Key,
    Store,
    StoreError,
)


class Leader(LeaseClient):
    """A candidate for the Lease, and the leader while it holds it. Takes the arguments of `LeaseClient`."""

    def __init__(self, store: Store, lease: Key, identity: str, around: LeaderElectionConfig = USUAL) -> None:
        super().__init__(store, lease, identity, around)
        self._record: JsonObject | None = None
        self._is_fresh = False  # whether the record may be overwritten without another read
        self._taken_until = float("-inf")  # until then, the Lease counts as held by another candidate
        self._term: Term | None = None

    @property
    def leading(self) -> bool:
        """Whether this process leads now."""
        return self._term is not None and self._term.left > 0

    @property
    def holder(self) -> str:
        """The lease holder as last read, empty if the Lease is free or was not read yet."""
        return holder_of(self._record)

    def check(self) -> None:
        """Raise `NotLeaderError` unless this process leads now."""
        if self._term is None:
            raise NotLeaderError("not the leader")
        self._term.check()

    async def run(self, body: Body) -> None:
        """Acquire the Lease, lead, and try again, until cancelled or until *body* returns.

        Raises:
            Exception: Any error of *body*. The Lease is released.
        """
        self._led = self._clock()
        while True:
            term = await self._win()
            try:
                if await self._lead(term, body):
                    return
            finally:
                self._term = None

    async def _win(self) -> Term:
        while True:
            until = await self._attempt()
            if until is not None and until > self._clock():
                self._term = Term(until, self._clock)
                log.info("leads", extra={"lease": str(self._lease), "identity": self.identity})
                return self._term
            await asyncio.sleep(self._pause())

    async def _lead(self, term: Term, body: Body) -> bool:
        """Run the work of one term. Return True if the work finished, or False if the term was lost."""
        work = asyncio.create_task(body(term), name="term")
        renewal = asyncio.create_task(self._keep_renewing(term), name="renewing")
        expiry = asyncio.create_task(expired(term), name="expiring")
        has_ended = False
        try:
            await asyncio.wait((work, renewal, expiry), return_when=asyncio.FIRST_COMPLETED)
            has_ended = work.done() and term.left > 0
            if not has_ended:
                # From here on the fence refuses every write, including those sent while the work is being cancelled.
                term.until = min(term.until, self._clock())
                log.warning("leadership lost", extra={"lease": str(self._lease), "holder": self.holder})
        finally:
            # Stop first, then release: the next leader may write as soon as the Lease is free.
            await stop_work((work, renewal, expiry), self._times.stop, self._end)
            await self._release(term)
        if has_ended:
            work.result()
        elif not work.cancelled() and (error := work.exception()) is not None:
            log.error("leader work failed during its stop", exc_info=error)
        if not renewal.cancelled():
            renewal.result()
        return has_ended

    async def _keep_renewing(self, term: Term) -> None:
        """Extend the term until it expires, or until another candidate holds the Lease."""
        while True:
            await asyncio.sleep(self._pause())
            until = await self._attempt(term)
            # A renewal after the deadline does not revive the term, because its work is already being cancelled.
            if term.left == 0 or self.holder != self.identity:
                return
            if until is not None:
                term.until = until

    async def _attempt(self, term: Term | None = None) -> float | None:
        """Acquire the Lease, or renew it for *term*.

        Returns:
            The end of the term on the clock. None if another candidate holds the Lease, or it is unreachable
            (`trouble`).
        """
        for _ in range(2):
            try:
                until = await self._take() if term is None else await self._renew()
            except (ConflictError, AlreadyExistsError):
                # Another candidate wrote first, or our write was stored and its response was lost. Only a read can
                # distinguish the two: in the second case, this process is the holder.
                self._is_fresh = False
            except (StoreError, TimeoutError) as error:
                self._is_fresh = False
                self._note(self._describe(error))
                return None
            else:
                self._note(self._clash())
                return until
        return None

    def _clash(self) -> str:
        """Return why other replicas block this one, other than by normal leadership."""
        if self._record is not None and (excess := excess_of(self._record)):
            return excess
        parts = parted_into(self.holder)
        if parts is None:
            return ""
        return (
            f"replicas with {parts} shards hold this Lease, and this replica has 1 shard. It remains idle until all of "
            "them have the same number (--shards)"
        )

    async def _take(self) -> float | None:
        record = await self._read()
        if self._clock() < self._taken_until:
            return None
        sent_at = self._clock()  # before the request: other candidates count from the stored renewal, which is later
        if record is None:
            self._observe(await self._create(self._held_by(self.identity)))
        else:
            await self._write(self._renewed(record))
        return sent_at + self._times.renew

    async def _renew(self) -> float | None:
        # Overwrites the version last seen, which saves a read. A conflict reveals a write of another candidate.
        record = self._record if self._is_fresh else await self._read()
        if record is None or holder_of(record) != self.identity:
            return None
        sent_at = self._clock()
        await self._write(self._renewed(record))
        return sent_at + self._times.renew

    async def _read(self) -> JsonObject | None:
        record = await self._get()
        if record is None:
            # `_taken_until` is kept: the holder may not have noticed yet. Example: it renewed a Lease of 15 s at 100 s,
            # and a user deletes the Lease at 101 s. The holder may write until 110 s, so this candidate waits until
            # 115 s before it creates the Lease again.
            self._record = None
        else:
            self._observe(record)
        return record

    async def _write(self, document: JsonObject) -> None:
        self._observe(await self._replace(document))

    def _observe(self, record: JsonObject) -> None:
        """Store the Lease as last read, and track when it was last renewed."""
        self._is_fresh = True
        before, self._record = self._record, record
        # A renewal changes renewTime. A read without a change of the spec, such as after a new label, does not extend
        # the holder's time: otherwise, a candidate that polls every 2 s would wait for a dead leader forever.
        if before is not None and spec_of(record) == spec_of(before):
            return
        holder = holder_of(record)
        # An empty holder, or this process as holder, does not change the wait. Example: while another candidate leads,
        # a user empties the holder or enters this process. The leader may write until its term ends, so this process
        # still waits for it.
        if is_released(record):
            self._taken_until = float("-inf")
        elif holder not in {"", self.identity}:
            self._taken_until = self._clock() + believed_duration(record, self._times.lease)
            if holder != holder_of(before):
                log.info("follows", extra={"lease": str(self._lease), "holder": holder})
        if before is not None and holder and not excess_of(record):
            self._led = self._clock()

    def _renewed(self, record: JsonObject) -> JsonObject:
        return {**record, "spec": self._held_by(self.identity, record)}

    async def _release(self, term: Term) -> None:
        """Release the Lease after the work has stopped. If that fails, other candidates wait until it expires."""
        in_time = term.left > 0  # otherwise it is left to expire, because another candidate may be about to acquire it
        term.until = float("-inf")
        self._term = None
        for _ in range(2):
            try:
                record = self._record if self._is_fresh else await self._read()
                if not in_time or record is None or holder_of(record) != self.identity:
                    return
                await self._write({**record, "spec": self._freed(record)})
            except ConflictError:  # a cancelled renewal was stored nevertheless
                self._is_fresh = False
            except (StoreError, TimeoutError) as error:
                log.warning("lease not released", extra={"lease": str(self._lease), "reason": self._describe(error)})
                return
            else:
                log.info("lease released", extra={"lease": str(self._lease)})
                return
