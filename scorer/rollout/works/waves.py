"""Order of application of the kinds of a Work, in waves.

The order within a wave is arbitrary. A wave starts when the previous one has finished, even if parts of it failed. Only
built-in kinds have a wave of their own. All other kinds come last.

Source: docs/specifications/rollout.md 11.4; KubeFleet pkg/controllers/workapplier/waves.go.
"""

from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Protocol, TypeVar

from scorer.api.kinds import Kind

LAST_WAVE = 999

_ORDER = {
    0: "namespaces priorityclasses",
    1: "networkpolicies resourcequotas limitranges podsecuritypolicies poddisruptionbudgets serviceaccounts secrets"
    " configmaps storageclasses persistentvolumes persistentvolumeclaims customresourcedefinitions ingressclasses",
    2: "clusterroles roles",
    3: "clusterrolebindings rolebindings",
    4: "services daemonsets pods replicationcontrollers replicasets deployments horizontalpodautoscalers statefulsets"
    " jobs cronjobs ingresses",
    5: "apiservices validatingwebhookconfigurations mutatingwebhookconfigurations",
}
_WAVES: Mapping[str, int] = MappingProxyType(
    {plural: wave for wave, names in _ORDER.items() for plural in names.split()}
)


class HasKind(Protocol):
    """Any value with the kind of an object."""

    @property
    def kind(self) -> Kind:
        """The kind of the object."""
        ...


Item = TypeVar("Item", bound=HasKind)


def wave_of(kind: Kind) -> int:
    """Return the number of the wave of objects of *kind*."""
    return _WAVES.get(kind.plural, LAST_WAVE) if kind.built_in else LAST_WAVE


def plan_waves(items: Iterable[Item], *, single_wave: bool = False) -> list[list[Item]]:
    """Group *items* into ordered waves, keeping their order within each.

    Args:
        items: Items to process.
        single_wave: Whether to put all items into one wave. For items that are not applied, in any order.
    """
    waves: dict[int, list[Item]] = {}
    for item in items:
        waves.setdefault(0 if single_wave else wave_of(item.kind), []).append(item)
    return [waves[number] for number in sorted(waves)]
