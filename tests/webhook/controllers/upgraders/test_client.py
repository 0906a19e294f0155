"""How back ends are asked: those that fail, hang, or answer nonsense say nothing about a cluster."""

import asyncio
from datetime import UTC, datetime, timedelta

import pytest

from scorer.api.upgrade.fields import UpgradeType
from scorer.upgrade.back_ends.interface import (
    CancelResult,
    Capabilities,
    Inventory,
    Issue,
    Observation,
    Operation,
    OperationState,
    Pool,
    Rejected,
    Started,
    Target,
)
from webhook.controllers.upgraders.client import UpgraderBackEnds
from webhook.settings.upgraders import UpgraderOptions

BEGIN = datetime(2026, 1, 5, tzinfo=UTC)
OPTIONS = UpgraderOptions(("back",), "back", poll=timedelta(seconds=15), call=timedelta(milliseconds=50))
MEMBER = {"metadata": {"name": "c1", "uid": "u1"}}
OPERATION = Operation("uid/c1/1", "r", "c1", "back", 1, Target(UpgradeType.FULL, "1.31.2"))


class BackEnd:
    """Answers what it is told to, and counts the questions."""

    name = "back"
    capabilities = Capabilities(chained_upgrades=True)

    def __init__(self):
        self.calls = []
        self.answers = {
            "inspect": Inventory("1.30.4"),
            "preflight": (),
            "start": Started.ACCEPTED,
            "observe": Observation(OperationState.IN_PROGRESS),
            "cancel": CancelResult.CANCELLED,
        }

    async def _answer(self, call):
        self.calls.append(call)
        answer = self.answers[call]
        if answer == "hang":
            await asyncio.sleep(10)
        if isinstance(answer, BaseException):
            raise answer
        return answer

    async def inspect(self, _member):
        return await self._answer("inspect")

    async def preflight(self, _member, _target):
        return await self._answer("preflight")

    async def start_upgrade(self, _operation):
        return await self._answer("start")

    async def observe(self, _operation):
        return await self._answer("observe")

    async def cancel(self, _operation):
        return await self._answer("cancel")


class Clock:
    now = BEGIN

    def __call__(self):
        return self.now


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def back():
    return BackEnd()


@pytest.fixture
def failed():
    return []


@pytest.fixture
def back_ends(back, clock, failed):
    return UpgraderBackEnds({"back": back}, OPTIONS, clock, lambda *call: failed.append(call))


def members(document=MEMBER):
    return {"c1": (document, "back")}


@pytest.mark.parametrize(
    "answer",
    [
        pytest.param(RuntimeError("down"), id="error"),
        pytest.param("hang", id="hangs"),
        pytest.param("done!", id="nonsense"),
        pytest.param(None, id="nothing"),
    ],
)
async def test_an_answer_that_is_none_says_nothing(back_ends, back, failed, answer):
    back.answers["observe"] = answer
    assert await back_ends.observe([OPERATION], {"c1": MEMBER}) == {}
    assert failed == [("back", "observe")]
    assert "uid/c1/1" not in back_ends.seen


@pytest.mark.parametrize(
    ("call", "answer", "said"),
    [
        ("observe", Observation(OperationState.FAILED, error="boom"), "error is 'boom'"),
        ("observe", Observation("Succeeded"), "state is 'Succeeded', not OperationState"),
        ("observe", Observation(OperationState.SUCCEEDED, finished_at=datetime(2026, 1, 5)), "has no time zone"),
        ("inspect", Inventory(None), "version is None, not str"),
        ("inspect", Inventory("1.30.4", (Pool("p", None),)), "pools[0].version is None, not str"),
        ("inspect", Inventory("1.30.4", (Pool("p", nodes=True),)), "pools[0].nodes is True, not int"),
        ("start", Rejected("x", 5), "message is 5, not str"),
    ],
)
async def test_a_field_of_another_type_makes_an_answer_none(back_ends, back, caplog, call, answer, said):
    back.answers[call] = answer
    match call:
        case "observe":
            assert await back_ends.observe([OPERATION], {"c1": MEMBER}) == {}
        case "inspect":
            assert await back_ends.inspect(members()) == {}
        case "start":
            assert await back_ends.start(OPERATION) is None
    assert said in caplog.records[-1].error


