"""The embedded API server over real HTTP, with the real store and the real admission."""

import asyncio
import io
import json
from datetime import UTC, datetime
from typing import Any

import pytest
from aiohttp import web
from kubernetes_asyncio.client import ApiClient, ApiException, Configuration, CoreV1Api, CustomObjectsApi
from yarl import URL

from scorer.api.kinds import APPROVAL_REQUEST, EVENT
from tests.builders.placement import make_placement
from tests.waiting import PATIENCE_SECONDS
from webhook.access.user import UserInfo
from webhook.embedded.api_server.handlers import add_routes
from webhook.embedded.patches.merge_patches import merge_patch
from webhook.embedded.storage.store import EmbeddedStore
from webhook.kube.ports import Key
from webhook.settings.admission import AdmissionSettings
from webhook.validation.framework.context import Context, HubKinds

NOW = datetime(2026, 5, 1, 12, 0, tzinfo=UTC)
TOKEN = "let-me-in"
PLACEMENTS = "/apis/placement.kubernetes-fleet.io/v1beta1/clusterresourceplacements"
MAPS = "/api/v1/namespaces/shop/configmaps"
MERGE = {"Content-Type": "application/merge-patch+json"}
TABLE = {"Accept": "application/json;as=Table;v=v1;g=meta.k8s.io,application/json"}
STRATEGIC = {"Content-Type": "application/strategic-merge-patch+json"}


@pytest.fixture
def store():
    opened = EmbeddedStore.open(None, now=lambda: NOW)
    yield opened
    opened.close()


@pytest.fixture
def app(store):
    served = web.Application()

    def context() -> Context:
        kinds = HubKinds(store.kinds.custom)
        return Context(kinds, store.objects, UserInfo("newcomer"), AdmissionSettings(), NOW)

    add_routes(served, store, context, TOKEN)
    return served


@pytest.fixture
async def api(aiohttp_client, app):
    return await aiohttp_client(app, headers={"Authorization": f"Bearer {TOKEN}"})


@pytest.fixture
async def shop(api):
    answer = await api.post("/api/v1/namespaces", json=make_namespace("shop"))
    assert answer.status == 201


def make_namespace(name: str) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}


def make_map(name: str, labels: dict[str, str] | None = None, **data: str) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "labels": labels or {}}, "data": data}


async def assert_status(answer, code: int, reason: str, *words: str) -> dict[str, Any]:
    body = await answer.json()
    assert (answer.status, body.get("kind"), body.get("reason")) == (code, "Status", reason), body
    assert (body["apiVersion"], body["status"], body["code"]) == ("v1", "Failure", code)
    for word in words:
        assert word in body["message"]
    return body


async def created(api, path: str, document: dict[str, Any]) -> dict[str, Any]:
    answer = await api.post(path, json=document)
    body: dict[str, Any] = await answer.json()
    assert answer.status == 201, body
    return body


