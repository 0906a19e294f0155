"""What a pod needs, container by container.

The scheduler's own figures are compared in e2e/nodes/test_pod_fitting.py.
"""

import pytest

from scorer.node_disruption.cluster.pod import read_pod
from scorer.node_disruption.cluster.resources import amounts, pod_requests, total
from tests.builders.pod import make_pod


def container(name="main", **needs):
    return {"name": name, "resources": {"requests": needs}}


def sidecar(name, **needs):
    return {**container(name, **needs), "restartPolicy": "Always"}


def needed(containers, starting=(), **spec):
    found = pod_requests(make_pod("p", containers=containers, initContainers=list(starting), **spec))
    assert found.pop("pods") == 1
    return found


@pytest.mark.parametrize(
    ("containers", "starting", "spec", "expected"),
    [
        pytest.param(
            [container(cpu="1"), container(cpu="250m", memory="1Gi")],
            [],
            {},
            {"cpu": 1250, "memory": 2**30},
            id="containers-add-up",
        ),
        pytest.param(
            [container(cpu="1")],
            [container(cpu="3"), container(cpu="2")],
            {},
            {"cpu": 3000},
            id="the-largest-start-counts",
        ),
        pytest.param([container(cpu="4")], [container(cpu="3")], {}, {"cpu": 4000}, id="a-small-start-does-not"),
        pytest.param([container(cpu="1")], [sidecar("s", cpu="2")], {}, {"cpu": 3000}, id="a-sidecar-goes-on"),
        pytest.param(
            [container(cpu="1")],
            [sidecar("s", cpu="2"), container(cpu="4")],
            {},
            {"cpu": 6000},
            id="a-start-beside-a-sidecar",
        ),
        pytest.param(
            [container(cpu="1")],
            [container(cpu="4"), sidecar("s", cpu="2")],
            {},
            {"cpu": 4000},
            id="a-start-before-a-sidecar",
        ),
        pytest.param([container(cpu="1")], [], {"overhead": {"cpu": "100m"}}, {"cpu": 1100}, id="overhead"),
        pytest.param(
            [container(cpu="1", memory="1Gi")],
            [],
            {"resources": {"requests": {"cpu": "3"}}},
            {"cpu": 3000, "memory": 2**30},
            id="the-pod-as-a-whole-wins",
        ),
        pytest.param(
            [container(cpu="1")],
            [],
            {"resources": {"requests": {"cpu": "3"}}, "overhead": {"cpu": "1"}},
            {"cpu": 4000},
            id="overhead-comes-on-top",
        ),
        pytest.param([container(**{"a.io/gpu": "2"})], [], {}, {"a.io/gpu": 2}, id="extended"),
        pytest.param([container(gpu="2", pods="7")], [], {}, {}, id="what-the-scheduler-does-not-know"),
        pytest.param([container(cpu="100u"), container(cpu="100u")], [], {}, {"cpu": 1}, id="rounded-up-once"),
        pytest.param([container(cpu=2, memory=1.5)], [], {}, {"cpu": 2000, "memory": 2}, id="numbers-of-a-file"),
        pytest.param([container(cpu="many", memory=True)], [], {}, {}, id="no-quantity-counts-as-absent"),
        pytest.param(
            [{"name": "main", "resources": {"limits": {"cpu": "2"}}}], [], {}, {"cpu": 2000}, id="limits-stand-in"
        ),
        pytest.param([{"name": "main", "resources": 7}, 8], [9], {"overhead": "x"}, {}, id="wrong-types"),
    ],
)
def test_needs(containers, starting, spec, expected):
    assert needed(containers, starting, **spec) == expected


@pytest.mark.parametrize(
    ("status", "pending", "taken"),
    [
        pytest.param({}, "", 1000, id="as-requested"),
        pytest.param({"resources": {"requests": {"cpu": "2"}}}, "", 2000, id="not-yet-smaller"),
        pytest.param({"resources": {"requests": {"cpu": "500m"}}}, "", 1000, id="not-yet-larger"),
        pytest.param(
            {"resources": {"requests": {"cpu": "500m"}}, "allocatedResources": {"cpu": "3"}}, "", 3000, id="granted"
        ),
        pytest.param({"resources": {"requests": {"cpu": "500m"}}}, "Infeasible", 500, id="never-larger"),
    ],
)
def test_what_a_pod_takes_while_it_is_resized(status, pending, taken):
    """The most of what is asked for, in force, and granted; a wish that cannot be met does not count."""
    document = make_pod("p", "n", containers=[container(cpu="1")])
    document["status"]["containerStatuses"] = [{"name": "main", **status}]
    document["status"]["conditions"] = [{"type": "PodResizePending", "reason": pending}]
    pod = read_pod(document)
    assert pod.usage_on("n")["cpu"] == taken
    assert pod.usage_on("other")["cpu"] == pod.requests["cpu"] == 1000


def test_amounts_are_whole_numbers_that_can_be_added():
    assert amounts({"cpu": "1500m", "memory": "1Ki", "pods": "110", "x": []}) == {
        "cpu": 1500,
        "memory": 1024,
        "pods": 110,
    }
    assert amounts({"memory": "9E"}) == amounts({"memory": "1e40"}) == {"memory": 2**50}
    assert total(({"cpu": 1}, {"cpu": 2, "memory": 3}, {})) == {"cpu": 3, "memory": 3}
