"""Digests of removals, the confirmation that names them, and the record of the digests carried out.

A digest covers only facts of the hub. An effect that shrinks therefore remains confirmed. If an effect grows, only its
new items need another confirmation.

Source: docs/specifications/removal.md 4 and 5.
"""

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import StrEnum
from hashlib import sha256
from typing import Any, Final

import orjson

from scorer.api.meta import dump_json, format_time, parse_time
from scorer.api.names import CARRIED_OUT, CONFIRM_REMOVAL
from scorer.api.unstructured.documents import annotation, annotations_of
from scorer.rollout.object_size import ObjectIdentity

DIGEST_LENGTH: Final = 20
DEFAULT_VALIDITY: Final = timedelta(hours=24)
LONGEST_VALIDITY: Final = timedelta(hours=72)
MOST_ITEMS: Final = 100
"""Maximum number of items that get a digest each. More items are rolled up per namespace and kind."""
REMOVAL_NOT_CONFIRMED: Final = "RemovalNotConfirmed"
"""Reason of each cause of a refusal. A cause names a placement or NodePool, and one digest."""
_LONGEST_ANNOTATIONS: Final = 240 * 1024
"""Maximum size of all annotations of an object in bytes, slightly below the limit of an API server."""
_LONGEST_RECORD: Final = 96 * 1024
_ENTRY_BYTES: Final = 8 * 1024
"""Bytes reserved in the record for a new expiry and its order."""
_DIGEST: Final = re.compile(rf"[0-9a-f]{{{DIGEST_LENGTH}}}", re.ASCII)


class RemovalEffect(StrEnum):
    """Effect that a digest confirms."""

    OBJECT = "Object"
    """An object leaves a placement."""
    CLUSTER = "Cluster"
    """A placement leaves a cluster."""
    PLACEMENT = "Placement"
    """A placement is deleted."""
    NODE_POOL = "NodePool"
    """A NodePool with nodes is deleted."""


@dataclass(frozen=True, slots=True, order=True)
class RemovalItem:
    """One removal to confirm.

    Args:
        effect: Its effect.
        identity: Group, kind, namespace and name of the object. For a cluster, those of the binding.
        uid: Uid of the object on the hub, of the envelope that wraps it, or of the binding. Empty: unknown.
        cluster: The cluster that the placement leaves. Empty for other effects.
        objects: Number of objects that are removed together, this one included.
        since: When it became pending. None if it is not pending yet.
    """

    effect: RemovalEffect
    identity: ObjectIdentity
    uid: str = ""
    cluster: str = ""
    objects: int = 1
    since: datetime | None = field(default=None, compare=False)

    def digest(self, placement_uid: str) -> str:
        """Return the digest of the item for the placement with that uid."""
        return _digest([placement_uid, str(self.effect), *self.identity, self.uid])

    def __str__(self) -> str:
        if self.cluster:
            return f"cluster {self.cluster}"
        _, kind, namespace, name = self.identity
        subject = f"{kind} {namespace}/{name}" if namespace else f"{kind} {name}"
        other_count = self.objects - 1
        return f"{subject} and {other_count} object{'s' if other_count > 1 else ''} in it" if other_count else subject


@dataclass(frozen=True, slots=True, order=True)
class ConfirmableGroup:
    """The items that one digest confirms: a single item, or those of one namespace and kind."""

    digest: str
    items: tuple[RemovalItem, ...]

    def __str__(self) -> str:
        first = self.items[0]
        if len(self.items) == 1:
            return str(first)
        if first.cluster:
            return f"{len(self.items)} clusters"
        _, kind, namespace, _ = first.identity
        return f"{len(self.items)} {kind} objects" + (f" in {namespace}" if namespace else "")


def _digest(parts: object) -> str:
    return sha256(dump_json(parts)).hexdigest()[:DIGEST_LENGTH]


def rolled_up_digest(placement_uid: str, items: Iterable[RemovalItem]) -> str:
    """Return the common digest of several items. Their order does not matter."""
    return _digest([placement_uid, "group", *sorted(item.digest(placement_uid) for item in items)])


