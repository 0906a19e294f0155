"""Tables of instance types and prices, as people write them."""

import math
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scorer.api.values.field_path import FieldPath
from scorer.node_disruption.cluster.requirements import one_of
from scorer.node_disruption.instance_types.catalog import InstanceTypeCatalog, Offering
from scorer.node_disruption.instance_types.price_table import read_instance_types
from scorer.prices import InvalidPricesError, csv_lines, csv_rows

CAPACITY, ZONE = "karpenter.sh/capacity-type", "topology.kubernetes.io/zone"
ROW = {"name": "d4", "cpu": "4", "memory": "16Gi", "zone": "z1", "price": 0.2}
LIST = """name,cpu,memory,pods,arch,os,zone,capacityType,price
d4,3800m,14Gi,30,amd64,linux,z1,on-demand,0.192
d4,3800m,14Gi,30,amd64,linux,z1,spot,0.05
"""


def row(**changed):
    return {key: value for key, value in {**ROW, **changed}.items() if value is not ...}


def mistakes(*rows):
    with pytest.raises(InvalidPricesError) as found:
        read_instance_types({"instanceTypes": list(rows)}, FieldPath.of("prices"))
    return [str(each) for each in found.value.mistakes]


def test_a_price_list():
    (found,) = read_instance_types(csv_rows(LIST))
    assert found.allocatable == {"cpu": 3800, "memory": 14 * 2**30, "pods": 30}
    assert found.offerings == (Offering("z1", "on-demand", 0.192), Offering("z1", "spot", 0.05))
    assert found.labels["node.kubernetes.io/instance-type"] == "d4"


def test_defaults():
    (found,) = read_instance_types([ROW])
    assert found.allocatable["pods"] == 110
    assert (found.labels["kubernetes.io/arch"], found.labels["kubernetes.io/os"]) == ("amd64", "linux")
    assert found.offerings == (Offering("z1", "on-demand", 0.2),)


def test_a_whole_type():
    whole = {
        "name": "gpu",
        "cpu": 8,
        "memory": "64Gi",
        "arch": "arm64",
        "labels": {"example.com/family": "g", "beta.kubernetes.io/os": "windows"},
        "allocatable": {"nvidia.com/gpu": 2},
        "offerings": [
            {"zone": "z2", "capacityType": "spot", "price": "1.5", "available": False},
            {"zone": "z1", "price": 4},
        ],
    }
    (found,) = read_instance_types([whole])
    assert found.allocatable["nvidia.com/gpu"] == 2
    assert found.labels["example.com/family"] == "g"
    assert [(each.zone, each.available) for each in found.offerings] == [("z1", True), ("z2", False)]


@pytest.mark.parametrize(
    ("changed", "expected"),
    [
        pytest.param({"price": ...}, "prices.instanceTypes[0].price: is missing", id="no-price"),
        pytest.param({"price": -1}, '[0].price: "-1" is not a price per hour', id="negative"),
        pytest.param({"price": "inf"}, '[0].price: "inf" is not a price per hour', id="infinite"),
        pytest.param({"price": math.nan}, '[0].price: "nan" is not a price per hour', id="no-number"),
        pytest.param({"price": True}, '[0].price: "True" is not a price per hour', id="boolean"),
        pytest.param({"price": [1]}, '[0].price: "[1]" is not a price per hour', id="list"),
        pytest.param({"name": ...}, "[0].name: is missing", id="no-name"),
        pytest.param({"name": 7}, "[0].name: 7 is not a string", id="name-of-another-type"),
        pytest.param({"zone": ...}, "[0].zone: is missing", id="no-zone"),
        pytest.param({"cpu": ...}, "[0].cpu: is missing", id="no-cpu"),
        pytest.param({"cpu": "-4"}, '[0].cpu: "-4" is not an amount', id="negative-amount"),
        pytest.param({"memory": "16 GB"}, '[0].memory: "16 GB" is not an amount', id="no-amount"),
        pytest.param({"capacityType": "cheap"}, '[0].capacityType: "cheap" is not one of', id="capacity-type"),
        pytest.param({"prize": 1}, "[0].prize: is not a field", id="unknown-field"),
        pytest.param({"labels": {"a": 1}}, '[0].labels: {"a":1} is not an object of strings', id="labels"),
        pytest.param({"allocatable": 3}, "[0].allocatable: 3 is not an object", id="allocatable"),
        pytest.param({"available": "perhaps"}, '[0].available: "perhaps" is neither', id="available"),
        pytest.param({"offerings": 3, "zone": ..., "price": ...}, "[0].offerings: 3 is not a list", id="offerings"),
    ],
)
def test_a_mistake_names_field_and_value(changed, expected):
    (found,) = mistakes(row(**changed))
    assert expected in found


