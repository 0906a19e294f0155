"""Where pods go: onto nodes that are there, and onto new ones."""

from datetime import UTC, datetime

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scorer.api.node_pool import CAPACITY_TYPE
from scorer.node_disruption.cluster.pod import read_pod
from scorer.node_disruption.cluster.reader import read_cluster
from scorer.node_disruption.cluster.requirements import INSTANCE_TYPE, ZONE, one_of
from scorer.node_disruption.instance_types.catalog import ARCH, InstanceType, Offering
from scorer.node_disruption.instance_types.new_domains import NewDomains
from scorer.node_disruption.instance_types.new_node import templates, wishes
from scorer.node_disruption.scheduling.node_filter import ClusterCapacity
from scorer.node_disruption.scheduling.scheduler import NewNodes, place_all
from tests.builders.node import HOST, make_node, make_pool, make_requirement, make_taint
from tests.builders.pod import apart, beside, make_pod, make_spread, on_nodes
from tests.builders.random_pods import RandomPods
from tests.thoroughness import examples

NOW = datetime(2026, 7, 1, tzinfo=UTC)
WEB = {"app": "web"}
GIB = 2**30


def kind(name, cpu, *zones, arch="amd64", price=1.0, capacity_type="on-demand", available=True):
    offerings = tuple(Offering(zone, capacity_type, price * cpu, available) for zone in zones or ("z1", "z2", "z3"))
    labels = {ARCH: arch, "kubernetes.io/os": "linux"}
    return InstanceType(name, labels, {"cpu": 1000 * cpu, "memory": 4 * cpu * GIB, "pods": 110}, offerings)


TYPES = (kind("s", 2), kind("m", 4), kind("l", 8), kind("arm", 4, arch="arm64"))


def cluster(*documents):
    return read_cluster(documents, NOW)


def pending(*pods):
    """The pods as a cluster has them: alike ones share one shape."""
    return cluster(*pods).pending


def new_nodes(found, types=TYPES, gone=()):
    return NewNodes(templates(found, types, gone), NewDomains(found.pools.values(), types))


def placed(documents, pods, types=TYPES):
    found = cluster(*documents, *pods)
    return place_all(ClusterCapacity(found), found.pending, new_nodes(found, types))


def names(types):
    return [each.name for each in types]


def pods_of(node):
    return sorted(pod.name for pod in node.pods)


class TestNodesThatAreThere:
    def test_initialized_ones_come_first_then_by_name(self):
        raw = make_node("a", pool="general")
        raw["metadata"]["labels"].pop("karpenter.sh/initialized")
        found = placed([raw, make_node("c"), make_node("b")], [make_pod(f"p{n}", needs={"cpu": "3"}) for n in range(4)])
        assert found.onto == {"shop/p0": "b", "shop/p1": "c", "shop/p2": "a"}
        assert list(found.left) == ["shop/p3"]
        assert found.left["shop/p3"] == "0/3 nodes are available: 3 Insufficient cpu"

    def test_large_pods_come_first_then_old_ones(self):
        small, large, old = (make_pod(name, needs={"cpu": cpu}) for name, cpu in (("s", "1"), ("l", "2"), ("o", "1")))
        old["metadata"]["creationTimestamp"] = "2020-01-01T00:00:00Z"
        heavy = make_pod("h", needs={"cpu": "1", "memory": "1Gi"})
        found = placed(
            [make_node("a", has={"pods": "2"}), make_node("b", has={"pods": "1"})], [small, large, old, heavy]
        )
        assert found.onto == {"shop/l": "a", "shop/h": "a", "shop/o": "b"}
        assert list(found.left) == ["shop/s"]

    def test_what_is_free_at_first_stays_as_it_is(self):
        state = ClusterCapacity(cluster(make_node("a", has={"pods": "1"})))
        pods = pending(make_pod("p"))
        assert place_all(state, pods).onto == place_all(state, pods).onto == {"shop/p": "a"}
        assert not place_all(state, pods).after.feasible(pods[0]).any()

    def test_a_pod_that_wants_another_one_beside_it_waits_for_it(self):
        wanting = make_pod("w", needs={"cpu": "2"}, affinity=beside(HOST, WEB))
        wanted = make_pod("x", labels=WEB, needs={"cpu": "1"})
        assert placed([make_node("a"), make_node("b")], [wanting, wanted]).onto == {"shop/x": "a", "shop/w": "a"}

    def test_nothing_to_place_and_nowhere_to_go(self):
        assert placed([], []).left == {}
        assert placed([], [make_pod("p")]).left == {"shop/p": "0/0 nodes are available: no nodes"}

    def test_reasons_are_those_of_the_end(self):
        found = placed([make_node("a", has={"pods": "1"})], [make_pod("p"), make_pod("q", needs={"cpu": "5"})])
        assert dict(found.left) == {"shop/q": "0/1 nodes are available: 1 Insufficient cpu, 1 Too many pods"}
        assert "shop/p" not in found.left
        assert len(found.left) == 1


