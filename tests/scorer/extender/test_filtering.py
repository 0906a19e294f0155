"""``filter``: what keeps a pod from a node, in which order, and in which map (serving.md 2.4, 2.5)."""

from datetime import timedelta

import pytest

from tests.scorer.builders import (
    AVAILABLE_CPU,
    MINUTE,
    TICK,
    TOTAL_CPU,
    has,
    make_cluster,
    pick_fixed,
    pick_n,
    policy,
    term,
)
from tests.scorer.extender_builders import Hub, node, placement, pod

FAILED, UNRESOLVABLE = "FailedNodes", "FailedAndUnresolvableNodes"
PASSES = ("", "")
FIVE = timedelta(minutes=5)


def refused(message: str) -> tuple[str, str]:
    return UNRESOLVABLE, message


NOT_CONNECTED = refused("member cluster is not connected")
NOT_SELECTED = refused("member cluster not selected by placement")
NO_CAPACITY = (FAILED, "member cluster lacks available capacity")
TAINTED = refused("member cluster has an untolerated taint")


@pytest.mark.parametrize(
    ("facts", "expected"),
    [
        pytest.param({}, PASSES, id="well"),
        pytest.param({"leaving": True}, refused("member cluster is leaving the fleet"), id="leaving"),
        pytest.param(
            {"leaving": True, "agents": []}, refused("member cluster is leaving the fleet"), id="leaving-and-silent"
        ),
        pytest.param({"agents": []}, NOT_CONNECTED, id="no-agent"),
        pytest.param({"heartbeat": None}, NOT_CONNECTED, id="no-heartbeat"),
        pytest.param({"heartbeat": FIVE}, PASSES, id="heartbeat-of-exactly-five-minutes"),
        pytest.param({"heartbeat": FIVE + TICK}, NOT_CONNECTED, id="heartbeat-too-old"),
        pytest.param({"heartbeat": -MINUTE}, PASSES, id="heartbeat-from-the-future"),
        pytest.param({"joined": "False"}, NOT_CONNECTED, id="not-joined"),
        pytest.param({"joined": None}, NOT_CONNECTED, id="joined-unknown"),
        pytest.param({"healthy": None}, NOT_CONNECTED, id="health-unknown"),
        pytest.param({"healthy": "False", "health_since": FIVE}, PASSES, id="ill-for-five-minutes"),
        pytest.param({"healthy": "False", "health_since": FIVE + TICK}, NOT_CONNECTED, id="ill-for-longer"),
        pytest.param({"taints": [("gpu", "")]}, TAINTED, id="tainted"),
    ],
)
def test_the_state_of_a_member_decides_first(facts, expected):
    hub = Hub([make_cluster("oslo", **facts)], [node("n", "oslo")])
    assert hub.obstacle(pod(), "n") == expected


def test_each_check_comes_before_the_next():
    """Everything is wrong at once; what is put right uncovers the next obstacle."""
    facts = {"leaving": True, "heartbeat": None, "taints": [("gpu", "")], "available": {"cpu": "1"}}
    nodes = [node("n", "oslo", deleting=True), node("m", "oslo")]
    lacking = policy(required=[term(properties=[has(AVAILABLE_CPU, "Ge", "2")])])
    asked = pod("p")

    def hub(**more):
        there = {"updating": ["oslo"], **more}
        return Hub([make_cluster("oslo", **facts)], nodes, **there)

    assert hub().obstacle(asked, "n") == refused("node is being removed")
    assert hub().obstacle(asked, "m") == refused("member cluster is leaving the fleet")
    del facts["leaving"]
    assert hub().obstacle(asked, "m") == NOT_CONNECTED
    del facts["heartbeat"]
    assert hub().obstacle(asked, "m") == refused("member cluster is being upgraded")
    assert hub(updating=[]).obstacle(asked, "m") == refused("placement not found")
    assert hub(filter_updating=False).obstacle(asked, "m") == refused("placement not found")
    placed = {"updating": [], "placements": [placement("p", lacking)]}
    assert hub(**placed).obstacle(asked, "m") == TAINTED
    del facts["taints"]
    assert hub(**placed).obstacle(asked, "m") == NO_CAPACITY
    facts["available"] = {"cpu": "2"}
    assert hub(**placed).obstacle(asked, "m") == PASSES


