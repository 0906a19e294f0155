"""Which nodes are candidates: the rules of nodepool-disruption.md 5.2 to 5.4 and 5.6, one row each."""

from datetime import timedelta

import pytest

from scorer.node_budgets.blockers import DisruptionClass
from scorer.node_disruption.candidates.candidate import is_inside, not_consolidatable
from scorer.node_disruption.instance_types.catalog import InstanceTypeCatalog
from scorer.node_disruption.methods.context import PlannerOptions, pool_views, survey
from tests.builders.pod import make_pod
from tests.builders.worker import NOW, make_catalog, make_cluster, make_pool_of, make_worker

DO_NOT_DISRUPT = "karpenter.sh/do-not-disrupt"
DISRUPTED = {"key": "karpenter.sh/disrupted", "effect": "NoSchedule"}
CATALOG = make_catalog({"large": 1.0})
DEFAULTS = PlannerOptions()


def guard(name="web", allowed=0, **spec):
    return {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": name, "namespace": "shop"},
        "spec": {"selector": {"matchLabels": {"app": "web"}}, **spec},
        "status": {"disruptionsAllowed": allowed},
    }


def web(name="p", node="a", **more):
    return make_pod(name, node, labels={"app": "web"}, **more)


def blockers(*documents, catalog=CATALOG, class_=DisruptionClass.GRACEFUL, settings=DEFAULTS, reserved=(), node="a"):
    cluster = make_cluster(*documents)
    views = pool_views(cluster, settings)
    if reserved:
        views["general"] = views["general"].with_held(reserved)
    found = survey(cluster, catalog, NOW, settings, views)
    return [each.reason for each in found.nodes[node].blockers_for(class_)]


def pods_of(*pods):
    return [make_pool_of(), make_worker("a"), *pods]


def started(ago):
    """Return the annotation by which a pod that started an hour ago protects its node for *ago*."""
    return {"annotations": {DO_NOT_DISRUPT: ago}}


@pytest.mark.parametrize(
    ("worker", "expected"),
    [
        pytest.param({}, [], id="a-candidate"),
        pytest.param({"conditions": {"Rebooting": ("x", "")}}, ["Rebooting"], id="4-rebooting"),
        pytest.param({"deleting": NOW}, ["Deleting"], id="5-deleting"),
        pytest.param({"taints": [DISRUPTED]}, ["Deleting"], id="5-marked-for-deletion"),
        pytest.param({"without": ["karpenter.sh/initialized"]}, ["NotInitialized"], id="6-not-initialized"),
        pytest.param({"annotations": {DO_NOT_DISRUPT: "true"}}, ["DoNotDisrupt"], id="8-do-not-disrupt"),
        pytest.param({"annotations": {DO_NOT_DISRUPT: "4h"}}, [], id="8-durations-do-not-block-on-a-node"),
        pytest.param({"annotations": {DO_NOT_DISRUPT: "false"}}, [], id="8-nor-does-false"),
        pytest.param({"pool": "other"}, ["NodePoolUnknown"], id="10-pool-unknown"),
        pytest.param({"kind": "unheard-of"}, [], id="an-unknown-type-is-no-matter"),
        pytest.param({"zone": "", "capacity": ""}, [], id="nor-is-a-missing-zone"),
    ],
)
def test_the_state_of_a_node(worker, expected):
    """The checks of 5.3."""
    assert blockers(make_pool_of(), make_worker("a", **worker)) == expected


def test_nodes_that_are_not_ours():
    node, _ = make_worker("a")
    assert blockers(make_pool_of(), node) == ["NoNodeClaim"]
    stray = make_cluster(make_pool_of(), make_worker("a", without=["karpenter.sh/nodepool"]))
    assert not survey(stray, CATALOG, NOW, PlannerOptions(), pool_views(stray, PlannerOptions())).nodes


def test_a_reserved_node_is_held_by_a_command():
    assert blockers(make_pool_of(), make_worker("a"), reserved=["a"]) == ["Reserved"]


def test_a_pool_without_instance_types():
    documents = [make_pool_of(), make_worker("a")]
    assert blockers(*documents, catalog=InstanceTypeCatalog()) == ["NoInstanceTypes"]
    assert blockers(*documents, catalog=None) == [], "5.1: where nobody hands types in, only the pool is asked for"


def test_a_node_that_waits_for_a_pending_pod_is_nominated():
    documents = [make_pool_of(), make_worker("a"), make_worker("b"), make_pod("new", needs={"cpu": "1"})]
    assert blockers(*documents) == ["Nominated"]
    assert blockers(*documents, node="b") == []


def test_a_daemon_does_not_nominate_its_node():
    assert blockers(make_pool_of(), make_worker("a"), make_pod("new", owner="DaemonSet")) == []


def test_the_pods_of_a_node_that_is_going_nominate_as_well():
    """The provisioner plans for them, too, so that their next node is not emptied under them."""
    going = [make_worker("b", deleting=NOW), make_pod("moving", "b", needs={"cpu": "1"})]
    assert blockers(make_pool_of(), make_worker("a"), going) == ["Nominated"]


def test_the_template_of_the_pool_keeps_its_nodes():
    documents = [make_pool_of(template={"annotations": {DO_NOT_DISRUPT: "true"}}), make_worker("a")]
    assert blockers(*documents) == ["DoNotDisrupt"]
    assert blockers(*documents, settings=PlannerOptions(template_do_not_disrupt=False)) == []


