"""The words that documents explain, with page and anchor: ``webhook/cli/text/explained.json``."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from tests.docs.explained import TYPES
from tests.docs.pages import DOCS, REFERENCE, ROOT, read_page
from webhook.admission.catalogue import catalogue
from webhook.cli.linting.findings import UNUSABLE
from webhook.cli.linting.placed_objects import IGNORED_FIELDS
from webhook.cli.linting.sarif import ADMISSION
from webhook.cli.options.field_validation import UNKNOWN_FIELD
from webhook.cli.text.links import FINDING

FILE: Final = ROOT / "webhook" / "cli" / "text" / "explained.json"
_NAMED: Final = re.compile(r'<a\s+id="([^"]+)"></a>\s*`([^`]+)`')
_OTHER_KINDS: Final = ("Event", "Member", "Failed", "State", "Run", "Cluster", "Node", "Gate", "Upgrade", "Stage")


def explained_json() -> str:
    """Return the file."""
    words: dict[str, str] = {}
    places: dict[str, list[str]] = {}
    for key, place in _words():
        kind, _, word = key.rpartition(": ")
        words.setdefault(key, place)
        if kind not in ("", "State", "Run", "Upgrade", "Stage", FINDING):
            places.setdefault(word, []).append(place)
    # A word with several meanings has a link only where its kind is known.
    words |= {word: found[0] for word, found in places.items() if word not in words and len({*found}) == 1}
    return json.dumps(dict(sorted(words.items())), indent=0, ensure_ascii=False) + "\n"


def _words() -> Iterator[tuple[str, str]]:
    """Yield words as ``KIND: WORD``, and those without a kind, with page and anchor. The first of a word counts."""
    for entry in catalogue():
        yield entry.rule.id, f"docs/reference/rules#{entry.rule.id.lower()}"
    for word in (ADMISSION, IGNORED_FIELDS, UNKNOWN_FIELD, UNUSABLE):
        yield f"{FINDING}: {word}", "docs/reference/commands#harbormaster-lint"
    for heading in read_page(DOCS / "troubleshooting.md").headings:
        if heading.text in TYPES or re.fullmatch(r"[A-Z]\w+: [A-Z]\w+", heading.text):
            yield heading.text, f"docs/troubleshooting#{heading.anchor}"
    for page in (REFERENCE / "refusals.md", DOCS / "troubleshooting.md", REFERENCE / "conditions.md"):
        yield from _named_words(page)


def _named_words(page: Path) -> Iterator[tuple[str, str]]:
    """Yield the words with an anchor of their own, such as ``event-placementscheduled``."""
    kinds = {kind.lower(): kind for kind in (*_OTHER_KINDS, *TYPES)}
    name = str(page.relative_to(ROOT)).removesuffix(".md")
    for anchor, word in _NAMED.findall(page.read_text(encoding="utf-8")):
        kind = kinds.get(anchor.partition("-")[0], "")
        yield f"{kind}: {word}" if kind and "-" in anchor else word, f"{name}#{anchor}"
