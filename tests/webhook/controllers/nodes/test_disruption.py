"""Modes Off, Advise and Act of the disruption of nodes, one pass at a time."""

from datetime import timedelta

import pytest

from scorer.api.kinds import NODE, NODE_CLAIM, NODE_POOL, POD, POD_DISRUPTION_BUDGET
from scorer.reservations import DISRUPTION, Reservation
from tests.builders.pod import make_pod
from tests.builders.worker import drifted, make_pool_of, make_worker
from tests.webhook.controllers.nodes.nodes_world import SYSTEM, command_on, guard, karpenter, opened_nodes
from webhook.gate.reservations import LeaseReservations, new_id
from webhook.kube.ports import Key
from webhook.settings.gate import NodeDisruptionMode

OFF, ADVISE, ACT = NodeDisruptionMode.OFF, NodeDisruptionMode.ADVISE, NodeDisruptionMode.ACT
WEB = {"app": "web"}
HOUR = timedelta(hours=1)


@pytest.fixture
async def nodes():
    async with opened_nodes() as found:
        yield found


async def test_off_does_nothing(nodes):
    await nodes.add(make_pool_of(), make_worker("a"))
    async with nodes.process(OFF) as process:
        await process.look()
    assert process.mortal.log == []


async def test_without_pools_nothing_is_watched(nodes):
    await nodes.add(make_worker("a"))
    async with nodes.process() as process:
        assert await process.pass_once() is None
        assert not process.cache.watches(NODE)


async def test_advise_says_what_would_go_and_writes_to_pools_alone(nodes):
    await nodes.add(make_pool_of(), make_worker("a"), make_worker("b"), make_pod("web", "b"))
    async with nodes.process(ADVISE) as process:
        await process.look()
        condition = await nodes.condition()
        assert (condition["status"], condition["reason"]) == ("True", "Advised")
        assert condition["message"].startswith("Empty: delete a")
        assert process.mortal.log == ["status NodePool general"]
        assert ("Node", "a", "ConsolidationCandidate") in {told[:3] for told in nodes.told}
        assert ("NodeClaim", "a", "ConsolidationCandidate") in {told[:3] for told in nodes.told}
        before = len(nodes.told)
        nodes.pass_by(seconds=11)
        await process.look()
    assert process.mortal.log == ["status NodePool general"]
    assert len(nodes.told) == before


async def test_a_clock_that_goes_on_keeps_it_from_nothing(nodes):
    await nodes.add(make_pool_of(), make_worker("a"))
    async with nodes.process(ADVISE) as process:
        process.runs_by_itself()
        await process.look()
        assert (await nodes.condition())["reason"] == "Advised"


async def test_who_may_not_read_says_so(nodes):
    await nodes.add(make_pool_of(), make_worker("a"))
    async with nodes.process() as process:
        process.mortal.forbidden = POD
        await process.look()
        assert (await nodes.condition())["reason"] == "CannotRead"
        assert "pods may not be read" in (await nodes.condition())["message"]
    assert await nodes.tainted() == []


async def test_where_nobody_can_tell_whether_karpenter_runs_nothing_is_done(nodes):
    await nodes.add(make_pool_of(), make_worker("a"))
    async with nodes.process() as process:
        process.kubelets.blind = True
        await process.look()
        condition = await nodes.condition()
        assert condition["reason"] == "NotActing"
        assert "cannot determine whether Karpenter is running" in condition["message"]
        await process.play(passes=14)
    assert await nodes.names(NODE) == ["a"]
    assert await nodes.tainted() == []


async def test_a_table_that_lacks_what_nodes_are_is_not_used(nodes, tmp_path):
    path = tmp_path / "types.csv"
    path.write_text("name,cpu,memory,zone,capacityType,price\nother,4,16Gi,z1,on-demand,0.1\n")
    await nodes.add_old(make_pool_of(), make_worker("a", created=None), make_pod("web", "a"))
    async with nodes.process(prices=path) as process:
        await process.play(passes=8)
    assert await nodes.names(NODE) == ["a"]
    assert (
        "they lack types of existing nodes: large in z1 as on-demand (1 node)" in (await nodes.condition())["message"]
    )


