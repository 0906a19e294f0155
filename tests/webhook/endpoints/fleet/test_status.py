"""``/v1/status``: what needs attention, for those who may list it."""

from contextlib import asynccontextmanager
from datetime import timedelta

from scorer.api.kinds import NAMESPACED_STAGED_RUN, PLACEMENT, RESOURCE_PLACEMENT, STAGED_RUN, Kind
from tests.builders.condition import condition
from tests.builders.update_run import Moments
from tests.webhook.endpoints.asking import assert_problem
from tests.webhook.endpoints.callers_known import roster
from tests.webhook.endpoints.conftest import Clock, Harbour, Port
from tests.webhook.placed import make_placement
from tests.webhook.services import LISTENERS, admit, make_server, make_services
from webhook.access.rights import Access
from webhook.answers.advisor import HubAdvisor
from webhook.answers.update_runs import HubRuns
from webhook.embedded.storage.store import EmbeddedStore
from webhook.kube.cache.informer import Cache
from webhook.settings.programs import ServerSettings

SHORT = condition("ClusterResourcePlacementScheduled", "False", "SchedulingPolicyUnfulfilled", "too few")


@asynccontextmanager
async def serving(*namespaces, **access):
    """Serve a placement without enough clusters, and a run that nobody has started, also in each of *namespaces*."""
    store, clock = EmbeddedStore.open(None), Clock(timedelta())
    cache = Cache(store)
    short = condition("ResourcePlacementScheduled", "False", "SchedulingPolicyUnfulfilled", "too few")
    for kind, document in (
        (PLACEMENT, make_placement(SHORT)),
        (STAGED_RUN, Moments().unstarted(name="spring")),
        *(
            pair
            for namespace in namespaces
            for pair in (
                (RESOURCE_PLACEMENT, {**make_placement(short, namespace=namespace), "kind": "ResourcePlacement"}),
                (
                    NAMESPACED_STAGED_RUN,
                    {**Moments().unstarted(name="spring", namespace=namespace), "kind": "StagedUpdateRun"},
                ),
            )
        ),
    ):
        cache.of_kind(kind).put({**document, "metadata": {"resourceVersion": "1", **document["metadata"]}})
    services = make_services(
        advisor=HubAdvisor(cache, clock),
        runs=HubRuns(cache, clock),
        changes=Harbour(),
        synced=lambda: True,
        now=clock,
        admittance=admit(**access),
    )
    server = make_server(services, ServerSettings(**LISTENERS))
    await server.start()
    try:
        yield Port(server, Harbour(), clock)
    finally:
        await server.stop()
        store.close()


def refs(answer):
    sections = ("waiting", "failing", "stuck")
    return {name: [item["ref"] for item in answer.json[name]["items"]] for name in sections}


async def test_all_that_needs_attention_is_listed():
    async with serving() as port, port.dial() as connection:
        answer = await connection.get("/v1/status")
        assert refs(answer) == {"waiting": ["csur/spring"], "failing": [], "stuck": ["crp/web"]}
        assert (answer.json["verdict"], answer.json["unread"]) == ("attention", [])
        assert_problem(await connection.get("/v1/status?limit=1"), "validation-failed", 422)


def right(verb: str, kind: Kind) -> str:
    return str(Access(verb, kind.group, kind.plural))


async def test_a_namespace_limits_it_to_its_objects():
    async with serving("shop", "shopping") as port, port.dial() as connection:
        answer = await connection.get("/v1/status?namespace=shop")
        assert refs(answer) == {"waiting": ["sur/shop/spring"], "failing": [], "stuck": ["rp/shop/web"]}
        totals = {name: answer.json[name]["total"] for name in ("clusters", "placements", "runs", "windows")}
        assert totals == {"clusters": 0, "placements": 1, "runs": 1, "windows": 0}
        assert answer.json["verdict"] == "attention"
        other = await connection.get("/v1/status?namespace=sho")
        assert (other.json["verdict"], other.json["placements"]["total"]) == ("ok", 0)


async def test_of_a_namespace_only_its_kinds_may_be_unread():
    known = roster("get /v1/status", right("list", RESOURCE_PLACEMENT))
    async with (
        serving("shop", authenticator=known, authorizer=known) as port,
        port.dial(token="t-ann") as connection,
    ):
        answer = await connection.get("/v1/status?namespace=shop")
        assert refs(answer) == {"waiting": [], "failing": [], "stuck": ["rp/shop/web"]}
        assert answer.json["unread"] == [NAMESPACED_STAGED_RUN.resource]


async def test_a_caller_sees_only_kinds_that_they_may_list():
    known = roster("get /v1/status", right("list", PLACEMENT))
    async with serving(authenticator=known, authorizer=known) as port, port.dial(token="t-ann") as connection:
        answer = await connection.get("/v1/status")
        assert refs(answer) == {"waiting": [], "failing": [], "stuck": ["crp/web"]}
        assert {STAGED_RUN.resource, RESOURCE_PLACEMENT.resource} <= {*answer.json["unread"]}
        assert b"spring" not in answer.body


async def test_a_caller_without_the_path_is_refused():
    known = roster("get /v1/placements", right("list", PLACEMENT))
    async with serving(authenticator=known, authorizer=known) as port, port.dial(token="t-ann") as connection:
        assert_problem(await connection.get("/v1/status"), "forbidden", 403)
