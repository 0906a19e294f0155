"""Every order of events, for runs of up to two stages, two clusters a stage and one approval.

The small shapes are walked in every run of the tests; the full ones in ``make soak``. ``pytest -s`` shows the numbers.
"""

import sys
from dataclasses import replace

import pytest

from tests.scorer.staged_update.execution.orders import Shape, walk
from tests.scorer.staged_update.hub import Hub, make_binding, make_hub, make_run, make_stage, scheduled_anew
from tests.thoroughness import SOAK

APPROVAL = [{"type": "Approval"}]
WAIT = {"type": "TimedWait", "waitTime": "5m"}
TWO = {"a": "one", "b": "two"}
FOUR = {"a": "one", "b": "one", "c": "two", "d": "two"}


def hub_of(*stages: dict, clusters: dict[str, str], state: str = "Run", gone: str = "", **annotations: str) -> Hub:
    """Return a hub whose run rolls out the second resource snapshot, and removes the placement from *gone*."""
    hub = make_hub(*stages, clusters=clusters, run=make_run(state=state, **annotations), snapshots=2)
    olds = {name: make_binding(name, "Bound", snapshot="p-0-snapshot") for name in hub.bindings}
    if gone:
        found = make_binding(gone, "Unscheduled", snapshot="p-0-snapshot")
        olds[gone] = {**found, "metadata": {**found["metadata"], "finalizers": ["objects"]}}
    return replace(hub, bindings=olds)


EDITS = {
    "relabel": lambda hub: hub.labelled("a", stage="two"),
    "new policy": scheduled_anew,
    "strategy deleted": lambda hub: replace(hub, strategy=None),
}
BEFORE = (make_stage("one"), make_stage("two", beforeStageTasks=APPROVAL))
AFTER = (make_stage("one", afterStageTasks=APPROVAL), make_stage("two"))
BOTH = (make_stage("one", afterStageTasks=[*APPROVAL, WAIT]), make_stage("two"))

PAIR = hub_of(make_stage("one"), clusters={"a": "one", "b": "one"})
SMALL = {
    "one-cluster": Shape(
        hub_of(make_stage("one"), clusters={"a": "one"}, state="Initialize"), edits=EDITS, others=False
    ),
    "approval-before": Shape(hub_of(*BEFORE, clusters=TWO), others=False, failing=False, stops=False),
    "approval-and-wait-after": Shape(hub_of(*BOTH, clusters=TWO), others=False, failing=False, crashes=False),
    "two-at-once": Shape(
        hub_of(make_stage("one", maxConcurrency=2), clusters={"a": "one", "b": "one"}), others=False, failing=False
    ),
    "one-after-the-other": Shape(PAIR, others=False, failing=False),
    "one-taken-over": Shape(PAIR, failing=False, crashes=False),
    "removal": Shape(hub_of(make_stage("one"), clusters={"a": "one"}, gone="z"), stops=False),
    "some-may-fail": Shape(
        hub_of(make_stage("one"), clusters={"a": "one", "b": "one"}, cluster_deadline="60s", max_failures="1"),
        others=False,
        failing=False,
    ),
}
FULL = {
    "approval-before-and-stopped": Shape(hub_of(*BEFORE, clusters=TWO), others=False, failing=False),
    "approval-and-wait-after-and-crashing": Shape(hub_of(*BOTH, clusters=TWO), others=False, failing=False),
    "one-taken-over-and-crashing": Shape(PAIR, failing=False),
    "removal-and-stopped": Shape(hub_of(make_stage("one"), clusters={"a": "one"}, gone="z")),
    "deadline": Shape(
        hub_of(make_stage("one"), clusters={"a": "one", "b": "one"}, cluster_deadline="60s", on_failure="Rollback")
    ),
    "full-approval-before": Shape(hub_of(*BEFORE, clusters=FOUR), edits=EDITS),
    "full-approval-after": Shape(hub_of(*AFTER, clusters=FOUR), edits=EDITS),
    "full-two-at-once": Shape(
        hub_of(
            make_stage("one", maxConcurrency=2, afterStageTasks=APPROVAL),
            make_stage("two", maxConcurrency=2),
            clusters=FOUR,
        ),
        edits=EDITS,
    ),
    "full-approval-and-wait-after-and-removal": Shape(hub_of(*BOTH, clusters=FOUR, gone="z"), others=False),
}
SHAPES = {**SMALL, **FULL} if SOAK else SMALL


def look(name: str, shape: Shape) -> None:
    """Walk a shape, and say how much of it there is."""
    found = walk(shape)
    sys.stdout.write(f"{name}: {len(found.states)} states, {found.ways} ways, {len(found.ends)} ends\n")
    assert found.ends
    assert found.written_twice() == []
    assert found.without_rest() == 0
    assert found.without_an_end() == 0


@pytest.mark.soak
@pytest.mark.parametrize("name", SHAPES)
def test_every_order_keeps_the_rules_and_can_end(name):
    look(name, SHAPES[name])
