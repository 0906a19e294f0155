"""Guard rails: which user may write which object, regardless of its content.

They are separate from validity: a refusal is "forbidden", not "invalid", and applies to finalizer updates and deletions
too. All are off by default, except the protection of Works and bindings (G-11, G-20) and of deletions (G-17 to G-19),
and of approvals (X-50), which has no setting. A forged Work executes code on a member, and an approval that is created
in advance bypasses the gate.
`webhook.validation.guard_rails.deletions` has the guard rails against accidental deletions.

Source: docs/specifications/placement-api.md 8, X-50; KubeFleet pkg/webhook/fleetresourcehandler. Unlike there, users
    that count as admins are a setting, service accounts as such are not trusted (every agent is one), G-10 applies to
    ``fleet-*`` only, and G-11 to Works and InternalMemberClusters only.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from scorer.api.kinds import KINDS, MEMBER_CLUSTER, POD
from scorer.api.meta import JsonObject, json_equal, without_nulls
from scorer.api.names import (
    CLUSTER_GROUP,
    FLEET,
    MEMBER_NAMESPACE_PREFIX,
    PLACEMENT_GROUP,
    SYSTEM_NAMESPACE_PREFIXES,
    WORK_CLEANUP,
)
from scorer.api.placement.binding import BindingState
from scorer.api.unstructured.documents import dict_at, name_of, namespace_of, spec_of
from scorer.api.values.quoting import quote
from webhook.access.user import UserInfo
from webhook.validation.framework.context import Context
from webhook.validation.framework.rule import CREATE, DELETE, OURS, UPDATE, Rule, Severity, deny, enforces, pick

REPLICA_SET: Final = KINDS["apps", "ReplicaSet"]

ADMIN_GROUPS: Final = ("system:masters", "kubeadm:cluster-admins")
TRUSTED_USERS: Final = (
    "system:kube-controller-manager",
    "system:serviceaccount:kube-system:generic-garbage-collector",
    "system:serviceaccount:kube-system:namespace-controller",
)
"""Components of Kubernetes that may write any object. kube-controller-manager runs as the last two."""
_FLEET_GROUPS: Final = frozenset(
    {CLUSTER_GROUP, PLACEMENT_GROUP, "networking.fleet.azure.com", "multicluster.x-k8s.io"}
)
_FLEET_ANNOTATION: Final = "fleet.azure.com"

_WORKLOADS: Final = "KubeFleet pkg/webhook"
_HANDLER: Final = "KubeFleet pkg/webhook/fleetresourcehandler"
_POLICIES: Final = "KubeFleet pkg/admissionpolicymanager"


def _left_to_others(rule_id: str, what: str, source: str) -> Rule:
    return Rule(rule_id, (Severity.NONE,), f"{what}: left to RBAC and admission policies.", source)


RULES: Final = (
    Rule(
        "G-01",
        (Severity.DENY,),
        "Pods must not be created on the hub, outside reserved namespaces (off by default).",
        _WORKLOADS,
        operations=CREATE,
        only=(POD,),
    ),
    Rule(
        "G-02",
        (Severity.DENY,),
        "ReplicaSets must not be created on the hub, outside reserved namespaces (off by default).",
        _WORKLOADS,
        operations=CREATE,
        only=(REPLICA_SET,),
    ),
    deny(
        "G-03",
        "PodDisruptionBudgets must not be created on the hub, outside reserved namespaces (off by default).",
        _WORKLOADS,
        on=CREATE,
    ),
    deny("G-04", "Only admins may write definitions of the fleet's groups (off by default).", _HANDLER),
    deny(
        "G-05",
        "Only trusted users may create or delete a managed member (off by default).",
        _HANDLER,
        on=CREATE | DELETE,
    ),
    deny(
        "G-06",
        "A managed member must keep at least one annotation that marks it as managed (off by default).",
        _HANDLER,
        on=UPDATE,
    ),
    deny(
        "G-07",
        "Only system:masters may change the labels of a managed member (off by default, with its own setting).",
        _HANDLER,
        on=UPDATE,
    ),
    deny(
        "G-08",
        "Only trusted users may change a managed member, except labels, taints and annotations (off by default).",
        _HANDLER,
        on=UPDATE,
    ),
    deny(
        "G-09",
        "An unmanaged member must remain unmanaged, and only trusted users may change its status (off by default).",
        _HANDLER,
        on=UPDATE,
    ),
    deny("G-10", "Only trusted users may write namespaces named fleet-* (off by default).", _HANDLER),
    deny(
        "G-11",
        "Only trusted users may write in a member's namespace. Its agent may write the status and its own finalizer.",
        _HANDLER,
    ),
    deny(
        "G-16",
        "Only admins may change the identity of a member (off by default, with its own setting).",
        OURS,
        on=UPDATE,
    ),
    deny("G-17", "The namespace of a member must not be deleted while the member exists.", OURS, on=DELETE),
    deny("G-18", "A definition of the fleet must not be deleted while objects of its kind exist.", OURS, on=DELETE),
    deny("G-19", "The namespace of the installation must not be deleted accidentally.", OURS, on=DELETE),
    deny(
        "G-20",
        "Only the loop and allowed users may set a binding to Unscheduled, which removes its content.",
        OURS,
        on=UPDATE,
    ),
    deny("X-50", "Only harbormaster may create approval requests.", OURS, on=CREATE),
)
LEFT_TO_OTHERS: Final = (
    _left_to_others("G-12", "Only trusted users write fleet objects in reserved namespaces", _HANDLER),
    _left_to_others("G-13", "Only trusted users write common objects in the system's namespaces", _HANDLER),
    _left_to_others("G-14", "Only trusted users write service accounts in reserved namespaces", _POLICIES),
    _left_to_others("G-15", "Pods and ReplicaSets are not created on the hub", _POLICIES),
)
"""Guard rails of the reference that are intentionally not implemented here."""


@dataclass(frozen=True, slots=True)
class ReviewedWrite:
    """One write, as guard rails receive it. *old* is None on CREATE, *new* is None on DELETE."""

    operation: str
    new: JsonObject | None
    old: JsonObject | None
    subresource: str = ""

    @property
    def subject(self) -> JsonObject:
        """The new object, else the stored one, else an empty object."""
        return self.new or self.old or {}


GuardRail: TypeAlias = Callable[[ReviewedWrite, Context], Iterator[str]]


def is_admin(user: UserInfo, context: Context) -> bool:
    """Return whether *user* is an administrator of the hub, by group or by setting."""
    return not user.groups.isdisjoint(ADMIN_GROUPS) or user.username in context.settings.allowed_users


def is_trusted(user: UserInfo, context: Context) -> bool:
    """Return whether *user* is an admin or a component of Kubernetes that may write any object."""
    return is_admin(user, context) or user.username in TRUSTED_USERS


@enforces(*pick(RULES, "G-01", "G-02"))
def guard_workload(write: ReviewedWrite, context: Context) -> Iterator[str]:
    """No new Pods and ReplicaSets on the hub, outside reserved and exempt namespaces (G-01, G-02)."""
    if context.settings.block_workloads and _is_in_user_namespace(write, context):
        yield "workloads must not run on the hub. Place them on member clusters"


@enforces(*pick(RULES, "G-03"))
def guard_pod_disruption_budget(write: ReviewedWrite, context: Context) -> Iterator[str]:
    """No new PodDisruptionBudgets on the hub, outside reserved and exempt namespaces (G-03)."""
    if context.settings.block_pod_disruption_budgets and _is_in_user_namespace(write, context):
        yield "a PodDisruptionBudget has no effect on the hub. To place it on members, put it in a ResourceEnvelope"


def _is_in_user_namespace(write: ReviewedWrite, context: Context) -> bool:
    namespace = namespace_of(write.subject)
    exempt = namespace.startswith(SYSTEM_NAMESPACE_PREFIXES) or namespace in context.settings.unblocked_namespaces
    return write.operation == "CREATE" and not exempt


@enforces(*pick(RULES, "G-04"))
def guard_definition(write: ReviewedWrite, context: Context) -> Iterator[str]:
    """Only admins may write definitions of the fleet's API groups (G-04)."""
    if not context.settings.guard_rail or write.operation not in {"CREATE", "UPDATE", "DELETE"}:
        return
    group = name_of(write.subject).partition(".")[2]
    if group in _FLEET_GROUPS and not is_admin(context.user, context):
        yield f"only admins may write definitions of the group {group}"


