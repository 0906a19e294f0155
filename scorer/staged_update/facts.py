"""Inputs of a pass besides the run itself."""

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
    """Reason why a cluster must not be changed now.

    Args:
        message: Human-readable reason, with its end if known.
        until: Time of the next check. None: unknown, an event triggers it.
    """

    message: str
    until: datetime | None = None


def _no_overrides(_group: SnapshotGroup) -> Mapping[str, Overrides]:
    return {}


@dataclass(frozen=True, slots=True)
class StagedUpdateFacts:
    """State of the hub around a run at one instant. All documents are raw, and of the run's family and namespace.

    Args:
        now: Current time, timezone-aware.
        placement: The placement that the run names. None: unset or missing.
        policy_snapshots: All policy snapshots of the placement.
        bindings: All bindings of the placement, including those being deleted.
        members: Labels of every MemberCluster, by name.
        strategy: The strategy that the run names. None: unset or missing. Read only during initialization.
        groups: Resource snapshots of the placement, oldest index first.
        requests: Every approval request, by name.
        runs: All runs of the family and namespace.
        waits: Reasons why clusters must not be changed now, by cluster.
        selection: Current selection of the placement. Needed only to initialize a run without an index.
        content: Record to write alongside the selected objects.
        overrides: Returns the override lists by cluster for a resource snapshot. Called only during initialization. Its
            exceptions propagate.
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
