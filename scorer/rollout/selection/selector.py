"""Selection of objects: which objects of the hub a placement places, and their order in a snapshot.

Source: docs/specifications/rollout.md 2; KubeFleet pkg/controllers/placement/resource_selector.go. Unlike there,
reserved namespaces are refused in every mode, a term with neither name nor labels skips them, and any served version of
a kind is found.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from pydantic import ValidationError

from scorer.api.kinds import KINDS, NAMESPACE, Kind, group_kind, split_api_version
from scorer.api.meta import JsonObject
from scorer.api.placement.placement import SelectionScope
from scorer.api.unstructured.documents import (
    dicts_at,
    is_deleting,
    labels_of,
    name_of,
    namespace_of,
    spec_of,
    uid_of,
)
from scorer.api.values.label_selector import LabelSelector, selector_error
from scorer.rollout.ownership.objects import EVIDENCE, ClusterObjects, ObjectLister
from scorer.rollout.selection.content import resource_identifier, stored_content
from scorer.rollout.selection.exclusions import DEFAULT_SETTINGS, SelectionSettings, is_fleet_namespace

ObjectKey: TypeAlias = tuple[str, str, str, str]
"""Group, kind, namespace and name."""


class DocumentInventory:
    """An inventory of documents in memory, such as those read from files."""

    def __init__(self, documents: Iterable[JsonObject]) -> None:
        self._objects: dict[tuple[str, str], dict[str, dict[str, JsonObject]]] = defaultdict(lambda: defaultdict(dict))
        for document in documents:
            self._objects[group_kind(document)][namespace_of(document)][name_of(document)] = document

    def list(self, kind: Kind, namespace: str = "") -> Sequence[JsonObject]:
        """Return the objects of *kind*, sorted by namespace and name."""
        by_namespace = self._objects.get(kind.group_kind, {})
        selected = [by_namespace.get(each, {}) for each in ([namespace] if namespace else sorted(by_namespace))]
        return [objects[name] for objects in selected for name in sorted(objects)]

    def get(self, kind: Kind, name: str, namespace: str = "") -> JsonObject | None:
        """Return one object. None if it does not exist."""
        return self._objects.get(kind.group_kind, {}).get(namespace, {}).get(name)


@dataclass(frozen=True, slots=True)
class Selection:
    """Objects that a placement selects.

    Args:
        objects: Trimmed to what is placed, in the order of snapshots.
        identifiers: The same objects as ``status.selectedResources`` names them.
        cluster_objects: Matching objects that are omitted because a cluster's controllers create them: group, kind,
            namespace and name of each, with its origin (`ClusterObjects.origin`).
        uids: Uids of the selected objects on the hub, by group, kind, namespace and name.
    """

    objects: tuple[JsonObject, ...]
    identifiers: tuple[JsonObject, ...]
    cluster_objects: Mapping[ObjectKey, str] = field(default_factory=dict)
    uids: Mapping[ObjectKey, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class InvalidSelection:
    """A user error that makes the whole selection fail. No new content is placed until the user corrects it.

    Args:
        message: The error.
        rest: Selection of the cluster-scoped terms other than Namespaces. It is only set if the namespace of the
            namespaced terms does not exist or is being deleted, because a user may then confirm the removal of its
            content. None for any other error, and if the cluster-scoped terms have an error themselves.
    """

    message: str
    rest: Selection | None = None


def select_resources(
    terms: Sequence[Mapping[str, Any]],
    namespace: str,
    inventory: ObjectLister,
    kinds: Mapping[tuple[str, str], Kind] = KINDS,
    settings: SelectionSettings = DEFAULT_SETTINGS,
) -> Selection | InvalidSelection:
    """Return the objects that *terms* select.

    Args:
        terms: ``spec.resourceSelectors`` of the placement.
        namespace: The placement's own for a ResourcePlacement, empty for a ClusterResourcePlacement.
        inventory: The hub's objects.
        kinds: The kinds the hub serves, with list and watch, by group and kind.
        settings: Selection settings of the operator.
    """
    selector = _Selector(namespace, inventory, kinds, settings)
    try:
        return _selection(selector, selector.run(terms))
    except _LostNamespaceError as error:
        with suppress(_UserError):
            return InvalidSelection(str(error), _selection(selector, selector.run(_cluster_scoped_terms(terms, kinds))))
        return InvalidSelection(str(error))
    except _UserError as error:
        return InvalidSelection(str(error))


def _cluster_scoped_terms(
    terms: Iterable[Mapping[str, Any]], kinds: Mapping[tuple[str, str], Kind]
) -> list[Mapping[str, Any]]:
    """Return the terms for cluster-scoped kinds, Namespaces aside."""
    served = ((term, kinds.get((term.get("group") or "", term.get("kind") or ""))) for term in terms)
    return [term for term, kind in served if kind and not kind.namespaced and kind != NAMESPACE]


def _selection(selector: "_Selector", selected: Iterable[JsonObject]) -> Selection:
    selected = list(selected)
    content = sorted(map(stored_content, selected), key=order_key)
    uids = {
        (*group_kind(document), namespace_of(document), name_of(document)): uid_of(document) for document in selected
    }
    identifiers = tuple(map(resource_identifier, content))
    return Selection(tuple(content), identifiers, selector.cluster_objects, uids)


class _UserError(Exception):
    """A user error, which becomes an `InvalidSelection`."""


class _LostNamespaceError(_UserError):
    """The namespace of the namespaced terms does not exist, or is being deleted."""


class _Selector:
    def __init__(
        self,
        namespace: str,
        inventory: ObjectLister,
        kinds: Mapping[tuple[str, str], Kind],
        settings: SelectionSettings,
    ) -> None:
        self._namespace = namespace
        self._inventory = inventory
        self._kinds = kinds
        self._settings = settings
        self._clusters = ClusterObjects(inventory, workloads_enabled=settings.workloads_enabled)
        self.cluster_objects: dict[ObjectKey, str] = {}

    def run(self, terms: Sequence[Mapping[str, Any]]) -> list[JsonObject]:
        """Return the selected objects as stored on the hub, term by term.

        Raises:
            _UserError: The terms are invalid, for example because they select an object twice, or a reserved namespace.
        """
        if is_fleet_namespace(self._namespace, (self._settings.home,)):
            raise _UserError(f"namespace {self._namespace} belongs to the fleet itself and nothing in it can be placed")
        home = self._namespace or self._selected_home(terms)
        selected: dict[ObjectKey, JsonObject] = {}
        for at, term in enumerate(terms):
            for document in self._term(term, home):
                identity = _key(document)
                if identity in selected:
                    _, kind, space, name = identity
                    place = f"{space}/{name}" if space else name
                    raise _UserError(
                        f"resourceSelectors[{at}] selects {kind} {place}, which an earlier selector also selects"
                    )
                selected[identity] = document
        return list(selected.values())

    def _selected_home(self, terms: Sequence[Mapping[str, Any]]) -> str:
        """Return the namespace in the only ``NamespaceWithResourceSelectors`` term, or an empty string without one.

        Raises:
            _LostNamespaceError: The namespace does not exist, or is being deleted.
            _UserError: The terms do not select exactly one namespace by name, or it is reserved.
        """
        namespaces = [term for term in terms if is_namespace(term)]
        scoped_terms = [term for term in namespaces if _scope(term) is SelectionScope.NAMESPACE_WITH_RESOURCE_SELECTORS]
        if not scoped_terms:
            return ""
        if len(namespaces) > 1:
            raise _UserError(
                "NamespaceWithResourceSelectors selects exactly one namespace: no other Namespace term may be given"
            )
        name = scoped_terms[0].get("name") or ""
        if not name or scoped_terms[0].get("labelSelector") is not None:
            raise _UserError("NamespaceWithResourceSelectors must select exactly one namespace, by its name")
        self._refuse_reserved(name)
        document = self._inventory.get(NAMESPACE, name)
        if document is None or is_deleting(document):
            state = "does not exist" if document is None else "is being deleted"
            message = f"NamespaceWithResourceSelectors must select exactly one namespace: {name} {state}"
            raise _LostNamespaceError(message)
        return str(name)

    def _term(self, term: Mapping[str, Any], home: str) -> Iterator[JsonObject]:
        group, version, name = term.get("group") or "", term.get("version") or "", term.get("kind") or ""
        if not self._settings.is_selectable(group, version, name):
            return
        kind = self._kinds.get((group, name))
        if kind is None or version not in kind.versions:
            raise _UserError(f"the hub serves no {name} of group {group or 'core'!r} in version {version!r}")
        if is_namespace(term):
            if self._namespace:
                raise _UserError("a ResourcePlacement must not select namespaces")
            yield from self._namespaces(term)
        elif kind.namespaced:
            if not home:
                raise _UserError(
                    f"{name} is namespaced: select its namespace, or use a ResourcePlacement or selectionScope "
                    "NamespaceWithResourceSelectors"
                )
            yield from self._matching(kind, term, home)
        elif self._namespace:
            raise _UserError(f"{name} is cluster-scoped: a ResourcePlacement cannot select it")
        else:
            yield from self._cluster_scoped(kind, term)

    def _cluster_scoped(self, kind: Kind, term: Mapping[str, Any]) -> Iterator[JsonObject]:
        """Yield matching objects. A term for all objects of a kind skips the excluded ones.

        Raises:
            _UserError: Any other term matches an excluded object.
        """
        takes_all = _takes_all(term)
        for document in self._matching(kind, term, ""):
            if not (reason := self._settings.exclusion_reason(document)):
                yield document
            elif not takes_all:
                raise _UserError(f"{kind.kind} {name_of(document)} {reason} and cannot be placed")

    def _namespaces(self, term: Mapping[str, Any]) -> Iterator[JsonObject]:
        takes_all = _takes_all(term)
        for document in self._matching(NAMESPACE, term, ""):
            name = name_of(document)
            if takes_all and self._settings.is_reserved(name):
                continue
            self._refuse_reserved(name)
            yield document
            if _scope(term) is SelectionScope.NAMESPACE_WITH_RESOURCES:
                yield from self._content(name)

    def _content(self, namespace: str) -> Iterator[JsonObject]:
        for kind in sorted(self._kinds.values(), key=str):
            if kind.namespaced and self._settings.is_selectable(kind.group, kind.versions[0], kind.kind):
                yield from self._live(self._inventory.list(kind, namespace))

    def _matching(self, kind: Kind, term: Mapping[str, Any], namespace: str) -> Iterator[JsonObject]:
        if name := term.get("name"):
            document = self._inventory.get(kind, name, namespace)
            yield from self._live([document] if document else [])
            return
        matches = _label_matcher(term)
        candidates = self._inventory.list(kind, namespace)
        yield from self._live(document for document in candidates if matches(labels_of(document)))

    def _live(self, documents: Iterable[JsonObject]) -> Iterator[JsonObject]:
        for document in documents:
            if is_deleting(document):
                continue
            if origin := self._clusters.origin(document):
                self.cluster_objects[_key(document)] = origin
            else:
                yield document

    def _refuse_reserved(self, namespace: str) -> None:
        if self._settings.is_reserved(namespace):
            raise _UserError(f"namespace {namespace} is reserved and cannot be placed")


def _key(document: JsonObject) -> ObjectKey:
    return (*group_kind(document), namespace_of(document), name_of(document))


def is_namespace(term: Mapping[str, Any]) -> bool:
    """Return whether a resource selector selects Namespaces."""
    return (term.get("group") or "", term.get("kind")) == NAMESPACE.group_kind


def _takes_all(term: Mapping[str, Any]) -> bool:
    return not term.get("name") and not any((term.get("labelSelector") or {}).values())


def _scope(term: Mapping[str, Any]) -> SelectionScope:
    text = term.get("selectionScope") or SelectionScope.NAMESPACE_WITH_RESOURCES
    if text not in SelectionScope.__members__.values():
        raise _UserError(f"selectionScope {text!r} is not one of {', '.join(SelectionScope)}")
    return SelectionScope(text)


def _label_matcher(term: Mapping[str, Any]) -> Callable[[Mapping[str, str]], bool]:
    try:
        selector = LabelSelector.read(term.get("labelSelector") or {})
    except ValidationError as error:
        path = ".".join(map(str, error.errors()[0]["loc"]))
        raise _UserError(
            f"labelSelector of the term for {term.get('kind')}: {path}: {error.errors()[0]['msg']}"
        ) from error
    if wrong := selector_error(selector):
        raise _UserError(f"labelSelector of the term for {term.get('kind')}: {wrong}")
    if selector.match_expressions:
        return selector.matches
    required_labels = selector.match_labels.items()
    return lambda labels: required_labels <= labels.items()


def is_concerned(
    placement: JsonObject,
    changed: JsonObject,
    namespace_document: JsonObject | None = None,
    *,
    is_deleted: bool = False,
) -> bool:
    """Return whether a placement has to select again because an object changed (rollout.md 2.9).

    Args:
        placement: ClusterResourcePlacement or ResourcePlacement.
        changed: The current object, or its last state if it was deleted.
        namespace_document: The Namespace of a namespaced object, or None if that was deleted, too.
        is_deleted: Whether the object was deleted. A namespaced one is treated like a changed one.
    """
    own, changed_namespace = namespace_of(placement), namespace_of(changed)
    terms = spec_of(placement).get("resourceSelectors") or ()
    if own and own != changed_namespace:
        return False
    if not own and changed_namespace:
        candidate = namespace_document
        terms = [
            term for term in terms if is_namespace(term) and term.get("selectionScope") != SelectionScope.NAMESPACE_ONLY
        ]
    else:
        candidate = None if is_deleted and not changed_namespace else changed
    if candidate is not None and any(_reaches(term, candidate) for term in terms):
        return True
    if own and any(_is_evidence(changed, term) for term in terms):
        return True
    identity = _identity(resource_identifier(changed))
    return any(identity == _identity(item) for item in dicts_at(placement, "status", "selectedResources"))


def _is_evidence(document: JsonObject, term: Mapping[str, Any]) -> bool:
    """Return whether an object may show the origin of objects that a term selects: a StatefulSet does for claims."""
    kind = EVIDENCE.get((str(term.get("group") or ""), str(term.get("kind") or "")))
    return kind is not None and kind.group_kind == group_kind(document)


def _reaches(term: Mapping[str, Any], document: JsonObject) -> bool:
    if (term.get("group") or "", term.get("kind")) != group_kind(document):
        return False
    if name := term.get("name"):
        return bool(name == name_of(document))
    try:
        return _label_matcher(term)(labels_of(document))
    except _UserError:
        return True  # the next selection reports the error in the term


def _identity(identifier: Mapping[str, Any]) -> tuple[str, ...]:
    return tuple(str(identifier.get(key) or "") for key in ("group", "kind", "namespace", "name"))


_ORDER = """
PriorityClass Namespace NetworkPolicy ResourceQuota LimitRange PodDisruptionBudget ServiceAccount Secret ConfigMap
StorageClass PersistentVolume PersistentVolumeClaim CustomResourceDefinition ClusterRole ClusterRoleBinding Role
RoleBinding Service DaemonSet Pod ReplicationController ReplicaSet Deployment HorizontalPodAutoscaler StatefulSet Job
CronJob IngressClass Ingress APIService MutatingWebhookConfiguration ValidatingWebhookConfiguration
"""
_RANKS = {kind: rank for rank, kind in enumerate(_ORDER.split())}


def order_key(document: JsonObject) -> tuple[int, str, str]:
    """Return the sort key of a selected object.

    The order is fixed, so that an unchanged selection results in an unchanged snapshot.
    """
    kind = str(document.get("kind"))
    group, version = split_api_version(str(document.get("apiVersion")))
    rank = _RANKS.get(kind, len(_RANKS))
    family = f"{group}/{version}" if rank < len(_RANKS) else f"{group}/{version}, Kind={kind}"
    return rank, family, f"{namespace_of(document)}/{name_of(document)}"
