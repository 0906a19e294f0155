"""Advisories: the loop repeats the warnings of admission in the status, which GitOps tools cannot drop."""

from scorer.api.family import CLUSTER
from scorer.api.kinds import MEMBER_CLUSTER, NAMESPACED_OVERRIDE, PLACEMENT
from scorer.api.names import ACKNOWLEDGE, ADVISORIES
from scorer.api.unstructured.documents import with_metadata
from scorer.rollout.status.advisories import MOST_ADVISORIES, advisory_lines
from tests.builders.placement import make_placement
from tests.virtual_time import loop_now
from tests.webhook.controllers.override_rules import make_override, rule
from tests.webhook.controllers.world import controller, make_config_map, make_member, pick_n, running
from tests.webhook.edits import edit
from webhook.controllers.placements.advisories import AdvisoryController
from webhook.kube.ports import Key

WRONG = (
    'X-78 ResourceOverride shop/wrong: spec.resourceSelectors[0].name: "rate": "p" places no such ConfigMap in shop yet'
)


def lines(world, name="p"):
    return list(advisory_lines(world.cache.get(PLACEMENT, name) or {}))


def record_nothing(_document, event):
    raise AssertionError(event)


def wrong_override(name="wrong", **options):
    override = make_override(name, rule("x"), **options)
    (selectors,) = (value for key, value in override["spec"].items() if key.endswith("electors"))
    override["spec"]["resourceSelectors"] = [{**selectors[0], "name": "rate"}]
    return override


async def test_a_warning_is_in_the_status_and_a_second_pass_writes_nothing():
    async with running() as world:
        await world.add(make_member("a"), make_placement("p", policy=pick_n(2)))
        await world.until(lambda: lines(world))
        message = "2 clusters requested, but only 1 cluster joined so far"
        assert lines(world) == [f"X-05 spec.policy.numberOfClusters: {message}"]
        assert world.events("AdvisoriesChanged") == lines(world)
        writes = world.hub.writes
        world.again()
        await world.until(lambda: True)
        assert world.hub.writes == writes


async def test_it_disappears_with_its_cause():
    async with running() as world:
        await world.add(make_member("a"), make_placement("p", policy=pick_n(2)))
        await world.until(lambda: lines(world))
        await world.change(PLACEMENT, "p", policy=pick_n(1))
        await world.until(lambda: not lines(world))
        assert len(world.events("AdvisoriesCleared")) == 1


async def test_changes_of_members_are_evaluated_together():
    async with running() as world:
        await world.add(make_member("a"), make_placement("p", policy=pick_n(2)))
        await world.until(lambda: lines(world))
        advisories = controller(world.loop, "advisory")
        await advisories.after_fleet_changes()
        assert await advisories.after_fleet_changes() == []
        await world.add(make_member("b"))
        await world.until(lambda: len(world.bound("p")) == 2)
        for subject in await advisories.after_fleet_changes():
            await advisories.reconcile(subject)
        await world.until(lambda: not lines(world))


async def test_an_acknowledged_warning_is_not_repeated():
    async with running() as world:
        await world.add(make_member("a"), make_placement("p", policy=pick_n(2)))
        await world.until(lambda: lines(world))
        annotate = {ACKNOWLEDGE: "X-14, X-05"}
        await edit(world.store, PLACEMENT, Key("p"), lambda it: with_metadata(it, annotations=annotate))
        await world.until(lambda: not lines(world))
        await edit(world.store, PLACEMENT, Key("p"), lambda it: with_metadata(it, annotations={ACKNOWLEDGE: "X-14"}))
        await world.until(lambda: lines(world))


async def test_an_override_without_effect_is_reported_on_its_placement_and_by_an_event_on_itself():
    async with running() as world:
        await world.add(make_member("a"), make_placement("p"), wrong_override())
        await world.until(lambda: lines(world))
        assert lines(world) == [f"{WRONG}; nearest: rates"]
        assert world.events("OverrideWithoutEffect") == [lines(world)[0].partition(": ")[2]]
        assert not (world.cache.get(NAMESPACED_OVERRIDE, "wrong", "shop") or {}).get("status")
        await world.add(make_config_map("rate"))
        await world.until(lambda: not lines(world))


async def test_an_acknowledged_override_is_quiet():
    async with running() as world:
        override = wrong_override()
        override["metadata"]["annotations"] = {ACKNOWLEDGE: "X-78"}
        await world.add(make_member("a"), make_placement("p", policy=pick_n(2)), override)
        await world.until(lambda: lines(world))
        assert [line[:4] for line in lines(world)] == ["X-05"]
        assert world.events("OverrideWithoutEffect") == []


async def test_an_override_for_every_placement_gets_an_event():
    async with running() as world:
        await world.add(make_member("a"), make_placement("p"), wrong_override(placement=None))
        await world.until(lambda: world.events("OverrideWithoutEffect"))
        assert lines(world) == []
        world.again()
        await world.until(lambda: True)
        assert len(world.events("OverrideWithoutEffect")) == 1


async def test_an_override_of_a_label_that_a_member_gets_later():
    async with running() as world:
        override = make_override("zone", rule("x", zone="west"), namespace="")
        await world.add(make_member("a"), make_placement("p"), override)
        await world.until(lambda: lines(world))
        assert 'no cluster has a label "zone"' in lines(world)[0]
        west = {"zone": "west"}
        await edit(world.store, MEMBER_CLUSTER, Key("a"), lambda it: with_metadata(it, labels=west))
        advisories = controller(world.loop, "advisory")
        await world.until(lambda: world.cache.get(MEMBER_CLUSTER, "a")["metadata"].get("labels", {}).get("zone"))
        for subject in await advisories.after_fleet_changes():
            await advisories.reconcile(subject)
        await world.until(lambda: not lines(world))


async def test_another_process_repeats_no_event(tmp_path):
    async with running(tmp_path) as world:
        await world.add(make_member("a"), make_placement("p"), wrong_override())
        await world.until(lambda: lines(world))
        before = [world.events(reason) for reason in ("OverrideWithoutEffect", "AdvisoriesChanged")]
        await world.restart()
        await world.until(lambda: controller(world.loop, "advisory").of(CLUSTER.ref(make_placement("p"))) is not None)
        assert [world.events(reason) for reason in ("OverrideWithoutEffect", "AdvisoriesChanged")] == before
        assert lines(world)


async def test_the_condition_is_bounded():
    async with running() as world:
        names = [f"c{number:02}" for number in range(20)]
        await world.add(make_placement("p", policy={"placementType": "PickFixed", "clusterNames": names}))
        await world.until(lambda: lines(world))
        assert len(lines(world)) == MOST_ADVISORIES
        assert lines(world)[-1] == "and 11 more"
        conditions = [each["type"] for each in world.cache.get(PLACEMENT, "p")["status"]["conditions"]]
        assert conditions.count(ADVISORIES) == 1


async def test_a_placement_whose_objects_are_not_selected_yet_is_not_evaluated():
    """They are unknown, so no warning about them could be found, and the stored ones would vanish."""
    async with running() as world:
        await world.add(make_member("a"), make_placement("p", policy=pick_n(2)))
        await world.until(lambda: lines(world))
        other, ref = AdvisoryController(world.hub, loop_now, record_nothing), CLUSTER.ref(make_placement("p"))
        await other.reconcile(ref)
        assert other.of(ref) is None
        placement = world.cache.get(PLACEMENT, "p")
        other.request(ref, placement, placement["status"])
        await other.reconcile(ref)
        assert list(other.of(ref).lines) == lines(world)
