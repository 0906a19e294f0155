"""The back end for Cluster API: what it reads of a hub, what it remembers, and what it says before a start."""

from copy import deepcopy
from datetime import timedelta
from types import SimpleNamespace

import pytest

from scorer.api.kinds import MEMBER_CLUSTER, Kind
from scorer.api.meta import parse_time
from scorer.api.upgrade.fields import UpgradeType
from scorer.upgrade.back_ends.interface import Operation, OperationState, Started, Target
from tests.builders.cluster_api import (
    LONG_AGO,
    WITH_POOLS,
    make_class,
    make_cluster,
    make_control_plane,
    make_deployment,
    make_pool,
    with_topology,
)
from webhook.controllers.upgraders.cluster_api import ClusterApi
from webhook.controllers.upgraders.upgrader import MemberRef, Workplace
from webhook.kube.ports import NotFoundError

BEGIN = parse_time(LONG_AGO) + timedelta(days=3)
GROUP = "cluster.x-k8s.io"
ANNOTATIONS = {"harbormaster.dev/capi-cluster": "quays/c1", "harbormaster.dev/capi-image-variable": "image"}
CLASS = make_class(
    variables=[{"name": "image", "schema": {"openAPIV3Schema": {"default": "150"}}}],
    upgrade={"external": {"generateUpgradePlanExtension": "plan.x"}},
)


class Store:
    """Holds objects by kind and name."""

    def __init__(self, *documents):
        self.objects = {(each["kind"], each["metadata"]["name"]): each for each in documents}

    async def get(self, kind, key):
        if (kind.kind, key.name) not in self.objects:
            raise NotFoundError(key.name)
        return deepcopy(self.objects[kind.kind, key.name])

    async def list(self, kind, _namespace, _labels):
        return SimpleNamespace(items=[each for (name, _), each in self.objects.items() if name == kind.kind])

    async def replace(self, kind, document):
        before = self.objects[kind.kind, document["metadata"]["name"]]
        generation = before["metadata"]["generation"] + (before["spec"] != document["spec"])
        metadata = {**document["metadata"], "generation": generation, "resourceVersion": str(generation)}
        self.objects[kind.kind, document["metadata"]["name"]] = {**document, "metadata": metadata}


class World:
    """One member whose Cluster is on the hub."""

    def __init__(self, **conditions):
        cluster = make_cluster(**conditions)
        self.store = Store(
            *(cluster, make_control_plane(), make_deployment("blue"), make_deployment("red")),
            *(make_pool("green"), CLASS),
        )
        self.now = BEGIN
        self.member = MemberRef("c1", {}, ANNOTATIONS)
        kinds = ("Cluster", "MachineDeployment", "MachinePool", "ClusterClass")
        served = {(GROUP, name): Kind(GROUP, ("v1beta2",), name, name.lower() + "s", namespaced=True) for name in kinds}
        plane = ("controlplane." + GROUP, "KubeadmControlPlane")
        served[plane] = Kind(plane[0], ("v1beta2",), plane[1], "kubeadmcontrolplanes", namespaced=True)
        hub = SimpleNamespace(store=self.store, cache=self)
        self.back_end = ClusterApi(Workplace(hub, lambda: self.now, SimpleNamespace(kinds=served)))

    def get(self, kind, name):
        assert kind is MEMBER_CLUSTER
        return {"metadata": {"name": name, "annotations": ANNOTATIONS}}

    @property
    def cluster(self):
        return self.store.objects["Cluster", "c1"]

    def say(self, reason):
        """Have the topology be unreconciled for some reason since long ago."""
        for each in self.cluster["status"]["conditions"]:
            if each["type"] == "TopologyReconciled":
                each |= {"status": "False", "reason": reason}
        self.cluster["metadata"]["resourceVersion"] += "0"

    async def state(self, operation, **passed):
        self.now += timedelta(**passed)
        return (await self.back_end.observe(operation)).state


@pytest.fixture
def world():
    return World(**WITH_POOLS)


