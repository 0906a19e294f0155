"""Three-way merge."""

from copy import deepcopy

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scorer.api.kinds import KINDS, NODE_POOL
from scorer.api.meta import without_nulls
from webhook.member.apply.three_way_merge import merge_key, three_way_merge

DEPLOYMENT = KINDS["apps", "Deployment"]
CONFIG_MAP = KINDS["", "ConfigMap"]
SERVICE = KINDS["", "Service"]


def pod(*containers, **spec):
    return {"spec": {"template": {"spec": {"containers": list(containers), **spec}}}}


@pytest.mark.parametrize(
    ("kind", "last", "wanted", "live", "merged"),
    [
        pytest.param(CONFIG_MAP, {}, {"data": {"a": "1"}}, {}, {"data": {"a": "1"}}, id="new"),
        pytest.param(
            CONFIG_MAP,
            {"data": {"a": "1", "b": "2"}},
            {"data": {"a": "1"}},
            {"data": {"a": "x", "b": "2", "c": "3"}},
            {"data": {"a": "1", "c": "3"}},
            id="restored-removed-foreign",
        ),
        pytest.param(
            CONFIG_MAP,
            {"data": {"a": "1"}},
            {},
            {"data": {"a": "1"}, "binaryData": {}},
            {"binaryData": {}},
            id="map-gone",
        ),
        pytest.param(
            CONFIG_MAP,
            {"metadata": {"labels": {"a": "1"}}},
            {"metadata": {}},
            {"metadata": {"labels": {"a": "1", "b": "2"}}},
            {"metadata": {"labels": {"b": "2"}}},
            id="labels-of-others-stay",
        ),
        pytest.param(CONFIG_MAP, {}, {"data": None}, {"data": {"a": "1"}}, {}, id="null-removes"),
        pytest.param(
            CONFIG_MAP, {}, {"data": {"a": {"b": 1}}}, {"data": {"a": "text"}}, {"data": {"a": {"b": 1}}}, id="type"
        ),
        pytest.param(
            CONFIG_MAP,
            {},
            {"apiVersion": "v1beta1"},
            {"apiVersion": "v1"},
            {"apiVersion": "v1"},
            id="version-of-the-store",
        ),
        pytest.param(
            DEPLOYMENT,
            pod({"name": "a", "image": "1"}, {"name": "gone"}),
            pod({"name": "a", "image": "2"}, {"name": "new"}),
            pod({"name": "sidecar"}, {"name": "gone"}, {"name": "a", "image": "1", "imagePullPolicy": "Always"}),
            pod({"name": "a", "image": "2", "imagePullPolicy": "Always"}, {"name": "new"}, {"name": "sidecar"}),
            id="containers-by-name",
        ),
        pytest.param(
            DEPLOYMENT,
            pod({"name": "a", "env": [{"name": "X", "value": "1"}, {"name": "Y", "value": "1"}]}),
            pod({"name": "a", "env": [{"name": "X", "value": "2"}]}),
            pod({"name": "a", "env": [{"name": "Y", "value": "1"}, {"name": "X", "value": "1"}, {"name": "Z"}]}),
            pod({"name": "a", "env": [{"name": "X", "value": "2"}, {"name": "Z"}]}),
            id="env-by-name",
        ),
        pytest.param(
            DEPLOYMENT,
            {},
            pod({"name": "a", "ports": [{"containerPort": 80, "name": "http"}], "args": ["x"]}),
            pod({"name": "a", "ports": [{"containerPort": 80, "protocol": "TCP"}], "args": ["y", "z"]}),
            pod({"name": "a", "ports": [{"containerPort": 80, "protocol": "TCP", "name": "http"}], "args": ["x"]}),
            id="ports-by-number-args-as-one",
        ),
        pytest.param(
            DEPLOYMENT,
            {},
            pod(
                {
                    "name": "a",
                    "ports": [{"containerPort": 53, "protocol": "TCP"}, {"containerPort": 53, "protocol": "UDP"}],
                }
            ),
            pod({"name": "a", "ports": [{"containerPort": 53, "protocol": "TCP", "hostPort": 1}]}),
            pod(
                {
                    "name": "a",
                    "ports": [{"containerPort": 53, "protocol": "TCP"}, {"containerPort": 53, "protocol": "UDP"}],
                }
            ),
            id="a-key-twice-is-one-value",
        ),
        pytest.param(
            DEPLOYMENT,
            pod(volumes=[{"name": "v", "emptyDir": {}}]),
            pod(volumes=[{"name": "v", "configMap": {"name": "c"}}]),
            pod(volumes=[{"name": "v", "emptyDir": {}}]),
            pod(volumes=[{"name": "v", "configMap": {"name": "c"}}]),
            id="union-switches",
        ),
        pytest.param(
            SERVICE,
            {},
            {"spec": {"ports": [{"port": 80, "targetPort": 8080}]}},
            {"spec": {"ports": [{"port": 80, "targetPort": 80, "nodePort": 30001}], "clusterIP": "10.96.0.7"}},
            {"spec": {"ports": [{"port": 80, "targetPort": 8080, "nodePort": 30001}], "clusterIP": "10.96.0.7"}},
            id="service-keeps-what-it-was-given",
        ),
        pytest.param(
            NODE_POOL,
            {},
            {"spec": {"containers": [{"name": "a"}]}},
            {"spec": {"containers": [{"name": "b"}]}},
            {"spec": {"containers": [{"name": "a"}]}},
            id="lists-of-custom-kinds-are-one-value",
        ),
    ],
)
def test_three_way_merge(kind, last, wanted, live, merged):
    before = deepcopy((last, wanted, live))
    assert three_way_merge(kind, last, wanted, live) == merged
    assert (last, wanted, live) == before


