"""The interface of an upgrade back end, and the loading of installed back ends from entry points.

A back end is an entry point in group ``harbormaster.upgraders``, so that any package can provide one. The entry point
is a class or function that is called with a `Workplace` and returns the back end.

Source: docs/specifications/upgrade-runs.md 13.1.
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
    """A member cluster for back ends.

    Args:
        name: Name of the MemberCluster.
        labels: Labels.
        annotations: Annotations, which tell the back end where to find the cluster.
        nodes: Number of nodes that its agent reports, or 0 if unknown.
    """

    name: str
    labels: Mapping[str, str] = field(default_factory=dict)
    annotations: Mapping[str, str] = field(default_factory=dict)
    nodes: int = 0

    @classmethod
    def of(cls, document: JsonObject) -> "MemberRef":
        """Return the reference of a MemberCluster."""
        return cls(name_of(document), labels_of(document), annotations_of(document), _nodes(document))


def _nodes(document: JsonObject) -> int:
    node_count = read_quantity(dict_at(status_of(document), "properties", NODE_COUNT).get("value"))
    return 0 if node_count is None else max(0, node_count.nano // NANO)


@dataclass(frozen=True, slots=True)
class Workplace:
    """Dependencies of a back end.

    Args:
        hub: The hub cluster.
        now: The clock.
        served: Kinds that the hub serves.
        options: Settings of the operator for back ends.
    """

    hub: Hub
    now: Callable[[], datetime]
    served: ServedKinds
    options: UpgraderOptions = field(default_factory=UpgraderOptions)


class Upgrader(Protocol):
    """A back end. An exception reveals nothing about the cluster: the call is retried with backoff."""

    @property
    def name(self) -> str:
        """Name in annotations and settings."""
        ...

    @property
    def capabilities(self) -> Capabilities:
        """Supported features."""
        ...

    async def inspect(self, member: MemberRef) -> Inventory | None:
        """Return the inventory of a cluster. None: unknown."""
        ...

    async def preflight(self, member: MemberRef, target: Target) -> Sequence[Issue]:
        """Return issues that would block an upgrade."""
        ...

    async def start_upgrade(self, operation: Operation) -> StartResult:
        """Start an operation. An operation with a known id is not started again."""
        ...

    async def observe(self, operation: Operation) -> Observation:
        """Return the present progress of an operation, without waiting."""
        ...

    async def cancel(self, operation: Operation) -> CancelResult:
        """Cancel an operation, if supported."""
        ...


MakeUpgrader = Callable[[Workplace], Upgrader]
"""Type of the entry points."""


class UpgraderError(Exception):
    """A back end cannot be loaded. The message names it."""


def make_upgraders(names: Iterable[str], workplace: Workplace) -> dict[str, Upgrader]:
    """Load back ends by name.

    Args:
        names: Names of entry points.
        workplace: Dependencies of the back ends.

    Raises:
        UpgraderError: One is not installed, or cannot be loaded.
    """
    return {name: _make(name, workplace) for name in names}


def _make(name: str, workplace: Workplace) -> Upgrader:
    matches = entry_points(group=ENTRY_POINTS, name=name)
    if not matches:
        raise UpgraderError(f"there is no upgrader {name!r}: no installed package has an entry point of that name")
    try:
        make: MakeUpgrader = next(iter(matches)).load()
        return make(workplace)
    except Exception as error:  # an external package may raise anything
        raise UpgraderError(f"the upgrader {name!r} cannot be loaded: {error!r}") from error
