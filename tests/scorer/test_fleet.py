"""The fleet: snapshots that are updated by row, eligibility by time, readings of properties."""

from datetime import UTC, datetime, timedelta

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from scorer.api.cluster.member_cluster import MemberCluster
from scorer.api.cluster.scores import _parse
from scorer.api.placement.placement import ClusterSelectorTerm
from scorer.api.values.quantity import parse_quantity
from scorer.columns import PropertyReading, _known_amounts, microseconds
from scorer.eligibility import HEALTH_UNKNOWN, LEAVING, NOT_JOINED, NOT_REPORTING, STALE, UNHEALTHY, EligibilityLimits
from scorer.fleet import MOST_COLUMNS, Fleet
from scorer.placement.plan_document import plan_entry
from scorer.plugins.cluster_eligibility import eligible
from scorer.properties import _known_reading, observation_time, property_name_error, read_property
from scorer.selectors import label_matches_row, match_label, read_term
from tests.scorer.builders import (
    AVAILABLE_CPU,
    COST,
    LABEL_EXPRESSIONS,
    MINUTE,
    NAMES,
    NODES,
    NOW,
    OLD_NODES,
    PROPERTY_EXPRESSIONS,
    TICK,
    TOTAL_CPU,
    cluster_document,
    facts,
    make_cluster,
    member_agent,
    members,
    modest,
    pick_n,
    pick_n_policies,
    run,
    spread,
    term,
)

LABELS = ("env", "region", "day", "zone")
QUANTITIES = (NODES, OLD_NODES, COST, AVAILABLE_CPU)


def warm(fleet):
    """Build every column, so that an update has to carry it over."""
    for key in LABELS:
        assert fleet.label(key) is fleet.label(key)
    for name in QUANTITIES:
        assert fleet.quantity(name) is fleet.quantity(name)
    assert fleet.taints is fleet.taints
    assert fleet.namespaces is fleet.namespaces
    assert fleet.eligibility is fleet.eligibility
    return fleet


def values(book, size):
    return [book.value(row) for row in range(size)]


def assert_same(fleet, rebuilt):
    assert fleet.names == rebuilt.names
    assert [*fleet.members] == [*rebuilt.members]
    size = len(rebuilt)
    for key in LABELS:
        assert values(fleet.label(key), size) == values(rebuilt.label(key), size)
    for name in QUANTITIES:
        ours, theirs = fleet.quantity(name), rebuilt.quantity(name)
        assert list(ours.readings) == list(theirs.readings)
        np.testing.assert_array_equal(ours.double, theirs.double)
        assert ours.extremes == theirs.extremes
        for relation in ("Ge", "Ne", "Lt"):
            wanted = parse_quantity("3")
            np.testing.assert_array_equal(ours.compare(relation, wanted), theirs.compare(relation, wanted))
    assert values(fleet.taints, size) == values(rebuilt.taints, size)
    assert values(fleet.namespaces, size) == values(rebuilt.namespaces, size)
    for column in ("failed", "heartbeat_until", "health_until", "until"):
        np.testing.assert_array_equal(getattr(fleet.eligibility, column), getattr(rebuilt.eligibility, column))


@st.composite
def changes(draw):
    """Draw a fleet, and some steps of clusters changed (or new) and gone."""
    before = draw(members(6))
    steps = []
    for _ in range(draw(st.integers(1, 3))):
        fresh = {cluster.metadata.name for cluster in before} if draw(st.booleans()) else set(NAMES[:8])
        names = draw(st.lists(st.sampled_from(sorted(fresh) or NAMES), max_size=3, unique=True))
        changed = [make_cluster(name, **draw(facts())) for name in names]
        gone = draw(st.lists(st.sampled_from(NAMES[8:] if draw(st.booleans()) else NAMES), max_size=2, unique=True))
        steps.append((changed, [name for name in gone if name not in names]))
    return before, steps


def after(before, steps):
    state = {cluster.metadata.name: cluster for cluster in before}
    for changed, gone in steps:
        state |= {cluster.metadata.name: cluster for cluster in changed}
        for name in gone:
            state.pop(name, None)
    return state.values()


