"""Small Pods, Deployments and Services around the server of `e2e.kubelet.web`, and what they answer."""

import contextlib
import json
import urllib.error
import urllib.request
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from e2e.controlplane.cluster import ApiError, JsonObject
from e2e.controlplane.process import PATIENCE
from e2e.fleet.waiting import wait_until
from e2e.kubelet.bed import Bed, is_ready
from e2e.kubelet.images import PROJECT, Image, own_image

WEB = "example.com/web:1"
OWN = "example.com/harbormaster:1"
PROBE_TIMEOUT = 30
"""Seconds that a healthy server may take to answer a probe; the default of one second fails on a slow machine."""
GRACE = int(PATIENCE)
"""Seconds that a container has for an orderly end; only a test of SIGKILL sets a shorter grace period."""
READY = {
    "httpGet": {"path": "/ready", "port": "http"},
    "periodSeconds": 1,
    "failureThreshold": 1,
    "timeoutSeconds": PROBE_TIMEOUT,
}


def web_image() -> Image:
    """The server as an image."""
    return own_image("python", str(PROJECT / "e2e" / "kubelet" / "web.py"))


def make_container(name: str = "web", **fields: Any) -> JsonObject:
    """Make a container of the server, ready when it answers."""
    ports = [{"name": "http", "containerPort": 8080}]
    return {"name": name, "image": WEB, "ports": ports, "readinessProbe": READY} | fields


def make_variables(**values: str) -> list[JsonObject]:
    """Make the ``env`` of a container."""
    return [{"name": name, "value": value} for name, value in values.items()]


class Home:
    """A namespace of a test.

    Args:
        bed: Where; the namespace is created.
        name: Of the namespace.
    """

    def __init__(self, bed: Bed, name: str) -> None:
        self.bed = bed
        self.name = name
        self._request = bed.cluster.request
        self._request("POST", "/api/v1/namespaces", {"metadata": {"name": name}})
        wait_until(f"{name} has a ServiceAccount", self._no_account)

    def _no_account(self) -> str:
        self._request("GET", f"{self.core('serviceaccounts')}/default")
        return ""

    def core(self, plural: str, name: str = "") -> str:
        """The path of core objects here."""
        return f"/api/v1/namespaces/{self.name}/{plural}{'/' if name else ''}{name}"

    def put(self, plural: str, name: str, **fields: Any) -> JsonObject:
        """Create a core object."""
        return self._request("POST", self.core(plural), {"metadata": {"name": name}, **fields})[0]

    def run(self, name: str, *containers: JsonObject, metadata: Mapping[str, Any] | None = None, **spec: Any) -> None:
        """Create a Pod with the label ``app`` of its own name; no containers: the server."""
        head = {"name": name, "labels": {"app": name}, **(metadata or {})}
        found = {"containers": list(containers or [make_container()]), "terminationGracePeriodSeconds": GRACE, **spec}
        self._request("POST", self.core("pods"), {"metadata": head, "spec": found})

    def deploy(self, name: str, container: JsonObject, *, replicas: int = 2, **spec: Any) -> None:
        """Create a Deployment and a Service of that name, and wait until it is rolled out."""
        labels = {"app": name}
        pod = {"containers": [container], "terminationGracePeriodSeconds": GRACE, **spec}
        template = {"metadata": {"labels": labels}, "spec": pod}
        deployment = {
            "metadata": {"name": name},
            "spec": {"replicas": replicas, "selector": {"matchLabels": labels}, "template": template},
        }
        self._request("POST", f"/apis/apps/v1/namespaces/{self.name}/deployments", deployment)
        self.put("services", name, spec={"selector": labels, "ports": [{"port": 80, "targetPort": "http"}]})
        self.bed.wait_rolled_out(self.name, name)

    def pod(self, name: str) -> JsonObject:
        """The Pod of that name."""
        return self._request("GET", self.core("pods", name))[0]

    def wait_ready(self, name: str) -> JsonObject:
        """Wait until a Pod is ready, and return it."""

        def problem() -> str:
            found = self.pod(name)
            return "" if is_ready(found) else json.dumps(found["status"])

        wait_until(f"{name} is ready", problem)
        return self.pod(name)

    def wait_status(self, name: str, *path: str | int, value: object = None, seconds: float = PATIENCE) -> JsonObject:
        """Wait until the status of a Pod has *value* at *path*, and return the status."""

        def problem() -> str:
            status = found = self.pod(name)["status"]
            try:
                for step in path:
                    found = found[step]
            except (KeyError, IndexError):
                found = None
            return "" if found == value else json.dumps(status)

        wait_until(f"{name} has {value} at {path}", problem, seconds)
        return dict(self.pod(name)["status"])

    def wait_restarts(self, name: str, least: int) -> JsonObject:
        """Wait until the container of a Pod has been started again at least so often, and return its status."""

        def status() -> JsonObject:
            return dict((self.pod(name)["status"].get("containerStatuses") or [{}])[0])

        wait_until(
            f"{name} has {least} restarts", lambda: "" if status().get("restartCount", 0) >= least else str(status())
        )
        return status()

    def wait_gone(self, name: str) -> None:
        """Wait until a Pod is gone."""

        def problem() -> str:
            try:
                return json.dumps(self.pod(name)["status"])
            except ApiError as error:
                return "" if error.code == 404 else str(error)

        wait_until(f"{name} is gone", problem)

    def delete(self, name: str) -> None:
        """Have a Pod deleted, with its own grace."""
        self._request("DELETE", self.core("pods", name))

    def address(self, service: str) -> str:
        """The cluster address of a Service."""
        return str(self._request("GET", self.core("services", service))[0]["spec"]["clusterIP"])

    def events(self, name: str) -> list[str]:
        """Reasons and messages of the Events of a Pod."""
        found = self._request("GET", self.core("events"))[0]["items"]
        return [f"{event['reason']}: {event['message']}" for event in found if event["involvedObject"]["name"] == name]


def ask(address: str, path: str = "/", port: int = 80) -> Any:
    """What the server answers at *address*.

    Raises:
        OSError: It does not.
    """
    with urllib.request.urlopen(f"http://{address}:{port}{path}", timeout=PATIENCE) as answer:
        return json.loads(answer.read())


def ask_pod(pod: JsonObject, path: str = "/") -> Any:
    """What the server in a Pod answers.

    Raises:
        OSError: It does not.
    """
    return ask(pod["status"]["podIP"], path, 8080)


def hosts_behind(address: str) -> set[str]:
    """Which Pods answer at the address of a Service, out of thirty connections; none when they are refused.

    Raises:
        OSError: They are not refused, and nothing answers.
    """
    try:
        return {ask(address)["host"] for _ in range(30)}
    except urllib.error.URLError as error:
        if isinstance(error.reason, ConnectionRefusedError):
            return set()
        raise


def names(pods: list[JsonObject]) -> set[str]:
    """The names of Pods."""
    return {str(pod["metadata"]["name"]) for pod in pods}


def processes_with(word: str) -> list[str]:
    """The command lines on this machine in which a word stands."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):  # it has just ended
            found.append(path.read_text(encoding="utf-8", errors="replace").replace("\0", " "))
    return [line for line in found if word in line.split()]