@pytest.mark.parametrize(
    ("labels", "expected"),
    [
        pytest.param({"harbormaster.dev/member-cluster": "oslo"}, PASSES, id="by-name"),
        pytest.param({"liqo.io/remote-cluster-id": "oslo"}, PASSES, id="by-another-label"),
        pytest.param({"liqo.io/remote-cluster-id": "liqo-7"}, PASSES, id="by-alias"),
        pytest.param({"harbormaster.dev/member-cluster": "nowhere"}, refused("member cluster not found"), id="unknown"),
        pytest.param(
            {"harbormaster.dev/member-cluster": "nowhere", "liqo.io/remote-cluster-id": "oslo"},
            refused("member cluster not found"),
            id="the-first-label-decides",
        ),
        pytest.param(
            {"harbormaster.dev/member-cluster": "", "liqo.io/remote-cluster-id": "oslo"}, PASSES, id="empty-is-none"
        ),
        pytest.param({"harbormaster.dev/member-cluster": "oslo", "karpenter.sh/nodepool": "gone"}, PASSES, id="both"),
        pytest.param({"karpenter.sh/nodepool": "gone"}, refused("node pool is being deleted"), id="pool"),
        pytest.param({"other": "label"}, PASSES, id="nobody's"),
    ],
)
def test_what_a_node_stands_for(labels, expected):
    hub = Hub([make_cluster("oslo")], [node("n", labels=labels)], aliases={"liqo-7": "oslo"}, leaving_pools=["gone"])
    assert hub.obstacle(pod(), "n") == expected


EAST, WEST = make_cluster("east", labels={"region": "east"}), make_cluster("west", labels={"region": "west"})
BOTH = [node("e", "east"), node("w", "west")]


@pytest.mark.parametrize(
    ("wanted", "east", "west"),
    [
        pytest.param(None, PASSES, PASSES, id="no-policy"),
        pytest.param(policy(required=[term({"region": "east"})]), PASSES, NOT_SELECTED, id="required-affinity"),
        pytest.param(pick_n(1), PASSES, PASSES, id="the-number-does-not-matter"),
        pytest.param(pick_n(0), PASSES, PASSES, id="not-even-none"),
        pytest.param(pick_fixed("west", "nowhere"), NOT_SELECTED, PASSES, id="fixed"),
        pytest.param(pick_fixed(), NOT_SELECTED, NOT_SELECTED, id="nowhere"),
        pytest.param({"placementType": "PickN"}, NOT_SELECTED, NOT_SELECTED, id="no-number"),
        pytest.param({"placementType": "Some"}, NOT_SELECTED, NOT_SELECTED, id="no-such-type"),
        pytest.param("PickAll", NOT_SELECTED, NOT_SELECTED, id="not-even-an-object"),
        pytest.param(
            policy(required=[term(properties=[has("a", "Like", "1")])]), NOT_SELECTED, NOT_SELECTED, id="no-operator"
        ),
    ],
)
def test_the_policy_of_the_placement_is_evaluated_as_it_is_now(wanted, east, west):
    hub = Hub([EAST, WEST], BOTH, placements=[placement("p", wanted)])
    assert (hub.obstacle(pod("p"), "e"), hub.obstacle(pod("p"), "w")) == (east, west)


