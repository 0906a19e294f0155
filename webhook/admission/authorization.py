"""Rights that the author of a placement needs for the placed objects.

A powerful agent executes placements. Without this check, a user with the right to write one could apply ClusterRoles or
webhooks to every member, or copy whole namespaces with their Secrets to a member in order to read them there. The
author therefore needs the right to read the selected objects.

For objects that grant power, the author also needs the verb ``place``: those of the API groups of RBAC, admission,
definitions, aggregated APIs, flow control and runtime classes, and those in system namespaces. Rights are reviewed for:

* overrides, which modify placed objects. The author needs the right to ``update`` the objects that a rule patches, and
  to ``delete`` those that a rule of type Delete drops, or the verb ``place``. Any change of ``spec`` counts. An update
  that only drops selectors is never refused: the rest was in effect before, and the author gets a warning.
* the policy and the apply strategy of a placement, not only its selectors: a policy that adds a member hands the
  Secrets to the users who may read that member.
* envelopes, entry by entry. Their content is placed as written, and no API server has checked it, so the author also
  needs the right to ``create`` it.
* bindings, Works and snapshots that are written by hand, which have the placed objects, their overrides or their
  clusters.

A run is executed stage by stage, and stages may need approval. An author who lets the loop approve, by an annotation on
the run, needs the right to approve: a query such as ``vector(1)`` is always true.

The author of an upgrade run that ignores the maintenance windows of members needs the verb ``ignorewindows`` on upgrade
runs. This is independent of placements, so no setting disables it.

This module determines the rights to review. `webhook.kube.access.authorization` reviews them.

Source: docs/specifications/serving.md 8, "Escalation through placement", "Escalation through envelopes and overrides";
    docs/specifications/upgrade-runs.md 4.4 for windows.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, TypeAlias

from scorer.api import kinds
from scorer.api.crd.pruning import apply_schema_defaults
from scorer.api.family import FAMILIES, family_in
from scorer.api.kinds import Kind, group_kind
from scorer.api.meta import JsonObject, json_equal, without_nulls
from scorer.api.names import (
    ANALYSIS,
    IS_LATEST_SNAPSHOT,
    OVERRIDE_INDEX,
    PARENT_OVERRIDE,
    PARENT_PLACEMENT,
    SYSTEM_NAMESPACE_PREFIXES,
)
from scorer.api.placement.override import OverrideType
from scorer.api.unstructured.documents import annotation, dict_at, dicts_at, label, name_of, namespace_of, text_at
from scorer.api.upgrade.run import WindowMode
from scorer.api.values.quoting import printable, quote
from scorer.membership.access import ROLE, ROLE_BINDING
from webhook.access.rights import MOST_REVIEWED, Access, Reviewed
from webhook.access.user import UserInfo
from webhook.admission.admitted import MOST_VALUES
from webhook.admission.judge import Judgement, as_warnings, mutate
from webhook.settings.admission import PlacementAuthorization
from webhook.validation.framework.context import Context, UnknownStateError
from webhook.validation.framework.reading import has_more_values

SUPERUSERS: Final = "system:masters"
IGNORE_WINDOWS: Final = "ignorewindows"
POWERFUL_GROUPS: Final = frozenset(
    {
        "rbac.authorization.k8s.io",
        "admissionregistration.k8s.io",
        "apiextensions.k8s.io",
        "apiregistration.k8s.io",
        "flowcontrol.apiserver.k8s.io",
        "node.k8s.io",
    }
)


def needed_access(request: JsonObject, user: UserInfo, context: Context) -> tuple[Access, ...]:
    """Return the rights that the author of a write needs, empty if no rights need to be reviewed.

    At most `MOST_REVIEWED` + 1 rights are returned: if there are more than `MOST_REVIEWED`, none of them is reviewed.

    Args:
        request: ``request`` of a review, unvalidated.
        user: Its author.
        context: Kinds of the hub, and settings.
    """
    author, document, old = _asked_about(request, user, context), request.get("object"), request.get("oldObject")
    if author is None or not isinstance(document, dict):
        return ()
    if isinstance(old, dict) and _is_left_alone(author, document, old):
        return ()
    advisory = isinstance(old, dict) and author.is_narrower(document, old)
    accesses: dict[Access, None] = {}
    for access in author.needs(document, context):
        accesses[replace(access, advisory=advisory)] = None
        if len(accesses) > MOST_REVIEWED:  # too many: none of them is reviewed, so the rest does not matter
            break
    return tuple(accesses)


def may_need_access(request: JsonObject, user: UserInfo, context: Context) -> bool:
    """Return whether the author of a write may need any rights.

    This depends on the user, the kind, the subresource, the operation and the settings. The content of the objects,
    which may be forged, is not read.

    Args:
        request: ``request`` of a review, unvalidated.
        user: Its author.
        context: Settings.
    """
    return _asked_about(request, user, context) is not None


def _asked_about(request: JsonObject, user: UserInfo, context: Context) -> "_Authored | None":
    """Return the written kind, or None if the author's rights need no review."""
    kind = request.get("kind")
    if (
        request.get("operation") not in ("CREATE", "UPDATE")  # not a set: the value may be unhashable
        or request.get("subResource")
        or not isinstance(kind, dict)
        or not isinstance(request.get("object"), dict)
        or user.username in context.settings.controllers
        or SUPERUSERS in user.groups
    ):
        return None
    author = _AUTHORED.get((str(kind.get("group")), str(kind.get("kind"))))
    is_off = context.settings.placement_authorization is PlacementAuthorization.OFF
    return None if author is None or (is_off and not author.always) else author


