"""Resource arguments: ``crp``, ``crp/payments``, ``crp payments``, ``crp,rp``, ``all``, ``rp/NAMESPACE/NAME``.

A placement or a run is also named without its kind.

Suggests the nearest kind or name when the user mistypes one.
"""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from difflib import get_close_matches
from typing import Final, NamedTuple

from scorer.api.family import FAMILIES, PLACEMENTS
from scorer.api.kinds import CATEGORIES, KINDS, UPGRADE_RUN, Kind, find_kind
from scorer.api.kinds import EVENT as EVENT
from scorer.api.unstructured.documents import dicts_at, text_at
from scorer.api.unstructured.json_object import JsonObject
from webhook.cli.errors import UserError
from webhook.cli.files.documents import DEFAULT_NAMESPACE, Loaded, definitions
from webhook.cli.files.parsing import DocumentSource
from webhook.cli.hub.client import Client, HubRefusedError, ResourcePath
from webhook.cli.hub.connection import HubConnection

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

    def place(self, namespace: str | None, default: str, *, everywhere: bool = False) -> ResourcePath:
        """Return the path of the object, or of the collection.

        Args:
            namespace: Namespace of ``-n``. None: unset.
            default: Namespace if the user names none.
            everywhere: Whether to use the collection of all namespaces.

        Raises:
            UserError: The argument and ``-n`` name different namespaces.
        """
        if self.namespace and namespace not in (None, "", self.namespace):
            raise UserError(f"{self.namespace}/{self.name}: is not in the namespace of --namespace, {namespace!r}")
        space = self.namespace or (None if everywhere else namespace or default)
        return ResourcePath(self.kind, space if self.kind.namespaced else None, self.name)


async def parse_resources(words: Sequence[str], client: Client) -> list[ResourceArgument]:
    """Return the resources that *words* name. Unknown kinds are looked up in the discovery of the hub.

    Raises:
        UserError: A word is not a kind, or the words do not fit together.
    """
    if any("/" in word for word in words):
        return [argument for word in words for argument in await _arguments_of_path(word, client)]
    kinds, *names = words
    if not names:
        kind_words = [kind for kind in kinds.split(",") if kind]
        if not kind_words:
            raise UserError(f"{kinds!r} is not a known kind")
        return [argument for kind in kind_words for argument in await _arguments_of(kind, "", client)]
    if "," in kinds:
        raise UserError(f"{kinds!r}: names can be given for one kind at a time")
    return [argument for name in names for argument in await _arguments_of(kinds, name, client)]


async def _arguments_of_path(text: str, client: Client) -> list[ResourceArgument]:
    """Return the object of ``KIND/NAME`` or ``KIND/NAMESPACE/NAME``. Raises `UserError`."""
    word, *names = text.split("/")
    if not word or not 0 < len(names) <= 2 or not all(names):
        raise UserError(f"{text!r}: expected KIND/NAME, like the other arguments")
    if "," in word:
        raise UserError(f"{text!r}: names can be given for one kind at a time")
    arguments = await _arguments_of(word, names[-1], client)
    if len(names) == 1:
        return arguments
    for argument in arguments:
        if not argument.kind.namespaced:
            raise UserError(f"{text!r}: expected KIND/NAME, because a {argument.kind.kind} has no namespace")
    return [replace(argument, namespace=names[0]) for argument in arguments]


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


class ObjectReference(NamedTuple):
    """A placement or a run that a user names.

    Args:
        kind: The kind.
        namespace: The namespace, empty for a cluster-scoped kind.
        name: The name.
    """

    kind: Kind
    namespace: str
    name: str

    def __str__(self) -> str:
        return "/".join(filter(None, (_prefix(self.kind), self.namespace, self.name)))


