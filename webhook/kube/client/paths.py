"""Paths on an API server. `ApiServer` accepts no other path for an object.

Names come from reviews, manifests and owner references, which are untrusted input. A path injection would send
arbitrary requests with our token. Every segment is therefore quoted, and a name that no object can have is refused
before the request is sent.

Source: Kubernetes staging/src/k8s.io/apimachinery/pkg/api/validation/path/name.go.
"""

from typing import Self
from urllib.parse import quote

from scorer.api.kinds import KINDS, Kind
from scorer.api.values.name_grammar import dns_label_error, name_error, segment_error
from webhook.kube.ports import InvalidObjectError, Key


class ApiPath(str):
    """A path on an API server, built from its segments only.

    Args:
        segments: Unquoted segments, in order.

    Raises:
        InvalidObjectError: A segment is invalid.
    """

    __slots__ = ()

    def __new__(cls, *segments: str) -> Self:  # noqa: D102 - as the class says
        for segment in segments:
            if error := segment_error(segment):
                raise InvalidObjectError(f"{_excerpt(segment)} cannot be part of a path: {error}")
        return super().__new__(cls, "".join(f"/{quote(segment, safe='')}" for segment in segments))


def path_of(kind: Kind, namespace: str = "", name: str = "", subresource: str = "", version: str = "") -> ApiPath:
    """Return the path of an object, or of all objects of a kind, optionally in one namespace.

    Args:
        kind: The kind.
        namespace: Empty for cluster-scoped kinds, or for all namespaces.
        name: Empty for all objects.
        subresource: Subresource of the object, such as ``status``.
        version: A version of the kind. Empty for the preferred one.

    Raises:
        InvalidObjectError: The namespace or name is invalid.
    """
    version = version or kind.versions[0]
    segments = ["apis", kind.group, version] if kind.group else ["api", version]
    if namespace:
        if error := dns_label_error(namespace):
            raise InvalidObjectError(f"metadata.namespace: {_excerpt(namespace)}: {error}")
        segments += ["namespaces", namespace]
    segments.append(kind.plural)
    if name:
        if error := _name_error(kind, name):
            raise InvalidObjectError(f"metadata.name: {_excerpt(name)}: a {kind.kind} cannot have this name: {error}")
        segments += [name, subresource] if subresource else [name]
    return ApiPath(*segments)


def path_of_object(kind: Kind, key: Key, subresource: str = "") -> ApiPath:
    """Return the path of one object, or of its subresource.

    Raises:
        InvalidObjectError: The name is missing or invalid, or the namespace is invalid.
    """
    if not key.name:
        raise InvalidObjectError(f"metadata.name: must be set for a {kind.kind}")
    return path_of(kind, key.namespace, key.name, subresource)


def _name_error(kind: Kind, name: str) -> str:
    """Return why a name is invalid. An aggregated server may allow any path segment for its own kinds."""
    return name_error(kind, name) if kind.group_kind in KINDS else segment_error(name)


def _excerpt(text: str) -> str:
    return ascii(text if len(text) <= 64 else f"{text[:64]}…")