class TestWrites:
    async def test_create_read_replace_delete(self, api, shop):
        first = await created(api, MAPS, make_map("a", k="1"))
        assert first["metadata"]["namespace"] == "shop"
        assert await (await api.get(f"{MAPS}/a")).json() == first
        first["data"]["k"] = "2"
        answer = await api.put(f"{MAPS}/a", json=first)
        second = await answer.json()
        assert (answer.status, second["data"], second["metadata"]["generation"]) == (200, {"k": "2"}, 2)
        answer = await api.delete(f"{MAPS}/a")
        body = await answer.json()
        assert (answer.status, body["status"], body["details"]["uid"]) == (200, "Success", first["metadata"]["uid"])
        await assert_status(await api.get(f"{MAPS}/a"), 404, "NotFound", "shop/a")

    async def test_a_taken_name(self, api, shop):
        await created(api, MAPS, make_map("a"))
        body = await assert_status(await api.post(MAPS, json=make_map("a")), 409, "AlreadyExists", "shop/a")
        assert body["details"] == {"name": "a", "group": "", "kind": "configmaps"}

    async def test_generate_name(self, api, shop):
        document = make_map("")
        document["metadata"] = {"generateName": "a-"}
        assert (await created(api, MAPS, document))["metadata"]["name"].startswith("a-")

    async def test_an_old_version_conflicts(self, api, shop):
        first = await created(api, MAPS, make_map("a", k="1"))
        await api.put(f"{MAPS}/a", json=first | {"data": {"k": "2"}})
        answer = await api.put(f"{MAPS}/a", json=first | {"data": {"k": "3"}})
        await assert_status(answer, 409, "Conflict", first["metadata"]["resourceVersion"])

    async def test_a_namespace_that_is_not_there(self, api):
        await assert_status(await api.post(MAPS, json=make_map("a")), 404, "NotFound", "Namespace shop")

    async def test_a_namespace_that_is_going(self, api, shop):
        await created(api, MAPS, make_map("a") | {"metadata": {"name": "a", "finalizers": ["x/y"]}})
        answer = await api.delete("/api/v1/namespaces/shop")
        assert (await answer.json())["status"]["phase"] == "Terminating"
        body = await assert_status(await api.post(MAPS, json=make_map("b")), 403, "Forbidden", "being deleted")
        assert body["details"]["causes"][0]["reason"] == "NamespaceTerminating"

    async def test_metadata_that_breaks_a_rule(self, api, shop):
        answer = await api.post(MAPS, json=make_map("a", {"x": "not a value"}))
        body = await assert_status(answer, 422, "Invalid", "metadata.labels.x")
        (cause,) = body["details"]["causes"]
        assert (cause["field"], cause["reason"]) == ("metadata.labels.x", "FieldValueInvalid")

    async def test_finalizers_hold_what_is_deleted(self, api, shop):
        document = make_map("a")
        document["metadata"]["finalizers"] = ["x/y"]
        await created(api, MAPS, document)
        held = await (await api.delete(f"{MAPS}/a")).json()
        assert held["metadata"]["deletionTimestamp"] == "2026-05-01T12:00:00Z"
        patch = {"metadata": {"finalizers": None}}
        assert (await api.patch(f"{MAPS}/a", json=patch, headers=MERGE)).status == 200
        assert (await api.get(f"{MAPS}/a")).status == 404

    async def test_preconditions_of_a_deletion(self, api, shop):
        first = await created(api, MAPS, make_map("a"))
        wrong = {"kind": "DeleteOptions", "apiVersion": "v1", "preconditions": {"uid": "other"}}
        await assert_status(await api.delete(f"{MAPS}/a", json=wrong), 409, "Conflict", "other")
        wrong = {"propagationPolicy": "Sideways"}
        await assert_status(await api.delete(f"{MAPS}/a", json=wrong), 422, "Invalid", '"Sideways"')
        right = {"preconditions": {"uid": first["metadata"]["uid"]}, "propagationPolicy": "Orphan"}
        answer = await api.delete(f"{MAPS}/a", json=right)
        assert (answer.status, "Warning" in answer.headers) == (200, False)

    @pytest.mark.parametrize(
        ("options", "left"),
        [
            pytest.param({}, [], id="background"),
            pytest.param({"propagationPolicy": "Orphan"}, ["dependent"], id="orphan"),
            pytest.param({"orphanDependents": True}, ["dependent"], id="orphan-of-an-old-client"),
            pytest.param({"propagationPolicy": "Foreground"}, ["dependent", "owner"], id="foreground"),
        ],
    )
    async def test_dependents_of_a_deleted_object(self, api, shop, options, left):
        owner = await created(api, MAPS, make_map("owner"))
        dependent = make_map("dependent")
        reference = {"apiVersion": "v1", "kind": "ConfigMap", "name": "owner", "uid": owner["metadata"]["uid"]}
        dependent["metadata"]["ownerReferences"] = [{**reference, "blockOwnerDeletion": True}]
        if "owner" in left:
            dependent["metadata"]["finalizers"] = ["x/y"]
        await created(api, MAPS, dependent)
        assert (await api.delete(f"{MAPS}/owner", json=options)).status == 200
        items = (await (await api.get(MAPS)).json())["items"]
        assert [item["metadata"]["name"] for item in items] == left

    async def test_status_is_apart(self, api, shop):
        await created(api, PLACEMENTS, make_placement("payments") | {"status": {"conditions": []}})
        stored = await (await api.get(f"{PLACEMENTS}/payments")).json()
        assert "status" not in stored
        changed = stored | {"status": {"observedResourceIndex": "1"}, "spec": {}}
        answer = await api.put(f"{PLACEMENTS}/payments/status", json=changed)
        second = await answer.json()
        assert (answer.status, second["status"], second["spec"]) == (
            200,
            {"observedResourceIndex": "1"},
            stored["spec"],
        )
        patch = {"status": {"observedResourceIndex": "2"}}
        answer = await api.patch(f"{PLACEMENTS}/payments/status", json=patch, headers=MERGE)
        assert (await answer.json())["status"] == {"observedResourceIndex": "2"}
        third = await (await api.get(f"{PLACEMENTS}/payments/status")).json()
        third["status"] = {"observedResourceIndex": "9"}
        again = await (await api.put(f"{PLACEMENTS}/payments", json=third)).json()
        assert again["status"] == {"observedResourceIndex": "2"}

    @pytest.mark.parametrize("method", ["post", "put", "patch", "delete"])
    async def test_dry_run_stores_nothing(self, api, shop, store, method):
        await created(api, MAPS, make_map("a", k="1"))
        version = store.resource_version
        path, body = (MAPS, make_map("b")) if method == "post" else (f"{MAPS}/a", make_map("a", k="2"))
        answer = await api.request(
            method, f"{path}?dryRun=All", json=body, headers=MERGE if method == "patch" else None
        )
        assert answer.status == (201 if method == "post" else 200)
        assert store.resource_version == version

    async def test_dry_run_in_delete_options(self, api, shop):
        await created(api, MAPS, make_map("a"))
        assert (await api.delete(f"{MAPS}/a", json={"dryRun": ["All"]})).status == 200
        assert (await api.get(f"{MAPS}/a")).status == 200

    async def test_a_strategic_patch_merges_lists_by_name(self, api, shop):
        template = {"spec": {"containers": [{"name": "a", "image": "1"}, {"name": "b", "image": "1"}]}}
        deployment = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"}}
        deployments = "/apis/apps/v1/namespaces/shop/deployments"
        await created(api, deployments, deployment | {"spec": {"template": template}})
        change = {"spec": {"template": {"spec": {"containers": [{"name": "b", "image": "2"}]}}}}
        answer = await api.patch(f"{deployments}/web", json=change, headers=STRATEGIC)
        changed = await answer.json()
        assert answer.status == 200, changed
        images = {one["name"]: one["image"] for one in changed["spec"]["template"]["spec"]["containers"]}
        assert images == {"a": "1", "b": "2"}

    async def test_concurrent_patches_all_arrive(self, api, shop):
        await created(api, MAPS, make_map("a"))
        patches = [api.patch(f"{MAPS}/a", json={"data": {f"k{n}": "v"}}, headers=MERGE) for n in range(10)]
        assert {answer.status for answer in await asyncio.gather(*patches)} == {200}
        assert len((await (await api.get(f"{MAPS}/a")).json())["data"]) == 10

    async def test_a_conditional_patch_conflicts(self, api, shop):
        await created(api, MAPS, make_map("a"))
        patch = {"metadata": {"resourceVersion": "1"}, "data": {"k": "v"}}
        await assert_status(await api.patch(f"{MAPS}/a", json=patch, headers=MERGE), 409, "Conflict")


