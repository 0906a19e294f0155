"""Where the provisioner plans pods: the domains that it spreads over, its preferences, and nodes that go.

nodepool-disruption.md 6.5.
"""

import pytest

from scorer.node_disruption.cluster.pod import read_pod
from scorer.node_disruption.instance_types.new_domains import NewDomains
from scorer.node_disruption.methods.context import survey
from scorer.node_disruption.methods.planner import PlannerOptions, decide, pool_views
from tests.builders.node import HOST, ZONE, make_claim, make_requirement
from tests.builders.pod import apart, beside, make_pod, make_spread
from tests.builders.worker import NOW, POOL, TYPE, make_catalog, make_cluster, make_pool_of, make_worker

WEB = {"app": "web"}
SOFT = {"whenUnsatisfiable": "ScheduleAnyway"}
CATALOG = make_catalog({"large": 1.0}, zones=("z1", "z2"))


def web(name, node, *spreads, cores="1", **more):
    return make_pod(name, node, labels=WEB, needs={"cpu": cores}, topologySpreadConstraints=list(spreads), **more)


def relocated(*documents, names=("a",), consolidating=True):
    cluster, options = make_cluster(*documents), PlannerOptions()
    looked = survey(cluster, CATALOG, NOW, options, pool_views(cluster, options))
    return looked.relocations.relocate([looked.nodes[name] for name in names], is_consolidation=consolidating)


def where(*documents, **more):
    """Return where the pods of node a go: to the name of a node, or to a new one and its zones."""
    found = relocated(*documents, **more)
    zones = {node.name: "new " + " ".join(node.values(ZONE)) for node in found.new_nodes}
    return {key.removeprefix("shop/"): zones.get(name, name) for key, name in found.moves.items()}


class TestSpread:
    def test_a_host_takes_no_more_pods_than_the_skew(self):
        """The scheduler would put a second one on each of two hosts that have one."""
        spread = make_spread(HOST, WEB)
        documents = make_pool_of(), make_worker("a"), make_worker("b"), web("x", "a", spread), web("y", "b", spread)
        assert where(*documents) == {"x": "new z1 z2"}

    def test_a_zone_that_only_new_nodes_would_be_in_has_no_pods(self):
        spread = make_spread(ZONE, WEB)
        documents = make_pool_of(), make_worker("a"), make_worker("b"), web("x", "a", spread), web("y", "b", spread)
        assert where(*documents) == {"x": "new z2"}

    def test_a_zone_that_no_type_is_offered_in_counts_if_a_pool_names_it(self):
        """Nothing is launched in it, so the pod has no place, as long as the pool asks for that zone."""
        spread, only = make_spread(ZONE, WEB), make_requirement(ZONE, "In", "z3")
        documents = make_pool_of("general", only), make_worker("a"), make_worker("b"), web("y", "b", spread)
        assert list(relocated(*documents, web("x", "a", spread)).left) == ["shop/x"]

    def test_a_zone_that_the_pod_cannot_be_in_does_not_count(self):
        spread, wish = make_spread(ZONE, WEB), {"nodeSelector": {ZONE: "z1"}}
        documents = make_pool_of(), make_worker("a"), make_worker("b"), web("y", "b", spread)
        assert where(*documents, web("x", "a", spread, **wish)) == {"x": "b"}

    @pytest.mark.parametrize(
        ("more", "expected"),
        [
            pytest.param({"owner": "Node"}, "new z2", id="static"),
            pytest.param({"owner": "DaemonSet"}, "new z2", id="of-a-daemon-set"),
            pytest.param({"owner": "Node", "deleting": "2026-06-10T11:59:00Z"}, "b", id="ending"),
            pytest.param({"owner": "Node", "phase": "Failed"}, "b", id="finished"),
        ],
    )
    def test_pods_that_stay_on_the_node_that_goes_count(self, more, expected):
        """They are there as long as the pods that move look for a place."""
        documents = make_pool_of(), make_worker("a"), make_worker("b"), web("stays", "a", cores="0", **more)
        assert where(*documents, web("x", "a", make_spread(ZONE, WEB))) == {"x": expected}

    def test_the_domain_of_the_node_that_goes_is_none(self):
        pool = make_pool_of("general", make_requirement(ZONE, "In", "z1"))
        documents = pool, make_worker("a", zone="z2"), make_worker("b"), make_worker("c"), web("y", "b")
        assert where(*documents, web("x", "a", make_spread(ZONE, WEB))) == {"x": "b"}

    def test_pods_of_new_nodes_count_where_it_is_certain_that_they_do(self):
        """A pod in no certain zone does not count for a pod that asks for one, not even on the same host."""
        spread, wish = make_spread(HOST, WEB), {"nodeSelector": {ZONE: "z1"}}
        documents = make_pool_of(), make_worker("a"), web("p", "a", spread), web("q", "a", spread, cores="0.5", **wish)
        assert where(*documents) == {"p": "new z1", "q": "new z1"}
        documents = make_pool_of(), make_worker("a"), web("p", "a", spread), web("q", "a", spread, cores="0.5")
        assert len(relocated(*documents).new_nodes) == 2

    def test_consolidation_leaves_alone_what_the_pods_would_wait_for(self):
        spread = make_spread(HOST, WEB)
        nodes = make_worker("a"), make_worker("b")
        assert decide(make_cluster(make_pool_of(), nodes, web("x", "a"), web("y", "b")), CATALOG, NOW).commands
        found = decide(make_cluster(make_pool_of(), nodes, web("x", "a", spread), web("y", "b", spread)), CATALOG, NOW)
        assert not found.commands


