"""From manifests to objects that can be applied."""

import pytest

from scorer.api.kinds import KINDS, Kind
from scorer.rollout.works.status import ManifestReason
from webhook.member.objects.manifests import (
    Manifest,
    ManifestKinds,
    RejectedManifest,
    applicable,
    decode,
    kinds_of,
    manifest_hash,
)

KNOWN = ManifestKinds(KINDS)


def config_map(name="c", namespace="app", **metadata):
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": namespace, **metadata}}


@pytest.mark.parametrize(
    ("document", "reason", "words"),
    [
        pytest.param("text", ManifestReason.DECODING_ERRED, "not an object", id="no-object"),
        pytest.param({}, ManifestReason.DECODING_ERRED, "apiVersion", id="empty"),
        pytest.param(
            {"apiVersion": 1, "kind": "ConfigMap"}, ManifestReason.DECODING_ERRED, "apiVersion is 1", id="type"
        ),
        pytest.param({"apiVersion": "v1"}, ManifestReason.DECODING_ERRED, "kind is None", id="no-kind"),
        pytest.param(
            {"apiVersion": "example.com/v1", "kind": "Thing", "metadata": {"name": "x"}},
            ManifestReason.DECODING_ERRED,
            "does not serve kind Thing example.com/v1",
            id="unknown-kind",
        ),
        pytest.param(
            {"apiVersion": "apps/v1beta1", "kind": "Deployment", "metadata": {"name": "x", "namespace": "n"}},
            ManifestReason.DECODING_ERRED,
            "does not serve version v1beta1 of Deployment.apps, only v1",
            id="version-not-served",
        ),
        pytest.param(
            {"apiVersion": "v1", "kind": "ConfigMap", "metadata": "x"},
            ManifestReason.DECODING_ERRED,
            "metadata.name",
            id="metadata-no-object",
        ),
        pytest.param(
            {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "x"}},
            ManifestReason.DECODING_ERRED,
            "metadata.namespace must be set",
            id="no-namespace",
        ),
        pytest.param(
            config_map(annotations=["x"]),
            ManifestReason.DECODING_ERRED,
            "metadata.annotations is ['x']",
            id="annotations",
        ),
        pytest.param(
            config_map(annotations={"a": 1}),
            ManifestReason.DECODING_ERRED,
            "expected an object of strings",
            id="annotation",
        ),
        pytest.param(
            {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"generateName": "x-", "namespace": "n"}},
            ManifestReason.FOUND_GENERATE_NAME,
            "generateName",
            id="generate-name",
        ),
    ],
)
def test_what_cannot_be_applied_says_why(document, reason, words):
    (item,) = decode([document], KNOWN)
    assert isinstance(item, RejectedManifest)
    assert item.reason is reason
    assert words in item.message


def test_the_second_of_two_equal_objects_is_a_duplicate():
    hpa = {"kind": "HorizontalPodAutoscaler", "metadata": {"name": "h", "namespace": "app"}}
    manifests = [
        config_map(),
        config_map("other"),
        config_map(),
        {**hpa, "apiVersion": "autoscaling/v2"},
        {**hpa, "apiVersion": "autoscaling/v1"},
    ]
    decoded = decode(manifests, KNOWN)
    assert [type(item) for item in decoded] == [Manifest, Manifest, RejectedManifest, Manifest, RejectedManifest]
    assert [item.reason for item in decoded if isinstance(item, RejectedManifest)] == [ManifestReason.DUPLICATED] * 2
    assert "manifest 0" in decoded[2].message


def test_what_the_member_decides_is_left_out():
    document = {
        **config_map(
            uid="u",
            resourceVersion="7",
            generation=3,
            creationTimestamp="2026-01-01T00:00:00Z",
            managedFields=[{}],
            ownerReferences=[{"kind": "x"}],
            finalizers=["example.com/keep"],
            labels={"a": "b"},
            annotations={"kubernetes-fleet.io/spec-hash": "old", "note": "kept"},
        ),
        "data": {"k": "v"},
        "status": {"x": 1},
    }
    assert applicable(document, KINDS["", "ConfigMap"]) == {
        **config_map(labels={"a": "b"}, annotations={"note": "kept"}),
        "data": {"k": "v"},
    }


def test_a_cluster_scoped_object_loses_its_namespace():
    document = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "n", "namespace": "x"}}
    (item,) = decode([document], KNOWN)
    assert isinstance(item, Manifest)
    assert item.key == ("n", "")
    assert item.document["metadata"] == {"name": "n"}


def test_the_hash_does_not_depend_on_the_order_of_members():
    assert manifest_hash({"a": 1, "b": [1, 2]}) == manifest_hash({"b": [1, 2], "a": 1})
    assert manifest_hash({"a": 1, "b": [1, 2]}) != manifest_hash({"a": 1, "b": [2, 1]})


def test_definitions_make_their_kinds_known():
    definition = {
        "spec": {
            "group": "example.com",
            "scope": "Namespaced",
            "names": {"kind": "Widget", "plural": "widgets"},
            "versions": [
                {"name": "v1alpha1", "served": False},
                {"name": "v1beta1", "served": True},
                {"name": "v1", "served": True, "storage": True, "subresources": {"status": {}}},
            ],
        }
    }
    kinds = kinds_of([definition, {"spec": {"versions": 3}}, {}])
    (kind,) = kinds.values()
    assert (kind.versions, kind.plural, kind.namespaced, kind.has_status) == (("v1", "v1beta1"), "widgets", True, True)


def test_a_definition_among_the_manifests_brings_its_kind_and_versions():
    widget = Kind("example.com", ("v1",), "Widget", "widgets", namespaced=False)
    newer = Kind("example.com", ("v2", "v1"), "Widget", "widgets", namespaced=False)
    known = ManifestKinds({widget.group_kind: widget}, {newer.group_kind: newer})
    manifests = [
        {"apiVersion": f"example.com/{version}", "kind": "Widget", "metadata": {"name": version}}
        for version in ("v1", "v2", "v3")
    ]
    first, second, third = decode(manifests, known)
    assert (first.version, known.serves(first.kind)) == ("v1", True)
    assert (second.version, known.serves(second.kind)) == ("v2", False)
    assert third.reason is ManifestReason.DECODING_ERRED


def test_requests_go_to_the_version_of_the_manifest():
    metadata = {"name": "h", "namespace": "n"}
    document = {"apiVersion": "autoscaling/v1", "kind": "HorizontalPodAutoscaler", "metadata": metadata}
    (item,) = decode([document], KNOWN)
    assert item.kind.api_version == "autoscaling/v1"
    assert item.kind.group_kind == ("autoscaling", "HorizontalPodAutoscaler")
