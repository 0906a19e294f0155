"""How an object on the member differs from its manifest.

Source: rollout.md 14.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from scorer.api.kinds import Kind
from scorer.api.meta import JsonObject, dump_json
from scorer.rollout.work_status import DETAIL_LIMIT
from webhook.member.merge import three_way_merge

WHOLE_OBJECT = "(the whole object)"
REDACTED = "(redacted)"

_LEFT_OUT = frozenset(
    {
        "name",
        "namespace",
        "generateName",
        "finalizers",
        "managedFields",
        "ownerReferences",
        "deletionTimestamp",
        "deletionGracePeriodSeconds",
        "generation",
        "resourceVersion",
        "selfLink",
        "uid",
        "creationTimestamp",
    }
)
_SYSTEM_KEYS = ("kubernetes.io/", "k8s.io/", "kubernetes-fleet.io/")
_ABSENT = object()


def differences(kind: Kind, manifest: JsonObject, live: JsonObject, *, full: bool) -> tuple[JsonObject, ...]:
    """Return ``{path, valueInMember, valueInHub}`` for every field that differs, by path, at most 100.

    Args:
        kind: The kind of both.
        manifest: What the hub wants.
        live: The object on the member.
        full: Compare every field. Otherwise only what applying the manifest would change.
    """
    wanted = manifest if full else three_way_merge(kind, {}, manifest, live)
    found = _differences((), _comparable(live), _comparable(wanted))
    secret = kind.group_kind == ("", "Secret")
    details = []
    for path, in_member, in_hub in found:
        detail: JsonObject = {"path": "/" + "/".join(part.replace("~", "~0").replace("/", "~1") for part in path)}
        hidden = secret and path[0] in ("data", "stringData")
        for field, value in (("valueInMember", in_member), ("valueInHub", in_hub)):
            if value is not _ABSENT:
                detail[field] = REDACTED if hidden else _text(value)
        details.append(detail)
        if len(details) == DETAIL_LIMIT:
            break
    return tuple(details)


def missing_object() -> tuple[JsonObject, ...]:
    """Return the one difference of an object that the member does not have."""
    return ({"path": "/", "valueInHub": WHOLE_OBJECT},)


def _text(value: Any) -> str:
    return value if isinstance(value, str) else dump_json(value).decode()


def _comparable(document: JsonObject) -> JsonObject:
    body = {name: value for name, value in document.items() if name not in ("apiVersion", "kind", "status", "metadata")}
    metadata = {name: value for name, value in document.get("metadata", {}).items() if name not in _LEFT_OUT}
    for field in ("labels", "annotations"):
        entries = metadata.pop(field, None)
        if isinstance(entries, Mapping):
            kept = {key: value for key, value in entries.items() if not any(mark in key for mark in _SYSTEM_KEYS)}
            if kept:
                metadata[field] = kept
    return {**body, "metadata": metadata}


def _differences(path: tuple[str, ...], member: Any, hub: Any) -> Iterator[tuple[tuple[str, ...], Any, Any]]:
    if isinstance(member, Mapping) and isinstance(hub, Mapping):
        for name in sorted({*member, *hub}):
            if name == "creationTimestamp" and path[-1:] == ("metadata",):
                continue
            yield from _differences((*path, name), member.get(name, _ABSENT), hub.get(name, _ABSENT))
    elif isinstance(member, list) and isinstance(hub, list):
        for index in range(max(len(member), len(hub))):
            pair = (part[index] if index < len(part) else _ABSENT for part in (member, hub))
            yield from _differences((*path, str(index)), *pair)
    elif _nothing(member) and _nothing(hub):
        return
    elif member != hub or isinstance(member, bool) != isinstance(hub, bool):
        yield path, member, hub


def _nothing(value: Any) -> bool:
    return value is _ABSENT or value is None