@pytest.mark.parametrize(
    ("kind", "path", "key"),
    [
        ("Pod", "spec.containers", "name"),
        ("CronJob", "spec.jobTemplate.spec.template.spec.initContainers.env", "name"),
        ("Deployment", "spec.template.spec.hostAliases", "ip"),
        ("Deployment", "spec.template.spec.tolerations", ""),
        ("Deployment", "spec.containers", ""),
        ("Service", "spec.ports", "port"),
        ("NetworkPolicy", "spec.ingress.ports", ""),
        ("ServiceAccount", "secrets", "name"),
        ("MutatingWebhookConfiguration", "webhooks", "name"),
    ],
)
def test_merge_key(kind, path, key):
    (found,) = [known for (_, name), known in KINDS.items() if name == kind]
    assert merge_key(found, tuple(path.split("."))) == key


names = st.sampled_from("abc")
scalars = st.none() | st.booleans() | st.integers(0, 3) | st.sampled_from(["x", "y"])
values = st.recursive(
    scalars, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(names, inner, max_size=3), max_leaves=8
)
maps = st.dictionaries(names, values, max_size=3)
environments = st.lists(st.fixed_dictionaries({"name": names}, optional={"value": values, "extra": values}), max_size=4)
containers = st.lists(st.fixed_dictionaries({"name": names}, optional={"env": environments, "c": values}), max_size=3)
pods = st.builds(lambda found, rest: {**rest, **pod(*found)}, containers, maps) | maps


@given(last=pods, wanted=pods, live=pods)
def test_merging_again_changes_nothing(last, wanted, live):
    merged = three_way_merge(DEPLOYMENT, last, wanted, live)
    assert three_way_merge(DEPLOYMENT, wanted, wanted, merged) == merged


def leaves(value, path=()):
    if isinstance(value, dict) and value:
        for name, item in value.items():
            yield from leaves(item, (*path, name))
    else:
        yield path, value


def at(value, path):
    for name in path:
        if not isinstance(value, dict) or name not in value:
            return "absent"
        value = value[name]
    return value


@given(last=maps, wanted=maps, live=maps)
def test_the_manifest_wins_and_foreign_fields_survive(last, wanted, live):
    merged = three_way_merge(CONFIG_MAP, last, wanted, live)
    for path, value in leaves(wanted):
        if path and value not in (None, {}):
            assert at(merged, path) == without_nulls(value)
    for name in live:
        if name not in wanted and name not in last:
            assert merged[name] == live[name]
    for name in last:
        if name not in wanted:
            assert name not in merged
