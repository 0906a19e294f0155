"""Requirements of admission besides the rules that always apply.

The operator sets them as `ReviewSettings`. The rules receive `AdmissionSettings`, which are made from those.
"""

from dataclasses import dataclass
from enum import StrEnum
from typing import ClassVar, Final

from pydantic import Field

from scorer.api.placement.staged_update import RunState
from scorer.rollout.confirmation.policy import DEFAULT_POLICY, RemovalPolicy
from webhook.settings.environment import Reads, Settings
from webhook.settings.installation import InstallationSettings
from webhook.settings.placement import PlaceableSettings, RemovalSettings
from webhook.settings.values import Seconds, Words

OWN_CONTROLLER = "system:serviceaccount:harbormaster-system:harbormaster-reconcile"

EXEMPT_USERS: Final = (
    "system:serviceaccount:karpenter:karpenter",
    "system:serviceaccount:kube-system:karpenter",
    "system:serviceaccount:kube-system:generic-garbage-collector",
    "system:serviceaccount:kube-system:node-controller",
    "system:serviceaccount:kube-system:cloud-node-lifecycle-controller",
    "system:kube-controller-manager",
    "system:cloud-controller-manager",
)


class PlacementAuthorization(StrEnum):
    """Treatment of a placement that selects objects which its author may not read."""

    OFF = "Off"
    WARN = "Warn"
    ENFORCE = "Enforce"


@dataclass(frozen=True, slots=True)
class AdmissionSettings:
    """Settings of admission.

    Args:
        controllers: User names of harbormaster itself. X-50 and the guard rails do not apply to them.
        protect_works: Enable G-11 and G-20: limit writes of Works and InternalMemberClusters, and unscheduling.
        own_namespace: Namespace of the installation, for G-19. Empty: unknown.
        protect_deletions: Enable G-17 to G-19: protect namespaces of members, definitions in use and the namespace of
            the installation from accidental deletion.
        guard_rail: Enable G-04 to G-10.
        deny_member_label_changes: Enable G-07, only with *guard_rail*.
        allowed_users: User names that the guard rails treat as admins.
        identity_by_admins_only: Whether only admins may change ``spec.identity`` of a MemberCluster.
        block_workloads: Enable G-01 and G-02: no Pods and ReplicaSets on the hub.
        block_pod_disruption_budgets: Enable G-03.
        unblocked_namespaces: Namespaces exempt from G-01 to G-03, such as our own, in addition to reserved namespaces.
        networking_agents: Enable M-09: exported services keep a member from leaving.
        skipped_namespaces: Namespaces that are never placed, besides ``default``, ``kube-*`` and ``fleet-*`` (X-01).
        skipped_kinds: Group and kind of objects that are never selected, besides the built-in list (X-02).
        strict_overrides: Make X-63 refuse instead of warn.
        staged_run_default_state: Meaning of an absent ``spec.state`` of a staged update run (F-14).
        placement_authorization: Whether the author of a placement needs rights to the selected objects (serving.md 8).
        live_warnings: Whether answers warn about effects of a write that depend on other objects of the hub. Any client
            that reaches the port may send a review, and no review proves its sender: ``userInfo`` is only text
            (serving.md 8). Therefore no warning names a cluster that the review does not name
            (`impact.named_clusters`). Warnings do reveal counts, names of placements and runs, and whether objects in
            the review exist. False disables all of them.
        live_seconds: Time limit for all live checks of one review. The remaining ones are skipped.
        enforce_budgets: Refuse deletions and drains of nodes beyond the budgets of their pool.
        enforcement_exempt_users: User names exempt from *enforce_budgets*.
        removal: Removals of content that need confirmation.
    """

    controllers: frozenset[str] = frozenset({OWN_CONTROLLER})
    protect_works: bool = True
    own_namespace: str = ""
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
    removal: RemovalPolicy = DEFAULT_POLICY


