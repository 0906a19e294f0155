"""The commands of the README and of ``docs/install.md`` install harbormaster, typed line by line.

A hub and a cluster that becomes its member have real control planes and the kubelet of the tests. After each command,
the test checks the result that the documents promise. Commands with the remark ``not run in tests`` are left out, and
``tests/docs/test_shown.py`` has their list.
"""

import re
import shutil
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from datetime import UTC, datetime
from ipaddress import IPv4Network
from pathlib import Path
from typing import Final

import pytest

from certs.authority import Authority
from e2e.conftest import RIGHTS, images_of_beds, remove_ours, remove_rights
from e2e.controlplane.cluster import ApiError, Cluster, JsonObject
from e2e.controlplane.process import PATIENCE, Program, kill
from e2e.controlplane.service import REGISTRATIONS
from e2e.controlplane.shared import started
from e2e.controlplane.steady_writers import write
from e2e.fleet.objects import CONFIG_MAP, Objects, condition_of, make_config_map, make_namespace, make_placement
from e2e.fleet.shell import Shell
from e2e.fleet.waiting import wait_until
from e2e.installed.images import REGISTRY, THIS, installed_images
from e2e.installed.release import COMPONENT, Release
from e2e.kubelet.bed import Bed, Site
from e2e.kubelet.images import load_image
from e2e.kubelet.network import GATEWAY, outside
from image.layers import cache
from scorer.api.kinds import CUSTOM_RESOURCE_DEFINITION, MEMBER_CLUSTER, NAMESPACE, PLACEMENT
from tests.docs.pages import DOCS, ROOT, read_page
from tests.docs.shown import (
    ADMISSION,
    CHECK,
    DEFINITIONS,
    INSTALL,
    LOOP,
    ON_A_REAL_HUB,
    ROLES,
    SHARDS,
    WITH_HELM,
    WITHOUT_A_REGISTRY,
    WORKERS,
    commands_in,
    commands_of,
)

PLACES: Final = {"REGISTRY": REGISTRY, "10.0.0.7": GATEWAY}
"""Values that readers replace, as these documents name them, and their values here."""
MEMBER: Final = "berlin"
BERLIN: Final = Site(MEMBER, ("node-berlin",), IPv4Network("10.0.2.0/24"), 40_000)
SYSTEM: Final = "harbormaster-system"
UNINSTALL: Final = (DOCS / "upgrade-and-recovery.md", "Uninstall harbormaster")
LASTING: Final = re.compile(r"^harbormaster (serve|reconcile) ")
LEASE: Final = f"/apis/coordination.k8s.io/v1/namespaces/{SYSTEM}/leases/harbormaster-reconcile"
HOME: Final = "shop"
GROUPS: Final = re.compile(r"^(placement|cluster)\.kubernetes-fleet\.io$|^upgrade\.harbormaster\.dev$|^karpenter\.sh$")
CHECKOUT: Final = (
    *("Makefile", "Dockerfile", ".dockerignore", "LICENSE", "README.md", "pyproject.toml"),
    *(path.name for path in ROOT.glob("requirements*.txt")),
    *("certs", "charts", "docs", "examples", "image", "scorer", "webhook"),
)
"""Files and folders from which the image and the charts are made."""


