"""Differences between an object on the member and its manifest.

- Partial comparison applies the manifest as a dry run and compares the result with the live object, so that defaults
  and equivalent spellings of a value are equal on both sides. If the member rejects the result (an immutable field
  would change), the manifest itself is compared: *degraded mode*.
- Full comparison always compares the manifest itself, so every field that only the member has is a difference.

Neither compares fields that belong to the cluster, or that the author leaves to the cluster.

Source: docs/specifications/rollout.md 14.
"""

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import orjson

from scorer.api.kinds import Kind
from scorer.api.meta import JsonObject, dump_json, without_nulls
from scorer.api.unstructured.secrets import SECRET, is_shown
from scorer.rollout.ownership.fields import with_member_fields
from scorer.rollout.works.status import DETAIL_LIMIT
from webhook.kube.ports import InvalidObjectError, StoreError
from webhook.member.apply.dropped_fields import unknown_fields
from webhook.member.apply.retained_fields import configuration
from webhook.member.objects.manifests import Manifest
from webhook.member.store.ports import MANAGER, MemberStore

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


class DriftComparison(NamedTuple):
    """Differences as ``{path, valueInMember, valueInHub}``. *degraded*: partial comparison was not possible."""

    details: tuple[JsonObject, ...]
    degraded: bool = False


class NotComparableError(StoreError):
    """The two objects cannot be compared."""


async def compare(item: Manifest, live: JsonObject, member: MemberStore, *, full: bool) -> DriftComparison:
    """Compare a manifest with the object on the member.

    Raises:
        StoreError: The member did not respond to the dry run.
        NotComparableError: One of the two is nested too deeply.
    """
    if full:
        return DriftComparison(differences(item.kind, item.document, live))
    body = without_nulls(configuration(item.document, live))
    try:
        desired = await member.apply(item.kind, body, manager=MANAGER, force=True, dry_run=True)
    except InvalidObjectError:
        return DriftComparison(differences(item.kind, item.document, live), degraded=True)
    return DriftComparison(differences(item.kind, desired, live, author=item.document))


def differences(
    kind: Kind, desired: JsonObject, live: JsonObject, *, author: JsonObject | None = None
) -> tuple[JsonObject, ...]:
    """Return ``{path, valueInMember, valueInHub}`` for every field that differs, by path, at most 100.

    Args:
        kind: The kind of both.
        desired: The manifest of the hub, or the outcome of applying it.
        live: The object on the member.
        author: The manifest that names the fields to ignore. None means that *desired* names them.

    Raises:
        NotComparableError: One of the two is nested too deeply.
    """
    is_secret = kind.group_kind == SECRET
    details = []
    try:
        comparable = _comparable(with_member_fields(desired, live, author=author))
        for path, in_member, in_hub in _differences((), _comparable(live), comparable):
            detail: JsonObject = {"path": "/" + "/".join(part.replace("~", "~0").replace("/", "~1") for part in path)}
            is_redacted = is_secret and not is_shown(path)
            for field, value in (("valueInMember", in_member), ("valueInHub", in_hub)):
                if value is not _ABSENT:
                    detail[field] = REDACTED if is_redacted else _text(value)
            details.append(detail)
            if len(details) == DETAIL_LIMIT:
                break
    except (RecursionError, orjson.JSONEncodeError) as error:
        raise NotComparableError("the object is nested too deeply to be compared") from error
    return tuple(details)


def unknown_differences(item: Manifest, live: JsonObject) -> tuple[JsonObject, ...]:
    """Return the fields of an object that an earlier manifest may have had, as `differences` does.

    Raises:
        NotComparableError: One of the two is nested too deeply.
    """
    unknown = set(unknown_fields(item.document, live))
    if not unknown:
        return ()
    all_differences = differences(item.kind, item.document, live)
    return tuple(
        difference
        for difference in all_differences
        if any(f"{difference['path']}/".startswith(f"{path}/") for path in unknown)
    )


def missing_object() -> tuple[JsonObject, ...]:
    """Return the single difference of an object that is missing on the member."""
    return ({"path": "/", "valueInHub": WHOLE_OBJECT},)


def _text(value: Any) -> str:
    return value if isinstance(value, str) else dump_json(value).decode()


def _comparable(document: JsonObject) -> JsonObject:
    body = {name: value for name, value in document.items() if name not in ("apiVersion", "kind", "status", "metadata")}
    metadata = {name: value for name, value in document.get("metadata", {}).items() if name not in _LEFT_OUT}
    for field in ("labels", "annotations"):
        entries = metadata.pop(field, None)
        if isinstance(entries, Mapping):
            remaining = {key: value for key, value in entries.items() if not any(mark in key for mark in _SYSTEM_KEYS)}
            if remaining:
                metadata[field] = remaining
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
