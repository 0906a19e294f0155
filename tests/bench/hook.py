"""What a create costs through both webhooks on a real kube-apiserver: the latency with them minus that without.

One client creates placements one after the other over one connection, as ``kubectl apply`` would have them created;
rounds with and without the registration take turns, so that a disturbance meets both. The replica is ``harbormaster
serve`` with its cache on the same API server.
"""

import contextlib
import http.client
import json
import ssl
import tempfile
import time
from collections.abc import Iterator
from itertools import count
from pathlib import Path

import numpy as np

from e2e.controlplane.cluster import ADMIN, LOOPBACK, Cluster
from e2e.controlplane.service import REGISTRATIONS, Service
from tests.bench.admission import written
from tests.bench.figures import Figure, Part
from tests.bench.real_hub import real_hub

ROUNDS, CREATES = 5, 200
PLACEMENTS = "/apis/placement.kubernetes-fleet.io/v1beta1/clusterresourceplacements"


def main() -> None:
    """Measure and tell the figures."""
    numbers = count()
    taken: dict[bool, list[float]] = {False: [], True: []}
    with (
        tempfile.TemporaryDirectory() as folder,
        _hooked_hub(Path(folder)) as (hub, service),
        _connection(hub) as connection,
    ):
        create(hub, connection, numbers, 100)  # warm up
        for _ in range(ROUNDS):
            for hooked in (False, True):
                if hooked:
                    service.register()
                taken[hooked] += create(hub, connection, numbers, CREATES)
                if hooked:
                    for kind in ("validating", "mutating"):
                        hub.request("DELETE", f"{REGISTRATIONS}/{kind}webhookconfigurations/harbormaster")
                    time.sleep(1)
                hub.request("DELETE", PLACEMENTS)
    without, through = (np.percentile(np.array(taken[hooked]) * 1000, (50, 99)) for hooked in (False, True))
    part = Part("hook")
    for percent, ours, floor in zip((50, 99), through, without, strict=True):
        note = f"{ours - floor:.2f} ms through both webhooks"
        part.report(
            Figure(f"create on a real API server, p{percent}", float(ours), "ms", floor=float(floor), note=note)
        )


@contextlib.contextmanager
def _hooked_hub(folder: Path) -> Iterator[tuple[Cluster, Service]]:
    with real_hub(folder) as hub:
        service = Service(hub, folder / "serve")
        try:
            service.start()
            yield hub, service
        finally:
            service.program.stop()


@contextlib.contextmanager
def _connection(hub: Cluster) -> Iterator[http.client.HTTPSConnection]:
    trust = ssl.create_default_context(cafile=str(hub.ca_file))
    connection = http.client.HTTPSConnection(LOOPBACK, hub.port, timeout=30, context=trust)
    with contextlib.closing(connection):
        yield connection


def create(hub: Cluster, connection: http.client.HTTPSConnection, numbers: Iterator[int], how_many: int) -> list[float]:
    """Create placements one after the other; returns the seconds that each took."""
    headers = {"Authorization": f"Bearer {hub.users[ADMIN].token}", "Content-Type": "application/json"}
    taken = []
    for number, _ in zip(numbers, range(how_many), strict=False):
        document = written(number)
        metadata = {"name": f"bench-{number}", "labels": document["metadata"].get("labels", {})}
        body = json.dumps({**document, "metadata": metadata})
        started = time.perf_counter()
        connection.request("POST", PLACEMENTS, body, headers)
        answer = connection.getresponse()
        content = answer.read()
        taken.append(time.perf_counter() - started)
        if answer.status != 201:
            raise RuntimeError(content.decode())
    return taken


if __name__ == "__main__":
    main()
