"""What administrators change about members, and what becomes of bindings meanwhile."""

import contextlib
from collections.abc import Iterator

from e2e.controlplane.cluster import JsonObject
from e2e.fleet.bed import Fleet
from e2e.fleet.objects import (
    is_deleting,
    labels_of,
)
from e2e.fleet.settled import FLEET
from scorer.api.kinds import (
    BINDING,
    MEMBER_CLUSTER,
)


def live_bindings(fleet: Fleet, placement: str) -> dict[str, JsonObject]:
    """The bindings of a placement by cluster."""
    found = [
        item
        for item in fleet.on_hub.all(BINDING)
        if labels_of(item)[f"{FLEET}parent-CRP"] == placement and not is_deleting(item)
    ]
    assert len({item["spec"]["targetCluster"] for item in found}) == len(found)
    return {item["spec"]["targetCluster"]: item for item in found}


@contextlib.contextmanager
def member_change(fleet: Fleet, name: str, change: JsonObject, undo: JsonObject) -> Iterator[None]:
    """Change a MemberCluster as an administrator would, and change it back."""
    fleet.on_hub.patch(MEMBER_CLUSTER, name, change)
    try:
        yield
    finally:
        fleet.on_hub.patch(MEMBER_CLUSTER, name, undo)


TAINT = {"spec": {"taints": [{"key": "maintenance", "value": "true", "effect": "NoSchedule"}]}}
UNTAINT = {"spec": {"taints": None}}