async def test_an_inner_task_that_was_cancelled_ends_nobody_else(back_ends, back, failed):
    """A back end that awaits a task of its own which has been cancelled raises that; whoever asks goes on."""
    back.answers["observe"] = asyncio.CancelledError()
    assert await back_ends.observe([OPERATION], {"c1": MEMBER}) == {}
    assert failed == [("back", "observe")]


async def test_who_asks_can_be_ended(back_ends, back):
    back.answers["observe"] = "hang"
    asking = asyncio.create_task(back_ends.observe([OPERATION], {"c1": MEMBER}))
    await asyncio.sleep(0)
    asking.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asking


async def test_a_clock_that_is_put_back_holds_no_call_up(back_ends, back, clock):
    back.answers |= {"observe": RuntimeError("down"), "preflight": [Issue("NoTopology", "there is none")]}
    target = Target(UpgradeType.FULL, "1.31.2")
    await back_ends.observe([OPERATION], {"c1": MEMBER})
    await back_ends.inspect(members())
    await back_ends.preflight(members(), target)
    clock.now = BEGIN - timedelta(hours=12)
    await back_ends.observe([OPERATION], {"c1": MEMBER})
    await back_ends.inspect(members())
    await back_ends.preflight(members(), target)
    assert back.calls == ["observe", "inspect", "preflight"] * 2


async def test_a_back_end_that_does_not_say_what_it_can_do_can_do_nothing(clock, failed):
    class Broken(BackEnd):
        @property
        def capabilities(self):
            raise RuntimeError("broken")

    back_ends = UpgraderBackEnds({"back": Broken()}, OPTIONS, clock, lambda *call: failed.append(call))
    assert not back_ends.capabilities["back"].supports(UpgradeType.FULL)
    assert failed == [("back", "capabilities")]


async def test_a_back_end_that_fails_is_asked_less_and_less_often(back_ends, back, clock):
    back.answers["observe"] = RuntimeError("down")
    asked = []
    for second in range(1200):
        clock.now = BEGIN + timedelta(seconds=second)
        before = len(back.calls)
        await back_ends.observe([OPERATION], {"c1": MEMBER})
        if len(back.calls) > before:
            asked.append(second)
    assert asked == [0, 5, 15, 35, 75, 155, 315, 615, 915]


async def test_a_back_end_that_answers_again_is_asked_every_time(back_ends, back, clock):
    back.answers["observe"] = RuntimeError("down")
    await back_ends.observe([OPERATION], {"c1": MEMBER})
    back.answers["observe"] = Observation(OperationState.IN_PROGRESS)
    clock.now = BEGIN + timedelta(seconds=5)
    for _ in range(3):
        assert (await back_ends.observe([OPERATION], {"c1": MEMBER}))["uid/c1/1"].state == "InProgress"
    assert len(back.calls) == 4


async def test_a_success_comes_with_what_the_cluster_runs(back_ends, back):
    back.answers |= {"observe": Observation(OperationState.SUCCEEDED), "inspect": Inventory("1.31.2")}
    found = await back_ends.observe([OPERATION], {"c1": MEMBER})
    assert found["uid/c1/1"].inventory == Inventory("1.31.2")


async def test_a_success_is_not_told_of_before_the_cluster_was_looked_at(back_ends, back):
    back.answers |= {"observe": Observation(OperationState.SUCCEEDED), "inspect": RuntimeError("down")}
    assert await back_ends.observe([OPERATION], {"c1": MEMBER}) == {}


