"""TopologySpreadConstraints: scheduling.md 12, its examples and the consequences it keeps."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from scorer.plugins.topology_spread import skew_change
from tests.scorer.builders import dropped, held, make_cluster, modest, obsolete, pick_n, run, spread


def port(*places, **facts):
    """Make clusters from ``name region [day]`` texts."""
    made = []
    for place in places:
        name, region, *day = place.split()
        labels = ({"region": region} if region != "-" else {}) | ({"day": day[0]} if day else {})
        made.append(make_cluster(name, labels=labels, **facts))
    return made


def picks(schedule):
    return [(pick.cluster, pick.topology) for pick in schedule.picked]


def losers(schedule):
    return [(loser.cluster, loser.topology) for loser in schedule.last.unselected()]


HARD, SOFT = spread("region", 1), spread("region", 1, "ScheduleAnyway")


def test_t1():
    judged = run(pick_n(3, constraints=[HARD]), port("cork n", "dover n", "faro s", "genoa s"))
    assert picks(judged) == [("genoa", -1), ("dover", 1), ("faro", -1)]
    assert losers(judged) == [("cork", -1)]


@pytest.mark.parametrize(
    ("constraint", "expected"),
    [
        pytest.param(HARD, [("faro", -1), ("esbjerg", 1), ("dover", -1)], id="hard-stops-at-three"),
        pytest.param(spread("region", 2), [("faro", -1), ("esbjerg", 1), ("dover", -1), ("cork", -1)], id="skew-2"),
        pytest.param(SOFT, [("faro", -1), ("esbjerg", 1), ("dover", -1), ("cork", -1000)], id="soft"),
    ],
)
def test_t2(constraint, expected):
    judged = run(pick_n(4, constraints=[constraint]), port("cork n", "dover n", "esbjerg n", "faro s"))
    assert picks(judged) == expected
    assert judged.satisfied is (len(expected) == 4)
    if len(expected) == 3:
        refusal = judged.last.reject(judged.fleet.row("cork"))
        assert refusal.category == "TopologySpreadViolated"
        assert all(word in refusal.message for word in ("region=n", "skew to 2", "above maxSkew 1", "region=s"))


def test_t3():
    judged = run(pick_n(5, constraints=[HARD]), port("a1 a", "a2 a", "b1 b", "b2 b", "c1 c"))
    assert picks(judged) == [("c1", -1), ("b2", 0), ("a2", 1), ("b1", -1), ("a1", 0)]


def test_t4():
    clusters = port("cork n mon", "dover n tue", "faro s mon", "genoa s tue", "haifa s wed")
    judged = run(pick_n(3, constraints=[HARD, spread("day", 1, "ScheduleAnyway")]), clusters)
    assert picks(judged) == [("haifa", -2), ("dover", 1), ("faro", 0)]
    assert losers(judged) == [("cork", 0), ("genoa", -1001)]


def test_unlabelled_clusters_win_ties():
    judged = run(pick_n(1, constraints=[HARD]), port("zeta n", "alfa -", "yota s"))
    assert picks(judged) == [("alfa", 0)]
    assert losers(judged) == [("zeta", -1), ("yota", -1)]


def test_an_unusable_domain_stops_every_other_at_one():
    clusters = [*port("a n", "b n", "c s", "d s"), make_cluster("dead", labels={"region": "w"}, heartbeat=None)]
    judged = run(pick_n(4, constraints=[HARD]), clusters)
    assert [name for name, _ in picks(judged)] == ["d", "b"]
    assert judged.last.categories() == {"HeartbeatStale": 1, "TopologySpreadViolated": 2}


@pytest.mark.parametrize(
    ("taken", "expected"),
    [
        pytest.param("w w w", [], id="0-0-3-is-stuck"),
        pytest.param("s s s w w w", [], id="0-3-3-is-stuck"),
        pytest.param("s s w w", [("n4", 1)], id="0-2-2-is-fine"),
        pytest.param("n s w", [("w4", -1)], id="all-equal"),
    ],
)
def test_consequences_of_what_is_taken(taken, expected):
    clusters = port(*(f"{region}{number} {region}" for region in "nsw" for number in range(1, 5)))
    bindings, used = [], {}
    for region in taken.split():
        used[region] = used.get(region, 0) + 1
        bindings.append(held(f"{region}{used[region]}"))
    judged = run(pick_n(len(bindings) + 1, constraints=[HARD]), clusters, bindings)
    assert picks(judged) == expected


def test_a_soft_constraint_over_the_limit_gives_no_direction():
    clusters = port("n1 n", "n2 n", "s1 s", "s2 s", "s3 s", "s4 s")
    judged = run(pick_n(4, constraints=[SOFT]), clusters, [held(f"s{number}") for number in (1, 2, 3)])
    assert picks(judged) == [("s4", -1000)]
    assert losers(judged) == [("n2", -1000), ("n1", -1000)]


def test_a_single_domain_never_violates():
    judged = run(pick_n(3, constraints=[HARD]), port("a n", "b n", "c n"))
    assert picks(judged) == [("c", -1), ("b", -1), ("a", -1)]


def test_a_key_nobody_carries_concerns_nobody():
    judged = run(pick_n(2, constraints=[spread("nowhere")]), port("a n", "b n"))
    assert picks(judged) == [("b", 0), ("a", 0)]


@pytest.mark.parametrize(
    "binding",
    [
        pytest.param(obsolete("s1"), id="obsolete"),
        pytest.param(held("gone", current=True), id="dangling"),
        pytest.param(held("s1", deleting=True), id="deleting"),
    ],
)
def test_only_taken_clusters_count(binding):
    """One of s would leave skew 1; were the binding counted, n would be the only lowest and the other of s refused."""
    judged = run(pick_n(2, constraints=[spread("region", 1)]), port("n1 n", "s1 s", "s2 s"), [binding])
    first = judged.picked[0]
    assert first.topology == -1
    assert set(dropped(judged)) <= {"gone", "s1"}


def test_the_first_violated_constraint_is_named():
    clusters = port("a n mon", "b n tue", "c s tue")
    bindings = [held("a"), held("b")]
    judged = run(pick_n(3, constraints=[spread("day", 1), HARD]), [*clusters, *port("d n wed")], bindings)
    refusal = judged.last.reject(judged.fleet.row("d"))
    assert "region=n" in refusal.message


def test_hard_constraints_are_judged_before_soft_ones():
    judged = run(pick_n(1, constraints=[SOFT, spread("day"), spread("zone", 2)]), port("a n mon"))
    assert [constraint.key for constraint in judged.request.profile.spread.constraints] == ["day", "zone", "region"]
    assert [constraint.index for constraint in judged.request.profile.spread.constraints] == [1, 2, 0]


def test_defaults():
    """DV-9: maxSkew 1 and DoNotSchedule."""
    (constraint,) = run(pick_n(1, constraints=[spread("region")]), []).request.profile.spread.constraints
    assert (constraint.max_skew, constraint.hard) == (1, True)


@given(st.lists(st.integers(0, 4), min_size=1, max_size=6))
@modest(100)
def test_the_change_of_skew_is_what_one_more_placement_does(counts):
    """The rule of the table is the change of the whole fleet's skew; a single domain counts as one worse."""
    skew, change = skew_change(np.array(counts))
    assert skew == max(counts) - min(counts)
    for domain, moved in enumerate(change.tolist()):
        after = [*counts]
        after[domain] += 1
        assert moved == max(after) - min(after) - skew or (len(counts) == 1 and moved == 1)
