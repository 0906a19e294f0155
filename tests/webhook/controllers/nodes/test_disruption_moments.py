"""What changes while nodes are disrupted: the mode, who else leads, the clock, and what is said then."""

from datetime import timedelta

import pytest

from scorer.api.kinds import LEASE, NODE, NODE_CLAIM, POD
from scorer.api.meta import format_time
from scorer.api.unstructured.documents import conditions_of
from scorer.node_disruption.execution.command_annotation import COMMAND
from tests.builders.pod import make_pod
from tests.builders.worker import drifted, make_pool_of, make_worker
from tests.webhook.controllers.nodes.nodes_world import command_on, guard, karpenter, opened_nodes
from webhook.kube.client.evictions import ServerNodeWork
from webhook.kube.ports import Key, UnavailableError
from webhook.settings.gate import NodeDisruptionMode

ADVISE = NodeDisruptionMode.ADVISE
WEB = {"app": "web"}


@pytest.fixture
async def nodes():
    async with opened_nodes() as found:
        yield found


async def renew(nodes, behind):
    """Have Karpenter renew its Lease, by a clock that is so far behind ours."""
    spec = karpenter(nodes.now - behind)["spec"]
    await nodes.patch(LEASE, "karpenter-leader-election", "kube-system", spec=spec)


@pytest.mark.parametrize("behind", [timedelta(hours=1), -timedelta(hours=1)], ids=["behind", "ahead"])
async def test_a_karpenter_whose_clock_is_another_one_leads_all_the_same(nodes, behind):
    await nodes.add(make_pool_of(), make_worker("a"), karpenter(nodes.now - behind))
    async with nodes.process() as process:
        for _ in range(20):
            await process.pass_once()
            nodes.pass_by(seconds=2)
            await renew(nodes, behind)
        assert (await nodes.condition())["reason"] == "NotActing"
        assert await nodes.tainted() == []
        await process.play(passes=35)
    assert await nodes.names(NODE) == []


async def test_a_karpenter_that_comes_in_the_middle_of_a_drain_ends_it(nodes):
    await nodes.add_old(
        make_pool_of(), make_worker("a", expireAfter="1h"), make_pod("web", "a", labels=WEB), guard("web", WEB, 0)
    )
    async with nodes.process() as process:
        await process.play(passes=4)
        assert command_on(await nodes.get(NODE, "a"))
        await nodes.add(karpenter(nodes.now))
        await process.play(passes=7)
        tried, wrote = len(process.kubelets.asked), list(process.mortal.log)
        await renew(nodes, timedelta())
        await process.play(passes=5)
        assert len(process.kubelets.asked) == tried
        assert [each for each in process.mortal.log[len(wrote) :] if "NodePool" not in each] == []
        condition = await nodes.condition()
        assert (condition["status"], condition["reason"]) == ("False", "NotActing")
        assert condition["message"].endswith("Started in mode Act and left unchanged: a")


async def test_what_was_begun_is_left_as_it_is_in_mode_advise_and_that_is_said(nodes):
    await nodes.add_old(
        make_pool_of(),
        make_worker("a", expireAfter="1h"),
        make_worker("b", annotations={COMMAND: "?"}),
        make_pod("web", "a", labels=WEB),
        guard("web", WEB, 0),
    )
    async with nodes.process() as process:
        await process.play(passes=4)
    before = [await nodes.get(NODE, name) for name in "ab"], await nodes.items(NODE_CLAIM), await nodes.items(POD)
    async with nodes.process(ADVISE) as process:
        await process.look()
        nodes.pass_by(minutes=20)
        await process.look()
        assert {each for each in process.mortal.log if "NodePool" not in each} == set()
        condition = await nodes.condition()
        assert condition["reason"] != "Disrupting"
        assert condition["message"].endswith("Started in mode Act and left unchanged: a")
    after = [await nodes.get(NODE, name) for name in "ab"], await nodes.items(NODE_CLAIM), await nodes.items(POD)
    assert after == before
    async with nodes.process() as process:
        await process.look()
        assert "being disrupted: Expired: a" in (await nodes.condition())["message"]


@pytest.mark.parametrize("hours", [24, -24], ids=["ahead", "back"])
async def test_a_clock_that_is_set_holds_nothing_up(nodes, hours):
    await nodes.add(make_pool_of(), make_worker("a"), make_worker("b", conditions=drifted()))
    await nodes.add(make_pod("web", "b"), make_pod("kept", "a", annotations={"karpenter.sh/do-not-disrupt": "true"}))
    async with nodes.process() as process:
        await process.look()
        nodes.set_clock(hours=hours)
        await process.play(passes=30)
        assert "b" not in await nodes.names(NODE)
        assert "a" in await nodes.names(NODE)
        await nodes.add(karpenter(nodes.now))
        await process.play(passes=7)
        assert (await nodes.condition())["reason"] == "NotActing"


