"""Replicas that share a certificate authority: whatever happens to it, the API server trusts them and writes go on."""

import base64
import contextlib
import json
import signal
import socket
import ssl
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from cryptography import x509

from certs.authority import Authority, name_of
from certs.rotation import Lineage, pem_of
from e2e.conftest import StartService
from e2e.controlplane.cluster import LOOPBACK, ApiError, Cluster, JsonObject
from e2e.controlplane.door import Door
from e2e.controlplane.printed import printed_with
from e2e.controlplane.process import PATIENCE, free_port, kill
from e2e.controlplane.service import REGISTRATIONS, Service
from e2e.controlplane.steady_writers import SteadyWriters, write
from e2e.fleet.objects import MERGE
from tests.certs.spoiling import spoilt
from tests.thoroughness import SOAK

NAMESPACE, SECRET = "mooring", "harbormaster-ca"
SECRETS = f"/api/v1/namespaces/{NAMESPACE}/secrets"
CONFIGURATIONS = [f"{REGISTRATIONS}/{kind}webhookconfigurations/harbormaster" for kind in ("mutating", "validating")]
MONTH_SECONDS = 30 * 86400
ROLLOVERS = 20 if SOAK else 1
SHORT_LIFE_SECONDS = 60
"""Lifetime of authorities that are rolled over every 40 s; leaves of half of it are renewed 10 s before their end."""


class Installation:
    """Two replicas behind one address, which the hub asks.

    Args:
        hub: Asks them.
        start_service: Starts a replica.
        folder: For the secret of the hooks.
        settings: Of the replicas.
    """

    def __init__(self, hub: Cluster, start_service: StartService, folder: Path, **settings: object) -> None:
        self.hub = hub
        secret = folder / "hook-secret"
        secret.touch(mode=0o600)
        secret.write_text("c0ffee" * 10, encoding="ascii")
        self._start = start_service
        self.settings = {
            "namespace": NAMESPACE,
            "certificate_secret": SECRET,
            "certificate_check_seconds": 0.3,
            "webhook_secret_file": secret,
            "drain_seconds": 5,  # the door polls three times a second, on a slow machine once in two seconds
            "drain_limit_seconds": 100,
        } | settings
        self.replicas = [self.start(wait=False) for _ in range(2)]
        self.door = Door(self.replicas)

    def start(self, *, wait: bool = True, clock_seconds: int | None = None, kubeconfig: Path | None = None) -> Service:
        """Start one more replica, which nobody asks yet."""
        return self._start(self.hub, kubeconfig, wait=wait, clock_seconds=clock_seconds, **self.settings)

    def register(self) -> None:
        """Have the hub ask whoever is behind the door, without saying whom to trust."""
        environment = {f"HARBORMASTER_{name.upper()}": str(value) for name, value in self.settings.items()}
        words = ("webhook-configuration", "-o", "json", f"--url={self.door.url}", "--no-ca")
        for configuration in json.loads(printed_with(environment, *words))["items"]:
            path = f"{REGISTRATIONS}/{configuration['kind'].lower()}s/harbormaster"
            query = "?fieldManager=operator&force=true"
            self.hub.request("PATCH", path + query, configuration, content_type="application/apply-patch+yaml")

    def wait_admitted(self) -> None:
        """Wait until a write is answered by a replica."""
        until(lambda: write(self.hub, "probe", is_wrong=True)[0] == "refused", self.said)

    def wait_settled(self, generation: int, name: str = "") -> None:
        """Wait until every replica serves leaves of the authority of a generation, and the hub trusts it."""

        def holds() -> bool:
            lineage = self.lineage()
            if lineage is None or lineage.generation < generation or (name and lineage.active.name != name):
                return False
            return self.serves(lineage.active.name) and self.bundles() == {pem_of(lineage.trusted())}

        until(holds, self.said)

    def serves(self, authority: str) -> bool:
        """Whether every replica is ready and serves leaves of an authority."""
        return all(replica.ready() and f"issued by {authority}," in replica.checks() for replica in self.replicas)

    def lineage(self) -> Lineage | None:
        """What the Secret holds; None: nothing that can be used."""
        try:
            secret, _ = self.hub.request("GET", f"{SECRETS}/{SECRET}")
            entries = {name: base64.b64decode(value) for name, value in secret.get("data", {}).items()}
            return Lineage.read(entries, secret["metadata"].get("annotations") or {})
        except Exception:  # noqa: BLE001 - a Secret that is gone, or full of whatever
            return None

    def bundles(self) -> set[bytes]:
        """What the entries of the configurations trust."""
        entries = [entry for path in CONFIGURATIONS for entry in self.hub.request("GET", path)[0]["webhooks"]]
        return {base64.b64decode(entry["clientConfig"].get("caBundle", "")) for entry in entries}

    def said(self) -> str:
        """What the replicas have said last."""
        return "\n\n".join(f"{replica.checks()}\n{replica.program.last_words()}" for replica in self.replicas)

    def certs(self, *words: str) -> str:
        """What a ``harbormaster certs`` command prints."""
        where = (f"--kubeconfig={self.hub.kubeconfig}", f"--namespace={NAMESPACE}", f"--secret={SECRET}")
        return printed_with({}, "certs", *words, *where)

    def end(self) -> None:
        """End it, and have the hub ask nobody."""
        kill(*(replica.program for replica in self.replicas))
        for path in (*CONFIGURATIONS, f"{SECRETS}/{SECRET}"):
            with contextlib.suppress(ApiError):
                self.hub.request("DELETE", path)


