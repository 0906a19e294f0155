"""A small server with the page's files, their headers and the API shapes the page reads.

It answers from documents a test can change while the page is open: edge cases (1,000 clusters, errors,
names of 63 characters, no members at all) are then one assignment away. Run it by hand to look at the page:
``python tests/webhook/page/fixture_hub.py 8080``.
"""

import asyncio
import copy
import json
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from aiohttp import web

from scorer.api.node_pool import Budget
from scorer.node_budgets.budgets import NodeCounts
from scorer.node_budgets.documents import BudgetedPool, CalendarMaker, overview
from scorer.staged_update.undo import UndoRecord
from tests.loopback import on_loopback
from tests.webhook.page.fixture_clock import HTTP_DATE, NOW
from tests.webhook.page.fixture_objects import made_object, tree_on
from tests.webhook.page.fixture_runs import rolling, sample_runs
from webhook.answers.update_runs import run_detail, run_view, with_undo
from webhook.endpoints.http.query_parameters import page_of
from webhook.endpoints.http.responses import tagged
from webhook.history.entry import EntryType, read_entry
from webhook.history.query import Query, find, parse_place, words_of

PAGE = Path(__file__).parents[3] / "webhook" / "page"
CSP = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
NODE_COUNT = "kubernetes-fleet.io/node-count"
CORE_COST = "kubernetes.azure.com/per-cpu-core-cost"
TYPES = {
    ".html": "text/html",
    ".js": "text/javascript",
    ".css": "text/css",
    ".svg": "image/svg+xml",
    ".json": "application/json",
}

Json = dict[str, Any]


def ago(seconds: float) -> str:
    """Return the RFC 3339 time some seconds before `NOW`."""
    return (NOW - timedelta(seconds=seconds)).strftime("%Y-%m-%dT%H:%M:%SZ")


def make_cluster(
    name: str,
    region: str = "eastus",
    *,
    nodes: int | None = 10,
    cpu: tuple[int, int] | None = (30, 40),
    memory: tuple[int, int] | None = (112, 160),
    cost: str | None = "0.029",
    labels: Json | None = None,
    taints: tuple[str, ...] = (),
    state: str = "eligible",
    detail: str = "",
    reason: str = "",
    heartbeat: float | None = 23,
) -> Json:
    """Return one item of ``GET /v1/clusters``."""

    def free(amounts: tuple[int, int] | None, unit: str) -> Json | None:
        if amounts is None:
            return None
        return {
            "available": f"{amounts[0]}{unit}",
            "allocatable": f"{amounts[1]}{unit}",
            "ratio": round(amounts[0] / amounts[1], 4),
        }

    properties = {}
    if nodes is not None:
        properties[NODE_COUNT] = {"value": str(nodes), "observedAt": ago(41)}
    if cost is not None:
        properties[CORE_COST] = {"value": cost, "observedAt": ago(41)}
    return {
        "name": name,
        "state": state,
        "stateDetail": detail,
        "eligible": state == "eligible",
        "reason": reason,
        "labels": ({"region": region} if region else {}) | (labels or {}),
        "taints": [{"key": key, "value": "", "effect": "NoSchedule"} for key in taints],
        "lastHeartbeat": None if heartbeat is None else ago(heartbeat),
        "properties": properties,
        "nodes": nodes,
        "cpu": free(cpu, ""),
        "memory": free(memory, "Gi"),
        "placements": [],
    }


