"""Reads the objects of files: YAML, JSON, lists of objects.

All objects are read and checked before a command does anything with one of them. Every mistake is one line that names
the file, the number of the document, the field and the value.
"""

import json
import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final, NoReturn

from scorer.api.kinds import KINDS, OUR_KINDS, Kind, api_version, group_kind, split_api_version
from scorer.api.unstructured.json_object import JsonObject
from scorer.api.values.quoting import LONGEST_NAME, printable, quote, shortened
from webhook.cli.errors import UserError, complain
from webhook.cli.files.search import STDIN_NAME, Files, Search, UnreadableFileError
from webhook.cli.text.yaml import DEEPEST, YamlError, parse_yaml
from webhook.embedded.storage.kinds import DEFINITION, kind_of_definition

DEFAULT_NAMESPACE: Final = "default"
_BEGINNING: Final = re.compile(r"\S")

Identity = tuple[str, str, str, str]


@dataclass(frozen=True, slots=True)
class DocumentSource:
    """Where an object was read: file, number of the document, and its place in a list."""

    file: str
    number: int = 1
    item: int | None = None
    confidential: bool = field(default=False, compare=False)
    """Whether messages must not repeat what stands there."""

    def __str__(self) -> str:
        place = f"{self.file}: document {self.number}"
        return place if self.item is None else f"{place}, items[{self.item}]"


@dataclass(frozen=True, slots=True)
class Loaded:
    """One object of a known kind, with name and, where its kind has one, namespace."""

    document: JsonObject
    kind: Kind
    source: DocumentSource

    @property
    def name(self) -> str:
        """``metadata.name``."""
        return str(self.document["metadata"]["name"])

    @property
    def namespace(self) -> str:
        """``metadata.namespace``, empty for what is cluster-scoped."""
        return str(self.document["metadata"].get("namespace", ""))

    @property
    def shown_name(self) -> str:
        """Name, with namespace if it has one, fit for a terminal and a report."""
        parts = (self.namespace, self.name) if self.namespace else (self.name,)
        return printable("/".join(shortened(part, LONGEST_NAME) for part in parts))

    @property
    def identity(self) -> Identity:
        """What identifies the object: group, kind, namespace, name."""
        return (*self.kind.group_kind, self.namespace, self.name)

    @property
    def title(self) -> str:
        """``clusterresourceplacement.placement.kubernetes-fleet.io/payments``, as kubectl names objects."""
        return title_of(self.kind, self.name)

    def with_document(self, document: JsonObject) -> "Loaded":
        """Return the same with another document."""
        return replace(self, document=document)


@dataclass(frozen=True, slots=True)
class SourceDocument:
    """One object as it was read; only that it is a JSON object has been checked."""

    document: JsonObject
    source: DocumentSource


def title_of(kind: Kind, name: str) -> str:
    """Name an object as kubectl does, fit for a terminal."""
    singular = kind.kind.lower()
    name = shortened(name, LONGEST_NAME)
    return printable(f"{singular}.{kind.group}/{name}" if kind.group else f"{singular}/{name}")


def load(files: Files, *, namespace: str = DEFAULT_NAMESPACE) -> list[Loaded]:
    """Read and check all objects of *files*, in order; objects without a namespace that need one get *namespace*.

    Raises:
        UserError: Something cannot be read or is no object of a known kind; every such mistake is named.
    """
    return resolve(read(files), namespace=namespace)


def load_known(
    files: Files, *, namespace: str = DEFAULT_NAMESPACE, texts: dict[str, str] | None = None
) -> list[Loaded]:
    """Do the same, but pass over what is foreign, with notes on standard error: see `without_foreign`."""
    ours, notes = without_foreign(read(files, texts=texts), {*files.paths, STDIN_NAME})
    for note in notes:
        complain(f"note: {note}")
    return resolve(ours, namespace=namespace)


