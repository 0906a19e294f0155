"""What is next for a command that has been accepted."""

from datetime import timedelta

import pytest

from scorer.node_disruption.execution.command_annotation import Order
from scorer.node_disruption.execution.progress import Next, next_step, patience
from tests.builders.worker import NOW

ALONE = Order("1", "Emptiness", "Empty", ("a", "b"), NOW)
REPLACED = Order("2", "Drift", "Drifted", ("a", "b"), NOW, ("new",))


def step(order, *, marked=("a", "b"), there=("a", "b"), going=(), replacements=None, after=timedelta()):
    return next_step(
        order,
        present=there,
        marked_nodes=marked,
        removed_nodes=going,
        replacements={"new": False} if replacements is None else replacements,
        commands=1,
        now=NOW + after,
    )


@pytest.mark.parametrize(
    ("order", "how", "wanted"),
    [
        pytest.param(ALONE, {}, Next.DRAIN, id="nothing-to-wait-for"),
        pytest.param(ALONE, {"marked": ("a",)}, Next.DRAIN, id="delete-only-goes-on-with-those-marked"),
        pytest.param(REPLACED, {}, Next.WAIT, id="a-replacement-is-made"),
        pytest.param(REPLACED, {"replacements": {"new": True}}, Next.DRAIN, id="it-is-initialized"),
        pytest.param(REPLACED, {"replacements": {}}, Next.UNDO, id="it-is-gone"),
        pytest.param(REPLACED, {"marked": ("a",)}, Next.UNDO, id="not-all-could-be-marked"),
        pytest.param(REPLACED, {"marked": ("a",), "there": ("a",)}, Next.WAIT, id="a-node-has-gone-by-itself"),
        pytest.param(REPLACED, {"after": timedelta(minutes=9, seconds=59)}, Next.WAIT, id="just-in-time"),
        pytest.param(REPLACED, {"after": timedelta(minutes=10)}, Next.UNDO, id="too-late"),
        pytest.param(REPLACED, {"after": timedelta(hours=9), "going": ("a",)}, Next.DRAIN, id="no-way-back"),
        pytest.param(REPLACED, {"replacements": {}, "going": ("a",)}, Next.DRAIN, id="no-way-back-without-it"),
    ],
)
def test_what_is_next(order, how, wanted):
    assert step(order, **how).next is wanted


@pytest.mark.parametrize(("commands", "minutes"), [(1, 10), (7500, 10), (15000, 20), (45000, 60), (10**6, 60)], ids=str)
def test_the_more_is_under_way_the_longer_is_waited(commands, minutes):
    assert patience(commands) == timedelta(minutes=minutes)


def test_it_is_said_until_when_is_waited():
    assert step(REPLACED).until == NOW + timedelta(minutes=10)
