"""Replicas that share the work of the loop: where that can never be, they say so before anything begins."""

import pytest
import yaml
from aiohttp import web

from tests.loopback import on_loopback
from webhook.kube.login import ConfigurationError
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


async def begin(app, folder, shards):
    """Begin `harbormaster reconcile` on such a hub; returns once it would run."""
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
        async with Reconcile(ReconcileSettings(shards=shards), path) as up:
            return up.reconciliation


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
        "shards: 3: replicas share the work by the Lease harbormaster-system/harbormaster-reconcile"
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