@pytest.mark.parametrize("days", [40, -40], ids=["ahead", "behind"])
async def test_by_a_clock_that_is_wrong_nothing_is_done(nodes, days):
    """All nodes would have reached their age, and budgets do not hold that."""
    await nodes.add_old(make_pool_of(), make_worker("a", expireAfter="720h"), make_worker("b", expireAfter="1h"))
    await nodes.add(make_pod("web", "a"), make_pod("kept", "b", annotations={"karpenter.sh/do-not-disrupt": "true"}))
    async with nodes.process() as process:
        await process.play(passes=4)
        assert await nodes.tainted() == ["b"]
        nodes.set_clock(days=days)
        process.kubelets.ahead = timedelta(days=-days)
        before = [each for each in process.mortal.log if "NodePool" not in each]
        await process.play(passes=20)
        assert [each for each in process.mortal.log if "NodePool" not in each] == before
        condition = await nodes.condition()
        assert condition["reason"] == "NotActing"
        assert "the clock of this process is at 2026-" in condition["message"]
        nodes.set_clock(days=-days)
        process.kubelets.ahead = timedelta()
        await process.play(passes=4)
        assert (await nodes.condition())["reason"] == "Disrupting"
    assert await nodes.names(NODE) == ["a", "b"]


async def test_a_drain_goes_on_when_the_clock_is_set_back(nodes):
    await nodes.add_old(
        make_pool_of(),
        make_worker("a", expireAfter="1h", terminationGracePeriod="10m"),
        make_pod("web", "a", labels=WEB),
        guard("web", WEB, 0),
    )
    async with nodes.process() as process:
        await process.play(passes=4)
        assert command_on(await nodes.get(NODE, "a"))
        nodes.set_clock(minutes=-45)
        await process.play(passes=4)
        assert await nodes.find(POD, "web", "shop")
        nodes.pass_by(minutes=10)
        await process.play(passes=8)
    assert await nodes.names(NODE) == []


async def test_changes_of_pods_are_seen_within_ten_seconds_though_they_wake_nobody(nodes):
    await nodes.add(make_pool_of(), make_worker("a"), make_pod("web", "a"))
    async with nodes.process(ADVISE) as process:
        for _ in range(3):
            wait = await process.look()
            nodes.pass_by(seconds=11)
        assert (await nodes.condition())["reason"] == "Held"
        await nodes.store.delete(POD, Key("web", "shop"))
        assert wait is not None
        assert wait <= timedelta(seconds=10)
        nodes.pass_by(seconds=wait.total_seconds())
        await process.look()
        assert (await nodes.condition())["reason"] == "Advised"


async def test_who_deletes_one_node_of_two_keeps_the_other(nodes, tmp_path):
    """The pods of the other have no place before the new node is there, and now more of them need one."""
    path = tmp_path / "types.csv"
    rows = ["large,4,16Gi,z1,on-demand,0.2", "small,3,16Gi,z1,on-demand,0.1"]
    path.write_text("\n".join(["name,cpu,memory,zone,capacityType,price", *rows]))
    await nodes.add(make_pool_of(), make_worker("a"), make_worker("b"))
    await nodes.add(make_pod("web-a", "a", needs={"cpu": "1"}), make_pod("web-b", "b", needs={"cpu": "1"}))
    async with nodes.process(prices=path) as process:
        for _ in range(30):
            await process.pass_once()
            if len(await nodes.tainted()) == 2:
                break
            nodes.pass_by(seconds=2)
        assert await nodes.tainted() == ["a", "b"]
        await nodes.store.delete(NODE_CLAIM, Key("a"))
        await process.play(passes=4, provision=False)
        assert await nodes.find(POD, "web-a", "shop") is None
        assert await nodes.find(POD, "web-b", "shop")
        assert await nodes.tainted() == ["a"]
        assert not any(each["type"] == "DisruptionReason" for each in conditions_of(await nodes.get(NODE_CLAIM, "b")))


async def test_how_long_a_replacement_is_waited_for_is_said(nodes):
    await nodes.add(make_pool_of(), make_worker("a", conditions=drifted()), make_pod("web", "a", needs={"cpu": "3"}))
    async with nodes.process() as process:
        await process.play(passes=4, provision=False)
    until = format_time(nodes.now + timedelta(minutes=10) - timedelta(seconds=6))
    told = [each[3] for each in nodes.told if each[2] == "DisruptionWaitingReadiness"]
    assert told
    assert all(each.endswith(f"until {until} at the latest") for each in told)


async def test_what_keeps_a_node_is_one_event(nodes):
    """An API server keeps of several Events of one object and one reason the first, and counts the others."""
    await nodes.add(
        make_pool_of(),
        make_worker("a", annotations={"karpenter.sh/do-not-disrupt": "true"}),
        make_pod("web", "a", labels=WEB, annotations={"karpenter.sh/do-not-disrupt": "true"}),
    )
    async with nodes.process(ADVISE) as process:
        await process.look()
    [message] = [told[3] for told in nodes.told if told[:3] == ("Node", "a", "DisruptionBlocked")]
    assert "the node is annotated" in message
    assert "pod shop/web is protected by the annotation" in message


class Proxy:
    """What answers anything but an API server."""

    async def request(self, *_, **__):
        return {}


async def test_who_answers_without_a_list_says_nothing_of_karpenter():
    work = ServerNodeWork(Proxy())
    with pytest.raises(UnavailableError, match="not a list of an API server"):
        await work.leases("karpenter-leader-election", "")
    with pytest.raises(UnavailableError, match="not a list of an API server"):
        await work.pods_on("a")
