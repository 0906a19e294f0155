"""Which nodes could take a pod, rule by rule; e2e/nodes/test_pod_fitting.py compares with the scheduler itself."""

from datetime import UTC, datetime

import pytest

from scorer.node_disruption.cluster.pod import read_pod
from scorer.node_disruption.cluster.reader import read_cluster
from scorer.node_disruption.scheduling.node_filter import ClusterCapacity
from tests.builders.node import HOST, ZONE, make_node, make_requirement, make_taint
from tests.builders.pod import LONG_AGO, apart, beside, make_pod, make_spread, on_nodes

NOW = datetime(2026, 7, 1, tzinfo=UTC)
WEB = {"app": "web"}
NODES = (make_node("a", zone="z1"), make_node("b", zone="z1"), make_node("c", zone="z2"))


def fitting(*documents, **how):
    return ClusterCapacity(read_cluster(documents, NOW), **how)


def fits(found, pod):
    """The names of the nodes that could take a pod, in one word."""
    mask = found.feasible(pod if not isinstance(pod, dict) else read_pod(pod))
    return "".join(name for name, could in zip(found.names, mask, strict=True) if could)


@pytest.mark.parametrize(
    ("node", "pod", "expected"),
    [
        pytest.param({}, {"needs": {"cpu": "4"}}, True, id="exactly-full"),
        pytest.param({}, {"needs": {"cpu": "4001m"}}, False, id="too-much"),
        pytest.param({"has": {"cpu": "0"}}, {"needs": {"cpu": "0"}}, True, id="needs-nothing"),
        pytest.param({}, {"needs": {"a.io/gpu": "1"}}, False, id="resource-that-the-node-has-not"),
        pytest.param({"has": {"a.io/gpu": "1"}}, {"needs": {"a.io/gpu": "1"}}, True, id="extended-resource"),
        pytest.param({"has": {"pods": "0"}}, {}, False, id="no-pods"),
        pytest.param({"unschedulable": True}, {}, False, id="cordoned"),
        pytest.param(
            {"unschedulable": True},
            {"tolerations": [{"key": "node.kubernetes.io/unschedulable", "operator": "Exists"}]},
            True,
            id="cordon-tolerated",
        ),
        pytest.param({"taints": [make_taint("t")]}, {}, False, id="tainted"),
        pytest.param({"taints": [make_taint("t", "NoExecute")]}, {}, False, id="no-execute"),
        pytest.param({"taints": [make_taint("t", "PreferNoSchedule")]}, {}, True, id="a-preference-keeps-nobody-away"),
        pytest.param(
            {"taints": [make_taint("t", value="v")]},
            {"tolerations": [{"key": "t", "value": "v"}]},
            True,
            id="tolerated",
        ),
        pytest.param({"labels": {"x": "1"}}, {"nodeSelector": {"x": "1"}}, True, id="selector"),
        pytest.param({}, {"nodeSelector": {"x": "1"}}, False, id="selector-not-met"),
        pytest.param({"labels": {"x": "5"}}, {"affinity": on_nodes([make_requirement("x", "Gt", "4")])}, True, id="gt"),
        pytest.param(
            {"labels": {"x": "5"}}, {"affinity": on_nodes([make_requirement("x", "Lt", "5")])}, False, id="lt"
        ),
        pytest.param(
            {"labels": {"x": "five"}}, {"affinity": on_nodes([make_requirement("x", "Gt", "4")])}, False, id="no-number"
        ),
        pytest.param(
            {}, {"affinity": on_nodes([make_requirement("x", "NotIn", "4")])}, True, id="not-in-without-label"
        ),
        pytest.param(
            {"zone": "z"},
            {"affinity": on_nodes([make_requirement("x", "Exists")], [make_requirement(ZONE, "Exists")])},
            True,
            id="one-term-will-do",
        ),
        pytest.param(
            {"zone": "z"},
            {"affinity": on_nodes([make_requirement("x", "Exists"), make_requirement(ZONE, "Exists")])},
            False,
            id="all-of-a-term",
        ),
        pytest.param(
            {},
            {
                "affinity": on_nodes(
                    [make_requirement(HOST, "Exists")], fields=[make_requirement("metadata.name", "In", "n")]
                )
            },
            True,
            id="field",
        ),
        pytest.param(
            {},
            {"affinity": on_nodes([], fields=[make_requirement("metadata.name", "NotIn", "n")])},
            False,
            id="field-not-in",
        ),
        pytest.param({}, {"affinity": on_nodes()}, False, id="no-term-at-all"),
    ],
)
def test_a_node_by_itself(node, pod, expected):
    assert fits(fitting(make_node("n", **node)), make_pod("p", **pod)) == ("n" if expected else "")