@pytest.mark.parametrize(
    ("terms", "expected"),
    [
        pytest.param([term(properties=[has(AVAILABLE_CPU, "Ge", "20")])], NO_CAPACITY, id="too-little"),
        pytest.param([term(properties=[has(AVAILABLE_CPU, "Le", "20")])], PASSES, id="enough"),
        pytest.param(
            [term(properties=[has("resources.kubernetes-fleet.io/available-gpu", "Ge", "1")])], NO_CAPACITY, id="absent"
        ),
        pytest.param([term(properties=[has(TOTAL_CPU, "Ge", "500")])], NOT_SELECTED, id="total-cannot-be-freed"),
        pytest.param(
            [term({"region": "west"}, properties=[has(AVAILABLE_CPU, "Ge", "20")])], NOT_SELECTED, id="label-fails-too"
        ),
        pytest.param(
            [term(properties=[has(AVAILABLE_CPU, "Ge", "20"), has(TOTAL_CPU, "Ge", "500")])],
            NOT_SELECTED,
            id="total-fails-too",
        ),
        pytest.param(
            [term({"region": "west"}), term(properties=[has(AVAILABLE_CPU, "Ge", "20")])],
            NO_CAPACITY,
            id="one-of-several-terms",
        ),
        pytest.param(
            [term({"region": "east"}), term(properties=[has(AVAILABLE_CPU, "Ge", "20")])], PASSES, id="another-term"
        ),
    ],
)
def test_lacking_capacity_is_told_from_what_no_eviction_cures(terms, expected):
    facts = {"labels": {"region": "east"}, "available": {"cpu": "10"}, "capacity": {"cpu": "200"}}
    hub = Hub([make_cluster("east", **facts)], BOTH, placements=[placement("p", policy(required=terms))])
    assert hub.obstacle(pod("p"), "e") == expected


@pytest.mark.parametrize(
    ("wanted", "tolerations", "expected"),
    [
        pytest.param(policy(), [], TAINTED, id="nobody-tolerates-it"),
        pytest.param(policy(tolerations=[{"key": "gpu", "operator": "Exists"}]), [], PASSES, id="the-placement-does"),
        pytest.param(policy(), [{"operator": "Exists"}], TAINTED, id="the-pod's-do-not-count-with-a-placement"),
        pytest.param(pick_fixed("east"), [], PASSES, id="fixed-does-not-care"),
        pytest.param(None, [], TAINTED, id="no-policy-tolerates-nothing"),
        pytest.param(
            {"placementType": "PickN", "tolerations": [{"key": "gpu", "operator": "Exists"}, 5]},
            [],
            NOT_SELECTED,
            id="tolerations-of-an-unusable-policy",
        ),
        pytest.param({"placementType": "PickN"}, [], TAINTED, id="taints-come-before-an-unusable-policy"),
    ],
)
def test_the_placement_s_tolerations_count_where_there_is_one(wanted, tolerations, expected):
    hub = Hub([make_cluster("east", taints=[("gpu", "a100")])], BOTH, placements=[placement("p", wanted)])
    assert hub.obstacle(pod("p", tolerations=tolerations), "e") == expected


def test_without_a_placement_the_pod_s_tolerations_count():
    hub = Hub([make_cluster("east", taints=[("gpu", "a100"), ("spot", "")])], BOTH)
    assert hub.obstacle(pod(tolerations=[{"key": "gpu", "value": "a100"}]), "e") == TAINTED
    assert hub.obstacle(pod(tolerations=[{"operator": "Exists"}]), "e") == PASSES


@pytest.mark.parametrize("annotation", ["missing", "shop/missing", "other/rp", "/rp", "shop/crp", "rp"])
def test_a_placement_that_cannot_be_followed(annotation):
    there = [placement("crp"), placement("rp", namespace="shop"), placement("rp", namespace="other")]
    hub = Hub([EAST], BOTH, placements=there)
    assert hub.obstacle(pod(annotation), "e") == refused("placement not found")
    assert hub.obstacle(pod("shop/rp"), "e") == hub.obstacle(pod("crp"), "e") == PASSES


def test_an_empty_annotation_names_no_placement():
    assert Hub([EAST], BOTH).obstacle(pod(""), "e") == PASSES


@pytest.mark.parametrize(
    ("facts", "expected"),
    [
        pytest.param({"collects": "True", "namespaces": ["shop"]}, PASSES, id="there"),
        pytest.param({"collects": "True", "namespaces": []}, NOT_SELECTED, id="not-there"),
        pytest.param({"collects": "True"}, NOT_SELECTED, id="no-list"),
        pytest.param({"namespaces": []}, PASSES, id="not-collected"),
    ],
)
def test_a_resource_placement_needs_its_namespace(facts, expected):
    there = [placement("rp", namespace="shop"), placement("crp")]
    hub = Hub([make_cluster("east", **facts)], BOTH, placements=there)
    assert hub.obstacle(pod("shop/rp"), "e") == expected
    assert hub.obstacle(pod("crp"), "e") == PASSES


