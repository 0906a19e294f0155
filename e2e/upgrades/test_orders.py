"""Orders to upgrade runs over HTTPS on a real hub: with the rights of the server's account, for callers who may."""

from collections.abc import Iterator
from typing import Any

import pytest

from e2e.conftest import StartService
from e2e.controlplane.cluster import Cluster
from e2e.controlplane.service import Answer, Service
from e2e.fleet.bed import grant
from e2e.fleet.objects import Objects
from e2e.fleet.processes import SYSTEM
from e2e.fleet.waiting import wait_until
from e2e.upgrades.callers import API, AUDIENCE, PATHS, RIGHTS, RUN, account
from scorer.api.kinds import UPGRADE_GATE, UPGRADE_PROFILE, UPGRADE_RUN, VERSION_CATALOG
from scorer.api.unstructured.documents import annotation, status_of

GATE = {"runName": "ordered", "stage": "s", "timing": "Before", "index": 0, "type": "Approval"}
CATALOG = {"regions": [{"name": "default", "kubernetesVersions": [{"version": "1.31.2"}]}]}
PROFILE = {"channel": "TargetKubernetesVersion", "targetKubernetesVersion": "1.31", "disabled": True}
MADE = (
    (UPGRADE_RUN, "ordered", RUN),
    (UPGRADE_GATE, "ordered-gate", GATE),
    (VERSION_CATALOG, "published", CATALOG),
    (UPGRADE_PROFILE, "minor", PROFILE),
)
LOOP = {"username": f"system:serviceaccount:{SYSTEM}:harbormaster-reconcile", "groups": ["system:masters"]}
"""Who makes and removes gates: the hub asks replicas, which refuse anybody else."""


@pytest.fixture(scope="module")
def server(bare_hub: Cluster, start_service: StartService) -> Iterator[Service]:
    """A server that has the rights which are printed for it, and no others; the hub asks it about every write."""
    objects = Objects(bare_hub)
    grant(bare_hub, "serve", "harbormaster-serve")
    account(bare_hub, "operator", [*PATHS, *RIGHTS])
    account(bare_hub, "onlooker", PATHS)
    for kind, name, spec in MADE:
        about = {"apiVersion": API, "kind": kind.kind, "metadata": {"name": name}}
        bare_hub.request("POST", f"/apis/{API}/{kind.plural}", {**about, "spec": spec}, acting_as=LOOP)
    objects.patch_status(UPGRADE_GATE, "ordered-gate", {"state": "Pending"})
    found = start_service(bare_hub, bare_hub.write_kubeconfig("serve", bare_hub.token_of(SYSTEM, "harbormaster-serve")))
    found.register()
    found.wait_asked()
    yield found
    for kind in (UPGRADE_RUN, UPGRADE_PROFILE, VERSION_CATALOG, UPGRADE_GATE):
        for each in objects.all(kind):
            bare_hub.request("DELETE", f"/apis/{API}/{kind.plural}/{each['metadata']['name']}", acting_as=LOOP)


def order(server: Service, hub: Cluster, path: str, body: Any = None, *, who: str = "operator") -> Answer:
    return server.ask("POST", f"/v1/upgrade/{path}", body, token=hub.token_of(SYSTEM, who, AUDIENCE))


@pytest.mark.core
def test_a_run_is_started_and_skipped_through(server, bare_hub):
    assert order(server, bare_hub, "runs/ordered:start", who="onlooker").status == 404
    started = order(server, bare_hub, "runs/ordered:start")
    assert (started.status, started.document["changed"]) == (200, True), started.body
    stored = Objects(bare_hub).get(UPGRADE_RUN, "ordered")
    assert stored["spec"]["state"] == "Run"
    assert annotation(stored, "harbormaster.dev/requested-by") == f"system:serviceaccount:{SYSTEM}:operator"
    skipped = order(server, bare_hub, "runs/ordered:skip", {"targets": [{"type": "Stage", "name": "s"}]})
    assert (skipped.status, skipped.document["generation"]) == (200, 3), skipped.body
    assert order(server, bare_hub, "runs/ordered:stop").status == 409, "it has not begun"


@pytest.mark.core
def test_a_gate_is_approved(server, bare_hub):
    approved = order(server, bare_hub, "gates/ordered-gate:approve", {"message": "fine"})
    assert (approved.status, approved.document["changed"]) == (200, True), approved.body
    (said,) = status_of(Objects(bare_hub).get(UPGRADE_GATE, "ordered-gate"))["conditions"]
    assert (said["status"], said["message"]) == ("True", "fine")


def test_a_profile_makes_its_run(server, bare_hub):
    def problem() -> str:
        made = order(server, bare_hub, "profiles/minor:generate")
        return "" if made.status == 200 else str(made.body)

    wait_until("the catalog is known", problem)
    (made,) = [each for each in Objects(bare_hub).all(UPGRADE_RUN) if each["metadata"]["name"] != "ordered"]
    assert (made["spec"]["state"], made["spec"]["upgrade"]["kubernetesVersion"]) == ("Initialize", "1.31.2")


def test_a_plan_is_made_of_what_the_server_may_read(server, bare_hub):
    planned = order(server, bare_hub, "plan", {"run": "ordered"})
    assert planned.status == 200, planned.body
    assert planned.document["members"] == [], "nobody has joined"
    assert order(server, bare_hub, "plan", {"run": "ordered"}, who="onlooker").status == 404
