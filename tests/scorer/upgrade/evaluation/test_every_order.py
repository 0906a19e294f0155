"""Every order of events, for runs of up to two stages, two groups a stage and one member a group, and three members.

The small shapes are walked in every run of the tests; the full ones in ``make soak``. ``pytest -s`` shows the numbers.
"""

import sys

import pytest

from scorer.api.upgrade.run import SkipTarget, SkipTargetType
from tests.scorer.upgrade.evaluation.orders import Shape, walk
from tests.scorer.upgrade.evaluation.worlds import World
from tests.scorer.upgrade.scenarios import daily, member, prepared, stage
from tests.thoroughness import SOAK

APPROVAL = [{"type": "Approval"}]
LIMITS = {"memberUpgradeSeconds": 3600}
NIGHT = [daily("00:00")]


def world(*members: dict, stages: tuple[dict, ...] = (), timeouts: dict | None = None, **given) -> World:
    """Return where a run begins that people have not started."""
    scenario = prepared(*members, stages=stages, start="", spec={"timeouts": LIMITS | (timeouts or {})}, **given)
    return World.of(scenario.hub)


def skips(**named: str) -> tuple[SkipTarget, ...]:
    """Return skip targets: a type in snake case, and a name."""
    types = {"member": "Member", "group": "Group", "stage": "Stage", "wait": "AfterStageWait"}
    return tuple(SkipTarget(type=SkipTargetType(types[kind]), name=name) for kind, name in named.items())


def group(name: str, **more) -> dict:
    return {"name": name, **more}


ALONE = world(member("a"), stages=(stage("one", group("g")),))
TOLERANT = world(
    member("a"),
    stages=(stage("one", group("g", maxAllowedFailures="1"), maxAllowedFailures="1", afterStageWaitSeconds=600),),
)
AT_NIGHT = world(member("a", windows=NIGHT), stages=(stage("one", group("g")),))
GATED = world(
    member("a"),
    stages=(stage("one", group("g"), beforeGates=APPROVAL, afterGates=APPROVAL, afterStageWaitSeconds=600),),
    timeouts={"gateSeconds": 3600},
)
GATED_GROUP = world(member("a"), stages=(stage("one", group("g", beforeGates=APPROVAL, afterGates=APPROVAL)),))
PAIR = world(member("a"), member("b"), stages=(stage("one", group("g"), maxConcurrency="2"),))
TWO_GROUPS = world(member("a", "g"), member("b", "h"), stages=(stage("one", group("g"), group("h")),))
IN_TURN = world(
    member("a", "g"),
    member("b", "h"),
    stages=(stage("one", group("g"), afterStageWaitSeconds=600), stage("two", group("h"))),
)


def four(*, concurrency: str = "2", allowed: str = "0", windows: tuple[dict, ...] = (), **more) -> World:
    """Return a run of two stages, two groups each, and a member in each group."""
    members = [
        member(name, name, windows=list(windows) if name in "bc" else [], outcomes=[]) for name in ("a", "b", "c", "d")
    ]
    first, second = (
        stage(
            name,
            *(group(each, maxAllowedFailures=allowed) for each in groups),
            maxConcurrency=concurrency,
            maxAllowedFailures=allowed,
        )
        for name, groups in (("one", "ab"), ("two", "cd"))
    )
    return world(*members, stages=({**first, **more}, second))


