"""Fingerprints of objects right after the last apply.

An API server does not store exactly what it receives: it normalizes quantities, adds defaults and the changes of
admission, and drops unknown fields. An object may therefore differ from its manifest although it is unchanged since the
last apply, and would be written again in every pass. The fingerprint of the stored result distinguishes the two cases:
while it matches, writing the same manifest in the same way is a no-op.

Example: the manifest has ``cpu: 1000m``, and the member stores ``cpu: "1"``. A comparison with the manifest always
finds a difference. The fingerprint is that of the stored object, so it changes only when a client of the member changes
it.

Status, versions and field managers are ignored, because controllers write them all the time. A restart loses all
fingerprints, which costs at most one dry run per object.
"""

import hashlib
import json
from collections import OrderedDict
from typing import Any, Final

import orjson

from scorer.api.meta import JsonObject

MOST: Final = 20_000
"""Maximum number of objects, some 200 bytes each. The least recently used ones are evicted."""

_PASSING: Final = frozenset({"resourceVersion", "generation", "managedFields", "deletionGracePeriodSeconds"})


class Fingerprints:
    """Stores, per object on the member, its fingerprint after the last apply."""

    def __init__(self, most: int = MOST) -> None:
        self._most = most
        self._fingerprints: OrderedDict[str, bytes] = OrderedDict()

    def __len__(self) -> int:
        return len(self._fingerprints)

    def matches(self, live: JsonObject, applied: str) -> bool:
        """Return whether *live* is unchanged since *applied*.

        Args:
            live: The object as read now.
            applied: Content and mode of the apply, equal for writes with equal results.
        """
        uid = live["metadata"].get("uid", "")
        fingerprint = self._fingerprints.get(uid)
        if fingerprint is None:
            return False
        self._fingerprints.move_to_end(uid)
        return fingerprint == mark(live, applied)

    def note(self, live: JsonObject, applied: str) -> None:
        """Store the fingerprint of *live*, the result of *applied*."""
        uid = live["metadata"].get("uid", "")
        self._fingerprints[uid] = mark(live, applied)
        self._fingerprints.move_to_end(uid)
        if len(self._fingerprints) > self._most:
            self._fingerprints.popitem(last=False)


def content(live: JsonObject) -> JsonObject:
    """Return the relevant part of an object: all except its status and the metadata that changes with every write."""
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
