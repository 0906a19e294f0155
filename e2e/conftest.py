"""Hubs for all tests here: etcd, kube-apiservers, our definitions, and replicas that they ask.

What tests share ends with the last test of their group: a cluster at rest still takes its share of the processor from
the tests that come after. etcd alone, below all of them, stays until the last test of this folder.

Fixtures of scope ``package`` belong to this folder: all folders below share one instance. `share` ends each with the
last test of its group, whatever folders its tests are in.
"""

import contextlib
import faulthandler
import itertools
import json
import os
import shutil
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import pytest
from _pytest.capture import CaptureManager

from e2e.controlplane.build import Programs, built
from e2e.controlplane.cluster import ApiError, Cluster, Etcd, User
from e2e.controlplane.printed import printed
from e2e.controlplane.process import PATIENCE, kill
from e2e.controlplane.service import REGISTRATIONS, Service
from e2e.controlplane.shared import Shared, started
from e2e.fleet.bed import COLLECTORS, Fleet
from e2e.fleet.joining import Pair
from e2e.fleet.objects import Objects
from e2e.fleet.scene import Scene
from e2e.installed.images import installed_images
from e2e.kubelet.bed import Bed, Site, running_bed
from e2e.kubelet.images import Image, own_image
from e2e.kubelet.scene import OWN, WEB, web_image
from scorer.api.kinds import KINDS, OUR_KINDS, Kind
from tests.turns import group_of

RIGHTS = (
    *(KINDS["rbac.authorization.k8s.io", kind] for kind in ("ClusterRole", "ClusterRoleBinding")),
    *(
        KINDS["admissionregistration.k8s.io", kind]
        for kind in ("ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding")
    ),
)
"""Kinds of what gives an installation its rights, and of what limits them."""
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
WEBHOOK_CLIENT = "hub-webhooks"
"""Common name of the client certificate that `twin` shows to webhooks."""
SHARED = pytest.StashKey[list[Shared[Any]]]()
NUMBERS = itertools.count()
"""Of the replicas, for the names of their folders."""


class ShownPrograms(Programs):
    """Programs whose builds print their progress to the terminal, past the capture of pytest."""

    def __init__(self, capture: CaptureManager) -> None:
        self._capture = capture

    def __getitem__(self, name: str) -> Path:
        if built(name):
            return super().__getitem__(name)
        faulthandler.cancel_dump_traceback_later()  # a build may take longer than any test
        with self._capture.global_and_fixture_disabled(), contextlib.redirect_stdout(sys.stderr):
            return super().__getitem__(name)


@pytest.fixture(scope="session")
def programs(pytestconfig: pytest.Config) -> Mapping[str, Path]:
    """The control plane's programs; each is built when the first test needs it."""
    return ShownPrograms(pytestconfig.pluginmanager.getplugin("capturemanager"))


