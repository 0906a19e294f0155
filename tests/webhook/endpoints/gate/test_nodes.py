"""``/v1/gate/disruption`` and ``/v1/gate/reservations`` over real HTTPS, on a hub of their own."""

import asyncio
from datetime import UTC, datetime, timedelta

import pytest
import pytest_asyncio

from scorer.api import kinds
from scorer.member_gate.holds import MemberDisruption
from scorer.reservations import DISRUPTION, RESERVATIONS, lease_name
from tests.scorer.node_pool_builders import pod
from tests.waiting import PATIENCE_SECONDS, until
from tests.webhook.description.example_hub import changed, serving
from tests.webhook.gate.gates import NAMESPACE, node_pool, put_pool
from webhook.access.rights import Access
from webhook.gate.keeper import Claimant
from webhook.kube.ports import Key

pytestmark = pytest.mark.asyncio(loop_scope="module")

GATE = "/v1/gate/disruption"
RESERVE = "/v1/gate/reservations"
SHUT = {"nodes": "0", "schedule": "0 0 1 1 *", "duration": "8760h"}


@pytest_asyncio.fixture(loop_scope="module", scope="module")
async def caller(tmp_path_factory):
    """The owner of a hub with two pools: batch of 6 nodes, of which two may go, and shut of 3, of which none may."""
    async with serving(tmp_path_factory.mktemp("hub"), requests_per_second=1e6, request_burst=10**6) as owner:
        await put_pool(owner.up.store, "batch", 6, {"nodes": "2"})
        await put_pool(owner.up.store, "shut", 3, {"nodes": "0"})
        gate = owner.up.services.disruption.nodes
        await until(lambda: gate.synced and sum(view.counts().total for view in gate.views()) == 9)
        yield owner


@pytest_asyncio.fixture(loop_scope="module", autouse=True)
async def nothing_reserved(caller):
    yield
    store, reservations = caller.up.store, caller.up.services.disruption.keeper.reservations
    for lease in (await store.list(kinds.LEASE, NAMESPACE)).items:
        if lease["metadata"]["name"].startswith("hb-res-"):
            await store.delete(kinds.LEASE, Key(lease["metadata"]["name"], NAMESPACE))
    await until(lambda: not any(reservations.cached(DISRUPTION, pool) for pool in ("batch", "shut")))


def asked(**changes):
    question = {"pool": "batch", "reason": "Drifted", "count": 1} | changes
    return {name: value for name, value in question.items() if value is not None}


def wanted(question=None, **changes):
    return {"gate": "disruption", "question": question or asked(), "holder": "patcher", "ttlSeconds": 60} | changes


async def hold_oslo(caller):
    """Hold a member for somebody else."""
    claimant = Claimant("run-7", "somebody else")
    return await caller.up.services.disruption.keeper.hold_member("oslo", MemberDisruption.UPGRADE, claimant, 60)


def of(answer):
    """Return status, kind of problem, and the places of the mistakes."""
    return answer.status, answer.json["type"].rpartition(":")[2], [each["pointer"] for each in answer.json["errors"]]


async def test_a_question_is_answered(caller):
    answer = await caller.ask("POST", GATE, asked(count=2))
    assert (answer.status, answer.headers["Cache-Control"]) == (200, "no-store")
    told = answer.json
    assert (told["allowed"], told["granted"], told["verdict"], told["total"]) == (True, 2, "Allowed", 6)
    assert "reservation" not in told


async def test_named_nodes_are_granted_by_name(caller):
    told = (await caller.ask("POST", GATE, asked(count=None, nodes=["batch-3", "batch-0"]))).json
    assert told["granted"] == ["batch-3", "batch-0"]
    assert [node["name"] for node in told["nodes"]] == ["batch-3", "batch-0"]


async def test_a_refusal_is_an_answer_and_says_why(caller):
    told = (await caller.ask("POST", GATE, asked(pool="shut"))).json
    assert (told["allowed"], told["granted"], told["verdict"], told["nextOpen"]) == (
        False,
        0,
        "NeverWithoutChange",
        None,
    )
    assert 'budgets[0] (nodes "0")' in told["message"]
    assert told["retryAfterSeconds"] is None, "waiting alone does not help"