def read(files: Files, *, texts: dict[str, str] | None = None, may_be_empty: bool = False) -> list[SourceDocument]:
    """Read all objects of *files*; what was passed over without being asked for is told on standard error.

    Args:
        files: What to read.
        texts: Filled with the text of each file, by the file name of `DocumentSource`, for callers that show positions
            in it.
        may_be_empty: Whether files without objects are accepted. Standard input must not be empty.

    Raises:
        UserError: Something cannot be read, and every such mistake is named; or there are no objects at all.
    """
    documents: list[SourceDocument] = []
    search = Search(files)
    for name, text in search.texts():
        if texts is not None:
            texts[name] = text
        try:
            objects = objects_in(name, text, search.problems, confidential=search.is_confidential(name))
            if name == STDIN_NAME and not objects and not search.problems:  # the left end of a pipe has failed
                search.problems.append(f"no objects in {STDIN_NAME}")
            documents += objects
        except UnreadableFileError as error:
            search.problems.append(str(error))
    for note in search.notes():
        complain(f"note: {note}")
    if search.problems:
        raise UserError(search.problems)
    if files and not documents and not may_be_empty:
        left_out = " that are not ignored" if search.ignored else ""
        raise UserError(f"no objects in {files}{left_out}")
    return documents


def read_text(name: str, text: str) -> list[SourceDocument]:
    """Read all objects in a text; as `read`, but *name* says where it comes from. Raises `UserError`."""
    problems: list[str] = []
    try:
        objects = objects_in(name, text, problems)
    except UnreadableFileError as error:
        raise UserError(str(error)) from error
    if problems or not objects:
        raise UserError(problems or f"no objects in {name}")
    return objects


def objects_in(name: str, text: str, problems: list[str], *, confidential: bool = False) -> list[SourceDocument]:
    """Return the objects in the text of a file.

    Args:
        name: Of the file.
        text: Its text.
        problems: Gets the values that are no objects, one line each, without the values.
        confidential: Whether no message may repeat anything of the text.

    Raises:
        UnreadableFileError: The text is neither YAML nor JSON.
    """
    documents: list[SourceDocument] = []
    try:
        values = _values(name, text)
    except UnreadableFileError:
        if confidential:
            raise UnreadableFileError(f"{name}: is neither YAML nor JSON") from None
        raise
    for number, value in enumerate(values, start=1):
        source = DocumentSource(name, number, confidential=confidential)
        if value is None:
            continue
        if not isinstance(value, dict):
            problems.append(f"{source}: is {_type_name(value)}, expected an object")
        else:
            documents += _members(value, source, problems)
    return documents


def _values(name: str, text: str) -> list[Any]:
    """Read the documents of one text; what starts like JSON and is not may still be YAML."""
    is_json = name.endswith(".json")
    if is_json or text.lstrip().startswith("{"):
        try:
            return _json_values(text)
        except (ValueError, RecursionError) as error:
            if is_json:
                raise UnreadableFileError(f"{name}: {_json_trouble(error)}") from error
    try:
        return [parsed.value for parsed in parse_yaml(text)]
    except YamlError as error:
        raise UnreadableFileError(f"{name}: {error}") from error


def _json_values(text: str) -> list[Any]:
    decoder = json.JSONDecoder(object_pairs_hook=_without_duplicates, parse_constant=_refuse_constant)
    values: list[Any] = []
    position = 0
    while (word := _BEGINNING.search(text, position)) is not None:
        value, position = decoder.raw_decode(text, word.start())
        _check_depth(value, 1)
        values.append(value)
    return values


def _without_duplicates(members: list[tuple[str, Any]]) -> JsonObject:
    document = dict(members)
    if len(document) < len(members):
        numbers = Counter(name for name, _ in members)
        twice = next(name for name, number in numbers.items() if number > 1)
        raise ValueError(f"{quote(twice)} is given twice in one object")
    return document


def _refuse_constant(word: str) -> NoReturn:
    raise ValueError(f"{word} is no number that JSON can hold")


def _check_depth(value: Any, depth: int) -> None:
    if isinstance(value, dict | list):
        if depth > DEEPEST:
            raise ValueError(f"nested deeper than {DEEPEST} levels")
        for item in value.values() if isinstance(value, dict) else value:
            _check_depth(item, depth + 1)