def sample_clusters() -> list[Json]:
    """Return twelve members in four regions: one leaving, one silent, one not joined, one tainted."""
    prod1, prod2 = {"env": "prod", "tier": "1"}, {"env": "prod", "tier": "2"}
    return [
        make_cluster("bravelion", "eastus", nodes=100, cpu=(248, 400), memory=(880, 1600), cost="0.048", labels=prod1),
        make_cluster("busybee", "westus", nodes=4, cpu=(3, 16), memory=(11, 64), cost="0.035", labels=prod2),
        make_cluster(
            "calmheron", "northeurope", nodes=43, cpu=(90, 172), memory=(410, 688), cost="0.041", labels=prod1
        ),
        make_cluster(
            "dryduck",
            "eastus",
            nodes=30,
            cpu=(110, 120),
            memory=(460, 480),
            cost="0.033",
            labels=prod2,
            taints=("maintenance",),
        ),
        make_cluster("gladgull", "japaneast", nodes=12, cpu=(20, 48), memory=(70, 192), cost="0.061", labels=prod2),
        make_cluster("jumpingcat", "northeurope", nodes=10, labels={"env": "staging"}),
        make_cluster(
            "newnewt",
            "westus",
            nodes=None,
            cpu=None,
            memory=None,
            cost=None,
            labels={"env": "dev"},
            state="not joined",
            detail="waiting for its agent",
            reason="AgentNotJoined",
            heartbeat=None,
        ),
        make_cluster(
            "oldwhale",
            "japaneast",
            nodes=8,
            cpu=(16, 32),
            memory=(58, 128),
            cost="0.076",
            labels={"env": "prod"},
            state="silent",
            detail="no heartbeat for 14m",
            reason="HeartbeatStale",
            heartbeat=843,
        ),
        make_cluster("quickfox", "westus", nodes=25, cpu=(44, 100), memory=(210, 400), cost="0.044", labels=prod2),
        make_cluster(
            "slowtortoise",
            "eastus",
            nodes=3,
            cpu=(1, 12),
            memory=(9, 48),
            cost="0.052",
            labels={"env": "dev"},
            state="leaving",
            detail="2 works left",
            reason="ClusterLeaving",
        ),
        make_cluster("smartfish", "westus", nodes=20, cpu=(25, 80), memory=(128, 320), cost="0.031", labels=prod2),
        make_cluster("tallcrane", "japaneast", nodes=16, cpu=(33, 64), memory=(120, 256), cost="0.058", labels=prod1),
    ]


def placement_item(
    ref: str,
    kind: str,
    states: dict[str, str],
    *,
    wanted: int | None = None,
    state: str = "available",
    why: str = "",
    details: Json | None = None,
    decided: float = 41,
    old: Sequence[str] = (),
    stalled: float | None = None,
    judged_again: bool = False,
    labels: Json | None = None,
) -> Json:
    """Return one item of ``GET /v1/placements``; *states* maps the picked clusters to their rollout state."""
    scope, *rest = ref.split("/")
    return {
        "ref": ref,
        "kind": {"crp": "ClusterResourcePlacement", "rp": "ResourcePlacement"}[scope],
        "namespace": rest[0] if scope == "rp" else "",
        "name": rest[-1],
        "type": kind,
        "wanted": wanted,
        "picked": len(states),
        "available": sum(one == "available" for one in states.values()),
        "availableOld": len(old),
        "satisfied": (wanted is None or len(states) >= wanted) and state not in ("failed", "stalled"),
        "judgedAgain": judged_again,
        "stalledSince": None if stalled is None else ago(stalled),
        "state": state,
        "why": why,
        "generation": 2,
        "labels": labels or {},
        "clusters": [
            {
                "cluster": name,
                "state": one,
                "detail": (details or {}).get(name, ""),
                "serves": "new" if one == "available" else "old" if name in old else "",
            }
            for name, one in states.items()
        ],
        "conditions": [
            {
                "type": f"{'Cluster' if scope == 'crp' else ''}ResourcePlacementScheduled",
                "status": "True",
                "reason": "SchedulingPolicyFulfilled",
                "message": f"found all {len(states)} clusters",
                "lastTransitionTime": ago(decided),
            },
        ],
        "advisories": [],
        "removalPendingSince": None,
        "decidedAt": ago(decided),
    }


