"""A table of instance types that lacks what nodes are is told."""

from scorer.node_disruption.instance_types.catalog import missing_types_message, unlabelled
from tests.builders.node import make_requirement
from tests.builders.worker import make_catalog, make_cluster, make_pool_of, make_worker


def test_what_nodes_are_and_the_table_lacks_is_named():
    cluster = make_cluster(make_pool_of(), make_worker("a"), make_worker("b", "odd"), make_worker("c", "odd", pool="x"))
    assert missing_types_message(make_catalog({"large": 1.0, "odd": 1.0}), cluster) == ""
    found = missing_types_message(make_catalog({"large": 1.0}), cluster)
    assert found.endswith("they lack types of existing nodes: odd in z1 as on-demand (1 node)")


def test_labels_of_a_provider_that_no_type_has_are_named():
    """Else nobody would see that types are taken that the pool does not want."""
    asked = [make_requirement(key, "Exists") for key in ("karpenter.azure.com/sku-family", "team", "karpenter.sh/x")]
    pools = make_cluster(make_pool_of("general", *asked)).pools.values()
    (note,) = unlabelled(make_catalog({"large": 1.0}), pools)
    assert "NodePool general requires label karpenter.azure.com/sku-family" in note
