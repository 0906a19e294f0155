"""Size limits: content that fits into one object of the hub, in bytes as etcd counts them.

Each snapshot and each Work is one object in etcd. API servers store them as JSON written by Go, where ``<``, ``>``,
``&``, U+2028 and U+2029 take six bytes each: 540 KB of HTML may be 1.7 MB there.

Nothing is removed from a cluster because of its size. An object that has become too large keeps its last content
wherever it is placed. Only an object that was never placed is left out.

Source: docs/specifications/rollout.md 3.8.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

import orjson

from scorer.api.kinds import NAMESPACE, split_api_version
from scorer.api.meta import JsonObject, dump_json
from scorer.api.unstructured.documents import name_of, namespace_of

OBJECT_SIZE_LIMIT: Final = 1_415_578
"""Bytes of an object with all details in its status: 90 % of the limit of etcd, as in KubeFleet."""
REQUEST_LIMIT: Final = 1536 * 1024
"""Bytes that etcd accepts in one request by default (``--max-request-bytes``)."""
CONTENT_LIMIT: Final = REQUEST_LIMIT - 64 * 1024
"""Bytes of content of one object. The rest is for its metadata, and for the shortest status of a Work."""
STATUS_BYTES: Final = 512
"""Bytes counted per object in addition to its content, for its entry in a Work's status. The entry may be larger."""
_SHORT_STATUS: Final = 32 * 1024
"""Maximum size in bytes of a status alongside content of `CONTENT_LIMIT`."""

OBJECTS_TOO_LARGE: Final = "ObjectsTooLarge"
"""Short type of the condition of a placement or a binding. The condition exists only while it is True."""
TOO_LARGE_REASON: Final = "SizeLimitExceeded"
_MOST_NAMED: Final = 10
"""Maximum number of objects that one message names."""

_ESCAPED: Final = (b"<", b">", b"&")
_SEPARATORS: Final = ("\u2028".encode(), "\u2029".encode())
"""Go writes these as six bytes as well. They are not ASCII, and have three bytes in UTF-8."""

ObjectIdentity: TypeAlias = tuple[str, str, str, str]
"""Group, kind, namespace and name."""


def etcd_bytes(text: bytes) -> int:
    """Return the size of JSON text in etcd."""
    size = len(text) + 5 * sum(map(text.count, _ESCAPED))
    return size if text.isascii() else size + 3 * sum(map(text.count, _SEPARATORS))


def stored_size(document: Mapping[str, Any]) -> int:
    """Return the size of an object in etcd."""
    return etcd_bytes(dump_json(document))


def object_identity(content: Mapping[str, Any]) -> ObjectIdentity:
    """Return the identity of an object, which does not depend on the version that it is read at."""
    group, _ = split_api_version(str(content.get("apiVersion") or ""))
    document = dict(content)
    return group, str(content.get("kind") or ""), namespace_of(document), name_of(document)


def namespace_identity(name: str) -> ObjectIdentity:
    """Return the identity of a Namespace."""
    return NAMESPACE.group, NAMESPACE.kind, "", name


def home_namespace(identity: ObjectIdentity) -> str:
    """Return the namespace that an object is in, or the name of the Namespace that it is. Empty: neither."""
    return identity[2] or (identity[3] if identity == namespace_identity(identity[3]) else "")


def by_identity(contents: Iterable[JsonObject]) -> dict[ObjectIdentity, JsonObject]:
    """Return objects by their identity."""
    return {object_identity(content): content for content in contents}


@dataclass(frozen=True, slots=True)
class TooLarge:
    """An object whose current content is too large to be placed.

    Args:
        identity: The object.
        size: Bytes of its current content in etcd.
        kept: Whether its earlier content remains placed instead.
    """

    identity: ObjectIdentity
    size: int
    kept: bool

    def __str__(self) -> str:
        _, kind, namespace, name = self.identity
        subject = f"{kind} {namespace}/{name}" if namespace else f"{kind} {name}"
        return f"{subject} ({_megabytes(self.size)}, {'keeps its last content' if self.kept else 'left out'})"


