"""Actions of the page on an embedded store whose loop carries runs out: previews, executions, refusals."""

import pytest

from scorer.api.kinds import (
    APPROVAL_REQUEST,
    BINDING,
    MEMBER_CLUSTER,
    NAMESPACE,
    PLACEMENT,
    STAGED_RUN,
    UPGRADE_GATE,
    UPGRADE_RUN,
)
from scorer.api.names import REJECTED
from scorer.api.unstructured.documents import annotation, conditions_of, name_of, status_of, text_at
from scorer.rollout.confirmation.digests import Confirmation
from scorer.staged_update.record import condition
from tests.virtual_time import loop_now
from tests.webhook.actions.hubs import TOKEN, actions_on
from tests.webhook.controllers import upgrade_world
from tests.webhook.controllers.placements.confirmed_world import confirming, delete, digests, pending
from tests.webhook.controllers.staged_world import has_request, make_run, release, run_of, said, staged
from tests.webhook.controllers.upgrade_world import make_upgrade_run, upgrading
from tests.webhook.controllers.world import make_member
from webhook.actions.page_actions import StaleActionError
from webhook.actions.planned import ActionName, ActionOrder, ActionRefusedError, HubRefusalError, changed_facts
from webhook.actions.removals import plan_confirmation
from webhook.endpoints.ui.actions import ActionModel
from webhook.kube.ports import Key

REQUEST = "r-after-test"


def order(action, kind=STAGED_RUN, name="r", **more):
    return ActionOrder(ActionName(action), kind, name, **more)


async def previewed(actions, world, asked):
    """Return a preview, which has written nothing: neither does the loop, which has come to rest."""
    await world.until(lambda: True)
    before = world.store.resource_version
    answer = await actions.preview(asked, TOKEN, "ann")
    assert (world.store.resource_version, answer["executed"]) == (before, False)
    return answer


async def carried_out(actions, world, asked):
    """Preview and execute an action as the page does."""
    preview = await previewed(actions, world, asked)
    return await actions.execute(asked, preview["precondition"], TOKEN, "ann")


@pytest.fixture
async def waiting():
    """A run that waits for an approval after its first stage."""
    async with staged() as world, actions_on(world.store, now=world.now) as actions:
        await world.add(make_run("r"))
        await world.until(lambda: status_of(run_of(world)) and said(world, "Progressing").endswith("Waiting"))
        yield world, actions


async def test_an_approval_is_previewed_and_given_in_the_name_of_the_viewer(waiting):
    world, actions = waiting
    preview = await previewed(actions, world, order("approve", reason="it's flat"))
    assert preview["command"] == """harbormaster approve r --stage test --message 'it'"'"'s flat'"""
    assert preview["impact"] == ["Stage live then updates 3 clusters (v1, v2, v3)."]
    assert preview["precondition"]["approval request"] == REQUEST
    assert preview["updates"] == ["v1", "v2", "v3"]
    answer = await carried_out(actions, world, order("approve", reason="it's flat"))
    assert (answer["executed"], answer["outcome"]) == (True, f"{REQUEST} approved: run r continues")
    request = await world.store.get(APPROVAL_REQUEST, Key(REQUEST))
    assert condition(status_of(request), "Approved")["message"] == "approved by ann: it's flat"
    again = await actions.preview(order("approve", stage="test"), TOKEN, "ann")
    assert (again["outcome"], again["impact"]) == (f"{REQUEST} is already approved", [])
    await world.until(lambda: said(world, "Succeeded").startswith("True"))


async def test_a_rejection_stops_the_run_and_a_resumption_asks_again(waiting):
    world, actions = waiting
    asked = order("reject", reason="errors have doubled")
    preview = await previewed(actions, world, asked)
    assert preview["command"] == "harbormaster reject r --stage test --reason 'errors have doubled'"
    assert preview["impact"][:2] == [
        "Run r stops.",
        "2 clusters (t1, t2) already updated: they keep the new content.",
    ]
    await carried_out(actions, world, asked)
    run = await world.store.get(STAGED_RUN, Key("r"))
    assert annotation(run, REJECTED) == f"{REQUEST}: errors have doubled"
    await world.until(lambda: said(world, "Progressing").endswith("Stopped"))
    resumed = await carried_out(actions, world, order("resume"))
    assert (resumed["command"], resumed["outcome"]) == ("harbormaster run resume r", "r resumed")
    assert resumed["impact"][0] == "Run r continues with 3 clusters (v1, v2, v3), in its stages."
    assert annotation(await world.store.get(STAGED_RUN, Key("r")), REJECTED) == ""


