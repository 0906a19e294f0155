"""What holds for every simulation, whatever the cluster."""

from collections import Counter
from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scorer.node_budgets.budgets import NodeCounts, allowance
from scorer.node_disruption.methods.planner import PlannerOptions
from scorer.node_disruption.simulation.document import document_of
from scorer.node_disruption.simulation.simulator import simulate
from scorer.node_disruption.simulation.timeline import SimulationAssumptions
from tests.builders.pod import make_pod
from tests.builders.random_cluster import KINDS, PRICES, ZONES, clusters
from tests.builders.worker import NOW, make_catalog, make_cluster, make_pool_of, make_worker

CATALOG = make_catalog(PRICES, cores=KINDS, zones=ZONES, capacity=("on-demand", "spot"))
SMALL_ONLY = make_catalog({"small": 1.0}, cores=KINDS)
CATALOGS = st.sampled_from([CATALOG, CATALOG, None])
SETTINGS = st.builds(PlannerOptions, spot_to_spot=st.booleans(), graceful_expiration=st.booleans())
LENGTHS = st.integers(1, 60).map(lambda hours: timedelta(hours=hours))
DAY = timedelta(days=1)
ASSUMPTIONS = SimulationAssumptions(most_happenings=150, most_looks=600)


def played(documents, catalog, length=2 * DAY, settings=None):
    return simulate(make_cluster(documents), catalog, NOW, length, settings or PlannerOptions(), ASSUMPTIONS)


@given(clusters(), CATALOGS, SETTINGS, st.data())
def test_the_order_of_the_documents_does_not_matter(documents, catalog, settings, data):
    shuffled = data.draw(st.permutations(documents))
    assert played(documents, catalog, DAY, settings) == played(shuffled, catalog, DAY, settings)


@given(clusters(), CATALOGS, LENGTHS, LENGTHS)
def test_more_time_only_adds_at_the_end(documents, catalog, one, other):
    """What has ended by then is the same; a stretch that is open in the shorter one goes on in the longer."""
    short, long = (played(documents, catalog, each) for each in sorted((one, other)))
    if short.stopped:
        return
    for name in ("happenings", "removals", "launches"):
        assert getattr(long, name)[: len(getattr(short, name))] == getattr(short, name)
        assert all(each.at >= short.end for each in getattr(long, name)[len(getattr(short, name)) :])
    known = [each for each in long.blocked if each.since < short.end]
    assert [(each.node, each.wanted, each.since) for each in short.blocked if each.until] == [
        (each.node, each.wanted, each.since) for each in known if each.until and each.until < short.end
    ]


def check_budgets(found, cluster):
    """Counted anew from what the simulation tells: when nodes began to go, were gone, and came."""
    gone = {each.node: each.at for each in found.removals}
    ready = {each.node: (each.pool, each.ready) for each in found.launches}
    for name, node in cluster.nodes.items():  # one that is still starting in the dump comes up, as a launched one does
        if node.node is not None and node.claim is not None and not node.node.initialized and not node.node.disrupting:
            ready[name] = node.pool, found.start + ASSUMPTIONS.launch
    begun = set()
    for happening in found.happenings:
        begun |= set(happening.nodes)
        if happening.limit is None or happening.reason not in ("Empty", "Drifted", "Underutilized"):
            continue
        at, pool = happening.at, happening.pool
        own = {name for name, node in cluster.nodes.items() if node.pool == pool and node.node.counts}
        own |= {name for name, (of, since) in ready.items() if of == pool and since <= at}
        present = {name for name in own if gone.get(name, at + DAY) > at}
        going = present & begun
        counts = NodeCounts(len(present), len(going))
        limit = allowance(cluster.pools[pool].budgets, counts, happening.reason, at).limit
        assert len(going) <= limit, "a budget is exceeded"
        assert happening.disrupting <= happening.limit


def check_nodes(found, cluster):
    """A node is there, or it has gone after it had begun to go."""
    going = [name for each in found.happenings for name in each.nodes]
    assert len(going) == len(set(going)), "a node goes twice"
    assert {each.node for each in found.removals} <= set(going)
    changes = Counter(node.pool for node in cluster.nodes.values())
    changes.update(each.pool for each in found.launches)
    changes.subtract(each.pool for each in found.removals)
    assert {each.pool: each.nodes_after for each in found.pools} == {name: changes[name] for name in cluster.pools}


def check_replicas(found, cluster):
    """At the end, those that have not begun to go are as many as the pool should have."""
    going = {name for each in found.happenings for name in each.nodes}
    pools = [(name, node.pool) for name, node in cluster.nodes.items()] + [(x.node, x.pool) for x in found.launches]
    for name, pool in cluster.pools.items():
        if pool.replicas is not None and not found.stopped:
            assert sum(of == name and node not in going for node, of in pools) == pool.replicas


def check_times(found):
    for listed in (found.happenings, found.removals, found.launches):
        times = [each.at for each in listed]
        assert times == sorted(times)
        assert all(NOW <= each <= found.end for each in times)
    assert all(each.until is None or each.since < each.until for each in found.blocked)


def check_document(found):
    document = document_of(found)
    assert sum(len(each["happenings"]) for each in document["pools"]) == len(found.happenings)
    assert sum(len(each["blocked"]) for each in document["pools"]) == len(found.blocked)


@given(clusters(), CATALOGS, SETTINGS)
def test_every_simulation_keeps_the_rules(documents, catalog, settings):
    found, cluster = played(documents, catalog, settings=settings), make_cluster(documents)
    check_budgets(found, cluster)
    check_nodes(found, cluster)
    if catalog is not None:  # without instance types, an empty static pool has no node to imitate
        check_replicas(found, cluster)
    check_times(found)
    check_document(found)


@given(st.integers(1, 6), st.sampled_from(["0s", "1h", "Never"]))
def test_a_pool_without_anything_to_do_yields_nothing(number, after):
    """Full nodes that live for ever."""
    workers = [make_worker(f"n{index}", "small", cores=2) for index in range(number)]
    pods = [make_pod(f"p{index}", f"n{index}", needs={"cpu": "2"}, owner="ReplicaSet") for index in range(number)]
    found = played([make_pool_of(after=after), *(each for worker in workers for each in worker), *pods], SMALL_ONLY)
    assert (found.happenings, found.removals, found.launches, found.blocked) == ((), (), (), ())


@given(clusters(), SETTINGS)
def test_what_is_saved_is_what_is_no_longer_spent(documents, settings):
    """The nodes that have not begun to go cost as much less as all happenings save together, new ones included."""
    found = played(documents, CATALOG, settings=settings)
    going = {name for each in found.happenings for name in each.nodes}
    nodes = make_cluster(documents).nodes
    before = {
        name: CATALOG.price_of(node.instance_type, node.zone, node.capacity_type) or 0.0 for name, node in nodes.items()
    }
    made = {each.node: each.price or 0.0 for each in found.launches}
    left = sum(price for name, price in (before | made).items() if name not in going)
    saved = sum(each.savings or 0.0 for each in found.happenings)
    assert left == pytest.approx(sum(before.values()) - saved)