class TestAdmission:
    async def test_every_mistake_is_a_cause(self, api):
        document = make_placement("payments", policy={"placementType": "PickN", "clusterNames": ["a"]})
        body = await assert_status(await api.post(PLACEMENTS, json=document), 422, "Invalid")
        fields = {cause["field"] for cause in body["details"]["causes"]}
        assert {"spec.policy.numberOfClusters", "spec.policy.clusterNames"} <= fields
        assert body["details"]["kind"] == "ClusterResourcePlacement"
        assert (await api.get(f"{PLACEMENTS}/payments")).status == 404

    async def test_an_update_is_judged_against_the_stored_object(self, api):
        first = await created(api, PLACEMENTS, make_placement("payments"))
        first["spec"]["policy"] = {"placementType": "PickFixed", "clusterNames": ["a"]}
        await assert_status(await api.put(f"{PLACEMENTS}/payments", json=first), 422, "Invalid", "placementType")

    async def test_a_deletion_mark_of_the_writer_gets_nothing_past_the_rules(self, api):
        created = await api.post(PLACEMENTS, json=make_placement("p"))
        body = await created.json()
        body["metadata"]["deletionTimestamp"] = "2026-05-01T12:00:00Z"
        body["spec"]["revisionHistoryLimit"] = 0
        answer = await api.put(f"{PLACEMENTS}/p", json=body)
        assert answer.status == 422
        stored = await (await api.get(f"{PLACEMENTS}/p")).json()
        assert "deletionTimestamp" not in stored["metadata"]

    async def test_defaults_are_stored(self, api):
        stored = await created(api, PLACEMENTS, make_placement("payments"))
        assert stored["spec"]["revisionHistoryLimit"] == 10
        assert stored["spec"]["strategy"]["type"] == "RollingUpdate"

    async def test_unknown_fields_go_with_a_warning(self, api):
        document = make_placement("payments", policy={"placementType": "PickAll", "colour": "red"})
        document["metadata"]["shade"] = "dark"
        answer = await api.post(PLACEMENTS, json=document)
        warnings = answer.headers.getall("Warning")
        assert '299 - "unknown field \\"spec.policy.colour\\""' in warnings
        assert '299 - "unknown field \\"metadata.shade\\""' in warnings
        stored = await answer.json()
        assert ("colour" in stored["spec"]["policy"], "shade" in stored["metadata"]) == (False, False)

    async def test_unknown_fields_are_refused_when_asked_for(self, api):
        document = make_placement("payments", policy={"placementType": "PickAll", "colour": "red"})
        document["metadata"]["shade"] = "dark"
        answer = await api.post(f"{PLACEMENTS}?fieldValidation=Strict", json=document)
        kind = "ClusterResourcePlacement"
        why = 'strict decoding error: unknown field "metadata.shade", unknown field "spec.policy.colour"'
        await assert_status(
            answer, 400, "BadRequest", f'{kind} in version "v1beta1" cannot be handled as a {kind}: {why}'
        )
        answer = await api.post(f"{PLACEMENTS}?fieldValidation=Ignore", json=document)
        assert (answer.status, "Warning" in answer.headers) == (201, False)
        answer = await api.post(f"{PLACEMENTS}?fieldValidation=Maybe", json=document)
        await assert_status(answer, 400, "BadRequest", "Maybe")

    @pytest.mark.parametrize("verb", ["patch", "put"])
    async def test_unknown_fields_of_an_update_are_refused_when_asked_for(self, api, verb):
        stored = await created(api, PLACEMENTS, make_placement("payments"))
        path = f"{PLACEMENTS}/payments?fieldValidation=Strict"
        if verb == "put":
            stored["spec"]["strategy"]["colour"] = "red"
            answer = await api.put(path, json=stored)
            await assert_status(answer, 400, "BadRequest", 'decoding error: unknown field "spec.strategy.colour"')
        else:
            answer = await api.patch(path, json={"spec": {"polcy": {}}}, headers=MERGE)
            body = await assert_status(answer, 422, "Invalid", ' "" is invalid: patch: Invalid value: ')
            (cause,) = body["details"]["causes"]
            assert cause["field"] == "patch"
            assert cause["message"].endswith(': strict decoding error: unknown field "spec.polcy"')
        assert (await (await api.get(f"{PLACEMENTS}/payments")).json())["metadata"]["generation"] == 1

    async def test_nulls_are_absent(self, api):
        stored = await created(
            api, PLACEMENTS, make_placement("payments", policy={"placementType": "PickAll", "affinity": None})
        )
        assert "affinity" not in stored["spec"]["policy"]

    async def test_what_belongs_to_the_system_is_protected(self, api):
        await created(api, "/api/v1/namespaces", make_namespace("fleet-member-a"))
        clusters = "/apis/cluster.kubernetes-fleet.io/v1beta1/memberclusters"
        member = {
            "apiVersion": "cluster.kubernetes-fleet.io/v1beta1",
            "kind": "MemberCluster",
            "metadata": {"name": "a"},
        }
        identity = {"kind": "ServiceAccount", "name": "agent-of-a", "namespace": "fleet-system"}
        await created(api, clusters, member | {"spec": {"identity": identity}})
        works = "/apis/placement.kubernetes-fleet.io/v1beta1/namespaces/fleet-member-a/works"
        work = {"apiVersion": "placement.kubernetes-fleet.io/v1beta1", "kind": "Work", "metadata": {"name": "w"}}
        await assert_status(await api.post(works, json=work | {"spec": {}}), 403, "Forbidden")