def operation(kind=UpgradeType.FULL, **images):
    version = "" if kind is UpgradeType.NODE_IMAGE_ONLY else "1.31.2"
    return Operation("uid/c1/1", "r", "c1", "cluster-api", 1, Target(kind, version, images))


async def test_a_class_says_whether_upgrades_are_chained_and_which_image_is_the_default(world):
    world.store.objects["Cluster", "c1"] = with_topology(world.cluster, variables=[])
    found = await world.back_end.inspect(world.member)
    assert (found.chained, found.busy) == (True, "")
    assert {pool.name: pool.image for pool in found.pools} == dict.fromkeys(("blue", "red", "green"), "150")


async def test_an_error_of_the_topology_fails_an_upgrade_when_it_stays(world):
    full = operation()
    assert await world.back_end.start_upgrade(full) is Started.ACCEPTED
    world.say("ClusterUpgrading")
    assert await world.state(full) is OperationState.IN_PROGRESS
    world.say("ReconcileFailed")
    assert await world.state(full, minutes=1) is OperationState.IN_PROGRESS, "for the first time in days"
    world.say("ClusterUpgrading")
    assert await world.state(full, minutes=9) is OperationState.IN_PROGRESS
    world.say("ReconcileFailed")
    assert await world.state(full, minutes=1) is OperationState.IN_PROGRESS
    assert await world.state(full, minutes=10) is OperationState.IN_PROGRESS
    assert (await world.back_end.inspect(world.member)).ready
    assert await world.state(full, seconds=1) is OperationState.FAILED
    assert not (await world.back_end.inspect(world.member)).ready


async def test_a_process_that_starts_counts_anew(world):
    full = operation()
    await world.back_end.start_upgrade(full)
    world.say("ReconcileFailed")
    assert await world.state(full) is OperationState.IN_PROGRESS
    again = World()
    again.store.objects, again.now = world.store.objects, world.now + timedelta(minutes=11)
    assert await again.state(full) is OperationState.IN_PROGRESS
    assert await again.state(full, minutes=11) is OperationState.FAILED


async def test_a_new_image_is_not_done_at_the_moment_it_is_ordered(world):
    image = operation(UpgradeType.NODE_IMAGE_ONLY, linux="200")
    assert await world.back_end.start_upgrade(image) is Started.ACCEPTED
    assert await world.state(image) is OperationState.IN_PROGRESS, "nobody has seen it"
    for each in (world.cluster["status"], *world.cluster["status"]["conditions"]):
        each["observedGeneration"] = 2
    blue = world.store.objects["MachineDeployment", "c1-blue"]
    blue["metadata"]["generation"] = 2
    assert await world.state(image) is OperationState.IN_PROGRESS, "it is passed on, and not rolled out"
    blue["status"]["observedGeneration"] = 2
    assert await world.state(image) is OperationState.SUCCEEDED


@pytest.mark.parametrize(
    ("annotations", "reason", "code"),
    [
        pytest.param({"harbormaster.dev/capi-image-variable": ""}, "", "NoImageVariable", id="no-variable"),
        pytest.param({}, "MachineDeploymentsUpgradeDeferred", "WorkersHeld", id="held"),
    ],
)
async def test_what_keeps_images_from_changing_is_said_before_the_start(world, annotations, reason, code):
    if reason:
        world.say(reason)
    member = MemberRef("c1", {}, {**ANNOTATIONS, **annotations})
    found = await world.back_end.preflight(member, Target(UpgradeType.NODE_IMAGE_ONLY))
    assert [each.code for each in found] == [code]


async def test_what_an_image_was_asked_for_is_told(world):
    """Images that are published meanwhile do not make an upgrade incomplete."""
    operation = Operation(
        "u/c1/1", "r", "c1", "cluster-api", 1, Target(UpgradeType.NODE_IMAGE_ONLY, "", {"linux": "200"})
    )
    assert await world.back_end.start_upgrade(operation) is Started.ACCEPTED
    (asked,) = (await world.back_end.observe(operation)).asked
    assert (asked.family, asked.version) == ("linux", "200")
