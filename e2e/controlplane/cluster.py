"""Real clusters on loopback ports: one etcd, and per cluster a kube-apiserver on a prefix of its own.

Every cluster has its own authority, its own users and its own tokens. ``admin`` may do everything; a test adds users
for whom RBAC decides. Nothing listens beyond loopback, and everything is stopped by its process id.
"""

import base64
import contextlib
import http.client
import json
import os
import secrets
import select
import signal
import socket
import ssl
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from ipaddress import IPv4Network
from pathlib import Path
from typing import Any

from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa

from certs.authority import Authority
from e2e.controlplane.client_certificate import ClientCertificate, issue_client_certificate
from e2e.controlplane.process import PATIENCE, Program, free_port, kill

JsonObject = dict[str, Any]

ADMIN = "admin"
_STARTING = "storage is (re)initializing"
FRONT_PROXY = "front-proxy-client"
"""Common name of the certificate that it shows to servers of aggregated APIs."""
LOOPBACK = "127.0.0.1"
SERVICES = IPv4Network("10.0.0.0/24")


@dataclass(frozen=True)
class Place:
    """Where a cluster is in its network.

    Args:
        address: Where its API server listens. Beyond loopback it is also the endpoint of its own Service.
        services: The addresses of Services; the first is that of the API server itself.
        external_names: Whether Services lead to external names instead of endpoints, which cannot be on loopback.
    """

    address: str = LOOPBACK
    services: IPv4Network = SERVICES
    external_names: bool = False


@dataclass(frozen=True)
class User:
    """Somebody with a token; which groups they are in is all that RBAC knows of them."""

    name: str
    groups: tuple[str, ...] = ()
    token: str = field(default_factory=lambda: secrets.token_hex(16), repr=False)


class ApiError(Exception):
    """The API server refused; the document it sent is in *status*."""

    def __init__(self, code: int, status: JsonObject, warnings: Sequence[str] = ()) -> None:
        super().__init__(f"{code} {status.get('reason', '')}: {status.get('message', '')}")
        self.code = code
        self.status = status
        self.warnings = list(warnings)

    @property
    def causes(self) -> list[JsonObject]:
        """What is wrong, one by one."""
        return list((self.status.get("details") or {}).get("causes") or [])


class Etcd:
    """The store below all clusters. It forgets everything when the tests end, so nothing waits for the disk."""

    def __init__(self, programs: Mapping[str, Path], folder: Path) -> None:
        self.url = f"http://{LOOPBACK}:{free_port()}"
        peer = f"http://{LOOPBACK}:{free_port()}"
        self.program = Program(
            [
                programs["etcd"],
                "--data-dir",
                folder / "etcd",
                f"--listen-client-urls={self.url}",
                f"--advertise-client-urls={self.url}",
                f"--listen-peer-urls={peer}",
                f"--initial-advertise-peer-urls={peer}",
                f"--initial-cluster=default={peer}",
                "--unsafe-no-fsync",
                "--log-level=warn",
            ],
            folder / "etcd.log",
        )

    def start(self) -> None:
        """Start it and wait until it answers."""
        self.program.start()
        self.program.wait_ready(lambda: b'"true"' in _read(f"{self.url}/health"))

    def put(self, key: str, document: JsonObject) -> None:
        """Write past every API server: the only way to an object that no API server would let in today."""
        self._call("put", {"key": _base64(key.encode()), "value": _base64(json.dumps(document).encode())})

    def delete(self, key: str) -> None:
        """Remove what `put` wrote."""
        self._call("deleterange", {"key": _base64(key.encode())})

    def compact(self, revision: int) -> None:
        """Forget everything before *revision*, as an API server has it done every few minutes."""
        self._call("compaction", {"revision": revision, "physical": True})

    def read(self, prefix: str) -> dict[str, str]:
        """Everything whose key begins so: keys and values in base64."""
        answer = self._call("range", _below(prefix))
        return {item["key"]: item["value"] for item in answer.get("kvs") or ()}

    def restore(self, prefix: str, kept: Mapping[str, str]) -> None:
        """Put back what `read` has read, and nothing else below *prefix*; what was between is forgotten.

        Revisions go on, as they do when a backup is restored with the advice to bump them. The API server above must
        not run meanwhile.
        """
        self._call("deleterange", _below(prefix))
        for key, value in kept.items():
            self._call("put", {"key": key, "value": value})
        self.compact(int(self._call("range", _below(prefix) | {"limit": 1})["header"]["revision"]))

    def _call(self, word: str, body: JsonObject) -> JsonObject:
        request = urllib.request.Request(f"{self.url}/v3/kv/{word}", json.dumps(body).encode())
        with urllib.request.urlopen(request, timeout=PATIENCE) as answer:
            return dict(json.loads(answer.read()))


