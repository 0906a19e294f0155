"""Calls of kube-scheduler, over real HTTPS.

The fleet of a line goes into an embedded store, a cache is filled from it, and a server answers. Its certificate is of
today; what is injected is the clock that heartbeats are judged by.
"""

import asyncio
import gc
import json
import os
import re
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from io import BytesIO
from time import perf_counter
from typing import Any

import aiohttp
import numpy as np
import uvloop

from scorer.api import kinds
from scorer.api.kinds import KINDS, NAMESPACE, Kind, group_kind
from scorer.api.meta import JsonObject, parse_time
from scorer.api.names import PARENT_PLACEMENT
from scorer.api.placement.binding import BindingState
from scorer.extender.reading import member
from tests.vector_families.line import Line, compare
from tests.webhook.services import LISTENERS, make_server, make_services
from webhook.answers.extender import HubExtender
from webhook.embedded.storage.store import EmbeddedStore
from webhook.kube.cache.informer import Cache
from webhook.kube.ports import key_of
from webhook.runtime.clock import utc_now
from webhook.server.server import Server
from webhook.settings.extender import CLUSTER_LABELS
from webhook.settings.programs import ServerSettings

TIMED_CALLS = 50
NOW = "2026-03-01T10:00:00Z"
"""The clock of a fleet that names none."""
POD = {"metadata": {"name": "pod", "namespace": "default", "uid": "pod"}, "spec": {"containers": []}}
LONGEST_BYTES = 2**20
"""aiohttp's client warns of longer bodies unless they are files."""
MARKERS = {"http_status", "ordered", "integers_only", "max_ms_p99", "retry_after", "scores", "distinct_messages"}
"""Wishes that are no members of the answer."""


def check_extender(line: Line) -> None:
    """The server answers the call as the line wants; how long it takes counts only for somebody else's lines."""
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:  # as `serve` runs
        runner.run(_check(line))


async def _check(line: Line) -> None:
    line = generated(line)
    want, body = line["want"], _body(line)
    method, headers = line.get("method") or "POST", line.get("headers")
    headers = {"Content-Type": "application/json"} if headers is None else headers
    async with running(line["fleet"]) as found:

        async def call() -> tuple[int, Any, bytes]:
            data = BytesIO(body) if len(body) > LONGEST_BYTES else body
            async with found.session.request(
                method, found.url(line["verb"]), data=data, headers=headers, skip_auto_headers=("Content-Type",)
            ) as got:
                return got.status, got.headers, await got.read()

        status, answered, text = await call()
        _compare(line, status, answered, text)
        if "max_ms_p99" in want and os.environ.get("HARBORMASTER_VECTORS"):
            assert await _percentile(call) * 1000 <= want["max_ms_p99"]


async def _percentile(call: Callable[[], Awaitable[object]]) -> float:
    """Return what 99 of 100 calls take at most, in seconds, with garbage collected as `serve` does it.

    Otherwise one full collection, which walks all that the tests hold, would be most of the answer.
    """
    seconds = []
    gc.collect()
    gc.freeze()
    try:
        for _ in range(TIMED_CALLS):
            start = perf_counter()
            await call()
            seconds.append(perf_counter() - start)
    finally:
        gc.unfreeze()
    return float(np.percentile(seconds, 99))


def _body(line: Line) -> bytes:
    """Return the bytes to send; a line that shows no question asks with an empty object."""
    text: str = line["args_raw"] if "args_raw" in line else json.dumps(line.get("args", {}))
    return text.encode("utf-8", "surrogatepass")


