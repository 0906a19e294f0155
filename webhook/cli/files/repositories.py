"""The objects of a repository: ours, and those of Kubernetes, among the files of other tools.

Foreign documents are skipped and counted in any form: unknown kinds, lists, templates, custom tags, other encodings. A
file or an object of ours that cannot be used is a `FileMistake` beside the objects that can.
"""

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from scorer.api.kinds import Kind, group_kind
from scorer.api.unstructured.documents import metadata_of
from scorer.api.unstructured.json_object import JsonObject
from webhook.cli.errors import UserError, complain
from webhook.cli.files.documents import (
    DEFAULT_NAMESPACE,
    Identity,
    Loaded,
    duplicate_of,
    duplicates,
    known_kinds,
    object_mistakes,
    resolve_each,
    with_namespace,
)
from webhook.cli.files.foreign import is_ours, mentions_ours
from webhook.cli.files.kustomizations import Kustomizations, kustomization_files
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
_NO_OBJECT: Final = "no Kubernetes object"
_UNREADABLE: Final = "neither YAML nor JSON"
_GENERATED: Final = "with only generateName, judged under a generated name"


@dataclass(slots=True)
class Repository:
    """The objects of some files, and the mistakes in them.

    Args:
        loaded: The objects that can be evaluated, in order.
        mistakes: Why others cannot, in order.
        texts: The text of each file, by the file name of `DocumentSource`.
        notes: The skipped documents, for people.
    """

    loaded: list[Loaded] = field(default_factory=list)
    mistakes: list[FileMistake] = field(default_factory=list)
    texts: dict[str, str] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)


def load_known(
    files: Files, *, namespace: str = DEFAULT_NAMESPACE, texts: dict[str, str] | None = None
) -> list[Loaded]:
    """Return the objects of files that are one hub. Foreign documents are noted on standard error.

    Raises:
        UserError: Something of ours cannot be used, or is in the files twice. Every such mistake is named.
    """
    repository = read_repository(files, namespace=namespace)
    if texts is not None:
        texts.update(repository.texts)
    reported = {mistake.source for mistake in repository.mistakes}
    twice = [mistake for mistake in duplicates(repository.loaded) if mistake.source not in reported]
    if mistakes := [*repository.mistakes, *twice]:
        raise UserError(map(str, mistakes))
    return repository.loaded


def read_repository(files: Files, *, namespace: str = DEFAULT_NAMESPACE) -> Repository:
    """Read files. Foreign documents are noted on standard error.

    Objects without a namespace that need one get *namespace*. An object that is in the files twice is a mistake if both
    are in one file or in one kustomization. Otherwise, they may be of different environments.

    Raises:
        UserError: There are no objects, or standard input is empty.
    """
    search, sorter = Search(files), _Sorter(files)
    for name, text in search.texts():
        sorter.take(name, text, confidential=search.is_confidential(name))
    for mistake in search.problems:
        sorter.take_broken(mistake, mistake.content)
    if not (files.searched or any(sorter.sources) or search.templates):
        raise UserError(f"no objects in {files}{' that are not ignored' if search.ignored else ''}")
    rendered = sorter.render(search) if files.render else []
    repository = sorter.repository(namespace)
    for note in (*search.notes(), *rendered, *repository.notes):
        complain(f"note: {note}")
    return repository