class ListsNothing:
    """Lets everybody ask everything, and list nothing."""

    async def may(self, _user, wanted):
        return not isinstance(wanted, Access)


async def test_the_pods_that_hold_a_node_are_named_to_those_who_may_list_them(caller):
    store, name = caller.up.store, "secret-pod"
    made = pod(name, "batch-0", annotations={"karpenter.sh/do-not-disrupt": "true"})
    await store.create(kinds.NAMESPACE, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "shop"}})
    await store.create(kinds.POD, made)
    question = asked(count=None, nodes=["batch-0"])
    try:

        async def held():
            return not (await caller.ask("POST", GATE, question)).json["allowed"]

        await until(held)
        told = await caller.ask("POST", GATE, question)
        refused = await caller.ask("POST", RESERVE, wanted(question))
        async with changed(caller, authorizer=ListsNothing()) as stranger:
            hidden = await stranger.ask("POST", GATE, question)
            hidden_refused = await stranger.ask("POST", RESERVE, wanted(question))
            record = await stranger.ask("GET", "/v1/history?type=gate&name=batch")
    finally:
        await store.delete(kinds.POD, Key(name, made["metadata"]["namespace"]))
    assert all(name in str(answer.json) for answer in (told, refused))
    assert not any(name in str(answer.json) for answer in (hidden, hidden_refused, record))
    assert (hidden.json["verdict"], hidden.json["nodes"][0]["disruptable"]) == ("NodeBlocked", False)


async def test_a_pool_that_is_nowhere_is_judged_with_its_defaults(caller):
    given = {"metadata": {"name": "new"}, "spec": {}}
    told = (await caller.ask("POST", GATE, asked(pool=None, nodePool=given, observed={"total": 30}, count=3))).json
    assert (told["limit"], told["allowed"]) == (3, True)


async def test_any_instant_may_be_asked_about(caller):
    window = {"nodes": "0", "schedule": "0 9 * * 1-5", "duration": "8h"}
    question = asked(
        pool=None, nodePool=node_pool("new", window), observed={"total": 30}, now="2026-06-10T14:00:00+02:00"
    )
    told = (await caller.ask("POST", GATE, question)).json
    assert (told["verdict"], told["nextOpen"], told["retryAfterSeconds"]) == (
        "WindowClosed",
        "2026-06-10T17:00:00Z",
        18000,
    )


async def test_several_questions_are_answered_in_order(caller):
    answer = await caller.ask("POST", GATE, {"questions": [asked(), asked(), asked(), asked(pool="shut")]})
    assert [each["allowed"] for each in answer.json["answers"]] == [True, True, False, False]
    assert (await caller.ask("POST", GATE, {"questions": []})).json == {"answers": []}


async def test_a_question_reserves_when_it_says_so(caller):
    before = datetime.now(UTC)
    told = (await caller.ask("POST", GATE, asked(reserveSeconds=60))).json
    assert set(told["reservation"]) == {"id", "expires"}
    begun = datetime.fromisoformat(told["reservation"]["expires"]) - timedelta(seconds=60)
    second = timedelta(seconds=1)  # times are told in whole seconds
    assert before - second <= begun <= datetime.now(UTC) + second
    assert (await caller.ask("POST", GATE, asked(count=2))).json["verdict"] == "InFlight"


