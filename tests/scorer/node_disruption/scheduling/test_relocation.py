"""Where the pods of nodes go when the nodes go: nodepool-disruption.md 5.4, 5.6 and 6.3."""

import pytest

from scorer.node_disruption.methods.context import survey
from scorer.node_disruption.methods.planner import PlannerOptions, pool_views
from tests.builders.pod import make_pod
from tests.builders.worker import NOW, make_catalog, make_cluster, make_pool_of, make_worker

CATALOG = make_catalog({"large": 1.0})


def relocated(*documents, names=("a",), consolidating=True, catalog=None):
    cluster = make_cluster(make_pool_of(after="1h"), *documents)
    looked = survey(cluster, catalog, NOW, PlannerOptions(), pool_views(cluster, PlannerOptions()))
    return looked.relocations.relocate([looked.nodes[name] for name in names], is_consolidation=consolidating)


def pod(name, node, cores, **more):
    return make_pod(name, node, needs={"cpu": cores}, **more)


@pytest.mark.parametrize("names", [("a", "b"), ("b", "a")])
def test_the_largest_pods_of_all_nodes_come_first(names):
    """In the order of their names there would be no place for the last one."""
    pods = pod("1", "a", "500m"), pod("2", "b", "500m"), pod("3", "a", "1"), pod("4", "b", "1500m")
    free = make_worker("c", cores=1.5), make_worker("d", cores=1), make_worker("e", cores=1)
    found = relocated(make_worker("a"), make_worker("b"), *pods, *free, names=names)
    assert found.moves == {"shop/4": "c", "shop/3": "d", "shop/1": "e", "shop/2": "e"}
    assert dict(found.left) == {}


def test_the_largest_pods_of_one_node_come_first():
    free = make_worker("c", cores=1.5), make_worker("d", cores=0.5)
    found = relocated(make_worker("a"), pod("1", "a", "500m"), pod("2", "a", "1500m"), *free)
    assert found.moves == {"shop/2": "c", "shop/1": "d"}


def test_the_pod_of_a_daemon_set_needs_no_place():
    worker, daemon = make_worker("a"), pod("daemon", "a", "2", owner="DaemonSet")
    found = relocated(worker, daemon, pod("web", "a", "500m"), make_worker("b", cores=0.5))
    assert (found.moves, dict(found.left)) == ({"shop/web": "b"}, {})


@pytest.mark.parametrize("consolidating", [True, False])
def test_only_consolidation_leaves_nodes_alone_that_have_not_been_quiet(consolidating):
    """A drifted node goes in any case."""
    young = make_worker("b", last_pod_event=NOW)
    found = relocated(make_worker("a"), pod("web", "a", "1"), young, consolidating=consolidating)
    assert found.moves == ({} if consolidating else {"shop/web": "b"})
    assert list(found.left) == (["shop/web"] if consolidating else [])


def test_a_pod_of_a_node_that_is_going_and_finds_no_place_is_told():
    going = make_worker("x", cores=16, deleting=NOW), pod("huge", "x", "16")
    found = relocated(
        make_worker("a"), pod("web", "a", "1"), pod("wide", "a", "3"), make_worker("b", cores=1), going, catalog=CATALOG
    )
    assert found.moves == {"shop/wide": "general/new-1", "shop/web": "b"}
    assert list(found.left) == ["shop/huge"]
    assert all("Insufficient cpu" in why for why in found.left.values())
    with pytest.raises(KeyError):
        found.left["shop/web"]
