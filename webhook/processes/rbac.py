"""RBAC rights of each process: enough for the code, and no more.

Every rule has a reason. Three facts decide their shape:

- Only a holder of rights may grant them. The loop creates a Role for every member's agent, so it holds the rights of
  that Role (otherwise it would need ``escalate``).
- ``get`` and ``update`` can be limited to a name, ``create`` cannot. No rule can be limited to the namespaces of
  members. `webhook.processes.account_policies` restricts the excess rights that follow from that.
- Most rights are to read selectable kinds. An operator can choose these kinds, and no other rights.

Discovery (``/api``, ``/apis``) is open to every authenticated user, by ``system:discovery``.

Over 500 lines because it is one table: every right of every process, with its reason.

Source: docs/specifications/serving.md 3.4 and 5.3; docs/specifications/rollout.md 17 to 21; Kubernetes, Using RBAC
Authorization.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final

from scorer.api import kinds
from scorer.api.family import FAMILIES, PLACEMENTS
from scorer.api.kinds import BUILT_IN, CONFIG_MAP, EVENT, KINDS, SECRET, Kind, find_kind
from scorer.member_gate.holds import MemberDisruption
from scorer.membership.access import RBAC_GROUP, agent_rules
from scorer.rollout.selection.exclusions import SelectionSettings
from scorer.upgrade.cluster_api.topology import GROUP as CLUSTER_API_GROUP
from webhook.access.front_proxy import API_SERVICE
from webhook.access.rights import CONTROL_PLANE_GROUPS
from webhook.admission.cached import ADMISSION_KINDS, WANTED_KINDS
from webhook.answers.extender import WATCHED
from webhook.answers.proposal import PLANNED_KINDS
from webhook.gate.holds import seen_in
from webhook.gate.members import WATCHED as GATED_KINDS
from webhook.gate.pools import COUNTED as COUNTED_KINDS
from webhook.gate.pools import WATCHED as POOL_KINDS
from webhook.kube.listers.upgrades import UPGRADE_KINDS
from webhook.kube.webhook_configurations.ca_bundles import API_SERVICE_KIND, CONFIGURATIONS
from webhook.kube.work_signing_keys import NAME as WORK_KEYS
from webhook.member.membership.hub_secret import HUB_SECRET
from webhook.member.membership.registration import RECORD
from webhook.processes.node_rights import NODE_LEASE, NodeRights
from webhook.processes.rbac_objects import PolicyRule, RbacResource, Role
from webhook.validation.member_cluster import INTERNAL_SERVICE_EXPORT

AUTHORITIES_READER: Final = "extension-apiserver-authentication-reader"
"""Role that every hub has, for the one ConfigMap with the authorities of client certificates."""

OWN_NAMESPACE: Final = "harbormaster-system"
"""Namespace of harbormaster, unless the operator sets another."""

READ: Final = ("get", "list", "watch")
OWN: Final = ("create", "delete", "get", "list", "update", "watch")
KEPT: Final = (*READ, "patch", "update")
"""Verbs for objects of users with finalizers and annotations of the loop.