@enforces(*pick(RULES, "G-10"))
def guard_namespace(write: ReviewedWrite, context: Context) -> Iterator[str]:
    """Only trusted users may write namespaces named ``fleet-*`` (G-10)."""
    if not context.settings.guard_rail or not name_of(write.subject).startswith("fleet-"):
        return
    if not is_trusted(context.user, context):
        yield f"namespace {quote(name_of(write.subject))} is reserved"


@enforces(*pick(RULES, "G-11"))
def guard_member_work(write: ReviewedWrite, context: Context) -> Iterator[str]:
    """Only trusted users may write in a member's namespace. Its agent may write the status and its finalizer (G-11).

    The loop acts on the labels and annotations of a Work, and the garbage collector on its owner references. An agent
    that could change them could claim content of other members, or have its Works deleted.

    If the MemberCluster is not in the cache, the write passes: the agent's name is unknown.
    """
    namespace = namespace_of(write.subject)
    if not context.settings.protect_works or not namespace.startswith(MEMBER_NAMESPACE_PREFIX):
        return
    if is_trusted(context.user, context):
        return
    cluster = namespace.removeprefix(MEMBER_NAMESPACE_PREFIX)
    for member in context.existing(MEMBER_CLUSTER):
        if name_of(member) != cluster:
            continue
        if context.user.username not in _agent_names(member):
            yield f"only admins and the agent of member cluster {quote(cluster)} may write in its namespace"
        elif not write.subresource and _beyond_finalizer(write):
            yield f"the agent of a member cluster may change only the status and the finalizer {WORK_CLEANUP}"


