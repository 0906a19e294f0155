"""``/v1/removals``: what waits for confirmation, for those who may list the placements."""

from contextlib import asynccontextmanager
from datetime import timedelta

import pytest

from scorer.api.kinds import BINDING, MEMBER_CLUSTER, PLACEMENT, RESOURCE_PLACEMENT, RESOURCE_SNAPSHOT, Kind
from scorer.api.meta import format_time
from scorer.api.names import REMOVAL_PENDING
from tests.builders.condition import condition
from tests.webhook.endpoints.asking import assert_problem
from tests.webhook.endpoints.callers_known import roster
from tests.webhook.endpoints.conftest import Clock, Harbour, Port
from tests.webhook.placed import make_binding, make_placement, make_snapshot
from tests.webhook.services import LISTENERS, admit, make_server, make_services
from webhook.access.rights import Access
from webhook.answers.advisor import HubAdvisor
from webhook.embedded.storage.store import EmbeddedStore
from webhook.kube.cache.informer import Cache
from webhook.settings.programs import ServerSettings

PENDING = condition("RemovalPending", "True", "ConfirmationRequired", "waits")
SCHEDULED = condition("ClusterResourcePlacementScheduled")


def member(name, counts):
    return {"metadata": {"name": name}, "spec": {}, "status": {"namespaceContents": {"shop": counts}}}


@asynccontextmanager
async def serving(**access):
    """Serve two clusters that wait on crp/web, for a day and an hour, and a deletion that waits on rp/shop/cart."""
    store, clock = EmbeddedStore.open(None), Clock(timedelta())
    cache = Cache(store)

    def waiting(cluster, **age):
        record = f"ConfirmationRequired {format_time(clock.now - timedelta(**age))}"
        return make_binding(cluster, state="Unscheduled", uid=cluster, annotations={REMOVAL_PENDING: record})

    cart = make_placement(PENDING, namespace="shop", deletionTimestamp=format_time(clock.now - timedelta(minutes=5)))
    cart = {**cart, "kind": "ResourcePlacement", "metadata": {**cart["metadata"], "name": "cart"}}
    quiet = make_placement(SCHEDULED)
    web = make_placement(SCHEDULED, PENDING)
    web["status"]["selectedResources"] = [{"version": "v1", "kind": "Namespace", "name": "shop"}]
    for kind, document in (
        (PLACEMENT, web),
        (PLACEMENT, {**quiet, "metadata": {**quiet["metadata"], "name": "quiet"}}),
        (RESOURCE_PLACEMENT, cart),
        (BINDING, waiting("oslo", days=1)),
        (BINDING, waiting("faro", hours=1)),
        (RESOURCE_SNAPSHOT, make_snapshot()),
        (MEMBER_CLUSTER, member("oslo", {"volumeClaims": 2, "others": 1, "observationTime": "2026-03-01T12:00:00Z"})),
    ):
        cache.of_kind(kind).put({**document, "metadata": {"resourceVersion": "1", **document["metadata"]}})
    services = make_services(
        advisor=HubAdvisor(cache, clock), changes=Harbour(), synced=lambda: True, now=clock, admittance=admit(**access)
    )
    server = make_server(services, ServerSettings(**LISTENERS))
    await server.start()
    try:
        yield Port(server, Harbour(), clock)
    finally:
        await server.stop()
        store.close()


def names(answer):
    return {item["placement"]: [each["effect"] for each in item["removals"]] for item in answer.json["items"]}


async def test_all_that_waits_is_listed_by_placement():
    async with serving() as port, port.dial() as connection:
        answer = await connection.get("/v1/removals")
        assert names(answer) == {
            "crp/web": ["cluster faro", "cluster oslo"],
            "rp/shop/cart": ["ResourcePlacement shop/cart"],
        }
        faro, oslo = answer.json["items"][0]["removals"]
        assert (faro["ageSeconds"], oslo["ageSeconds"]) == (3600, 86400)
        known = {"volumeClaims": 2, "others": 1, "countedAt": "2026-03-01T12:00:00Z"}
        assert oslo["onMembers"] == {**known, "atLeast": False, "unknownClusters": 0}
        unknown = {"volumeClaims": 0, "others": 0, "countedAt": None}
        assert faro["onMembers"] == {**unknown, "atLeast": False, "unknownClusters": 1}
        assert answer.json["items"][1]["removals"][0]["onMembers"] is None
        assert (oslo["clusters"], oslo["clusterCount"], len(oslo["digest"])) == (["oslo"], 1, 20)


@pytest.mark.parametrize(
    ("query", "found"),
    [
        pytest.param("olderThanSeconds=3601", {"crp/web": ["cluster oslo"]}, id="older"),
        pytest.param("olderThanSeconds=86401", {}, id="older-than-all"),
        pytest.param("ref=rp/shop/cart", {"rp/shop/cart": ["ResourcePlacement shop/cart"]}, id="by-name"),
        pytest.param("ref=crp/web&olderThanSeconds=3601", {"crp/web": ["cluster oslo"]}, id="older-by-name"),
        pytest.param("ref=crp/quiet", {}, id="nothing-waits"),
    ],
)
async def test_a_part_of_it(query, found):
    async with serving() as port, port.dial() as connection:
        assert names(await connection.get(f"/v1/removals?{query}")) == found


async def test_pages_are_cut_between_placements():
    async with serving() as port, port.dial() as connection:
        first = await connection.get("/v1/removals?limit=1")
        second = await connection.get(f"/v1/removals?limit=1&continue={first.json['continue']}")
        assert (*names(first), *names(second)) == ("crp/web", "rp/shop/cart")
        assert second.json["continue"] == ""


@pytest.mark.parametrize("query", ["olderThanSeconds=0", "olderThanSeconds=7d", "older=7d", "ref=crp/web&limit=1"])
async def test_a_question_that_is_not_understood_is_refused(query):
    async with serving() as port, port.dial() as connection:
        assert_problem(await connection.get(f"/v1/removals?{query}"), "validation-failed", 422)


def right(verb: str, kind: Kind) -> str:
    return str(Access(verb, kind.group, kind.plural))


async def test_a_caller_learns_nothing_of_placements_that_they_may_not_list():
    known = roster("get /v1/removals", right("list", RESOURCE_PLACEMENT))
    async with serving(authenticator=known, authorizer=known) as port, port.dial(token="t-ann") as connection:
        answer = await connection.get("/v1/removals")
        assert list(names(answer)) == ["rp/shop/cart"]
        assert b"oslo" not in answer.body


async def test_a_caller_without_the_path_is_refused():
    known = roster("get /v1/placements", right("list", PLACEMENT))
    async with serving(authenticator=known, authorizer=known) as port, port.dial(token="t-ann") as connection:
        assert_problem(await connection.get("/v1/removals"), "forbidden", 403)
