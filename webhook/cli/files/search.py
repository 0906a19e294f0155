"""Files that ``-f`` names: single files, folders and standard input, without ignored paths. Also the example fleet.

A file of a folder is read if its name has a suffix of YAML or JSON and does not start with a dot. In folders, templates
of Helm charts are skipped, because they are not objects until Helm has rendered them. Files with tests of `harbormaster
test` are skipped, too. Every error is one line that names the file.
"""

import codecs
import os
import re
import stat
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from importlib.resources import files
from pathlib import Path, PurePath
from typing import Final, NoReturn

from webhook.cli.errors import UserError
from webhook.cli.files.parsing import FileMistake, UnreadableFileError

SUFFIXES: Final = (".yaml", ".yml", ".json")
LARGEST_FILE: Final = 64 * 1024 * 1024
STDIN: Final = "-"
STDIN_NAME: Final = "standard input"
TEST_FILE: Final = re.compile(r"(?:.*\.)?harbormaster-test\.ya?ml", re.DOTALL)
"""The names of files with tests."""
_CHART: Final = "Chart.yaml"
_TEMPLATES: Final = "templates"


class UnknownKinds(StrEnum):
    """Whether objects of unknown kinds are skipped or fail."""

    SKIP = "skip"
    FAIL = "fail"


@dataclass(frozen=True, slots=True)
class Files:
    """Files and folders that the user names.

    Args:
        paths: Files, folders, or ``-`` for standard input.
        ignored: Patterns of files and folders to skip: see `is_ignored`.
        named_in: The file that names the paths, if the user does not: see `Search.is_confidential`.
        searched: Further files and folders, such as those that pre-commit passes. They need not contain our objects.
        unknown_kinds: Whether unknown kinds fail. None means that they are skipped, but a named file must contain an
            object of a known kind.
        render: Whether to render our kustomizations and charts in folders.
        within: Folder that links and rendered kustomizations must not lead out of, nor to hidden files in it. Empty:
            unlimited.
    """

    paths: Sequence[str] = ()
    ignored: Sequence[str] = ()
    named_in: str = ""
    searched: Sequence[str] = ()
    unknown_kinds: UnknownKinds | None = None
    render: bool = True
    within: str = ""

    def __bool__(self) -> bool:
        """Whether any file or folder is named."""
        return bool(self.paths or self.searched)

    def __str__(self) -> str:
        return ", ".join(STDIN_NAME if path == STDIN else path for path in (*self.paths, *self.searched))

    def names(self, file: str) -> bool:
        """Return whether the user names *file* itself, so that it is expected to hold objects."""
        return file == STDIN_NAME or file in self.paths