def until(holds: Callable[[], object], said: Callable[[], str] = lambda: "", seconds: float = PATIENCE) -> None:
    """Wait until something holds; an `OSError` counts as no. *said* tells what went on when it never does."""
    end = time.monotonic() + seconds
    while True:
        with contextlib.suppress(OSError):
            if holds():
                return
        assert time.monotonic() < end, said()
        time.sleep(0.2)


@contextlib.contextmanager
def installed(hub: Cluster, start_service: StartService, folder: Path, **settings: object) -> Iterator[Installation]:
    """An installation that works, registered without a ``caBundle``, until the block ends."""
    with contextlib.suppress(ApiError):
        document = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}}
        hub.request("POST", "/api/v1/namespaces", document)
    found = Installation(hub, start_service, folder, **settings)
    try:
        with found.door:
            found.register()
            found.wait_settled(1)
            found.wait_admitted()
            yield found
    finally:
        found.end()


def handshake(port: int, trusted: tuple[x509.Certificate, ...]) -> str:
    """Connect as a client that trusts only these authorities; return why that failed, empty when it did not."""
    context = ssl.create_default_context(cadata=pem_of(trusted).decode())
    try:
        with socket.create_connection((LOOPBACK, port), PATIENCE) as connection:
            context.wrap_socket(connection, server_hostname="localhost").close()
    except ssl.SSLCertVerificationError as error:
        return str(error)
    return ""


class NarrowClients:
    """Clients of every replica that trust one authority alone: the new one, or the one before it.

    Whoever trusts the new one alone has to wait until the replica has heard of it, and is never turned away again.
    """

    def __init__(self, installation: Installation) -> None:
        self._installation = installation
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self.results: Counter[str] = Counter()
        self.failures: list[str] = []

    def __enter__(self) -> "NarrowClients":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join(60)

    def _run(self) -> None:
        known: set[tuple[int, str]] = set()
        while not self._stop.wait(0.1):
            lineage = self._installation.lineage()
            if lineage is None:
                continue
            new, *earlier = lineage.trusted()
            for replica in self._installation.replicas:
                for old in earlier[:1]:
                    if trouble := self._ask(replica, old):
                        self.failures.append(f"old alone: {trouble}")
                key = (replica.port, name_of(new))
                trouble = self._ask(replica, new)
                if trouble and key in known:
                    self.failures.append(f"new alone: {trouble}")
                elif not trouble:
                    known.add(key)
        self.results["new"] = len({name for _, name in known})

    def _ask(self, replica: Service, authority: x509.Certificate) -> str:
        trouble = handshake(replica.port, (authority,))
        if datetime.now(UTC) >= authority.not_valid_after_utc:
            return ""
        self.results["asked"] += 1
        return f"{name_of(authority)} at {replica.port}: {trouble}" if trouble else ""