def format_left_out(too_large: Iterable[TooLarge], other_objects: Iterable[ObjectIdentity] = ()) -> str:
    """Return the record of objects that are left out of a snapshot or a Work. Empty: none.

    Args:
        too_large: Objects that are left out, or keep their content.
        other_objects: Objects that are left out for another reason.
    """
    identities = [entry.identity for entry in too_large if not entry.kept]
    identities += sorted(set(other_objects).difference(identities))
    return dump_json(identities).decode() if identities else ""


def parse_left_out(text: str) -> frozenset[ObjectIdentity]:
    """Read the record of objects that are left out of a snapshot or a Work.

    Raises:
        ValueError, TypeError: Another client wrote it, and it cannot be read.
    """
    entries = orjson.loads(text) if text else []
    return frozenset((str(group), str(kind), str(namespace), str(name)) for group, kind, namespace, name in entries)


def _megabytes(size: int) -> str:
    """Format a size, rounded up to a tenth, so that no object seems to be below a limit that it exceeds."""
    return f"{-(-size // 100_000) / 10:.1f} MB"


def describe(too_large: Sequence[TooLarge]) -> str:
    """Name objects that are too large. Empty: all fit."""
    more = f" and {len(too_large) - _MOST_NAMED} more" if len(too_large) > _MOST_NAMED else ""
    return ", ".join(map(str, too_large[:_MOST_NAMED])) + more


@dataclass(frozen=True, slots=True)
class StorableContent:
    """Content that can be stored.

    Args:
        objects: Objects in the given order.
        too_large: The objects whose current content is not among them, in the same order.
    """

    objects: tuple[JsonObject, ...]
    too_large: tuple[TooLarge, ...] = ()


def fit_objects(
    objects: Sequence[JsonObject], sizes: Sequence[int], old_content: Mapping[ObjectIdentity, JsonObject]
) -> StorableContent:
    """Return the objects that each fit into one object of the hub. A larger one keeps its old content, or is left out.

    Args:
        objects: The objects that are selected now.
        sizes: Bytes of each in etcd.
        old_content: The content that is placed now.
    """
    contents: list[JsonObject] = []
    too_large: list[TooLarge] = []
    for content, size in zip(objects, sizes, strict=True):
        if size <= CONTENT_LIMIT:
            contents.append(content)
            continue
        identity = object_identity(content)
        old = old_content.get(identity)
        if old is not None:
            contents.append(old)
        if old != content:  # equal content was stored by a release or a hub with another limit, so it fits
            too_large.append(TooLarge(identity, size, old is not None))
    return StorableContent(tuple(contents), tuple(too_large))


def _limit_of_work(count: int) -> int:
    """Return the bytes of content of a Work with a number of objects, so that its status can be stored as well."""
    return CONTENT_LIMIT - max(0, count * STATUS_BYTES - _SHORT_STATUS)


def fits_together(objects: Collection[JsonObject]) -> bool:
    """Return whether objects fit into one Work."""
    return sum(map(stored_size, objects)) <= _limit_of_work(len(objects))


def fit_together(
    objects: Sequence[JsonObject], old_content: Mapping[ObjectIdentity, JsonObject]
) -> StorableContent | None:
    """Return content of the objects that fits into one Work. None: not even their earlier content fits.

    Objects that shrink get their current content first, then those that grow least.

    Args:
        objects: The desired content of the cluster.
        old_content: The content of its Works now.
    """
    sizes = [stored_size(content) for content in objects]
    old_contents = [old_content.get(object_identity(content)) for content in objects]
    old_sizes = [0 if content is None else stored_size(content) for content in old_contents]
    growth = [size - old for size, old in zip(sizes, old_sizes, strict=True)]
    room = _limit_of_work(len(objects)) - sum(old_sizes)
    if room < 0:
        return None
    too_large: dict[int, TooLarge] = {}
    for at in sorted(range(len(objects)), key=lambda at: (growth[at], at)):
        if growth[at] <= room:
            old_contents[at], room = objects[at], room - growth[at]
        else:
            too_large[at] = TooLarge(object_identity(objects[at]), sizes[at], old_contents[at] is not None)
    carried_contents = tuple(content for content in old_contents if content is not None)
    return StorableContent(carried_contents, tuple(too_large[at] for at in sorted(too_large)))