class Reader:
    """A reader of the documents, with a hub, a cluster beside it, and a shell in a checkout.

    Args:
        hub: The hub.
        member: The other cluster.
        programs: Of the control plane.
        folder: For the checkout.
    """

    def __init__(self, hub: Bed, member: Bed, programs: Mapping[str, Path], folder: Path) -> None:
        self.hub = hub
        self.member = member
        self.on_hub, self.in_member = hub.objects, Objects(member.cluster)
        self.release = Release(hub, programs["helm"])
        clusters = {"hub": hub.cluster, MEMBER: member.cluster}
        caches = {"XDG_CACHE_HOME": str(cache().parent), "HELM_CACHE_HOME": str(folder / ".helm")}
        self.shell = Shell(folder, clusters, {"helm": programs["helm"]}, caches)
        self.processes: dict[str, Program] = {}
        self._after: Mapping[str, Callable[[str], None]] = {
            "helm install ": self._check_release,
            "harbormaster join ": self._check_member,
            "harbormaster webhook-configuration ": lambda _: self.wait_judged(),
        }

    def type_section(self, section: tuple[Path, str]) -> list[str]:
        """Type the commands of a section one by one, check what each has done, and return what they print."""
        return [self.type_in(command.text) for command in commands_of(section) if not command.reason]

    def type_in(self, text: str) -> str:
        """Type one command, check what it has done, and return what it prints."""
        for place, value in PLACES.items():
            text = text.replace(place, value)
        if lasting := LASTING.match(text):
            self._start(lasting[1], text)
            return ""
        printed = self.shell.type_in(text, answer="y\n" if text.startswith("harbormaster join ") else "")
        for start, check in self._after.items():
            if text.startswith(start):
                check(printed)
        return printed

    def _check_release(self, printed: str) -> None:
        """The release is deployed, all its Pods run this version, and the API server calls the webhooks."""
        assert "STATUS: deployed" in printed
        assert len(self.release.pods("serve")) == 2
        assert self.release.versions("serve") == self.release.versions("reconcile") == {THIS}
        self.release.wait_trusted()
        self.wait_judged()

    def _check_member(self, printed: str) -> None:
        assert printed.endswith(f"{MEMBER} is Joined and Healthy\n"), printed
        wait_until("the agent is ready", lambda: "" if self._agents() else "no Pod of it is ready")
        (agent,) = self._agents()
        (server, _) = self.release.pods("serve")
        assert agent["spec"]["containers"][0]["image"] == server["spec"]["containers"][0]["image"]

    def _agents(self) -> list[JsonObject]:
        return self.member.ready_pods(SYSTEM, **{COMPONENT: "agent"})

    def wait_judged(self) -> None:
        """Wait until the hub asks about writes: wrong ones are refused, and right ones admitted."""

        def problem() -> str:
            found = {wrong: write(self.hub.cluster, "asked", is_wrong=wrong) for wrong in (True, False)}
            return "" if [found[True][0], found[False][0]] == ["refused", "admitted"] else f"{found}"

        wait_until("the webhooks answer", problem)

    def place(self) -> None:
        """Place a namespace with a ConfigMap on all members."""
        self.on_hub.create(make_namespace(HOME))
        self.on_hub.create(make_config_map("prices", HOME, bread="3"))
        self.on_hub.create(make_placement(HOME))
        self.wait_placed("3")

    def wait_placed(self, price: str) -> None:
        """Wait until the member has that price, and the placement is available."""

        def problem() -> str:
            found = self.in_member.find(CONFIG_MAP, "prices", HOME) or {}
            available = condition_of(self.on_hub.get(PLACEMENT, HOME), "ClusterResourcePlacementAvailable")
            placed = found.get("data") == {"bread": price} and available.get("status") == "True"
            return "" if placed else f"{found.get('data')} {available}"

        wait_until("it is placed", problem)

    def kept(self) -> list[str]:
        """Return the identities of everything that must survive an uninstallation."""
        found = (
            self.on_hub.get(PLACEMENT, HOME),
            self.on_hub.get(MEMBER_CLUSTER, MEMBER),
            self.on_hub.get(CONFIG_MAP, "prices", HOME),
            self.in_member.get(NAMESPACE, HOME),
            self.in_member.get(CONFIG_MAP, "prices", HOME),
        )
        return [each["metadata"]["uid"] for each in found]

    def secret_path(self) -> JsonObject:
        """Return the data of the Secret with the secret path of the webhooks."""
        return dict(
            self.hub.cluster.request("GET", f"/api/v1/namespaces/{SYSTEM}/secrets/harbormaster-hooks")[0]["data"]
        )

    def _start(self, name: str, text: str) -> None:
        """Start a long-running command in place of the one of that name before it, and wait until it is ready."""
        with suppress(KeyError):
            kill(self.processes.pop(name))
        self._log_in(name)
        program = self.processes[name] = self.shell.program(text, f"{name}.log")
        program.start()
        program.wait_ready(lambda: is_ready(port_of(text)))

    def _log_in(self, name: str) -> None:
        """Write the kubeconfig of a process, which logs in as its account."""
        token = self.hub.cluster.token_of(SYSTEM, f"harbormaster-{name}")
        self.hub.cluster.write_kubeconfig(name, token, folder=self.shell.folder)

    def wait_led(self, holder: str) -> None:
        """Wait until the process that runs last holds the Lease of the loop."""

        def problem() -> str:
            found = str(self.hub.cluster.request("GET", LEASE)[0]["spec"].get("holderIdentity"))
            return "" if found == holder or (not holder and found) else found

        wait_until("the loop leads", problem)

    def stop(self) -> None:
        """Stop the processes."""
        kill(*self.processes.values())
        self.processes.clear()

    def end_pods(self) -> None:
        """End the Pods without the drain, which takes 90 seconds where no other replica is left."""
        for cluster in (self.hub.cluster, self.member.cluster):
            cluster.kubectl("delete", "pods", "--all", "--force", "--grace-period=0", "-n", SYSTEM)

    def clear(self) -> None:
        """Stop and remove everything, whatever state it is in."""
        self.stop()
        self.release.helm("uninstall", self.release.name, "--no-hooks", check=False)
        for path in self.release.hooks:
            with suppress(ApiError):
                self.hub.cluster.request("DELETE", path)
        self.end_pods()
        for cluster in (self.hub.cluster, self.member.cluster):
            remove_ours(cluster)
            remove_rights(cluster)
            for name in definitions(cluster):
                Objects(cluster).delete(CUSTOM_RESOURCE_DEFINITION, name)
            for name in (SYSTEM, HOME):
                Objects(cluster).delete(NAMESPACE, name)
        for objects in (self.on_hub, self.in_member):
            for name in (SYSTEM, HOME):
                wait_until(
                    f"{name} is removed", lambda objects=objects, name=name: str(objects.find(NAMESPACE, name) or "")
                )


