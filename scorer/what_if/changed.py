"""The hub after changes: its state, and what the changes did to it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

from scorer.api.meta import JsonObject
from scorer.fleet import Fleet
from scorer.rollout.removal.eviction import Eviction
from scorer.rollout.selection.selector import DocumentInventory
from scorer.what_if.planned import PlannedFleet
from scorer.what_if.state import HubState, ObjectKey, identity_of


class Evicted(NamedTuple):
    """The outcome of evicting a placement from a cluster.

    Args:
        cluster: The cluster.
        eviction: The outcome.
        name: Name of the ClusterResourcePlacementEviction, empty if the cluster is drained.
    """

    cluster: str
    eviction: Eviction
    name: str = ""


def _same_fleet() -> PlannedFleet:
    return {"gained": [], "changed": [], "lost": [], "drained": []}


@dataclass(frozen=True)
class Changed:
    """A hub after changes. The defaults mean no changes.

    Args:
        state: The hub.
        former_fleet: All member clusters before the changes.
        evictions: By namespace and name of the placement, in the order of the attempts.
        fleet: Differences of the fleet.
        content: The given and deleted objects that placements may select, None for deleted ones.
        overrides_known: Whether the hub's overrides are known. Otherwise those of the bindings count as up to date.
        unsnapshotted: Missing override snapshots that cannot be created. Placements that need them are not rolled out.
        reselecting: Placements whose resource selectors change. Some of the objects that they select may be unknown.
    """

    state: HubState
    former_fleet: Fleet
    evictions: Mapping[tuple[str, str], Sequence[Evicted]] = field(default_factory=dict)
    fleet: PlannedFleet = field(default_factory=_same_fleet)
    content: Mapping[ObjectKey, JsonObject | None] = field(default_factory=dict)
    overrides_known: bool = False
    unsnapshotted: Sequence[JsonObject] = ()
    reselecting: frozenset[ObjectKey] = frozenset()

    @cached_property
    def objects(self) -> Mapping[ObjectKey, JsonObject | None]:
        """The known objects that placements may select, None for deleted ones."""
        return {**{identity_of(document): document for document in self.state.content()}, **self.content}

    @cached_property
    def inventory(self) -> DocumentInventory:
        """The same objects, without deleted ones."""
        return DocumentInventory(document for document in self.objects.values() if document is not None)
