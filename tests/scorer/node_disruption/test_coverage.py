"""A table of instance types that lacks what nodes are is told."""

from scorer.node_disruption.coverage import lacking
from tests.builders.worker import make_catalog, make_cluster, make_pool_of, make_worker


def test_what_nodes_are_and_the_table_lacks_is_named():
    cluster = make_cluster(make_pool_of(), make_worker("a"), make_worker("b", "odd"), make_worker("c", "odd", pool="x"))
    assert lacking(make_catalog({"large": 1.0, "odd": 1.0}), cluster) == ""
    found = lacking(make_catalog({"large": 1.0}), cluster)
    assert found.endswith("they lack what nodes are: odd in z1 as on-demand (1 nodes)")
