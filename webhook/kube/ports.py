"""Ports to an API server: the Store protocol, its errors, and RetryError.

The hub store (a real API server) and the embedded store (SQLite) implement `Store`, and one test suite checks both.
Objects are decoded JSON. An object returned by a store is shared and read-only: build a new one to change it.
"""

from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum
from typing import NamedTuple, Protocol, runtime_checkable

from scorer.api.kinds import Kind
from scorer.api.unstructured.json_object import JsonObject


class Key(NamedTuple):
    """Key of an object of a given kind. ``namespace`` is empty for cluster-scoped kinds."""

    name: str
    namespace: str = ""

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}" if self.namespace else self.name


def key_of(document: JsonObject) -> Key:
    """Return the key of an object."""
    metadata = document["metadata"]
    return Key(metadata["name"], metadata.get("namespace", ""))


class EventType(StrEnum):
    """Type of a watch event."""

    ADDED = "ADDED"
    MODIFIED = "MODIFIED"
    DELETED = "DELETED"
    BOOKMARK = "BOOKMARK"


@dataclass(frozen=True, slots=True)
class WatchEvent:
    """One change. A bookmark carries only a resource version.

    Args:
        type: Type of the event.
        document: The present object, or the last state of a deleted one.
        resource_version: Resource version of the change.
        more: Whether further changes have already arrived.
    """

    type: EventType
    document: JsonObject
    resource_version: str
    more: bool = False


@dataclass(frozen=True, slots=True)
class Listing:
    """The objects of a kind at one moment, and the resource version to watch from."""

    items: tuple[JsonObject, ...]
    resource_version: str


class StoreError(Exception):
    """The store refused or could not respond. The message is suitable for users."""


class NotFoundError(StoreError):
    """The object, or the namespace of an object to create, does not exist."""


class NotServedError(NotFoundError):
    """The store does not serve the kind, at least not yet. The object may nevertheless exist."""


class AlreadyExistsError(StoreError):
    """An object of that name exists."""


class ConflictError(StoreError):
    """Another client wrote first, or a precondition failed: read again and decide again."""


class ExpiredError(StoreError):
    """The resource version to watch from is too old: list again."""


class InvalidObjectError(StoreError):
    """The store refuses the object: it is invalid or too large."""


class ForbiddenError(StoreError):
    """The store does not permit the request, refuses the credentials, or is deleting the namespace."""


class UnavailableError(StoreError):
    """The store is unreachable or overloaded. A later retry may succeed.

    Args:
        message: Suitable for users.
        retry_after: Delay in seconds that the store requests. The caller must wait. None: unset.
    """

    def __init__(self, message: str, retry_after: float | None = None) -> None:
        super().__init__(message)
        self.retry_after = retry_after


