"""The terms that the page explains: rules, states, categories and reasons, from the catalog and the documents."""

import json
import re
from collections.abc import Iterator
from typing import Any, Final

from tests.docs.pages import DOCS, REFERENCE, ROOT
from tests.docs.reference.rules import row
from webhook.admission.catalogue import catalogue

FILE: Final = ROOT / "webhook" / "page" / "reference.json"

_LINK: Final = re.compile(r"\[((?:[^\]\[]|\[[^\]]*\])+)\]\([^)\s]+\)")
_ROW: Final = re.compile(r"\| (?:<a id=\"[^\"]+\"></a>)?`([^`]+)` \| (.+) \|")
_REASON: Final = re.compile(r"\n### (\w+: \w+)\n(.*?)(?=\n##|\Z)", re.DOTALL)
_ANCHOR: Final = re.compile(r'<a id="[^"]+"></a>\n?')

Term = dict[str, Any]


def page() -> str:
    """Return the file that the page reads, with one term a line."""
    lines = ",\n".join(json.dumps(term, ensure_ascii=False) for term in _terms())
    return f"[\n{lines}\n]\n"


def _terms() -> Iterator[Term]:
    for entry in catalogue():
        _, severity, operations, kinds, layers, _, specified = row(entry)
        facts = {"severity": severity, "on": operations, "kinds": kinds, "layers": layers, "specified in": specified}
        shown = {name: plain(text) for name, text in facts.items() if text}
        yield {"id": entry.rule.id, "group": "rule", "text": entry.rule.what, "facts": shown}
    yield from _rows("state", "conditions.md", "## States")
    yield from _rows("verdict", "refusals.md", "## Why a cluster is turned away")
    yield from _rows("verdict", "refusals.md", "## Verdicts of explain")
    for name, text in _REASON.findall((DOCS / "troubleshooting.md").read_text(encoding="utf-8")):
        yield {"id": name, "group": "reason", "text": plain(_ANCHOR.sub("", text).strip())}


def _rows(group: str, name: str, heading: str) -> Iterator[Term]:
    """Yield the rows of the tables in a section of a page of ``docs/reference``."""
    section = (REFERENCE / name).read_text(encoding="utf-8").partition(f"{heading}\n")[2].partition("\n## ")[0]
    for term, text in _ROW.findall(section):
        yield {"id": term, "group": group, "text": plain(text)}


def plain(text: str) -> str:
    """Return a text without its links: they lead to pages that a server does not have."""
    return _LINK.sub(r"\1", text)
