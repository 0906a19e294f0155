"""Objects that a Work no longer holds, and that finalizers keep on the member."""

from datetime import timedelta

import pytest

from scorer.api.kinds import APPLIED_WORK, KINDS, NAMESPACE
from scorer.api.unstructured.documents import list_at
from tests.webhook.member.hub_and_member import SPACE, Cluster, config_map, namespace
from webhook.kube.ports import Key
from webhook.member.works.backoff import REMOVING_LIMIT, next_pace

CONFIG_MAP, EVENT = KINDS["", "ConfigMap"], KINDS["events.k8s.io", "Event"]
HOLD = "example.com/hold"


@pytest.fixture
async def cluster():
    cluster = Cluster()
    await cluster.hub.create(NAMESPACE, namespace(SPACE))
    await cluster.member.create(NAMESPACE, namespace("default"))  # for Events of cluster-scoped objects
    yield cluster
    cluster.hub.close()
    cluster.member.close()


async def removed(cluster):
    """Return the message of the condition Removed; None: the Work has no such condition."""
    conditions = (await cluster.work())["status"]["conditions"]
    return next((each["message"] for each in conditions if each["type"] == "Removed"), None)


async def drop_settings(cluster):
    """Place two ConfigMaps, let a controller of the member hold one, and take that one off the Work."""
    await cluster.place(namespace(), config_map(), config_map("other"))
    await cluster.reconcile()
    live = await cluster.live(CONFIG_MAP, "settings")
    await cluster.edit(CONFIG_MAP, "settings", metadata={**live["metadata"], "finalizers": [HOLD]})
    await cluster.place(namespace(), config_map("other"))
    return await cluster.reconcile()


async def test_an_object_that_a_finalizer_keeps_is_named_after_a_minute(cluster):
    outcome = await drop_settings(cluster)
    assert (await removed(cluster), outcome.removing) == (None, False), "nothing is known of an object just deleted"
    outcome = await cluster.reconcile()
    assert (await removed(cluster), outcome.removing) == (None, True)
    cluster.time += timedelta(minutes=1)
    await cluster.reconcile()
    assert await removed(cluster) == f"ConfigMap web/settings: finalizer {HOLD}"
    assert (await cluster.conditions())["Applied"] == ("True", "AllManifestsApplied")
    for store in (cluster.hub, cluster.member):
        notes = [event["note"] for event in (await store.list(EVENT)).items if event["reason"] == "FinalizersRemain"]
        assert notes == [f"ConfigMap web/settings: finalizer {HOLD}"]
    versions = cluster.versions
    cluster.time += timedelta(minutes=1)
    await cluster.reconcile()
    assert cluster.versions == versions
    live = await cluster.live(CONFIG_MAP, "settings")
    await cluster.edit(CONFIG_MAP, "settings", metadata={**live["metadata"], "finalizers": []})
    outcome = await cluster.reconcile()
    assert (await removed(cluster), outcome.removing) == (None, False)
    owner = await cluster.member.get(APPLIED_WORK, Key("web-work"))
    assert [entry["name"] for entry in list_at(owner, "status", "appliedResources")] == ["web", "other"]


async def test_a_work_that_waits_for_a_deletion_gets_a_pass_each_minute(cluster):
    outcome = await drop_settings(cluster)
    outcome, pace = await cluster.reconcile(), None
    for _ in range(20):
        pace = next_pace(pace, outcome)
        assert pace.delay <= REMOVING_LIMIT
    assert pace.delay == REMOVING_LIMIT
