"""Karpenter's own definitions, and how kwok is to play nodes and pods."""

from typing import Final

from e2e.controlplane.build import KWOK
from e2e.karpenter.module_files import Module, read_files

KARPENTER: Final = Module("sigs.k8s.io/karpenter", "v1.15.0", "h1:5SEptlAvsOZbNg4qg8OSdF1qi6BEZHZLA020nXY7jGw=")
KWOK_MODULE: Final = Module("sigs.k8s.io/kwok", KWOK, "h1:OTIOTwgROqPMovcTwxICx2eYQ4AwLpSx5EpjbDKF4SQ=")

_DEFINITIONS: Final = ("nodepools", "nodeclaims")
_STAGES: Final = (
    "node/fast/node-initialize",
    "node/heartbeat-with-lease/node-heartbeat-with-lease",
    "node/chaos/node-not-ready",
    "pod/fast/pod-ready",
    "pod/fast/pod-delete",
)


def definitions() -> str:
    """Return the CustomResourceDefinitions of NodePools and NodeClaims as Karpenter ships them, in YAML."""
    return read_files(KARPENTER, [f"pkg/apis/crds/karpenter.sh_{plural}.yaml" for plural in _DEFINITIONS])


def stages() -> str:
    """Return the stages that kwok ships: nodes and pods become ready, and nodes with a certain label do not."""
    return read_files(KWOK_MODULE, [f"kustomize/stage/{name}.yaml" for name in _STAGES])
