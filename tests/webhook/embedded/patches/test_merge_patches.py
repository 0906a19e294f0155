"""Strategic merge patches; the results are those of apimachinery's ``StrategicMergeMapPatch``."""

import copy

import pytest

from scorer.api.kinds import KINDS
from webhook.embedded.patches.merge_patches import InvalidPatchError, strategic_merge

CONFIG_MAP, SERVICE = KINDS["", "ConfigMap"], KINDS["", "Service"]
ACCOUNT, DEPLOYMENT = KINDS["", "ServiceAccount"], KINDS["apps", "Deployment"]


def named(names):
    return [{"name": name} for name in names]


def pods(**spec):
    return {"spec": {"template": {"spec": spec}}}


def metadata(**members):
    return {"metadata": members}


@pytest.mark.parametrize(
    ("kind", "target", "patch", "merged"),
    [
        pytest.param(
            CONFIG_MAP,
            {"data": {"a": "1", "b": "2"}},
            {"data": {"a": None, "c": "3"}},
            {"data": {"b": "2", "c": "3"}},
            id="maps-as-by-a-merge-patch",
        ),
        pytest.param(CONFIG_MAP, {}, {"data": {"a": None, "b": "1"}}, {"data": {"b": "1"}}, id="null-in-what-is-new"),
        pytest.param(
            DEPLOYMENT,
            pods(containers=[{"name": "a", "image": "1", "args": ["x"]}, {"name": "b"}]),
            pods(containers=[{"name": "a", "image": "2", "args": ["y"]}]),
            pods(containers=[{"name": "a", "image": "2", "args": ["y"]}, {"name": "b"}]),
            id="by-hand-an-item-by-its-name",
        ),
        pytest.param(
            DEPLOYMENT,
            pods(containers=[{"name": "a", "env": named("xy")}]),
            pods(containers=[{"name": "a", "env": [{"name": "y", "value": "1"}, {"name": "z"}]}]),
            pods(containers=[{"name": "a", "env": [{"name": "x"}, {"name": "y", "value": "1"}, {"name": "z"}]}]),
            id="in-an-item-of-an-item",
        ),
        pytest.param(
            DEPLOYMENT,
            pods(tolerations=[{"key": "a"}]),
            pods(tolerations=[{"key": "b"}]),
            pods(tolerations=[{"key": "b"}]),
            id="a-list-without-names-is-one-value",
        ),
        pytest.param(
            DEPLOYMENT,
            pods(containers=named("abc")),
            pods(**{"$setElementOrder/containers": named("ca"), "containers": [{"name": "b", "$patch": "delete"}]}),
            pods(containers=named("ca")),
            id="kubectl-deletes-and-orders",
        ),
        pytest.param(
            DEPLOYMENT,
            pods(containers=named(["a", "injected", "b"])),
            pods(**{"$setElementOrder/containers": named("ab")}),
            pods(containers=named(["a", "injected", "b"])),
            id="what-the-author-does-not-know-stays-where-it-is",
        ),
        pytest.param(
            DEPLOYMENT,
            pods(containers=named(["a", "injected", "b"])),
            pods(**{"$setElementOrder/containers": named("ba")}),
            pods(containers=named(["injected", "b", "a"])),
            id="and-before-what-it-was-before",
        ),
        pytest.param(
            DEPLOYMENT,
            pods(containers=named("ab")),
            pods(containers=[{"$patch": "replace"}, {"name": "c"}]),
            pods(containers=named("c")),
            id="a-list-replaced",
        ),
        pytest.param(
            DEPLOYMENT,
            pods(schedulingGates=named("ab")),
            pods(**{"$setElementOrder/schedulingGates": named("bc"), "schedulingGates": named("c")}),
            pods(schedulingGates=named("abc")),
            id="kubectl-says-what-tells-them-apart",
        ),
        pytest.param(
            DEPLOYMENT,
            {"spec": {"strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1}}}},
            {"spec": {"strategy": {"$retainKeys": ["type"], "type": "Recreate"}}},
            {"spec": {"strategy": {"type": "Recreate"}}},
            id="a-union-keeps-what-is-named",
        ),
        pytest.param(
            DEPLOYMENT,
            {"spec": {"selector": {"a": "b"}, "replicas": 1}},
            {"spec": {"selector": {"$patch": "replace", "c": "d"}}},
            {"spec": {"selector": {"c": "d"}, "replicas": 1}},
            id="a-map-replaced",
        ),
        pytest.param(
            DEPLOYMENT,
            {"spec": {"a": {"b": 1}}},
            {"spec": {"a": {"$patch": "delete"}}},
            {"spec": {"a": {}}},
            id="a-map-emptied",
        ),
        pytest.param(
            SERVICE,
            {"spec": {"ports": [{"port": 53, "protocol": "TCP"}, {"port": 53, "protocol": "UDP"}]}},
            {"spec": {"ports": [{"port": 80}]}},
            {"spec": {"ports": [{"port": 80}, {"port": 53, "protocol": "TCP"}, {"port": 53, "protocol": "UDP"}]}},
            id="two-of-one-name-both-stay",
        ),
        pytest.param(
            ACCOUNT,
            {"imagePullSecrets": named("ab")},
            {"imagePullSecrets": named("b")},
            {"imagePullSecrets": named("b")},
            id="pull-secrets-of-an-account-are-one-value",
        ),
        pytest.param(
            CONFIG_MAP,
            metadata(finalizers=["a/1", "a/2"]),
            metadata(finalizers=["a/3", "a/1"]),
            metadata(finalizers=["a/3", "a/1", "a/2"]),
            id="finalizers-are-a-set",
        ),
        pytest.param(
            CONFIG_MAP,
            metadata(finalizers=["a/1", "a/2"]),
            metadata(**{"$deleteFromPrimitiveList/finalizers": ["a/1"], "$setElementOrder/finalizers": ["a/2"]}),
            metadata(finalizers=["a/2"]),
            id="kubectl-deletes-a-plain-value",
        ),
        pytest.param(
            CONFIG_MAP,
            metadata(ownerReferences=[{"uid": "u", "name": "a"}]),
            metadata(ownerReferences=[{"uid": "v", "name": "b"}]),
            metadata(ownerReferences=[{"uid": "v", "name": "b"}, {"uid": "u", "name": "a"}]),
            id="owners-by-uid",
        ),
        pytest.param(CONFIG_MAP, {"a": 1}, {"$setElementOrder/b": ["x"]}, {"a": 1}, id="an-order-of-nothing"),
    ],
)
def test_strategic_merge(kind, target, patch, merged):
    before = copy.deepcopy((target, patch))
    assert strategic_merge(kind, target, patch) == merged
    assert (target, patch) == before


@pytest.mark.parametrize(
    ("patch", "mistake"),
    [
        pytest.param({"spec": {"$patch": "burn"}}, r'spec\.\$patch "burn": expected merge', id="directive"),
        pytest.param({"spec": {"$retainKeys": "a"}}, r'spec\.\$retainKeys: "a": expected a list', id="retain-keys"),
        pytest.param({"$setElementOrder/x": {}}, r"\$setElementOrder/x: \{\}: expected a list", id="order"),
        pytest.param(pods(containers=[{"image": "1"}]), r"containers: .* expected an object with a name", id="no-name"),
        pytest.param(pods(containers=["a"]), r'containers: "a" in it: expected an object with a name', id="no-object"),
        pytest.param(pods(containers=[{"name": {}}]), "expected an object with a name", id="name-that-is-none"),
        pytest.param(metadata(finalizers=[{}]), r"metadata\.finalizers: \{\} in it: expected a plain value", id="set"),
    ],
)
def test_a_patch_that_makes_no_sense_is_told_where(patch, mistake):
    with pytest.raises(InvalidPatchError, match=mistake):
        strategic_merge(DEPLOYMENT, pods(containers=named("a")), patch)


class Counted(str):
    """A text that counts how often it is compared."""

    __slots__ = ()
    compared = 0

    def __eq__(self, other):
        Counted.compared += 1
        return str.__eq__(self, other)

    def __ne__(self, other):
        Counted.compared += 1
        return str.__ne__(self, other)

    __hash__ = str.__hash__


@pytest.mark.parametrize(
    ("kind", "target", "patch"),
    [
        pytest.param(
            CONFIG_MAP,
            lambda texts: metadata(finalizers=texts),
            lambda texts: metadata(**{"$deleteFromPrimitiveList/finalizers": texts}),
            id="plain-values",
        ),
        pytest.param(
            DEPLOYMENT,
            lambda texts: pods(containers=named(texts)),
            lambda texts: pods(containers=[{"name": text, "$patch": "delete"} for text in texts]),
            id="items",
        ),
    ],
)
def test_the_work_grows_with_the_length_of_the_lists_and_not_with_its_square(kind, target, patch):
    """Two lists of 60,000 texts held everybody up for minutes."""
    here, gone = ([Counted(f"{word}-{number}") for number in range(2000)] for word in ("here", "gone"))
    Counted.compared = 0
    merged = strategic_merge(kind, target(here), patch(gone))
    assert merged == target(here)
    assert Counted.compared < 40_000
