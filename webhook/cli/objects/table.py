"""Tables of objects: columns of a kind or of its API server, and the order of ``--sort-by``.

Strings are compared as quantities if both are quantities, else alphabetically. Objects without the field come first.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cmp_to_key
from typing import Any, Self

from scorer.api.crd.table import cells, columns_of
from scorer.api.kinds import OUR_KINDS
from scorer.api.unstructured.documents import dict_at, dicts_at, list_at, text_at
from scorer.api.unstructured.json_object import JsonObject
from scorer.api.values.quantity import parse_quantity
from scorer.api.values.quoting import printable
from webhook.cli.errors import UserError
from webhook.cli.files.documents import title_of
from webhook.cli.hub.resource_arguments import EVENT, ResourceArgument
from webhook.cli.text.jsonpath import JsonPathError, go_text, parse_path
from webhook.cli.text.links import URLS, urls_in

_BREAKS = "\f\n\r"


@dataclass(frozen=True, slots=True)
class Style:
    """Contents of a table besides the columns of a kind.

    Args:
        wide: Add the columns of wide tables.
        everywhere: Add the namespace, because objects of all namespaces are shown.
        label_columns: Labels with a column each.
        all_labels: Add a column with all labels.
        headers: Whether the table has headers.
        kind: Prefix each name with the kind.
    """

    wide: bool = False
    everywhere: bool = False
    label_columns: Sequence[str] = ()
    all_labels: bool = False
    headers: bool = True
    kind: bool = False


@dataclass(frozen=True, slots=True)
class Served:
    """An API server's table of objects, for a kind that has no columns here.

    Args:
        columns: Name of each column, and whether it is only for wide tables.
        cells: Cells of each object, by namespace and name.
    """

    columns: Sequence[tuple[str, bool]]
    cells: Mapping[tuple[str, str], Sequence[str]]

    @classmethod
    def read(cls, table: JsonObject) -> tuple[Self, list[JsonObject]]:
        """Return the table, and the objects in its rows."""
        columns = [
            (text_at(column, "name"), isinstance(column.get("priority"), int) and column["priority"] > 0)
            for column in dicts_at(table, "columnDefinitions")
        ]
        objects, cells = [], {}
        for row in dicts_at(table, "rows"):
            document = dict_at(row, "object")
            objects.append(document)
            cells[_key(document)] = [_cell(value) for value in list_at(row, "cells")]
        return cls(columns, cells), objects


def _cell(value: Any) -> str:
    text = "" if value is None else go_text(value)
    end = next((position for position, letter in enumerate(text) if letter in _BREAKS), len(text))
    return text if end == len(text) else f"{text[:end]}..."


def _key(document: JsonObject) -> tuple[str, str]:
    return text_at(document, "metadata", "namespace"), text_at(document, "metadata", "name")


class ObjectTable:
    """Headers and rows of one kind.

    Args:
        argument: The kind, with its CustomResourceDefinition if it is not one of harbormaster's kinds.
        style: Contents of the table.
        served: The API server's own table, if the kind has no columns here.
    """

    def __init__(self, argument: ResourceArgument, style: Style, served: Served | None = None) -> None:
        self._kind = argument.kind
        self._style = style
        self._spaced = argument.kind.namespaced and style.everywhere
        self._served = served
        self._columns = columns_of(argument.kind, wide=style.wide, definition=argument.definition)
        self._has_urls = style.wide and served is None and argument.kind in (*OUR_KINDS, EVENT)

    @property
    def headers(self) -> list[str]:
        """Column names as kubectl writes them."""
        if self._served is not None:
            names = [name for name, wide in self._served.columns if self._style.wide or not wide]
        else:
            names = [*(() if self._kind == EVENT else ("Name",)), *(column.name for column in self._columns)]
        labels = [label.rpartition("/")[2] for label in self._style.label_columns]
        names = [*names, *labels, *(("Labels",) if self._style.all_labels else ())]
        names += [URLS] if self._has_urls else []
        return [name.upper() for name in (["Namespace", *names] if self._spaced else names)]

    def row(self, item: JsonObject) -> list[str]:
        """Return the cells of one object."""
        namespace, name = _key(item)
        labels = {key: value for key, value in dict_at(item, "metadata", "labels").items() if isinstance(value, str)}
        row = [*self._cells(item, namespace, name), *(labels.get(label, "") for label in self._style.label_columns)]
        if self._style.all_labels:
            row.append(",".join(f"{key}={labels[key]}" for key in sorted(labels)) or "<none>")
        if self._has_urls:
            own = cells(item, self._columns, datetime.now(UTC))
            row.append(urls_in(own, [column.name.upper() for column in self._columns]))
        return [namespace, *row] if self._spaced else row

    def _cells(self, item: JsonObject, namespace: str, name: str) -> list[str]:
        if self._served is not None:
            row_cells = self._served.cells.get((namespace, name), ())
            pairs = zip(self._served.columns, row_cells, strict=False)
            visible_cells = [cell for (_, wide), cell in pairs if self._style.wide or not wide]
            return [self._titled(visible_cells[0]), *visible_cells[1:]] if visible_cells else []
        own = cells(item, self._columns, datetime.now(UTC))
        return own if self._kind == EVENT else [self._titled(name), *own]

    def _titled(self, name: str) -> str:
        return title_of(self._kind, name) if self._style.kind else name


def sort_objects(documents: Sequence[JsonObject], path: str) -> list[JsonObject]:
    """Return *documents* sorted by the value at *path*.

    Raises:
        UserError: The path cannot be parsed, matches nothing in any document, or matches values without an order.
    """
    try:
        sort_path = parse_path(path)
        keyed_documents = [(sort_path.find([document]), document) for document in documents]
    except JsonPathError as error:
        raise UserError(f"--sort-by {printable(path)[:128]}: {error}") from error
    if documents and not any(values for values, _ in keyed_documents):
        raise UserError(f"--sort-by {printable(path)[:128]}: no object has this field")

    def compare(left: tuple[list[Any], JsonObject], right: tuple[list[Any], JsonObject]) -> int:
        if not left[0] or not right[0]:
            return bool(left[0]) - bool(right[0])
        return _compare(left[0][0], right[0][0], path)

    return [document for _, document in sorted(keyed_documents, key=cmp_to_key(compare))]


def _compare(left: Any, right: Any, path: str) -> int:
    if left is None or right is None:
        return (left is not None) - (right is not None)
    if isinstance(left, str) and isinstance(right, str):
        return _compare_texts(left, right)
    if isinstance(left, int | float) and isinstance(right, int | float):
        return (left > right) - (left < right)
    raise UserError(
        f"--sort-by {printable(path)[:128]}: selects values that cannot be sorted: objects, lists or mixed types"
    )


def _compare_texts(left: str, right: str) -> int:
    try:
        amounts = parse_quantity(left).nano, parse_quantity(right).nano
    except ValueError:
        return (left > right) - (left < right)
    return (amounts[0] > amounts[1]) - (amounts[0] < amounts[1])
