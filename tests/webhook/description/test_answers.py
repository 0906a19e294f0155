"""Real answers of a real server are as described: no member too many, none too few, none that is never seen."""

import asyncio
import json
import re
from collections.abc import AsyncIterator

import pytest

from tests.waiting import PATIENCE_SECONDS, until
from tests.webhook.description.conftest import COMMITTED
from tests.webhook.description.contract import Contract
from tests.webhook.description.example_hub import Caller, changed, serving
from tests.webhook.description.mistakes import MISTAKES
from tests.webhook.description.questions import (
    EXAMPLES,
    NAMESPACED,
    NEXT_RELEASE,
    PLACEMENT,
    SCORES,
    STRANGE,
    TAINT,
    THOROUGH,
    by_name,
)
from tests.webhook.gate.gates import put_pool
from webhook.access.ports import PathAccess
from webhook.access.rights import Access
from webhook.access.user import UserInfo

pytestmark = pytest.mark.asyncio(loop_scope="module")

ANSWERS = (
    *("ScoreAnswer", "FilterAnswer", "ExplainAnswer", "PlanAnswer", "ValidateAnswer", "DefaultAnswer"),
    *("ClusterList", "PlacementList", "PlacementDetail", "RunList"),
    *("UpgradeWhatIfAnswer", "OrderAnswer"),
)


async def ask_everything(caller: Caller, contract: Contract) -> None:
    """Ask all there is to ask about the example fleet, and hold every answer against the description."""

    async def ask(method, path, body=None):
        answer = await caller.ask(method, path, body)
        assert answer.status == 200, (path, body, answer.body)
        contract.check(method, path, answer)
        return answer.json

    for method, path, body in EXAMPLES.values():
        await ask(method, path, body)
    for item in (await ask("GET", "/v1/placements"))["items"]:
        question = {"placement": by_name(item["name"], item["namespace"])}
        for path, body in (
            ("/v1/explain", question),
            ("/v1/filter", question),
            ("/v1/score", question | {"limit": 50, "explain": True}),
        ):
            await ask("POST", path, body)
        await ask("GET", f"/v1/placements/{item['ref']}")
        await ask("GET", f"/v1/placements/{item['ref']}/runs")
        await ask("GET", f"/v1/placements/{item['ref']}/object")
        await ask("GET", f"/v1/placements/{item['ref']}/tree/bravelion")
    for item in (await ask("GET", "/v1/runs"))["items"]:
        await ask("GET", f"/v1/runs/{item['ref']}")
    for item in (await ask("GET", "/v1/clusters"))["items"]:
        await ask("GET", f"/v1/clusters/{item['name']}")
    for path in ("/v1/explain", "/v1/filter", "/v1/score"):
        await ask("POST", path, STRANGE)
    edited = PLACEMENT | {"spec": PLACEMENT["spec"] | {"policy": {"placementType": "PickN", "numberOfClusters": 2}}}
    await ask("POST", "/v1/validate", {"object": edited | {"metadata": {"name": "No_Name", "colour": "red"}}})
    await ask("POST", "/v1/validate", {"object": edited, "oldObject": PLACEMENT, "operation": "UPDATE"})
    await ask("POST", "/v1/default", {"object": NAMESPACED})
    await ask("POST", "/v1/plan", {})
    await ask("POST", "/v1/plan", {"objects": [edited, PLACEMENT | {"metadata": {"name": "broken"}}]})
    await ask("POST", "/v1/plan", {"lost": ["bravelion"], "drained": ["jumpingcat", "smartfish"]})
    later = {"op": "durationFactor", "value": 20}
    await ask("POST", "/v1/upgrade/whatif", {"run": "kubernetes-1-31", "changes": [later]})
    await ask("POST", "/v1/plan", {"objects": NEXT_RELEASE, "placements": [], "runs": [{"name": "storefront-2"}]})


async def test_answers_are_as_described_and_what_is_described_is_answered(caller, contract):
    created = await caller.ask("POST", "/apis/placement.kubernetes-fleet.io/v1/clusterresourceplacements", THOROUGH)
    assert created.status == 201, created.body
    tainted = await caller.ask(
        "PATCH",
        "/apis/cluster.kubernetes-fleet.io/v1/memberclusters/bravelion",
        {"metadata": {"annotations": SCORES | UPKEEP}, "spec": {"taints": [TAINT]}},
        Content_Type="application/merge-patch+json",
    )
    assert tainted.status == 200, tainted.body
    assert await caller.up.settled(PATIENCE_SECONDS)
    await ask_everything(caller, contract)
    unseen = contract.described(*ANSWERS) - contract.seen
    assert not (unseen - UNSEEN), ", ".join(f"{name}.{member}" for name, member in sorted(unseen - UNSEEN))


