"""The order in which the kinds of a Work are applied, in waves.

Within a wave the order does not matter; a wave starts when the one before it has finished, whether or not all of it
succeeded. Only built-in kinds have a wave of their own; all other kinds come last.

Source: rollout.md 11.4; KubeFleet pkg/controllers/workapplier/waves.go.
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
    """Return the number of the wave in which objects of *kind* are applied."""
    return _WAVES.get(kind.plural, LAST_WAVE) if kind.built_in else LAST_WAVE


def plan_waves(items: Iterable[Item], *, single_wave: bool = False) -> list[list[Item]]:
    """Group *items* into waves, first wave first, each in the order given.

    Args:
        items: What is to be processed.
        single_wave: One wave for everything: nothing is applied, so nothing depends on anything.
    """
    waves: dict[int, list[Item]] = {}
    for item in items:
        waves.setdefault(0 if single_wave else wave_of(item.kind), []).append(item)
    return [waves[number] for number in sorted(waves)]
