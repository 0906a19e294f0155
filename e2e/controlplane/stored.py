"""Objects written into etcd, past the API server: some that it would not let in, statuses at once."""

import itertools
import re

from e2e.controlplane.cluster import Cluster, JsonObject
from scorer.api.kinds import KINDS, Kind, group_kind, split_api_version

SERIAL = itertools.count()


def with_server_fields(document: JsonObject) -> JsonObject:
    """What an API server would have added when it stored the object."""
    number = next(SERIAL)
    metadata = {
        "uid": f"00000000-0000-4000-8000-{number:012}",
        "creationTimestamp": "2026-01-01T00:00:00Z",
        "generation": 1,
        **document["metadata"],
    }
    return {**document, "metadata": metadata}


def kind_of(document: JsonObject) -> Kind:
    group, version = split_api_version(document["apiVersion"])
    known = KINDS.get(group_kind(document))
    if known is not None:
        return known
    plural = re.sub(r"$", "s", document["kind"].lower())
    return Kind(group, (version,), document["kind"], plural, bool(document["metadata"].get("namespace")))


def storage_key(hub: Cluster, document: JsonObject) -> str:
    kind = kind_of(document)
    where = [document["metadata"]["namespace"]] if kind.namespaced else []
    group = [kind.group] if kind.group else []
    return "/".join([f"/{hub.name}", *group, kind.plural, *where, document["metadata"]["name"]])
