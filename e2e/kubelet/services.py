"""Services inside the network of a test bed: cluster addresses that lead to endpoints, and names for them.

What a node's proxy does with rules of the kernel is done here by listening on each cluster address. As there, a
connection goes to an endpoint chosen at random and is not tried again at another one, and where no endpoint is ready,
connections are refused. Not as there: the endpoint sees the address of the Node as the client's.
"""

import asyncio
import contextlib
import random
import socket
import struct
from collections.abc import Callable, Iterator, Sequence

from e2e.controlplane.cluster import JsonObject
from e2e.kubelet.api import Api, Watched, key_of
from e2e.kubelet.environment import service_links
from e2e.kubelet.sandbox import SandboxError, run

DOMAIN = "cluster.local"
CHUNK = 65536
CONNECT_SECONDS = 120.0
Endpoint = tuple[str, int]
"""Address and port."""
_RESET = struct.pack("ii", 1, 0)
"""SO_LINGER of zero seconds: closing says that the connection is broken, and not that it is over."""


class Services:
    """All Services of a cluster.

    Args:
        api: Of the cluster.
        changed: Called when names or addresses may have changed.
    """

    def __init__(self, api: Api, changed: Callable[[], None]) -> None:
        self._changed = changed
        self._woken = asyncio.Event()
        self._services = Watched(api, "/api/v1/services", self._woken.set)
        self._slices = Watched(api, "/apis/discovery.k8s.io/v1/endpointslices", self._woken.set)
        self._forwarders: dict[Endpoint, Forwarder] = {}
        self._addresses: set[str] = set()
        self._known = asyncio.Event()

    async def run(self) -> None:
        """Follow the cluster until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._services.run())
            tasks.create_task(self._slices.run())
            while True:
                await self._woken.wait()
                self._woken.clear()
                await self._forward()
                if self._services.objects:  # that of the API server is always there
                    self._known.set()
                self._changed()

    async def wait_known(self) -> None:
        """Wait until they have been read."""
        await self._known.wait()

    def links(self, namespace: str, *, all_of_namespace: bool) -> dict[str, str]:
        """The environment that a container in *namespace* gets of them."""
        return service_links(self._services.objects.values(), namespace, all_of_namespace=all_of_namespace)

    def hosts(self, namespace: str) -> str:
        """Lines for ``/etc/hosts`` in *namespace*: what cluster DNS would answer there."""
        lines = []
        for (home, name), service in sorted(self._services.objects.items()):
            names = [f"{name}.{home}.svc.{DOMAIN}", f"{name}.{home}.svc", f"{name}.{home}"]
            if home == namespace:
                names.append(name)
            lines += [f"{address}\t{' '.join(names)}\n" for address in self._addresses_of(service)]
        return "".join(lines)

    def _addresses_of(self, service: JsonObject) -> list[str]:
        address = service["spec"].get("clusterIP")
        if address != "None":
            return [address] if address else []
        return sorted({address for item in self._slices_of(service) for address in _ready(item)})

    def _slices_of(self, service: JsonObject) -> Iterator[JsonObject]:
        namespace, name = key_of(service)
        for item in self._slices.objects.values():
            metadata = item["metadata"]
            belongs = (metadata.get("labels") or {}).get("kubernetes.io/service-name") == name
            if belongs and metadata["namespace"] == namespace and item["addressType"] == "IPv4":
                yield item

    async def _forward(self) -> None:
        """Listen where there are ready endpoints, and nowhere else."""
        wanted: dict[Endpoint, list[Endpoint]] = {}
        for service in self._services.objects.values():
            address = service["spec"].get("clusterIP")
            if address and address != "None":
                for port in service["spec"].get("ports") or ():
                    if port["protocol"] == "TCP":
                        slices = list(self._slices_of(service))
                        wanted[address, port["port"]] = endpoints(slices, port.get("name") or "")
        await self._hold({address for address, _ in wanted})
        for gone in self._forwarders.keys() - wanted.keys():
            await self._forwarders.pop(gone).lead_to([])
        for where, found in wanted.items():
            await self._forwarders.setdefault(where, Forwarder(*where)).lead_to(found)

    async def _hold(self, addresses: set[str]) -> None:
        for word, changed in (("add", addresses - self._addresses), ("del", self._addresses - addresses)):
            for address in changed:
                with contextlib.suppress(SandboxError):  # a kubelet before this one has added it
                    await run(["ip", "addr", word, f"{address}/32", "dev", "lo"])
        self._addresses = addresses


def endpoints(slices: Sequence[JsonObject], port: str) -> list[Endpoint]:
    """Where the port of that name leads: to what is ready, else to what still serves while it ends."""
    ready: list[Endpoint] = []
    leaving: list[Endpoint] = []
    for item in slices:
        numbers = [each["port"] for each in item.get("ports") or () if (each.get("name") or "") == port]
        for endpoint in item.get("endpoints") or ():
            conditions = endpoint.get("conditions") or {}
            found = [(address, number) for address in endpoint["addresses"] for number in numbers]
            if conditions.get("ready", True):
                ready += found
            elif conditions.get("serving") and conditions.get("terminating"):
                leaving += found
    return ready or leaving


class Forwarder:
    """Takes connections on one address and port, and leads each to an endpoint.

    Args:
        address: Of the Service.
        port: Of the Service.
    """

    def __init__(self, address: str, port: int) -> None:
        self._address = address
        self._port = port
        self._endpoints: list[Endpoint] = []
        self._server: asyncio.Server | None = None

    async def lead_to(self, found: list[Endpoint]) -> None:
        """Lead new connections to *found*; refuse them when there are none. What is connected stays so."""
        self._endpoints = found
        if found and self._server is None:
            self._server = await asyncio.start_server(self._connected, self._address, self._port)
        elif not found and self._server is not None:
            self._server.close()
            self._server = None

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            async with asyncio.timeout(CONNECT_SECONDS):
                there = await asyncio.open_connection(*random.choice(self._endpoints))
        except (OSError, IndexError):
            _break(writer)
            return
        try:
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(_copy(reader, there[1]))
                tasks.create_task(_copy(there[0], writer))
        except* OSError:
            _break(writer)
            _break(there[1])
        finally:
            writer.close()
            there[1].close()


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while content := await reader.read(CHUNK):
        writer.write(content)
        await writer.drain()
    writer.write_eof()


def _break(writer: asyncio.StreamWriter) -> None:
    connection = writer.get_extra_info("socket")
    with contextlib.suppress(OSError):
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
    writer.transport.abort()


def _ready(item: JsonObject) -> Iterator[str]:
    for endpoint in item.get("endpoints") or ():
        if (endpoint.get("conditions") or {}).get("ready", True):
            yield from endpoint["addresses"]
