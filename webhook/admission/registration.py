"""The webhook configurations, generated from the registry of kinds: the writes that the API server sends for review.

Every entry is for one kind, so that metrics and errors of the API server name the kind. Entries for writes that must
always be reviewed fail closed. Entries that only yield warnings, or that guard objects written by controllers, fail
open. A broken webhook must not affect the rest of the cluster. There are therefore no wildcards, and no built-in kinds
unless a guard rail for one or the enforcement of budgets is enabled. Exceptions are deletions of our own definitions,
of members' namespaces and of the installation's namespace, and writes that may remove content from members.

Source: docs/specifications/serving.md 1.2, 1.3, 1.11; docs/specifications/nodepool-disruption.md 13.
"""

import json
from base64 import b64encode
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Final, Literal

from scorer.api import kinds
from scorer.api.family import FAMILIES
from scorer.api.kinds import Kind
from scorer.api.meta import JsonObject
from scorer.api.names import MEMBER_NAMESPACE_PREFIX, SYSTEM_NAMESPACE_PREFIXES
from scorer.api.node_class import NODE_CLASSES
from scorer.api.node_pool import NODE_POOL_LABEL
from webhook.admission.admitted import Admitted, Operation
from webhook.admission.registry import REGISTRY
from webhook.admission.removal_effects import PASSING_USERS
from webhook.settings.admission import OWN_CONTROLLER, AdmissionSettings, PlacementAuthorization
from webhook.validation.guard_rails.deletions import GUARDED_GROUPS

CONFIGURATION: Final = "harbormaster"
"""Name of both configurations."""
DOMAIN: Final = "harbormaster.dev"

SECONDS: Final = 5
DELETION_SECONDS: Final = 2
GUARD_SECONDS: Final = 1
ENFORCEMENT_SECONDS: Final = 3
"""Timeout of the hooks that enforce budgets. Longer, because a reservation is read and written before the answer."""
ENFORCEMENT_PATH: Final = "/validate/disruption"

FailurePolicy = Literal["Fail", "Ignore"]

_WRITTEN_BY_MACHINES: Final = frozenset(
    kind
    for family in FAMILIES
    for kind in (family.binding, family.policy_snapshot, family.resource_snapshot, family.override_snapshot)
)
"""Kinds whose content is placed or determines how and where. The rights of a user who writes one are reviewed."""
_GUARDED: Final = frozenset({kinds.WORK, kinds.INTERNAL_MEMBER_CLUSTER})
_JUDGED_BY_REMOVALS: Final = frozenset(
    {
        *(kind for family in FAMILIES for kind in (family.envelope, family.resource_snapshot, family.policy_snapshot)),
    }
)
"""Kinds whose deletion may remove content from members. No other rules apply to it."""
_CONFIRMED_BY: Final = frozenset(kind for family in FAMILIES for kind in (family.placement, family.binding))
"""Annotations of these kinds confirm removals, even while the object is being deleted."""
_LABELLED_BY: Final = ("namespaces/finalize", "namespaces/status")
"""Subresources of Namespaces that can change labels, too."""
_ORDER: Final[tuple[Operation, ...]] = ("CREATE", "UPDATE", "DELETE")


@dataclass(frozen=True, slots=True)
class WebhookEndpoint:
    """Address of the webhook for the API server: a Service in the cluster, or a URL.

    Args:
        namespace: Namespace of the installation.
        service: Name of the Service.
        port: Port of the Service.
        url: ``https://host:port``. Empty: the Service is used.
        ca_pem: CA that the API server trusts. Empty: injected at run time.
        user: User name of the reconcile loop. Its writes are not sent for review.
        secret_path: Path prefix of every hook. See `webhook.settings.secret_files`.
    """

    namespace: str = "harbormaster-system"
    service: str = "harbormaster"
    port: int = 443
    url: str = ""
    ca_pem: bytes = b""
    user: str = OWN_CONTROLLER
    secret_path: str = ""

    def client(self, path: str) -> JsonObject:
        """Return ``clientConfig`` of a hook."""
        path = self.secret_path + path
        address: JsonObject = (
            {"url": self.url.rstrip("/") + path}
            if self.url
            else {"service": {"namespace": self.namespace, "name": self.service, "port": self.port, "path": path}}
        )
        return address | ({"caBundle": b64encode(self.ca_pem).decode("ascii")} if self.ca_pem else {})


