"""Selectors of a URL."""

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scorer.api.kinds import CONFIG_MAP, EVENT, KINDS, NODE, POD
from webhook.embedded.api_server.selectors import parse_field_selector, parse_label_selector, selectable_fields


@pytest.mark.parametrize(
    ("text", "labels", "selected"),
    [
        pytest.param("", {}, True, id="nothing-selects-all"),
        pytest.param("app=web", {"app": "web"}, True, id="equal"),
        pytest.param("app==web", {"app": "web"}, True, id="equal-twice"),
        pytest.param("app = web", {"app": "db"}, False, id="not-equal"),
        pytest.param("app!=web", {"app": "db"}, True, id="unequal"),
        pytest.param("app!=web", {}, True, id="unequal-absent"),
        pytest.param("app=", {"app": ""}, True, id="empty-value"),
        pytest.param("app", {"app": "x"}, True, id="exists"),
        pytest.param("app", {}, False, id="exists-absent"),
        pytest.param("!app", {}, True, id="does-not-exist"),
        pytest.param("! app", {"app": "x"}, False, id="does-not-exist-present"),
        pytest.param("app in (a,b)", {"app": "b"}, True, id="in"),
        pytest.param("app in (a, b)", {"app": "c"}, False, id="in-other"),
        pytest.param("app notin (a,b)", {}, True, id="notin-absent"),
        pytest.param("app notin (a,b)", {"app": "a"}, False, id="notin"),
        pytest.param("a=1, x.io/b in (2,3),!c", {"a": "1", "x.io/b": "3"}, True, id="all-together"),
        pytest.param("a=1,b=2", {"a": "1"}, False, id="all-must-hold"),
        pytest.param("in in (in)", {"in": "in"}, True, id="in-as-a-word"),
    ],
)
def test_label_selector(text, labels, selected):
    assert parse_label_selector(text).matches(labels) is selected


@pytest.mark.parametrize(
    ("text", "words"),
    [
        pytest.param("app>1", "after 'app'|key 'app>1'", id="comparison"),
        pytest.param("app in", "instead of '\\('", id="no-values"),
        pytest.param("app in (a", "the end instead of '\\)'", id="no-end"),
        pytest.param("app in (a)b", "'b' instead of ','", id="junk"),
        pytest.param("=x", "'=' instead of a label key", id="no-key"),
        pytest.param("a,", "ends with ','", id="comma"),
        pytest.param("a,,b", "instead of a label key", id="two-commas"),
        pytest.param("a b", "'b' after 'a' is not an operator", id="no-operator"),
        pytest.param("a=b=c", "'=' instead of ','", id="twice"),
        pytest.param("a/b/c=1", "key 'a/b/c'", id="key-grammar"),
        pytest.param("a=b!", "instead of ','|value", id="value"),
        pytest.param("a=-", "value '-'", id="value-grammar"),
    ],
)
def test_bad_label_selector(text, words):
    with pytest.raises(ValueError, match=words):
        parse_label_selector(text)


@given(st.text(alphabet="ab=!(), inot/.-\u00e9", max_size=30))
def test_any_text_is_read_or_refused(text):
    with suppress(ValueError):
        assert parse_label_selector(text).matches({"a": "b"}) in (True, False)


@pytest.mark.parametrize(
    ("text", "selected"),
    [
        pytest.param("metadata.name=a", True, id="name"),
        pytest.param("metadata.name==b", False, id="other-name"),
        pytest.param("metadata.name!=b,metadata.namespace=n", True, id="two"),
        pytest.param("", True, id="none"),
        pytest.param("metadata.name=a,metadata.name=b", False, id="contradiction"),
    ],
)
def test_field_selector(text, selected):
    document = {"metadata": {"name": "a", "namespace": "n"}}
    assert parse_field_selector(text, selectable_fields("", CONFIG_MAP))(document) is selected


@pytest.mark.parametrize("text", ["spec.x=1", "metadata.name", "=", "status.phase!=Running"])
def test_bad_field_selector(text):
    with pytest.raises(ValueError, match="fieldSelector"):
        parse_field_selector(text, selectable_fields("", CONFIG_MAP))


NOTED = {
    "metadata": {"name": "e", "namespace": "shop"},
    "regarding": {"kind": "Pod", "name": "a", "namespace": "shop"},
    "reason": "Scheduled",
    "type": "Normal",
    "reportingController": "loop",
}
RUNNING = {"metadata": {"name": "a"}, "spec": {"nodeName": "n", "unschedulable": True}, "status": {"phase": "Running"}}


@pytest.mark.parametrize(
    ("group", "kind", "document", "text", "selected"),
    [
        pytest.param("", EVENT, NOTED, "involvedObject.kind=Pod,involvedObject.name=a", True, id="core-event"),
        pytest.param("", EVENT, NOTED, "involvedObject.uid=,involvedObject.namespace!=x", True, id="absent-is-empty"),
        pytest.param("", EVENT, NOTED, "involvedObject.name=b", False, id="other-object"),
        pytest.param("", EVENT, NOTED, "reason=Scheduled,type!=Warning,source=loop", True, id="reason-type-source"),
        pytest.param("", EVENT, NOTED, "reportingComponent=other", False, id="component"),
        pytest.param("events.k8s.io", EVENT, NOTED, "regarding.kind=Pod,reportingController=loop", True, id="event"),
        pytest.param("events.k8s.io", EVENT, NOTED, "type=Warning", False, id="event-of-another-type"),
        pytest.param("", POD, RUNNING, "spec.nodeName=n,status.phase!=Succeeded", True, id="pod"),
        pytest.param("", NODE, RUNNING, "spec.unschedulable=true", True, id="boolean"),
        pytest.param("", NODE, NOTED, "spec.unschedulable=false", True, id="absent-boolean"),
    ],
)
def test_field_selector_of_a_kind(group, kind, document, text, selected):
    assert parse_field_selector(text, selectable_fields(group, kind))(document) is selected


@pytest.mark.parametrize(
    ("group", "text"),
    [
        pytest.param("events.k8s.io", "involvedObject.name=a", id="names-of-the-core-group"),
        pytest.param("", "regarding.name=a", id="names-of-the-other-group"),
    ],
)
def test_fields_of_an_event_have_the_names_of_its_group(group, text):
    with pytest.raises(ValueError, match=r"is not one of metadata\.name"):
        parse_field_selector(text, selectable_fields(group, KINDS["events.k8s.io", "Event"]))
