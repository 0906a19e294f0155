"""Differences between a manifest and the object on the member."""

import pytest

from scorer.api.kinds import KINDS
from webhook.member.comparison import REDACTED, differences

CONFIG_MAP = KINDS["", "ConfigMap"]


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
def test_differences(manifest, live, partial, full):
    assert list(differences(CONFIG_MAP, manifest, live, full=False)) == partial
    assert list(differences(CONFIG_MAP, manifest, live, full=True)) == full


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
    assert differences(CONFIG_MAP, manifest, live, full=True) == ()


def test_secrets_are_not_shown():
    found = differences(
        KINDS["", "Secret"], {"data": {"a": "cGFzcw=="}}, {"data": {"a": "Zm9v"}, "type": "x"}, full=True
    )
    assert found == (
        {"path": "/data/a", "valueInMember": REDACTED, "valueInHub": REDACTED},
        {"path": "/type", "valueInMember": "x"},
    )


def test_at_most_a_hundred_are_listed():
    assert len(differences(CONFIG_MAP, {"data": {str(n): "x" for n in range(200)}}, {}, full=True)) == 1
    assert (
        len(differences(CONFIG_MAP, {"data": {str(n): "x" for n in range(200)}}, {"data": {"y": "z"}}, full=True))
        == 100
    )