class TestPreferences:
    @pytest.mark.parametrize(
        ("spec", "expected"),
        [
            pytest.param({}, "b", id="none"),
            pytest.param({"topologySpreadConstraints": [make_spread(HOST, WEB, **SOFT)]}, "new z1 z2", id="host"),
            pytest.param({"topologySpreadConstraints": [make_spread(ZONE, WEB, **SOFT)]}, "new z2", id="zone"),
        ],
    )
    def test_a_new_node_is_made_before_a_preference_is_given_up(self, spec, expected):
        pods = make_pod("x", "a", labels=WEB, needs={"cpu": "1"}, **spec), web("y", "b")
        assert where(make_pool_of(), make_worker("a"), make_worker("b"), *pods) == {"x": expected}

    @pytest.mark.parametrize(
        ("affinity", "expected"),
        [
            pytest.param(apart(HOST, WEB), "new z1 z2", id="apart"),
            pytest.param(beside(HOST, {"app": "other"}), "c", id="beside"),
            pytest.param("nodes", "new z2", id="nodes"),
        ],
    )
    def test_preferred_affinity(self, affinity, expected):
        if affinity == "nodes":
            terms = [
                {"weight": weight, "preference": {"matchExpressions": [make_requirement(ZONE, "In", zone)]}}
                for weight, zone in ((1, "z1"), (9, "z2"))
            ]
            preferred = {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": terms}}
        else:
            (kind,) = affinity
            (term,) = affinity[kind]["requiredDuringSchedulingIgnoredDuringExecution"]
            weighted = [{"weight": 1, "podAffinityTerm": term}]
            preferred = {kind: {"preferredDuringSchedulingIgnoredDuringExecution": weighted}}
        pods = make_pod("x", "a", labels=WEB, needs={"cpu": "1"}, affinity=preferred), web("y", "b"), web("z", "c")
        other = make_pod("other", "c", labels={"app": "other"})
        nodes = make_worker("a"), make_worker("b"), make_worker("c")
        assert where(make_pool_of(), *nodes, *pods, other) == {"x": expected}

    def test_it_is_given_up_when_nothing_else_helps(self):
        pool = make_pool_of("general", make_requirement(TYPE, "In", "none"))
        documents = pool, make_worker("a"), make_worker("b"), web("y", "b")
        assert where(*documents, web("x", "a", make_spread(HOST, WEB, **SOFT))) == {"x": "b"}

    def test_the_order_in_which_they_are_given_up(self):
        """Pods beside, pods apart, nodes, each the heaviest first; then spreads, the last in the place of the first."""
        term = {"labelSelector": {"matchLabels": WEB}}
        weighted = [{"weight": w, "podAffinityTerm": {**term, "topologyKey": key}} for w, key in ((1, HOST), (5, ZONE))]
        nodes = [{"weight": 1, "preference": {"matchExpressions": [make_requirement("disk", "Exists")]}}]
        preferred = "preferredDuringSchedulingIgnoredDuringExecution"
        affinity = {"podAffinity": {preferred: weighted}, "nodeAffinity": {preferred: nodes}}
        spreads = [make_spread("1", WEB, **SOFT), make_spread("2", WEB), make_spread("3", WEB, **SOFT)]
        pod = read_pod(make_pod("p", affinity=affinity, topologySpreadConstraints=spreads))
        shapes = [each.shape for each in (*pod.stricter, pod)]
        assert [[each.topology_key for each in shape.affinity] for shape in shapes] == [[ZONE, HOST], [HOST], *[[]] * 4]
        assert [shape.preferred_nodes is not None for shape in shapes] == [True, True, True, False, False, False]
        keys = ["".join(each.topology_key for each in shape.spreads) for shape in shapes]
        assert keys == ["123", "123", "123", "123", "32", "2"]


class TestRest:
    YOUNG = make_worker("b", last_pod_event=NOW)

    @pytest.mark.parametrize(
        ("more", "expected"),
        [
            pytest.param({}, "new z1 z2", id="moved"),
            pytest.param({"phase": "Pending"}, "b", id="not-started-yet"),
        ],
    )
    def test_a_young_node_takes_no_pods_that_run(self, more, expected):
        documents = make_pool_of(after="1h"), make_worker("a"), web("x", "a", **more)
        assert where(*documents, self.YOUNG) == {"x": expected}

    def test_it_takes_those_of_nodes_that_are_going(self):
        going = make_worker("g", deleting=NOW), web("leaving", "g", cores="2")
        documents = make_pool_of(after="1h"), make_worker("a"), web("x", "a")
        found = relocated(*documents, self.YOUNG, *going)
        assert [[pod.name for pod in node.pods] for node in found.new_nodes] == [["x"]]


class TestNodesThatAreGoing:
    def test_a_new_node_that_only_their_pods_need_is_one_more(self):
        going = make_worker("g", deleting=NOW), web("leaving", "g", cores="4")
        documents = make_pool_of(), make_worker("a"), make_worker("b"), web("x", "a"), web("y", "b")
        assert decide(make_cluster(*documents), CATALOG, NOW).command.decided == "delete"
        found = decide(make_cluster(*documents, *going), CATALOG, NOW)
        assert not found.commands, "a new node costs as much as one that goes"

    def test_their_pods_may_go_to_a_node_that_is_not_initialized(self):
        fresh = make_worker("f", without=["karpenter.sh/initialized"])
        going = make_worker("g", deleting=NOW), web("leaving", "g", cores="4")
        documents = make_pool_of(), make_worker("a"), make_worker("b", cores=1), web("x", "a"), fresh, *going
        assert where(*documents) == {"x": "b"}

    def test_a_node_that_is_launching_for_them_is_no_new_one(self):
        """Else each command would make it once more, until it has joined."""
        claim = make_claim("f", "", POOL, resources={"requests": {"cpu": "4", "pods": "1"}})
        going = make_worker("g", deleting=NOW), web("leaving", "g", cores="4")
        documents = make_pool_of(), make_worker("a"), make_worker("b"), web("x", "a"), web("y", "b"), *going
        assert not decide(make_cluster(*documents), CATALOG, NOW).commands
        assert decide(make_cluster(*documents, claim), CATALOG, NOW).command.decided == "delete"

    def test_a_node_that_is_launching_takes_no_others(self):
        claim = make_claim("0", "", POOL, resources={"requests": {"cpu": "4", "pods": "9"}})
        found = relocated(make_pool_of(), make_worker("a"), web("x", "a", cores="3"), claim)
        assert found.left["shop/x"] == "would be scheduled to node 0, which is not initialized yet"


class TestNewDomains:
    def test_values_are_those_that_some_pool_could_give(self):
        pools = make_cluster(
            make_pool_of("narrow", make_requirement(ZONE, "In", "z1", "z9")),
            make_pool_of("labelled", template={"labels": {"team": "sea"}}),
            make_pool_of("static", make_requirement(ZONE, "In", "z5"), replicas=1),
            make_pool_of("broken", make_requirement(ZONE, "In", "z6"), ready="False"),
        ).pools
        new = NewDomains(pools.values(), CATALOG.types)
        assert new.of(ZONE) == {"z1", "z2", "z9"}
        assert new.of("team") == {"sea"}
        assert new.of(TYPE) == {"large"}
        assert new.of("rack") == frozenset()

    @pytest.mark.parametrize(
        ("policy", "expected"),
        [pytest.param("Ignore", {"z1", "z2"}, id="ignore"), pytest.param("Honor", {"z1"}, id="honor")],
    )
    def test_taints_of_pools_count_where_the_constraint_honors_them(self, policy, expected):
        pools = make_cluster(
            make_pool_of("open", make_requirement(ZONE, "In", "z1")),
            make_pool_of("tainted", make_requirement(ZONE, "In", "z2"), taints=[{"key": "t", "effect": "NoSchedule"}]),
        ).pools
        pod = read_pod(web("x", "", make_spread(ZONE, WEB, nodeTaintsPolicy=policy)))
        assert NewDomains(pools.values(), ()).expected(pod.shape, pod.shape.spreads[0]) == expected