class TestNewNodes:
    def test_only_where_no_node_that_is_there_will_do(self):
        pods = [make_pod("p", needs={"cpu": "3"}), make_pod("q", needs={"cpu": "3"})]
        found = placed([make_pool(), make_node("a")], pods)
        assert found.onto == {"shop/p": "a"}
        (node,) = found.new_nodes
        assert (node.pool, node.name, pods_of(node), names(node.types)) == (
            "general",
            "general/new-1",
            ["q"],
            ["m", "l", "arm"],
        )

    def test_one_takes_pods_as_long_as_some_type_has_room(self):
        pods = [make_pod(f"p{n}", needs={"cpu": "2"}) for n in range(5)]
        first, second = placed([make_pool()], pods).new_nodes
        assert (pods_of(first), names(first.types)) == (["p0", "p1", "p2", "p3"], ["l"])
        assert (pods_of(second), names(second.types)) == (["p4"], ["s", "m", "l", "arm"])

    def test_what_no_type_can_be_is_left(self):
        found = placed([make_pool()], [make_pod("p", needs={"cpu": "9"})])
        reason = "0/0 nodes are available: no nodes. No new node of NodePool general fits the pod"
        assert dict(found.left) == {"shop/p": reason}
        assert found.new_nodes == ()

    def test_pods_narrow_down_what_it_can_be(self):
        arm = make_pod("p", nodeSelector={"beta.kubernetes.io/arch": "arm64"})
        zoned = make_pod("q", affinity=on_nodes([make_requirement(ZONE, "NotIn", "z1", "z2")]))
        (node,) = placed([make_pool()], [arm, zoned]).new_nodes
        assert names(node.types) == ["arm"]
        assert node.requirements[ARCH] == one_of("arm64")
        assert node.values(ZONE) == ("z3",)

    def test_terms_are_tried_one_after_the_other(self):
        wish = on_nodes([make_requirement("custom", "Exists")], [make_requirement(INSTANCE_TYPE, "In", "l")])
        (node,) = placed([make_pool()], [make_pod("p", affinity=wish)]).new_nodes
        assert names(node.types) == ["l"]

    @pytest.mark.parametrize(
        ("spec", "expected"),
        [
            pytest.param({"nodeSelector": {"custom": "x"}}, False, id="label-that-nobody-gives"),
            pytest.param({"nodeSelector": {"team": "sea"}}, True, id="label-of-the-template"),
            pytest.param({"nodeSelector": {"team": "land"}}, False, id="another-value"),
            pytest.param({"nodeSelector": {"karpenter.sh/nodepool": "general"}}, True, id="the-pool-s-own-label"),
            pytest.param({"nodeSelector": {HOST: "a"}}, False, id="a-node-by-name"),
            pytest.param(
                {"affinity": on_nodes([], fields=[make_requirement("metadata.name", "In", "a")])}, False, id="by-field"
            ),
            pytest.param(
                {"affinity": on_nodes([], fields=[make_requirement("metadata.name", "NotIn", "a")])},
                True,
                id="not-that-one",
            ),
            pytest.param(
                {"affinity": on_nodes([make_requirement("x", "In", "1"), make_requirement("x", "In", "2")])},
                False,
                id="contradiction",
            ),
            pytest.param({"affinity": on_nodes([make_requirement("x", "DoesNotExist")])}, True, id="without-a-label"),
            pytest.param({"tolerations": []}, True, id="no-wish"),
        ],
    )
    def test_wishes(self, spec, expected):
        pool = make_pool(template={"labels": {"team": "sea"}})
        assert bool(placed([pool], [make_pod("p", **spec)]).new_nodes) is expected

    def test_taints_of_the_template(self):
        pools = [
            make_pool(taints=[make_taint("t", value="v")]),
            make_pool("soft", taints=[make_taint("t", "PreferNoSchedule", "v")]),
        ]
        assert [node.pool for node in placed(pools[:1], [make_pod("p")]).new_nodes] == []
        assert [node.pool for node in placed(pools, [make_pod("p")]).new_nodes] == ["soft"]
        tolerating = make_pod("p", tolerations=[{"key": "t", "value": "v"}])
        assert [node.pool for node in placed(pools[:1], [tolerating]).new_nodes] == ["general"]

    def test_host_ports_of_one_node_do_not_conflict(self):
        container = {"name": "main", "ports": [{"containerPort": 1, "hostPort": 80}]}
        pods = [make_pod(name, containers=[container]) for name in "ab"]
        assert [pods_of(node) for node in placed([make_pool()], pods).new_nodes] == [["a"], ["b"]]

    def test_daemons_take_their_part(self):
        daemon = make_pod("d", "gone", owner="DaemonSet", needs={"cpu": "1"})
        elsewhere = make_pod("e", "gone", owner="DaemonSet", needs={"cpu": "7"}, nodeSelector={"custom": "x"})
        elsewhere["metadata"]["ownerReferences"][0]["uid"] = "another"
        (node,) = placed([make_pool(), daemon, elsewhere], [make_pod("p", needs={"cpu": "4"})]).new_nodes
        assert names(node.types) == ["l"]
        assert node.daemons == {"cpu": 1000, "pods": 1}

    def test_offerings_must_be_there_in_the_zone_and_of_the_kind(self):
        types = (kind("a", 4, "z1", available=False), kind("b", 4, "z1", capacity_type="spot"), kind("c", 4, "z2"))
        (node,) = placed([make_pool()], [make_pod("p", nodeSelector={ZONE: "z1"})], types).new_nodes
        assert names(node.types) == ["b"]
        assert (
            placed(
                [make_pool()], [make_pod("p", nodeSelector={ZONE: "z1", CAPACITY_TYPE: "on-demand"})], types
            ).new_nodes
            == ()
        )


