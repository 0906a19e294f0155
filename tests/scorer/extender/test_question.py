"""Reading what kube-scheduler sends: as Go does, and strictly (serving.md 2.1, 2.5)."""

import pytest

from scorer.extender.pod import ExtenderTaint, PlacementName, read_pod
from scorer.extender.question import read_args, read_preemption
from scorer.extender.reading import MalformedArgsError
from tests.scorer.extender_builders import LABELS, node, pod


@pytest.mark.parametrize(
    "document",
    [
        pytest.param({"Pod": pod(), "NodeNames": ["a"]}, id="as-written-by-the-scheduler"),
        pytest.param({"pod": pod(), "nodenames": ["a"]}, id="lower-case"),
        pytest.param({"POD": pod(), "nodeNames": ["a"]}, id="any-case"),
        pytest.param({"nodenames": ["z"], "NodeNames": ["a"], "pod": None, "Pod": pod()}, id="the-exact-name-first"),
        pytest.param({"Pod": pod(), "NodeNames": ["a"], "Unknown": 1}, id="unknown-members"),
    ],
)
def test_member_names_are_found_exactly_then_in_any_case(document):
    args = read_args(document, LABELS)
    assert args.pod is not None
    assert args.candidates == ("a",)


@pytest.mark.parametrize(
    ("document", "message"),
    [
        pytest.param({"Pod": "web"}, "Pod must be an object, not 'web'", id="pod-text"),
        pytest.param({"Pod": [1]}, "Pod must be an object, not a list", id="pod-list"),
        pytest.param({"NodeNames": "a"}, "NodeNames must be a list, not 'a'", id="names-text"),
        pytest.param({"NodeNames": {"a": 1}}, "NodeNames must be a list, not an object", id="names-object"),
        pytest.param({"NodeNames": ["a", 5]}, "NodeNames[1] must be a string, not 5", id="number-inside"),
        pytest.param({"NodeNames": [True]}, "NodeNames[0] must be a string, not true", id="bool-inside"),
        pytest.param({"NodeNames": [None]}, "NodeNames[0] must be a string, not null", id="null-inside"),
        pytest.param({"Nodes": []}, "Nodes must be an object, not a list", id="nodes-list"),
        pytest.param({"Nodes": {"items": {}}}, "Nodes.items must be a list, not an object", id="items-object"),
        pytest.param({"Nodes": {"items": [None]}}, "Nodes.items[0] must be an object, not null", id="item-null"),
        pytest.param(
            {"Nodes": {"items": [{"metadata": {"name": 1}}]}},
            "Nodes.items[0].metadata.name must be a string, not 1",
            id="node-name",
        ),
        pytest.param(
            {"Nodes": {"items": [{"metadata": {"labels": {"a": 1.5}}}]}},
            "Nodes.items[0].metadata.labels[a] must be a string, not 1.5",
            id="node-label",
        ),
        pytest.param(
            {"Nodes": {"items": [node("a", pool="p", taints=["x"])]}},
            "Nodes.items[0].spec.taints[0] must be an object, not 'x'",
            id="node-taint",
        ),
        pytest.param({"Pod": {"metadata": "x"}}, "Pod.metadata must be an object, not 'x'", id="metadata"),
        pytest.param(
            {"Pod": {"metadata": {"annotations": {"a": False}}}},
            "Pod.metadata.annotations[a] must be a string, not false",
            id="annotation",
        ),
        pytest.param(
            {"Pod": pod(tolerations=[{"key": 1}])}, "Pod.spec.tolerations[0].key must be a string, not 1", id="key"
        ),
        pytest.param(
            {"Pod": pod(tolerations=[[]])}, "Pod.spec.tolerations[0] must be an object, not a list", id="toleration"
        ),
    ],
)
def test_wrong_types_are_named(document, message):
    with pytest.raises(MalformedArgsError) as error:
        read_args(document, LABELS)
    assert str(error.value) == message


