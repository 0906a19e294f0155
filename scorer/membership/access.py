"""Rights of a member's agent on the hub: a Role in the member's own namespace, and nothing outside it.

Source: docs/specifications/rollout.md 21.1.
"""

from collections.abc import Mapping
from typing import Any, Final

from scorer.api.kinds import EVENT, INTERNAL_MEMBER_CLUSTER, KINDS, NAMESPACE, WORK, Kind
from scorer.api.meta import JsonObject
from scorer.api.names import IS_FLEET_RESOURCE, member_namespace

RBAC_GROUP: Final = "rbac.authorization.k8s.io"
ROLE: Final = KINDS[RBAC_GROUP, "Role"]
ROLE_BINDING: Final = KINDS[RBAC_GROUP, "RoleBinding"]
SUBJECT_KINDS: Final = ("User", "Group", "ServiceAccount")


class InvalidIdentityError(ValueError):
    """An identity cannot be the subject of a role binding. The message names the field and its value."""


def agent_rules() -> list[JsonObject]:
    """Return the rules of the Role, as an API server stores them."""
    return [
        _rule(WORK, "", "get", "list", "watch", "update", "patch"),
        _rule(WORK, "/status", "get", "update", "patch"),
        _rule(INTERNAL_MEMBER_CLUSTER, "", "get", "list", "watch"),
        _rule(INTERNAL_MEMBER_CLUSTER, "/status", "get", "update", "patch"),
        _rule(NAMESPACE, "", "get"),
        _rule(EVENT, "", "create"),
    ]


def _rule(kind: Kind, subresource: str, *verbs: str) -> JsonObject:
    return {"apiGroups": [kind.group], "resources": [kind.plural + subresource], "verbs": list(verbs)}


def role_name(cluster: str) -> str:
    """Return the name of the Role of a member's agent."""
    return f"fleet-role-{cluster}"


def role_binding_name(cluster: str) -> str:
    """Return the name of the RoleBinding of a member's agent."""
    return f"fleet-rolebinding-{cluster}"


def agent_role(cluster: str) -> JsonObject:
    """Return the Role of a member's agent."""
    return {**_head(ROLE, role_name(cluster), cluster), "rules": agent_rules()}


def agent_role_binding(cluster: str, identity: object) -> JsonObject:
    """Return the RoleBinding of a member's agent.

    Args:
        cluster: Name of the member.
        identity: ``spec.identity`` of the MemberCluster, as it is stored.

    Raises:
        InvalidIdentityError: *identity* cannot be the subject of a role binding.
    """
    role = {"apiGroup": RBAC_GROUP, "kind": "Role", "name": role_name(cluster)}
    head = _head(ROLE_BINDING, role_binding_name(cluster), cluster)
    return {**head, "roleRef": role, "subjects": [subject(identity)]}


def subject(identity: object) -> JsonObject:
    """Return an identity as the subject of a role binding. The API group is RBAC's for a User or Group, else empty.

    Raises:
        InvalidIdentityError: *identity* cannot be the subject of a role binding.
    """
    if not isinstance(identity, Mapping):
        raise InvalidIdentityError(f"spec.identity is {identity!r:.64}, expected an object")
    kind, name = _text(identity, "kind"), _text(identity, "name")
    group, namespace = _text(identity, "apiGroup"), _text(identity, "namespace")
    if kind not in SUBJECT_KINDS:
        raise InvalidIdentityError(f"spec.identity.kind is {kind!r:.64}, expected one of {', '.join(SUBJECT_KINDS)}")
    if not name:
        raise InvalidIdentityError("spec.identity.name is empty")
    if kind == "ServiceAccount":
        if not namespace:
            raise InvalidIdentityError("spec.identity.namespace is empty: a ServiceAccount has a namespace")
        if group:
            raise InvalidIdentityError(f"spec.identity.apiGroup is {group!r:.64}, expected none for a ServiceAccount")
        return {"kind": kind, "name": name, "namespace": namespace}
    if group not in ("", RBAC_GROUP):
        raise InvalidIdentityError(f"spec.identity.apiGroup is {group!r:.64}, expected none or {RBAC_GROUP}")
    return {"kind": kind, "apiGroup": RBAC_GROUP, "name": name}


def _text(identity: Mapping[str, Any], field: str) -> str:
    value = identity.get(field) or ""
    if not isinstance(value, str):
        raise InvalidIdentityError(f"spec.identity.{field} is {value!r:.64}, expected text")
    return value


def _head(kind: Kind, name: str, cluster: str) -> JsonObject:
    """Return kind and metadata of a document. The label lets the hub list all objects of a kind with one request."""
    metadata = {"name": name, "namespace": member_namespace(cluster), "labels": {IS_FLEET_RESOURCE: "true"}}
    return {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": metadata}