@pytest.mark.parametrize(
    ("question", "pointer"),
    [
        pytest.param(asked(reason="Bored"), "/reason", id="unknown-reason"),
        pytest.param(asked(count=-1), "/count", id="fewer-than-none"),
        pytest.param(asked(count=7), "/count", id="more-than-exist"),
        pytest.param(asked(count=2**40), "/count", id="more-than-can-be"),
        pytest.param(asked(count=None, nodes=["batch-0", "batch-0"]), "/nodes/1", id="named-twice"),
        pytest.param(asked(count=None), "/nodes", id="neither-nodes-nor-count"),
        pytest.param(asked(nodes=["batch-0"]), "/nodes", id="nodes-and-count"),
        pytest.param(asked(pool=None), "/pool", id="neither-pool-nor-nodePool"),
        pytest.param(asked(nodePool=node_pool("new")), "/pool", id="pool-and-nodePool"),
        pytest.param(asked(pool=None, nodePool={"spec": 3}), "/nodePool/spec", id="no-node-pool"),
        pytest.param(asked(mode="some"), "/mode", id="unknown-mode"),
        pytest.param(asked(**{"class": "rude"}), "/class", id="unknown-class"),
        pytest.param(asked(observed={"total": 3, "deleting": 2, "notReady": 2}), "/observed", id="parts-exceed-whole"),
        pytest.param(asked(observed={"total": 3, "deleting": -1}), "/observed/deleting", id="negative-part"),
        pytest.param(asked(now="soon"), "/now", id="no-instant"),
        pytest.param(asked(now="2026-06-10T14:00:00"), "/now", id="no-offset"),
        pytest.param(asked(now="0001-01-01T00:00:00+14:00"), "/now", id="before-all-time"),
        pytest.param(asked(now="9999-12-31T23:59:59Z"), "/now", id="after-all-calendars"),
        pytest.param(asked(reserveSeconds=9), "/reserveSeconds", id="reserved-too-briefly"),
        pytest.param(asked(reserveSeconds=3601), "/reserveSeconds", id="reserved-too-long"),
        pytest.param(asked(reserveSeconds=60, now="2026-06-10T14:00:00Z"), "/now", id="reserved-at-another-time"),
    ],
)
async def test_a_question_that_makes_no_sense_is_refused(caller, question, pointer):
    """Invalid input is a 422, never an answer; alone, in a batch, and in a reservation."""
    assert of(await caller.ask("POST", GATE, question)) == (422, "validation-failed", [pointer])
    batch = await caller.ask("POST", GATE, {"questions": [asked(), question]})
    assert of(batch) == (422, "validation-failed", [f"/questions/1{pointer}"])
    reservation = await caller.ask("POST", RESERVE, wanted(question))
    assert of(reservation)[:2] == (422, "validation-failed")
    assert all(each.startswith("/question/") for each in of(reservation)[2])


@pytest.mark.parametrize(
    ("nodes", "pointer"),
    [
        pytest.param(["batch-0", "who"], "/nodes/1", id="of-no-pool"),
        pytest.param(["shut-0"], "/nodes/0", id="of-another-pool"),
    ],
)
async def test_an_unknown_node(caller, nodes, pointer):
    """Alone, in a batch, and in a reservation; ``errors`` tells which, the text is fit for people."""
    question = asked(count=None, nodes=nodes)
    bodies = {
        pointer: (GATE, question),
        f"/questions/1{pointer}": (GATE, {"questions": [asked(), question]}),
        f"/question{pointer}": (RESERVE, wanted(question)),
    }
    for where, (path, body) in bodies.items():
        answer = await caller.ask("POST", path, body)
        assert of(answer) == (404, "not-found", [where])
        assert answer.json["detail"] == f"{nodes[-1]!r} is not a node of NodePool batch"


async def test_every_mistake_is_named(caller):
    answer = await caller.ask("POST", GATE, asked(reason="Bored", mode="some", count=-1))
    assert of(answer)[2] == ["/reason", "/mode", "/count"]
    assert '"Bored": must be one of Underutilized' in answer.json["detail"]


@pytest.mark.parametrize(
    ("body", "pointer"),
    [
        (asked(colour="red"), "/colour"),
        (asked(count="1"), "/count"),
        (asked(count=True), "/count"),
        (asked(reason=None), "/reason"),
        ({"questions": [asked(colour="red")]}, "/questions/0/colour"),
        ({"questions": [asked()], "pool": "batch"}, "/pool"),
        ({"questions": [asked()] * 101}, "/questions"),
        (asked(count=None, nodes=["n"] * 1001), "/nodes"),
    ],
)
async def test_the_shape_is_judged_as_everywhere(caller, body, pointer):
    assert of(await caller.ask("POST", GATE, body)) == (422, "validation-failed", [pointer])


