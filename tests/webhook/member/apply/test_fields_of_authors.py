"""Fields that a controller may fill, and that the author of a manifest decides about; on a real API server in e2e."""

import pytest

from scorer.api.kinds import KINDS
from tests.webhook.member.hub_and_member import SPACE, config_map, namespace
from webhook.embedded.simulation.member_stores import ObservedStore
from webhook.kube.ports import Key
from webhook.member.apply.contention import Memory
from webhook.member.store.ports import MANAGER
from webhook.member.works.reconciler import reconcile_work

ROLE, CONFIG_MAP = KINDS["rbac.authorization.k8s.io", "ClusterRole"], KINDS["", "ConfigMap"]
AGGREGATED = {"aggregationRule": {"clusterRoleSelectors": [{"matchLabels": {"wide": "true"}}]}, "rules": []}
WIDE = [{"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]}]
NARROW = [{"verbs": ["get"], "apiGroups": [""], "resources": ["pods"]}]
STRATEGIES = [
    pytest.param({"type": "ClientSideApply"}, id="client-side"),
    pytest.param({"type": "ServerSideApply"}, id="server-side"),
]


def role(**fields):
    return {"apiVersion": ROLE.api_version, "kind": "ClusterRole", "metadata": {"name": "viewer"}, **fields}


class Tracking(ObservedStore):
    """A member whose server-side apply removes ``aggregationRule`` as an API server does, by the field's manager."""

    async def get(self, kind, key):
        live = await super().get(kind, key)
        if kind == ROLE and "aggregationRule" in live:
            entry = {"manager": MANAGER, "operation": "Apply", "fieldsV1": {"f:aggregationRule": {}}}
            live = {**live, "metadata": {**live["metadata"], "managedFields": [entry]}}
        return live

    async def apply(self, kind, document, *, manager, force, dry_run=False):
        live = await super().get(kind, Key(document["metadata"]["name"]))
        if kind == ROLE and "aggregationRule" in live and "aggregationRule" not in document:
            await super().replace(kind, {name: value for name, value in live.items() if name != "aggregationRule"})
        return await super().apply(kind, document, manager=manager, force=force, dry_run=dry_run)


@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("emptied", [{"rules": []}, {}], ids=["empty", "absent"])
async def test_the_rules_of_a_role_are_revoked(cluster, strategy, emptied):
    await cluster.place(role(rules=NARROW), applyStrategy=strategy)
    await cluster.reconcile()
    await cluster.place(role(**emptied), applyStrategy=strategy)
    await cluster.reconcile()
    assert not (await cluster.live(ROLE, "viewer", "")).get("rules")


@pytest.mark.parametrize("strategy", STRATEGIES)
async def test_a_dropped_key_that_no_controller_fills_is_removed(cluster, strategy):
    await cluster.place(namespace(), config_map(**{"ca-bundle.crt": "ours", "level": "info"}), applyStrategy=strategy)
    await cluster.reconcile()
    await cluster.place(namespace(), config_map(level="info"), applyStrategy=strategy)
    await cluster.reconcile()
    assert (await cluster.live(CONFIG_MAP, "settings"))["data"] == {"level": "info"}


@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("store", [ObservedStore, Tracking])
async def test_a_role_that_is_aggregated_no_more_has_the_rules_of_its_author(cluster, strategy, store):
    memory = Memory()

    async def reconcile():
        await reconcile_work(Key("web-work", SPACE), cluster.hub, store(cluster.member), cluster.time, memory)

    await cluster.place(role(**AGGREGATED), applyStrategy={"type": "ClientSideApply"})
    await reconcile()
    await cluster.edit(ROLE, "viewer", "", rules=WIDE)
    await reconcile()
    assert (await cluster.live(ROLE, "viewer", ""))["rules"] == WIDE, "the member's controller fills them"
    await cluster.place(role(rules=NARROW), applyStrategy=strategy)
    for _ in range(2):
        await reconcile()
    live = await cluster.live(ROLE, "viewer", "")
    assert "aggregationRule" not in live
    assert live["rules"] == NARROW
    versions = cluster.versions
    await reconcile()
    assert cluster.versions == versions
