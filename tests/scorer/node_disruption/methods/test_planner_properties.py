"""What holds for every decision of the planner, whatever the cluster."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scorer.node_budgets.blockers import DisruptionClass
from scorer.node_budgets.budgets import allowance
from scorer.node_disruption.cluster.requirements_drift import requirements_drift
from scorer.node_disruption.methods.command import Method
from scorer.node_disruption.methods.planner import PlannerOptions, decide, pool_views, validate
from scorer.node_disruption.methods.validation import ValidationFailure
from tests.builders.node import HOST, ZONE
from tests.builders.random_cluster import KINDS, PRICES, ZONES, clusters
from tests.builders.worker import CAPACITY, NOW, TYPE, make_catalog, make_cluster

CATALOG = make_catalog(PRICES, cores=KINDS, zones=ZONES, capacity=("on-demand", "spot"))
CATALOGS = st.sampled_from([CATALOG, CATALOG, None])
SETTINGS = st.builds(PlannerOptions, spot_to_spot=st.booleans(), graceful_expiration=st.booleans())
CONSOLIDATIONS = (Method.MULTI_NODE, Method.SINGLE_NODE)


@given(clusters(), CATALOGS, st.data())
def test_the_order_of_the_documents_does_not_matter(documents, catalog, data):
    shuffled = data.draw(st.permutations(documents))
    assert decide(make_cluster(documents), catalog, NOW) == decide(make_cluster(shuffled), catalog, NOW)


@given(clusters(), CATALOGS, SETTINGS)
def test_no_more_nodes_of_a_pool_go_than_its_budgets_let(documents, catalog, settings):
    cluster = make_cluster(documents)
    found = decide(cluster, catalog, NOW, settings)
    views = pool_views(cluster, settings)
    for name, view in views.items():
        own = [node for node in found.expired if cluster.nodes[node].pool == name]
        going = [node for each in found.commands for node in each.nodes if cluster.nodes[node].pool == name]
        if found.command and going:
            counts = view.with_held(own).counts()
            assert len(going) <= allowance(view.budgets, counts, found.command.reason, NOW).remaining


@given(clusters(), CATALOGS, SETTINGS)
def test_no_command_touches_a_node_that_is_held(documents, catalog, settings):
    found = decide(make_cluster(documents), catalog, NOW, settings)
    for command in found.commands:
        drift = command.method in (Method.DRIFT, Method.STATIC_DRIFT)
        for node in command.nodes:
            assert not found.nodes[node].blockers_for(DisruptionClass.EVENTUAL if drift else DisruptionClass.GRACEFUL)
    going = {node for each in found.commands for node in each.nodes}
    assert len(going) == sum(len(each.nodes) for each in found.commands)
    assert not going & {each.node for each in found.held}
    assert not going & set(found.expired)


@given(clusters(), CATALOGS)
def test_every_pod_of_a_node_that_goes_has_a_place_with_room(documents, catalog):
    cluster = make_cluster(documents)
    found = decide(cluster, catalog, NOW)
    command = found.command
    if command is None or command.method in (Method.EMPTINESS, Method.STATIC_DRIFT):
        return
    leaving = {*command.nodes, *found.expired}
    pods = [pod for node in command.nodes for pod in found.nodes[node].reschedulable]
    protected = {pod.key for pod in pods if pod.held.is_protected(NOW)}
    assert set(command.moves) == {pod.key for pod in pods} - protected
    new = {node.name: node for node in command.replacements}
    for target in set(command.moves.values()):
        coming = sum(pod.requests["cpu"] for pod in pods if command.moves.get(pod.key) == target)
        if target in new:
            assert all(coming <= kind.allocatable["cpu"] for kind in new[target].types)
            continue
        assert target not in leaving
        assert cluster.nodes[target].initialized
        assert not cluster.nodes[target].node.disrupting
        there = sum(pod.requests.get("cpu", 0) for pod in cluster.pods.get(target, ()))
        assert there + coming <= cluster.nodes[target].allocatable["cpu"]
    if command.decided == "delete":
        assert not new


@given(clusters(), SETTINGS)
def test_a_replacement_is_cheaper_than_what_goes(documents, settings):
    found = decide(make_cluster(documents), CATALOG, NOW, settings)
    command = found.command
    if command is None or command.method not in CONSOLIDATIONS:
        return
    price = sum(found.nodes[node].price for node in command.nodes)
    assert command.savings > 0
    assert len(command.replacements) <= 1
    for node in command.replacements:
        assert node.types
        assert all(kind.worst_launch_price(node.requirements) < price for kind in node.types)
        assert command.savings == pytest.approx(price - node.types[0].cheapest(node.requirements))


@given(clusters(), CATALOGS, SETTINGS)
def test_the_next_look_is_in_the_future(documents, catalog, settings):
    found = decide(make_cluster(documents), catalog, NOW, settings)
    assert found.next_at is None or found.next_at > NOW
    for each in found.held:
        assert each.reason
        assert each.message
        assert each.until is None or each.until > NOW
        assert each.until is None or (found.next_at is not None and found.next_at <= each.until)


@given(clusters(), CATALOGS)
def test_a_command_is_valid_as_long_as_nothing_changes(documents, catalog):
    cluster = make_cluster(documents)
    for command in decide(cluster, catalog, NOW).commands:
        found = validate(command, cluster, catalog, NOW)
        assert not isinstance(found, ValidationFailure), found
        assert (found.nodes, found.replacements, found.moves) == (command.nodes, command.replacements, command.moves)


@given(clusters())
def test_moved_pods_are_spread_evenly_over_hosts_and_zones(documents):
    """Counted with all pods that stay, also on nodes that go, and with zones that only new nodes would be in."""
    cluster = make_cluster(documents)
    found = decide(cluster, CATALOG, NOW)
    command = found.command
    if command is None or command.method not in (Method.DRIFT, *CONSOLIDATIONS):
        return
    new = [(node.name, node.values(ZONE), node.pods) for node in command.replacements]
    old = [(name, (node.zone,), cluster.pods.get(name, ())) for name, node in cluster.nodes.items()]
    leaving = {*command.nodes, *found.expired, *(name for name, node in cluster.nodes.items() if node.node.disrupting)}
    pods = {
        pod.key: (pod, host, zones)
        for host, zones, several in (*old, *new)
        for pod in several
        if pod.active and not (pod.reschedulable and host in leaving)
    }
    places = {host: zones for host, zones, _ in (*old, *new)}
    moved = [(pod, command.moves[pod.key]) for name in command.nodes for pod in found.nodes[name].reschedulable]
    pods |= {pod.key: (pod, host, places[host]) for pod, host in moved}
    for pod, host in moved:
        for spread in pod.shape.spreads:
            alike = [each for each in pods.values() if each[0].labels["app"] == pod.labels["app"]]
            if spread.topology_key == HOST:
                assert sum(each[1] == host for each in alike) <= spread.max_skew
            elif len(places[host]) == 1:
                counts = {zone: sum(each[2] == (zone,) for each in alike) for zone in ZONES}
                assert counts[places[host][0]] <= spread.max_skew + min(counts.values())


@given(clusters())
def test_a_static_node_is_replaced_by_what_its_pool_requires(documents):
    cluster = make_cluster(documents)
    for command in decide(cluster, CATALOG, NOW).commands:
        if command.method is Method.STATIC_DRIFT:
            (node,) = command.replacements
            requirements = cluster.pools[node.pool].model.spec.template.spec.requirements
            for kind in node.types:
                labels = {TYPE: kind.name, CAPACITY: min(kind.capacity_types)}
                assert requirements_drift(requirements, labels) is None


@given(clusters(), CATALOGS)
def test_nodes_that_were_tried_use_up_no_budget_of_drift(documents, catalog):
    cluster = make_cluster(documents)
    found = decide(cluster, catalog, NOW)
    views = pool_views(cluster, PlannerOptions())
    for each in found.held:
        pool = cluster.nodes[each.node].pool
        if (each.wanted, each.reason) == ("Drifted", "Budget") and cluster.pools[pool].replicas is None:
            counts = (
                views[pool].with_held([name for name in found.expired if cluster.nodes[name].pool == pool]).counts()
            )
            assert not allowance(views[pool].budgets, counts, "Drifted", NOW).remaining


@given(clusters(), CATALOGS)
def test_no_pods_are_moved_while_no_pool_is_ready(documents, catalog):
    cluster = make_cluster(documents)
    found = decide(cluster, catalog, NOW)
    if any(pool.replicas is None and pool.ready for pool in cluster.pools.values()):
        return
    assert all(each.method in (Method.EMPTINESS, Method.STATIC_DRIFT) for each in found.commands)


@given(clusters())
def test_without_a_catalog_nothing_is_consolidated(documents):
    assert all(each.method not in CONSOLIDATIONS for each in decide(make_cluster(documents), None, NOW).commands)
