"""Overrides of what a placement selects in the namespace shop."""

from scorer.api.kinds import NAMESPACED_OVERRIDE, OVERRIDE

NAMESPACE_SELECTOR = {"group": "", "version": "v1", "kind": "Namespace", "name": "shop"}
RATES = {"group": "", "version": "v1", "kind": "ConfigMap", "name": "rates"}


def rule(value, zone=None, path="/metadata/annotations/zone", op="add"):
    terms = [{"labelSelector": {"matchLabels": {"zone": zone}}}] if zone else []
    patch = {"op": op, "path": path, "value": value}
    return {"clusterSelector": {"clusterSelectorTerms": terms}, "jsonPatchOverrides": [patch]}


def delete(zone=None):
    terms = [{"labelSelector": {"matchLabels": {"zone": zone}}}] if zone else []
    return {"clusterSelector": {"clusterSelectorTerms": terms}, "overrideType": "Delete"}


def make_override(name, *rules, namespace="shop", placement="p"):
    """Make a ResourceOverride of the ConfigMap; without a namespace a ClusterResourceOverride of everything there."""
    kind = NAMESPACED_OVERRIDE if namespace else OVERRIDE
    selectors = (
        {"resourceSelectors": [{**RATES}]} if namespace else {"clusterResourceSelectors": [{**NAMESPACE_SELECTOR}]}
    )
    named = {"placement": {"name": placement, "scope": "Cluster"}} if placement else {}
    return {
        "apiVersion": kind.api_version,
        "kind": kind.kind,
        "metadata": {"name": name} | ({"namespace": namespace} if namespace else {}),
        "spec": {**named, **selectors, "policy": {"overrideRules": list(rules)}},
    }
