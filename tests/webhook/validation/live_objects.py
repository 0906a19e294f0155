"""Objects of a hub as live checks find them: members, placements, what hangs on them; and who writes."""

from datetime import UTC, datetime

from webhook.access.user import UserInfo

NOW = datetime(2026, 1, 1, tzinfo=UTC)
JANE = UserInfo("jane", frozenset({"system:authenticated"}))
NAMESPACE = {"group": "", "version": "v1", "kind": "Namespace", "name": "shop"}
ROLE = {"group": "rbac.authorization.k8s.io", "version": "v1", "kind": "ClusterRole", "name": "viewer"}
PARENT = "kubernetes-fleet.io/parent-CRP"


def make(kind, name, spec=None, *, namespace="", labels=None, **more):
    group = "cluster" if kind == "MemberCluster" else "placement"
    metadata = {
        "name": name,
        **({"namespace": namespace} if namespace else {}),
        **({"labels": labels} if labels else {}),
    }
    return {
        "apiVersion": f"{group}.kubernetes-fleet.io/v1beta1",
        "kind": kind,
        "metadata": metadata,
        **({"spec": spec} if spec is not None else {}),
        **more,
    }


def make_member(name, *, joined=True, silent=False, taints=(), properties=None, **labels):
    conditions = [
        {"type": word, "status": str(joined), "reason": "x", "lastTransitionTime": "2026-01-01T00:00:00Z"}
        for word in ("Joined", "Healthy")
    ]
    agent = {"type": "MemberAgent", "conditions": conditions, "lastReceivedHeartbeat": "2026-01-01T00:00:00Z"}
    status = {
        "agentStatus": [agent],
        "properties": {key: {"value": value} for key, value in (properties or {}).items()},
        "resourceUsage": {"capacity": {"nvidia.com-gpu": "4"}},
    }
    spec = {"identity": {"kind": "User", "name": "agent"}, "taints": list(taints)}
    return make("MemberCluster", name, spec, labels=labels, **({} if silent else {"status": status}))


def make_snapshot(placement, index):
    labels = {PARENT: placement, "kubernetes-fleet.io/resource-index": str(index)}
    return make("ClusterResourceSnapshot", f"{placement}-{index}-snapshot", {"selectedResources": []}, labels=labels)


def make_run(name="run", *, conditions=(), namespace="", status=None, **spec):
    spec = {"placementName": "shop", "stagedRolloutStrategyName": "waves", "state": "Run", **spec}
    kind = "StagedUpdateRun" if namespace else "ClusterStagedUpdateRun"
    listed = [{"type": word, "status": value} for word, value in conditions]
    return make(kind, name, spec, namespace=namespace, status={"conditions": listed, **(status or {})})


def make_strategy(*stages, namespace=""):
    kind = "StagedUpdateStrategy" if namespace else "ClusterStagedUpdateStrategy"
    return make(kind, "waves", {"stages": list(stages)}, namespace=namespace)


def make_override(namespace="", **placement):
    rule = {
        "clusterSelector": {"clusterSelectorTerms": []},
        "jsonPatchOverrides": [{"op": "remove", "path": "/metadata/labels/a"}],
    }
    deployment = {"group": "apps", "version": "v1", "kind": "Deployment", "name": "web"}
    member = "resourceSelectors" if namespace else "clusterResourceSelectors"
    spec = {
        "placement": placement,
        member: [deployment if namespace else NAMESPACE],
        "policy": {"overrideRules": [rule]},
    }
    return make("ResourceOverride" if namespace else "ClusterResourceOverride", "patch", spec, namespace=namespace)


def make_budget(**spec):
    return make("ClusterResourcePlacementDisruptionBudget", "shop", spec)


def make_eviction(placement="shop", cluster="bravelion"):
    spec = {"placementName": placement, "clusterName": cluster}
    return make("ClusterResourcePlacementEviction", "evict", spec)


def plain(api_version, kind, name, namespace="", **labels):
    metadata = {"name": name, "labels": labels, **({"namespace": namespace} if namespace else {})}
    return {"apiVersion": api_version, "kind": kind, "metadata": metadata}


def pick_n(count, *terms, preferred=(), **policy):
    affinity = {}
    if terms:
        affinity["requiredDuringSchedulingIgnoredDuringExecution"] = {"clusterSelectorTerms": list(terms)}
    if preferred:
        affinity["preferredDuringSchedulingIgnoredDuringExecution"] = list(preferred)
    policy = {"placementType": "PickN", "numberOfClusters": count, **policy}
    return policy | ({"affinity": {"clusterAffinity": affinity}} if affinity else {})


def labelled(**labels):
    return {"labelSelector": {"matchLabels": labels}}


def measured(name, value="1"):
    return {"propertySelector": {"matchExpressions": [{"name": name, "operator": "Ge", "values": [value]}]}}


def sorted_by(name):
    return {"weight": 10, "preference": {"propertySorter": {"name": name, "sortOrder": "Ascending"}}}


SHOP = plain("v1", "Namespace", "shop")
LATEST = "kubernetes-fleet.io/is-latest-snapshot"


def make_policy_snapshot(placement):
    metadata = placement["metadata"]
    policy = {key: value for key, value in (placement["spec"].get("policy") or {}).items() if key != "numberOfClusters"}
    kind = "SchedulingPolicySnapshot" if "namespace" in metadata else "ClusterSchedulingPolicySnapshot"
    spec = {"policy": policy or None, "policyHash": ""}
    labels = {PARENT: "shop", LATEST: "true"}
    return make(kind, "shop-0", spec, namespace=metadata.get("namespace", ""), labels=labels)
