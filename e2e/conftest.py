"""A hub for all tests of a run: etcd, kube-apiserver, our definitions, and one replica that it asks."""

import os
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from e2e.controlplane.build import build
from e2e.controlplane.cluster import ApiError, Cluster, Etcd, User
from e2e.controlplane.service import HARBORMASTER, Service
from e2e.fleet.bed import Fleet
from e2e.fleet.scene import Scene
from scorer.api.kinds import OUR_KINDS, Kind

DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
EVERYBODY_WRITES = {
    "apiVersion": "rbac.authorization.k8s.io/v1",
    "kind": "ClusterRoleBinding",
    "metadata": {"name": "everybody-writes"},
    "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"},
    "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "Group", "name": "writers"}],
}

collect_ignore = ["soak"]
"""Takes hours: only where it is asked for by its path, as ``make soak`` does."""

StartService = Callable[..., Service]


@pytest.fixture(scope="session")
def programs() -> Mapping[str, Path]:
    """The control plane's programs, built when they are not there yet."""
    return build()


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> Iterator[Path]:
    """Where keys and logs of this run are; the logs stay when a test fails, named at the end of the run."""
    path = tmp_path_factory.mktemp("controlplane")
    yield path
    kept = os.environ.get("HARBORMASTER_E2E_LOGS")
    if kept and request.session.testsfailed:
        for log in path.rglob("*.log"):
            target = Path(kept, log.relative_to(path))
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(log, target)


@pytest.fixture(scope="session")
def etcd(programs: Mapping[str, Path], folder: Path) -> Iterator[Etcd]:
    """The store below all clusters of the run."""
    found = Etcd(programs, folder)
    try:
        found.start()
        yield found
    finally:
        found.program.stop()


@pytest.fixture(scope="session")
def twin(programs: Mapping[str, Path], folder: Path, etcd: Etcd) -> Iterator[Cluster]:
    """A second hub with our definitions and nobody to ask: what clients see there is what they are used to."""
    found = Cluster(programs, folder / "twin", etcd, "twin")
    try:
        found.start()
        install_definitions(found)
        yield found
    finally:
        found.stop()


@pytest.fixture(scope="session")
def bare_hub(programs: Mapping[str, Path], folder: Path, etcd: Etcd) -> Iterator[Cluster]:
    """A hub with our definitions that asks nobody."""
    users = (User("alice", ("writers",)), User("bob"))
    found = Cluster(programs, folder / "hub", etcd, "hub", users)
    try:
        found.start()
        install_definitions(found)
        found.request("POST", "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings", EVERYBODY_WRITES)
        yield found
    finally:
        found.stop()


def install_definitions(cluster: Cluster) -> None:
    """Install what ``harbormaster crds`` prints, as its help says."""
    printed = subprocess.run([HARBORMASTER, "crds"], capture_output=True, text=True, check=True)
    cluster.kubectl("apply", "--server-side", "-f", "-", given=printed.stdout)
    for kind in OUR_KINDS:
        wait_served(cluster, kind)


def wait_served(cluster: Cluster, kind: Kind, seconds: float = 60) -> None:
    """Wait until a kind that was just defined can be read; the condition Established comes before that."""
    end = time.monotonic() + seconds
    while not is_served(cluster, kind):
        assert time.monotonic() < end, f"{kind} is not served"
        time.sleep(0.1)


def is_served(cluster: Cluster, kind: Kind) -> bool:
    """Whether objects of a kind can be listed."""
    try:
        cluster.request("GET", f"/apis/{kind.api_version}/{kind.plural}")
    except ApiError as error:
        assert error.code in {404, 429, 503}, str(error)
        return False
    return True


@pytest.fixture(scope="session")
def start_service(bare_hub: Cluster, folder: Path) -> Iterator[StartService]:
    """Starts replicas; all of them end with the run."""
    running: list[Service] = []

    def start(cluster: Cluster | None = None, kubeconfig: Path | None = None, **settings: Any) -> Service:
        service = Service(cluster or bare_hub, folder / f"serve-{len(running)}", settings, kubeconfig)
        running.append(service)
        service.start()
        return service

    yield start
    for service in running:
        service.program.stop()


@pytest.fixture(scope="session")
def service(start_service: StartService) -> Service:
    """The replica with the settings of an installation that sets nothing."""
    return start_service()


@pytest.fixture(scope="session")
def fleet(programs: Mapping[str, Path], folder: Path, etcd: Etcd) -> Iterator[Fleet]:
    """A hub with three members, their agents, and one replica of the loop."""
    found = Fleet(programs, folder / "fleet", etcd, install_definitions)
    try:
        found.start()
        yield found
    finally:
        found.stop()


@pytest.fixture
def scene(fleet: Fleet) -> Iterator[Scene]:
    """What a test puts into the fleet; taken away at its end."""
    found = Scene(fleet)
    yield found
    found.clear()


@pytest.fixture
def hub(bare_hub: Cluster, service: Service) -> Cluster:
    """The hub, asking that replica."""
    service.register()
    return bare_hub
