"""Reads what a user types to name objects: ``crp``, ``crp/payments``, ``crp payments``, ``crp,rp``."""

from collections.abc import Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Final

from scorer.api.kinds import KINDS, Kind, find_kind
from scorer.api.meta import JsonObject
from webhook.cli.client import Client
from webhook.cli.failure import UserError

_CORE_EVENT: Final = KINDS["", "Event"]
_EVENT: Final = KINDS["events.k8s.io", "Event"]
"""What a hub has of both; the loop writes this one."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """A kind, and one name in it or all.

    Args:
        kind: The kind.
        name: Empty: all of them.
        definition: The CustomResourceDefinition of a kind that is not ours.
    """

    kind: Kind
    name: str = ""
    definition: JsonObject | None = None


async def parse_wanted(words: Sequence[str], client: Client) -> list[Wanted]:
    """Return what *words* name; a kind that is not known here is looked up on the hub.

    Raises:
        UserError: A word is no kind, or the words do not fit together.
    """
    if any("/" in word for word in words):
        wanted = []
        for word in words:
            kind, slash, name = word.partition("/")
            if not slash or not kind or not name or "/" in name:
                raise UserError(f"{word!r}: expected KIND/NAME, as the other words are")
            wanted.append(await _wanted(kind, name, client))
        return wanted
    kinds, *names = words
    if not names:
        return [await _wanted(kind, "", client) for kind in kinds.split(",") if kind]
    if "," in kinds:
        raise UserError(f"{kinds!r}: names can be given for one kind at a time")
    return [await _wanted(kinds, name, client) for name in names]


async def _wanted(word: str, name: str, client: Client) -> Wanted:
    if (kind := find_kind(word)) is not None:
        return Wanted(_EVENT if kind == _CORE_EVENT else kind, name)
    short, _, group = word.lower().partition(".")
    for kind, definition in (await client.custom_kinds()).values():
        if short in (kind.plural, kind.kind.lower(), *kind.short_names) and group in ("", kind.group):
            return Wanted(kind, name, definition)
    meant = " or ".join(_meant(short))
    raise UserError(f"{word!r} is not a known kind" + (f"; did you mean {meant}?" if meant else ""))


def _meant(word: str) -> list[str]:
    """Return what the user may have meant: the kinds whose initials *word* is, and the word most like it."""
    words = {each: kind for kind in KINDS.values() for each in (kind.plural, kind.kind.lower(), *kind.short_names)}
    initials = [kind for kind in KINDS.values() if word == "".join(filter(str.isupper, kind.kind)).lower()]
    close = [each for each in get_close_matches(word, words, n=1) if words[each] not in initials]
    return [*(kind.plural for kind in initials), *close]