def _compare(line: Line, status: int, headers: Any, text: bytes) -> None:
    want = dict(line["want"])
    assert status == want.pop("http_status"), text
    answer: Any = json.loads(text) if text else None
    if want.get("retry_after"):
        assert int(headers["Retry-After"]) > 0
    if status == 405:
        assert headers["Allow"] == "POST"
    if status != 200:
        assert headers["Content-Type"] == "application/problem+json"
        assert answer is None or answer["status"] == status  # to HEAD without a body
        return
    assert headers["Content-Type"].startswith("application/json")
    if "scores" in want:
        assert answer == want["scores"]
    if want.get("integers_only"):
        assert len(re.findall(rb'"Score":\d+[,}]', text)) == text.count(b'"Score"') == len(answer)
    if line["verb"] == "filter":
        _compare_filter(answer, want, line)
    elif line["verb"] == "preempt":
        assert isinstance(answer["NodeNameToMetaVictims"], dict)
    compare(answer if isinstance(answer, dict) else {}, {key: want[key] for key in want if key not in MARKERS})


def _compare_filter(answer: JsonObject, want: Line, line: Line) -> None:
    """Take out of *want* what is said about an answer rather than in it."""
    assert isinstance(answer["FailedNodes"], dict)
    assert isinstance(answer["FailedAndUnresolvableNodes"], dict)
    assert isinstance(answer["Error"], str)
    if answer["Nodes"] is None:
        assert isinstance(answer["NodeNames"], list)
    else:
        assert isinstance(answer["Nodes"]["items"], list)
    messages = {*answer["FailedNodes"].values(), *answer["FailedAndUnresolvableNodes"].values()}
    if "distinct_messages" in want:
        expected = want["distinct_messages"]
        assert (len(messages) if isinstance(expected, int) else sorted(messages)) == expected
    if want.pop("Error_nonempty", False):
        assert answer["Error"]
    if "NodeNames_count" in want:
        assert len(answer["NodeNames"]) == want.pop("NodeNames_count")
    if "NodeNames_first" in want:
        first = want.pop("NodeNames_first")
        expected = first if isinstance(first, list) else [first]
        assert answer["NodeNames"][: len(expected)] == expected
    if "Nodes_items_equal" in want:
        names = want.pop("Nodes_items_equal")
        items = member(json.loads(_body(line)), "Nodes")["items"]
        sent = {item["metadata"]["name"]: item for item in reversed(items)}  # of two of one name the first counts
        passed = [item["metadata"]["name"] for item in answer["Nodes"]["items"]]
        assert answer["Nodes"]["items"] == [sent[name] for name in passed]
        if isinstance(names, list):
            assert answer["Nodes"]["items"] == [sent[name] if isinstance(name, str) else name for name in names]


@dataclass(frozen=True)
class Running:
    """A server with a fleet behind it, and a client that trusts it."""

    server: Server
    store: EmbeddedStore
    extender: HubExtender
    session: aiohttp.ClientSession

    def url(self, verb: str) -> str:
        return f"{self.server.addresses.https_url}/extender/v1/{verb}"


@asynccontextmanager
async def running(fleet: Line, **settings: Any) -> AsyncIterator[Running]:
    """Serve the fleet of a line, to anybody unless *settings* say otherwise."""
    now = parse_time(fleet["now"])
    chosen = {"extender_allow_anonymous": True, **LISTENERS, **settings_of(fleet.get("config") or {}), **settings}
    store = EmbeddedStore.open(None, now=lambda: now)
    await fill(store, fleet)
    cache = Cache(store)
    services = make_services(cache=cache, store=store, settings=ServerSettings(**chosen), now=lambda: now)
    services = replace(services, answers=replace(services.answers, now=utc_now))
    watching = asyncio.create_task(cache.run()) if fleet.get("synced", True) else None
    if watching is not None:
        await cache.wait_synced()
    try:
        async with make_server(services, ServerSettings(**chosen)) as server:
            trust = ssl.create_default_context(cadata=server.certificates.trust_pem.decode())
            async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(ssl=trust)) as session:
                yield Running(server, store, services.extender, session)
    finally:
        if watching is not None:
            watching.cancel()
            await asyncio.wait([watching])
        store.close()