async def test_members_are_looked_at_once_in_a_while(back_ends, back, clock):
    for second in (0, 14, 15):
        clock.now = BEGIN + timedelta(seconds=second)
        assert await back_ends.inspect(members()) == {"c1": Inventory("1.30.4")}
    assert back.calls == ["inspect"] * 2


async def test_a_member_that_changes_is_looked_at_again(back_ends, back):
    await back_ends.inspect(members())
    await back_ends.inspect(members({**MEMBER}))
    await back_ends.inspect(members({**MEMBER}), anew=True)
    assert back.calls == ["inspect"] * 3


async def test_what_was_seen_last_of_a_cluster_still_counts_while_nobody_answers(back_ends, back):
    await back_ends.inspect(members())
    back.answers["inspect"] = RuntimeError("down")
    assert await back_ends.inspect(members({**MEMBER}), anew=True) == {"c1": Inventory("1.30.4")}
    other = {"metadata": {"name": "c1", "uid": "another"}}
    assert await back_ends.inspect(members(other)) == {}


async def test_a_member_that_is_gone_is_forgotten(back_ends):
    await back_ends.inspect(members())
    assert await back_ends.inspect({}) == {}


async def test_a_member_of_an_upgrader_that_is_not_there_is_not_known(back_ends, back):
    assert await back_ends.inspect({"c1": (MEMBER, "magic")}) == {}
    assert back.calls == []


@pytest.mark.parametrize(
    ("answer", "refused"),
    [
        (Started.ACCEPTED, None),
        (Started.ALREADY_RUNNING, None),
        (Rejected("no"), Rejected("no")),
        ("yes", None),
        (RuntimeError("down"), None),
    ],
)
async def test_only_a_refusal_refuses(back_ends, back, answer, refused):
    back.answers["start"] = answer
    assert await back_ends.start(OPERATION) == refused


async def test_what_is_forgotten_of_a_run(back_ends):
    await back_ends.observe([OPERATION], {"c1": MEMBER})
    back_ends.forget("uid")
    assert "uid/c1/1" not in back_ends.seen


def test_capabilities_are_those_of_the_back_ends(back_ends):
    assert back_ends.capabilities == {"back": Capabilities(chained_upgrades=True)}


async def test_what_is_expected_to_be_in_the_way_is_asked_about_once_a_minute(back_ends, back, clock):
    issue = Issue("NoTopology", "Cluster quays/c1 has no topology")
    back.answers["preflight"] = [issue, "nonsense"]
    target = Target(UpgradeType.FULL, "1.31.2")
    assert await back_ends.preflight(members(), target) == {"c1": (issue,)}
    assert await back_ends.preflight(members(), target) == {"c1": (issue,)}
    assert back.calls == ["preflight"]
    await back_ends.preflight(members(), Target(UpgradeType.FULL, "1.32.0"))
    await back_ends.preflight(members(), target, anew=True)
    assert len(back.calls) == 3
    clock.now += timedelta(minutes=1)
    back.answers["preflight"] = ()
    assert await back_ends.preflight(members(), target) == {}
    assert await back_ends.preflight({}, target) == {}


async def test_a_back_end_that_does_not_say_what_is_in_the_way_prevents_nothing(back_ends, back):
    back.answers["preflight"] = RuntimeError("down")
    assert await back_ends.preflight(members(), Target(UpgradeType.FULL, "1.31.2")) == {}


async def test_what_goes_wrong_though_a_back_end_answers_counts_as_a_call_that_failed(clock):
    back_end, counted = BackEnd(), []
    back_end.answers["observe"] = Observation(OperationState.ACCEPTED, unclaimed=True, trouble="connection refused")
    back_ends = UpgraderBackEnds(
        {"back": back_end}, OPTIONS, clock, lambda upgrader, call: counted.append((upgrader, call))
    )
    for _ in range(2):
        assert (await back_ends.observe([OPERATION], {}))["uid/c1/1"].unclaimed
    assert counted == [("back", "observe")] * 2
