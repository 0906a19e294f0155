"""A hub for all tests here: etcd, kube-apiserver, our definitions, and one replica that it asks.

What is started here ends with the last test of this folder, and the fleet with the last test that stands on it: a
cluster at rest still takes its share of the processor from the tests that come after.
"""

import contextlib
import functools
import itertools
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
from e2e.controlplane.service import HARBORMASTER, REGISTRATIONS, Service
from e2e.fleet.bed import Fleet
from e2e.fleet.scene import Scene
from e2e.fleet.shared import SharedFleet
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
SHARED_FLEET = pytest.StashKey[SharedFleet]()
NUMBERS = itertools.count()
"""Of the replicas, for the names of their folders."""


@pytest.fixture(scope="session")
def programs() -> Mapping[str, Path]:
    """The control plane's programs, built when they are not there yet."""
    return build()


@pytest.fixture(scope="package")
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


@pytest.fixture(scope="package")
def etcd(programs: Mapping[str, Path], folder: Path) -> Iterator[Etcd]:
    """The store below all clusters of the run."""
    found = Etcd(programs, folder)
    try:
        found.start()
        yield found
    finally:
        found.program.stop()


@pytest.fixture(scope="package")
def twin(programs: Mapping[str, Path], folder: Path, etcd: Etcd) -> Iterator[Cluster]:
    """A second hub with our definitions and nobody to ask: what clients see there is what they are used to."""
    found = Cluster(programs, folder / "twin", etcd, "twin")
    try:
        found.start()
        install_definitions(found)
        yield found
    finally:
        found.stop()


@pytest.fixture(scope="package")
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
    cluster.kubectl("apply", "--server-side", "-f", "-", given=printed_definitions())
    for kind in OUR_KINDS:
        wait_served(cluster, kind)


@functools.cache
def printed_definitions() -> str:
    """What ``harbormaster crds`` prints, each time the same."""
    return subprocess.run([HARBORMASTER, "crds"], capture_output=True, text=True, check=True).stdout


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


def registered(cluster: Cluster) -> list[object]:
    """Which versions of our configurations a cluster has; empty when one is missing."""
    found: list[object] = []
    for kind in ("mutating", "validating"):
        try:
            document, _ = cluster.request("GET", f"{REGISTRATIONS}/{kind}webhookconfigurations/harbormaster")
        except ApiError as error:
            assert error.code == 404, str(error)
            return []
        found.append((document["metadata"]["uid"], document["metadata"]["generation"]))
    return found


@pytest.fixture(scope="module")
def start_service(bare_hub: Cluster, folder: Path) -> Iterator[StartService]:
    """Starts replicas; all of them end with the module, and no cluster asks them any more."""
    running: list[Service] = []

    def start(cluster: Cluster | None = None, kubeconfig: Path | None = None, **settings: Any) -> Service:
        service = Service(cluster or bare_hub, folder / f"serve-{next(NUMBERS)}", settings, kubeconfig)
        running.append(service)
        service.start()
        return service

    yield start
    for service in running:
        with contextlib.suppress(OSError):  # its cluster has ended before
            unregister(service)
        service.program.stop()


def unregister(service: Service) -> None:
    """Have its cluster ask a replica no longer, if it does."""
    for kind in ("mutating", "validating"):
        path = f"{REGISTRATIONS}/{kind}webhookconfigurations/harbormaster"
        try:
            found, _ = service.cluster.request("GET", path)
            if str(found["webhooks"][0]["clientConfig"].get("url")).startswith(service.url):
                service.cluster.request("DELETE", path)
        except ApiError as error:
            assert error.code == 404, str(error)


@pytest.fixture(scope="package")
def service(bare_hub: Cluster, folder: Path) -> Iterator[Service]:
    """The replica with the settings of an installation that sets nothing."""
    found = Service(bare_hub, folder / f"serve-{next(NUMBERS)}")
    try:
        found.start()
        yield found
    finally:
        found.program.stop()


@pytest.fixture(scope="package")
def shared_fleet(
    programs: Mapping[str, Path], folder: Path, etcd: Etcd, request: pytest.FixtureRequest
) -> Iterator[SharedFleet]:
    """The fleet of all modules that stand on it, one after the other."""
    found = SharedFleet(lambda name: Fleet(name, programs, folder / name, etcd, install_definitions))
    request.session.stash[SHARED_FLEET] = found
    yield found
    found.end()


@pytest.fixture(scope="module")
def fleet(shared_fleet: SharedFleet) -> Fleet:
    """A hub with three members, their agents, and one replica of the loop."""
    return shared_fleet.running()


@pytest.hookimpl(trylast=True)
def pytest_runtest_teardown(item: pytest.Item, nextitem: pytest.Item | None) -> None:
    """End the fleet when the test that comes next does not stand on it."""
    shared = item.session.stash.get(SHARED_FLEET, None)
    if shared is not None and (nextitem is None or "shared_fleet" not in getattr(nextitem, "fixturenames", ())):
        shared.end()


@pytest.fixture
def scene(fleet: Fleet) -> Iterator[Scene]:
    """What a test puts into the fleet; taken away at its end."""
    found = Scene(fleet)
    yield found
    found.clear()


@pytest.fixture(scope="package")
def left_registered() -> list[object]:
    """What the fixture ``hub`` has registered last."""
    return []


@pytest.fixture
def hub(bare_hub: Cluster, service: Service, left_registered: list[object]) -> Cluster:
    """The hub, asking that replica; what a test before has left of that is not made anew."""
    if not left_registered or registered(bare_hub) != left_registered:
        service.register()
        left_registered[:] = registered(bare_hub)
    return bare_hub
