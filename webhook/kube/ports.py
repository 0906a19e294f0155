"""What the loop and the server need from an API server, and nothing more.

The `hub` store (kubernetes-asyncio) and the `embedded` store (SQLite) both keep to this Protocol;
one test suite checks both. Objects travel as decoded JSON. An object handed out by a store is shared
and read-only: make a new one to change it.
"""

from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple, Protocol

from scorer.api.kinds import Kind
from scorer.api.meta import JsonObject


class Key(NamedTuple):
    """Names an object of a known kind; ``namespace`` is empty for cluster-scoped kinds."""

    name: str
    namespace: str = ""

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}" if self.namespace else self.name


def key_of(document: JsonObject) -> Key:
    """Return the key of an object."""
    metadata = document["metadata"]
    return Key(metadata["name"], metadata.get("namespace", ""))


class EventType(StrEnum):
    """What happened to a watched object."""

    ADDED = "ADDED"
    MODIFIED = "MODIFIED"
    DELETED = "DELETED"
    BOOKMARK = "BOOKMARK"


@dataclass(frozen=True, slots=True)
class WatchEvent:
    """One change; a bookmark carries only a resource version."""

    type: EventType
    document: JsonObject
    resource_version: str


@dataclass(frozen=True, slots=True)
class Listing:
    """The objects of a kind at one moment, and the resource version to watch from."""

    items: tuple[JsonObject, ...]
    resource_version: str


class StoreError(Exception):
    """The store refused or could not answer; the message is fit for a user."""


class NotFoundError(StoreError):
    """No such object."""


class AlreadyExistsError(StoreError):
    """An object of that name exists."""


class ConflictError(StoreError):
    """Someone else wrote first, or a precondition does not hold: read again and decide again."""


class ExpiredError(StoreError):
    """The resource version to watch from is too old: list again."""


class InvalidObjectError(StoreError):
    """The object cannot be stored: its metadata breaks a rule of the store."""


class ForbiddenError(StoreError):
    """We may not do this; the message is the API server's."""


class UnavailableError(StoreError):
    """The store cannot be reached or cannot answer now; trying again later may help.

    Args:
        message: Fit for a user.
        retry_after: Seconds that the store asks us to wait; nobody has waited yet. None: it asks for nothing.
    """

    def __init__(self, message: str, retry_after: float | None = None) -> None:
        super().__init__(message)
        self.retry_after = retry_after


class Store(Protocol):
    """API-server semantics over any back end.

    Every method may raise `StoreError` when the back end cannot answer. ``create`` and ``replace`` ignore
    ``status`` on kinds whose status is a subresource; ``replace_status`` ignores everything else.
    A write that changes nothing stores nothing: it returns the object as it is, with its resource version.
    """

    async def get(self, kind: Kind, key: Key) -> JsonObject:
        """Return the object. Raises `NotFoundError`."""
        ...

    async def list(self, kind: Kind, namespace: str | None = None, labels: Mapping[str, str] | None = None) -> Listing:
        """Return the objects of *kind*, by namespace and name; *labels* must all be equal."""
        ...

    def watch(self, kind: Kind, since: str, namespace: str | None = None) -> AsyncIterator[WatchEvent]:
        """Yield every change after resource version *since*, in order, for ever, of one namespace when it is given.

        Raises `ExpiredError`.
        """
        ...

    async def create(self, kind: Kind, document: JsonObject) -> JsonObject:
        """Store a new object; ``generateName`` is honoured. Raises `AlreadyExistsError`, `InvalidObjectError`."""
        ...

    async def replace(self, kind: Kind, document: JsonObject) -> JsonObject:
        """Store the object anew, metadata included; with a ``resourceVersion`` only over that version.

        Raises `NotFoundError`, `ConflictError`, `InvalidObjectError`.
        """
        ...

    async def replace_status(self, kind: Kind, document: JsonObject) -> JsonObject:
        """Store ``status`` only; with a ``resourceVersion`` only over that version. Raises as `replace`."""
        ...

    async def delete(self, kind: Kind, key: Key, *, uid: str = "", resource_version: str = "") -> None:
        """Delete the object, or mark it when finalizers hold it; the preconditions must hold when given.

        Dependents that name it in ``ownerReferences`` are deleted once they have no other owner left.

        Raises `NotFoundError`, `ConflictError`.
        """
        ...


class ServedKinds(Protocol):
    """The kinds that an API server serves with list and watch."""

    @property
    def kinds(self) -> Mapping[tuple[str, str], Kind]:
        """By group and kind, as of the last `refresh`; every served version is among ``versions``."""
        ...

    async def refresh(self) -> None:
        """Ask the server again. Raises `StoreError`."""
        ...
