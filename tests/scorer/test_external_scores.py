"""External scores as properties: usable like any other, gone when their time is over, whatever happens in between."""

from datetime import timedelta

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from scorer.api.cluster.scores import parse_score
from scorer.api.placement.placement import ClusterSelectorTerm
from scorer.fleet import Fleet
from scorer.placement.plan_document import plan_entry
from scorer.placement.trace import explain
from scorer.selectors import read_term
from tests.scorer.builders import (
    LATENCY,
    MINUTE,
    NAMES,
    NODES,
    NOW,
    TICK,
    external,
    has,
    held,
    kept,
    make_cluster,
    modest,
    pick_n,
    picked,
    policy,
    prefer,
    run,
    term,
)

FASTEST = pick_n(1, preferred=[prefer(100, LATENCY, "Ascending")])
QUALITY = "scores.harbormaster.dev/quality"


def scored(name, value, until=None, **facts):
    return make_cluster(name, annotations={LATENCY: external(value, until)}, **facts)


def test_a_score_sorts_and_selects():
    clusters = [scored("a", "20"), scored("b", "10", MINUTE), scored("c", "300m"), make_cluster("d")]
    assert picked(run(FASTEST, clusters)) == ["c"]
    selecting = policy(required=[term(properties=[has(LATENCY, "Le", "10")])])
    assert picked(run(selecting, clusters)) == ["b", "c"]


def test_a_property_of_the_same_name_counts_where_there_is_no_annotation():
    clusters = [scored("a", "20"), make_cluster("b", properties={LATENCY: "10"})]
    assert picked(run(FASTEST, clusters)) == ["b"]
    both = make_cluster("b", properties={LATENCY: "10"}, annotations={LATENCY: external("30")})
    assert picked(run(FASTEST, [clusters[0], both])) == ["a"]


@pytest.mark.parametrize(
    ("later", "first"),
    [
        pytest.param(timedelta(), "b", id="valid"),
        pytest.param(MINUTE, "b", id="the-last-instant-counts"),
        pytest.param(MINUTE + TICK, "a", id="just-expired"),
        pytest.param(timedelta(days=900), "c", id="all-expired"),
    ],
)
def test_a_score_counts_up_to_its_last_instant(later, first):
    """Also at the same snapshot of the fleet, back and forth."""
    until = {"a": 2 * MINUTE, "b": MINUTE, "c": 2 * MINUTE}
    fleet = Fleet.of(
        scored(name, value, until[name], heartbeat=-timedelta(days=999))
        for name, value in [("a", "20"), ("b", "10"), ("c", "30")]
    )
    before = run(FASTEST, fleet)
    assert picked(run(FASTEST, fleet, now=NOW + later)) == [first]
    assert picked(run(FASTEST, fleet)) == picked(before) == ["b"]


def test_an_unreadable_score_is_no_score_and_says_so():
    clusters = [scored("a", "20"), make_cluster("b", annotations={LATENCY: "fast"}), scored("c", "30")]
    judged = run(FASTEST, clusters)
    assert picked(judged) == ["a"]
    (sorter,) = [item["affinity"]["terms"][0]["sorter"] for item in explain(judged) if item["cluster"] == "b"]
    assert (sorter["observed"], sorter["unreadable"]) == ("fast", True)


def test_a_fleet_without_scores_is_itself_at_any_time():
    fleet = Fleet.of([make_cluster("a"), scored("b", "1")])
    assert fleet.at(NOW) is fleet
    assert fleet.at(NOW + timedelta(days=9999)) is fleet


def test_columns_are_shared_with_the_fleet_at_a_later_instant():
    fleet = Fleet.of([scored("a", "1", MINUTE, labels={"env": "prod"}), scored("b", "2")])
    later = fleet.at(NOW + 2 * MINUTE)
    assert later is not fleet
    assert later.at(NOW + 2 * MINUTE) is later
    assert later.at(NOW) is fleet
    assert later.label("env") is fleet.label("env")
    assert later.quantity(NODES) is fleet.quantity(NODES)
    assert later.eligibility is fleet.eligibility
    assert next(iter(fleet.quantity(LATENCY).readings)).text == "1"
    assert next(iter(later.quantity(LATENCY).readings)) is None
    assert np.isnan(later.quantity(LATENCY).double[0])
    assert later.updated([scored("a", "3", 9 * MINUTE)]).at(NOW + 2 * MINUTE).quantity(LATENCY).double[0] == 3.0


