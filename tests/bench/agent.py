"""Agent rows: what `harbormaster agent` takes at rest, with 100 Works of ten objects that it has applied.

One API server is hub and member at once. The floor is a Python process that has loaded the same libraries.
"""

import asyncio
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Final

from e2e.controlplane.cluster import Cluster
from e2e.controlplane.process import Program, free_port
from e2e.controlplane.service import HARBORMASTER
from scorer.api.kinds import INTERNAL_MEMBER_CLUSTER, KINDS, NAMESPACE, WORK
from scorer.api.meta import JsonObject
from scorer.api.names import WORK_OBJECTS, member_namespace
from scorer.rollout.removal.marks import objects_digest
from tests.bench.figures import Figure, Part
from tests.bench.processes import processor_seconds, resident_megabytes
from tests.bench.real_hub import real_hub
from webhook.kube.client.api_server import ApiServer
from webhook.kube.client.hub_store import HubStore

WORKS: Final = 100
OBJECTS: Final = 10
MEMBER: Final = "berlin"
HOME: Final = "harbormaster-system"
CONFIG_MAP: Final = KINDS["", "ConfigMap"]
PATIENCE_SECONDS: Final = 300
CALM_SECONDS: Final = 300
REST_SECONDS: Final = 300
"""Passes over a Work that has settled come at growing intervals, up to 15 minutes: one falls into this time."""
MEGABYTES, MILLICORES, START_SECONDS = 60, 10, 1.0
LIBRARIES: Final = "import aiohttp.web, orjson, prometheus_client, pydantic, uvloop, yaml, click"


def main() -> None:
    """Start an API server and an agent, let it apply everything, and look at it five minutes later."""
    with tempfile.TemporaryDirectory() as folder, real_hub(Path(folder)) as cluster:
        asyncio.run(measure(cluster))


async def measure(cluster: Cluster) -> None:
    """Tell all figures."""
    words = [f"--hub-kubeconfig={cluster.kubeconfig}", f"--kubeconfig={cluster.kubeconfig}", f"--cluster={MEMBER}"]
    words += [f"--namespace={HOME}", f"--http-port={free_port()}"]
    agent = Program([HARBORMASTER, "agent", *words], cluster.folder / "agent.log")
    async with await ApiServer.connect(cluster.kubeconfig) as server:
        store = HubStore(server)
        await fill(store)
        try:
            agent.start()
            await applied(store)
            started = processor_seconds(agent.pid)
            await asyncio.sleep(CALM_SECONDS)
            before = processor_seconds(agent.pid)
            await asyncio.sleep(REST_SECONDS)
            millicores = (processor_seconds(agent.pid) - before) / REST_SECONDS * 1000
            resident = resident_megabytes(agent.pid)
        finally:
            agent.stop()
    title = f"at rest, {WORKS} Works of {OBJECTS} objects"
    part = Part("agent")
    part.report(Figure(f"{title}, memory", resident, "MB", MEGABYTES, floor()))
    part.report(Figure(f"{title}, processor", millicores, "mCPU", MILLICORES))
    part.report(Figure("processor time until all of them are applied", started, "s"))
    part.report(Figure("processor time until the program could start", start_seconds(), "s", START_SECONDS))


async def fill(store: HubStore) -> None:
    """Make the member, its namespaces, and its Works."""
    space = member_namespace(MEMBER)
    for name in (space, HOME, "shop"):
        await store.create(NAMESPACE, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
    for number in range(WORKS):
        await store.create(WORK, _work(f"work-{number:03}", space, number))
    member = {"metadata": {"name": MEMBER, "namespace": space}, "spec": {"state": "Join", "heartbeatPeriodSeconds": 30}}
    kind = INTERNAL_MEMBER_CLUSTER
    await store.create(kind, {"apiVersion": kind.api_version, "kind": kind.kind, **member})


async def applied(store: HubStore) -> None:
    """Wait until every Work says that it is."""
    async with asyncio.timeout(PATIENCE_SECONDS):
        while True:
            works = (await store.list(WORK)).items
            if sum(map(_is_applied, works)) == WORKS:
                return
            await asyncio.sleep(1)


def _work(name: str, space: str, number: int) -> JsonObject:
    manifests = [
        {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": f"config-{number:03}-{part}", "namespace": "shop"},
            "data": {"key": "value" * 20},
        }
        for part in range(OBJECTS)
    ]
    annotations = {WORK_OBJECTS: objects_digest(manifests)}
    return {
        "apiVersion": WORK.api_version,
        "kind": WORK.kind,
        "metadata": {"name": name, "namespace": space, "annotations": annotations},
        "spec": {"workload": {"manifests": manifests}},
    }


def _is_applied(work: JsonObject) -> bool:
    conditions = work.get("status", {}).get("conditions", [])
    return any(each["type"] == "Available" and each["status"] == "True" for each in conditions)


def floor(libraries: str = LIBRARIES) -> float:
    """Return the memory of a process that has loaded the libraries and nothing else."""
    return _of(libraries, resident_megabytes)


def start_seconds() -> float:
    """Return the processor time of loading the agent."""
    return _of(
        "import webhook.cli.operating.agent, webhook.processes.agent, webhook.server.listening, uvloop",
        processor_seconds,
    )


def _of(program: str, look: Callable[[int], float]) -> float:
    """Run *program* in a process of its own, and look at it before it ends."""
    command = [sys.executable, "-c", f"{program}; print(flush=True); input()"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdout.readline()
        found = look(process.pid)
        process.communicate(b"\n")
    return found


if __name__ == "__main__":
    main()
