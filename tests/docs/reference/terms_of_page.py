"""The terms that the page explains: rules, states, categories and reasons, from the catalog and the documents."""

import json
import re
from collections import defaultdict
from collections.abc import Iterator
from typing import Any, Final

from tests.docs.pages import DOCS, REFERENCE, ROOT
from tests.docs.reference.rules import row
from webhook.admission.catalogue import catalogue

FILE: Final = ROOT / "webhook" / "page" / "reference.json"

_LINK: Final = re.compile(r"\[((?:[^\]\[]|\[[^\]]*\])+)\]\([^)\s]+\)")
_ROW: Final = re.compile(r"\| (?:<a id=\"[^\"]+\"></a>)?`([^`]+)` \| (.+) \|")
_ITEM: Final = re.compile(r"- (?:<a id=\"[^\"]+\"></a>)?`([^`]+)`: (.+)")
_LIST: Final = re.compile(r"^States of (an? [a-z ]+?)(?:,.*)?:\n\n((?:- .+\n)+)", re.MULTILINE)
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
    yield from _states()
    rows = {}
    for heading in ("Why a cluster is turned away", "Verdicts of explain", "Verdicts of admission"):
        for word, text in _rows("refusals.md", f"## {heading}"):
            rows.setdefault(word, text)
    for word, text in rows.items():
        yield {"id": word, "group": "verdict", "text": text}
    for name, text in _REASON.findall((DOCS / "troubleshooting.md").read_text(encoding="utf-8")):
        yield {"id": name, "group": "reason", "text": plain(_ANCHOR.sub("", text).strip())}


def _states() -> Iterator[Term]:
    """Yield every state once, with a line for each kind of thing that can have it."""
    meanings = defaultdict(list)
    for word, text in _rows("conditions.md", "## States"):
        meanings[word].append(f"of a placement: {text}")
    for subject, items in _LIST.findall(_section("conditions.md", "## States")):
        for word, text in _ITEM.findall(items):
            meanings[word].append(f"of {subject}: {plain(text)}")
    for word, lines in meanings.items():
        yield {"id": word, "group": "state", "text": "\n".join(f"- {line}" for line in lines)}


def _rows(name: str, heading: str) -> Iterator[tuple[str, str]]:
    """Yield word and text of the rows of the tables in a section of a page of ``docs/reference``."""
    for word, text in _ROW.findall(_section(name, heading)):
        yield word, plain(text)


def _section(name: str, heading: str) -> str:
    return (REFERENCE / name).read_text(encoding="utf-8").partition(f"{heading}\n")[2].partition("\n## ")[0]


def plain(text: str) -> str:
    """Return a text without its links: they lead to pages that a server does not have."""
    return _LINK.sub(r"\1", text)