Needs: TypeAlias = Callable[[JsonObject, Context], Iterator[Access]]
Narrower: TypeAlias = Callable[[JsonObject, JsonObject], bool]


def _never(_document: JsonObject, _old: JsonObject) -> bool:
    return False


@dataclass(frozen=True, slots=True)
class _Authored:
    """A kind that lets its author place objects. Its documents are unvalidated.

    Args:
        kind: The kind.
        needs: Yields the rights that the author of a document needs.
        matters: Fields that determine the placed objects, their clusters, and how they are applied. An update that
            does not change them needs no rights.
        always: Whether the rights are needed regardless of the setting for placements.
        is_narrower: Returns whether an update only reduces the effect of the old document. Its author gets a warning
            about missing rights.
    """

    kind: Kind
    needs: Needs
    matters: tuple[tuple[str, ...], ...] = (("spec",),)
    always: bool = False
    is_narrower: Narrower = _never


def _is_left_alone(author: _Authored, document: JsonObject, old: JsonObject) -> bool:
    """Return whether an update changes no field that matters. Writing out a default is not a change.

    With more than `MOST_VALUES` values, it counts as a change, because adding the defaults would take too long.
    """

    def same(new: JsonObject, stored: JsonObject) -> bool:
        return all(json_equal(_at(new, path), _at(stored, path)) for path in author.matters)

    if same(document, old):
        return True
    if any(has_more_values(version, MOST_VALUES) for version in (document, old)):
        return False
    defaulted = mutate(document, old, "UPDATE").document
    return same(*(without_nulls(apply_schema_defaults(author.kind, version)) for version in (defaulted, old)))


def _at(document: JsonObject, path: Sequence[str]) -> Any:
    """Return a field of a document, or None if it is missing. A policy is returned without its number of clusters."""
    value: Any = document
    for member in path:
        value = value.get(member) if isinstance(value, dict) else None
    if path == _POLICY and isinstance(value, dict):
        return {name: field_value for name, field_value in value.items() if name != "numberOfClusters"}
    return value


_POLICY: Final = ("spec", "policy")
_OF_A_PLACEMENT: Final = (("spec", "resourceSelectors"), _POLICY, ("spec", "strategy", "applyStrategy"))
"""A user who scales a placement, or changes the pace of its rollout, need not have the right to read its objects."""