async def test_what_has_changed_since_the_preview_is_named(waiting):
    world, actions = waiting
    preview = await previewed(actions, world, order("approve"))
    await carried_out(actions, world, order("stop"))
    await world.until(lambda: said(world, "Progressing").endswith("Stopped"))
    before = world.store.resource_version
    with pytest.raises(ActionRefusedError, match="is not waiting for an approval, but for a user to resume it"):
        await actions.execute(order("approve"), preview["precondition"], TOKEN, "ann")
    with pytest.raises(StaleActionError) as foreign:
        await actions.execute(order("resume"), preview["precondition"] | {"uid": "of-another"}, TOKEN, "ann")
    assert "uid was of-another, and is now" in str(foreign.value)
    assert "phase was Waiting, and is now Stopped" in str(foreign.value)
    assert world.store.resource_version == before


async def test_a_run_is_undone(waiting):
    world, actions = waiting
    with pytest.raises(ActionRefusedError, match="is not finished"):
        await actions.preview(order("undo"), TOKEN, "ann")
    await carried_out(actions, world, order("approve"))
    await world.until(lambda: said(world, "Succeeded").startswith("True"))
    await release(world, "2")
    await world.add(make_run("s"))
    await world.until(lambda: world.cache.get(APPROVAL_REQUEST, "s-after-test"))
    await carried_out(actions, world, order("approve", name="s"))
    await world.until(lambda: said(world, "Succeeded", "s").startswith("True"))
    preview = await previewed(actions, world, order("undo", name="s"))
    assert preview["command"] == "harbormaster undo s"
    assert preview["impact"][0].startswith("Creates run s-undo, which rolls 5 clusters (t1, t2, v1, v2, v3) of ")
    done = await carried_out(actions, world, order("undo", name="s"))
    assert done["outcome"] == "run s-undo created: it rolls back s to resource snapshot 0"
    assert await has_request(world, "s-undo-after-test") or run_of(world, "s-undo")
    with pytest.raises(ActionRefusedError, match="run s-undo already undoes run s"):
        await actions.preview(order("undo", name="s"), TOKEN, "ann")


async def test_members_are_cordoned_and_uncordoned(waiting):
    world, actions = waiting
    done = await carried_out(actions, world, order("cordon", MEMBER_CLUSTER, "t1"))
    assert (done["command"], done["outcome"]) == ("harbormaster cordon t1", "t1 cordoned")
    taints = (await world.store.get(MEMBER_CLUSTER, Key("t1")))["spec"]["taints"]
    assert taints == [{"key": "cordon-key", "value": "cordon-value", "effect": "NoSchedule"}]
    again = await carried_out(actions, world, order("cordon", MEMBER_CLUSTER, "t1"))
    assert (again["executed"], again["outcome"], again["impact"]) == (False, "t1 already cordoned", [])
    done = await carried_out(actions, world, order("uncordon", MEMBER_CLUSTER, "t1"))
    assert done["outcome"] == "t1 uncordoned"
    assert not (await world.store.get(MEMBER_CLUSTER, Key("t1")))["spec"].get("taints")


async def test_a_token_that_the_hub_does_not_know_reads_nothing(waiting):
    _, actions = waiting
    with pytest.raises(HubRefusalError) as refused:
        await actions.preview(order("cordon", MEMBER_CLUSTER, "t1"), "another", "ann")
    assert refused.value.code == 401
    with pytest.raises(HubRefusalError) as missing:
        await actions.preview(order("cordon", MEMBER_CLUSTER, "no-such"), TOKEN, "ann")
    assert missing.value.code == 404


async def test_pending_removals_are_confirmed_by_digest():
    async with confirming() as world, actions_on(world.store, now=world.now) as actions:
        asked = order("confirm", PLACEMENT, "shop")
        with pytest.raises(ActionRefusedError, match="crp/shop: nothing needs confirmation"):
            await actions.preview(asked, TOKEN, "ann")
        await delete(world, NAMESPACE, "shop")
        await world.until(lambda: pending(world))
        [digest] = digests(world)
        preview = await previewed(actions, world, asked)
        assert preview["command"] == f"harbormaster confirm crp/shop --digest {digest}"
        assert preview["impact"][0].startswith("Removes Namespace shop and 8 objects in it, volume claims and other ")
        assert preview["impact"][0].endswith(f", from 3 clusters (fish, lion, wolf) ({digest}).")
        with pytest.raises(ActionRefusedError, match="no pending removal has the digest 0000"):
            await actions.preview(order("confirm", PLACEMENT, "shop", digests=("0" * 20,)), TOKEN, "ann")
        await carried_out(actions, world, asked)
        shop = await world.store.get(PLACEMENT, Key("shop"))
        assert Confirmation.of(shop, loop_now()).digests == {digest}