THREE = [member(name) for name in "abc"]
THREE_IN_A_GROUP = world(
    *THREE,
    stages=(
        stage(
            "one", group("g", maxConcurrency="2", maxAllowedFailures="1"), maxConcurrency="2", maxAllowedFailures="1"
        ),
    ),
)
SKIPS = skips(member="a", group="g", stage="one", wait="one")
SMALL = {
    "skipped": Shape(ALONE, failing=False, stops=False, crashes=False, skips=SKIPS, deletion=True),
    "failing": Shape(ALONE, stops=False, crashes=False, skips=skips(member="a", wait="one"), deletion=True),
    "stopped": Shape(ALONE, failing=False, crashes=False, skips=skips(member="a"), deletion=True),
    "deleted": Shape(ALONE, stops=False, deletion=True),
    "accidents": Shape(ALONE, refusing=True, others=True, leaves=True, repairs=True, stops=False),
    "at-night": Shape(AT_NIGHT, refusing=True, stops=False, skips=skips(member="a")),
    "silent": Shape(ALONE, silence=True),
    "silent-and-tolerated": Shape(TOLERANT, stops=False, silence=True),
    "gated": Shape(GATED, failing=False, stops=False, crashes=False, skips=skips(stage="one")),
    "gated-and-stopped": Shape(GATED, failing=False, crashes=False),
    "gated-group": Shape(GATED_GROUP, failing=False, crashes=False),
    "pair": Shape(PAIR, failing=False),
    "two-groups": Shape(TWO_GROUPS, failing=False, stops=False),
    "in-turn": Shape(IN_TURN, failing=False, stops=False, skips=skips(group="h")),
}


def apart(name: str, first: World, **more) -> dict[str, Shape]:
    """Return a shape for each kind of trouble: all of it at once has too many states for any machine.

    Crashes are in each but in that of failures and stops together.
    """
    skipped = more.pop("skips", ())
    return {
        f"{name}-failing": Shape(first, stops=False, **more),
        f"{name}-stopped": Shape(first, failing=False, **more),
        f"{name}-failing-and-stopped": Shape(first, crashes=False, **more),
        f"{name}-skipped": Shape(first, failing=False, stops=False, skips=skipped, **more),
    }


FULL = {
    "ordered": Shape(ALONE, skips=SKIPS, deletion=True),
    "at-night-and-stopped": Shape(AT_NIGHT, refusing=True, skips=skips(member="a")),
    "silent-and-held": Shape(ALONE, others=True, silence=True),
    "silent-tolerated-and-stopped": Shape(TOLERANT, silence=True),
    "gated-and-crashing": Shape(GATED, failing=False, skips=skips(stage="one")),
    "gated-group-and-crashing": Shape(GATED_GROUP, failing=False),
    "two-groups-and-stopped": Shape(TWO_GROUPS, failing=False),
    "in-turn-and-left": Shape(IN_TURN, failing=False, stops=False, skips=skips(group="h"), leaves=True),
    **apart("full-one-by-one", four(concurrency="1"), skips=skips(group="b", stage="two")),
    **apart("full-side-by-side", four(), skips=skips(group="b", stage="two")),
    **apart("full-tolerant", four(allowed="1"), skips=skips(member="a")),
    **apart("full-gated", four(afterGates=APPROVAL, afterStageWaitSeconds=600), skips=skips(stage="one", wait="one")),
    **apart("full-windows", four(windows=NIGHT), skips=skips(member="b")),
    **apart("full-three", THREE_IN_A_GROUP, skips=skips(member="b")),
    "full-refused": Shape(four(), refusing=True, failing=False, stops=False),
    "full-held": Shape(four(), others=True, failing=False, stops=False),
    "full-left": Shape(four(), leaves=True, failing=False, stops=False),
    "full-repaired": Shape(four(), repairs=True, failing=False, stops=False),
    "full-deleted": Shape(four(), deletion=True, failing=False, stops=False),
}
SHAPES = {**SMALL, **FULL} if SOAK else SMALL


@pytest.mark.soak
@pytest.mark.parametrize("name", SHAPES)
def test_every_order_keeps_the_rules_and_can_end(name):
    found = walk(SHAPES[name])
    sys.stdout.write(f"{name}: {len(found.states)} states, {found.ways} ways, {len(found.ends)} ends\n")
    assert found.ends
    assert found.written_twice() == []
    assert found.without_rest() == 0
    assert found.without_an_end() == 0
