"""Server-side apply over HTTP.

That its outcome is an API server's is compared in e2e/api_server/test_server_side_apply.py.
"""

import pytest
from aiohttp import web

from tests.builders.placement import make_placement
from webhook.access.user import UserInfo
from webhook.embedded.api_server.handlers import add_routes
from webhook.embedded.patches.field_sets import MOST_FIELDS
from webhook.embedded.storage.store import EmbeddedStore
from webhook.validation.framework.context import Context

MAPS = "/api/v1/namespaces/shop/configmaps"
PLACEMENTS = "/apis/placement.kubernetes-fleet.io/v1/clusterresourceplacements"
APPLY = {"Content-Type": "application/apply-patch+yaml"}
JSON_PATCH = {"Content-Type": "application/json-patch+json"}
MERGE = {"Content-Type": "application/merge-patch+json"}
TOKEN = "let-me-in"


@pytest.fixture
async def api(aiohttp_client):
    store = EmbeddedStore.open(None)
    app = web.Application(client_max_size=2**21)
    add_routes(app, store, lambda: Context.of_objects([]).with_user(UserInfo("tester")), TOKEN)
    client = await aiohttp_client(app, headers={"Authorization": f"Bearer {TOKEN}"})
    await client.post("/api/v1/namespaces", json=document("v1", "Namespace", "shop"))
    yield client
    store.close()


def document(api_version, kind, name, **content):
    return {"apiVersion": api_version, "kind": kind, "metadata": {"name": name}, **content}


def settings(**data):
    return document("v1", "ConfigMap", "a", data=data)


async def applied(api, path, wanted, manager="ann", **query):
    answer = await api.patch(
        f"{path}/{wanted['metadata']['name']}?fieldManager={manager}", json=wanted, headers=APPLY, **query
    )
    return answer.status, await answer.json()


async def changed(api, patch, headers=MERGE, manager="ed"):
    answer = await api.patch(f"{MAPS}/a?fieldManager={manager}", json=patch, headers=headers)
    return answer.status, await answer.json()


def owners(found):
    return {(each["manager"], each["operation"]): each["fieldsV1"] for each in found["metadata"]["managedFields"]}


async def test_an_apply_creates_and_a_second_one_changes_nothing(api):
    code, first = await applied(api, MAPS, settings(k="1"))
    assert (code, first["data"], owners(first)) == (201, {"k": "1"}, {("ann", "Apply"): {"f:data": {"f:k": {}}}})
    assert await applied(api, MAPS, settings(k="1")) == (200, first)


async def test_what_was_there_before_belongs_to_no_one_who_applies(api):
    await api.post(MAPS, json=settings(k="1", left="1"))
    code, refused = await applied(api, MAPS, settings(k="2"))
    assert (code, refused["reason"]) == (409, "Conflict")
    assert refused["message"].startswith(
        'Apply failed with 1 conflict: conflict with "before-first-apply" using v1 at '
    )
    assert refused["message"].endswith(": .data.k")
    (cause,) = refused["details"]["causes"]
    assert (cause["reason"], cause["field"]) == ("FieldManagerConflict", ".data.k")
    _, forced = await applied(api, MAPS, settings(k="2"), "ann&force=true")
    assert forced["data"] == {"k": "2", "left": "1"}
    assert owners(forced)["ann", "Apply"] == {"f:data": {"f:k": {}}}
    _, dropped = await applied(api, MAPS, settings())
    assert dropped["data"] == {"left": "1"}


async def test_an_ordinary_write_takes_the_field(api):
    await applied(api, MAPS, settings(k="1", l="1"))
    _, found = await changed(api, {"data": {"k": "2"}})
    assert owners(found) == {
        ("ann", "Apply"): {"f:data": {"f:l": {}}},
        ("ed", "Update"): {"f:data": {"f:k": {}}},
    }
    code, refused = await applied(api, MAPS, settings(k="3", l="3"))
    assert (code, refused["details"]["causes"][0]["field"]) == (409, ".data.k")
    code, _ = await changed(api, {"metadata": {"managedFields": [{}]}})
    assert (code, "managedFields" in (await (await api.get(f"{MAPS}/a")).json())["metadata"]) == (200, False)


async def test_several_conflicts_are_listed_by_manager(api):
    await applied(api, MAPS, settings(k="1", l="1"))
    await applied(api, MAPS, settings(k="1"), "bob")
    _, refused = await applied(api, MAPS, settings(k="2", l="2"), "cat")
    assert refused["message"].split(": ", 1)[1].splitlines() == [
        'conflicts with "ann":',
        "- .data.k",
        "- .data.l",
        'conflicts with "bob":',
        "- .data.k",
    ]


