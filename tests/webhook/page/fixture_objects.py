"""Objects on a cluster and changes of the next release, as ``/v1/placements/*/tree/*`` and ``/v1/render`` answer."""

from collections.abc import Sequence
from typing import Any

Json = dict[str, Any]


def made_object(kind: str, name: str, state: str = "available", **more: Any) -> Json:
    """Return an object of a Work; *more* replaces what follows from the state."""
    quiet = state in ("available", "applied", "same")
    return {
        "group": "",
        "version": "v1",
        "kind": kind,
        "namespace": "" if kind == "Namespace" else "shop",
        "name": name,
        "state": state,
        "tracked": True,
        "reason": "" if quiet else "ManifestApplyFailed",
        "message": "" if quiet else f"{kind} {name} cannot be applied",
        "drifts": [],
        "diffs": [],
        "envelope": None,
    } | more


def tree_on(cluster: str, objects: Sequence[Json], *, known: bool = True) -> Json:
    """Return the answer about the objects on one cluster."""
    numbered = [{"ordinal": ordinal, **one} for ordinal, one in enumerate(objects)]
    work = {"name": "web-work", "namespace": f"fleet-member-{cluster}", "objects": numbered}
    binding = {"name": f"web-{cluster}", "resourceSnapshot": "web-4-snapshot", "resourceIndex": 4}
    state = {
        "cluster": cluster,
        "state": "applying",
        "detail": "",
        "binding": binding,
        "works": [work] if known else [],
    }
    return {"clusters": [state], "objectsKnown": known}


def rendered(name: str, groups: Sequence[Json], **more: Any) -> Json:
    """Return the answer about the changes of the next release of a ClusterResourcePlacement."""
    entry = {"namespace": "", "name": name, "message": "", "hidden": False, "uncertain": False}
    entry |= {"groups": list(groups), "failures": [], "unknown": []}
    return {"fleetRevision": "12", "complete": True, "placements": [entry | more]}


def changed_object(kind: str, name: str, change: str, diff: Sequence[str]) -> Json:
    """Return an object of a group with its difference."""
    return {"kind": kind, "namespace": "shop", "name": name, "change": change, "diff": list(diff)}
