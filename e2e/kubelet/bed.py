"""A cluster whose Pods run: etcd, API server, controllers, scheduler and kubelet, all in a network of their own."""

import contextlib
import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from e2e.controlplane.cluster import Cluster, Etcd, JsonObject
from e2e.controlplane.process import PATIENCE, Program, kill
from e2e.fleet.objects import MERGE, Objects
from e2e.fleet.waiting import wait_until
from e2e.kubelet.images import PROJECT, Image, write_images
from e2e.kubelet.network import GATEWAY, own_network

NODES = ("node-a", "node-b")


class Bed:
    """The cluster and what is needed to look at it.

    Args:
        programs: Of the control plane.
        folder: For keys, volumes and logs; made when missing.
        images: What image names mean; `set_images` changes them.
        nodes: Names of the Nodes.
        backoff_seconds: What a container waits for before its second restart.
    """

    def __init__(
        self,
        programs: Mapping[str, Path],
        folder: Path,
        images: Mapping[str, Image],
        nodes: Sequence[str] = NODES,
        backoff_seconds: float = 10,
    ) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.folder = folder
        self.etcd = Etcd(programs, folder)
        self.cluster = Cluster(programs, folder / "cluster", self.etcd, "bed", address=GATEWAY)
        self.objects = Objects(self.cluster)
        self._images = folder / "images.json"
        self.set_images(images)
        self.kubelet = Program(
            [
                *(sys.executable, "-m", "e2e.kubelet"),
                f"--kubeconfig={self.cluster.kubeconfig}",
                f"--images={self._images}",
                f"--folder={folder / 'pods'}",
                f"--backoff-seconds={backoff_seconds:g}",
                *(f"--node={name}" for name in nodes),
            ],
            folder / "kubelet.log",
            {"PYTHONPATH": str(PROJECT)},
        )

    def start(self) -> None:
        """Start everything; the calling thread is in the network."""
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
        metadata = pod["metadata"]
        name = f"{metadata['namespace']}_{metadata['name']}_{metadata['uid'][:8]}"
        return (self.folder / "pods" / name / container / str(run) / "log").read_text(encoding="utf-8")


@contextlib.contextmanager
def running_bed(
    programs: Mapping[str, Path],
    folder: Path,
    images: Mapping[str, Image],
    nodes: Sequence[str] = NODES,
    backoff_seconds: float = 10,
) -> Iterator[Bed]:
    """A bed until the block ends; the calling thread is in its network meanwhile. Arguments: as `Bed`.

    Raises:
        NetworkError: This machine does not let the tests have a network.
    """
    with own_network():
        bed = Bed(programs, folder, images, nodes, backoff_seconds)
        try:
            bed.start()
            yield bed
        finally:
            bed.stop()


def is_ready(pod: JsonObject) -> bool:
    """Whether its condition Ready says so."""
    conditions = pod["status"].get("conditions") or ()
    return any(condition["type"] == "Ready" and condition["status"] == "True" for condition in conditions)
