"""``harbormaster serve`` as a process of its own, registered with a cluster the way an operator does it."""

import contextlib
import http.client
import json
import secrets
import ssl
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from certs.authority import Authority
from e2e.controlplane.client_certificate import ClientCertificate
from e2e.controlplane.cluster import LOOPBACK, Cluster, JsonObject
from e2e.controlplane.printed import printed_with
from e2e.controlplane.process import PATIENCE, Program, free_port
from e2e.fleet.shifted_clock import program_with_clock, set_clock

HARBORMASTER = Path(sys.executable).with_name("harbormaster")
QUICK = {
    "HARBORMASTER_CERTIFICATE_CHECK_SECONDS": "1",
    "HARBORMASTER_DRAIN_SECONDS": "1",
    "HARBORMASTER_DRAIN_LIMIT_SECONDS": "100",
    "HARBORMASTER_LIVE_SECONDS": "5",
}
UNCONFIRMED: Mapping[str, Any] = {"removal_confirmation": "Off"}
"""Settings of servers and loops. Most tests delete what they have placed: those about removals set the default."""
REGISTRATIONS = "/apis/admissionregistration.k8s.io/v1"


@dataclass(frozen=True)
class Answer:
    """What came back from a replica."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def document(self) -> JsonObject:
        """The body, which is a JSON object."""
        document = json.loads(self.body)
        assert isinstance(document, dict)
        return document


class Service:
    """One replica.

    Args:
        cluster: Its hub.
        folder: For its certificate and log; made when missing.
        settings: Given as ``HARBORMASTER_<NAME>``; with ``certificate_secret`` it gets no certificate from here.
        kubeconfig: Who it is on the hub; None: somebody who may do everything.
        clock_seconds: How far its clock is ahead, until `set_clock`; None: it has the right one.
        words: More of its command line.
        port: Where it listens for HTTPS; None: anywhere.
    """

    def __init__(
        self,
        cluster: Cluster,
        folder: Path,
        settings: Mapping[str, Any] | None = None,
        kubeconfig: Path | None = None,
        clock_seconds: int | None = None,
        words: Sequence[str] = (),
        port: int | None = None,
    ) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.cluster = cluster
        self.folder = folder
        self.port, self.http_port = port or free_port(), free_port()
        self.url = f"https://{LOOPBACK}:{self.port}"
        self.ca_file = folder / "ca.crt"
        self._certificate, self._key = folder / "tls.crt", folder / "tls.key"
        self.replace_certificate()
        self.secret = secrets.token_hex(32)
        secret_file = folder / "secret"
        secret_file.touch(mode=0o600)
        secret_file.write_text(self.secret, encoding="ascii")
        self.settings = {"webhook_secret_file": secret_file, **UNCONFIRMED} | dict(settings or {})
        environment = {f"HARBORMASTER_{name.upper()}": str(value) for name, value in self.settings.items()}
        files = (f"--tls-cert={self._certificate}", f"--tls-key={self._key}", f"--tls-ca={self.ca_file}")
        self._clock = folder / "clock"
        right: tuple[str | Path, ...] = (HARBORMASTER,)
        self.program = Program(
            [
                *(right if clock_seconds is None else program_with_clock(self._clock, clock_seconds)),
                "serve",
                f"--kubeconfig={kubeconfig or cluster.kubeconfig}",
                f"--https-port={self.port}",
                f"--http-port={self.http_port}",
                *(() if "certificate_secret" in self.settings else files),
                *words,
            ],
            folder / "serve.log",
            {**QUICK, **environment},
        )

    def replace_certificate(self, authority: Authority | None = None) -> None:
        """Write a new certificate, of a new authority unless one is given; the server finds it by itself."""
        self.authority = authority or Authority.new(datetime.now(UTC))
        leaf = self.authority.issue(("localhost",), (LOOPBACK,), datetime.now(UTC))
        for path, content in (
            (self.ca_file, self.authority.pem),
            (self._key, leaf.key_pem),
            (self._certificate, leaf.chain_pem),
        ):
            passing = path.with_suffix(".new")
            passing.touch(mode=0o600)
            passing.write_bytes(content)
            passing.replace(path)

    def set_clock(self, seconds: int) -> None:
        """Have its clock jump, so that it is ahead by *seconds*; it was started with ``clock_seconds``."""
        set_clock(self._clock, seconds)

    def start(self) -> None:
        """Start it and wait until it is ready."""
        self.program.start()
        self.program.wait_ready(self.ready)

    def ready(self) -> bool:
        """Ask its readiness probe."""
        try:
            with urllib.request.urlopen(f"http://{LOOPBACK}:{self.http_port}/readyz", timeout=5) as answer:
                return bool(answer.status == 200)
        except OSError:
            return False

    def checks(self) -> str:
        """What its readiness probe says of everything, ready or not; empty while nobody answers."""
        try:
            with urllib.request.urlopen(
                f"http://{LOOPBACK}:{self.http_port}/readyz?verbose", timeout=PATIENCE
            ) as answer:
                return str(answer.read().decode())
        except urllib.error.HTTPError as error:
            return error.read().decode()
        except OSError:
            return ""

    def ask(
        self,
        method: str,
        path: str,
        body: object = None,
        *,
        token: str = "",
        client: ClientCertificate | None = None,
        seconds: float = 30,
        traceparent: str = "",
    ) -> Answer:
        """Send it one request over HTTPS, on a connection of its own.

        Args:
            method: ``GET`` and so on.
            path: With its query.
            body: Sent as JSON.
            token: Sent as bearer token.
            client: Shown in the handshake.
            seconds: Patience.
            traceparent: Sent as header of that name.

        Raises:
            OSError: There was no answer; a handshake that fails ends that way.
        """
        trust = ssl.create_default_context(cafile=str(self.ca_file))
        if client is not None:
            client.show(trust)
        headers = {"Content-Type": "application/json"} | ({"Authorization": f"Bearer {token}"} if token else {})
        headers |= {"traceparent": traceparent} if traceparent else {}
        connection = http.client.HTTPSConnection(LOOPBACK, self.port, timeout=seconds, context=trust)
        with contextlib.closing(connection):
            try:
                connection.request(method, path, None if body is None else json.dumps(body), headers)
                found = connection.getresponse()
                return Answer(found.status, dict(found.headers), found.read())
            except http.client.HTTPException as error:
                raise ConnectionError(str(error)) from error

    def hook(self, path: str) -> str:
        """The path of a hook below the secret of the installation, as the API server calls it."""
        return f"/hooks/{self.secret}{path}"

    def configurations(self, service_account: str = "harbormaster-reconcile") -> list[JsonObject]:
        """What ``harbormaster webhook-configuration`` prints for it.

        Args:
            service_account: Whose writes the API server does not ask about.
        """
        environment = {f"HARBORMASTER_{name.upper()}": str(value) for name, value in self.settings.items()}
        environment["HARBORMASTER_SERVICE_ACCOUNT"] = service_account
        words = ("webhook-configuration", "-o", "json", f"--url={self.url}", f"--ca={self.ca_file}")
        return list(json.loads(printed_with(environment, *words))["items"])

    def register(self, service_account: str = "harbormaster-reconcile") -> None:
        """Have the API server ask this replica, and wait until it does."""
        for configuration in self.configurations(service_account):
            plural = configuration["kind"].lower() + "s"
            path = f"{REGISTRATIONS}/{plural}/{configuration['metadata']['name']}"
            self.cluster.request(
                "PATCH",
                f"{path}?fieldManager=operator&force=true",
                configuration,
                content_type="application/apply-patch+yaml",
            )
        self.wait_asked()

    def wait_asked(self, seconds: float = PATIENCE) -> None:
        """Wait until a write reaches this replica; the write is a dry run."""
        probe = {
            "apiVersion": "placement.kubernetes-fleet.io/v1beta1",
            "kind": "ClusterResourcePlacement",
            "metadata": {"name": "is-somebody-asked"},
            "spec": {"resourceSelectors": [{"group": "", "version": "v1", "kind": "Namespace", "name": "a"}]},
        }
        before, end = self.reviews(), time.monotonic() + seconds
        while self.reviews() < before + 2:  # both hooks
            assert time.monotonic() < end, f"the API server does not ask {self.url}"
            self.cluster.request(
                "POST",
                "/apis/placement.kubernetes-fleet.io/v1beta1/clusterresourceplacements?dryRun=All",
                probe,
            )

    def reviews(self) -> int:
        """How many reviews it has answered."""
        return int(self.metric("harbormaster_admission_requests_total"))

    def metric(self, name: str) -> float:
        """The sum of all samples whose name and labels begin with *name*."""
        lines = self.exposition().splitlines()
        return sum(float(line.rpartition(" ")[2]) for line in lines if line.startswith(name))

    def exposition(self) -> str:
        """All its metrics as text."""
        with urllib.request.urlopen(f"http://{LOOPBACK}:{self.http_port}/metrics", timeout=PATIENCE) as answer:
            return str(answer.read().decode())
