"""Other writers that keep changing what the agent applies: reported, and written against less and less often."""

from datetime import timedelta

import pytest

from scorer.api.kinds import EVENT, KINDS, NAMESPACE
from scorer.api.meta import JsonObject
from scorer.api.unstructured.documents import with_metadata
from tests.webhook.member.hub_and_member import SPACE, Cluster, config_map, namespace
from webhook.embedded.simulation.member_stores import ObservedStore
from webhook.kube.ports import ConflictError, Key
from webhook.member.apply.contention import CONTESTED_AFTER, MOST, Memory
from webhook.member.objects.field_managers import other_managers
from webhook.member.works.reconciler import reconcile_work

CONFIG_MAP = KINDS["", "ConfigMap"]
DEPLOYMENT = KINDS["apps", "Deployment"]
SECOND = timedelta(seconds=1)


class Contested(Cluster):
    """A member whose ConfigMap another client changes."""

    def __init__(self):
        super().__init__()
        self.memory = Memory()
        self.store = ObservedStore(self.member)
        self.writes = 0

    async def meddle(self, **changes):
        self.writes += 1
        await self.edit(CONFIG_MAP, "settings", data={"level": f"theirs-{self.writes}"}, **changes)

    async def a_pass(self, seconds=1):
        """Let time pass, make a pass, and return whether the object is as the hub wants it."""
        self.time += seconds * SECOND
        self.outcome = await reconcile_work(Key("web-work", SPACE), self.hub, self.store, self.time, self.memory)
        return (await self.live(CONFIG_MAP, "settings"))["data"] == {"level": "info"}

    async def fight(self, times=CONTESTED_AFTER):
        for _ in range(times):
            await self.meddle()
            assert await self.a_pass(), "undone immediately"


@pytest.fixture
async def cluster():
    made = Contested()
    await made.hub.create(NAMESPACE, namespace(SPACE))
    for name in ("web", "default"):
        await made.member.create(NAMESPACE, namespace(name))
    await made.place(config_map())
    await made.a_pass()
    await made.meddle()
    assert await made.a_pass()
    yield made
    made.hub.close()
    made.member.close()


async def test_the_fifth_change_in_a_row_is_reported(cluster):
    await cluster.fight(CONTESTED_AFTER - 1)
    assert await cluster.reasons() == ["Applied"]
    assert not cluster.outcome.contested
    await cluster.fight(1)
    assert await cluster.reasons() == ["AnotherWriter"]
    assert await cluster.conditions() == {"Applied": ("False", "SomeManifestsAreNotApplied")}
    assert cluster.outcome.contested
    for store, kind in ((cluster.hub, "Work"), (cluster.member, "AppliedWork")):
        (event,) = (await store.list(EVENT)).items
        assert (event["reason"], event["regarding"]["kind"], event["type"]) == ("AnotherWriter", kind, "Warning")
        assert "ConfigMap web/settings: another client keeps changing the object" in event["note"]
    await cluster.meddle()
    await cluster.a_pass()
    assert len((await cluster.hub.list(EVENT)).items) == 1


async def test_a_writer_that_never_pauses_costs_no_writes_but_one_in_five_minutes(cluster):
    await cluster.fight()
    outcomes = []
    for _ in range(70):
        await cluster.meddle()
        outcomes.append(await cluster.a_pass(10))
    assert sum(outcomes) == 2, "in 700 s"
    assert await cluster.reasons() == ["AnotherWriter"]


def deployment(image="web:1"):
    labels, containers = {"app": "web"}, [{"name": "web", "image": image}]
    template = {"metadata": {"labels": labels}, "spec": {"containers": containers}}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "web", "namespace": "web"},
        "spec": {"replicas": 1, "selector": {"matchLabels": labels}, "template": template},
    }


async def test_a_contested_object_whose_generation_rises_costs_no_writes_on_the_hub(cluster):
    await cluster.place(config_map(), deployment())
    await cluster.a_pass()

    async def meddle(number):
        await cluster.edit(DEPLOYMENT, "web", spec=deployment(f"theirs:{number}")["spec"])
        await cluster.a_pass()

    for number in range(CONTESTED_AFTER + 2):
        await meddle(number)
    assert await cluster.reasons() == ["Applied", "AnotherWriter"]
    before = cluster.hub.resource_version
    for number in range(100, 105):
        await meddle(number)
    assert cluster.hub.resource_version == before


async def test_an_object_that_is_left_alone_is_applied_and_no_longer_contested(cluster):
    await cluster.fight()
    await cluster.meddle()
    assert not await cluster.a_pass(10)
    assert await cluster.a_pass(10)
    assert await cluster.reasons() == ["AnotherWriter"], "that it lasts is not known yet"
    assert await cluster.a_pass(10)
    assert await cluster.a_pass(20)
    assert await cluster.reasons() == ["Applied"]
    assert (await cluster.conditions())["Applied"] == ("True", "AllManifestsApplied")
    assert not cluster.outcome.contested
    await cluster.fight(CONTESTED_AFTER - 1)
    assert await cluster.reasons() == ["Applied"], "it counts anew"


async def test_a_writer_that_answers_each_write_is_written_against_less_and_less_often(cluster):
    await cluster.fight()
    waits, last = [], cluster.time
    while len(waits) < 6:
        await cluster.meddle()
        while not await cluster.a_pass(10):
            pass
        waits.append((cluster.time - last).total_seconds())
        last = cluster.time
    assert waits == [20, 30, 50, 90, 170, 300]


async def test_changes_that_are_far_apart_are_undone_without_a_report(cluster):
    for _ in range(3 * CONTESTED_AFTER):
        await cluster.meddle()
        assert await cluster.a_pass(61)
    assert await cluster.reasons() == ["Applied"]


