"""Rules, roles and bindings as RBAC objects.

Source: Kubernetes, Using RBAC Authorization.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from scorer.api.kinds import Kind
from scorer.api.meta import JsonObject
from scorer.membership.access import RBAC_GROUP


@dataclass(frozen=True, slots=True, order=True)
class RbacResource:
    """An RBAC resource.

    Args:
        group: API group. ``*``: any.
        plural: Plural, with an optional subresource. ``*``: any.
    """

    group: str
    plural: str

    @classmethod
    def of(cls, kind: Kind, subresource: str = "") -> "RbacResource":
        """Return the resource of a kind, or ``plural/subresource``."""
        return cls(kind.group, f"{kind.plural}/{subresource}" if subresource else kind.plural)


@dataclass(frozen=True, slots=True)
class PolicyRule:
    """One rule of a role.

    Args:
        why: Reason, as a comment.
        verbs: Allowed verbs.
        resources: Resources, all of one group.
        names: Names of the objects. Empty: all.
        paths: Non-resource paths, instead of resources.
    """

    why: str
    verbs: tuple[str, ...]
    resources: tuple[RbacResource, ...] = ()
    names: tuple[str, ...] = ()
    paths: tuple[str, ...] = ()

    def document(self) -> JsonObject:
        """Return the rule as an entry of a role."""
        if self.paths:
            return {"nonResourceURLs": list(self.paths), "verbs": list(self.verbs)}
        rule: JsonObject = {
            "apiGroups": [self.resources[0].group],
            "resources": [resource.plural for resource in self.resources],
        }
        return rule | ({"resourceNames": list(self.names)} if self.names else {}) | {"verbs": list(self.verbs)}


@dataclass(frozen=True, slots=True)
class Role:
    """A role.

    Args:
        name: Name of the role and of its binding.
        rules: Rules. Empty: the role exists already and is only bound.
        namespace: Namespace. Empty: the whole cluster.
    """

    name: str
    rules: tuple[PolicyRule, ...]
    namespace: str = ""


def service_account(namespace: str, name: str) -> JsonObject:
    """Return the subject of a ServiceAccount."""
    return {"kind": "ServiceAccount", "name": name, "namespace": namespace}


def username_of(subject: JsonObject) -> str:
    """Return the user name of a subject on the API server."""
    if subject["kind"] == "ServiceAccount":
        return f"system:serviceaccount:{subject['namespace']}:{subject['name']}"
    return str(subject["name"])


def user(name: str) -> JsonObject:
    """Return the subject of a user, as in the CN of a client certificate."""
    return {"apiGroup": RBAC_GROUP, "kind": "User", "name": name}


def documents(roles: Iterable[Role], subject: JsonObject) -> Iterator[tuple[JsonObject, tuple[PolicyRule, ...]]]:
    """Yield each role with its rules, then its binding, without rules. A role that has no rules is only bound.

    The rules are yielded alongside the document, so that a printer can add their reasons.
    """
    for role in roles:
        kind = "Role" if role.namespace else "ClusterRole"
        metadata: dict[str, Any] = {"name": role.name} | ({"namespace": role.namespace} if role.namespace else {})
        document = {"apiVersion": f"{RBAC_GROUP}/v1", "kind": kind, "metadata": metadata}
        if role.rules:
            yield {**document, "rules": [rule.document() for rule in role.rules]}, role.rules
        bound = metadata if role.rules else {**metadata, "name": f"harbormaster-{role.name}"}
        yield (
            {
                **document,
                "kind": f"{kind}Binding",
                "metadata": bound,
                "roleRef": {"apiGroup": RBAC_GROUP, "kind": kind, "name": role.name},
                "subjects": [subject],
            },
            (),
        )
