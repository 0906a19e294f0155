"""The objects of a repository that also contains files of other tools: our objects, and those of Kubernetes.

Foreign documents of any form are skipped and counted: unknown kinds, lists, templates, custom tags, other encodings. A
file or one of our objects that cannot be used is reported as a `FileMistake`, in addition to the usable objects.
"""

import os
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from scorer.api.kinds import Kind, group_kind, split_api_version
from scorer.api.node_class import is_read
from scorer.api.unstructured.documents import metadata_of, name_of
from scorer.api.unstructured.json_object import JsonObject
from scorer.api.values.quoting import format_count
from webhook.cli.errors import UserError, complain
from webhook.cli.files.documents import (
    DEFAULT_NAMESPACE,
    Identity,
    Loaded,
    definitions,
    duplicate_of,
    duplicates,
    known_kinds,
    object_mistakes,
    resolve_each,
    with_namespace,
)
from webhook.cli.files.foreign import is_ours, mentions_ours
from webhook.cli.files.kustomizations import GROUP, Kustomizations, kustomization_files
from webhook.cli.files.parsing import (
    DocumentSource,
    FileMistake,
    SourceDocument,
    UnreadableFileError,
    members_of,
    values_in,
)
from webhook.cli.files.rendered import Rendering
from webhook.cli.files.search import STDIN_NAME, Files, Search, UnknownKinds

_MOST_NOTES: Final = 20
_PATCH: Final = "patch of a kustomization"
_KUSTOMIZATION: Final = "Kustomization"
_CHART: Final = "Helm chart"
_NO_OBJECT: Final = "not a Kubernetes object"
_UNREADABLE: Final = "neither YAML nor JSON"
_ONE_ENVIRONMENT: Final = "Name the files of one environment with -f"
_GENERATED: Final = "with only generateName, validated under a generated name"


@dataclass(slots=True)
class Repository:
    """The objects of some files, and the errors in them.

    Args:
        loaded: The usable objects, in order.
        mistakes: Errors of objects that cannot be used, in order.
        texts: The text of each file, by the file name of `DocumentSource`.
        notes: Notes on skipped documents, for users.
        read_only: Node classes and NodeOverlays, which their providers validate.
        unused: Number of skipped objects, by kind: of unknown kinds, incomplete ones, and unused node classes. Also of
            charts and kustomizations that are not rendered.
    """

    loaded: list[Loaded] = field(default_factory=list)
    mistakes: list[FileMistake] = field(default_factory=list)
    texts: dict[str, str] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    read_only: list[SourceDocument] = field(default_factory=list)
    unused: Counter[str] = field(default_factory=Counter)


def load_known(
    files: Files,
    *,
    namespace: str = DEFAULT_NAMESPACE,
    texts: dict[str, str] | None = None,
    read_only: list[JsonObject] | None = None,
    unused: Counter[str] | None = None,
    hub: Iterable[Loaded] = (),
) -> list[Loaded]:
    """Return the objects of files that represent one hub. Foreign documents are noted on standard error.

    Args:
        files: The files.
        namespace: Namespace for namespaced objects that name none.
        texts: Receives the text of each file.
        read_only: Receives node classes and NodeOverlays. None means that they are noted like foreign documents.
        unused: Receives the number of skipped objects by kind, see `Repository`.
        hub: Objects of a hub that was read from files. The kinds that they define are known.

    Raises:
        UserError: There are no objects, a file or an object cannot be used, or two objects have the same name but
            different contents. Lists every error.
    """
    repository = read_repository(files, namespace=namespace, uses_read_only=read_only is not None, hub=hub)
    if read_only is not None:
        read_only += [entry.document for entry in repository.read_only]
    if unused is not None:
        unused += repository.unused
    if texts is not None:
        texts.update(repository.texts)
    objects = list(_without_copies(repository.loaded))
    sources_with_mistakes = {mistake.source for mistake in repository.mistakes}
    twice = [mistake for mistake in duplicates(objects) if mistake.source not in sources_with_mistakes]
    if repository.mistakes or twice:
        lines = [*map(str, repository.mistakes), *(f"{mistake}. {_ONE_ENVIRONMENT}" for mistake in twice)]
        raise UserError(lines)
    return objects


def _without_copies(objects: Iterable[Loaded]) -> Iterator[Loaded]:
    """Yield *objects* without duplicates of earlier ones, such as a definition that is in a chart and in its source."""
    earlier: dict[Identity, Loaded] = {}
    for item in objects:
        first = earlier.setdefault(item.identity, item)
        if first is item or first.document != item.document:
            yield item


