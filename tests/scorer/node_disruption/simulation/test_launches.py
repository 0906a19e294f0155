"""What becomes of a node that was planned."""

from datetime import timedelta

import pytest

from scorer.node_disruption.cluster.requirements import one_of
from scorer.node_disruption.cluster.requirements_drift import requirements_drift
from scorer.node_disruption.instance_types.catalog import InstanceTypeCatalog
from scorer.node_disruption.instance_types.new_node import NewNode, pool_template, templates
from scorer.node_disruption.instance_types.price_table import read_instance_types
from scorer.node_disruption.methods.drift import detect_drift
from scorer.node_disruption.methods.planner import decide
from scorer.node_disruption.simulation.launches import (
    choose_offering,
    daemons_on,
    initialize_node,
    launch_node,
    launched_like,
    seen_types,
)
from tests.builders.node import make_requirement
from tests.builders.pod import make_pod
from tests.builders.worker import CAPACITY, NOW, POOL, TYPE, make_catalog, make_cluster, make_pool_of, make_worker

CATALOG = make_catalog({"large": 1.0, "small": 0.3}, zones=("z1", "z2"), capacity=("on-demand", "spot"))
LATER = NOW + timedelta(seconds=90)


def planned(*requirements, catalog=CATALOG, **pool):
    cluster = make_cluster(make_pool_of("general", *requirements, **pool))
    (template,) = templates(cluster, catalog.types)
    return cluster.pools["general"], template


@pytest.mark.parametrize(
    ("capacity", "found"),
    [
        pytest.param(("on-demand", "spot"), ("small", "z1", "spot"), id="spot-before-on-demand"),
        pytest.param(("on-demand",), ("small", "z1", "on-demand"), id="the-cheapest"),
    ],
)
def test_the_cheapest_offering_is_taken(capacity, found):
    _, template = planned(make_requirement(CAPACITY, "In", *capacity))
    kind, offering = choose_offering(template)
    assert (kind.name, offering.zone, offering.capacity_type) == found


def test_what_can_be_nothing_is_nothing():
    assert choose_offering(NewNode("general", ())) is None


def test_a_new_node_is_what_its_pool_asks_for():
    """Of every label it has some value that is allowed, so that it has not drifted from the start."""
    requirements = [
        make_requirement(CAPACITY, "In", "on-demand"),
        make_requirement("team", "In", "red", "blue"),
        make_requirement("generation", "Gt", "4"),
        make_requirement("anything", "Exists"),
        make_requirement("nothing", "DoesNotExist"),
        make_requirement("not-that", "NotIn", "that"),
    ]
    pool, template = planned(*requirements, template={"labels": {"tier": "1"}}, digest="7")
    node = launch_node(template, "general-new-1", pool, NOW)
    assert requirements_drift(pool.model.spec.template.spec.requirements, node.claim.labels) is None
    assert node.labels | {"team": "blue", "generation": "5", "tier": "1", TYPE: "small"} == node.labels
    assert node.claim.annotations["karpenter.sh/nodepool-hash"] == "7"
    assert (node.pool, node.initialized, node.created) == ("general", False, NOW)
    ready = initialize_node(node, LATER)
    assert (ready.initialized, ready.node.ready, ready.claim.initialized_since) == (True, True, LATER)


def test_its_claim_has_what_the_template_says():
    pool = make_pool_of()
    pool["spec"]["template"]["spec"] |= {"expireAfter": "24h", "terminationGracePeriod": "1h"}
    cluster = make_cluster(pool)
    (template,) = templates(cluster, CATALOG.types)
    node = launch_node(template, "x", cluster.pools["general"], NOW)
    assert (node.claim.expire_after, node.claim.termination_grace) == (timedelta(hours=24), timedelta(hours=1))
    assert node.node.grace_bounded


def test_where_nothing_is_known_it_is_like_the_old_one():
    cluster = make_cluster(make_pool_of(), make_worker("old", taints=[{"key": "a", "effect": "NoSchedule"}]))
    node = launched_like(cluster.nodes["old"], NewNode("general", ()), "new", cluster.pools["general"], NOW)
    assert (node.name, node.instance_type, node.taints, node.initialized) == ("new", "large", (), False)
    assert node.labels["kubernetes.io/hostname"] == "new"