def confirmable_groups(placement_uid: str, items: Iterable[RemovalItem]) -> tuple[ConfirmableGroup, ...]:
    """Return one group per item. More than `MOST_ITEMS` items are rolled up per effect, namespace and kind."""
    ordered = sorted(set(items))
    if len(ordered) <= MOST_ITEMS:
        return tuple(ConfirmableGroup(item.digest(placement_uid), (item,)) for item in ordered)
    groups: dict[tuple[str, ...], list[RemovalItem]] = defaultdict(list)
    for item in ordered:
        group, kind, namespace, _ = item.identity
        groups[item.effect, group, kind, namespace].append(item)
    return tuple(
        ConfirmableGroup(
            members[0].digest(placement_uid) if len(members) == 1 else rolled_up_digest(placement_uid, members),
            tuple(members),
        )
        for _, members in sorted(groups.items())
    )


@dataclass(frozen=True, slots=True)
class Confirmation:
    """The digests that a user has confirmed, and the expiry of the confirmation."""

    digests: frozenset[str] = frozenset()
    expiry: datetime | None = None

    @classmethod
    def parse(cls, text: str) -> "Confirmation":
        """Read ``DIGEST[,DIGEST…]@EXPIRY``.

        Raises:
            ValueError: *text* has another form. The message names the invalid part.
        """
        listed, separator, expiry = text.strip().partition("@")
        digests = [part.strip() for part in listed.split(",")]
        malformed_digest = next((part for part in digests if not _DIGEST.fullmatch(part)), None)
        if malformed_digest is not None:
            raise ValueError(f"{malformed_digest[:64]!r} is not a digest of {DIGEST_LENGTH} hexadecimal characters")
        if not separator:
            raise ValueError("must end in @ and the time at which it expires")
        expiry = expiry.strip()
        try:
            until = parse_time(expiry)
        except ValueError as error:
            raise ValueError(f"{expiry[:64]!r} is not an RFC 3339 time") from error
        if not expiry.isprintable():  # the parser stops at a NUL
            raise ValueError(f"{expiry[:64]!r} is not an RFC 3339 time")
        return cls(frozenset(digests), until)

    @classmethod
    def of(cls, placement: Mapping[str, Any], now: datetime) -> "Confirmation":
        """Return the valid confirmation on a placement, empty without one.

        A confirmation is invalid if it is unreadable, has expired, or expires later than `LONGEST_VALIDITY` from now.
        """
        text = annotation(placement, CONFIRM_REMOVAL)
        try:
            confirmation = cls.parse(text) if text else cls()
        except ValueError:
            return cls()
        return cls() if validity_error(confirmation, now) else confirmation

    def format(self) -> str:
        """Return the value of the annotation.

        Raises:
            ValueError: The confirmation has no expiry.
        """
        if self.expiry is None:
            raise ValueError("a confirmation must have an expiry")
        return f"{','.join(sorted(self.digests))}@{format_time(self.expiry)}"


def validity_error(confirmation: Confirmation, now: datetime) -> str:
    """Return why a confirmation does not count at *now*. Empty: it counts, or has no expiry."""
    if confirmation.expiry is None:
        return ""
    if confirmation.expiry <= now:
        return f"expired at {format_time(confirmation.expiry)}"
    if confirmation.expiry - now > LONGEST_VALIDITY:
        return (
            f"expires at {format_time(confirmation.expiry)}, more than {LONGEST_VALIDITY // timedelta(hours=1)}h ahead"
        )
    return ""