def _of_placement(document: JsonObject, context: Context) -> Iterator[Access]:
    """Yield the rights for the objects that a placement selects on the hub."""
    namespace = namespace_of(document)
    yield from _of_system_namespace(namespace, context)
    for term in dicts_at(document, "spec", "resourceSelectors"):
        yield from _of_term(term, namespace, context)


def _overriding(*path: str) -> Needs:
    """Return a function that yields the rights to override the objects that the selectors under *path* name."""

    def needs(document: JsonObject, context: Context) -> Iterator[Access]:
        namespace = namespace_of(document)
        yield from _of_system_namespace(namespace, context)
        types = {rule["overrideType"] for rule in _rules(document, *path)}
        verbs = [
            verb for verb, is_relevant in (("update", types != _DELETES), ("delete", types & _DELETES)) if is_relevant
        ]
        for member in _OVERRIDDEN:
            for term in dicts_at(document, *path, member):
                yield from _of_overridden(term, namespace, verbs, context)

    return needs


_FOR: Final = ("spec", "placement")
_OVERRIDDEN: Final = ("clusterResourceSelectors", "resourceSelectors")
_DELETES: Final = frozenset({OverrideType.DELETE.value})


def _rules(document: JsonObject, *path: str) -> list[JsonObject]:
    """Return the rules of an override without nulls.

    A missing type counts as JSONPatch. So does one that is not a string, which the schema refuses.
    """
    rules = (without_nulls(rule) for rule in dicts_at(document, *path, "policy", "overrideRules"))
    return [{**rule, "overrideType": text_at(rule, "overrideType") or OverrideType.JSON_PATCH.value} for rule in rules]


def _overrides_less(document: JsonObject, old: JsonObject) -> bool:
    """Return whether an override only drops selectors of the old one.

    Dropping a rule does not count as less: if two rules write the same field, the first one then takes effect, and
    without a rule of type Delete, the objects are placed.
    """
    same = ((_at(document, _FOR), _at(old, _FOR)), (_rules(document, "spec"), _rules(old, "spec")))
    if not all(json_equal(new, stored) for new, stored in same):
        return False
    return all(_selected(document, member) <= _selected(old, member) for member in _OVERRIDDEN)


def _selected(document: JsonObject, member: str) -> set[tuple[str, ...]]:
    """Return the objects that an override selects. As in matching, the version counts."""
    terms = dicts_at(document, "spec", member)
    return {tuple(str(term.get(part) or "") for part in ("group", "version", "kind", "name")) for term in terms}


def _of_envelope(document: JsonObject, context: Context) -> Iterator[Access]:
    """Yield the rights to place every entry of an envelope. See `_of_object`."""
    namespace = namespace_of(document)
    for entry in dict_at(document, "data").values():
        if isinstance(entry, dict):
            yield from _of_object(entry, namespace, context)


def _of_resource_snapshot(document: JsonObject, context: Context) -> Iterator[Access]:
    """Yield the rights for a resource snapshot written by hand: its content is placed like that of an envelope."""
    yield from _of_system_namespace(namespace_of(document), context)
    for entry in dicts_at(document, "spec", "selectedResources"):
        yield from _of_object(entry, namespace_of(entry), context)
        if any(group_kind(entry) == family.envelope.group_kind for family in FAMILIES):
            yield from _of_envelope(entry, context)


def _of_work(document: JsonObject, context: Context) -> Iterator[Access]:
    """Yield the rights for a Work written by hand: its manifests are placed as they are."""
    for entry in dicts_at(document, "spec", "workload", "manifests"):
        yield from _of_object(entry, namespace_of(entry), context)


def _of_its_placement(document: JsonObject, context: Context) -> Iterator[Access]:
    """Yield the rights for a binding or policy snapshot written by hand, which sends objects to clusters.

    If the placement is unknown, its objects are too, and the only right to review is ``place`` on the placement.
    """
    name, namespace = label(document, PARENT_PLACEMENT), namespace_of(document)
    if not name:
        return
    kind = family_in(namespace).placement
    try:
        placement = context.hub.get(kind, name, namespace)
    except UnknownStateError:
        placement = None
    if placement is None:
        yield Access("place", kind.group, kind.plural, name, namespace)
    else:
        yield from _of_placement(placement, context)


