"""``/v1/render`` over real HTTPS: objects of clusters, and what callers with fewer rights get."""

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
)
from tests.builders.placement import make_placement
from tests.webhook.controllers.world import make_config_map, make_member, pick_n, running
from tests.webhook.endpoints.world_server import serving
from webhook.access.rights import Access

pytestmark = pytest.mark.asyncio(loop_scope="module")

CONFIG_MAP, SECRET = KINDS["", "ConfigMap"], KINDS["", "Secret"]
CONTENT = (PLACEMENT, RESOURCE_SNAPSHOT, OVERRIDE_SNAPSHOT, NAMESPACED_OVERRIDE_SNAPSHOT)
PASSWORD = "Y29ycmVjdCBob3JzZQ=="


class Rights:
    """Lets everybody ask everything, but list only some kinds."""

    def __init__(self, *listed):
        self.listed = {kind.plural for kind in listed}

    async def may(self, user, wanted):
        return not isinstance(wanted, Access) or wanted.verb != "list" or wanted.resource in self.listed


def make_secret(**data):
    metadata = {"name": "keys", "namespace": "shop"}
    return {"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "data": {"password": PASSWORD, **data}}


@pytest_asyncio.fixture(loop_scope="module", scope="module")
async def world():
    """Two members, and one placement of a ConfigMap and a Secret."""
    async with running() as found:
        await found.add(*(make_member(f"m{at}", nodes=at + 1) for at in range(2)), make_secret())
        await found.until(lambda: all(member.status.agent_status for member in found.cache.fleet.members))
        await found.add(make_placement("web", pick_n(2)))
        await found.until(lambda: found.view("web")["state"] == "available")
        yield found


async def ask(world, rights=None, **body):
    async with serving(world, **({"authorizer": rights} if rights else {})) as server, server.dial() as client:
        return await client.post("/v1/render", json.dumps(body).encode())


async def rendered(world, rights=None, **body):
    answer = await ask(world, rights, **body)
    assert answer.status == 200, answer.body
    assert answer.headers["Cache-Control"] == "no-store"
    return answer.json


async def test_changed_objects_by_group_of_clusters(world):
    answer = await rendered(world, objects=[make_config_map("rates", value="2"), make_secret(password="eA==")])
    assert answer.keys() == {
        *("placements", "admission", "evaluatedAt", "fleetRevision"),
        *("complete", "notJudged", "hidden", "unread", "assumed"),
    }
    (entry,) = answer["placements"]
    (group,) = entry["groups"]
    assert (group["clusters"], group["unchanged"]) == (["m0", "m1"], 1)
    assert [(item["kind"], item["change"]) for item in group["objects"]] == [
        ("Secret", "Changed"),
        ("ConfigMap", "Changed"),
    ]
    secret, config_map = group["objects"]
    assert secret["manifest"]["data"] == {"password": "***"}
    assert "+  value: '2'" in config_map["diff"]
    assert PASSWORD not in json.dumps(answer)


@pytest.mark.parametrize(
    ("deleted", "removed"),
    [
        pytest.param({"kind": "ConfigMap", "name": "rates", "namespace": "shop"}, {"m0", "m1"}, id="object"),
        pytest.param({"kind": "ClusterResourcePlacement", "name": "web"}, {"m0", "m1"}, id="placement"),
        pytest.param({"kind": "MemberCluster", "name": "m0"}, set(), id="member-that-leaves-with-its-content"),
    ],
)
async def test_a_deletion_names_the_objects_that_leave_each_cluster(world, deleted, removed):
    (entry,) = (await rendered(world, deleted=[deleted]))["placements"]
    assert {cluster for group in entry["groups"] for cluster in group["clusters"]} == removed
    assert {item["change"] for group in entry["groups"] for item in group["objects"]} <= {"Removed"}


async def test_without_changes_nothing_is_listed_unless_asked(world):
    (entry,) = (await rendered(world))["placements"]
    assert entry["groups"] == []
    (entry,) = (await rendered(world, unchanged=True, clusters=["m0"]))["placements"]
    ((group),) = entry["groups"]
    assert (group["clusters"], len(group["objects"])) == (["m0"], 3)
    assert {item["change"] for item in group["objects"]} == {"Unchanged"}


@pytest.mark.parametrize("missing", [pytest.param(kind, id=kind.plural) for kind in CONTENT if kind != PLACEMENT])
async def test_objects_are_hidden_from_callers_who_may_not_list_their_snapshots(world, missing):
    """An answer about a proposed Secret would otherwise confirm a guess of its value."""
    rights = Rights(*(kind for kind in CONTENT if kind != missing), CONFIG_MAP, SECRET)
    for password in (PASSWORD, "eA=="):
        (entry,) = (await rendered(world, rights, objects=[make_secret(password=password)]))["placements"]
        assert entry == {
            "name": "web",
            "namespace": "",
            "message": "",
            "hidden": True,
            "uncertain": False,
            "groups": [],
            "failures": [],
            "unknown": [],
        }


async def test_placements_are_those_that_the_caller_may_list(world):
    answer = await rendered(world, Rights(RESOURCE_PLACEMENT))
    assert answer["placements"] == []


async def test_a_proposed_placement_shows_no_object_of_the_hub_that_the_caller_may_not_list(world):
    """The cache of a loop holds Secrets and ConfigMaps of all namespaces."""
    spy = make_placement("spy", pick_n(1), home="dock")
    await world.add(make_config_map("hush", "dock", word="sesame"))
    await world.until(lambda: world.cache.get(CONFIG_MAP, "hush", "dock"))
    shown = await rendered(world, Rights(*CONTENT, CONFIG_MAP, KINDS["", "Namespace"]), objects=[spy])
    assert "sesame" in json.dumps(shown)
    limited = await rendered(world, Rights(*CONTENT, KINDS["", "Namespace"]), objects=[spy])
    assert [entry["name"] for entry in limited["placements"]] == ["spy", "web"]
    assert "sesame" not in json.dumps(limited)
    assert "hush" not in json.dumps(limited)


@pytest.mark.parametrize(
    ("body", "pointer", "code"),
    [
        pytest.param({"clusters": ["atlantis"]}, "/clusters/0", "unknown", id="cluster"),
        pytest.param(
            {"placements": [{"kind": "ClusterResourcePlacement", "name": "none"}]},
            "/placements/0",
            "unknown",
            id="placement",
        ),
        pytest.param({"lost": ["m0"]}, "/lost", "unknown", id="field"),
        pytest.param({"clusters": ["m"] * 1001}, "/clusters", "too-many", id="too-many"),
        pytest.param({"run": {"name": "web-1"}}, "/run", "unknown", id="run"),
    ],
)
async def test_mistakes_have_pointers(world, body, pointer, code):
    answer = await ask(world, **body)
    assert answer.status == 422, answer.body
    assert [(error["pointer"], error["code"]) for error in answer.json["errors"]] == [(pointer, code)]


async def test_an_answer_that_would_be_too_large_is_refused(world, monkeypatch):
    monkeypatch.setattr("webhook.answers.rendering.LARGEST_ANSWER", 100)
    answer = await ask(world, unchanged=True)
    assert answer.status == 422
    assert answer.json["errors"][0]["code"] == "too-many"