class Store(Protocol):
    """API-server semantics over any back end.

    Every method may raise `StoreError` if the back end cannot answer. ``create`` and ``replace`` ignore ``status`` on
    kinds whose status is a subresource. ``replace_status`` ignores everything else. A write that changes nothing stores
    nothing: it returns the stored object with its resource version. The store sets the generation, the creation time,
    and the ``uid`` of a new object, and ignores given values.

    An object is replaced at the version that was read. Custom kinds require this. Built-in ones should carry their
    ``uid`` and ``resourceVersion`` too, as everything that was read does.

    Consequences of a deletion are asynchronous: the deletion of dependents, of the objects in a namespace, and of the
    namespace itself.

    The back ends differ in details that no caller may rely on:

    - An API server applies schemas: it fills in defaults, prunes unknown fields, and validates the rest. The embedded
      store stores its input unchanged, and its own API applies schemas first.
    - An API server adds to objects of built-in kinds, such as the name label of a Namespace, and some of these kinds
      have no ``generation``, ConfigMap and Namespace among them. In the embedded store every object has one.
    - Invalid requests of incorrect callers (another kind or version in the document, members of the wrong type, a
      namespace on a cluster-scoped kind or none on a namespaced one, a ``resourceVersion`` on create): an API server
      may refuse them with any `StoreError`. The embedded store refuses them with `InvalidObjectError`, but accepts any
      served version.
    - A built-in object without ``resourceVersion`` overwrites any version in the embedded store. An API server refuses
      that for some kinds (Lease), and creates missing objects of some kinds (Lease, Role, Event, Service). With a
      ``uid`` that is a `ConflictError`, where the embedded store raises `NotFoundError`.
    - A deletion and its consequences are one write of the embedded store. The write that removes the last finalizer
      returns the object at the version of its deletion. An API server returns the version before.
    - A watch from a future version is silent on an API server until that version has passed, and an `ExpiredError` in
      the embedded store. A watch from an invalid version is any `StoreError`, and an `ExpiredError`, respectively. From
      ``"0"`` or an empty version, an API server starts with the existing objects.
    """

    async def get(self, kind: Kind, key: Key) -> JsonObject:
        """Return the object. Raises `NotFoundError`."""
        ...

    async def list(self, kind: Kind, namespace: str | None = None, labels: Mapping[str, str] | None = None) -> Listing:
        """Return the objects of *kind* that have all *labels*, sorted by namespace and name."""
        ...

    def watch(self, kind: Kind, since: str, namespace: str | None = None) -> AsyncIterator[WatchEvent]:
        """Yield every change after resource version *since*, in order, without end, optionally of one namespace.

        *since* is the version of a `Listing`, a `WatchEvent` or an object of this store, of any kind. A deletion
        carries the last state of its object, at the version of the deletion.

        Raises `ExpiredError`, from this call or from the first event on.
        """
        ...

    async def create(self, kind: Kind, document: JsonObject) -> JsonObject:
        """Create an object. ``generateName`` is supported.

        Raises:
            AlreadyExistsError: The name is taken, possibly by an object that is being deleted.
            NotFoundError: The namespace of the object does not exist.
            ForbiddenError: The namespace is being deleted.
            InvalidObjectError: The metadata violates a rule.
        """
        ...

    async def replace(self, kind: Kind, document: JsonObject) -> JsonObject:
        """Replace the object, metadata included, at its version and ``uid``.

        An object that is being deleted is removed with its last finalizer, and accepts no new one.

        Raises:
            NotFoundError: The object does not exist.
            ConflictError: The object has another version, or the name belongs to another object.
            InvalidObjectError: The metadata violates a rule, or the kind is custom and there is no ``resourceVersion``
                (``"0"`` does not count as one).
        """
        ...

    async def replace_metadata(self, kind: Kind, document: JsonObject) -> JsonObject:
        """Store the finalizers, labels and annotations of the object, at its required version.

        Everything else is kept as stored, regardless of *document*: the object as read may lack stored fields if a
        definition has just got a new field. The finalizers are replaced by those of *document*. Labels and annotations
        that *document* lacks are kept. Those that it sets to None are removed. The ``uid`` is ignored, because a
        version is unique to one object.

        Raises as `replace`.
        """
        ...

    async def replace_status(self, kind: Kind, document: JsonObject) -> JsonObject:
        """Store only ``status``, at the version of the object. A missing status removes the stored one.

        Raises as `replace`. `NotFoundError` also if status is not a subresource of the kind.
        """
        ...

    async def delete(self, kind: Kind, key: Key, *, uid: str = "", resource_version: str = "") -> None:
        """Delete the object, or set its deletionTimestamp if it has finalizers. Given preconditions must hold.

        Dependents that name it in ``ownerReferences`` are deleted once they have no other owner left.

        Raises `NotFoundError`, `ConflictError`.
        """
        ...


@runtime_checkable
class PagedStore(Store, Protocol):
    """A store that returns long lists in pages."""

    def pages(
        self, kind: Kind, namespace: str | None = None, labels: Mapping[str, str] | None = None
    ) -> AsyncIterator[Listing]:
        """Yield the list of `Store.list` in pages, in any order, each with the version of the whole list.

        Raises `ExpiredError` if the store no longer has the snapshot of the list: start again.
        """
        ...


class ServedKinds(Protocol):
    """The kinds that an API server serves with list and watch."""

    @property
    def kinds(self) -> Mapping[tuple[str, str], Kind]:
        """The kinds by group and kind, as of the last `refresh`. ``versions`` has every served version."""
        ...

    @property
    def silent(self) -> frozenset[str]:
        """Groups whose kinds the server could not list, so that some may be missing."""
        ...

    async def refresh(self) -> None:
        """Query the server again. Raises `StoreError`."""
        ...


class RetryError(Exception):
    """Retry later, for a reason that is not an error of the object.

    Args:
        message: The reason.
        after: Delay. None means the queue's backoff.
    """

    def __init__(self, message: str, after: timedelta | None = None) -> None:
        super().__init__(message)
        self.after = after
