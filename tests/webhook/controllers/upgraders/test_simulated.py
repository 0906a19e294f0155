"""The simulated back end: what it says that members run, of which nothing has been reported."""

from datetime import timedelta

from scorer.api.kinds import MEMBER_CLUSTER
from scorer.api.meta import parse_time
from scorer.api.unstructured.documents import dict_at, dicts_at, status_of
from tests.webhook.controllers.upgrade_world import (
    OURS,
    QUICK,
    make_upgrade_run,
    make_upgrade_strategy,
    run_of,
    states,
)
from tests.webhook.controllers.world import make_member, running

STAGES = (
    {"name": "test", "groups": [{"name": "t"}]},
    {"name": "live", "groups": [{"name": "u"}]},
)


def made(name, group, nodes, **annotations):
    member = make_member(name, nodes=nodes)
    member["metadata"]["labels"] = {OURS + "upgrade-group": group}
    member["metadata"]["annotations"] = {OURS + key.replace("_", "-"): text for key, text in annotations.items()}
    return member


async def test_a_small_cluster_that_was_quick_says_nothing_about_a_large_one():
    async with running(upgraders=QUICK) as world:
        await world.add(made("t1", "t", 5, upgrade_duration="1s"), made("u1", "u", 14, upgrade_duration="40m"))
        await world.add(make_upgrade_strategy(*STAGES))
        await world.until(lambda: all("agentStatus" in status_of(each) for each in world.cache.list(MEMBER_CLUSTER)))
        await world.add(make_upgrade_run())
        await world.until(lambda: states(world) == {"t1": "Completed", "u1": "Running"})
        await world.until(lambda: "members" in dict_at(status_of(run_of(world)), "plan"))
        plan = dict_at(status_of(run_of(world)), "plan")
        expected = next(each for each in plan["members"] if each["name"] == "u1")
        assert parse_time(expected["end"]) - parse_time(expected["start"]) == timedelta(minutes=40)
        touched = {stage["name"]: stage["nodes"] for stage in dicts_at(plan, "blastRadius", "stages")}
        assert touched == {"test": 5, "live": 14}