@pytest.fixture(scope="package")
def folder(tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> Iterator[Path]:
    """Where keys and logs of this run are; the logs stay when a test fails, named at the end of the run."""
    path = tmp_path_factory.mktemp("controlplane")
    yield path
    kept = os.environ.get("HARBORMASTER_E2E_LOGS")
    if kept and request.session.testsfailed:
        for log in (*path.rglob("*.log"), *path.rglob("log")):  # a container's is called log
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
        kill(found.program)


@contextlib.contextmanager
def running_hub(programs: Mapping[str, Path], folder: Path, etcd: Etcd, name: str, **how: Any) -> Iterator[Cluster]:
    """A hub with our definitions, until the block ends; *how*: as `Cluster`."""
    found = Cluster(programs, folder / name, etcd, name, **how)
    try:
        found.start()
        install_definitions(found)
        yield found
    finally:
        found.stop()


def share(request: pytest.FixtureRequest, run: Callable[[int], AbstractContextManager[Any]]) -> Iterator[Shared[Any]]:
    """Share what *run* starts among the tests of one group."""
    found = Shared(run)
    request.session.stash.setdefault(SHARED, []).append(found)
    yield found
    found.end()


@pytest.fixture(scope="package")
def shared_twin(
    programs: Mapping[str, Path], folder: Path, etcd: Etcd, request: pytest.FixtureRequest
) -> Iterator[Shared[Cluster]]:
    """`twin`, for all modules of its group."""
    yield from share(
        request, lambda number: running_hub(programs, folder, etcd, f"twin-{number}", webhook_client=WEBHOOK_CLIENT)
    )


@pytest.fixture(scope="module")
def twin(shared_twin: Shared[Cluster]) -> Cluster:
    """A second hub with our definitions and nobody to ask: what clients see there is what they are used to."""
    return shared_twin.running()


@pytest.fixture(scope="package")
def shared_hub(
    programs: Mapping[str, Path], folder: Path, etcd: Etcd, request: pytest.FixtureRequest
) -> Iterator[Shared[Cluster]]:
    """`bare_hub`, for all modules of its group."""
    users = (User("alice", ("writers",)), User("bob"))

    @contextlib.contextmanager
    def run(number: int) -> Iterator[Cluster]:
        with running_hub(programs, folder, etcd, f"hub-{number}", users=users) as found:
            found.request("POST", "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings", EVERYBODY_WRITES)
            yield found

    yield from share(request, run)


@pytest.fixture(scope="module")
def bare_hub(shared_hub: Shared[Cluster]) -> Cluster:
    """A hub with our definitions that asks nobody."""
    return shared_hub.running()


@pytest.fixture(scope="package")
def shared_own_hub(
    programs: Mapping[str, Path], folder: Path, etcd: Etcd, request: pytest.FixtureRequest
) -> Iterator[Shared[Cluster]]:
    """`own_hub`, for all modules of its group, one after the other."""
    audited = ("keeper", "loop-a", "loop-b", "loop-c", "node-loop", "node-agent")
    users = [User(name, ("system:masters",) if name.startswith("loop-") else ()) for name in (*audited, "lion", "bob")]

    @contextlib.contextmanager
    def run(number: int) -> Iterator[Cluster]:
        with running_hub(programs, folder, etcd, f"own-{number}", users=users, audited=audited) as found:
            found.start_controller_manager(COLLECTORS)
            yield found

    yield from share(request, run)


@pytest.fixture(scope="module")
def own_hub(shared_own_hub: Shared[Cluster]) -> Iterator[Cluster]:
    """A hub that a module has to itself while it runs, so that it may stop and kill it: what it leaves is removed.

    Dependents are collected and namespaces end there. Users: ``loop-a``, ``loop-b`` and ``loop-c`` have all
    rights, ``keeper``, ``node-loop``, ``node-agent``, ``lion`` and ``bob`` none; the writes of all but the last two are
    audited.
    """
    found = shared_own_hub.running()
    yield found
    remove_ours(found)
    remove_rights(found)


def remove_rights(cluster: Cluster) -> None:
    """Remove the roles and policies of an installation, which helm would not take over."""
    objects = Objects(cluster)
    for kind in RIGHTS:
        for item in objects.all(kind):
            if item["metadata"]["name"].startswith("harbormaster"):
                objects.delete(kind, item["metadata"]["name"])


def remove_ours(cluster: Cluster) -> None:
    """Remove all objects of our kinds, whoever holds them."""
    objects = Objects(cluster)
    for kind in OUR_KINDS:
        for item in objects.all(kind):
            key = (item["metadata"]["name"], item["metadata"].get("namespace", ""))
            objects.delete(kind, *key)
            if item["metadata"].get("finalizers") and objects.find(kind, *key):
                objects.patch(kind, key[0], {"metadata": {"finalizers": None}}, key[1])


def install_definitions(cluster: Cluster) -> None:
    """Install what ``harbormaster crds`` prints."""
    Objects(cluster).apply(json.loads(printed("crds", "-o", "json"))["items"])
    for kind in OUR_KINDS:
        wait_served(cluster, kind)


def wait_served(cluster: Cluster, kind: Kind, seconds: float = PATIENCE) -> None:
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
def start_service(folder: Path) -> Iterator[StartService]:
    """Starts replicas; all of them end with the module, and no cluster asks them any more."""
    running: list[Service] = []

    def start(
        cluster: Cluster,
        kubeconfig: Path | None = None,
        *,
        clock_seconds: int | None = None,
        wait: bool = True,
        words: Sequence[str] = (),
        port: int | None = None,
        **settings: Any,
    ) -> Service:
        service = Service(cluster, folder / f"serve-{next(NUMBERS)}", settings, kubeconfig, clock_seconds, words, port)
        running.append(service)
        if wait:
            service.start()
        else:
            service.program.start()
        return service

    yield start
    for service in running:
        with contextlib.suppress(OSError):  # its cluster has ended before
            unregister(service)
    kill(*(service.program for service in running))


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
def shared_service(
    shared_hub: Shared[Cluster], folder: Path, request: pytest.FixtureRequest
) -> Iterator[Shared[Service]]:
    """`service`, for all modules of its group."""

    @contextlib.contextmanager
    def run(_: int) -> Iterator[Service]:
        found = Service(shared_hub.running(), folder / f"serve-{next(NUMBERS)}")
        try:
            found.start()
            yield found
        finally:
            kill(found.program)

    yield from share(request, run)


@pytest.fixture(scope="module")
def service(shared_service: Shared[Service]) -> Service:
    """The replica with the settings of an installation that sets nothing."""
    return shared_service.running()


@pytest.fixture(scope="package")
def shared_fleet(
    programs: Mapping[str, Path], folder: Path, etcd: Etcd, request: pytest.FixtureRequest
) -> Iterator[Shared[Fleet]]:
    """`fleet`, for all modules of its group, one after the other."""

    @contextlib.contextmanager
    def run(number: int) -> Iterator[Fleet]:
        name = f"fleet-{number}"
        found = Fleet(name, programs, folder / name, etcd, install_definitions)
        try:
            found.start()
            yield found
        finally:
            found.stop()

    yield from share(request, run)


@pytest.fixture(scope="module")
def fleet(shared_fleet: Shared[Fleet]) -> Fleet:
    """A hub with three members, their agents, and one replica of the loop."""
    return shared_fleet.running()


@pytest.hookimpl(trylast=True)
def pytest_runtest_teardown(item: pytest.Item, nextitem: pytest.Item | None) -> None:
    """End what is shared with the last test of its group."""
    if nextitem is None or group_of(nextitem.nodeid) != group_of(item.nodeid):
        for shared in reversed(item.session.stash.get(SHARED, [])):
            shared.end()


def images_of_beds(programs: Mapping[str, Path]) -> dict[str, Image]:
    """Return the images of `bed`, by name."""
    return {WEB: web_image(), OWN: own_image(), **installed_images(programs)}


@pytest.fixture(scope="package")
def shared_bed(programs: Mapping[str, Path], folder: Path, request: pytest.FixtureRequest) -> Iterator[Shared[Bed]]:
    """`bed`, for all modules of its group."""

    def run(number: int) -> AbstractContextManager[Bed]:
        programs["helm"]  # built here: in the network of the bed, no modules can be fetched
        return running_bed(programs, folder / f"bed-{number}", images_of_beds(programs), Site(backoff_seconds=1))

    yield from share(request, run)


@pytest.fixture(scope="module")
def bed(shared_bed: Shared[Bed]) -> Bed:
    """A cluster whose Pods run, in a network that the tests' thread is in from now on, until its group ends."""
    return shared_bed.running()


@pytest.fixture(scope="module")
def both_sides(programs: Mapping[str, Path], folder: Path, etcd: Etcd) -> Iterator[Pair]:
    """A hub and a cluster that can become its member, for all tests of a module."""
    with started(Pair(programs, folder / "join", etcd, install_definitions)) as found:
        yield found


@pytest.fixture
def pair(both_sides: Pair) -> Iterator[Pair]:
    """The two clusters, without a member; neither loop nor agent runs."""
    both_sides.stop_loop()
    yield both_sides
    both_sides.clear()


@pytest.fixture
def pair_with_loop(both_sides: Pair) -> Iterator[Pair]:
    """The two clusters, without a member; the loop runs, which tests one after the other share, and no agent."""
    both_sides.start_loop()
    yield both_sides
    both_sides.clear()


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