@pytest.mark.parametrize(
    ("body", "pointer"),
    [
        (wanted(gate="garden"), "/gate"),
        (wanted(ttlSeconds=9), "/ttlSeconds"),
        (wanted(ttlSeconds=3601), "/ttlSeconds"),
        (wanted(holder=""), "/holder"),
        (wanted(asked(colour="red")), "/question/colour"),
        (wanted() | {"colour": "red"}, "/colour"),
    ],
)
async def test_the_shape_of_a_reservation_is_judged_too(caller, body, pointer):
    assert of(await caller.ask("POST", RESERVE, body)) == (422, "validation-failed", [pointer])


async def test_nobody_else_takes_the_name_by_which_admission_knows_what_it_has_let_through(caller):
    answer = await caller.ask("POST", RESERVE, wanted(holder="admission"))
    assert of(answer) == (422, "validation-failed", ["/holder"])
    assert (await caller.ask("POST", RESERVE, wanted(holder="admission-team"))).status == 201


async def test_an_unknown_pool(caller):
    bodies = {GATE: asked(pool="nope"), RESERVE: wanted(asked(pool="nope"))}
    for path, body in bodies.items():
        answer = await caller.ask("POST", path, body)
        assert (answer.status, answer.json["detail"]) == (404, "there is no node pool 'nope'")


async def test_a_permission_is_taken_renewed_and_given_back(caller):
    taken = await caller.ask("POST", RESERVE, wanted(asked(count=None, nodes=["batch-0"])))
    assert taken.status == 201
    assert set(taken.json) == {"id", "expires", "granted"}
    assert taken.json["granted"] == ["batch-0"]
    path = f"{RESERVE}/{taken.json['id']}"
    kept = await caller.ask("PUT", path, {"ttlSeconds": 3600})
    assert (kept.status, kept.json["id"], kept.json["granted"]) == (200, taken.json["id"], ["batch-0"])
    assert kept.json["expires"] > taken.json["expires"]
    given_back = await caller.ask("DELETE", path)
    assert (given_back.status, given_back.body) == (204, b"")
    for method, body in (("DELETE", None), ("PUT", {"ttlSeconds": 60})):
        answer = await caller.ask(method, path, body)
        assert (answer.status, answer.json["type"].rpartition(":")[2]) == (404, "not-found")


async def test_what_the_gate_refuses_is_a_conflict_that_tells_all(caller):
    answer = await caller.ask("POST", RESERVE, wanted(asked(pool="shut")))
    assert (answer.status, answer.json["type"].rpartition(":")[2]) == (409, "conflict")
    assert answer.json["detail"] == answer.json["answer"]["message"]
    assert answer.json["answer"]["verdict"] == "NeverWithoutChange"
    assert answer.json["answer"]["retryAfterSeconds"] is None
    assert ("retryAfterSeconds" in answer.json, "Retry-After" in answer.headers) == (False, False)


async def test_a_reservation_says_for_how_long_itself(caller):
    answer = await caller.ask("POST", RESERVE, wanted(asked(reserveSeconds=60)))
    assert of(answer) == (422, "validation-failed", ["/question/reserveSeconds"])


async def test_somebody_elses_is_neither_renewed_nor_given_back(caller):
    held = await hold_oslo(caller)
    path = f"{RESERVE}/{held.id}"
    for method, body in (("DELETE", None), ("PUT", {"ttlSeconds": 60})):
        answer = await caller.ask(method, path, body)
        assert (answer.status, answer.json["type"].rpartition(":")[2]) == (403, "forbidden")