VALUES = st.sampled_from(["1", "2", "2000m", "7", "100", "junk"])
SPANS = st.sampled_from([None, -MINUTE, timedelta(), TICK, MINUTE, 3 * MINUTE])
SCORES = st.dictionaries(st.sampled_from([LATENCY, QUALITY]), st.builds(external, VALUES, SPANS))
POLICIES = st.builds(
    lambda number, preferred, required: pick_n(number, preferred=preferred, required=required),
    st.integers(1, 4),
    st.lists(
        st.builds(
            prefer,
            st.integers(-50, 50),
            st.sampled_from([LATENCY, QUALITY]),
            st.sampled_from(["Ascending", "Descending"]),
        ),
        max_size=3,
    ),
    st.none() | st.lists(st.just(term(properties=[has(LATENCY, "Ge", "2")])), max_size=1),
)


@given(data=st.data(), wanted=POLICIES)
@modest(80)
def test_an_expired_score_is_as_if_it_had_never_been_there(data, wanted):
    """Over updates of some rows, at instants in any order."""
    annotations = {name: data.draw(SCORES) for name in NAMES[: data.draw(st.integers(1, 6))]}
    fleet = Fleet.of(make_cluster(name, annotations=found) for name, found in annotations.items())
    placement = {"metadata": {"name": "payments"}, "spec": {"policy": wanted}}
    for _ in range(data.draw(st.integers(1, 4))):
        changed = data.draw(st.dictionaries(st.sampled_from(sorted(annotations)), SCORES, max_size=3))
        annotations |= changed
        fleet = fleet.updated(make_cluster(name, annotations=found) for name, found in changed.items())
        now = NOW + data.draw(st.sampled_from([timedelta(), TICK, MINUTE, MINUTE + TICK, 4 * MINUTE]))
        left = {
            name: {key: text for key, text in found.items() if is_valid(text, now)}
            for name, found in annotations.items()
        }
        without = Fleet.of(make_cluster(name, annotations=found) for name, found in left.items())
        assert plan_entry(placement, run(wanted, fleet, now=now)) == plan_entry(
            placement, run(wanted, without, now=now)
        ) or differ_by_words_only(wanted, fleet, without, now)


def is_valid(text, now):
    try:
        until = parse_score(text).valid_until
    except ValueError:
        return True
    return until is None or until >= now


def differ_by_words_only(wanted, fleet, without, now):
    """A filter says of an expired score that it expired, of none that there is none."""
    ours, theirs = (
        plan_entry({"metadata": {"name": "p"}, "spec": {}}, run(wanted, each, now=now)) for each in (fleet, without)
    )
    shown = [{key: entry[key] for key in ("picked", "notPicked", "satisfied")} for entry in (ours, theirs)]
    names = [[one["cluster"] for one in entry["filtered"]] for entry in (ours, theirs)]
    return shown[0] == shown[1] and names[0] == names[1]


def test_explanations_show_how_long_a_score_counts_and_for_how_long_it_has_not():
    required = [term(properties=[has(LATENCY, "Le", "50")])]
    wanted = pick_n(2, required=required, preferred=[prefer(100, LATENCY, "Ascending")])
    clusters = [scored("a", "20", 3 * MINUTE), scored("b", "10", -MINUTE), scored("c", "30")]
    items = {item["cluster"]: item for item in explain(run(wanted, clusters))}
    assert items["a"]["affinity"]["terms"][0]["sorter"] | {"min": 0, "max": 0} == {
        "name": LATENCY,
        "order": "Ascending",
        "observed": "20",
        "validUntil": "2026-11-20T12:03:00Z",
        "expiresIn": "3m",
        "min": 0,
        "max": 0,
        "ratio": 1.0,
        "raw": 100.0,
        "points": 100,
    }
    (reading,) = items["b"]["filters"][0]["terms"][0]["properties"]
    assert reading == {
        "name": LATENCY,
        "op": "Le",
        "want": "50",
        "observed": None,
        "missing": True,
        "expired": True,
        "lastValue": "10",
        "validUntil": "2026-11-20T11:59:00Z",
        "expiredFor": "1m",
        "pass": False,
    }
    assert items["b"]["verdict"] == "AffinityMismatch"
    assert "10 expired at 2026-11-20T11:59:00Z" in items["b"]["reason"]
    assert items["b"]["warnings"] == [f"{LATENCY} expired 1m ago and counts as not reported"]
    assert "validUntil" not in items["c"]["affinity"]["terms"][0]["sorter"]


def test_a_selector_that_is_asked_without_a_run_sees_the_fleet_of_its_instant():
    fleet = Fleet.of([scored("a", "20", MINUTE)])
    selecting = read_term(ClusterSelectorTerm.read(term(properties=[has(LATENCY, "Le", "50")])), "x")
    assert selecting.matches(fleet.at(NOW)).tolist() == [True]
    assert selecting.matches(fleet.at(NOW + 2 * MINUTE)).tolist() == [False]


def test_a_kept_binding_is_not_touched_by_an_expiry():
    clusters = [scored("a", "20", MINUTE), scored("b", "10", MINUTE)]
    assert kept(run(FASTEST, clusters, [held("a")], now=NOW + 2 * MINUTE)) == ["a"]
