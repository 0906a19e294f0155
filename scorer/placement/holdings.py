"""The bindings of a placement as scheduling sees them.

Source: docs/specifications/scheduling.md 4.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field

from scorer.api.placement.binding import BindingState
from scorer.columns import BoolColumn
from scorer.fleet import Fleet


@dataclass(frozen=True, slots=True)
class Binding:
    """One binding.

    Args:
        name: Name of the object, the sort key of lists.
        cluster: Member cluster.
        state: Scheduled, Bound or Unscheduled.
        current: Whether it was made under the latest policy snapshot.
        deleting: Whether it has a deletion timestamp.
        topology: The recorded topology spread score. None: not recorded.
        affinity: The recorded affinity score. None: not recorded.
        previous_state: The state of an Unscheduled binding before it was dropped.
        snapshot: Name of the policy snapshot under which it was made, or last confirmed.
        since: Creation timestamp as stored. Empty: unknown.
    """

    name: str
    cluster: str
    state: BindingState
    current: bool = True
    deleting: bool = False
    topology: int | None = None
    affinity: int | None = None
    previous_state: BindingState | None = None
    snapshot: str = ""
    since: str = ""

    @property
    def recorded_keys(self) -> tuple[int, int, str]:
        """The sort keys recorded when the cluster was picked: spread, affinity, cluster. The largest is the best."""
        return self.topology or 0, self.affinity or 0, self.cluster


@dataclass(frozen=True, slots=True)
class Holdings:
    """The bindings by class, each sorted by name. A binding belongs to the first class that fits.

    Args:
        deleting: Bindings with a deletion timestamp.
        unscheduled: Dropped bindings. Reused when their cluster is picked again.
        dangling: Bindings whose cluster is deleted or leaving.
        obsolete: Bindings that were made under an earlier policy.
        taken: Bindings under the current policy. They count toward N and are never judged again.
        by_cluster: The binding to reuse for each cluster. Excludes bindings that are being deleted, and dangling ones.
    """

    deleting: tuple[Binding, ...] = ()
    unscheduled: tuple[Binding, ...] = ()
    dangling: tuple[Binding, ...] = ()
    obsolete: tuple[Binding, ...] = ()
    taken: tuple[Binding, ...] = ()
    by_cluster: dict[str, Binding] = field(default_factory=dict, compare=False)

    def placed(self, fleet: Fleet) -> BoolColumn:
        """Return the clusters with a binding in ``taken``."""
        return fleet.rows(binding.cluster for binding in self.taken)

    def stale(self, fleet: Fleet) -> BoolColumn:
        """Return the clusters that hold an obsolete binding."""
        return fleet.rows(binding.cluster for binding in self.obsolete)


def classify(bindings: Iterable[Binding], fleet: Fleet) -> Holdings:
    """Sort *bindings* into their classes."""
    classes: dict[str, list[Binding]] = {
        name: [] for name in ("deleting", "unscheduled", "dangling", "obsolete", "taken")
    }
    reusable = {}
    for binding in sorted(bindings, key=lambda binding: binding.name):
        kind = _class_of(binding, fleet)
        classes[kind].append(binding)
        if kind in ("obsolete", "taken") or (kind == "unscheduled" and binding.cluster not in reusable):
            reusable[binding.cluster] = binding
    return Holdings(**{kind: tuple(members) for kind, members in classes.items()}, by_cluster=reusable)


def _class_of(binding: Binding, fleet: Fleet) -> str:
    if binding.deleting:
        return "deleting"
    if binding.state is BindingState.UNSCHEDULED:
        return "unscheduled"
    member = fleet.member(binding.cluster)
    if member is None or member.metadata.deletion_timestamp is not None:
        return "dangling"
    return "taken" if binding.current else "obsolete"


def scale_down(bindings: Iterable[Binding], surplus: int) -> tuple[Binding, ...]:
    """Return the *surplus* bindings to drop first.

    These are the bindings that are not rolled out, then those without recorded scores, then those with the weakest.

    Source: docs/specifications/scheduling.md 15.
    """

    def strength(binding: Binding) -> tuple[bool, bool, int, int, str]:
        has_scores = binding.topology is not None or binding.affinity is not None
        rolled_out = binding.state is BindingState.BOUND
        return rolled_out, has_scores, binding.topology or 0, binding.affinity or 0, binding.cluster

    return tuple(sorted(bindings, key=strength)[:surplus])
