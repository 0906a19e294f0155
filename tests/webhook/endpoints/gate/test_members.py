"""``/v1/gate/rollout`` and ``/v1/gate/cluster-update`` over real HTTPS, on a hub of their own."""

import pytest
import pytest_asyncio

from scorer.api.family import PlacementRef
from scorer.api.kinds import MEMBER_CLUSTER, PLACEMENT, STAGED_RUN, UPGRADE_RUN
from scorer.member_gate.holds import MemberDisruption
from tests.builders.placement import make_placement
from tests.waiting import PATIENCE_SECONDS, until
from tests.webhook.controllers.world import held_up, make_member, pick_n
from tests.webhook.description.example_hub import changed, serving
from webhook.access.rights import Access
from webhook.access.user import UserInfo
from webhook.controllers.machinery.result import DONE
from webhook.endpoints.http.access_control import DISRUPTING_KINDS
from webhook.gate.keeper import Claimant

pytestmark = pytest.mark.asyncio(loop_scope="module")

ROLLOUT = "/v1/gate/rollout"
UPDATE = "/v1/gate/cluster-update"
RESERVE = "/v1/gate/reservations"
WEB = {"ref": {"kind": "ClusterResourcePlacement", "name": "web"}}


@pytest_asyncio.fixture(loop_scope="module", scope="module")
async def caller(tmp_path_factory):
    """The owner of a hub with members a and b and one placement on both; a run is upgrading b."""
    async with serving(tmp_path_factory.mktemp("hub"), requests_per_second=1e6, request_burst=10**6) as owner:
        store = owner.up.store
        for name in "ab":
            await store.create(MEMBER_CLUSTER, make_member(name))
        await store.create(PLACEMENT, make_placement("web", pick_n(2)))
        owner.up.loop.queues["cluster_upgrade"]._reconcile = _leave_alone
        made = {"apiVersion": UPGRADE_RUN.api_version, "kind": UPGRADE_RUN.kind, "metadata": {"name": "v131"}}
        upgrade = {"type": "ControlPlaneOnly", "kubernetesVersion": "1.31"}
        run = await store.create(UPGRADE_RUN, made | {"spec": {"state": "Run", "upgrade": upgrade}})
        members = [{"name": "a", "state": "NotStarted"}, {"name": "b", "state": "Running"}]
        group = {"name": "g", "state": "Running", "maxConcurrency": 2, "members": members}
        stages = [{"name": "s", "state": "Running", "groups": [group]}]
        await store.replace_status(UPGRADE_RUN, {**run, "status": {"state": "Running", "stages": stages}})
        gates = owner.up.services.disruption.members
        await until(lambda: gates.synced and bool(gates.holds.of("b")))
        assert await owner.up.settled(PATIENCE_SECONDS)
        yield owner


async def _leave_alone(_run):
    """Let a run stay as it is written here: its own controller would go on with it."""
    return DONE


def of(answer):
    """Return status, kind of problem, and the places of the mistakes."""
    found = answer.json
    places = [each["pointer"] for each in found.get("errors", ())]
    return answer.status, found["type"].rpartition(":")[2], places


async def test_a_rollout_is_answered_for(caller):
    answer = await caller.ask("POST", ROLLOUT, {"placement": WEB, "cluster": "a"})
    assert (answer.status, answer.headers["Cache-Control"]) == (200, "no-store")
    told = answer.json
    assert (told["allowed"], told["reason"], told["retryAfterSeconds"]) == (False, "NothingToDo", 10)


async def test_an_upgrade_is_answered_for(caller):
    answer = await caller.ask("POST", UPDATE, {"cluster": "a"})
    assert answer.status == 200
    assert (answer.json["allowed"], answer.json["reason"]) == (True, "Allowed")
    named = await caller.ask("POST", UPDATE, {"cluster": "b", "run": "v131"})
    assert named.json["message"] == "run v131 is upgrading member b"


def wanted(gate, **question):
    return {"gate": gate, "question": question, "holder": "tool", "ttlSeconds": 60}


async def test_an_upgrade_is_reserved_and_given_back(caller):
    answer = await caller.ask("POST", RESERVE, wanted("cluster-update", cluster="a"))
    assert (answer.status, answer.json["granted"], answer.json.keys()) == (201, ["a"], {"id", "expires", "granted"})
    try:
        (hold,) = caller.up.services.disruption.members.holds.of("a")
        assert hold.message == "member a is reserved for Upgrade by tool"
    finally:
        given_back = await caller.ask("DELETE", f"{RESERVE}/{answer.json['id']}")
        assert given_back.status == 204
    assert caller.up.services.disruption.members.holds.of("a") == ()


async def test_a_rollout_is_reserved_renewed_and_given_back(caller):
    """On the placement and on the member at once; only a run changes this one, which the loop has no time for now."""
    async with held_up(caller.up.loop.queues["staged_update"]):
        await reserve_renew_and_give_back(caller)


