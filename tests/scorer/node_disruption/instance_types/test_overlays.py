"""NodeOverlays: the prices of a pool's instance types."""

import pytest

from scorer.node_disruption.cluster.requirements import one_of
from scorer.node_disruption.instance_types.new_node import pool_template
from scorer.node_disruption.instance_types.overlays import read_overlay, with_overlays
from tests.builders.worker import make_catalog, make_cluster, make_pool_of, make_worker

CATALOG = make_catalog({"large": 1.0, "small": 0.25}, capacity=("on-demand", "spot"))
TYPE, CAPACITY, POOL = "node.kubernetes.io/instance-type", "karpenter.sh/capacity-type", "karpenter.sh/nodepool"


def overlay(name="a", *requirements, weight=None, **spec):
    listed = [{"key": key, "operator": operator, "values": list(values)} for key, operator, *values in requirements]
    return {
        "kind": "NodeOverlay",
        "metadata": {"name": name},
        "spec": {"requirements": listed, **({} if weight is None else {"weight": weight}), **spec},
    }


def prices(*overlays, pool=None):
    """Return the on-demand prices of both types in pool general, and the notes."""
    cluster, notes = with_overlays(make_cluster(pool or make_pool_of(), make_worker("a")), CATALOG, overlays)
    types = pool_template(cluster.pools["general"], CATALOG.types).types
    found = [kind.cheapest({CAPACITY: one_of("on-demand")}) for kind in types]
    return found, notes


@pytest.mark.parametrize(
    ("overlays", "expected"),
    [
        pytest.param([], [1.0, 0.25], id="none"),
        pytest.param([overlay(priceAdjustment="-10%")], [0.9, 0.225], id="percentage"),
        pytest.param([overlay(priceAdjustment="+0.5")], [1.5, 0.75], id="addition"),
        pytest.param([overlay(priceAdjustment="-0.5")], [0.5, 0.0], id="never-below-zero"),
        pytest.param([overlay(price="2.5")], [2.5, 2.5], id="price"),
        pytest.param([overlay("a", (TYPE, "In", "small"), price="2")], [1.0, 2.0], id="one-type"),
        pytest.param([overlay("a", (CAPACITY, "In", "spot"), price="2")], [1.0, 0.25], id="another-capacity-type"),
        pytest.param([overlay("a", (POOL, "In", "other"), price="2")], [1.0, 0.25], id="another-pool"),
        pytest.param([overlay("a", (POOL, "In", "general"), price="2")], [2.0, 2.0], id="this-pool"),
        pytest.param([overlay("a", ("team", "In", "x"), price="2")], [1.0, 0.25], id="a-label-that-the-pool-lacks"),
        pytest.param([overlay("a", ("team", "NotIn", "x"), price="2")], [2.0, 2.0], id="a-label-that-must-differ"),
        pytest.param(
            [overlay("a", price="2", weight=1), overlay("b", (TYPE, "In", "small"), price="3", weight=5)],
            [2.0, 3.0],
            id="the-larger-weight-first",
        ),
        pytest.param([overlay(capacity={"example.com/chip": "1"})], [1.0, 0.25], id="no-price"),
    ],
)
def test_prices(overlays, expected):
    assert prices(*overlays)[0] == pytest.approx(expected)


@pytest.mark.parametrize(
    ("overlays", "expected", "note"),
    [
        pytest.param(
            [overlay("a", price="2"), overlay("b", price="3")],
            [3.0, 3.0],
            "NodeOverlay a is not applied: another of the same weight matches some of its offerings",
            id="conflict-the-later-name-is-first",
        ),
        pytest.param([overlay(price="1e3")], [1.0, 0.25], "NodeOverlay a is invalid and is not applied", id="invalid"),
        pytest.param(
            [overlay("a", ("karpenter.k8s.aws/instance-family", "In", "m5"), price="2")],
            [1.0, 0.25],
            "NodeOverlay a requires label karpenter.k8s.aws/instance-family, which no instance type in the table has",
            id="provider-label-that-is-not-in-the-table",
        ),
        pytest.param(
            [overlay(capacity={"example.com/chip": "1"})],
            [1.0, 0.25],
            "capacity of NodeOverlay a is not simulated",
            id="capacity",
        ),
    ],
)
def test_notes(overlays, expected, note):
    found, notes = prices(*overlays)
    assert (found, notes) == (pytest.approx(expected), (note,))


def test_a_node_has_the_price_of_its_pool():
    cluster, _ = with_overlays(
        make_cluster(make_pool_of(), make_pool_of("other"), make_worker("a"), make_worker("b", pool="other")),
        CATALOG,
        [overlay("a", (POOL, "In", "other"), price="9")],
    )
    found = [CATALOG.price_in(cluster.pools[node.pool], node) for node in cluster.nodes.values()]
    assert found == [1.0, 9.0]


@pytest.mark.parametrize("adjustment", ["-10", "10%", "--1", "+1e9", "+" + "9" * 99, "+٣", ""])
def test_odd_adjustments(adjustment):
    read = read_overlay(overlay(priceAdjustment=adjustment))
    assert (read is not None) == (adjustment == "-10")
