"""Objects of files, resolved against the known kinds.

All objects are read and checked before a command acts on any of them. Each error is one line that names
the file, the number of the document, the field and the value.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from scorer.api.kinds import KINDS, Kind, api_version, group_kind, split_api_version
from scorer.api.unstructured.json_object import JsonObject
from scorer.api.values.field_path import FieldPath
from scorer.api.values.quoting import LONGEST_NAME, printable, quote, shortened
from webhook.cli.errors import UserError, complain
from webhook.cli.files.parsing import (
    DocumentSource,
    FileMistake,
    SourceDocument,
    UnreadableFileError,
    objects_in,
    type_name,
)
from webhook.cli.files.search import STDIN_NAME, Files, Search
from webhook.embedded.storage.kinds import DEFINITION, kind_of_definition

DEFAULT_NAMESPACE: Final = "default"

Identity = tuple[str, str, str, str]


@dataclass(frozen=True, slots=True)
class Loaded:
    """One object of a known kind, with a name, and with a namespace if its kind is namespaced."""

    document: JsonObject
    kind: Kind
    source: DocumentSource

    @property
    def name(self) -> str:
        """``metadata.name``."""
        return str(self.document["metadata"]["name"])

    @property
    def namespace(self) -> str:
        """``metadata.namespace``, empty for cluster-scoped objects."""
        return str(self.document["metadata"].get("namespace", ""))

    @property
    def shown_name(self) -> str:
        """Name, with the namespace if it has one, safe for a terminal and a report."""
        parts = (self.namespace, self.name) if self.namespace else (self.name,)
        return printable("/".join(shortened(part, LONGEST_NAME) for part in parts))

    @property
    def identity(self) -> Identity:
        """Unique key of the object: group, kind, namespace, name."""
        return (*self.kind.group_kind, self.namespace, self.name)

    @property
    def reference(self) -> dict[str, str]:
        """Kind, name and namespace, as a proposal names stored objects. A custom kind has its group."""
        kind = self.kind.kind if self.kind.group_kind in KINDS else f"{self.kind.kind}.{self.kind.group}"
        return {"kind": kind, "name": self.name, **({"namespace": self.namespace} if self.namespace else {})}

    @property
    def title(self) -> str:
        """``clusterresourceplacement.placement.kubernetes-fleet.io/payments``, as kubectl names objects."""
        return title_of(self.kind, self.name)

    def with_document(self, document: JsonObject) -> "Loaded":
        """Return a copy with another document."""
        return replace(self, document=document)


def title_of(kind: Kind, name: str) -> str:
    """Return the name of an object in kubectl's form, safe for a terminal."""
    singular = kind.kind.lower()
    name = shortened(name, LONGEST_NAME)
    return printable(f"{singular}.{kind.group}/{name}" if kind.group else f"{singular}/{name}")


def load(files: Files, *, namespace: str = DEFAULT_NAMESPACE) -> list[Loaded]:
    """Read and check all objects of *files*, in order. Namespaced objects without a namespace get *namespace*.

    Raises:
        UserError: A file cannot be read, or a value in it is not an object of a known kind. Lists every error.
    """
    return resolve(read(files), namespace=namespace)


def read(files: Files) -> list[SourceDocument]:
    """Read all objects of *files*. Skipped files are noted on standard error.

    Raises:
        UserError: Files cannot be read, have a value that is not an object, or have no objects. Lists every error.
    """
    documents: list[SourceDocument] = []
    search = Search(files)
    for name, text in search.texts():
        try:
            objects = objects_in(name, text, search.problems, confidential=search.is_confidential(name))
            if name == STDIN_NAME and not objects and not search.problems:  # the left side of a pipe failed
                raise UserError(f"no objects in {STDIN_NAME}")
            documents += objects
        except UnreadableFileError as error:
            search.problems.append(error.mistake)
    for note in search.notes():
        complain(f"note: {note}")
    if search.problems:
        raise UserError(map(str, search.problems))
    if files and not documents:
        left_out = " that are not ignored" if search.ignored else ""
        raise UserError(f"no objects in {files}{left_out}")
    return documents


def read_text(name: str, text: str) -> list[SourceDocument]:
    """Read all objects in a text as `read` does. *name* names the source of the text. Raises `UserError`."""
    problems: list[FileMistake] = []
    try:
        objects = objects_in(name, text, problems)
    except UnreadableFileError as error:
        raise UserError(str(error)) from error
    if problems or not objects:
        raise UserError(list(map(str, problems)) or f"no objects in {name}")
    return objects


def definitions(documents: Iterable[SourceDocument | Loaded]) -> dict[tuple[str, str], Kind]:
    """Return the kinds that CustomResourceDefinitions among *documents* define."""
    kinds = (kind_of_definition(entry.document) for entry in documents if group_kind(entry.document) == DEFINITION)
    return {kind.group_kind: kind for kind in kinds if kind is not None}


def resolve(
    documents: Sequence[SourceDocument],
    *,
    custom: Mapping[tuple[str, str], Kind] | None = None,
    namespace: str = DEFAULT_NAMESPACE,
) -> list[Loaded]:
    """Check that every object is of a known kind, has a name, and is defined only once.

    Args:
        documents: The documents of the files.
        custom: Additional known kinds, besides ours, Kubernetes' own, and those defined among *documents*.
        namespace: Namespace for namespaced objects that name none.

    Raises:
        UserError: An object is invalid. Lists every error.
    """
    objects, problems = resolve_each(documents, known_kinds(documents, custom), namespace=namespace)
    problems = [*problems, *duplicates(objects)]
    if problems:
        # Report mistakes in the order of the files.
        places = {entry.source: number for number, entry in enumerate(documents)}
        raise UserError(map(str, sorted(problems, key=lambda problem: places[problem.source])))
    return objects


