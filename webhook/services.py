"""What the HTTP handlers are handed: a few questions they may ask, and nothing of how they are answered.

Source: serving.md 3.1 and 3.2.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Protocol

from scorer.api.kinds import Kind
from scorer.api.label_selector import LabelSelector
from scorer.api.member_cluster import MemberCluster
from scorer.api.meta import JsonObject
from scorer.api.placement import PlacementPolicy

if TYPE_CHECKING:
    from webhook.admission.authorization import Access, Reviewed
    from webhook.admission.context import Context, UserInfo
    from webhook.admission.enforcement import Enforcement
    from webhook.budget_views import HubBudgets
    from webhook.extending import HubExtender
    from webhook.gating import HubGate
    from webhook.history import RunHistory
    from webhook.member_gates import HubMemberGates
    from webhook.planning import HubPlanner


@dataclass(frozen=True, slots=True)
class PlacementRef:
    """Names a placement on the hub; *namespace* is empty for a ClusterResourcePlacement."""

    kind: str
    name: str
    namespace: str = ""

    def __str__(self) -> str:
        return f"rp/{self.namespace}/{self.name}" if self.namespace else f"crp/{self.name}"


@dataclass(frozen=True, slots=True)
class Question:
    """A placement, and the clusters it is asked about.

    Args:
        placement: One on the hub, or a policy that exists nowhere yet.
        names: Only these clusters; None: no limit.
        selector: Only clusters with these labels; None: no limit.
        clusters: A fleet that is not the real one; None: the real one.
        anew: Explain what a first run would do, whatever is placed already.
    """

    placement: PlacementRef | PlacementPolicy
    names: tuple[str, ...] | None = None
    selector: LabelSelector | None = None
    clusters: tuple[MemberCluster, ...] | None = None
    anew: bool = False


@dataclass(frozen=True, slots=True)
class Eligible:
    """A cluster that passes every filter; *rank* counts from 1 over all eligible candidates."""

    cluster: str
    rank: int
    selected: bool
    topology_spread: int
    affinity: int


@dataclass(frozen=True, slots=True)
class Rejected:
    """A cluster that a filter turns away; *resolvable*: evicting something there could help."""

    cluster: str
    plugin: str
    code: str
    message: str
    resolvable: bool


@dataclass(frozen=True, slots=True)
class Verdict:
    """What the engine says about one question.

    Args:
        fleet_revision: Names the state that was judged: same question and same revision, same verdict.
        policy_hash: ``sha256:…`` of the policy.
        evaluated_at: The instant that ages were measured at; the same for the whole revision.
        eligible: In the order of the engine (scheduling.md 13).
        rejected: By name.
        turned_away: How many clusters of the whole fleet each plugin was the first to turn away.
    """

    fleet_revision: str
    policy_hash: str
    evaluated_at: datetime
    eligible: Sequence[Eligible]
    rejected: Sequence[Rejected]
    turned_away: Mapping[str, int] = field(default_factory=dict)


def ref_prefixes(kinds: Collection[Kind]) -> tuple[str, ...]:
    """Return how references to placements of these kinds begin."""
    return tuple("rp/" if kind.namespaced else "crp/" for kind in kinds)


def unknown_placement(ref: PlacementRef) -> str:
    """Return what is said of a placement that does not exist, or that the caller may not read: the same."""
    return f"there is no placement {str(ref)[:320]}"


class UnknownObjectError(Exception):
    """The question names a placement or cluster that does not exist; the message says which."""


class InvalidQuestionError(Exception):
    """The question cannot be answered as put.

    Args:
        pointer: JSON Pointer to the culprit in the request body.
        detail: Plain words with the offending value.
    """

    def __init__(self, pointer: str, detail: str) -> None:
        super().__init__(f"{pointer}: {detail}")
        self.pointer = pointer
        self.detail = detail


class Advisor(Protocol):
    """The engine over the current state of the hub. Every method is quick, pure and answers from one snapshot."""

    @property
    def fleet_revision(self) -> str:
        """Names the state that would be judged now."""
        ...

    def evaluate(self, question: Question) -> Verdict:
        """Filter and rank. Raises `UnknownObjectError`, `InvalidQuestionError`."""
        ...

    def explain(self, question: Question) -> JsonObject:
        """Return ``{"fleetRevision", "policyHash", "evaluatedAt", "wanted", "found", "items"}``.

        Each item is the object of scheduling.md 22 with ``summary``, ``reason`` and ``help``. Order: picked and kept
        by rank, then ScoreTooLow by rank, then the filtered ones by name.

        Raises:
            UnknownObjectError: No such placement or cluster.
            InvalidQuestionError: The policy cannot be used.
        """
        ...

    def explaining(self, question: Question) -> Callable[[], JsonObject]:
        """Look up what `explain` needs, and return what makes the answer of it: in any thread, as that takes a while.

        Raises:
            UnknownObjectError: No such placement or cluster.
            InvalidQuestionError: The policy cannot be used.
        """
        ...

    def clusters(self) -> JsonObject:
        """Return ``{"fleetRevision", "evaluatedAt", "items"}``, items by name."""
        ...

    def cluster(self, name: str) -> JsonObject | None:
        """Return one of those items, or None when there is no such cluster."""
        ...

    def placements(self) -> JsonObject:
        """Return ``{"fleetRevision", "items"}``, items by ``ref``."""
        ...

    def placement(self, ref: PlacementRef) -> JsonObject | None:
        """Return one of those items with ``selectedResources`` and ``strategy``, or None."""
        ...


@dataclass(frozen=True, slots=True)
class Change:
    """Something a viewer sees is different now.

    Args:
        revision: Grows with every change.
        clusters: Some cluster changed.
        placements: References of the changed placements, such as ``crp/payments``.
    """

    revision: int
    clusters: bool = False
    placements: frozenset[str] = frozenset()

    def __or__(self, other: "Change") -> "Change":
        return Change(
            max(self.revision, other.revision), self.clusters or other.clusters, self.placements | other.placements
        )


class Changes(Protocol):
    """Tells viewers when to look again."""

    def everything(self) -> Change:
        """Return the change that covers all there is, for a viewer who has seen nothing."""
        ...

    def subscribe(self, handler: Callable[[Change], None]) -> Callable[[], None]:
        """Call *handler* on the event loop after every change, until the returned function is called."""
        ...


class AccessReviewer(Protocol):
    """Knows what users may do."""

    async def review(self, user: "UserInfo", wanted: "Sequence[Access]") -> "Reviewed":
        """Return which of *wanted* the user may not do; what cannot be found out is said, never taken for allowed."""
        ...


class NotReviewedError(Exception):
    """Who somebody is, or what they may do, cannot be found out now; the message is fit for the log, not for them."""


@dataclass(frozen=True, slots=True)
class PathAccess:
    """A request to the server itself, as rights see it.

    Args:
        verb: The method in lower case; HEAD reads no more than GET and counts as it.
        path: Template of the route, such as ``/v1/clusters/*``.
    """

    verb: str
    path: str

    def __str__(self) -> str:
        return f"{self.verb} {self.path}"


class Authenticator(Protocol):
    """Knows whose bearer tokens are whose."""

    @property
    def audience(self) -> str:
        """Whom a token has to be made for; empty where tokens have no audience."""
        ...

    def known(self, token: str) -> "UserInfo | None":
        """Return whose token it is when that is known without asking anybody."""
        ...

    async def authenticate(self, token: str) -> "UserInfo | None":
        """Return whose token it is; None: it lets nobody in. Raises `NotReviewedError`."""
        ...


class Authorizer(Protocol):
    """Knows who may do what."""

    async def may(self, user: "UserInfo", wanted: "Access | PathAccess") -> bool:
        """Say whether *user* may do it. Raises `NotReviewedError`."""
        ...


def utc_now() -> datetime:
    """Return the wall clock."""
    return datetime.now(UTC)


@dataclass(frozen=True, slots=True)
class Disruption:
    """What may be disrupted, now or later: nodes of pools, member clusters, and the budgets that decide.

    ``enforcement`` judges disruptions by hand; None: nobody does, and all are allowed.
    """

    gate: "HubGate"
    members: "HubMemberGates"
    budgets: "HubBudgets"
    enforcement: "Enforcement | None" = None


@dataclass(frozen=True, slots=True)
class Services:
    """Everything the handlers need.

    Args:
        advisor: Answers ``/v1``.
        changes: Feeds ``/v1/events``.
        admission: Returns what admission rules may look at besides the object; asked once per request.
        synced: Says whether all caches have been filled once.
        now: Wall clock.
        access: Knows the rights of users; None: nobody does, and placements are not reviewed for them.
        authenticator: Knows bearer tokens; None: no token lets anybody in.
        authorizer: Knows who may ask what; None: whoever is let in may ask everything.
        planner: Answers ``/v1/plan``; None: nobody does.
        extender: Answers kube-schedulers; None: nobody does.
        history: Keeps the last decisions on every placement; None: nobody does.
        disruption: What may be disrupted; None: nobody knows.
    """

    advisor: Advisor
    changes: Changes
    admission: "Callable[[], Context]"
    synced: Callable[[], bool]
    now: Callable[[], datetime] = utc_now
    access: AccessReviewer | None = None
    authenticator: Authenticator | None = None
    authorizer: Authorizer | None = None
    planner: "HubPlanner | None" = None
    extender: "HubExtender | None" = None
    history: "RunHistory | None" = None
    disruption: "Disruption | None" = None