class TestTopologyOfNewNodes:
    def test_a_zone_stays_open_until_somebody_cares(self):
        pods = [make_pod("large", needs={"cpu": "2"}), make_pod("zoned", needs={"cpu": "1"}, nodeSelector={ZONE: "z2"})]
        (node,) = placed([make_pool()], pods).new_nodes
        assert (pods_of(node), node.values(ZONE)) == (["large", "zoned"], ("z2",))

    def test_spread_over_zones_takes_the_emptiest(self):
        nodes = [make_node("a", zone="z1", has={"pods": "1"}), make_node("b", zone="z2", has={"pods": "1"})]
        running = make_pod("x", "b", labels=WEB)
        full = make_pod("y", "a")
        even = make_pod("p", labels=WEB, topologySpreadConstraints=[make_spread(ZONE, WEB)])
        (node,) = placed(
            [make_pool("general", make_requirement(ZONE, "In", "z1", "z2")), *nodes, running, full], [even]
        ).new_nodes
        assert node.requirements[ZONE] == one_of("z1")

    @pytest.mark.parametrize(
        ("keys", "skew", "expected"),
        [
            pytest.param([ZONE], 1, [2, 2, 2], id="zones-are-filled-in-turn"),
            pytest.param([ZONE], 2, [2, 2, 2], id="two-more-than-nobody"),
            pytest.param([HOST], 1, [1] * 6, id="a-host-each"),
            pytest.param([HOST], 3, [3, 3], id="a-host-for-three"),
            pytest.param([ZONE, HOST], 1, [1] * 6, id="both"),
        ],
    )
    def test_spread_over_new_nodes(self, keys, skew, expected):
        """More new nodes can always be had, so what is on one must be even with those that have nobody yet."""
        spread = [make_spread(key, WEB, skew) for key in keys]
        found = placed(
            [make_pool()], [make_pod(f"p{n}", labels=WEB, topologySpreadConstraints=spread) for n in range(6)]
        )
        assert [len(node.pods) for node in found.new_nodes] == expected
        if ZONE in keys:
            zones = [node.requirements[ZONE].only for node in found.new_nodes for _ in node.pods]
            assert sorted(zones) == ["z1", "z1", "z2", "z2", "z3", "z3"]

    def test_zones_that_the_pod_cannot_have_do_not_count(self):
        wish = on_nodes([make_requirement(ZONE, "In", "z2")])
        pods = [
            make_pod(f"p{n}", labels=WEB, affinity=wish, topologySpreadConstraints=[make_spread(ZONE, WEB)])
            for n in range(3)
        ]
        (node,) = placed([make_pool()], pods).new_nodes
        assert len(node.pods) == 3

    def test_apart_by_host_takes_a_node_each(self):
        pods = [make_pod(f"p{n}", labels=WEB, affinity=apart(HOST, WEB)) for n in range(3)]
        found = placed([make_pool()], pods)
        assert [len(node.pods) for node in found.new_nodes] == [1, 1, 1]
        assert all(node.values(ZONE) == ("z1", "z2", "z3") for node in found.new_nodes)

    def test_apart_by_zone_others_wait_until_it_is_known_which_zone_the_first_has(self):
        pods = [make_pod(f"p{n}", labels=WEB, affinity=apart(ZONE, WEB)) for n in range(4)]
        found = placed([make_pool()], pods)
        (node,) = found.new_nodes
        assert (pods_of(node), node.values(ZONE)) == (["p0"], ("z1", "z2", "z3"))
        assert len(found.left) == 3

    def test_apart_by_zone_each_that_asks_for_its_own_zone_has_a_node(self):
        zones = ("z1", "z2", "z3")
        pods = [make_pod(z, labels=WEB, affinity=apart(ZONE, WEB), nodeSelector={ZONE: z}) for z in zones]
        assert [node.values(ZONE) for node in placed([make_pool()], pods).new_nodes] == [("z1",), ("z2",), ("z3",)]

    def test_apart_by_a_label_that_new_nodes_do_not_get(self):
        pods = [make_pod(f"p{n}", labels=WEB, affinity=apart("rack", WEB)) for n in range(2)]
        (node,) = placed([make_pool()], pods).new_nodes
        assert pods_of(node) == ["p0", "p1"]

    def test_a_group_that_wants_to_be_together_goes_to_one_zone(self):
        pods = [make_pod(f"p{n}", labels=WEB, needs={"cpu": "6"}, affinity=beside(ZONE, WEB)) for n in range(3)]
        found = placed([make_pool()], pods)
        assert {node.requirements[ZONE].only for node in found.new_nodes} == {"z1"}
        assert len(found.new_nodes) == 3

    def test_beside_a_pod_that_is_there(self):
        there = [make_node("a", zone="z2", has={"pods": "1"}), make_pod("x", "a", labels=WEB)]
        (node,) = placed([make_pool(), *there], [make_pod("p", affinity=beside(ZONE, WEB))]).new_nodes
        assert node.requirements[ZONE] == one_of("z2")

    def test_kept_away_by_a_pod_that_is_there(self):
        there = [make_node("a", zone="z1", has={"pods": "1"}), make_pod("x", "a", affinity=apart(ZONE, WEB))]
        (node,) = placed([make_pool(), *there], [make_pod("p", labels=WEB)]).new_nodes
        assert node.values(ZONE) == ("z2", "z3")

    def test_a_label_that_new_nodes_do_not_get_cannot_be_spread_over(self):
        even = make_pod("p", labels=WEB, topologySpreadConstraints=[make_spread("rack", WEB)])
        assert placed([make_pool()], [even]).new_nodes == ()


