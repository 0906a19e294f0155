"""A second hub takes a member of the fleet for its own: the agent that is second touches nothing of the first hub's.

The agent of the second hub runs in the same namespace of the member as the first one and finds its record, or in
another namespace, where only the AppliedWorks show whose the cluster is.
"""

import contextlib
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from e2e.conftest import running_hub
from e2e.controlplane.cluster import Cluster, Etcd, JsonObject
from e2e.controlplane.process import kill
from e2e.fleet.bed import ACCOUNT, COLLECTORS, HEARTBEAT_SECONDS, QUICK, Fleet, grant
from e2e.fleet.objects import (
    CONFIG_MAP,
    Objects,
    condition_of,
    make_config_map,
    make_namespace,
    make_placement,
    pick_fixed,
)
from e2e.fleet.processes import SYSTEM, Agent, Reconciler
from e2e.fleet.settled import assert_settled
from e2e.fleet.waiting import wait_until
from scorer.api.kinds import APPLIED_WORK, KINDS, MEMBER_CLUSTER, NAMESPACE, PLACEMENT

FIRST, SECOND, ELSEWHERE = "smartfish", "annex", "second-system"
"""The member, as each of the hubs calls it, and the namespace of an agent that is installed beside the first one."""
SERVICE_ACCOUNT = KINDS["", "ServiceAccount"]
RBAC = "rbac.authorization.k8s.io"
ROLE_BINDING, CLUSTER_ROLE_BINDING = KINDS[RBAC, "RoleBinding"], KINDS[RBAC, "ClusterRoleBinding"]


class SecondHub:
    """A hub of its own with a loop, for which the member of the first hub is to be a member, too.

    Args:
        hub: The cluster; our definitions are there.
        fleet: With the first hub.
        folder: For logs.
    """

    def __init__(self, hub: Cluster, fleet: Fleet, folder: Path) -> None:
        self.hub = hub
        self.objects = Objects(hub)
        self._fleet = fleet
        self._folder = folder
        grant(hub, "reconcile", ACCOUNT)
        self.loop = Reconciler(hub.write_kubeconfig("loop", hub.token_of(SYSTEM, ACCOUNT)), folder, "second", QUICK)

    @contextlib.contextmanager
    def agent(self, home: str) -> Iterator[Agent]:
        """Have an agent of this hub run in namespace *home* of the member, and the MemberCluster leave at the end."""
        self.objects.apply([_account("member", SYSTEM)])
        identity = {"kind": "ServiceAccount", "name": "member", "namespace": SYSTEM, "apiGroup": ""}
        self.objects.create(
            {
                "apiVersion": MEMBER_CLUSTER.api_version,
                "kind": MEMBER_CLUSTER.kind,
                "metadata": {"name": SECOND},
                "spec": {"identity": identity, "heartbeatPeriodSeconds": HEARTBEAT_SECONDS},
            }
        )
        wait_until("the second hub lets the agent in", self._closed)
        member = self._fleet.members[FIRST]
        token = self._fleet.agent_token(FIRST) if home == SYSTEM else _install_beside(member.objects)
        agent = Agent(
            SECOND,
            self.hub.write_kubeconfig("agent", self.hub.token_of(SYSTEM, "member")),
            member.cluster.write_kubeconfig("second-agent", token),
            self._folder / home,
            {},
        )
        agent.start(wait=False)
        try:
            yield agent
        finally:
            for item in self.objects.all(PLACEMENT):
                self.objects.delete(PLACEMENT, item["metadata"]["name"])
            wait_until("placements go", lambda: str([item["metadata"] for item in self.objects.all(PLACEMENT)] or ""))
            self.objects.delete(MEMBER_CLUSTER, SECOND)
            wait_until("it leaves", lambda: "it is there" if self.objects.find(MEMBER_CLUSTER, SECOND) else "")
            agent.stop()
            _take_off(member.objects)

    def place(self, name: str, home: str) -> None:
        """Place a namespace *home*, with other content than the first hub has, on the member."""
        self.objects.create(make_namespace(home))
        self.objects.create(make_config_map("settings", home, colour="second"))
        self.objects.create(make_placement(name, pick_fixed(SECOND), home=home))

    def identity(self) -> JsonObject:
        """Whether the cluster is accepted as the member, as its MemberCluster says."""
        return condition_of(self.objects.get(MEMBER_CLUSTER, SECOND), "IdentityAccepted")

    def _closed(self) -> str:
        binding = self.objects.find(ROLE_BINDING, f"fleet-rolebinding-{SECOND}", f"fleet-member-{SECOND}")
        return "" if binding else self.loop.program.last_words()