def _of_analysis(document: JsonObject, _context: Context) -> Iterator[Access]:
    """Yield the right to approve, for a run whose annotation names the queries that approve its stages."""
    if annotation(document, ANALYSIS):
        namespace = namespace_of(document)
        kind = family_in(namespace).approval_request
        yield Access("patch", kind.group, f"{kind.plural}/status", "", namespace)


def _of_windows(document: JsonObject, _context: Context) -> Iterator[Access]:
    """Yield the right to upgrade members outside their maintenance windows, for a run that ignores them."""
    if text_at(document, "spec", "windowPolicy", "mode") == WindowMode.IGNORE:
        kind = kinds.UPGRADE_RUN
        yield Access(IGNORE_WINDOWS, kind.group, kind.plural, name_of(document))


_PARENT: Final = ("metadata", "labels", PARENT_PLACEMENT)
_OF_A_MACHINE: Final = (("spec",), _PARENT)
"""Fields of objects that the loop writes. With another label, they belong to another placement."""

_OF_A_VERSION: Final = (
    ("spec",),
    *(("metadata", "labels", key) for key in (PARENT_OVERRIDE, OVERRIDE_INDEX, IS_LATEST_SNAPSHOT)),
)
"""Fields of override snapshots. The labels determine which one is in effect."""

_OF_AN_UPGRADE: Final = (
    ("spec", "windowPolicy", "mode"),
    *(("spec", field) for field in ("upgrade", "strategy", "strategyRef", "memberSelector")),
)
"""Fields of an upgrade run that its author decides. Any user who may update the run can start and stop it."""

_AUTHORED: Final[Mapping[tuple[str, str], _Authored]] = {
    entry.kind.group_kind: entry
    for entry in (
        *(
            authored
            for family in FAMILIES
            for authored in (
                _Authored(family.placement, _of_placement, _OF_A_PLACEMENT),
                _Authored(family.override, _overriding("spec"), is_narrower=_overrides_less),
                _Authored(family.envelope, _of_envelope, (("data",),)),
                _Authored(family.resource_snapshot, _of_resource_snapshot, _OF_A_MACHINE),
                _Authored(family.binding, _of_its_placement, _OF_A_MACHINE),
                _Authored(family.policy_snapshot, _of_its_placement, _OF_A_MACHINE),
                _Authored(family.override_snapshot, _overriding("spec", "overrideSpec"), _OF_A_VERSION),
                _Authored(family.run, _of_analysis, (("metadata", "annotations", ANALYSIS),)),
            )
        ),
        _Authored(kinds.WORK, _of_work),
        _Authored(kinds.UPGRADE_RUN, _of_windows, _OF_AN_UPGRADE, always=True),
    )
}


def _of_term(term: JsonObject, namespace: str, context: Context) -> Iterator[Access]:
    if not isinstance(term.get("group", ""), str):
        return
    kind = context.kinds.find(term.get("group", ""), str(term.get("kind")))
    if kind is None:  # the rules refuse it, or do not know it either
        return
    selector_name = term.get("name")
    name = selector_name if isinstance(selector_name, str) else ""
    yield from _of_named(kind.group, kind.plural, name, namespace)
    if kind == kinds.NAMESPACE:
        if term.get("selectionScope") != "NamespaceOnly":  # with all of its content, of which Secrets matter most
            yield Access("get", "", "secrets", "", name)
        yield from _of_system_namespace(name, context)


