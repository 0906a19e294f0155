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
