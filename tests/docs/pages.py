"""The project's documents: which there are, the anchors they have, and what they link to, as GitHub renders them."""

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from pathlib import Path
from typing import Final

from markdown_it import MarkdownIt
from markdown_it.token import Token

ROOT: Final = Path(__file__).parents[2]
DOCS: Final = ROOT / "docs"
REFERENCE: Final = DOCS / "reference"

DOCUMENTS: Final = tuple(
    sorted(
        [*ROOT.glob("*.md"), *ROOT.glob("[a-z]*/README.md"), *ROOT.glob("charts/*/README.md"), *DOCS.rglob("*.md")],
        key=lambda path: str(path),
    )
)
"""Every document that people are to read."""

BLOCKS: Final = ("fence", "code_block")

_PARSER: Final = MarkdownIt("commonmark").enable("table")
_NAMED: Final = re.compile(r'<a\s+(?:id|name)="([^"]+)"')
_MANIFEST: Final = re.compile(r"\s*(#.*\n\s*)*apiVersion: ")
_NOT_IN_ANCHORS: Final = re.compile(r"[^\w\- ]")


@dataclass(frozen=True, slots=True)
class Heading:
    """A heading: its depth, its words, and the anchor by which it is linked to."""

    depth: int
    text: str
    anchor: str


@dataclass(frozen=True, slots=True)
class Page:
    """A document, read.

    Args:
        headings: In order.
        anchors: Those of the headings, and those that are named in so many words.
        links: Targets of links and pictures, as written.
        blocks: The text of every code block.
        sections: The code blocks by the text of the heading above them.
        spans: The text of every piece of code within a sentence.
    """

    headings: tuple[Heading, ...]
    anchors: frozenset[str]
    links: tuple[str, ...]
    blocks: tuple[str, ...]
    sections: Mapping[str, tuple[str, ...]]
    spans: tuple[str, ...]


def manifests_of(path: Path) -> list[str]:
    """Return the blocks of a page that are whole manifests."""
    return [
        block
        for block in read_page(path).blocks
        if _MANIFEST.match(block) and "metadata:" in block and "…" not in block
    ]


def anchor_of(text: str) -> str:
    """Return the anchor that GitHub gives to a heading of these words."""
    return _NOT_IN_ANCHORS.sub("", text.strip().lower()).replace(" ", "-")


@lru_cache
def read_page(path: Path) -> Page:
    """Read the document at *path*."""
    tokens = _PARSER.parse(path.read_text(encoding="utf-8"))
    headings = tuple(_headings(tokens))
    inline = [child for token in tokens for child in token.children or ()]
    raw = "\n".join(token.content for token in (*tokens, *inline) if token.type in ("html_block", "html_inline"))
    return Page(
        headings=headings,
        anchors=frozenset({heading.anchor for heading in headings} | set(_NAMED.findall(raw))),
        links=tuple(
            str(token.attrs[name])
            for token in inline
            for kind, name in (("link_open", "href"), ("image", "src"))
            if token.type == kind
        ),
        blocks=tuple(token.content for token in tokens if token.type in BLOCKS),
        sections=_sections(tokens),
        spans=tuple(token.content for token in inline if token.type == "code_inline"),
    )


def _headings(tokens: list[Token]) -> Iterator[Heading]:
    seen: Counter[str] = Counter()
    for opening, content in pairwise(tokens):
        if opening.type != "heading_open":
            continue
        text = "".join(child.content for child in content.children or ())
        anchor = anchor_of(text)
        yield Heading(int(opening.tag[1:]), text, f"{anchor}-{seen[anchor]}" if seen[anchor] else anchor)
        seen[anchor] += 1


def _sections(tokens: list[Token]) -> dict[str, tuple[str, ...]]:
    found: dict[str, tuple[str, ...]] = {}
    heading = ""
    for token, following in zip(tokens, [*tokens[1:], None], strict=True):
        if token.type == "heading_open" and following is not None:
            heading = "".join(child.content for child in following.children or ())
        elif token.type in BLOCKS:
            found[heading] = (*found.get(heading, ()), token.content)
    return found


def broken_links(path: Path) -> list[str]:
    """Return the links of the document at *path* that lead nowhere within the project."""
    return [link for link in read_page(path).links if not leads_somewhere(path, link)]


def leads_somewhere(path: Path, link: str) -> bool:
    """Say whether *link*, in the document at *path*, leads out of the project or to something that is in it."""
    if "://" in link or link.startswith("mailto:"):
        return True
    name, _, anchor = link.partition("#")
    target = (path.parent / name).resolve() if name else path
    if not target.exists() or not target.is_relative_to(ROOT):
        return False
    return not anchor or (target.suffix == ".md" and anchor in read_page(target).anchors)