def read_repository(
    files: Files, *, namespace: str = DEFAULT_NAMESPACE, uses_read_only: bool = False, hub: Iterable[Loaded] = ()
) -> Repository:
    """Read files. Foreign documents are noted on standard error.

    Namespaced objects without a namespace get *namespace*. Two objects with one name are an error only if they are in
    one file or in one kustomization. Otherwise, they may belong to different environments.

    Args:
        files: The files.
        namespace: See above.
        uses_read_only: Whether the caller uses node classes and NodeOverlays, so that they are not noted as skipped.
        hub: Objects of a hub that was read from files. The kinds that they define are known.

    Raises:
        UserError: The files of `Files.paths` have no objects, or standard input has none or is named twice.
    """
    search, sorter = Search(files), _Sorter(files, uses_read_only)
    for name, text in search.texts():
        sorter.take(name, text, confidential=search.is_confidential(name))
    for mistake in search.problems:
        sorter.take_broken(mistake, mistake.content)
    if not (files.searched or any(sorter.sources) or search.templates):
        raise UserError(f"no objects in {files}{' that are not ignored' if search.ignored else ''}")
    renderings = sorter.render(search) if files.render else []
    sorter.unused[_CHART] += len(search.templates.keys() - search.rendered)
    repository = sorter.repository(namespace, definitions(SourceDocument(item.document, item.source) for item in hub))
    for note in (*search.notes(), *renderings, *repository.notes):
        complain(f"note: {note}")
    return repository


