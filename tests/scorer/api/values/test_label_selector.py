"""Label selectors and the grammar of keys and values (placement-api.md 2.1 and 2.6)."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from scorer.api.values.label_selector import LabelSelector, LabelSelectorRequirement, requirement_error, selector_error
from scorer.api.values.name_grammar import dns_label_error, dns_subdomain_error, label_value_error, qualified_name_error

LABELS = {"env": "prod", "tier": "1", "empty": ""}


def expression(key: str, operator: str, *values: str) -> LabelSelector:
    return LabelSelector(match_expressions=(LabelSelectorRequirement(key=key, operator=operator, values=values),))


@pytest.mark.parametrize(
    ("selector", "matches"),
    [
        pytest.param(LabelSelector(), True, id="empty-matches-everything"),
        pytest.param(LabelSelector(match_labels={"env": "prod"}), True, id="label"),
        pytest.param(LabelSelector(match_labels={"env": "prod", "tier": "2"}), False, id="all-labels-must-hold"),
        pytest.param(expression("env", "In", "dev", "prod"), True, id="in"),
        pytest.param(expression("gone", "In", "x"), False, id="in-absent"),
        pytest.param(expression("env", "NotIn", "dev"), True, id="not-in"),
        pytest.param(expression("env", "NotIn", "prod"), False, id="not-in-listed"),
        pytest.param(expression("gone", "NotIn", "x"), True, id="not-in-absent"),
        pytest.param(expression("empty", "Exists"), True, id="exists-with-empty-value"),
        pytest.param(expression("gone", "Exists"), False, id="exists-absent"),
        pytest.param(expression("gone", "DoesNotExist"), True, id="does-not-exist"),
        pytest.param(expression("env", "DoesNotExist"), False, id="does-not-exist-present"),
        pytest.param(expression("empty", "In", ""), True, id="empty-value"),
    ],
)
def test_matches(selector, matches):
    assert selector.matches(LABELS) is matches


@pytest.mark.parametrize(
    ("selector", "said"),
    [
        pytest.param(expression("env", "In"), "at least one value", id="in-without-values"),
        pytest.param(expression("env", "NotIn"), "at least one value", id="not-in-without-values"),
        pytest.param(expression("env", "Exists", "x"), "must not have values", id="exists-with-values"),
        pytest.param(expression("env", "DoesNotExist", "x"), "must not have values", id="does-not-exist-with-values"),
        pytest.param(
            expression("env", "in", "x"),
            "'in' must be In, NotIn, Exists or DoesNotExist",
            id="operator-is-case-sensitive",
        ),
        pytest.param(expression("a b", "Exists"), "key 'a b'", id="bad-key"),
        pytest.param(expression("env", "In", "-x"), "value '-x'", id="bad-value"),
        pytest.param(LabelSelector(match_labels={"env": "a b"}), "value 'a b'", id="bad-match-label"),
    ],
)
def test_what_cannot_be_evaluated_says_why(selector, said):
    assert said in selector_error(selector)
    with pytest.raises(ValueError, match=r"value|key|operator"):
        selector.matches(LABELS)


def test_requirements_list_labels_by_key_then_expressions():
    selector = LabelSelector(
        match_labels={"b": "2", "a": "1"}, match_expressions=expression("c", "Exists").match_expressions
    )
    assert [requirement.key for requirement in selector.requirements()] == ["a", "b", "c"]


@pytest.mark.parametrize("name", ["a", "A.b_c-9", "example.com/a", "a" * 63, "x-y.z/" + "a" * 63, f"{'a' * 253}/b"])
def test_qualified_names(name):
    assert qualified_name_error(name) == ""


@pytest.mark.parametrize(
    "name", ["", "a" * 64, "-a", "a-", "a/b/c", "/a", "a/", "A.com/a", "a\n", "é", f"{'a' * 254}/b", " "]
)
def test_not_qualified_names(name):
    assert qualified_name_error(name)


@pytest.mark.parametrize(
    ("value", "good"), [("", True), ("a", True), ("A_b.9", True), ("a" * 63, True), ("a" * 64, False)]
)
def test_label_values(value, good):
    assert (label_value_error(value) == "") is good


@pytest.mark.parametrize("value", ["-", ".a", "a.", "a b", "a\n", "ä"])
def test_not_label_values(value):
    assert label_value_error(value)


def test_a_subdomain_has_no_limit_per_label_but_one_in_all():
    assert dns_subdomain_error("a" * 64 + ".b") == ""
    assert dns_subdomain_error("a" * 254)
    assert dns_label_error("a" * 64)
    assert dns_label_error("a" * 63) == ""


@pytest.mark.parametrize("name", ["", "A", "a..b", ".a", "-a", "a-", "a_b", "a\n"])
def test_not_dns_names(name):
    assert dns_subdomain_error(name)
    assert dns_label_error(name)


values = st.text("abc-._/ \n", max_size=5)
requirements = st.builds(
    LabelSelectorRequirement,
    key=values,
    operator=st.sampled_from(["In", "NotIn", "Exists", "DoesNotExist", "other"]),
    values=st.lists(values, max_size=3).map(tuple),
)


@given(requirement=requirements, labels=st.dictionaries(values, values, max_size=3))
def test_a_sound_expression_holds_or_its_opposite_does(requirement, labels):
    opposites = {"In": "NotIn", "NotIn": "In", "Exists": "DoesNotExist", "DoesNotExist": "Exists"}
    if requirement_error(requirement):
        with pytest.raises(ValueError, match=r".+"):
            LabelSelector(match_expressions=(requirement,)).matches(labels)
        return
    opposite = requirement.model_copy(update={"operator": opposites[requirement.operator]})
    assert LabelSelector(match_expressions=(requirement,)).matches(labels) is not LabelSelector(
        match_expressions=(opposite,)
    ).matches(labels)


def test_a_label_must_be_text():
    with pytest.raises(ValidationError, match=r"matchLabels\.critical-level"):  # as in a sample of seed 003
        LabelSelector.read({"matchLabels": {"critical-level": 1}})