def webhook_configurations(endpoint: WebhookEndpoint, settings: AdmissionSettings) -> tuple[JsonObject, JsonObject]:
    """Return the ValidatingWebhookConfiguration and the MutatingWebhookConfiguration.

    Args:
        endpoint: Address of the webhook.
        settings: Settings of admission, such as the enabled guard rails.
    """
    validating: list[JsonObject] = []
    if settings.protect_deletions:
        validating += _deletion_hooks(endpoint, settings)
    if not settings.removal.is_off:
        validating += _removal_hooks(endpoint, settings)
    for entry in REGISTRY.values():
        make = _guard_hooks if entry.kind.built_in else _hooks
        validating += make(entry, endpoint, settings)
    if settings.enforce_budgets:
        validating += _enforcement_hooks(endpoint, settings)
    mutating = [hook for entry in REGISTRY.values() for hook in _mutating_hooks(entry, endpoint)]
    return _configuration("Validating", validating), _configuration("Mutating", mutating)


def _configuration(word: str, hooks: list[JsonObject]) -> JsonObject:
    return {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": f"{word}WebhookConfiguration",
        "metadata": {"name": CONFIGURATION},
        "webhooks": hooks,
    }


def _hooks(entry: Admitted, endpoint: WebhookEndpoint, settings: AdmissionSettings) -> Iterator[JsonObject]:
    """Yield the validating entries of one of our kinds: writes, deletions, the status."""
    kind, plural = entry.kind, entry.kind.plural
    path = f"/validate/{kind.group}/{plural}"
    if kind in _JUDGED_BY_REMOVALS and settings.removal.is_off:
        entry = replace(entry, operations=entry.operations - {"DELETE"})
    apart = "DELETE" in entry.operations and kind not in _GUARDED and entry.refuse_deletion is None
    operations = entry.operations - {"DELETE"} if apart else entry.operations
    enforced = settings.placement_authorization is PlacementAuthorization.ENFORCE
    if enforced and kind in (*_WRITTEN_BY_MACHINES, kinds.WORK):
        hook = _hook(endpoint, f"{plural}.content", path, kind, {"CREATE", "UPDATE"}, (plural,), "Fail", SECONDS)
        hook["matchConditions"].append(_NEW_CONTENT)
        yield hook
    if kind in _GUARDED:
        if settings.protect_works:
            resources = (plural, f"{plural}/status")
            yield _hook(endpoint, plural, path, kind, operations, resources, "Ignore", GUARD_SECONDS)
        return
    if operations:
        policy: FailurePolicy = "Ignore" if kind in (*_WRITTEN_BY_MACHINES, *NODE_CLASSES) else "Fail"
        seconds = DELETION_SECONDS if kind in NODE_CLASSES else SECONDS
        hook = _hook(endpoint, plural, path, kind, operations, (plural,), policy, seconds)
        guarded = settings.guard_rail and entry.guards and kind not in _WRITTEN_BY_MACHINES
        if "UPDATE" in operations and not guarded:
            hook["matchConditions"].append(_NOT_DELETED_OR_CONFIRMED if kind in _CONFIRMED_BY else _NOT_BEING_DELETED)
        yield hook
    if apart:
        yield _hook(endpoint, f"{plural}.delete", path, kind, {"DELETE"}, (plural,), "Ignore", DELETION_SECONDS)
    if entry.warn_about_status is not None or (kind == kinds.MEMBER_CLUSTER and settings.guard_rail):
        status = (f"{plural}/status",)
        yield _hook(endpoint, f"{plural}.status", path, kind, {"UPDATE"}, status, "Ignore", DELETION_SECONDS)
    if entry.validate_status is not None:
        hook = _hook(endpoint, f"{plural}.status", path, kind, {"UPDATE"}, (f"{plural}/status",), "Fail", SECONDS)
        hook["matchConditions"].append(_NOT_BEING_DELETED)
        yield hook


