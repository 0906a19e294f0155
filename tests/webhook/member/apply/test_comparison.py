"""Differences between a manifest and the object on the member."""

import pytest

from scorer.api.kinds import KINDS
from scorer.api.names import IGNORE_FIELDS
from webhook.embedded.simulation.member_stores import ObservedStore
from webhook.embedded.storage.store import EmbeddedStore
from webhook.kube.ports import InvalidObjectError, Key, UnavailableError
from webhook.member.apply.comparison import REDACTED, NotComparableError, compare, differences
from webhook.member.objects.manifests import Manifest

CONFIG_MAP, NAMESPACE = KINDS["", "ConfigMap"], KINDS["", "Namespace"]
PLACE = {"name": "c", "namespace": "app"}


class Member(ObservedStore):
    """A member that may refuse to say what applying comes to."""

    refusal = None

    async def apply(self, kind, document, *, manager, force, dry_run=False):
        assert (manager, force, dry_run) == ("work-api-agent", True, True), "a comparison stores nothing"
        if self.refusal is not None:
            raise self.refusal
        return await super().apply(kind, document, manager=manager, force=force, dry_run=dry_run)


@pytest.fixture
def member():
    store = EmbeddedStore.open(None)
    yield Member(store)
    store.close()


@pytest.mark.parametrize("full", [False, True])
async def test_a_client_of_the_member_cannot_hide_a_difference(member, full):
    live = {"metadata": {**PLACE, "annotations": {IGNORE_FIELDS: "/data"}}, "data": {"a": "2"}}
    comparison = await compared(member, {"data": {"a": "1"}}, live, full=full)
    assert {"path": "/data/a", "valueInMember": "2", "valueInHub": "1"} in comparison.details


async def compared(member, manifest, live, *, full):
    await member.create(NAMESPACE, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "app"}})
    head = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": PLACE}
    made = await member.create(CONFIG_MAP, {**head, **live})
    return await compare(Manifest(0, CONFIG_MAP, Key("c", "app"), {**head, **manifest}), made, member, full=full)


@pytest.mark.parametrize(
    ("manifest", "live", "partial", "full"),
    [
        pytest.param({"data": {"a": "1"}}, {"data": {"a": "1"}}, [], [], id="equal"),
        pytest.param(
            {"data": {"a": "1"}},
            {"data": {"a": "2", "b": "3"}},
            [{"path": "/data/a", "valueInMember": "2", "valueInHub": "1"}],
            [
                {"path": "/data/a", "valueInMember": "2", "valueInHub": "1"},
                {"path": "/data/b", "valueInMember": "3"},
            ],
            id="changed-and-added",
        ),
        pytest.param(
            {"data": {"a/b~c": "1"}}, {"data": {}}, *[[{"path": "/data/a~1b~0c", "valueInHub": "1"}]] * 2, id="escaped"
        ),
        pytest.param({"spec": {"n": 1}}, {"spec": {"n": 1.0}}, [], [], id="numbers"),
        pytest.param(
            {"spec": {"n": 1}},
            {"spec": {"n": True}},
            *[[{"path": "/spec/n", "valueInMember": "true", "valueInHub": "1"}]] * 2,
            id="bool-is-no-number",
        ),
        pytest.param(
            {"spec": {"l": [1, 2]}},
            {"spec": {"l": [1]}},
            *[[{"path": "/spec/l/1", "valueInHub": "2"}]] * 2,
            id="longer-list",
        ),
    ],
)
async def test_differences(member, manifest, live, partial, full):
    assert list((await compared(member, manifest, live, full=False)).details) == partial
    assert list(differences(CONFIG_MAP, manifest, live)) == full


async def test_what_would_be_invalid_is_compared_itself(member):
    member.refusal = InvalidObjectError("data: field is immutable")
    found = await compared(member, {"data": {"a": "1"}}, {"data": {"a": "2", "b": "3"}}, full=False)
    assert found.degraded
    assert [detail["path"] for detail in found.details] == ["/data/a", "/data/b"]


async def test_a_member_that_does_not_say_is_an_error(member):
    member.refusal = UnavailableError("gone")
    with pytest.raises(UnavailableError):
        await compared(member, {}, {}, full=False)


def test_what_is_nested_too_deeply_is_said_so():
    deep = {}
    for _ in range(5000):
        deep = {"d": deep}
    for wanted, live in (({"data": deep}, {}), ({"spec": deep}, {"spec": deep})):
        with pytest.raises(NotComparableError, match="nested too deeply"):
            differences(CONFIG_MAP, wanted, {"metadata": {}, **live})


def test_what_the_system_writes_is_not_compared():
    live = {
        "metadata": {
            "name": "x",
            "uid": "u",
            "generation": 3,
            "finalizers": ["a/b"],
            "ownerReferences": [{}],
            "labels": {"kubernetes-fleet.io/x": "y", "app.kubernetes.io/name": "y"},
            "annotations": {"kubernetes-fleet.io/spec-hash": "h", "note": "n"},
        },
        "spec": {"template": {"metadata": {"creationTimestamp": None}}},
        "status": {"a": 1},
    }
    manifest = {"metadata": {"name": "x", "annotations": {"note": "n"}}, "spec": {"template": {"metadata": {}}}}
    assert differences(CONFIG_MAP, manifest, live) == ()


def test_secrets_are_not_shown():
    metadata = {"annotations": {"kapp.k14s.io/original": "Zm9v"}, "labels": {"b": "Zm9v"}}
    live = {"data": {"a": "Zm9v"}, "odd": {"c": "Zm9v"}, "metadata": metadata, "type": "x"}
    found = differences(KINDS["", "Secret"], {"data": {"a": "cGFzcw=="}}, live)
    assert found == (
        {"path": "/data/a", "valueInMember": REDACTED, "valueInHub": REDACTED},
        {"path": "/metadata/annotations", "valueInMember": REDACTED},
        {"path": "/metadata/labels", "valueInMember": REDACTED},
        {"path": "/odd", "valueInMember": REDACTED},
        {"path": "/type", "valueInMember": "x"},
    )


def test_at_most_a_hundred_are_listed():
    many = {"data": {str(n): "x" for n in range(200)}}
    assert len(differences(CONFIG_MAP, many, {})) == 1
    assert len(differences(CONFIG_MAP, many, {"data": {"y": "z"}})) == 100
