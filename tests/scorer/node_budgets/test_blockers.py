"""What keeps a node from being disrupted (nodepool-disruption.md 5.2 to 5.4)."""

from datetime import UTC, datetime

import pytest

from scorer.node_budgets.blockers import (
    BlockReason,
    DisruptionClass,
    NodePod,
    PodGuard,
    essential_pod,
    node_blockers,
    read_node_pod,
    read_pod_guard,
    template_blocker,
)
from scorer.node_budgets.nodes import PoolNode
from tests.scorer.node_pool_builders import guard, pod

NOON = datetime(2026, 6, 10, 12, tzinfo=UTC)
GRACEFUL, EVENTUAL = DisruptionClass.GRACEFUL, DisruptionClass.EVENTUAL
NODE = PoolNode("n", "general", "c")
PROTECT = "karpenter.sh/do-not-disrupt"
TOLERATION = {"key": "karpenter.sh/disrupted", "operator": "Exists"}
STATIC = {"ownerReferences": [{"apiVersion": "v1", "kind": "Node", "name": "n", "uid": "u"}]}
OF_A_DAEMON = {"ownerReferences": [{"apiVersion": "apps/v1", "kind": "DaemonSet", "name": "d", "uid": "u"}]}


def found(pods=(), guards=(), *, node=NODE, class_=GRACEFUL, now=NOON, unknown=""):
    """Return the blockers of documents; those of trimmed pods must be the same."""
    by_namespace: dict[str, list[PodGuard]] = {}
    for each in map(read_pod_guard, guards):
        by_namespace.setdefault(each.namespace, []).append(each)
    whole, trimmed = ([read_node_pod(shape(each)) for each in pods] for shape in (lambda same: same, essential_pod))
    assert whole == trimmed
    return node_blockers(node, class_, now, whole, by_namespace, pods_unknown=unknown)


def reasons(*args, **kwargs):
    return [blocker.reason for blocker in found(*args, **kwargs)]


@pytest.mark.parametrize(
    ("node", "reason"),
    [
        pytest.param(PoolNode("n", "p", ""), BlockReason.NO_CLAIM, id="no-claim"),
        pytest.param(PoolNode("n", "p", "c", rebooting=True, deleting=True), BlockReason.REBOOTING, id="rebooting"),
        pytest.param(PoolNode("n", "p", "c", deleting=True, initialized=False), BlockReason.DELETING, id="deleting"),
        pytest.param(PoolNode("n", "p", "c", instance_gone=True), BlockReason.DELETING, id="instance-gone"),
        pytest.param(PoolNode("n", "p", "c", initialized=False), BlockReason.NOT_INITIALIZED, id="not-initialized"),
    ],
)
@pytest.mark.parametrize("class_", DisruptionClass)
def test_a_node_that_is_going_or_coming_has_one_blocker(node, reason, class_):
    """The reference's order, steps 2 to 6; pods make no difference."""
    held = pod("a", annotations={PROTECT: "true"})
    assert reasons([held], node=node, class_=class_) == [reason]


@pytest.mark.parametrize("class_", DisruptionClass)
def test_a_protected_node_is_held_in_both_classes(class_):
    (blocker,) = found(node=PoolNode("n", "p", "c", do_not_disrupt=True, grace_bounded=True), class_=class_)
    assert (blocker.reason, blocker.source) == (BlockReason.DO_NOT_DISRUPT, "Node")
    assert PROTECT in blocker.message


def test_nothing_holds_a_node_without_pods():
    assert found() == ()
    assert found([pod("a")]) == ()


def test_the_template_is_named_as_the_source():
    blocker = template_blocker("pinned")
    assert (blocker.reason, blocker.source) == (BlockReason.DO_NOT_DISRUPT, "NodePoolTemplate")
    assert "NodePool pinned" in blocker.message


@pytest.mark.parametrize(
    ("text", "started", "until"),
    [
        pytest.param("true", "2026-06-10T11:00:00Z", None, id="for-ever"),
        pytest.param("4h", "2026-06-10T11:00:00Z", "2026-06-10T15:00:00+00:00", id="hours"),
        pytest.param("1h30m", "2026-06-10T11:00:00Z", "2026-06-10T12:30:00+00:00", id="sum"),
        pytest.param("1.5h", "2026-06-10T11:00:00Z", "2026-06-10T12:30:00+00:00", id="fraction"),
        pytest.param("+3600001ms", "2026-06-10T11:00:00Z", "2026-06-10T12:00:00.001000+00:00", id="a-moment-left"),
        pytest.param("4h", "2026-06-10T13:00:00+02:00", "2026-06-10T15:00:00+00:00", id="offset"),
        pytest.param("1ns", None, None, id="no-start-yet"),
        pytest.param("1h", "0001-01-01T00:00:00+14:00", None, id="a-start-before-all-time"),
        pytest.param("2562047h", "9990-01-01T00:00:00Z", None, id="an-end-after-all-time"),
    ],
)
def test_a_protected_pod_holds_its_node(text, started, until):
    (blocker,) = found([pod("a", annotations={PROTECT: text}, status={"startTime": started})])
    assert (blocker.reason, blocker.source) == (BlockReason.DO_NOT_DISRUPT, "Pod shop/a")
    assert blocker.until == (None if until is None else datetime.fromisoformat(until))
    assert "shop/a" in blocker.message


