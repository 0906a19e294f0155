"""Reports about pending removals on a running hub: confirmation that is switched off, and a hub that was restored."""

import pytest

from scorer.api.conditions import make_condition
from scorer.api.kinds import CUSTOM_RESOURCE_DEFINITION, PLACEMENT, RESOURCE_PLACEMENT, WORK
from scorer.api.names import ACCEPT_OLDER_UNTIL, REMOVAL_CONFIRMATION
from scorer.api.unstructured.documents import conditions_of, generation_of, status_of, with_metadata
from scorer.rollout.confirmation.policy import DEFAULT_POLICY, NO_CONFIRMATION
from tests.builders.placement import make_placement, namespace_term
from tests.virtual_time import loop_now
from tests.webhook.controllers.placements.confirmed_world import (
    CONFIG_MAP,
    STATEFUL_SET,
    confirming,
    delete,
    on_members,
    pending,
    silence,
)
from tests.webhook.controllers.world import running
from tests.webhook.edits import edit
from webhook.kube.ports import Key

BYPASSED = "RemovalConfirmationBypassed"


@pytest.mark.parametrize(
    ("kind", "name", "namespace"),
    [pytest.param(STATEFUL_SET, "db", "shop", id="object"), pytest.param(PLACEMENT, "shop", "", id="placement")],
)
async def test_removals_that_were_pending_when_the_settings_are_off_are_recorded(tmp_path, kind, name, namespace):
    async with confirming(data=tmp_path) as world:
        await delete(world, kind, name, namespace)
        await world.until(lambda: pending(world))
        listed = pending(world)["message"].partition(" until confirmed: ")[2]
    async with running(tmp_path, removal=NO_CONFIRMATION) as world:
        await world.until(lambda: world.events(BYPASSED) and not pending(world))
        assert world.events(BYPASSED) == [
            f"the settings switched confirmation off. These pending removals proceed: {listed}"
        ]
        assert await on_members(world, STATEFUL_SET, "db") == []
        counted = {"reason": BYPASSED}
        assert world.registry.get_sample_value("harbormaster_removals_unconfirmed_total", counted) == 1


async def test_removals_that_were_pending_when_the_annotation_is_off_are_recorded():
    async with confirming() as world:
        await delete(world, STATEFUL_SET, "db", "shop")
        await world.until(lambda: pending(world))
        off = {REMOVAL_CONFIRMATION: "Off"}
        await edit(world.store, PLACEMENT, Key("shop"), lambda it: with_metadata(it, annotations=off))
        await world.until(lambda: not pending(world))
        (note,) = world.events(BYPASSED)
        assert note.startswith(f"the annotation {REMOVAL_CONFIRMATION} switched confirmation off")


async def test_a_restored_hub_is_named_beside_what_is_pending():
    async with confirming() as world:
        await silence(world, "lion")
        await world.until(lambda: True)
        work = next(each for each in world.works() if each["metadata"]["namespace"] == "fleet-member-lion")
        held = make_condition(
            "Applied", "False", "OlderThanApplied", "held", generation=generation_of(work), now=loop_now()
        )
        others = [each for each in conditions_of(work) if each["type"] != "Applied"]
        status = {**status_of(work), "conditions": [*others, held]}
        await world.store.replace_status(WORK, {**work, "status": status})
        await delete(world, STATEFUL_SET, "db", "shop")
        await world.until(lambda: ACCEPT_OLDER_UNTIL in pending(world).get("message", ""))
        assert pending(world)["message"].endswith(
            f"; older Works are held on lion: {ACCEPT_OLDER_UNTIL} accepts them, but confirms no removal"
        )


@pytest.mark.parametrize("removal", [DEFAULT_POLICY, NO_CONFIRMATION], ids=["confirmed", "off"])
@pytest.mark.parametrize(
    ("kind", "name", "namespace"),
    [
        pytest.param(PLACEMENT, "shop", "", id="cluster"),
        pytest.param(RESOURCE_PLACEMENT, "web", "shop", id="namespaced"),
    ],
)
async def test_content_that_is_kept_when_a_definition_is_deleted_is_recorded(kind, name, namespace, removal):
    definition = {
        "apiVersion": CUSTOM_RESOURCE_DEFINITION.api_version,
        "kind": CUSTOM_RESOURCE_DEFINITION.kind,
        "metadata": {"name": kind.resource, "finalizers": ["customresourcecleanup.apiextensions.k8s.io"]},
        "spec": {},
    }
    home = make_placement(selectors=[{**namespace_term("shop"), "selectionScope": "NamespaceOnly"}])
    async with confirming(count=1, placement=home, removal=removal) as world:
        terms = [{"group": "", "version": "v1", "kind": "ConfigMap", "name": "c0"}]
        await world.add(make_placement("web", namespace="shop", selectors=terms), definition)
        await world.until(lambda: world.view("web", "shop")["state"] == "available")
        await delete(world, CUSTOM_RESOURCE_DEFINITION, kind.resource)
        await delete(world, kind, name, namespace)
        await world.until(lambda: world.cache.get(kind, name, namespace) is None)
        (note,) = world.events("PlacedContentKept")
        assert note.startswith(f"the definition {kind.resource} is being deleted")
        assert len(await on_members(world, CONFIG_MAP, "c0")) == 3