async def reserve_renew_and_give_back(caller):
    store, known = caller.up.store, caller.up.services.disruption.keeper.reservations.cached
    policy = {"placementType": "PickFixed", "clusterNames": ["a"]}
    await store.create(PLACEMENT, make_placement("api", policy, strategy={"type": "External"}))
    made = {"apiVersion": STAGED_RUN.api_version, "kind": STAGED_RUN.kind, "metadata": {"name": "spring"}}
    spec = {"placementName": "api", "stagedRolloutStrategyName": "s", "state": "Run"}
    run = await store.create(STAGED_RUN, made | {"spec": spec})
    said = [{"type": "Initialized", "status": "True", "reason": "x", "observedGeneration": 1}]
    stages = [{"stageName": "one", "clusters": [{"clusterName": "a"}]}]
    await store.replace_status(STAGED_RUN, {**run, "status": {"conditions": said, "stagesStatus": stages}})
    api = PlacementRef(PLACEMENT.kind, "api")
    await until(lambda: caller.up.cache.get(PLACEMENT, "api"))
    await until(lambda: caller.up.services.disruption.members.rollout(api, "a").allowed)
    placement = {"ref": {"kind": "ClusterResourcePlacement", "name": "api"}}
    body = wanted("rollout", placement=placement, cluster="a")
    answer = await caller.ask("POST", RESERVE, body)
    assert (answer.status, answer.json["granted"], answer.json.keys()) == (201, ["a"], {"id", "expires", "granted"})
    again = await caller.ask("POST", RESERVE, body)
    assert (again.status, again.json["id"]) == (201, answer.json["id"])
    refused = await caller.ask("POST", RESERVE, body | {"holder": "another tool"})
    assert (refused.status, refused.json["answer"]["reason"]) == (409, "MemberHeld")
    assert refused.json["detail"] == f"crp/api is reserved on member a by tool until {again.json['expires']}"
    listed = [each for each in (await caller.ask("GET", RESERVE)).json["items"] if each["holder"] == "tool"]
    assert [(each["gate"], each["of"], each["id"]) for each in listed] == [("rollout", "crp/api", answer.json["id"])]
    async with changed(caller, authorizer=AllButReading(), authenticator=SomebodyElse()) as stranger:
        items = (await stranger.ask("GET", RESERVE)).json["items"]
        assert [(each["gate"], each["of"], "id" in each) for each in items] == [("member", "a", False)]
    assert len(known("rollout", "crp/api")) == len(known("member", "a")) == 1
    path = f"{RESERVE}/{answer.json['id']}"
    renewed = await caller.ask("PUT", path, {"ttlSeconds": 600})
    assert (renewed.status, renewed.json["id"]) == (200, answer.json["id"])
    assert [(await caller.ask("DELETE", path)).status for _ in range(2)] == [204, 404]
    assert known("rollout", "crp/api") == known("member", "a") == ()


async def test_what_a_gate_refuses_is_a_conflict_that_tells_all(caller):
    answer = await caller.ask("POST", RESERVE, wanted("rollout", placement=WEB, cluster="a"))
    assert (answer.status, answer.json["type"].rpartition(":")[2]) == (409, "conflict")
    assert (answer.json["answer"]["reason"], answer.headers["Retry-After"]) == ("NothingToDo", "10")


@pytest.mark.parametrize(
    ("gate", "question", "status", "pointers"),
    [
        ("rollout", {"placement": WEB}, 422, ["/question/cluster"]),
        ("rollout", {"placement": WEB, "cluster": "z"}, 404, []),
        ("cluster-update", {}, 422, ["/question/cluster"]),
        ("cluster-update", {"cluster": "z"}, 404, []),
    ],
)
async def test_a_question_inside_a_reservation_is_judged_as_alone(caller, gate, question, status, pointers):
    answer = await caller.ask("POST", RESERVE, wanted(gate, **question))
    assert answer.status == status
    assert [each["pointer"] for each in answer.json.get("errors", ())] == pointers


@pytest.mark.parametrize(
    ("path", "body", "pointers"),
    [
        (ROLLOUT, {"cluster": "a"}, ["/placement"]),
        (ROLLOUT, {"placement": WEB}, ["/cluster"]),
        (ROLLOUT, {"placement": WEB, "cluster": "a", "when": "now"}, ["/when"]),
        (ROLLOUT, {"placement": {}, "cluster": "a"}, ["/placement"]),
        (ROLLOUT, {"placement": {"inline": {"placementType": "PickAll"}}, "cluster": "a"}, ["/placement"]),
        (
            ROLLOUT,
            {"placement": {"ref": {"kind": "Deployment", "name": "web"}}, "cluster": "a"},
            ["/placement/ref/kind"],
        ),
        (ROLLOUT, {"placement": WEB, "cluster": 7}, ["/cluster"]),
        (ROLLOUT, {"placement": WEB, "cluster": ""}, ["/cluster"]),
        (UPDATE, {}, ["/cluster"]),
        (UPDATE, {"cluster": ["a"]}, ["/cluster"]),
        (UPDATE, {"cluster": "a", "run": "x" * 254}, ["/run"]),
        (UPDATE, {"cluster": "a", "force": True}, ["/force"]),
    ],
)
async def test_bodies_are_strict(caller, path, body, pointers):
    assert of(await caller.ask("POST", path, body)) == (422, "validation-failed", pointers)