class Cluster:
    """One kube-apiserver with its users.

    Args:
        programs: Paths by name, from `e2e.controlplane.build.build`.
        folder: For keys, kubeconfigs and logs; made when missing.
        etcd: Where it keeps its objects, below its name.
        name: Names it in kubeconfigs and messages.
        users: Besides ``admin``.
        audited: Names of users whose every write to whatever kind is audited, besides all writes to kinds of ours.
        webhook_client: Common name of the client certificate that it shows to webhooks; empty: it shows none.
        place: Where it is.
    """

    def __init__(
        self,
        programs: Mapping[str, Path],
        folder: Path,
        etcd: Etcd,
        name: str,
        users: Sequence[User] = (),
        audited: Sequence[str] = (),
        webhook_client: str = "",
        place: Place = Place(),
    ) -> None:
        self.name = name
        self.etcd = etcd
        self.folder = folder
        self._programs = programs
        self.kubectl_program = programs["kubectl"]
        self._audited = list(audited)
        self._webhook_client = webhook_client
        folder.mkdir(parents=True, exist_ok=True)
        self.users = {user.name: user for user in (User(ADMIN, ("system:masters",)), *users)}
        self.port = free_port()
        self._place = place
        self._address = place.address
        self.url = f"https://{place.address}:{self.port}"
        self.authority = Authority.new(datetime.now(UTC))
        self.proxy_authority = Authority.new(datetime.now(UTC))
        self.ca_file = folder / "ca.crt"
        self._write_keys()
        self.kubeconfigs = {user.name: self._write_kubeconfig(user) for user in self.users.values()}
        self.kubeconfig = self.kubeconfigs[ADMIN]
        self.apiserver = Program(self._command(etcd), folder / "kube-apiserver.log")
        self._companions: list[Program] = []
        self._trust = ssl.create_default_context(cadata=self.authority.pem.decode())
        self._idle: list[http.client.HTTPSConnection] = []

    def start(self) -> None:
        """Start the API server and wait until it is ready."""
        self.apiserver.start()
        self.apiserver.wait_ready(lambda: _read(f"{self.url}/readyz", self._trust) == b"ok")

    def stop(self) -> None:
        """Stop everything of this cluster."""
        while self._idle:
            self._idle.pop().close()
        kill(*self._companions, self.apiserver)

    @property
    def companions(self) -> Sequence[Program]:
        """The programs that run beside the API server, the oldest first."""
        return self._companions

    def backup(self) -> dict[str, str]:
        """All that it keeps, for `restore`."""
        return self.etcd.read(f"/{self.name}/")

    def restore(self, kept: Mapping[str, str]) -> None:
        """Go back to a backup; the API server is down meanwhile."""
        self.apiserver.stop(number=signal.SIGKILL)
        self.etcd.restore(f"/{self.name}/", kept)
        self.start()

    def replace_authority(self) -> None:
        """Have the API server show a certificate of another authority; it restarts, and is asked by that from then on.

        Kubeconfigs that were written before do not trust it, nor do companions.
        """
        self.apiserver.stop(number=signal.SIGKILL)
        self.authority = Authority.new(datetime.now(UTC))
        self._write_certificate()
        self._trust = ssl.create_default_context(cadata=self.authority.pem.decode())
        while self._idle:
            self._idle.pop().close()
        self.start()

    def start_controller_manager(self, controllers: Sequence[str] = ("*",)) -> Program:
        """Start kube-controller-manager: namespaces end, owned objects are collected, ServiceAccounts appear.

        Args:
            controllers: Which of its controllers run.
        """
        return self._start_companion(
            "kube-controller-manager",
            [
                f"--kubeconfig={self.kubeconfig}",
                f"--authentication-kubeconfig={self.kubeconfig}",
                f"--authorization-kubeconfig={self.kubeconfig}",
                f"--service-account-private-key-file={self.folder / 'service-account.key'}",
                f"--root-ca-file={self.ca_file}",
                "--use-service-account-credentials",
                "--leader-elect=false",
                f"--controllers={','.join(controllers)}",
                f"--bind-address={LOOPBACK}",
            ],
        )

    def start_scheduler(self, configuration: Path | None = None) -> Program:
        """Start kube-scheduler, with a KubeSchedulerConfiguration when it is given."""
        chosen = [f"--config={configuration}"] if configuration else [f"--kubeconfig={self.kubeconfig}"]
        return self._start_companion(
            "kube-scheduler",
            [
                *chosen,
                f"--authentication-kubeconfig={self.kubeconfig}",
                f"--authorization-kubeconfig={self.kubeconfig}",
                "--leader-elect=false",
                f"--bind-address={LOOPBACK}",
            ],
        )

    def kubectl(
        self,
        *words: str | Path,
        given: object = None,
        user: str = ADMIN,
        check: bool = True,
        environment: Mapping[str, str] | None = None,
        seconds: float = PATIENCE,
    ) -> subprocess.CompletedProcess[str]:
        """Run kubectl as *user*; *given* goes to its standard input, as JSON unless it is text.

        Raises:
            AssertionError: It failed, and *check* says that it must not.
        """
        command = [str(self.kubectl_program), f"--kubeconfig={self.kubeconfigs[user]}", *map(str, words)]
        text = given if isinstance(given, str) or given is None else json.dumps(given)
        done = subprocess.run(
            command,
            input=text,
            capture_output=True,
            text=True,
            timeout=seconds,
            check=False,
            env={**os.environ, **(environment or {})},
        )
        assert not check or done.returncode == 0, f"{' '.join(command)}: {done.stderr}"
        return done

    def request(
        self,
        method: str,
        path: str,
        body: object = None,
        *,
        user: str = ADMIN,
        acting_as: JsonObject | None = None,
        content_type: str = "application/json",
        seconds: float = PATIENCE,
    ) -> tuple[JsonObject, list[str]]:
        """Ask the API server; returns its answer and the warnings that came with it.

        Args:
            method: ``GET`` and so on.
            path: With its query.
            body: Sent as JSON.
            user: Whose token is sent.
            acting_as: ``username`` and ``groups`` of somebody whom *user* impersonates.
            content_type: Of *body*.
            seconds: Patience.

        Raises:
            ApiError: It refused.
        """
        end = time.monotonic() + seconds
        while True:
            try:
                return self._request(method, path, body, user, acting_as, content_type, seconds)
            except ApiError as error:  # a server that has just started reads its storage anew
                if error.code != 429 or _STARTING not in str(error) or time.monotonic() > end:
                    raise
            except http.client.RemoteDisconnected:  # the server has closed a kept connection that was just in use
                if method != "GET" or time.monotonic() > end:
                    raise
            time.sleep(0.1)

    def _request(
        self,
        method: str,
        path: str,
        body: object,
        user: str,
        acting_as: JsonObject | None,
        content_type: str,
        seconds: float,
    ) -> tuple[JsonObject, list[str]]:
        headers = [("Authorization", f"Bearer {self.users[user].token}"), ("Content-Type", content_type)]
        if acting_as is not None:
            headers.append(("Impersonate-User", acting_as["username"]))
            headers += [("Impersonate-Group", group) for group in acting_as.get("groups", ())]
        content = b"" if body is None else json.dumps(body).encode()
        with self._connected(seconds) as connection:
            connection.putrequest(method, path)
            for name, value in (*headers, ("Content-Length", str(len(content)))):
                connection.putheader(name, value)
            connection.endheaders(content)
            answer = connection.getresponse()
            document = _document(answer.read())
        if answer.status >= 300:
            raise ApiError(answer.status, document, _warnings(answer.headers))
        return document, _warnings(answer.headers)

    @contextlib.contextmanager
    def _connected(self, seconds: float) -> Iterator[http.client.HTTPSConnection]:
        """A connection for one request; it is kept for the next one, since handshakes cost more than most requests."""
        connection = http.client.HTTPSConnection(self._address, self.port, timeout=seconds, context=self._trust)
        with contextlib.suppress(IndexError):
            kept = self._idle.pop()
            if kept.sock is None or _has_ended(kept.sock):
                kept.close()
            else:
                connection = kept
                kept.sock.settimeout(seconds)
        try:
            yield connection
        except BaseException:
            connection.close()
            raise
        self._idle.append(connection)

    def issue_client_certificate(
        self, common_name: str, organizations: Sequence[str] = (), folder: Path | None = None
    ) -> ClientCertificate:
        """A certificate for a client, of the authority that the cluster accepts clients of, in files.

        Args:
            common_name: The user.
            organizations: Their groups.
            folder: For the files; None: that of the cluster.
        """
        return issue_client_certificate(self.authority, folder or self.folder, common_name, organizations)

    def token_of(self, namespace: str, service_account: str, audience: str | None = None) -> str:
        """A fresh token of a ServiceAccount."""
        spec = {"audiences": [audience]} if audience else {}
        path = f"/api/v1/namespaces/{namespace}/serviceaccounts/{service_account}/token"
        answer, _ = self.request(
            "POST", path, {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": spec}
        )
        return str(answer["status"]["token"])

    def write_kubeconfig(
        self,
        name: str,
        token: str,
        *,
        server: str = "",
        authority: Authority | None = None,
        folder: Path | None = None,
    ) -> Path:
        """A kubeconfig for somebody with *token*.

        Args:
            name: Names the user and the file.
            token: Shown to the server.
            server: Its URL; empty: the API server itself, and not something in front of it.
            authority: Of the server's certificate, when it is not the cluster's.
            folder: For the file; None: that of the cluster.
        """
        return self._write_kubeconfig(User(name, (), token), server, authority, folder)

    def _start_companion(self, name: str, flags: Sequence[str]) -> Program:
        port = free_port()
        program = Program([self._programs[name], *flags, f"--secure-port={port}"], self.folder / f"{name}.log")
        self._companions.append(program)
        program.start()
        anyone = ssl.create_default_context()  # it signs its own certificate
        anyone.check_hostname = False
        anyone.verify_mode = ssl.CERT_NONE
        program.wait_ready(lambda: _read(f"https://{LOOPBACK}:{port}/healthz", anyone) == b"ok")
        return program

    def _command(self, etcd: Etcd) -> list[str | Path]:
        folder = self.folder
        return [
            self._programs["kube-apiserver"],
            f"--etcd-servers={etcd.url}",
            f"--etcd-prefix=/{self.name}",
            f"--bind-address={self._address}",
            f"--advertise-address={self._address}",
            f"--secure-port={self.port}",
            f"--tls-cert-file={folder / 'tls.crt'}",
            f"--tls-private-key-file={folder / 'tls.key'}",
            f"--client-ca-file={self.ca_file}",
            f"--token-auth-file={folder / 'tokens.csv'}",
            "--service-account-issuer=https://kubernetes.default.svc",
            f"--service-account-key-file={folder / 'service-account.key'}",
            f"--service-account-signing-key-file={folder / 'service-account.key'}",
            "--authorization-mode=RBAC",
            f"--enable-aggregator-routing={'false' if self._place.external_names else 'true'}",
            *self._front_proxy_flags(),
            f"--service-cluster-ip-range={self._place.services}",
            f"--audit-policy-file={folder / 'audit-policy.yaml'}",
            f"--audit-log-path={folder / 'audit.log'}",
            "--audit-log-mode=blocking",
            f"--endpoint-reconciler-type={'none' if self._address == LOOPBACK else 'lease'}",
            *([f"--admission-control-config-file={self._admission_file()}"] if self._webhook_client else []),
        ]

    def _front_proxy_flags(self) -> list[str]:
        """How it asks servers of aggregated APIs, as kubeadm sets it up: with an authority of its own for that."""
        shown = issue_client_certificate(self.proxy_authority, self.folder, FRONT_PROXY, life=timedelta(days=30))
        (self.folder / "front-proxy-ca.crt").write_bytes(self.proxy_authority.pem)
        return [
            f"--requestheader-client-ca-file={self.folder / 'front-proxy-ca.crt'}",
            f"--requestheader-allowed-names={FRONT_PROXY}",
            "--requestheader-username-headers=X-Remote-User",
            "--requestheader-group-headers=X-Remote-Group",
            "--requestheader-extra-headers-prefix=X-Remote-Extra-",
            f"--proxy-client-cert-file={shown.certificate}",
            f"--proxy-client-key-file={shown.key}",
        ]

    def _admission_file(self) -> Path:
        """What has the API server show a client certificate to webhooks, as docs/admission.md says."""
        shown = self.issue_client_certificate(self._webhook_client)
        user = {"client-certificate": str(shown.certificate), "client-key": str(shown.key)}
        kubeconfig = {"apiVersion": "v1", "kind": "Config", "users": [{"name": "*", "user": user}]}
        (self.folder / "webhooks.kubeconfig").write_text(json.dumps(kubeconfig), encoding="utf-8")
        plugins = [
            {
                "name": f"{kind}AdmissionWebhook",
                "configuration": {
                    "apiVersion": "apiserver.config.k8s.io/v1",
                    "kind": "WebhookAdmissionConfiguration",
                    "kubeConfigFile": str(self.folder / "webhooks.kubeconfig"),
                },
            }
            for kind in ("Mutating", "Validating")
        ]
        document = {"apiVersion": "apiserver.config.k8s.io/v1", "kind": "AdmissionConfiguration", "plugins": plugins}
        path = self.folder / "admission.yaml"
        path.write_text(json.dumps(document), encoding="utf-8")
        return path

    def _write_certificate(self) -> None:
        self.ca_file.write_bytes(self.authority.pem)
        names = ("localhost", "kubernetes", "kubernetes.default", "kubernetes.default.svc")
        leaf = self.authority.issue(names, (self._address, str(self._place.services[1])), datetime.now(UTC))
        _write_private(self.folder / "tls.crt", leaf.chain_pem)
        _write_private(self.folder / "tls.key", leaf.key_pem)

    def _write_keys(self) -> None:
        self._write_certificate()
        key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
        pem = key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.TraditionalOpenSSL,
            serialization.NoEncryption(),
        )
        _write_private(self.folder / "service-account.key", pem)
        rows = [f'{user.token},{user.name},{user.name},"{",".join(user.groups)}"\n' for user in self.users.values()]
        _write_private(self.folder / "tokens.csv", "".join(rows).encode())
        policy = {
            "apiVersion": "audit.k8s.io/v1",
            "kind": "Policy",
            "omitStages": ["RequestReceived"],
            "rules": [
                {
                    "level": "Metadata",
                    "verbs": ["create", "update", "patch", "delete", "deletecollection"],
                    "resources": [
                        {"group": group}
                        for group in (
                            "placement.kubernetes-fleet.io",
                            "cluster.kubernetes-fleet.io",
                            "karpenter.sh",
                            "upgrade.harbormaster.dev",
                        )
                    ],
                },
                *(
                    {"level": "Metadata", "users": [user], "verbs": ["create", "update", "patch", "delete"]}
                    for user in self._audited
                ),
                {"level": "None"},
            ],
        }
        (self.folder / "audit-policy.yaml").write_text(json.dumps(policy), encoding="utf-8")

    def audit(self, since: int = 0) -> list[JsonObject]:
        """What was written to kinds of ours and by audited users, in order.

        Args:
            since: What `audit_mark` said at the moment after which writes count.
        """
        path = self.folder / "audit.log"
        if not path.exists():
            return []
        with path.open("rb") as log:
            log.seek(since)
            return [json.loads(line) for line in log if line.endswith(b"\n")]

    def audit_mark(self) -> int:
        """A moment, for `audit`: what is written from now on comes after it."""
        path = self.folder / "audit.log"
        return path.stat().st_size if path.exists() else 0

    def _write_kubeconfig(
        self, user: User, server: str = "", authority: Authority | None = None, folder: Path | None = None
    ) -> Path:
        document = {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [
                {
                    "name": self.name,
                    "cluster": {
                        "server": server or self.url,
                        "certificate-authority-data": _base64((authority or self.authority).pem),
                    },
                }
            ],
            "users": [{"name": user.name, "user": {"token": user.token}}],
            "contexts": [{"name": self.name, "context": {"cluster": self.name, "user": user.name}}],
            "current-context": self.name,
        }
        path = (folder or self.folder) / f"{user.name.replace(':', '-')}.kubeconfig"
        _write_private(path, json.dumps(document).encode())
        return path


