"""What profiles make of it when the run that they want is there already."""

from scorer.api.kinds import KINDS, UPGRADE_PROFILE, UPGRADE_RUN
from scorer.api.unstructured.documents import label, name_of, status_of, with_metadata
from scorer.upgrade.profiles.triggers import PROFILE_LABEL
from tests.webhook.controllers.upgrade_world import API, make_upgrade_run, upgrading
from webhook.kube.ports import Key

NAMES = tuple(f"team-payments-production-europe-west-{each}" for each in "ab")
CATALOG = {
    "apiVersion": API,
    "kind": "ClusterVersionCatalog",
    "metadata": {"name": "published"},
    "spec": {"regions": [{"name": "default", "kubernetesVersions": [{"version": "1.31.2"}]}]},
}


def make_profile(name):
    spec = {"channel": "Rapid", "autoStart": False}
    return {"apiVersion": API, "kind": "ClusterUpgradeProfile", "metadata": {"name": name}, "spec": spec}


def profile(world, name):
    return status_of(world.cache.get(UPGRADE_PROFILE, name) or {})


def told(world, name):
    events = world.store.objects(KINDS["events.k8s.io", "Event"])
    return [(each["type"], each["reason"], each["note"]) for each in events if each["regarding"]["name"] == name]


async def test_profiles_whose_names_begin_in_the_same_way_have_runs_of_their_own():
    async with upgrading(members={"t1": "t"}) as world:
        await world.add(CATALOG, *map(make_profile, NAMES))
        await world.until(lambda: all(profile(world, name).get("currentRun") for name in NAMES))
        made = {label(run, PROFILE_LABEL): name_of(run) for run in world.cache.list(UPGRADE_RUN)}
        assert made == {name: profile(world, name)["currentRun"] for name in NAMES}


async def test_a_run_of_another_profile_is_no_run_of_this_one():
    async with upgrading(members={"t1": "t"}) as world:
        await world.add(CATALOG, make_profile("p"))
        await world.until(lambda: bool(profile(world, "p").get("currentRun")))
        wanted = profile(world, "p")["currentRun"]
        await world.store.delete(UPGRADE_PROFILE, Key("p"))
        await world.store.delete(UPGRADE_RUN, Key(wanted))
        await world.until(lambda: not world.cache.list(UPGRADE_RUN))
        run = make_upgrade_run(wanted, "Initialize", strategyRef=None)
        await world.add(with_metadata(run, labels={PROFILE_LABEL: "q"}), make_profile("p"))
        await world.until(lambda: profile(world, "p").get("lastTriggerStatus") == "Failed")
        found = profile(world, "p")
        assert (found["lastTriggerError"]["code"], found.get("currentRun", "")) == ("RunNameTaken", "")
        assert f"run {wanted} already exists, created by profile q" in found["lastTriggerMessage"]
        failure = ("Warning", "TriggerFailed", found["lastTriggerMessage"])
        await world.until(lambda: failure in told(world, "p"))
        stored = world.cache.get(UPGRADE_PROFILE, "p")
        world.again()
        await world.until(lambda: True)
        assert world.cache.get(UPGRADE_PROFILE, "p") == stored
        await world.store.delete(UPGRADE_RUN, Key(wanted))
        await world.until(lambda: profile(world, "p").get("currentRun") == wanted)
        assert profile(world, "p")["lastTriggerStatus"] == "Succeeded"


async def test_a_run_of_that_name_that_nobody_has_labelled_counts_as_made():
    async with upgrading(members={"t1": "t"}) as world:
        await world.add(CATALOG, make_profile("p"))
        await world.until(lambda: bool(profile(world, "p").get("currentRun")))
        wanted = profile(world, "p")["currentRun"]
        await world.store.delete(UPGRADE_PROFILE, Key("p"))
        await world.store.delete(UPGRADE_RUN, Key(wanted))
        await world.until(lambda: not world.cache.list(UPGRADE_RUN))
        await world.add(make_upgrade_run(wanted, "Initialize", strategyRef=None), make_profile("p"))
        await world.until(lambda: profile(world, "p").get("currentRun") == wanted)
        assert not label(world.cache.get(UPGRADE_RUN, wanted), PROFILE_LABEL)