def settings_of(config: Line, within: str = "") -> Line:
    """Return settings by their dotted names, such as ``extender.unknownNodes``.

    What the list of labels that name a cluster is called is left open (serving.md 2.4): whatever ends in labels.
    """
    found: Line = {}
    for name, value in config.items():
        whole = f"{within}{name}"
        if isinstance(value, dict):
            found |= settings_of(value, f"{whole}.")
            continue
        flat = whole.replace("extender.preemption.", "extender.").replace(".", "_")
        field = re.sub(r"(?<=[a-z])([A-Z])", lambda letter: f"_{letter[1].lower()}", flat)
        found["extender_cluster_labels" if re.fullmatch("extender_.*labels", field) else field] = value
    return found


def generated(line: Line) -> Line:
    """Carry out ``fleet.generate``: a healthy member for each node that the call names and the line does not show.

    The format leaves the shape of the rule open. Where it has numbers, the largest is how many members there are, but
    never more than nodes; the nodes stand for them in turn. Nodes that the line does show keep their cluster, which is
    made when it is missing. Where the call names no nodes, they are counted on from the first one wanted.

    Returns:
        The line with all of its fleet, the clock included.
    """
    fleet = {"now": NOW, **(line.get("fleet") or {})}
    if fleet.get("generate") is None:
        return line | {"fleet": fleet}
    args = line.get("args") or {}
    names = _named(args)
    rules = json.dumps([fleet["generate"], args.get("NodeNames") if names is None else None])
    numbers = [int(digits) for digits in re.findall(r"(?<![\w.])\d+(?![\w.])", rules)]
    if names is None:
        want = line["want"]
        first = want.get("NodeNames_first", "node-0")
        names = numbered(
            first[0] if isinstance(first, list) else first,
            want.get("NodeNames_count") or max(numbers, default=1),
        )
        args = {"Pod": POD, **args, "Nodes": None, "NodeNames": names}
    shown = [*(fleet.get("nodes") or []), *((args.get("Nodes") or {}).get("items") or [])]
    there = {node["metadata"]["name"] for node in shown}
    unseen = [name for name in dict.fromkeys(names) if name not in there]
    count = min(max(numbers, default=len(unseen)), len(unseen))
    nodes = [
        {"metadata": {"name": name, "labels": {CLUSTER_LABELS[0]: f"generated-{number % count}"}}}
        for number, name in enumerate(unseen)
    ]
    members = fleet.get("memberClusters") or []
    known = {item["metadata"]["name"] for item in members}
    clusters = dict.fromkeys(filter(None, map(_cluster_of, [*shown, *nodes])))
    made = {
        "memberClusters": [*members, *(_healthy(name, fleet["now"]) for name in clusters if name not in known)],
        "nodes": [*(fleet.get("nodes") or []), *nodes],
    }
    return line | {"args": args, "fleet": fleet | made}


def _named(args: JsonObject) -> Sequence[str] | None:
    """Return the nodes that a call names, None when it leaves that to the rule."""
    if isinstance(args.get("NodeNames"), list):
        return list(args["NodeNames"])
    if isinstance(args.get("Nodes"), dict):
        return [item["metadata"]["name"] for item in args["Nodes"].get("items") or []]
    victims = args.get("NodeNameToMetaVictims") or args.get("NodeNameToVictims")
    return None if victims is None else list(victims)


def numbered(first: str, count: int) -> list[str]:
    """Return *count* names that begin with *first* and count on from the last number in it, digits kept."""
    found = re.search(r"(\d+)\D*$", first)
    if found is None:
        return [first, *(f"{first}-{number}" for number in range(1, count))]
    before, digits, after = first[: found.start(1)], found[1], first[found.end(1) :]
    return [f"{before}{number:0{len(digits)}d}{after}" for number in range(int(digits), int(digits) + count)]


def _cluster_of(node: JsonObject) -> str:
    labels = node["metadata"].get("labels") or {}
    return next((labels[label] for label in CLUSTER_LABELS if labels.get(label)), "")


