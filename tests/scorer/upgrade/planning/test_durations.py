"""How long upgrades are expected to take, by what is known of them."""

from dataclasses import replace
from datetime import timedelta

import pytest

from scorer.api.upgrade.fields import UpgradeType
from scorer.upgrade.back_ends.interface import Inventory, Pool
from scorer.upgrade.members.member import Member
from scorer.upgrade.planning.durations import LONGEST, Durations, Sample, samples_of
from tests.scorer.upgrade.scenarios import after, member, play

FULL, CONTROL_PLANE = UpgradeType.FULL, UpgradeType.CONTROL_PLANE_ONLY


def cluster(name, nodes=0, upgrader="cluster-api", expected=None):
    pools = (Pool("p", "1.30.4", nodes=nodes),)
    found = Member(name, upgrader=upgrader, inventory=Inventory("1.30.4", pools))
    return replace(found, expected=expected and timedelta(minutes=expected))


def sample(name, minutes, day=0, kind=FULL, upgrader="cluster-api"):
    return Sample(name, upgrader, kind, after(days=day), timedelta(minutes=minutes))


def expected(samples, *members, kind=FULL):
    """Return minutes, P50 and P90, of the first of the members."""
    known = {each.name: each for each in members}
    found = Durations(samples, known, kind).of(members[0])
    return found.p50.total_seconds() / 60, found.p90.total_seconds() / 60


@pytest.mark.parametrize(
    ("kind", "nodes", "minutes"),
    [
        pytest.param(FULL, 0, 15, id="no-nodes"),
        pytest.param(FULL, 5, 35, id="five-nodes"),
        pytest.param(UpgradeType.NODE_IMAGE_ONLY, 5, 35, id="images"),
        pytest.param(CONTROL_PLANE, 5, 10, id="control-plane"),
    ],
)
def test_by_rule_of_thumb(kind, nodes, minutes):
    assert expected([], cluster("a", nodes), kind=kind) == (minutes, minutes * 1.5)


@pytest.mark.parametrize("kind", UpgradeType)
def test_nothing_is_expected_to_take_longer_than_a_year(kind):
    """However many nodes a cluster says that it has, and whatever else is said: dates have an end."""
    pools = tuple(Pool(f"p{number}", "1.30.4", nodes=2**31 - 1) for number in range(1000))
    huge = Member("a", inventory=Inventory("1.30.4", pools))
    known = {"a": huge}
    assert Durations([], known, kind).of(huge).p90 <= LONGEST
    assert Durations([], known, kind).of(replace(huge, expected=timedelta.max)).p90 == LONGEST
    assert Durations([sample("a", 60 * 24 * 10**6, kind=kind)], known, kind).of(huge).p50 == LONGEST


def test_the_annotation_counts_before_the_rule_of_thumb():
    assert expected([], cluster("a", 5, expected=20)) == (20, 30)


def test_clusters_like_it_count_before_the_annotation():
    a, b, c = cluster("a", 10, expected=20), cluster("b", 20), cluster("c", 5)
    assert expected([sample("b", 60), sample("c", 30)], a, b, c) == (45, 67.5)


@pytest.mark.parametrize(
    "other",
    [
        pytest.param(cluster("b", 21), id="too-large"),
        pytest.param(cluster("b", 4), id="too-small"),
        pytest.param(cluster("b", 10, upgrader="handoff"), id="other-upgrader"),
    ],
)
def test_clusters_that_are_not_like_it_do_not_count(other):
    assert expected([sample("b", 60, upgrader=other.upgrader)], cluster("a", 10, expected=20), other) == (20, 30)


def test_its_own_upgrades_count_most_the_latest_more_than_those_before():
    a, b = cluster("a", 10), cluster("b", 10)
    found = expected([sample("b", 300), sample("a", 20, day=2), sample("a", 10, day=1)], a, b)
    assert found == (14, 21)


def test_upgrades_of_another_type_do_not_count():
    assert expected([sample("a", 60, kind=CONTROL_PLANE)], cluster("a", expected=20)) == (20, 30)


def test_from_ten_upgrades_on_their_own_percentile_counts():
    samples = [sample("a", minutes, day=minutes) for minutes in range(1, 11)]
    assert expected(samples, cluster("a"))[1] == 9


def test_p90_is_never_below_p50():
    samples = [sample("a", 1, day=day) for day in range(9)] + [sample("a", 100, day=10)]
    found = expected(samples, cluster("a"))
    assert found[0] == found[1] > 40


def test_what_a_run_has_upgraded_is_known_from_it():
    scenario = play(member("a"), member("b", outcomes=["fail"]), member("c", version="1.31.2"))
    found = list(samples_of(scenario.hub.run))
    assert [(each.member, each.upgrader, each.took) for each in found] == [("a", "simulated", timedelta(minutes=30))]