@pytest.mark.parametrize(
    ("documents", "expected"),
    [
        pytest.param(pods_of(web(**started("true"))), ["DoNotDisrupt"], id="do-not-disrupt"),
        pytest.param(pods_of(web(**started("2h"))), ["DoNotDisrupt"], id="for-some-time"),
        pytest.param(pods_of(web(**started("1h"))), [], id="that-has-passed"),
        pytest.param(pods_of(web(**started("-1h"))), [], id="negative-is-ignored"),
        pytest.param(pods_of(web(**started("soon"))), [], id="unparsable-is-ignored"),
        pytest.param(pods_of(web(owner="DaemonSet", **started("true"))), ["DoNotDisrupt"], id="daemons-count"),
        pytest.param(pods_of(web(phase="Failed", **started("true"))), [], id="finished-pods-never-block"),
        pytest.param(pods_of(web(), guard()), ["PodDisruptionBudget"], id="pdb-lets-none-go"),
        pytest.param(pods_of(web(), guard(allowed=1)), [], id="pdb-lets-one-go"),
        pytest.param(pods_of(web(), web("q"), guard(allowed=1)), [], id="it-is-asked-for-each-pod-alone"),
        pytest.param(
            pods_of(web(), guard(allowed=1), guard("more", 1)), ["SeveralPodDisruptionBudgets"], id="two-pdbs"
        ),
        pytest.param(pods_of(web(owner="DaemonSet"), guard()), ["PodDisruptionBudget"], id="daemons-count-for-pdbs"),
        pytest.param(pods_of(web(owner="Node"), guard()), [], id="mirror-pods-do-not"),
        pytest.param(
            pods_of(web(tolerations=[{"operator": "Exists"}]), guard()), [], id="nor-pods-that-tolerate-the-taint"
        ),
    ],
)
def test_pods_block(documents, expected):
    """The blockers of 5.4."""
    assert blockers(*documents) == expected


@pytest.mark.parametrize(
    ("class_", "grace", "expected"),
    [
        pytest.param(DisruptionClass.GRACEFUL, "1h", ["PodDisruptionBudget"], id="graceful-always-waits"),
        pytest.param(DisruptionClass.EVENTUAL, None, ["PodDisruptionBudget"], id="eventual-without-a-bound-waits"),
        pytest.param(DisruptionClass.EVENTUAL, "1h", [], id="eventual-with-a-bound-does-not"),
    ],
)
def test_disruption_classes(class_, grace, expected):
    """The table of 5.2."""
    spec = {} if grace is None else {"terminationGracePeriod": grace}
    assert blockers(make_pool_of(), make_worker("a", **spec), web(), guard(), class_=class_) == expected


def test_a_grace_period_does_not_outweigh_the_annotation_of_the_node():
    worker = make_worker("a", annotations={DO_NOT_DISRUPT: "true"}, terminationGracePeriod="1h")
    assert blockers(make_pool_of(), worker, class_=DisruptionClass.EVENTUAL) == ["DoNotDisrupt"]


@pytest.mark.parametrize(
    ("after", "quiet", "expected"),
    [
        pytest.param("0s", timedelta(), None, id="at-once"),
        pytest.param("5m", timedelta(minutes=4), "ConsolidateAfter", id="inside"),
        pytest.param("5m", timedelta(minutes=5), None, id="just-over"),
        pytest.param("5m", timedelta(minutes=-5), "ConsolidateAfter", id="an-event-in-the-future"),
        pytest.param("Never", timedelta(days=9), "ConsolidationDisabled", id="never"),
        pytest.param("eternally", timedelta(days=9), "ConsolidationDisabled", id="what-cannot-be-read-is-never"),
    ],
)
def test_consolidate_after(after, quiet, expected):
    """The rule of 5.6; a node that is inside takes no pods that are moved."""
    cluster = make_cluster(make_pool_of(after=after), make_worker("a", last_pod_event=NOW - quiet))
    found = not_consolidatable(cluster.nodes["a"], cluster.pools["general"], NOW)
    assert (found and found.cause) == expected
    assert is_inside(cluster.nodes["a"], cluster.pools["general"], NOW) is (expected == "ConsolidateAfter")


@pytest.mark.parametrize(
    ("pool", "expected"),
    [
        pytest.param({}, True, id="dynamic"),
        pytest.param({"replicas": 1}, False, id="static"),
        pytest.param({"ready": "False"}, False, id="not-ready"),
        pytest.param({"ready": "Unknown"}, False, id="not-known-to-be-ready"),
        pytest.param({"ready": "True"}, True, id="ready"),
    ],
)
def test_only_nodes_of_pools_that_make_nodes_keep_moved_pods_away(pool, expected):
    cluster = make_cluster(make_pool_of(after="5m", **pool), make_worker("a", last_pod_event=NOW))
    assert is_inside(cluster.nodes["a"], cluster.pools["general"], NOW) is expected


def test_a_node_that_is_not_initialized_has_no_window():
    node, claim = make_worker("a", last_pod_event=NOW)
    initialized = next(each for each in claim["status"]["conditions"] if each["type"] == "Initialized")
    initialized["status"] = "Unknown"
    cluster = make_cluster(make_pool_of(after="5m"), node, claim)
    assert not is_inside(cluster.nodes["a"], cluster.pools["general"], NOW)


def test_the_clock_starts_when_the_node_is_initialized_if_no_pod_came():
    cluster = make_cluster(make_pool_of(after="8000h"), make_worker("a"))
    found = not_consolidatable(cluster.nodes["a"], cluster.pools["general"], NOW)
    assert found is not None
    assert found.until == cluster.nodes["a"].claim.initialized_since + timedelta(hours=8000)
