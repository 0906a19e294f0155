"""``/v1/placements/…/runs``: the last decisions, for those who may read the placement."""

from contextlib import asynccontextmanager
from datetime import timedelta

import pytest

from scorer.api.kinds import PLACEMENT, POLICY_SNAPSHOT, RESOURCE_PLACEMENT
from scorer.api.meta import format_time, parse_time
from tests.webhook.endpoints.asking import assert_problem
from tests.webhook.endpoints.callers_known import roster
from tests.webhook.endpoints.conftest import Clock, Harbour, Port
from tests.webhook.services import LISTENERS, admit, make_server, make_services
from webhook.access.rights import Access
from webhook.answers.history import RunHistory
from webhook.embedded.storage.store import EmbeddedStore
from webhook.kube.cache.informer import Cache
from webhook.settings.programs import ServerSettings

LABELS = {
    "kubernetes-fleet.io/parent-CRP": "payments",
    "kubernetes-fleet.io/is-latest-snapshot": "true",
    "kubernetes-fleet.io/policy-index": "3",
}


def decided(version, since, *clusters):
    entries = [
        {"clusterName": name, "selected": True, "reason": "x", "clusterScore": {"affinityScore": score}}
        for name, score in clusters
    ]
    condition = {
        "type": "Scheduled",
        "status": "True",
        "message": "found all",
        "lastTransitionTime": since,
    }
    return {
        "kind": "ClusterSchedulingPolicySnapshot",
        "metadata": {"name": "payments-3", "uid": "s", "resourceVersion": str(version), "labels": LABELS},
        "spec": {"policy": {"placementType": "PickFixed", "clusterNames": ["oslo"]}},
        "status": {"conditions": [condition], "targetClusters": entries},
    }


@asynccontextmanager
async def serving(**access):
    """Serve the history of one placement that was decided twice."""
    store, clock = EmbeddedStore.open(None), Clock(timedelta())
    cache = Cache(store)
    history = RunHistory(cache, clock)
    since = format_time(clock.now - timedelta(hours=1))
    cache.of_kind(PLACEMENT).put({"kind": "x", "metadata": {"name": "payments", "resourceVersion": "1"}, "spec": {}})
    cache.of_kind(RESOURCE_PLACEMENT).put(
        {"kind": "x", "metadata": {"name": "cart", "namespace": "shop", "resourceVersion": "1"}, "spec": {}}
    )
    cache.of_kind(POLICY_SNAPSHOT).put(decided(1, since, ("faro", 78)))
    cache.of_kind(POLICY_SNAPSHOT).synced.set()
    cache.of_kind(POLICY_SNAPSHOT).put(decided(2, since, ("oslo", 91)))
    harbour = Harbour()
    services = make_services(
        advisor=harbour,
        changes=harbour,
        synced=lambda: True,
        history=history,
        now=clock,
        admittance=admit(**access),
    )
    server = make_server(services, ServerSettings(**LISTENERS))
    await server.start()
    try:
        yield Port(server, harbour, clock)
    finally:
        await server.stop()
        store.close()


async def test_the_last_decisions_come_latest_first_under_a_tag():
    async with serving() as port, port.dial() as connection:
        answer = await connection.get("/v1/placements/crp/payments/runs")
        assert answer.status == 200
        assert answer.json["placement"] == "crp/payments"
        latest, first = answer.json["items"]
        assert latest["picked"] == [{"cluster": "oslo", "score": {"affinity": 91, "topologySpread": 0}}]
        assert (latest["gained"], latest["lost"], latest["wanted"]) == (["oslo"], ["faro"], 1)
        assert latest["difference"] == ["oslo instead of faro: faro is no longer in the record, had affinity 78"]
        assert parse_time(latest["time"]) - parse_time(first["time"]) == timedelta(hours=1)
        assert first["trigger"]["event"] == "Recorded"
        again = await connection.get("/v1/placements/crp/payments/runs", If_None_Match=answer.headers["ETag"])
        assert again.status == 304
    assert port.sample("harbormaster_api_requests_total", route="/v1/placements/*/runs", code="200") == 1


async def test_a_placement_nobody_has_decided_about_has_no_runs():
    async with serving() as port, port.dial() as connection:
        answer = await connection.get("/v1/placements/rp/shop/cart/runs")
        assert (answer.status, answer.json) == (200, {"placement": "rp/shop/cart", "items": []})


@pytest.mark.parametrize("path", ["crp/nothing", "rp/shop/payments", "rp/quay/cart"])
async def test_what_is_not_there(path):
    async with serving() as port, port.dial() as connection:
        problem = assert_problem(await connection.get(f"/v1/placements/{path}/runs"), "not-found", 404)
        assert problem["detail"] == f"there is no placement {path}"


async def test_only_reading_is_understood():
    async with serving() as port, port.dial() as connection:
        answer = await connection.get("/v1/placements/crp/payments/runs", "DELETE")
        assert_problem(answer, "method-not-allowed", 405)
        assert answer.headers["Allow"] == "GET, HEAD"


async def test_who_may_not_read_the_placement_does_not_learn_of_its_runs():
    known = roster("get /v1/placements/*/runs")
    async with serving(authenticator=known, authorizer=known) as port, port.dial(token="t-ann") as connection:
        problem = assert_problem(await connection.get("/v1/placements/crp/payments/runs"), "not-found", 404)
        assert problem["detail"] == "there is no placement crp/payments"
        known.rights.add(("ann", str(Access("get", PLACEMENT.group, PLACEMENT.plural, "payments"))))
        assert (await connection.get("/v1/placements/crp/payments/runs")).status == 200
