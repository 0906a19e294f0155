"""Drift as a method, and what has drifted: nodepool-disruption.md 3.2 to 3.5 and 7."""

from datetime import timedelta

import pytest

from scorer.node_disruption.cluster.snapshot import HASH, HASH_VERSION
from scorer.node_disruption.methods.drift import detect_drift
from scorer.node_disruption.methods.planner import decide
from tests.builders.node import make_requirement
from tests.builders.pod import make_pod
from tests.builders.worker import NOW, drifted, make_catalog, make_cluster, make_pool_of, make_worker

CATALOG = make_catalog({"large": 1.0, "small": 0.3}, cores={"small": 2})
ARCH = "kubernetes.io/arch"


def drift_of(pool, worker, catalog=CATALOG, now=NOW):
    cluster = make_cluster(pool, worker)
    found = detect_drift(cluster.nodes["a"].claim, cluster.pools["general"], catalog, now)
    return found and found.reason


def hashed(digest="one", version="v3"):
    return {key: value for key, value in {HASH: digest, HASH_VERSION: version}.items() if value}


@pytest.mark.parametrize(
    ("pool", "claim", "expected"),
    [
        pytest.param("one", hashed(), None, id="same"),
        pytest.param("two", hashed(), "NodePoolDrifted", id="hashes-differ"),
        pytest.param("two", hashed(version="v2"), None, id="versions-differ"),
        pytest.param("two", hashed(digest=""), None, id="the-claim-has-no-hash"),
        pytest.param("two", hashed(version=""), None, id="the-claim-has-no-version"),
        pytest.param("", hashed(), None, id="the-pool-has-none"),
    ],
)
def test_static_check(pool, claim, expected):
    """The rule of 3.2."""
    assert drift_of(make_pool_of(digest=pool), make_worker("a", claim=claim)) == expected


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        pytest.param(("amd64", "arm64"), None, id="widening-never-drifts"),
        pytest.param(("arm64",), "RequirementsDrifted", id="removing-the-value-does"),
    ],
)
def test_requirements(values, expected):
    pool = make_pool_of("general", make_requirement(ARCH, "In", *values))
    assert drift_of(pool, make_worker("a", labels={ARCH: "amd64"})) == expected


@pytest.mark.parametrize(
    ("worker", "catalog", "expected"),
    [
        pytest.param({}, CATALOG, None, id="offered"),
        pytest.param({"kind": "huge"}, CATALOG, "InstanceTypeNotFound", id="type-not-offered"),
        pytest.param({"zone": "z9"}, CATALOG, "InstanceTypeNotFound", id="not-in-its-zone"),
        pytest.param({"capacity": "spot"}, CATALOG, "InstanceTypeNotFound", id="not-as-spot"),
        pytest.param({"capacity": "reserved"}, CATALOG, None, id="on-demand-is-good-enough-for-reserved"),
        pytest.param({"kind": "huge"}, None, None, id="without-a-catalog-nobody-knows"),
        pytest.param({"kind": "huge", "created": NOW - timedelta(minutes=59)}, CATALOG, None, id="too-young"),
        pytest.param(
            {"kind": "huge", "created": NOW - timedelta(hours=1)}, CATALOG, "InstanceTypeNotFound", id="an-hour-old"
        ),
    ],
)
def test_instance_types(worker, catalog, expected):
    """The rule of 3.4."""
    assert drift_of(make_pool_of(), make_worker("a", **worker), catalog) == expected


@pytest.mark.parametrize(
    ("reason", "catalog", "expected"),
    [
        pytest.param("NodeClassDrifted", CATALOG, "NodeClassDrifted", id="the-provider-says-so"),
        pytest.param("NodePoolDrifted", CATALOG, None, id="what-is-no-longer-true"),
        pytest.param("InstanceTypeNotFound", CATALOG, None, id="the-type-is-offered-again"),
        pytest.param("InstanceTypeNotFound", None, "InstanceTypeNotFound", id="which-nobody-can-say"),
    ],
)
def test_the_condition(reason, catalog, expected):
    assert drift_of(make_pool_of(), make_worker("a", conditions=drifted(reason=reason)), catalog) == expected


def test_the_first_check_that_fails_counts():
    pool = make_pool_of("general", make_requirement(ARCH, "In", "arm64"), digest="two")
    assert drift_of(pool, make_worker("a", claim=hashed(), conditions=drifted())) == "NodePoolDrifted"


def test_a_claim_that_is_not_launched_has_not_drifted():
    node, claim = make_worker("a", claim=hashed())
    claim["status"]["conditions"][0]["status"] = "False"
    assert drift_of(make_pool_of(digest="two"), (node, claim)) is None


def decided(*documents, catalog=CATALOG):
    return decide(make_cluster(*documents), catalog, NOW)


def kept(decision):
    return [each for each in decision.held if each.wanted == "Drifted"]


def old(name, hours=1, **more):
    return make_worker(name, conditions=drifted(timedelta(hours=hours)), **more)


def busy(node, cores="1", **more):
    return make_pod(f"on-{node}", node, needs={"cpu": cores}, **more)


def quiet(**more):
    """Make a pool in which only drift happens."""
    return make_pool_of(after="Never", **more)


def test_the_oldest_goes_first_and_one_at_a_time():
    found = decided(quiet(), old("a", 1), old("b", 3), old("c", 2), busy("a"), busy("b"), busy("c"))
    assert [each.nodes for each in found.commands] == [("b",)]
    assert found.command.validate_after == timedelta(), "drift waits for no validation"
    assert found.command.reason == "Drifted"


def test_empty_nodes_come_before_others():
    found = decided(quiet(), old("a", 1), old("b", 3), busy("b"))
    assert found.command.nodes == ("a",)
    assert found.command.decided == "delete"