@dataclass(frozen=True, slots=True)
class CarriedOut:
    """The digests that the loop has carried out, until they expire.

    A recorded digest is accepted again only from a confirmation with a later expiry. A confirmation that a GitOps tool
    applies a second time therefore confirms nothing, and a new one counts immediately.

    Args:
        until: Expiry of the confirmation that named each digest.
        orders: Index of the resource snapshot that carries out a digest. The digest is accepted until that snapshot
            exists. A digest without an index is carried out by the write of the record.
    """

    until: Mapping[str, datetime] = field(default_factory=dict)
    orders: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def of(cls, document: Mapping[str, Any]) -> "CarriedOut":
        """Read the record of a placement or a binding. An unreadable record counts as empty."""
        until: dict[str, datetime] = {}
        orders: dict[str, str] = {}
        try:
            for expiry, by_order in orjson.loads(annotation(document, CARRIED_OUT) or "{}").items():
                for order, listed in by_order.items():
                    digests = listed.split(" ")
                    until |= dict.fromkeys(digests, parse_time(expiry))
                    orders |= dict.fromkeys(digests, order) if order else {}
        except (ValueError, TypeError, AttributeError):
            return cls()
        return cls(until, orders)

    def with_digests(self, digests: Iterable[str], expiry: datetime, order: str = "") -> "CarriedOut":
        """Return the record with *digests* added. Only a later expiry replaces an existing entry.

        Args:
            digests: The digests carried out.
            expiry: When their confirmation expires.
            order: Index of the resource snapshot that carries them out. Empty: the write of the record does.
        """
        renewed_digests = [digest for digest in digests if digest not in self.until or expiry > self.until[digest]]
        orders = {digest: index for digest, index in self.orders.items() if digest not in renewed_digests}
        return CarriedOut(
            {**self.until, **dict.fromkeys(renewed_digests, expiry)},
            {**orders, **(dict.fromkeys(renewed_digests, order) if order else {})},
        )

    def without_expired(self, now: datetime) -> "CarriedOut":
        """Return the record without digests that have expired."""
        until = {digest: expiry for digest, expiry in self.until.items() if expiry > now}
        return CarriedOut(until, {digest: order for digest, order in self.orders.items() if digest in until})

    def is_renewed(self, digest: str, expiry: datetime | None) -> bool:
        """Return whether a digest is not on record, or is confirmed with a later expiry than the recorded one."""
        return digest not in self.until or (expiry is not None and expiry > self.until[digest])

    def is_spent(self, digest: str, expiry: datetime | None, latest_index: int) -> bool:
        """Return whether a digest of a placement is no longer accepted.

        A digest that is recorded for a resource snapshot is accepted until that snapshot exists: after a crash in
        between, the removal has not been carried out yet.

        Args:
            digest: The digest.
            expiry: When the confirmation that names it expires.
            latest_index: Index of the latest resource snapshot.
        """
        if self.is_renewed(digest, expiry):
            return False
        order = self.orders.get(digest, "")
        return not order.isdecimal() or latest_index >= int(order)

    def format(self) -> str:
        """Return the value of the annotation. Empty: no record."""
        entries: dict[str, dict[str, list[str]]] = {}
        for digest, expiry in sorted(self.until.items()):
            by_order = entries.setdefault(format_time(expiry), {})
            by_order.setdefault(self.orders.get(digest, ""), []).append(digest)
        record = {
            expiry: {order: " ".join(digests) for order, digests in sorted(by_order.items())}
            for expiry, by_order in sorted(entries.items())
        }
        return dump_json(record).decode() if record else ""


def room_for_digests(document: Mapping[str, Any], now: datetime) -> int:
    """Return how many more digests fit into the record of a placement or a binding.

    An API server limits the annotations of an object. A refused record would stop the rollout. Further removals
    therefore wait until earlier entries expire.
    """
    record = CarriedOut.of(document).without_expired(now).format()
    other_bytes = sum(len(key) + len(str(text).encode()) for key, text in annotations_of(document).items())
    other_bytes -= len(annotation(document, CARRIED_OUT).encode())
    return max(0, min(_LONGEST_RECORD, _LONGEST_ANNOTATIONS - other_bytes) - len(record) - _ENTRY_BYTES) // (
        DIGEST_LENGTH + 1
    )


def fitting_digests(
    digests: Iterable[str], document: Mapping[str, Any], expiry: datetime | None, now: datetime
) -> frozenset[str]:
    """Return which of *digests* fit into the record of an object.

    The lowest digests are taken first. Those on record always fit.
    """
    record = CarriedOut.of(document).without_expired(now)
    renewed_digests = sorted({digest for digest in digests if record.is_renewed(digest, expiry)})
    recordable_digests = renewed_digests[: room_for_digests(document, now)] if renewed_digests else []
    return frozenset(recordable_digests).union(digest for digest in digests if not record.is_renewed(digest, expiry))