def _of_overridden(term: JsonObject, namespace: str, verbs: Sequence[str], context: Context) -> Iterator[Access]:
    """Yield the rights to override an object or, for a Namespace, everything that is placed in it.

    An override has no selection scope, and its object may be from an envelope. In that case the hub may not know its
    kind, and for a role, no API server has checked that the author holds its permissions.
    """
    if not isinstance(term.get("group", ""), str):
        return
    if not term.get("kind"):  # refused by the rules
        return
    group, word, name = term.get("group", ""), str(term["kind"]), term.get("name")
    if not isinstance(name, str):
        name = ""
    kind = context.kinds.find(group, word)
    plural = kind.plural if kind is not None else "*"
    if group in POWERFUL_GROUPS:
        yield from _of_named(group, plural, name, namespace)
        return
    for verb in verbs:
        yield Access(verb, group, plural, name, namespace, or_place=True)
    if kind == kinds.NAMESPACE:
        for verb in verbs:
            yield Access(verb, "*", "*", "", name, or_place=True)
        for role in (ROLE, ROLE_BINDING):
            yield Access("place", role.group, role.plural, "", name)
        yield from _of_system_namespace(name, context)


def _of_object(entry: JsonObject, namespace: str, context: Context) -> Iterator[Access]:
    """Yield the rights to place one object that its author has written, and thus creates on members.

    If only members know its kind, the author needs the right to all kinds of the group.
    """
    if not entry.get("kind"):  # refused by the rules
        return
    group, word = group_kind(entry)
    kind = context.kinds.find(group, word)
    name = name_of(entry)
    yield from _of_system_namespace(namespace, context)
    plural = kind.plural if kind is not None else "*"
    yield from _of_named(group, plural, name, namespace)
    if group not in POWERFUL_GROUPS:
        yield Access("create", group, plural, name, namespace, or_place=True)
    if kind == kinds.NAMESPACE:
        yield from _of_system_namespace(name, context)


def _of_named(group: str, plural: str, name: str, namespace: str) -> Iterator[Access]:
    yield Access("get", group, plural, name, namespace)
    if group in POWERFUL_GROUPS:
        yield Access("place", group, plural, name, namespace)


def _of_system_namespace(name: str, context: Context) -> Iterator[Access]:
    """Yield the right to place objects in a system namespace or in that of the installation.

    The right to read there is not enough.
    """
    if name.startswith(SYSTEM_NAMESPACE_PREFIXES) or name in context.settings.unblocked_namespaces:
        yield Access("place", "", "namespaces", name)


def is_binding(needed: Iterable[Access]) -> bool:
    """Return whether a write without these rights is refused regardless of the setting for placements."""
    return any(access.verb == IGNORE_WINDOWS for access in needed)


def weighed(reviewed: Reviewed, needed: Sequence[Access]) -> Reviewed:
    """Return the review of *needed*, with the effect of a missing right: a refusal, or only a warning."""
    advisory = bool(needed) and all(access.advisory for access in needed)
    return replace(reviewed, binding=is_binding(needed), advisory=advisory)


def is_enforced(reviewed: Reviewed, mode: PlacementAuthorization) -> bool:
    """Return whether a missing right refuses a write, so that the write must wait for the review."""
    return reviewed.binding or (mode is PlacementAuthorization.ENFORCE and not reviewed.advisory)


def authorized(judgement: Judgement, reviewed: Reviewed, user: UserInfo, mode: PlacementAuthorization) -> Judgement:
    """Return the verdict after the review of the author's rights. A refusal is returned unchanged.

    Args:
        judgement: Verdict of the rules.
        reviewed: The review of the rights. An unanswered one has the same effect as a missing right.
        user: The author.
        mode: Warn or refuse.
    """
    if not judgement.allowed or reviewed.is_undisputed:
        return judgement
    username = quote(user.username)
    lacking = [f"{username} may not {access}" for access in reviewed.denied]
    if reviewed.unanswered:
        lacking.append(f"the rights of {username} could not be reviewed: {reviewed.unanswered}")
    if is_enforced(reviewed, mode):
        reason = "windowPolicy.mode Ignore" if reviewed.binding else "placementAuthorization Enforce"
        message = printable(f"{'; '.join(lacking)} ({reason})")
        return Judgement(allowed=False, code=403, reason="Forbidden", message=message, warnings=judgement.warnings)
    return replace(judgement, warnings=as_warnings([*lacking, *judgement.warnings]))
