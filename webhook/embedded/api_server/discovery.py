"""Discovery documents for generic clients of the embedded API server."""

import re
from typing import Any, Final

from scorer.api.kinds import CATEGORIES, Kind, api_version
from scorer.api.meta import JsonObject
from webhook.embedded.api_server.status import ApiError
from webhook.embedded.storage.kinds import StoredKinds

VERSION: Final = {
    "major": "1",
    "minor": "36",
    "gitVersion": "v1.36.0-harbormaster",
    "gitCommit": "",
    "gitTreeState": "clean",
    "buildDate": "1970-01-01T00:00:00Z",
    "goVersion": "",
    "compiler": "",
    "platform": "linux/amd64",
}
"""The Kubernetes release that ``/version`` reports. Clients choose features by it."""

_VERSION_NAME: Final = re.compile(r"v([0-9]{1,9})(?:(alpha|beta)([0-9]{1,9}))?", re.ASCII)
_STABILITY: Final = ("alpha", "beta", None)
_VERBS: Final = ("create", "delete", "get", "list", "patch", "update", "watch")
_STATUS_VERBS: Final = ("get", "patch", "update")


_ALL: Final = frozenset(
    {
        *("pods", "services", "replicationcontrollers", "deployments.apps", "statefulsets.apps", "daemonsets.apps"),
        *("replicasets.apps", "jobs.batch", "cronjobs.batch", "horizontalpodautoscalers.autoscaling"),
    }
)
"""Resources of the category ``all`` on an API server."""


def core_versions() -> JsonObject:
    """Return ``/api``."""
    return {"kind": "APIVersions", "versions": ["v1"], "serverAddressByClientCIDRs": []}


def groups(kinds: StoredKinds) -> JsonObject:
    """Return ``/apis``."""
    names = dict.fromkeys(kind.group for kind in kinds if kind.group)
    return {"kind": "APIGroupList", "apiVersion": "v1", "groups": [_group(kinds, name) for name in names]}


def group(kinds: StoredKinds, name: str) -> JsonObject:
    """Return ``/apis/<group>``. Raises `ApiError` 404."""
    return {"kind": "APIGroup", "apiVersion": "v1", **_group(kinds, name)}


def _group(kinds: StoredKinds, name: str) -> JsonObject:
    versions = sorted({version for kind in kinds if kind.group == name for version in kind.versions})
    versions.sort(key=_priority, reverse=True)
    if not versions:
        raise ApiError(404, f"no API group {name[:253]!r}")
    served = [{"groupVersion": api_version(name, version), "version": version} for version in versions]
    return {"name": name, "versions": served, "preferredVersion": served[0]}


def _priority(version: str) -> tuple[int, int, int]:
    """Return the sort key of a version: v2, v1, v1beta1, v1alpha1, as an API server prefers the versions of a group.

    The preferred version of a group is not the one in which the store keeps its objects.

    Source: Kubernetes apimachinery ``pkg/version``, CompareKubeAwareVersionStrings.
    """
    match = _VERSION_NAME.fullmatch(version)
    if match is None:
        return -1, 0, 0
    return _STABILITY.index(match[2]), int(match[1]), int(match[3] or 0)


def resources(kinds: StoredKinds, group_name: str, version: str) -> JsonObject:
    """Return ``/api/v1`` or ``/apis/<group>/<version>``. Raises `ApiError` 404."""
    served_kinds = [kind for kind in kinds if kind.group == group_name and version in kind.versions]
    if not served_kinds:
        raise ApiError(404, f"no API version {api_version(group_name, version)[:253]!r}")
    return {
        "kind": "APIResourceList",
        "apiVersion": "v1",
        "groupVersion": api_version(group_name, version),
        "resources": [entry for kind in served_kinds for entry in _resources(kind)],
    }


def _resources(kind: Kind) -> list[JsonObject]:
    entry: dict[str, Any] = {
        "name": kind.plural,
        "singularName": kind.kind.lower(),
        "namespaced": kind.namespaced,
        "kind": kind.kind,
        "verbs": list(_VERBS),
    }
    status = entry | {"name": f"{kind.plural}/status", "singularName": "", "verbs": list(_STATUS_VERBS)}
    if kind.short_names:
        entry["shortNames"] = list(kind.short_names)
    if categories := ("all",) if kind.resource in _ALL else CATEGORIES.get(kind.group, ()):
        entry["categories"] = list(categories)
    return [entry, status] if kind.has_status else [entry]
