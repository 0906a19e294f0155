"""The model of each of our kinds. A module of models is imported when the model of one of its kinds is needed.

A process reads few of the kinds, and importing all models takes longer than most commands.
"""

from collections.abc import Iterator, Mapping
from importlib import import_module
from typing import Final

from scorer.api.kinds import OUR_KINDS
from scorer.api.meta import ApiObject

_MODULES: Final[Mapping[str, tuple[str, ...]]] = {
    "placement.placement": ("ClusterResourcePlacement", "ResourcePlacement"),
    "placement.status": ("ClusterResourcePlacementStatus",),
    "placement.snapshots": (
        "ClusterSchedulingPolicySnapshot",
        "SchedulingPolicySnapshot",
        "ClusterResourceSnapshot",
        "ResourceSnapshot",
    ),
    "placement.binding": ("ClusterResourceBinding", "ResourceBinding"),
    "placement.work": ("Work", "AppliedWork"),
    "placement.staged_update": (
        "ClusterStagedUpdateStrategy",
        "StagedUpdateStrategy",
        "ClusterStagedUpdateRun",
        "StagedUpdateRun",
        "ClusterApprovalRequest",
        "ApprovalRequest",
    ),
    "placement.override": (
        "ClusterResourceOverride",
        "ResourceOverride",
        "ClusterResourceOverrideSnapshot",
        "ResourceOverrideSnapshot",
    ),
    "placement.envelope": ("ClusterResourceEnvelope", "ResourceEnvelope"),
    "placement.eviction": ("ClusterResourcePlacementEviction", "ClusterResourcePlacementDisruptionBudget"),
    "cluster.member_cluster": ("MemberCluster", "InternalMemberCluster"),
    "node_pool": ("NodePool",),
    "upgrade.strategy": ("ClusterUpgradeStrategy",),
    "upgrade.run": ("ClusterUpgradeRun",),
    "upgrade.gate": ("ClusterUpgradeGate",),
    "upgrade.profile": ("ClusterUpgradeProfile",),
    "upgrade.maintenance_window": ("ClusterMaintenanceWindow",),
    "upgrade.version_catalog": ("ClusterVersionCatalog",),
    "upgrade.request": ("ClusterUpgradeRequest",),
}
"""Modules below `scorer.api`, with the models in them. A model has the name of its kind."""


class _Models(Mapping[tuple[str, str], type[ApiObject]]):
    def __init__(self) -> None:
        module_of = {name: module for module, names in _MODULES.items() for name in names}
        self._places = {kind.group_kind: (module_of[kind.kind], kind.kind) for kind in OUR_KINDS}

    def __getitem__(self, key: tuple[str, str]) -> type[ApiObject]:
        module, name = self._places[key]
        model: type[ApiObject] = getattr(import_module(f"scorer.api.{module}"), name)
        return model

    def __contains__(self, key: object) -> bool:
        return key in self._places

    def __iter__(self) -> Iterator[tuple[str, str]]:
        return iter(self._places)

    def __len__(self) -> int:
        return len(self._places)


MODELS: Final[Mapping[tuple[str, str], type[ApiObject]]] = _Models()
"""The model of each of our kinds, by group and kind."""
