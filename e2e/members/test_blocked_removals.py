"""Finalizers on a real API server: removals drop those that we placed, and name those that others hold."""

from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta

import pytest

from e2e.controlplane.cluster import Cluster
from e2e.members.applying import CLIENT, SERVER, SPACE, Bed, JsonObject, running_bed
from scorer.api.kinds import KINDS, WORK
from webhook.kube.ports import Key
from webhook.member.store.ports import MANAGER

CONFIG_MAP = KINDS["", "ConfigMap"]
OURS, CONTROL_PLANE, OTHERS = "operator.example.com/cleanup", "example.kubernetes.io/protection", "example.com/hold"


@pytest.fixture
async def bed(own_hub: Cluster) -> AsyncIterator[Bed]:
    async with running_bed(own_hub) as bed:
        yield bed


async def place_as_an_earlier_release(bed: Bed, strategy: JsonObject, *finalizers: str) -> None:
    """Place two ConfigMaps, one with finalizers of the hub."""
    settings = bed.config_map(level="info")
    document = {**settings, "metadata": {**settings["metadata"], "finalizers": list(finalizers)}}
    if strategy is CLIENT:
        await bed.member.create(CONFIG_MAP, document)
    else:
        await bed.member.apply(CONFIG_MAP, document, manager=MANAGER, force=False)
    await bed.place(settings, bed.config_map("other"), applyStrategy=strategy)
    await bed.reconcile()
    assert await bed.reasons() == ["Applied", "Applied"]


def finalizers(bed: Bed) -> list[str]:
    live = bed.live("configmaps", "settings")
    return [] if live is None else list(live["metadata"].get("finalizers") or ())


def hold(bed: Bed, *names: str) -> None:
    """Set the finalizers of the ConfigMap, as controllers of the member."""
    bed.patch("configmaps", "settings", metadata={"finalizers": list(names)})


async def removed(bed: Bed) -> str:
    work = await bed.hub.get(WORK, Key(bed.space, SPACE))
    return next((str(each["message"]) for each in work["status"]["conditions"] if each["type"] == "Removed"), "")


@pytest.mark.parametrize("strategy", [CLIENT, SERVER], ids=["client-side", "server-side"])
async def test_a_left_over_loses_the_finalizers_that_we_placed(bed, strategy):
    await place_as_an_earlier_release(bed, strategy, OURS)
    await bed.place(bed.config_map("other"), applyStrategy=strategy)
    await bed.reconcile()
    assert bed.live("configmaps", "settings") is None
    await bed.assert_quiet()


@pytest.mark.parametrize("strategy", [CLIENT, SERVER], ids=["client-side", "server-side"])
async def test_a_deleted_work_leaves_no_object_with_finalizers_that_we_placed(bed, strategy):
    await place_as_an_earlier_release(bed, strategy, OURS)
    await bed.delete()
    await bed.until_gone()
    assert bed.live("configmaps", "settings") is None


@pytest.mark.parametrize("strategy", [CLIENT, SERVER], ids=["client-side", "server-side"])
async def test_an_object_that_a_user_deletes_is_placed_again_despite_a_finalizer_that_we_placed(bed, strategy):
    await place_as_an_earlier_release(bed, strategy, OURS)
    uid = bed.live("configmaps", "settings")["metadata"]["uid"]
    bed.cluster.request("DELETE", bed.path("configmaps", "settings"))
    await bed.reconcile()
    await bed.reconcile()
    assert await bed.reasons() == ["Applied", "Applied"]
    assert bed.live("configmaps", "settings")["metadata"]["uid"] != uid


async def test_finalizers_of_others_are_kept_and_named_after_a_minute(bed):
    await place_as_an_earlier_release(bed, CLIENT, OURS, CONTROL_PLANE)
    hold(bed, OURS, CONTROL_PLANE, OTHERS)
    await bed.place(bed.config_map("other"), applyStrategy=CLIENT)
    for _ in range(2):
        await bed.reconcile()
    assert (finalizers(bed), await removed(bed)) == ([CONTROL_PLANE, OTHERS], "")
    bed.time = datetime.now(UTC) + timedelta(minutes=1, seconds=1)
    await bed.reconcile()
    assert await removed(bed) == f"ConfigMap {bed.space}/settings: finalizer {CONTROL_PLANE}, {OTHERS}"
    await bed.assert_quiet()
    hold(bed)
    await bed.reconcile()
    assert (bed.live("configmaps", "settings"), await removed(bed)) == (None, "")
    await bed.assert_quiet()


async def test_an_object_that_is_being_deleted_names_the_finalizers_that_it_waits_for(bed):
    await place_as_an_earlier_release(bed, CLIENT)
    hold(bed, OTHERS)
    bed.cluster.request("DELETE", bed.path("configmaps", "settings"))
    await bed.reconcile()
    assert await bed.reasons() == ["ManifestApplyFailed", "Applied"]
    assert f"(finalizer {OTHERS})" in await bed.message()
    await bed.assert_quiet()
    hold(bed)
