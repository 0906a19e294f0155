"""Picking: rank order, and one heap per combination of counts against the batch-by-batch rule."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from scorer.fleet import Fleet
from scorer.framework.cycle import Cycle
from scorer.placement.holdings import classify
from scorer.placement.pick import Ranks
from scorer.placement.request import read_request
from scorer.placement.schedule import schedule
from tests.scorer.builders import (
    CONSTRAINTS,
    NODES,
    NOW,
    PREFERENCES,
    TERMS,
    TOLERATIONS,
    bindings_for,
    held,
    make_cluster,
    members,
    modest,
    obsolete,
    pick_n,
    picked,
    prefer,
    run,
    spread,
)

COLUMN = st.one_of(st.none(), st.integers(0, 2**32))


@given(
    size=st.integers(0, 12),
    topology=COLUMN,
    affinity=COLUMN,
    bonus=COLUMN,
    count=st.integers(0, 14),
    wide=st.booleans(),
)
@modest(200)
def test_best_equals_sorting(size, topology, affinity, bonus, count, wide):
    assert_best_is_sorted(size, topology, affinity, bonus, count, 10**6 if wide else 3)


@given(
    size=st.integers(4097, 5000),
    topology=COLUMN,
    affinity=COLUMN,
    bonus=COLUMN,
    count=st.integers(0, 5000),
    spread_of_points=st.sampled_from([1, 3, 100, 10**6]),
)
@modest(40)
def test_best_of_many_equals_sorting(size, topology, affinity, bonus, count, spread_of_points):
    assert_best_is_sorted(size, topology, affinity, bonus, count, spread_of_points)


@pytest.mark.parametrize("points", [2**15 - 1, 2**15, -(2**15), -(2**15) - 1, 2**16, -(2**16)])
def test_points_beyond_16_bits_keep_their_rank(points):
    """Narrower numbers sort in linear time; one that does not fit would come out at the other end."""
    ranks = Ranks(np.arange(3), None, np.array([0, points, 1]), None)
    assert ranks.best(3).tolist() == ([1, 2, 0] if points > 0 else [2, 0, 1])


def assert_best_is_sorted(size, topology, affinity, bonus, count, width):
    def column(seed):
        return None if seed is None else np.random.default_rng(seed).integers(-width, width + 1, size)

    ranks = Ranks(np.arange(size) * 2, column(topology), column(affinity), None if bonus is None else column(bonus) > 0)
    columns = [np.zeros(size) if keys is None else keys for keys in (ranks.topology, ranks.affinity, ranks.bonus)]
    keys = list(zip(*(keys.tolist() for keys in columns), range(size), strict=True))
    assert ranks.best(count).tolist() == sorted(range(size), key=keys.__getitem__, reverse=True)[:count]


@pytest.mark.parametrize(
    ("names", "order"),
    [
        pytest.param(["port-9", "port-10", "port-100"], ["port-9", "port-100", "port-10"], id="byte-order"),
        pytest.param(["a-x", "a1", "a.b"], ["a1", "a.b", "a-x"], id="digits-after-punctuation"),
    ],
)
def test_among_equals_the_larger_name_wins(names, order):
    assert picked(run(pick_n(len(names)), [make_cluster(name) for name in names])) == order


NEAR, FAR = {"properties": {NODES: "9"}}, {"properties": {NODES: "1"}}


@pytest.mark.parametrize(
    ("clusters", "bindings", "constraints", "first"),
    [
        pytest.param({"a": NEAR, "z": FAR}, [], [], "a", id="affinity-before-name"),
        pytest.param({"a": FAR, "z": FAR}, [obsolete("a")], [], "a", id="bonus-before-name"),
        pytest.param({"a": FAR, "z": NEAR}, [obsolete("a")], [], "z", id="affinity-before-bonus"),
        pytest.param(
            {"a": {"labels": {}}, "z": {**NEAR, "labels": {"region": "n"}}},
            [],
            [spread("region")],
            "a",
            id="topology-before-affinity",
        ),
        pytest.param({"a": FAR, "z": FAR}, [held("a", deleting=True)], [], "z", id="no-bonus-for-deleting"),
    ],
)
def test_sort_keys(clusters, bindings, constraints, first):
    fleet = [make_cluster(name, **facts) for name, facts in clusters.items()] + [make_cluster("gone", heartbeat=None)]
    wanted = pick_n(1, preferred=[prefer(10, NODES)], constraints=constraints)
    assert picked(run(wanted, fleet, bindings)) == [first]


def batch_by_batch(request, fleet, bindings):
    """Scheduling.md 11 to 13 and 14, one batch at a time; returns picks with keys, losers, and refused clusters."""
    holdings = classify(bindings, fleet)
    profile = request.profile
    placed, stale = holdings.placed(fleet), holdings.stale(fleet)
    picks, number = [], 0
    while True:
        number += 1
        cycle = Cycle(fleet, NOW, request.namespace, placed, stale)
        alive = np.ones(len(fleet), dtype=bool)
        for plugin in profile.filters:
            mask = plugin.filter(cycle)
            alive &= True if mask is None else mask
        mask = profile.spread.filter(cycle)
        refused = ~alive | (~placed & (False if mask is None else ~mask))
        rows = np.flatnonzero(alive & ~placed & (True if mask is None else mask))
        columns = (profile.spread.score(cycle, rows), profile.affinity.score(cycle, rows), stale[rows])
        topology, affinity, bonus = ([0] * rows.size if column is None else column.tolist() for column in columns)
        names = [fleet.names[row] for row in rows.tolist()]
        ranked = sorted(zip(topology, affinity, map(bool, bonus), names, strict=True), reverse=True)
        size = 1 if profile.spread.constraints else request.wanted
        batch = min(size, request.wanted - len(holdings.taken) - len(picks), len(ranked))
        picks += [(*entry, number) for entry in ranked[:batch]]
        if batch == 0 or len(picks) + len(holdings.taken) >= request.wanted or not profile.spread.constraints:
            return picks, ranked[batch:], [fleet.names[row] for row in np.flatnonzero(refused)]
        placed = placed | fleet.rows(entry[3] for entry in ranked[:batch])
        stale = np.zeros_like(stale)


def assert_picks_equal(wanted, clusters, bindings=()):
    fleet = Fleet.of(clusters)
    request = read_request(wanted)
    decided = schedule(request, fleet, bindings, NOW)
    if decided.last is None:
        assert len(classify(bindings, fleet).taken) >= request.wanted
        return
    picks, losers, refused = batch_by_batch(request, fleet, bindings)
    found = [(pick.topology, pick.affinity, pick.bonus, pick.cluster, pick.batch) for pick in decided.picked]
    assert found == picks
    last = decided.last
    assert [(lost.topology, lost.affinity, lost.bonus, lost.cluster) for lost in last.unselected()] == losers
    assert [(lost.topology, lost.affinity, lost.bonus, lost.cluster) for lost in last.unselected(2)] == losers[:2]
    rejected = [fleet.names[row] for row in last.rejected_rows().tolist()]
    assert [name for name in rejected if not last.cycle.placed[fleet.row(name)]] == [
        name for name in refused if not last.cycle.placed[fleet.row(name)]
    ]
    free = [row for row in last.rejected_rows().tolist() if not last.cycle.placed[row]]
    counts = last.categories()
    assert sum(counts.values()) == len(free)
    reasons = [last.reject(row).category for row in free]
    assert counts == {category: reasons.count(category) for category in set(reasons)}


@given(data=st.data())
@modest(80)
def test_spread_picks_equal_one_batch_at_a_time(data):
    clusters = data.draw(members(14, ill=False))
    wanted = pick_n(
        data.draw(st.integers(1, 16)),
        preferred=data.draw(st.lists(PREFERENCES, max_size=1)),
        constraints=data.draw(st.lists(CONSTRAINTS, min_size=1, max_size=3)),
    )
    assert_picks_equal(wanted, clusters, data.draw(bindings_for(clusters)))


@given(data=st.data())
@modest(80)
def test_picks_in_an_ailing_fleet_equal_one_batch_at_a_time(data):
    clusters = data.draw(members(14))
    wanted = pick_n(
        data.draw(st.integers(0, 10)),
        required=data.draw(st.one_of(st.none(), st.lists(TERMS, max_size=2))),
        preferred=data.draw(st.lists(PREFERENCES, max_size=2)),
        constraints=data.draw(st.lists(CONSTRAINTS, max_size=2)),
        tolerations=data.draw(TOLERATIONS),
    )
    assert_picks_equal(wanted, clusters, data.draw(bindings_for(clusters)))


@pytest.mark.parametrize("size", [30, 60])
def test_large_spreads_equal_one_batch_at_a_time(size):
    dice = np.random.default_rng(size)
    clusters = [
        make_cluster(
            f"port-{number:03}",
            labels={key: str(dice.integers(0, domains)) for key, domains in [("region", 5), ("day", 3), ("zone", 9)]},
            properties={NODES: str(dice.integers(1, 6))},
        )
        for number in range(size)
    ]
    for constraints in (
        [spread("region", 2), spread("zone", 1)],
        [spread("region", 1, "ScheduleAnyway"), spread("day", 1)],
        [spread("zone", 1), spread("day", 2, "ScheduleAnyway"), spread("region", 2)],
        [spread("nowhere", 1), spread("region", 3)],
    ):
        wanted = pick_n(size, preferred=[prefer(30, NODES)], constraints=constraints)
        assert_picks_equal(wanted, clusters, [obsolete("port-003"), obsolete("port-014"), held("port-020")])


def test_the_tie_bonus_works_in_the_first_batch_only():
    clusters = [make_cluster(name, labels={"region": "n"}) for name in "abcd"]
    bindings = [obsolete("a"), obsolete("b")]
    judged = run(pick_n(3, constraints=[spread("region")]), clusters, bindings)
    assert [(pick.cluster, pick.bonus) for pick in judged.picked] == [("b", True), ("d", False), ("c", False)]
    assert picked(run(pick_n(3), clusters, bindings)) == ["b", "a", "d"]  # without batches it holds throughout


def test_as_many_constraints_as_a_policy_may_have():
    """The groups of candidates stay distinct, however many domains the constraints make together."""
    dice = np.random.default_rng(7)
    keys = [f"key-{number}" for number in range(30)]
    clusters = [
        make_cluster(f"port-{number:02}", labels={key: f"v{dice.integers(0, 6)}" for key in keys})
        for number in range(14)
    ]
    assert_picks_equal(pick_n(8, constraints=[spread(key, 2, "ScheduleAnyway") for key in keys]), clusters)
    assert_picks_equal(pick_n(8, constraints=[spread(key, 4) for key in keys]), clusters)