async def test_new_content_of_the_work_is_applied_immediately(cluster):
    await cluster.fight()
    await cluster.meddle()
    await cluster.place(config_map(level="debug"))
    await cluster.a_pass()
    assert (await cluster.live(CONFIG_MAP, "settings"))["data"] == {"level": "debug"}
    assert await cluster.reasons() == ["Applied"]


async def test_a_writer_that_takes_the_owner_off_counts_too(cluster):
    for _ in range(CONTESTED_AFTER):
        live = await cluster.live(CONFIG_MAP, "settings")
        await cluster.edit(CONFIG_MAP, "settings", metadata={**live["metadata"], "ownerReferences": []})
        await cluster.a_pass()
    assert await cluster.reasons() == ["AnotherWriter"]


async def test_a_writer_that_replaces_the_object_with_our_annotations_counts_too(cluster):
    for _ in range(CONTESTED_AFTER):
        live = await cluster.live(CONFIG_MAP, "settings")
        bare = {name: value for name, value in live["metadata"].items() if name != "annotations"}
        await cluster.meddle(metadata=bare)
        await cluster.a_pass()
    assert await cluster.reasons() == ["AnotherWriter"]


async def test_what_others_add_and_the_hub_does_not_place_is_no_contest(cluster):
    for number in range(3 * CONTESTED_AFTER):
        live = await cluster.live(CONFIG_MAP, "settings")
        changed = with_metadata(live, annotations={"theirs": str(number)})
        await cluster.edit(CONFIG_MAP, "settings", metadata=changed["metadata"], data={**live["data"], "more": "1"})
        await cluster.a_pass()
    assert await cluster.reasons() == ["Applied"]


class Faster(ObservedStore):
    """A member on which another client always writes first."""

    async def replace(self, kind, document, *, dry_run=False):
        if kind == CONFIG_MAP and not dry_run:
            raise ConflictError("the object has been modified")
        return await super().replace(kind, document, dry_run=dry_run)


async def test_a_writer_that_is_always_faster_is_reported(cluster):
    cluster.store = Faster(cluster.member)
    for _ in range(CONTESTED_AFTER):
        await cluster.meddle()
        await cluster.a_pass()
    assert await cluster.reasons() == ["AnotherWriter"]
    cluster.store = ObservedStore(cluster.member)
    assert not await cluster.a_pass(10)
    assert await cluster.a_pass(10)


async def test_a_controller_whose_status_keeps_a_write_from_being_stored_is_no_other_writer(cluster):
    await cluster.place(config_map(level="debug"))
    cluster.store = Faster(cluster.member)
    for number in range(3 * CONTESTED_AFTER):
        await cluster.edit(CONFIG_MAP, "settings", status={"observed": number})
        await cluster.a_pass()
    assert await cluster.reasons() == ["ManifestApplyFailed"]
    cluster.store = ObservedStore(cluster.member)
    await cluster.a_pass()
    assert await cluster.reasons() == ["Applied"]


async def test_a_clock_that_is_set_back_does_not_hold_writes_back(cluster):
    await cluster.fight()
    await cluster.meddle()
    assert await cluster.a_pass(-3600)


async def test_a_bounded_number_of_objects_is_remembered(cluster):
    maps = [config_map(), *(config_map(f"map-{number}") for number in range(MOST + 10))]
    await cluster.place(*maps)
    await cluster.a_pass()
    for each in maps:
        await cluster.edit(CONFIG_MAP, each["metadata"]["name"], data={"level": "theirs"})
    await cluster.a_pass()
    assert len(cluster.memory.rivals) == MOST


def entry(manager, fields, **more):
    return {"manager": manager, "operation": "Update", "fieldsV1": fields, **more}


IMAGE = {"f:spec": {"f:containers": {'k:{"name":"web"}': {"f:image": {}}}}}


@pytest.mark.parametrize(
    ("managed", "expected"),
    [
        pytest.param([entry("meddler", {"f:data": {"f:level": {}}})], "field manager meddler", id="one"),
        pytest.param([entry("work-api-agent", {"f:data": {"f:level": {}}})], "an unknown client", id="ours"),
        pytest.param([entry("tagger", {"f:data": {"f:more": {}}})], "an unknown client", id="another-field"),
        pytest.param([entry("hpa", {"f:data": {}}, subresource="scale")], "field manager hpa", id="the-whole-map"),
        pytest.param([entry("kubelet", {"f:status": {"f:x": {}}})], "an unknown client", id="status"),
        pytest.param([entry("operator", IMAGE)], "field manager operator", id="item-of-a-list"),
        pytest.param(
            [
                entry("older", {"f:data": {}}, time="2026-03-01T12:00:00Z"),
                entry("newer", {"f:data": {}}, time="2026-03-01T12:00:01Z"),
                *(entry(f"oldest-{number}", {"f:data": {}}) for number in range(5)),
            ],
            "field manager newer, older, oldest-0",
            id="the-latest-three",
        ),
        pytest.param([entry("m" * 999, {"f:data": {}})], f"field manager {'m' * 128}", id="long"),
        pytest.param([{}, {"manager": None, "fieldsV1": None}], "field manager ", id="malformed"),
        pytest.param([], "an unknown client", id="none"),
    ],
)
def test_the_other_writer_is_named_by_the_fields_that_both_write(managed, expected):
    manifest: JsonObject = {"data": {"level": "info"}, "spec": {"containers": [{"name": "web", "image": "web:1"}]}}
    assert expected in other_managers({"metadata": {"managedFields": managed}}, manifest)
