"""A release of the hub's chart: what helm does with it, its Pods, and its answers through its Service."""

import base64
import http.client
import json
import os
import re
import socket
import ssl
import subprocess
import urllib.request
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from e2e.controlplane.cluster import JsonObject
from e2e.controlplane.process import PATIENCE
from e2e.controlplane.service import REGISTRATIONS, Answer
from e2e.fleet.waiting import wait_until
from e2e.installed.images import SCHEDULER
from e2e.kubelet.bed import Bed
from scorer.api.meta import format_time
from tests.charts.made import HUB

NAME: Final = "harbormaster"
NAMESPACE: Final = "harbormaster-system"
COMPONENT: Final = "app.kubernetes.io/component"
INSTANCE: Final = "app.kubernetes.io/instance"
EVERYTHING: Final[JsonObject] = {
    "crds": {"fleet": {"install": True}, "karpenter": {"install": True}},
    "scheduler": {"enabled": True, "image": SCHEDULER, "replicas": 1},
    "settings": {"extenderAllowAnonymous": True, "resourceSnapshotIntervalSeconds": 0, "resourceCollectionSeconds": 0},
}
"""Values that install all there is."""
QUICK: Final[JsonObject] = {"serve": {"minReadySeconds": 1}, "settings": {"removalConfirmation": "Off"}}
"""Values for tests that do not wait for what only caution waits for."""
_VERSION: Final = re.compile(r'^harbormaster_build_info\{.*version="([^"]*)"', re.MULTILINE)


class HelmError(AssertionError):
    """helm has failed; the text is what it said, and the state of the Pods."""


