"""Admission with confirmation of removals against admission without it, on one hub of 10,000 placements.

One process on one core answers both over the same cache, the load comes from another process. The two take turns, so
that a disturbance meets both. One connection asks, so that a review waits for no other. Every judged write is allowed:
it takes less off clusters than needs confirmation.

PLACEMENTS in the environment: another number than 10,000.
"""

import asyncio
import os
import ssl
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import AsyncExitStack, contextmanager
from datetime import UTC, datetime
from itertools import cycle
from pathlib import Path
from typing import Final
from uuid import UUID

import numpy as np
import orjson
import uvloop

from scorer.api.kinds import KINDS, NAMESPACE, PLACEMENT, RESOURCE_SNAPSHOT, group_kind
from scorer.api.meta import JsonObject, dump_json, format_time
from scorer.api.names import (
    IS_LATEST_SNAPSHOT,
    NUMBER_OF_RESOURCE_SNAPSHOTS,
    PARENT_PLACEMENT,
    RESOURCE_HASH,
    RESOURCE_INDEX,
    SOURCES,
)
from tests.bench.admission import ROUNDS, SECONDS, WARM_UP_SECONDS, Tally, Target, request
from tests.bench.figures import SHORT, Figure, Part
from tests.builders.binding import make_binding
from tests.builders.placement import fixed, make_placement, namespace_term
from tests.webhook.services import LISTENERS, make_server, make_services
from tests.webhook.validation.live_objects import make_member
from webhook.admission.cached import CachedContext
from webhook.embedded.storage.store import EmbeddedStore
from webhook.kube.cache.informer import Cache
from webhook.runtime.clock import utc_now
from webhook.settings.programs import ServerSettings
from webhook.settings.secret_files import read_secrets, secret_path

PART: Final = Part("removals")
PLACEMENTS: Final = int(os.environ.get("PLACEMENTS", 1_000 if SHORT else 10_000))
CLUSTERS: Final = ("east", "north", "south", "west")
OBJECTS, DISTINCT, MOST_MORE_MS = 10, 512, 1.0
MODES: Final = ("", "Off")
ROWS: Final = ("a placement leaves one of four clusters", "a placed Namespace gets a label")


def namespace(number: int, **labels: str) -> JsonObject:
    """Return a Namespace that is placed."""
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": f"shop-{number:05}", "labels": labels}}


def placement(number: int, clusters: Sequence[str] = CLUSTERS) -> JsonObject:
    """Return a placement of a Namespace and all that is in it."""
    terms = [namespace_term(f"shop-{number:05}")]
    return make_placement(f"shop-{number:05}", fixed(*clusters), selectors=terms)


