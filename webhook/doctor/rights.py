"""Actual rights of an account, through the roles bound to it, and their comparison with the desired ones.

The names of roles do not matter: a chart names them by its release. Only the union of all rights counts. Rights
that every account has through groups such as ``system:authenticated`` are ignored.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from scorer.api.kinds import SECRET
from scorer.api.meta import JsonObject
from scorer.api.unstructured.documents import dict_at, dicts_at, name_of, namespace_of, text_at, texts_at
from scorer.api.values.quoting import format_count
from webhook.processes.rbac import READ
from webhook.processes.rbac_objects import Role, service_account, user, username_of

ANY: Final = "*"
_ACCOUNT: Final = "system:serviceaccount:"


class Right(NamedTuple):
    """One verb on one resource.

    Args:
        where: Namespace. Empty: the whole cluster.
        verb: The verb.
        group: API group.
        resource: Plural, with an optional subresource, or a non-resource path such as ``/readyz``.
        name: Name of the one object. Empty: any.
    """

    where: str
    verb: str
    group: str
    resource: str
    name: str = ""

    def covers(self, other: "Right") -> bool:
        """Return whether this right includes the other one."""
        return (
            self.where in ("", other.where)
            and self.verb in (ANY, other.verb)
            and self.group in (ANY, other.group)
            and self.name in ("", other.name)
            and _covers(self.resource, other.resource)
        )


def _covers(resource: str, other: str) -> bool:
    if resource == other:
        return True
    if other.startswith("/"):
        return resource.endswith(ANY) and resource.startswith("/") and other.startswith(resource[:-1])
    return resource == ANY or (resource.startswith("*/") and other.endswith(resource[1:]))


def rights_in(rules: Iterable[JsonObject], namespace: str = "") -> Iterator[Right]:
    """Yield the rights in the rules of a role that is bound in *namespace*. Empty: in the whole cluster."""
    for rule in rules:
        for verb in texts_at(rule, "verbs"):
            for group in texts_at(rule, "apiGroups"):
                for resource in texts_at(rule, "resources"):
                    for name in texts_at(rule, "resourceNames") or [""]:
                        yield Right(namespace, verb, group, resource, name)
            if not namespace:
                yield from (Right("", verb, "", path) for path in texts_at(rule, "nonResourceURLs"))


@dataclass(frozen=True, slots=True)
class Roles:
    """All roles and bindings of a hub.

    Args:
        rules: Rules of each role, by namespace (empty for a ClusterRole) and name.
        bindings: RoleBindings and ClusterRoleBindings.
    """

    rules: Mapping[tuple[str, str], tuple[JsonObject, ...]] = field(default_factory=dict)
    bindings: tuple[JsonObject, ...] = ()

    @classmethod
    def of(cls, roles: Iterable[JsonObject], bindings: Iterable[JsonObject]) -> "Roles":
        """Parse the documents of all four kinds."""
        rules = {(namespace_of(role), name_of(role)): tuple(dicts_at(role, "rules")) for role in roles}
        return cls(rules, tuple(bindings))

    def held_by(self, subject: JsonObject) -> frozenset[Right]:
        """Return the rights bound to a subject, or to all ServiceAccounts of its namespace."""
        rights: set[Right] = set()
        for binding in self.bindings:
            if any(_is_in(subject, other) for other in dicts_at(binding, "subjects")):
                namespace, role = namespace_of(binding), dict_at(binding, "roleRef")
                home = namespace if role.get("kind") == "Role" else ""
                rights.update(rights_in(self.rules.get((home, text_at(role, "name")), ()), namespace))
        return frozenset(rights)

    def rights(self, roles: Iterable[Role]) -> Iterator[Right]:
        """Yield the rights of harbormaster's roles. For a role without rules, the rules on the hub are used."""
        for role in roles:
            rules = [rule.document() for rule in role.rules] or self.rules.get((role.namespace, role.name), ())
            yield from rights_in(rules, role.namespace)


def subject_of(username: str) -> JsonObject:
    """Return the subject of a user in a binding."""
    if username.startswith(_ACCOUNT):
        namespace, _, name = username.removeprefix(_ACCOUNT).partition(":")
        return service_account(namespace, name)
    return user(username)


def _is_in(subject: JsonObject, other: JsonObject) -> bool:
    """Return whether a binding to *other* includes *subject*."""
    kind, name = text_at(other, "kind"), text_at(other, "name")
    if subject["kind"] == "ServiceAccount":
        if kind == "Group":
            return name == f"system:serviceaccounts:{subject['namespace']}"
        if kind == "User":  # an API server treats both forms alike
            return name == username_of(subject)
        if text_at(other, "namespace") != subject["namespace"]:
            return False
    return (kind, name) == (subject["kind"], subject["name"])


def missing(desired: Iterable[Right], held_rights: Collection[Right]) -> list[Right]:
    """Return the desired rights that are not held."""
    return sorted(
        right for right in set(desired) - set(held_rights) if not any(other.covers(right) for other in held_rights)
    )


def beyond(held_rights: Iterable[Right], allowed: Collection[Right]) -> list[Right]:
    """Return the held rights that are not allowed."""
    return sorted(
        right for right in set(held_rights) - set(allowed) if not any(other.covers(right) for other in allowed)
    )


READ_BY_CHOICE: Final = frozenset({*(Right("", verb, ANY, ANY) for verb in READ), Right("", "update", ANY, "*/status")})
"""Rights that an operator may grant the loop: reading the kinds that placements select, and writing statuses back."""


def partly(held_rights: Collection[Right], desired: Iterable[Right], verbs: Collection[str]) -> list[Right]:
    """Return the missing *verbs* on kinds where an account holds some of them and needs all of them."""
    rights_needed = {
        Right("", verb, right.group, right.resource)
        for right in held_rights
        if not right.where and not right.name and right.verb in verbs and not right.resource.startswith("/")
        for verb in verbs
    }
    apart = {(right.group, right.resource) for right in desired}  # needed for another purpose, maybe with fewer verbs
    return missing((right for right in rights_needed if (right.group, right.resource) not in apart), held_rights)


def chosen(held_rights: Collection[Right], desired: Collection[Right]) -> str:
    """Return the number of kinds that an account may list by choice of the operator, as text that names Secrets."""
    secrets = Right("", "list", SECRET.group, SECRET.plural)
    extra = [right for right in held_rights if right.verb == "list" and not right.where and right not in desired]
    if any(right.resource == ANY for right in extra):
        return "every kind, including Secrets"
    return f"{format_count(len(extra), 'kind')}{', including Secrets' if secrets in extra else ''}"


def described(rights: Iterable[Right]) -> list[str]:
    """Format rights, grouped by object: ``get, list works.example.com in namespace a``."""
    verbs_of: dict[tuple[str, str, str, str], list[str]] = {}
    for right in sorted(rights):
        verbs_of.setdefault((right.where, right.group, right.resource, right.name), []).append(right.verb)
    return [
        f"{', '.join(verbs)} {resource}{f'.{group}' if group else ''}{f' {name}' if name else ''}"
        + (f" in namespace {namespace}" if namespace else "")
        for (namespace, group, resource, name), verbs in verbs_of.items()
    ]