@dataclass(slots=True)
class Search:
    """Reads the text of each file, and notes skipped files.

    Args:
        files: The files to read.
        wanted: Returns whether to read a file in a folder, given its name.
        may_be_empty: Whether a folder without such files is accepted.
        problems: Files that cannot be read.
        templates: Number of skipped templates of Helm charts, by folder.
        ignored: Number of ignored files and folders.
        rendered: The folders of *templates* that have been rendered.
    """

    files: Files
    wanted: Callable[[str], bool] = lambda name: name.endswith(SUFFIXES) and not TEST_FILE.fullmatch(name)
    may_be_empty: bool = False
    problems: list[FileMistake] = field(default_factory=list)
    templates: dict[str, int] = field(default_factory=dict)
    ignored: int = 0
    rendered: set[str] = field(default_factory=set)

    def texts(self) -> Iterator[tuple[str, str]]:
        """Yield name and text of every file, in the order of the paths, those of a folder by name.

        Raises:
            UserError: Standard input is named twice.
        """
        if self.files.paths.count(STDIN) > 1:
            raise UserError("-f -: standard input can be read only once")
        for path in (*self.files.paths, *self.files.searched):
            try:
                yield from self._texts(path)
            except UnreadableFileError as error:
                self.problems.append(error.mistake)

    def is_confidential(self, name: str) -> bool:
        """Return whether messages must not repeat any content of a file.

        CI reads untrusted files. A link among them, or a path in a test, can lead to any file of the machine. The log
        of the job would show the start of that file, which may be a credential.
        """
        if name == STDIN_NAME:
            return False
        working_directory = Path.cwd()
        place = Path(os.path.normpath(working_directory / name))
        base = working_directory if place.is_relative_to(working_directory) else place.parent
        # The system resolves a link before ``..``: if a is a link, the file a/../b is not b.
        if (working_directory / name).resolve() != base.resolve() / place.relative_to(base):
            return True
        if not self.files.named_in:
            return False
        roots = (working_directory, Path(os.path.normpath(working_directory / self.files.named_in)).parent)
        # If the root is the root directory, as in a container, every file would be inside.
        inside = [place.relative_to(root).parts for root in roots if place.is_relative_to(root) and root.name]
        return not inside or all(any(part.startswith(".") for part in parts) for parts in inside)

    def notes(self) -> Iterator[str]:
        """Yield notes on files that were skipped without a request of the user."""
        for folder, count in sorted(self.templates.items()):
            if folder in self.rendered:
                continue
            files = "1 file" if count == 1 else f"{count} files"
            yield f"{folder}: {files} skipped: templates of a Helm chart; `helm template` renders them"

    def _texts(self, path: str) -> Iterator[tuple[str, str]]:
        if path == STDIN:
            yield STDIN_NAME, _decode(STDIN_NAME, sys.stdin.buffer.read(LARGEST_FILE + 1))
            return
        if path.startswith(("http://", "https://")):
            raise UnreadableFileError(path, "URLs are not supported: download the file, inspect it, and give its path")
        if is_ignored(path, "", self.files.ignored):
            self.ignored += 1
            return
        place = Path(path)
        if place.is_dir() and place.suffix not in SUFFIXES:
            yield from self._texts_in_folder(place)
        elif not self.files.names(path) and (folder := _templates_of(place)) is not None:
            self.templates[str(folder)] = self.templates.get(str(folder), 0) + 1
        else:
            yield path, _decode(path, _content(place))

    def _texts_in_folder(self, folder: Path) -> Iterator[tuple[str, str]]:
        passed_over, count = self.ignored, 0
        for file in self._files_in(folder):
            count += 1
            try:
                _check_within(file, folder, self.files.within)
                yield str(file), _decode(str(file), _content(file, regular=True))
            except UnreadableFileError as error:
                self.problems.append(error.mistake)
        if not (count or self.may_be_empty or self.templates or self.ignored > passed_over):
            raise UnreadableFileError(str(folder), "no *.yaml, *.yml or *.json file in this folder")

    def _files_in(self, folder: Path) -> Iterator[Path]:
        """Yield the matching files of a folder and its subfolders. Hidden files are skipped silently."""

        def fail(error: OSError) -> NoReturn:
            raise UnreadableFileError(str(error.filename), _reason(error)) from error

        for base, folders, names in os.walk(folder, onerror=fail):
            root = Path(base)
            is_chart = _CHART in names
            file_like_folders = [name for name in folders if name.endswith(SUFFIXES)]
            remaining = [name for name in folders if name not in file_like_folders and not name.startswith(".")]
            folders[:] = sorted(name for name in remaining if not self._is_ignored(root / name, folder))
            if is_chart and _TEMPLATES in folders:
                folders.remove(_TEMPLATES)
                if template_count := sum(
                    self._is_candidate(name) for *_, names in os.walk(root / _TEMPLATES) for name in names
                ):
                    self.templates[str(root / _TEMPLATES)] = template_count
            for name in sorted((*names, *file_like_folders)):
                if self._is_candidate(name) and not self._is_ignored(root / name, folder):
                    yield root / name

    def _is_candidate(self, name: str) -> bool:
        return not name.startswith(".") and self.wanted(name)

    def _is_ignored(self, place: Path, folder: Path) -> bool:
        ignored = is_ignored(str(place), str(place.relative_to(folder)), self.files.ignored)
        self.ignored += ignored
        return ignored


def reads_below(files: Files, place: Path) -> str | None:
    """Return the named folder from which a search would read the files below *place*, or None if it reads none."""
    for path in (*files.paths, *files.searched):
        named = Path(path)
        if path == STDIN or not named.is_dir() or is_ignored(path, "", files.ignored):
            continue
        if not place.resolve().is_relative_to(named.resolve()):
            continue
        parts = place.resolve().relative_to(named.resolve()).parts
        below = [PurePath(*parts[: at + 1]) for at in range(len(parts))]
        if not any(
            part.name.startswith(".") or is_ignored(str(named / part), str(part), files.ignored) for part in below
        ):
            return path
    return None