async def test_two_cheap_nodes_become_one(nodes, tmp_path):
    path = tmp_path / "types.csv"
    path.write_text("name,cpu,memory,zone,capacityType,price\nlarge,4,16Gi,z1,on-demand,0.1\n")
    await nodes.add(make_pool_of(), make_worker("a"), make_worker("b"))
    await nodes.add(make_pod("web-a", "a", needs={"cpu": "1"}), make_pod("web-b", "b", needs={"cpu": "1"}))
    async with nodes.process(prices=path) as process:
        await process.play(passes=16)
    assert len(await nodes.names(NODE)) == 1
    assert "ConsolidationApproved" in {told[2] for told in nodes.told}


async def test_a_reserved_node_is_left_to_who_has_reserved_it(nodes):
    await nodes.add(
        make_pool_of(budgets=[{"nodes": "1"}]), make_worker("a", conditions=drifted()), make_pod("web", "a")
    )
    reservations = LeaseReservations(nodes.store, SYSTEM, lambda: nodes.now)
    theirs = Reservation(new_id(DISRUPTION, "general"), "patcher", "ops", DISRUPTION, ("a",), nodes.now + HOUR)
    await reservations.change(DISRUPTION, "general", lambda _: (theirs,))
    async with nodes.process() as process:
        await process.play(passes=6)
        assert await nodes.tainted() == []
        nodes.pass_by(hours=1)
        await process.play(passes=8)
    assert "a" not in await nodes.names(NODE)


async def test_what_holds_nodes_is_said(nodes):
    await nodes.add(make_pool_of(budgets=[{"nodes": "0"}]), make_worker("a"))
    async with nodes.process(ADVISE) as process:
        await process.look()
    condition = await nodes.condition()
    assert (condition["status"], condition["reason"]) == ("False", "Held")
    assert condition["message"] == "nodes that are not disrupted, by blocker: Budget 1"
    assert ("NodePool", "general", "DisruptionBlocked") in {told[:3] for told in nodes.told}


async def test_an_empty_node_goes_when_it_still_is_empty_after_a_while(nodes):
    await nodes.add(make_pool_of(), make_worker("a"), make_worker("b"), make_pod("web", "b"))
    async with nodes.process() as process:
        await process.look()
        assert await nodes.tainted() == []
        nodes.pass_by(seconds=16)
        await process.pass_once()
        assert await nodes.tainted() == ["a"]
        assert command_on(await nodes.get(NODE, "a"))
        await process.play(passes=6)
    assert await nodes.names(NODE) == ["b"]
    assert await nodes.names(NODE_CLAIM) == ["b"]
    assert process.mortal.log.count("delete NodeClaim a") == 1


async def test_a_node_that_is_no_longer_empty_stays(nodes):
    await nodes.add(make_pool_of(), make_worker("a"), make_worker("b"), make_pod("web", "b"))
    async with nodes.process() as process:
        await process.look()
        await nodes.add(make_pod("late", "a"))
        nodes.pass_by(seconds=16)
        await process.look()
        assert "ConsolidationRejected" in {told[2] for told in nodes.told}
        await process.play(passes=12)
    assert await nodes.names(NODE) == ["a", "b"]
    assert await nodes.tainted() == []


