"""Resource arguments: ``crp``, ``crp/payments``, ``crp payments``, ``crp,rp``, ``all``, ``rp/NAMESPACE/NAME``.

Suggests the nearest kind or name when the user mistypes one.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Final

from scorer.api.family import FAMILIES
from scorer.api.kinds import CATEGORIES, KINDS, PLACEMENT, RESOURCE_PLACEMENT, UPGRADE_RUN, Kind, find_kind
from scorer.api.kinds import EVENT as EVENT
from scorer.api.unstructured.documents import dicts_at, text_at
from scorer.api.unstructured.json_object import JsonObject
from webhook.cli.errors import UserError
from webhook.cli.hub.client import Client, HubRefusedError, ResourcePath

ALL: Final = "all"
_CORE_EVENT: Final = KINDS["", "Event"]
_WORDS_FOR_MANY: Final = {ALL} | {word for words in CATEGORIES.values() for word in words}


@dataclass(frozen=True, slots=True)
class ResourceArgument:
    """A kind, and either one object or all objects of it.

    Args:
        kind: The kind.
        name: Name of the object. Empty: all objects.
        definition: The CustomResourceDefinition of a kind that is not ours.
        namespace: Namespace of the object, if it differs from the one that the user names for all arguments.
    """

    kind: Kind
    name: str = ""
    definition: JsonObject | None = None
    namespace: str = ""


async def parse_resources(words: Sequence[str], client: Client) -> list[ResourceArgument]:
    """Return the resources that *words* name. Unknown kinds are looked up in the discovery of the hub.

    Raises:
        UserError: A word is not a kind, or the words do not fit together.
    """
    if any("/" in word for word in words):
        resources = []
        for word in words:
            kind, slash, name = word.partition("/")
            if not slash or not kind or not name or "/" in name:
                raise UserError(f"{word!r}: expected KIND/NAME, like the other arguments")
            if "," in kind:
                raise UserError(f"{word!r}: names can be given for one kind at a time")
            resources += await _arguments_of(kind, name, client)
        return resources
    kinds, *names = words
    if not names:
        kind_words = [kind for kind in kinds.split(",") if kind]
        if not kind_words:
            raise UserError(f"{kinds!r} is not a known kind")
        return [argument for kind in kind_words for argument in await _arguments_of(kind, "", client)]
    if "," in kinds:
        raise UserError(f"{kinds!r}: names can be given for one kind at a time")
    return [argument for name in names for argument in await _arguments_of(kinds, name, client)]


async def _arguments_of(word: str, name: str, client: Client) -> list[ResourceArgument]:
    if (kind := find_kind(word)) is not None:
        return [ResourceArgument(EVENT if kind == _CORE_EVENT else kind, name)]
    several = word.lower() in _WORDS_FOR_MANY
    if several and name:
        raise UserError(f"{word!r} means several kinds, but a name needs one kind, as in crp/{name}")
    if client.simulated and not several:
        short, _, group = word.lower().partition(".")
        for kind, definition in (await client.custom_kinds()).values():
            if short in (kind.plural, kind.kind.lower(), *kind.short_names) and group in ("", kind.group):
                return [ResourceArgument(kind, name, definition)]
        raise unknown_kind(word)
    from webhook.cli.hub.discovery import discover

    served = [resource for resource in await discover(client) if "list" in resource.verbs]
    matches = [resource for resource in served if resource.matches(word)][:1]
    matches = matches or [resource for resource in served if word.lower() in resource.categories and not name]
    if not matches:
        raise unknown_kind(word, (resource.kind for resource in served))
    return [ResourceArgument(resource.kind, name) for resource in matches]


def unknown_kind(word: str, others: Iterable[Kind] = ()) -> UserError:
    """Return the error for an unknown kind, with suggestions.

    Args:
        word: The word as typed.
        others: Further known kinds, besides ours and those of Kubernetes.
    """
    short = word.lower().partition(".")[0]
    kinds = {kind.group_kind: kind for kind in (*KINDS.values(), *others)}.values()
    suggestions = " or ".join(_suggestions(short, kinds))
    return UserError(f"{word[:64]!r} is not a known kind" + (f". Did you mean {suggestions}?" if suggestions else ""))


def _suggestions(word: str, choices: Iterable[Kind]) -> list[str]:
    """Return suggestions for *word*: the kinds with these initials, and the most similar name of a kind."""
    kinds = list(choices)
    words = {alias: kind for kind in kinds for alias in (kind.plural, kind.kind.lower(), *kind.short_names)}
    initials = [kind for kind in kinds if word == "".join(filter(str.isupper, kind.kind)).lower()]
    close = [close_match for close_match in get_close_matches(word, words, n=1) if words[close_match] not in initials]
    return [*(kind.plural for kind in initials), *close]


MOST: Final = 500
"""Maximum number of names to read."""
_ALIKE: Final = 0.8
"""Minimum similarity of a suggested name, from 0 to 1."""


async def object_names(client: Client, place: ResourcePath) -> list[str]:
    """Return the names in a collection, `MOST` at most."""
    listing = await client.few(place, MOST)
    return sorted(filter(None, (text_at(item, "metadata", "name") for item in dicts_at(listing, "items"))))


async def suggestion(client: Client, place: ResourcePath) -> str:
    """Return the suggestion to append to a NotFound message, or an empty string if no name is similar."""
    try:
        names = await object_names(client, ResourcePath(place.kind, place.namespace))
    except HubRefusedError:
        return ""
    close = get_close_matches(place.name, names, n=1, cutoff=_ALIKE)
    return f". Did you mean {close[0]}?" if close else ""


def parse_reference(text: str) -> tuple[Kind, str, str]:
    """Return kind, namespace and name of ``crp/NAME`` or ``rp/NAMESPACE/NAME``.

    Raises:
        UserError: *text* has neither form.
    """
    word, *names = text.split("/")
    kind = find_kind(word)
    if kind == PLACEMENT and len(names) == 1 and all(names):
        return kind, "", names[0]
    if kind == RESOURCE_PLACEMENT and len(names) == 2 and all(names):
        return kind, names[0], names[1]
    raise UserError(f"{text!r} is not a placement: expected crp/NAME or rp/NAMESPACE/NAME{_of_runs(kind, names)}")


def parse_object(text: str, namespace: str = "") -> tuple[Kind, str, str]:
    """Return kind, namespace and name of ``KIND/NAME`` or ``KIND/NAMESPACE/NAME``.

    Args:
        text: The text.
        namespace: Namespace of ``KIND/NAME`` for a namespaced kind.

    Raises:
        UserError: *text* has neither form, or names an unknown kind.
    """
    word, *names = text.split("/")
    if not names or not all(names) or len(names) > 2:
        raise UserError(f"{text!r} is not an object: expected KIND/NAME or KIND/NAMESPACE/NAME")
    kind = find_kind(word)
    if kind is None:
        raise unknown_kind(word)
    if kind.namespaced:
        return kind, names[0] if len(names) > 1 else namespace, names[-1]
    if len(names) > 1:
        raise UserError(f"{text!r}: {kind.kind} has no namespace: expected {word}/NAME")
    return kind, "", names[0]


def _of_runs(kind: Kind | None, names: Sequence[str]) -> str:
    """Return a hint at the command that shows a run, or an empty string for other kinds."""
    if kind == UPGRADE_RUN:
        name = names[0] if names and names[0] else "NAME"
        return f". For an upgrade run: harbormaster upgrade status {name}, harbormaster upgrade plan {name}"
    if kind in {family.run for family in FAMILIES} and names and names[-1]:
        space = f" -n {names[0]}" if len(names) > 1 else ""
        return f". For a staged update: harbormaster run status {names[-1]}{space}"
    return ""
