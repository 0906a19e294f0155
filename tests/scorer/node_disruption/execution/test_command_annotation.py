"""A command as it stands on its nodes."""

from dataclasses import replace
from datetime import timedelta

import pytest

from scorer.node_disruption.execution.command_annotation import (
    COMMAND,
    OUT_OF_BALANCERS,
    Order,
    drained_from,
    expiration_of,
    format_order,
    is_tainted,
    mark_node,
    orders_on,
    orphaned_nodes,
    read_order,
    unmark_node,
)
from tests.builders.node import make_node, make_taint
from tests.builders.worker import NOW

ORDER = Order("1", "Drift", "Drifted", ("a", "b"), NOW, ("new-0",))


def test_what_is_written_is_read():
    node = mark_node(make_node("a", pool="p"), ORDER)
    assert read_order(node) == ORDER
    begun = drained_from(ORDER, NOW + timedelta(seconds=5))
    assert read_order(mark_node(node, begun)) == begun
    assert drained_from(begun, NOW + timedelta(hours=1)) == begun


def test_marking_twice_is_marking_once_and_can_be_taken_back():
    before = make_node("a", pool="p", taints=[make_taint("for", value="x")])
    before["metadata"]["annotations"] = {"mine": "1"}
    node = mark_node(before, drained_from(ORDER, NOW))
    assert mark_node(node, drained_from(ORDER, NOW)) == node
    assert is_tainted(node)
    assert node["metadata"]["labels"][OUT_OF_BALANCERS]
    assert unmark_node(node) == before


def test_a_label_that_somebody_else_has_put_there_stays():
    before = make_node("a", labels={OUT_OF_BALANCERS: "true"})
    after = unmark_node(mark_node(before, drained_from(ORDER, NOW)))
    assert after["metadata"]["labels"] == before["metadata"]["labels"]


@pytest.mark.parametrize(
    "text",
    [
        "",
        "?",
        "[]",
        "{}",
        '{"id": 1}',
        format_order(ORDER).replace('"a"', "3"),
        format_order(ORDER).replace("2026", "x"),
    ],
)
def test_what_cannot_be_read_is_no_command(text):
    node = make_node("a")
    node["metadata"]["annotations"] = {COMMAND: text}
    assert read_order(node) is None
    assert (orphaned_nodes([node]) == [node]) is bool(text)
    assert orders_on([node]) == {}


def test_a_command_that_does_not_name_its_node_holds_it_not():
    node = mark_node(make_node("c"), ORDER)
    assert orphaned_nodes([node]) == [node]


def test_nodes_are_found_by_their_command():
    a, b, c = mark_node(make_node("a"), ORDER), mark_node(make_node("b"), drained_from(ORDER, NOW)), make_node("c")
    other = mark_node(make_node("d"), expiration_of("d", "uid", NOW))
    found = orders_on([b, c, a, other])
    assert {order.method: sorted(nodes) for order, nodes in found.values()} == {
        "Drift": ["a", "b"],
        "Expiration": ["d"],
    }


def test_a_node_does_not_speak_for_others_of_the_same_id():
    forged = mark_node(make_node("a"), replace(ORDER, replacements=()))
    found = orders_on([forged, mark_node(make_node("b"), ORDER)])
    assert {order.replacements: sorted(nodes) for order, nodes in found.values()} == {(): ["a"], ("new-0",): ["b"]}
