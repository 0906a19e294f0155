"""May the author of a placement have it select what it selects?

Placements are carried out by a powerful agent: whoever may write one could have ClusterRoles, webhooks or whole
namespaces with their Secrets applied to every member, or copied there to be read. So the author needs the right to read
what is selected, and the verb ``place`` for what gives power: objects of the groups of RBAC, admission and definitions,
and the namespaces of the system. The same holds for overrides, which rewrite what is placed.

What to ask is worked out here; asking is `webhook.kube.access`.

Source: serving.md 8, "Escalation through placement".
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from scorer.api import kinds
from scorer.api.meta import JsonObject
from scorer.api.names import SYSTEM_NAMESPACE_PREFIXES
from webhook.admission.context import Context, PlacementAuthorization, UserInfo
from webhook.admission.judge import Judgement, as_warnings
from webhook.validation.existing import metadata_of, namespace_of
from webhook.validation.field import printable, quote
from webhook.validation.reading import same_json

SUPERUSERS: Final = "system:masters"
POWERFUL_GROUPS: Final = frozenset(
    {"rbac.authorization.k8s.io", "admissionregistration.k8s.io", "apiextensions.k8s.io"}
)


@dataclass(frozen=True, slots=True, order=True)
class Access:
    """One thing that the author must be allowed to do.

    Args:
        verb: ``get`` or ``place``.
        group: API group.
        resource: Plural.
        name: One object; empty: all of them.
        namespace: Where; empty: everywhere, or cluster-scoped.
    """

    verb: str
    group: str
    resource: str
    name: str = ""
    namespace: str = ""

    def __str__(self) -> str:
        what = f"{self.resource}.{self.group}" if self.group else self.resource
        which = f" {quote(self.name)}" if self.name else ""
        where = f" in namespace {quote(self.namespace)}" if self.namespace else ""
        return f"{self.verb} {what}{which}{where}"


@dataclass(frozen=True, slots=True)
class Reviewed:
    """What came of asking.

    Args:
        denied: What the author may not do.
        unanswered: Why some of it could not be found out; empty when all of it was.
    """

    denied: tuple[Access, ...] = ()
    unanswered: str = ""


UNDISPUTED: Final = Reviewed()


def needed_access(request: JsonObject, user: UserInfo, context: Context) -> tuple[Access, ...]:
    """Return what the author of a write must be allowed to do, nothing when nobody needs to be asked.

    Args:
        request: Of a review; nothing in it has been checked yet.
        user: Its author.
        context: The kinds of the hub, the switches.
    """
    kind, document, old = request.get("kind"), request.get("object"), request.get("oldObject")
    if (
        context.settings.placement_authorization is PlacementAuthorization.OFF
        or request.get("operation") not in ("CREATE", "UPDATE")  # not a set: it may be anything, a list too
        or request.get("subResource")
        or not isinstance(kind, dict)
        or not isinstance(document, dict)
        or user.username in context.settings.controllers
        or SUPERUSERS in user.groups
        or metadata_of(document).get("deletionTimestamp")
    ):
        return ()
    member = _SELECTORS.get((str(kind.get("group")), str(kind.get("kind"))))
    if member is None:
        return ()
    terms = _terms(document, member)
    if isinstance(old, dict) and same_json(terms, _terms(old, member)):
        return ()
    namespace = namespace_of(document)
    found = (access for term in terms for access in _of_term(term, namespace, context))
    return tuple(dict.fromkeys(found))


_SELECTORS: Final[Mapping[tuple[str, str], str]] = {
    kinds.PLACEMENT.group_kind: "resourceSelectors",
    kinds.RESOURCE_PLACEMENT.group_kind: "resourceSelectors",
    kinds.OVERRIDE.group_kind: "clusterResourceSelectors",
    kinds.NAMESPACED_OVERRIDE.group_kind: "resourceSelectors",
}


def _terms(document: JsonObject, member: str) -> Sequence[Any]:
    spec = document.get("spec")
    terms = spec.get(member) if isinstance(spec, dict) else None
    return terms if isinstance(terms, list) else ()


def _of_term(term: Any, namespace: str, context: Context) -> Iterator[Access]:
    if not isinstance(term, dict) or not isinstance(term.get("group", ""), str):
        return
    kind = context.kinds.find(term.get("group", ""), str(term.get("kind")))
    if kind is None:  # refused by the rules, or unknown to them too
        return
    name = term.get("name") if isinstance(term.get("name"), str) else ""
    yield Access("get", kind.group, kind.plural, name or "", namespace)
    if kind.group in POWERFUL_GROUPS:
        yield Access("place", kind.group, kind.plural, name or "", namespace)
    if kind == kinds.NAMESPACE:
        yield from _of_namespace(name or "", term, context)


def _of_namespace(name: str, term: JsonObject, context: Context) -> Iterator[Access]:
    """A namespace is placed with everything in it unless the term says otherwise; Secrets are the part that matters."""
    if term.get("selectionScope") != "NamespaceOnly":
        yield Access("get", "", "secrets", "", name)
    if name.startswith(SYSTEM_NAMESPACE_PREFIXES) or name in context.settings.unblocked_namespaces:
        yield Access("place", "", "namespaces", name)


def authorized(judgement: Judgement, reviewed: Reviewed, user: UserInfo, mode: PlacementAuthorization) -> Judgement:
    """Return the verdict once the author's rights are known; a refusal stays what it is.

    Args:
        judgement: Of the rules.
        reviewed: With ``Enforce`` everything has been answered.
        user: The author.
        mode: Warn or refuse.
    """
    if not judgement.allowed or reviewed == UNDISPUTED:
        return judgement
    who = quote(user.username)
    lacking = [f"{who} may not {access}" for access in reviewed.denied]
    if mode is PlacementAuthorization.ENFORCE:
        message = printable(f"{'; '.join(lacking)} (placementAuthorization Enforce)")
        return Judgement(allowed=False, code=403, reason="Forbidden", message=message, warnings=judgement.warnings)
    if reviewed.unanswered:
        lacking.append(f"the rights of {who} could not be reviewed: {reviewed.unanswered}")
    return replace(judgement, warnings=as_warnings([*lacking, *judgement.warnings]))


def resource_attributes(access: Access) -> JsonObject:
    """Write one question as the ``resourceAttributes`` of a SubjectAccessReview."""
    given = {"group": access.group, "resource": access.resource, "name": access.name, "namespace": access.namespace}
    return {"verb": access.verb, "version": "*"} | {key: value for key, value in given.items() if value}