def sample_placements() -> list[Json]:
    """Return nine placements in every state the page knows."""
    up, busy = "available", "applying"
    return [
        placement_item(
            "crp/audit",
            "PickAll",
            {
                "bravelion": up,
                "calmheron": up,
                "gladgull": up,
                "jumpingcat": up,
                "quickfox": up,
                "smartfish": up,
                "tallcrane": up,
            },
            decided=5400,
        ),
        placement_item(
            "rp/shop/cart",
            "PickN",
            {"smartfish": up, "quickfox": busy},
            wanted=2,
            state="rolling out",
            details={"quickfox": "Deployment shop/cart: 1 of 3 replicas available"},
            decided=12,
        ),
        placement_item(
            "crp/edge-cache",
            "PickN",
            {"calmheron": up, "bravelion": up, "tallcrane": busy, "jumpingcat": "waiting"},
            wanted=4,
            state="rolling out",
            decided=95,
            details={"tallcrane": "2 of 5 resources applied", "jumpingcat": "waits for tallcrane (maxUnavailable 1)"},
        ),
        placement_item(
            "crp/gpu-batch",
            "PickN",
            {"bravelion": up},
            wanted=3,
            state="short",
            why="1 of 3 found: of 11 others 10 have no label gpu=a100, 1 is leaving.",
            decided=620,
        ),
        placement_item(
            "crp/ledger",
            "PickFixed",
            {"bravelion": up, "gladgull": up},
            wanted=3,
            state="short",
            why="dover is not a member of the fleet.",
            decided=3000,
        ),
        placement_item(
            "crp/network-policies",
            "PickAll",
            {"bravelion": up, "smartfish": "failed"},
            state="failed",
            why="On smartfish the Deployment web/front did not become available within 5m.",
            details={"smartfish": "Deployment web/front: ImagePullBackOff"},
            decided=340,
        ),
        placement_item(
            "crp/payments", "PickN", {"bravelion": up, "smartfish": up, "calmheron": up}, wanted=3, decided=41
        ),
        placement_item(
            "crp/probe", "PickN", {}, wanted=1, state="pending", why="Waiting for its first decision.", decided=1
        ),
        placement_item("crp/telemetry", "PickAll", {"bravelion": up, "calmheron": up, "tallcrane": up}, decided=86000),
    ]


class Question:
    """What a sample placement asks of the scheduler; enough of it to write explanations whose sums are right."""

    def __init__(
        self,
        sorters: tuple[tuple[str, str, int], ...] = (),
        *,
        env: str | None = None,
        min_nodes: int = 0,
        bonus: tuple[str, int] | None = None,
        spread: bool = False,
        names: tuple[str, ...] | None = None,
    ) -> None:
        self.sorters, self.env, self.min_nodes, self.bonus, self.spread = sorters, env, min_nodes, bonus, spread
        self.names = names


QUESTIONS = {
    "crp/payments": Question(((NODE_COUNT, "Descending", 50), (CORE_COST, "Ascending", 50)), env="prod", min_nodes=5),
    "rp/shop/cart": Question(((CORE_COST, "Ascending", 80),), env="prod"),
    "crp/edge-cache": Question(
        ((CORE_COST, "Ascending", 60), (NODE_COUNT, "Descending", -40)), bonus=("1", 20), spread=True
    ),
    "crp/gpu-batch": Question(((NODE_COUNT, "Descending", 100),), env="gpu"),
    "crp/ledger": Question(names=("bravelion", "gladgull", "dover")),
}


def _round(value: float) -> int:
    return int(abs(value) + 0.5) * (1 if value >= 0 else -1)


Reading = tuple[float, Json]


def _ranges(question: Question, fleet: list[Json]) -> list[tuple[Reading, Reading]]:
    """Return per sorter the lowest and the highest reading, each with its cluster."""
    ranges = []
    for name, _, _ in question.sorters:
        readings = [(float(c["properties"][name]["value"]), c) for c in fleet if name in c["properties"]]
        ranges.append((min(readings, key=lambda r: r[0]), max(readings, key=lambda r: r[0])))
    return ranges


def _terms(question: Question, cluster: Json, ranges: list[tuple[Reading, Reading]]) -> list[Json]:
    terms: list[Json] = []
    for index, (name, order, weight) in enumerate(question.sorters):
        low, high = ranges[index]
        own = cluster["properties"].get(name)
        ratio = 0.0
        if own and high[0] > low[0]:
            ratio = (float(own["value"]) - low[0]) / (high[0] - low[0])
            ratio = ratio if order == "Descending" else 1 - ratio

        def limit(reading: Reading, name: str = name) -> Json:
            found: Json = {"value": reading[1]["properties"][name]["value"], "cluster": reading[1]["name"]}
            return found if reading[1]["eligible"] else found | {"eligible": False}

        raw = ratio * weight if own else 0.0
        terms.append(
            {
                "index": index,
                "weight": weight,
                "labels": {"pass": True},
                "sorter": {
                    "name": name,
                    "order": order,
                    "observed": own["value"] if own else None,
                    "age": "41s" if own else None,
                    "min": limit(low),
                    "max": limit(high),
                    "ratio": round(ratio, 6),
                    "raw": round(raw, 6),
                    "points": _round(raw),
                },
            }
        )
    if question.bonus:
        tier, weight = question.bonus
        match = cluster["labels"].get("tier") == tier
        terms.append(
            {"index": len(terms), "weight": weight, "labels": {"pass": match}, "points": weight if match else 0}
        )
    return terms


