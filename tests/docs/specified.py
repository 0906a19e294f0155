"""The ids that the specifications define: rules in rows of tables or numbered paragraphs, differences in rows."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Final

from tests.docs.pages import DOCS, anchor_of

FOLDER: Final = DOCS / "specifications"
DIFFERENCES: Final = "differences.md"
"""Lists differences. Ids of rules in its rows are citations."""
PAGES: Final = tuple(sorted(path for path in FOLDER.glob("*.md") if path.name != "README.md"))

_HEADING: Final = re.compile(r"#{2,6} (?P<text>(?P<number>\d+(?:\.\d+)*)?.*)")
_DEFINED: Final = re.compile(r'(?:\| (?:<a id="[^"]+"></a>)?)?(?P<id>[A-Z]{1,2}-\d+)(?:\.| \|)')
_OF_DIFFERENCES: Final = ("DK", "DR", "DV")


@dataclass(frozen=True, slots=True)
class Definition:
    """Where an id is defined.

    Args:
        id: The id.
        page: Name of the page.
        section: Number of the section. Empty: unnumbered.
        anchor: Anchor of the section.
        line: The row or the first line of the paragraph.
    """

    id: str
    page: str
    section: str
    anchor: str
    line: str

    @property
    def family(self) -> str:
        """The letters before the dash."""
        return self.id.partition("-")[0]


def read_definitions(path: Path) -> Iterator[Definition]:
    """Yield the definitions on the page at *path*."""
    section = anchor = ""
    for line in path.read_text(encoding="utf-8").splitlines():
        if heading := _HEADING.fullmatch(line):
            section, anchor = heading["number"] or "", anchor_of(heading["text"])
        elif defined := _DEFINED.match(line):
            found = Definition(defined["id"], path.name, section, anchor, line)
            if path.name != DIFFERENCES or found.family in _OF_DIFFERENCES:
                yield found


@cache
def definitions() -> tuple[Definition, ...]:
    """Return the definitions on all pages."""
    return tuple(found for path in PAGES for found in read_definitions(path))


@cache
def rules_specified() -> dict[str, Definition]:
    """Return the definitions of rules by id."""
    return {found.id: found for found in definitions() if found.page != DIFFERENCES}