Patches write them. The previous release used updates.
"""
APPLY: Final = ("create", "delete", "get", "list", "patch", "update", "watch")

_ROLE, CLUSTER_ROLE = KINDS[RBAC_GROUP, "Role"], KINDS[RBAC_GROUP, "ClusterRole"]
_ROLE_BINDING, _CLUSTER_ROLE_BINDING = KINDS[RBAC_GROUP, "RoleBinding"], KINDS[RBAC_GROUP, "ClusterRoleBinding"]
RBAC_KINDS: Final = (_ROLE, CLUSTER_ROLE, _ROLE_BINDING, _CLUSTER_ROLE_BINDING)
_ENVELOPES: Final = tuple(family.envelope for family in FAMILIES)

_NEVER_LISTED: Final = frozenset({("", "Binding")})
"""Built-in kinds that can only be created, so that no placement can select one."""
_WITH_STATUS: Final = frozenset(
    {
        ("", "Namespace"),
        ("", "PersistentVolume"),
        ("", "PersistentVolumeClaim"),
        ("", "ReplicationController"),
        ("", "ResourceQuota"),
        ("", "Service"),
        ("admissionregistration.k8s.io", "ValidatingAdmissionPolicy"),
        ("apiextensions.k8s.io", "CustomResourceDefinition"),
        ("apiregistration.k8s.io", "APIService"),
        ("apps", "DaemonSet"),
        ("apps", "Deployment"),
        ("apps", "ReplicaSet"),
        ("apps", "StatefulSet"),
        ("autoscaling", "HorizontalPodAutoscaler"),
        ("batch", "CronJob"),
        ("batch", "Job"),
        ("certificates.k8s.io", "CertificateSigningRequest"),
        ("flowcontrol.apiserver.k8s.io", "FlowSchema"),
        ("flowcontrol.apiserver.k8s.io", "PriorityLevelConfiguration"),
        ("networking.k8s.io", "Ingress"),
        ("networking.k8s.io", "ServiceCIDR"),
        ("policy", "PodDisruptionBudget"),
        ("resource.k8s.io", "ResourceClaim"),
        ("storage.k8s.io", "VolumeAttachment"),
    }
)
"""Built-in kinds whose status is a subresource."""
_PLURAL: Final = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?", re.ASCII)
_GROUP: Final = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)+", re.ASCII)


class UnknownKindError(ValueError):
    """No rule can be made for a kind. The message names it and the reason."""


EVERYTHING: Final = RbacResource("*", "*")


@dataclass(frozen=True, slots=True)
class SelectedResources:
    """Foreign kinds that a process may access: those that placements select.

    Args:
        resources: The kinds, by group and plural.
        everything: Whether every kind is included.
    """

    resources: tuple[RbacResource, ...] = ()
    everything: bool = False


def default_selection(*, secrets: bool = False) -> SelectedResources:
    """Return the kinds that the loop reads by default: all that placements can select on every hub.

    Args:
        secrets: Include Secrets. An account that reads all Secrets of a hub can act as any other account there.
    """
    return SelectedResources(
        tuple(resource for resource in _selectable() if secrets or resource != RbacResource.of(SECRET))
    )


def default_applied(*, control_plane: bool = True) -> SelectedResources:
    """Return the kinds that an agent applies on every member: the selectable ones except roles and their bindings.

    Args:
        control_plane: Include kinds that act on every request to the member, such as webhook configurations.
    """
    apart = {RbacResource.of(kind) for kind in (*RBAC_KINDS, *_ENVELOPES)}
    groups = frozenset() if control_plane else CONTROL_PLANE_GROUPS
    return SelectedResources(
        tuple(resource for resource in _selectable() if resource not in apart and resource.group not in groups)
    )


def _selectable() -> tuple[RbacResource, ...]:
    """Return the kinds that placements can select on every hub."""
    settings = SelectionSettings()
    kinds_selectable = (
        kind for kind in KINDS.values() if settings.is_selectable(kind.group, kind.versions[0], kind.kind)
    )
    return _sorted(RbacResource.of(kind) for kind in kinds_selectable if kind.group_kind not in _NEVER_LISTED)


def parse_selection(words: Iterable[str]) -> SelectedResources:
    """Parse kinds in user notation: ``deployments``, ``deploy``, ``Deployment``, ``boats.example.com``.

    Raises:
        UnknownKindError: One is neither a built-in kind nor ``plural.group``, or is never selected.
    """
    return SelectedResources(_sorted({_resource(word) for word in words}))


def _resource(word: str) -> RbacResource:
    kind = find_kind(word)
    if kind is not None:
        settings = SelectionSettings()
        if not settings.is_selectable(kind.group, kind.versions[0], kind.kind) or kind.group_kind in _NEVER_LISTED:
            raise UnknownKindError(f"{word!r}: objects of kind {kind} are never selected by a placement")
        return RbacResource.of(kind)
    plural, dot, group = word.partition(".")
    if not dot or not _PLURAL.fullmatch(plural) or not _GROUP.fullmatch(group):
        raise UnknownKindError(f"{word!r} is not a known kind. Name a kind of your own in full, as PLURAL.GROUP")
    return RbacResource(group, plural)


def _rbac_resource(word: str) -> RbacResource:
    """Return the resource of ``PLURAL.GROUP``, or of a plural in the core group."""
    plural, _, group = word.partition(".")
    return RbacResource(group, plural)


def _pool_rules(reason: str, kinds: Iterable[Kind]) -> Iterator[PolicyRule]:
    """Yield the rules to read node pools."""
    yield from _grouped(reason, READ, _sorted(map(RbacResource.of, kinds)))


def _reserving() -> PolicyRule:
    """Return the rule for reservations in harbormaster's namespace.

    Their Leases have hashes as names, which no rule can list.
    """
    return PolicyRule("Leases reserve the disruptions that the gate allows", OWN, (RbacResource.of(kinds.LEASE),))


def _remembering() -> PolicyRule:
    """Return the rule for the history in harbormaster's namespace.

    Its ConfigMaps have times as names, which no rule can list.
    """
    verbs = ("create", "delete", "get", "list", "update")
    return PolicyRule("the history is kept in ConfigMaps", verbs, (RbacResource.of(CONFIG_MAP),))


def reconcile_roles(
    selected: SelectedResources,
    namespace: str,
    *,
    lease: str = "harbormaster-reconcile",
    back_report: bool = False,
    analysis_kinds: Iterable[str] = (),
    cluster_api: bool = False,
    nodes: NodeRights = NodeRights(),  # noqa: B008 - it is frozen
) -> tuple[Role, ...]:
    """Return the roles of ``harbormaster reconcile`` on the hub.

    Args:
        selected: Kinds that placements may select.
        namespace: Namespace of its Lease and of the reservations.
        lease: Name of its leader Lease.
        back_report: Whether the loop may write back the status of placed objects to the originals on the hub.
        analysis_kinds: Kinds whose objects may approve a stage (``HARBORMASTER_ANALYSIS_KINDS``), as ``PLURAL.GROUP``.
        cluster_api: Whether it upgrades members by Cluster API (``HARBORMASTER_UPGRADERS``).
        nodes: Rights on the nodes of the hub (``HARBORMASTER_NODE_DISRUPTION_MODE``).
    """
    rules = [
        *_reconcile_rules(),
        *_pool_rules("Events of node pools that allow no disruption: their nodes are counted", COUNTED_KINDS),
        *_reading(selected),
        *_grouped(
            "their conditions may approve a stage of a run", ("get",), _sorted(map(_rbac_resource, analysis_kinds))
        ),
    ]
    if back_report:
        rules += _back_reporting(selected)
    if cluster_api:
        rules += _of_cluster_api()
    rules += nodes.rules()
    leading_rules = (
        PolicyRule(
            "acquire the leader Lease (create cannot be limited to a name)",
            ("create",),
            (RbacResource.of(kinds.LEASE),),
        ),
        PolicyRule("renew the leader Lease", ("get", "update"), (RbacResource.of(kinds.LEASE),), (lease,)),
        PolicyRule(
            "create the keys that sign Works once (create cannot be limited to a name)",
            ("create",),
            (RbacResource.of(SECRET),),
        ),
        PolicyRule("the keys that sign Works", ("get",), (RbacResource.of(SECRET),), (WORK_KEYS,)),
        _reserving(),
        _remembering(),
    )
    return Role("harbormaster-reconcile", tuple(rules)), Role("harbormaster-reconcile", leading_rules, namespace)


def _reconcile_rules() -> Iterator[PolicyRule]:
    made_kinds = [
        *(kind for family in FAMILIES for kind in (family.policy_snapshot, family.resource_snapshot, family.binding)),
        *(family.override_snapshot for family in FAMILIES),
    ]
    reported_kinds = [
        kind for family in FAMILIES for kind in (family.placement, family.policy_snapshot, family.binding)
    ]
    yield _rule("placements: read, and their finalizers kept", KEPT, PLACEMENTS)
    yield _rule(
        "snapshots block the deletion of their placement, which hubs with OwnerReferencesPermissionEnforcement check",
        ("update",),
        PLACEMENTS,
        "finalizers",
    )
    yield _rule("snapshots and bindings: the loop creates all of them", OWN, made_kinds)
    yield _rule("status of placements, decisions and bindings", ("update",), reported_kinds, "status")
    overrides = [family.override for family in FAMILIES]
    yield _rule("overrides: read, and their finalizers kept", KEPT, overrides)
    yield _rule("evictions: read and annotated", KEPT, [kinds.EVICTION])
    yield _rule("status of evictions", ("update",), [kinds.EVICTION], "status")
    runs = [family.run for family in FAMILIES]
    requests = [family.approval_request for family in FAMILIES]
    yield _rule("staged update strategies: read", READ, [family.strategy for family in FAMILIES])
    yield _rule(
        "staged update runs: read, finalizers and annotations kept, and rollback runs created",
        (*KEPT, "create"),
        runs,
    )
    yield _rule("approval requests: the loop creates all of them", OWN, requests)
    yield _rule("status of runs and approval requests", ("update",), [*runs, *requests], "status")
    yield from _upgrading()
    own = (*made_kinds, *runs, kinds.EVICTION, kinds.UPGRADE_RUN)
    seen_kinds = [kind for kind in seen_in(tuple(MemberDisruption)) if kind not in own]
    reason = "other disruptions of a member: only one kind runs at a time"
    yield from _grouped(reason, READ, _sorted(map(RbacResource.of, seen_kinds)))
    yield _rule(
        "budgets of placements are read for evictions, and for upgrade runs that protect placements",
        ("get", "list"),
        [kinds.DISRUPTION_BUDGET],
    )
    yield _rule("Works: the loop creates all of them", OWN, [kinds.WORK])
    yield _rule(
        "the status of a placement, copied into the namespace that it selects",
        ("create", "get", "list", "update", "watch"),
        [kinds.PLACEMENT_STATUS],
    )
    yield _rule("members: read, and their finalizers kept", KEPT, [kinds.MEMBER_CLUSTER])
    yield _rule("maintenance windows: members are not disrupted outside of them", READ, [kinds.MAINTENANCE_WINDOW])
    yield _rule("status of members", ("update",), [kinds.MEMBER_CLUSTER], "status")
    yield _rule("the state that the hub and a member's agent exchange", OWN, [kinds.INTERNAL_MEMBER_CLUSTER])
    yield _rule("every member has its own namespace on the hub", OWN, [kinds.NAMESPACE])
    yield _rule(
        "every member's agent has a Role there",
        ("create", "get", "list", "update"),
        [_ROLE],
    )
    yield _rule(
        "and is bound to it (a binding to another role is replaced)",
        ("create", "delete", "get", "list", "update"),
        [_ROLE_BINDING],
    )
    for rule in agent_rules():
        resources = tuple(RbacResource(rule["apiGroups"][0], plural) for plural in rule["resources"])
        yield PolicyRule("rights of that Role, held only to grant them", tuple(sorted(rule["verbs"])), resources)
    yield _rule("events on placements and members", ("create", "get", "update"), [EVENT])
    yield _rule("kinds that are defined, and when one is added", READ, [kinds.CUSTOM_RESOURCE_DEFINITION])


def _upgrading() -> Iterator[PolicyRule]:
    """Yield the rules for upgrades of members. Back ends that change the clusters themselves have their own roles."""
    profile, strategy, catalog = kinds.UPGRADE_PROFILE, kinds.UPGRADE_STRATEGY, kinds.VERSION_CATALOG
    run, gate, request = kinds.UPGRADE_RUN, kinds.UPGRADE_GATE, kinds.UPGRADE_REQUEST
    yield _rule("inputs of upgrades: strategies, profiles, published versions", READ, [strategy, profile, catalog])
    yield _rule(
        "upgrade runs: read, finalizers and annotations kept, runs of profiles created, and old runs deleted",
        (*KEPT, "create", "delete"),
        [run],
    )
    yield _rule("gates, and requests to external upgraders: the loop creates all of them", OWN, [gate, request])
    reported_kinds = [run, gate, request, strategy, profile]
    yield _rule("status of upgrades", ("update",), reported_kinds, "status")


def _of_cluster_api() -> Iterator[PolicyRule]:
    """Yield the rules for upgrades by Cluster API. Kinds of control planes are defined by providers."""
    clusters = RbacResource(CLUSTER_API_GROUP, "clusters")
    plurals = ("clusterclasses", "machinedeployments", "machinepools")
    yield PolicyRule("Cluster API: clusters are upgraded by their topology", ("get", "update"), (clusters,))
    yield PolicyRule(
        "Cluster API: progress of an upgrade",
        ("get", "list"),
        tuple(RbacResource(CLUSTER_API_GROUP, plural) for plural in plurals),
    )
    yield PolicyRule(
        "Cluster API: versions of control planes",
        ("get",),
        (RbacResource(f"controlplane.{CLUSTER_API_GROUP}", "*"),),
    )


def serve_roles(
    namespace: str = OWN_NAMESPACE,
    *,
    networking_agents: bool = False,
    certificate_secret: str = "",
    webhook_configuration: str = "harbormaster",
    hand_off: bool = False,
    upgrade_orders: bool = True,
    node_pools: bool = True,
    team_answers: bool = False,
) -> tuple[Role, ...]:
    """Return the roles of ``harbormaster serve`` on the hub.

    Args:
        namespace: Namespace of its reservations.
        networking_agents: Whether members run networking agents, too (``HARBORMASTER_NETWORKING_AGENTS``).
        certificate_secret: Secret of its certificate authority, in that namespace. Empty: none.
        webhook_configuration: Name of the two configurations that trust the authority.
        hand_off: Whether upgraders report to it (``HARBORMASTER_HANDOFF_SECRET_FILE``).
        upgrade_orders: Whether callers order upgrade runs by ``/v1``. With a kubeconfig, their own rights count.
        node_pools: Whether it answers questions about node pools, and enforces their budgets.
        team_answers: Whether it serves the aggregated API for teams (``HARBORMASTER_TEAM_ANSWERS``).
    """
    history = [kind for family in FAMILIES for kind in (family.placement, family.binding, family.policy_snapshot)]
    runs = [family.approval_request for family in FAMILIES]
    readable = (*WATCHED, *GATED_KINDS, *history, *runs, *UPGRADE_KINDS)
    watched_resources = {RbacResource.of(kind) for kind in (*ADMISSION_KINDS, *WANTED_KINDS, *PLANNED_KINDS, *readable)}
    rules = list(_grouped("inputs of admission, plans, gates and the extender", READ, _sorted(watched_resources)))
    if node_pools:
        rules += _pool_rules("nodes of pools are counted, and pods that block their disruption", POOL_KINDS)
    if networking_agents:
        subject = "a member that still exports services must not leave"
        rules.append(_rule(subject, READ, [INTERNAL_SERVICE_EXPORT]))
    rules += [
        PolicyRule("the user of a bearer token", ("create",), (RbacResource("authentication.k8s.io", "tokenreviews"),)),
        PolicyRule(
            "rights of a caller, or of the author of a placement",
            ("create",),
            (RbacResource("authorization.k8s.io", "subjectaccessreviews"),),
        ),
    ]
    rules.append(_rule("a plan respects the budgets of placements", ("list",), [kinds.DISRUPTION_BUDGET]))
    orders = (
        _rule(
            "runs are started, stopped and generated for authorized callers", ("create", "update"), [kinds.UPGRADE_RUN]
        ),
        _rule("the user who answers a gate is recorded on it", ("patch",), [kinds.UPGRADE_GATE]),
        _rule("gates are answered for authorized callers", ("update",), [kinds.UPGRADE_GATE], "status"),
    )
    rules += orders if upgrade_orders else ()
    rules.append(
        _rule(
            "Events report refused orders, and rotations of the certificate authority",
            ("create", "get", "update"),
            [EVENT],
        )
    )
    if hand_off:
        subject = "signed reports of upgraders over HTTPS"
        rules.append(_rule(subject, ("update",), [kinds.UPGRADE_REQUEST], "status"))
    own = [_reserving(), _remembering()]
    if certificate_secret:
        reason = "the webhook configurations get our certificate authority, and have the path that the API server calls"
        rules.append(_followed(reason, webhook_configuration, ("get", "patch", "watch")))
        own += _keeping(certificate_secret)
        if team_answers:
            reason = "the APIService of the aggregated API for teams gets our certificate authority"
            resources = (RbacResource.of(API_SERVICE_KIND),)
            rules.append(PolicyRule(reason, ("get", "patch", "watch"), resources, (API_SERVICE,)))
    else:
        rules.append(
            _followed(
                "the webhook configurations have the path that the API server calls",
                webhook_configuration,
                ("get", "watch"),
            )
        )
    reader = Role(AUTHORITIES_READER, (), "kube-system")
    return Role("harbormaster-serve", tuple(rules)), Role("harbormaster-serve", tuple(own), namespace), reader


def _followed(reason: str, configuration: str, verbs: tuple[str, ...]) -> PolicyRule:
    return PolicyRule(reason, verbs, tuple(map(RbacResource.of, CONFIGURATIONS)), (configuration,))


def _keeping(secret: str) -> tuple[PolicyRule, ...]:
    resources = (RbacResource.of(SECRET),)
    return (
        PolicyRule("create the certificate authority (create cannot be limited to a name)", ("create",), resources),
        PolicyRule("watch and renew it", ("get", "update", "watch"), resources, (secret,)),
    )


def agent_roles(
    applied: SelectedResources,
    namespace: str = OWN_NAMESPACE,
    *,
    apply_rbac: bool = False,
    nodes: NodeRights = NodeRights(),  # noqa: B008 - it is frozen
) -> tuple[Role, ...]:
    """Return the roles of ``harbormaster agent`` on its member. On the hub the loop makes its Role.

    Args:
        applied: Kinds that it may apply.
        namespace: Namespace of the agent, with the record of the member's hub and with the token for the hub.
        apply_rbac: Whether it may place roles and bind them, and can thus grant itself any right.
        nodes: Rights on the nodes of the member (``HARBORMASTER_NODE_DISRUPTION_MODE``).
    """
    rules = [
        _rule("AppliedWorks record what was applied for each Work", OWN, [kinds.APPLIED_WORK]),
        _rule("their status lists the applied objects", ("update",), [kinds.APPLIED_WORK], "status"),
        _rule(
            "applied objects block the deletion of their owner, which OwnerReferencesPermissionEnforcement checks",
            ("update",),
            [kinds.APPLIED_WORK],
            "finalizers",
        ),
        _rule("properties of the member: nodes and their available resources", READ, [kinds.NODE, kinds.POD]),
        _rule("the namespaces of the member", READ, [kinds.NAMESPACE]),
        _rule("kinds that the member serves", READ, [kinds.CUSTOM_RESOURCE_DEFINITION]),
        _rule("Events on objects that are kept although their Work was deleted", ("create",), [EVENT]),
        PolicyRule("health and version of the member", ("get",), paths=("/readyz", "/version")),
    ]
    rules += _touching("objects that placements place on this member", APPLY, applied)
    if apply_rbac:
        rules += [
            _rule("roles that placements place", APPLY, RBAC_KINDS),
            _rule("roles may have more rights than the agent", ("bind", "escalate"), [_ROLE, CLUSTER_ROLE]),
        ]
    rules += nodes.rules()
    reason = "identity of this member: its hub, and its name there"
    record = (
        PolicyRule(f"{reason}; create cannot be limited to a name", ("create",), (RbacResource.of(CONFIG_MAP),)),
        PolicyRule(reason, ("get", "update"), (RbacResource.of(CONFIG_MAP),), (RECORD,)),
        PolicyRule(
            "token for the hub, which the agent renews", ("get", "update"), (RbacResource.of(SECRET),), (HUB_SECRET,)
        ),
        *nodes.own_rules(NODE_LEASE),
    )
    return Role("harbormaster-agent", tuple(rules)), Role("harbormaster-agent", record, namespace)


def checked_applied(applied: SelectedResources) -> SelectedResources:
    """Return *applied* if an agent can apply all of it without ``apply_rbac``.

    Raises:
        UnknownKindError: *applied* includes roles, which require more than the right to write them.
    """
    apart = {RbacResource.of(kind) for kind in RBAC_KINDS}
    for resource in applied.resources:
        if resource in apart:
            raise UnknownKindError(f"{resource.plural!r}: placing roles requires more rights: --apply-rbac")
    return applied


def _reading(selected: SelectedResources) -> Iterator[PolicyRule]:
    yield from _touching("kinds that placements select", READ, selected)


def _touching(reason: str, verbs: tuple[str, ...], selected: SelectedResources) -> Iterator[PolicyRule]:
    """Yield one rule per group. Secrets have their own rule, so that it can be removed."""
    if selected.everything:
        yield PolicyRule(f"{reason}: every kind, including Secrets", verbs, (EVERYTHING,))
        return
    secrets = RbacResource.of(SECRET)
    yield from _grouped(reason, verbs, [resource for resource in selected.resources if resource != secrets])
    if secrets in selected.resources:
        yield PolicyRule(f"{reason} too: all Secrets. Omit this rule if no Secrets are placed", verbs, (secrets,))


def _back_reporting(selected: SelectedResources) -> Iterator[PolicyRule]:
    reason = "status of placed objects on their member, written back to the hub"
    if selected.everything:
        yield PolicyRule(reason, ("update",), (replace(EVERYTHING, plural="*/status"),))
        return
    without = {RbacResource.of(kind) for kind in (*BUILT_IN, *_ENVELOPES) if kind.group_kind not in _WITH_STATUS}
    with_status = [
        RbacResource(resource.group, f"{resource.plural}/status")
        for resource in selected.resources
        if resource not in without
    ]
    yield from _grouped(reason, ("update",), with_status)


def _grouped(reason: str, verbs: tuple[str, ...], resources: Iterable[RbacResource]) -> Iterator[PolicyRule]:
    by_group: dict[str, list[RbacResource]] = {}
    for resource in resources:
        by_group.setdefault(resource.group, []).append(resource)
    for resources_of_group in by_group.values():
        yield PolicyRule(reason, verbs, tuple(resources_of_group))


def _rule(reason: str, verbs: Iterable[str], kinds: Sequence[Kind], subresource: str = "") -> PolicyRule:
    assert len({kind.group for kind in kinds}) == 1, reason
    return PolicyRule(reason, tuple(sorted(verbs)), tuple(RbacResource.of(kind, subresource) for kind in kinds))


def _sorted(resources: Iterable[RbacResource]) -> tuple[RbacResource, ...]:
    return tuple(sorted(resources))