def content(number: int) -> JsonObject:
    """Return the resource snapshot of a placement."""
    name = f"shop-{number:05}"
    config_maps = [
        {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": f"c{each}", "namespace": name}}
        for each in range(OBJECTS)
    ]
    labels = {PARENT_PLACEMENT: name, IS_LATEST_SNAPSHOT: "true", RESOURCE_INDEX: "0"}
    annotations = {
        NUMBER_OF_RESOURCE_SNAPSHOTS: "1",
        RESOURCE_HASH: "0",
        SOURCES: dump_json([""] * (OBJECTS + 1)).decode(),
    }
    return {
        "apiVersion": RESOURCE_SNAPSHOT.api_version,
        "kind": RESOURCE_SNAPSHOT.kind,
        "metadata": {"name": f"{name}-0-snapshot", "labels": labels, "annotations": annotations},
        "spec": {"selectedResources": [namespace(number), *config_maps]},
    }


def hub() -> Iterator[JsonObject]:
    """Yield all objects of the hub."""
    now = format_time(datetime.now(UTC))
    yield from (
        orjson.loads(orjson.dumps(make_member(name)).replace(b"2026-01-01T00:00:00Z", now.encode()))
        for name in CLUSTERS
    )
    for number in range(PLACEMENTS):
        name = f"shop-{number:05}"
        yield from (namespace(number), placement(number), content(number))
        for cluster in CLUSTERS:
            yield make_binding(name, cluster, resourceSnapshotName=f"{name}-0-snapshot")


def calls(row: str, root: str) -> Iterator[bytes]:
    """Yield requests without end; 512 of them differ."""
    return cycle([call(row, number * PLACEMENTS // DISTINCT, root) for number in range(DISTINCT)])


def call(row: str, number: int, root: str) -> bytes:
    """Return the request of an API server for one write."""
    uid = {"uid": str(UUID(int=number + 1)), "creationTimestamp": "2026-11-20T12:00:00Z"}
    if row == ROWS[0]:
        kind, before, after = PLACEMENT, placement(number), placement(number, CLUSTERS[1:])
    else:
        kind, before, after = NAMESPACE, namespace(number), namespace(number, team="shop")
    old, new = ({**each, "metadata": {**each["metadata"], **uid}} for each in (before, after))
    version = kind.api_version.rpartition("/")[2]
    review = {
        "kind": "AdmissionReview",
        "apiVersion": "admission.k8s.io/v1",
        "request": {
            "uid": str(UUID(int=2**127 + number)),
            "kind": {"group": kind.group, "version": version, "kind": kind.kind},
            "resource": {"group": kind.group, "version": version, "resource": kind.plural},
            "name": old["metadata"]["name"],
            "operation": "UPDATE",
            "userInfo": {"username": f"system:serviceaccount:platform-{number % 30:02}:deployer"},
            "object": new,
            "oldObject": old,
        },
    }
    return request(f"{root}/validate?timeout=5s", orjson.dumps(review))


async def serve() -> None:
    """Answer with confirmation and without it, over one cache."""
    store = EmbeddedStore.open(None)
    for document in hub():
        kind = KINDS[group_kind(document)]
        stored = await store.create(kind, document)
        if "status" in document:
            await store.replace_status(kind, {**stored, "status": document["status"]})
    cache = Cache(store)
    async with AsyncExitStack() as stack, asyncio.TaskGroup() as tasks:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        secret = folder / "secret"
        secret.touch(mode=0o600)
        secret.write_text("s" * 64, encoding="ascii")
        reading = tasks.create_task(cache.run())
        told = []
        for mode in MODES:
            settings = ServerSettings(**LISTENERS, webhook_secret_file=secret, removal_confirmation=mode)
            admission = CachedContext(cache, settings.admission(), utc_now)
            services = make_services(cache=cache, store=store, settings=settings, admission=admission)
            server = make_server(services, settings)
            await server.start()
            stack.push_async_callback(server.stop)
            https = server.addresses.https
            assert https is not None
            told.append({"port": https[1], "authority": server.certificates.trust_pem.decode("ascii")})
        while not cache.synced:
            await asyncio.sleep(0.05)
        print(orjson.dumps({"servers": told, "root": secret_path(read_secrets(secret))}).decode(), flush=True)
        await asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)
        reading.cancel()


@contextmanager
def servers() -> Iterator[list[Target]]:
    """Start the process. It ends with its standard input."""
    command = [sys.executable, "-m", "tests.bench.removals", "serve"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            told = orjson.loads(process.stdout.readline())
            yield [
                Target(process.pid, each["port"], ssl.create_default_context(cadata=each["authority"]), told["root"])
                for each in told["servers"]
            ]
        finally:
            process.stdin.close()


async def measure() -> None:
    """Report the figures."""
    with servers() as (on, off):
        for row in ROWS:
            requests = calls(row, on.root)
            tallies = Tally(), Tally()
            for target in (on, off):
                await target.round(requests, WARM_UP_SECONDS, Tally(), connections=1)
            for _ in range(ROUNDS):
                for target, tally in zip((on, off), tallies, strict=True):
                    await target.round(requests, SECONDS, tally, connections=1)
            p99, off_p99 = (float(np.percentile(tally.milliseconds, 99)) for tally in tallies)
            cpu, off_cpu = (float(np.median(tally.cpu_microseconds)) for tally in tallies)
            note = f"{PLACEMENTS:,} placements; the floor is confirmation switched off"
            PART.report(Figure(f"{row}, p99", p99, "ms", off_p99 + MOST_MORE_MS, off_p99, note=note))
            PART.report(Figure(f"{row}, processor time of a review", cpu, "us", floor=off_cpu))


def main() -> None:
    """Report the figures, or be the servers."""
    *others, last = sorted(os.sched_getaffinity(0))
    serving = len(sys.argv) > 1
    os.sched_setaffinity(0, {others[0] if serving and others else last})
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(serve() if serving else measure())


if __name__ == "__main__":
    main()