def _filters(question: Question, cluster: Json) -> tuple[list[Json], str, str]:
    """Return the checks, and category and words of the first that fails."""
    checks: list[Json] = []
    verdict = words = ""
    terms: list[Json] = []
    if question.env:
        match = cluster["labels"].get("env") == question.env
        nodes = cluster["nodes"]
        enough = nodes is not None and nodes >= question.min_nodes
        properties = (
            [
                {
                    "name": NODE_COUNT,
                    "op": "Ge",
                    "want": str(question.min_nodes),
                    "observed": None if nodes is None else str(nodes),
                    "age": "41s",
                    "pass": enough,
                }
            ]
            if question.min_nodes
            else []
        )
        passed = match and enough
        terms = [{"index": 0, "match": passed, "labels": {"pass": match}, "properties": properties}]
        checks.append({"name": "affinity", "pass": passed, "terms": terms})
        if not match:
            verdict, words = (
                "AffinityMismatch",
                f"label env is {cluster['labels'].get('env', 'absent')}, wanted {question.env}",
            )
        elif not enough:
            verdict, words = "AffinityMismatch", f"node-count {nodes}, wanted ≥ {question.min_nodes}"
    if not verdict:
        checks.append(
            {
                "name": "eligibility",
                "pass": cluster["eligible"],
                "heartbeatAge": "23s" if cluster["lastHeartbeat"] else None,
            }
        )
        verdict = cluster["reason"]
        words = {
            "HeartbeatStale": "last heartbeat 14m 3s ago, limit 5m",
            "ClusterLeaving": "it is leaving the fleet",
        }.get(verdict, "its agent has not joined")
    if not verdict:
        untolerated = [t["key"] for t in cluster["taints"]]
        checks.append({"name": "taints", "pass": not untolerated})
        if untolerated:
            verdict, words = "TaintNotTolerated", f"taint {untolerated[0]}:NoSchedule is not tolerated"
    return checks, verdict, words if verdict else ""