@pytest.mark.parametrize(
    ("given", "message"),
    [
        pytest.param({"NodeNameToMetaVictims": []}, "NodeNameToMetaVictims must be an object", id="map"),
        pytest.param({"NodeNameToMetaVictims": {"n": 1}}, "NodeNameToMetaVictims[n] must be an object", id="victims"),
        pytest.param({"NodeNameToMetaVictims": {"n": {"Pods": {}}}}, "[n].Pods must be a list", id="pods"),
        pytest.param({"NodeNameToMetaVictims": {"n": {"Pods": ["u"]}}}, "[n].Pods[0] must be an object", id="pod"),
        pytest.param({"NodeNameToMetaVictims": {"n": {"Pods": [{"UID": 1}]}}}, "[n].Pods[0].UID must be", id="uid"),
        pytest.param({"NodeNameToMetaVictims": {"n": {"NumPDBViolations": 1.0}}}, "an integer of 64 bits", id="float"),
        pytest.param({"NodeNameToMetaVictims": {"n": {"NumPDBViolations": True}}}, "an integer of 64 bits", id="bool"),
        pytest.param({"NodeNameToMetaVictims": {"n": {"NumPDBViolations": "1"}}}, "an integer of 64 bits", id="text"),
        pytest.param({"NodeNameToMetaVictims": {"n": {"NumPDBViolations": 2**63}}}, "64 bits", id="too-large"),
        pytest.param({"NodeNameToVictims": {"n": {"Pods": [{"metadata": 1}]}}}, "Pods[0].metadata", id="whole-pod"),
    ],
)
def test_wrong_types_of_victims_are_named(given, message):
    with pytest.raises(MalformedArgsError) as error:
        read_preemption({"Pod": pod(), **given})
    assert message in str(error.value)


def test_null_counts_as_absent_everywhere():
    args = read_args({"Pod": {"metadata": None, "spec": {"tolerations": None}}, "Nodes": {"items": None}}, LABELS)
    assert args.candidates == ()
    assert read_args({"Pod": None, "Nodes": None, "NodeNames": None}, LABELS).candidates is None
    meta = {"n": None, "m": {"Pods": None, "NumPDBViolations": None}}
    victims = read_preemption({"NodeNameToMetaVictims": meta}).victims
    assert [(name, list(found.uids), found.violations) for name, found in victims.items()] == [
        ("n", [], 0),
        ("m", [], 0),
    ]


def test_of_two_candidates_of_one_name_the_first_counts():
    first, again = node("a", "one"), node("a", "two")
    args = read_args({"Nodes": {"items": [first, node("b"), again]}}, LABELS)
    assert args.candidates == ("a", "b")
    assert args.documents["a"] is first
    assert read_args({"NodeNames": ["b", "a", "b"]}, LABELS).candidates == ("b", "a")


@pytest.mark.parametrize(
    ("text", "name"),
    [
        pytest.param("crp", PlacementName("", "crp"), id="cluster-scoped"),
        pytest.param("shop/rp", PlacementName("shop", "rp"), id="of-its-namespace"),
        pytest.param("other/rp", None, id="of-another-namespace"),
        pytest.param("/rp", None, id="of-no-namespace"),
        pytest.param("shop/a/b", PlacementName("shop", "a/b"), id="a-name-nobody-can-have"),
    ],
)
def test_the_placement_that_a_pod_follows(text, name):
    assert read_pod(pod(text), "Pod").follows == name


@pytest.mark.parametrize(
    ("toleration", "tolerated"),
    [
        pytest.param({"key": "gpu", "operator": "Equal", "value": "a100", "effect": "NoSchedule"}, True, id="equal"),
        pytest.param({"key": "gpu", "value": "a100"}, True, id="equal-is-the-default"),
        pytest.param({"key": "gpu", "operator": "Equal", "value": "h100"}, False, id="other-value"),
        pytest.param({"key": "gpu", "operator": "Exists"}, True, id="exists"),
        pytest.param({"operator": "Exists"}, True, id="exists-without-a-key-tolerates-everything"),
        pytest.param({"key": "cpu", "operator": "Exists"}, False, id="other-key"),
        pytest.param({"key": "gpu", "operator": "Exists", "effect": "NoExecute"}, False, id="other-effect"),
        pytest.param({"key": "gpu", "operator": "Like", "value": "a100"}, False, id="no-such-operator"),
        pytest.param({"key": "gpu", "operator": None, "value": "a100", "effect": None}, True, id="nulls"),
    ],
)
def test_tolerations_of_pods_are_those_of_kubernetes(toleration, tolerated):
    found = read_pod(pod(tolerations=[toleration]), "Pod")
    assert found.tolerates(ExtenderTaint("gpu", "a100", "NoSchedule")) is tolerated
