"""Ports to an API server: the Store protocol, its errors, and RetryError.

The hub store (a real API server) and the embedded store (SQLite) implement `Store`; one test suite checks both. Objects
are decoded JSON. An object handed out by a store is shared and read-only: build a new one to change it.
"""

from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum
from typing import NamedTuple, Protocol, runtime_checkable

from scorer.api.kinds import Kind
from scorer.api.unstructured.json_object import JsonObject


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
    """One change; a bookmark carries only a resource version.

    Args:
        type: What happened.
        document: The object as it is now, or was last.
        resource_version: Of the change.
        more: Further changes have arrived already.
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
    """The store refused or could not answer; the message is fit for a user."""


class NotFoundError(StoreError):
    """No such object."""


class NotServedError(NotFoundError):
    """The store knows no such kind, or not yet: that says nothing about the object."""


class AlreadyExistsError(StoreError):
    """An object of that name exists."""


class ConflictError(StoreError):
    """Another client wrote first, or a precondition does not hold: read again and decide again."""


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
        retry_after: Seconds that the store asks us to wait, which is left to the caller. None: it asks for nothing.
    """

    def __init__(self, message: str, retry_after: float | None = None) -> None:
        super().__init__(message)
        self.retry_after = retry_after


class Store(Protocol):
    """API-server semantics over any back end.

    Every method may raise `StoreError` when the back end cannot answer. ``create`` and ``replace`` ignore
    ``status`` on kinds whose status is a subresource; ``replace_status`` ignores everything else.
    A write that changes nothing stores nothing: it returns the object as it is, with its resource version.
    The store sets the generation, the time of creation, and the ``uid`` of a new object: given values are ignored.

    An object is replaced over the version it was read at. For a custom kind nothing else is possible; a built-in one
    should carry its ``uid`` and ``resourceVersion`` too, as everything that was read does.

    What follows from a deletion may take a while: the end of dependents, of the objects in a namespace, and of the
    namespace itself.

    The back ends differ in details that no caller may rely on:

    - An API server applies schemas: defaults are filled in, unknown fields are left out, the rest is checked. The
      embedded store stores what it is given; its own API applies them before.
    - An API server adds to objects of built-in kinds, such as its name as a label to a Namespace, and some of these
      kinds have no ``generation``, ConfigMap and Namespace among them. In the embedded store every object has one.
    - What no correct caller sends (another kind or version in the document, members of the wrong type, a namespace
      where none belongs or none where one does, a ``resourceVersion`` to be created with) an API server may refuse
      with any `StoreError`; the embedded store refuses it with `InvalidObjectError`, but takes any served version.
    - A built-in object without ``resourceVersion`` is written over any version by the embedded store. An API server
      refuses that for some kinds (Lease), and creates objects of some kinds (Lease, Role, Event, Service) that do not
      exist: with a ``uid`` that is a `ConflictError`, where the embedded store says `NotFoundError`.
    - A deletion and what follows from it are one write of the embedded store. The write that takes the last finalizer
      away returns the object at the version of its deletion; an API server, at the version before.
    - A watch from a future version is silent on an API server until that version has passed, and an `ExpiredError` in
      the embedded store; from a text that is no version, it is any `StoreError`, and an `ExpiredError`, respectively.
      From ``"0"`` or an empty one an API server begins with what is there.
    """

    async def get(self, kind: Kind, key: Key) -> JsonObject:
        """Return the object. Raises `NotFoundError`."""
        ...

    async def list(self, kind: Kind, namespace: str | None = None, labels: Mapping[str, str] | None = None) -> Listing:
        """Return the objects of *kind*, by namespace and name; *labels* must all be equal."""
        ...

    def watch(self, kind: Kind, since: str, namespace: str | None = None) -> AsyncIterator[WatchEvent]:
        """Yield every change after resource version *since*, in order, without end, of one namespace if it is given.

        *since* is the version of a `Listing`, a `WatchEvent` or an object of this store, whatever its kind. A deletion
        carries the last state of its object, at the version of the deletion.

        Raises `ExpiredError`, from this call or from the first event on.
        """
        ...

    async def create(self, kind: Kind, document: JsonObject) -> JsonObject:
        """Store a new object; ``generateName`` is honoured.

        Raises:
            AlreadyExistsError: The name is taken, perhaps by an object that is being deleted.
            NotFoundError: Its namespace does not exist.
            ForbiddenError: Its namespace is being deleted.
            InvalidObjectError: Its metadata breaks a rule.
        """
        ...

    async def replace(self, kind: Kind, document: JsonObject) -> JsonObject:
        """Store the object, metadata included, over the version and the ``uid`` that it carries.

        One that is being deleted goes with its last finalizer, and takes no new one.

        Raises:
            NotFoundError: It does not exist.
            ConflictError: It is at another version, or the name is another object's.
            InvalidObjectError: Its metadata breaks a rule, or it is of a custom kind and carries no
                ``resourceVersion`` (``"0"`` does not count as one).
        """
        ...

    async def replace_metadata(self, kind: Kind, document: JsonObject) -> JsonObject:
        """Store the finalizers, labels and annotations of the object, over the version that it has to carry.

        Everything else stays as it is stored, whatever *document* says or leaves out: what was read may be less than
        what is stored, where a definition has just got a new field. The finalizers become those of *document*; labels
        and annotations that it does not have stay. The ``uid`` does not count: no two objects are ever at one version.

        Raises as `replace`.
        """
        ...

    async def replace_status(self, kind: Kind, document: JsonObject) -> JsonObject:
        """Store ``status`` only, over the version that the object carries; if it has no status, that is removed.

        Raises as `replace`; `NotFoundError` also when status is no subresource of the kind.
        """
        ...

    async def delete(self, kind: Kind, key: Key, *, uid: str = "", resource_version: str = "") -> None:
        """Delete the object, or mark it when finalizers hold it; preconditions that are given must hold.

        Dependents that name it in ``ownerReferences`` are deleted once they have no other owner left.

        Raises `NotFoundError`, `ConflictError`.
        """
        ...


@runtime_checkable
class PagedStore(Store, Protocol):
    """A store that sends long lists in parts."""

    def pages(
        self, kind: Kind, namespace: str | None = None, labels: Mapping[str, str] | None = None
    ) -> AsyncIterator[Listing]:
        """Yield the list of `Store.list` in parts, in any order; each carries the version of the whole.

        Raises `ExpiredError` when the store does not remember any more what the list was of: begin again.
        """
        ...


class ServedKinds(Protocol):
    """The kinds that an API server serves with list and watch."""

    @property
    def kinds(self) -> Mapping[tuple[str, str], Kind]:
        """By group and kind, as of the last `refresh`; every served version is among ``versions``."""
        ...

    @property
    def silent(self) -> frozenset[str]:
        """Groups whose kinds the server could not list; some of theirs may be missing."""
        ...

    async def refresh(self) -> None:
        """Ask the server again. Raises `StoreError`."""
        ...


class RetryError(Exception):
    """Try again later; nothing is wrong with the object.

    Args:
        message: Why.
        after: How long to wait; None: as the queue's backoff says.
    """

    def __init__(self, message: str, after: timedelta | None = None) -> None:
        super().__init__(message)
        self.after = after
