"""The switches of admission."""

from dataclasses import dataclass
from enum import StrEnum

from scorer.api.staged_update import RunState

OWN_CONTROLLER = "system:serviceaccount:harbormaster-system:harbormaster-reconcile"


class PlacementAuthorization(StrEnum):
    """What becomes of a placement that selects what its author may not read."""

    OFF = "Off"
    WARN = "Warn"
    ENFORCE = "Enforce"


@dataclass(frozen=True, slots=True)
class AdmissionSettings:
    """The switches of admission.

    Args:
        controllers: User names of harbormaster itself; X-50 and the guard rails do not hold for them.
        protect_works: G-11, who may write Works and InternalMemberClusters.
        protect_deletions: G-17 and G-18, namespaces of members and definitions in use are not deleted by mistake.
        guard_rail: G-04 to G-10.
        deny_member_label_changes: G-07, only with *guard_rail*.
        allowed_users: User names that count as admins for the guard rails.
        identity_by_admins_only: Only admins may change ``spec.identity`` of a MemberCluster.
        block_workloads: G-01 and G-02, no Pods and ReplicaSets on the hub.
        block_pod_disruption_budgets: G-03.
        unblocked_namespaces: Where G-01 to G-03 never hold, besides reserved namespaces: our own, above all.
        networking_agents: M-09, exported services keep a member from leaving.
        skipped_namespaces: Namespaces never placed, besides ``default``, ``kube-*`` and ``fleet-*`` (X-01).
        skipped_kinds: Group and kind of what is never selected, besides the built-in list (X-02).
        strict_overrides: X-63 denies instead of warning.
        staged_run_default_state: What an absent ``spec.state`` of a staged update run means (F-14).
        placement_authorization: Whether the author of a placement needs rights on what it selects (serving.md 8).
        live_warnings: Whether answers warn about what the rest of the hub makes of a write. Whoever reaches the port
            may ask, and no review proves who sent it: its ``userInfo`` is text like the rest (serving.md 8). So no
            warning names a cluster that the review did not name itself (`impact.named_clusters`). Given away are
            counts, names of placements and runs, and whether what the review names exists; where that is too much,
            this turns all of it off.
        live_seconds: How long all live checks of one review may take together; what is left then is not said.
        enforce_budgets: Deletions and drains of nodes are held back by the budgets of their pool.
        enforcement_exempt_users: User names for whom that does not hold.
    """

    controllers: frozenset[str] = frozenset({OWN_CONTROLLER})
    protect_works: bool = True
    protect_deletions: bool = True
    guard_rail: bool = False
    deny_member_label_changes: bool = False
    allowed_users: frozenset[str] = frozenset()
    identity_by_admins_only: bool = False
    block_workloads: bool = False
    block_pod_disruption_budgets: bool = False
    unblocked_namespaces: frozenset[str] = frozenset()
    networking_agents: bool = False
    skipped_namespaces: frozenset[str] = frozenset()
    skipped_kinds: frozenset[tuple[str, str]] = frozenset()
    strict_overrides: bool = False
    staged_run_default_state: RunState = RunState.INITIALIZE
    placement_authorization: PlacementAuthorization = PlacementAuthorization.WARN
    live_warnings: bool = True
    live_seconds: float = 0.05
    enforce_budgets: bool = False
    enforcement_exempt_users: frozenset[str] = frozenset()
