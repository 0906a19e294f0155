"""A server on a real hub without the rights that most hubs do not need: placements work, and what fails says why."""

from collections.abc import Iterator

import pytest

from e2e.conftest import StartService
from e2e.controlplane.cluster import ApiError, Cluster
from e2e.controlplane.service import Service
from e2e.fleet.bed import grant
from e2e.fleet.objects import Objects, make_placement
from e2e.fleet.processes import SYSTEM
from e2e.fleet.waiting import wait_until
from e2e.upgrades.callers import API, AUDIENCE, PATHS, RIGHTS, RUN, account
from scorer.api.kinds import PLACEMENT, UPGRADE_RUN

SERVER = "narrow-serve"
GATE = [{"nonResourceURLs": ["/v1/gate/*", "/v1/placements/*", "/v1/clusters"], "verbs": ["get", "post"]}]
POOLS = [{"apiGroups": ["karpenter.sh"], "resources": ["nodepools"], "verbs": ["get", "list", "patch"]}]
READING = [{"apiGroups": ["placement.kubernetes-fleet.io"], "resources": ["*"], "verbs": ["get", "list"]}]
QUESTION = {"pool": "batch", "reason": "Drifted", "count": 1}


@pytest.fixture(scope="module")
def server(bare_hub: Cluster, start_service: StartService) -> Iterator[Service]:
    """A replica with the rights that are printed without the optional ones; the hub asks it about every write."""
    grant(bare_hub, "serve", SERVER, "--no-upgrade-orders", "--no-node-pools")
    account(bare_hub, "narrow-operator", [*PATHS, *RIGHTS, *GATE, *POOLS, *READING])
    about = {"apiVersion": API, "kind": UPGRADE_RUN.kind, "metadata": {"name": "narrow"}}
    bare_hub.request("POST", f"/apis/{API}/{UPGRADE_RUN.plural}", {**about, "spec": RUN})
    found = start_service(bare_hub, bare_hub.write_kubeconfig(SERVER, bare_hub.token_of(SYSTEM, SERVER)))
    found.register()
    found.wait_asked()
    yield found
    bare_hub.request("DELETE", f"/apis/{API}/{UPGRADE_RUN.plural}/narrow")


def token(hub: Cluster) -> str:
    return hub.token_of(SYSTEM, "narrow-operator", AUDIENCE)


@pytest.mark.core
def test_placements_are_judged_and_shown(server, bare_hub):
    objects = Objects(bare_hub)
    objects.create(make_placement("narrow"))
    with pytest.raises(ApiError, match="numberOfClusters"):
        objects.create(make_placement("narrower", {"placementType": "PickN"}))

    def problem() -> str:
        answer = server.ask("GET", "/v1/placements/crp/narrow", token=token(bare_hub))
        return "" if answer.status == 200 else str(answer.body)

    wait_until("the placement is shown", problem)
    objects.delete(PLACEMENT, "narrow")


@pytest.mark.core
def test_an_order_names_the_right_that_is_missing(server, bare_hub):
    answer = server.ask("POST", "/v1/upgrade/runs/narrow:start", token=token(bare_hub))
    assert answer.status == 403, answer.body
    assert 'cannot update resource "clusterupgraderuns"' in answer.document["detail"]
    assert "rbac.upgradeOrders=true" in answer.document["detail"]
    assert Objects(bare_hub).get(UPGRADE_RUN, "narrow")["spec"]["state"] == "Initialize"


@pytest.mark.core
def test_a_question_about_nodes_names_the_right_that_is_missing(server, bare_hub):
    answer = server.ask("POST", "/v1/gate/disruption", QUESTION, token=token(bare_hub))
    assert answer.status == 503, answer.body
    assert "rbac.nodePools=true" in answer.document["detail"]
    listed = server.ask("GET", "/v1/gate/reservations", token=token(bare_hub))
    assert listed.status == 200, listed.body
