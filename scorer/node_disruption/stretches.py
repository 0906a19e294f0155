"""Stretches of time in which nodes are held: from the first look that finds it to the first that does not any more."""

import re
from collections.abc import Collection, Iterable
from dataclasses import replace
from datetime import datetime
from typing import Final

from scorer.node_disruption.happenings import Blocked

_SUBJECT_ENDS: Final = re.compile(r", |: ")
"""What follows in a message changes from look to look: numbers and names of pods."""

_Key = tuple[str, str, str, str]


class Stretches:
    """What has been found to hold nodes, look by look."""

    def __init__(self) -> None:
        self._open: dict[_Key, Blocked] = {}
        self._over: list[Blocked] = []

    def see(self, found: Iterable[Blocked], now: datetime) -> None:
        """Take in everything that holds nodes at *now*; what was there before and is not any more has ended."""
        seen: dict[_Key, Blocked] = {}
        for each in found:
            seen.setdefault(_key(each), each)
        self._end([key for key in self._open if key not in seen], now)
        for key, each in seen.items():
            self._open.setdefault(key, each)

    def release(self, nodes: Collection[str], now: datetime) -> None:
        """Note that nothing holds some nodes any more."""
        self._end([key for key, each in self._open.items() if each.node in nodes], now)

    def all(self) -> tuple[Blocked, ...]:
        """Return all stretches by their beginning; those that have not ended are open."""
        return tuple(sorted((*self._over, *self._open.values()), key=_order))

    def _end(self, keys: Iterable[_Key], now: datetime) -> None:
        for key in keys:
            ended = self._open.pop(key)
            if ended.since < now:
                self._over.append(replace(ended, until=now))


def subject(message: str) -> str:
    """Return what a message is about, without what changes from look to look."""
    return _SUBJECT_ENDS.split(message, maxsplit=1)[0]


def _key(blocked: Blocked) -> _Key:
    return blocked.node, blocked.wanted, blocked.reason, subject(blocked.message)


def _order(blocked: Blocked) -> tuple[datetime, _Key]:
    return blocked.since, _key(blocked)
