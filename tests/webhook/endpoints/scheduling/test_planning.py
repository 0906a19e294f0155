"""``/v1/plan`` over real HTTPS, on a hub with members and placements."""

import json

import pytest
import pytest_asyncio

from scorer.api.kinds import (
    KINDS,
    NAMESPACED_OVERRIDE_SNAPSHOT,
    OVERRIDE_SNAPSHOT,
    PLACEMENT,
    RESOURCE_PLACEMENT,
    RESOURCE_SNAPSHOT,
    STAGED_RUN,
)
from tests.builders.placement import make_placement
from tests.webhook.controllers.staged_world import make_run, make_stage, make_strategy
from tests.webhook.controllers.world import make_member, pick_n, running
from tests.webhook.endpoints.world_server import serving
from tests.webhook.services import TOKEN
from webhook.access.rights import Access, Reviewed
from webhook.access.user import UserInfo

pytestmark = pytest.mark.asyncio(loop_scope="module")


class Rights:
    """Lets everybody ask everything, but list only some kinds of placements."""

    def __init__(self, *listed):
        self.listed = {kind.plural for kind in listed}

    async def may(self, user, wanted):
        return not isinstance(wanted, Access) or wanted.verb != "list" or wanted.resource in self.listed


PASSWORD = "Y29ycmVjdCBob3JzZQ=="


