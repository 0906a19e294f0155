"""``/v1/runs``: staged update runs, for those who may read them, and the events that make viewers read again."""

from contextlib import asynccontextmanager
from datetime import timedelta

import pytest

from scorer.api.family import CLUSTER, NAMESPACED
from scorer.api.kinds import Kind
from scorer.api.meta import format_time
from scorer.api.names import PARENT_PLACEMENT, RESOURCE_INDEX
from scorer.staged_update.approval.requests import TaskPlace, make_request
from tests.builders.update_run import Moments
from tests.webhook.endpoints.asking import assert_problem
from tests.webhook.endpoints.callers_known import roster
from tests.webhook.endpoints.conftest import Clock, Harbour, Port
from tests.webhook.services import LISTENERS, admit, make_server, make_services
from webhook.access.rights import Access
from webhook.answers.changes import HubChanges
from webhook.answers.update_runs import MOST_HELD, HubRuns, run_view
from webhook.embedded.storage.store import EmbeddedStore
from webhook.kube.cache.informer import Cache
from webhook.settings.programs import ServerSettings

MOMENTS = Moments()


def stored(run, age=timedelta()):
    """A run as a hub hands it out, created so long before the others."""
    about = {
        "resourceVersion": "1",
        "uid": run["metadata"]["name"],
        "creationTimestamp": format_time(MOMENTS.start - age),
    }
    return {**run, "metadata": {**run["metadata"], **about}}


@asynccontextmanager
async def serving(**access):
    """Serve three runs: one at work, one of a namespace that waits for an approval, and an older one that is over."""
    store, clock = EmbeddedStore.open(None), Clock(timedelta())
    cache = Cache(store)
    answers = HubRuns(cache, clock)
    changes = HubChanges(cache)
    older = MOMENTS.succeeded(name="web-1")
    for run, age in ((older, timedelta(days=1)), (MOMENTS.at_twelve(name="web-2"), timedelta())):
        cache.of_kind(CLUSTER.run).put(stored(run, age))
    cart = MOMENTS.at_eleven(name="cart-1", namespace="shop", placement="cart")
    cache.of_kind(NAMESPACED.run).put(stored(cart, timedelta(hours=1)))
    services = make_services(
        advisor=Harbour(), changes=changes, runs=answers, synced=lambda: True, now=clock, admittance=admit(**access)
    )
    server = make_server(services, ServerSettings(**LISTENERS))
    await server.start()
    try:
        port = Port(server, Harbour(), clock)
        port.cache, port.changes = cache, changes
        yield port
    finally:
        await server.stop()
        store.close()


def right(verb: str, kind: Kind, name: str = "", namespace: str = "") -> str:
    return str(Access(verb, kind.group, kind.plural, name, namespace))


async def test_runs_come_latest_first_with_what_they_wait_for():
    async with serving() as port, port.dial() as connection:
        answer = await connection.get("/v1/runs")
        assert answer.status == 200
        assert [item["ref"] for item in answer.json["items"]] == ["csur/web-2", "sur/shop/cart-1", "csur/web-1"]
        running, waiting, over = answer.json["items"]
        assert [item["state"] for item in (running, waiting, over)] == ["running", "waiting", "succeeded"]
        assert (running["placement"], running["updated"], running["clusters"]) == ("crp/web", 2, 8)
        assert (running["waits"], over["waits"]) == ([], [])
        (wait,) = waiting["waits"]
        assert wait["command"] == "harbormaster approve cart-1 --stage all -n shop"
        assert (wait["kind"], wait["request"], wait["since"]) == ("Approval", "r-before-all", "2026-11-23T08:11:00Z")
        again = await connection.get("/v1/runs", If_None_Match=answer.headers["ETag"])
        assert again.status == 304


@pytest.mark.parametrize("ref", ["csur/web-2", "sur/shop/cart-1"])
async def test_a_run_comes_with_its_timeline(ref):
    async with serving() as port, port.dial() as connection:
        listed = next(item for item in (await connection.get("/v1/runs")).json["items"] if item["ref"] == ref)
        found = (await connection.get(f"/v1/runs/{ref}")).json
        undo = {"canUndo": False, "undoTo": "", "undoRefused": listed["undoRefused"]}  # depends on the other runs
        assert {key: value for key, value in found.items() if key in listed} | undo == listed
        assert [band["name"] for band in found["timeline"]["bands"]] == ["try", "all", "deletion"]
        assert found["conditions"][0]["type"] == "Initialized"


def analysed(message):
    """Return the request that cart-1 waits for, with what its analysis says."""
    request = make_request(MOMENTS.at_eleven(name="cart-1", namespace="shop"), "all", TaskPlace.BEFORE)
    said = {"type": "Analyzed", "status": "False", "reason": "NotMet", "message": message, "observedGeneration": 1}
    about = {"name": "r-before-all", "generation": 1, "resourceVersion": "5"}
    return {**request, "metadata": {**request["metadata"], **about}, "status": {"conditions": [said]}}


