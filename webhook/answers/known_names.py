"""Names in a proposal, and the known names that an answer to an unknown one lists."""

from collections.abc import Iterable
from typing import Final

from scorer.api.kinds import KINDS, OUR_KINDS, Kind
from scorer.fleet import Fleet
from scorer.what_if.state import ObjectKey
from webhook.validation.framework.context import HubKinds

MOST_NAMED: Final = 20
"""Maximum number of names that the answer to an unknown name lists."""


def kinds_named(word: str, hub_kinds: HubKinds) -> list[Kind]:
    """Return the kinds of that name, ours first, because several groups may use the same name."""
    every = (*OUR_KINDS, *KINDS.values(), *hub_kinds.custom.values())
    return list(dict.fromkeys(kind for kind in every if kind.kind == word))


def names_of_members(fleet: Fleet) -> str:
    """Return the names of the members, up to a limit."""
    return listed("The fleet", fleet.names)


def listed(subject: str, names: Iterable[str]) -> str:
    """Return a sentence with the first names."""
    sorted_names = sorted(names)
    more = f" and {len(sorted_names) - MOST_NAMED} more" if len(sorted_names) > MOST_NAMED else ""
    return f"{subject}: {', '.join(sorted_names[:MOST_NAMED]) or 'none'}{more}"


def qualified_name(identity: ObjectKey) -> str:
    """Return the namespace and name of an object."""
    return f"{identity.namespace}/{identity.name}" if identity.namespace else identity.name