def explain(placement: Json, fleet: list[Json], kept: tuple[str, ...] = ("calmheron",)) -> Json:
    """Return the answer of ``POST /v1/explain`` for a sample placement."""
    question = QUESTIONS.get(placement["ref"], Question())
    scored = placement["type"] == "PickN"
    running = [c["cluster"] for c in placement["clusters"]]
    ranges = _ranges(question, fleet)
    items: list[Json] = []
    for cluster in fleet:
        checks, verdict, words = _filters(question, cluster)
        name = cluster["name"]
        if question.names is not None and name not in question.names:
            continue
        item: Json = {
            "cluster": name,
            "verdict": verdict or "Picked",
            "filters": checks,
            "summary": "",
            "reason": "",
            "help": "",
        }
        if name in running:
            item["verdict"] = "Kept" if name in kept else "Picked"
        elif not verdict and scored:
            item["verdict"] = "ScoreTooLow"
        if scored and (not verdict or name in running):
            terms = _terms(question, cluster, ranges)
            points = sum(t.get("points", t.get("sorter", {}).get("points", 0)) for t in terms)
            change = -1 if cluster["labels"].get("region") == "westus" else 0
            topology: Json = {"score": change, "constraints": []}
            if question.spread:
                topology["constraints"] = [
                    {
                        "key": "region",
                        "domain": cluster["labels"].get("region"),
                        "skew": 1,
                        "change": change,
                        "counts": {"eastus": 1, "northeurope": 1, "japaneast": 1, "westus": 0},
                        "maxSkew": 1,
                        "points": change,
                    }
                ]
            else:
                topology["score"] = 0
            item |= {"topology": topology, "affinity": {"score": points, "terms": terms}, "tieBonus": False, "batch": 1}
            item["summary"] = (
                f"Scheduled to {name}, affinity score {points}, topology spread score {topology['score']}."
            )
        if item["verdict"] in ("Picked", "Kept"):
            item["summary"] = item["summary"] or f"{name} passes every check."
        else:
            item["reason"] = f"{item['verdict']}: {words or 'did not score high enough'}"
            item["summary"] = f"{name} is not picked: {words or 'it did not score high enough'}."
        items.append(item)
    items.extend(
        {
            "cluster": name,
            "verdict": "TargetNotFound",
            "filters": [],
            "reason": "TargetNotFound: no member of the fleet has this name",
            "summary": f"{name} is not a member.",
            "help": "would be picked once a MemberCluster of this name joins",
        }
        for name in question.names or ()
        if name not in {c["name"] for c in fleet}
    )

    def key(item: Json) -> tuple[int, int]:
        return (item["topology"]["score"], item["affinity"]["score"]) if "affinity" in item else (0, 0)

    picked = sorted((i for i in items if i["verdict"] in ("Picked", "Kept")), key=key, reverse=True)
    losers = sorted((i for i in items if i["verdict"] == "ScoreTooLow"), key=key, reverse=True)
    ranked = ("Picked", "Kept", "ScoreTooLow")
    others = sorted((i for i in items if i["verdict"] not in ranked), key=lambda i: i["cluster"])
    for rank, item in enumerate([*picked, *losers], start=1):
        item["rank"] = rank
    for item in losers if picked else []:
        (spread, points), (last_spread, last_points) = key(item), key(picked[-1])
        by = "topology" if spread != last_spread else "affinity" if points != last_points else "name"
        difference = spread - last_spread if by == "topology" else points - last_points
        item["gap"] = {"toLastPicked": picked[-1]["cluster"], "decidedBy": by, "difference": difference}
        if item is losers[0] and by == "affinity" and difference < 0:
            nodes = next(each["nodes"] for each in fleet if each["name"] == item["cluster"])
            item["help"] = f"would be picked with {NODE_COUNT} ≥ {nodes - 2 * difference}"
    return {
        "fleetRevision": "12",
        "policyHash": "sha256:5f0c",
        "evaluatedAt": ago(0),
        "wanted": placement["wanted"],
        "found": placement["picked"],
        "items": [*picked, *losers, *others],
    }


def make_pool(name: str, *budgets: Json, total: int = 40, deleting: int = 1, not_ready: int = 0) -> BudgetedPool:
    """Return a node pool; *budgets* as they stand in its spec."""
    return BudgetedPool(name, tuple(map(Budget.read, budgets)), NodeCounts(total, deleting, not_ready))


def sample_pools() -> list[BudgetedPool]:
    """Return one pool in which the reasons differ, one that never opens, and one without a limit outside windows."""
    working_hours = {"schedule": "0 9 * * 1-5", "duration": "8h"}
    return [
        make_pool(
            "general",
            {"nodes": "10%"},
            {"nodes": "0", "reasons": ["Underutilized"]},
            {"nodes": "0", "reasons": ["Drifted"], **working_hours},
            {"nodes": "2", "reasons": ["Empty"], **working_hours},
        ),
        make_pool(
            "seed-weekends",
            {"nodes": "50%", "schedule": "0 0 * * 6", "duration": "48h"},
            {"nodes": "0"},
            total=12,
            deleting=0,
        ),
        make_pool(
            "windows-only",
            {"nodes": "0", **working_hours},
            {"nodes": "0", "schedule": "@daily", "duration": "10m"},
            {"nodes": "12", "reasons": ["Empty"]},
            total=120,
            deleting=0,
            not_ready=3,
        ),
    ]


