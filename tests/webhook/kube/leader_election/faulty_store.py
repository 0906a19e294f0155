"""A store whose calls fail, hang, answer late, or are stored late or without an answer."""

import asyncio
from contextlib import suppress
from enum import Enum, auto

from webhook.kube.ports import ConflictError, ForbiddenError, NotFoundError, UnavailableError


class Fault(Enum):
    """What becomes of one call."""

    NONE = auto()
    ERROR = auto()
    CONFLICT = auto()
    """Another has written first."""
    HANG = auto()
    SLOW = auto()
    """Stored at once, answered late."""
    LATE = auto()
    """Stored late, also when nobody waits for it any more."""
    UNANSWERED = auto()
    """Stored, and never answered."""


class FaultyStore:
    """The store as one process reaches it; *faults* are used up call by call, the last one stays.

    Each call takes *latency* seconds, and is counted in *calls*.
    """

    def __init__(self, store, faults=(Fault.NONE,)):
        self.store = store
        self.faults = list(faults)
        self.refusal = None
        self.late = []
        self.latency = 0.0
        self.calls = 0

    async def get(self, kind, key):
        return await self._call("get", kind, key)

    async def create(self, kind, document):
        if isinstance(self.refusal, NotFoundError):
            raise self.refusal
        return await self._call("create", kind, document)

    async def replace(self, kind, document):
        return await self._call("replace", kind, document)

    async def _call(self, verb, *args):
        self.calls += 1
        if isinstance(self.refusal, ForbiddenError):
            raise self.refusal
        fault = self.faults.pop(0) if len(self.faults) > 1 else self.faults[0]
        call = getattr(self.store, verb)
        match fault:
            case Fault.ERROR:
                raise UnavailableError("cannot be reached")
            case Fault.CONFLICT:
                raise ConflictError("the object has been modified")
            case Fault.HANG:
                await asyncio.sleep(1e6)
            case Fault.SLOW:
                answer = await call(*args)
                await asyncio.sleep(4)
                return answer
            case Fault.LATE:

                async def later():
                    await asyncio.sleep(7)
                    return await call(*args)

                self.late.append(asyncio.create_task(later()))
                return await asyncio.shield(self.late[-1])
            case Fault.UNANSWERED:
                with suppress(Exception):
                    await call(*args)
                await asyncio.sleep(1e6)
        if self.latency:
            await asyncio.sleep(self.latency)
        return await call(*args)
