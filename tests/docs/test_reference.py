"""The pages made from the code are what the code says now; ``make docs`` writes them anew."""

import ast
import json

import pytest

from tests.docs.explained import FAILURES_TOLD_BY_EVENTS, TROUBLESHOOTING
from tests.docs.pages import REFERENCE, ROOT, read_page
from tests.docs.reference import PAGES, terms_of_page
from tests.docs.reference.commands import all_commands
from tests.docs.reference.events import EVENTS
from tests.docs.said import words_said
from tests.docs.told import events_told
from webhook.admission.catalogue import catalogue


@pytest.mark.parametrize("name", PAGES)
def test_a_page_made_from_the_code_is_up_to_date(name):
    assert (REFERENCE / name).read_text(encoding="utf-8") == PAGES[name](), "run `make docs`"


def test_the_terms_of_the_page_are_up_to_date():
    assert terms_of_page.FILE.read_text(encoding="utf-8") == terms_of_page.page(), "run `make docs`"


def test_the_page_explains_terms_of_every_group():
    terms = json.loads(terms_of_page.FILE.read_text(encoding="utf-8"))
    assert {term["group"] for term in terms} == {"rule", "state", "verdict", "reason"}
    assert {"TaintNotTolerated", "rolling out", "Picked"} <= {term["id"] for term in terms}


def test_every_metric_is_listed():
    """Whatever is named like a metric of ours anywhere in the service."""
    texts = (path.read_text(encoding="utf-8") for path in (ROOT / "webhook").rglob("*.py"))
    named = {
        node.value
        for text in texts
        if "harbormaster_" in text
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and node.value.startswith("harbormaster_")
    }
    assert sorted(named - set(read_page(REFERENCE / "metrics.md").spans)) == []


def listed_events():
    """Return the types of every Event that is listed, by its reason."""
    found = {}
    for event in (event for events in EVENTS.values() for event in events):
        found.setdefault(event.reason, set()).update(event.type.split(", "))
    return found


def test_every_event_that_the_code_tells_is_listed_with_its_types():
    listed = listed_events()
    assert {reason: types for reason, types in events_told().items() if not types <= listed.get(reason, set())} == {}
    assert sorted(events_told().keys() - listed.keys()) == []


def test_no_event_is_listed_that_the_code_cannot_tell():
    of_failures = {reason for reason in listed_events() if reason.lower() in FAILURES_TOLD_BY_EVENTS}
    assert sorted(listed_events().keys() - events_told().keys() - words_said() - of_failures) == []


def test_every_event_that_is_explained_is_listed():
    explained = {anchor.removeprefix("event-") for anchor in TROUBLESHOOTING.anchors if anchor.startswith("event-")}
    assert sorted(explained - {reason.lower() for reason in listed_events()}) == []


def test_every_command_says_its_exit_codes():
    silent = [each.path for each in all_commands() if not each.exit_codes]
    assert silent == []


def test_an_exit_code_that_takes_more_than_a_line_is_told_whole():
    (plan,) = (each for each in all_commands() if each.path == "harbormaster plan")
    told = dict(plan.exit_codes)
    assert told[0].endswith("and no disruptions, nodes or cost of a NodePool would change")
    assert told[2].endswith("a policy picks a cluster that the other does not)")


def test_every_rule_has_an_anchor():
    anchors = read_page(REFERENCE / "rules.md").anchors
    assert [entry.rule.id for entry in catalogue() if entry.rule.id.lower() not in anchors] == []
