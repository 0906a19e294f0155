"""What others do while nodes are disrupted: they refuse writes, delete, make anew, forge, and hold nothing up by it."""

from datetime import timedelta

import orjson
import pytest

from scorer.api.family import UnknownObjectError
from scorer.api.kinds import NODE, NODE_CLAIM, NODE_POOL, POD
from scorer.api.meta import format_time
from scorer.api.unstructured.documents import annotations_of, conditions_of, is_deleting
from scorer.node_disruption.cluster.snapshot import TERMINATION_TIMESTAMP
from scorer.node_disruption.execution.command_annotation import COMMAND, Order, format_order
from scorer.reservations import TooManyReservationsError
from tests.builders.pod import make_pod
from tests.builders.worker import NOW, drifted, make_pool_of, make_worker
from tests.webhook.controllers.nodes.nodes_world import command_on, guard, opened_nodes
from webhook.gate.errors import MistakenQuestionError
from webhook.gate.nodes import HubNodeGate
from webhook.kube.ports import ForbiddenError, InvalidObjectError, Key, UnavailableError

WEB = {"app": "web"}


@pytest.fixture
async def nodes():
    async with opened_nodes() as found:
        yield found


@pytest.mark.parametrize("error", [ForbiddenError, InvalidObjectError, UnavailableError])
async def test_a_pod_whose_eviction_is_refused_holds_up_only_its_own_node(nodes, error):
    await nodes.add_old(
        make_pool_of(),
        make_worker("a", expireAfter="1h"),
        make_worker("b", expireAfter="1h"),
        make_pod("kept", "a"),
        make_pod("other", "a"),
        make_pod("web", "b"),
    )
    async with nodes.process() as process:
        process.mortal.refused["evict Pod kept "] = error("denied by a policy")
        await process.play(passes=12)
        assert await nodes.names(NODE) == ["a"]
        assert [each["metadata"]["name"] for each in await nodes.items(POD)] == ["kept"]
        assert process.kubelets.asked.count("evict kept") > 2
        assert any(told[2] == "FailedDraining" and "denied by a policy" in told[3] for told in nodes.told)
        await nodes.add(make_worker("c", expireAfter="1s"))
        await process.play(passes=16)
        assert await nodes.names(NODE) == ["a"]
        process.mortal.refused.clear()
        await process.play(passes=12)
    assert await nodes.names(NODE) == []


@pytest.mark.parametrize(
    "write", ["replace Node a ", "status NodeClaim a ", "delete NodeClaim a "], ids=["mark", "condition", "deletion"]
)
async def test_a_node_that_cannot_be_written_holds_up_no_other(nodes, write):
    await nodes.add_old(make_pool_of(), make_worker("a", expireAfter="1h"), make_worker("b", expireAfter="1h"))
    async with nodes.process() as process:
        process.mortal.refused[write] = ForbiddenError("denied by a policy")
        await process.play(passes=16)
        assert await nodes.names(NODE) == ["a"]
        assert any(told[:2] == ("Node", "a") and "denied by a policy" in told[3] for told in nodes.told)
        process.mortal.refused.clear()
        await process.play(passes=16)
    assert await nodes.names(NODE) == []


async def test_a_mark_that_cannot_be_taken_off_holds_up_nothing(nodes):
    await nodes.add(make_pool_of(), make_worker("a", annotations={COMMAND: "?"}), make_worker("b"))
    async with nodes.process() as process:
        process.mortal.refused["replace Node a "] = ForbiddenError("denied by a policy")
        await process.play(passes=16)
    assert await nodes.names(NODE) == ["a"]


@pytest.mark.parametrize(
    "changed",
    [
        {"draining": "9999-12-31T23:59:58Z"},
        {"since": "9999-12-31T23:59:58Z", "replacements": ["new"]},
        {"since": "0001-01-01T00:00:00Z", "replacements": ["new"]},
        {"nodes": ["a"], "replacements": ["a", "b"]},
    ],
    ids=["drained-for-ever", "accepted-at-the-end-of-time", "accepted-at-its-beginning", "odd-replacements"],
)
async def test_a_command_that_somebody_has_made_up_ends_by_itself(nodes, changed):
    order = {"id": "1", "method": "Drift", "reason": "Drifted", "nodes": ["a"], "since": format_time(NOW)} | changed
    taint = {"key": "karpenter.sh/disrupted", "effect": "NoSchedule"}
    await nodes.add(
        make_pool_of(after="Never"),
        make_worker("a", annotations={COMMAND: orjson.dumps(order).decode()}, taints=[taint]),
        make_worker("b", conditions=drifted()),
        make_pod("web", "a"),
    )
    async with nodes.process() as process:
        await process.play(passes=60)
    assert "b" not in await nodes.names(NODE)
    assert await nodes.tainted() == []