@pytest.mark.parametrize(
    "wanted", [policy(required=[term({"region": "west"})]), pick_fixed("west"), {"placementType": "X"}]
)
def test_by_decisions_only_what_has_been_selected_counts(wanted):
    """Whatever the policy would say today: what has been placed stays, and the pod needs what was placed."""
    hub = Hub([EAST, WEST], BOTH, placements=[placement("p", wanted)], selected={"p": ["east"]})
    asked = pod("p", mode="Decisions")
    assert (hub.obstacle(asked, "e"), hub.obstacle(asked, "w")) == (PASSES, NOT_SELECTED)


def test_decisions_of_a_resource_placement_are_its_own():
    there = [placement("p", namespace="shop"), placement("p")]
    hub = Hub([EAST, WEST], BOTH, placements=there, selected={"shop/p": ["east"], "p": ["west"]})
    assert hub.obstacle(pod("shop/p", mode="Decisions"), "w") == NOT_SELECTED
    assert hub.obstacle(pod("p", mode="Decisions"), "e") == NOT_SELECTED
    assert hub.obstacle(pod("p", mode="Decisions"), "w") == PASSES


def test_an_unknown_mode_is_the_default_one():
    hub = Hub([EAST], BOTH, placements=[placement("p")])
    assert hub.obstacle(pod("p", mode="decisions"), "e") == PASSES


DISRUPTED = {"key": "karpenter.sh/disrupted", "effect": "NoSchedule"}


@pytest.mark.parametrize(
    ("taints", "tolerations", "expected"),
    [
        pytest.param([], [], PASSES, id="calm"),
        pytest.param([DISRUPTED], [], refused("node is being disrupted"), id="disrupted"),
        pytest.param([{"key": "gpu", "effect": "NoSchedule"}], [], PASSES, id="other-taints-are-for-others"),
        pytest.param([DISRUPTED], [{"operator": "Exists"}], PASSES, id="everything-tolerated"),
        pytest.param([DISRUPTED], [{"key": DISRUPTED["key"], "operator": "Exists"}], PASSES, id="tolerated"),
        pytest.param([DISRUPTED], [{"key": DISRUPTED["key"]}], PASSES, id="equal-and-both-empty"),
        pytest.param(
            [DISRUPTED],
            [{"key": DISRUPTED["key"], "operator": "Exists", "effect": "NoExecute"}],
            refused("node is being disrupted"),
            id="other-effect",
        ),
    ],
)
def test_nodes_of_a_pool_that_are_about_to_go(taints, tolerations, expected):
    hub = Hub(nodes=[node("n", pool="spot", taints=taints)], leaving_pools=["other"])
    assert hub.obstacle(pod(tolerations=tolerations), "n") == expected


def test_the_pool_of_a_node_is_being_deleted():
    nodes = [node("n", pool="old"), node("m", pool="old", taints=[DISRUPTED]), node("o", pool="")]
    hub = Hub(nodes=nodes, leaving_pools=["old"])
    assert hub.obstacle(pod(), "n") == refused("node pool is being deleted")
    assert hub.obstacle(pod(), "m") == refused("node is being disrupted")
    assert hub.obstacle(pod(), "o") == PASSES


def test_a_pool_s_node_asks_no_placement():
    assert Hub(nodes=[node("n", pool="spot")]).obstacle(pod("missing"), "n") == PASSES


