"""Kustomizations in a repository: the files that are patches, and the files that belong together.

Paths are normalized with `os.path.normpath`. Remote resources are ignored, because nothing is fetched.

Source: kustomize, "The Kustomization File".
"""

import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from scorer.api.unstructured.documents import dicts_at, text_at, texts_at
from scorer.api.unstructured.json_object import JsonObject

FILE_NAMES: Final = ("kustomization.yaml", "kustomization.yml")
GROUP: Final = "kustomize.config.k8s.io"
_VERSIONS: Final = f"{GROUP}/"
_INCLUDING: Final = ("resources", "bases", "components")
_PATCHING: Final = ("patches", "patchesJson6902", "replacements")
_CONFIGURING: Final = ("patchesStrategicMerge", "configurations", "transformers", "generators", "validators")
_HOSTS: Final = ("github.com", "git@", "git::")
_RENAMING: Final = ("namePrefix", "nameSuffix", "namespace")


@dataclass(frozen=True, slots=True)
class Kustomization:
    """One kustomization.

    Args:
        file: Path of its file.
        document: Content of the file.
    """

    file: str
    document: JsonObject

    @property
    def folder(self) -> str:
        """Folder of the kustomization."""
        return str(Path(self.file).parent)

    @property
    def resources(self) -> Iterator[str]:
        """Files and folders of its resources, bases and components."""
        for member in _INCLUDING:
            yield from map(self._path, texts_at(self.document, member))

    @property
    def patches(self) -> Iterator[str]:
        """Files that change its objects, or configure such a change."""
        for member in _PATCHING:
            yield from (self._path(text_at(entry, "path")) for entry in dicts_at(self.document, member))
        for member in _CONFIGURING:
            yield from map(self._path, texts_at(self.document, member))

    @property
    def has_addresses(self) -> bool:
        """Whether it refers to a remote resource that kustomize would fetch: a URL or a repository."""
        return any("://" in name or "?ref=" in name or name.startswith(_HOSTS) for name in self._members)

    @property
    def _members(self) -> Iterator[str]:
        """Every file, folder and remote resource in it, as written."""
        for member in (*_INCLUDING, *_CONFIGURING, "crds"):
            yield from texts_at(self.document, member)
        yield text_at(self.document, "openapi", "path")
        for member in _PATCHING:
            yield from (text_at(entry, "path") for entry in dicts_at(self.document, member))
        for member in ("configMapGenerator", "secretGenerator"):
            for entry in dicts_at(self.document, member):
                yield from (*texts_at(entry, "files"), *texts_at(entry, "envs"), text_at(entry, "env"))

    @property
    def renames(self) -> bool:
        """Whether it changes names or namespaces of its objects."""
        return any(self.document.get(member) for member in _RENAMING)

    def _path(self, path: str) -> str:
        return os.path.normpath(Path(self.folder) / path)


@dataclass(slots=True)
class Kustomizations:
    """The kustomizations of a repository, by folder."""

    by_folder: dict[str, Kustomization] = field(default_factory=dict)
    _files: dict[str, frozenset[str]] = field(default_factory=dict)

    def add(self, file: str, value: object) -> bool:
        """Add a document of *file* if it is a kustomization. Return whether it is one."""
        if Path(file).name not in FILE_NAMES or not isinstance(value, dict):
            return False
        if not str(value.get("apiVersion") or _VERSIONS).startswith(_VERSIONS):
            return False
        kustomization = Kustomization(os.path.normpath(file), value)
        self.by_folder[kustomization.folder] = kustomization
        return True

    def missing(self) -> Iterator[Path]:
        """Yield the files of kustomizations that other ones include, but that have not been added yet."""
        for kustomization in list(self.by_folder.values()):
            for path in kustomization.resources:
                if path not in self.by_folder and Path(path).is_dir():
                    yield from (file for name in FILE_NAMES if (file := Path(path, name)).is_file())

    def patches(self) -> frozenset[str]:
        """Return the files that are patches or configuration of any kustomization."""
        return frozenset(file for kustomization in self.by_folder.values() for file in kustomization.patches)

    def files_of(self, folder: str) -> frozenset[str]:
        """Return the files whose objects a kustomization includes without changing their names."""
        if folder not in self._files:
            self._files[folder] = frozenset()  # ends a cycle
            self._files[folder] = frozenset(self._collect(folder))
        return self._files[folder]

    def _collect(self, folder: str) -> Iterator[str]:
        for path in self.by_folder[folder].resources:
            if path not in self.by_folder:
                yield path
            elif not self.by_folder[path].renames:
                yield from self.files_of(path)

    def roots(self) -> Iterator[Kustomization]:
        """Yield the kustomizations that no other one includes, sorted by folder. Components are omitted."""
        resource_paths = {path for kustomization in self.by_folder.values() for path in kustomization.resources}
        for folder, kustomization in sorted(self.by_folder.items()):
            if folder not in resource_paths and kustomization.document.get("kind") != "Component":
                yield kustomization

    def everything_of(self, root: Kustomization) -> tuple[list[Kustomization], frozenset[str]]:
        """Return a kustomization and all that it includes, and the files of their objects and patches."""
        visited_folders: dict[str, Kustomization] = {}
        pending = [root]
        while pending:
            kustomization = pending.pop()
            if kustomization.folder not in visited_folders:
                visited_folders[kustomization.folder] = kustomization
                included = (*kustomization.resources, *kustomization.patches)
                pending += (self.by_folder[path] for path in included if path in self.by_folder)
        parts = list(visited_folders.values())
        files = (path for part in parts for path in (*part.resources, *part.patches) if path not in self.by_folder)
        return parts, frozenset(files)

    def containing(self) -> Mapping[str, frozenset[str]]:
        """Return the folders of the kustomizations that include the objects of a file, by file."""
        folders_of: dict[str, set[str]] = {}
        for folder in self.by_folder:
            for file in self.files_of(folder):
                folders_of.setdefault(file, set()).add(folder)
        return {file: frozenset(folders) for file, folders in folders_of.items()}


def kustomization_files(files: Iterable[str]) -> Iterator[Path]:
    """Yield the files of kustomizations in the folders of *files* and above, up to the working directory."""
    folders = {parent: None for file in files for parent in Path(os.path.normpath(file)).parents}
    working_directory = Path.cwd()
    for folder in folders:
        if not folder.is_absolute() or folder.is_relative_to(working_directory):
            yield from (folder / name for name in FILE_NAMES if (folder / name).is_file())
