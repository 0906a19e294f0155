"""Questions about a fleet, their answers, and the interface of the engine that answers them."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Protocol

from scorer.api.cluster.member_cluster import MemberCluster
from scorer.api.family import PlacementRef
from scorer.api.meta import JsonObject
from scorer.api.placement.placement import PlacementPolicy
from scorer.api.values.label_selector import LabelSelector
from scorer.placement.explanation import ExplainAnswer

if TYPE_CHECKING:  # a command that explains does not load the views
    from scorer.rollout.views.removals import PlacementRemovals
    from webhook.answers.clusters import Cluster
    from webhook.answers.placements import Placement, PlacementDetail


@dataclass(frozen=True, slots=True)
class PlacementQuestion:
    """A placement, and the clusters that the question is about.

    Args:
        placement: A placement on the hub, or a policy that is not on the hub.
        names: Only these clusters. None: unlimited.
        selector: Only clusters with these labels. None: unlimited.
        clusters: A hypothetical fleet. None means the real one.
        anew: Whether to explain a first run, which ignores the existing bindings.
    """

    placement: PlacementRef | PlacementPolicy
    names: tuple[str, ...] | None = None
    selector: LabelSelector | None = None
    clusters: tuple[MemberCluster, ...] | None = None
    anew: bool = False


@dataclass(frozen=True, slots=True)
class Eligible:
    """A cluster that passes every filter. *rank* counts from 1 over all eligible candidates."""

    cluster: str
    rank: int
    selected: bool
    topology_spread: int
    affinity: int


@dataclass(frozen=True, slots=True)
class RejectedCandidate:
    """A cluster that a filter rejects. *resolvable*: freeing capacity there could help."""

    cluster: str
    plugin: str
    code: str
    message: str
    resolvable: bool


@dataclass(frozen=True, slots=True)
class PlacementVerdict:
    """The engine's answer to one question.

    Args:
        fleet_revision: Identifies the evaluated state: the same question about the hub's fleet gets the same verdict at
            the same revision.
        policy_hash: ``sha256:…`` of the policy.
        evaluated_at: The instant that ages are relative to: the start of the step in *fleet_revision*, or the present
            instant for a hypothetical fleet.
        eligible: Eligible clusters, in the order of the engine (scheduling.md 13).
        rejected: Rejected clusters, by name.
        turned_away: Number of clusters of the whole fleet by the plugin that rejected them first.
    """

    fleet_revision: str
    policy_hash: str
    evaluated_at: datetime
    eligible: Sequence[Eligible]
    rejected: Sequence[RejectedCandidate]
    turned_away: Mapping[str, int] = field(default_factory=dict)


class InvalidQuestionError(Exception):
    """The request cannot be answered.

    Args:
        pointer: JSON Pointer to the invalid member of the request body.
        detail: The error, with the offending value.
    """

    def __init__(self, pointer: str, detail: str) -> None:
        super().__init__(f"{pointer}: {detail}")
        self.pointer = pointer
        self.detail = detail


class Advisor(Protocol):
    """The engine over the current state of the hub. Every method is quick, pure and answers from one snapshot."""

    @property
    def fleet_revision(self) -> str:
        """Revision of the state that answers are based on."""
        ...

    def evaluate(self, question: PlacementQuestion) -> PlacementVerdict:
        """Filter and rank the clusters of a question. Raises `UnknownObjectError`, `InvalidQuestionError`."""
        ...

    def explain(self, question: PlacementQuestion) -> ExplainAnswer:
        """Return every number that a decision is based on.

        Order: picked and kept by rank, then ScoreTooLow by rank, then the filtered ones by name.

        Raises:
            UnknownObjectError: No such placement or cluster.
            InvalidQuestionError: The policy cannot be used.
        """
        ...

    def explaining(self, question: PlacementQuestion) -> Callable[[], ExplainAnswer]:
        """Collect the inputs of `explain`, and return a function that builds the answer. It is slow, but thread-safe.

        Raises:
            UnknownObjectError: No such placement or cluster.
            InvalidQuestionError: The policy cannot be used.
        """
        ...

    def cluster_names(self) -> Sequence[str]:
        """Return the names of all member clusters, sorted."""
        ...

    def clusters(self, names: Iterable[str]) -> "list[Cluster]":
        """Return the existing member clusters of *names* as the engine sees them, in that order."""
        ...

    def placement_refs(self) -> list[PlacementRef]:
        """Return the references of all placements, sorted as strings."""
        ...

    def pending_removal_refs(self) -> list[PlacementRef]:
        """Return the references of placements with pending removals or orphaned content, sorted as strings."""
        ...

    def removals(self, refs: Iterable[PlacementRef]) -> "list[PlacementRemovals]":
        """Return the pending removals and the orphaned content of placements, in the order of *refs*.

        Missing placements without orphaned content are left out.
        """
        ...

    def placements(self, refs: Iterable[PlacementRef]) -> "list[Placement]":
        """Return the existing placements of *refs* with their picks, in that order."""
        ...

    def placement(self, ref: PlacementRef) -> "PlacementDetail | None":
        """Return one placement with its selected resources and its rollout, or None if it does not exist."""
        ...

    def placement_object(self, ref: PlacementRef) -> JsonObject | None:
        """Return a placement as it is stored, without ``managedFields``, or None if it does not exist."""
        ...


@dataclass(frozen=True, slots=True)
class ViewChange:
    """A change of displayed objects.

    Args:
        revision: Grows with every change.
        clusters: Names of the changed clusters. None: unknown, any of them may have changed.
        placements: References of the changed placements, such as ``crp/payments``.
        runs: Whether any update run changed.
    """

    revision: int
    clusters: frozenset[str] | None = frozenset()
    placements: frozenset[str] = frozenset()
    runs: bool = False

    def __or__(self, other: "ViewChange") -> "ViewChange":
        return ViewChange(
            max(self.revision, other.revision),
            None if self.clusters is None or other.clusters is None else self.clusters | other.clusters,
            self.placements | other.placements,
            self.runs or other.runs,
        )


class ChangeFeed(Protocol):
    """Notifies viewers when to refresh."""

    def everything(self) -> ViewChange:
        """Return a change of all clusters, placements and runs, for a new viewer."""
        ...

    def subscribe(self, handler: Callable[[ViewChange], None]) -> Callable[[], None]:
        """Call *handler* on the event loop after every change, until the returned function is called."""
        ...