def make_secret(password):
    metadata = {"name": "keys", "namespace": "shop"}
    return {"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "data": {"password": password}}


class Away:
    """Knows the rights of nobody."""

    async def review(self, user, wanted):
        return Reviewed(unanswered="the hub is away")


@pytest_asyncio.fixture(loop_scope="module", scope="module")
async def world():
    """Four members and one placement; to plan changes nothing."""
    async with running() as found:
        await found.add(*(make_member(f"m{at}", nodes=at + 1) for at in range(4)), make_secret(PASSWORD))
        await found.until(lambda: all(member.status.agent_status for member in found.cache.fleet.members))
        await found.add(make_placement("web", pick_n(2)))
        await found.until(lambda: found.view("web")["state"] == "available")
        yield found


@pytest_asyncio.fixture(loop_scope="module", scope="module")
async def server(world):
    """A server of the usual settings, which the owner asks."""
    async with serving(world) as port:
        yield port


@pytest_asyncio.fixture(loop_scope="module")
async def client(server):
    """A connection to it."""
    async with server.dial() as found:
        yield found


async def ask(client, **body):
    return await client.post("/v1/plan", json.dumps(body).encode())


async def test_what_would_change_is_told_and_nothing_does(world, client):
    answer = await ask(client, objects=[make_placement("web", pick_n(3))], lost=["m3"])
    assert answer.status == 200, answer.body
    assert answer.headers["Content-Type"] == "application/json; charset=utf-8"
    assert answer.headers["Cache-Control"] == "no-store"
    plan = answer.json
    coverage = {"complete": True, "notJudged": [], "hidden": [], "unread": [], "assumed": [], "outcomes": []}
    assert plan.keys() - coverage.keys() == {
        "placements",
        "runs",
        "upgrades",
        "admission",
        "fleet",
        "evaluatedAt",
        "fleetRevision",
    }
    assert {key: plan[key] for key in coverage} == coverage
    (entry,) = plan["placements"]
    assert entry["moves"] == {"gained": ["m0", "m1"], "lost": ["m3"], "stays": ["m2"]}
    steps = [(step["bind"], step["remove"]) for step in entry["rollout"]["steps"]]
    assert steps == [(["m0", "m1"], []), ([], ["m3"])], "2 of 3 have to be ready before one may go"
    assert plan["fleet"] == {"gained": [], "changed": [], "lost": ["m3"], "drained": []}
    (verdict,) = plan["admission"]
    assert (verdict["operation"], verdict["allowed"], verdict["errors"]) == ("UPDATE", True, [])
    assert world.bound("web") == ["m2", "m3"]
    (settled,) = (await ask(client)).json["placements"]
    assert (settled["changed"], settled["moves"]["stays"]) == (False, ["m2", "m3"])


async def test_null_counts_as_absent(client):
    answer = await ask(client, objects=None, lost=["m3"], placements=None)
    assert (answer.status, len(answer.json["placements"])) == (200, 1)


async def test_deleted_and_drained(client):
    answer = await ask(client, drained=["m3"], deleted=[{"kind": "MemberCluster", "name": "m2"}])
    (entry,) = answer.json["placements"]
    assert entry["moves"] == {"gained": ["m0", "m1"], "lost": ["m2", "m3"], "stays": []}
    assert [verdict["operation"] for verdict in answer.json["admission"]] == ["DELETE"]
    assert answer.json["fleet"]["lost"] == ["m2"]
    gone = await ask(client, deleted=[{"kind": "ClusterResourcePlacement", "name": "web"}])
    assert gone.json["placements"][0]["rollout"]["type"] == "Deletion"


async def test_a_member_keeps_its_status_and_a_new_one_without_does_not_report(client):
    def bare(name):
        return {key: value for key, value in make_member(name).items() if key != "status"}

    objects = [bare("m3"), bare("new"), make_placement("all")]
    plan = (await ask(client, objects=objects)).json
    found = next(entry for entry in plan["placements"] if entry["name"] == "all")
    assert found["moves"]["gained"] == ["m0", "m1", "m2", "m3"]
    assert found["filtered"][0]["reason"].startswith("AgentNotReporting")
    told = {verdict["name"]: verdict["warnings"] for verdict in plan["admission"]}
    assert told["new"] == ["status: neither given nor stored: the member counts as not reporting"]
    assert not told["m3"]


async def test_kinds_that_no_decision_depends_on_are_judged_and_left_aside(client):
    pool = {"apiVersion": "karpenter.sh/v1", "kind": "NodePool", "metadata": {"name": "p"}, "spec": {}}
    config = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s", "namespace": "dock"}}
    plan = (await ask(client, objects=[pool, config])).json
    verdicts = {verdict["kind"]: verdict["allowed"] for verdict in plan["admission"]}
    assert verdicts == {"NodePool": False, "Secret": True}
    assert all(error["field"].startswith("spec") for error in plan["admission"][0]["errors"])
    assert not plan["placements"][0]["changed"]


async def test_only_the_placements_asked_about_are_told(client):
    new = make_placement("new", pick_n(1))
    refs = [{"kind": "ClusterResourcePlacement", "name": "new"}]
    answer = await ask(client, objects=[new], placements=refs)
    assert [entry["name"] for entry in answer.json["placements"]] == ["new"]


async def test_placements_that_the_caller_may_not_list_are_left_out(world):
    async with serving(world, authorizer=Rights(RESOURCE_PLACEMENT)) as port, port.dial() as client:
        answer = await ask(client, objects=[make_placement("web", pick_n(1))])
        assert answer.json["placements"] == []
        assert answer.json["admission"][0]["operation"] == "CREATE"
        ref = await ask(client, placements=[{"kind": "ClusterResourcePlacement", "name": "web"}])
        none = await ask(client, placements=[{"kind": "ClusterResourcePlacement", "name": "none"}])
        assert (ref.status, none.status) == (422, 422)
        assert ref.json["errors"][0]["detail"].replace("web", "none") == none.json["errors"][0]["detail"]
    async with serving(world, authorizer=Rights(PLACEMENT)) as port, port.dial() as client:
        assert [entry["name"] for entry in (await ask(client)).json["placements"]] == ["web"]


RELEASE = (
    make_placement("slow", pick_n(2), strategy={"type": "External"}),
    make_strategy(make_stage("all", labelSelector={})),
    {**make_run("r"), "spec": {**make_run("r")["spec"], "placementName": "slow"}},
)


async def test_what_a_run_changes_is_told_to_those_who_may_list_snapshots(world):
    for listed, hidden in (((), True), ((RESOURCE_SNAPSHOT,), False)):
        rights = Rights(PLACEMENT, STAGED_RUN, *listed)
        async with serving(world, authorizer=rights) as port, port.dial() as client:
            (run,) = (await ask(client, objects=list(RELEASE))).json["runs"]
            assert run["stages"][0]["clusters"]
            assert [content["hidden"] for content in run["contents"]] == [hidden]


async def test_runs_are_told_to_those_who_may_list_both_them_and_placements(world):
    for listed in ((PLACEMENT,), (STAGED_RUN,)):
        async with serving(world, authorizer=Rights(*listed)) as port, port.dial() as client:
            assert (await ask(client, objects=list(RELEASE))).json["runs"] == []


CONTENT = (RESOURCE_SNAPSHOT, OVERRIDE_SNAPSHOT, NAMESPACED_OVERRIDE_SNAPSHOT)


@pytest.mark.parametrize("missing", [pytest.param(kind, id=kind.plural) for kind in CONTENT])
async def test_a_guessed_secret_has_no_effect_for_callers_who_may_not_list_snapshots(world, missing):
    """A plan that does not change would confirm the guess, and so would the hash of the content."""
    rights = Rights(PLACEMENT, KINDS["", "Secret"], *(kind for kind in CONTENT if kind != missing))
    async with serving(world, authorizer=rights) as port, port.dial() as client:
        plans = [(await ask(client, objects=[make_secret(guess)])).json for guess in (PASSWORD, "eA==")]
    assert plans[0]["placements"] == plans[1]["placements"]
    for plan in plans:
        assert (plan["complete"], [item["kind"] for item in plan["hidden"]]) == (False, ["Secret"])
        assert plan["placements"][0]["rollout"]["contentHash"] == ""


async def test_a_changed_secret_has_effects_for_callers_who_may_list_snapshots(world, client):
    changed = [(await ask(client, objects=[make_secret(guess)])).json for guess in (PASSWORD, "eA==")]
    assert [plan["placements"][0]["changed"] for plan in changed] == [False, True]


WEB = make_placement("web", pick_n(1))


@pytest.mark.parametrize(
    ("body", "pointer", "code", "words"),
    [
        ({"lost": ["atlantis"]}, "/lost/0", "unknown", 'there is no member cluster "atlantis"'),
        ({"drained": ["m0", "x"]}, "/drained/1", "unknown", 'there is no member cluster "x"'),
        ({"lost": ["m0"], "drained": ["m0"]}, "/drained/0", "duplicate", 'member cluster "m0" is also in /lost/0'),
        ({"lost": ["m0", "m0"]}, "/lost/1", "duplicate", 'member cluster "m0" is also in /lost/0'),
        ({"objects": [make_member("m0")], "lost": ["m0"]}, "/lost/0", "duplicate", "is also in /objects"),
        ({"objects": [WEB, WEB]}, "/objects/1/metadata/name", "duplicate", "is also in /objects/0"),
        ({"deleted": [{"kind": "Ship", "name": "a"}]}, "/deleted/0/kind", "unknown", '"Ship" is not a known kind'),
        (
            {"deleted": [{"kind": "ClusterResourcePlacement", "name": "a"}]},
            "/deleted/0/name",
            "unknown",
            'there is no ClusterResourcePlacement "a"',
        ),
        (
            {"deleted": [{"kind": "ClusterResourcePlacement", "name": "web"}] * 2},
            "/deleted/1",
            "duplicate",
            "is also in /deleted/0",
        ),
        (
            {"objects": [WEB], "deleted": [{"kind": "ClusterResourcePlacement", "name": "web"}]},
            "/deleted/0",
            "duplicate",
            "is also in /objects",
        ),
        ({"deleted": [{"kind": "Node"}]}, "/deleted/0/name", "required", "must be set"),
        (
            {"placements": [{"kind": "ClusterResourcePlacement", "name": "none"}]},
            "/placements/0",
            "unknown",
            'there is no ClusterResourcePlacement "none"',
        ),
        ({"runs": [{"name": "none"}]}, "/runs/0", "unknown", 'there is no ClusterStagedUpdateRun "none"'),
        (
            {"runs": [{"name": "none", "namespace": "shop"}]},
            "/runs/0",
            "unknown",
            'there is no StagedUpdateRun "shop/none"',
        ),
        ({"placements": [{"kind": "Node", "name": "a"}]}, "/placements/0/kind", "invalid", "Node"),
        ({"objects": [{}]}, "/objects/0/apiVersion", "required", "must be set"),
        ({"objects": [{"apiVersion": "v1"}]}, "/objects/0/kind", "required", "must be set"),
        ({"objects": [{"apiVersion": 1, "kind": "Node"}]}, "/objects/0/apiVersion", "type", "1: must be a string"),
        ({"objects": [{**WEB, "kind": "Ship"}]}, "/objects/0/kind", "unknown", '"Ship" of'),
        ({"objects": [{**WEB, "apiVersion": "v1"}]}, "/objects/0/kind", "unknown", "is served as"),
        (
            {"objects": [{**WEB, "apiVersion": "placement.kubernetes-fleet.io/v7"}]},
            "/objects/0/apiVersion",
            "unknown",
            "is served as",
        ),
        ({"objects": [{**WEB, "metadata": None}]}, "/objects/0/metadata", "required", "must be set"),
        ({"objects": [{**WEB, "metadata": []}]}, "/objects/0/metadata", "type", "must be an object"),
        ({"objects": [{**WEB, "metadata": {}}]}, "/objects/0/metadata/name", "required", "must be set"),
        ({"objects": [{**WEB, "metadata": {"name": 3}}]}, "/objects/0/metadata/name", "type", "3: must be a string"),
        (
            {"objects": [{**WEB, "metadata": {"name": "a", "namespace": 3}}]},
            "/objects/0/metadata/namespace",
            "type",
            "3: must be a string",
        ),
        ({"objects": "web"}, "/objects", "type", "web"),
        ({"objects": ["web"]}, "/objects/0", "type", "web"),
        ({"objects": [WEB] * 501}, "/objects", "too-many", "at most 500"),
        ({"lost": [""]}, "/lost/0", "invalid", "at least 1"),
        ({"lost": [3]}, "/lost/0", "type", "3"),
        ({"lots": []}, "/lots", "unknown", "unknown field"),
    ],
)
async def test_bad_input_is_told_with_its_place(client, body, pointer, code, words):
    answer = await ask(client, **body)
    assert (answer.status, answer.headers["Content-Type"]) == (422, "application/problem+json")
    assert answer.json["type"] == "urn:harbormaster:problem:validation-failed"
    first = answer.json["errors"][0]
    assert (first["pointer"], first["code"]) == (pointer, code)
    assert words in first["detail"]


async def test_broken_objects_are_refused_by_admission_not_by_us(client):
    """Whatever the shape, there is a verdict with the path of the field, and the rest is planned."""
    broken = [
        {**WEB, "spec": None},
        {**make_placement("a"), "spec": []},
        {**make_placement("b"), "spec": {"policy": 3}},
        {**make_placement("c"), "metadata": {"name": "c", "labels": {"a": 1}}},
        {**make_placement("NotAName"), "spec": {}},
        {**make_member("m1"), "spec": {"identity": "me"}},
        {**make_member("m2"), "status": {"properties": "many"}},
        {**make_member("m9"), "spec": {"identity": {"kind": "User", "name": "x"}, "taints": [{"key": "a"}]}},
    ]
    answer = await ask(client, objects=broken, lost=["m0"])
    assert answer.status == 200, answer.body
    refused = [verdict for verdict in answer.json["admission"] if not verdict["allowed"]]
    assert len(refused) == len(broken)
    assert all(verdict["errors"] for verdict in refused)
    assert answer.json["placements"][0]["moves"]["stays"] == ["m2", "m3"]


class Somebody:
    """Lets in a user without any rights of their own."""

    audience = ""

    def cached(self, token):
        return UserInfo("somebody")

    async def authenticate(self, token):
        return UserInfo("somebody")


async def test_where_rights_are_enforced_and_cannot_be_had_nothing_is_planned(world):
    guarded = serving(world, access=Away(), caller=Somebody(), placement_authorization="Enforce")
    async with guarded as port, port.dial() as client:
        answer = await ask(client, objects=[make_placement("new", pick_n(1))])
        assert (answer.status, answer.headers["Retry-After"]) == (503, "1")
        assert answer.json["type"] == "urn:harbormaster:problem:not-ready"
        assert (await ask(client, lost=["m3"])).status == 200


async def test_methods_types_and_strangers(client):
    assert (await client.get("/v1/plan")).status == 405
    assert (await client.post("/v1/plan", b"{}", **{"Content-Type": "text/plain"})).status == 415
    assert (await client.post("/v1/plan", b"{")).status == 400
    assert (await client.post("/v1/plan", b"{}", Authorization=f"Bearer {TOKEN}x")).status == 401