def _json_trouble(error: Exception) -> str:
    if isinstance(error, json.JSONDecodeError):
        return f"line {error.lineno}: not JSON: {error.msg[:1].lower()}{error.msg[1:]} (column {error.colno})"
    return f"nested deeper than {DEEPEST} levels" if isinstance(error, RecursionError) else f"not JSON: {error}"


def _members(document: JsonObject, source: DocumentSource, problems: list[str]) -> Iterator[SourceDocument]:
    """Yield the object, or the objects of a ``List``."""
    kind = document.get("kind")
    is_list = isinstance(kind, str) and kind.endswith("List") and "items" in document and "spec" not in document
    if not is_list:
        yield SourceDocument(document, source)
        return
    items = document["items"]
    if not isinstance(items, list):
        problems.append(f"{source}: items: is {_type_name(items)}, expected a list")
        return
    own_kind = {} if kind == "List" else {"apiVersion": document.get("apiVersion"), "kind": str(kind)[: -len("List")]}
    for position, item in enumerate(items):
        place = replace(source, item=position)
        if isinstance(item, dict):
            yield SourceDocument({**own_kind, **item}, place)
        else:
            problems.append(f"{place}: is {_type_name(item)}, expected an object")


def _type_name(value: Any) -> str:
    match value:
        case bool():
            return "a boolean"
        case int() | float():
            return "a number"
        case str():
            return "text"
        case list():
            return "a list"
        case None:
            return "null"
        case _:
            return "an object"


def definitions(documents: Iterable[SourceDocument]) -> dict[tuple[str, str], Kind]:
    """Return the kinds that CustomResourceDefinitions among *documents* make known."""
    kinds = (kind_of_definition(entry.document) for entry in documents if group_kind(entry.document) == DEFINITION)
    return {kind.group_kind: kind for kind in kinds if kind is not None}


def resolve(
    documents: Sequence[SourceDocument],
    *,
    custom: Mapping[tuple[str, str], Kind] | None = None,
    namespace: str = DEFAULT_NAMESPACE,
) -> list[Loaded]:
    """Check that every object is of a known kind, has a name, and is the only one of that name.

    Args:
        documents: What was read.
        custom: Kinds that are known besides ours, Kubernetes' own, and those defined among *documents*.
        namespace: For objects that need one and name none.

    Raises:
        UserError: With every mistake.
    """
    kinds = {**(custom or {}), **definitions(documents), **KINDS}
    loaded: list[Loaded] = []
    problems: list[str] = []
    places: dict[Identity, DocumentSource] = {}
    for entry in documents:
        mistakes = list(_mistakes(entry.document, kinds))
        if mistakes and entry.source.confidential:
            mistakes = ["is no object of a known kind with a name"]
        if mistakes:
            problems += (f"{entry.source}: {mistake}" for mistake in mistakes)
            continue
        kind = kinds[group_kind(entry.document)]
        one = Loaded(_with_namespace(entry.document, kind, namespace), kind, entry.source)
        if (first := places.setdefault(one.identity, entry.source)) is not entry.source:
            where = f" in namespace {one.namespace}" if one.namespace else ""
            problems.append(f"{entry.source}: metadata.name: {kind.kind} {quote(one.name)}{where} is also in {first}")
        loaded.append(one)
    if problems:
        raise UserError(problems)
    return loaded


