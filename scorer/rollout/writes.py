"""What a plan asks to be written, in the order it has to be written."""

from dataclasses import dataclass
from enum import StrEnum

from scorer.api.meta import JsonObject


class Verb(StrEnum):
    """How a document is written."""

    CREATE = "create"
    REPLACE = "replace"
    DELETE = "delete"


@dataclass(frozen=True, slots=True)
class Write:
    """One write: a replaced document carries its ``resourceVersion``, a deletion needs no more than the name."""

    verb: Verb
    document: JsonObject

    @property
    def name(self) -> str:
        """Name of the object."""
        return str(self.document["metadata"]["name"])


def create(document: JsonObject) -> Write:
    """Ask for a new object."""
    return Write(Verb.CREATE, document)


def replace(document: JsonObject) -> Write:
    """Ask for an object to be stored anew."""
    return Write(Verb.REPLACE, document)


def delete(document: JsonObject) -> Write:
    """Ask for an object to be deleted."""
    return Write(Verb.DELETE, document)
