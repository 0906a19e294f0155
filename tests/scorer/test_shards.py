"""What belongs to which shard, and who gets which shards."""

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scorer.shards import fair_shares, shard_of


@pytest.mark.parametrize(
    ("owner", "count", "shard"),
    [
        pytest.param("crp/web", 2, 1, id="two"),
        pytest.param("crp/web", 3, 1, id="three"),
        pytest.param("rp/team/web", 4, 1, id="four"),
        pytest.param("member/hamburg", 4, 2, id="member"),
        pytest.param("upgrades", 64, 32, id="sixty-four"),
        pytest.param("crp/web", 1, 0, id="one"),
    ],
)
def test_the_shard_of_a_thing_is_the_same_in_every_release(owner, count, shard):
    """Written down: replicas of two releases, or of two versions of Python, must agree."""
    assert shard_of(owner, count) == shard


@pytest.mark.parametrize("count", [2, 3, 4, 8])
def test_shards_are_even_within_bounds(count):
    """10,000 names: each shard within 12 % of its share (four standard deviations at eight shards)."""
    found = Counter(shard_of(f"crp/app-{number}", count) for number in range(10_000))
    share = 10_000 / count
    assert sorted(found) == list(range(count))
    assert all(abs(size - share) <= 0.12 * share for size in found.values()), found


@given(owner=st.text(max_size=40), count=st.integers(1, 12))
def test_one_shard_more_moves_only_what_goes_to_the_new_one(owner, count):
    assert shard_of(owner, count + 1) in {shard_of(owner, count), count}


def test_one_shard_more_moves_no_more_than_its_share():
    moved = sum(shard_of(f"crp/app-{number}", 4) != shard_of(f"crp/app-{number}", 5) for number in range(10_000))
    assert moved <= 10_000 / 5 * 1.12


@st.composite
def fleets(draw):
    """Some replicas, and which of the shards each works on."""
    count = draw(st.integers(1, 12))
    names = draw(st.lists(st.text("abcdef", min_size=1, max_size=4), min_size=1, max_size=6, unique=True))
    holders = draw(st.lists(st.sampled_from([*names, None]), min_size=count, max_size=count))
    return count, {name: frozenset(shard for shard, holder in enumerate(holders) if holder == name) for name in names}


@given(fleets())
def test_every_shard_has_one_replica_and_all_have_as_many_give_or_take_one(fleet):
    count, working = fleet
    shares = fair_shares(count, working)
    assert sorted(shard for share in shares.values() for shard in share) == list(range(count))
    assert shares.keys() == working.keys()
    sizes = [len(share) for share in shares.values()]
    assert max(sizes) - min(sizes) <= 1


@given(fleets())
def test_nothing_moves_that_need_not(fleet):
    """A replica gives up only what is more than its share, and once all is fair nothing moves any more."""
    count, working = fleet
    shares = fair_shares(count, working)
    for name, share in shares.items():
        assert len(share & working[name]) == min(len(working[name]), len(share))
    assert fair_shares(count, shares) == shares


@given(fleets(), st.randoms())
def test_all_replicas_come_to_the_same_answer(fleet, random):
    count, working = fleet
    names = list(working)
    random.shuffle(names)
    assert fair_shares(count, {name: working[name] for name in names}) == fair_shares(count, working)


def test_of_a_replica_that_is_gone_only_its_own_shards_move():
    shares = fair_shares(6, dict.fromkeys("abc", frozenset()))
    gone = shares.pop("b")
    after = fair_shares(6, shares)
    assert all(shares[name] <= after[name] for name in shares)
    assert frozenset().union(*(after[name] - shares[name] for name in shares)) == gone
    assert sorted(len(after[name] - shares[name]) for name in shares) == [1, 1]


def test_a_replica_that_is_new_takes_no_more_than_its_share_and_none_when_all_have_one():
    assert len(fair_shares(4, {"a": frozenset({0, 1}), "b": frozenset({2, 3}), "c": frozenset()})["c"]) == 1
    assert fair_shares(2, {"a": frozenset({0}), "b": frozenset({1}), "c": frozenset()})["c"] == frozenset()
