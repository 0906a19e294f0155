"""What a pass of a run is decided on, besides the run itself."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from scorer.api.meta import JsonObject
from scorer.rollout.bindings import Overrides
from scorer.rollout.selection.selector import InvalidSelection, Selection
from scorer.rollout.snapshots.content_record import NO_RECORD, ContentRecord
from scorer.rollout.snapshots.groups import SnapshotGroup


@dataclass(frozen=True, slots=True)
class ClusterWait:
    """Why a cluster may not be touched now.

    Args:
        message: For people: what holds it, and when that ends.
        until: When to look again; None: an event tells.
    """

    message: str
    until: datetime | None = None


def _no_overrides(_group: SnapshotGroup) -> Mapping[str, Overrides]:
    return {}


@dataclass(frozen=True, slots=True)
class StagedUpdateFacts:
    """The hub around a run, at one moment. All documents are raw, and of the run's family and namespace.

    Args:
        now: The moment; aware.
        placement: The one that the run names; None: there is none.
        policy_snapshots: All of the placement.
        bindings: All of the placement, deleting ones included.
        members: The labels of every MemberCluster, by name.
        strategy: The one that the run names; None: there is none. Only looked at when the run is initialised.
        groups: The resource snapshots of the placement, the oldest index first.
        requests: Every approval request, by its name.
        runs: All runs of the family and namespace.
        waits: The clusters that may not be touched now.
        selection: What the placement selects now. Only needed when a run without an index is initialised.
        content: The record to write beside the selected objects.
        overrides: Given the resource snapshot that is rolled out, returns the override lists by cluster. Only called
            when the run is initialised; what it raises is for the caller.
    """

    now: datetime
    placement: JsonObject | None = None
    policy_snapshots: Sequence[JsonObject] = ()
    bindings: Sequence[JsonObject] = ()
    members: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    strategy: JsonObject | None = None
    groups: Sequence[SnapshotGroup] = ()
    requests: Mapping[str, JsonObject] = field(default_factory=dict)
    runs: Sequence[JsonObject] = ()
    waits: Mapping[str, ClusterWait] = field(default_factory=dict)
    selection: Selection | InvalidSelection | None = None
    content: ContentRecord = NO_RECORD
    overrides: Callable[[SnapshotGroup], Mapping[str, Overrides]] = _no_overrides
