"""Karmada's own definitions, and the kinds among them that the tests write."""

from collections.abc import Sequence
from typing import Final

import yaml

from e2e.controlplane.build import KARMADA
from e2e.controlplane.cluster import JsonObject
from e2e.karpenter.module_files import Module, read_files
from scorer.api.kinds import KINDS, Kind

MODULE: Final = Module("github.com/karmada-io/karmada", KARMADA, "h1:B1Eu3055LtTBndD/R2WcaS/bLvGwwVU1/3wXQjkIVN4=")
CLUSTER: Final = Kind("cluster.karmada.io", ("v1alpha1",), "Cluster", "clusters", namespaced=False)
POLICY: Final = Kind("policy.karmada.io", ("v1alpha1",), "PropagationPolicy", "propagationpolicies", namespaced=True)
RESOURCE_BINDING: Final = Kind("work.karmada.io", ("v1alpha2",), "ResourceBinding", "resourcebindings", namespaced=True)
WORK_OF_KARMADA: Final = Kind("work.karmada.io", ("v1alpha1",), "Work", "works", namespaced=True)

_DEFINITION: Final = KINDS["apiextensions.k8s.io", "CustomResourceDefinition"]
_BASES: Final = "charts/karmada/_crds/bases"
_DEFINITIONS: Final = (
    "config/config.karmada.io_resourceinterpretercustomizations",
    "config/config.karmada.io_resourceinterpreterwebhookconfigurations",
    "multicluster/multicluster.x-k8s.io_serviceexports",
    "multicluster/multicluster.x-k8s.io_serviceimports",
    "policy/policy.karmada.io_clusteroverridepolicies",
    "policy/policy.karmada.io_clusterpropagationpolicies",
    "policy/policy.karmada.io_clustertaintpolicies",
    "policy/policy.karmada.io_overridepolicies",
    "policy/policy.karmada.io_propagationpolicies",
    "work/work.karmada.io_clusterresourcebindings",
    "work/work.karmada.io_resourcebindings",
    "work/work.karmada.io_works",
)


def published(names: Sequence[str]) -> str:
    """Return definitions that Karmada publishes, by the names of their files, in YAML."""
    return read_files(MODULE, [f"{_BASES}/{name}.yaml" for name in names])


def definitions() -> list[JsonObject]:
    """Return Karmada's own definitions, and one of Clusters that keeps every field."""
    schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    version = {
        "name": "v1alpha1",
        "served": True,
        "storage": True,
        "subresources": {"status": {}},
        "schema": {"openAPIV3Schema": schema},
    }
    clusters = {
        "apiVersion": _DEFINITION.api_version,
        "kind": _DEFINITION.kind,
        "metadata": {"name": CLUSTER.resource},
        "spec": {
            "group": CLUSTER.group,
            "names": {"kind": CLUSTER.kind, "plural": CLUSTER.plural},
            "scope": "Cluster",
            "versions": [version],
        },
    }
    own = yaml.load_all(published(_DEFINITIONS), yaml.CSafeLoader)
    return [*(each for each in own if each), clusters]
