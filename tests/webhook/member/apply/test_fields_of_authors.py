"""Fields that a controller may fill, and that the author of a manifest decides about; on a real API server in e2e."""

import pytest

from scorer.api.kinds import KINDS, NAMESPACE
from tests.webhook.member.hub_and_member import SPACE, Cluster, config_map, namespace

ROLE, CONFIG_MAP = KINDS["rbac.authorization.k8s.io", "ClusterRole"], KINDS["", "ConfigMap"]
NARROW = [{"verbs": ["get"], "apiGroups": [""], "resources": ["pods"]}]
STRATEGIES = [
    pytest.param({"type": "ClientSideApply"}, id="client-side"),
    pytest.param({"type": "ServerSideApply"}, id="server-side"),
]


def role(**fields):
    return {"apiVersion": ROLE.api_version, "kind": "ClusterRole", "metadata": {"name": "viewer"}, **fields}


@pytest.fixture
async def cluster():
    cluster = Cluster()
    await cluster.hub.create(NAMESPACE, namespace(SPACE))
    yield cluster
    cluster.hub.close()
    cluster.member.close()


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
