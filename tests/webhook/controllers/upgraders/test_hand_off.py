"""How requests are handed off: who is told, how often, and until when."""

from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import timedelta

import pytest
from aiohttp import web

from scorer.api.kinds import MEMBER_CLUSTER, UPGRADE_REQUEST, UPGRADE_RUN
from scorer.api.meta import format_time
from scorer.api.unstructured.documents import status_of, uid_of
from scorer.api.upgrade.fields import UpgradeType
from scorer.upgrade.back_ends.interface import Operation, OperationState, Target
from tests.loopback import on_loopback
from tests.virtual_time import loop_now
from tests.webhook.controllers.upgrade_world import make_upgrade_run, make_upgraded
from tests.webhook.controllers.world import World
from webhook.controllers.upgraders.hand_off import HandOff
from webhook.controllers.upgraders.upgrade_requests import UpgradeRequestStore
from webhook.controllers.upgraders.upgrader import Workplace
from webhook.kube.ports import Key
from webhook.settings.upgraders import HandOffOptions, UpgraderOptions

TARGET = Target(UpgradeType.FULL, "1.31.2", {"linux": "110"})


class Outside:
    """An upgrader that is told of operations."""

    def __init__(self):
        self.told = []
        self.status = 200

    async def handle(self, request):
        self.told.append((await request.json())["spec"]["operationID"])
        return web.Response(status=self.status)


class Desk:
    """A hub with one member, and the back end that hands its upgrades off."""

    def __init__(self, world, run, url, secret_file):
        self.world = world
        self.begin = loop_now().replace(microsecond=0)
        self.operation = Operation(
            f"{uid_of(run)}/c1/1", "r", "c1", "handoff", 1, TARGET, self.begin + timedelta(hours=1)
        )
        self.ahead = timedelta()
        hand_off = HandOffOptions(url, secret_file)
        options = UpgraderOptions(call=timedelta(seconds=4), hand_off=hand_off)
        self.back_end = HandOff(Workplace(world.hub, lambda: self.begin + self.ahead, None, options))
        self.book = UpgradeRequestStore(world.hub, lambda: self.begin + self.ahead)

    def status(self):
        return status_of(self.book.find(self.operation))

    async def claim(self, **status):
        found = self.book.find(self.operation)
        await self.world.hub.store_status(UPGRADE_REQUEST, found, {**status_of(found), **status})

    async def observe(self, after=timedelta(), **operation):
        self.ahead = after
        return await self.back_end.observe(replace(self.operation, **operation))


@pytest.fixture
def secret_file(tmp_path):
    path = tmp_path / "secret"
    path.write_text("x" * 40 + "\n")
    return path


@asynccontextmanager
async def handing_off(url="", secret_file=None):
    world = World()
    await world.hub.create(MEMBER_CLUSTER, make_upgraded("c1"))
    run = await world.hub.create(UPGRADE_RUN, make_upgrade_run())
    desk = Desk(world, run, url, secret_file)
    await desk.book.make(desk.operation)
    try:
        yield desk
    finally:
        world.store.close()


@asynccontextmanager
async def outside():
    found = Outside()
    app = web.Application()
    app.router.add_post("/", found.handle)
    async with on_loopback(app) as address:
        found.url = f"{address}/"
        yield found


def minutes(count):
    return timedelta(minutes=count)


NOBODY = "http://127.0.0.1:9/"


async def test_an_upgrader_is_told_when_its_operation_is_looked_at(secret_file):
    async with outside() as upgrader, handing_off(upgrader.url, secret_file) as desk:
        found = await desk.observe()
        assert (found.state, found.unclaimed) == (OperationState.ACCEPTED, False)
        assert (upgrader.told, desk.status()["phase"]) == ([desk.operation.id], "Accepted")
        await desk.observe()
        assert len(upgrader.told) == 1


