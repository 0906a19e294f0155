"""Citations of the specifications resolve: pages with sections, rule ids; and no issue of ours is cited."""

import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from tests.docs.pages import DOCS, DOCUMENTS, ROOT
from webhook.admission.catalogue import catalogue

SPECIFICATIONS = {path.name: path for path in (DOCS / "specifications").glob("*.md") if path.name != "README.md"}
CITING = ("webhook", "scorer", "certs", "tests", "e2e", "examples")
PAGE = rf"(?P<page>{'|'.join(map(re.escape, SPECIFICATIONS))})\)?,?"
SECTIONS = re.compile(rf"\b{PAGE}(?P<cited>(?:(?:,| and| to| or)? \d+(?:\.\d+)*\b(?![-/%°]))+)")
IDS = re.compile(rf"\b{PAGE}(?P<cited>(?:(?:,| and| to| or)? [A-Z]{{1,2}}-\d+\b)+)")
SECTION = re.compile(r"\d+(?:\.\d+)*")
RULE = re.compile(r"\b[A-Z]{1,2}-\d{1,2}\b")
OWN_ISSUE = re.compile(r"(?:^|[:;,.(] ?)[Ii]ssues? \d+")
"""An issue without the project before it, as in KubeFleet issue 846."""


@cache
def citing_texts() -> dict[str, str]:
    """Return the texts that may cite, by path, with each paragraph of text on one line."""
    modules = (path for folder in CITING for path in (ROOT / folder).rglob("*.py"))
    paths = sorted({*DOCUMENTS, *modules} - {Path(__file__)})
    return {str(path.relative_to(ROOT)): unwrapped(path.read_text(encoding="utf-8")) for path in paths}


def unwrapped(text: str) -> str:
    return re.sub(r"\s*\n\s*(?:#\s*)?", " ", text)


@cache
def sections_of(page: str) -> frozenset[str]:
    """Return the numbers of the sections of a page. A numbered item of section 11 is 11.1, 11.2 and so on."""
    found, section = set(), ""
    for line in SPECIFICATIONS[page].read_text(encoding="utf-8").splitlines():
        if heading := re.match(r"#{2,6} (\d+(?:\.\d+)*)", line):
            section = heading[1]
            found.add(section)
        elif item := re.match(r"(\d+)\. ", line):
            found.add(f"{section}.{item[1]}")
    return frozenset(found)


@cache
def ids_of(page: str) -> frozenset[str]:
    return frozenset(RULE.findall(SPECIFICATIONS[page].read_text(encoding="utf-8")))


def unresolved(text: str) -> Iterator[str]:
    """Yield the sections and rule ids in *text* that the cited page does not have."""
    for citation in SECTIONS.finditer(text):
        page = citation["page"]
        yield from (f"{page} {it}" for it in SECTION.findall(citation["cited"]) if it not in sections_of(page))
    for citation in IDS.finditer(text):
        page = citation["page"]
        yield from (f"{page} {it}" for it in RULE.findall(citation["cited"]) if it not in ids_of(page))


def test_cited_sections_and_rules_exist():
    found = {name: missing for name, text in citing_texts().items() if (missing := [*unresolved(text)])}
    assert found == {}


def test_ids_of_rules_and_differences_are_defined():
    known = {entry.rule.id for entry in catalogue()}.union(*map(ids_of, SPECIFICATIONS))
    families = {name.partition("-")[0] for name in known}
    found = {
        name: missing
        for name, text in citing_texts().items()
        if not name.startswith(("tests/", "e2e/"))  # they also have ids that do not exist
        if (missing := sorted(it for it in {*RULE.findall(text)} - known if it.partition("-")[0] in families))
    }
    assert found == {}


def test_no_issue_is_cited_without_its_project():
    found = {name: cited for name, text in citing_texts().items() if (cited := OWN_ISSUE.findall(text))}
    assert found == {}


@pytest.mark.parametrize(
    ("text", "missing"),
    [
        pytest.param("Source: scheduling.md 8.", [], id="section"),
        pytest.param("rollout.md 2.6 and 11.2", [], id="item-of-a-section"),
        pytest.param("rollout.md 2.6, 99.1 and 98", ["rollout.md 99.1", "rollout.md 98"], id="no-such-section"),
        pytest.param("placement-api.md X-97", [], id="rule"),
        pytest.param("placement-api.md P-31 to P-99", ["placement-api.md P-99"], id="no-such-rule"),
    ],
)
def test_unresolved_citations_are_found(text, missing):
    assert [*unresolved(text)] == missing
