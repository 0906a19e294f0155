"""Paths on an API server. They are made only here, and `ApiServer` takes no other path for an object.

Names come from reviews, manifests and owner references, which strangers write: a name that broke out of its place in
the path would make us ask, with our token, for whatever they like. So every segment is quoted, and a name that no
object can have is refused before anything is sent.

Source: Kubernetes staging/src/k8s.io/apimachinery/pkg/api/validation/path/name.go.
"""

from typing import Self
from urllib.parse import quote

from scorer.api.kinds import KINDS, Kind
from scorer.api.values.name_grammar import dns_label_error, name_error, segment_error
from webhook.kube.ports import InvalidObjectError, Key


class ApiPath(str):
    """A path on an API server, made of its segments and of nothing else.

    Args:
        segments: In order, not quoted yet.

    Raises:
        InvalidObjectError: One cannot be a segment.
    """

    __slots__ = ()

    def __new__(cls, *segments: str) -> Self:  # noqa: D102 - as the class says
        for segment in segments:
            if error := segment_error(segment):
                raise InvalidObjectError(f"{_shown(segment)} cannot be part of a path: {error}")
        return super().__new__(cls, "".join(f"/{quote(segment, safe='')}" for segment in segments))


def path_of(kind: Kind, namespace: str = "", name: str = "", subresource: str = "", version: str = "") -> ApiPath:
    """Return the path of an object, or of all objects of a kind, of one namespace when it is given.

    Args:
        kind: The kind.
        namespace: Empty: none, or all of them.
        name: Empty: all objects.
        subresource: Of the object, such as ``status``.
        version: One of the kind's; empty: the preferred one.

    Raises:
        InvalidObjectError: No namespace, or no object of that kind, can be named like that.
    """
    version = version or kind.versions[0]
    segments = ["apis", kind.group, version] if kind.group else ["api", version]
    if namespace:
        if error := dns_label_error(namespace):
            raise InvalidObjectError(f"metadata.namespace: {_shown(namespace)}: {error}")
        segments += ["namespaces", namespace]
    segments.append(kind.plural)
    if name:
        if error := _name_error(kind, name):
            raise InvalidObjectError(f"metadata.name: {_shown(name)}: no {kind.kind} has that name: {error}")
        segments += [name, subresource] if subresource else [name]
    return ApiPath(*segments)


def path_of_object(kind: Kind, key: Key, subresource: str = "") -> ApiPath:
    """Return the path of one object; as `path_of`, but a missing name is refused instead of meaning all of them."""
    if not key.name:
        raise InvalidObjectError(f"metadata.name: a {kind.kind} without a name cannot be asked for")
    return path_of(kind, key.namespace, key.name, subresource)


def _name_error(kind: Kind, name: str) -> str:
    """Return why a name is impossible; for its own kinds an aggregated server may allow all that a path can hold."""
    return name_error(kind, name) if kind.group_kind in KINDS else segment_error(name)


def _shown(text: str) -> str:
    return ascii(text if len(text) <= 64 else f"{text[:64]}…")