class TestReads:
    async def test_objects_carry_the_version_asked_for(self, api):
        await created(api, PLACEMENTS.replace("v1beta1", "v1"), make_placement("payments", version="v1"))
        for version in ("v1", "v1beta1"):
            path = PLACEMENTS.replace("v1beta1", version)
            wanted = f"placement.kubernetes-fleet.io/{version}"
            assert (await (await api.get(f"{path}/payments")).json())["apiVersion"] == wanted
            listing = await (await api.get(path)).json()
            assert (listing["kind"], listing["apiVersion"]) == ("ClusterResourcePlacementList", wanted)
            assert [item["apiVersion"] for item in listing["items"]] == [wanted]

    async def test_lists(self, api, shop):
        await created(api, "/api/v1/namespaces", make_namespace("other"))
        await created(api, MAPS, make_map("b", {"app": "web"}))
        await created(api, MAPS, make_map("a", {"app": "db"}))
        await created(api, MAPS.replace("shop", "other"), make_map("c", {"app": "web"}))

        async def names(path: str, **query: str) -> list[str]:
            answer = await api.get(path, params=query)
            return [item["metadata"]["name"] for item in (await answer.json())["items"]]

        assert await names(MAPS) == ["a", "b"]
        assert await names("/api/v1/configmaps") == ["c", "a", "b"]
        assert await names("/api/v1/configmaps", labelSelector="app in (web)") == ["c", "b"]
        assert await names(MAPS, labelSelector="app!=web") == ["a"]
        assert await names(MAPS, fieldSelector="metadata.name=b") == ["b"]

    @pytest.mark.parametrize(
        ("query", "word"),
        [
            pytest.param("labelSelector=a>1", "a>1", id="label"),
            pytest.param("fieldSelector=spec.x%3D1", "spec.x", id="field"),
            pytest.param("watch=1&timeoutSeconds=soon", "soon", id="timeout"),
        ],
    )
    async def test_bad_queries(self, api, shop, query, word):
        await assert_status(await api.get(f"{MAPS}?{query}"), 400, "BadRequest", word)


EVENTS = "/api/v1/namespaces/shop/events"
NOTED = {
    "apiVersion": "events.k8s.io/v1",
    "kind": "Event",
    "metadata": {"name": "e", "namespace": "shop"},
    "regarding": {"kind": "ConfigMap", "name": "a", "namespace": "shop"},
    "reason": "Changed",
    "note": "a is new",
    "type": "Normal",
    "reportingController": "loop",
    "eventTime": "2026-05-01T11:59:00.000000Z",
}


class TestEvents:
    """One kind in two groups, as on an API server. kubectl reads the core one."""

    @pytest.fixture
    async def noted(self, store, shop):
        return await store.create(EVENT, NOTED)

    async def test_a_core_event_has_other_names(self, api, noted):
        (event,) = (await (await api.get("/api/v1/events")).json())["items"]
        assert event == {
            "apiVersion": "v1",
            "kind": "Event",
            "metadata": noted["metadata"],
            "involvedObject": NOTED["regarding"],
            "reason": "Changed",
            "message": "a is new",
            "type": "Normal",
            "source": {},
            "firstTimestamp": None,
            "lastTimestamp": None,
            "eventTime": NOTED["eventTime"],
            "reportingComponent": "loop",
            "reportingInstance": "",
        }

    async def test_events_of_an_object(self, api, noted):
        async def names(**query: str) -> list[str]:
            return [
                event["metadata"]["name"] for event in (await (await api.get(EVENTS, params=query)).json())["items"]
            ]

        assert await names(fieldSelector="involvedObject.name=a,involvedObject.kind=ConfigMap,reason=Changed") == ["e"]
        assert await names(fieldSelector="involvedObject.name=b") == []

    async def test_a_table_of_core_events(self, api, noted):
        (row,) = (await (await api.get(EVENTS, headers=TABLE)).json())["rows"]
        assert row["cells"][1:4] == ["Normal", "Changed", "configmap/a"]

    async def test_what_a_client_writes_to_one_group_is_in_both(self, api, store, noted):
        await created(api, EVENTS, {"metadata": {"name": "f"}, "apiVersion": "v1", "kind": "Event", "message": "m"})
        others = await (await api.get("/apis/events.k8s.io/v1/namespaces/shop/events")).json()
        assert [(event["apiVersion"], event["note"]) for event in others["items"]] == [
            ("events.k8s.io/v1", "a is new"),
            ("events.k8s.io/v1", "m"),
        ]
        answer = await api.patch(f"{EVENTS}/e", json={"message": "b", "count": 2}, headers=MERGE)
        assert (await answer.json())["message"] == "b"
        changed = await store.get(EVENT, Key("e", "shop"))
        assert {**changed, "metadata": NOTED["metadata"]} == {**NOTED, "note": "b", "deprecatedCount": 2}
        assert (await api.delete(f"{EVENTS}/e")).status == 200
        assert (await api.get("/apis/events.k8s.io/v1/namespaces/shop/events/e")).status == 404

    async def test_a_watch_of_core_events(self, api, noted):
        query = {"watch": "1", "timeoutSeconds": "1", "fieldSelector": "involvedObject.name=a"}
        async with api.get(EVENTS, params=query) as answer:
            change = json.loads(await answer.content.readline())
        assert (change["type"], change["object"]["involvedObject"]["name"]) == ("ADDED", "a")


