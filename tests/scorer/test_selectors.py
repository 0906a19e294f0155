"""Selectors as masks: what they say of a fleet is what a look at each cluster says."""

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scorer.api.placement.placement import ClusterSelectorTerm
from scorer.api.values.label_selector import LabelSelector
from scorer.api.values.quantity import NANO, parse_quantity
from scorer.fleet import Fleet
from scorer.properties import read_property
from scorer.selectors import InvalidPolicyError, match_labels, read_labels, read_term
from tests.scorer.builders import LABEL_EXPRESSIONS, NODES, TERMS, has, make_cluster, members, modest, term
from tests.scorer.relations import RELATIONS


def mask_of(selector, fleet):
    mask = match_labels(fleet, read_labels(selector, "spec"))
    return [True] * len(fleet) if mask is None else mask.tolist()


@given(
    clusters=members(),
    labels=st.dictionaries(st.sampled_from(["env", "region"]), st.sampled_from(["prod", "north", ""]), max_size=2),
    expressions=st.lists(LABEL_EXPRESSIONS, max_size=3),
)
@modest(80)
def test_label_masks_equal_one_look_per_cluster(clusters, labels, expressions):
    selector = LabelSelector.read({"matchLabels": labels, "matchExpressions": expressions})
    fleet = Fleet.of(clusters)
    assert mask_of(selector, fleet) == [selector.matches(member.metadata.labels) for member in fleet.members]


def term_matches(written, member):
    """Scheduling.md 6, for one cluster."""
    if written.label_selector and not written.label_selector.matches(member.metadata.labels):
        return False
    for expression in written.property_selector.match_expressions if written.property_selector else ():
        reading = read_property(member, expression.name)
        if reading is None or reading.quantity is None:
            return False
        wanted = Fraction(parse_quantity(expression.values[0]).nano, NANO)
        if not RELATIONS[expression.operator](Fraction(reading.quantity.nano, NANO), wanted):
            return False
    return True


@given(clusters=members(), written=TERMS)
@modest(80)
def test_term_masks_equal_one_look_per_cluster(clusters, written):
    model = ClusterSelectorTerm.read(written)
    fleet = Fleet.of(clusters)
    mask = read_term(model, "spec").matches(fleet)
    found = [True] * len(fleet) if mask is None else mask.tolist()
    assert found == [term_matches(model, member) for member in fleet.members]


@pytest.mark.parametrize(
    ("expression", "matching"),
    [
        pytest.param({"key": "env", "operator": "In", "values": ["prod"]}, "p", id="in"),
        pytest.param({"key": "env", "operator": "In", "values": ["prod", "dev"]}, "dp", id="in-several"),
        pytest.param({"key": "env", "operator": "In", "values": [""]}, "e", id="in-empty-value"),
        pytest.param({"key": "env", "operator": "NotIn", "values": ["prod"]}, "den", id="not-in-takes-absent"),
        pytest.param({"key": "env", "operator": "NotIn", "values": ["prod", "dev"]}, "en", id="not-in-several"),
        pytest.param({"key": "env", "operator": "NotIn", "values": ["x"]}, "denp", id="not-in-unknown-value"),
        pytest.param({"key": "env", "operator": "Exists"}, "dep", id="exists-with-empty-value"),
        pytest.param({"key": "env", "operator": "DoesNotExist"}, "n", id="does-not-exist"),
    ],
)
def test_label_expressions(expression, matching):
    labels = {"p": {"env": "prod"}, "d": {"env": "dev"}, "e": {"env": ""}, "n": {}}
    fleet = Fleet.of([make_cluster(name, labels=given_) for name, given_ in labels.items()])
    mask = mask_of(LabelSelector.read({"matchExpressions": [expression]}), fleet)
    assert "".join(name for name, held in zip(fleet.names, mask, strict=True) if held) == matching


def test_the_empty_term_matches_every_cluster():
    assert read_term(ClusterSelectorTerm.read({}), "spec").matches(Fleet.of([make_cluster("a")])) is None


def test_a_sorter_in_a_required_term_is_ignored():
    written = term({"env": "prod"}) | {"propertySorter": {"name": "-bad-", "sortOrder": "Sideways"}}
    assert read_term(ClusterSelectorTerm.read(written), "spec").properties == ()


@pytest.mark.parametrize(
    ("written", "words"),
    [
        pytest.param(
            term(properties=[has(NODES, "Around", "5")]),
            ("at.propertySelector.matchExpressions[0].operator", "Around"),
            id="operator",
        ),
        pytest.param(
            term(properties=[has(NODES, "Ge", "5"), has(NODES, "Ge", "five")]),
            ("matchExpressions[1].values[0]", "five"),
            id="value",
        ),
        pytest.param(
            term(properties=[{"name": NODES, "operator": "Ge", "values": ["1", "2"]}]),
            ("values", "2 values"),
            id="two-values",
        ),
        pytest.param(
            term(properties=[{"name": NODES, "operator": "Ge", "values": []}]), ("values", "0 values"), id="no-value"
        ),
        pytest.param(
            term(properties=[has("resources.kubernetes-fleet.io/used-cpu", "Ge", "5")]),
            ("name", "used-cpu"),
            id="capacity-kind",
        ),
        pytest.param(term(properties=[has("bad name", "Ge", "5")]), ("name", "bad name"), id="name"),
        pytest.param(
            term(expressions=[{"key": "env", "operator": "In"}]), ("at.labelSelector", "In"), id="in-without-values"
        ),
        pytest.param(
            term(expressions=[{"key": "env", "operator": "Like", "values": ["p"]}]), ("Like",), id="label-operator"
        ),
        pytest.param(
            term(expressions=[{"key": "env", "operator": "Exists", "values": ["p"]}]),
            ("Exists",),
            id="exists-with-values",
        ),
        pytest.param(term({"env": "no spaces"}), ("no spaces",), id="label-value"),
        pytest.param(term({"-env": "prod"}), ("-env",), id="label-key"),
    ],
)
def test_what_cannot_be_evaluated_is_named(written, words):
    with pytest.raises(InvalidPolicyError) as caught:
        read_term(ClusterSelectorTerm.read(written), "at")
    for word in words:
        assert word in str(caught.value)