async def test_a_run_says_how_the_analysis_goes_that_it_waits_for():
    async with serving() as port, port.dial() as connection:
        port.cache.of_kind(NAMESPACED.approval_request).put(analysed("main returned 7.5, must be below 5 [0a1b2c3d]"))
        told = "approval of r-before-all before stage all: main returned 7.5, must be below 5"
        listed = (await connection.get("/v1/runs")).json["items"][1]
        assert [wait["message"] for wait in listed["waits"]] == [told]
        found = (await connection.get("/v1/runs/sur/shop/cart-1")).json
        assert [wait["message"] for wait in found["waits"]] == [told]


async def test_viewers_are_told_when_an_analysis_says_something_else():
    async with serving() as port:
        seen = []
        port.changes.subscribe(seen.append)
        port.cache.of_kind(NAMESPACED.approval_request).put(analysed("main gives 7.5"))
        assert [change.placements for change in seen] == [{"rp/shop/cart"}]


@pytest.mark.parametrize("ref", ["csur/nothing", "sur/shop/web-2", "sur/quay/cart-1"])
async def test_what_is_not_there(ref):
    async with serving() as port, port.dial() as connection:
        problem = assert_problem(await connection.get(f"/v1/runs/{ref}"), "not-found", 404)
        assert problem["detail"] == f"there is no update run {ref}"


async def test_a_caller_sees_only_the_kinds_that_they_may_list():
    known = roster("get /v1/runs", right("list", NAMESPACED.run))
    async with serving(authenticator=known, authorizer=known) as port, port.dial(token="t-ann") as connection:
        answer = await connection.get("/v1/runs")
        assert [item["ref"] for item in answer.json["items"]] == ["sur/shop/cart-1"]


async def test_resource_snapshots_are_named_only_to_a_caller_who_may_list_placements():
    known = roster("get /v1/runs", right("list", CLUSTER.run))
    async with serving(authenticator=known, authorizer=known) as port, port.dial(token="t-ann") as connection:
        snapshots = port.cache.of_kind(CLUSTER.resource_snapshot)
        labels = {PARENT_PLACEMENT: "web", RESOURCE_INDEX: "7"}
        snapshots.put({"metadata": {"name": "web-7-snapshot", "labels": labels, "resourceVersion": "1"}})
        snapshots.synced.set()

        async def refusal():
            _, over = (await connection.get("/v1/runs")).json["items"]
            return over["undoRefused"]

        assert (await refusal()).endswith("so the previous resource snapshot is unknown")
        known.rights.add(("ann", right("list", CLUSTER.placement)))
        assert (await refusal()).endswith("so the previous resource snapshot is unknown. Existing snapshots: 7")


async def test_a_run_that_the_caller_may_not_get_is_as_if_not_there():
    known = roster("get /v1/runs/*")
    async with serving(authenticator=known, authorizer=known) as port, port.dial(token="t-ann") as connection:
        assert_problem(await connection.get("/v1/runs/csur/web-2"), "not-found", 404)
        known.rights.add(("ann", right("get", CLUSTER.run, "web-2")))
        assert (await connection.get("/v1/runs/csur/web-2")).status == 200


async def test_a_caller_without_the_path_is_refused():
    known = roster("get /v1/placements")
    async with serving(authenticator=known, authorizer=known) as port, port.dial(token="t-ann") as connection:
        assert_problem(await connection.get("/v1/runs"), "forbidden", 403)


async def test_viewers_are_told_of_a_run_by_its_placement():
    async with serving() as port:
        told = []
        port.changes.subscribe(told.append)
        run = stored(MOMENTS.stopped(name="web-2"))
        port.cache.of_kind(CLUSTER.run).put({**run, "metadata": {**run["metadata"], "resourceVersion": "2"}})
        assert [change.placements for change in told] == [frozenset({"crp/web"})]


def test_clusters_in_flight_are_no_waits_and_of_many_held_ones_only_some_are_named():
    held = [MOMENTS.cluster(f"h{number:02}", waits="its windows are closed") for number in range(40)]
    second = MOMENTS.second([MOMENTS.cluster("c1", "12:10"), *held])
    said = MOMENTS.said("Progressing", "True", "UpdateRunProgressing", "12:10")
    view = run_view(MOMENTS.run([MOMENTS.tried(), second], said), MOMENTS.at("12:27"))
    assert [wait["cluster"] for wait in view["waits"]] == [f"h{number:02}" for number in range(MOST_HELD)]
    assert {wait["command"] for wait in view["waits"]} == {""}


def test_a_run_that_is_not_started_says_which_command_starts_it():
    view = run_view(MOMENTS.unstarted(), MOMENTS.at("2:00"))
    assert [wait["command"] for wait in view["waits"]] == ["harbormaster run start r"]


def test_a_run_says_why_it_was_rejected_and_what_it_takes_back():
    notes = {"harbormaster.dev/rejected": "r-before-all: too late in the day", "harbormaster.dev/rollback-of": "web-1"}
    view = run_view(MOMENTS.stopped(annotations=notes), MOMENTS.at("13:00"))
    assert (view["rejected"], view["rollbackOf"]) == ("r-before-all: too late in the day", "web-1")
    assert view["waits"][0]["command"] == "harbormaster run resume r"