class RuleSettings(Settings):
    """Configurable rules, and whether budgets of node pools are enforced on manual deletions."""

    placement_authorization: PlacementAuthorization = Field(
        default=PlacementAuthorization.WARN,
        description=(
            "Handling of a placement that selects objects its author may not read: `Off` admits it, `Warn` admits it "
            "with a warning, `Enforce` refuses it."
        ),
    )
    strict_overrides: bool = Field(
        default=False, description="Make rule X-63, about overrides, refuse instead of warn."
    )
    staged_runs_default_state: RunState = Field(
        default=RunState.INITIALIZE, description="Value of `spec.state` if a staged update run does not set it."
    )
    live_warnings: bool = Field(
        default=True,
        description="Warn about the effects of a write on the rest of the hub. The warnings reveal counts, the "
        "names of placements and runs, and whether objects named in the review exist.",
    )
    live_seconds: Seconds = Field(
        default=0.05,
        description="Time limit of all live checks of a review. Checks that have not run by then are skipped.",
    )
    networking_agents: bool = Field(
        default=False,
        description="Expect networking agents on members: a member with exported services cannot leave, unless its "
        "`spec.deleteOptions.validationMode` is `Skip` (M-09).",
    )
    enforce_budgets: bool = Field(
        default=False,
        description="Refuse deletions of Nodes and NodeClaims, and evictions that drain a node, if they exceed the "
        "disruption budgets of the node's pool.",
    )
    enforcement_exempt_users: Words = Field(
        default=EXEMPT_USERS,
        description=(
            "User names that `HARBORMASTER_ENFORCE_BUDGETS` does not apply to: Karpenter, which enforces budgets "
            "itself, and the controllers of Kubernetes."
        ),
    )


class GuardRailSettings(Settings):
    """Guard rails: writes that only controllers and administrators of the fleet may make."""

    allowed_users: Words = Field(default=(), description="User names that count as admins for the guard rails.")
    guard_rail: bool = Field(
        default=False,
        description="Reserve definitions, namespaces and members of the fleet for its controllers and for admins "
        "(G-04 to G-10).",
    )
    deny_member_label_changes: bool = Field(
        default=False,
        description=(
            "Allow only `system:masters` to change the labels of managed members (G-07). Requires "
            "`HARBORMASTER_GUARD_RAIL`."
        ),
    )
    identity_by_admins_only: bool = Field(
        default=False, description="Allow only admins to change `spec.identity` of a MemberCluster."
    )
    protect_works: bool = Field(
        default=True,
        description=(
            "Allow only the loop, admins and components of Kubernetes to write Works and InternalMemberClusters. The "
            "agent of a member may change their status and its own finalizer (G-11). Also allow only the loop and "
            "`HARBORMASTER_ALLOWED_USERS` to set a binding to Unscheduled (G-20)."
        ),
    )
    protect_deletions: bool = Field(
        default=True,
        description="Refuse accidental deletion of namespaces of members, definitions in use, and the namespace of "
        "the installation (G-17 to G-19).",
    )
    block_workloads: bool = Field(default=False, description="Refuse Pods and ReplicaSets on the hub (G-01, G-02).")
    block_pod_disruption_budgets: bool = Field(
        default=False, description="Refuse PodDisruptionBudgets on the hub (G-03)."
    )


class ReviewSettings(PlaceableSettings, RuleSettings, GuardRailSettings, RemovalSettings):
    """All settings of reviews."""

    reads: ClassVar[Reads] = (
        InstallationSettings,
        RuleSettings,
        GuardRailSettings,
        RemovalSettings,
        "skipped_namespaces",
    )

    def admission(self) -> AdmissionSettings:
        """Return the settings of admission."""
        return AdmissionSettings(
            controllers=frozenset({self.username_of_loop}),
            protect_works=self.protect_works,
            own_namespace=self.namespace,
            protect_deletions=self.protect_deletions,
            guard_rail=self.guard_rail,
            deny_member_label_changes=self.deny_member_label_changes,
            allowed_users=frozenset(self.allowed_users),
            identity_by_admins_only=self.identity_by_admins_only,
            block_workloads=self.block_workloads,
            block_pod_disruption_budgets=self.block_pod_disruption_budgets,
            unblocked_namespaces=frozenset({self.namespace}),
            networking_agents=self.networking_agents,
            skipped_namespaces=frozenset({*self.skipped_namespaces, self.namespace}),
            strict_overrides=self.strict_overrides,
            staged_run_default_state=self.staged_runs_default_state,
            placement_authorization=self.placement_authorization,
            live_warnings=self.live_warnings,
            live_seconds=self.live_seconds,
            enforce_budgets=self.enforce_budgets,
            enforcement_exempt_users=frozenset(self.enforcement_exempt_users),
            removal=self.removal(),
        )
