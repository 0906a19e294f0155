"""Counts phrases that the project's English avoids, in code and in documents.

A hit is a place to read, not a verdict. The counts are a ratchet: ``test_prose`` fails if one rises above its record in
``prose.json``. ``python -m tests.contracts.prose [RULE]`` lists the hits, and ``--record`` lowers the record.
"""

import argparse
import ast
import json
import re
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

from tests.contracts.sources import PACKAGES, ROOT, sources

RECORD: Final = Path(__file__).with_suffix(".json")
LINE_TOO_SHORT: Final = 3
"""Strings of fewer words are names, not prose."""

RULES: Final = {
    "what-clause": r"(?:^|[.:;] )(?:What|Who|Whoever|Whatever|That which)\b"
    r"(?! (?:is|are|does?|would|if|to|happens)\b[^.]*\?)",
    "nobody": r"\b(?:nobody|(?:some|every)body|who(?:so)?ever|wh(?:at|ich)ever)\b",
    "say-tell": r"\b[Ss]a(?:y|ys|id) (?:whether|what|which|that|how|so|it|of|on)\b"
    r"|\b(?:is|are|was|were|be|been) (?:told|said)\b|\btells? (?:what|which|how|of|whether)\b",
    "look-at": r"\blook(?:s|ed|ing)? (?:at|again|for it)\b|\bis looked\b",
    "go-stay": r"\b(?:to|may|must|can|will|would|should|not|that|it|they|nodes?|pods?|objects?) (?:goe?s?|stays?)\b"
    r"(?! (?:to|through|wrong|back|ahead))|\b(?:can|could|to) be had\b|\b(?:are|is) gone\b",
    "at-once": r"\bat once\b",
    "call-off": r"\bcall(?:s|ed)? (?:it )?off\b|\btak(?:es?|en) (?:it )?back\b|\bbeg(?:ins?|un|an)\b"
    r"|\b(?:is|are) over\b|\btime is up\b",
    "of-which": r"\b(?:of|by|for|in|on|from|to) wh(?:ich|om)\b"
    r"|\bso (?:deep|long|often|many|much|few)\b(?= (?:a|is|are|of|it|that|,))",
    "semicolon": r"(?<=[a-z)`]); (?=[a-z])",
    "none-colon": r"\bNone: (?!unset|unlimited|unknown|disabled|not )",
    "there-is-none": r"\b[Tt]here (?:is|are) (?:none|nothing)\b|\bis there\b",
    "archaic": r"\bshall\b|\bmeanwhile\b|\b(?:there|where)by\b|\btherefrom\b|\bof (?:it|them) is (?:known|left)\b",
}
"""Rules of the style guide that a pattern can find, by name."""

_COMPILED: Final = {rule: re.compile(pattern, re.MULTILINE) for rule, pattern in RULES.items()}
_COMMENT: Final = re.compile(r"(?:^\s*|\s{2})# ?(?!noqa|type:|!)(\D.*)$", re.MULTILINE)
_CODE_SPAN: Final = re.compile(r"`[^`]*`")
_NOT_PROSE: Final = ("{", "<", "apiVersion")


class Hit(NamedTuple):
    """One phrase, with its rule and its place."""

    kind: str
    rule: str
    place: str
    text: str


def hits() -> Iterator[Hit]:
    """Yield the phrases of the whole project: ``code`` and ``docs``."""
    for path, source in sources(*PACKAGES):
        yield from hits_in("code", path, prose_of(source))
    for page in pages():
        yield from hits_in("docs", str(page.relative_to(ROOT)), paragraphs_of(page.read_text(encoding="utf-8")))


def hits_in(kind: str, path: str, prose: Iterator[tuple[int, str]]) -> Iterator[Hit]:
    """Yield the phrases in pieces of prose, which come with their line numbers."""
    for line, text in prose:
        for rule, pattern in _COMPILED.items():
            for match in pattern.finditer(text):
                start, end = max(0, match.start() - 50), match.end() + 50
                yield Hit(kind, rule, f"{path}:{line + text.count(chr(10), 0, match.start())}", text[start:end])


def pages() -> list[Path]:
    """Return the documents, except the specifications."""
    roots = [ROOT / name for name in ("README.md", "CONTRIBUTING.md", "SECURITY.md", "CHANGELOG.md")]
    return [*roots, *sorted(page for page in (ROOT / "docs").rglob("*.md") if "specifications" not in page.parts)]


def prose_of(source: str) -> Iterator[tuple[int, str]]:
    """Yield docstrings, messages and comments of a module."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            text = node.value
            if len(text.split()) >= LINE_TOO_SHORT and not text.lstrip().startswith(_NOT_PROSE):
                yield node.lineno, text
    for match in _COMMENT.finditer(source):
        yield source.count("\n", 0, match.start(1)) + 1, match[1]


def paragraphs_of(markdown: str) -> Iterator[tuple[int, str]]:
    """Yield the lines of a document outside of code."""
    fenced = False
    for number, line in enumerate(markdown.splitlines(), 1):
        if line.lstrip().startswith("```"):
            fenced = not fenced
        elif not fenced and not line.startswith("    "):
            yield number, _CODE_SPAN.sub("`x`", line)


def counts() -> dict[str, int]:
    """Return the number of hits per kind and rule, such as ``code nobody``."""
    counter = Counter(f"{hit.kind} {hit.rule}" for hit in hits())
    return {f"{kind} {rule}": counter[f"{kind} {rule}"] for kind in ("code", "docs") for rule in RULES}


def main() -> None:
    """List hits, or lower the record."""
    parser = argparse.ArgumentParser("python -m tests.contracts.prose", description=main.__doc__)
    parser.add_argument("rule", nargs="?", default="", help=f"one of {', '.join(RULES)}")
    parser.add_argument("--record", action="store_true", help="lower the record to the present counts")
    options = parser.parse_args()
    if options.record:
        record = json.loads(RECORD.read_text()) if RECORD.exists() else {}
        lowered = {rule: min(count, record.get(rule, count)) for rule, count in counts().items()}
        RECORD.write_text(json.dumps(lowered, indent=2) + "\n")
        return
    for hit in hits():
        if options.rule in ("", hit.rule):
            sys.stdout.write(f"{hit.place}: {hit.rule}: {' '.join(hit.text.split())}\n")


if __name__ == "__main__":
    main()
