"""The kinds that a store serves: the built-in table, and those that its CustomResourceDefinitions define."""

from collections import ChainMap
from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Any, Final

from scorer.api.kinds import CUSTOM_RESOURCE_DEFINITION, KINDS, Kind
from scorer.api.unstructured.json_object import JsonObject

DEFINITION: Final = CUSTOM_RESOURCE_DEFINITION.group_kind

_BY_PLURAL: Final = {(kind.group, kind.plural): kind for kind in KINDS.values()}


class StoredKinds:
    """Looks kinds up by group and kind, or by group and plural. A kind of the table cannot be redefined."""

    def __init__(self) -> None:
        self._by_name: dict[str, Kind] = {}
        self._custom: dict[tuple[str, str], Kind] = {}
        self._custom_plurals: dict[tuple[str, str], Kind] = {}

    def __iter__(self) -> Iterator[Kind]:
        yield from KINDS.values()
        yield from self._custom.values()

    @property
    def custom(self) -> Mapping[tuple[str, str], Kind]:
        """The kinds that CustomResourceDefinitions define, by group and kind, as a live view."""
        return MappingProxyType(self._custom)

    @property
    def live(self) -> dict[tuple[str, str], Kind]:
        """The kinds of `custom` as a plain dict, for use in a larger mapping."""
        return self._custom

    def find(self, group: str, kind: str) -> Kind | None:
        """Return the kind regardless of its versions, or None if it is unknown."""
        return KINDS.get((group, kind)) or self._custom.get((group, kind))

    def find_plural(self, group: str, plural: str) -> Kind | None:
        """Return the kind whose objects are at ``/<group>/<version>/<plural>``, None if it is unknown."""
        return _BY_PLURAL.get((group, plural)) or self._custom_plurals.get((group, plural))

    def defined_by(self, name: str) -> Kind | None:
        """Return the kind that the CustomResourceDefinition of that name defines.

        None if the definition does not exist, or if `define` has ignored it.
        """
        return self._by_name.get(name)

    def define(self, definition: JsonObject) -> None:
        """Add the kind that a CustomResourceDefinition defines, instead of the one that it defined before.

        A definition is ignored if it is malformed or misnamed, or if its kind exists already.
        """
        name = definition["metadata"]["name"]
        self.forget(name)
        kind = kind_of_definition(definition)
        is_taken_kind = kind is None or kind.group_kind in KINDS or kind.group_kind in self._custom
        if kind is None or is_taken_kind or name != kind.resource:
            return
        self._by_name[name] = kind
        self._custom[kind.group_kind] = kind
        self._custom_plurals[kind.group, kind.plural] = kind

    def forget(self, name: str) -> None:
        """Remove the kind that the CustomResourceDefinition of that name defined."""
        if kind := self._by_name.pop(name, None):
            del self._custom[kind.group_kind]
            del self._custom_plurals[kind.group, kind.plural]


class EmbeddedKinds:
    """The kinds that an embedded hub serves, including new ones as soon as they are defined.

    Args:
        kinds: Kinds of the store.
    """

    silent: frozenset[str] = frozenset()

    def __init__(self, kinds: StoredKinds) -> None:
        self.kinds: Mapping[tuple[str, str], Kind] = MappingProxyType(ChainMap(dict(KINDS), kinds.live))

    async def refresh(self) -> None:
        """See `webhook.kube.ports.ServedKinds`: a no-op, because the view is live."""


def kind_of_definition(definition: JsonObject) -> Kind | None:
    """Return the kind that a CustomResourceDefinition defines, or None if the definition is malformed.

    The kind has the served versions, the storage version first.
    """
    try:
        spec = definition["spec"]
        names = spec["names"]
        served = [version for version in spec["versions"] if version.get("served")]
        served.sort(key=lambda version: not version.get("storage"))
        kind = Kind(
            group=_word(spec["group"]),
            versions=tuple(_word(version["name"]) for version in served),
            kind=_word(names["kind"]),
            plural=_word(names["plural"]),
            namespaced=spec["scope"] == "Namespaced",
            short_names=tuple(map(_word, names.get("shortNames") or ())),
            has_status="status" in (served[0].get("subresources") or {}),
        )
    except (KeyError, TypeError, AttributeError, IndexError, ValueError):
        return None
    return kind


def _word(value: Any) -> str:
    if not isinstance(value, str) or not value:
        raise ValueError("not a word")
    return value