UPKEEP = {"harbormaster.dev/upgrade-hold": "true", "harbormaster.dev/upgrade-windows": "nowhere"}
UNSEEN = {
    ("Cluster", "holds"),  # nothing disrupts a member any more
    *(("MemberHold", member) for member in ("kind", "by", "message", "until")),
    *(("MemberUpgrade", member) for member in ("fromVersion", "toVersion")),  # none is being upgraded
    ("MemberWindow", "unreadable"),  # admission refuses such a window
    ("HeldBinding", "dropped"),  # for the moment between a decision and its bindings
    *(("EnvelopeIdentifier", member) for member in ("name", "namespace", "type")),
    ("ResourceIdentifier", "envelope"),
    *(("MissedWindow", member) for member in ("name", "turn", "lostSeconds")),  # nobody comes just too late
    *(("RolloutWait", member) for member in ("cluster", "until", "message")),  # its members have no windows
}
"""Members that the example fleet gives no occasion for."""


async def test_gates_and_reservations(caller, contract):
    """The gate of node pools, its reservations and its refusals, alone and by the dozen."""
    await put_pool(caller.up.store, "gated", 4, {"nodes": "2"})
    held = {"metadata": {"annotations": {"karpenter.sh/do-not-disrupt": "true"}}}
    await caller.ask("PATCH", "/api/v1/nodes/gated-3", held, Content_Type="application/merge-patch+json")
    gate = caller.up.services.disruption.nodes
    await until(lambda: (view := gate.view("gated")) and len(view.nodes) == 4 and view.nodes["gated-3"].do_not_disrupt)

    async def ask(method, path, body, status):
        answer = await caller.ask(method, path, body)
        assert answer.status == status, (path, body, answer.body)
        contract.check(method, path, answer)
        return answer.json if answer.body else {}

    question = {"pool": "gated", "reason": "Drifted", "nodes": ["gated-0", "gated-3"]}
    wanted = {"gate": "disruption", "question": question | {"mode": "upTo"}, "holder": "me", "ttlSeconds": 60}
    await ask("POST", "/v1/gate/disruption", question, 200)
    await ask("POST", "/v1/gate/disruption", {"questions": [question, question | {"reason": "Empty"}]}, 200)
    await ask("POST", "/v1/gate/disruption", question | {"reason": "Bored"}, 400)
    await ask("POST", "/v1/gate/disruption", question | {"pool": "nowhere"}, 404)
    reserving = {"pool": "gated", "reason": "Drifted", "count": 1, "reserveSeconds": 60}
    await ask("POST", "/v1/gate/disruption", reserving, 200)
    taken = await ask("POST", "/v1/gate/reservations", wanted, 201)
    await ask("POST", "/v1/gate/reservations", wanted, 409)
    await ask("GET", "/v1/gate/reservations", None, 200)
    await ask("PUT", f"/v1/gate/reservations/{taken['id']}", {"ttlSeconds": 60}, 200)
    await ask("DELETE", f"/v1/gate/reservations/{taken['id']}", None, 204)
    await ask("DELETE", f"/v1/gate/reservations/{taken['id']}", None, 404)
    unseen = contract.described("GateAnswer", "GateAnswers", "TakenReservation", "ReservationList") - contract.seen
    assert unseen <= {("GateAnswer", "searchedUntil"), ("NodeBlocker", "until")}


async def test_gates_of_members(caller, contract):
    """What rollouts and upgrades are answered, and that a member is held for one kind of disruption."""
    rollout = {"placement": by_name("payments"), "cluster": "bravelion"}
    for path, body in (("/v1/gate/rollout", rollout), ("/v1/gate/cluster-update", {"cluster": "bravelion"})):
        answer = await caller.ask("POST", path, body)
        assert answer.status == 200, answer.body
        contract.check("POST", path, answer)
    reserving = {"gate": "cluster-update", "question": {"cluster": "bravelion"}, "holder": "me", "ttlSeconds": 60}
    answer = await caller.ask("POST", "/v1/gate/reservations", reserving)
    assert (answer.status, answer.json["answer"]["reason"]) == (409, "NotInRun")
    contract.check("POST", "/v1/gate/reservations", answer)
    nowhere = reserving | {"question": {"cluster": "nowhere"}}
    assert (await caller.ask("POST", "/v1/gate/reservations", nowhere)).status == 404


async def test_equal_answers_are_sent_once(caller, contract):
    """A GET under the tag of an answer that still holds gets 304 and no body."""
    for method, path, _ in EXAMPLES.values():
        if method != "GET":
            continue
        answer = await caller.ask("GET", path)
        again = await caller.ask("GET", path, If_None_Match=answer.headers["ETag"])
        while again.status == 200:  # the clock moved on in between
            again = await caller.ask("GET", path, If_None_Match=again.headers["ETag"])
        assert again.status == 304
        contract.check("GET", path, again)


async def test_the_description_itself(caller, contract):
    """What is served is the committed file, to anyone, and it need not be sent twice."""
    answer = await caller.anonymous().ask("GET", "/v1/openapi.json")
    assert (answer.status, answer.body) == (200, COMMITTED.read_bytes())
    contract.check("GET", "/v1/openapi.json", answer)
    again = await caller.anonymous().ask("GET", "/v1/openapi.json", If_None_Match=answer.headers["ETag"])
    assert (again.status, again.body) == (304, b"")
    contract.check("GET", "/v1/openapi.json", again)
    assert (await caller.anonymous().ask("HEAD", "/v1/openapi.json")).status == 200