async def test_a_drifted_node_goes_after_its_replacement_is_initialized(nodes):
    await nodes.add(make_pool_of(), make_worker("a", conditions=drifted()), make_pod("web", "a", needs={"cpu": "3"}))
    async with nodes.process() as process:
        await process.look()
        assert await nodes.tainted() == ["a"]
        [new] = [name for name in await nodes.names(NODE_CLAIM) if name != "a"]
        assert command_on(await nodes.get(NODE_CLAIM, new))
        await process.play(passes=3, provision=False)
        assert await nodes.find(POD, "web", "shop")
        await process.play(passes=10)
    assert await nodes.names(NODE) == [new]
    assert await nodes.names(NODE_CLAIM) == [new]
    assert process.mortal.log.count("evict Pod web") == 1


async def test_a_replacement_that_does_not_come_undoes_the_command(nodes):
    await nodes.add(make_pool_of(), make_worker("a", conditions=drifted()), make_pod("web", "a", needs={"cpu": "3"}))
    async with nodes.process() as process:
        await process.look()
        before = await nodes.get(NODE, "a")
        nodes.pass_by(minutes=10)
        await process.pass_once()
        assert await nodes.tainted() == []
        node, claim = await nodes.get(NODE, "a"), await nodes.get(NODE_CLAIM, "a")
        assert command_on(before)
        assert not command_on(node)
        assert not any(each["type"] == "DisruptionReason" for each in claim["status"]["conditions"])
        assert await nodes.names(NODE_CLAIM) == ["a"]
        assert await nodes.find(POD, "web", "shop")
        assert "DisruptionUndone" in {told[2] for told in nodes.told}


async def test_a_second_pass_writes_nothing(nodes):
    await nodes.add(make_pool_of(), make_worker("a", conditions=drifted()), make_pod("web", "a", needs={"cpu": "3"}))
    async with nodes.process() as process:
        await process.play(passes=4, provision=False)
        before = list(process.mortal.log)
        await process.play(passes=4, provision=False)
        assert process.mortal.log == before


async def test_karpenter_keeps_it_from_acting(nodes):
    await nodes.add(make_pool_of(), make_worker("a", conditions=drifted()), karpenter(nodes.now))
    async with nodes.process() as process:
        await process.look()
        condition = await nodes.condition()
        assert (condition["status"], condition["reason"]) == ("False", "NotActing")
        assert "karpenter-1 holds the Lease kube-system/karpenter-leader-election" in condition["message"]
        assert "advice only: Karpenter is running: " in condition["message"]
        assert "DisruptionRefused" in {told[2] for told in nodes.told}
        assert process.mortal.log == ["status NodePool general"]
        nodes.pass_by(seconds=30)
        await process.play(passes=20)
    assert await nodes.names(NODE) == []


async def test_a_foreign_taint_stays(nodes):
    taint = {"key": "karpenter.sh/disrupted", "effect": "NoSchedule"}
    await nodes.add(make_pool_of(), make_worker("a", taints=[taint]), make_worker("b"))
    async with nodes.process() as process:
        await process.play(passes=20)
    assert await nodes.names(NODE) == ["a"]
    assert await nodes.tainted() == ["a"]


async def test_a_mark_that_nobody_understands_is_taken_off_with_the_taint(nodes):
    taint = {"key": "karpenter.sh/disrupted", "effect": "NoSchedule"}
    await nodes.add(
        make_pool_of(after="Never"),
        make_worker("a", taints=[taint], annotations={"harbormaster.dev/disruption-command": "?"}),
    )
    async with nodes.process() as process:
        await process.look()
    assert await nodes.tainted() == []
    assert not command_on(await nodes.get(NODE, "a"))


async def test_a_guarded_pod_is_tried_again_until_it_may_go(nodes):
    await nodes.add_old(
        make_pool_of(), make_worker("a", expireAfter="1h"), make_pod("web", "a", labels=WEB), guard("web", WEB, 0)
    )
    async with nodes.process() as process:
        await process.play(passes=20)
        assert await nodes.find(POD, "web", "shop")
        assert 3 < process.kubelets.asked.count("evict web") < 15
        assert "FailedDraining" in {told[2] for told in nodes.told}
        await nodes.patch(POD_DISRUPTION_BUDGET, "web", "shop", status={"disruptionsAllowed": 1})
        await process.play(passes=12)
    assert await nodes.names(NODE) == []


