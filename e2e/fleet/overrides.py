"""Overrides of what a placement selects in its namespace."""

from e2e.controlplane.cluster import JsonObject
from e2e.fleet.objects import (
    CONFIG_MAP,
    selects,
)
from scorer.api.kinds import OVERRIDE


def resource_override(name: str, namespace: str, target: str, *rules: JsonObject) -> JsonObject:
    return {
        "apiVersion": OVERRIDE.api_version,
        "kind": "ResourceOverride",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {
            "placement": {"name": namespace},
            "resourceSelectors": [selects(CONFIG_MAP, target)],
            "policy": {"overrideRules": list(rules)},
        },
    }


def patching(*patches: JsonObject, **labels: str) -> JsonObject:
    terms = [{"labelSelector": {"matchLabels": labels}}]
    return {"clusterSelector": {"clusterSelectorTerms": terms}, "jsonPatchOverrides": list(patches)}
