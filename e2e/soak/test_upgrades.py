"""Upgrades, rollbacks and everything else that replaces Pods of an installation, while 20 authors write placements.

No write fails, and none is let in that is wrong. Then what administrators do to a whole installation: it is taken off
and put on again, and another one stands beside it.
"""

import base64
import threading
import time
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path

import pytest
from cryptography import x509

from certs.rotation import Lineage
from e2e.controlplane.cluster import ApiError, JsonObject
from e2e.controlplane.printed import printed_with
from e2e.controlplane.steady_writers import Authors, write
from e2e.fleet.objects import Objects, make_config_map, make_namespace, make_placement
from e2e.fleet.waiting import wait_until
from e2e.installed.images import NEXT, THIS
from e2e.installed.member import MEMBER, Member, hub_and_cluster
from e2e.installed.release import NAMESPACE, QUICK, Release
from e2e.kubelet.bed import Bed
from scorer.api.kinds import BINDING, KINDS, MEMBER_CLUSTER, PLACEMENT, WORK

pytestmark = pytest.mark.soak

AUTHORS, PAUSE_SECONDS = 20, 0.4
"""Fifty writes a second."""
ROLLOVERS = 20
LIFE_SECONDS = 30
HEARD_SECONDS = 3
"""Within which replicas hear of an authority."""
CONFIG_MAP = KINDS["", "ConfigMap"]
LEASES = "/apis/coordination.k8s.io/v1/namespaces"


@pytest.fixture(scope="module")
def both(bed: Bed, programs: Mapping[str, Path]) -> Iterator[tuple[Release, Member]]:
    """The release, and a member that something is placed on."""
    with hub_and_cluster(bed, programs) as (release, member):
        member.become()
        bed.objects.create(make_namespace("shop"))
        bed.objects.create(make_config_map("prices", "shop", bread="3"))
        bed.objects.create(make_placement("shop"))
        found = Objects(member.bed.cluster)
        wait_until("it is placed", lambda: "" if found.find(CONFIG_MAP, "prices", "shop") else "it is not there")
        yield release, member


@pytest.fixture
def release(both: tuple[Release, Member]) -> Iterator[Release]:
    """The release, while authors write; all that they write is answered as it should be."""
    found, _ = both
    with Authors(found.bed.cluster, AUTHORS, PAUSE_SECONDS) as authors:
        yield found
    authors.check()


def test_five_upgrades_and_two_rollbacks(release):
    for version in (NEXT, THIS, NEXT, THIS, NEXT):
        release.upgrade({"image": {"tag": version}})
        assert release.versions("serve") == release.versions("reconcile") == {version}
    for version in (THIS, NEXT):
        release.rollback()
        assert release.versions("serve") == release.versions("reconcile") == {version}


def test_a_rolling_restart(release):
    before = {pod["metadata"]["name"] for each in ("serve", "reconcile") for pod in release.pods(each)}
    for name in release.deployments():
        release.bed.cluster.kubectl("rollout", "restart", f"deployment/{name}", "-n", release.namespace)
    for name in release.deployments():
        release.bed.wait_rolled_out(release.namespace, name)
    after = {pod["metadata"]["name"] for each in ("serve", "reconcile") for pod in release.pods(each)}
    assert len(after) == len(before)
    assert not before & after


def test_a_leader_that_is_killed(release):
    path = f"{LEASES}/{release.namespace}/leases/harbormaster-reconcile"

    def holder() -> str:
        return str(release.bed.cluster.request("GET", path)[0]["spec"]["holderIdentity"])

    for number in range(3):
        wait_until("one leads", lambda: "" if holder() else "the Lease was just released")
        before = holder()
        pod, _, _ = before.partition("_")
        words = ("--grace-period=0", "--force", "-n", release.namespace)
        release.bed.cluster.kubectl("delete", "pod", pod, *words)
        wait_until("another one leads", lambda before=before: "" if holder() not in {before, ""} else holder())
        release.bed.objects.patch(CONFIG_MAP, "prices", {"data": {"bread": f"led-{number}"}}, "shop")
        release.bed.wait_rolled_out(release.namespace, f"{release.fullname}-reconcile")


def test_drained_nodes(release):
    """As its budget allows: the replicas go to the other node one by one."""
    for node in ("node-a", "node-b"):
        words = (
            f"--pod-selector=app.kubernetes.io/instance={release.name}",
            "--delete-emptydir-data",
            "--timeout=600s",
        )
        release.bed.cluster.kubectl("drain", node, *words, seconds=700)
        try:
            for name in release.deployments():
                release.bed.wait_rolled_out(release.namespace, name)
        finally:
            release.bed.cluster.kubectl("uncordon", node)