@given(changes())
@modest(70)
def test_an_updated_fleet_equals_a_rebuilt_one(drawn):
    before, steps = drawn
    first = fleet = warm(Fleet.of(before))
    for changed, gone in steps:
        fleet = warm(fleet.updated(changed, gone))
    assert_same(fleet, Fleet.of(after(before, steps)))
    assert fleet.revision == Fleet.of(after(before, steps)).revision
    assert_same(first, Fleet.of(before))  # a snapshot never changes


@given(st.dictionaries(st.sampled_from(NAMES), st.integers(1, 3), min_size=1), st.randoms(use_true_random=False))
@modest(50)
def test_the_revision_names_the_members_and_their_versions_and_nothing_else(versions, dice):
    found = [stored_at(name, version) for name, version in versions.items()]
    first = Fleet.of(found).revision
    dice.shuffle(found)
    assert Fleet.of(found).revision == first
    step_by_step = Fleet([])
    for member in (stored_at(found[0].metadata.name, 0), *found):
        _ = step_by_step.revision
        step_by_step = step_by_step.updated([member])
    assert step_by_step.revision == first
    assert step_by_step.updated([stored_at(found[0].metadata.name, 4)]).revision != first
    assert step_by_step.updated([stored_at(found[0].metadata.name, 1, uid="other")]).revision != first
    assert step_by_step.updated([], [found[0].metadata.name]).revision != first
    assert 0 <= first < 2**64


def stored_at(name, version, uid="u"):
    metadata = {"name": name, "uid": uid, "resourceVersion": str(version)}
    return MemberCluster.read(cluster_document(name) | {"metadata": metadata})


@given(drawn=changes(), policy=pick_n_policies())
@modest(70)
def test_decisions_on_an_updated_fleet_equal_those_on_a_rebuilt_one(drawn, policy):
    before, steps = drawn
    fleet = warm(Fleet.of(before))
    for changed, gone in steps:
        fleet = fleet.updated(changed, gone)
    placement = {"metadata": {"name": "payments"}, "spec": {"policy": policy}}
    rebuilt = Fleet.of(after(before, steps))
    assert plan_entry(placement, run(policy, fleet)) == plan_entry(placement, run(policy, rebuilt))


REGIONS = st.sampled_from([None, "n", "s", "w"])


@given(
    regions=st.lists(REGIONS, min_size=1, max_size=6),
    moves=st.lists(st.dictionaries(st.integers(0, 5), REGIONS, min_size=1, max_size=3), min_size=1, max_size=3),
    number=st.integers(1, 5),
    constraint=st.builds(
        spread, st.just("region"), st.integers(1, 2), st.sampled_from(["DoNotSchedule", "ScheduleAnyway"])
    ),
)
@modest(100)
def test_spreading_over_relabelled_clusters_is_as_if_they_had_always_been_there(regions, moves, number, constraint):
    def region_of(row, region):
        return make_cluster(NAMES[row], labels={"region": region} if region else {})

    now = dict(enumerate(regions))
    fleet = warm(Fleet.of(region_of(*entry) for entry in now.items()))
    for move in moves:
        changed = {row: region for row, region in move.items() if row in now}
        now |= changed
        fleet = warm(fleet.updated(region_of(*entry) for entry in changed.items()))
    wanted = pick_n(number, constraints=[constraint])
    placement = {"metadata": {"name": "payments"}, "spec": {"policy": wanted}}
    rebuilt = Fleet.of(region_of(*entry) for entry in now.items())
    assert plan_entry(placement, run(wanted, fleet)) == plan_entry(placement, run(wanted, rebuilt))


@given(clusters=members(8), later=st.sampled_from([timedelta(), MINUTE, 5 * MINUTE, 5 * MINUTE + TICK]))
@modest(80)
def test_one_cluster_is_judged_as_all_of_them_are(clusters, later):
    """The scalar forms say what the columns say."""
    fleet, now = Fleet.of(clusters), NOW + later
    failures = fleet.eligibility.first_failure(np.arange(len(fleet)), now)
    assert [fleet.eligibility.failure_of(row, now) for row in range(len(fleet))] == failures.tolist()


@given(clusters=members(8), expressions=st.lists(LABEL_EXPRESSIONS, max_size=2), wanted=st.lists(PROPERTY_EXPRESSIONS))
@modest(80)
def test_one_cluster_matches_as_all_of_them_do(clusters, expressions, wanted):
    fleet = Fleet.of(clusters)
    read = read_term(ClusterSelectorTerm.read(term(expressions=expressions, properties=wanted)), "x")
    for requirement in read.labels:
        mask = match_label(fleet, requirement)
        assert [label_matches_row(fleet, requirement, row) for row in range(len(fleet))] == mask.tolist()
    for requirement in read.properties:
        mask = requirement.matches(fleet)
        assert [requirement.matches_row(fleet, row) for row in range(len(fleet))] == mask.tolist()


