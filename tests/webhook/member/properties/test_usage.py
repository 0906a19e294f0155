"""Sums over nodes and pods that follow the changes."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scorer.api.values.quantity import NANO, format_binary_quantity, format_quantity, parse_quantity
from webhook.kube.ports import Key
from webhook.member.properties.usage import SKU_LABEL, Usage, read_pod


def make_node(name, cpu="4", memory="16Gi", sku="", region=""):
    labels = {SKU_LABEL: sku} if sku else {}
    labels |= {"topology.kubernetes.io/region": region} if region else {}
    return {
        "metadata": {"name": name, "labels": labels},
        "spec": {"unschedulable": True},
        "status": {
            "capacity": {"cpu": cpu, "memory": memory, "pods": "110"},
            "allocatable": {"cpu": cpu, "memory": memory},
        },
    }


def make_pod(name, *cpus, node="a", phase="Running", **more):
    containers = [{"name": str(n), "resources": {"requests": {"cpu": cpu}}} for n, cpu in enumerate(cpus)]
    spec = {"containers": containers, **({"nodeName": node} if node else {}), **more}
    return {"metadata": {"name": name, "namespace": "default"}, "spec": spec, "status": {"phase": phase}}


@pytest.mark.parametrize(
    ("pod", "nano"),
    [
        pytest.param(make_pod("p", "250m", "1"), 1_250_000_000, id="containers-are-added"),
        pytest.param(make_pod("p", "1", node=""), None, id="without-a-node-it-does-not-count"),
        pytest.param(make_pod("p", "1", phase="Succeeded"), None, id="succeeded"),
        pytest.param(make_pod("p", "1", phase="Failed"), None, id="failed"),
        pytest.param(make_pod("p", "1", phase="Pending"), NANO, id="pending-on-a-node-counts"),
        pytest.param(make_pod("p", "1", phase="Unknown"), NANO, id="unknown-counts"),
        pytest.param(
            make_pod("p", "1", initContainers=[{"resources": {"requests": {"cpu": "8"}}}], overhead={"cpu": "2"}),
            NANO,
            id="init-containers-and-overhead-do-not",
        ),
        pytest.param({**make_pod("p", "1"), "metadata": {"name": "p", "deletionTimestamp": "x"}}, NANO, id="ending"),
        pytest.param(make_pod("p", "no number"), 0, id="nonsense-is-nothing"),
        pytest.param(make_pod("p", "1n"), 1, id="the-smallest-amount"),
    ],
)
def test_what_a_pod_takes(pod, nano):
    amounts = read_pod(pod)
    assert (None if amounts is None else amounts.cpu) == nano


def test_available_is_what_the_pods_leave_and_never_below_zero():
    usage = Usage()
    usage.put_node(make_node("a", "2"))
    usage.put_pod(make_pod("p", "1500m"))
    assert usage.available == {"cpu": "500m", "memory": "16Gi"}
    usage.put_pod(make_pod("q", "1500m"))
    assert usage.available["cpu"] == "0"
    usage.drop_pod(Key("p", "default"))
    assert usage.available["cpu"] == "500m"


def test_no_cluster_is_zero():
    assert (Usage().capacity, Usage().node_count) == ({"cpu": "0", "memory": "0"}, 0)


def test_skus_and_region():
    usage = Usage()
    usage.replace_nodes([make_node("b", sku="small", region="north"), make_node("a"), make_node("c", sku="small")])
    assert usage.skus == {"small": 2, "undefined": 1}
    assert usage.region == "north"
    revision = usage.node_revision
    usage.put_node(make_node("a"))
    assert usage.node_revision == revision
    usage.put_node(make_node("a", sku="large"))
    assert usage.node_revision == revision + 1
    assert usage.skus == {"large": 1, "small": 2}


amounts = st.one_of(
    st.integers(0, 10**6).map(lambda number: f"{number}m"),
    st.integers(0, 128).map(str),
    st.integers(0, 4096).map(lambda number: f"{number}Mi"),
    st.integers(0, 10**9).map(lambda number: f"{number}n"),
)
names = st.sampled_from("abcd")
nodes = st.builds(make_node, names, amounts, amounts, st.sampled_from(["", "small", "large"]))
pods = st.builds(
    make_pod, names, amounts, node=st.sampled_from(["", "a"]), phase=st.sampled_from(["Running", "Failed", "Pending"])
)
steps = st.lists(
    st.one_of(
        st.tuples(st.just("put_node"), nodes),
        st.tuples(st.just("drop_node"), names),
        st.tuples(st.just("replace_nodes"), st.lists(nodes, max_size=4)),
        st.tuples(st.just("put_pod"), pods),
        st.tuples(st.just("drop_pod"), names),
        st.tuples(st.just("replace_pods"), st.lists(pods, max_size=4)),
    ),
    max_size=30,
)


@given(steps)
def test_following_the_changes_comes_to_the_same_as_adding_up_anew(steps):
    usage, known_nodes, known_pods = Usage(), {}, {}
    for step, value in steps:
        known = known_nodes if "node" in step else known_pods
        if step.startswith("put"):
            known[value["metadata"]["name"]] = value
        elif step.startswith("drop"):
            known.pop(value, None)
            value = Key(value, "default") if known is known_pods else value
        else:
            known.clear()
            known |= {item["metadata"]["name"]: item for item in value}
        getattr(usage, step)(value)

    def total(part, resource):
        return sum(parse_quantity(node["status"][part][resource]).nano for node in known_nodes.values())

    requested = sum(
        parse_quantity(container["resources"]["requests"]["cpu"]).nano
        for pod in known_pods.values()
        if pod["spec"].get("nodeName") and pod["status"]["phase"] != "Failed"
        for container in pod["spec"]["containers"]
    )
    assert usage.node_count == len(known_nodes)
    assert usage.capacity == {
        "cpu": format_quantity(total("capacity", "cpu")),
        "memory": format_binary_quantity(total("capacity", "memory")),
    }
    assert usage.available["cpu"] == format_quantity(max(0, total("allocatable", "cpu") - requested))
    assert sum(usage.skus.values()) == len(known_nodes)
    assert all(usage.skus.values())