def _guard_hooks(entry: Admitted, endpoint: WebhookEndpoint, settings: AdmissionSettings) -> Iterator[JsonObject]:
    """Yield the entry of a guard rail on a built-in kind, if enabled. It never applies to our own namespace."""
    kind = entry.kind
    switched_on = {
        "Pod": settings.block_workloads,
        "ReplicaSet": settings.block_workloads,
        "PodDisruptionBudget": settings.block_pod_disruption_budgets,
        "CustomResourceDefinition": settings.guard_rail,
        "Namespace": settings.guard_rail,
    }
    if switched_on.get(kind.kind, False):
        judges_removals = kind in (kinds.NAMESPACE, kinds.CUSTOM_RESOURCE_DEFINITION) and not settings.removal.is_off
        seconds = DELETION_SECONDS if judges_removals else GUARD_SECONDS
        name, resources = f"{kind.plural}.guard", (kind.plural,)
        hook = _hook(endpoint, name, "/validate", kind, entry.operations, resources, "Ignore", seconds)
        ours = {"key": "kubernetes.io/metadata.name", "operator": "NotIn", "values": [endpoint.namespace]}
        yield hook | {"namespaceSelector": {"matchExpressions": [ours]}}


def _deletion_hooks(endpoint: WebhookEndpoint, settings: AdmissionSettings) -> Iterator[JsonObject]:
    """Yield the entries for deletions of our own definitions, of members' namespaces and of ours, and for nothing else.

    They fail open, so that a hub can be dismantled while no replica answers. The expressions use the name of the stored
    object, since the requests of a deletecollection have none.
    """
    ours = json.dumps(sorted(GUARDED_GROUPS))
    definition = f"oldObject.spec.group in {ours}"
    home = f"oldObject.metadata.name == {json.dumps(endpoint.namespace)}"
    space = f'oldObject.metadata.name.startsWith("{MEMBER_NAMESPACE_PREFIX}")'
    expressions = {kinds.CUSTOM_RESOURCE_DEFINITION: definition, kinds.NAMESPACE: f"{space} || {home}"}
    if settings.guard_rail:  # its entries already match all of these except our namespace
        expressions = {kinds.NAMESPACE: home}
    for kind, expression in expressions.items():
        name = f"{kind.plural}.deletion"
        hook = _hook(endpoint, name, "/validate", kind, {"DELETE"}, (kind.plural,), "Ignore", GUARD_SECONDS)
        hook["matchConditions"] += [{"name": "of-the-fleet", "expression": expression}, _NOT_DELETED_YET]
        yield hook


