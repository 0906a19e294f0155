"""Fields that an apply leaves as they are; against a real API server in e2e."""

import pytest

from scorer.api.names import IGNORE_FIELDS
from webhook.member.apply.retained_fields import configuration, disowned, whole_object
from webhook.member.store.ports import MANAGER


def config_map(*finalizers, **metadata):
    metadata = {"name": "settings", **metadata}
    return {"metadata": {**metadata, "finalizers": list(finalizers)} if finalizers else metadata}


def managed(document, operation="Apply", manager=MANAGER, **fields):
    entry = {"manager": manager, "operation": operation, "apiVersion": "v1", "fieldsV1": fields}
    entries = [*document["metadata"].get("managedFields", ()), entry]
    return {**document, "metadata": {**document["metadata"], "managedFields": entries}}


def finalizers(*names):
    return {"f:metadata": {"f:finalizers": {".": {}, **{f'v:"{name}"': {} for name in names}}}}


@pytest.mark.parametrize(
    ("fields", "sent"),
    [
        pytest.param({}, (), id="none-owned"),
        pytest.param(finalizers("a/x", "removed/z"), ("a/x",), id="owned"),
        pytest.param({"f:data": {}}, (), id="other-fields-owned"),
    ],
)
@pytest.mark.parametrize("operation", ["Apply", "Update"])
def test_finalizers_are_retained(operation, fields, sent):
    live = managed(config_map("a/x", "b/y"), operation, **fields)
    live = managed(live, manager="operator", **finalizers("b/y"))
    assert whole_object(config_map(), live) == config_map("a/x", "b/y")
    assert configuration(config_map(), live) == config_map(*sent)


def service(*ports, **spec):
    return {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "web"}, "spec": {"ports": list(ports), **spec}}


def ignoring(document, *pointers):
    return {**document, "metadata": {**document["metadata"], "annotations": {IGNORE_FIELDS: " ".join(pointers)}}}


def deployment(**spec):
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"}, "spec": spec}


def test_allocated_fields_are_repeated_in_a_whole_object_only():
    live = service({"port": 80, "nodePort": 30080}, clusterIP="10.0.0.7")
    assert whole_object(service({"port": 80}), live) == live
    assert configuration(service({"port": 80}), live) == service({"port": 80})
    explicit = service({"port": 80, "nodePort": 30090})
    assert configuration(explicit, live) == explicit, "the author's own value"


def test_ignored_fields_are_sent_to_create_an_object_and_left_out_later():
    manifest = ignoring(deployment(replicas=2, paused=True), "/spec/replicas")
    assert whole_object(manifest, None) == configuration(manifest, None) == manifest
    live = deployment(replicas=5)
    assert whole_object(manifest, live) == ignoring(deployment(replicas=5, paused=True), "/spec/replicas")
    assert configuration(manifest, live) == ignoring(deployment(paused=True), "/spec/replicas")


def test_a_list_that_is_replaced_as_a_whole_is_sent_with_the_values_of_the_member():
    manifest = ignoring(deployment(tolerations=[{"key": "a", "value": "x"}]), "/spec/tolerations/0/key")
    live = managed(deployment(tolerations=[{"key": "b", "value": "y"}]), **{"f:spec": {"f:tolerations": {}}})
    assert configuration(manifest, live)["spec"] == {"tolerations": [{"key": "b", "value": "x"}]}


ARGS = {"f:spec": {"f:containers": {'k:{"name":"a"}': {".": {}, "f:args": {}}, 'k:{"name":"b"}': {".": {}}}}}