class FixtureHub:
    """The documents behind the API, changeable while the page is open; :meth:`publish` tells the page."""

    def __init__(self) -> None:
        self.clusters = sample_clusters()
        self.placements = sample_placements()
        self.pools: list[BudgetedPool] = []
        self.runs: list[Json] = []
        self.log: list[Json] = []
        """Entries of the history."""
        self.series: list[Json] = []
        """The last day of each property of every cluster."""
        self.facts: dict[str, str] = {}
        """What the server writes into the page about itself."""
        self.revision = 8841
        self.failing: dict[str, int] = {}
        self.in_full: Json = {}
        """What the answer about a placement says besides."""
        self.clusters_in_full: Json = {}
        """What the answers about single clusters say besides, by name."""
        self.plan: Json = {}
        """The answer of ``POST /v1/plan``."""
        self.trees: dict[str, Json] = {}
        """The answers about the objects on clusters, by cluster. Others have one object that is available."""
        self.release: Json = {}
        """The answer of ``POST /v1/render``."""
        self.explanations: dict[str, Json] = {}
        self.asked: list[str] = []
        self.streams: set[asyncio.Queue[Json | None]] = set()
        self.count_placements()

    def count_placements(self) -> None:
        """Write into every cluster which placements it holds."""
        for cluster in self.clusters:
            cluster["placements"] = [
                p["name"] for p in self.placements if cluster["name"] in {c["cluster"] for c in p["clusters"]}
            ]

    def placement(self, ref: str) -> Json:
        """Return a placement by its ref, to be changed in place."""
        return next(p for p in self.placements if p["ref"] == ref)

    def publish(self, *refs: str, clusters: bool = False, names: Sequence[str] = (), runs: bool = False) -> None:
        """Send a ``change`` event to every open page; of *names*, or of any clusters."""
        self.revision += 1
        change: Json = {"revision": self.revision, "clusters": clusters or bool(names), "placements": list(refs)}
        change |= {"runs": runs or bool(refs)} | ({"clusterNames": list(names)} if names else {})
        for queue in self.streams:
            queue.put_nowait(change)

    def hang_up(self) -> None:
        """End every event stream, as a server that goes away does."""
        for queue in self.streams:
            queue.put_nowait(None)

    def clusters_document(self) -> Json:
        """Return what ``GET /v1/clusters`` answers now."""
        return {"items": self.clusters, "continue": ""}

    def explanation(self, ref: str) -> Json:
        """Return what ``POST /v1/explain`` answers now for a placement."""
        return self.explanations.get(ref) or explain(self.placement(ref), self.clusters)

    def make_app(self) -> web.Application:
        """Return the application: files, API and events."""
        app = web.Application(middlewares=[self._headers])
        app.on_response_prepare.append(self._date)
        app.router.add_get("/", self._file)
        app.router.add_get("/ui/{name}", self._file)
        app.router.add_get("/v1/clusters", self._clusters)
        app.router.add_get("/v1/clusters/{name}", self._cluster)
        app.router.add_get("/v1/clusters/{name}/history", self._history)
        app.router.add_get("/v1/history", self._log)
        app.router.add_get("/v1/placements", self._placements)
        app.router.add_get("/v1/placements/{ref:.+}/tree/{cluster}", self._tree)
        app.router.add_get("/v1/placements/{ref:.+}", self._placement)
        app.router.add_get("/v1/runs", self._runs)
        app.router.add_get("/v1/runs/{ref:.+}", self._run)
        app.router.add_post("/v1/explain", self._explain)
        app.router.add_post("/v1/plan", self._plan)
        app.router.add_post("/v1/render", self._render)
        app.router.add_get("/v1/events", self._events)
        app.router.add_get("/v1/budgets", self._budgets)
        app.router.add_get("/v1/budgets/calendar", self._calendar)
        return app

    @staticmethod
    async def _date(_: web.Request, response: web.StreamResponse) -> None:
        response.headers["Date"] = HTTP_DATE

    @web.middleware
    async def _headers(self, request: web.Request, handler: Any) -> web.StreamResponse:
        self.asked.append(f"{request.method} {request.path}")
        status = self.failing.get(request.path)
        if status is not None:
            is_denied = status == 403
            body = {
                "type": f"urn:harbormaster:problem:{'forbidden' if is_denied else 'not-ready'}",
                "title": "Forbidden" if is_denied else "Not ready",
                "status": status,
                "detail": f'"ann" may not get {request.path}' if is_denied else "the cache has not synced yet",
                "instance": "urn:uuid:6f1c",
            }
            return web.json_response(body, status=status, content_type="application/problem+json")
        response: web.StreamResponse = await handler(request)
        if not response.prepared:
            response.headers["Content-Security-Policy"] = CSP
            response.headers["X-Content-Type-Options"] = "nosniff"
        return response

    async def _file(self, request: web.Request) -> web.Response:
        path = PAGE / request.match_info.get("name", "index.html")
        if path.suffix not in TYPES or not path.is_file():
            raise web.HTTPNotFound
        text = path.read_text(encoding="utf-8")
        for name, content in self.facts.items():
            text = text.replace(f'<meta name="{name}" content="">', f'<meta name="{name}" content="{content}">')
        file = web.Response(text=text, content_type=TYPES[path.suffix], charset="utf-8")
        file.enable_compression()
        return file

    async def _clusters(self, request: web.Request) -> web.Response:
        return self._part(request, {one["name"]: one for one in self.clusters}, "name")

    @staticmethod
    def _part(request: web.Request, items: Json, by: str) -> web.Response:
        page = page_of(request, sorted(items), by)
        return tagged(request, {"items": [items[name] for name in page.names], "continue": page.next})

    async def _history(self, request: web.Request) -> web.Response:
        return web.json_response(
            {"cluster": request.match_info["name"], "from": ago(95 * 900), "stepSeconds": 900, "series": self.series}
        )

    async def _log(self, request: web.Request) -> web.Response:
        asked = request.query
        query = Query(
            types=frozenset(EntryType(one.capitalize()) for one in asked.getall("type", [])),
            **{name: asked.get(name, "") for name in ("kind", "namespace", "name", "reason", "by", "id")},
            words=words_of(asked.get("q", "")),
            after=parse_place(asked["continue"]) if asked.get("continue") else None,
            limit=int(asked.get("limit", "200")),
        )
        entries = [entry for entry in map(read_entry, map(json.dumps, self.log)) if entry is not None]
        page = find((), entries, query)
        return web.json_response({**page.document(), "kept": True, "continue": page.token})

    async def _cluster(self, request: web.Request) -> web.Response:
        name = request.match_info["name"]
        found = next((each for each in self.clusters if each["name"] == name), None)
        if found is None:
            return web.json_response({"title": "Not found", "status": 404, "detail": "no such cluster"}, status=404)
        return web.json_response(found | self.clusters_in_full.get(name, {}))

    async def _placements(self, request: web.Request) -> web.Response:
        return self._part(request, {one["ref"]: one for one in self.placements}, "ref")

    async def _placement(self, request: web.Request) -> web.Response:
        ref = request.match_info["ref"]
        found = [p for p in self.placements if p["ref"] == ref.removesuffix("/object")]
        if not found:
            return web.json_response({"title": "Not found", "status": 404, "detail": "no such placement"}, status=404)
        if ref.endswith("/object"):
            policy = {"placementType": found[0]["type"], "numberOfClusters": found[0]["wanted"]}
            return web.json_response({"kind": found[0]["kind"], "spec": {"policy": policy}})
        item = copy.deepcopy(found[0])
        item["selectedResources"] = [
            {"group": "", "version": "v1", "kind": "Namespace", "name": "payments"},
            {"group": "apps", "version": "v1", "kind": "Deployment", "namespace": "payments", "name": "api"},
        ]
        item.setdefault("removals", [])
        item |= {"resourceIndex": "4", "overrides": 2}
        item["strategy"] = {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": "25%", "maxSurge": 1}}
        item["timeline"] = rolling(item["clusters"])
        return web.json_response(item | self.in_full)

    async def _runs(self, _: web.Request) -> web.Response:
        views = [(UndoRecord.of(run), run_view(run, NOW)) for run in self.runs]
        return web.json_response({"items": with_undo(views, lambda _: {0})})

    async def _run(self, request: web.Request) -> web.Response:
        found = [run for run in self.runs if run_view(run, NOW)["ref"] == request.match_info["ref"]]
        if not found:
            return web.json_response({"title": "Not found", "status": 404, "detail": "no such run"}, status=404)
        return web.json_response(run_detail(found[0], NOW))

    async def _explain(self, request: web.Request) -> web.Response:
        ref = (await request.json())["placement"]["ref"]
        scope = "crp" if ref["kind"] == "ClusterResourcePlacement" else f"rp/{ref['namespace']}"
        named = f"{scope}/{ref['name']}"
        if named not in {p["ref"] for p in self.placements}:
            return web.json_response({"title": "Not found", "status": 404, "detail": "no such placement"}, status=404)
        return web.json_response(self.explanation(named))

    async def _plan(self, _: web.Request) -> web.Response:
        return web.json_response(self.plan)

    async def _tree(self, request: web.Request) -> web.Response:
        cluster = request.match_info["cluster"]
        return tagged(request, self.trees.get(cluster) or tree_on(cluster, [made_object("Namespace", "shop")]))

    async def _render(self, _: web.Request) -> web.Response:
        return web.json_response(self.release)

    async def _budgets(self, _: web.Request) -> web.Response:
        return web.json_response(overview(self.pools, NOW))

    async def _calendar(self, request: web.Request) -> web.Response:
        wanted = request.query.getall("pool")
        maker = CalendarMaker(len(wanted), datetime.fromisoformat(request.query["from"]), int(request.query["days"]))
        for name in wanted:
            maker.add(next(pool for pool in self.pools if pool.name == name))
        return web.json_response(maker.document())

    async def _events(self, request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream", "Cache-Control": "no-store"})
        await response.prepare(request)
        queue: asyncio.Queue[Json | None] = asyncio.Queue()
        refs = [p["ref"] for p in self.placements]
        everything = {"revision": self.revision, "clusters": True, "placements": refs, "runs": True}
        queue.put_nowait(everything)
        self.streams.add(queue)
        try:
            while (change := await queue.get()) is not None:
                await response.write(f"event: change\ndata: {json.dumps(change)}\n\n".encode())
        except ConnectionResetError:
            pass
        finally:
            self.streams.discard(queue)
        return response


def fill(hub: FixtureHub, clusters: list[Json], placements: list[Json]) -> None:
    hub.clusters, hub.placements = clusters, placements
    hub.count_placements()


def thousand() -> list[Json]:
    """A fleet of 1,000: number 500 is silent, number 800 tainted."""
    clusters = [
        make_cluster(
            f"member-{i:04}", f"region-{i % 12}", nodes=3 + i % 90, cost=f"0.0{20 + i % 60}", labels={"env": "prod"}
        )
        for i in range(1000)
    ]
    clusters[500] |= {
        "state": "silent",
        "stateDetail": "no heartbeat for 20m",
        "eligible": False,
        "reason": "HeartbeatStale",
    }
    clusters[800]["taints"] = [{"key": "dry-dock", "value": "", "effect": "NoSchedule"}]
    return clusters


def many(hub: FixtureHub) -> None:
    payments = placement_item("crp/payments", "PickN", {f"member-{i:04}": "available" for i in range(40)}, wanted=40)
    applying = {f"member-{i:04}": "applying" for i in range(900)}
    fill(hub, thousand(), [payments, placement_item("crp/all", "PickAll", applying, state="rolling out")])


ENTRY = {
    "time": "2026-11-23T10:00:00Z",
    "type": "Refusal",
    "object": {"kind": "ClusterResourcePlacement", "name": "web"},
    "reason": "P-25",
    "message": "create: spec.policy.numberOfClusters: must be given",
    "by": "alice",
}
"""A refusal, as the history has it."""


@asynccontextmanager
async def serving(hub: FixtureHub, port: int = 0) -> AsyncIterator[str]:
    """Serve a hub on loopback while the context is open; yields its address."""
    async with on_loopback(hub.make_app(), port=port, shutdown_seconds=0.1) as address:
        try:
            yield address
        finally:
            hub.hang_up()


async def _main(port: int) -> None:
    hub = FixtureHub()
    hub.runs = sample_runs()
    async with serving(hub, port) as address:
        sys.stdout.write(f"{address}\n")
        await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(_main(int(sys.argv[1]) if len(sys.argv) > 1 else 8080))