def test_a_node_whose_pods_fit_nowhere_does_not_use_up_the_budget():
    pool = quiet(budgets=[{"nodes": "1"}])
    found = decided(pool, old("a", 3), old("b", 2), make_worker("c"), busy("a", "9"), busy("b"))
    assert (found.command.nodes, found.command.moves) == (("b",), {"shop/on-b": "c"})
    assert [(each.node, each.reason) for each in kept(found)] == [("a", "PodsWithoutPlace")]


def test_a_pod_that_is_free_to_evict_makes_a_node_no_emptier():
    free = {"karpenter.sh/disruption-cost": "-134217728"}
    found = decided(quiet(), old("a", 1), old("b", 3), busy("a", annotations=free), busy("b"))
    assert found.command.nodes == ("b",)


def test_pods_go_to_nodes_that_are_there_before_new_ones_are_made():
    found = decided(quiet(), old("a"), make_worker("b"), busy("a"))
    assert (found.command.moves, found.command.decided) == ({"shop/on-a": "b"}, "delete")


def test_the_price_of_the_replacements_is_no_matter():
    found = decided(quiet(), old("a", kind="small"), busy("a", "3"))
    assert [each.name for node in found.command.replacements for each in node.types] == ["large"]
    assert found.command.savings == pytest.approx(-0.7)


def test_several_replacements_are_fine():
    apart = [make_pod(f"p{number}", "a", needs={"cpu": "3"}) for number in range(2)]
    found = decided(quiet(), old("a", cores=8), *apart)
    assert len(found.command.replacements) == 2
    assert sorted(set(found.command.moves.values())) == [node.name for node in found.command.replacements]


def test_a_node_whose_pods_find_no_place_is_blocked_and_the_next_goes():
    found = decided(quiet(), old("a", 5, cores=16), old("b"), busy("a", "9"), busy("b"))
    assert found.command.nodes == ("b",)
    (held,) = kept(found)
    assert (held.node, held.reason, held.event) == ("a", "PodsWithoutPlace", "DisruptionBlocked")
    assert "shop/on-a: 0/1 nodes are available" in held.message


def test_a_pool_without_budget_is_skipped():
    found = decided(
        quiet(budgets=[{"nodes": "0"}]),
        make_pool_of("other", after="Never"),
        old("a", 5),
        old("b", pool="other"),
        busy("a"),
        busy("b"),
    )
    assert found.command.nodes == ("b",)
    assert [(each.node, each.reason) for each in kept(found)] == [("a", "Budget")]


def test_works_without_a_catalog():
    """Test 10 of 5.3 asks only for the pool; what a new node is, nobody can say (5.1)."""
    found = decided(quiet(), old("a"), busy("a"), catalog=None)
    (replacement,) = found.command.replacements
    assert (replacement.pool, replacement.types) == ("general", ())
    assert found.command.moves == {"shop/on-a": replacement.name}
    assert found.command.savings == 0


def test_without_a_catalog_only_what_finds_no_place_goes_to_a_new_node():
    other = make_pod("small-on-a", "a", needs={"cpu": "1"})
    found = decided(quiet(), old("a"), make_worker("b"), busy("a", "3"), other, busy("b", "2"), catalog=None)
    assert found.command.moves == {"shop/on-a": "general/new-1", "shop/small-on-a": "b"}


@pytest.mark.parametrize(
    ("spec", "moves"),
    [
        pytest.param({"maxUnavailable": 0}, {}, id="none-may-be-unavailable"),
        pytest.param({"maxUnavailable": "0%"}, {}, id="no-share-may-be-unavailable"),
        pytest.param({"minAvailable": "100%"}, {}, id="all-must-be-available"),
        pytest.param({"minAvailable": 1}, {"shop/on-a": "b"}, id="others-may-let-it-go-later"),
    ],
)
def test_no_place_is_sought_for_pods_that_will_not_be_evicted(spec, moves):
    """The rule of 5.4 on simulations; with a terminationGracePeriod such a pod does not block (5.2)."""
    guard = {
        "kind": "PodDisruptionBudget",
        "metadata": {"name": "g", "namespace": "shop"},
        "spec": {"selector": {}, **spec},
    }
    found = decided(quiet(), old("a", terminationGracePeriod="1h"), make_worker("b"), busy("a"), guard)
    assert found.command.nodes == ("a",)
    assert found.command.moves == moves


def test_nor_for_pods_that_say_do_not_disrupt():
    pod = busy("a", annotations={"karpenter.sh/do-not-disrupt": "true"})
    found = decided(quiet(), old("a", terminationGracePeriod="1h"), make_worker("b"), pod)
    assert (found.command.nodes, found.command.moves) == (("a",), {})


def test_a_node_that_is_not_initialized_is_no_place():
    found = decided(quiet(), old("a"), make_worker("b", without=["karpenter.sh/initialized"]), busy("a"))
    assert not found.commands
    assert "would be scheduled to node b, which is not initialized yet" in kept(found)[0].message


@pytest.mark.parametrize("catalog", [CATALOG, None])
def test_pods_of_nodes_that_are_going_already_are_planned_with_the_others(catalog):
    documents = [quiet(), old("a"), make_worker("b"), make_worker("c", deleting=NOW)]
    found = decided(*documents, busy("a", "3"), busy("c", "3"), catalog=catalog).command
    assert found.moves == {"shop/on-a": "b"}
    assert [[pod.name for pod in node.pods] for node in found.replacements] == [["on-c"]]


def test_young_nodes_of_a_strange_type_are_looked_at_later():
    found = decided(quiet(), make_worker("a", kind="huge", created=NOW), busy("a"))
    assert found.next_at == NOW + timedelta(hours=1)