@dataclass(slots=True)
class _Sorter:
    """Sorts documents into objects, errors and foreign documents.

    Args:
        files: The files that the user names.
        uses_read_only: See `read_repository`.
        texts: The text of each file.
        found: Objects of any kind.
        mistakes: Files and our objects that cannot be used.
        skipped: Locations of foreign documents, by category.
        unused: See `Repository`.
        kustomizations: The kustomizations among the files.
        generated: Number of documents that got a generated name.
    """

    files: Files
    uses_read_only: bool = False
    texts: dict[str, str] = field(default_factory=dict)
    found: list[SourceDocument] = field(default_factory=list)
    mistakes: list[FileMistake] = field(default_factory=list)
    skipped: dict[str, list[DocumentSource]] = field(default_factory=dict)
    unused: Counter[str] = field(default_factory=Counter)
    kustomizations: Kustomizations = field(default_factory=Kustomizations)
    generated: int = 0

    @property
    def sources(self) -> Iterator[DocumentSource]:
        """Locations of all documents."""
        yield from (entry.source for entry in self.found)
        yield from (entry.source for entry in self.mistakes)
        yield from (source for sources in self.skipped.values() for source in sources)

    def take(self, name: str, text: str, *, confidential: bool) -> None:
        """Parse the text of a file and sort its documents. Raises `UserError`."""
        self.texts[name] = text
        try:
            values = values_in(name, text, confidential=confidential)
        except UnreadableFileError as error:
            self.take_broken(error.mistake, text)
            return
        for source, value in values:
            strange: list[FileMistake] = []
            members = list(members_of(value, source, strange))
            if strange and (self.files.names(name) or is_ours(value)):
                self.mistakes += strange
            elif strange and not members:
                self._skip(_NO_OBJECT, source)
            self.kustomizations.add(name, value)
            self.found += members
        if name == STDIN_NAME and not any(source.file == name for source in self.sources):
            raise UserError(f"no objects in {STDIN_NAME}")  # the command on the left side of the pipe has failed

    def take_broken(self, mistake: FileMistake, text: str) -> None:
        """Record a file that cannot be read or parsed, as an error unless the file is foreign."""
        foreign = text and not self.files.names(mistake.source.file) and not mentions_ours(text)
        if foreign:
            self._skip(_UNREADABLE, mistake.source)
        else:
            self.mistakes.append(mistake)

    def render(self, search: Search) -> list[str]:
        """Replace the objects of our kustomizations and charts with the output of renderers. Return notes."""
        self._read_included()
        rendering = Rendering(search, self.kustomizations, self.found)
        ours = {os.path.normpath(entry.source.file) for entry in self.found if is_ours(entry.document)}
        rendering.render_kustomizations(ours)
        self.unused[_KUSTOMIZATION] += rendering.failure_count
        rendering.render_charts()
        self.found = [entry for entry in self.found if os.path.normpath(entry.source.file) not in rendering.replaced]
        self.found += rendering.found
        return list(rendering.notes())

    def repository(self, namespace: str, custom: Mapping[tuple[str, str], Kind]) -> Repository:
        """Return the objects and errors without foreign documents."""
        self._find_kustomizations()
        self._drop_patches()
        kinds = known_kinds(self.found, custom)
        read_only = self._take_read_only(kinds)
        usable = [entry for entry in self.found if self._is_usable(entry, kinds)]
        documents = [self._with_generated_name(entry) for entry in self._without_unknown(usable, kinds)]
        objects, problems = resolve_each(documents, kinds, namespace=namespace)
        mistakes = [*self.mistakes, *problems, *self._duplicates(objects)]
        order = {file: number for number, file in enumerate(self.texts)}

        def place(source: DocumentSource) -> tuple[int, int, int]:
            return order.get(source.file, -1), source.number, source.item or 0

        mistakes.sort(key=lambda mistake: place(mistake.source))
        skipped = {category: sorted(sources, key=place) for category, sources in self.skipped.items()}
        notes = list(_notes(dict(sorted(skipped.items(), key=lambda item: place(item[1][0])))))
        return Repository(objects, mistakes, self.texts, notes, read_only, self.unused)

    def _take_read_only(self, kinds: Mapping[tuple[str, str], Kind]) -> list[SourceDocument]:
        """Separate the objects of kinds that are only read, unless a definition among the files makes them ordinary."""
        read_only = [entry for entry in self.found if _is_read_only(entry.document, kinds)]
        sources = {entry.source for entry in read_only}
        self.found = [entry for entry in self.found if entry.source not in sources]
        for entry in () if self.uses_read_only else read_only:
            self._skip_object(entry, "which its provider validates")
        return read_only

    def _skip(self, category: str, source: DocumentSource) -> None:
        self.skipped.setdefault(category, []).append(source)

    def _skip_object(self, entry: SourceDocument, reason: str) -> None:
        kind = "a kind" if entry.source.confidential else str(entry.document["kind"])
        version = "" if entry.source.confidential else f" of {entry.document['apiVersion']},"
        self._skip(f"{kind}{version} {reason}", entry.source)
        if _is_object(entry.document):
            self.unused[kind] += 1

    def _read_included(self) -> None:
        """Read kustomizations outside of the named folders, such as a base, that kustomizations inside include."""
        visited_files: set[Path] = set()
        while pending := [file for file in self.kustomizations.missing() if file not in visited_files]:
            visited_files.update(pending)
            for file in pending:
                for value in _values_of(file):
                    self.kustomizations.add(str(file), value)

    def _find_kustomizations(self) -> None:
        """Read the kustomizations around single files, as pre-commit passes them."""
        searched_paths = [path for path in self.files.searched if path in self.texts]
        for file in kustomization_files(searched_paths):
            if str(file) not in self.texts:
                for value in _values_of(file):
                    self.kustomizations.add(str(file), value)

    def _drop_patches(self) -> None:
        patches = self.kustomizations.patches()

        def is_patch(source: DocumentSource) -> bool:
            is_explicit = self.files.names(source.file) or source.rendered_by
            return os.path.normpath(source.file) in patches and not is_explicit

        for entry in self.found:
            if is_patch(entry.source):
                self._skip(_PATCH, entry.source)
        self.found = [entry for entry in self.found if not is_patch(entry.source)]
        for mistake in self.mistakes:
            if is_patch(mistake.source):
                self._skip(_PATCH, mistake.source)
        self.mistakes = [mistake for mistake in self.mistakes if not is_patch(mistake.source)]

    def _is_usable(self, entry: SourceDocument, kinds: Mapping[tuple[str, str], Kind]) -> bool:
        """Return whether an object is ours, in a named file, of an unknown kind, or complete and of a served version.

        Record others as skipped.
        """
        document, source = entry.document, entry.source
        if self.files.names(source.file) or is_ours(document):
            return True
        version, kind = document.get("apiVersion"), document.get("kind")
        if not (isinstance(version, str) and isinstance(kind, str) and version and kind):
            self._skip(_NO_OBJECT, source)
        elif group_kind(document) not in kinds:
            return True
        elif split_api_version(version)[1] not in kinds[group_kind(document)].versions:
            self._skip_object(entry, "which is unknown")
        elif any(object_mistakes(_with_name(entry, "00000"), kinds)) or _has_placeholder(entry, kinds):
            self._skip_object(entry, "which is incomplete")
        else:
            return True
        return False

    def _without_unknown(
        self, documents: Sequence[SourceDocument], kinds: Mapping[tuple[str, str], Kind]
    ) -> Iterator[SourceDocument]:
        """Yield all objects, except for skipped ones of unknown kinds."""
        unknown = [entry for entry in documents if _is_of_unknown_kind(entry.document, kinds)]
        sources = {entry.source for entry in unknown}
        files_of_known_kinds = {entry.source.file for entry in documents if entry.source not in sources}
        for entry in documents:
            if entry.source in sources and self._is_skipped(entry.source.file, files_of_known_kinds):
                self._skip_object(entry, "which is unknown")
            else:
                yield entry

    def _is_skipped(self, file: str, files_of_known_kinds: Iterable[str]) -> bool:
        """Return whether objects of unknown kinds in a file are skipped. A named file must contain a known one."""
        if self.files.unknown_kinds is None:
            return not self.files.names(file) or file in files_of_known_kinds
        return self.files.unknown_kinds is UnknownKinds.SKIP

    def _with_generated_name(self, entry: SourceDocument) -> SourceDocument:
        """Return an object. If it only has ``generateName``, add a name that the API server might generate."""
        document = _with_name(entry, f"{self.generated + 1:05}")
        if document is not entry:
            self.generated += 1
            self._skip(f"{entry.document.get('kind')} {_GENERATED}", entry.source)
        return document

    def _duplicates(self, objects: Iterable[Loaded]) -> Iterator[FileMistake]:
        containing = self.kustomizations.containing()
        places: dict[Identity, list[DocumentSource]] = {}
        for item in objects:
            file = os.path.normpath(item.source.file)
            belongs = {file, *containing.get(file, ())}
            for first in places.setdefault(item.identity, []):
                other = os.path.normpath(first.file)
                if belongs & {other, *containing.get(other, ())}:
                    yield duplicate_of(item, first)
                    break
            places[item.identity].append(item.source)


