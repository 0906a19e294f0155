"""What a replica knows while its hub comes and goes: the whole fleet or nothing, never an empty one."""

import contextlib
import json
import threading
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from e2e.conftest import StartService
from e2e.controlplane.client_certificate import ClientCertificate
from e2e.controlplane.cluster import Cluster
from e2e.controlplane.process import PATIENCE
from e2e.controlplane.service import Service
from scorer.api.kinds import MEMBER_CLUSTER

MEMBERS = f"/apis/{MEMBER_CLUSTER.api_version}/{MEMBER_CLUSTER.plural}"
SIZE = 40


@pytest.fixture(scope="module")
def cluster(own_hub: Cluster) -> Cluster:
    """A hub with a fleet, which is restarted."""
    for number in range(SIZE):
        identity = {"kind": "User", "name": f"member-{number}", "apiGroup": "rbac.authorization.k8s.io"}
        document = {
            "apiVersion": MEMBER_CLUSTER.api_version,
            "kind": MEMBER_CLUSTER.kind,
            "metadata": {"name": f"member-{number:02}"},
            "spec": {"identity": identity},
        }
        own_hub.request("POST", MEMBERS, document)
    return own_hub


@pytest.fixture(scope="module")
def replica(cluster: Cluster, start_service: StartService) -> Service:
    return start_service(cluster, requests_per_second=1000)


@pytest.fixture(scope="module")
def admin(cluster: Cluster, folder: Path) -> ClientCertificate:
    return cluster.issue_client_certificate("root", ("system:masters",), folder / "cache-admin")


class Witness(threading.Thread):
    """Asks for the fleet again and again, and writes down every answer."""

    def __init__(self, service: Service, client: ClientCertificate) -> None:
        super().__init__(daemon=True)
        self.sizes: list[int] = []
        self.refusals: Counter[int] = Counter()
        self._service = service
        self._client = client
        self._ended = threading.Event()

    def run(self) -> None:
        while not self._ended.is_set():
            with contextlib.suppress(OSError):
                answer = self._service.ask("GET", "/v1/clusters", client=self._client, seconds=15)
                if answer.status == 200:
                    self.sizes.append(len(json.loads(answer.body)["items"]))
                else:
                    self.refusals[answer.status] += 1
            time.sleep(0.03)  # a connection each time: who asks without a pause takes the processor from the others

    def end(self) -> None:
        self._ended.set()
        self.join(30)
        assert not self.is_alive()

    def wait_answers(self, more: int, seconds: float = PATIENCE) -> None:
        """Wait for so many more answers."""
        wanted, end = len(self.sizes) + more, time.monotonic() + seconds
        while len(self.sizes) < wanted:
            assert time.monotonic() < end, f"no answers any more, but {dict(self.refusals)}"
            time.sleep(0.05)


@contextlib.contextmanager
def witnessed(service: Service, client: ClientCertificate) -> Iterator[Witness]:
    """Watch every answer, and see that none was made from less than the whole fleet."""
    witness = Witness(service, client)
    witness.start()
    try:
        yield witness
        witness.wait_answers(20)
    finally:
        witness.end()
    assert set(witness.sizes) == {SIZE}
    assert set(witness.refusals) <= {401, 503}


def test_a_hub_that_restarts_and_has_forgotten_the_past(cluster: Cluster, replica: Service, admin: ClientCertificate):
    """After a restart and a compaction the watch cannot go on where it was: everything is listed again."""
    before = replica.metric("harbormaster_relists_total")
    with witnessed(replica, admin) as witness:
        witness.wait_answers(20)
        cluster.apiserver.stop()
        witness.wait_answers(20)  # out of the cache, while nobody is there to be asked
        cluster.start()
        listing, _ = cluster.request("GET", MEMBERS)
        cluster.etcd.compact(int(listing["metadata"]["resourceVersion"]))
        end = time.monotonic() + PATIENCE
        while replica.metric("harbormaster_relists_total") <= before:
            assert time.monotonic() < end, "nothing was listed again"
            time.sleep(0.1)
    assert replica.metric(f'harbormaster_cache_synced{{resource="{MEMBER_CLUSTER.resource}"}}') == 1


def test_a_replica_that_starts_together_with_its_hub(cluster: Cluster, replica: Service, admin: ClientCertificate):
    """An API server that is coming up does not serve our kinds at first; that is no fleet of nobody."""
    with witnessed(replica, admin) as witness:
        replica.program.stop()
        cluster.apiserver.stop()
        cluster.apiserver.start()
        replica.program.start()
        witness.wait_answers(10)
