"""One Pod from its start to its deletion: namespaces, volumes, containers in their order, statuses, the end."""

import asyncio
import contextlib
import json
import logging
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from e2e.controlplane.cluster import ApiError, JsonObject
from e2e.kubelet.api import STRATEGIC, Api
from e2e.kubelet.container import LEAST_GRACE, Container, Surroundings
from e2e.kubelet.environment import ConfigurationError, Fields, environment_of
from e2e.kubelet.images import Image, find_image
from e2e.kubelet.network import GATEWAY, Addresses
from e2e.kubelet.node import now
from e2e.kubelet.process import Mount
from e2e.kubelet.sandbox import Sandbox, SandboxError
from e2e.kubelet.services import Services
from e2e.kubelet.state import pod_status
from e2e.kubelet.unsupported import unsupported
from e2e.kubelet.volumes import volumes_of

RETRY_SECONDS = 0.5
LOG = logging.getLogger("kubelet")


@dataclass(frozen=True)
class Kit:
    """What all Pods of a kubelet share.

    Args:
        api: The API server.
        services: Of the cluster.
        images: File of images.
        folder: Where Pods have their files.
        addresses: For Pods.
        refresh_seconds: Between two looks at the sources of volumes.
        first_pause: Seconds before the second restart of a container.
    """

    api: Api
    services: Services
    images: Path
    folder: Path
    addresses: Addresses
    refresh_seconds: float
    first_pause: float