def test_it_has_the_labels_and_taints_that_its_pool_asks_for_now():
    """Else it would have drifted as soon as it is there."""
    pool = make_pool_of(
        POOL,
        make_requirement(TYPE, "In", "small"),
        make_requirement("team", "Exists"),
        make_requirement("old", "DoesNotExist"),
        taints=[{"key": "a", "effect": "NoSchedule"}],
    )
    cluster = make_cluster(pool, make_worker("old", labels={"old": "yes"}))
    planned = pool_template(cluster.pools[POOL], ())
    node = launched_like(cluster.nodes["old"], planned, "new", cluster.pools[POOL], NOW)
    assert (node.instance_type, node.labels[TYPE], node.zone, node.labels["team"]) == ("small", "small", "z1", "any")
    assert "old" not in node.labels
    assert [each.key for each in node.taints] == ["a"]
    assert detect_drift(node.claim, cluster.pools[POOL], None, NOW) is None


def test_types_are_seen_on_nodes():
    """The least that nodes of one type have counts; nodes of no pool do not."""
    cluster = make_cluster(
        make_pool_of(),
        make_worker("a", zone="z1", cores=4),
        make_worker("b", zone="z2", cores=3.5),
        make_worker("c", "other", pool="", cores=9),
    )
    (kind,) = seen_types(cluster.nodes.values())
    assert (kind.name, kind.allocatable["cpu"]) == ("large", 3500)
    assert [(each.zone, each.capacity_type) for each in kind.offerings] == [("z1", "on-demand"), ("z2", "on-demand")]


def test_types_have_the_labels_of_the_provider_that_their_nodes_have():
    family, claimed = "karpenter.azure.com/sku-family", "karpenter.azure.com/claimed"
    cluster = make_cluster(
        make_pool_of(),
        make_worker("a", labels={family: "D", claimed: "1", "team": "x"}),
        make_worker("b", labels={family: "D", claimed: "2", "team": "x"}),
    )
    (kind,) = seen_types(cluster.nodes.values())
    assert (kind.labels.get(family), claimed in kind.labels, "team" in kind.labels) == ("D", False, False)


def test_daemons_run_where_they_may():
    cluster = make_cluster(
        make_pool_of(),
        make_worker("a"),
        make_pod("everywhere", "a", owner="DaemonSet"),
        {
            "kind": "DaemonSet",
            "metadata": {"name": "elsewhere", "namespace": "shop", "uid": "2"},
            "spec": {"template": {"spec": {"nodeSelector": {"x": "y"}, "containers": []}}},
        },
    )
    (template,) = templates(cluster, CATALOG.types)
    node = launch_node(template, "new", cluster.pools["general"], NOW)
    assert [(each.name, each.node) for each in daemons_on(node, cluster, NOW)] == [("everywhere-new", "new")]


def test_daemons_do_not_run_on_nodes_whose_taints_they_do_not_tolerate():
    cluster = make_cluster(
        make_pool_of(taints=[{"key": "team", "effect": "NoSchedule"}]),
        make_worker("a"),
        make_pod("d", "a", owner="DaemonSet"),
    )
    (template,) = templates(cluster, CATALOG.types)
    node = launch_node(template, "new", cluster.pools["general"], NOW)
    assert list(daemons_on(node, cluster, NOW)) == []


def test_a_planned_zone_is_kept():
    pool, template = planned()
    narrowed = template.narrow(template.requirements | {"topology.kubernetes.io/zone": one_of("z2")})
    assert launch_node(narrowed, "x", pool, NOW).zone == "z2"


def test_a_new_node_is_no_candidate_of_drift():
    """Played once more, the planner finds nothing to do with it."""
    types = InstanceTypeCatalog(
        read_instance_types([{"name": "large", "cpu": 4, "memory": "16Gi", "zone": "z1", "price": 1}])
    )
    cluster = make_cluster(make_pool_of("general", make_requirement("team", "In", "a", "b"), digest="7"))
    (template,) = templates(cluster, types.types)
    node = initialize_node(launch_node(template, "x", cluster.pools["general"], NOW), NOW)
    full = make_cluster(make_pod("p", "x", needs={"cpu": "4"}))
    found = decide(
        type(cluster)(pools=cluster.pools, nodes={"x": node}, pods=full.pods), types, NOW + timedelta(hours=2)
    )
    assert (found.commands, found.drifted) == ((), {})