def parse_reference(
    words: str | Sequence[str],
    namespace: str | None = None,
    *,
    kinds: Sequence[Kind] = PLACEMENTS,
    default: str = DEFAULT_NAMESPACE,
) -> ObjectReference:
    """Return the object that *words* name: ``NAME``, ``KIND NAME``, ``KIND/NAME`` or ``KIND/NAMESPACE/NAME``.

    A name alone means the namespaced kind if *namespace* is given, and the cluster-scoped kind otherwise.

    Args:
        words: The arguments.
        namespace: Namespace of ``-n``. None or empty: unset.
        kinds: The possible kinds, the cluster-scoped one first.
        default: Namespace of a namespaced kind if the user names none.

    Raises:
        UserError: The words have none of these forms.
    """
    words = (words,) if isinstance(words, str) else words
    parts = [part for word in words for part in word.split("/")]
    kind = find_kind(parts[0])
    if all(parts) and not (len(parts) == 1 and kind in kinds):
        match parts:
            case [name]:
                kind = next((kind for kind in kinds if kind.namespaced == bool(namespace)), kinds[0])
                return ObjectReference(kind, (namespace or "") if kind.namespaced else "", name)
            case [_, name] if kind is not None and kind in kinds:
                return ObjectReference(kind, (namespace or default) if kind.namespaced else "", name)
            case [_, space, name] if kind is not None and kind in kinds and kind.namespaced:
                if namespace not in (None, "", space):
                    raise UserError(f"{'/'.join(parts)!r} is not in the namespace of --namespace, {namespace!r}")
                return ObjectReference(kind, space, name)
    forms = " or ".join(f"{_prefix(kind)}/{'NAMESPACE/' if kind.namespaced else ''}NAME" for kind in kinds)
    noun = "a placement" if kinds == PLACEMENTS else "a run"
    hint = _of_runs(kind, parts[1:]) if kinds == PLACEMENTS else ""
    raise UserError(f"{' '.join(words)[:320]!r} is not {noun}: expected NAME, {forms}{hint}")


def _prefix(kind: Kind) -> str:
    return next(iter(kind.short_names), kind.plural)


def take_reference(
    words: Sequence[str], namespace: str | None = None, *, default: str = DEFAULT_NAMESPACE
) -> tuple[ObjectReference, tuple[str, ...]]:
    """Return the placement that the first one or two of *words* name, and the remaining words."""
    count = 2 if len(words) > 1 and "/" not in words[0] and find_kind(words[0]) in PLACEMENTS else 1
    return parse_reference(words[:count], namespace, default=default), tuple(words[count:])


def parse_object(text: str, namespace: str, default: str, custom: Collection[Kind] = ()) -> ObjectReference:
    """Return the object that ``KIND/NAME`` or ``KIND/NAMESPACE/NAME`` names.

    Args:
        text: The text.
        namespace: Namespace of ``-n``. Empty: unset.
        default: Namespace of a namespaced kind if the user names none.
        custom: Known kinds besides ours and those of Kubernetes.

    Raises:
        UserError: *text* has neither form, names an unknown kind, or another namespace than *namespace*.
    """
    word, *names = text.split("/")
    if not names or not all(names) or len(names) > 2:
        raise UserError(f"{text!r} is not an object: expected KIND/NAME or KIND/NAMESPACE/NAME")
    kind = find_kind(word, custom)
    if kind is None:
        raise unknown_kind(word, custom)
    *space, name = names
    if not kind.namespaced:
        if space:
            raise UserError(f"{text!r}: {kind.kind} has no namespace: expected {word}/NAME")
        return ObjectReference(kind, "", name)
    if space and namespace not in ("", *space):
        raise UserError(f"{text!r} is not in the namespace of --namespace, {namespace!r}")
    return ObjectReference(kind, space[0] if space else namespace or default, name)


async def deleted_objects(
    texts: Sequence[str],
    namespace: str | None,
    default: str,
    stored: Iterable[Loaded],
    connection: HubConnection | None,
) -> list[Loaded]:
    """Return the objects that ``--delete`` names, without their content. Raises `UserError`.

    Args:
        texts: The arguments, see `parse_object`.
        namespace: Namespace of ``-n``. None or empty: unset.
        default: Namespace of a namespaced kind if the user names none.
        stored: The objects of a hub that was read from files. They may define kinds.
        connection: The running hub, whose discovery has the other kinds. None: unset.
    """
    custom: Collection[Kind] = definitions(stored).values()
    if connection is not None and any("/" in text and find_kind(text.partition("/")[0]) is None for text in texts):
        from webhook.cli.hub.discovery import discover

        async with Client(connection) as client:
            custom = [resource.kind for resource in await discover(client)]
    objects = []
    for text in texts:
        kind, home, name = parse_object(text, namespace or "", default, custom)
        metadata = {"name": name, **({"namespace": home} if home else {})}
        document = {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": metadata}
        objects.append(Loaded(document, kind, DocumentSource(f"--delete {text}", 0)))
    return objects


def _of_runs(kind: Kind | None, names: Sequence[str]) -> str:
    """Return a hint at the command that shows a run, or an empty string for other kinds."""
    if kind == UPGRADE_RUN:
        name = names[0] if names and names[0] else "NAME"
        return f". For an upgrade run: harbormaster upgrade status {name}, harbormaster upgrade plan {name}"
    if kind in {family.run for family in FAMILIES} and names and names[-1]:
        space = f" -n {names[0]}" if len(names) > 1 else ""
        return f". For a staged update: harbormaster run status {names[-1]}{space}"
    return ""
