"""Rules, roles and their bindings as the objects that an API server takes.

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
    """Objects of one kind, as RBAC names them.

    Args:
        group: API group; ``*``: any.
        plural: Name in URLs, perhaps with a subresource; ``*``: any.
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
        why: What needs it, in a sentence fit for a comment.
        verbs: What is allowed.
        resources: On what, all of one group.
        names: Only on objects of these names; empty: on all.
        paths: Instead of resources: paths that are no objects.
    """

    why: str
    verbs: tuple[str, ...]
    resources: tuple[RbacResource, ...] = ()
    names: tuple[str, ...] = ()
    paths: tuple[str, ...] = ()

    def document(self) -> JsonObject:
        """Return the rule as it is in a role."""
        if self.paths:
            return {"nonResourceURLs": list(self.paths), "verbs": list(self.verbs)}
        rule: JsonObject = {
            "apiGroups": [self.resources[0].group],
            "resources": [resource.plural for resource in self.resources],
        }
        return rule | ({"resourceNames": list(self.names)} if self.names else {}) | {"verbs": list(self.verbs)}


@dataclass(frozen=True, slots=True)
class Role:
    """Rules, and where they hold.

    Args:
        name: Of the role and of its binding.
        rules: What it allows; empty: the role is there already and is only bound.
        namespace: Where; empty: in the whole cluster.
    """

    name: str
    rules: tuple[PolicyRule, ...]
    namespace: str = ""


def service_account(namespace: str, name: str) -> JsonObject:
    """Return the subject of a ServiceAccount."""
    return {"kind": "ServiceAccount", "name": name, "namespace": namespace}


def username_of(subject: JsonObject) -> str:
    """Return the name by which the API server knows a subject."""
    if subject["kind"] == "ServiceAccount":
        return f"system:serviceaccount:{subject['namespace']}:{subject['name']}"
    return str(subject["name"])


def user(name: str) -> JsonObject:
    """Return the subject of a user, as the CN of a client certificate names one."""
    return {"apiGroup": RBAC_GROUP, "kind": "User", "name": name}


def documents(roles: Iterable[Role], subject: JsonObject) -> Iterator[tuple[JsonObject, tuple[PolicyRule, ...]]]:
    """Yield each role with its rules, then what binds the subject to it, with none.

    Rules come beside the document, which has them too, so that a printer can say why they are there.
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
