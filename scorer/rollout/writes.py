"""The writes of a plan, in execution order."""

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum

from scorer.api.meta import JsonObject


class Verb(StrEnum):
    """Kind of write."""

    CREATE = "create"
    REPLACE = "replace"
    DELETE = "delete"


@dataclass(frozen=True, slots=True)
class Write:
    """One write.

    The document carries its preconditions. A replacement has a ``resourceVersion``, so that it does not overwrite a
    concurrent write. A deletion has a ``uid``, so that it does not delete a new object of the same name.
    """

    verb: Verb
    document: JsonObject

    @property
    def name(self) -> str:
        """Name of the object."""
        return str(self.document["metadata"]["name"])


def create(document: JsonObject) -> Write:
    """Return the creation of an object."""
    return Write(Verb.CREATE, document)


def replace(document: JsonObject) -> Write:
    """Return the replacement of an object."""
    return Write(Verb.REPLACE, document)


def delete(document: JsonObject) -> Write:
    """Return the deletion of an object."""
    return Write(Verb.DELETE, document)


def applied(documents: Iterable[JsonObject], writes: Iterable[Write]) -> list[JsonObject]:
    """Return the documents of one kind and namespace as they are after *writes*."""
    documents_by_name = {str(document["metadata"]["name"]): document for document in documents}
    for write in writes:
        if write.verb is Verb.DELETE:
            documents_by_name.pop(write.name, None)
        else:
            documents_by_name[write.name] = write.document
    return list(documents_by_name.values())
