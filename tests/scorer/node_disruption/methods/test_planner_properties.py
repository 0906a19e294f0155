"""What holds for every decision of the planner, whatever the cluster."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scorer.node_budgets.blockers import DisruptionClass
from scorer.node_budgets.budgets import allowance
from scorer.node_disruption.methods.command import Method
from scorer.node_disruption.methods.planner import PlannerOptions, decide, pool_views, validate
from scorer.node_disruption.methods.validation import ValidationFailure
from tests.builders.random_cluster import KINDS, PRICES, clusters
from tests.builders.worker import NOW, make_catalog, make_cluster

CATALOG = make_catalog(PRICES, cores=KINDS, capacity=("on-demand", "spot"))
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
def test_without_a_catalog_nothing_is_consolidated(documents):
    assert all(each.method not in CONSOLIDATIONS for each in decide(make_cluster(documents), None, NOW).commands)