@pytest.mark.parametrize(
    ("after", "given_up"),
    [
        pytest.param(minutes(60), False, id="past-its-deadline"),
        pytest.param(minutes(1), True, id="given-up"),
    ],
)
async def test_an_upgrader_is_not_told_of_what_the_run_has_given_up(secret_file, after, given_up):
    async with outside() as upgrader, handing_off(upgrader.url, secret_file) as desk:
        found = await desk.observe(after, given_up=given_up)
        assert (found.in_flight, found.unclaimed) == (True, True)
        assert (upgrader.told, "phase" in desk.status()) == ([], False)


async def test_an_upgrader_is_not_told_to_begin_what_is_called_off(secret_file):
    async with outside() as upgrader, handing_off(upgrader.url, secret_file) as desk:
        assert await desk.book.request_cancellation(desk.operation)
        assert (await desk.observe()).unclaimed
        assert upgrader.told == []


async def test_an_upgrader_that_cannot_be_told_leaves_the_request_as_it_is_and_is_told_less_and_less_often(secret_file):
    async with outside() as upgrader, handing_off(upgrader.url, secret_file) as desk:
        upgrader.status = 503
        seen = []
        for seconds in range(0, 60, 5):
            found = await desk.observe(timedelta(seconds=seconds))
            assert found.unclaimed
            seen.append(len(upgrader.told))
        assert seen == [1, 2, 2, 3, 3, 3, 3, 4, 4, 4, 4, 4]
        upgrader.status = 200
        told = await desk.observe(minutes(20))
        assert (told.unclaimed, told.remark) == (False, None)


async def test_what_goes_wrong_is_counted_and_told_with_the_event(secret_file):
    async with handing_off(NOBODY, secret_file) as desk:
        first = await desk.observe()
        assert first.trouble.startswith("ClientConnectorError")
        assert first.remark is None
        late = await desk.observe(minutes(16))
        reason, message = late.remark
        assert (late.unclaimed, reason) == (True, "HandoffNotAccepted")
        assert late.trouble in message


@pytest.mark.parametrize(("status", "state"), [(403, OperationState.FAILED), (409, OperationState.ACCEPTED)])
async def test_what_an_upgrader_answers_counts(secret_file, status, state):
    async with outside() as upgrader, handing_off(upgrader.url, secret_file) as desk:
        upgrader.status = status
        assert (await desk.observe()).state is state


async def test_a_request_that_nobody_has_taken_up_is_closed_once_it_is_given_up():
    async with handing_off() as desk:
        assert (await desk.observe(minutes(59))).unclaimed
        assert (await desk.observe(minutes(61), given_up=True)).state is OperationState.CANCELLED
        assert (desk.status()["phase"], desk.status()["message"]) == ("Cancelled", "no upgrader accepted it in time")


async def test_a_request_that_somebody_has_taken_up_stays_his():
    async with handing_off() as desk:
        await desk.claim(phase="InProgress")
        assert (await desk.observe(minutes(61), given_up=True)).state is OperationState.IN_PROGRESS
        await desk.claim(phase="Failed", finishedTime=format_time(desk.begin))
        assert (await desk.observe(minutes(62), given_up=True)).state is OperationState.FAILED


async def test_a_request_of_which_nobody_knows_whether_the_call_arrived_stays_open(secret_file):
    async with handing_off(NOBODY, secret_file) as desk:
        await desk.observe()
        found = await desk.observe(minutes(61), given_up=True)
        assert (found.in_flight, found.unclaimed, "phase" in desk.status()) == (True, True, False)


async def test_images_that_were_asked_for_are_said():
    async with handing_off() as desk:
        (image,) = (await desk.observe()).asked
        assert (image.family, image.version) == ("linux", "110")


async def test_a_report_that_is_too_long_for_an_annotation_counts_all_the_same():
    async with handing_off() as desk:
        pools = [{"name": f"p{number:05}", "kubernetesVersion": "1.31.2"} for number in range(2000)]
        await desk.claim(phase="Succeeded", controlPlaneVersion="1.31.2", pools=pools)
        assert (await desk.observe()).state is OperationState.SUCCEEDED
        member = await desk.world.store.get(MEMBER_CLUSTER, Key("c1"))
        assert len(member["metadata"]["annotations"]["harbormaster.dev/upgrade-observed"]) < 1000
