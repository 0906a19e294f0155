"""Request info: the object or collection that a URL of the embedded API server names."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from scorer.api.kinds import EVENT, NAMESPACE, Kind, api_version
from scorer.api.meta import JsonObject
from webhook.embedded.api_server.core_events import CORE_EVENT, core_event, stored_event
from webhook.embedded.api_server.status import ApiError
from webhook.embedded.storage.kinds import StoredKinds
from webhook.kube.ports import Key

_NOT_SERVED: Final = "the server could not find the requested resource"


@dataclass(frozen=True, slots=True)
class RequestInfo:
    """Target of a request.

    Args:
        kind: The stored kind.
        group: The requested group: that of the kind, or the core group for an Event.
        version: The requested version, which the kind has.
        namespace: None means all namespaces, or the kind is cluster-scoped.
        name: Empty for the collection.
        subresource: ``status`` or empty.
    """

    kind: Kind
    group: str
    version: str
    namespace: str | None
    name: str
    subresource: str

    @property
    def key(self) -> Key:
        """The key of the object."""
        return Key(self.name, self.namespace or "")

    @property
    def api_version(self) -> str:
        """``apiVersion`` as requested."""
        return api_version(self.group, self.version)

    @property
    def methods(self) -> tuple[str, ...]:
        """The supported HTTP methods."""
        if self.subresource:
            return ("GET", "PUT", "PATCH")
        if self.name:
            return ("GET", "PUT", "PATCH", "DELETE")
        return ("GET",) if self.kind.namespaced and self.namespace is None else ("GET", "POST")

    @property
    def is_core_event(self) -> bool:
        """Whether the target is an Event of the core group."""
        return self.group != self.kind.group

    def present(self, document: JsonObject) -> JsonObject:
        """Return the object in the requested version. Events aside, all versions of a kind have the same content."""
        if self.is_core_event:
            return core_event(document)
        version = self.api_version
        return document if document.get("apiVersion") == version else document | {"apiVersion": version}

    def stored(self, document: JsonObject) -> JsonObject:
        """Return a received object as it is passed to the store, which sets the preferred version."""
        return stored_event(document) if self.is_core_event else document


def parse_target(kinds: StoredKinds, group: str, version: str, segments: Sequence[str]) -> RequestInfo:
    """Parse the part of the path after group and version.

    Raises:
        ApiError: 404, the resource does not exist.
    """
    namespace: str | None = None
    rest = tuple(segments)
    is_namespace_itself = group == "" and rest[2:] == ("status",)
    if len(rest) > 2 and rest[0] == NAMESPACE.plural and not is_namespace_itself:
        namespace, rest = rest[1], rest[2:]
    kind = kinds.find_plural(group, rest[0]) if 0 < len(rest) <= 3 else None
    if kind is None or version not in kind.versions or not all(segments):
        raise ApiError(404, _NOT_SERVED)
    name, subresource = (*rest[1:], "", "")[:2]
    if namespace is not None and not kind.namespaced:
        raise ApiError(404, f"{_NOT_SERVED}: {kind.plural} are cluster-scoped")
    if name and kind.namespaced and namespace is None:
        raise ApiError(404, f"{_NOT_SERVED}: {kind.plural} are namespaced")
    if subresource and (subresource != "status" or not kind.has_status):
        raise ApiError(404, f"{_NOT_SERVED}: {kind.plural} have no subresource {subresource[:64]!r}")
    return RequestInfo(EVENT if kind == CORE_EVENT else kind, group, version, namespace, name, subresource)