async def test_every_method_is_described(caller, contract):
    """Each path answers to the methods it is described with, and names them to anybody who tries another."""
    for path, methods in contract.document["paths"].items():
        answer = await caller.ask("PATCH", re.sub(r"{\w+}", "x", path))
        assert answer.status == 405, path
        allowed = {method.strip() for method in answer.headers["Allow"].split(",")}
        assert allowed - {"HEAD"} == {method.upper() for method in methods}, path


async def test_events(caller, contract):
    head, event = await caller.first_event()
    contract.check("GET", "/v1/events", head)
    kind, data = event.decode().strip().splitlines()
    assert kind == "event: change"
    contract.fits(json.loads(data.removeprefix("data: ")), {"$ref": "#/components/schemas/Change"}, "change")


async def test_the_extender(caller, contract):
    """What kube-scheduler is answered, in both modes, is as described too."""
    pod = {"metadata": {"name": "web", "namespace": "shop", "uid": "u1"}, "spec": {"containers": []}}
    node = {"metadata": {"name": "n1", "labels": {"harbormaster.dev/member-cluster": "bravelion"}}}
    victims = {"n1": {"Pods": [{"UID": "u2"}], "NumPDBViolations": 0}}
    for verb, body in (
        ("filter", {"Pod": pod, "NodeNames": ["n1", "n2"]}),
        ("filter", {"Pod": pod, "Nodes": {"items": [node]}}),
        ("prioritize", {"Pod": pod, "NodeNames": ["n1", "n2"]}),
        ("preempt", {"Pod": pod, "NodeNameToMetaVictims": victims}),
        ("bind", {"PodName": "web", "PodNamespace": "shop", "PodUID": "u1", "Node": "n1"}),
    ):
        path = f"/extender/v1/{verb}"
        answer = await caller.ask("POST", path, body)
        assert answer.status == 200, answer.body
        contract.check("POST", path, answer)


@pytest.mark.parametrize("mistake", MISTAKES, ids=lambda mistake: mistake.slug)
async def test_every_mistake(caller, contract, mistake):
    answer = await mistake.make(caller)
    assert answer.json["type"] == f"urn:harbormaster:problem:{mistake.slug}"
    assert answer.json["instance"] == f"urn:uuid:{answer.headers['X-Request-Id']}"
    if mistake.slug == "method-not-allowed":  # no operation can end in it
        assert answer.media_type == "application/problem+json"
        contract.fits(answer.json, {"$ref": "#/components/schemas/ProblemDetails"}, mistake.slug)
    else:
        contract.check(mistake.method, mistake.path, answer)


async def test_asking_too_often(tmp_path, contract):
    async with serving(tmp_path, requests_per_second=0.001, request_burst=1) as caller:
        assert (await caller.ask("GET", "/v1/clusters")).status == 200
        answer = await caller.ask("GET", "/v1/clusters")
    assert answer.json["type"].endswith(":rate-limited")
    contract.check("GET", "/v1/clusters", answer)


async def test_a_body_that_does_not_come(tmp_path, contract):
    answered = asyncio.Event()

    async def slowly() -> AsyncIterator[bytes]:
        yield b'{"placement":'
        await answered.wait()

    async with serving(tmp_path, body_seconds=0.2) as caller:
        answer = await caller.ask("POST", "/v1/score", slowly())
        answered.set()
    assert answer.json["type"].endswith(":request-timeout")
    contract.check("POST", "/v1/score", answer)


async def test_before_the_caches_are_filled(caller, contract):
    """There is no answer from a fleet that is not known yet; the description can be had."""
    async with changed(caller, synced=lambda: False) as starting:
        answer = await starting.ask("GET", "/v1/clusters")
        assert (await starting.ask("GET", "/v1/openapi.json")).status == 200
    assert answer.json["type"].endswith(":not-ready")
    contract.check("GET", "/v1/clusters", answer)


class NobodyMay:
    """An authority that allows nothing."""

    async def may(self, user: UserInfo, wanted: Access | PathAccess) -> bool:
        return False


async def test_without_the_right(caller, contract):
    async with changed(caller, authorizer=NobodyMay()) as powerless:
        answers = {path: await powerless.ask("POST", path, {}) for path in ("/v1/score", "/v1/validate", "/v1/plan")}
    for path, answer in answers.items():
        assert answer.json["type"].endswith(":forbidden")
        contract.check("POST", path, answer)


async def test_a_mistake_of_ours(caller, contract):
    """Nothing of the inside is told, only where to look."""
    async with changed(caller, advisor=None) as broken:
        answer = await broken.ask("POST", "/v1/filter", {"placement": by_name("payments")})
    assert answer.json["type"].endswith(":internal")
    assert "NoneType" not in answer.body.decode()
    contract.check("POST", "/v1/filter", answer)