async def test_rules_and_defaults_hold_and_a_dry_run_stores_nothing(api):
    wanted = make_placement("web", {"placementType": "PickN", "numberOfClusters": 1})
    wanted["apiVersion"] = "placement.kubernetes-fleet.io/v1"
    code, found = await applied(api, PLACEMENTS, wanted, "ann&dryRun=All")
    assert (code, found["spec"]["revisionHistoryLimit"]) == (201, 10)
    assert "f:revisionHistoryLimit" not in owners(found)["ann", "Apply"]["f:spec"]
    assert (await api.get(f"{PLACEMENTS}/web")).status == 404
    wanted["spec"]["policy"]["clusterNames"] = ["a"]
    code, refused = await applied(api, PLACEMENTS, wanted)
    assert (code, "spec.policy.clusterNames" in refused["message"]) == (422, True)


@pytest.mark.parametrize(
    ("query", "wanted", "code", "said"),
    [
        pytest.param("", settings(k="1"), 400, "fieldManager: required", id="no-manager"),
        pytest.param("?fieldManager=x", {**settings(), "kind": "Secret"}, 400, "but the URL has", id="other-kind"),
        pytest.param("?fieldManager=x", [1], 400, "must be a JSON object", id="no-object"),
        pytest.param(
            "?fieldManager=x",
            {**settings(), "metadata": {"name": "a", "managedFields": [{"manager": "x"}]}},
            400,
            "metadata.managedFields must not be set",
            id="owners",
        ),
        pytest.param(
            "?fieldManager=x",
            {**settings(), "metadata": {"name": "a", "finalizers": ["a.io/b", "a.io/b"]}},
            400,
            'metadata.finalizers: "a.io/b" is given twice',
            id="twice",
        ),
        pytest.param(
            "?fieldManager=x",
            {**settings(), "metadata": {"name": "a", "finalizers": ["\ud800", "\ud800"]}},
            400,
            "is given twice",
            id="not-utf-8",
        ),
        pytest.param(
            "?fieldManager=x",
            {**settings(), "metadata": {"name": "a", "uid": "u"}},
            409,
            'metadata.uid: "u" was expected, but there is no such object',
            id="of-an-object-that-is-gone",
        ),
        pytest.param(f"?fieldManager={'m' * 129}", settings(), 422, "up to 128 printable bytes", id="long-manager"),
        pytest.param("?fieldManager=m%1b", settings(), 422, "up to 128 printable bytes", id="unprintable-manager"),
        pytest.param(
            "?fieldManager=x",
            settings(**dict.fromkeys(map(str, range(MOST_FIELDS + 1)), "")),
            400,
            f"more than {MOST_FIELDS} fields",
            id="too-many-fields",
        ),
        pytest.param(
            "?fieldManager=x",
            {**settings(), "metadata": {"name": "a", "nothing": 1}},
            400,
            'unknown field "metadata.nothing"',
            id="unknown-field",
        ),
    ],
)
async def test_what_cannot_be_applied(api, query, wanted, code, said):
    answer = await api.patch(f"{MAPS}/a{query}", json=wanted, headers=APPLY)
    body = await answer.json()
    assert (answer.status, said in body["message"]) == (code, True), body


async def test_a_status_is_not_applied(api):
    answer = await api.patch(f"{PLACEMENTS}/web/status?fieldManager=x", json={}, headers=APPLY)
    assert (answer.status, "does not accept application/apply-patch+yaml" in (await answer.json())["message"]) == (
        415,
        True,
    )


@pytest.mark.parametrize(
    ("given", "left"),
    [
        pytest.param([{"manager": "x"}], {("ann", "Apply"), ("ed", "Update")}, id="no-fields"),
        pytest.param("text", {("ann", "Apply"), ("ed", "Update")}, id="no-list"),
        pytest.param(
            [{"manager": "x", "operation": "Apply", "fieldsV1": {"k:{": {}, "f:data": {"v:": {}, "bad": {}}}}],
            {("x", "Apply"), ("ed", "Update")},
            id="no-path",
        ),
    ],
)
async def test_owners_that_are_not_well_formed_count_for_nothing(api, given, left):
    await applied(api, MAPS, settings(k="1"))
    _, found = await changed(api, {"metadata": {"managedFields": given, "labels": {"a": "b"}}})
    assert set(owners(found)) == left
    assert (await applied(api, MAPS, settings(k="2"), "ann&force=true"))[0] == 200