def test_a_domain_disappears_with_its_last_cluster():
    """A label value that no cluster has any more is no domain: it cannot stay at 0 and block the others."""
    fleet = Fleet.of([make_cluster(name, labels={"region": region}) for name, region in [("a", "n"), ("b", "s")]])
    wanted = {
        "placementType": "PickN",
        "numberOfClusters": 2,
        "topologySpreadConstraints": [{"topologyKey": "region"}],
    }
    assert run(wanted, fleet).selected_count == 2
    moved = fleet.updated([make_cluster("b", labels={"region": "n"})])
    assert run(wanted, moved).selected_count == 2


def test_order_of_members_does_not_matter_and_the_later_of_two_counts():
    fleet = Fleet.of([make_cluster("b"), make_cluster("a", labels={"x": "1"}), make_cluster("a", labels={"x": "2"})])
    assert fleet.names == ("a", "b")
    assert len(fleet) == 2
    assert fleet.member("a").metadata.labels == {"x": "2"}
    assert fleet.member("c") is None
    assert fleet.rows(["b", "nobody"]).tolist() == [False, True]


def test_names_are_in_byte_order():
    names = ["port-9", "port-100", "port-10", "a-x", "a1"]
    assert Fleet.of(map(make_cluster, names)).names == tuple(sorted(names, key=str.encode))


def test_an_empty_fleet():
    fleet = warm(Fleet.of([]))
    assert len(fleet) == 0
    assert eligible(fleet, NOW).tolist() == []
    assert fleet.rows(["a"]).tolist() == []
    assert fleet.updated([make_cluster("a")]).names == ("a",)


FIVE = 5 * MINUTE


def failure(cluster, now=NOW, limits=None):
    fleet = Fleet.of([cluster], limits=limits)
    found = int(fleet.eligibility.first_failure(np.array([0]), now)[0])
    assert bool(eligible(fleet, now)[0]) is (found == 0)
    return found


@pytest.mark.parametrize(
    ("given_", "expected"),
    [
        pytest.param({}, 0, id="well"),
        pytest.param({"leaving": True}, LEAVING, id="1-leaving"),
        pytest.param({"agents": ()}, NOT_REPORTING, id="2-no-agent"),
        pytest.param({"agents": (member_agent(type="ServiceExportImportAgent"),)}, NOT_REPORTING, id="2-other-agent"),
        pytest.param({"heartbeat": None}, STALE, id="3-no-heartbeat"),
        pytest.param({"heartbeat": FIVE}, 0, id="3-exactly-five-minutes-passes"),
        pytest.param({"heartbeat": FIVE + TICK}, STALE, id="3-one-tick-more"),
        pytest.param({"heartbeat": -FIVE * 9}, 0, id="3-from-the-future-passes"),
        pytest.param({"joined": "False"}, NOT_JOINED, id="4-false"),
        pytest.param({"joined": "Unknown"}, NOT_JOINED, id="4-unknown"),
        pytest.param({"joined": None}, NOT_JOINED, id="4-absent"),
        pytest.param({"healthy": None}, HEALTH_UNKNOWN, id="5-absent"),
        pytest.param({"healthy": "False", "health_since": FIVE}, 0, id="6-exactly-five-minutes-passes"),
        pytest.param({"healthy": "False", "health_since": FIVE + TICK}, UNHEALTHY, id="6-one-tick-more"),
        pytest.param({"healthy": "Unknown", "health_since": FIVE}, 0, id="6-unknown-passes-as-long"),
        pytest.param({"healthy": "Unknown", "health_since": FIVE + TICK}, UNHEALTHY, id="6-unknown"),
        pytest.param({"healthy": "False", "health_since": None}, UNHEALTHY, id="6-since-unknown"),
        pytest.param({"healthy": "True", "health_since": timedelta(days=900)}, 0, id="6-well-for-long"),
    ],
)
def test_eligibility(given_, expected):
    assert failure(make_cluster("a", **given_)) == expected