def _beyond_finalizer(write: ReviewedWrite) -> bool:
    """Return whether a write changes more than the agent's finalizer."""
    if write.new is None or write.old is None:
        return True
    return not _equal_without_nulls(_without_finalizer(write.new), _without_finalizer(write.old))


def _without_finalizer(document: JsonObject) -> JsonObject:
    """Return the parts of an object that its agent must not change."""
    metadata = dict_at(document, "metadata")
    finalizers = [name for name in metadata.get("finalizers") or () if name != WORK_CLEANUP]
    remaining = {name: metadata.get(name) or None for name in ("labels", "annotations", "ownerReferences")}
    return {"spec": spec_of(document), **remaining, "finalizers": finalizers}


def _agent_names(member: JsonObject) -> set[str]:
    """Return the possible user names of the member's identity in requests."""
    identity = dict_at(member, "spec", "identity")
    name, namespace = str(identity.get("name", "")), str(identity.get("namespace") or "fleet-system")
    return {name, f"system:serviceaccount:fleet-system:{name}", f"system:serviceaccount:{namespace}:{name}"} - {""}


@enforces(*pick(RULES, "G-05", "G-06", "G-07", "G-08", "G-09"))
def guard_member_cluster(write: ReviewedWrite, context: Context) -> Iterator[str]:
    """Members with annotations of the managed service are reserved for trusted users (G-05 to G-09)."""
    if not context.settings.guard_rail:
        return
    new, old = write.new, write.old
    if write.operation == "UPDATE" and new is not None and old is not None:
        yield from _guard_member_update(new, old, context)
    elif _fleet_annotations(write.subject) and not is_trusted(context.user, context):
        yield "this member cluster is managed: only trusted users may create or delete it"


def _guard_member_update(new: JsonObject, old: JsonObject, context: Context) -> Iterator[str]:
    """Managed members follow G-06, G-07 and G-08, all others follow G-09."""
    trusted = is_trusted(context.user, context)
    if not _fleet_annotations(old):
        if _fleet_annotations(new):
            yield f"annotations of {_FLEET_ANNOTATION} must not be added to an existing member cluster"
        if not _equal_without_nulls(new.get("status"), old.get("status")) and not trusted:
            yield "only trusted users may change the status of a member cluster"
        return
    if not _fleet_annotations(new):
        yield f"at least one annotation of {_FLEET_ANNOTATION} must remain"
    locked = context.settings.deny_member_label_changes and "system:masters" not in context.user.groups
    if locked and _user_labels(new) != _user_labels(old):
        yield "the labels of a managed member cluster must not be changed"
    touched = (
        not _equal_without_nulls(_without_taints(new), _without_taints(old))
        or not _equal_without_nulls(new.get("status"), old.get("status"))
        or _fleet_annotations(new) != _fleet_annotations(old)
    )
    if touched and not trusted:
        yield (
            "this member cluster is managed: only trusted users may change anything except labels, taints and other "
            "annotations"
        )


@enforces(*pick(RULES, "G-16"))
def guard_identity(write: ReviewedWrite, context: Context) -> Iterator[str]:
    """Only admins may change a member's identity, because that user can read and write the member's Works (G-16)."""
    if not context.settings.identity_by_admins_only or write.operation != "UPDATE":
        return
    new, old = dict_at(write.new, "spec", "identity"), dict_at(write.old, "spec", "identity")
    if not _equal_without_nulls(new, old) and not is_admin(context.user, context):
        yield "only admins may change the identity of a member cluster"


@enforces(*pick(RULES, "G-20"))
def guard_binding_state(write: ReviewedWrite, context: Context) -> Iterator[str]:
    """Only the loop and allowed users may set a binding to Unscheduled, which removes its content (G-20)."""
    settings = context.settings
    if not settings.protect_works or write.operation != "UPDATE" or context.user.username in settings.allowed_users:
        return
    new, old = spec_of(write.new or {}).get("state"), spec_of(write.old or {}).get("state")
    if new == BindingState.UNSCHEDULED and new != old:
        yield (
            "only harbormaster may set a binding to Unscheduled. To remove a placement from a cluster, create "
            "an eviction"
        )


@enforces(*pick(RULES, "X-50"))
def guard_approval(write: ReviewedWrite, context: Context) -> Iterator[str]:
    """Users must not create approval requests: one created in advance could already be approved (X-50)."""
    del context
    if write.operation == "CREATE" and not write.subresource:
        yield "only harbormaster may create approval requests. Approve the one that it creates"


def _fleet_annotations(member: Mapping[str, Any]) -> dict[str, Any]:
    annotations = dict_at(member, "metadata", "annotations")
    return {key: value for key, value in annotations.items() if key.startswith(_FLEET_ANNOTATION)}


def _user_labels(member: Mapping[str, Any]) -> dict[str, Any]:
    labels = dict_at(member, "metadata", "labels")
    return {key: value for key, value in labels.items() if not key.startswith(FLEET)}


def _without_taints(member: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in spec_of(member).items() if key != "taints"}


def _equal_without_nulls(left: object, right: object) -> bool:
    return json_equal(without_nulls(left) or {}, without_nulls(right) or {})
