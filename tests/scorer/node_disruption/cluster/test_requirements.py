"""Requirements on labels, and whether a pod and a pool can come together; drift has the table of single ones."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scorer.api.node_pool import Requirement
from scorer.node_disruption.cluster.requirements import (
    NOTHING,
    WELL_KNOWN,
    ZONE,
    Allowed,
    compatible,
    intersect,
    merged,
    one_of,
    read_allowed,
    requirements_of_labels,
)

VALUES = ("a", "b", "1", "3", "7")
OPERATORS = st.one_of(
    st.tuples(st.sampled_from(("In", "NotIn")), st.lists(st.sampled_from(VALUES), max_size=3)),
    st.tuples(st.sampled_from(("Exists", "DoesNotExist")), st.just([])),
    st.tuples(
        st.sampled_from(("Gt", "Lt", "Gte", "Lte")), st.lists(st.sampled_from(("1", "3", "5")), min_size=1, max_size=1)
    ),
)


def wants(**keys):
    return {key: read_allowed(*each) for key, each in keys.items()}


@pytest.mark.parametrize(
    ("wanted", "offered", "expected"),
    [
        pytest.param({}, {}, True, id="nothing-asked"),
        pytest.param(wants(x=("In", "a")), {}, False, id="a-label-that-nobody-has"),
        pytest.param(wants(x=("NotIn", "a")), {}, True, id="fine-without-it"),
        pytest.param({ZONE: one_of("a")}, {}, True, id="a-label-that-every-node-gets"),
        pytest.param(wants(x=("In", "ab")), wants(x=("In", "bc")), True, id="one-in-common"),
        pytest.param(wants(x=("In", "a")), wants(x=("In", "bc")), False, id="none-in-common"),
        pytest.param(wants(x=("Exists", ())), wants(x=("In", "b")), True, id="set-to-something"),
        pytest.param(wants(x=("DoesNotExist", ())), wants(x=("In", "b")), False, id="must-be-absent"),
        pytest.param(wants(x=("DoesNotExist", ())), wants(x=("NotIn", "b")), True, id="both-fine-without"),
        pytest.param(wants(x=("Gt", "3")), wants(x=("In", "24")), True, id="within-bounds"),
        pytest.param(wants(x=("Gt", "4")), wants(x=("In", "24")), False, id="outside-bounds"),
        pytest.param(wants(x=("Gt", "4")), wants(x=("Lt", "5")), False, id="bounds-without-room"),
    ],
)
def test_compatible(wanted, offered, expected):
    assert compatible(wanted, offered) is expected


@given(one=OPERATORS, other=OPERATORS, value=st.sampled_from(VALUES))
def test_what_is_taken_together_allows_what_both_allow(one, other, value):
    first, second = (read_allowed(*each) for each in (one, other))
    assert (first & second).allows(value) == (first.allows(value) and second.allows(value))
    assert (first & second) == (second & first)


@given(one=OPERATORS, other=OPERATORS)
def test_labels_that_meet_both_make_two_compatible(one, other):
    wanted, offered = {"x": read_allowed(*one)}, {"x": read_allowed(*other)}
    if any(wanted["x"].allows(value) and offered["x"].allows(value) for value in VALUES):
        assert compatible(wanted, offered)
        assert not intersect(wanted, offered)["x"].is_nothing


def test_requirements_go_by_the_present_name_and_those_not_understood_by_none():
    old = Requirement(key="beta.kubernetes.io/arch", operator="In", values=("arm64", "amd64"))
    new = Requirement(key="kubernetes.io/arch", operator="NotIn", values=("arm64",))
    odd = Requirement(key="x", operator="Gt", values=("many",))
    assert merged([old, new, odd]) == {"kubernetes.io/arch": one_of("amd64")}
    assert "kubernetes.io/arch" in WELL_KNOWN
    assert requirements_of_labels({"beta.kubernetes.io/os": "linux"}) == {"kubernetes.io/os": one_of("linux")}


def test_the_only_value():
    assert one_of("a").only == "a"
    assert one_of("a", "b").only is None
    assert NOTHING.only is None
    assert Allowed(frozenset("a")).only is None