async def test_a_made_up_command_does_not_speak_for_another_node(nodes):
    true = Order("1", "Drift", "Drifted", ("a", "b"), NOW, ("new",))
    false = Order("1", "Drift", "Drifted", ("a",), NOW)
    taint = {"key": "karpenter.sh/disrupted", "effect": "NoSchedule"}
    await nodes.add(
        make_pool_of(after="Never"),
        make_worker("a", annotations={COMMAND: format_order(false)}, taints=[taint]),
        make_worker("b", annotations={COMMAND: format_order(true)}, taints=[taint]),
        make_pod("web", "b"),
    )
    async with nodes.process() as process:
        await process.play(passes=12)
    assert await nodes.find(POD, "web", "shop")
    assert "b" in await nodes.names(NODE)


async def test_a_pod_that_the_watch_has_not_told_of_keeps_its_node(nodes):
    await nodes.add(make_pool_of(), make_worker("a"), make_worker("b"), make_pod("web", "b"))
    async with nodes.process() as process:
        await process.look()
        process.mortal.deaf = POD
        await nodes.add(make_pod("late", "a", labels=WEB), guard("late", WEB, 0))
        nodes.pass_by(seconds=16)
        await process.play(passes=12)
        assert (await nodes.get(NODE_CLAIM, "a"))["metadata"].get("deletionTimestamp") is None
        assert await nodes.find(POD, "late", "shop")


async def test_what_a_drain_that_was_broken_off_has_announced_forces_nothing(nodes):
    """A person may take the marks off; the end that the claim announces stays there, and says nothing of the next."""
    await nodes.add_old(
        make_pool_of(),
        make_worker(
            "a",
            expireAfter="1h",
            terminationGracePeriod="10m",
            claim={TERMINATION_TIMESTAMP: format_time(NOW - timedelta(days=9))},
        ),
        make_pod("web", "a", labels=WEB),
        guard("web", WEB, 0),
    )
    async with nodes.process() as process:
        await process.play(passes=4)
        assert await nodes.find(POD, "web", "shop")
        claim = await nodes.get(NODE_CLAIM, "a")
        assert annotations_of(claim)[TERMINATION_TIMESTAMP] == "2026-06-10T12:10:02Z"
        nodes.pass_by(minutes=10)
        await process.play(passes=8)
    assert await nodes.names(NODE) == []


async def test_a_replacement_that_has_become_a_node_stays_whatever_becomes_of_its_conditions(nodes):
    await nodes.add(
        make_pool_of(after="Never"), make_worker("a", conditions=drifted()), make_pod("web", "a", needs={"cpu": "3"})
    )
    async with nodes.process() as process:
        await process.play(passes=14)
        [new] = await nodes.names(NODE)
        assert new != "a"
        await nodes.add(make_pod("moved", new))
        status = (await nodes.get(NODE_CLAIM, new))["status"]
        conditions = [{**each, "status": "Unknown"} for each in status["conditions"]]
        await nodes.patch(NODE_CLAIM, new, status={"conditions": conditions})
        await process.play(passes=4)
    assert not is_deleting(await nodes.get(NODE_CLAIM, new))
    assert await nodes.find(POD, "moved", "shop")


async def test_a_node_that_was_made_anew_since_the_decision_stays(nodes):
    """A large cluster is decided on for seconds, and the name of a node may be another machine's by then."""
    await nodes.add_old(make_pool_of(), make_worker("a", expireAfter="1h"), make_worker("b", expireAfter="1h"))
    async with nodes.process() as process:
        await process.pass_once()
        await process.catch_up()
        planning = process.controller._site.planning
        look = planning.evaluate

        async def slowly(shunned):
            found = await look(shunned)
            await nodes.store.delete(NODE, Key("a"))
            await nodes.patch(
                NODE_CLAIM, "a", metadata={**(await nodes.get(NODE_CLAIM, "a"))["metadata"], "finalizers": []}
            )
            await nodes.store.delete(NODE_CLAIM, Key("a"))
            await nodes.add(make_worker("a"), make_pod("web", "a"))
            await process.catch_up()
            return found

        planning.evaluate = slowly
        await process.pass_once()
        planning.evaluate = look
        assert await nodes.tainted() == ["b"]
        await process.play(passes=12)
    assert await nodes.names(NODE) == ["a"]
    assert await nodes.find(POD, "web", "shop")


