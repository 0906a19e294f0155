"""``prioritize``: points of the engine, stretched over the nodes of the call (serving.md 2.6)."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import TypeAdapter, ValidationError

from scorer.extender.preferences import Preferences, read_preferences
from scorer.extender.reading import MalformedArgsError
from scorer.extender.scoring import scale_points
from tests.scorer.builders import COST, in_list, make_cluster, pick_n, policy, prefer, reading
from tests.scorer.extender_builders import Hub, node, placement, pod

PRICE, WEIGHT = "harbormaster.dev/price-per-hour", "karpenter.sh/nodepool-weight"
CHEAP = placement("p", pick_n(2, preferred=[prefer(20, COST, "Ascending")]))
CLUSTERS = [
    make_cluster("brave", properties={COST: "1"}, labels={"env": "prod"}),
    make_cluster("smart", properties={COST: "0.2"}),
    make_cluster("jump", properties={COST: "0.1"}, labels={"env": "prod"}),
]
NODES = [node("b", "brave"), node("s", "smart"), node("j", "jump"), node("b2", "brave")]


def terms(*preferred):
    return read_preferences(TypeAdapter(Preferences).validate_python(list(preferred)))


@pytest.mark.parametrize(
    ("raw", "most", "expected"),
    [
        pytest.param([0, 18, 20], 10, [0, 9, 10], id="seed-000-costs"),
        pytest.param([20, 20], 10, [10, 10], id="equal-and-positive"),
        pytest.param([0, 0], 10, [0, 0], id="all-zero"),
        pytest.param([-5, -5], 10, [0, 0], id="equal-and-negative"),
        pytest.param([-10, 0, 10], 10, [0, 5, 10], id="negatives-are-lifted"),
        pytest.param([-10, -5], 10, [0, 10], id="all-negative"),
        pytest.param([1, 20], 10, [1, 10], id="halves-round-up"),
        pytest.param([1, 200], 100, [1, 100], id="halves-round-up-on-a-finer-scale"),
        pytest.param([20, 20, 40], 10, [5, 5, 10], id="two-nodes-of-one-cluster"),
        pytest.param([1, 1000], 100, [0, 100], id="a-finer-scale"),
        pytest.param([7], 10, [10], id="alone"),
        pytest.param([], 10, [], id="nobody"),
        pytest.param([None, 5, None], 10, [0, 10, 0], id="unmanaged-nodes-do-not-count"),
        pytest.param([None, -5, -1], 10, [0, 0, 10], id="unmanaged-nodes-are-no-zero"),
    ],
)
def test_scores_are_stretched_over_the_call(raw, most, expected):
    scores = scale_points(raw, most)
    assert [scores[points] for points in raw] == expected


@given(st.lists(st.integers(-10_000, 10_000), min_size=1), st.integers(1, 100))
def test_scores_stay_in_range_and_in_order(raw, most):
    scores = scale_points(raw, most)
    assert all(0 <= scores[points] <= most for points in raw)
    ranked = sorted(set(raw))
    assert [scores[points] for points in ranked] == sorted(scores[points] for points in ranked)
    if min(0, *raw) < max(raw):
        assert scores[max(raw)] == most


def test_clusters_score_as_the_placement_has_it():
    hub = Hub(CLUSTERS, [*NODES, node("plain")], placements=[CHEAP])
    assert hub.scores(pod("p"), "plain", "b", "s", "j", "ghost") == {"plain": 0, "b": 0, "s": 9, "j": 10, "ghost": 0}


def test_the_range_is_that_of_the_fleet_and_the_scale_that_of_the_call():
    """Among the two cheap ones only, 18 and 20 points are 9 and 10 still."""
    hub = Hub(CLUSTERS, NODES, placements=[CHEAP])
    assert hub.scores(pod("p"), "s", "j") == {"s": 9, "j": 10}
    assert list(hub.scores(pod("p"), "s", "b", "s")) == ["s", "b"]


@pytest.mark.parametrize(
    "asked",
    [
        pytest.param(pod(), id="no-placement"),
        pytest.param(pod("missing"), id="missing"),
        pytest.param(pod("other/p"), id="of-another-namespace"),
        pytest.param(pod("all"), id="pick-all-has-no-preferences"),
        pytest.param(pod("broken"), id="unusable-policy"),
    ],
)
def test_nothing_is_preferred_where_nothing_says_so(asked):
    there = [CHEAP, placement("all", policy(preferred=[prefer(20)])), placement("broken", {"placementType": "PickN"})]
    assert set(Hub(CLUSTERS, NODES, placements=there).scores(asked, "b", "s", "j").values()) == {0}


def test_pods_without_a_placement_score_by_the_settings():
    likes = terms(prefer(30, labels={"env": "prod"}), prefer(10, COST, "Ascending"))
    hub = Hub(CLUSTERS, NODES, placements=[CHEAP], default_preferences=likes)
    assert hub.scores(pod(), "b", "s", "j") == {"b": 8, "s": 2, "j": 10}
    assert hub.scores(pod("missing"), "b", "s", "j") == {"b": 0, "s": 0, "j": 0}


def test_a_cluster_that_does_not_exist_earns_nothing_but_counts():
    likes = terms(prefer(-10, labels={"env": "prod"}))
    hub = Hub(CLUSTERS, [*NODES, node("x", "nowhere")], default_preferences=likes)
    assert hub.scores(pod(), "b", "x") == {"b": 0, "x": 10}


def test_the_best_score_is_a_setting():
    hub = Hub(CLUSTERS, NODES, placements=[CHEAP], max_score=100)
    assert hub.scores(pod("p"), "b", "s", "j") == {"b": 0, "s": 90, "j": 100}


POOLS = [
    node("cheap", pool="spot", annotations={PRICE: "100m"}, labels={"arch": "arm64"}),
    node("dear", pool="large", annotations={PRICE: "0.5"}),
    node("free", pool="large"),
    node("odd", pool="spot", annotations={PRICE: "gratis"}),
]


@pytest.mark.parametrize(
    ("likes", "expected"),
    [
        pytest.param([], [0, 0, 0, 0], id="nothing-is-preferred"),
        pytest.param([prefer(20, PRICE, "Ascending")], [10, 0, 0, 0], id="price"),
        pytest.param([prefer(20, WEIGHT)], [10, 0, 0, 10], id="weight-of-the-pool"),
        pytest.param([prefer(20, labels={"arch": "arm64"})], [10, 0, 0, 0], id="label"),
        pytest.param([prefer(20, WEIGHT), prefer(20, PRICE, "Ascending")], [10, 0, 0, 5], id="several"),
    ],
)
def test_nodes_of_pools_score_by_the_settings(likes, expected):
    hub = Hub(nodes=POOLS, weights={"spot": 50}, pool_preferences=terms(*likes))
    assert list(hub.scores(pod(), "cheap", "dear", "free", "odd").values()) == expected


def test_prices_range_over_all_nodes_of_pools_and_those_in_the_question():
    likes = terms(prefer(100, PRICE, "Ascending"))
    hub = Hub(nodes=POOLS, pool_preferences=likes, max_score=100)
    assert hub.scores(pod(), "cheap", "dear") == {"cheap": 100, "dear": 0}
    sent = [
        node("cheap", pool="spot", annotations={PRICE: "0.3"}),
        node("new", pool="spot", annotations={PRICE: "0.1"}),
    ]
    assert hub.scores(pod(), Nodes={"items": sent}) == {"cheap": 50, "new": 100}


@pytest.mark.parametrize("parts", [{}, {"Pod": None, "NodeNames": ["n"]}, {"Pod": pod()}])
def test_an_incomplete_question_has_no_answer(parts):
    with pytest.raises(MalformedArgsError, match=r"Pod must be set|Nodes or NodeNames must be set"):
        Hub().scores(parts.pop("Pod", None), **parts)


def test_no_candidates_no_scores():
    assert Hub().scores(pod(), NodeNames=[]) == Hub().scores(pod(), Nodes={"items": []}) == {}


@pytest.mark.parametrize(
    ("given_terms", "message"),
    [
        pytest.param([{"weight": 101, "preference": {}}], r"\[0\]\.weight: input should be less than", id="weight"),
        pytest.param([{"weight": 1}], r"\[0\]\.preference: field required", id="no-preference"),
        pytest.param([prefer(1, "a b")], r"Value error, \[0\]\.preference\.propertySorter\.name: 'a b'", id="property"),
        pytest.param([prefer(1, "a", "Up")], "neither Ascending nor Descending", id="order"),
        pytest.param(
            [{"weight": 1, "preference": {"labelSelector": {"matchExpressions": [in_list("a")]}}}],
            "must have at least one value",
            id="label",
        ),
        pytest.param("all", "valid tuple", id="text"),
        pytest.param([1], "valid dictionary", id="number"),
    ],
)
def test_preferences_in_the_settings_are_checked(given_terms, message):
    with pytest.raises(ValidationError, match=message):
        TypeAdapter(Preferences).validate_python(given_terms)


def test_preferences_in_the_settings_are_read_as_on_the_wire():
    selector = {"matchExpressions": [in_list("env", "prod")], "matchLabels": None}
    found = TypeAdapter(Preferences).validate_python([{"weight": 5, "preference": {"labelSelector": selector}}])
    assert TypeAdapter(Preferences).validate_python(found) == found
    hub = Hub([reading("x"), *CLUSTERS], [*NODES, node("x", "x")], default_preferences=read_preferences(found))
    assert hub.scores(pod(), "b", "s", "j", "x") == {"b": 10, "s": 0, "j": 10, "x": 0}
