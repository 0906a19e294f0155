"""One address in front of several replicas, as a Service of Kubernetes is: connections go to those that are ready.

Only bytes are passed on, so TLS is between the caller and the replica that it happens to reach.
"""

import asyncio
import contextlib
import itertools
import threading
from collections.abc import Sequence

from e2e.controlplane.cluster import LOOPBACK
from e2e.controlplane.process import free_port
from e2e.controlplane.service import Service

CHECK_SECONDS = 0.3
"""How often replicas are asked whether they are ready."""


class Door:
    """The address; open it by ``with``.

    Attributes:
        replicas: Behind it; `turn_to` replaces them.
        port: Where it listens.
    """

    def __init__(self, replicas: Sequence[Service]) -> None:
        self.replicas = list(replicas)
        self.port = free_port()
        self._ready: list[int] = []
        self._open: dict[asyncio.StreamWriter, int] = {}
        self._one_check = asyncio.Lock()
        self._turns = itertools.count()
        self._loop = asyncio.new_event_loop()
        self._opened = threading.Event()
        self._thread = threading.Thread(target=self._loop.run_until_complete, args=(self._run(),), daemon=True)

    @property
    def url(self) -> str:
        """Its address."""
        return f"https://{LOOPBACK}:{self.port}"

    def __enter__(self) -> "Door":
        self._thread.start()
        self._opened.wait()
        return self

    def __exit__(self, *_: object) -> None:
        self._loop.call_soon_threadsafe(self._end.set)
        self._thread.join()
        self._loop.close()

    def turn_to(self, replicas: Sequence[Service]) -> None:
        """Replace those behind it; connections to those that are not any more have ended when it returns."""
        self.replicas = list(replicas)
        asyncio.run_coroutine_threadsafe(self._check(), self._loop).result()

    async def _run(self) -> None:
        self._end = asyncio.Event()
        server = await asyncio.start_server(self._pass_on, LOOPBACK, self.port)
        self._opened.set()
        checking = asyncio.create_task(self._keep_checking())
        await self._end.wait()
        checking.cancel()
        server.close()
        self._close_but([])
        others = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
        await asyncio.gather(*others, return_exceptions=True)

    def _close_but(self, ports: Sequence[int]) -> None:
        for writer, port in self._open.items():
            if port not in ports:
                writer.close()

    async def _keep_checking(self) -> None:
        while True:
            await self._check()
            await asyncio.sleep(CHECK_SECONDS)

    async def _check(self) -> None:
        async with self._one_check:
            replicas = self.replicas
            ready = await asyncio.gather(*(asyncio.to_thread(replica.ready) for replica in replicas))
            self._ready = [replica.port for replica, is_ready in zip(replicas, ready, strict=True) if is_ready]
            self._close_but([replica.port for replica in replicas])

    async def _pass_on(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.closing(writer):
            if not self._ready:
                return
            port = self._ready[next(self._turns) % len(self._ready)]
            try:
                answers, onward = await asyncio.open_connection(LOOPBACK, port)
            except OSError:
                return
            self._open[writer] = port
            with contextlib.closing(onward):
                await asyncio.gather(_copy(reader, onward), _copy(answers, writer))
            del self._open[writer]


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Pass bytes on until one of both ends, then end the other."""
    with contextlib.suppress(OSError):
        while data := await reader.read(65536):
            writer.write(data)
            await writer.drain()
    writer.close()
