"""A cluster with other pools: who drifts then."""

from datetime import timedelta

import pytest

from scorer.node_disruption.cluster.snapshot import HASH, HASH_VERSION, read_pool
from scorer.node_disruption.cluster.template_hash import with_pools
from scorer.node_disruption.simulation.simulator import simulate
from tests.builders.node import make_requirement
from tests.builders.pod import make_pod
from tests.builders.worker import NOW, make_catalog, make_cluster, make_pool_of, make_worker

CATALOG = make_catalog({"large": 1.0})
MARKED = {HASH: "7", HASH_VERSION: "v3"}


def reasons(cluster):
    found = simulate(cluster, CATALOG, NOW, timedelta(hours=1))
    return [(each.reason, each.nodes) for each in found.happenings]


@pytest.mark.parametrize("digest", ["", "7"])
@pytest.mark.parametrize(
    ("changes", "drifts"),
    [
        pytest.param({"template": {"labels": {"team": "blue"}}}, True, id="template"),
        pytest.param({"budgets": [{"nodes": "3"}]}, False, id="budgets"),
        pytest.param({"weight": 3}, False, id="weight"),
        pytest.param({"template": {"labels": {}}}, False, id="nothing-written-out"),
    ],
)
def test_a_changed_template_makes_nodes_drift(digest, changes, drifts):
    """Whether or not a controller has written digests (3.1)."""
    worker = make_worker("n0", claim=MARKED if digest else {})
    cluster = make_cluster(make_pool_of(digest=digest), worker, make_pod("p", "n0", needs={"cpu": "4"}))
    changed = with_pools(cluster, [read_pool(make_pool_of(**changes))])
    assert reasons(cluster) == []
    assert reasons(changed) == ([("Drifted", ("n0",))] if drifts else [])


def test_changed_requirements_make_nodes_drift():
    cluster = make_cluster(make_pool_of(), make_worker("n0"), make_pod("p", "n0", needs={"cpu": "4"}))
    pool = make_pool_of("general", make_requirement("team", "In", "blue"))
    assert reasons(with_pools(cluster, [read_pool(pool)])) == [("Drifted", ("n0",))]


def test_a_pool_that_is_not_there_comes_without_nodes():
    cluster = make_cluster(make_pool_of())
    changed = with_pools(cluster, [read_pool(make_pool_of("other"))])
    assert sorted(changed.pools) == ["general", "other"]