def _removal_hooks(endpoint: WebhookEndpoint, settings: AdmissionSettings) -> Iterator[JsonObject]:
    """Yield the entries for writes of Kubernetes' kinds that may remove content from members.

    They fail open after a short timeout. Writes in reserved namespaces, and those of the controllers that finish
    deletions, are not sent for review. If the guard rail is on, its entries already match definitions, and Namespaces
    except their subresources.
    """
    judged: tuple[tuple[Kind, tuple[Operation, ...], tuple[str, ...]], ...] = (
        (kinds.NAMESPACE, ("UPDATE", "DELETE"), ("namespaces", *_LABELLED_BY)),
        (kinds.VOLUME_CLAIM, ("DELETE",), ("persistentvolumeclaims",)),
        (kinds.CUSTOM_RESOURCE_DEFINITION, ("DELETE",), ("customresourcedefinitions",)),
    )
    for kind, operations, resources in judged:
        if settings.guard_rail and kind == kinds.CUSTOM_RESOURCE_DEFINITION:
            continue
        if settings.guard_rail and kind == kinds.NAMESPACE:
            operations, resources = ("UPDATE",), _LABELLED_BY
        relabels = "UPDATE" in operations
        name = f"{kind.plural}.removal"
        hook = _hook(endpoint, name, "/validate", kind, operations, resources, "Ignore", DELETION_SECONDS)
        hook["matchConditions"] += [_NOT_A_CONTROLLER, _NOT_DELETED_OR_RELABELLED if relabels else _NOT_DELETED_YET]
        if kind != kinds.CUSTOM_RESOURCE_DEFINITION:
            field = "namespace" if kind.namespaced else "name"
            hook["matchConditions"].append(_not_reserved(f"oldObject.metadata.{field}", endpoint))
        if relabels:
            hook["matchConditions"].append(_RELABELLED)
        yield hook
    if settings.removal.exempt is not None and not settings.guard_rail:
        yield _exemption_hook(endpoint, *settings.removal.exempt)


def _exemption_hook(endpoint: WebhookEndpoint, key: str, value: str) -> JsonObject:
    """Return the entry for Namespaces that are created exempt from confirmation. It matches no other creation."""
    name, seconds = "namespaces.exemption", DELETION_SECONDS
    hook = _hook(endpoint, name, "/validate", kinds.NAMESPACE, ("CREATE",), ("namespaces",), "Ignore", seconds)
    labels, quoted = "object.metadata.labels", json.dumps(key)
    is_exempt = f"has({labels}) && {quoted} in {labels} && {labels}[{quoted}] == {json.dumps(value)}"
    hook["matchConditions"] += [_NOT_A_CONTROLLER, {"name": "exempt", "expression": is_exempt}]
    return hook


def _not_reserved(name: str, endpoint: WebhookEndpoint) -> JsonObject:
    """Return the condition that a namespace is neither that of the installation nor a system namespace."""
    reserved = [f"{name} == {json.dumps(endpoint.namespace)}"]
    reserved += [f'{name}.startsWith("{prefix}")' for prefix in SYSTEM_NAMESPACE_PREFIXES]
    return {"name": "not-reserved", "expression": f"!({' || '.join(reserved)})"}


def _enforcement_hooks(endpoint: WebhookEndpoint, settings: AdmissionSettings) -> Iterator[JsonObject]:
    """Yield the entries that enforce the budgets of pools on deletions and drains of nodes.

    Writes of exempt users are not sent for review. Neither are deletions of objects without a pool, or of objects that
    are already being deleted.
    """
    exempt = json.dumps(sorted(settings.enforcement_exempt_users), ensure_ascii=False)
    not_exempt = {"name": "not-exempt", "expression": f"!(request.userInfo.username in {exempt})"}
    of_a_pool = {"matchExpressions": [{"key": NODE_POOL_LABEL, "operator": "Exists"}]}

    def hook(kind: Kind, resource: str, operation: Operation) -> JsonObject:
        name = f"{resource.replace('/', '.')}.disruption"
        hook_document = _hook(
            endpoint, name, ENFORCEMENT_PATH, kind, {operation}, (resource,), "Ignore", ENFORCEMENT_SECONDS
        )
        hook_document["matchConditions"].append(not_exempt)
        return hook_document | {"sideEffects": "NoneOnDryRun"}

    for kind in (kinds.NODE_CLAIM, kinds.NODE):
        deletion = hook(kind, kind.plural, "DELETE")
        deletion["matchConditions"].append(_NOT_DELETED_YET)
        yield deletion | {"objectSelector": of_a_pool}
    yield hook(kinds.POD, "pods/eviction", "CREATE")


