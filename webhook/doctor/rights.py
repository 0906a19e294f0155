"""What an account may do, by the roles that are bound to it, and what it should.

The names of roles do not matter: a chart calls them by its release. What counts is what all of them together give.
Rights that every account of the hub has, by groups such as ``system:authenticated``, are no one account's.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from scorer.api.kinds import SECRET
from scorer.api.meta import JsonObject
from scorer.api.unstructured.documents import dict_at, dicts_at, name_of, namespace_of, text_at, texts_at
from webhook.doctor.finding import counted
from webhook.processes.rbac import READ
from webhook.processes.rbac_objects import Role, service_account, user, username_of

ANY: Final = "*"
_ACCOUNT: Final = "system:serviceaccount:"


class Right(NamedTuple):
    """One verb on one resource.

    Args:
        where: Namespace; empty: in the whole cluster.
        verb: What is done.
        group: API group.
        resource: Plural, perhaps with a subresource; or a path that is no object, such as ``/readyz``.
        name: Of the one object; empty: of any.
    """

    where: str
    verb: str
    group: str
    resource: str
    name: str = ""

    def covers(self, other: "Right") -> bool:
        """Say whether who has this right has the other one, too."""
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
    """Yield the rights in the rules of a role that is bound in *namespace*; empty: in the whole cluster."""
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
    """All roles of a hub, and what binds them.

    Args:
        rules: Of each role, by its namespace (empty: of a ClusterRole) and name.
        bindings: Of both kinds.
    """

    rules: Mapping[tuple[str, str], tuple[JsonObject, ...]] = field(default_factory=dict)
    bindings: tuple[JsonObject, ...] = ()

    @classmethod
    def of(cls, roles: Iterable[JsonObject], bindings: Iterable[JsonObject]) -> "Roles":
        """Read the documents of all four kinds."""
        rules = {(namespace_of(role), name_of(role)): tuple(dicts_at(role, "rules")) for role in roles}
        return cls(rules, tuple(bindings))

    def held_by(self, subject: JsonObject) -> frozenset[Right]:
        """Return what is bound to a subject, or to all ServiceAccounts of its namespace."""
        rights: set[Right] = set()
        for binding in self.bindings:
            if any(_is_in(subject, other) for other in dicts_at(binding, "subjects")):
                namespace, role = namespace_of(binding), dict_at(binding, "roleRef")
                home = namespace if role.get("kind") == "Role" else ""
                rights.update(rights_in(self.rules.get((home, text_at(role, "name")), ()), namespace))
        return frozenset(rights)

    def rights(self, roles: Iterable[Role]) -> Iterator[Right]:
        """Yield what roles of ours give; one without rules stands for that of the hub."""
        for role in roles:
            rules = [rule.document() for rule in role.rules] or self.rules.get((role.namespace, role.name), ())
            yield from rights_in(rules, role.namespace)


def subject_of(username: str) -> JsonObject:
    """Return the subject that a binding names for a user."""
    if username.startswith(_ACCOUNT):
        namespace, _, name = username.removeprefix(_ACCOUNT).partition(":")
        return service_account(namespace, name)
    return user(username)


def _is_in(subject: JsonObject, other: JsonObject) -> bool:
    """Say whether what is bound to *other* is bound to *subject*, too."""
    kind, name = text_at(other, "kind"), text_at(other, "name")
    if subject["kind"] == "ServiceAccount":
        if kind == "Group":
            return name == f"system:serviceaccounts:{subject['namespace']}"
        if kind == "User":  # as an API server sees it, it is the same
            return name == username_of(subject)
        if text_at(other, "namespace") != subject["namespace"]:
            return False
    return (kind, name) == (subject["kind"], subject["name"])


def missing(desired: Iterable[Right], held_rights: Collection[Right]) -> list[Right]:
    """Return what should be held and is not."""
    return sorted(
        right for right in set(desired) - set(held_rights) if not any(other.covers(right) for other in held_rights)
    )


def beyond(held_rights: Iterable[Right], allowed: Collection[Right]) -> list[Right]:
    """Return what is held and should not be."""
    return sorted(
        right for right in set(held_rights) - set(allowed) if not any(other.covers(right) for other in allowed)
    )


READ_BY_CHOICE: Final = frozenset({*(Right("", verb, ANY, ANY) for verb in READ), Right("", "update", ANY, "*/status")})
"""What the operator of a loop decides about: which kinds placements select, and whether statuses are written back."""


def partly(held_rights: Collection[Right], desired: Iterable[Right], verbs: Collection[str]) -> list[Right]:
    """Return what an account lacks of kinds with which it may do a part only of *verbs*, where it takes them all."""
    rights_needed = {
        Right("", verb, right.group, right.resource)
        for right in held_rights
        if not right.where and not right.name and right.verb in verbs and not right.resource.startswith("/")
        for verb in verbs
    }
    apart = {(right.group, right.resource) for right in desired}  # which it needs for something else, perhaps in part
    return missing((right for right in rights_needed if (right.group, right.resource) not in apart), held_rights)


def chosen(held_rights: Collection[Right], desired: Collection[Right]) -> str:
    """Say which kinds an account may list, or do more with, by choice of the operator."""
    secrets = Right("", "list", SECRET.group, SECRET.plural)
    extra = [right for right in held_rights if right.verb == "list" and not right.where and right not in desired]
    if any(right.resource == ANY for right in extra):
        return "every kind, Secrets among them"
    return f"{counted(len(extra), 'kind')}{', Secrets among them' if secrets in extra else ''}"


def described(rights: Iterable[Right]) -> list[str]:
    """Write rights for people, those on the same objects together: ``get, list works.example.com in namespace a``."""
    verbs_of: dict[tuple[str, str, str, str], list[str]] = {}
    for right in sorted(rights):
        verbs_of.setdefault((right.where, right.group, right.resource, right.name), []).append(right.verb)
    return [
        f"{', '.join(verbs)} {resource}{f'.{group}' if group else ''}{f' {name}' if name else ''}"
        + (f" in namespace {namespace}" if namespace else "")
        for (namespace, group, resource, name), verbs in verbs_of.items()
    ]