def _healthy(name: str, now: str) -> JsonObject:
    conditions = [{"type": kind, "status": "True", "lastTransitionTime": now} for kind in ("Joined", "Healthy")]
    agent = {"type": "MemberAgent", "lastReceivedHeartbeat": now, "conditions": conditions}
    return {
        "apiVersion": kinds.MEMBER_CLUSTER.api_version,
        "kind": kinds.MEMBER_CLUSTER.kind,
        "metadata": {"name": name},
        "spec": {"identity": {"kind": "User", "name": name}},
        "status": {"agentStatus": [agent]},
    }


async def fill(store: EmbeddedStore, fleet: Line) -> None:
    """Write what a line says is in the caches."""
    placements = [_typed(item) for item in fleet.get("placements") or []]
    for namespace in {item["metadata"]["namespace"] for item in placements if "namespace" in item["metadata"]}:
        await store.create(NAMESPACE, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}})
    for item in fleet.get("memberClusters") or []:
        kind = kinds.MEMBER_CLUSTER
        await write(store, kind, {"apiVersion": kind.api_version, "kind": kind.kind, **item})
    for item in fleet.get("nodes") or []:
        await write(store, kinds.NODE, {"apiVersion": "v1", "kind": "Node", **item})
    for item in fleet.get("nodePools") or []:
        await write(store, kinds.NODE_POOL, {"apiVersion": "karpenter.sh/v1", "kind": "NodePool", **item})
    for item in placements:
        await write(store, KINDS[group_kind(item)], item)
    for name, clusters in (fleet.get("decisions") or {}).items():
        namespace, _, placement = _whole_name(name, placements).rpartition("/")
        kind = kinds.NAMESPACED_BINDING if namespace else kinds.BINDING
        for cluster in clusters:
            await write(store, kind, _binding(kind, placement, namespace, cluster))
    if updating := fleet.get("clustersBeingUpdated"):
        await write(store, kinds.UPGRADE_RUN, _run(updating))


def _typed(placement: JsonObject) -> JsonObject:
    kind = kinds.RESOURCE_PLACEMENT if "namespace" in placement["metadata"] else kinds.PLACEMENT
    return {"apiVersion": kind.api_version, "kind": kind.kind, **placement}


def _whole_name(name: str, placements: Sequence[JsonObject]) -> str:
    """Return the name of a placement with its namespace, also where only a namespaced one can be meant."""
    same = [item["metadata"] for item in placements if item["metadata"]["name"] == name]
    namespaces = [metadata.get("namespace", "") for metadata in same]
    return f"{namespaces[0]}/{name}" if len(namespaces) == 1 and namespaces[0] else name


async def write(store: EmbeddedStore, kind: Kind, document: JsonObject) -> None:
    """Create an object with its status, and delete it when it carries a deletion mark: a finalizer holds it."""
    metadata = {key: value for key, value in document["metadata"].items() if key != "deletionTimestamp"}
    deleting = "deletionTimestamp" in document["metadata"]
    if deleting:
        metadata["finalizers"] = metadata.get("finalizers") or ["example.com/hold"]
    created = await store.create(kind, {**document, "metadata": metadata})
    if "status" in document and kind.has_status:
        await store.replace_status(kind, {**created, "status": document["status"]})
    if deleting:
        await store.delete(kind, key_of(created))


def _binding(kind: Kind, placement: str, namespace: str, cluster: str) -> JsonObject:
    metadata = {"name": f"{placement}-{cluster}", "labels": {PARENT_PLACEMENT: placement}}
    if namespace:
        metadata["namespace"] = namespace
    spec = {"state": BindingState.BOUND, "targetCluster": cluster}
    return {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": metadata, "spec": spec}


def _run(updating: list[str]) -> JsonObject:
    members = [{"name": name, "state": "Running"} for name in updating]
    group = {"name": "all", "state": "Running", "members": members}
    stages = [{"name": "all", "state": "Running", "groups": [group]}]
    kind = kinds.UPGRADE_RUN
    return {
        "apiVersion": kind.api_version,
        "kind": kind.kind,
        "metadata": {"name": "run"},
        "spec": {},
        "status": {"state": "Running", "stages": stages},
    }