async def test_the_claim_of_a_former_node_of_that_name_is_not_that_of_the_present_one(nodes):
    """Names of machines come back, such as those that are made of addresses; ids of instances do not."""
    former = make_worker("gone", expireAfter="1h")[1]
    former["metadata"]["name"] = "a-former"
    former["status"] |= {"nodeName": "a", "providerID": "vm://1"}
    node, claim = make_worker("a")
    node["spec"]["providerID"], claim["status"]["providerID"] = "vm://2", "vm://2"
    claim["metadata"]["name"] = "a-now"
    await nodes.add_old(make_pool_of(after="Never"), former, (node, claim), make_pod("web", "a"))
    await nodes.store.delete(NODE_CLAIM, Key("a-former"))
    async with nodes.process() as process:
        await process.play(passes=10, provision=False)
    assert await nodes.tainted() == []
    assert await nodes.find(POD, "web", "shop")


async def test_who_deletes_a_node_has_its_claim_say_so(nodes):
    """The account may write claims of nodes that go, and no others: see `webhook.processes.account_policies`."""
    node, claim = make_worker("a", terminationGracePeriod="10m")
    node["metadata"]["finalizers"] = ["karpenter.sh/termination"]
    await nodes.add(make_pool_of(after="Never"), node, claim, make_pod("web", "a", labels=WEB), guard("web", WEB, 0))
    await nodes.store.delete(NODE, Key("a"))
    async with nodes.process() as process:
        await process.play(passes=3)
    log = process.mortal.log
    assert log.index("status NodeClaim a") < log.index("amend NodeClaim a")
    conditions = conditions_of(await nodes.get(NODE_CLAIM, "a"))
    assert [each["reason"] for each in conditions if each["type"] == "DisruptionReason"] == ["Deletion"]


async def test_an_expired_node_with_a_taint_of_others_is_told_of_and_not_counted(nodes):
    taint = {"key": "karpenter.sh/disrupted", "effect": "NoSchedule"}
    await nodes.add_old(make_pool_of(), make_worker("a", expireAfter="1h", taints=[taint]))
    async with nodes.process() as process:
        await process.play(passes=12)
    assert await nodes.names(NODE) == ["a"]
    assert any(told[2] == "DisruptionBlocked" and "karpenter.sh/disrupted" in told[3] for told in nodes.told)
    assert not any(told[2] == "DisruptionTerminating" for told in nodes.told)
    assert "Expired" not in (await nodes.condition())["message"]


async def test_of_many_empty_nodes_no_annotation_names_all(nodes):
    await nodes.add(make_pool_of())
    for number in range(230):
        await nodes.add(make_worker(f"n{number}"))
    async with nodes.process() as process:
        await process.look()
        nodes.pass_by(seconds=16)
        await process.pass_once()
        assert len(await nodes.tainted()) == 230
        longest = max(len(command_on(each)) for each in await nodes.items(NODE))
        assert longest < 1500
        await process.play(passes=6)
    assert await nodes.names(NODE) == []


async def test_of_many_pods_some_are_tried_at_a_time_and_each_has_its_turn(nodes):
    await nodes.add_old(make_pool_of(), make_worker("a", expireAfter="1h"), guard("web", WEB, 0))
    for number in range(180):
        await nodes.add(make_pod(f"web-{number:03}", "a", labels=WEB, needs={"cpu": "1m"}))
    await nodes.add(make_pod("zz-free", "a", needs={"cpu": "1m"}))
    async with nodes.process() as process:
        await process.look()
        counts = []
        for _ in range(30):
            before = len(process.kubelets.asked)
            await process.pass_once()
            counts.append(len(process.kubelets.asked) - before)
            nodes.pass_by(seconds=1)
        assert max(counts) <= 50
        assert await nodes.find(POD, "zz-free", "shop") is None
        assert {f"evict web-{number:03}" for number in range(180)} <= set(process.kubelets.asked)
    told = [each for each in nodes.told if each[2] == "FailedDraining" and each[0] == "Node"]
    assert len(told) == 1


@pytest.mark.parametrize("what", ["full", "pool", "node"])
async def test_what_the_gate_cannot_answer_is_a_refusal(nodes, what, monkeypatch):
    errors = {
        "full": TooManyReservationsError("they do not fit"),
        "pool": UnknownObjectError("there is no node pool"),
        "node": MistakenQuestionError("/nodes/0", "unknown-node", "'a' is not a node of NodePool general"),
    }

    async def answer(*_):
        raise errors[what]

    monkeypatch.setattr(HubNodeGate, "answer", answer)
    await nodes.add(make_pool_of(), make_worker("a", conditions=drifted()), make_worker("b"), make_pod("web", "a"))
    async with nodes.process() as process:
        await process.play(passes=14)
        assert await nodes.tainted() == []
        assert any("refused by the gate" in told[3] for told in nodes.told)


