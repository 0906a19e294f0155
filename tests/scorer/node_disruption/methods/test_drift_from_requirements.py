"""Requirements of a pool against the labels of a claim; `drift_requirements.jsonl` has many more pairs."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scorer.api.node_pool import Requirement
from scorer.node_disruption.cluster.requirements import ALIASES
from scorer.node_disruption.cluster.requirements_drift import Drift, requirements_drift

ARCH, TYPE, ZONE = "kubernetes.io/arch", "node.kubernetes.io/instance-type", "topology.kubernetes.io/zone"


def requires(key, operator, *values):
    return Requirement(key=key, operator=operator, values=values)


@pytest.mark.parametrize(
    ("operator", "values", "without", "drifted", "kept"),
    [
        pytest.param("In", ("a", "b"), True, "c", "b", id="in"),
        pytest.param("NotIn", ("a", "b"), False, "b", "c", id="not-in"),
        pytest.param("NotIn", (), True, None, "c", id="not-in-nothing-is-exists"),
        pytest.param("Exists", (), True, None, "", id="exists"),
        pytest.param("DoesNotExist", (), False, "", None, id="does-not-exist"),
        pytest.param("Gt", ("3",), True, "3", "4", id="gt"),
        pytest.param("Gte", ("3",), True, "2", "3", id="gte"),
        pytest.param("Lt", ("3",), True, "3", "2", id="lt"),
        pytest.param("Lte", ("3",), True, "4", "-1", id="lte"),
        pytest.param("Gte", ("3",), True, "many", "0010", id="leading-zeros-are-fine-words-are-not"),
        pytest.param("Gte", ("3",), True, "1_0", "10", id="digits-only"),
        pytest.param("Gte", ("3",), True, "9223372036854775808", "9223372036854775807", id="64-bits"),
    ],
)
def test_one_requirement(operator, values, without, drifted, kept):
    """The table of nodepool-disruption.md 3.3: claims without the label, with a wrong value, with a right one."""
    wanted = [requires("a", operator, *values)]
    assert (requirements_drift(wanted, {}) is not None) is without
    if drifted is not None:
        assert requirements_drift(wanted, {"a": drifted}) is not None
    if kept is not None:
        assert requirements_drift(wanted, {"a": kept}) is None


@pytest.mark.parametrize(
    ("entries", "allowed", "absent"),
    [
        pytest.param([("In", "a", "b"), ("In", "b", "c")], {"b"}, False, id="in-and-in"),
        pytest.param([("In", "a", "b"), ("NotIn", "b")], {"a"}, False, id="in-and-not-in"),
        pytest.param([("NotIn", "a"), ("NotIn", "b")], {"c", "1", "2", "3"}, True, id="not-in-and-not-in"),
        pytest.param([("Gt", "1"), ("Lte", "2")], {"2"}, False, id="bounds"),
        pytest.param([("Gt", "1"), ("Gte", "3"), ("Gt", "0")], {"3"}, False, id="tightest-bound"),
        pytest.param([("In", "a", "1", "3"), ("Gte", "2")], {"3"}, False, id="in-within-bounds"),
        pytest.param([("NotIn", "2", "a"), ("Gte", "2")], {"3"}, True, id="not-in-within-bounds-keeps-what-it-can"),
        pytest.param([("NotIn", "1", "a"), ("Gte", "2")], {"2", "3"}, False, id="not-in-left-empty-is-exists"),
        pytest.param([("Gt", "2"), ("Lt", "3")], set(), True, id="contradictory-bounds"),
        pytest.param([("In", "a"), ("In", "b")], set(), True, id="nothing-in-common"),
        pytest.param([("In", "a"), ("Gte", "2"), ("Exists",)], set(), True, id="in-left-empty"),
        pytest.param([("DoesNotExist",), ("Exists",)], set(), True, id="absent-and-present"),
    ],
)
def test_requirements_of_one_key_are_merged(entries, allowed, absent):
    """In any order."""
    for order in (entries, entries[::-1]):
        wanted = [requires("a", *entry) for entry in order]
        assert {v for v in ("a", "b", "c", "1", "2", "3") if requirements_drift(wanted, {"a": v}) is None} == allowed
        assert (requirements_drift(wanted, {}) is None) is absent


def test_seed_002_a_wider_choice_never_drifts_a_narrower_one_does():
    claim = {TYPE: "Standard_D2s_v3"}
    assert requirements_drift([requires(TYPE, "In", "Standard_D2s_v3", "Standard_D4s_v3")], claim) is None
    found = requirements_drift([requires(TYPE, "In", "Standard_D4s_v3")], claim)
    assert found == Drift(TYPE, 'one of "Standard_D4s_v3"', "Standard_D2s_v3")
    assert str(found) == f'label {TYPE} must be one of "Standard_D4s_v3"; the claim has "Standard_D2s_v3"'


@pytest.mark.parametrize(("old", "new"), ALIASES.items())
def test_older_names_of_labels_mean_the_same(old, new):
    for key, label in ((old, new), (new, old)):
        assert requirements_drift([requires(key, "In", "x")], {label: "x"}) is None
        assert requirements_drift([requires(key, "In", "y")], {label: "x"}) == Drift(new, 'one of "y"', "x")


def test_a_label_whose_two_names_disagree_has_no_value():
    torn = {"beta.kubernetes.io/arch": "amd64", ARCH: "arm64"}
    assert requirements_drift([requires(ARCH, "In", "amd64", "arm64")], torn) == Drift(
        ARCH, 'one of "amd64", "arm64"', None
    )


@pytest.mark.parametrize(
    ("entries", "labels", "words"),
    [
        pytest.param([("Exists",)], {}, "set", id="exists"),
        pytest.param([("DoesNotExist",)], {"a": "x"}, "absent", id="absent"),
        pytest.param([("Gt", "2")], {}, "an integer of at least 3", id="low"),
        pytest.param([("Gt", "2"), ("Lte", "8")], {}, "an integer of at least 3 and at most 8", id="both-bounds"),
        pytest.param([("NotIn", "a")], {"a": "a"}, 'none of "a"', id="none-of"),
        pytest.param([("NotIn", "4"), ("Gt", "2")], {"a": "4"}, 'an integer of at least 3, none of "4"', id="both"),
        pytest.param([("In", *"abcdefg")], {}, 'one of "a", "b", "c", "d", "e" and 2 more', id="many"),
    ],
)
def test_what_is_wanted_is_told_in_words(entries, labels, words):
    found = requirements_drift([requires("a", *entry) for entry in entries], labels)
    assert found is not None
    assert found.requirement == words


def test_of_several_keys_the_first_by_name_is_told():
    found = requirements_drift([requires(ZONE, "In", "1"), requires(ARCH, "In", "amd64")], {})
    assert found == Drift(ARCH, 'one of "amd64"', None)
    assert str(found).endswith("; the claim does not have it")


@pytest.mark.parametrize("odd", [("Near", "x"), ("Gt", "x"), ("Gt",), ("Lt", "1", "2"), ("Gte", "9" * 5000)])
def test_a_requirement_that_cannot_be_understood_drifts_nothing(odd):
    assert requirements_drift([requires("a", *odd)], {}) is None


@given(st.sets(st.sampled_from("abcd"), min_size=1), st.sets(st.sampled_from("abcd")), st.sampled_from("abcd"))
def test_adding_values_never_drifts(values, more, value):
    """A claim that matches still matches when In lists more; minValues plays no part."""
    narrow, wide = requires("a", "In", *values), requires("a", "In", *values | more)
    if requirements_drift([narrow], {"a": value}) is None:
        assert requirements_drift([wide], {"a": value}) is None
