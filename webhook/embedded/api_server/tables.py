"""Objects as tables: the format that ``kubectl get`` requests from a server and prints unchanged.

The columns are those of `harbormaster get`. Requested by ``Accept: application/json;as=Table;g=meta.k8s.io;v=v1``.

Source: Kubernetes ``meta.k8s.io/v1``, Table; apiserver ``pkg/registry/customresource/tableconvertor``.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from scorer.api.crd.columns import Column
from scorer.api.crd.table import cells, columns_of, find_path
from scorer.api.kinds import EVENT
from scorer.api.meta import JsonObject
from webhook.embedded.api_server.request_info import RequestInfo
from webhook.embedded.api_server.status import ApiError

_VERSION: Final = "meta.k8s.io/v1"
_NAME: Final = Column("Name", ".metadata.name")
_NUMBERS: Final = ("integer", "number")
INCLUDED: Final = ("Metadata", "None", "Object")
"""Values of the parameter ``includeObject``: how much of its object a row has. The first is the default."""


def accepts_table(accept: str) -> bool:
    """Return whether a client prefers a table to the objects themselves, by its header ``Accept``."""
    words = {word.strip() for word in accept.partition(",")[0].split(";")}
    return {"as=Table", "g=meta.k8s.io", "v=v1"} <= words


@dataclass(frozen=True, slots=True)
class Tables:
    """Writes objects of one kind as tables.

    Args:
        target: The requested objects.
        columns: All columns.
        now: Reference time of ages.
        included: One of `INCLUDED`.
    """

    target: RequestInfo
    columns: Sequence[Column]
    now: Callable[[], datetime]
    included: str

    def of(self, documents: Iterable[JsonObject], resource_version: str) -> JsonObject:
        """Return a table of *documents*, at the version of the list or of the single object."""
        columns = [
            {
                "name": column.name,
                "type": column.type if column.type in _NUMBERS else "string",  # dates are shown as ages
                "format": "name" if column is _NAME else "",  # kubectl adds the kind to this column
                "description": "",
                "priority": int(column.wide),
            }
            for column in self.columns
        ]
        return {
            "kind": "Table",
            "apiVersion": _VERSION,
            "metadata": {"resourceVersion": resource_version},
            "columnDefinitions": columns,
            "rows": [self._row(document) for document in documents],
        }

    def of_one(self, document: JsonObject) -> JsonObject:
        """Return a table of one row."""
        return self.of((document,), document["metadata"]["resourceVersion"])

    def _row(self, document: JsonObject) -> JsonObject:
        texts = cells(document, self.columns, self.now())
        row_cells = [
            _number(document, column) if column.type in _NUMBERS else text
            for column, text in zip(self.columns, texts, strict=True)
        ]
        return {"cells": row_cells, "object": self._object(document)}

    def _object(self, document: JsonObject) -> JsonObject | None:
        if self.included == "None":
            return None
        if self.included == "Object":
            return self.target.present(document)
        return {"kind": "PartialObjectMetadata", "apiVersion": _VERSION, "metadata": document["metadata"]}


def tables_for(
    target: RequestInfo, definition: JsonObject | None, now: Callable[[], datetime], include_object: str
) -> Tables:
    """Return a writer of tables for the objects of *target*.

    Args:
        target: The requested objects.
        definition: The CustomResourceDefinition of a foreign kind, if any.
        now: The clock.
        include_object: ``includeObject`` of the request, empty for the default.

    Raises:
        ApiError: 400, *include_object* is none of `INCLUDED`.
    """
    if include_object and include_object not in INCLUDED:
        raise ApiError(400, f"includeObject {include_object[:64]!r} is not one of {', '.join(INCLUDED)}")
    columns = columns_of(target.kind, wide=True, definition=definition)
    if target.kind != EVENT:  # the name of an Event is meaningless
        columns = (_NAME, *columns)
    return Tables(target, columns, now, include_object or INCLUDED[0])


def _number(document: JsonObject, column: Column) -> Any:
    path = find_path(document, column.path)
    return path if isinstance(path, int | float) else None