def is_ignored(path: str, below: str, patterns: Sequence[str]) -> bool:
    """Return whether a file or folder matches one of *patterns*.

    ``*`` and ``?`` match anything but a slash, ``**`` matches any number of folders. A pattern without a slash matches
    every file or folder of that name. A pattern with a slash matches a path, either as messages show it or relative to
    the named folder.

    Args:
        path: Path as messages show it.
        below: Path relative to the folder that the user named, empty for that folder itself.
        patterns: Patterns as the user gave them.
    """
    wholes = [PurePath(place).parts for place in (path, below)]
    return any(
        any(_matches(PurePath(pattern).parts, path_parts) for path_parts in wholes)
        if "/" in pattern.strip("/")
        else _fits(PurePath(path).name, pattern.strip("/"))
        for pattern in patterns
    )


def _matches(pattern: Sequence[str], path: Sequence[str]) -> bool:
    """Return whether a path matches a pattern, part by part."""
    positions = {0}
    for part in pattern:
        if part == "**":
            positions = set(range(min(positions), len(path) + 1))
        else:
            positions = {at + 1 for at in positions if at < len(path) and _fits(path[at], part)}
        if not positions:
            return False
    return len(path) in positions


def _fits(name: str, pattern: str) -> bool:
    """Return whether a name matches a pattern of ``*`` and ``?``. Brackets are literal: names often contain them."""
    at = position = 0
    star, retry_position = -1, 0
    while position < len(name):
        if at < len(pattern) and pattern[at] == "*":
            star, retry_position = at, position
            at += 1
        elif at < len(pattern) and pattern[at] in ("?", name[position]):
            at += 1
            position += 1
        elif star >= 0:  # the last star matches one more character
            retry_position += 1
            at, position = star + 1, retry_position
        else:
            return False
    return not pattern[at:].strip("*")


def is_hidden(file: Path, folder: Path) -> bool:
    """Return whether a file below *folder*, or the target of its links, is hidden or in a hidden folder.

    Links to hidden files are common elsewhere: a mounted ConfigMap consists of them.
    """
    place, base = file.resolve(), folder.resolve()
    return place.is_relative_to(base) and any(part.startswith(".") for part in place.relative_to(base).parts)


def _check_within(file: Path, folder: Path, within: str) -> None:
    if not file.resolve().is_relative_to(folder.resolve()):
        raise UnreadableFileError(
            str(file), f"is a link to a file outside of {folder}. To read it, give the path of the file itself"
        )
    if within and is_hidden(file, Path(within)):
        raise UnreadableFileError(str(file), "is a link to a hidden file")


def _content(file: Path, *, regular: bool = False) -> bytes:
    try:
        mode = file.stat().st_mode
        if stat.S_ISDIR(mode):
            raise UnreadableFileError(str(file), "is a directory, expected a file")
        if regular and not stat.S_ISREG(mode):
            raise UnreadableFileError(str(file), "is not a regular file")
        with file.open("rb") as stream:
            return stream.read(LARGEST_FILE + 1)
    except OSError as error:
        raise UnreadableFileError(str(file), _reason(error)) from error


def _reason(error: OSError) -> str:
    return (error.strerror or str(error)).lower()


def _decode(name: str, content: bytes) -> str:
    """Decode a file as kubectl does: as UTF-16 if it starts with a byte order mark of UTF-16, else as UTF-8.

    Raises:
        UnreadableFileError: The file is too large, or is not text.
    """
    if len(content) > LARGEST_FILE:
        raise UnreadableFileError(name, f"is larger than {LARGEST_FILE // 2**20} MiB")
    is_utf16 = content.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE))
    encoding, word = ("utf-16", "UTF-16") if is_utf16 else ("utf-8-sig", "UTF-8")
    try:
        return content.decode(encoding)
    except UnicodeDecodeError as error:
        reason = f"is not {word} text: byte {error.start} is {content[error.start]:#04x}"
        raise UnreadableFileError(name, reason, content=content.decode(encoding, errors="replace")) from None


def _templates_of(file: Path) -> Path | None:
    """Return the templates folder of the Helm chart that contains a file, or None if no chart contains it."""
    folders = (folder for folder in file.parents if folder.name == _TEMPLATES)
    return next((folder for folder in folders if (folder.parent / _CHART).is_file()), None)


def example_fleet() -> Path:
    """Return the folder with the files of the example fleet."""
    package = Path(str(files("webhook")))
    package_data = package / "example_fleet"  # only the wheel has it
    return package_data if package_data.is_dir() else package.parent / "examples" / "fleet"