WRONG = {
    LEAVING: {"leaving": True},
    STALE: {"heartbeat": timedelta(hours=1)},
    NOT_JOINED: {"joined": "False"},
    UNHEALTHY: {"healthy": "False", "health_since": timedelta(hours=1)},
}


@given(st.sets(st.sampled_from(sorted(WRONG)), min_size=1), st.booleans())
@modest(40)
def test_the_first_failing_test_is_reported(failing, no_health):
    made = {key: value for number in failing for key, value in WRONG[number].items()}
    if no_health:
        made["healthy"] = None
        failing = (failing - {UNHEALTHY}) | {HEALTH_UNKNOWN}
    assert failure(make_cluster("a", **made)) == min(failing)


def test_leaving_comes_before_the_missing_agent():
    assert failure(make_cluster("a", agents=(), leaving=True)) == LEAVING


def test_only_the_first_member_agent_counts():
    silent, well = member_agent(heartbeat=timedelta(hours=1)), member_agent()
    other = member_agent(type="MultiClusterServiceAgent", heartbeat=timedelta(hours=1), joined="False")
    assert failure(make_cluster("a", agents=(other, well, silent))) == 0
    assert failure(make_cluster("a", agents=(other, silent, well))) == STALE


def test_the_clusters_own_conditions_do_not_matter():
    cluster = make_cluster("a")
    joined = cluster.model_copy(
        update={
            "status": cluster.status.model_copy(
                update={
                    "conditions": (cluster.status.agent_status[0].conditions[0].model_copy(update={"status": "False"}),)
                }
            )
        }
    )
    assert failure(joined) == 0


def test_limits_are_settings():
    limits = EligibilityLimits(heartbeat=MINUTE, health=2 * MINUTE)
    assert failure(make_cluster("a", heartbeat=MINUTE), limits=limits) == 0
    assert failure(make_cluster("a", heartbeat=MINUTE + TICK), limits=limits) == STALE
    ill = make_cluster("a", healthy="False", health_since=2 * MINUTE + TICK)
    assert failure(ill, limits=limits) == UNHEALTHY
    assert Fleet.of([ill], limits=limits).updated([ill]).limits == limits


def test_time_alone_makes_a_cluster_ineligible():
    cluster = make_cluster("a", heartbeat=timedelta(0))
    assert failure(cluster, NOW + FIVE) == 0
    assert failure(cluster, NOW + FIVE + TICK) == STALE


@pytest.mark.parametrize("field", ["lastReceivedHeartbeat", "lastTransitionTime"])
@pytest.mark.parametrize(
    ("stamp", "passes"),
    [
        pytest.param("9999-12-31T23:59:59Z", True, id="end-of-the-calendar"),
        pytest.param("0001-01-01T00:00:00Z", False, id="start-of-the-calendar"),
    ],
)
def test_times_at_the_ends_of_the_calendar(field, stamp, passes):
    agent = member_agent(healthy="False", health_since=timedelta(0))
    if field == "lastReceivedHeartbeat":
        agent[field] = stamp
    else:
        agent["conditions"][1][field] = stamp
    assert (failure(make_cluster("a", agents=[agent])) == 0) is passes


def test_microseconds():
    assert microseconds(datetime(1970, 1, 1, 0, 0, 1, 5, tzinfo=UTC)) == 1_000_005


