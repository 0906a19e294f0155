"""The hook on writes that take content off members: as the API server asks it, over TLS."""

import json
from datetime import timedelta

from scorer.api.kinds import NAMESPACE, PLACEMENT
from scorer.api.meta import format_time
from scorer.api.names import CONFIRM_REMOVAL
from scorer.api.unstructured.documents import with_metadata
from tests.webhook.controllers.placements.confirmed_world import confirm, confirming
from tests.webhook.endpoints.world_server import serving
from webhook.access.rights import Reviewed
from webhook.kube.ports import Key


class Denying:
    """Rights of users who lack some verbs."""

    def __init__(self, *verbs):
        self.verbs = verbs

    def cached(self, user, wanted):
        return Reviewed(tuple(access for access in wanted if access.verb in self.verbs))

    async def review(self, user, wanted):
        return self.cached(user, wanted)


def review(operation, old, document=None):
    group, _, version = old["apiVersion"].rpartition("/")
    request = {
        "uid": "1",
        "operation": operation,
        "kind": {"group": group, "version": version, "kind": old["kind"]},
        "resource": {"group": group, "version": version, "resource": "any"},
        "name": old["metadata"]["name"],
        "userInfo": {"username": "alice"},
        "object": document,
        "oldObject": old,
    }
    return json.dumps({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request}).encode()


async def response_to(port, *write):
    async with port.dial() as connection:
        answer = await connection.post("/validate", review(*write))
    assert answer.status == 200
    return answer.json["response"]


async def test_a_refusal_names_the_digest_that_lets_the_write_pass():
    async with confirming() as world, serving(world) as port:
        await world.until(lambda: world.cache.synced)
        shop = await world.store.get(NAMESPACE, Key("shop"))
        refused = await response_to(port, "DELETE", shop)
        [cause] = refused["status"]["details"]["causes"]
        digest = cause["message"].split()[0]
        assert (refused["allowed"], refused["status"]["code"], cause["field"]) == (False, 403, "crp/shop")
        assert digest in refused["status"]["message"]
        assert refused["auditAnnotations"] == {"rules": "RC-19"}
        await confirm(world, digest)
        assert (await response_to(port, "DELETE", shop))["allowed"]


async def test_rights_decide_over_names_and_confirmations():
    async with confirming() as world, serving(world, access=Denying("get", "confirmremoval", "place")) as port:
        await world.until(lambda: world.cache.synced)
        refused = await response_to(port, "DELETE", await world.store.get(NAMESPACE, Key("shop")))
        assert "crp/shop" not in json.dumps(refused)
        assert "9 objects of 1 placement that you may not read" in refused["status"]["message"]
        placement = await world.store.get(PLACEMENT, Key("shop"))
        expiry = format_time(world.now() + timedelta(hours=1))
        confirmed = with_metadata(placement, annotations={CONFIRM_REMOVAL: f"{'0' * 20}@{expiry}"})
        lacking = await response_to(port, "UPDATE", placement, confirmed)
        assert '"alice" may not confirmremoval' in lacking["status"]["message"]
        withdrawn = await response_to(port, "UPDATE", confirmed, placement)
        assert withdrawn["allowed"]


async def test_nothing_is_asked_where_confirmation_is_off():
    async with confirming() as world, serving(world, removal_confirmation="Off") as port:
        await world.until(lambda: world.cache.synced)
        assert (await response_to(port, "DELETE", await world.store.get(NAMESPACE, Key("shop"))))["allowed"]