def _account(name: str, namespace: str) -> JsonObject:
    return {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": name, "namespace": namespace}}


def _install_beside(member: Objects) -> str:
    """Install the account of an agent in a namespace of its own; return a token."""
    role = {"apiGroup": RBAC, "kind": "ClusterRole", "name": "cluster-admin"}
    binding = {
        "apiVersion": f"{RBAC}/v1",
        "kind": "ClusterRoleBinding",
        "metadata": {"name": ELSEWHERE},
        "roleRef": role,
        "subjects": [{"kind": "ServiceAccount", "name": "agent", "namespace": ELSEWHERE}],
    }
    member.apply([make_namespace(ELSEWHERE), _account("agent", ELSEWHERE), binding])
    return member.cluster.token_of(ELSEWHERE, "agent")


def _take_off(member: Objects) -> None:
    member.delete(CLUSTER_ROLE_BINDING, ELSEWHERE)
    member.delete(NAMESPACE, ELSEWHERE)
    wait_until("it is taken off", lambda: "it is there" if member.find(NAMESPACE, ELSEWHERE) else "")


@pytest.fixture(scope="module")
def second(fleet: Fleet, programs: Mapping[str, Path], folder: Path, etcd: Etcd) -> Iterator[SecondHub]:
    with running_hub(programs, folder, etcd, "second-hub") as hub:
        hub.start_controller_manager(COLLECTORS)
        found = SecondHub(hub, fleet, folder / "second")
        found.loop.start()
        try:
            yield found
        finally:
            kill(found.loop.program)


@pytest.fixture(scope="module", autouse=True)
def _left_as_it_was(fleet: Fleet) -> Iterator[None]:
    yield
    assert_settled(fleet)


def live(fleet: Fleet, home: str) -> tuple[str, JsonObject]:
    """The uid and the data of what is placed."""
    found = fleet.members[FIRST].objects.get(CONFIG_MAP, "settings", home)
    return found["metadata"]["uid"], found["data"]


@pytest.mark.parametrize(
    ("home", "said"),
    [
        pytest.param(SYSTEM, f"this cluster is recorded as member {FIRST} of hub ", id="same-namespace"),
        pytest.param(ELSEWHERE, f"this cluster holds objects placed for member {FIRST} of hub ", id="beside"),
    ],
)
def test_the_agent_of_a_second_hub_is_refused_and_touches_nothing(fleet, scene, second, home, said):
    shared = f"e2e-two-hubs-{home}"
    scene.home(shared, make_placement(shared, pick_fixed(FIRST)), colour="first")
    assert_settled(fleet)
    before = live(fleet, shared)
    with second.agent(home) as agent:
        second.place(shared, shared)

        def problem() -> str:
            found = second.identity()
            wanted = (found.get("status"), found.get("reason")) == ("False", "ClusterOfAnother")
            return "" if wanted and found["message"].startswith(said) else str(found)

        wait_until("the second hub is told whose the cluster is", problem)
        scheduled = condition_of(second.objects.get(PLACEMENT, shared), f"{PLACEMENT.kind}Scheduled")
        assert scheduled["status"] == "False"
        assert not agent.ready()
        assert live(fleet, shared) == before
    assert live(fleet, shared) == before  # the second hub has let its member go by now
    assert_settled(fleet)
    second.objects.delete(NAMESPACE, shared)


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        pytest.param("e2e-two-hubs", "AppliedWorkOfAnother", id="placements-of-one-name"),
        pytest.param("e2e-two-hubs-other", "FailedToTakeOver", id="placements-of-two-names"),
    ],
)
def test_an_object_that_two_hubs_place_stays_with_the_hub_that_was_first(fleet, scene, second, name, reason):
    """An agent beside the first one joins where nothing was placed yet; each hub sees whose the object is."""
    shared = "e2e-two-hubs"
    member = fleet.members[FIRST].objects
    wait_until("nothing is placed", lambda: str([each["metadata"]["name"] for each in member.all(APPLIED_WORK)] or ""))
    with second.agent(ELSEWHERE) as agent:
        agent.wait_ready()
        second.place(shared, shared)
        wait_until("it is placed", lambda: "" if member.find(CONFIG_MAP, "settings", shared) else "it is not there")
        uid, data = live(fleet, shared)
        assert data == {"colour": "second"}
        scene.home(shared, make_placement(name, pick_fixed(FIRST), home=shared), colour="first")

        def problem() -> str:
            statuses = (fleet.on_hub.get(PLACEMENT, name).get("status") or {}).get("placementStatuses") or [{}]
            failed = {each["condition"]["reason"] for each in statuses[0].get("failedPlacements") or ()}
            return "" if failed == {reason} else str(statuses)

        wait_until("the first hub is told whose the object is", problem)
        assert live(fleet, shared) == (uid, data)
        second.objects.delete(PLACEMENT, shared)
        wait_until("the first hub has it", lambda: "" if placed_by_the_first(fleet, shared) else "it has not")
    assert_settled(fleet)
    second.objects.delete(NAMESPACE, shared)


def placed_by_the_first(fleet: Fleet, home: str) -> bool:
    found = fleet.members[FIRST].objects.find(CONFIG_MAP, "settings", home)
    return found is not None and found["data"] == {"colour": "first"}