def _with_name(entry: SourceDocument, suffix: str) -> SourceDocument:
    metadata = metadata_of(entry.document)
    prefix = metadata.get("generateName")
    if metadata.get("name") or not isinstance(prefix, str) or not prefix:
        return entry
    document: JsonObject = {**entry.document, "metadata": {**metadata, "name": f"{prefix}{suffix}"}}
    return SourceDocument(document, entry.source)


def _has_placeholder(entry: SourceDocument, kinds: Mapping[tuple[str, str], Kind]) -> bool:
    """Return whether name or namespace is invalid, usually because a template or kustomization still has to set it."""
    from webhook.validation.framework.object_meta import validate_place

    kind = kinds[group_kind(entry.document)]
    document = with_namespace(_with_name(entry, "00000").document, kind, DEFAULT_NAMESPACE)
    return any(validate_place(kind, metadata_of(document)))


def _is_of_unknown_kind(document: JsonObject, kinds: Mapping[tuple[str, str], Kind]) -> bool:
    words = document.get("apiVersion"), document.get("kind")
    is_object = all(isinstance(word, str) and word for word in words)
    return is_object and group_kind(document) not in kinds and not is_ours(document)


def _is_read_only(document: JsonObject, kinds: Mapping[tuple[str, str], Kind]) -> bool:
    key = group_kind(document)
    is_complete = isinstance(document.get("apiVersion"), str) and bool(name_of(document))
    return is_read(key) and is_complete and key not in kinds and not is_ours(document)


def _is_object(document: JsonObject) -> bool:
    """Return whether a document is an object of a cluster, unlike a kustomization, a test or a kubeconfig."""
    metadata = metadata_of(document)
    return bool(metadata.get("name") or metadata.get("generateName")) and group_kind(document)[0] != GROUP


def _values_of(file: Path) -> Iterator[Any]:
    """Yield the values in a file. An unreadable file has no values."""
    try:
        for _, value in values_in(str(file), file.read_text(encoding="utf-8-sig")):
            yield value
    except (OSError, UnicodeDecodeError, UnreadableFileError):
        return


def _notes(skipped: dict[str, list[DocumentSource]]) -> Iterator[str]:
    """Yield a note for each form of skipped documents. The rarest are only counted."""
    top_categories = sorted(skipped, key=lambda category: -len(skipped[category]))[:_MOST_NOTES]
    for category, sources in skipped.items():
        if category in top_categories:
            more = f", and {len(sources) - 1} more" if len(sources) > 1 else ""
            word = "" if category.endswith(_GENERATED) else "skipped: "
            yield f"{sources[0]}{more}: {word}{category}"
    if rest := [len(sources) for category, sources in skipped.items() if category not in top_categories]:
        yield f"skipped: {format_count(sum(rest), 'more document')} of {format_count(len(rest), 'other form')}"