def test_what_runs_takes_room_until_it_has_finished():
    half = {"needs": {"cpu": "2"}}
    pods = [
        make_pod("daemon", "a", owner="DaemonSet", **half),
        make_pod("done", "b", phase="Succeeded", **half),
        make_pod("ends", "c", deleting=LONG_AGO, **half),
    ]
    assert fits(fitting(*NODES, *pods), make_pod("p", needs={"cpu": "3"})) == "b"


def test_pods_are_counted():
    assert (
        fits(
            fitting(
                make_node("a", has={"pods": "1"}),
                make_node("b", has={"pods": "2"}),
                make_pod("x", "a"),
                make_pod("y", "b"),
            ),
            make_pod("p"),
        )
        == "b"
    )


def test_where_a_pod_runs_is_no_wish():
    assert fits(fitting(*NODES), make_pod("p", "a")) == "abc"


def test_host_ports():
    def taking(name, node="", **port):
        container = {"name": "main", "ports": [{"containerPort": 1, "hostPort": 80, **port}]}
        return make_pod(name, node, containers=[container])

    found = fitting(*NODES, taking("x", "a"), taking("y", "b", hostIP="10.0.0.1"), taking("z", "c", protocol="UDP"))
    assert fits(found, taking("p")) == "c"
    assert fits(found, taking("p", hostIP="10.0.0.2")) == "bc"