async def test_a_removal_from_more_clusters_than_shown_is_not_confirmed():
    """The digest of an object counts on every cluster, so it does not change with them."""
    async with confirming() as world, actions_on(world.store, now=world.now) as actions:
        await delete(world, NAMESPACE, "shop")
        await world.until(lambda: pending(world))
        asked = order("confirm", PLACEMENT, "shop")
        preview = await previewed(actions, world, asked)
        await world.add(make_member("yak"))
        await world.until(
            lambda: "yak" in {text_at(each, "spec", "targetCluster") for each in world.cache.list(BINDING)}
        )
        with pytest.raises(
            StaleActionError, match=r"from 3 clusters \(fish, lion, wolf\), and is now .* from 4 clusters"
        ):
            await actions.execute(asked, preview["precondition"], TOKEN, "ann")
        shop = await world.store.get(PLACEMENT, Key("shop"))
        assert Confirmation.of(shop, loop_now()).digests == frozenset()


class Placement:
    """A hub with one placement."""

    async def get(self, kind, name, namespace=""):
        return {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": {"name": name, "uid": "u"}}


async def test_a_precondition_of_many_removals_is_accepted_and_covers_each(monkeypatch):
    """Up to 100 items have a digest each, and roll-ups of more items are not limited at all."""
    removals = [
        {
            "kind": "Object",
            "effect": f"Namespace n{number}",
            "digest": f"{number:020x}",
            "objects": 1,
            "clusters": ["fish"],
            "clusterCount": 1,
            "onMembers": None,
            "since": None,
            "ageSeconds": None,
        }
        for number in range(150)
    ]

    async def pending(*_):
        return removals

    monkeypatch.setattr("webhook.actions.removals._pending", pending)
    asked = order("confirm", PLACEMENT, "shop")
    shown = (await plan_confirmation(asked, Placement(), loop_now())).facts
    target = {"kind": "ClusterResourcePlacement", "name": "shop"}
    ActionModel.model_validate({"action": "confirm", "target": target, "precondition": dict(shown)})
    removals[149]["clusters"].append("lion")
    removals[149]["clusterCount"] = 2
    (change,) = changed_facts(shown, (await plan_confirmation(asked, Placement(), loop_now())).facts)
    assert change.startswith("removals was sha256:")


async def test_gates_of_an_upgrade_are_answered_and_its_run_is_stopped_and_started_again():
    stages = (
        {"name": "test", "groups": [{"name": "t"}], "afterGates": [{"type": "Approval", "displayName": "Go?"}]},
        {"name": "live", "groups": [{"name": "u"}, {"name": "v"}]},
    )
    async with upgrading(*stages) as world, actions_on(world.store, now=world.now) as actions:
        await world.add(make_upgrade_run("r"))
        await world.until(lambda: list(upgrade_world.gates(world)))
        [gate] = upgrade_world.gates(world)
        stopped = await carried_out(actions, world, order("stop", UPGRADE_RUN))
        assert stopped["command"] == "harbormaster upgrade stop r"
        assert "1 member (t1) already upgraded: unchanged." in stopped["impact"]
        await world.until(lambda: upgrade_world.state(world) == "Stopped")
        await carried_out(actions, world, order("resume", UPGRADE_RUN))
        await world.until(lambda: upgrade_world.state(world) != "Stopped")
        preview = await previewed(actions, world, order("approve", UPGRADE_GATE, gate))
        assert preview["command"] == f"harbormaster approve {gate}"
        assert preview["impact"] == ["The upgrade of 3 members (u1, u2, v1) may then start."]
        foreign = preview["precondition"] | {"run uid": "of-another"}
        with pytest.raises(StaleActionError, match=r"^run uid was of-another, and is now "):
            await actions.execute(order("approve", UPGRADE_GATE, gate), foreign, TOKEN, "ann")
        await carried_out(actions, world, order("approve", UPGRADE_GATE, gate))
        stored = await world.store.get(UPGRADE_GATE, Key(gate))
        assert [each["message"] for each in conditions_of(stored) if each["type"] == "Approved"] == ["approved by ann"]
        await world.until(lambda: upgrade_world.state(world) == "Completed")
        with pytest.raises(ActionRefusedError, match="nothing to stop"):
            await actions.preview(order("stop", UPGRADE_RUN), TOKEN, "ann")
        assert name_of(stored) == gate
        assert text_at(stored, "spec", "runName") == "r"
