"""Renders kustomizations and Helm charts with the programs on the PATH. Nothing is fetched.

CI reads untrusted files. kustomize loads no file outside of the folder, and helm has no access to the network or to a
cluster. A chart with links is not rendered, because helm follows links.
"""

import os
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from webhook.cli.files.foreign import mentions_ours
from webhook.cli.files.parsing import (
    DocumentSource,
    FileMistake,
    SourceDocument,
    UnreadableFileError,
    members_of,
    values_in,
)

RENDER_SECONDS: Final = 60
_LONGEST_REASON: Final = 300
_SOURCE: Final = "# Source: "
KUSTOMIZE: Final = (("kustomize", "build"), ("kubectl", "kustomize"))
HELM: Final = (("helm", "template"),)


class RenderingError(Exception):
    """A folder cannot be rendered. The message has the reason."""


@dataclass(frozen=True, slots=True)
class Renderer:
    """A program that renders folders.

    Args:
        words: The program and its command.
    """

    words: tuple[str, ...]

    @property
    def name(self) -> str:
        """Name of the program as users type it."""
        return " ".join(self.words)

    @classmethod
    def find(cls, candidates: Sequence[tuple[str, ...]]) -> "Renderer | None":
        """Return the first candidate that is on the PATH, or None."""
        return next((cls(words) for words in candidates if shutil.which(words[0])), None)

    def render(self, folder: str) -> str:
        """Return the output of the program for a folder.

        Raises:
            RenderingError: The program cannot be started, fails, or times out.
        """
        try:
            process = subprocess.run(  # noqa: S603 - the user's own program
                [*self.words, "--", folder],
                capture_output=True,
                stdin=subprocess.DEVNULL,
                timeout=RENDER_SECONDS,
                check=False,
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            raise RenderingError(f"{self.words[0]}: {error}") from error
        if process.returncode:
            reason = " ".join(process.stderr.decode(errors="replace").split())
            reason = reason.removeprefix("Error: ").removeprefix("error: ")
            raise RenderingError(f"{self.name}: {reason[:_LONGEST_REASON]}")
        return process.stdout.decode(errors="replace")

    def documents(self, folder: str, file: str) -> list[SourceDocument]:
        """Return the objects in the output of the program for a folder.

        Args:
            folder: The folder.
            file: The file that represents the folder in messages.

        Raises:
            RenderingError: The program cannot be started, fails, or times out. Or its output cannot be parsed, or
                contains a value that is not an object.
        """
        text = self.render(folder)
        problems: list[FileMistake] = []
        try:
            values = values_in(file, text)
        except UnreadableFileError as error:
            raise RenderingError(f"{self.name}: {error.mistake.message}") from error
        origins = _origins(text, folder)
        documents = [
            member
            for source, value in values
            for member in members_of(value, self._source(file, source.number, origins.get(source.number)), problems)
        ]
        if problems:
            raise RenderingError(f"{self.name}: {problems[0].message}")
        return documents

    def _source(self, file: str, number: int, origin: str | None) -> DocumentSource:
        origin_source = None if origin is None else DocumentSource(origin, 0)
        return DocumentSource(file, number, rendered_by=f"`{self.name}`", origin=origin_source)


def _origins(text: str, folder: str) -> dict[int, str]:
    """Return the template of each document, by number of the document. Helm names templates in comments."""
    origins: dict[int, str] = {}
    number = 0
    for line in text.splitlines():
        if line.startswith("---"):
            number += 1
        elif line.startswith(_SOURCE):
            origins[number] = str(Path(folder, *Path(line.removeprefix(_SOURCE)).parts[1:]))
    return origins


def chart_concerns_us(chart: Path) -> bool:
    """Return whether a chart has no links, and a template with one of our ``apiVersion`` values."""
    files = list(_files_below(chart))
    if any(file.is_symlink() for file in files):
        return False
    templates = (file for file in files if "templates" in file.parts and file.suffix in (".yaml", ".yml"))
    return any(mentions_ours(text_of(file)) for file in templates)


def _files_below(folder: Path) -> Iterator[Path]:
    for base, folders, names in os.walk(folder):
        yield from (Path(base, name) for name in (*folders, *names))


def text_of(file: Path) -> str:
    """Return the text of a file, empty if it cannot be read."""
    try:
        return file.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
