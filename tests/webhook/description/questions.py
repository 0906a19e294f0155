"""Questions for the example fleet: those whose answers are shown as examples, and those that reach the rest."""

from typing import Any

PLACEMENT_API = "placement.kubernetes-fleet.io/v1"
COST = "kubernetes.azure.com/per-cpu-core-cost"
NODES = "kubernetes-fleet.io/node-count"
SCORE = "scores.harbormaster.dev/quietness"


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
    "listClusters": ("GET", "/v1/clusters", None),
    "getCluster": ("GET", "/v1/clusters/bravelion", None),
    "getClusterHistory": ("GET", "/v1/clusters/bravelion/history", None),
    "getClusterResourcePlacementTree": ("GET", "/v1/placements/crp/payments/tree/bravelion", None),
    "listPlacements": ("GET", "/v1/placements", None),
    "getClusterResourcePlacement": ("GET", "/v1/placements/crp/payments", None),
    "listClusterResourcePlacementRuns": ("GET", "/v1/placements/crp/payments/runs", None),
    "listResourcePlacementRuns": ("GET", "/v1/placements/rp/pricing/rates/runs", None),
    "listUpdateRuns": ("GET", "/v1/runs", None),
    "getClusterStagedUpdateRun": ("GET", "/v1/runs/csur/storefront-1", None),
    "getResourcePlacement": ("GET", "/v1/placements/rp/pricing/rates", None),
}
"""By operation: what the document shows."""

LONGEST_LIST = 2
"""Items of a list that an example shows."""


def member(name: str, **parts: Any) -> dict[str, Any]:
    """Return a member cluster of a caller's own fleet: joined and healthy long ago, and just heard of."""
    joined = {"type": "Joined", "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z", "reason": "Joined"}
    agent = {
        "type": "MemberAgent",
        "conditions": [joined, joined | {"type": "Healthy", "reason": "Healthy"}],
        "lastReceivedHeartbeat": "2999-01-01T00:00:00Z",
    }
    return {
        "apiVersion": "cluster.kubernetes-fleet.io/v1",
        "kind": "MemberCluster",
        "metadata": {"name": name, "labels": parts.get("labels", {}), "annotations": parts.get("annotations", {})},
        "spec": {"identity": {"kind": "User", "name": name}, "taints": parts.get("taints", [])},
        "status": {
            "agentStatus": parts.get("agents", [agent]),
            "properties": {
                key: {"value": value, "observationTime": parts.get("observed", "2999-01-01T00:00:00Z")}
                for key, value in parts.get("properties", {}).items()
            },
        },
    }


SCORES = {
    f"{SCORE}-now": '{"value": "4", "validUntil": "2999-01-01T00:00:00Z"}',
    f"{SCORE}-once": '{"value": "8", "validUntil": "2026-01-01T00:00:00Z"}',
    f"{SCORE}-never": "eight",
}
TAINT = {"key": "sku", "value": "gpu", "effect": "NoSchedule"}
STRANGE_FLEET = [
    member("plain", properties={NODES: "5", COST: "0.1"}, labels={"region": "north"}),
    member("old", properties={NODES: "9", COST: "0.2"}, labels={"region": "south"}, observed="2026-01-01T00:00:00Z"),
    member("garbled", properties={NODES: "many"}, labels={"region": "north"}),
    member("silent", agents=[], properties={NODES: "7"}),
    member("tolerated", taints=[TAINT], properties={NODES: "6"}, labels={"region": "north"}),
    member("tainted", taints=[TAINT | {"key": "dry-dock"}], properties={NODES: "6"}),
    member("outside", properties={NODES: "5"}),
    member("scored", annotations={SCORE: '{"value": "4", "validUntil": "2999-01-01T00:00:00Z"}'}),
    member("outscored", annotations={SCORE: '{"value": "8", "validUntil": "2026-01-01T00:00:00Z"}'}),
]
STRANGE_POLICY = {
    "placementType": "PickN",
    "numberOfClusters": 1,
    "tolerations": [{"key": "sku", "operator": "Exists"}],
    "topologySpreadConstraints": [{"topologyKey": "region", "maxSkew": 1, "whenUnsatisfiable": "ScheduleAnyway"}],
    "affinity": {
        "clusterAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": {
                "clusterSelectorTerms": [
                    {
                        "labelSelector": {
                            "matchExpressions": [{"key": "region", "operator": "NotIn", "values": ["x"]}]
                        },
                        "propertySelector": {
                            "matchExpressions": [{"name": NODES, "operator": "Ge", "values": ["1"]}],
                        },
                    },
                    {"propertySelector": {"matchExpressions": [{"name": SCORE, "operator": "Ge", "values": ["1"]}]}},
                ]
            },
            "preferredDuringSchedulingIgnoredDuringExecution": [
                prefer(10, labelSelector={"matchLabels": {"region": "north"}}),
                prefer(20, propertySorter={"name": NODES, "sortOrder": "Descending"}),
                prefer(20, propertySorter={"name": SCORE, "sortOrder": "Descending"}),
                prefer(20, propertySorter={"name": "example.com/unheard-of", "sortOrder": "Descending"}),
            ],
        }
    },
}
STRANGE = {"placement": {"inline": STRANGE_POLICY}, "candidates": {"inline": STRANGE_FLEET}}
"""A question that reaches what the example fleet has not got."""

THOROUGH = {
    "apiVersion": PLACEMENT_API,
    "kind": "ClusterResourcePlacement",
    "metadata": {"name": "thorough"},
    "spec": {
        "resourceSelectors": [{"group": "", "version": "v1", "kind": "Namespace", "name": "checkout"}],
        "policy": {"placementType": "PickFixed", "clusterNames": ["calmheron"]},
        "strategy": {
            "type": "RollingUpdate",
            "rollingUpdate": {"maxUnavailable": 1, "maxSurge": "50%", "unavailablePeriodSeconds": 1},
            "applyStrategy": {
                "type": "ServerSideApply",
                "allowCoOwnership": True,
                "serverSideApplyConfig": {"force": True},
            },
            "deleteStrategy": {"propagationPolicy": "Abandon"},
            "reportBackStrategy": {"type": "Mirror", "destination": "WorkAPI"},
        },
    },
}
"""A placement that says all there is to say about its rollout."""

NAMESPACED = {
    "apiVersion": PLACEMENT_API,
    "kind": "ResourcePlacement",
    "metadata": {"name": "cart", "namespace": "checkout", "labels": {"a": "b"}, "annotations": {"c": "d"}},
    "spec": {"resourceSelectors": [{"group": "", "version": "v1", "kind": "ConfigMap", "name": "cart"}]},
}

NEXT_RELEASE = [
    {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "rates", "namespace": "storefront"},
        "data": {"fee": "0.30"},
    },
    {
        "apiVersion": "placement.kubernetes-fleet.io/v1beta1",
        "kind": "ClusterStagedUpdateRun",
        "metadata": {"name": "storefront-2"},
        "spec": {"placementName": "storefront", "stagedRolloutStrategyName": "step-by-step", "state": "Run"},
    },
]
"""New content, and a run that would bring it to the clusters."""
