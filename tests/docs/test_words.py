"""The words that the reference lists are those of the code: refusals of every kind, annotations, finalizers."""

import ast
import re
from enum import StrEnum

import pytest

from scorer.api.crd.definitions import structural_schema
from scorer.api.kinds import OUR_KINDS
from scorer.framework.status import Category
from scorer.member_gate.answer import MemberReason
from scorer.node_budgets.blockers import BlockReason
from scorer.node_budgets.gate import GateVerdict
from scorer.placement.explanation import OWN_VERDICTS
from tests.docs.explained import TYPES
from tests.docs.pages import REFERENCE, ROOT, anchor_of, read_page
from webhook.endpoints.http.problems import Problem
from webhook.telemetry.metrics import REJECTIONS

REFUSALS = (REFERENCE / "refusals.md").read_text(encoding="utf-8")
TROUBLESHOOTING = "../troubleshooting.md"
INTERNAL = frozenset({"harbormaster.dev/nobody", "harbormaster.dev/up"})
"""A label that no object has, and an extension of a kubeconfig."""


def words_of(section: str) -> list[str]:
    """Return the code in the first column of the tables in a section of the page of refusals."""
    text = REFUSALS.partition(f"## {section}\n")[2].partition("\n## ")[0]
    cells = re.findall(r"^\| ([^|]*`[^|]*`) \|", text, re.MULTILINE)
    return sorted(word for cell in cells for word in re.findall(r"`([^`]+)`", cell))


@pytest.mark.parametrize(
    ("section", "words"),
    [
        pytest.param("Why a cluster is turned away", Category, id="clusters"),
        pytest.param("Verdicts of explain", OWN_VERDICTS, id="explain"),
        pytest.param("What the gate says about nodes", (*GateVerdict, *BlockReason), id="nodes"),
        pytest.param("What the gate says about members", MemberReason, id="members"),
        pytest.param("Answers of `/v1`", [problem.slug for problem in Problem], id="problems"),
        pytest.param("Reviews that are not read", REJECTIONS, id="rejections"),
    ],
)
def test_refusals_are_those_of_the_code(section, words):
    assert words_of(section) == sorted(word.value if isinstance(word, StrEnum) else word for word in words)


def test_annotations_and_finalizers_are_those_of_the_code():
    """Every name below harbormaster.dev/ that stands in the code, except for kinds of conditions and groups."""
    texts = (text for text in code() if "harbormaster.dev/" in text or "OURS" in text)
    named = {name for text in texts for name in names_in(ast.parse(text))} - INTERNAL
    listed = {span for span in read_page(REFERENCE / "annotations.md").spans if span.startswith("harbormaster.dev/")}
    assert listed == named


def test_every_type_of_condition_that_is_explained_has_its_place_on_the_page_of_conditions():
    links = read_page(REFERENCE / "conditions.md").links
    anchors = {link.removeprefix(f"{TROUBLESHOOTING}#") for link in links if link.startswith(TROUBLESHOOTING)}
    assert sorted(anchor_of(kind) for kind in TYPES if anchor_of(kind) not in anchors) == []


def test_every_kind_that_has_conditions_is_on_the_page_of_conditions():
    text = (REFERENCE / "conditions.md").read_text(encoding="utf-8")
    with_conditions = [
        kind.kind
        for kind in OUR_KINDS
        if "conditions" in structural_schema(kind)["properties"].get("status", {}).get("properties", {})
    ]
    assert [kind for kind in with_conditions if not re.search(rf"\b{kind}\b", text)] == []


def code():
    """Yield the text of each module of the three packages."""
    for package in ("scorer", "webhook", "certs"):
        yield from (path.read_text(encoding="utf-8") for path in (ROOT / package).rglob("*.py"))


def names_in(tree):
    """Yield the names below harbormaster.dev/ in a module, written out or joined to the prefix."""
    for node in ast.walk(tree):
        match node:
            case ast.Constant(value=str(text)) if re.fullmatch(r"harbormaster\.dev/[a-z-]*[a-z]", text):
                if text != "harbormaster.dev/controller":  # who reports an Event
                    yield text
            case ast.BinOp(left=ast.Name(id="OURS"), right=ast.Constant(value=str(text))):
                yield f"harbormaster.dev/{text}"
