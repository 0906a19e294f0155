"""A hub of a real kube-apiserver and etcd, for the rows that ask one."""

import contextlib
from collections.abc import Iterator
from pathlib import Path

from e2e.conftest import install_definitions
from e2e.controlplane.build import Programs
from e2e.controlplane.cluster import Cluster, Etcd


@contextlib.contextmanager
def real_hub(folder: Path) -> Iterator[Cluster]:
    """Run a hub with our definitions, whose files are in *folder*."""
    programs = Programs()
    etcd = Etcd(programs, folder)
    hub = Cluster(programs, folder / "hub", etcd, "hub")
    try:
        etcd.start()
        hub.start()
        install_definitions(hub)
        yield hub
    finally:
        hub.stop()
        etcd.program.stop()