async def test_no_replacement_is_made_while_its_pool_is_beyond_its_limits(nodes):
    pool = make_pool_of(limits={"cpu": "7"})
    await nodes.add(pool, make_worker("a", conditions=drifted()), make_worker("b"))
    await nodes.add(*(make_pod(name, node, needs={"cpu": "3"}) for name, node in (("web", "a"), ("db", "b"))))
    async with nodes.process() as process:
        await process.play(passes=6)
        assert await nodes.tainted() == []
        assert any("would exceed its limits" in told[3] for told in nodes.told)


async def test_a_pool_that_cannot_be_read_says_so(nodes):
    await nodes.add(make_pool_of(), make_worker("a"))
    pool = await nodes.get(NODE_POOL, "general")
    async with nodes.process() as process:
        await process.look()
        assert (await nodes.condition())["reason"] == "Disrupting"
        await nodes.patch(NODE_POOL, "general", spec={**pool["spec"], "weight": "much"})
        nodes.pass_by(seconds=11)
        await process.look()
        condition = await nodes.condition()
        assert (condition["status"], condition["reason"]) == ("Unknown", "CannotRead")
        await process.play(passes=12)
    assert await nodes.names(NODE) == ["a"]


async def test_a_claim_that_nobody_ends_costs_nothing_more(nodes):
    await nodes.add_old(make_pool_of(), make_worker("a", expireAfter="1h"))
    async with nodes.process() as process:
        await process.play(passes=8, provision=False)
        wrote, looks = list(process.mortal.log), process.kubelets.looks
        assert is_deleting(await nodes.get(NODE_CLAIM, "a"))
        await process.play(passes=30, provision=False)
        assert (process.mortal.log, process.kubelets.looks) == (wrote, looks)
    assert await nodes.tainted() == ["a"]


async def test_of_many_nodes_that_expire_at_once_nobody_asks_for_each_whether_karpenter_runs(nodes):
    await nodes.add_old(make_pool_of(), *(make_worker(f"n{number}", expireAfter="1h") for number in range(120)))
    async with nodes.process() as process:
        await process.look()
        assert len(await nodes.tainted()) == 120
        assert process.kubelets.lists <= 3


async def test_a_drifted_node_that_cannot_be_marked_lets_the_next_go(nodes):
    """One drifted node is begun in each pass, the one that has drifted first: it must not be first for ever."""
    await nodes.add(
        make_pool_of(after="Never"),
        make_worker("a", conditions=drifted(timedelta(hours=9))),
        make_worker("b", conditions=drifted(timedelta(hours=1))),
    )
    async with nodes.process() as process:
        process.mortal.refused["replace Node a "] = ForbiddenError("denied by a policy")
        await process.play(passes=40)
        assert await nodes.names(NODE) == ["a"]
        assert any(told[:2] == ("Node", "a") and "denied by a policy" in told[3] for told in nodes.told)
        process.mortal.refused.clear()
        nodes.pass_by(minutes=10)
        await process.play(passes=20)
    assert await nodes.names(NODE) == []


async def test_a_pool_that_gets_no_replacements_holds_up_no_other(nodes):
    needs = {"cpu": "3"}
    await nodes.add(make_pool_of("first", after="Never"), make_pool_of("second", after="Never"))
    await nodes.add(
        make_worker("a", pool="first", conditions=drifted(timedelta(hours=9))), make_pod("a", "a", needs=needs)
    )
    await nodes.add(make_worker("b", pool="second", conditions=drifted()), make_pod("b", "b", needs=needs))
    async with nodes.process() as process:
        process.mortal.refused["create NodeClaim first-"] = ForbiddenError("exceeded quota")
        await process.play(passes=90)
        assert "b" not in await nodes.names(NODE)
        assert "a" in await nodes.names(NODE)
        assert process.mortal.log.count("replace Node a") <= 4
        assert any(told[2] == "DisruptionUndone" and "exceeded quota" in told[3] for told in nodes.told)


async def test_a_pool_whose_gate_cannot_answer_holds_up_no_other(nodes, monkeypatch):
    answer = HubNodeGate.answer

    async def answers_for_others(gate, questions, claimant):
        if any(each.pool == "first" for each in questions):
            raise TooManyReservationsError("they do not fit")
        return await answer(gate, questions, claimant)

    monkeypatch.setattr(HubNodeGate, "answer", answers_for_others)
    await nodes.add(make_pool_of("first", after="Never"), make_pool_of("second", after="Never"))
    await nodes.add(make_worker("a", pool="first", conditions=drifted(timedelta(hours=9))))
    await nodes.add(make_worker("b", pool="second", conditions=drifted()))
    async with nodes.process() as process:
        await process.play(passes=40)
    assert await nodes.names(NODE) == ["a"]
