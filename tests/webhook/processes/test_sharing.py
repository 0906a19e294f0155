"""Replicas that share the work of the loop: where that can never be, they say so before anything begins."""

import asyncio
import math
from contextlib import asynccontextmanager

import pytest
import yaml
from aiohttp import web

from scorer.api.kinds import NAMESPACE
from scorer.shards import Share
from tests.loopback import on_loopback
from webhook.kube.leader_election.term import Term
from webhook.kube.login.kubeconfig import ConfigurationError
from webhook.processes import reconcile
from webhook.processes.reconcile import Reconcile
from webhook.settings.programs import ReconcileSettings

FORBIDDEN = {
    "kind": "Status",
    "apiVersion": "v1",
    "status": "Failure",
    "reason": "Forbidden",
    "message": 'leases.coordination.k8s.io "harbormaster-reconcile" is forbidden: no RBAC policy matched',
    "code": 403,
}
NOT_FOUND = {**FORBIDDEN, "reason": "NotFound", "message": "not found", "code": 404}


def answering(status, document):
    """A hub that answers everything alike."""

    async def answer(_):
        return (
            web.json_response(document, status=status) if document else web.Response(status=status, text="no such page")
        )

    app = web.Application()
    app.router.add_route("*", "/{rest:.*}", answer)
    return app


@asynccontextmanager
async def beginning(app, folder, **settings):
    """Begin `harbormaster reconcile` on such a hub, up to where it would run."""
    async with on_loopback(app) as url:
        kubeconfig = {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "hub", "cluster": {"server": str(url)}}],
            "users": [{"name": "me", "user": {"token": "t"}}],
            "contexts": [{"name": "hub", "context": {"cluster": "hub", "user": "me"}}],
            "current-context": "hub",
        }
        path = folder / "hub.kubeconfig"
        path.write_text(yaml.safe_dump(kubeconfig), encoding="utf-8")
        async with Reconcile(ReconcileSettings(**settings), path) as up:
            yield up.reconciliation


async def begin(app, folder, shards):
    async with beginning(app, folder, shards=shards) as reconciliation:
        return reconciliation


@pytest.mark.parametrize(
    ("status", "document", "words"),
    [
        pytest.param(404, None, "which the hub does not serve: no such page", id="not-served"),
        pytest.param(403, FORBIDDEN, "which this account may not read: leases.coordination.k8s.io", id="no-right"),
    ],
)
async def test_no_work_is_shared_without_leases(tmp_path, status, document, words):
    with pytest.raises(ConfigurationError) as caught:
        await begin(answering(status, document), tmp_path, 3)
    assert str(caught.value).startswith(
        "shards: 3: replicas share the work through the Lease harbormaster-system/harbormaster-reconcile"
    )
    assert words in str(caught.value)


@pytest.mark.parametrize(
    ("status", "document"),
    [pytest.param(404, NOT_FOUND, id="none-yet"), pytest.param(503, None, id="no-answer-now")],
)
async def test_a_lease_that_is_not_there_yet_is_waited_for(tmp_path, status, document):
    assert not (await begin(answering(status, document), tmp_path, 3)).elected.leading


@pytest.mark.parametrize("status", [403, 404])
async def test_one_that_works_alone_waits_for_both_as_it_always_has(tmp_path, status):
    assert not (await begin(answering(status, None), tmp_path, 1)).elected.leading


class Writing:
    """A loop that creates namespaces, all at once."""

    def __init__(self, hub, *_, **__):
        self._hub = hub

    async def run(self):
        namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "app"}}
        await asyncio.gather(*(self._hub.create(NAMESPACE, namespace) for _ in range(10)))


async def test_the_writes_of_all_shards_of_a_process_are_limited_together(tmp_path, monkeypatch):
    under_way, most, stored = 0, 0, 0

    async def store(_):
        nonlocal under_way, most, stored
        under_way += 1
        most = max(most, under_way)
        await asyncio.sleep(0.02)
        under_way -= 1
        stored += 1
        metadata = {"name": "app", "resourceVersion": str(stored)}
        return web.json_response({"apiVersion": "v1", "kind": "Namespace", "metadata": metadata}, status=201)

    async def find(_):
        return web.json_response(NOT_FOUND, status=404)

    app = web.Application()
    app.router.add_post("/api/v1/namespaces", store)
    app.router.add_get("/{rest:.*}", find)
    monkeypatch.setattr(reconcile, "make_loop", Writing)
    async with beginning(app, tmp_path, shards=3, write_concurrency=4) as reconciliation:
        term = Term(math.inf, lambda: 0.0)
        await asyncio.gather(*(reconciliation._lead(Share(shard, 3), term) for shard in range(3)))
    assert (most, stored) == (4, 30)