def port_of(text: str) -> int:
    """Return the port of the plain listener of a long-running command."""
    found = re.search(r"--http-port (\d+)", text)
    return int(found[1]) if found else 8081


def is_ready(port: int) -> bool:
    """Return whether a process on this machine is ready."""
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/readyz", timeout=PATIENCE):
            return True
    except urllib.error.HTTPError:
        return False


def registered(hub: Cluster) -> list[str]:
    """Return the webhook configurations of harbormaster on a hub."""
    found = []
    for kind in ("mutating", "validating"):
        listed = hub.request("GET", f"{REGISTRATIONS}/{kind}webhookconfigurations")[0]["items"]
        found += [each["metadata"]["name"] for each in listed if each["metadata"]["name"].startswith("harbormaster")]
    return found


def definitions(hub: Cluster) -> list[str]:
    """Return the definitions that harbormaster installs on a cluster."""
    listed = Objects(hub).all(CUSTOM_RESOURCE_DEFINITION)
    return [each["metadata"]["name"] for each in listed if GROUPS.search(each["spec"]["group"])]


def rights(hub: Cluster) -> list[str]:
    """Return the roles and policies of harbormaster on a hub."""
    found = (each["metadata"]["name"] for kind in RIGHTS for each in Objects(hub).all(kind))
    return [name for name in found if name.startswith("harbormaster")]