class TestRefusals:
    async def test_without_the_token(self, aiohttp_client, app):
        client = await aiohttp_client(app)
        for headers in ({}, {"Authorization": "Bearer wrong"}, {"Authorization": f"Basic {TOKEN}"}):
            for path in ("/api", PLACEMENTS, "/version"):
                await assert_status(await client.get(path, headers=headers), 401, "Unauthorized")

    def test_an_empty_token_is_no_token(self, store):
        with pytest.raises(ValueError, match="token"):
            add_routes(web.Application(), store, Context, "")

    @pytest.mark.parametrize(
        ("method", "path", "allowed"),
        [
            pytest.param("DELETE", PLACEMENTS, "GET, POST", id="delete-collection"),
            pytest.param("POST", f"{PLACEMENTS}/a", "GET, PUT, PATCH, DELETE", id="post-object"),
            pytest.param("POST", "/api/v1/configmaps", "GET", id="post-to-all-namespaces"),
            pytest.param("DELETE", f"{PLACEMENTS}/a/status", "GET, PUT, PATCH", id="delete-status"),
            pytest.param("POST", "/apis", "GET", id="post-discovery"),
        ],
    )
    async def test_methods(self, api, method, path, allowed):
        answer = await api.request(method, path)
        await assert_status(answer, 405, "MethodNotAllowed")
        assert answer.headers["Allow"] == allowed

    @pytest.mark.parametrize(
        "path",
        [
            "/api/v2",
            "/api/v1/unicorns",
            "/apis/sea.io/v1/boats",
            "/apis/sea.io",
            "/apis/placement.kubernetes-fleet.io/v2/clusterresourceplacements",
            "/apis/placement.kubernetes-fleet.io/v1beta1/namespaces/shop/clusterresourceplacements",
            "/api/v1/configmaps/a",
            "/api/v1/namespaces/shop/configmaps/a/scale",
            "/api/v1/namespaces/shop/configmaps/a/status/x",
            "/api/v1/namespaces//configmaps",
            "/api/v1/namespaces/shop/configmaps/a%2Fb",
            "/apis/placement.kubernetes-fleet.io/v1beta1/clusterresourceoverrides/a/status",
        ],
    )
    async def test_paths_that_lead_nowhere(self, api, path):
        await assert_status(await api.get(path), 404, "NotFound")

    @pytest.mark.parametrize("path", ["shop/%2E%2E/vault", "shop%2F..%2Fvault", "..", "shop%252F..%252Fvault"], ids=str)
    async def test_no_segment_leads_into_another_namespace(self, api, path):
        for name in ("shop", "vault"):
            await api.post("/api/v1/namespaces", json=make_namespace(name))
        await api.post("/api/v1/namespaces/vault/configmaps", json=make_map("a"))
        assert (await api.get("/api/v1/namespaces/vault/configmaps/a")).status == 200
        url = URL(f"/api/v1/namespaces/{path}/configmaps/a", encoded=True)
        await assert_status(await api.get(url), 404, "NotFound")

    @pytest.mark.parametrize(
        ("body", "word"),
        [
            pytest.param(b"", "empty", id="empty"),
            pytest.param(b"kind: ConfigMap", "not JSON", id="yaml"),
            pytest.param(b"[]", "JSON object", id="list"),
            pytest.param(b"[" * 5000, "nested|not JSON", id="deep"),
            pytest.param(b'{"apiVersion":"v1"}', "kind", id="no-kind"),
            pytest.param(b'{"apiVersion":"v2","kind":"ConfigMap"}', '"v2"', id="version"),
            pytest.param(b'{"apiVersion":"v1","kind":"Secret"}', '"Secret"', id="kind"),
            pytest.param(b'{"apiVersion":"v1","kind":"ConfigMap","metadata":[]}', "metadata", id="metadata"),
            pytest.param(
                b'{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a","namespace":"b"}}', '"b"', id="namespace"
            ),
        ],
    )
    async def test_bodies(self, api, shop, body, word):
        answer = await api.post(MAPS, data=body, headers={"Content-Type": "application/json"})
        status = await assert_status(answer, 400, "BadRequest")
        assert any(part in status["message"] for part in word.split("|"))

    async def test_another_name_than_the_url(self, api, shop):
        await created(api, MAPS, make_map("a"))
        await assert_status(await api.put(f"{MAPS}/a", json=make_map("b")), 400, "BadRequest", '"b"', '"a"')

    async def test_a_body_that_is_too_large(self, api, shop):
        body = io.BytesIO(json.dumps(make_map("a", k="x" * 2_000_000)).encode())
        answer = await api.post(MAPS, data=body, headers={"Content-Type": "application/json"})
        await assert_status(answer, 413, "RequestEntityTooLarge")

    @pytest.mark.parametrize(
        ("method", "content_type"),
        [
            pytest.param("POST", "application/yaml", id="yaml"),
            pytest.param("POST", "application/merge-patch+json", id="patch-type"),
            pytest.param("PATCH", "application/yaml", id="yaml-patch"),
        ],
    )
    async def test_content_types(self, api, shop, method, content_type):
        path = MAPS if method == "POST" else f"{MAPS}/a"
        answer = await api.request(method, path, data=b"{}", headers={"Content-Type": content_type})
        await assert_status(answer, 415, "UnsupportedMediaType", content_type)

    async def test_protobuf_of_a_kind_that_the_hub_does_not_decode(self, api, shop):
        """Malformed protobuf is the client's mistake, another kind is the hub's limit."""
        protobuf = {"Content-Type": "application/vnd.kubernetes.protobuf"}
        pod = b"k8s\x00\x0a\x09\x0a\x02v1\x12\x03Pod"
        answer = await api.post("/api/v1/namespaces/shop/pods", data=pod, headers=protobuf)
        await assert_status(answer, 415, "UnsupportedMediaType", "the body must be application/json", "kind Pod of v1")
        answer = await api.post(MAPS, data=b"{}", headers=protobuf)
        await assert_status(answer, 400, "BadRequest", "protobuf")
        answer = await api.patch(f"{MAPS}/a", data=pod, headers=protobuf)
        await assert_status(answer, 415, "UnsupportedMediaType", "the body must be application/merge-patch+json")

    async def test_a_strategic_patch_is_for_kinds_of_kubernetes_alone(self, api):
        """A client that hears so of a custom kind sends a merge patch instead."""
        await created(api, PLACEMENTS, make_placement("payments"))
        answer = await api.patch(f"{PLACEMENTS}/payments", data=b"{}", headers=STRATEGIC)
        await assert_status(answer, 415, "UnsupportedMediaType", STRATEGIC["Content-Type"])

    async def test_a_strategic_patch_that_makes_no_sense(self, api, shop):
        await created(api, MAPS, make_map("a"))
        answer = await api.patch(f"{MAPS}/a", json={"data": {"$patch": "burn"}}, headers=STRATEGIC)
        await assert_status(answer, 400, "BadRequest", "data.$patch", "burn")

    async def test_what_the_client_accepts(self, api):
        answer = await api.get(PLACEMENTS, headers={"Accept": "application/vnd.kubernetes.protobuf"})
        await assert_status(answer, 406, "NotAcceptable")

    async def test_dry_run_of_something_else(self, api, shop):
        answer = await api.post(f"{MAPS}?dryRun=some", json=make_map("a"))
        await assert_status(answer, 400, "BadRequest", "some")