@dataclass(slots=True)
class _Sorter:
    """Sorts what was read into objects, mistakes and foreign documents.

    Args:
        files: The files that the user names.
        texts: The text of each file.
        found: Objects of any kind.
        mistakes: Files and objects of ours that cannot be used.
        skipped: Where foreign documents are, by what they are.
        kustomizations: Those among the files.
    """

    files: Files
    texts: dict[str, str] = field(default_factory=dict)
    found: list[SourceDocument] = field(default_factory=list)
    mistakes: list[FileMistake] = field(default_factory=list)
    skipped: dict[str, list[DocumentSource]] = field(default_factory=dict)
    kustomizations: Kustomizations = field(default_factory=Kustomizations)
    generated: int = 0

    @property
    def sources(self) -> Iterator[DocumentSource]:
        """Where anything was read."""
        yield from (each.source for each in self.found)
        yield from (each.source for each in self.mistakes)
        yield from (source for sources in self.skipped.values() for source in sources)

    def take(self, name: str, text: str, *, confidential: bool) -> None:
        """Take in the text of a file."""
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
            raise UserError(f"no objects in {STDIN_NAME}")  # the left end of a pipe has failed

    def take_broken(self, mistake: FileMistake, text: str) -> None:
        """Take in why a file cannot be parsed, a mistake unless the file is foreign."""
        foreign = text and not self.files.names(mistake.source.file) and not mentions_ours(text)
        if foreign:
            self._skip(_UNREADABLE, mistake.source)
        else:
            self.mistakes.append(mistake)

    def render(self, search: Search) -> list[str]:
        """Put the output of renderers in place of the files of kustomizations and charts of ours. Return notes."""
        self._read_included()
        rendering = Rendering(search, self.kustomizations, self.found)
        ours = {os.path.normpath(each.source.file) for each in self.found if is_ours(each.document)}
        rendering.render_kustomizations(ours)
        rendering.render_charts()
        self.found = [each for each in self.found if os.path.normpath(each.source.file) not in rendering.replaced]
        self.found += rendering.found
        return list(rendering.notes())

    def repository(self, namespace: str) -> Repository:
        """Return what is left when everything foreign is skipped."""
        self._find_kustomizations()
        self._drop_patches()
        known = known_kinds(self.found)
        kept = [each for each in self.found if self._is_usable(each, known)]
        named = [self._named(each) for each in self._without_unknown(kept, known)]
        loaded, problems = resolve_each(named, known, namespace=namespace)
        mistakes = [*self.mistakes, *problems, *self._duplicates(loaded)]
        order = {file: number for number, file in enumerate(self.texts)}

        def place(source: DocumentSource) -> tuple[int, int, int]:
            return order.get(source.file, -1), source.number, source.item or 0

        mistakes.sort(key=lambda each: place(each.source))
        skipped = {what: sorted(sources, key=place) for what, sources in self.skipped.items()}
        notes = list(_notes(dict(sorted(skipped.items(), key=lambda item: place(item[1][0])))))
        return Repository(loaded, mistakes, self.texts, notes)

    def _skip(self, what: str, source: DocumentSource) -> None:
        self.skipped.setdefault(what, []).append(source)

    def _read_included(self) -> None:
        """Read the kustomizations outside of the named folders that those inside include, such as a base."""
        visited: set[Path] = set()
        while pending := [file for file in self.kustomizations.missing() if file not in visited]:
            visited.update(pending)
            for file in pending:
                for value in _values_of(file):
                    self.kustomizations.add(str(file), value)

    def _find_kustomizations(self) -> None:
        """Read the kustomizations around single files, as pre-commit passes them."""
        searched = [path for path in self.files.searched if path in self.texts]
        for file in kustomization_files(searched):
            if str(file) not in self.texts:
                for value in _values_of(file):
                    self.kustomizations.add(str(file), value)

    def _drop_patches(self) -> None:
        patches = self.kustomizations.patches()

        def is_patch(source: DocumentSource) -> bool:
            is_named = self.files.names(source.file) or source.rendered_by
            return os.path.normpath(source.file) in patches and not is_named

        for each in self.found:
            if is_patch(each.source):
                self._skip(_PATCH, each.source)
        self.found = [each for each in self.found if not is_patch(each.source)]
        for mistake in self.mistakes:
            if is_patch(mistake.source):
                self._skip(_PATCH, mistake.source)
        self.mistakes = [each for each in self.mistakes if not is_patch(each.source)]

    def _is_usable(self, each: SourceDocument, known: Mapping[tuple[str, str], Kind]) -> bool:
        """Return whether an object is ours, was named, or is a correct one of a known kind. Skip others."""
        document, source = each.document, each.source
        if self.files.names(source.file) or is_ours(document):
            return True
        version, kind = document.get("apiVersion"), document.get("kind")
        if not (isinstance(version, str) and isinstance(kind, str) and version and kind):
            self._skip(_NO_OBJECT, source)
        elif group_kind(document) not in known:
            return True
        elif any(object_mistakes(_with_name(each, "00000"), known)) or _has_placeholder(each, known):
            self._skip(_about(each, "which is not complete"), source)
        else:
            return True
        return False

    def _without_unknown(
        self, found: Sequence[SourceDocument], known: Mapping[tuple[str, str], Kind]
    ) -> Iterator[SourceDocument]:
        """Yield objects of known kinds, ours, and those of other kinds that are not to be skipped."""
        unknown = [each for each in found if _is_of_unknown_kind(each.document, known)]
        sources = {each.source for each in unknown}
        with_known = {each.source.file for each in found if each.source not in sources}
        for each in found:
            if each.source in sources and self._is_skipped(each.source.file, with_known):
                self._skip(_about(each, "which is not known here"), each.source)
            else:
                yield each

    def _is_skipped(self, file: str, with_known: Iterable[str]) -> bool:
        """Return whether objects of unknown kinds in a file are skipped. A named file has to hold a known one."""
        if self.files.unknown_kinds is None:
            return not self.files.names(file) or file in with_known
        return self.files.unknown_kinds is UnknownKinds.SKIP

    def _named(self, each: SourceDocument) -> SourceDocument:
        """Return an object that has only ``generateName`` with a name that the API server might generate."""
        named = _with_name(each, f"{self.generated + 1:05}")
        if named is not each:
            self.generated += 1
            self._skip(f"{each.document.get('kind')} {_GENERATED}", each.source)
        return named

    def _duplicates(self, loaded: Iterable[Loaded]) -> Iterator[FileMistake]:
        containing = self.kustomizations.containing()
        places: dict[Identity, list[DocumentSource]] = {}
        for one in loaded:
            file = os.path.normpath(one.source.file)
            belongs = {file, *containing.get(file, ())}
            for first in places.setdefault(one.identity, []):
                other = os.path.normpath(first.file)
                if belongs & {other, *containing.get(other, ())}:
                    yield duplicate_of(one, first)
                    break
            places[one.identity].append(one.source)