class TestTemplates:
    def test_pools_are_asked_by_weight_then_by_name_backwards(self):
        pools = [make_pool("a"), make_pool("b"), make_pool("heavy", weight=5)]
        assert [each.pool for each in templates(cluster(*pools), TYPES)] == ["heavy", "b", "a"]

    def test_who_makes_none(self):
        going = make_pool("going")
        going["metadata"]["deletionTimestamp"] = "2026-06-30T00:00:00Z"
        broken = make_pool("broken")
        broken["status"] = {
            "conditions": [
                {
                    "type": "Ready",
                    "status": "False",
                    "reason": "x",
                    "message": "",
                    "lastTransitionTime": "2026-06-30T00:00:00Z",
                }
            ]
        }
        nothing = make_pool("nothing", make_requirement(ARCH, "In", "s390x"))
        pools = [going, broken, nothing, make_pool("static", replicas=3), make_pool("fine")]
        assert [each.pool for each in templates(cluster(*pools), TYPES)] == ["fine"]

    def test_requirements_leave_fitting_types_only(self):
        pool = make_pool(
            "general", make_requirement(ARCH, "In", "amd64"), make_requirement(INSTANCE_TYPE, "NotIn", "s")
        )
        (template,) = templates(cluster(pool), TYPES)
        assert names(template.types) == ["m", "l"]

    def test_min_values(self):
        needed = make_requirement(INSTANCE_TYPE, "Exists", minValues=2)
        found = placed([make_pool("general", needed)], [make_pod(f"p{n}", needs={"cpu": "2"}) for n in range(3)])
        assert [len(node.pods) for node in found.new_nodes] == [2, 1]
        too_many = make_requirement(INSTANCE_TYPE, "Exists", minValues=5)
        assert templates(cluster(make_pool("general", too_many)), TYPES) == ()

    @pytest.mark.parametrize(
        ("limits", "gone", "expected"),
        [
            pytest.param({"cpu": "100"}, [], [["m"], ["m"]], id="enough"),
            pytest.param({"cpu": "8"}, [], [["m"]], id="one-more"),
            pytest.param({"cpu": "7"}, [], [], id="none"),
            pytest.param({"cpu": "4"}, ["a"], [["m"]], id="what-goes-is-not-counted"),
            pytest.param({"nodes": "2"}, [], [["m"]], id="nodes"),
            pytest.param({"memory": "32Gi", "a.io/gpu": "0"}, [], [["m"]], id="resource-that-no-type-has"),
        ],
    )
    def test_limits(self, limits, gone, expected):
        """The pool has one node of 4 cores; each of two pods needs a node of its own."""
        found = cluster(make_pool(limits=limits), make_node("a", pool="general", has={"pods": "1"}), make_pod("x", "a"))
        pods = pending(*(make_pod(name, needs={"cpu": "3"}) for name in "pq"))
        made = place_all(ClusterCapacity(found, without=gone), pods, new_nodes(found, (kind("m", 4),), gone)).new_nodes
        assert [names(node.types) for node in made] == expected

    def test_volumes_hold_a_pod_to_a_zone(self):
        terms = {"nodeSelectorTerms": [{"matchExpressions": [make_requirement(ZONE, "In", "z3")]}]}
        volume = {"kind": "PersistentVolume", "metadata": {"name": "v"}, "spec": {"nodeAffinity": {"required": terms}}}
        claim = {
            "kind": "PersistentVolumeClaim",
            "metadata": {"name": "c", "namespace": "shop"},
            "spec": {"volumeName": "v"},
        }
        pod = make_pod("p", volumes=[{"name": "data", "persistentVolumeClaim": {"claimName": "c"}}])
        found = placed([make_pool(), volume, claim, make_node("a", zone="z1")], [pod])
        assert found.onto == {}
        assert found.new_nodes[0].values(ZONE) == ("z3",)