class TestTables:
    async def test_a_list(self, api, shop):
        await created(api, MAPS, make_map("a", {"app": "web"}))
        await created(api, MAPS, make_map("b"))
        body = await (await api.get(MAPS, params={"labelSelector": "app=web"}, headers=TABLE)).json()
        assert (body["kind"], body["apiVersion"]) == ("Table", "meta.k8s.io/v1")
        assert [row["cells"][0] for row in body["rows"]] == ["a"]
        assert int(body["metadata"]["resourceVersion"]) > 0

    async def test_one_object(self, api, shop):
        stored = await created(api, MAPS, make_map("a"))
        body = await (await api.get(f"{MAPS}/a", params={"includeObject": "Object"}, headers=TABLE)).json()
        assert [row["object"] for row in body["rows"]] == [stored]

    async def test_an_object_that_is_not_there(self, api, shop):
        await assert_status(await api.get(f"{MAPS}/a", headers=TABLE), 404, "NotFound")

    async def test_including_nonsense(self, api, shop):
        answer = await api.get(MAPS, params={"includeObject": "All"}, headers=TABLE)
        await assert_status(answer, 400, "BadRequest", "includeObject 'All'")


class TestOpenApi:
    async def test_the_index_leads_to_documents(self, api):
        paths = (await (await api.get("/openapi/v3")).json())["paths"]
        for path in ("api/v1", "apis/placement.kubernetes-fleet.io/v1beta1"):
            found = await (await api.get(paths[path]["serverRelativeURL"])).json()
            assert found["openapi"] == "3.0.0"

    async def test_a_version_that_is_not_served(self, api):
        await assert_status(await api.get("/openapi/v3/apis/example.com/v1"), 404, "NotFound", "example.com/v1")

    async def test_only_with_the_token(self, api):
        answer = await api.get("/openapi/v3", headers={"Authorization": "Bearer guessed"})
        await assert_status(answer, 401, "Unauthorized")

    async def test_it_cannot_be_written(self, api):
        await assert_status(await api.post("/openapi/v3/api/v1", json={}), 405, "MethodNotAllowed")


class TestWatch:
    async def lines(self, answer, count: int) -> list[dict[str, Any]]:
        assert answer.status == 200
        async with asyncio.timeout(PATIENCE_SECONDS):
            return [json.loads(await answer.content.readline()) for _ in range(count)]

    async def test_from_a_list_on(self, api, shop):
        listing = await (await api.get(MAPS)).json()
        query = {"watch": "1", "resourceVersion": listing["metadata"]["resourceVersion"]}
        answer = await api.get(MAPS, params=query)
        await created(api, "/api/v1/namespaces", make_namespace("other"))
        await created(api, MAPS.replace("shop", "other"), make_map("elsewhere"))
        first = await created(api, MAPS, make_map("a", k="1"))
        await api.put(f"{MAPS}/a", json=first | {"data": {"k": "2"}})
        await api.delete(f"{MAPS}/a")
        events = await self.lines(answer, 3)
        assert [event["type"] for event in events] == ["ADDED", "MODIFIED", "DELETED"]
        assert events[0]["object"] == first
        assert {event["object"]["metadata"]["name"] for event in events} == {"a"}

    async def test_without_a_version_it_begins_with_what_is_there(self, api, shop):
        await created(api, MAPS, make_map("a", {"app": "web"}))
        await created(api, MAPS, make_map("b", {"app": "db"}))
        answer = await api.get(MAPS, params={"watch": "true", "labelSelector": "app=web"})
        (event,) = await self.lines(answer, 1)
        assert (event["type"], event["object"]["metadata"]["name"]) == ("ADDED", "a")
        await api.patch(f"{MAPS}/a", json={"metadata": {"labels": {"app": "db"}}}, headers=MERGE)
        (event,) = await self.lines(answer, 1)
        assert event["type"] == "DELETED"

    async def test_streaming_lists(self, api, shop):
        await created(api, MAPS, make_map("a"))
        query = {"watch": "1", "sendInitialEvents": "true", "allowWatchBookmarks": "true"}
        events = await self.lines(await api.get(MAPS, params=query), 2)
        assert [event["type"] for event in events] == ["ADDED", "BOOKMARK"]
        assert events[1]["object"]["metadata"]["annotations"] == {"k8s.io/initial-events-end": "true"}
        assert int(events[1]["object"]["metadata"]["resourceVersion"]) > 0

    async def test_as_tables(self, api, shop):
        answer = await api.get(MAPS, params={"watch": "1"}, headers=TABLE)
        await created(api, MAPS, make_map("a"))
        (event,) = await self.lines(answer, 1)
        assert (event["type"], event["object"]["kind"]) == ("ADDED", "Table")
        assert event["object"]["rows"][0]["cells"][0] == "a"

    async def test_in_the_version_asked_for(self, api):
        answer = await api.get(PLACEMENTS.replace("v1beta1", "v1"), params={"watch": "1"})
        await created(api, PLACEMENTS, make_placement("payments"))
        (event,) = await self.lines(answer, 1)
        assert event["object"]["apiVersion"] == "placement.kubernetes-fleet.io/v1"

    async def test_a_version_that_is_gone(self, api):
        answer = await api.get(PLACEMENTS, params={"watch": "1", "resourceVersion": "99999"})
        await assert_status(answer, 410, "Expired", "99999")

    async def test_it_ends_when_its_time_is_over(self, api):
        answer = await api.get(PLACEMENTS, params={"watch": "1", "timeoutSeconds": "1"})
        async with asyncio.timeout(PATIENCE_SECONDS):
            assert await answer.read() == b""

    async def test_it_ends_with_an_error_when_the_store_closes(self, api, store):
        answer = await api.get(PLACEMENTS, params={"watch": "1"})
        store.close()
        (event,) = await self.lines(answer, 1)
        assert (event["type"], event["object"]["code"]) == ("ERROR", 500)
        assert await answer.content.read() == b""

    async def test_it_does_not_keep_the_server_from_stopping(self, api):
        answer = await api.get(PLACEMENTS, params={"watch": "1"})
        async with asyncio.timeout(PATIENCE_SECONDS):
            await api.server.close()
        answer.close()


