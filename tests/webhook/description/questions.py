"""Questions for the example fleet whose answers the document shows as examples."""

from typing import Any

PLACEMENT_API = "placement.kubernetes-fleet.io/v1"
COST = "kubernetes.azure.com/per-cpu-core-cost"
NODES = "kubernetes-fleet.io/node-count"


def by_name(name: str, namespace: str = "") -> dict[str, Any]:
    """Return a placement on the hub, as a question names it."""
    if namespace:
        return {"ref": {"kind": "ResourcePlacement", "name": name, "namespace": namespace}}
    return {"ref": {"kind": "ClusterResourcePlacement", "name": name}}


def prefer(weight: int, **preference: Any) -> dict[str, Any]:
    """Return a preferred term."""
    return {"weight": weight, "preference": preference}


CHEAP_AND_LARGE = {
    "placementType": "PickN",
    "numberOfClusters": 2,
    "affinity": {
        "clusterAffinity": {
            "preferredDuringSchedulingIgnoredDuringExecution": [
                prefer(20, propertySorter={"name": NODES, "sortOrder": "Descending"}),
                prefer(20, propertySorter={"name": COST, "sortOrder": "Ascending"}),
            ]
        }
    },
}

PLACEMENT = {
    "apiVersion": PLACEMENT_API,
    "kind": "ClusterResourcePlacement",
    "metadata": {"name": "ledger"},
    "spec": {
        "resourceSelectors": [{"group": "", "version": "v1", "kind": "Namespace", "name": "ledger"}],
        "policy": {"placementType": "PickN"},
    },
}

BUSINESS_HOURS = {
    "nodePool": {
        "apiVersion": "karpenter.sh/v1",
        "kind": "NodePool",
        "metadata": {"name": "batch"},
        "spec": {
            "disruption": {
                "budgets": [{"nodes": "10%"}, {"nodes": "0", "schedule": "0 9 * * 1-5", "duration": "8h"}],
            }
        },
    },
    "reason": "Drifted",
    "count": 2,
    "observed": {"total": 30, "deleting": 1},
    "now": "2026-06-10T14:00:00+02:00",
}

EXAMPLES: dict[str, tuple[str, str, Any]] = {
    "score": ("POST", "/v1/score", {"placement": {"inline": CHEAP_AND_LARGE}, "limit": 3}),
    "filter": ("POST", "/v1/filter", {"placement": by_name("payments")}),
    "explain": (
        "POST",
        "/v1/explain",
        {"placement": by_name("payments"), "candidates": {"names": ["jumpingcat"]}},
    ),
    "plan": (
        "POST",
        "/v1/plan",
        {"drained": ["smartfish"], "placements": [by_name("payments")["ref"]]},
    ),
    "render": (
        "POST",
        "/v1/render",
        {"placements": [by_name("payments")["ref"]], "clusters": ["smartfish"], "unchanged": True},
    ),
    "act": (
        "POST",
        "/v1/actions",
        {"action": "cordon", "target": {"kind": "MemberCluster", "name": "smartfish"}, "dryRun": True},
    ),
    "gateDisruption": ("POST", "/v1/gate/disruption", BUSINESS_HOURS),
    "listHistory": ("GET", "/v1/history?type=decision", None),
    "listReservations": ("GET", "/v1/gate/reservations", None),
    "planUpgrade": ("POST", "/v1/upgrade/plan", {"run": "kubernetes-1-31"}),
    "whatIfUpgrade": (
        "POST",
        "/v1/upgrade/whatif",
        {
            "run": "kubernetes-1-31",
            "changes": [{"op": "skip", "targets": [{"type": "Group", "name": "europe"}]}],
        },
    ),
    "skipUpgradeRun": (
        "POST",
        "/v1/upgrade/runs/kubernetes-1-31:skip",
        {"targets": [{"type": "AfterStageWait", "name": "development"}]},
    ),
    "validate": ("POST", "/v1/validate", {"object": PLACEMENT}),
    "default": ("POST", "/v1/default", {"object": PLACEMENT}),
    "getStatus": ("GET", "/v1/status", None),
    "listClusters": ("GET", "/v1/clusters", None),
    "getCluster": ("GET", "/v1/clusters/bravelion", None),
    "getClusterHistory": ("GET", "/v1/clusters/bravelion/history", None),
    "getClusterResourcePlacementTree": ("GET", "/v1/placements/crp/payments/tree/bravelion", None),
    "listPlacements": ("GET", "/v1/placements", None),
    "getClusterResourcePlacement": ("GET", "/v1/placements/crp/payments", None),
    "listClusterResourcePlacementRuns": ("GET", "/v1/placements/crp/payments/runs", None),
    "listResourcePlacementRuns": ("GET", "/v1/placements/rp/pricing/rates/runs", None),
    "listRemovals": ("GET", "/v1/removals", None),
    "listUpdateRuns": ("GET", "/v1/runs", None),
    "getClusterStagedUpdateRun": ("GET", "/v1/runs/csur/storefront-1", None),
    "getResourcePlacement": ("GET", "/v1/placements/rp/pricing/rates", None),
}
"""By operation: what the document shows."""

LONGEST_LIST = 2
"""Items of a list that an example shows."""