@pytest.mark.parametrize(
    ("asked", "settings", "expected"),
    [
        pytest.param(pod("far"), {}, refused("node is not part of a member cluster"), id="names-a-placement"),
        pytest.param(pod("missing"), {}, refused("node is not part of a member cluster"), id="which-does-not-exist"),
        pytest.param(pod("far"), {"reject_ordinary": False}, PASSES, id="where-that-is-allowed"),
        pytest.param(pod(), {}, PASSES, id="names-none"),
    ],
)
def test_a_pod_that_names_a_placement_goes_to_no_ordinary_node(asked, settings, expected):
    """Neither to one that is known, nor to one that came with the question, nor to one that nobody knows."""
    hub = Hub(
        [make_cluster("oslo")], [node("plain"), node("n", "oslo")], placements=[placement("far", policy())], **settings
    )
    assert hub.obstacle(asked, "plain") == expected
    assert hub.obstacle(asked, "ghost") == expected
    sent = hub.filter(asked, Nodes={"items": [node("sent")]})
    assert sent["FailedAndUnresolvableNodes"] == (
        {} if expected == PASSES else {"sent": f"harbormaster: {expected[1]}"}
    )


def test_an_unknown_node_is_refused_as_such_only_to_pods_that_name_no_placement():
    hub = Hub(reject_unknown=True)
    assert hub.obstacle(pod("missing"), "ghost") == refused("node is not part of a member cluster")
    assert Hub(reject_unknown=True, reject_ordinary=False).obstacle(pod("missing"), "ghost") == (
        FAILED,
        "node not known yet",
    )


def test_unknown_nodes_pass_unless_the_settings_say_otherwise():
    assert Hub().obstacle(pod(), "ghost") == PASSES
    assert Hub(reject_unknown=True).obstacle(pod(), "ghost") == (FAILED, "node not known yet")
    known = Hub(nodes=[node("n")], reject_unknown=True)
    assert known.obstacle(pod(), "n") == PASSES
    sent = known.filter(pod(), Nodes={"items": [node("sent"), node("n")]})
    assert [item["metadata"]["name"] for item in sent["Nodes"]["items"]] == ["n"]
    assert sent["FailedNodes"] == {"sent": "harbormaster: node not known yet"}


def test_the_answer_has_the_form_of_the_question():
    hub = Hub([EAST, WEST], BOTH, updating=["west"])
    empty = {"FailedNodes": {}, "FailedAndUnresolvableNodes": {}, "Error": ""}
    held_up = {"w": "harbormaster: member cluster is being upgraded"}
    by_name = hub.filter(pod(), "w", "e", "w", "x")
    assert by_name == empty | {"Nodes": None, "NodeNames": ["e", "x"], "FailedAndUnresolvableNodes": held_up}
    e, w = node("e", "east"), node("w", "west")
    by_object = hub.filter(pod(), Nodes={"metadata": {}, "items": [w, e, e]})
    assert by_object == empty | {
        "Nodes": {"metadata": {}, "items": [e]},
        "NodeNames": None,
        "FailedAndUnresolvableNodes": held_up,
    }
    assert by_object["Nodes"]["items"][0] is e
    both = hub.filter(pod(), "e", Nodes={"items": [w]})
    assert both == empty | {"Nodes": None, "NodeNames": ["e"]}
    assert hub.filter(pod(), NodeNames=[]) == empty | {"Nodes": None, "NodeNames": []}
    assert hub.filter(pod(), Nodes={}) == empty | {"Nodes": {"metadata": {}, "items": []}, "NodeNames": None}


def test_the_object_in_the_question_outranks_the_known_one():
    hub = Hub([EAST], [node("n", "nowhere")])
    assert hub.obstacle(pod(), "n") == refused("member cluster not found")
    assert hub.filter(pod(), "n", Nodes={"items": [node("n", "east")]})["NodeNames"] == ["n"]


@pytest.mark.parametrize("parts", [{}, {"Pod": None, "NodeNames": ["n"]}, {"Pod": pod(), "Nodes": None}])
def test_an_incomplete_question_is_answered_with_an_error(parts):
    answer = Hub().filter(parts.pop("Pod", None), **parts)
    assert answer.pop("Error").startswith("extender: ")
    assert answer == {"Nodes": None, "NodeNames": [], "FailedNodes": {}, "FailedAndUnresolvableNodes": {}}
