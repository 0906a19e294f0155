"""The interface of an upgrade back end, and how installed back ends are loaded from entry points.

A back end is found by its name in the group of entry points ``harbormaster.upgraders``, so that any package can bring
one. The entry point is a class or function that is called with a `Workplace` and returns the back end.

Source: upgrade-runs.md 13.1.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from importlib.metadata import entry_points
from typing import Protocol

from scorer.api.meta import JsonObject
from scorer.api.unstructured.documents import annotations_of, dict_at, labels_of, name_of, status_of
from scorer.api.values.quantity import NANO, read_quantity
from scorer.properties import NODE_COUNT
from scorer.upgrade.back_ends.interface import (
    CancelResult,
    Capabilities,
    Inventory,
    Issue,
    Observation,
    Operation,
    StartResult,
    Target,
)
from webhook.kube.cache.hub import Hub
from webhook.kube.ports import ServedKinds
from webhook.settings.upgraders import ENTRY_POINTS, UpgraderOptions


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
    node_count = read_quantity(dict_at(status_of(document), "properties", NODE_COUNT).get("value"))
    return 0 if node_count is None else max(0, node_count.nano // NANO)


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


class UpgraderError(Exception):
    """A back end cannot be used; the message names it."""


def make_upgraders(names: Iterable[str], workplace: Workplace) -> dict[str, Upgrader]:
    """Return the back ends of these names.

    Args:
        names: Of entry points.
        workplace: What they work with.

    Raises:
        UpgraderError: One is not installed, or cannot be loaded.
    """
    return {name: _make(name, workplace) for name in names}


def _make(name: str, workplace: Workplace) -> Upgrader:
    matches = entry_points(group=ENTRY_POINTS, name=name)
    if not matches:
        raise UpgraderError(f"there is no upgrader {name!r} among the installed packages")
    try:
        make: MakeUpgrader = next(iter(matches)).load()
        return make(workplace)
    except Exception as error:  # whatever the package of somebody else does
        raise UpgraderError(f"the upgrader {name!r} cannot be loaded: {error!r}") from error