def test_wishes_that_contradict_themselves_are_none():
    both = make_pod(
        "p",
        nodeSelector={"x": "1"},
        affinity=on_nodes([make_requirement("x", "NotIn", "1")], [make_requirement("x", "Gt", "0")]),
    )
    assert [wish["x"].only for wish in wishes(read_pod(both).shape)] == ["1"]


@settings(max_examples=examples(300))
@given(seed=st.integers(0, 2**32), nodes=st.integers(0, 8), number=st.integers(0, 25))
def test_everybody_has_a_place_that_fits_or_a_reason(seed, nodes, number):
    """Each pod is on one node, old or new, or left. On new nodes there is room, by the smallest type that is left."""
    made = RandomPods(seed)
    documents = [{**made.node(f"node-{index:02}"), "kind": "Node"} for index in range(nodes)]
    found = cluster(*documents, make_pool(), *(made.pod() for _ in range(number)))
    state = ClusterCapacity(found)
    result = place_all(state, found.pending, new_nodes(found))
    on_new = [pod.key for node in result.new_nodes for pod in node.pods]
    assert sorted([*result.onto, *on_new, *result.left]) == sorted(pod.key for pod in found.pending)
    assert all(result.left[key] for key in result.left)
    for node in result.new_nodes:
        for each in node.types:
            assert sum(pod.requests.get("cpu", 0) for pod in node.pods) <= each.allocatable["cpu"]
            assert next(each.matching_offerings(node.requirements), None) is not None
    again = place_all(state, found.pending[::-1], new_nodes(found))
    assert (again.onto, again.new_nodes, dict(again.left)) == (result.onto, result.new_nodes, dict(result.left))


@given(seed=st.integers(0, 2**32), nodes=st.integers(1, 8))
def test_a_pod_alone_takes_the_first_node_that_is_feasible(seed, nodes):
    made = RandomPods(seed)
    found = cluster(*({**made.node(f"node-{index:02}"), "kind": "Node"} for index in range(nodes)), made.pod())
    state, (pod,) = ClusterCapacity(found), found.pending
    feasible = [name for name, could in zip(state.names, state.feasible(pod), strict=True) if could]
    assert list(place_all(state, [pod]).onto.values()) == feasible[:1]
