"""Every rule of admission has one place in the specifications, and every rule there is one of the code."""

import ast
import re
from collections import Counter, defaultdict

import pytest

from tests.docs.pages import ROOT, read_page
from tests.docs.specified import FOLDER, PAGES, definitions, read_definitions, rules_specified
from webhook.admission.catalogue import catalogue

RULES = {entry.rule.id for entry in catalogue()}
NOT_OF_ADMISSION = {"RC", "DK", "DR", "DV"}
"""Families that admission does not print: confirmations of removals, and differences."""
SOURCES = ("webhook/validation", "webhook/defaulting", "webhook/admission", "scorer/node_budgets", "scorer/windows")


def test_every_rule_of_the_code_has_a_place():
    assert sorted(RULES - rules_specified().keys()) == []


def test_every_rule_with_a_place_is_one_of_the_code():
    specified = {found.id for found in definitions() if found.family not in NOT_OF_ADMISSION}
    assert sorted(specified - RULES) == []


def test_an_id_is_defined_once():
    repeated = [name for name, times in Counter(found.id for found in definitions()).items() if times > 1]
    assert repeated == []


def test_the_index_names_the_families_of_each_page():
    """The column of ids in the index, whose rows start with a link to the page."""
    rows = re.findall(r"^\| \[([\w.-]+)\].*\| ([A-Z, ]+|none) \|$", (FOLDER / "README.md").read_text(), re.MULTILINE)
    families = defaultdict(set)
    for found in definitions():
        families[found.page].add(found.family)
    listed = {page: set(cell.split(", ")) - {"none"} for page, cell in rows}
    assert listed == {path.name: families[path.name] for path in PAGES}


def messages_of(line):
    """Return the quoted messages of a row: the pieces of code in its last cell."""
    return re.findall(r"`([^`]+)`", line.rstrip("| ").rpartition("| ")[2])


def spoken():
    """Yield the texts of the code, with … for each value."""
    for folder in SOURCES:
        for path in sorted((ROOT / folder).rglob("*.py")):
            for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
                if isinstance(node, ast.JoinedStr):
                    yield "".join(str(part.value) if isinstance(part, ast.Constant) else "…" for part in node.values)
                elif isinstance(node, ast.Constant) and isinstance(node.value, str):
                    yield re.sub(r"\{\w+\}", "…", node.value)


QUOTING = [
    pytest.param(found.line, id=found.id)
    for found in definitions()
    if found.family in "ACK" and messages_of(found.line)
]


@pytest.mark.parametrize("line", QUOTING)
def test_a_quoted_message_is_one_of_the_code(line, texts):
    assert [message for message in messages_of(line) if not any(message in text for text in texts)] == []


@pytest.fixture(scope="module")
def texts():
    return frozenset(spoken())


def test_every_generated_row_links_to_its_place():
    links = set(read_page(ROOT / "docs/reference/rules.md").links)
    places = {rule_id: rules_specified()[rule_id] for rule_id in RULES}
    wanted = {rule_id: f"../specifications/{place.page}#{place.anchor}" for rule_id, place in places.items()}
    assert {rule_id: link for rule_id, link in wanted.items() if link not in links} == {}


@pytest.mark.parametrize(
    ("text", "found"),
    [
        pytest.param("## 4. Admission\n| X-98 | a | b |\n", ["X-98 4 4-admission"], id="row"),
        pytest.param("## 5 Modes\nRC-98. Each effect.\n", ["RC-98 5 5-modes"], id="paragraph"),
        pytest.param("## 5 Modes\nX-98 is a rule. See X-99.\n", [], id="mention"),
        pytest.param("## Rollout\n| X-4, X-5 | a |\n", [], id="two-ids-are-cited"),
    ],
)
def test_definitions_are_found(tmp_path, text, found):
    page = tmp_path / "page.md"
    page.write_text(text)
    assert [f"{it.id} {it.section} {it.anchor}" for it in read_definitions(page)] == found