async def test_do_not_disrupt_is_waited_for_until_the_grace_period_is_over(nodes):
    await nodes.add_old(
        make_pool_of(),
        make_worker("a", expireAfter="1h", terminationGracePeriod="10m"),
        make_pod("web", "a", annotations={"karpenter.sh/do-not-disrupt": "true"}, terminationGracePeriodSeconds=60),
        make_pod("guarded", "a", labels=WEB, terminationGracePeriodSeconds=120),
        guard("web", WEB, 0),
    )
    async with nodes.process() as process:
        await process.look()
        claim = await nodes.get(NODE_CLAIM, "a")
        assert (
            claim["metadata"]["annotations"]["karpenter.sh/nodeclaim-termination-timestamp"] == "2026-06-10T12:10:00Z"
        )
        nodes.pass_by(minutes=7, seconds=58)
        await process.pass_once()
        assert len(await nodes.items(POD)) == 2
        nodes.pass_by(seconds=3)
        await process.pass_once()
        assert "delete guarded 119s" in process.kubelets.asked
        assert [each["metadata"]["name"] for each in await nodes.items(POD)] == ["web"]
        nodes.pass_by(minutes=1)
        await process.pass_once()
        assert "delete web 59s" in process.kubelets.asked
        await process.play(passes=8)
    assert "evict web" not in process.kubelets.asked
    assert await nodes.names(NODE) == []


async def test_expired_nodes_that_wait_for_budgets_stay_while_those_are_shut(nodes):
    await nodes.add_old(
        make_pool_of(budgets=[{"nodes": "0"}]), make_worker("a", expireAfter="1h"), make_pod("web", "a")
    )
    async with nodes.process(graceful=True) as process:
        await process.play(passes=5)
        assert await nodes.tainted() == []
        pool = await nodes.get(NODE_POOL, "general")
        disruption = pool["spec"]["disruption"] | {"budgets": [{"nodes": "1"}]}
        await nodes.patch(NODE_POOL, "general", spec=pool["spec"] | {"disruption": disruption})
        await process.play(passes=12)
    assert await nodes.names(NODE) == []


async def test_what_somebody_else_deletes_is_drained(nodes):
    await nodes.add(
        make_pool_of(after="Never"), make_worker("a"), make_pod("web", "a", labels=WEB), guard("web", WEB, 1)
    )
    await nodes.store.delete(NODE_CLAIM, Key("a"))
    async with nodes.process() as process:
        await process.play(passes=3, provision=False)
        assert await nodes.tainted() == ["a"]
        assert process.kubelets.asked == ["evict web"]
        await process.play(passes=8)
    assert await nodes.names(NODE) == []
    assert process.mortal.log.count("delete NodeClaim a") == 0


async def test_a_claim_that_nobody_ends_takes_its_node_along(nodes):
    node, claim = make_worker("a", expireAfter="1h")
    claim["metadata"]["finalizers"] = []
    await nodes.add_old(make_pool_of(), node, claim)
    async with nodes.process() as process:
        await process.play(passes=12, provision=False)
    assert await nodes.names(NODE) == []
    assert [each for each in process.mortal.log if each.startswith("delete")] == ["delete NodeClaim a", "delete Node a"]


async def test_never_more_go_at_once_than_may(nodes):
    await nodes.add(make_pool_of(budgets=[{"nodes": "2"}]))
    for number in range(7):
        name = f"n{number}"
        await nodes.add(make_worker(name, conditions=drifted()), make_pod(f"web-{number}", name, needs={"cpu": "3"}))
    async with nodes.process() as process:
        await process.play(passes=120)
    assert max(map(len, nodes.disrupted)) == 2
    assert not any(name.startswith("n") for name in await nodes.names(NODE))
