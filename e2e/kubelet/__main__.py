"""Run the kubelet: ``python -m e2e.kubelet --kubeconfig FILE --images FILE --folder FOLDER --node NAME ...``."""

import argparse
import asyncio
import contextlib
import logging
import signal
import sys
from collections.abc import Sequence
from pathlib import Path

from e2e.kubelet.api import Api, Watched
from e2e.kubelet.network import GATEWAY, Addresses
from e2e.kubelet.node import Node
from e2e.kubelet.pod import Kit, Pod
from e2e.kubelet.services import Services

LOG = logging.getLogger("kubelet")


class Kubelet:
    """Runs the Pods of some Nodes.

    Args:
        api: The API server.
        nodes: Names.
        options: As on the command line.
    """

    def __init__(self, api: Api, nodes: Sequence[str], options: argparse.Namespace) -> None:
        self._api = api
        self._nodes = [Node(api, name, GATEWAY) for name in nodes]
        self._woken = asyncio.Event()
        self._watched = Watched(api, "/api/v1/pods", self._woken.set)
        self._services = Services(api, self._write_hosts)
        folder = Path(options.folder).resolve()
        self._kit = Kit(
            api=api,
            services=self._services,
            images=options.images,
            folder=folder,
            addresses=Addresses(options.first_pod),
            refresh_seconds=options.refresh_seconds,
            first_pause=options.backoff_seconds,
        )
        self._pods: dict[str, Pod] = {}
        self._seen: set[str] = set()

    async def run(self) -> None:
        """Register the Nodes and run what is bound to them, until cancelled."""
        for node in self._nodes:
            await node.register()
        names = {node.name for node in self._nodes}
        async with asyncio.TaskGroup() as tasks:
            for node in self._nodes:
                tasks.create_task(node.keep_alive())
            tasks.create_task(self._services.run())
            tasks.create_task(self._watched.run())
            while True:
                await self._woken.wait()
                self._woken.clear()
                there = {
                    pod["metadata"]["uid"]: pod
                    for pod in self._watched.objects.values()
                    if pod["spec"].get("nodeName") in names
                }
                for uid in there.keys() - self._seen:
                    self._pods[uid] = Pod(there[uid], self._kit)
                    tasks.create_task(self._run(uid))
                self._seen = set(there)
                for uid, known in self._pods.items():
                    known.update(there.get(uid))

    async def _run(self, uid: str) -> None:
        try:
            await self._pods[uid].run()
        except Exception:  # one Pod must not end the others
            LOG.exception("pod %s", uid)
        finally:
            self._pods.pop(uid)

    def _write_hosts(self) -> None:
        for pod in self._pods.values():
            pod.write_hosts()


async def main(options: argparse.Namespace) -> None:
    """Run until SIGTERM or SIGINT; the Pods end with the kubelet."""
    task = asyncio.current_task()
    assert task is not None
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, task.cancel)
    async with Api(options.kubeconfig) as api:
        with contextlib.suppress(asyncio.CancelledError):
            await Kubelet(api, options.node, options).run()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m e2e.kubelet", description=__doc__)
    parser.add_argument("--kubeconfig", type=Path, required=True, help="cluster-admin with a token")
    parser.add_argument("--images", type=Path, required=True, help="JSON: images by name; read at each start")
    parser.add_argument("--folder", type=Path, required=True, help="for volumes and logs")
    parser.add_argument("--node", action="append", required=True, help="name of a Node; may be given several times")
    parser.add_argument("--first-pod", type=int, default=0, help="number of the first Pod, for its address")
    parser.add_argument("--refresh-seconds", type=float, default=1, help="how often volumes are looked at")
    parser.add_argument("--backoff-seconds", type=float, default=10, help="before the second restart; then doubled")
    logging.basicConfig(level=logging.INFO, stream=sys.stderr, format="%(asctime)s %(message)s")
    asyncio.run(main(parser.parse_args()))
