"""Only the server's own connection to the hub is slow: it stays ready, and the hub's reviews get their verdicts."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from e2e.controlplane.cluster import Cluster
from e2e.controlplane.fault_proxy import FaultProxy, Faults
from e2e.controlplane.steady_writers import write
from e2e.fleet.objects import Objects, make_namespace
from e2e.fleet.waiting import wait_until

NAMESPACE = "slow-hub"
AUDIENCE = "harbormaster.harbormaster-system.svc"


@pytest.fixture
def proxy(bare_hub: Cluster, folder: Path) -> Iterator[FaultProxy]:
    """What stands between the server and the hub, but not between the hub and the server."""
    found = FaultProxy(bare_hub, folder / "slow-hub")
    found.start()
    yield found
    found.stop()
    bare_hub.request("DELETE", f"/api/v1/namespaces/{NAMESPACE}")


def test_reviews_do_not_wait_for_what_they_do_not_need(bare_hub, proxy, start_service):
    Objects(bare_hub).apply([make_namespace(NAMESPACE)])
    bare_hub.request("POST", f"/api/v1/namespaces/{NAMESPACE}/serviceaccounts", {"metadata": {"name": "asker"}})
    server = start_service(bare_hub, proxy.kubeconfig("slow-hub", bare_hub.users["admin"].token))
    server.register()
    proxy.set(Faults(cut="silence"))
    token = bare_hub.token_of(NAMESPACE, "asker", AUDIENCE)

    def status() -> int:
        return server.ask("GET", "/v1/clusters", token=token, seconds=60).status

    wait_until("what needs the hub is not answered", lambda: "" if status() == 503 else "it is")
    assert server.ready(), server.checks()
    assert write(bare_hub, "wrong", is_wrong=True)[0] == "refused"
    assert write(bare_hub, "right")[0] == "admitted"
    assert server.ready(), server.checks()
    proxy.heal()
    wait_until("what needs the hub is answered again", lambda: "" if status() == 403 else "it is not")