class Pod:
    """One Pod.

    Args:
        pod: As first seen.
        kit: See `Kit`.
    """

    def __init__(self, pod: JsonObject, kit: Kit) -> None:
        self._pod: JsonObject = pod
        self._kit = kit
        metadata, spec = pod["metadata"], pod["spec"]
        self._namespace, self._name, self._uid = metadata["namespace"], metadata["name"], metadata["uid"]
        self._path = f"/api/v1/namespaces/{self._namespace}/pods/{self._name}"
        self.folder = kit.folder / f"{self._namespace}_{self._name}_{self._uid[:8]}"
        self.folder.mkdir(parents=True, exist_ok=True)
        number, self._address = kit.addresses.next()
        hostname = str(spec.get("hostname") or self._name)[:63]
        self._sandbox = Sandbox(number, hostname, self._address)
        self._volumes = volumes_of(pod, self.folder / "volumes")
        policy = spec.get("restartPolicy", "Always")
        self._first = self._containers(spec.get("initContainers") or (), "Never" if policy == "Never" else "OnFailure")
        self._main = self._containers(spec["containers"], policy)
        self._connected = self._gone = False
        self._changed, self._to_end = asyncio.Event(), asyncio.Event()
        self._sent: JsonObject = {}
        self._events: set[asyncio.Task[None]] = set()
        self._hosts = f"127.0.0.1\tlocalhost\n::1\tlocalhost\n{self._address}\t{hostname}\n"
        (self.folder / "hostname").write_text(f"{hostname}\n", encoding="utf-8")
        (self.folder / "hosts").touch()

    def _containers(self, specs: Any, policy: str) -> list[Container]:
        return [
            Container(
                spec,
                Surroundings(
                    pod=lambda: self._pod,
                    sandbox=self._sandbox,
                    folder=self.folder / spec["name"],
                    find_image=lambda name: find_image(self._kit.images, name),
                    prepare=self._prepare,
                    changed=lambda: self._changed.set(),
                    tell=self._tell,
                    first_pause=self._kit.first_pause,
                ),
                policy,
            )
            for spec in specs
        ]

    def update(self, pod: JsonObject | None) -> None:
        """Take notice of how it is on the API server now; None: it is gone."""
        if pod is not None:
            self._pod = pod
        if pod is None or "deletionTimestamp" in pod["metadata"]:
            self._gone = pod is None
            self._to_end.set()

    async def run(self) -> None:
        """Run it until it has been deleted; one that has ended or is to end when first seen is not run again."""
        if self._to_end.is_set() or self._pod["status"].get("phase") in {"Succeeded", "Failed"}:
            await self._to_end.wait()
            await self._delete()
            return
        reporting = asyncio.create_task(self._report())
        living = asyncio.create_task(self._live())
        for task in (reporting, living):
            task.add_done_callback(self._log_failure)
        try:
            await self._to_end.wait()
            metadata = self._pod["metadata"]
            grace = LEAST_GRACE if self._gone else metadata.get("deletionGracePeriodSeconds", 30)
            LOG.info("%s/%s ends, grace %s s", self._namespace, self._name, grace)
            await asyncio.gather(*(container.end(grace) for container in (*self._first, *self._main)))
        finally:
            for task in (living, reporting):
                task.cancel()
            for container in (*self._first, *self._main):
                container.kill()
            await asyncio.gather(living, reporting, return_exceptions=True)
            await self._sandbox.stop()
        await self._retry(self._send_status, "FailedReport")
        await self._delete()

    def _log_failure(self, task: asyncio.Task[None]) -> None:
        if not task.cancelled() and (error := task.exception()):
            LOG.error("%s/%s", self._namespace, self._name, exc_info=error)

    async def _live(self) -> None:
        self._changed.set()
        if problems := unsupported(self._pod):
            message = f"this kubelet does not know {', '.join(problems)}"
            self._tell("Warning", "Unsupported", message)
            for container in (*self._first, *self._main):
                container.state.current = {"waiting": {"reason": "CreateContainerConfigError", "message": message}}
            return
        await self._kit.services.wait_known()
        await self._retry(self._sandbox.start, "FailedCreatePodSandBox")
        self._connected = True
        await self._retry(self._refresh, "FailedMount")
        refreshing = asyncio.create_task(self._refresh_forever())
        try:
            for container in self._first:
                await container.run()
                if container.state.exit_code != 0:
                    return
            await asyncio.gather(*(container.run() for container in self._main))
        finally:
            refreshing.cancel()
        await self._sandbox.stop()

    async def _retry(self, action: Any, reason: str) -> None:
        """Do *action* until it works; why it does not is told once."""
        told = ""
        while True:
            try:
                await action()
            except (ConfigurationError, SandboxError, ApiError, OSError) as error:
                if str(error) != told:
                    self._tell("Warning", reason, str(error))
                    told = str(error)
                await asyncio.sleep(RETRY_SECONDS)
            else:
                return

    async def _refresh_forever(self) -> None:
        while True:
            await asyncio.sleep(self._kit.refresh_seconds)
            await self._retry(self._refresh, "FailedMount")

    async def _refresh(self) -> None:
        """Write volumes and names as they are now."""
        for volume in self._volumes.values():
            await volume.fill(self._fields, self._read, self._request_token)
        self.write_hosts()

    def write_hosts(self) -> None:
        """Write the names that are known in the Pod, into the file that its containers see."""
        text = self._hosts + self._kit.services.hosts(self._namespace)
        path = self.folder / "hosts"
        if path.read_text(encoding="utf-8") != text:
            path.write_text(text, encoding="utf-8")

    def _fields(self) -> Fields:
        return Fields(self._pod, self._address, GATEWAY)

    async def _read(self, plural: str, name: str) -> JsonObject:
        return await self._kit.api.request("GET", f"/api/v1/namespaces/{self._namespace}/{plural}/{name}")

    async def _request_token(self, spec: JsonObject) -> JsonObject:
        account = self._pod["spec"].get("serviceAccountName") or "default"
        path = f"/api/v1/namespaces/{self._namespace}/serviceaccounts/{account}/token"
        bound = {"kind": "Pod", "apiVersion": "v1", "name": self._name, "uid": self._uid}
        body = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest"}
        answer = await self._kit.api.request("POST", path, body | {"spec": spec | {"boundObjectRef": bound}})
        return dict(answer["status"])

    async def _prepare(self, container: JsonObject, image: Image) -> tuple[dict[str, str], list[Mount]]:
        spec = self._pod["spec"]
        links = self._kit.services.links(self._namespace, all_of_namespace=spec.get("enableServiceLinks", True))
        base = {**image.environment, "HOSTNAME": (self.folder / "hostname").read_text().strip(), **links}
        environment = await environment_of(container, self._fields(), self._read, base)
        mounts = [
            Mount(self.folder / name, f"/etc/{name}", read_only=name != "hosts") for name in ("hosts", "hostname")
        ]
        for mount in sorted(container.get("volumeMounts") or (), key=lambda each: str(each["mountPath"])):
            volume = self._volumes[mount["name"]]
            source = volume.folder / mount.get("subPath", "")
            if "emptyDir" in volume.spec:
                source.mkdir(parents=True, exist_ok=True)
            read_only = mount.get("readOnly", False) or "emptyDir" not in volume.spec
            mounts.append(Mount(source.resolve(), mount["mountPath"], read_only))
        return environment, mounts

    async def _report(self) -> None:
        """Tell the API server how it is, after each change."""
        while True:
            await self._changed.wait()
            self._changed.clear()
            try:
                await self._send_status()
            except (OSError, ApiError) as error:
                LOG.warning("%s/%s has not reported: %s", self._namespace, self._name, error)
                await asyncio.sleep(RETRY_SECONDS)
                self._changed.set()

    async def _send_status(self) -> None:
        conditions = (*(self._pod["status"].get("conditions") or ()), *self._sent.get("conditions", ()))
        addresses: Mapping[str, str] = {"node": GATEWAY} | ({"pod": self._address} if self._connected else {})
        first, main = ([container.state for container in each] for each in (self._first, self._main))
        before = {condition["type"]: condition for condition in conditions}
        status = pod_status(self._pod, first, main, addresses, before, now())
        status["startTime"] = self._sent.get("startTime", status["startTime"])
        status = json.loads(json.dumps(status))  # states go on changing
        if status == self._sent:
            return
        body = {"metadata": {"uid": self._uid}, "status": status}
        try:
            await self._kit.api.request("PATCH", f"{self._path}/status", body, STRATEGIC)
            self._sent = status
        except ApiError as error:
            if error.code not in {404, 409}:  # gone, or another Pod of that name is there
                raise

    async def _delete(self) -> None:
        """Remove it from the API server, unless it is gone."""
        body = {"gracePeriodSeconds": 0, "preconditions": {"uid": self._uid}}
        while not self._gone:
            try:
                await self._kit.api.request("DELETE", self._path, body)
            except (OSError, ApiError) as error:
                if isinstance(error, ApiError) and error.code in {404, 409}:  # another Pod of that name is there
                    return
                LOG.warning("%s cannot be deleted: %s", self._path, error)
                await asyncio.sleep(RETRY_SECONDS)
            else:
                return

    def _tell(self, kind: str, reason: str, message: str) -> None:
        """Write an Event, and a line in the log."""
        LOG.info("%s/%s %s: %s", self._namespace, self._name, reason, message)
        task = asyncio.create_task(self._write_event(kind, reason, message))
        self._events.add(task)
        task.add_done_callback(self._events.discard)

    async def _write_event(self, kind: str, reason: str, message: str) -> None:
        about = {"apiVersion": "v1", "kind": "Pod", "namespace": self._namespace, "name": self._name, "uid": self._uid}
        event = {
            "metadata": {"generateName": f"{self._name}."},
            "involvedObject": about,
            "type": kind,
            "reason": reason,
            "message": message[:1000],
            "count": 1,
            "firstTimestamp": now(),
            "lastTimestamp": now(),
            "source": {"component": "kubelet", "host": self._pod["spec"]["nodeName"]},
        }
        with contextlib.suppress(OSError, ApiError):
            await self._kit.api.request("POST", f"/api/v1/namespaces/{self._namespace}/events", event)