def without_foreign(
    documents: Sequence[SourceDocument], named: Collection[str]
) -> tuple[list[SourceDocument], list[str]]:
    """Return the objects that can be judged, and a note for each kind of the others.

    An object is foreign if its group is neither ours nor Kubernetes', or if it is no Kubernetes object at all. An
    object that looks like one of our kinds is kept: it has a mistake, and `resolve` reports it.

    Args:
        documents: What was read.
        named: Files that the user named, as opposed to files in a folder: nothing in them is skipped.
    """
    kinds = {**definitions(documents), **KINDS}
    groups, names = {kind.group for kind in OUR_KINDS}, {kind.kind for kind in OUR_KINDS}
    ours: list[SourceDocument] = []
    skipped: dict[str, list[SourceDocument]] = {}
    for entry in documents:
        version, kind = entry.document.get("apiVersion"), entry.document.get("kind")
        if entry.source.file in named:
            ours.append(entry)
        elif kind is None and "metadata" not in entry.document and split_api_version(str(version))[0] not in groups:
            skipped.setdefault("no Kubernetes object", []).append(entry)
        elif (
            isinstance(version, str)
            and isinstance(kind, str)
            and group_kind(entry.document) not in kinds
            and split_api_version(version)[0] not in (groups | {""})
            and kind not in names
        ):
            about = "a kind" if entry.source.confidential else f"{kind} of {version},"
            skipped.setdefault(f"{about} which is not known here", []).append(entry)
        else:
            ours.append(entry)
    notes = []
    for what, objects in skipped.items():
        more = f", and {len(objects) - 1} more" if len(objects) > 1 else ""
        notes.append(f"{objects[0].source}{more}: skipped: {what}")
    return ours, notes


def check_metadata(loaded: Iterable[Loaded]) -> None:
    """Make sure that names, labels and annotations are such as every hub demands, before anything is sent to one.

    Raises:
        UserError: With every mistake.
    """
    from webhook.validation.framework.object_meta import validate_members, validate_place

    problems = [
        f"{one.source}: {error}"
        for one in loaded
        for metadata in [{key: value for key, value in one.document["metadata"].items() if value is not None}]
        for error in (*validate_place(one.kind, metadata), *validate_members(metadata, {}))
    ]
    if problems:
        raise UserError(problems)


def _with_namespace(document: JsonObject, kind: Kind, namespace: str) -> JsonObject:
    metadata = document["metadata"]
    if kind.namespaced and not metadata.get("namespace"):
        return {**document, "metadata": {**metadata, "namespace": namespace}}
    return document


def _mistakes(document: JsonObject, kinds: Mapping[tuple[str, str], Kind]) -> Iterator[str]:
    unnamed = False
    for member in ("apiVersion", "kind"):
        value = document.get(member)
        if not isinstance(value, str) or not value:
            unnamed = True
            yield f"{member}: {_wanted(value, 'text')}"
    kind = None if unnamed else kinds.get(group_kind(document))
    if not unnamed and (mistake := _kind_mistake(document, kind, kinds)):
        yield mistake
    yield from _metadata_mistakes(document.get("metadata"), kind)


def _kind_mistake(document: JsonObject, kind: Kind | None, kinds: Mapping[tuple[str, str], Kind]) -> str:
    written, word = document["apiVersion"], document["kind"]
    if kind is None:
        others = [other for other in kinds.values() if other.kind.lower() == word.lower()]
        hint = f"; did you mean {others[0].kind} of {others[0].api_version}?" if others else ""
        return f"kind: {quote(word)} of {quote(written)} is not a known kind{hint}"
    if split_api_version(written)[1] in kind.versions:
        return ""
    served = " and ".join(api_version(kind.group, version) for version in kind.versions)
    return f"apiVersion: {quote(written)}: {word} is served as {served}"


def _metadata_mistakes(metadata: Any, kind: Kind | None) -> Iterator[str]:
    if not isinstance(metadata, dict):
        yield f"metadata: {_wanted(metadata, 'an object')}"
        return
    name, namespace = metadata.get("name"), metadata.get("namespace")
    if not isinstance(name, str) or not name:
        yield f"metadata.name: {_wanted(name, 'text')}"
    if namespace is not None and not isinstance(namespace, str):
        yield f"metadata.namespace: {_wanted(namespace, 'text')}"
    elif namespace and kind is not None and not kind.namespaced:
        yield f"metadata.namespace: {quote(namespace)}: a {kind.kind} is cluster-scoped"


def _wanted(value: Any, expected: str) -> str:
    if value is None or value == "":
        return "required"
    return f"{quote(value)} is {_type_name(value)}, expected {expected}"


def in_order_of_dependence(loaded: Iterable[Loaded]) -> list[Loaded]:
    """Put namespaces and definitions first; all else keeps its order."""
    return sorted(loaded, key=lambda one: one.kind.group_kind not in (("", "Namespace"), DEFINITION))
