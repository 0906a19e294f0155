"""The authority of the hub's API server is replaced while loop and server run; later their kubeconfig is, in place."""

import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from e2e.conftest import running_hub
from e2e.controlplane.cluster import LOOPBACK, Cluster, Etcd
from e2e.controlplane.process import PATIENCE
from e2e.controlplane.service import Service
from e2e.fleet.objects import Objects, make_namespace
from e2e.fleet.processes import LEASE, SYSTEM, Reconciler
from e2e.fleet.waiting import wait_until

AUDIENCE = f"harbormaster.{SYSTEM}.svc"


@pytest.fixture
def hub(programs: Mapping[str, Path], folder: Path, etcd: Etcd) -> Iterator[Cluster]:
    """A hub of the test's own."""
    with running_hub(programs, folder, etcd, "renewed-hub") as found:
        Objects(found).apply([make_namespace(SYSTEM)])
        found.request("POST", f"/api/v1/namespaces/{SYSTEM}/serviceaccounts", {"metadata": {"name": "asker"}})
        yield found


def test_loop_and_server_take_up_another_authority_from_the_kubeconfig(hub, start_service, folder):
    """Until then they say so: not ready and not live after a minute, as only a change of the kubeconfig helps."""
    token = hub.users["admin"].token
    kubeconfig = hub.write_kubeconfig("us", token)
    server = start_service(hub, kubeconfig)
    loop = Reconciler(kubeconfig, folder / "renewed", "loop", {})
    loop.start()
    try:
        wait_until("the loop leads", lambda: "" if renewed_at(hub) else "it does not")
        hub.replace_authority()
        for port in (server.http_port, loop.http_port):
            for probe, check in (("readyz", "hub"), ("livez", "hub-login")):
                wait_until(f"{probe} fails", lambda probe=probe, check=check, port=port: failure(port, probe, check))
        last = renewed_at(hub)
        hub.write_kubeconfig("us", token)
        wait_until("the loop renews its Lease", lambda: "" if renewed_at(hub) != last else "it does not")
        wait_until("the loop is well", lambda: "" if loop.ready() and loop.live() else "it is not")
        wait_until("the server reviews tokens", lambda: unanswered(hub, server))
        wait_until("the server is ready", lambda: "" if server.ready() else server.checks())
    finally:
        loop.stop()


def renewed_at(hub: Cluster) -> str:
    """When the Lease of the loop was renewed last."""
    found = hub.request("GET", f"/apis/coordination.k8s.io/v1/namespaces/{SYSTEM}/leases/{LEASE}")[0]
    return str(found["spec"].get("renewTime") or "")


def failure(port: int, probe: str, check: str) -> str:
    """Return an empty text when a probe fails by *check*, as its certificate does not verify; else its answer."""
    try:
        with urllib.request.urlopen(f"http://{LOOPBACK}:{port}/{probe}?verbose", timeout=PATIENCE) as answer:
            return str(answer.read().decode())
    except urllib.error.HTTPError as error:
        said = error.read().decode()
    lines = [line for line in said.splitlines() if line.startswith(f"[-]{check} failed")]
    return "" if any("certificate verify failed" in line for line in lines) else said


def unanswered(hub: Cluster, server: Service) -> str:
    """Return an empty text when the server has asked the hub who the holder of a new token is."""
    answer = server.ask("GET", "/v1/clusters", token=hub.token_of(SYSTEM, "asker", AUDIENCE))
    return "" if answer.status == 403 else f"{answer.status} {answer.body!r}"