class Installations:
    """One installation after another: two on one hub would take each other's Secret and webhook configurations.

    Args:
        hub: Asks their replicas.
        start_service: Starts a replica.
        folders: For their secrets.
    """

    def __init__(self, hub: Cluster, start_service: StartService, folders: pytest.TempPathFactory) -> None:
        self._hub = hub
        self._start_service = start_service
        self._folders = folders
        self._open = contextlib.ExitStack()
        self._shared: Installation | None = None

    def shared(self) -> Installation:
        """Return the one that tests share, which has the lifetimes of every installation; start it if there is none."""
        if self._shared is None:
            self._shared = self.own()
        return self._shared

    def own(self, **settings: object) -> Installation:
        """End the one before, and start one that later tests do not share."""
        self.end()
        folder = self._folders.mktemp("installation")
        return self._open.enter_context(installed(self._hub, self._start_service, folder, **settings))

    def end(self) -> None:
        """End the one that there is."""
        self._shared = None
        self._open.close()


@pytest.fixture(scope="module")
def installations(
    bare_hub: Cluster, start_service: StartService, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Installations]:
    found = Installations(bare_hub, start_service, tmp_path_factory)
    yield found
    found.end()


@pytest.fixture
def lasting(installations: Installations) -> Installation:
    """The installation that tests share: each leaves it settled, whatever its authority is by then."""
    return installations.shared()


@pytest.mark.soak
def test_rollovers_are_noticed_by_nobody(bare_hub, installations):
    """Life times of seconds, steady writers, and clients that trust one authority alone, the old one or the new one."""
    lives = {"authority_life_seconds": SHORT_LIFE_SECONDS, "leaf_life_seconds": SHORT_LIFE_SECONDS / 2}
    brief = installations.own(**lives)
    with SteadyWriters(bare_hub, writers=2) as writers, NarrowClients(brief) as clients:
        for generation in range(2, ROLLOVERS + 2):
            brief.wait_settled(generation)
        last = brief.lineage().generation
    writers.check()
    assert clients.failures == []
    assert clients.results["new"] >= ROLLOVERS
    assert last > ROLLOVERS
    assert len(brief.lineage().trusted()) <= 3


@pytest.mark.core
def test_replicas_agree_on_one_authority_and_have_it_trusted(installations):
    """Both started concurrently, on a hub without a Secret, registered without a `caBundle`."""
    installations.end()
    lasting = installations.shared()
    lineage = lasting.lineage()
    assert lineage.generation == 1
    assert lasting.serves(lineage.active.name)
    assert lasting.bundles() == {lineage.active.pem}
    for replica in lasting.replicas:
        assert "[+]ca-bundle ok" in replica.checks()
        assert replica.metric("harbormaster_ca_bundle_in_sync") == 2
    assert write(lasting.hub, "right")[0] == "admitted"


def test_a_wiped_bundle_is_back_within_seconds(lasting):
    """`helm upgrade --force` does that; in between the hub refuses writes to our kinds, and lets none in."""
    wanted = lasting.bundles()
    with SteadyWriters(lasting.hub) as writers:
        for path in CONFIGURATIONS:
            document, _ = lasting.hub.request("GET", path)
            for entry in document["webhooks"]:
                entry["clientConfig"].pop("caBundle")
            lasting.hub.request("PUT", path, document)
        until(lambda: lasting.bundles() == wanted, lasting.said)
        lasting.wait_admitted()
    assert writers.results["let in"] == 0


def delete(lasting: Installation) -> None:
    lasting.hub.request("DELETE", f"{SECRETS}/{SECRET}")


def fill_with_garbage(lasting: Installation) -> None:
    garbage = base64.b64encode(b"\x00garbage\xff").decode()
    change = {"data": dict.fromkeys(("tls.crt", "tls.key", "ca.crt", "cross.crt"), garbage)}
    lasting.hub.request("PATCH", f"{SECRETS}/{SECRET}", change, content_type=MERGE)


def damage(lasting: Installation) -> None:
    """Change one byte, which the library notices only when it is asked for the version of the certificate."""
    damaged = spoilt(lasting.lineage().active.pem, b"\xa0\x03\x02\x01\x02", b"\xa0\x03\x02\x01\x7f")
    change = {"data": {"tls.crt": base64.b64encode(damaged).decode()}}
    lasting.hub.request("PATCH", f"{SECRETS}/{SECRET}", change, content_type=MERGE)


def force(lasting: Installation) -> None:
    assert "Replicas follow within seconds" in lasting.certs("rotate", "--force")


