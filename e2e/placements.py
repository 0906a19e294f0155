"""Placements as the clients of a hub write them."""

from e2e.controlplane.cluster import JsonObject

FLEET = "/apis/placement.kubernetes-fleet.io"
PLACEMENTS = f"{FLEET}/v1/clusterresourceplacements"


def placement(name: str, *, version: str = "v1", **policy: object) -> JsonObject:
    return {
        "apiVersion": f"placement.kubernetes-fleet.io/{version}",
        "kind": "ClusterResourcePlacement",
        "metadata": {"name": name},
        "spec": {
            "resourceSelectors": [{"group": "", "version": "v1", "kind": "Namespace", "name": "shop"}],
            "policy": {"placementType": "PickN", "numberOfClusters": 2, **policy},
        },
    }


def review(document: JsonObject) -> JsonObject:
    """What whoever reaches the port can make up: somebody else's write."""
    group, version = document["apiVersion"].split("/")
    request = {
        "uid": "forged",
        "kind": {"group": group, "version": version, "kind": "ClusterResourcePlacement"},
        "resource": {"group": group, "version": version, "resource": "clusterresourceplacements"},
        "operation": "CREATE",
        "name": document["metadata"]["name"],
        "userInfo": {"username": "bob"},
        "object": document,
    }
    return {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request}