class TestDiscovery:
    async def test_groups_and_resources(self, api):
        versions = await (await api.get("/api")).json()
        assert (versions["kind"], versions["versions"]) == ("APIVersions", ["v1"])
        groups = (await (await api.get("/apis")).json())["groups"]
        group = next(one for one in groups if one["name"] == "placement.kubernetes-fleet.io")
        assert [version["version"] for version in group["versions"]] == ["v1", "v1beta1"]
        assert group["preferredVersion"]["version"] == "v1"
        assert await (await api.get("/apis/placement.kubernetes-fleet.io")).json() == {
            "kind": "APIGroup",
            "apiVersion": "v1",
            **group,
        }
        for version in group["versions"]:
            listed = await (await api.get(f"/apis/{version['groupVersion']}")).json()
            assert listed["groupVersion"] == version["groupVersion"]
            names = [resource["name"] for resource in listed["resources"]]
            assert {"clusterresourceplacements", "clusterresourceplacements/status"} <= set(names)
            assert len(names) == len(set(names))
        core = await (await api.get("/api/v1")).json()
        config_maps = next(one for one in core["resources"] if one["name"] == "configmaps")
        assert (config_maps["namespaced"], config_maps["shortNames"]) == (True, ["cm"])
        assert (await (await api.get("/version")).json())["major"] == "1"

    async def test_versions_of_a_group_are_in_the_order_of_an_api_server(self, api):
        """Regardless of the storage version of a definition."""
        served = ("v1alpha1", "stable", "v2beta1", "v1", "odd", "v10beta2", "v2")
        definition = {
            "apiVersion": "apiextensions.k8s.io/v1",
            "kind": "CustomResourceDefinition",
            "metadata": {"name": "boats.sea.io"},
            "spec": {
                "group": "sea.io",
                "scope": "Cluster",
                "names": {"kind": "Boat", "plural": "boats"},
                "versions": [{"name": name, "served": True, "storage": name == "v1alpha1"} for name in served],
            },
        }
        await created(api, "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", definition)
        group = await (await api.get("/apis/sea.io")).json()
        names = [version["version"] for version in group["versions"]]
        assert names == ["v2", "v1", "v10beta2", "v2beta1", "v1alpha1", "odd", "stable"]
        assert group["preferredVersion"] == group["versions"][0]

    async def test_custom_kinds_are_served_once_they_are_defined(self, api, shop):
        spec = {
            "group": "sea.io",
            "scope": "Namespaced",
            "names": {"kind": "Boat", "plural": "boats"},
            "versions": [{"name": "v1", "served": True, "storage": True}],
        }
        definition = {
            "apiVersion": "apiextensions.k8s.io/v1",
            "kind": "CustomResourceDefinition",
            "metadata": {"name": "boats.sea.io"},
            "spec": spec,
        }
        await created(api, "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", definition)
        boat = {"apiVersion": "sea.io/v1", "kind": "Boat", "metadata": {"name": "b"}, "any": {"thing": 1}}
        stored = await created(api, "/apis/sea.io/v1/namespaces/shop/boats", boat)
        assert stored["any"] == {"thing": 1}
        sails = {"type": "array", "items": {"type": "object", "properties": {"area": {"type": "integer"}}}}
        content = {"type": "object", "properties": {"spec": {"type": "object", "properties": {"sails": sails}}}}
        spec["versions"][0]["schema"] = {"openAPIV3Schema": content}
        change = {"spec": {"versions": spec["versions"]}}
        definition_path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/boats.sea.io"
        assert (await api.patch(definition_path, json=change, headers=MERGE)).status == 200
        boat = {**boat, "metadata": {"name": "c"}, "spec": {"sails": [{"area": 1}, {"aera": 2}]}}
        path = "/apis/sea.io/v1/namespaces/shop/boats"
        refused = await api.post(f"{path}?fieldValidation=Strict", json=boat)
        await assert_status(refused, 400, "BadRequest", 'unknown field "any", unknown field "spec.sails[1].aera"')
        assert (await created(api, path, boat))["spec"] == {"sails": [{"area": 1}, {}]}
        assert [one["name"] for one in (await (await api.get("/apis/sea.io/v1")).json())["resources"]] == ["boats"]


class TestGenericClient:
    """The Kubernetes client library talks to it as to any cluster."""

    @pytest.fixture
    async def client(self, api):
        configuration = Configuration(host=str(api.make_url("")).rstrip("/"))
        configuration.api_key = {"BearerToken": TOKEN}
        configuration.api_key_prefix = {"BearerToken": "Bearer"}
        async with ApiClient(configuration) as client:
            yield client

    async def test_core_objects(self, client, shop):
        core = CoreV1Api(client)
        made = await core.create_namespaced_config_map(
            "shop",
            {"metadata": {"name": "a"}, "data": {"k": "v"}}
            | {
                "apiVersion": "v1",
                "kind": "ConfigMap",
            },
        )
        assert made.metadata.uid
        listed = await core.list_namespaced_config_map("shop", label_selector="!x")
        assert [item.metadata.name for item in listed.items] == ["a"]
        await core.delete_namespaced_config_map("a", "shop")
        with pytest.raises(ApiException) as caught:
            await core.read_namespaced_config_map("a", "shop")
        assert caught.value.status == 404

    async def test_custom_objects(self, client):
        objects = CustomObjectsApi(client)
        where = ("placement.kubernetes-fleet.io", "v1", "clusterresourceplacements")
        await objects.create_cluster_custom_object(*where, make_placement("payments", version="v1"))
        await objects.patch_cluster_custom_object(
            *where, "payments", {"spec": {"revisionHistoryLimit": 5}}, _content_type="application/merge-patch+json"
        )
        found = await objects.get_cluster_custom_object(*where, "payments")
        assert found["spec"]["revisionHistoryLimit"] == 5


