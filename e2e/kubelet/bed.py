"""A cluster whose Pods run: etcd, API server, controllers, scheduler and kubelet, all in a network of their own."""

import contextlib
import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from ipaddress import IPv4Network
from pathlib import Path

from e2e.controlplane.cluster import SERVICES, Cluster, Etcd, JsonObject, Place
from e2e.controlplane.process import LAST_LINES, PATIENCE, Program, kill
from e2e.fleet.objects import MERGE, Objects
from e2e.fleet.waiting import wait_until
from e2e.kubelet.images import PROJECT, Image, write_images
from e2e.kubelet.network import GATEWAY, own_network


@dataclass(frozen=True)
class Site:
    """What beds that share a network must not have in common.

    Args:
        name: Of the cluster.
        nodes: Names of the Nodes.
        services: Addresses of Services.
        first_pod: Number of its first Pod, from which addresses follow.
        backoff_seconds: What a container waits for before its second restart.
    """

    name: str = "bed"
    nodes: Sequence[str] = ("node-a", "node-b")
    services: IPv4Network = SERVICES
    first_pod: int = 0
    backoff_seconds: float = 10


ALONE = Site()
BESIDE = Site("beside", ("node-beside",), IPv4Network("10.0.1.0/24"), 20_000)
"""A second one of one Node."""


class Bed:
    """The cluster and what is needed to look at it.

    Args:
        programs: Of the control plane.
        folder: For keys, volumes and logs; made when missing.
        images: What image names mean; `set_images` changes them.
        site: Where it is in the network.
        etcd: Below it, started by others; None: one of its own.
    """

    def __init__(
        self,
        programs: Mapping[str, Path],
        folder: Path,
        images: Mapping[str, Image],
        site: Site = ALONE,
        etcd: Etcd | None = None,
    ) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.folder = folder
        self._own_etcd = etcd is None
        self.etcd = etcd or Etcd(programs, folder)
        place = Place(GATEWAY, site.services)
        self.cluster = Cluster(programs, folder / "cluster", self.etcd, site.name, place=place)
        self.objects = Objects(self.cluster)
        self._images = folder / "images.json"
        self.set_images(images)
        self.kubelet = Program(
            [
                *(sys.executable, "-m", "e2e.kubelet"),
                f"--kubeconfig={self.cluster.kubeconfig}",
                f"--images={self._images}",
                f"--folder={folder / 'pods'}",
                f"--backoff-seconds={site.backoff_seconds:g}",
                f"--first-pod={site.first_pod}",
                *(f"--node={name}" for name in site.nodes),
            ],
            folder / "kubelet.log",
            {"PYTHONPATH": str(PROJECT)},
        )

    def start(self) -> None:
        """Start everything; the calling thread is in the network."""
        if self._own_etcd:
            self.etcd.start()
        self.cluster.start()
        self.kubelet.start()
        with ThreadPoolExecutor(2) as pool:  # its threads are in the network, as the one that makes them
            for started in [
                pool.submit(self.cluster.start_controller_manager),
                pool.submit(self.cluster.start_scheduler),
            ]:
                started.result()

    def stop(self) -> None:
        """Stop everything."""
        kill(self.kubelet)
        self.cluster.stop()
        if self._own_etcd:
            kill(self.etcd.program)

    def set_images(self, images: Mapping[str, Image]) -> None:
        """Have images mean this from now on, and no others be there."""
        write_images(images, self._images)

    def pods(self, namespace: str, **labels: str) -> list[JsonObject]:
        """The Pods with those labels, the oldest first."""
        chosen = ",".join(f"{key}={value}" for key, value in labels.items())
        path = f"/api/v1/namespaces/{namespace}/pods?labelSelector={chosen}"
        found = self.cluster.request("GET", path)[0]["items"]
        return sorted(found, key=lambda pod: (pod["metadata"]["creationTimestamp"], pod["metadata"]["name"]))

    def ready_pods(self, namespace: str, **labels: str) -> list[JsonObject]:
        """Those that are ready and not about to end."""
        return [
            pod
            for pod in self.pods(namespace, **labels)
            if is_ready(pod) and "deletionTimestamp" not in pod["metadata"]
        ]

    def wait_rolled_out(self, namespace: str, name: str, seconds: float = PATIENCE) -> None:
        """Wait until all replicas of a Deployment are of its newest template and ready, and no others are there."""
        wait_until(f"{name} is rolled out", lambda: self._not_rolled_out(namespace, name), seconds)

    def _not_rolled_out(self, namespace: str, name: str) -> str:
        path = f"/apis/apps/v1/namespaces/{namespace}/deployments/{name}"
        found, _ = self.cluster.request("GET", path)
        wanted, status = found["spec"]["replicas"], found["status"]
        counts = [status.get(each, 0) for each in ("replicas", "updatedReplicas", "readyReplicas", "availableReplicas")]
        current = status.get("observedGeneration", 0) >= found["metadata"]["generation"]
        if current and counts == [wanted] * 4:
            return ""
        pods = [(pod["metadata"]["name"], pod["status"].get("containerStatuses")) for pod in self.pods(namespace)]
        return f"{counts} of {wanted} {'' if current else 'not seen yet '}{json.dumps(pods)}"

    def patch(self, path: str, change: JsonObject) -> JsonObject:
        """Merge *change* into the object at *path*."""
        return self.cluster.request("PATCH", path, change, content_type=MERGE)[0]

    def log(self, pod: JsonObject, container: str, run: int = 0) -> str:
        """What a container has said in one of its runs, the first being 0."""
        return (self._folder_of(pod) / container / str(run) / "log").read_text(encoding="utf-8")

    def last_words(self, pod: JsonObject, container: str) -> list[str]:
        """The last lines of each of its runs; none when it has not been started."""
        logs = sorted((self._folder_of(pod) / container).glob("*/log"))
        return [line for log in logs for line in log.read_text(encoding="utf-8").splitlines()[-LAST_LINES:]]

    def _folder_of(self, pod: JsonObject) -> Path:
        metadata = pod["metadata"]
        return self.folder / "pods" / f"{metadata['namespace']}_{metadata['name']}_{metadata['uid'][:8]}"


@contextlib.contextmanager
def running_bed(
    programs: Mapping[str, Path],
    folder: Path,
    images: Mapping[str, Image],
    site: Site = ALONE,
) -> Iterator[Bed]:
    """A bed until the block ends; the calling thread is in its network meanwhile. Arguments: as `Bed`.

    Raises:
        NetworkError: This machine does not let the tests have a network.
    """
    with own_network():
        bed = Bed(programs, folder, images, site)
        try:
            bed.start()
            yield bed
        finally:
            bed.stop()


def is_ready(pod: JsonObject) -> bool:
    """Whether its condition Ready says so."""
    conditions = pod["status"].get("conditions") or ()
    return any(condition["type"] == "Ready" and condition["status"] == "True" for condition in conditions)
