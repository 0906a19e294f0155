"""What ``/v1/validate``, ``/v1/plan`` and the gates tell callers about objects that they may not list: nothing."""

import json

import pytest
import pytest_asyncio

from scorer.api.kinds import (
    NAMESPACED_OVERRIDE,
    OVERRIDE,
    PLACEMENT,
    STAGED_RUN,
)
from tests.builders.placement import make_placement
from tests.webhook.controllers.override_rules import make_override, rule
from tests.webhook.controllers.staged_world import make_run, make_stage, make_strategy
from tests.webhook.controllers.world import make_member, pick_n, running
from tests.webhook.endpoints.world_server import serving
from webhook.access.rights import Access, Reviewed
from webhook.access.user import UserInfo
from webhook.endpoints.http.access_control import DISRUPTING_KINDS

pytestmark = pytest.mark.asyncio(loop_scope="module")

HIDDEN = "hidden"
"""Part of the name of every object that is on the hub already."""


class Rights:
    """Lets every caller ask everything, and list only these kinds, everywhere or in one namespace."""

    def __init__(self, *kinds, namespace=""):
        self.listed = {(kind.plural, namespace) for kind in kinds}

    async def may(self, _user, wanted):
        if not isinstance(wanted, Access) or wanted.verb != "list":
            return True
        return bool(self.listed & {(wanted.resource, ""), (wanted.resource, wanted.namespace)})


class Ann:
    """Takes every token for that of a user without rights."""

    audience = ""

    def cached(self, _token):
        return UserInfo("ann")


class Denying:
    """Allows no author anything."""

    def cached(self, _user, _wanted):
        return None

    async def review(self, _user, wanted):
        return Reviewed(tuple(wanted))


def unstarted(name):
    document = make_run(name)
    document["spec"] |= {"placementName": f"slow-{HIDDEN}", "state": "Initialize"}
    return document


@pytest_asyncio.fixture(loop_scope="module", scope="module")
async def world():
    """A hub on which placements, overrides and a run are called hidden."""
    async with running() as found:
        await found.add(make_member("a"), make_member("b"))
        await found.until(lambda: all(member.status.agent_status for member in found.cache.fleet.members))
        await found.add(
            make_placement(f"crp-{HIDDEN}", pick_n(2)),
            make_placement(f"slow-{HIDDEN}", pick_n(1), home="dock", strategy={"type": "External"}),
            make_override(f"cro-{HIDDEN}", rule("x"), namespace="", placement=""),
            make_override(f"ro-{HIDDEN}", rule("x"), placement=""),
            make_strategy(make_stage("all", labelSelector={})),
            unstarted(f"run-{HIDDEN}"),
        )
        await found.until(lambda: len(found.bound(f"crp-{HIDDEN}")) == 2)
        await found.until(lambda: all(found.cache.list(kind) for kind in (OVERRIDE, NAMESPACED_OVERRIDE, STAGED_RUN)))
        yield found


def tainted():
    document = make_member("a")
    document["spec"] = {**document["spec"], "taints": [{"key": "a", "value": "b", "effect": "NoSchedule"}]}
    return document


BY_HAND = {
    "apiVersion": "placement.kubernetes-fleet.io/v1",
    "kind": "ClusterResourceBinding",
    "metadata": {"name": "mine", "labels": {"kubernetes-fleet.io/parent-CRP": f"crp-{HIDDEN}"}},
    "spec": {
        "targetCluster": "b",
        "state": "Bound",
        "resourceSnapshotName": "mine",
        "schedulingPolicySnapshotName": "mine",
        "clusterDecision": {"clusterName": "b", "selected": True, "reason": "mine"},
    },
}
QUESTIONS = [
    pytest.param(make_override("mine", rule("x"), namespace=""), None, OVERRIDE, f"cro-{HIDDEN}", id="O-08"),
    pytest.param(make_override("mine", rule("x")), None, NAMESPACED_OVERRIDE, f"ro-{HIDDEN}", id="O-08-namespaced"),
    pytest.param(make_placement("mine", pick_n(2)), None, PLACEMENT, f"crp-{HIDDEN}", id="X-22"),
    pytest.param(unstarted("mine"), None, STAGED_RUN, f"run-{HIDDEN}", id="X-43"),
    pytest.param(tainted(), make_member("a"), PLACEMENT, f"crp-{HIDDEN}", id="X-92"),
    pytest.param(BY_HAND, None, PLACEMENT, 'namespaces "shop"', id="what-a-placement-selects"),
]


async def validated(world, authorizer, document, old):
    """Return the answer about a write, without what the caller has named."""
    body = {"object": document} | ({"oldObject": old} if old else {})
    async with serving(world, authorizer=authorizer, caller=Ann(), access=Denying()) as port, port.dial() as client:
        answer = await client.post("/v1/validate", json.dumps(body).encode())
    assert answer.status == 200, answer.body
    return json.dumps(answer.json["errors"] + answer.json["warnings"], ensure_ascii=False).replace('\\"', '"')


@pytest.mark.parametrize(("document", "old", "kind", "words"), QUESTIONS)
async def test_a_verdict_names_what_the_caller_may_list(world, document, old, kind, words):
    assert words in await validated(world, Rights(kind, *DISRUPTING_KINDS), document, old)
    told = await validated(world, Rights(), document, old)
    assert words not in told
    if kind in (OVERRIDE, NAMESPACED_OVERRIDE):
        assert f"not compared with other {kind.plural}" in told


@pytest.mark.parametrize(("namespace", "named"), [("shop", True), ("dock", False)])
async def test_a_right_in_the_namespace_is_enough_for_what_is_there(world, namespace, named):
    document = make_override("mine", rule("x"))
    told = await validated(world, Rights(NAMESPACED_OVERRIDE, namespace=namespace), document, None)
    assert (f"ro-{HIDDEN}" in told) == named


@pytest.mark.parametrize(("document", "old", "kind", "words"), QUESTIONS)
async def test_a_plan_names_what_the_caller_may_list(world, document, old, kind, words):
    """The verdicts in it are those of admission; without them, what is planned is told by other rules."""
    found = {}
    for listed in ((kind, *DISRUPTING_KINDS), ()):
        rights = Rights(*listed)
        async with serving(world, authorizer=rights, caller=Ann(), access=Denying()) as port, port.dial() as client:
            answer = await client.post("/v1/plan", json.dumps({"objects": [document]}).encode())
        assert answer.status == 200, answer.body
        found[bool(listed)] = json.dumps(answer.json["admission"], ensure_ascii=False).replace('\\"', '"')
    assert words in found[True]
    assert words not in found[False]


@pytest.mark.parametrize("kind", [OVERRIDE, NAMESPACED_OVERRIDE, STAGED_RUN, PLACEMENT], ids=lambda kind: kind.kind)
async def test_a_plan_deletes_nothing_that_the_caller_may_not_list(world, kind):
    (there, *_) = world.cache.list(kind)
    name = there["metadata"]["name"]
    asked = {"kind": kind.kind, "name": name, "namespace": there["metadata"].get("namespace", "")}
    async with serving(world, authorizer=Rights(), caller=Ann()) as port, port.dial() as client:
        known = await client.post("/v1/plan", json.dumps({"deleted": [asked]}).encode())
        unknown = await client.post("/v1/plan", json.dumps({"deleted": [asked | {"name": "none"}]}).encode())
    assert (known.status, unknown.status) == (422, 422)
    assert known.json["errors"][0]["detail"].replace(name, "none") == unknown.json["errors"][0]["detail"]