@pytest.mark.parametrize("happen", [delete, fill_with_garbage, damage, pytest.param(force, marks=pytest.mark.core)])
def test_a_secret_that_is_lost_or_replaced_costs_no_write(lasting, happen):
    """Deleted, filled with garbage, damaged, or rotated before its time: the old authority vouches for the new one."""
    before = lasting.lineage()
    with SteadyWriters(lasting.hub) as writers:
        happen(lasting)
        lasting.wait_settled(before.generation + 1)
        writers.wait_for_more()
    writers.check()
    after = lasting.lineage()
    assert before.active.certificate in after.trusted()
    assert after.cross.issuer == before.active.certificate.subject
    until(lambda: is_told(lasting), lasting.said)


def is_told(lasting: Installation) -> bool:
    """Whether an Event on the Secret that is there now says that the authority was rotated."""
    uid = lasting.hub.request("GET", f"{SECRETS}/{SECRET}")[0]["metadata"]["uid"]
    events, _ = lasting.hub.request("GET", f"/apis/events.k8s.io/v1/namespaces/{NAMESPACE}/events")
    return any(
        (event["reason"], event["regarding"]["kind"], event["regarding"].get("uid"), event["reportingInstance"])
        == ("CertificateAuthorityRotated", "Secret", uid, socket.gethostname())
        for event in events["items"]
    )


def test_an_authority_that_the_operator_brings_costs_no_write(lasting):
    """Nothing leads from the old one to it: both are trusted, and served is the old one until the new one is known."""
    before = lasting.lineage()
    other = Authority.new(datetime.now(UTC), life=timedelta(days=90))
    entries = {"tls.crt": other.pem, "tls.key": other.key_pem, "ca.crt": other.pem, "cross.crt": b""}
    change = {"data": {name: base64.b64encode(value).decode() for name, value in entries.items()}}
    with SteadyWriters(lasting.hub) as writers:
        lasting.hub.request("PATCH", f"{SECRETS}/{SECRET}", change, content_type=MERGE)
        lasting.wait_settled(1, other.name)
        writers.wait_for_more()
    writers.check()
    assert before.active.certificate in lasting.lineage().trusted()


def test_what_is_distrusted_is_gone_at_once(lasting):
    before = lasting.lineage()
    with SteadyWriters(lasting.hub) as writers:
        assert "Replicas follow" in lasting.certs("rotate", "--force", "--distrust")
        lasting.wait_settled(before.generation + 1)
        lasting.wait_admitted()
    assert writers.results["let in"] == 0
    after = lasting.lineage()
    assert after.trusted() == (after.active.certificate,)
    assert lasting.bundles() == {after.active.pem}
    assert all(handshake(replica.port, before.trusted()) for replica in lasting.replicas)


@pytest.mark.core
def test_the_authority_is_shown_with_all_who_trust_it(lasting):
    document = json.loads(lasting.certs("inspect", "-o", "json"))
    lineage = lasting.lineage()
    assert document["problems"] == []
    assert (document["generation"], document["active"]["name"]) == (lineage.generation, lineage.active.name)
    assert [each["inSync"] for each in document["webhookConfigurations"]] == [True, True]
    assert lasting.certs("inspect", "-o", "pem").encode() == pem_of(lineage.trusted())
    assert lineage.active.name in lasting.certs("inspect")
    with pytest.raises(AssertionError, match="which the replicas do automatically"):
        lasting.certs("rotate")


def test_a_replica_that_is_killed_in_a_rollover_leaves_the_other_at_work(lasting):
    """Writes that it was answering fail, none for a certificate; when it is back, it takes over what it finds."""
    before, (victim, other) = lasting.lineage(), lasting.replicas
    with SteadyWriters(lasting.hub) as writers:
        lasting.certs("rotate", "--force")
        victim.program.stop(number=signal.SIGKILL)
        lasting.replicas = [other]
        lasting.wait_settled(before.generation + 1)
        lasting.wait_admitted()
        victim.start()
        lasting.replicas = [victim, other]
        lasting.wait_settled(before.generation + 1)
    assert [said for said in writers.failures if "x509" in said or "certificate" in said] == []
    assert writers.results["let in"] == 0


def test_a_replica_that_is_restarted_in_a_rollover_costs_no_write(lasting):
    """While it stops, it answers by the new authority as the other one does; when it is back, it begins with that."""
    before, (restarted, _) = lasting.lineage(), lasting.replicas
    with SteadyWriters(lasting.hub) as writers:
        lasting.certs("rotate", "--force")
        assert restarted.program.stop(seconds=PATIENCE) == 0
        restarted.start()
        lasting.wait_settled(before.generation + 1)
    writers.check()
    assert lasting.lineage().generation == before.generation + 1