@pytest.mark.parametrize(
    "text",
    ["1h", "30m", "false", "True", "0", "0s", "-4h", "4", "4d", "h", "", " 4h", "4h ", "9999999999h", "4h\n", "٤h"],
)
def test_what_is_over_or_makes_no_sense_protects_nothing(text):
    """One hour after eleven is noon, and the end is excluded."""
    assert found([pod("a", annotations={PROTECT: text})]) == ()


@pytest.mark.parametrize(
    ("over", "held"),
    [
        pytest.param({"status": {"phase": "Succeeded"}}, False, id="succeeded"),
        pytest.param({"status": {"phase": "Failed"}}, False, id="failed"),
        pytest.param({"metadata": {"deletionTimestamp": "2026-06-10T12:00:10Z"}}, False, id="terminating"),
        pytest.param({"metadata": OF_A_DAEMON}, True, id="daemon"),
        pytest.param({"metadata": STATIC}, True, id="mirror"),
        pytest.param({"spec": {"tolerations": [TOLERATION]}}, True, id="tolerates"),
    ],
)
def test_every_active_pod_may_be_protected(over, held):
    assert bool(found([pod("a", annotations={PROTECT: "true"}, **over)])) is held


@pytest.mark.parametrize(
    ("over", "held"),
    [
        pytest.param({}, True, id="plain"),
        pytest.param({"status": {"phase": "Pending"}}, True, id="pending"),
        pytest.param({"status": {"phase": "Succeeded"}}, False, id="succeeded"),
        pytest.param({"metadata": {"deletionTimestamp": "2026-06-10T12:00:10Z"}}, False, id="terminating"),
        pytest.param({"metadata": OF_A_DAEMON}, True, id="daemon"),
        pytest.param({"metadata": STATIC}, False, id="mirror"),
        pytest.param({"labels": {"app": "other"}}, False, id="not-selected"),
        pytest.param({"namespace": "other"}, False, id="other-namespace"),
        pytest.param({"annotations": {PROTECT: "1h"}}, True, id="protection-is-over"),
        pytest.param({"spec": {"tolerations": [TOLERATION]}}, False, id="tolerates"),
        pytest.param({"spec": {"tolerations": [{"operator": "Exists"}]}}, False, id="tolerates-everything"),
        pytest.param({"spec": {"tolerations": [{"key": "karpenter.sh/disrupted"}]}}, False, id="tolerates-the-key"),
        pytest.param(
            {"spec": {"tolerations": [{"key": "karpenter.sh/disrupted", "value": "x"}]}}, True, id="another-value"
        ),
        pytest.param({"spec": {"tolerations": [{**TOLERATION, "effect": "NoExecute"}]}}, True, id="another-effect"),
        pytest.param({"spec": {"tolerations": [{"key": "spot", "operator": "Exists"}]}}, True, id="another-key"),
    ],
)
def test_a_budget_without_room_holds_what_would_be_evicted(over, held):
    assert reasons([pod("a", **over)], [guard("web")]) == ([BlockReason.POD_DISRUPTION_BUDGET] if held else [])


def test_a_protected_pod_is_not_evicted_and_so_asks_no_budget():
    assert reasons([pod("a", annotations={PROTECT: "true"})], [guard("web")]) == [BlockReason.DO_NOT_DISRUPT]


