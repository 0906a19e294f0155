"""A hub as a set of documents that can be overlaid with hypothetical changes, for reviews of a plan."""

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

from scorer.api.kinds import Kind, group_kind
from scorer.api.meta import JsonObject
from scorer.api.unstructured.documents import indexed_values, name_of, namespace_of
from scorer.api.values.label_selector import LabelSelector
from scorer.fleet import Fleet
from webhook.kube.ports import Key
from webhook.validation.framework.context import UnknownStateError
from webhook.validation.framework.label_index import LabelIndexes

_KindDocuments = Mapping[Key, JsonObject]


class DocumentSet:
    """The objects of a hub at one moment, as a `webhook.validation.framework.context.HubView`. Immutable.

    Lists are sorted by namespace and name, so that answers about a hub do not depend on its history.

    Args:
        documents: Objects by group and kind.
        complete_kinds: Kinds whose objects are complete. Any other kind without objects is unknown, not empty.
        fleet: All member clusters.
    """

    def __init__(
        self,
        documents: Mapping[tuple[str, str], _KindDocuments],
        complete_kinds: Iterable[tuple[str, str]],
        fleet: Fleet,
    ) -> None:
        self._documents = documents
        self._complete_kinds = frozenset(complete_kinds)
        self._fleet = fleet
        self._sorted: dict[tuple[str, str], Sequence[JsonObject]] = {}
        self._labelled: dict[tuple[tuple[str, str], str], Mapping[tuple[str, str], list[JsonObject]]] = {}
        self._by_labels = LabelIndexes()

    @classmethod
    def of(cls, documents: Iterable[JsonObject], fleet: Fleet, complete_kinds: Iterable[Kind] = ()) -> "DocumentSet":
        """Return the set of *documents*. A kind that is neither among them nor in *complete_kinds* is unknown."""
        by_kind: dict[tuple[str, str], dict[Key, JsonObject]] = defaultdict(dict)
        for document in documents:
            by_kind[group_kind(document)][Key(name_of(document), namespace_of(document))] = document
        return cls(dict(by_kind), {*by_kind, *(kind.group_kind for kind in complete_kinds)}, fleet)

    def find(self, kind: Kind, name: str, namespace: str = "") -> JsonObject | None:
        """Return one object, or None if it is missing or its kind is unknown."""
        return self._documents.get(kind.group_kind, {}).get(Key(name, namespace))

    def existing(self, kind: Kind) -> Sequence[JsonObject]:
        """Return the objects of *kind*, empty if the kind is unknown."""
        if kind.group_kind not in self._sorted:
            of_kind = self._documents.get(kind.group_kind, {})
            keys = sorted(of_kind, key=lambda key: (key.namespace, key.name))
            self._sorted[kind.group_kind] = [of_kind[key] for key in keys]
        return self._sorted[kind.group_kind]

    def is_complete(self, kind: Kind) -> bool:
        """Return whether all objects of *kind* are known."""
        return kind.group_kind in self._complete_kinds

    def others(self, left_out: Collection[tuple[str, str]]) -> Iterator[JsonObject]:
        """Yield every object except those of the kinds in *left_out*."""
        for kind, of_kind in self._documents.items():
            if kind not in left_out:
                yield from of_kind.values()

    def get(self, kind: Kind, name: str, namespace: str = "") -> JsonObject | None:
        """See `HubView.get`."""
        return self._of_kind(kind).get(Key(name, namespace))

    def list(self, kind: Kind, namespace: str = "") -> Collection[JsonObject]:
        """See `HubView.list`."""
        self._of_kind(kind)
        existing = self.existing(kind)
        return [document for document in existing if namespace_of(document) == namespace] if namespace else existing

    def labelled(self, kind: Kind, label: str, value: str, namespace: str = "") -> Collection[JsonObject]:
        """See `HubView.labelled`."""
        self._of_kind(kind)
        index = self._labelled.get((kind.group_kind, label))
        if index is None:
            by_label: dict[tuple[str, str], list[JsonObject]] = defaultdict(list)
            for document in self.existing(kind):
                for label_value in indexed_values(document, label):
                    by_label[label_value, namespace_of(document)].append(document)
            index = self._labelled[kind.group_kind, label] = dict(by_label)
        return index.get((value, namespace), ())

    def candidates(self, kind: Kind, selector: LabelSelector, namespace: str = "") -> Collection[JsonObject]:
        """See `HubView.candidates`."""
        return self._by_labels.of(kind, namespace, self.list).candidates(selector)

    @property
    def fleet(self) -> Fleet:
        """See `HubView.fleet`."""
        return self._fleet

    def overlaid(
        self, added: Iterable[JsonObject], removed: Iterable[tuple[tuple[str, str], Key]], fleet: Fleet
    ) -> "DocumentSet":
        """Return the set with the objects in *added* and without those in *removed*, with another fleet.

        The kinds of both count as complete.
        """
        touched: dict[tuple[str, str], dict[Key, JsonObject]] = {}
        for document in added:
            kind = group_kind(document)
            of_kind = touched.setdefault(kind, dict(self._documents.get(kind, {})))
            of_kind[Key(name_of(document), namespace_of(document))] = document
        for kind, key in removed:
            touched.setdefault(kind, dict(self._documents.get(kind, {}))).pop(key, None)
        return DocumentSet({**self._documents, **touched}, self._complete_kinds | touched.keys(), fleet)

    def limited(self, shown: Collection[tuple[str, str]]) -> "DocumentSet":
        """Return the set with only the objects of these kinds. All other kinds are unknown."""
        documents = {kind: of_kind for kind, of_kind in self._documents.items() if kind in shown}
        return DocumentSet(documents, self._complete_kinds & frozenset(shown), self._fleet)

    def within(
        self, namespace: str, namespaced: Collection[tuple[str, str]], cluster_wide: Collection[tuple[str, str]]
    ) -> "DocumentSet":
        """Return the set with only the objects of one namespace.

        Args:
            namespace: The namespace.
            namespaced: The namespaced kinds.
            cluster_wide: Cluster-scoped kinds whose objects are kept. All others are unknown.
        """
        documents: dict[tuple[str, str], _KindDocuments] = {}
        for kind, of_kind in self._documents.items():
            if kind in cluster_wide:
                documents[kind] = of_kind
            elif kind in namespaced:
                documents[kind] = {key: item for key, item in of_kind.items() if key.namespace == namespace}
        return DocumentSet(documents, self._complete_kinds & {*namespaced, *cluster_wide}, self._fleet)

    def _of_kind(self, kind: Kind) -> _KindDocuments:
        if not self.is_complete(kind):
            raise UnknownStateError(kind)
        return self._documents.get(kind.group_kind, {})
