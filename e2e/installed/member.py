"""A second cluster in the network of a bed, which ``harbormaster join`` makes a member."""

import contextlib
import json
import os
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path

from e2e.controlplane.cluster import Cluster
from e2e.controlplane.service import HARBORMASTER
from e2e.installed.images import installed_images
from e2e.installed.release import EVERYTHING, QUICK, Release
from e2e.kubelet.bed import BESIDE, Bed
from e2e.kubelet.images import Image

MEMBER = "berlin"


class Member:
    """The cluster, and what makes it a member.

    Args:
        programs: Of the control plane.
        hub: The bed of the hub.
        images: For its Pods.
    """

    def __init__(self, programs: Mapping[str, Path], hub: Bed, images: Mapping[str, Image]) -> None:
        self.hub = hub
        self.bed = Bed(programs, hub.folder / "beside", images, BESIDE, hub.etcd)
        self.kubeconfig = hub.folder / "both.kubeconfig"
        self._helm = programs["helm"]
        _write_contexts(self.kubeconfig, hub=hub.cluster, member=self.bed.cluster)

    def join(self, *words: str) -> str:
        """Run ``harbormaster join``, which finds helm; returns what it printed.

        Raises:
            AssertionError: It failed.
        """
        where = ("--context=hub", "--member-context=member", f"--kubeconfig={self.kubeconfig}")
        command = [str(HARBORMASTER), "join", MEMBER, *where, "--yes", *words]
        homes = {f"HELM_{each}_HOME": str(self.bed.folder / "helm") for each in ("CACHE", "CONFIG", "DATA")}
        path = f"{self._helm.parent}:{os.environ['PATH']}"
        environment = {**os.environ, **homes, "PATH": path}
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=600, env=environment)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def become(self) -> None:
        """Start it, have it join with an agent from the chart, and wait until it is Joined and Healthy."""
        self.bed.start()
        assert self.join("--timeout=120").endswith(f"{MEMBER} is Joined and Healthy\n")


@contextlib.contextmanager
def hub_and_cluster(bed: Bed, programs: Mapping[str, Path]) -> Iterator[tuple[Release, Member]]:
    """The release installed on the hub, and a cluster beside it that has not been started, until the block ends.

    Args:
        bed: Of the hub.
        programs: Of the control plane.
    """
    release = Release(bed, programs["helm"], EVERYTHING, QUICK)
    member = Member(programs, bed, installed_images(programs))
    try:
        release.install()
        yield release, member
    finally:
        member.bed.stop()
        release.helm("uninstall", release.name, check=False)


def _write_contexts(path: Path, **clusters: Cluster) -> None:
    """Write a kubeconfig of administrators, with a context for each cluster by its name here."""
    found: dict[str, object] = {"apiVersion": "v1", "kind": "Config"}
    read = {name: json.loads(each.kubeconfig.read_text(encoding="utf-8")) for name, each in clusters.items()}
    found["clusters"] = [{"name": name, "cluster": each["clusters"][0]["cluster"]} for name, each in read.items()]
    found["users"] = [{"name": name, "user": each["users"][0]["user"]} for name, each in read.items()]
    found["contexts"] = [{"name": name, "context": {"cluster": name, "user": name}} for name in read]
    path.touch(mode=0o600)
    path.write_text(json.dumps(found), encoding="utf-8")