@pytest.mark.parametrize(
    ("guards", "ready", "reason"),
    [
        pytest.param([guard("web", allowed=1)], "True", None, id="room"),
        pytest.param([guard("web", policy="AlwaysAllow")], "True", BlockReason.POD_DISRUPTION_BUDGET, id="ready-pod"),
        pytest.param([guard("web", policy="AlwaysAllow")], "False", None, id="unready-pod-may-always-go"),
        pytest.param([guard("web", policy="AlwaysAllow")], "Unknown", BlockReason.POD_DISRUPTION_BUDGET, id="unknown"),
        pytest.param([guard("web", policy="IfHealthyBudget")], "False", BlockReason.POD_DISRUPTION_BUDGET, id="policy"),
        pytest.param(
            [guard("a", allowed=1), guard("b", allowed=1)],
            "False",
            BlockReason.SEVERAL_POD_DISRUPTION_BUDGETS,
            id="two-with-room",
        ),
        pytest.param([guard("a", selector={})], "True", BlockReason.POD_DISRUPTION_BUDGET, id="empty-selector"),
        pytest.param(
            [guard("a", selector={"matchExpressions": [{"key": "app", "operator": "In", "values": ["web"]}]})],
            "True",
            BlockReason.POD_DISRUPTION_BUDGET,
            id="expression",
        ),
        pytest.param(
            [guard("a", selector={"matchExpressions": [{"key": "app", "operator": "DoesNotExist"}]})],
            "True",
            None,
            id="expression-does-not-hold",
        ),
        pytest.param(
            [guard("a", selector={"matchExpressions": [{"key": "app", "operator": "Like"}]})],
            "True",
            BlockReason.POD_DISRUPTION_BUDGET,
            id="unknown-operator-fails-closed",
        ),
        pytest.param(
            [guard("a", selector={"matchLabels": [1]})],
            "True",
            BlockReason.POD_DISRUPTION_BUDGET,
            id="unreadable-fails-closed",
        ),
    ],
)
def test_pod_disruption_budgets(guards, ready, reason):
    unready = {"conditions": [{"type": "Ready", "status": ready}]}
    assert reasons([pod("a", status=unready)], guards) == ([] if reason is None else [reason])


def test_a_budget_without_selector_guards_nothing():
    without = guard("a")
    del without["spec"]["selector"]
    assert found([pod("a")], [without]) == ()


def test_one_blocker_per_budget_names_its_pods():
    pods = [pod(f"web-{number}") for number in range(5)]
    (blocker,) = found(pods, [guard("web")])
    assert blocker.source == "PodDisruptionBudget shop/web"
    assert "shop/web-0, shop/web-1, shop/web-2 and 2 more" in blocker.message


def test_all_that_holds_is_told_in_order():
    pods = [pod("web"), pod("db", annotations={PROTECT: "4h"}), pod("job", annotations={PROTECT: "true"})]
    node = PoolNode("n", "p", "c", do_not_disrupt=True)
    assert [blocker.source for blocker in found(pods, [guard("web")], node=node)] == [
        "Node",
        "Pod shop/db",
        "Pod shop/job",
        "PodDisruptionBudget shop/web",
    ]


@pytest.mark.parametrize(
    ("class_", "bounded", "held"),
    [(GRACEFUL, False, True), (GRACEFUL, True, True), (EVENTUAL, False, True), (EVENTUAL, True, False)],
)
def test_eventual_disruption_waits_for_pods_only_without_a_grace_period(class_, bounded, held):
    node = PoolNode("n", "p", "c", grace_bounded=bounded)
    assert bool(found([pod("a", annotations={PROTECT: "true"})], node=node, class_=class_)) is held
    assert bool(found(node=node, class_=class_, unknown="not listed")) is held


def test_unknown_pods_hold_a_node():
    (blocker,) = found([pod("a")], unknown="pods may not be read: forbidden")
    assert blocker.reason == BlockReason.PODS_UNKNOWN
    assert "forbidden" in blocker.message


def test_a_trimmed_pod_is_small_and_says_where_it_runs():
    whole = pod("a", spec={"tolerations": [TOLERATION], "volumes": [{"name": "v"}]}, annotations={"x": "y" * 100})
    kept = essential_pod(whole)
    assert kept["spec"]["nodeName"] == "n"
    assert {"containers", "volumes"}.isdisjoint(kept["spec"])
    assert "annotations" not in kept["metadata"]


@pytest.mark.parametrize(
    "document",
    [
        {},
        {"metadata": None, "spec": [], "status": "x"},
        {"metadata": {"annotations": {PROTECT: 4}, "ownerReferences": 1}, "status": {"startTime": "soon"}},
    ],
)
def test_what_has_a_wrong_type_counts_as_absent(document):
    read = read_node_pod(document)
    assert isinstance(read, NodePod)
    assert not read.is_protected(NOON)
    assert read_pod_guard(document).disruptions_allowed == 0


@pytest.mark.parametrize(
    ("status", "lacking", "wants_some"),
    [
        pytest.param({}, None, False, id="not-known"),
        pytest.param({"currentHealthy": 1, "desiredHealthy": 3}, 2, True, id="lacks-two"),
        pytest.param({"currentHealthy": 3, "desiredHealthy": 2}, 0, True, id="has-more"),
        pytest.param({"currentHealthy": 0, "desiredHealthy": 0}, 0, False, id="wants-none"),
        pytest.param({"currentHealthy": "x", "desiredHealthy": -1}, None, False, id="odd"),
    ],
)
def test_what_a_guard_lacks(status, lacking, wants_some):
    found = read_pod_guard({"metadata": {"name": "g", "namespace": "shop"}, "status": status})
    assert (found.lacking, found.wants_some) == (lacking, wants_some)
