"""What a back end that upgrades member clusters has to be able to do.

A back end is found by its name in the group of entry points ``harbormaster.upgraders``, so that any package can bring
one. The entry point is a class or function that is called with a `Workplace` and returns the back end.

Source: upgrade-runs.md 13.1.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Protocol

from scorer.api.documents import annotations_of, dict_at, labels_of, name_of, status_of
from scorer.api.meta import JsonObject
from scorer.api.quantity import NANO, read_quantity
from scorer.properties import NODE_COUNT
from scorer.upgrade.back_end import (
    CancelResult,
    Capabilities,
    Inventory,
    Issue,
    Observation,
    Operation,
    StartResult,
    Target,
)
from webhook.kube.hub import Hub
from webhook.kube.ports import ServedKinds
from webhook.settings.upgraders import UpgraderOptions


@dataclass(frozen=True, slots=True)
class MemberRef:
    """A member cluster as back ends see it.

    Args:
        name: Of the MemberCluster.
        labels: Its labels.
        annotations: Its annotations, which say where the back end finds the cluster.
        nodes: How many nodes it has, as its agent reports; 0: nobody knows.
    """

    name: str
    labels: Mapping[str, str] = field(default_factory=dict)
    annotations: Mapping[str, str] = field(default_factory=dict)
    nodes: int = 0

    @classmethod
    def of(cls, document: JsonObject) -> "MemberRef":
        """Return what back ends see of a MemberCluster."""
        return cls(name_of(document), labels_of(document), annotations_of(document), _nodes(document))


def _nodes(document: JsonObject) -> int:
    reported = read_quantity(dict_at(status_of(document), "properties", NODE_COUNT).get("value"))
    return 0 if reported is None else max(0, reported.nano // NANO)


@dataclass(frozen=True, slots=True)
class Workplace:
    """What a back end works with.

    Args:
        hub: The hub.
        now: The clock.
        served: The kinds that the hub serves.
        options: What the operator has decided about back ends.
    """

    hub: Hub
    now: Callable[[], datetime]
    served: ServedKinds
    options: UpgraderOptions = field(default_factory=UpgraderOptions)


class Upgrader(Protocol):
    """A back end. An exception says nothing about the cluster: the call is made again later, less and less often."""

    @property
    def name(self) -> str:
        """As members and settings name it."""
        ...

    @property
    def capabilities(self) -> Capabilities:
        """What it can do."""
        ...

    async def inspect(self, member: MemberRef) -> Inventory | None:
        """Return what a cluster runs; None: nobody knows."""
        ...

    async def preflight(self, member: MemberRef, target: Target) -> Sequence[Issue]:
        """Return what would be in the way of an upgrade."""
        ...

    async def start_upgrade(self, operation: Operation) -> StartResult:
        """Begin an operation; one whose id it knows goes on."""
        ...

    async def observe(self, operation: Operation) -> Observation:
        """Say how far an operation is, at once."""
        ...

    async def cancel(self, operation: Operation) -> CancelResult:
        """Call an operation off, if it can be."""
        ...


MakeUpgrader = Callable[[Workplace], Upgrader]
"""What an entry point names."""
