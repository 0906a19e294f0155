"""Fields that the hub drops; against a real API server in e2e."""

import pytest

from scorer.api.kinds import KINDS
from scorer.api.names import LAST_APPLIED, SPEC_HASH
from webhook.member.apply.dropped_fields import last_manifest, unknown_fields, without_dropped
from webhook.member.store.ports import MANAGER

CONFIG_MAP, DEPLOYMENT = KINDS["", "ConfigMap"], KINDS["apps", "Deployment"]
UNKNOWN = "before-first-apply"


def config_map(last=None, managers=(), **data):
    annotations = {} if last is None else {LAST_APPLIED: last, SPEC_HASH: "h"}
    entries = [{"manager": manager, "operation": "Apply", "fieldsV1": fields} for manager, fields in managers]
    metadata = {"name": "x", **({"annotations": annotations} if annotations else {})}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata | {"managedFields": entries}, "data": data}


def data_of(manager, *names):
    return manager, {"f:data": {".": {}, **{f"f:{name}": {} for name in names}}}


def wanted(**data):
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "x"}, "data": data}


def test_the_annotation_says_what_was_applied_last():
    live = config_map('{"data": {"a": "1"}}', [data_of(MANAGER, "b")], a="1", b="2")
    assert last_manifest(live) == {"data": {"a": "1"}}


def test_without_it_our_entry_does():
    ports = {"f:ports": {'k:{"port":80,"protocol":"TCP"}': {".": {}, "f:port": {}}}}
    annotations = {"f:annotations": {f"f:{LAST_APPLIED}": {}, "f:note": {}}, "f:ownerReferences": {'k:{"uid":"u"}': {}}}
    fields = {"f:metadata": annotations, "f:spec": {**ports, "f:selector": {}}}
    live = {
        "metadata": {
            "annotations": {LAST_APPLIED: "", "note": "n", "foreign": "f"},
            "ownerReferences": [{"uid": "u"}],
            "managedFields": [{"manager": MANAGER, "operation": "Apply", "fieldsV1": fields}],
        },
        "spec": {
            "ports": [{"port": 80, "protocol": "TCP", "nodePort": 30080}, {"port": 81, "protocol": "TCP"}],
            "selector": {"app": "web"},
            "type": "NodePort",
        },
    }
    spec = {"ports": [{"port": 80}], "selector": {"app": "web"}}
    assert last_manifest(live) == {"metadata": {"annotations": {"note": "n"}}, "spec": spec}


@pytest.mark.parametrize("managers", [[], [data_of("kubectl", "a")]])
def test_without_both_nothing_is_known(managers):
    assert last_manifest(config_map("", managers, a="1")) == {}


@pytest.mark.parametrize(
    ("managers", "left"),
    [
        pytest.param([data_of(MANAGER, "a", "b")], None, id="the-apply-removes-it"),
        pytest.param([data_of(MANAGER, "a", "b"), data_of(UNKNOWN, "a", "b")], {"a": "1", "c": "3"}, id="unknown-too"),
        pytest.param([data_of(MANAGER, "a", "b"), data_of("vault", "b")], None, id="another-client-has-it"),
    ],
)
def test_a_server_side_apply_is_helped_where_it_would_leave_a_field(managers, left):
    live = config_map("", managers, a="1", b="2", c="3")
    expected = None if left is None else {**live, "data": left}
    assert without_dropped(CONFIG_MAP, wanted(a="1"), live) == expected


def test_a_field_of_the_last_manifest_that_no_entry_has_is_removed():
    live = config_map('{"data": {"a": "1", "b": "2"}}', a="1", b="2", c="3")
    assert without_dropped(CONFIG_MAP, wanted(a="1"), live) == {**live, "data": {"a": "1", "c": "3"}}


@pytest.mark.parametrize(
    ("live", "unknown"),
    [
        pytest.param(config_map("", a="1", b="2"), ("/data/b",), id="reset"),
        pytest.param(config_map("", [data_of(UNKNOWN, "a", "b")], a="1", b="2", c="3"), ("/data/b",), id="assigned"),
        pytest.param(config_map("", [data_of(UNKNOWN, "b"), data_of("vault", "b")], b="2"), (), id="of-another-client"),
        pytest.param(config_map("", [data_of(MANAGER, "b")], b="2"), (), id="ours"),
        pytest.param(config_map("", [data_of(UNKNOWN, "b"), data_of(MANAGER, "b")], b="2"), (), id="ours-too"),
        pytest.param(config_map("{}", b="2"), (), id="the-last-manifest-is-there"),
        pytest.param(config_map(None, b="2"), (), id="never-applied"),
    ],
)
def test_unknown_fields(live, unknown):
    assert unknown_fields(wanted(a="1"), live) == unknown
