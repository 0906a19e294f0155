"""The context of admission limited to the caller's rights, for reviews of proposed writes in ``/v1``.

Rules and live checks compare an object with others and name them, such as an override that selects the same object, or
a placement on the same clusters. The hooks answer the author of a write. A caller of ``/v1`` writes nothing, so a
verdict must not depend on an object of a kind that the caller may not list. Such an object counts as absent for rules,
and as unknown for live checks. Member clusters are an exception, since all of ``/v1`` is about them.
"""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Final

from scorer.api.family import FAMILIES
from scorer.api.kinds import MEMBER_CLUSTER, NODE_POOL, Kind, group_kind
from scorer.api.meta import JsonObject
from scorer.api.node_class import NODE_CLASSES
from scorer.api.unstructured.documents import dicts_at, namespace_of, text_at
from scorer.api.values.label_selector import LabelSelector
from scorer.fleet import Fleet
from webhook.admission.cached import ADMISSION_KINDS, POOL_KINDS, WANTED_KINDS
from webhook.validation.framework.context import Context, HubKinds, HubView, UnknownStateError
from webhook.validation.member_cluster import INTERNAL_SERVICE_EXPORT

OPEN: Final = MEMBER_CLUSTER
"""The kind that callers of ``/v1`` need no right to list."""
_READ_WITH_CLAIMS: Final = frozenset(kind.group_kind for kind in (NODE_POOL, *NODE_CLASSES))
"""Kinds whose verdicts depend on NodePools and NodeClaims."""


_WITH_PLACEMENTS: Final = {
    kind: family.placement
    for family in FAMILIES
    for kind in (family.policy_snapshot, family.resource_snapshot, family.binding)
}
"""Kinds that describe placements. They are visible to callers who may list placements."""


def compared_kinds(documents: Iterable[JsonObject], hub_kinds: HubKinds) -> frozenset[Kind]:
    """Return the kinds that a verdict on *documents* may depend on, if the caller may list them."""
    kinds: set[Kind | None] = {*ADMISSION_KINDS, *WANTED_KINDS, INTERNAL_SERVICE_EXPORT}
    for document in documents:
        if group_kind(document) in _READ_WITH_CLAIMS:
            kinds.update(POOL_KINDS)
        for term in dicts_at(document, "spec", "resourceSelectors"):
            kinds.add(hub_kinds.find(text_at(term, "group"), text_at(term, "kind")))
    return frozenset(_WITH_PLACEMENTS.get(kind, kind) for kind in kinds if kind is not None and kind != OPEN)


def shown_with(listed: Collection[Kind]) -> frozenset[Kind]:
    """Return the kinds whose objects are visible to a caller who may list *listed*."""
    return frozenset({OPEN, *listed, *(kind for kind, parent in _WITH_PLACEMENTS.items() if parent in listed)})


@dataclass(frozen=True, slots=True)
class Readable:
    """Kinds that a caller may list.

    Args:
        kinds: Kinds that the caller may list in all namespaces, as `shown_with`.
        namespace: Namespace of the reviewed object, empty if it is cluster-scoped.
        inside: Kinds that the caller may list only in that namespace, as `shown_with`.
    """

    kinds: Collection[Kind]
    namespace: str = ""
    inside: Collection[Kind] = frozenset()

    def shows(self, kind: Kind, namespace: str = "") -> bool:
        """Return whether the caller may list a kind in a namespace, or everywhere if *namespace* is empty."""
        if kind in self.kinds:
            return True
        return bool(namespace) and namespace == self.namespace and kind in self.inside


def limited(context: Context, readable: Readable, hidden: set[Kind] | None = None) -> Context:
    """Return the same context, limited to the kinds that a caller may list.

    Args:
        context: Inputs of the rules.
        readable: Kinds that the caller may list.
        hidden: Receives the kinds whose objects were hidden from a rule. None: disabled.
    """

    def existing(kind: Kind) -> Sequence[JsonObject]:
        if readable.shows(kind):
            return context.existing(kind)
        if not readable.shows(kind, readable.namespace):
            if hidden is not None:
                hidden.add(kind)
            return ()
        return [document for document in context.existing(kind) if namespace_of(document) == readable.namespace]

    return replace(context, existing=existing, hub=_LimitedHub(context.hub, readable))


class _LimitedHub:
    """A hub without the kinds that a caller may not list."""

    def __init__(self, hub: HubView, readable: Readable) -> None:
        self._hub = hub
        self._readable = readable

    def get(self, kind: Kind, name: str, namespace: str = "") -> JsonObject | None:
        """See `HubView.get`."""
        return self._of(kind, namespace).get(kind, name, namespace)

    def list(self, kind: Kind, namespace: str = "") -> Collection[JsonObject]:
        """See `HubView.list`."""
        return self._of(kind, namespace).list(kind, namespace)

    def labelled(self, kind: Kind, label: str, value: str, namespace: str = "") -> Collection[JsonObject]:
        """See `HubView.labelled`."""
        return self._of(kind, namespace).labelled(kind, label, value, namespace)

    def candidates(self, kind: Kind, selector: LabelSelector, namespace: str = "") -> Collection[JsonObject]:
        """See `HubView.candidates`."""
        return self._of(kind, namespace).candidates(kind, selector, namespace)

    @property
    def fleet(self) -> Fleet:
        """See `HubView.fleet`."""
        return self._hub.fleet

    def _of(self, kind: Kind, namespace: str) -> HubView:
        if not self._readable.shows(kind, namespace):
            raise UnknownStateError(kind, namespace)
        return self._hub