async def test_reservations_are_listed_and_the_id_only_to_who_has_taken_them(caller):
    await hold_oslo(caller)
    taken = (await caller.ask("POST", RESERVE, wanted(asked(count=None, nodes=["batch-0"])))).json
    await until(lambda: len(caller.up.services.disruption.service.reservations.listed()[0]) == 2)
    answer = await caller.ask("GET", RESERVE)
    assert (answer.status, answer.json["unreadable"]) == (200, [])
    mine, other = answer.json["items"]
    assert mine == taken | {
        "gate": "disruption",
        "of": "batch",
        "for": "Drifted",
        "holder": "patcher",
        "mine": True,
    }
    assert {**other, "expires": ""} == {
        "gate": "member",
        "of": "oslo",
        "for": "Upgrade",
        "holder": "run-7",
        "granted": ["oslo"],
        "expires": "",
        "mine": False,
    }
    assert (await caller.anonymous().ask("GET", RESERVE)).status == 401


async def test_a_refusal_for_a_reservation_names_its_holder_and_its_end(caller):
    taken = (await caller.ask("POST", RESERVE, wanted(asked(count=2), ttlSeconds=600))).json
    refused = await caller.ask("POST", RESERVE, wanted(holder="another"))
    told = refused.json["answer"]
    assert (refused.status, told["verdict"], told["nextOpen"]) == (409, "InFlight", taken["expires"])
    assert f"2 nodes reserved by patcher until {taken['expires']}" in refused.json["detail"]


async def test_a_list_that_cannot_be_read_is_no_empty_list(caller):
    await caller.ask("POST", RESERVE, wanted())
    store = caller.up.store
    lease = await store.get(kinds.LEASE, Key(lease_name(DISRUPTION, "batch"), NAMESPACE))
    annotations = {**lease["metadata"]["annotations"], RESERVATIONS: "edited by hand"}
    await store.replace(kinds.LEASE, {**lease, "metadata": {**lease["metadata"], "annotations": annotations}})
    async with asyncio.timeout(PATIENCE_SECONDS):
        while (asked_again := await caller.ask("POST", GATE, asked())).status == 200:
            await asyncio.sleep(0.01)
    await until(lambda: caller.up.services.disruption.service.reservations.listed()[1])
    listed = (await caller.ask("GET", RESERVE)).json
    assert (listed["items"], "has reservations that cannot be read" in listed["unreadable"][0]) == ([], True)
    for answer in (asked_again, await caller.ask("POST", RESERVE, wanted())):
        assert (answer.status, answer.json["type"].rpartition(":")[2]) == (503, "not-ready")
        assert "has reservations that cannot be read" in answer.json["detail"]
    assert (await caller.ask("POST", GATE, asked(pool="shut"))).status == 200
    await store.delete(kinds.LEASE, Key(lease["metadata"]["name"], NAMESPACE))
    async with asyncio.timeout(PATIENCE_SECONDS):
        while (await caller.ask("POST", GATE, asked())).status != 200:
            await asyncio.sleep(0.01)


async def test_other_methods_are_refused_with_those_that_are_understood(caller):
    answer = await caller.ask("GET", f"{RESERVE}/x")
    assert (answer.status, answer.headers["Allow"]) == (405, "DELETE, PUT")


async def test_without_a_namespace_nothing_is_reserved_and_questions_are_answered(tmp_path):
    async with serving(tmp_path, namespace="nowhere") as caller:
        await put_pool(caller.up.store, "batch", 3, {"nodes": "2"})
        gate = caller.up.services.disruption.nodes
        await until(lambda: gate.synced and sum(view.counts().total for view in gate.views()) == 3)
        await caller.up.store.delete(kinds.NAMESPACE, Key("nowhere"))
        await until(lambda: caller.up.cache.get(kinds.NAMESPACE, "nowhere") is None)
        assert (await caller.ask("POST", GATE, asked())).json["allowed"]
        answer = await caller.ask("POST", RESERVE, wanted())
        assert (answer.status, answer.json["type"].rpartition(":")[2]) == (503, "not-ready")
        assert "there is no namespace 'nowhere' for reservations" in answer.json["detail"]