def _has_ended(connection: socket.socket) -> bool:
    """Whether the other side has said something unasked: nothing but that it is over."""
    return bool(select.select([connection], [], [], 0)[0])


def _below(prefix: str) -> JsonObject:
    """The range of all keys that begin with *prefix*."""
    key = prefix.encode()
    return {"key": _base64(key), "range_end": _base64(key[:-1] + bytes([key[-1] + 1]))}


def _base64(content: bytes) -> str:
    return base64.b64encode(content).decode("ascii")


def _write_private(path: Path, content: bytes) -> None:
    path.touch(mode=0o600)
    path.write_bytes(content)


def _read(url: str, trust: ssl.SSLContext | None = None) -> bytes:
    """The body at *url*; empty for anything but 200."""
    try:
        with urllib.request.urlopen(url, timeout=5, context=trust) as answer:
            return bytes(answer.read())
    except urllib.error.HTTPError as error:
        error.close()
        return b""


def _document(body: bytes) -> JsonObject:
    try:
        document = json.loads(body or b"{}")
    except ValueError:
        document = None
    return document if isinstance(document, dict) else {"message": body.decode(errors="replace")}


def _warnings(headers: Any) -> list[str]:
    """The texts of the ``Warning`` headers: ``299 - "text"``, quotes and backslashes escaped."""
    texts = []
    for header in headers.get_all("Warning") or []:
        _, _, quoted = header.partition('"')
        texts.append(quoted.rpartition('"')[0].replace('\\"', '"').replace("\\\\", "\\"))
    return texts
