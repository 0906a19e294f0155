"""Looks at a cluster, one after the other: what has not changed is not worked out again."""

from dataclasses import dataclass, field
from datetime import timedelta

from scorer.node_disruption.methods.planner import PlannerOptions, decide
from tests.builders.pod import make_pod
from tests.builders.worker import NOW, drifted, make_pool_of, make_worker
from webhook.controllers.nodes.planning import NodePlanning
from webhook.settings.gate import NodeDisruptionOptions

NODES = [
    *make_worker("a", conditions=drifted(), annotations={"karpenter.sh/do-not-disrupt": "true"}),
    *make_worker("b"),
    make_pod("on-a", "a"),
    make_pod("on-b", "b"),
]


@dataclass
class World:
    """Documents that are there; one that changes is another object."""

    found: list[dict[str, object]]
    now: object = NOW
    changes: int = 0
    planning: NodePlanning = field(init=False)

    def __post_init__(self):
        self.planning = NodePlanning(self, NodeDisruptionOptions(), None, lambda: self.now)

    def documents(self):
        return list(self.found)


async def test_as_long_as_nothing_changes_the_decision_stays():
    world = World([make_pool_of(), *NODES])
    first = await world.planning.evaluate({})
    world.now += timedelta(seconds=10)
    second = await world.planning.evaluate({})
    assert second.decision.memory is first.decision.memory
    assert second.decision.now == world.now


async def test_a_node_that_has_not_changed_is_taken_over():
    world = World([make_pool_of(), *NODES])
    first = await world.planning.evaluate({})
    world.found.append(make_pod("another", "b"))
    second = await world.planning.evaluate({})
    kept = {name: second.decision.nodes[name] is first.decision.nodes[name] for name in "ab"}
    assert kept == {"a": True, "b": False}
    assert second.decision == decide(second.cluster, None, NOW, PlannerOptions(), views=second.views)
