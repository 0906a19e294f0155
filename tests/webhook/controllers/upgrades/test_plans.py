"""The plans in the status of upgrade runs, in a whole hub in memory."""

from scorer.api.unstructured.documents import dict_at, status_of
from tests.webhook.controllers.upgrade_world import annotate, make_upgrade_run, run_of, upgrading
from webhook.controllers.upgrades import plans


def plan_in(world, name):
    return dict_at(status_of(run_of(world, name)), "plan")


async def test_a_plan_that_takes_too_long_is_given_up_and_others_are_made(monkeypatch):
    """There is one worker: a run of which nobody knows how long its plan takes must not keep it."""
    made, plan_of = [], plans.plan_of

    def counted(run, *facts, **options):
        made.append(run.metadata.name)
        return plan_of(run, *facts, **options)

    monkeypatch.setattr(plans, "plan_of", counted)
    monkeypatch.setattr(plans, "LONGEST_SECONDS", -1.0)
    async with upgrading() as world:
        await world.add(make_upgrade_run("slow", state="Initialize"))
        await world.until(lambda: made == ["slow"])
        monkeypatch.setattr(plans, "LONGEST_SECONDS", 20.0)
        world.ahead += plans.AT_MOST_EVERY * 2
        await annotate(world, "t1", upgrade_duration="2s")
        await world.add(make_upgrade_run("other", state="Initialize"))
        await world.until(lambda: plan_in(world, "other"))
        assert not plan_in(world, "slow")
        assert made.count("slow") == 1
        world.ahead += plans.GIVEN_UP_FOR
        await annotate(world, "t1", upgrade_duration="3s")
        await world.until(lambda: plan_in(world, "slow"))
