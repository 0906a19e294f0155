"""Orders of a viewer, and the plan of an order: its command, its effect, its precondition and its write.

Source: docs/specifications/serving.md 3.5.
"""

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, Protocol

from scorer.api.family import FAMILIES
from scorer.api.kinds import MEMBER_CLUSTER, UPGRADE_GATE, UPGRADE_RUN, Kind
from scorer.api.unstructured.json_object import JsonObject

LONGEST_FACT: Final = 200
"""Maximum length of a fact. A longer one is replaced by its digest."""
_MOST_NAMED: Final = 10
_DIGEST_LENGTH: Final = 16


class ActionName(StrEnum):
    """The actions."""

    APPROVE = "approve"
    REJECT = "reject"
    STOP = "stop"
    RESUME = "resume"
    UNDO = "undo"
    CONFIRM = "confirm"
    CORDON = "cordon"
    UNCORDON = "uncordon"


_RUNS: Final = tuple(family.run for family in FAMILIES)
KINDS_OF: Final[Mapping[ActionName, Sequence[Kind]]] = {
    ActionName.APPROVE: (*_RUNS, UPGRADE_GATE),
    ActionName.REJECT: (*_RUNS, UPGRADE_GATE),
    ActionName.STOP: (*_RUNS, UPGRADE_RUN),
    ActionName.RESUME: (*_RUNS, UPGRADE_RUN),
    ActionName.UNDO: _RUNS,
    ActionName.CONFIRM: tuple(family.placement for family in FAMILIES),
    ActionName.CORDON: (MEMBER_CLUSTER,),
    ActionName.UNCORDON: (MEMBER_CLUSTER,),
}
"""Kinds of objects that each action accepts."""


class ActionRefusedError(Exception):
    """The state of the object does not allow the action. The message has the reason."""


class HubRefusalError(Exception):
    """The API server of the hub refuses a request of the viewer.

    Args:
        code: HTTP status code.
        message: The API server's message.
    """

    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.code = code
        self.message = message


@dataclass(frozen=True, slots=True)
class ActionOrder:
    """An action on one object.

    Args:
        action: The action.
        kind: Kind of the object, one of `KINDS_OF`.
        name: Name of the object.
        namespace: Namespace of the object, empty for a cluster-scoped one.
        stage: Stage of the approval. Empty: the waiting stage.
        digests: Removals to confirm. Empty: all pending ones.
        reason: Reason, recorded with an answer.
    """

    action: ActionName
    kind: Kind
    name: str
    namespace: str = ""
    stage: str = ""
    digests: tuple[str, ...] = ()
    reason: str = ""


@dataclass(frozen=True, slots=True)
class HubWrite:
    """A write to the hub.

    Args:
        kind: Kind of the object.
        body: Merge patch of the object. Without a name, the new object.
        name: Name of the object, empty to create it.
        namespace: Namespace of the object.
        subresource: Subresource, empty for the object itself.
    """

    kind: Kind
    body: JsonObject
    name: str = ""
    namespace: str = ""
    subresource: str = ""


@dataclass(frozen=True, slots=True)
class ActionPlan:
    """An order, evaluated against the objects as they are now.

    Args:
        command: Words of the equivalent command, without the program.
        impact: The effect, one sentence each.
        facts: The state that the effect depends on, by name. Execution requires the same facts.
        write: The write, or None if the object is in the requested state already.
        outcome: The result, as the command reports it.
        updates: Clusters that get the content of the run next.
    """

    command: Sequence[str]
    impact: Sequence[str]
    facts: Mapping[str, str]
    write: HubWrite | None
    outcome: str
    updates: Sequence[str] = ()


class ActionReader(Protocol):
    """Reads objects of the hub with the rights of the viewer."""

    async def get(self, kind: Kind, name: str, namespace: str = "") -> JsonObject:
        """Return an object, with its kind. Raises `HubRefusalError`."""
        ...

    async def list_all(self, kind: Kind, namespace: str = "", selector: str = "") -> list[JsonObject]:
        """Return all objects of a kind, with their kind. *selector* is a label selector. Raises as `get`."""
        ...


def fact(text: str) -> str:
    """Return a text as a fact of bounded length."""
    if len(text) <= LONGEST_FACT:
        return text
    return f"sha256:{hashlib.sha256(text.encode()).hexdigest()[:_DIGEST_LENGTH]}"


def changed_facts(before: Mapping[str, str], now: Mapping[str, str]) -> list[str]:
    """Return the differences between two sets of facts, one sentence part each."""
    names = [*now, *(name for name in before if name not in now)]
    return [
        f"{name} was {before.get(name) or 'absent'}, and is now {now.get(name) or 'absent'}"
        for name in names
        if before.get(name, "") != now.get(name, "")
    ]


def named(names: Iterable[str], noun: str = "cluster") -> str:
    """Return a list of names for a sentence, such as ``2 clusters (east, west)``."""
    listed = list(names)
    more = f" and {len(listed) - _MOST_NAMED} more" if len(listed) > _MOST_NAMED else ""
    count = f"{len(listed)} {noun}{'' if len(listed) == 1 else 's'}"
    return f"{count} ({', '.join(listed[:_MOST_NAMED])}{more})" if listed else count


def namespace_words(namespace: str) -> list[str]:
    """Return the words that select a namespace in a command."""
    return ["-n", namespace] if namespace else []
