"""Cost properties: the table and the example of scheduling.md 18."""

from datetime import timedelta

import pytest

from scorer.api.values.quantity import parse_quantity
from scorer.cost import FAILED, Cost, PricedNode, cluster_cost

PRICES = {"small": 0.192, "large": 0.384, "unlisted": 999.0}
FRESH, STALE = timedelta(hours=24), timedelta(hours=24, seconds=1)


def nodes(*entries):
    return [PricedNode(sku, parse_quantity(cpu), parse_quantity(memory)) for sku, cpu, memory in entries]


SMALL, LARGE = ("small", "4", "16Gi"), ("large", "8", "32Gi")


@pytest.mark.parametrize(
    ("fleet", "age", "expected"),
    [
        pytest.param([SMALL] * 3 + [LARGE] * 2, FRESH, Cost("0.048", "0.012", "True", "CostsCalculated"), id="example"),
        pytest.param([SMALL], STALE, Cost("0.048", "0.012", "True", "CostsCalculationDegraded"), id="old-price-list"),
        pytest.param([], FRESH, Cost("0.000", "0.000", "True", "CostsCalculated"), id="no-nodes"),
        pytest.param([SMALL, ("huge", "64", "1Ti")], FRESH, FAILED, id="unknown-sku"),
        pytest.param([SMALL, ("", "64", "1Ti")], FRESH, FAILED, id="node-without-sku"),
        pytest.param([("unlisted", "4", "16Gi")], FRESH, FAILED, id="price-999"),
        pytest.param([("small", "1m", "16Gi")], FRESH, FAILED, id="hardly-any-cpu"),
        pytest.param([("small", "4", "1")], FRESH, FAILED, id="one-byte"),
        pytest.param([SMALL, ("huge", "64", "1Ti")], STALE, FAILED, id="unknown-sku-and-old-list"),
    ],
)
def test_cluster_cost(fleet, age, expected):
    assert cluster_cost(nodes(*fleet), PRICES, age) == expected


def test_a_failed_calculation_sets_no_property():
    assert (FAILED.cpu, FAILED.memory, FAILED.status) == (None, None, "False")