class TestAffinity:
    def test_only_beside_the_pods_that_are_wanted(self):
        found = fitting(*NODES, make_pod("x", "a", labels=WEB))
        assert fits(found, make_pod("p", affinity=beside(HOST, WEB))) == "a"
        assert fits(found, make_pod("p", affinity=beside(ZONE, WEB))) == "ab"
        assert fits(found, make_pod("p", affinity=beside("rack", WEB))) == ""
        assert fits(found, make_pod("p", affinity=beside(HOST, None))) == ""
        assert fits(found, make_pod("p", affinity=beside(HOST, {}))) == "a"

    def test_one_pod_must_match_all_terms(self):
        terms = {
            "podAffinity": {
                "requiredDuringSchedulingIgnoredDuringExecution": [
                    beside(ZONE, WEB)["podAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"][0],
                    beside(HOST, {"tier": "1"})["podAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"][0],
                ]
            }
        }
        apart_from_each_other = [make_pod("x", "a", labels=WEB), make_pod("y", "b", labels={"tier": "1"})]
        assert fits(fitting(*NODES, *apart_from_each_other), make_pod("p", affinity=terms)) == ""
        both = make_pod("z", "b", labels={**WEB, "tier": "1"})
        assert fits(fitting(*NODES, *apart_from_each_other, both), make_pod("p", affinity=terms)) == "b"

    def test_the_first_of_a_group_goes_where_the_label_is(self):
        first = make_pod("p", labels=WEB, affinity=beside(ZONE, WEB))
        found = fitting(*NODES, make_node("d"))
        assert fits(found, first) == "abc"
        found.place(read_pod(first), "c")
        assert fits(found, first) == "c"

    def test_somebody_else_s_group_must_be_there(self):
        assert fits(fitting(*NODES), make_pod("p", affinity=beside(ZONE, WEB))) == ""

    def test_apart_from_the_pods_that_are_not_wanted(self):
        found = fitting(*NODES, make_node("d"), make_pod("x", "a", labels=WEB))
        assert fits(found, make_pod("p", affinity=apart(HOST, WEB))) == "bcd"
        assert fits(found, make_pod("p", affinity=apart(ZONE, WEB))) == "cd"

    def test_those_that_run_keep_others_away_too(self):
        found = fitting(*NODES, make_node("d"), make_pod("x", "a", affinity=apart(ZONE, WEB)))
        assert fits(found, make_pod("p", labels=WEB)) == "cd"
        assert fits(found, make_pod("p")) == "abcd"

    def test_pods_that_are_ending_still_count(self):
        found = fitting(*NODES, make_pod("x", "a", labels=WEB, deleting=LONG_AGO))
        assert fits(found, make_pod("p", affinity=beside(HOST, WEB))) == "a"

    @pytest.mark.parametrize(
        ("more", "expected"),
        [
            pytest.param({}, "", id="the-own-namespace"),
            pytest.param({"namespaces": ["other"]}, "a", id="named"),
            pytest.param({"namespaceSelector": {"matchLabels": {"team": "sea"}}}, "a", id="selected"),
            pytest.param({"namespaceSelector": {"matchLabels": {"team": "land"}}}, "", id="others-selected"),
            pytest.param({"namespaceSelector": {}}, "ab", id="all"),
            pytest.param(
                {"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "unknown"}}},
                "b",
                id="not-known-but-named",
            ),
        ],
    )
    def test_namespaces(self, more, expected):
        space = {"kind": "Namespace", "metadata": {"name": "other", "labels": {"team": "sea"}}}
        pods = [make_pod("x", "a", namespace="other", labels=WEB), make_pod("y", "b", namespace="unknown", labels=WEB)]
        assert fits(fitting(*NODES, space, *pods), make_pod("p", affinity=beside(HOST, WEB, **more))) == expected

    def test_a_selector_of_what_namespaces_lack_takes_in_all_of_them_in_own_terms_only(self):
        """As the scheduler of Kubernetes 1.36 has it."""
        space = {"kind": "Namespace", "metadata": {"name": "other", "labels": {"team": "sea"}}}
        lacks = {"namespaceSelector": {"matchExpressions": [make_requirement("team", "DoesNotExist")]}}
        there = make_pod("x", "a", namespace="other", labels=WEB)
        assert fits(fitting(*NODES, space, there), make_pod("p", affinity=apart(HOST, WEB, **lacks))) == "bc"
        keeping = make_pod("x", "a", affinity=apart(HOST, WEB, **lacks))
        assert fits(fitting(*NODES, space, keeping), make_pod("p", namespace="other", labels=WEB)) == "abc"


class TestSpread:
    def spread(self, *constraints, **more):
        return make_pod("p", labels=WEB, topologySpreadConstraints=list(constraints), **more)

    def test_only_where_it_does_not_become_too_uneven(self):
        pods = [make_pod("x", "a", labels=WEB), make_pod("y", "b", labels=WEB)]
        found = fitting(*NODES, make_node("d"), *pods)
        assert fits(found, self.spread(make_spread(ZONE, WEB))) == "c"
        assert fits(found, self.spread(make_spread(ZONE, WEB, 3))) == "abc"
        assert fits(found, self.spread(make_spread(HOST, WEB))) == "cd"
        assert fits(found, self.spread(make_spread(ZONE, WEB), make_spread(HOST, WEB))) == "c"

    def test_whom_the_constraint_does_not_select_does_not_add_to_it(self):
        found = fitting(*NODES, make_pod("x", "a", labels=WEB))
        other = make_pod("p", topologySpreadConstraints=[make_spread(ZONE, WEB)])
        assert fits(found, other) == "abc"

    def test_pods_that_are_ending_or_elsewhere_do_not_count(self):
        pods = [make_pod("x", "a", labels=WEB, deleting=LONG_AGO), make_pod("y", "b", namespace="other", labels=WEB)]
        assert fits(fitting(*NODES, *pods), self.spread(make_spread(HOST, WEB))) == "abc"

    @pytest.mark.parametrize(
        ("more", "expected"),
        [
            pytest.param({}, "abc", id="two-are-enough"),
            pytest.param({"minDomains": 2}, "abc", id="there-are-two"),
            pytest.param({"minDomains": 3}, "", id="fewest-counts-as-none"),
        ],
    )
    def test_min_domains(self, more, expected):
        pods = [make_pod("x", "a", labels=WEB), make_pod("y", "c", labels=WEB)]
        assert fits(fitting(*NODES, *pods), self.spread(make_spread(ZONE, WEB, **more))) == expected

    @pytest.mark.parametrize(
        ("more", "expected"),
        [
            pytest.param({}, "ab", id="honor"),
            pytest.param({"nodeAffinityPolicy": "Ignore"}, "", id="ignore"),
        ],
    )
    def test_nodes_that_the_pod_cannot_have_count_only_where_affinity_is_ignored(self, more, expected):
        wish = on_nodes([make_requirement(ZONE, "In", "z1")])
        found = fitting(*NODES, make_pod("x", "a", labels=WEB))
        assert fits(found, self.spread(make_spread(ZONE, WEB, **more), affinity=wish)) == expected

    @pytest.mark.parametrize(
        ("more", "expected"),
        [
            pytest.param({}, "", id="ignore"),
            pytest.param({"nodeTaintsPolicy": "Honor"}, "a", id="honor"),
        ],
    )
    def test_nodes_with_taints_count_unless_those_are_honored(self, more, expected):
        nodes = [make_node("a", zone="z1"), make_node("b", zone="z2", taints=[make_taint("t")])]
        found = fitting(*nodes, make_pod("x", "a", labels=WEB))
        assert fits(found, self.spread(make_spread(ZONE, WEB, **more))) == expected

    @pytest.mark.parametrize("labels", [None, {}])
    def test_a_selector_of_nothing_or_of_everything_counts_nobody(self, labels):
        pods = [make_pod(f"x{number}", "a", labels=WEB) for number in range(3)]
        assert fits(fitting(*NODES, *pods), self.spread(make_spread(HOST, labels))) == "abc"

    def test_nodes_must_have_the_labels_of_all_constraints_to_count(self):
        nodes = [make_node("a", zone="z1", labels={"rack": "1"}), make_node("b", zone="z2")]
        found = fitting(*nodes, make_pod("x", "a", labels=WEB))
        assert fits(found, self.spread(make_spread(ZONE, WEB))) == "b"
        assert fits(found, self.spread(make_spread(ZONE, WEB), make_spread("rack", WEB))) == "a"

    def test_a_wish_is_no_constraint(self):
        found = fitting(*NODES, make_pod("x", "a", labels=WEB))
        assert fits(found, self.spread(make_spread(HOST, WEB) | {"whenUnsatisfiable": "ScheduleAnyway"})) == "abc"


class TestStates:
    def test_what_is_placed_counts_until_it_is_removed(self):
        found = fitting(*NODES)
        pod = read_pod(make_pod("p", labels=WEB, needs={"cpu": "3"}, affinity=apart(ZONE, WEB)))
        assert fits(found, pod) == "abc"
        found.place(pod, "a")
        assert fits(found, pod) == "c"
        found.remove(pod, "a")
        assert fits(found, pod) == "abc"

    def test_nodes_that_go_take_their_pods_along(self):
        found = fitting(*NODES, make_pod("x", "a", labels=WEB))
        wish = make_pod("p", affinity=beside(ZONE, WEB))
        assert fits(found.without(["a", "gone"]), wish) == ""
        assert fits(found, wish) == "ab"
        assert fits(found.without(["a"]), make_pod("p")) == "bc"
        assert found.without(["a"]).size == 2

    def test_domains_go_with_their_last_node(self):
        pods = [make_pod("x", "a", labels=WEB), make_pod("y", "b", labels=WEB)]
        found = fitting(*NODES, *pods)
        even = make_pod("p", labels=WEB, topologySpreadConstraints=[make_spread(ZONE, WEB)])
        assert fits(found, even) == "c"
        assert fits(found.without(["c"]), even) == "ab"

    def test_closed_nodes_keep_their_pods_and_take_no_more(self):
        found = fitting(*NODES, make_pod("x", "a", labels=WEB), closed=["a"])
        assert fits(found, make_pod("p", affinity=beside(ZONE, WEB))) == "b"
        assert fits(found.without([], closed=["b"]), make_pod("p")) == "c"

    def test_a_state_and_what_is_made_of_it_do_not_touch_each_other(self):
        found = fitting(*NODES)
        large = read_pod(make_pod("p", labels=WEB, needs={"cpu": "4"}, affinity=apart(HOST, WEB)))
        found.feasible(large)
        other = found.without(["c"])
        other.place(large, "a")
        found.place(large, "b")
        assert (fits(other, large), fits(found, large)) == ("b", "ac")

    def test_a_state_that_changes_leaves_alone_what_was_made_of_it_before(self):
        found = fitting(*NODES)
        large = read_pod(make_pod("p", labels=WEB, needs={"cpu": "4"}, affinity=apart(HOST, WEB)))
        found.place(large, "a")
        other = found.without([])
        found.place(large, "b")
        assert (fits(other, large), fits(found, large)) == ("bc", "c")

    def test_pods_that_come_to_nodes_without_the_label_are_in_no_domain(self):
        found = fitting(*NODES, make_node("d"), make_node("e"), make_pod("x", "a", labels=WEB))
        wanting, avoiding = make_pod("p", affinity=beside(ZONE, WEB)), make_pod("q", affinity=apart(ZONE, WEB))
        assert (fits(found, wanting), fits(found, avoiding)) == ("ab", "cde")
        found.place(read_pod(make_pod("y", labels=WEB)), "d")
        assert (fits(found, wanting), fits(found, avoiding)) == ("ab", "cde")

    def test_unknown_nodes(self):
        with pytest.raises(KeyError):
            fitting(*NODES).place(read_pod(make_pod("p")), "gone")


def test_reasons_are_those_of_the_first_check_that_fails():
    nodes = [
        make_node("cordoned", unschedulable=True, taints=[make_taint("t")]),
        make_node("tainted", taints=[make_taint("t")]),
        make_node("small", has={"cpu": "1", "memory": "1"}),
        make_node("full", has={"pods": "0"}),
        make_node("bare"),
        make_node("shut"),
    ]
    spread = make_spread(ZONE, WEB)
    pod = read_pod(make_pod("p", needs={"cpu": "2", "memory": "1Gi"}, topologySpreadConstraints=[spread]))
    assert fitting(*nodes, closed=["shut"]).reasons(pod) == {
        "Insufficient cpu": 1,
        "Insufficient memory": 1,
        "Too many pods": 1,
        "node(s) didn't match pod topology spread constraints (missing required label)": 1,
        "node(s) had untolerated taint(s)": 1,
        "node(s) accept no more pods": 1,
        "node(s) were unschedulable": 1,
    }


def test_an_empty_cluster_takes_nothing():
    found = fitting()
    assert (fits(found, make_pod("p")), found.size, found.names) == ("", 0, ())