@pytest.fixture(scope="module")
def checkout(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the files that `make image` needs, and of the charts."""
    folder = tmp_path_factory.mktemp("checkout")
    for name in CHECKOUT:
        source = ROOT / name
        if source.is_dir():
            shutil.copytree(source, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(source, folder / name)
    return folder


@pytest.fixture(scope="module")
def berlin(bed: Bed, programs: Mapping[str, Path], checkout: Path) -> Iterator[Bed]:
    """A cluster beside the hub. What other modules have left on the hub is removed."""
    with started(Bed(programs, bed.folder / MEMBER, installed_images(programs), BERLIN, bed.etcd)) as found:
        Reader(bed, found, programs, checkout).clear()
        yield found


@pytest.fixture
def reader(bed: Bed, berlin: Bed, programs: Mapping[str, Path], checkout: Path) -> Iterator[Reader]:
    """A reader with two clusters on which nothing is installed."""
    found = Reader(bed, berlin, programs, checkout)
    yield found
    found.clear()


def test_the_readme_installs_a_hub_and_a_member_and_a_second_installation_finds_everything(reader: Reader) -> None:
    reader.type_section(ON_A_REAL_HUB)
    reader.place()
    kept, secret_path = reader.kept(), reader.secret_path()

    (uninstall,) = [each.text for each in commands_of(UNINSTALL) if each.text.startswith("helm uninstall ")]
    reader.type_in(uninstall)
    assert registered(reader.hub.cluster) == []
    assert reader.kept() == kept

    reader.type_section(WITH_HELM)
    assert (reader.kept(), reader.secret_path()) == (kept, secret_path)
    reader.on_hub.patch(CONFIG_MAP, "prices", {"data": {"bread": "4"}}, HOME)
    reader.wait_placed("4")
    assert reader.kept() == kept


@pytest.fixture
def loaded(reader: Reader, programs: Mapping[str, Path]) -> Iterator[Reader]:
    """A reader whose nodes have the archive loaded that the page builds, and no image of a registry."""
    yield reader
    reader.hub.set_images(images_of_beds(programs))
    reader.member.set_images(installed_images(programs))


def test_without_a_registry_the_archive_runs_on_the_hub_and_on_the_member_and_the_removal_leaves_nothing(
    loaded: Reader, tmp_path: Path
) -> None:
    build, install = (each.text for each in commands_of(WITHOUT_A_REGISTRY) if not each.reason)
    with outside():
        loaded.type_in(build)
    image = load_image(loaded.shell.folder / "dist" / "harbormaster.oci.tar", tmp_path)
    for bed in (loaded.hub, loaded.member):
        bed.set_images({f"harbormaster:{THIS}": image})
    loaded.type_in(install)
    (join,) = [each.text for each in commands_of(ON_A_REAL_HUB) if each.text.startswith("harbormaster join ")]
    loaded.type_in(join)
    loaded.place()

    content, release, _ = read_page(UNINSTALL[0]).sections[UNINSTALL[1]]
    for command in commands_in(content):
        loaded.type_in(command.text)
    assert loaded.in_member.find(NAMESPACE, HOME) is None
    assert loaded.member.pods(SYSTEM) == []
    uninstall, *rest = commands_in(release)
    loaded.type_in(uninstall.text)
    loaded.end_pods()
    for command in rest:
        loaded.type_in(command.text)
    hub = loaded.hub.cluster
    assert (registered(hub), definitions(hub), loaded.on_hub.find(NAMESPACE, SYSTEM)) == ([], [], None)


def test_the_processes_run_without_the_charts(reader: Reader) -> None:
    write_certificate(reader.shell.folder)
    for section in (DEFINITIONS, ADMISSION, WORKERS):
        reader.type_section(section)
    reader.wait_judged()
    reader.type_section(LOOP)
    reader.wait_led("")
    reader.type_section(SHARDS)
    reader.wait_led("3 shards")
    reader.type_section(CHECK)
    for text, part in zip(reader.type_section(ROLES), ('["boats"]', '["secrets"]', "deployments/status"), strict=True):
        assert part in text
    (unregister,) = (each for each in read_page(INSTALL).spans if each.startswith("harbormaster unregister "))
    reader.type_in(unregister)
    reader.stop()
    _, release, processes = read_page(UNINSTALL[0]).sections[UNINSTALL[1]]
    _, *definitions_and_namespace = commands_in(release)
    for command in (*definitions_and_namespace, *commands_in(processes)):
        reader.type_in(command.text)
    hub = reader.hub.cluster
    assert (registered(hub), definitions(hub), rights(hub)) == ([], [], [])


def write_certificate(folder: Path) -> None:
    """Write the files of a certificate for the name and the address at which the hub calls `serve`."""
    authority = Authority.new(datetime.now(UTC))
    leaf = authority.issue((f"harbormaster.{SYSTEM}.svc",), (PLACES["10.0.0.7"],), datetime.now(UTC))
    for name, content in {"tls.crt": leaf.chain_pem, "tls.key": leaf.key_pem, "ca.crt": authority.pem}.items():
        path = folder / name
        path.touch(mode=0o600)
        path.write_bytes(content)
