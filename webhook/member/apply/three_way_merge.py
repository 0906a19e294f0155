"""Three-way merge of the hub's manifest, the last applied manifest, and the live object.

A field of the manifest wins. A field of the last manifest that the present one lacks is removed. Everything else on the
live object comes from other writers and is kept.

Lists of built-in kinds whose items have a merge key are merged item by item, as ``kubectl apply`` does. Every other
list is one value. So is a list with items that lack the merge key or share it (a port number for TCP and for UDP).

Example: the last manifest had the labels ``app`` and ``tier``, the present one has ``app`` only, and a user of the
member has added ``team``. The merge removes ``tier`` and keeps ``team``. Without the last manifest, the two would look
alike: either ``tier`` would remain forever, or ``team`` would be removed in each pass.

Source: docs/specifications/rollout.md 11.6; Kubernetes strategic merge patch (``patchMergeKey`` in ``k8s.io/api``).
"""

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

import orjson

from scorer.api.kinds import Kind
from scorer.api.meta import JsonObject, without_nulls
from scorer.api.names import LAST_APPLIED
from scorer.api.unstructured.documents import annotations_of

Path: TypeAlias = tuple[str, ...]
"""Field names from the root, without list positions."""

_CONTAINERS = frozenset({"containers", "initContainers", "ephemeralContainers"})
_IN_A_POD = {
    "containers": "name",
    "initContainers": "name",
    "ephemeralContainers": "name",
    "volumes": "name",
    "imagePullSecrets": "name",
    "hostAliases": "ip",
    "topologySpreadConstraints": "topologyKey",
}
_IN_A_CONTAINER = {"env": "name", "ports": "containerPort", "volumeMounts": "mountPath", "volumeDevices": "devicePath"}
_PODS_AT: Mapping[str, Path] = {
    "Pod": ("spec",),
    "CronJob": ("spec", "jobTemplate", "spec", "template", "spec"),
    "PodTemplate": ("template", "spec"),
    **dict.fromkeys(
        ("Deployment", "StatefulSet", "DaemonSet", "ReplicaSet", "ReplicationController", "Job"),
        ("spec", "template", "spec"),
    ),
}
_ELSEWHERE = {
    ("Service", ("spec", "ports")): "port",
    ("ServiceAccount", ("secrets",)): "name",
    ("ServiceAccount", ("imagePullSecrets",)): "name",
    ("ValidatingWebhookConfiguration", ("webhooks",)): "name",
    ("MutatingWebhookConfiguration", ("webhooks",)): "name",
}
_SHARED = frozenset({"labels", "annotations"})
"""Maps that several writers share: a manifest that drops the whole map removes only its own keys."""


def merge_key(kind: Kind, path: Path) -> str:
    """Return the field that identifies the items of the list at *path*, empty if the list is one value."""
    if not kind.built_in:
        return ""
    pod = _PODS_AT.get(kind.kind, ("?",))
    inside = path[len(pod) :] if path[: len(pod)] == pod else ()
    match inside:
        case (name,):
            return _IN_A_POD.get(name, "")
        case (containers, name) if containers in _CONTAINERS:
            return _IN_A_CONTAINER.get(name, "")
    return _ELSEWHERE.get((kind.kind, path), "")


def three_way_merge(kind: Kind, last: JsonObject, desired: JsonObject, live: JsonObject) -> JsonObject:
    """Return *live* with the manifest applied. The arguments are not mutated.

    Args:
        kind: The kind of the object, which decides how its lists are merged.
        last: The manifest that was applied last. Empty if unknown, so that no field is removed.
        desired: The manifest. A null removes the field.
        live: The object on the member.
    """
    result = _merge_maps(kind, (), last, desired, live)
    if "apiVersion" in live:
        result["apiVersion"] = live["apiVersion"]  # one object, several versions: keep that of the store
    return result


def last_applied(live: Mapping[str, Any]) -> JsonObject:
    """Return the manifest that was applied last, empty if the object has none that can be parsed."""
    annotations = annotations_of(live)
    try:
        last = orjson.loads(annotations.get(LAST_APPLIED) or "{}")
    except orjson.JSONDecodeError:
        return {}
    return last if isinstance(last, dict) else {}


def _merge_maps(
    kind: Kind, path: Path, last: Mapping[str, Any], desired: Mapping[str, Any], live: Mapping[str, Any]
) -> JsonObject:
    dropped = {name for name in last if name not in desired} | {
        name for name, value in desired.items() if value is None
    }
    # A dropped map of labels or annotations loses our keys only. Example: the manifest had one annotation, and its
    # author deletes the whole map. The revision that the Deployment controller keeps in the same map must remain.
    result = {name: value for name, value in live.items() if name not in dropped}
    for name in dropped & _SHARED & live.keys():
        if isinstance(last.get(name), Mapping) and isinstance(live[name], Mapping):
            without_last = {key: value for key, value in live[name].items() if key not in last[name]}
            result.update({name: without_last} if without_last else {})
    for name, value in desired.items():
        if value is not None:
            result[name] = _merge(kind, (*path, name), last.get(name), value, live.get(name))
    return result


def _merge(kind: Kind, path: Path, last: Any, desired: Any, live: Any) -> Any:
    if isinstance(desired, Mapping):
        return _merge_maps(kind, path, *(part if isinstance(part, Mapping) else {} for part in (last, desired, live)))
    if isinstance(desired, list) and isinstance(live, list):
        before = last if isinstance(last, list) else []
        key = merge_key(kind, path)
        parts = [_by_key(part, key) for part in (before, desired, live)] if key else []
        if parts and None not in parts:
            return _merge_items(kind, path, *(part for part in parts if part is not None))
    return without_nulls(desired) if kind.built_in else desired


def _merge_items(
    kind: Kind, path: Path, last: Mapping[Any, Any], desired: Mapping[Any, Any], live: Mapping[Any, Any]
) -> list[Any]:
    """Merge lists by key: the manifest's items in its order, then those of other writers."""
    ours = [_merge_maps(kind, path, last.get(key, {}), item, live.get(key, {})) for key, item in desired.items()]
    return ours + [item for key, item in live.items() if key not in desired and key not in last]


def _by_key(items: Sequence[Any], key: str) -> dict[Any, Any] | None:
    """Return *items* by their merge key, or None if an item has no key or two share one."""
    items_by_key = {}
    for item in items:
        value = item.get(key) if isinstance(item, Mapping) else None
        if not isinstance(value, str | int) or value in items_by_key:
            return None
        items_by_key[value] = item
    return items_by_key
