"""Commands that sections of documents show, line by line, and the reasons why tests do not run some of them."""

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tests.docs.calls import JOINED
from tests.docs.pages import DOCS, ROOT, read_page

README: Final = ROOT / "README.md"
INSTALL: Final = DOCS / "install.md"
NOT_RUN: Final = "not run in tests: "
"""In the comment behind a command that tests do not run. The reason follows."""
ON_A_REAL_HUB: Final = (README, "On a real hub")
WITH_HELM: Final = (INSTALL, "With Helm")
IMAGE: Final = (INSTALL, "The image")
WITHOUT_A_REGISTRY: Final = (INSTALL, "Without a registry")
WITHOUT_THE_INTERNET: Final = (INSTALL, "Without the internet")
DEFINITIONS: Final = (INSTALL, "Definitions")
ADMISSION: Final = (INSTALL, "Admission")
WORKERS: Final = (INSTALL, "Several processes on one port")
LOOP: Final = (INSTALL, "The loop")
SHARDS: Final = (INSTALL, "Replicas that share the work")
CHECK: Final = (INSTALL, "Check the installation")
ROLES: Final = (INSTALL, "What the roles allow")
INSTALLATION: Final = (
    ON_A_REAL_HUB,
    WITH_HELM,
    IMAGE,
    WITHOUT_A_REGISTRY,
    WITHOUT_THE_INTERNET,
    DEFINITIONS,
    ADMISSION,
    WORKERS,
    LOOP,
    SHARDS,
    CHECK,
    ROLES,
)
"""Sections whose commands ``e2e/packaging`` runs."""

_REMARK: Final = re.compile(r"(?:^|\s{2,})#\s*(.*)$")


@dataclass(frozen=True, slots=True)
class Shown:
    """A command of a document.

    Args:
        text: As a reader types it, on one line.
        remark: The comment behind it.
    """

    text: str
    remark: str = ""

    @property
    def reason(self) -> str:
        """Why tests do not run it. Empty: they do."""
        return self.remark.partition(NOT_RUN)[2].removesuffix(")")


def commands_of(section: tuple[Path, str]) -> list[Shown]:
    """Return the commands in the blocks of a section, which is a document and a heading, without those below it.

    Raises:
        KeyError: The section has no block.
    """
    path, heading = section
    return [command for block in read_page(path).sections[heading] for command in commands_in(block)]


def commands_in(block: str) -> list[Shown]:
    """Return the commands in a block, without lines that are only comments."""
    found = []
    for line in JOINED.sub("", block).splitlines():
        remark = _REMARK.search(line)
        text = line[: remark.start()] if remark else line
        if text.strip():
            found.append(Shown(text.strip(), remark[1] if remark else ""))
    return found