@pytest.mark.parametrize(
    ("pointers", "sent"),
    [
        pytest.param(("/0/args/0",), [{"name": "a", "args": ["-x", "-1"]}, {"name": "b"}], id="one"),
        pytest.param(("/0/args/0", "/0/args/1"), [{"name": "a", "args": ["-x", "-y"]}, {"name": "b"}], id="all"),
        pytest.param(("/1", "/0/args/1"), [{"name": "a", "args": ["-0", "-y"]}], id="beside-another-item"),
        pytest.param(("/0", "/1/args"), [{"name": "b"}], id="after-another-item"),
    ],
)
def test_a_list_in_an_item_of_a_list_is_sent_with_the_values_of_the_member(pointers, sent):
    containers = [{"name": "a", "args": ["-0", "-1"]}, {"name": "b", "args": ["-2"]}]
    if "/1/args" not in pointers:
        containers[1].pop("args")
    manifest = ignoring(deployment(containers=containers), *(f"/spec/containers{pointer}" for pointer in pointers))
    live = managed(deployment(containers=[{"name": "b"}, {"name": "a", "args": ["-x", "-y"]}]), **ARGS)
    assert configuration(manifest, live)["spec"] == {"containers": sent}


@pytest.mark.parametrize(
    ("manifest", "owned", "left"),
    [
        pytest.param(
            ignoring(deployment(replicas=2), "/spec/replicas"),
            {"f:spec": {"f:replicas": {}, "f:paused": {}}},
            {"f:spec": {"f:paused": {}}},
            id="ignored",
        ),
        pytest.param(service(), {"f:spec": {"f:clusterIP": {}}}, {}, id="the-last-field"),
        pytest.param(service(), {"f:spec": {".": {}, "f:type": {}}}, None, id="nothing"),
        pytest.param(service(clusterIP="None"), {"f:spec": {"f:clusterIP": {}}}, None, id="sent-all-the-same"),
        pytest.param(
            service({"port": 80}, {"port": 81, "nodePort": 30081}),
            {
                "f:spec": {
                    "f:ports": {
                        'k:{"port":80,"protocol":"TCP"}': {".": {}, "f:nodePort": {}, "f:port": {}},
                        'k:{"port":81,"protocol":"TCP"}': {".": {}, "f:nodePort": {}, "f:port": {}},
                    }
                }
            },
            {
                "f:spec": {
                    "f:ports": {
                        'k:{"port":80,"protocol":"TCP"}': {".": {}, "f:port": {}},
                        'k:{"port":81,"protocol":"TCP"}': {".": {}, "f:nodePort": {}, "f:port": {}},
                    }
                }
            },
            id="items-of-a-list",
        ),
        pytest.param(
            ignoring(deployment(containers=[{"name": "a", "image": "1"}, {"name": "b"}]), "/spec/containers/0/image"),
            {
                "f:spec": {
                    "f:containers": {'k:{"name":"b"}': {"f:image": {}}, 'k:{"name":"a"}': {".": {}, "f:image": {}}}
                }
            },
            {"f:spec": {"f:containers": {'k:{"name":"b"}': {"f:image": {}}, 'k:{"name":"a"}': {".": {}}}}},
            id="an-item-by-its-position",
        ),
        pytest.param(
            ignoring(deployment(containers=[{"name": "a"}, {"name": "b"}]), "/spec/containers/0"),
            {"f:spec": {"f:containers": {'k:{"name":"a"}': {".": {}}, 'k:{"name":"b"}': {".": {}}}}},
            {"f:spec": {"f:containers": {'k:{"name":"b"}': {".": {}}}}},
            id="a-whole-item",
        ),
        pytest.param(
            {"apiVersion": "batch/v1", "kind": "Job", "metadata": {}, "spec": {}},
            {"f:spec": {"f:selector": {}, "f:parallelism": {}}},
            {"f:spec": {"f:parallelism": {}}},
            id="a-value-owned-as-a-whole",
        ),
    ],
)
def test_ownership_of_fields_that_are_not_sent_is_given_up(manifest, owned, left):
    live = managed({"metadata": {}}, **owned)
    expected = None if left is None else managed({"metadata": {}}, **left)
    assert disowned(live, manifest, configuration(manifest, live)) == expected
