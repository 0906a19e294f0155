"""Small fleets and placements as text, for the tests of the command line."""

import yaml


def member(name, nodes=4, *, labels=None, annotations=None, taints=(), **status):
    """Return a MemberCluster as examples write it."""
    metadata = {"name": name, "labels": labels or {}, "annotations": annotations or {}}
    spec = {"identity": {"kind": "User", "name": name}, "taints": list(taints)}
    status = {"properties": {"kubernetes-fleet.io/node-count": {"value": str(nodes)}}, **status}
    return _object("cluster.kubernetes-fleet.io/v1", "MemberCluster", metadata, spec=spec, status=status)


def placement(name="web", **policy):
    """Return a ClusterResourcePlacement of the namespace ``shop``."""
    selector = {"group": "", "version": "v1", "kind": "Namespace", "name": "shop"}
    spec = {"resourceSelectors": [selector], **({"policy": policy} if policy else {})}
    return _object("placement.kubernetes-fleet.io/v1", "ClusterResourcePlacement", {"name": name}, spec=spec)


def by_nodes(weight=40):
    """Return an affinity that prefers clusters with many nodes."""
    sorter = {"name": "kubernetes-fleet.io/node-count", "sortOrder": "Descending"}
    term = {"weight": weight, "preference": {"propertySorter": sorter}}
    return {"clusterAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [term]}}


def binding(name, placement_name, cluster, snapshot="web-0"):
    """Return a binding that is rolled out."""
    metadata = {"name": name, "labels": {"kubernetes-fleet.io/parent-CRP": placement_name}}
    spec = {
        "state": "Bound",
        "resourceSnapshotName": "web-0-snapshot",
        "schedulingPolicySnapshotName": snapshot,
        "targetCluster": cluster,
        "clusterDecision": {"clusterName": cluster, "selected": True, "reason": "picked"},
    }
    return _object("placement.kubernetes-fleet.io/v1", "ClusterResourceBinding", metadata, spec=spec)


def _object(version, kind, metadata, **members):
    return {"apiVersion": version, "kind": kind, "metadata": metadata, **members}


def write(path, *documents):
    """Write documents as one YAML file; return its path as text."""
    path.write_text(yaml.safe_dump_all(documents, sort_keys=False))
    return str(path)
