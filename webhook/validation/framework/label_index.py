"""An index of objects by their labels, for many label selectors over the same objects."""

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Sequence

from scorer.api.kinds import Kind
from scorer.api.meta import JsonObject
from scorer.api.unstructured.documents import labels_of
from scorer.api.values.label_selector import LabelSelector, LabelSelectorRequirement


class LabelIndex:
    """Objects by the keys and the values of their labels.

    Args:
        documents: The objects.
    """

    def __init__(self, documents: Iterable[JsonObject]) -> None:
        self._documents: Sequence[JsonObject] = list(documents)
        self._with_key: dict[str, list[JsonObject]] = defaultdict(list)
        self._with_value: dict[tuple[str, str], list[JsonObject]] = defaultdict(list)
        for document in self._documents:
            for key, value in labels_of(document).items():
                self._with_key[key].append(document)
                self._with_value[key, value].append(document)

    def candidates(self, selector: LabelSelector) -> Collection[JsonObject]:
        """Return the objects that *selector* may match: those that meet its most selective In or Exists expression.

        All objects, if it has no such expression.
        """
        fitting = (found for each in selector.requirements() if (found := self._having(each)) is not None)
        return min(fitting, key=len, default=self._documents)

    def _having(self, requirement: LabelSelectorRequirement) -> Sequence[JsonObject] | None:
        """Return the objects that meet an expression, or None if objects without the label meet it."""
        match requirement.operator:
            case "In":
                return [
                    document
                    for value in dict.fromkeys(requirement.values)
                    for document in self._with_value.get((requirement.key, value), ())
                ]
            case "Exists":
                return self._with_key.get(requirement.key, ())
            case _:
                return None


class LabelIndexes:
    """The indexes of a hub, by kind and namespace. Each is made at its first use."""

    def __init__(self) -> None:
        self._indexes: dict[tuple[tuple[str, str], str], LabelIndex] = {}

    def of(self, kind: Kind, namespace: str, documents: Callable[[Kind, str], Iterable[JsonObject]]) -> LabelIndex:
        """Return the index of the objects that *documents* returns for a kind and a namespace."""
        key = (kind.group_kind, namespace)
        if key not in self._indexes:
            self._indexes[key] = LabelIndex(documents(kind, namespace))
        return self._indexes[key]
