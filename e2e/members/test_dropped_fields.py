"""Fields that the hub drops from an object disappear from a real member, also where the object is too large to say so.

An object keeps the manifest that was applied last in an annotation, unless it is larger than 256 KiB.
"""

import base64
from collections.abc import AsyncIterator

import pytest

from e2e.controlplane.cluster import Cluster
from e2e.members.applying import CLIENT, FULL, SERVER, Bed, JsonObject, running_bed
from scorer.api.names import LAST_APPLIED

LARGE = 200_000
"""Bytes of a value that is too large for the annotation once it is encoded."""
APPLYING = [
    pytest.param(CLIENT, id="client-side"),
    pytest.param(SERVER, id="server-side"),
    pytest.param({**SERVER, "serverSideApplyConfig": {"force": True}}, id="forced"),
]
SECRETS = "secrets"


@pytest.fixture
async def bed(own_hub: Cluster) -> AsyncIterator[Bed]:
    async with running_bed(own_hub) as bed:
        yield bed


def secret(bed: Bed, size: int, **data: str) -> JsonObject:
    """Return a Secret with certificates of that many bytes, and with other keys."""
    values = {"certificates": "c" * size, **data}
    encoded = {name: base64.b64encode(value.encode()).decode() for name, value in values.items()}
    metadata = {"name": "db", "namespace": bed.space, "labels": {"app": "db"}}
    return {"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "type": "Opaque", "data": encoded}


def keys(bed: Bed) -> list[str]:
    return sorted((bed.live(SECRETS, "db") or {})["data"])


def keeps_manifest(bed: Bed) -> bool:
    return bool((bed.live(SECRETS, "db") or {})["metadata"]["annotations"][LAST_APPLIED])


def reset_managers(bed: Bed) -> None:
    bed.patch(SECRETS, "db", metadata={"managedFields": [{}]})


async def place(bed: Bed, strategy: JsonObject, manifest: JsonObject) -> None:
    await bed.place(manifest, applyStrategy=strategy)
    await bed.reconcile()
    assert await bed.reasons() == ["Applied"]


@pytest.mark.parametrize("size", [LARGE, 3], ids=["still-large", "small-at-the-same-time"])
@pytest.mark.parametrize("strategy", APPLYING)
async def test_a_key_that_the_hub_drops_disappears(bed, strategy, size):
    await place(bed, strategy, secret(bed, LARGE, password="old", user="admin"))
    assert not keeps_manifest(bed)
    bed.patch(SECRETS, "db", data={"foreign": "Zg=="})
    await bed.reconcile()
    await bed.assert_quiet()
    await place(bed, strategy, secret(bed, size, user="admin"))
    assert keys(bed) == ["certificates", "foreign", "user"]
    assert keeps_manifest(bed) is (size != LARGE)
    await bed.assert_quiet()


@pytest.mark.parametrize("strategy", APPLYING)
async def test_the_manifest_in_the_annotation_decides_where_managed_fields_was_reset(bed, strategy):
    await place(bed, strategy, secret(bed, 3, password="old"))
    assert keeps_manifest(bed)
    reset_managers(bed)
    await place(bed, strategy, secret(bed, 3))
    assert keys(bed) == ["certificates"]
    await bed.reconcile()
    await bed.assert_quiet()


@pytest.mark.parametrize("size", [LARGE, 3], ids=["still-large", "small-at-the-same-time"])
@pytest.mark.parametrize("strategy", APPLYING)
async def test_our_entry_decides_although_the_api_server_assigns_each_field_to_before_first_apply(bed, strategy, size):
    """As it does for an object whose managedFields was reset, with the next apply."""
    await place(bed, strategy, secret(bed, LARGE, password="old"))
    reset_managers(bed)
    await place(bed, strategy, secret(bed, LARGE, password="old", user="admin"))
    await place(bed, strategy, secret(bed, size, user="admin"))
    assert keys(bed) == ["certificates", "user"]
    await bed.reconcile()
    await bed.assert_quiet()


@pytest.mark.parametrize("size", [LARGE, 3], ids=["still-large", "small-at-the-same-time"])
@pytest.mark.parametrize("strategy", APPLYING)
async def test_a_field_of_which_nothing_is_known_is_kept_and_reported(bed, strategy, size):
    await place(bed, strategy, secret(bed, LARGE, password="old"))
    reset_managers(bed)
    for _ in range(2):
        await place(bed, strategy, secret(bed, size))
        assert keys(bed) == ["certificates", "password"]
        assert "an earlier manifest may have set 1 field that this one omits" in await bed.message()
        (entry,) = await bed.entries()
        assert entry["driftDetails"]["observedDrifts"] == [{"path": "/data/password", "valueInMember": "(redacted)"}]
    await bed.assert_quiet()
    bed.patch(SECRETS, "db", data={"password": None})
    for _ in range(2):
        await bed.reconcile()
    assert await bed.message() == "applied"
    assert keeps_manifest(bed) is (size != LARGE)
    await bed.assert_quiet()


async def test_a_dropped_field_that_another_client_has_applied_remains(bed):
    await place(bed, {**SERVER, **FULL}, secret(bed, LARGE, password="old"))
    shared = {**secret(bed, 0, password="old"), "metadata": {"name": "db", "namespace": bed.space}}
    shared["data"] = {"password": shared["data"]["password"]}
    path = bed.path(SECRETS, "db") + "?fieldManager=vault"
    bed.cluster.request("PATCH", path, shared, content_type="application/apply-patch+yaml")
    await place(bed, {**SERVER, **FULL}, secret(bed, LARGE))
    assert keys(bed) == ["certificates", "password"]
    await bed.assert_quiet()