class Release:
    """One release, which need not be installed.

    Args:
        bed: Where.
        helm: The program.
        name: Of the release.
        namespace: Of the release.
        values: Of every installation and upgrade; each wins over those before it.
    """

    def __init__(
        self, bed: Bed, helm: Path, *values: Mapping[str, Any], name: str = NAME, namespace: str = NAMESPACE
    ) -> None:
        self.bed = bed
        self.name = name
        self.namespace = namespace
        self.fullname = name if NAME in name else f"{name}-{NAME}"
        self._helm = helm
        self._values = list(values)

    def helm(self, *words: str | Path, check: bool = True) -> subprocess.CompletedProcess[str]:
        """Run helm as an administrator, in the namespace of the release.

        Raises:
            HelmError: It failed, and *check* says that it must not.
        """
        home = self.bed.folder / "helm"
        homes = {f"HELM_{each}_HOME": str(home) for each in ("CACHE", "CONFIG", "DATA")}
        command = [self._helm, *words, f"--kubeconfig={self.bed.cluster.kubeconfig}", f"--namespace={self.namespace}"]
        done = subprocess.run(
            list(map(str, command)),
            capture_output=True,
            text=True,
            timeout=900,
            check=False,
            env={**os.environ, **homes},
        )
        if check and done.returncode:
            raise HelmError(f"{' '.join(map(str, words))}: {done.stderr}\n{self.state()}")
        return done

    def install(self, *values: Mapping[str, Any]) -> str:
        """Install it and wait until it is ready; returns what helm has said."""
        return self._put(["install", "--create-namespace"], *values)

    def upgrade(self, *values: Mapping[str, Any]) -> str:
        """Upgrade it to the chart as it is and wait until it is ready; returns what helm has said."""
        return self._put(["upgrade"], *values)

    def _put(self, words: list[str], *values: Mapping[str, Any]) -> str:
        files = []
        for number, each in enumerate((*self._values, *values)):
            path = self.bed.folder / f"{self.name}-{number}.json"
            path.write_text(json.dumps(each), encoding="utf-8")
            files.append(f"--values={path}")
        return self.helm(*words, self.name, HUB, "--wait", "--timeout=5m", *files).stdout

    def rollback(self, revision: int = 0) -> None:
        """Go back to a revision, 0 being the one before, and wait until it is ready."""
        self.helm("rollback", self.name, str(revision), "--wait", "--timeout=5m")

    def uninstall(self) -> None:
        """Take it off, and wait until what it made is gone."""
        self.helm("uninstall", self.name, "--wait", "--timeout=5m")

    def test(self) -> subprocess.CompletedProcess[str]:
        """Run ``helm test``, whether it passes or not."""
        return self.helm("test", self.name, "--timeout=5m", check=False)

    def pods(self, component: str) -> list[JsonObject]:
        """The Pods of a component that are ready and not about to end."""
        return self.bed.ready_pods(self.namespace, **{COMPONENT: component, INSTANCE: self.name})

    def wait_ended(self, seconds: float = PATIENCE) -> None:
        """Wait until every Pod that is about to end, as those before an upgrade, has ended."""

        def problem() -> str:
            pods = self.bed.pods(self.namespace, **{INSTANCE: self.name})
            return " ".join(pod["metadata"]["name"] for pod in pods if "deletionTimestamp" in pod["metadata"])

        wait_until("the Pods of before have ended", problem, seconds)

    def versions(self, component: str = "serve") -> set[str]:
        """The versions of the programs in those Pods."""
        return {_version(pod["status"]["podIP"]) for pod in self.pods(component)}

    def deployments(self) -> list[str]:
        """The names of its Deployments."""
        path = f"/apis/apps/v1/namespaces/{self.namespace}/deployments?labelSelector={INSTANCE}={self.name}"
        return [each["metadata"]["name"] for each in self.bed.cluster.request("GET", path)[0]["items"]]

    def state(self) -> str:
        """Which Pods there are, how they fare, and what those that are not ready have said last."""
        lines = []
        for pod in self.bed.pods(self.namespace):
            statuses = pod["status"].get("containerStatuses") or []
            lines.append(f"{pod['metadata']['name']}: {pod['status'].get('phase')} {json.dumps(statuses)}")
            for status in statuses:
                if not status["ready"]:
                    lines += self.bed.last_words(pod, status["name"])
        return "\n".join(lines)

    def authority(self) -> str:
        """The certificates that clients of the Service should trust, as PEM."""
        return base64.b64decode(self.secret()["data"]["ca.crt"]).decode()

    def secret(self) -> JsonObject:
        """The Secret with its certificate authority."""
        return self.bed.cluster.request("GET", self.secret_path)[0]

    @property
    def secret_path(self) -> str:
        """Where that Secret is."""
        return f"/api/v1/namespaces/{self.namespace}/secrets/{self.fullname}-ca"

    @property
    def hooks(self) -> list[str]:
        """The paths of its webhook configurations."""
        kinds = ("mutating", "validating")
        name = self.fullname if self.fullname.startswith(NAME) else f"{NAME}-{self.fullname}"
        return [f"{REGISTRATIONS}/{kind}webhookconfigurations/{name}" for kind in kinds]

    def bundles(self) -> set[str]:
        """What the entries of its webhook configurations trust, as PEM."""
        entries = [entry for path in self.hooks for entry in self.bed.cluster.request("GET", path)[0]["webhooks"]]
        return {base64.b64decode(entry["clientConfig"].get("caBundle") or "").decode() for entry in entries}

    def wait_trusted(self) -> None:
        """Wait until the API server trusts the authority of the Secret, and a replica answers by it."""

        def problem() -> str:
            if self.bundles() != {self.authority()}:
                return "the webhook configurations trust another authority"
            return "" if self.ask("GET", "/v1/openapi.json").status == 200 else "it does not answer"

        wait_until("the authority is trusted", problem)

    def restart_scheduler(self) -> None:
        """Restart kube-scheduler, which reads its ``caFile`` once, as ``kubectl rollout restart`` does."""
        name = f"{self.fullname}-scheduler"
        restarted = {"kubectl.kubernetes.io/restartedAt": format_time(datetime.now(UTC))}
        path = f"/apis/apps/v1/namespaces/{self.namespace}/deployments/{name}"
        self.bed.patch(path, {"spec": {"template": {"metadata": {"annotations": restarted}}}})
        self.bed.wait_rolled_out(self.namespace, name)

    def ask(self, method: str, path: str, *, token: str = "", body: object = None, authority: str = "") -> Answer:
        """Ask the Service over HTTPS, by its name, in a connection of its own.

        Args:
            method: ``GET`` and so on.
            path: With its query.
            token: Shown, if there is one.
            body: Sent as JSON.
            authority: All that is trusted, as PEM; empty: what the Secret says.

        Raises:
            OSError: There was no answer, or its certificate is not one of that authority.
        """
        address = f"/api/v1/namespaces/{self.namespace}/services/{self.fullname}"
        service = self.bed.cluster.request("GET", address)[0]["spec"]
        host = f"{self.fullname}.{self.namespace}.svc"
        trust = ssl.create_default_context(cadata=authority or self.authority())
        connection = http.client.HTTPConnection(host, timeout=PATIENCE)
        plain = socket.create_connection((service["clusterIP"], service["ports"][0]["port"]), timeout=PATIENCE)
        connection.sock = trust.wrap_socket(plain, server_hostname=host)
        try:
            headers = {"Authorization": f"Bearer {token}"} if token else {}
            content = b"" if body is None else json.dumps(body).encode()
            connection.request(method, path, content, {"Content-Type": "application/json", **headers})
            answer = connection.getresponse()
            return Answer(answer.status, dict(answer.headers), answer.read())
        finally:
            connection.close()

    @property
    def audience(self) -> str:
        """Whom tokens for it must be for."""
        return f"{self.fullname}.{self.namespace}.svc"


def _version(address: str) -> str:
    with urllib.request.urlopen(f"http://{address}:8081/metrics", timeout=PATIENCE) as answer:
        found = _VERSION.search(answer.read().decode())
    assert found is not None
    return found[1]
