"""A process that disrupts nodes dies at any of its writes, stored or not; the next one brings everything to its end."""

from collections import Counter
from contextlib import suppress

import pytest

from scorer.api.kinds import NODE, NODE_CLAIM, POD
from tests.builders.pod import make_pod
from tests.builders.worker import drifted, make_pool_of, make_worker
from tests.webhook.controllers.nodes.nodes_world import SYSTEM, DeadError, Nodes, command_on, guard, opened_nodes

PASSES = 45


async def drift(nodes):
    """One node is replaced."""
    await nodes.add(
        make_pool_of(after="Never"), make_worker("a", conditions=drifted()), make_pod("web", "a", needs={"cpu": "3"})
    )
    return {"a"}


async def empty(nodes):
    """Two nodes are deleted."""
    await nodes.add(make_pool_of(), make_worker("a"), make_worker("b"), make_worker("c"), make_pod("web", "c"))
    return {"a", "b"}


async def expired(nodes):
    """One node is drained by force."""
    await nodes.add_old(
        make_pool_of(budgets=[{"nodes": "0"}]),
        make_worker("a", expireAfter="1h", terminationGracePeriod="40s"),
        make_pod("web", "a", labels={"app": "web"}, terminationGracePeriodSeconds=10),
        make_pod("other", "a"),
        guard("web", {"app": "web"}, 0),
    )
    return {"a"}


SCENES = (drift, empty, expired)


async def played(scene, lives_for=None, *, stored=False):
    """Play a scene to its end; return the world, the nodes that should go, and the writes of all its processes."""
    nodes = Nodes()
    for name in (SYSTEM, "shop"):
        await nodes.add({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
    leaving = await scene(nodes)
    log = []
    async with nodes.process(lives_for=lives_for, stored=stored) as process:
        with suppress(DeadError):
            await process.play(passes=PASSES)
    log += process.mortal.log
    if lives_for is not None:
        async with nodes.process() as process:
            await process.play(passes=PASSES)
        log += process.mortal.log
        async with nodes.process() as process:
            await process.look()
        assert [each for each in process.mortal.log if "NodePool" not in each and "Lease" not in each] == []
    return nodes, leaving, log


async def check(nodes, leaving, log):
    """No node is left marked for nothing, none was deleted twice, and no replacement was made twice."""
    left = await nodes.names(NODE)
    assert not leaving.intersection(left)
    assert await nodes.tainted() == []
    assert not any(command_on(each) for each in await nodes.items(NODE))
    assert set(await nodes.names(NODE_CLAIM)) == set(left)
    deleted = Counter(each.removesuffix(" (unanswered)") for each in log if each.startswith("delete N"))
    assert {each for each, times in deleted.items() if times > 1} == set()
    created = Counter(each.removesuffix(" (unanswered)") for each in log if each.startswith("create NodeClaim"))
    assert all(times == 1 for times in created.values())
    nodes.close()


@pytest.mark.parametrize("scene", SCENES)
async def test_without_a_crash_each_node_is_written_to_as_often_as_it_must(scene):
    nodes, leaving, log = await played(scene)
    await check(nodes, leaving, log)
    assert max(map(len, nodes.disrupted)) == len(leaving)


@pytest.mark.parametrize("stored", [False, True], ids=["refused", "stored"])
@pytest.mark.parametrize("scene", SCENES)
async def test_whenever_it_dies_the_next_one_goes_on(scene, stored):
    nodes, _, log = await played(scene)
    nodes.close()
    for lives_for in range(len(log)):
        nodes, leaving, found = await played(scene, lives_for, stored=stored)
        try:
            await check(nodes, leaving, found)
        except AssertionError as error:
            raise AssertionError(f"killed at write {lives_for}: {log[lives_for]}; then {found}") from error


async def test_a_command_whose_process_was_killed_is_begun_again_at_once(fresh):
    """It was taken back because nobody had made its replacement, not because that could not be had."""
    await drift(fresh)
    async with fresh.process(lives_for=3) as process:
        with suppress(DeadError):
            await process.play(passes=4)
    assert await fresh.tainted() == ["a"]
    assert await fresh.names(NODE_CLAIM) == ["a"]
    async with fresh.process() as process:
        await process.play(passes=4)
    assert await fresh.tainted() == ["a"]
    assert len(await fresh.names(NODE_CLAIM)) == 2


async def test_a_replacement_of_a_command_that_was_undone_goes(fresh):
    await drift(fresh)
    async with fresh.process() as process:
        await process.look()
        [new] = [name for name in await fresh.names(NODE_CLAIM) if name != "a"]
        claim = await fresh.get(NODE_CLAIM, new)
        node = await fresh.get(NODE, "a")
    metadata = {key: value for key, value in node["metadata"].items() if key != "annotations"}
    await fresh.store.replace(NODE, {**node, "metadata": metadata, "spec": {**node["spec"], "taints": []}})
    async with fresh.process() as process:
        await process.pass_once()
        await process.pass_once()
        assert [name for name in await fresh.names(NODE_CLAIM) if name == claim["metadata"]["name"]] == []
    assert await fresh.find(POD, "web", "shop")


@pytest.fixture
async def fresh():
    async with opened_nodes() as found:
        yield found
