"""What objects looked like right after we applied them.

An API server stores less, more and other than what it is sent: quantities are normalised, defaults and what admission
adds come in, unknown fields go. So an object that is exactly as we left it may still differ from its manifest, and
would be written again in every pass. Remembering what a write came to tells the two apart without guessing: while the
object still looks like that, writing the same manifest the same way again changes nothing.

Status, versions and field managers do not count: controllers write them all the time. What is remembered is lost with
the process, which costs at most one dry run per object.
"""

import hashlib
import json
from collections import OrderedDict
from typing import Any, Final

import orjson

from scorer.api.meta import JsonObject

MOST: Final = 20_000
"""Objects remembered, some 200 bytes each; those that were not asked for longest are forgotten."""

_PASSING: Final = frozenset({"resourceVersion", "generation", "managedFields", "deletionGracePeriodSeconds"})


class Fingerprints:
    """Remembers, per object on the member, how it looked when something was applied to it."""

    def __init__(self, most: int = MOST) -> None:
        self._most = most
        self._seen: OrderedDict[str, bytes] = OrderedDict()

    def __len__(self) -> int:
        return len(self._seen)

    def matches(self, live: JsonObject, applied: str) -> bool:
        """Say whether *live* looks as it did after *applied*.

        Args:
            live: The object as read now.
            applied: What was applied, and how: equal for writes that would come to the same.
        """
        uid = live["metadata"].get("uid", "")
        seen = self._seen.get(uid)
        if seen is None:
            return False
        self._seen.move_to_end(uid)
        return seen == mark(live, applied)

    def note(self, live: JsonObject, applied: str) -> None:
        """Remember *live*, which is what *applied* came to."""
        uid = live["metadata"].get("uid", "")
        self._seen[uid] = mark(live, applied)
        self._seen.move_to_end(uid)
        if len(self._seen) > self._most:
            self._seen.popitem(last=False)


def content(live: JsonObject) -> JsonObject:
    """Return what of an object counts: everything but its status and what changes with every write."""
    body = {name: value for name, value in live.items() if name not in ("status", "metadata")}
    return {**body, "metadata": {name: value for name, value in live["metadata"].items() if name not in _PASSING}}


def mark(live: JsonObject, applied: str) -> bytes:
    """Return what is remembered of an object: 32 bytes, equal for equal content after equal writes."""
    return hashlib.sha256(applied.encode() + b"\n" + _sorted(content(live))).digest()


def _sorted(value: Any) -> bytes:
    try:
        return orjson.dumps(value, option=orjson.OPT_SORT_KEYS)
    except orjson.JSONEncodeError:  # nested too deeply for it, or more than UTF-8 can hold
        return json.dumps(value, sort_keys=True).encode()