def _with_name(each: SourceDocument, suffix: str) -> SourceDocument:
    metadata = metadata_of(each.document)
    prefix = metadata.get("generateName")
    if metadata.get("name") or not isinstance(prefix, str) or not prefix:
        return each
    document: JsonObject = {**each.document, "metadata": {**metadata, "name": f"{prefix}{suffix}"}}
    return SourceDocument(document, each.source)


def _has_placeholder(each: SourceDocument, known: Mapping[tuple[str, str], Kind]) -> bool:
    """Return whether the name or namespace is none, because a template or a kustomization has yet to write it."""
    from webhook.validation.framework.object_meta import validate_place

    kind = known[group_kind(each.document)]
    document = with_namespace(_with_name(each, "00000").document, kind, DEFAULT_NAMESPACE)
    return any(validate_place(kind, metadata_of(document)))


def _is_of_unknown_kind(document: JsonObject, known: Mapping[tuple[str, str], Kind]) -> bool:
    words = document.get("apiVersion"), document.get("kind")
    is_object = all(isinstance(word, str) and word for word in words)
    return is_object and group_kind(document) not in known and not is_ours(document)


def _about(each: SourceDocument, words: str) -> str:
    subject = "a kind" if each.source.confidential else f"{each.document['kind']} of {each.document['apiVersion']},"
    return f"{subject} {words}"


def _values_of(file: Path) -> Iterator[Any]:
    """Yield the values in a file, none if it cannot be read."""
    try:
        for _, value in values_in(str(file), file.read_text(encoding="utf-8-sig")):
            yield value
    except (OSError, UnicodeDecodeError, UnreadableFileError):
        return


def _notes(skipped: dict[str, list[DocumentSource]]) -> Iterator[str]:
    """Yield a note for each form of skipped documents. The rarest are only counted."""
    shown = sorted(skipped, key=lambda what: -len(skipped[what]))[:_MOST_NOTES]
    for what, sources in skipped.items():
        if what in shown:
            more = f", and {len(sources) - 1} more" if len(sources) > 1 else ""
            word = "" if what.endswith(_GENERATED) else "skipped: "
            yield f"{sources[0]}{more}: {word}{what}"
    if rest := [len(sources) for what, sources in skipped.items() if what not in shown]:
        yield f"skipped: {sum(rest)} more documents of {len(rest)} other forms"
