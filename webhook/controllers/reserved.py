"""Reservations of the members that runs work on: taken before the work begins, kept while it lasts, then given back.

Source: serving.md 3.1.
"""

from collections.abc import Collection, Hashable, Iterable, Mapping
from typing import Generic, TypeVar

from scorer.member_gate.holds import Hold
from webhook.controllers.result import DONE, Result
from webhook.controllers.turns import RENEWED_BELOW, Turns
from webhook.kube.hub import at_once

K = TypeVar("K", bound=Hashable)


class Reserved(Generic[K]):
    """The members that this process has reserved for runs.

    Args:
        turns: Reserves members; None: nobody waits for anybody, and nothing is reserved.
    """

    def __init__(self, turns: Turns | None) -> None:
        self._turns = turns
        self._of: dict[K, set[str]] = {}

    async def take(self, run: K, holder: str, members: Iterable[str]) -> Mapping[str, Hold]:
        """Reserve members for a run; return those that something else has, and what that is."""
        turns, refused = self._turns, dict[str, Hold]()
        if turns is None:
            return refused
        wanted = sorted(members)
        # Before the requests: one may be stored though it fails here, and has to be given back then, too.
        self._of.setdefault(run, set()).update(wanted)

        async def take(member: str) -> None:
            if (hold := await turns.take(member, holder)) is not None:
                refused[member] = hold

        await at_once(take(member) for member in wanted)
        return refused

    async def follow(self, run: K, holder: str, busy: Collection[str]) -> Result:
        """Keep the members reserved that a run is working on, and give the others back.

        Returns:
            When to come back, to renew what is reserved.
        """
        turns = self._turns
        if turns is None:
            return DONE
        working = set(busy)
        known = self._of.pop(run, set()) | working
        held = {member for member in known if turns.holds(member, holder)}
        if held & working:
            self._of[run] = held & working
        await at_once(turns.give_back(member, holder) for member in sorted(held - working))
        await at_once(turns.keep(member, holder) for member in sorted(held & working))
        return Result(RENEWED_BELOW) if held & working else DONE
