"""The input of every plugin: one placement, one fleet, one instant."""

from dataclasses import dataclass
from datetime import datetime

from scorer.columns import BoolColumn
from scorer.fleet import Fleet


@dataclass(frozen=True, slots=True)
class Cycle:
    """The input of one round of filtering and scoring.

    Args:
        fleet: All member clusters, in any state.
        now: The instant of the run.
        namespace: Namespace of a ResourcePlacement, empty for a cluster-scoped placement.
        placed: Shape (clusters,): clusters with a live binding made under the current policy.
        obsolete: Shape (clusters,): clusters with a live binding made under an earlier policy.
    """

    fleet: Fleet
    now: datetime
    namespace: str
    placed: BoolColumn
    obsolete: BoolColumn
