"""Selectors in URL syntax: ``labelSelector`` and ``fieldSelector``.

Source: Kubernetes apimachinery ``pkg/labels/selector.go``, ``pkg/fields/selector.go``. The comparisons ``<`` and ``>``
of labels are not supported.
"""

import re
from collections.abc import Iterator
from typing import Final

from scorer.api.meta import JsonObject
from scorer.api.values.label_selector import LabelSelector, LabelSelectorRequirement, selector_error

_TOKEN: Final = re.compile(r"\s*(==|!=|[=!(),]|[^\s=!(),]+)", re.ASCII)
_OPERATORS: Final = {"=": "In", "==": "In", "!=": "NotIn", "in": "In", "notin": "NotIn"}
_FIELDS: Final = ("metadata.name", "metadata.namespace")


def parse_label_selector(text: str) -> LabelSelector:
    """Parse ``app=web,tier in (a, b),!beta``.

    Raises:
        ValueError: Not a selector. The message shows the position.
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


def parse_field_selector(text: str) -> dict[tuple[str, str], bool]:
    """Parse ``metadata.name=a,metadata.namespace!=b``.

    Returns:
        By field and value, whether they must be equal.

    Raises:
        ValueError: Not a selector, or one by an unsupported field.
    """
    terms = {}
    for term in filter(None, text.split(",")):
        field, sign, value = term.partition("=")
        if not sign:
            raise ValueError(f"fieldSelector {text[:64]!r}: {term[:64]!r} has no '='")
        equal = not field.endswith("!")
        field = field.removesuffix("!").strip()
        if field not in _FIELDS:
            raise ValueError(f"fieldSelector {text[:64]!r}: {field[:64]!r} is not one of {', '.join(_FIELDS)}")
        terms[field, value.removeprefix("=").strip()] = equal
    return terms


def selected_by_fields(terms: dict[tuple[str, str], bool], document: JsonObject) -> bool:
    """Return whether every term of a field selector holds."""
    metadata = document["metadata"]
    return all(
        (metadata.get(field.removeprefix("metadata."), "") == value) is equal for (field, value), equal in terms.items()
    )