class NarrowClients:
    """Clients of the Service, each of which trusts one authority alone: the present one or the one before.

    The present one is accepted once the replicas have heard of it, the one before until it expires.

    Args:
        release: Whose Service they ask until the block ends.

    Attributes:
        failures: What went wrong.
        seen: When clients began to trust each authority, the oldest first; by its PEM, in seconds.
    """

    def __init__(self, release: Release) -> None:
        self._release = release
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self.failures: list[str] = []
        self.seen: dict[str, float] = {}

    def __enter__(self) -> "NarrowClients":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join(60)

    def _run(self) -> None:
        while not self._stop.wait(0.2):
            self.seen.setdefault(lineage(self._release).active.pem.decode(), time.monotonic())
            for authority in list(self.seen)[-2:]:
                self._ask(authority)

    def _ask(self, authority: str) -> None:
        expected = time.monotonic() >= self.seen[authority] + HEARD_SECONDS
        try:
            answer = self._release.ask("GET", "/v1/openapi.json", authority=authority)
        except OSError as error:
            has_expired = datetime.now(UTC) >= x509.load_pem_x509_certificate(authority.encode()).not_valid_after_utc
            if expected and not has_expired:
                self.failures.append(f"{now()} {error!r}")
        else:
            if answer.status not in {200, 429}:
                self.failures.append(f"{now()} {answer.status} {answer.body!r}")


def now() -> str:
    return time.strftime("%H:%M:%S")


def lineage(release: Release) -> Lineage:
    secret = release.secret()
    entries = {name: base64.b64decode(value) for name, value in secret["data"].items()}
    return Lineage.read(entries, secret["metadata"].get("annotations") or {})


def test_rollovers_of_the_authority(release):
    life = {"settings": {"authorityLifeSeconds": LIFE_SECONDS, "leafLifeSeconds": LIFE_SECONDS / 2}}
    release.upgrade(life)
    release.wait_ended()  # they would make authorities that live longer
    lasting = {"HARBORMASTER_AUTHORITY_LIFE_SECONDS": str(LIFE_SECONDS)}
    printed_with(lasting, "certs", "rotate", "--force", *where(release))
    first = lineage(release).generation
    with NarrowClients(release) as clients:
        for generation in range(first + 1, first + ROLLOVERS + 1):
            wait_until(
                f"generation {generation}",
                lambda generation=generation: "" if lineage(release).generation >= generation else "not yet",
            )
    assert not clients.failures, "\n".join([f"{len(clients.failures)} failures", *clients.failures[:20]])
    assert len(clients.seen) >= ROLLOVERS
    release.upgrade()
    release.wait_trusted()


def where(release: Release) -> list[str]:
    return [
        f"--kubeconfig={release.bed.cluster.kubeconfig}",
        f"--namespace={release.namespace}",
        f"--secret={release.fullname}-ca",
    ]


def kept(both: tuple[Release, Member]) -> dict[str, JsonObject]:
    """What must outlive an installation: uid by name, on both sides."""
    release, member = both
    found = {}
    for objects, kinds in (
        (release.bed.objects, (MEMBER_CLUSTER, PLACEMENT, BINDING, WORK)),
        (Objects(member.bed.cluster), (CONFIG_MAP,)),
    ):
        for kind in kinds:
            for item in objects.all(kind):
                about = item["metadata"]
                if "shop" in json_name(about) or about["name"] == MEMBER:
                    found[f"{kind} {json_name(about)}"] = about["uid"]
    return found


def json_name(about: JsonObject) -> str:
    return f"{about.get('namespace', '')}/{about['name']}"


def test_an_installation_that_is_taken_off_and_put_on_again_finds_all_it_left(both):
    release, member = both
    before = kept(both)
    assert any(name.startswith("Work") for name in before), before
    release.uninstall()
    assert kept(both) == before
    for path in release.hooks:
        with pytest.raises(ApiError, match="404"):
            release.bed.cluster.request("GET", path)
    assert write(release.bed.cluster, "unasked", is_wrong=True)[0] == "admitted"  # nobody is asked
    release.install()
    release.wait_trusted()
    assert release.test().returncode == 0
    release.bed.objects.patch(CONFIG_MAP, "prices", {"data": {"bread": "5"}}, "shop")
    objects = Objects(member.bed.cluster)
    placed = lambda: (objects.find(CONFIG_MAP, "prices", "shop") or {}).get("data")  # noqa: E731
    wait_until("the change is placed", lambda: "" if placed() == {"bread": "5"} else str(placed()))
    assert kept(both) == before


def test_a_second_release_beside_it_answers_questions_of_its_own(both, programs):
    release, _ = both
    plain = {"crds": {"harbormaster": {"install": False}}, "webhook": {"enabled": False}, "reconcile": {"mode": "Off"}}
    second = Release(release.bed, programs["helm"], QUICK, plain, name="second", namespace="elsewhere")
    second.install()
    try:
        for each in (release, second):
            assert each.ask("GET", "/v1/openapi.json").status == 200
            assert each.test().returncode == 0
        assert second.authority() != release.authority()
    finally:
        second.uninstall()
    assert release.test().returncode == 0
    assert write(release.bed.cluster, "wrong", is_wrong=True)[0] == "refused"


def test_it_can_be_installed_in_a_namespace_and_by_a_name_of_ones_own(both, programs):
    release, _ = both
    release.uninstall()
    definitions = {"crds": {"harbormaster": {"install": False}}}
    other = Release(release.bed, programs["helm"], QUICK, definitions, name="hb", namespace="quay")
    other.install()
    try:
        assert other.test().returncode == 0
        assert write(other.bed.cluster, "wrong", is_wrong=True)[0] == "refused"
        other.wait_trusted()
    finally:
        other.uninstall()
        release.install()
    assert release.namespace == NAMESPACE
    assert release.test().returncode == 0
