"""Fields that belong to the member rather than to the author of a manifest, on a real API server.

An apply neither sends nor reverts them, and in steady state the audit log of the member shows no write.
"""

from collections.abc import AsyncIterator, Iterator

import pytest

from e2e.controlplane.cluster import Cluster
from e2e.controlplane.process import Program, kill
from e2e.fleet.bed import COLLECTORS
from e2e.members.applying import CLIENT, FULL, SERVER, Bed, JsonObject, running_bed
from scorer.api.kinds import KINDS
from webhook.member.store.ports import MANAGER

CONFIG_MAP = KINDS["", "ConfigMap"]
FORCED = {**SERVER, "serverSideApplyConfig": {"force": True}}
APPLYING = [
    pytest.param(CLIENT, id="client-side"),
    pytest.param(SERVER, id="server-side"),
    pytest.param(FORCED, id="forced"),
]
HUB_FINALIZER, MEMBER_FINALIZER = "operator.example.com/cleanup", "backup.example.com/hold"


@pytest.fixture(scope="module")
def cluster(own_hub: Cluster) -> Iterator[Cluster]:
    """A member whose controllers run."""
    controllers: Program = own_hub.start_controller_manager(("*", *(f"-{name}" for name in COLLECTORS)))
    yield own_hub
    kill(controllers)


@pytest.fixture
async def bed(cluster: Cluster) -> AsyncIterator[Bed]:
    async with running_bed(cluster) as bed:
        yield bed


def with_finalizers(document: JsonObject, *finalizers: str) -> JsonObject:
    return {**document, "metadata": {**document["metadata"], "finalizers": list(finalizers)}}


def finalizers(bed: Bed) -> list[str]:
    live = bed.live("configmaps", "settings")
    assert live is not None
    return list(live["metadata"].get("finalizers") or ())


def drop_finalizers(bed: Bed) -> None:
    bed.patch("configmaps", "settings", metadata={"finalizers": None})


@pytest.mark.parametrize("strategy", APPLYING)
async def test_finalizers_of_the_hub_are_not_placed_and_those_of_the_member_remain(bed, strategy):
    manifest = with_finalizers(bed.config_map(level="info"), HUB_FINALIZER)
    await bed.place(manifest, applyStrategy={**strategy, **FULL})
    await bed.reconcile()
    assert finalizers(bed) == []
    bed.patch("configmaps", "settings", metadata={"finalizers": [MEMBER_FINALIZER]})
    await bed.reconcile()
    await bed.assert_quiet()
    for finalizer in (HUB_FINALIZER, MEMBER_FINALIZER):
        manifest = with_finalizers(bed.config_map(level=finalizer), finalizer)
        await bed.place(manifest, applyStrategy={**strategy, **FULL})
        await bed.reconcile()
        assert bed.live("configmaps", "settings")["data"] == {"level": finalizer}
        assert finalizers(bed) == [MEMBER_FINALIZER]
    assert "driftDetails" not in (await bed.entries())[0]
    await bed.assert_quiet()
    drop_finalizers(bed)


@pytest.mark.parametrize("strategy", APPLYING)
async def test_finalizers_that_an_earlier_release_placed_remain_until_the_object_is_removed(bed, strategy):
    """The member's own operator may rely on them: nothing tells that it does not."""
    placed = with_finalizers(bed.config_map(level="info"), HUB_FINALIZER)
    if strategy is CLIENT:
        await bed.member.create(CONFIG_MAP, placed)
    else:
        await bed.member.apply(CONFIG_MAP, placed, manager=MANAGER, force=False)
    await bed.place(placed, applyStrategy=strategy)
    await bed.reconcile()
    await bed.place(with_finalizers(bed.config_map(level="debug"), HUB_FINALIZER), applyStrategy=strategy)
    await bed.reconcile()
    assert bed.live("configmaps", "settings")["data"] == {"level": "debug"}
    assert finalizers(bed) == [HUB_FINALIZER]
    await bed.assert_quiet()
    drop_finalizers(bed)