@pytest.mark.parametrize(
    ("path", "body", "detail"),
    [
        (
            ROLLOUT,
            {"placement": {"ref": WEB["ref"] | {"name": "gone"}}, "cluster": "a"},
            "there is no placement crp/gone",
        ),
        (ROLLOUT, {"placement": WEB, "cluster": "z"}, "there is no member cluster 'z'"),
        (UPDATE, {"cluster": "z"}, "there is no member cluster 'z'"),
        (UPDATE, {"cluster": "a", "run": "v132"}, "there is no ClusterUpgradeRun 'v132'"),
    ],
)
async def test_what_does_not_exist_is_not_found(caller, path, body, detail):
    answer = await caller.ask("POST", path, body)
    assert of(answer) == (404, "not-found", [])
    assert answer.json["detail"] == detail


async def test_only_post_is_understood(caller):
    for path in (ROLLOUT, UPDATE):
        answer = await caller.ask("GET", path)
        assert (answer.status, answer.headers["Allow"]) == (405, "POST")
        assert (await caller.anonymous().ask("POST", path, {})).status == 401


class SomebodyElse:
    """Takes every token for a stranger's."""

    audience = ""

    def cached(self, _token):
        return None

    async def authenticate(self, _token):
        return UserInfo("stranger")


class AllButReading:
    """Lets everybody ask everything, and read no placement."""

    async def may(self, _user, wanted):
        return not isinstance(wanted, Access)


class Listing(AllButReading):
    """Lets everybody ask everything, get everything, and list some kinds."""

    def __init__(self, kinds):
        self._plurals = {kind.plural for kind in kinds}

    async def may(self, _user, wanted):
        return not isinstance(wanted, Access) or wanted.verb == "get" or wanted.resource in self._plurals


@pytest.mark.parametrize(
    ("path", "body", "kinds", "words"),
    [
        pytest.param(UPDATE, {"cluster": "b"}, [UPGRADE_RUN], "v131", id="the-run-that-upgrades-it"),
        pytest.param(UPDATE, {"cluster": "a"}, DISRUPTING_KINDS, "private-tool", id="what-holds-it-from-an-upgrade"),
    ],
)
async def test_what_a_member_waits_for_is_named_to_those_who_may_list_it(caller, path, body, kinds, words):
    claimant = Claimant("private-tool", "somebody else")
    held = await caller.up.services.disruption.keeper.hold_member("a", MemberDisruption.EVICTION, claimant, 60)
    try:
        found = {}
        for listed in (kinds, ()):
            async with changed(caller, authorizer=Listing(listed)) as stranger:
                found[bool(listed)] = (await stranger.ask("POST", path, body)).json
    finally:
        await caller.up.services.disruption.keeper.release(held.id, claimant.identity)
    assert words in str(found[True])
    assert words not in str(found[False])
    same = ("allowed", "reason", "retryAfterSeconds")
    assert [found[True][name] for name in same] == [found[False][name] for name in same]


async def test_a_run_that_the_caller_may_not_get_does_not_exist(caller):
    async with changed(caller, authorizer=AllButReading()) as stranger:
        for path, body in (
            (UPDATE, {"cluster": "b", "run": "v131"}),
            (RESERVE, wanted("cluster-update", cluster="b", run="v131")),
        ):
            answer = await stranger.ask("POST", path, body)
            assert of(answer) == (404, "not-found", [])
            assert answer.json["detail"] == "there is no ClusterUpgradeRun 'v131'"


async def test_what_is_not_reserved_names_no_more_than_an_answer(caller):
    claimant = Claimant("private-tool", "somebody else")
    held = await caller.up.services.disruption.keeper.hold_member("a", MemberDisruption.EVICTION, claimant, 60)
    try:
        told = await caller.ask("POST", RESERVE, wanted("cluster-update", cluster="a"))
        async with changed(caller, authorizer=Listing(()), authenticator=SomebodyElse()) as stranger:
            hidden = await stranger.ask("POST", RESERVE, wanted("cluster-update", cluster="a"))
    finally:
        await caller.up.services.disruption.keeper.release(held.id, claimant.identity)
    assert [(answer.status, "private-tool" in str(answer.json)) for answer in (told, hidden)] == [
        (409, True),
        (409, False),
    ]


async def test_a_placement_that_the_caller_may_not_read_does_not_exist(caller):
    async with changed(caller, authorizer=AllButReading()) as stranger:
        answer = await stranger.ask("POST", ROLLOUT, {"placement": WEB, "cluster": "a"})
        assert of(answer) == (404, "not-found", [])
        assert answer.json["detail"] == "there is no placement crp/web"
        assert (await stranger.ask("POST", UPDATE, {"cluster": "a"})).status == 200
        answer = await stranger.ask("POST", RESERVE, wanted("rollout", placement=WEB, cluster="a"))
        assert answer.json["detail"] == "there is no placement crp/web"