def test_replicas_whose_clocks_are_a_month_off_are_trusted(lasting):
    """Ahead and behind: the hub would refuse a leaf that begins later, or that has expired; and nothing is rotated."""
    before = lasting.lineage()
    wrong = [lasting.start(clock_seconds=seconds, wait=False) for seconds in (MONTH_SECONDS, -MONTH_SECONDS)]
    try:
        for replica in wrong:
            until(replica.ready, replica.program.last_words)
            assert handshake(replica.port, before.trusted()) == ""
        lasting.door.turn_to(wrong)
        with SteadyWriters(lasting.hub) as writers:
            until(lambda: all(replica.reviews() >= 10 for replica in wrong), lasting.said)
        assert [said for said in writers.failures if "x509" in said] == []
        assert lasting.lineage().active.certificate == before.active.certificate
    finally:
        lasting.door.turn_to(lasting.replicas)
        kill(*(replica.program for replica in wrong))


def test_a_clock_that_jumps_by_a_month_and_back_costs_no_write(lasting):
    """Of a replica that runs: its leaf goes on being accepted, and no authority is made for it."""
    before = lasting.lineage()
    replica = lasting.start(clock_seconds=0, wait=False)
    try:
        until(replica.ready, replica.program.last_words)
        lasting.door.turn_to([replica])
        with SteadyWriters(lasting.hub) as writers:
            for seconds in (MONTH_SECONDS, -MONTH_SECONDS, 0):
                replica.set_clock(seconds)
                answered = replica.reviews()
                until(lambda answered=answered: replica.reviews() >= answered + 20, lasting.said)
                assert handshake(replica.port, before.trusted()) == ""
                until(replica.ready, replica.checks)
        writers.check()
        assert lasting.lineage().active.certificate == before.active.certificate
    finally:
        lasting.door.turn_to(lasting.replicas)
        kill(replica.program)


def test_the_printed_roles_are_enough_and_less_is_told(installations):
    """A replica with exactly these rights works; without those to the Secret, it runs and says why it is not ready."""
    installation = installations.own()
    hub, bob = installation.hub, installation.hub.kubeconfigs["bob"]
    environment = {"HARBORMASTER_CERTIFICATE_SECRET": SECRET}
    roles = printed_with(environment, "rbac", "serve", "--user", "bob", "-n", NAMESPACE)
    less = printed_with({}, "rbac", "serve", "--user", "bob", "-n", NAMESPACE)
    replica = None
    try:
        hub.kubectl("apply", "-f", "-", given=less)
        replica = installation.start(kubeconfig=bob, wait=False)
        until(lambda: "[-]ca-bundle failed" in replica.checks(), replica.program.last_words)
        told = next(line for line in replica.checks().splitlines() if "ca-bundle" in line)
        assert 'cannot get resource "secrets"' in told
        hub.kubectl("apply", "-f", "-", given=roles)
        until(replica.ready, lambda: f"{replica.checks()}{replica.program.last_words()}")
        delete(installation)
        installation.replicas, kept = [replica], installation.replicas
        kill(*(each.program for each in kept))
        installation.wait_settled(1)
        for path in CONFIGURATIONS:
            hub.request("PATCH", path, wiped(hub, path), content_type=MERGE)
        installation.wait_settled(1)
    finally:
        hub.kubectl("delete", "-f", "-", given=roles)


def test_a_replica_that_cannot_reach_the_hub_says_so(bare_hub, start_service, tmp_path):
    """From its start on: whoever asks its probes hears why it is not ready."""
    token = bare_hub.users["bob"].token
    nowhere = bare_hub.write_kubeconfig("nowhere", token, server=f"https://{LOOPBACK}:{free_port()}", folder=tmp_path)
    replica = start_service(bare_hub, nowhere, wait=False, certificate_secret=SECRET)
    until(lambda: "[-]ca-bundle failed" in replica.checks(), replica.program.last_words)
    assert "there is no certificate authority yet" in replica.checks()
    assert "does not answer" in replica.checks()
    assert "[-]caches failed" in replica.checks()
    kill(replica.program)


def wiped(hub: Cluster, path: str) -> JsonObject:
    """The entries of a configuration that trust nobody."""
    entries = hub.request("GET", path)[0]["webhooks"]
    for entry in entries:
        entry["clientConfig"]["caBundle"] = ""
    return {"webhooks": entries}
