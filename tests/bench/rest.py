"""Rows of the hub's processes at rest: what `serve` and `reconcile` take over a small hub, and until they are ready.

The hub has the definitions, three members without agents, and as many placements; the loop leads. The floor is a Python
process that has loaded the same libraries, without what of them nobody needs at once. Each round starts them anew.
"""

import os
import tempfile
import time
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Final

from e2e.controlplane.cluster import LOOPBACK, Cluster
from e2e.controlplane.process import Program, free_port
from e2e.controlplane.service import HARBORMASTER, Service
from tests.bench.agent import floor
from tests.bench.figures import Figure, Part
from tests.bench.processes import children_of, processor_seconds, resident_megabytes, shared_megabytes
from tests.bench.real_hub import real_hub

ROUNDS: Final = 3
REST_SECONDS: Final = float(os.environ.get("REST_SECONDS", "60"))
"""Until it is looked how much they hold: by then all that has to do with the start is over."""
MEGABYTES, SECONDS = 110, 1.0
MEMBERS: Final = ("berlin", "lisbon", "oslo")
LIBRARIES: Final = (
    "import aiohttp.web, click, cryptography.x509, numpy, orjson, prometheus_client, pydantic, uvloop, yaml"
)
FLEET: Final = "/apis/cluster.kubernetes-fleet.io/v1beta1/memberclusters"
PLACEMENTS: Final = "/apis/placement.kubernetes-fleet.io/v1beta1/clusterresourceplacements"


def main() -> None:
    """Start an API server, measure each process by turns, and tell the figures."""
    taken: dict[str, list[tuple[float, float, float]]] = {}
    with tempfile.TemporaryDirectory() as folder, real_hub(Path(folder)) as hub:
        fill(hub)
        for number in range(ROUNDS):
            for name, start in starters(hub, Path(folder) / str(number)).items():
                taken.setdefault(name, []).append(look(*start()))
    part, least = Part("rest"), floor(LIBRARIES)
    for name, rows in taken.items():
        resident, shared, seconds = (sorted(column)[len(column) // 2] for column in zip(*rows, strict=True))
        if " " in name:  # of several processes: their resident memory counts several times what they share
            part.report(Figure(f"{name}, memory, shared counted once", shared, "MB", floor=least))
        else:
            part.report(Figure(f"{name}, memory", resident, "MB", MEGABYTES, least, note=f"PSS {shared:.1f} MB"))
        part.report(Figure(f"{name}, processor time until ready", seconds, "s", SECONDS))


def starters(hub: Cluster, folder: Path) -> dict[str, Callable[[], tuple[Program, Callable[[], bool]]]]:
    """Return what starts each process, by its row; it returns the program, and whether that is ready."""

    def serve(workers: int) -> tuple[Program, Callable[[], bool]]:
        service = Service(hub, folder / f"serve-{workers}", words=(f"--workers={workers}",))
        service.program.start()
        return service.program, service.ready

    def reconcile() -> tuple[Program, Callable[[], bool]]:
        port = free_port()
        words = [f"--kubeconfig={hub.kubeconfig}", f"--http-port={port}", "--namespace=default"]
        program = Program([HARBORMASTER, "reconcile", *words], folder / "reconcile.log")
        program.start()
        return program, lambda: _leads(port)

    return {"serve": lambda: serve(1), "serve --workers 2, all of it": lambda: serve(2), "reconcile": reconcile}


def look(program: Program, ready: Callable[[], bool]) -> tuple[float, float, float]:
    """Return what a program and its workers hold at rest, resident and by their shares, and take until it is ready."""
    try:
        program.wait_ready(ready)
        pids = [program.pid, *children_of(program.pid)]
        seconds = sum(map(processor_seconds, pids))
        time.sleep(REST_SECONDS)
        return sum(map(resident_megabytes, pids)), sum(map(shared_megabytes, pids)), seconds
    finally:
        program.stop()


def _leads(port: int) -> bool:
    """Whether a loop is ready, and leads."""
    with urllib.request.urlopen(f"http://{LOOPBACK}:{port}/metrics", timeout=5) as answer:
        return "harbormaster_leader 1.0" in answer.read().decode()


def fill(hub: Cluster) -> None:
    """Make members, and placements of namespaces."""
    for name in MEMBERS:
        identity = {"kind": "ServiceAccount", "name": name, "namespace": "default"}
        hub.request("POST", FLEET, _of("cluster", "MemberCluster", name, {"identity": identity}))
        hub.request("POST", "/api/v1/namespaces", {"metadata": {"name": f"shop-{name}"}})
        selectors = [{"group": "", "version": "v1", "kind": "Namespace", "name": f"shop-{name}"}]
        spec = {"resourceSelectors": selectors, "policy": {"placementType": "PickAll"}}
        hub.request("POST", PLACEMENTS, _of("placement", "ClusterResourcePlacement", name, spec))


def _of(group: str, kind: str, name: str, spec: object) -> dict[str, object]:
    version = f"{group}.kubernetes-fleet.io/v1beta1"
    return {"apiVersion": version, "kind": kind, "metadata": {"name": name}, "spec": spec}


if __name__ == "__main__":
    main()
