"""Every word that commands print with a link leads to an anchor of a document."""

import json
from typing import get_type_hints

import pytest

from scorer.framework.status import Category
from scorer.member_gate.answer import MemberReason
from scorer.node_budgets.blockers import BlockReason
from scorer.node_budgets.gate import GateVerdict
from scorer.placement.explanation import OWN_VERDICTS
from scorer.rollout.views.tree import ClusterState, ObjectState
from tests.docs.anchored import FILE, explained_json
from tests.docs.pages import ROOT, read_page
from tests.docs.said import words_said
from webhook.admission.catalogue import catalogue
from webhook.answers.run_answers import UpdateRun
from webhook.cli.text.links import CLUSTER, RUN, STATE, url_of

PLACES = json.loads(FILE.read_text(encoding="utf-8"))
STATES_OF_RUNS = get_type_hints(UpdateRun, include_extras=True)["state"].__metadata__[0].schema["enum"]


def test_the_words_are_those_of_the_documents():
    assert FILE.read_text(encoding="utf-8") == explained_json(), "run: make docs"


def test_every_word_has_an_anchor_in_its_document():
    broken = {word: place for word, place in PLACES.items() if not _exists(*place.split("#"))}
    assert broken == {}


def _exists(page, anchor):
    return anchor in read_page(ROOT / f"{page}.md").anchors


@pytest.mark.parametrize(
    ("kind", "words"),
    [
        pytest.param("", [entry.rule.id for entry in catalogue()], id="rules"),
        pytest.param(CLUSTER, [*Category, *OWN_VERDICTS], id="verdicts-on-clusters"),
        pytest.param("Node", [*GateVerdict, *BlockReason], id="gate-of-nodes"),
        pytest.param(STATE, [*ClusterState, *ObjectState], id="states"),
        pytest.param(
            RUN, get_type_hints(UpdateRun, include_extras=True)["state"].__metadata__[0].schema["enum"], id="runs"
        ),
        pytest.param("Gate", MemberReason, id="gate-of-members"),
    ],
)
def test_words_of_answers_have_links(kind, words):
    assert [str(word) for word in words if not url_of(str(word), kind)] == []


def test_types_and_reasons_of_conditions_and_events_have_links():
    known = {word.rpartition(": ")[2] for word in PLACES}
    assert sorted(word for word in words_said() if word not in known) == []