async def test_an_update_whose_owners_cannot_be_told_leaves_none(api):
    """The first owners of an object may come with an update, beside a list that no owner can have a part of."""
    await api.post(MAPS, json=settings(k="1"))
    twice = {"apiVersion": "v1", "kind": "Node", "name": "n", "uid": "u"}
    code, found = await changed(
        api, {"metadata": {"managedFields": [{"manager": "x"}], "ownerReferences": [twice, twice]}}
    )
    assert (code, "managedFields" in found["metadata"]) == (200, False)


async def test_a_port_for_two_protocols_is_two_items(api):
    path = "/api/v1/namespaces/shop/services"
    ports = [{"name": "udp", "port": 53, "protocol": "UDP"}, {"name": "tcp", "port": 53}]
    code, found = await applied(api, path, document("v1", "Service", "dns", spec={"ports": ports}))
    assert (code, found["spec"]["ports"]) == (201, ports)
    assert set(owners(found)["ann", "Apply"]["f:spec"]["f:ports"]) == {
        'k:{"port":53,"protocol":"TCP"}',
        'k:{"port":53,"protocol":"UDP"}',
    }


async def test_many_who_update_are_told_apart_no_longer(api):
    await applied(api, MAPS, settings(k="1"))
    for number in range(12):
        _, found = await changed(api, {"data": {f"n{number}": "1"}}, manager=f"m{number:02}")
    names = {manager for manager, operation in owners(found) if operation == "Update"}
    assert names == {"ancient-changes", *(f"m{number:02}" for number in range(3, 12))}
    assert set(owners(found)["ancient-changes", "Update"]["f:data"]) == {"f:n0", "f:n1", "f:n2"}


LIST = {"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["k"]}


@pytest.mark.parametrize(
    "properties",
    [
        pytest.param("text", id="no-properties"),
        pytest.param(["spec"], id="list-of-properties"),
        pytest.param({"spec": "text"}, id="no-schema"),
        pytest.param({"spec": {"properties": {"l": {**LIST, "x-kubernetes-list-map-keys": 5}}}}, id="no-keys"),
        pytest.param({"spec": {"properties": {"l": {**LIST, "x-kubernetes-list-map-keys": [[]]}}}}, id="no-key"),
        pytest.param({"spec": {"properties": {"l": {**LIST, "x-kubernetes-list-type": []}}}}, id="no-type"),
        pytest.param({"spec": {"properties": {"l": {**LIST, "items": "text"}}}}, id="no-items"),
        pytest.param({"spec": {"properties": {"l": {**LIST, "items": {"properties": {"k": 1}}}}}}, id="no-field"),
    ],
)
async def test_a_definition_of_any_shape_divides_what_it_can(api, properties):
    names = {"kind": "Boat", "plural": "boats", "singular": "boat", "listKind": "BoatList"}
    version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": {"properties": properties}}}
    spec = {"group": "h.example.com", "scope": "Cluster", "names": names, "versions": [version]}
    definition = document("apiextensions.k8s.io/v1", "CustomResourceDefinition", "boats.h.example.com", spec=spec)
    await api.post("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", json=definition)
    wanted = document("h.example.com/v1", "Boat", "a", spec={"l": [{"k": "a"}, {"k": "b"}]})
    code, found = await applied(api, "/apis/h.example.com/v1/boats", wanted)
    assert (code, found["spec"]) == (201, wanted["spec"])


async def test_json_patches_have_bounds(api):
    await api.post(MAPS, json=settings(k="1"))
    deep = {}
    for _ in range(60):
        deep = {"a": deep}
    two = [{"op": "add", "path": "/data", "value": deep}, {"op": "add", "path": f"/data{'/a' * 60}", "value": deep}]
    code, refused = await changed(api, two, JSON_PATCH)
    assert (code, refused["message"]) == (422, "the patch nests the object deeper than 100 levels")
    code, refused = await changed(api, [{"op": "add", "path": "/a" * 2000, "value": 1}], JSON_PATCH)
    assert (code, refused["message"]) == (422, "a path of the patch has more than 100 levels")
    code, refused = await changed(api, [{"op": "add", "path": "/data/k", "value": "2"}] * 10_001, JSON_PATCH)
    assert (code, "may have 10000 operations, not 10001" in refused["message"]) == (413, True)


async def test_json_patches(api):
    await api.post(MAPS, json=settings(k="1"))
    _, found = await changed(api, [{"op": "replace", "path": "/data/k", "value": "2"}], JSON_PATCH)
    assert found["data"] == {"k": "2"}
    code, refused = await changed(api, [{"op": "remove", "path": "/data/none"}], JSON_PATCH)
    assert (code, refused["message"]) == (422, "operation 0 of the patch: path '/data/none' does not exist")
    code, refused = await changed(api, {"data": None}, JSON_PATCH)
    assert (code, "must be a list of operations" in refused["message"]) == (400, True)
