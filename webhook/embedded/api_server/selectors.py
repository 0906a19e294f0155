"""Selectors in URL syntax: ``labelSelector`` and ``fieldSelector``.

Source: Kubernetes apimachinery ``pkg/labels/selector.go``, ``pkg/fields/selector.go``; Kubernetes
``pkg/apis/core/v1/conversion.go`` and ``pkg/apis/events/v1/conversion.go`` for the fields. The comparisons ``<`` and
``>`` of labels are not supported.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final, TypeAlias

from scorer.api.kinds import Kind
from scorer.api.meta import JsonObject
from scorer.api.values.label_selector import LabelSelector, LabelSelectorRequirement, selector_error

_TOKEN: Final = re.compile(r"\s*(==|!=|[=!(),]|[^\s=!(),]+)", re.ASCII)
_OPERATORS: Final = {"=": "In", "==": "In", "!=": "NotIn", "in": "In", "notin": "NotIn"}
_Field: TypeAlias = tuple[str, ...]
"""One or more paths of a field, and the value that counts if the object has none."""


def _plain(*names: str) -> dict[str, _Field]:
    return {name: (name, "") for name in names}


_OBJECT: Final = ("kind", "namespace", "name", "uid", "apiVersion", "resourceVersion", "fieldPath")
_METADATA: Final = _plain("metadata.name", "metadata.namespace")
_SELECTABLE: Final[Mapping[tuple[str, str], Mapping[str, _Field]]] = {
    ("", "Event"): {
        **{f"involvedObject.{part}": (f"regarding.{part}", "") for part in _OBJECT},
        "reportingComponent": ("reportingController", ""),
        "source": ("deprecatedSource.component", "reportingController", ""),
        **_plain("reason", "type"),
    },
    ("events.k8s.io", "Event"): {
        **_plain(*(f"regarding.{part}" for part in _OBJECT), "reportingController", "reason", "type")
    },
    ("", "Pod"): {
        **_plain("spec.nodeName", "spec.restartPolicy", "spec.schedulerName", "spec.serviceAccountName"),
        **_plain("status.phase", "status.podIP", "status.nominatedNodeName"),
    },
    ("", "Node"): {"spec.unschedulable": ("spec.unschedulable", "false")},
    ("", "Namespace"): _plain("status.phase"),
    ("", "Secret"): _plain("type"),
}
"""Fields of a field selector by group and kind, for the kinds whose fields clients select by."""


def parse_label_selector(text: str) -> LabelSelector:
    """Parse ``app=web,tier in (a, b),!beta``.

    Raises:
        ValueError: Not a selector. The message quotes the text and names the error.
    """
    tokens = _Tokens(text)
    requirements = []
    while not tokens.at_end:
        requirements.append(_requirement(tokens))
        if not tokens.at_end:
            tokens.expect(",")
            if tokens.at_end:
                raise ValueError(f"labelSelector {text[:64]!r} ends with ','")
    selector = LabelSelector(match_expressions=tuple(requirements))
    if error := selector_error(selector):
        raise ValueError(f"labelSelector {text[:64]!r}: {error}")
    return selector


def _requirement(tokens: "_Tokens") -> LabelSelectorRequirement:
    if tokens.skip("!"):
        return LabelSelectorRequirement(key=tokens.word(), operator="DoesNotExist")
    key = tokens.word()
    if tokens.next in ("", ","):
        return LabelSelectorRequirement(key=key, operator="Exists")
    sign = tokens.take()
    if sign not in _OPERATORS:
        raise ValueError(f"labelSelector {tokens.text[:64]!r}: {sign[:64]!r} after {key[:64]!r} is not an operator")
    values = tuple(_values(tokens)) if sign in ("in", "notin") else (tokens.optional_word(),)
    return LabelSelectorRequirement(key=key, operator=_OPERATORS[sign], values=values)


def _values(tokens: "_Tokens") -> Iterator[str]:
    tokens.expect("(")
    yield tokens.optional_word()
    while tokens.skip(","):
        yield tokens.optional_word()
    tokens.expect(")")


class _Tokens:
    """The tokens of a selector, in order."""

    def __init__(self, text: str) -> None:
        self.text = text
        self._rest = _TOKEN.findall(text)[::-1]

    @property
    def next(self) -> str:
        return self._rest[-1] if self._rest else ""

    @property
    def at_end(self) -> bool:
        return not self._rest

    def take(self) -> str:
        return self._rest.pop() if self._rest else ""

    def skip(self, sign: str) -> bool:
        is_match = self.next == sign
        if is_match:
            self.take()
        return is_match

    def expect(self, sign: str) -> None:
        if not self.skip(sign):
            actual = repr(self.next[:64]) if self._rest else "the end"
            raise ValueError(f"labelSelector {self.text[:64]!r}: found {actual} instead of {sign!r}")

    def optional_word(self) -> str:
        return "" if self.next in ("", "==", *"=!(),", "!=") else self.take()

    def word(self) -> str:
        word = self.optional_word()
        if not word:
            actual = repr(self.next[:64]) if self._rest else "the end"
            raise ValueError(f"labelSelector {self.text[:64]!r}: found {actual} instead of a label key")
        return word


def selectable_fields(group: str, kind: Kind) -> Mapping[str, _Field]:
    """Return the paths of selectable fields in a stored object, by the names that field selectors use.

    Args:
        group: The requested group, which decides the names of an Event's fields.
        kind: The stored kind.
    """
    return {**_METADATA, **_SELECTABLE.get((group, kind.kind), {})}


def parse_field_selector(text: str, selectable: Mapping[str, _Field]) -> Callable[[JsonObject], bool]:
    """Parse ``metadata.name=a,status.phase!=Running``.

    Args:
        text: Any text.
        selectable: A result of `selectable_fields`.

    Returns:
        A function that returns whether every term holds for a stored object.

    Raises:
        ValueError: The text is not a selector, or selects by an unsupported field.
    """
    terms: list[tuple[_Field, str, bool]] = []
    for term in filter(None, text.split(",")):
        name, sign, value = term.partition("=")
        if not sign:
            raise ValueError(f"fieldSelector {text[:64]!r}: {term[:64]!r} has no '='")
        equal = not name.endswith("!")
        name = name.removesuffix("!").strip()
        if name not in selectable:
            raise ValueError(f"fieldSelector {text[:64]!r}: {name[:64]!r} is not one of {', '.join(selectable)}")
        terms.append((selectable[name], value.removeprefix("=").strip(), equal))
    return lambda document: all((_text(document, field) == value) is equal for field, value, equal in terms)


def _text(document: JsonObject, field: _Field) -> str:
    """Return a field as text: that of the first path that has one, otherwise the default."""
    *paths, default = field
    for path in paths:
        value: Any = document
        for part in path.split("."):
            value = value.get(part) if isinstance(value, dict) else None
        if value not in (None, ""):
            return str(value).lower() if isinstance(value, bool) else str(value)
    return default