def known_kinds(
    documents: Iterable[SourceDocument], custom: Mapping[tuple[str, str], Kind] | None = None
) -> Mapping[tuple[str, str], Kind]:
    """Return all known kinds: *custom* ones, those defined among *documents*, Kubernetes' own and ours."""
    return {**(custom or {}), **definitions(documents), **KINDS}


def resolve_each(
    documents: Iterable[SourceDocument], kinds: Mapping[tuple[str, str], Kind], *, namespace: str = DEFAULT_NAMESPACE
) -> tuple[list[Loaded], list[FileMistake]]:
    """Return the objects of known kinds that have a name, and the errors of the others.

    Args:
        documents: The documents of the files.
        kinds: The known kinds.
        namespace: Namespace for namespaced objects that name none.
    """
    objects: list[Loaded] = []
    problems: list[FileMistake] = []
    for entry in documents:
        mistakes = list(object_mistakes(entry, kinds))
        problems += mistakes
        if not mistakes:
            kind = kinds[group_kind(entry.document)]
            objects.append(Loaded(with_namespace(entry.document, kind, namespace), kind, entry.source))
    return objects, problems


def duplicates(objects: Iterable[Loaded]) -> Iterator[FileMistake]:
    """Yield an error for each object with the kind, namespace and name of an earlier one."""
    places: dict[Identity, DocumentSource] = {}
    for item in objects:
        if (first := places.setdefault(item.identity, item.source)) is not item.source:
            yield duplicate_of(item, first)


def duplicate_of(item: Loaded, first: DocumentSource) -> FileMistake:
    """Return the error that an object is defined twice."""
    location = f" in namespace {item.namespace}" if item.namespace else ""
    message = f"{item.kind.kind} {quote(item.name)}{location} is also in {first}"
    return FileMistake(item.source, message, FieldPath.of("metadata", "name"))


def check_metadata(objects: Iterable[Loaded]) -> None:
    """Check the metadata of objects against the rules of every hub, before the command sends a request.

    Raises:
        UserError: An object is invalid. Lists every error.
    """
    from webhook.validation.framework.object_meta import validate_members, validate_place

    problems = [
        f"{item.source}: {error}"
        for item in objects
        for metadata in [{key: value for key, value in item.document["metadata"].items() if value is not None}]
        for error in (*validate_place(item.kind, metadata), *validate_members(metadata, {}))
    ]
    if problems:
        raise UserError(problems)


def with_namespace(document: JsonObject, kind: Kind, namespace: str) -> JsonObject:
    """Return an object, with *namespace* if it is namespaced and names no namespace."""
    metadata = document["metadata"]
    if kind.namespaced and not metadata.get("namespace"):
        return {**document, "metadata": {**metadata, "namespace": namespace}}
    return document


def object_mistakes(entry: SourceDocument, kinds: Mapping[tuple[str, str], Kind]) -> Iterator[FileMistake]:
    """Yield why *entry* is not an object of a known kind with a name."""
    mistakes = list(_mistakes(entry.document, kinds))
    if mistakes and entry.source.confidential:
        yield FileMistake(entry.source, "is not an object of a known kind with a name")
        return
    for field, message in mistakes:
        yield FileMistake(entry.source, message, FieldPath.of(*field.split(".")))


def _mistakes(document: JsonObject, kinds: Mapping[tuple[str, str], Kind]) -> Iterator[tuple[str, str]]:
    """Yield field and message of each error."""
    nameless = False
    for member in ("apiVersion", "kind"):
        value = document.get(member)
        if not isinstance(value, str) or not value:
            nameless = True
            yield member, _type_mismatch(value, "text")
    kind = None if nameless else kinds.get(group_kind(document))
    if not nameless:
        yield from _kind_mistakes(document, kind, kinds)
    yield from _metadata_mistakes(document.get("metadata"), kind)


def _kind_mistakes(
    document: JsonObject, kind: Kind | None, kinds: Mapping[tuple[str, str], Kind]
) -> Iterator[tuple[str, str]]:
    version_text, word = document["apiVersion"], document["kind"]
    if kind is None:
        others = [other for other in kinds.values() if other.kind.lower() == word.lower()]
        hint = f". Did you mean {others[0].kind} of {others[0].api_version}?" if others else ""
        yield "kind", f"{quote(word)} of {quote(version_text)} is not a known kind{hint}"
    elif split_api_version(version_text)[1] not in kind.versions:
        versions = " and ".join(api_version(kind.group, version) for version in kind.versions)
        yield "apiVersion", f"{quote(version_text)}: {word} is served as {versions}"


def _metadata_mistakes(metadata: Any, kind: Kind | None) -> Iterator[tuple[str, str]]:
    if not isinstance(metadata, dict):
        yield "metadata", _type_mismatch(metadata, "an object")
        return
    name, namespace = metadata.get("name"), metadata.get("namespace")
    if not isinstance(name, str) or not name:
        yield "metadata.name", _type_mismatch(name, "text")
    if namespace is not None and not isinstance(namespace, str):
        yield "metadata.namespace", _type_mismatch(namespace, "text")
    elif namespace and kind is not None and not kind.namespaced:
        yield "metadata.namespace", f"{quote(namespace)}: a {kind.kind} is cluster-scoped"


def _type_mismatch(value: Any, type_words: str) -> str:
    if value is None or value == "":
        return "required"
    return f"{quote(value)} is {type_name(value)}, expected {type_words}"


def in_order_of_dependence(objects: Iterable[Loaded]) -> list[Loaded]:
    """Return *objects* with namespaces and definitions first. Other objects keep their order."""
    return sorted(objects, key=lambda item: item.kind.group_kind not in (("", "Namespace"), DEFINITION))