@pytest.mark.parametrize(
    ("target", "patch", "merged"),
    [
        pytest.param({"a": "b"}, {"a": "c"}, {"a": "c"}, id="rfc-replace"),
        pytest.param({"a": "b"}, {"b": "c"}, {"a": "b", "b": "c"}, id="rfc-add"),
        pytest.param({"a": "b", "b": "c"}, {"a": None}, {"b": "c"}, id="rfc-remove"),
        pytest.param({"a": ["b"]}, {"a": "c"}, {"a": "c"}, id="rfc-list-by-text"),
        pytest.param({"a": {"b": "c"}}, {"a": {"b": "d", "c": None}}, {"a": {"b": "d"}}, id="rfc-nested"),
        pytest.param({"a": [{"b": "c"}]}, {"a": [1]}, {"a": [1]}, id="rfc-list"),
        pytest.param({"e": None}, {"a": 1}, {"e": None, "a": 1}, id="rfc-null-stays"),
        pytest.param({}, {"a": {"bb": {"ccc": None}}}, {"a": {"bb": {}}}, id="rfc-null-in-new"),
    ],
)
def test_merge_patch(target, patch, merged):
    before = json.dumps(target)
    assert merge_patch(target, patch) == merged
    assert json.dumps(target) == before


APPROVAL = {
    "apiVersion": APPROVAL_REQUEST.api_version,
    "kind": APPROVAL_REQUEST.kind,
    "metadata": {"name": "run-after-canary"},
    "spec": {"parentStageRollout": "run", "targetStage": "canary"},
}
APPROVAL_STATUS = "/apis/placement.kubernetes-fleet.io/v1/clusterapprovalrequests/run-after-canary/status"


def approved(**fields: Any) -> dict[str, Any]:
    at = {"observedGeneration": 1, "lastTransitionTime": "2026-05-01T12:00:00Z"}
    condition = {"type": "Approved", "status": "True", "reason": "TestedAsOK", "message": "lgtm", **at, **fields}
    return {"status": {"conditions": [condition]}}


async def test_the_words_of_an_approval_become_its_message(api, store):
    await store.create(APPROVAL_REQUEST, APPROVAL)
    answer = await api.patch(APPROVAL_STATUS, json=approved(reason="tested as OK"), headers=MERGE)
    status = (await answer.json())["status"]
    assert (answer.status, status) == (200, approved(reason="ApprovedByUser", message="tested as OK: lgtm")["status"])
    assert '\\"tested as OK\\" is not one word' in answer.headers["Warning"]


async def test_a_status_is_checked_against_the_schema(api, store):
    await store.create(APPROVAL_REQUEST, APPROVAL)
    answer = await api.patch(APPROVAL_STATUS, json=approved(status="Yes", reason="", message=None), headers=MERGE)
    subject = 'ClusterApprovalRequest.placement.kubernetes-fleet.io "run-after-canary" is invalid: [status.conditions'
    body = await assert_status(answer, 422, "Invalid", subject)
    assert [cause["field"] for cause in body["details"]["causes"]] == [
        "status.conditions[0].message",
        "status.conditions[0].reason",
        "status.conditions[0].status",
    ]
    assert (await api.patch(APPROVAL_STATUS, json=approved(), headers=MERGE)).status == 200


async def test_a_mistake_that_a_status_already_has_is_not_refused_again(api, store):
    request = await store.create(APPROVAL_REQUEST, APPROVAL)
    await store.replace_status(APPROVAL_REQUEST, {**request, **approved(reason="too old")})
    other = {**approved()["status"]["conditions"][0], "type": "Analyzed"}
    both = {
        "status": {"conditions": [{**approved(reason="too old", status="False")["status"]["conditions"][0]}, other]}
    }
    assert (await api.patch(APPROVAL_STATUS, json=both, headers=MERGE)).status == 200
    other["reason"] = "too slow"
    await assert_status(
        await api.patch(APPROVAL_STATUS, json=both, headers=MERGE), 422, "Invalid", "conditions[1].reason"
    )


async def test_a_status_is_checked_against_the_schema_of_a_definition(api, shop):
    status = {"type": "object", "properties": {"sails": {"type": "integer"}}}
    version = {
        "name": "v1",
        "served": True,
        "storage": True,
        "subresources": {"status": {}},
        "schema": {"openAPIV3Schema": {"type": "object", "properties": {"status": status}}},
    }
    definition = {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "boats.sea.io"},
        "spec": {
            "group": "sea.io",
            "scope": "Namespaced",
            "names": {"kind": "Boat", "plural": "boats"},
            "versions": [version],
        },
    }
    await created(api, "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", definition)
    path = "/apis/sea.io/v1/namespaces/shop/boats"
    await created(api, path, {"apiVersion": "sea.io/v1", "kind": "Boat", "metadata": {"name": "b"}})
    answer = await api.patch(f"{path}/b/status", json={"status": {"sails": "two"}}, headers=MERGE)
    await assert_status(answer, 422, "Invalid", "status.sails in body must be of type integer")
    assert (await api.patch(f"{path}/b/status", json={"status": {"sails": 2}}, headers=MERGE)).status == 200
