"""What goes on only when somebody acts: told of once, and counted for as long as it lasts."""

from scorer.api.kinds import MEMBER_CLUSTER, PLACEMENT, STAGED_RUN
from tests.builders.placement import make_placement
from tests.webhook.controllers.analysed_world import QUERY, analysed, annotate, queried, shown
from tests.webhook.controllers.staged_world import (
    APPROVAL,
    approve,
    make_run,
    make_stage,
    pass_time,
    run_of,
    said,
    set_state,
    staged,
)
from tests.webhook.controllers.world import make_member, running
from webhook.embedded.simulation.annotations import SIMULATE_APPLY
from webhook.kube.ports import Key

WAITS = "False UpdateRunWaiting"
TIMED = [{"type": "TimedWait", "waitTime": "1h"}]


def waiting(world):
    return world.standing("update_runs_waiting_for_approval", STAGED_RUN)


def asked(world):
    return world.events("ApprovalNeeded")


async def test_a_run_that_waits_for_an_approval_is_told_of_once_and_counted_until_it_is_given():
    async with staged() as world:
        assert waiting(world) == 0
        await world.add(make_run("r"))
        await world.until(lambda: said(world, "Progressing") == WAITS)
        for _ in range(2):
            world.again()
            await world.until(lambda: True)
            assert (asked(world), waiting(world)) == (["waiting for approval of r-after-test after stage test"], 1)
        await approve(world, "r-after-test")
        await world.until(lambda: said(world, "Succeeded") == "True UpdateRunSucceeded")
        assert (len(asked(world)), waiting(world)) == (1, 0)


async def test_a_run_that_waits_for_time_needs_nobody():
    async with staged(make_stage("test", afterStageTasks=TIMED), make_stage("live")) as world:
        await world.add(make_run("r"))
        await world.until(lambda: said(world, "Progressing") == WAITS)
        assert len(world.events("UpdateRunWaiting")) == 1
        assert (asked(world), waiting(world)) == ([], 0)


async def test_an_approval_beside_a_wait_is_needed_until_it_is_given_however_long_the_wait_goes_on():
    async with staged(make_stage("test", afterStageTasks=[*TIMED, *APPROVAL]), make_stage("live")) as world:
        await world.add(make_run("r"))
        await world.until(lambda: said(world, "Progressing") == WAITS)
        assert (len(asked(world)), waiting(world)) == (1, 1)
        await approve(world, "r-after-test")
        await world.until(lambda: waiting(world) == 0)
        assert said(world, "Progressing") == WAITS
        pass_time(world, hours=1)
        await world.until(lambda: said(world, "Succeeded") == "True UpdateRunSucceeded")
        assert (len(asked(world)), waiting(world)) == (1, 0)


async def test_a_run_that_is_stopped_or_deleted_does_not_wait_for_an_approval():
    async with staged() as world:
        await world.add(make_run("r"))
        await world.until(lambda: waiting(world) == 1)
        await set_state(world, "Stop")
        await world.until(lambda: waiting(world) == 0)
        await set_state(world, "Run")
        await world.until(lambda: waiting(world) == 1)
        await world.store.delete(STAGED_RUN, Key("r"))
        await world.until(lambda: not run_of(world))
        assert waiting(world) == 0


async def test_an_approval_that_a_check_may_give_needs_nobody_until_only_a_person_can_give_it():
    async with queried() as (world, server):
        server.value = "7"
        await world.add(analysed(test={"query": QUERY}))
        await world.until(lambda: shown(world) == "False NotMet")
        assert (asked(world), waiting(world)) == ([], 0)
        await annotate(world, **{"harbormaster.dev/rejected": "r-after-test: no"})
        await world.until(lambda: shown(world) == "Unknown Rejected" and waiting(world) == 1)
        assert len(asked(world)) == 1


async def test_a_check_that_cannot_be_read_needs_a_person():
    async with queried() as (world, _):
        run = analysed()
        run["metadata"]["annotations"]["harbormaster.dev/analysis"] = "{"
        await world.add(run)
        await world.until(lambda: shown(world) == "Unknown AnalysisInvalid" and waiting(world) == 1)
        assert len(asked(world)) == 1


async def test_a_stalled_rollout_is_counted_until_it_goes_on():
    async with running() as world:
        member = make_member("a")
        member["metadata"]["annotations"][SIMULATE_APPLY] = "fail"
        await world.add(member, make_placement("p"))

        def stalled():
            return world.standing("placements_stalled", PLACEMENT)

        await world.until(lambda: world.view("p")["state"] != "scheduling")
        assert stalled() == 0
        pass_time(world, minutes=15)
        await world.until(lambda: stalled() == 1)
        assert len(world.events("PlacementRolloutStalled")) == 1
        await world.store.delete(PLACEMENT, Key("p"))
        await world.until(lambda: stalled() == 0)


async def test_a_silent_member_is_counted_until_it_is_deleted():
    async with running() as world:
        await world.add(make_member("a"), make_member("b"))
        await world.until(lambda: len(world.cache.list(MEMBER_CLUSTER)) == 2)
        await world.until_silent()
        assert world.standing("members_silent", MEMBER_CLUSTER) == 2
        await world.store.delete(MEMBER_CLUSTER, Key("a"))
        await world.until(lambda: world.standing("members_silent", MEMBER_CLUSTER) == 1)
