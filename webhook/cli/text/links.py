"""Links from words of the output to their explanation: rules, verdicts, states, types and reasons of conditions.

On a terminal, a word is a hyperlink (OSC 8). ``-o wide`` prints the URL. Only words of ``explained.json``, which is
made from the documents, become links. So a text from an object never determines a URL.

Source: "Hyperlinks in terminal emulators" (OSC 8), https://no-color.org, and the package supports-hyperlinks for
``FORCE_HYPERLINK``.
"""

import json
import os
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Final, NamedTuple

from webhook.runtime.distribution import HOMEPAGE
from webhook.settings.variables import CommandVariables

STATE: Final = "State"
"""Kind of the states of placements, clusters and objects."""
RUN: Final = "Run"
"""Kind of the states of runs."""
STAGE: Final = "Stage"
"""Kind of the states of stages of a run, and of their clusters."""
UPGRADE: Final = "Upgrade"
"""Kind of the states of upgrade runs, their stages, groups and members, which are capitalized."""
EVENT: Final = "Event"
FINDING: Final = "Lint"
"""Kind of the words in place of a rule ID in findings of `harbormaster lint`."""
CLUSTER: Final = "Cluster"
"""Kind of the verdicts on clusters in a scheduling decision."""
URLS: Final = "DOCS"
"""Header of the column with the URLs, in wide tables."""
_KINDS_OF_COLUMNS: Final = {"STATE": STATE, "VERDICT": CLUSTER}
_STATES: Final = {STATE: (UPGRADE,), RUN: (UPGRADE,), STAGE: (STATE, UPGRADE)}
"""Kinds of states, each with other kinds in the same column. A state has no link unless its kind is known."""
_KINDS_IN_TABLES: Final = {
    ("RUN", "STATE"): RUN,
    ("STAGE", "STATE"): STAGE,
    ("LAST", "REASON"): EVENT,
    ("MEMBER", "REASON"): "Member",
}
"""Kind of the words in a table column, by the first header of the table and the header of the column."""
_LINKLESS: Final = ("dumb", "linux")
"""Types of terminals that would print the control sequence, or parts of it, as text."""
_WORD: Final = re.compile(r"[\w./-]+")


class WordLink(NamedTuple):
    """A word within a text, and the URL of its explanation."""

    start: int
    end: int
    url: str


@cache
def _explained() -> Mapping[str, str]:
    """Return page and anchor of every explained word, as ``WORD`` and ``KIND: WORD``."""
    explained: dict[str, str] = json.loads(Path(__file__).with_name("explained.json").read_bytes())
    return explained


def url_of(word: str, kind: str = "") -> str:
    """Return the URL of the paragraph that explains *word*, or an empty text.

    Args:
        word: ID of a rule, a verdict, a state, or a type or reason of a condition.
        kind: Type of the condition of a reason, `EVENT`, `STATE`, `RUN` or `CLUSTER`. Empty: unknown.
    """
    others = (f"{other}: {word}" for other in _STATES[kind]) if kind in _STATES else (word,)
    place = next((place for key in (f"{kind}: {word}", *others) if (place := _explained().get(key))), "")
    page, _, anchor = place.partition("#")
    return f"{HOMEPAGE}/{page}.html#{anchor}" if place else ""


def links_in(text: str, kind: str = "") -> Iterator[WordLink]:
    """Yield the links of *text*: the whole of it if it is an explained word, else the identifiers in it."""
    if url := url_of(text, kind):
        yield WordLink(0, len(text), url)
        return
    for match in _WORD.finditer(text):
        word = match[0].rstrip("./-")
        if _is_identifier(word) and (url := url_of(word, kind)):
            yield WordLink(match.start(), match.start() + len(word), url)


def _is_identifier(word: str) -> bool:
    """Return whether *word* looks like an identifier.

    An identifier has a dash, an uppercase letter after its first character, or no letter after its first character.
    """
    return "-" in word or not word[1:].islower()


def kinds_of_columns(headers: Sequence[str]) -> list[str]:
    """Return the kind of the words in each column of a table."""
    return [_KINDS_IN_TABLES.get((headers[0], header), _KINDS_OF_COLUMNS.get(header, "")) for header in headers]


def links_are_shown() -> bool:
    """Return whether standard output shows hyperlinks."""
    variables = CommandVariables.read(os.environ)
    if variables.force_hyperlink:
        return variables.force_hyperlink != "0"
    return sys.stdout.isatty() and variables.term not in _LINKLESS and not variables.no_color


def linked(text: str, kind: str = "") -> str:
    """Return *text*, which has no control characters, with hyperlinks if standard output shows them."""
    if not links_are_shown():
        return text
    parts, end = [], 0
    for link in links_in(text, kind):
        parts += [text[end : link.start], hyperlink(text[link.start : link.end], link.url)]
        end = link.end
    return "".join([*parts, text[end:]])


def hyperlink(text: str, url: str) -> str:
    """Return *text*, which has no control characters, as a hyperlink if *url* is not empty and links are shown."""
    return f"\x1b]8;;{url}\x1b\\{text}\x1b]8;;\x1b\\" if url and links_are_shown() else text


def urls_in(texts: Sequence[str], headers: Sequence[str] = ()) -> str:
    """Return the URLs of the words in a row, separated by commas."""
    kinds = kinds_of_columns(headers) or [""] * len(texts)
    urls = (link.url for text, kind in zip(texts, kinds, strict=True) for link in links_in(text, kind))
    return ",".join(dict.fromkeys(urls))
