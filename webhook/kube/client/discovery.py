"""Discovery of the kinds that an API server serves.

Reads the aggregated discovery documents with two requests. A kind in our own table keeps its entry there, with the
versions that the server serves, so that every caller gets an equal `Kind`.

The API server marks a group stale if the group's own (aggregated) server does not respond. Its kinds may be missing, so
those known before are kept.

Source: docs/specifications/rollout.md 2.4; Kubernetes apidiscovery.k8s.io/v2.
"""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Any, Final

from scorer.api.kinds import KINDS, Kind
from scorer.api.meta import JsonObject
from webhook.kube.client.api_server import ApiServer
from webhook.kube.client.paths import ApiPath
from webhook.kube.ports import UnavailableError

_LIST: Final = "APIGroupDiscoveryList"
ACCEPT: Final = f"application/json;g=apidiscovery.k8s.io;v=v2;as={_LIST}"
_NEEDED: Final = frozenset({"list", "watch"})


class Discovery:
    """The kinds of one API server that can be listed and watched, empty before the first `refresh`.

    Args:
        server: The connection.
    """

    def __init__(self, server: ApiServer) -> None:
        self._server = server
        self._kinds: Mapping[tuple[str, str], Kind] = MappingProxyType({})
        self._silent: frozenset[str] = frozenset()

    @property
    def kinds(self) -> Mapping[tuple[str, str], Kind]:
        """See `webhook.kube.ports.ServedKinds`."""
        return self._kinds

    @property
    def silent(self) -> frozenset[str]:
        """See `webhook.kube.ports.ServedKinds`."""
        return self._silent

    async def refresh(self) -> None:
        """See `webhook.kube.ports.ServedKinds`."""
        kinds_by_group: dict[tuple[str, str], Kind] = {}
        silent = set()
        for path in (ApiPath("api"), ApiPath("apis")):
            listing = await self._server.request("GET", path, accept=ACCEPT)
            if listing.get("kind") != _LIST:
                raise UnavailableError(f"{path} answers with {listing.get('kind')!r} instead of {_LIST}")
            for group in listing.get("items") or ():
                for kind in _kinds(group):
                    kinds_by_group[kind.group_kind] = kind
                if any(version.get("freshness") == "Stale" for version in group.get("versions") or ()):
                    silent.add(str(group["metadata"].get("name") or ""))
        for identity, kind in self._kinds.items():
            if kind.group in silent:  # an unavailable server does not mean that the kind was removed
                kinds_by_group.setdefault(identity, kind)
        # Both assignments after the last await, so that a reader never sees half of an update. An unchanged mapping
        # keeps its identity, so that values derived from it remain valid.
        kinds = self._kinds if kinds_by_group == self._kinds else MappingProxyType(kinds_by_group)
        self._kinds, self._silent = kinds, frozenset(silent)


def _kinds(group: JsonObject) -> Iterator[Kind]:
    """Yield the kinds of one group. Versions are in the server's order of preference."""
    name = str(group["metadata"].get("name") or "")
    resources_of: dict[str, list[tuple[str, Mapping[str, Any]]]] = {}
    for version in group.get("versions") or ():
        for resource in version.get("resources") or ():
            kind = (resource.get("responseKind") or {}).get("kind")
            if kind and set(resource.get("verbs") or ()) >= _NEEDED:
                resources_of.setdefault(str(kind), []).append((str(version["version"]), resource))
    for kind, resources in resources_of.items():
        versions = tuple(version for version, _ in resources)
        builtin = KINDS.get((name, kind))
        if builtin is not None and builtin.versions[0] in versions:
            more = tuple(version for version in versions if version not in builtin.versions)
            versions_left = tuple(version for version in builtin.versions if version in versions)
            yield (
                builtin
                if not more and versions_left == builtin.versions
                else replace(builtin, versions=(*versions_left, *more))
            )
            continue
        resource = resources[0][1]
        yield Kind(
            group=name,
            versions=versions,
            kind=kind,
            plural=str(resource["resource"]),
            namespaced=resource.get("scope") == "Namespaced",
            short_names=tuple(resource.get("shortNames") or ()),
            has_status=any(
                sub.get("subresource") == "status"
                for _, resource in resources
                for sub in resource.get("subresources") or ()
            ),
            built_in=builtin is not None,
        )