@pytest.mark.parametrize(
    ("properties", "name", "text"),
    [
        pytest.param({NODES: "3"}, NODES, "3", id="exact"),
        pytest.param({OLD_NODES: "4"}, NODES, "4", id="DV-2-new-name-reads-old"),
        pytest.param({NODES: "3"}, OLD_NODES, "3", id="DV-2-old-name-reads-new"),
        pytest.param({NODES: "3", OLD_NODES: "4"}, NODES, "3", id="DV-2-exact-first"),
        pytest.param({NODES: "3", OLD_NODES: "4"}, OLD_NODES, "4", id="DV-2-exact-first-too"),
        pytest.param({COST: "0.030"}, COST, "0.030", id="text-as-written"),
        pytest.param({}, COST, None, id="absent"),
        pytest.param({"Cost": "1"}, "cost", None, id="case-matters"),
        pytest.param(
            {"kubernetes.azure.com/vm-sizes/Standard_D2s_v3/count": "7"},
            "kubernetes.azure.com/vm-sizes/Standard_D2s_v3/count",
            "7",
            id="slashes-belong-to-the-name",
        ),
    ],
)
def test_reading_a_property(properties, name, text):
    found = read_property(make_cluster("a", properties=properties), name)
    assert (found and found.text) == text


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        pytest.param(TOTAL_CPU, "32", id="total-is-capacity"),
        pytest.param("resources.kubernetes-fleet.io/allocatable-cpu", "30", id="allocatable"),
        pytest.param(AVAILABLE_CPU, "1500m", id="available"),
        pytest.param("resources.kubernetes-fleet.io/available-ephemeral-storage", "9Gi", id="DV-4-first-dash"),
        pytest.param("resources.kubernetes-fleet.io/total-nvidia.com-gpu", "8", id="DV-4-more-dashes"),
        pytest.param("resources.kubernetes-fleet.io/total-memory", None, id="missing-key"),
        pytest.param("resources.kubernetes-fleet.io/total-pods", "110", id="bare-number"),
    ],
)
def test_reading_a_resource(name, expected):
    cluster = make_cluster(
        "a",
        capacity={"cpu": "32", "nvidia.com-gpu": "8", "pods": 110},
        allocatable={"cpu": "30"},
        available={"cpu": "1500m", "ephemeral-storage": "9Gi"},
        properties={TOTAL_CPU: "999"},
    )
    found = read_property(cluster, name)
    assert (found and found.text) == expected


@pytest.mark.parametrize("text", ["", "5K", "5 Gi", "5mi", "1,5", "0x10", "NaN", "Inf", "v1.31.2", "1e999999999"])
def test_unreadable_is_not_absent(text):
    """DV-3: it spoils this cluster only, and its text stays for the explanation."""
    fleet = Fleet.of([make_cluster("a", properties={"load": text}), make_cluster("b", properties={"load": "4"})])
    column = fleet.quantity("load")
    assert column.readings[0] == PropertyReading(text, None)
    assert column.extremes == (1, 1)


def test_observation_time():
    cluster = make_cluster("a", properties={OLD_NODES: "1"}, observed=MINUTE)
    assert observation_time(cluster, NODES) == NOW - MINUTE
    assert observation_time(cluster, TOTAL_CPU) == NOW - MINUTE
    assert observation_time(cluster, COST) is None


@pytest.mark.parametrize(
    ("name", "good"),
    [
        ("avg-load", True),
        (NODES, True),
        ("kubernetes.azure.com/vm-sizes/Standard_D2s_v3/count", True),
        ("resources.kubernetes-fleet.io/available-ephemeral-storage", True),
        ("resources.kubernetes-fleet.io/used-cpu", False),
        ("resources.kubernetes-fleet.io/total-", False),
        ("resources.kubernetes-fleet.io/total", False),
        ("resources.kubernetes-fleet.io/", False),
        ("", False),
        ("a//b", False),
        ("-a", False),
        ("a/" + "b" * 64, False),
    ],
)
def test_property_names(name, good):
    assert (property_name_error(name) == "") is good


def test_made_up_labels_and_properties_do_not_fill_the_memory():
    fleet = Fleet.of([MemberCluster.read(cluster_document("a", labels={"env": "prod"}))])
    for number in range(2 * MOST_COLUMNS):
        fleet.label(f"label-{number}")
        fleet.quantity(f"example.com/property-{number}")
        fleet.expiry(f"scores.harbormaster.dev/{number}")
    assert fleet.column_count == 2 * MOST_COLUMNS
    assert fleet.updated(()).column_count == 2 * MOST_COLUMNS
    assert fleet.label("env").values == ("prod",), "what had to go is built again"


def test_long_values_are_not_remembered():
    """A caller may bring clusters of its own, with values as long as a body can be."""
    long = "x" * 100_000
    annotations = {"scores.harbormaster.dev/a": long}
    document = cluster_document("a", properties={"example.com/a": long}, annotations=annotations)
    known = [_known_reading, _known_amounts, _parse]
    before = [memory.cache_info().currsize for memory in known]
    fleet = Fleet.of([MemberCluster.read(document)])
    assert np.isnan(fleet.quantity("example.com/a").double).all()
    assert np.isnan(fleet.quantity("scores.harbormaster.dev/a").double).all()
    assert fleet.at(NOW) is fleet
    assert before == [memory.cache_info().currsize for memory in known]