def _mutating_hooks(entry: Admitted, endpoint: WebhookEndpoint) -> Iterator[JsonObject]:
    """Yield the mutating entries of a kind: the object, the status."""
    kind, plural = entry.kind, entry.kind.plural
    path, again = f"/mutate/{kind.group}/{plural}", {"reinvocationPolicy": "IfNeeded"}
    if entry.default is not None:
        yield _hook(endpoint, plural, path, kind, {"CREATE", "UPDATE"}, (plural,), "Ignore", SECONDS) | again
    if entry.default_status is not None:
        status = (f"{plural}/status",)
        yield _hook(endpoint, f"{plural}.status", path, kind, {"UPDATE"}, status, "Ignore", DELETION_SECONDS) | again


def _changes(field: str) -> str:
    """Return the CEL expression for a change of the labels or annotations of an object."""
    new, old = f"object.metadata.{field}", f"oldObject.metadata.{field}"
    return f"has({new}) != has({old}) || (has({new}) && {new} != {old})"


_NOT_BEING_DELETED: Final = {
    "name": "not-being-deleted",
    "expression": 'request.operation != "UPDATE" || !has(object.metadata.deletionTimestamp)',
}
"""An update of an object that is being deleted is always allowed. With this condition, finalizers can be removed even
while no replica answers."""

_NOT_DELETED_OR_CONFIRMED: Final = {
    "name": _NOT_BEING_DELETED["name"],
    "expression": f"{_NOT_BEING_DELETED['expression']} || {_changes('annotations')}",
}
"""A deleted placement may wait for confirmation, which is an annotation that requires a right (RC-21). The mark of a
deleted binding, which orders the removal of its content, also requires a right."""

_NEW_CONTENT: Final = {
    "name": "new-content",
    "expression": (
        'request.operation != "UPDATE" || object.spec != oldObject.spec || '
        "!has(object.metadata.labels) || !has(oldObject.metadata.labels) || "
        "object.metadata.labels != oldObject.metadata.labels"
    ),
}
"""An object that is being deleted is placed until it is deleted, so updates of it are reviewed as well."""

_NOT_DELETED_YET: Final = {
    "name": "not-deleted-yet",
    "expression": "!has(oldObject.metadata.deletionTimestamp)",
}

_NOT_DELETED_OR_RELABELLED: Final = {
    "name": _NOT_DELETED_YET["name"],
    "expression": f'request.operation == "UPDATE" || {_NOT_DELETED_YET["expression"]}',
}
"""A Namespace that is being deleted can still be labeled exempt, which requires a right (RC-21)."""

_NOT_A_CONTROLLER: Final = {
    "name": "not-a-controller",
    "expression": f"!(request.userInfo.username in {json.dumps(sorted(PASSING_USERS))})",
}

_RELABELLED: Final = {
    "name": "other-labels",
    "expression": f'request.operation != "UPDATE" || {_changes("labels")}',
}


def _hook(
    endpoint: WebhookEndpoint,
    name: str,
    path: str,
    kind: Kind,
    operations: Iterable[Operation],
    resources: Iterable[str],
    failure_policy: FailurePolicy,
    seconds: int,
) -> JsonObject:
    verb = path.split("/")[1]  # /validate… or /mutate…
    operation_set = set(operations)
    ours = json.dumps(endpoint.user, ensure_ascii=False)
    return {
        "name": f"{name}.{verb}.{DOMAIN}",
        "clientConfig": endpoint.client(path),
        "admissionReviewVersions": ["v1"],
        "matchPolicy": "Equivalent",
        "failurePolicy": failure_policy,
        "sideEffects": "None",
        "timeoutSeconds": seconds,
        "rules": [
            {
                "operations": [operation for operation in _ORDER if operation in operation_set],
                "apiGroups": [kind.group],
                "apiVersions": sorted(kind.versions),
                "resources": list(resources),
                "scope": "Namespaced" if kind.namespaced else "Cluster",
            }
        ],
        "matchConditions": [{"name": "not-our-own-controller", "expression": f"request.userInfo.username != {ours}"}],
    }
