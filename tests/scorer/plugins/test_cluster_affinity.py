"""ClusterAffinity: the worked examples of scheduling.md 8, required terms, and what a refusal says."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from scorer.columns import QuantityColumn
from scorer.fleet import Fleet
from scorer.plugins.cluster_affinity import failures_of, observed_range, weigh
from tests.scorer.builders import (
    AVAILABLE_CPU,
    COST,
    NODES,
    NOW,
    TOTAL_CPU,
    TOTAL_MEMORY,
    has,
    in_list,
    make_cluster,
    members,
    modest,
    pick_n,
    policy,
    prefer,
    reading,
    run,
    term,
)


def points(texts, weight, order):
    """Return what each of a fleet of clusters a, b, c, … earns; None: not reported."""
    clusters = [reading(chr(ord("a") + row), **({} if text is None else {"p": text})) for row, text in enumerate(texts)]
    return scores(clusters, prefer(weight, "p", order))


def scores(clusters, *preferred):
    """Return the affinity score of each cluster, in order of name."""
    judged = run(pick_n(len(clusters), preferred=preferred), clusters)
    found = {pick.cluster: pick.affinity for pick in judged.picked}
    return [found[cluster.metadata.name] for cluster in sorted(clusters, key=lambda cluster: cluster.metadata.name)]


@pytest.mark.parametrize(
    ("texts", "weight", "order", "expected"),
    [
        pytest.param(["100", "20", "10"], 100, "Descending", [100, 11, 0], id="E1-100"),
        pytest.param(["100", "20", "10"], 20, "Descending", [20, 2, 0], id="E1-20"),
        pytest.param(["100", "20", "10"], 7, "Descending", [7, 1, 0], id="E1-7"),
        pytest.param(["100", "20", "10"], 1, "Descending", [1, 0, 0], id="E1-1"),
        pytest.param(["100", "20", "10"], -20, "Descending", [-20, -2, 0], id="E1-negative"),
        pytest.param(["1", "0.2", "0.1"], 100, "Ascending", [0, 89, 100], id="E2-100"),
        pytest.param(["1", "0.2", "0.1"], 20, "Ascending", [0, 18, 20], id="E2-20"),
        pytest.param(["1", "0.2", "0.1"], 1, "Ascending", [0, 1, 1], id="E2-1"),
        pytest.param(["1", "0.2", "0.1"], -20, "Ascending", [0, -18, -20], id="E2-negative"),
        pytest.param(["1", "2", "5"], 50, "Descending", [0, 13, 50], id="E3-descending"),
        pytest.param(["1", "2", "5"], 50, "Ascending", [50, 38, 0], id="E3-ascending"),
        pytest.param(["1", "2", "5"], -50, "Descending", [0, -13, -50], id="E3-negative"),
        pytest.param(["8", "8", "8"], 100, "Descending", [0, 0, 0], id="E4-equal"),
        pytest.param(["8", "8000m", "8.0"], 100, "Ascending", [0, 0, 0], id="E4-equal-amounts"),
        pytest.param([None, "8", None], 100, "Descending", [0, 0, 0], id="E5-single"),
        pytest.param(["5", "10", None], 10, "Ascending", [10, 0, 0], id="E6-absent-is-never-cheapest"),
        pytest.param(["5", "10", "cheap"], 10, "Ascending", [10, 0, 0], id="E6-unreadable"),
        pytest.param(["0.1", "0.3", "0.5"], 5, "Descending", [0, 3, 5], id="E8-decimals"),
        pytest.param(["100m", "300m", "500m"], 5, "Descending", [0, 2, 5], id="E8-milli"),
        pytest.param(["-10", "0", "30"], 80, "Ascending", [80, 60, 0], id="E12-negative-readings"),
        pytest.param(["1", "2", "5"], 0, "Descending", [0, 0, 0], id="weight-0"),
        pytest.param([None, None], 50, "Descending", [0, 0], id="nobody-reports"),
    ],
)
def test_worked_examples(texts, weight, order, expected):
    assert points(texts, weight, order) == expected


def test_e3_both_sorters_favour_the_middle():
    clusters = [reading("a", p="1"), reading("b", p="2"), reading("c", p="5")]
    assert scores(clusters, prefer(50, "p"), prefer(50, "p", "Ascending")) == [50, 51, 50]


def test_e7_outsiders_stretch_the_range():
    """A silent cluster and one that does not match set the ends; the candidates stand between them."""
    silent = make_cluster("silent", properties={NODES: "110"}, heartbeat=None, labels={"env": "prod"})
    other = make_cluster("other", properties={NODES: "0"})
    candidates = [
        make_cluster(name, properties={NODES: count}, labels={"env": "prod"})
        for name, count in [("a", "10"), ("b", "20")]
    ]
    wanted = pick_n(2, required=[term({"env": "prod"})], preferred=[prefer(100, NODES)])
    found = run(wanted, [silent, other, *candidates])
    assert [(pick.cluster, pick.affinity) for pick in found.picked] == [("b", 18), ("a", 9)]


def test_e9_units():
    clusters = [
        make_cluster(name, capacity={"memory": text}) for name, text in [("a", "65536Mi"), ("b", "64G"), ("c", "96Gi")]
    ]
    assert scores(clusters, prefer(100, TOTAL_MEMORY)) == [12, 0, 100]


def test_e10_two_terms_add_up():
    costs, cores = ["0.050", "0.030", "0.040", "0.090"], ["10", "40", "100", "90"]
    clusters = [
        make_cluster(name, properties={COST: cost}, available={"cpu": cpu})
        for name, cost, cpu in zip("abcd", costs, cores, strict=True)
    ]
    assert scores(clusters, prefer(50, COST, "Ascending")) == [33, 50, 42, 0]
    assert scores(clusters, prefer(50, AVAILABLE_CPU)) == [0, 17, 50, 44]
    assert scores(clusters, prefer(50, COST, "Ascending"), prefer(50, AVAILABLE_CPU)) == [33, 67, 92, 44]


def test_e11_the_label_gates_points_not_the_range():
    facts = [("a", "prod", "32"), ("b", "prod", "64"), ("c", "dev", "128"), ("d", "dev", "16")]
    clusters = [make_cluster(name, labels={"env": env}, capacity={"cpu": cpu}) for name, env, cpu in facts]
    assert scores(clusters, prefer(40, TOTAL_CPU, labels={"env": "prod"})) == [6, 17, 0, 0]


@pytest.mark.parametrize(
    ("preference", "expected"),
    [
        pytest.param(prefer(30, labels={"env": "prod"}), [30, 0], id="match-earns-the-weight"),
        pytest.param(prefer(-30, labels={"env": "prod"}), [-30, 0], id="negative-weight-repels"),
        pytest.param(prefer(30, labels={}), [30, 30], id="empty-selector-matches-all"),
        pytest.param(prefer(30), [30, 30], id="absent-selector-matches-all"),
        pytest.param(
            {"weight": 30, "preference": {"propertySelector": {"matchExpressions": [has(NODES, "Gt", "1000")]}}},
            [30, 30],
            id="property-selector-is-ignored",
        ),
    ],
)
def test_terms_without_a_sorter(preference, expected):
    assert scores([make_cluster("a", labels={"env": "prod"}), make_cluster("b")], preference) == expected


def test_the_old_name_of_the_sorter_means_the_same():
    clusters = [reading("a", p="1"), reading("b", p="5")]
    assert scores(clusters, prefer(50, "p", field="metricSorter")) == [0, 50]
    both = prefer(50, "p")
    both["preference"]["metricSorter"] = both["preference"]["propertySorter"]
    assert scores(clusters, both) == [0, 50]


AMOUNTS = st.one_of(
    st.none(),
    st.just("junk"),
    st.integers(-1000, 1000).map(str),
    st.integers(-(10**6), 10**6).map(lambda milli: f"{milli}m"),
    st.decimals(-1000, 1000, places=3).map(str),
)


@given(st.lists(AMOUNTS, min_size=1, max_size=6), st.integers(-100, 100), st.sampled_from(["Ascending", "Descending"]))
@modest(120)
def test_points_follow_the_formula(texts, weight, order):
    """Scheduling.md 8, one cluster at a time in plain floats."""
    fleet = Fleet.of(reading(f"c{row}", **({} if text is None else {"p": text})) for row, text in enumerate(texts))
    column = fleet.quantity("p")
    readable = [entry.quantity for entry in column.readings if entry and entry.quantity]
    low, high = (min(readable).double, max(readable).double) if readable else (0.0, 0.0)
    expected = []
    for entry in column.readings:
        if entry is None or entry.quantity is None or low == high:
            expected.append(0)
            continue
        share = (entry.quantity.double - low) / (high - low)
        w = (1 - share if order == "Ascending" else share) * weight
        expected.append(int(abs(w) + 0.5) * (1 if w >= 0 else -1) if abs(w) != 0.49999999999999994 else 0)
    assert weigh(column, np.arange(len(fleet)), order, weight).tolist() == expected


@given(st.lists(AMOUNTS, min_size=1, max_size=8), st.integers(-100, 100), st.sampled_from(["Ascending", "Descending"]))
@modest(100)
def test_points_stay_between_nothing_and_the_weight(texts, weight, order):
    column = Fleet.of(
        reading(f"c{row}", **({} if text is None else {"p": text})) for row, text in enumerate(texts)
    ).quantity("p")
    found = weigh(column, np.arange(len(texts)), order, weight).tolist()
    assert all(min(0, weight) <= value <= max(0, weight) for value in found)
    if observed_range(column) is not None:
        low, high = column.extremes
        best = high if order == "Descending" else low
        assert found[best] == weight


@pytest.mark.parametrize("order", ["Ascending", "Descending"])
def test_a_range_wider_than_any_double_earns_no_garbage(order):
    found = points(["-1.7e308", "0", "1.7e308"], 100, order)
    assert all(0 <= value <= 100 for value in found)


def filtered(wanted, clusters):
    judged = run(wanted, clusters)
    return {judged.fleet.names[row]: judged.last.reject(row) for row in judged.last.rejected_rows().tolist()}


REQUIRED = {
    "labels": term({"env": "prod"}),
    "nodes": term(properties=[has(NODES, "Ge", "5")]),
    "both": term({"env": "prod"}, properties=[has(NODES, "Ge", "5")]),
}


@pytest.mark.parametrize(
    ("terms", "passing"),
    [
        pytest.param(None, "abcd", id="no-block"),
        pytest.param([], "abcd", id="empty-list"),
        pytest.param([{}], "abcd", id="empty-term"),
        pytest.param([REQUIRED["labels"], {}], "abcd", id="empty-term-among-others"),
        pytest.param([REQUIRED["labels"]], "ab", id="labels"),
        pytest.param([REQUIRED["nodes"]], "ac", id="property"),
        pytest.param([REQUIRED["both"]], "a", id="both-must-hold"),
        pytest.param([REQUIRED["labels"], REQUIRED["nodes"]], "abc", id="any-term"),
    ],
)
def test_required_terms(terms, passing):
    clusters = [
        make_cluster("a", labels={"env": "prod"}, properties={NODES: "5"}),
        make_cluster("b", labels={"env": "prod"}, properties={NODES: "4"}),
        make_cluster("c", labels={"env": "dev"}, properties={NODES: "9"}),
        make_cluster("d"),
    ]
    judged = run(policy(required=terms), clusters)
    assert "".join(pick.cluster for pick in judged.picked) == passing
    assert {refusal.category for refusal in filtered(policy(required=terms), clusters).values()} <= {"AffinityMismatch"}


@pytest.mark.parametrize(
    ("written", "facts", "words"),
    [
        pytest.param(term({"env": "prod"}), {}, ["no label env", "env=prod"], id="no-label"),
        pytest.param(term({"env": "prod"}), {"labels": {"env": "dev"}}, ["env=dev", "env=prod"], id="other-value"),
        pytest.param(
            term(expressions=[in_list("env", "a", "b")]),
            {"labels": {"env": "dev"}},
            ["env=a or b"],
            id="several-values",
        ),
        pytest.param(
            term(expressions=[{"key": "env", "operator": "NotIn", "values": ["dev"]}]),
            {"labels": {"env": "dev"}},
            ["env=dev", "other than dev"],
            id="not-in",
        ),
        pytest.param(
            term(expressions=[{"key": "env", "operator": "Exists"}]),
            {},
            ["no label env", "wanted label env"],
            id="exists",
        ),
        pytest.param(
            term(expressions=[{"key": "env", "operator": "DoesNotExist"}]),
            {"labels": {"env": ""}},
            ["env=", "wanted no label env"],
            id="does-not-exist",
        ),
        pytest.param(
            term(properties=[has(NODES, "Ge", "5")]), {"properties": {NODES: "4"}}, ["4", "≥ 5"], id="too-low"
        ),
        pytest.param(term(properties=[has(NODES, "Ge", "5")]), {}, ["not reported", "≥ 5"], id="absent"),
        pytest.param(
            term(properties=[has(NODES, "Ge", "5")]),
            {"properties": {NODES: "five"}},
            ["unreadable", "five"],
            id="unreadable",
        ),
    ],
)
def test_a_refusal_names_the_value_and_what_was_wanted(written, facts, words):
    refusal = filtered(policy(required=[written]), [make_cluster("a", **facts)])["a"]
    assert str(refusal).startswith("AffinityMismatch: ")
    assert all(word in refusal.message for word in words)
    assert refusal.help


@pytest.mark.parametrize(("count", "rest"), [(4, "(and 1 more term)"), (5, "(and 2 more terms)")])
def test_a_refusal_shows_three_terms_and_counts_the_rest(count, rest):
    terms = [term({"env": f"v{number}"}) for number in range(count)]
    refusal = filtered(policy(required=terms), [make_cluster("a")])["a"]
    assert "env=v2" in refusal.message
    assert "env=v3" not in refusal.message
    assert refusal.message.endswith(rest)


def test_no_single_change_helps_against_two_failures_in_every_term():
    refusal = filtered(
        policy(required=[term({"env": "prod"}, properties=[has(NODES, "Ge", "5")])]), [make_cluster("a")]
    )
    assert refusal["a"].help == ""


@given(members())
@modest(60)
def test_failures_are_found_exactly_where_a_term_does_not_match(clusters):
    wanted = pick_n(1, required=[term({"env": "prod"}, properties=[has(NODES, "Ge", "3"), has(COST, "Lt", "0.05")])])
    fleet = Fleet.of(clusters)
    judged = run(wanted, fleet, now=NOW)
    (written,) = judged.request.profile.affinity.required
    mask = written.matches(fleet)
    assert [not failures_of(written, fleet, row) for row in range(len(fleet))] == mask.tolist()


def test_empty_column_has_no_range():
    assert observed_range(QuantityColumn.of([])) is None
