"""Fingerprints of objects as they were right after the last apply.

An API server does not store exactly what it is sent: it normalises quantities, adds defaults and what admission adds,
and drops unknown fields. So an object that is exactly as we left it may still differ from its manifest, and would be
written again in every pass. Remembering the outcome of a write tells the two cases apart without guessing: while the
object still looks like that, writing the same manifest in the same way again changes nothing.

Status, versions and field managers do not count: controllers write them all the time. A restart forgets all
fingerprints, which costs at most one dry run per object.
"""

import hashlib
import json
from collections import OrderedDict
from typing import Any, Final

import orjson

from scorer.api.meta import JsonObject

MOST: Final = 20_000
"""Objects remembered, some 200 bytes each; the least recently used are forgotten."""

_PASSING: Final = frozenset({"resourceVersion", "generation", "managedFields", "deletionGracePeriodSeconds"})


class Fingerprints:
    """Remembers, per object on the member, how it looked after the last apply."""

    def __init__(self, most: int = MOST) -> None:
        self._most = most
        self._seen: OrderedDict[str, bytes] = OrderedDict()

    def __len__(self) -> int:
        return len(self._seen)

    def matches(self, live: JsonObject, applied: str) -> bool:
        """Say whether *live* looks as it did after *applied*.

        Args:
            live: The object as read now.
            applied: What was applied, and how: equal for writes with equal outcomes.
        """
        uid = live["metadata"].get("uid", "")
        fingerprint = self._seen.get(uid)
        if fingerprint is None:
            return False
        self._seen.move_to_end(uid)
        return fingerprint == mark(live, applied)

    def note(self, live: JsonObject, applied: str) -> None:
        """Remember *live* as the outcome of *applied*."""
        uid = live["metadata"].get("uid", "")
        self._seen[uid] = mark(live, applied)
        self._seen.move_to_end(uid)
        if len(self._seen) > self._most:
            self._seen.popitem(last=False)


def content(live: JsonObject) -> JsonObject:
    """Return the part of an object that counts: all but its status and the metadata that changes with every write."""
    body = {name: value for name, value in live.items() if name not in ("status", "metadata")}
    return {**body, "metadata": {name: value for name, value in live["metadata"].items() if name not in _PASSING}}


def mark(live: JsonObject, applied: str) -> bytes:
    """Return the fingerprint of an object: 32 bytes, equal for equal content after equal writes."""
    return hashlib.sha256(applied.encode() + b"\n" + _sorted(content(live))).digest()


def _sorted(value: Any) -> bytes:
    try:
        return orjson.dumps(value, option=orjson.OPT_SORT_KEYS)
    except orjson.JSONEncodeError:  # nested too deeply for orjson, or text that UTF-8 cannot encode
        return json.dumps(value, sort_keys=True).encode()