@pytest.mark.parametrize(
    ("other", "expected"),
    [
        pytest.param(ROW, '[1]: "d4" is listed twice for zone "z1", on-demand', id="an-offering-twice"),
        pytest.param(row(zone="z2", cpu="8"), '[1]: "d4" has different resources', id="other-resources"),
        pytest.param(
            {"name": "d4", "cpu": "4", "memory": "16Gi", "offerings": []},
            '[1].name: "d4" is listed twice',
            id="a-whole-type",
        ),
        pytest.param(3, "[1]: 3 is not an object", id="no-object"),
    ],
)
def test_a_name_twice(other, expected):
    (found,) = mistakes(ROW, other)
    assert expected in found


def test_every_mistake_is_told():
    assert len(mistakes(row(price=-1, cpu="x", zone=""), row(name="e4", price=...))) == 4


@pytest.mark.parametrize("document", [None, 3, {}, {"instanceTypes": {}}, "name,cpu"])
def test_what_is_no_table(document):
    with pytest.raises(InvalidPricesError, match="is not a list of instance types"):
        read_instance_types(document)


@pytest.mark.parametrize(
    ("requirements", "worst", "cheapest"),
    [
        pytest.param({}, 3.0, 2.0, id="spot-is-taken-before-on-demand"),
        pytest.param({CAPACITY: one_of("on-demand")}, 5.0, 4.0, id="on-demand-only"),
        pytest.param({ZONE: one_of("z1")}, 2.0, 2.0, id="in-one-zone"),
        pytest.param({CAPACITY: one_of("reserved")}, math.inf, math.inf, id="what-is-not-available-has-no-price"),
        pytest.param({ZONE: one_of("z9")}, math.inf, math.inf, id="nowhere"),
    ],
)
def test_prices_at_launch(requirements, worst, cheapest):
    """The worst price is that of the capacity type that would be taken: reserved, else spot, else on-demand (6.3)."""
    offerings = [
        {"zone": "z1", "capacityType": "on-demand", "price": 4},
        {"zone": "z2", "capacityType": "on-demand", "price": 5},
        {"zone": "z1", "capacityType": "spot", "price": 2},
        {"zone": "z2", "capacityType": "spot", "price": 3},
        {"zone": "z1", "capacityType": "reserved", "price": 0.1, "available": False},
    ]
    (kind,) = read_instance_types([{"name": "d4", "cpu": 4, "memory": "16Gi", "offerings": offerings}])
    assert (kind.worst_launch_price(requirements), kind.cheapest(requirements)) == (worst, cheapest)


def test_the_price_of_a_node_does_not_ask_whether_there_are_more_of_it():
    catalog = InstanceTypeCatalog(read_instance_types([row(available=False)]))
    assert catalog.price_of("d4", "z1", "on-demand") == 0.2
    assert catalog.price_of("d4", "z1", "spot") is None


@given(
    st.recursive(
        st.none() | st.booleans() | st.floats() | st.text(),
        lambda inner: st.lists(inner) | st.dictionaries(st.text() | st.sampled_from(sorted(ROW)), inner),
    )
)
def test_any_document_is_read_or_refused(document):
    with suppress(InvalidPricesError):
        read_instance_types(document)


def test_a_price_list_with_labels():
    """A column whose name has a slash is one."""
    text = "name, cpu ,memory,zone,price,example.com/family\n\nd4,4,16Gi,z1, 0.2 ,d\n"
    (found,) = read_instance_types(csv_rows(text))
    assert (found.labels["example.com/family"], found.offerings) == ("d", (Offering("z1", "on-demand", 0.2),))
    assert csv_lines(text) == [3]


@pytest.mark.parametrize("price", ["1_0", "0x1", "\u0661", "1e", ""])
def test_prices_are_plain_numbers(price):
    assert "is not a price per hour" in mistakes(row(price=price))[0]
