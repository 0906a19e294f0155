"""A fleet of real API servers: one hub and three members, an agent for each, and replicas of the loop.

Everybody has exactly the rights that ``harbormaster rbac`` prints, on the hub and on the members; an agent has on the
hub only what the loop grants to the identity of its MemberCluster. The members are three of the example fleet, with as
many nodes as are written there.
"""

import contextlib
import json
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

import yaml

from e2e.controlplane.cluster import Cluster, Etcd, JsonObject, Place, User
from e2e.controlplane.fault_proxy import FaultProxy
from e2e.controlplane.printed import printed, printed_with
from e2e.controlplane.process import PATIENCE, kill
from e2e.fleet.objects import Objects, condition_of, make_namespace
from e2e.fleet.processes import LEASE, SYSTEM, Agent, Reconciler
from e2e.fleet.waiting import wait_until
from e2e.fleet.workloads import Workloads
from scorer.api.kinds import APPLIED_WORK, KINDS, MEMBER_CLUSTER

EXAMPLES = Path(__file__).parents[2] / "examples" / "fleet"
MEMBERS = ("bravelion", "jumpingcat", "smartfish")
ACCOUNT = "harbormaster-reconcile"
LOOP_USER = f"system:serviceaccount:{SYSTEM}:{ACCOUNT}"
SECOND_ACCOUNT = "harbormaster-second"
SECOND_LOOP_USER = f"system:serviceaccount:{SYSTEM}:{SECOND_ACCOUNT}"
"""For a second replica, where a test has to know which of two wrote something."""
AGENT_USER = f"system:serviceaccount:{SYSTEM}:harbormaster-agent"
HEARTBEAT_SECONDS = 3
LEASES = KINDS["coordination.k8s.io", "Lease"]
COLLECTORS = ("garbage-collector-controller", "namespace-controller")

QUICK: Mapping[str, Any] = {
    "resource_snapshot_interval_seconds": 0,
    "resource_collection_seconds": 0.5,
}
"""Changed content waits for half a second, not for half a minute."""

InstallDefinitions = Callable[[Cluster], None]


@dataclass
class Member:
    """One member: its API server, who its agent is there and on the hub, and the agent."""

    name: str
    cluster: Cluster
    objects: Objects
    hub_token: str
    agent: Agent
    document: JsonObject

    @property
    def identity(self) -> str:
        """The user that the agent is on the hub."""
        return f"{self.name}-agent"


class Fleet:
    """The fleet.

    Args:
        name: Its own on its etcd.
        programs: Of the control plane.
        folder: For keys and logs.
        etcd: Below all its clusters.
        install: Installs our definitions on the hub.
    """

    def __init__(
        self, name: str, programs: Mapping[str, Path], folder: Path, etcd: Etcd, install: InstallDefinitions
    ) -> None:
        self.folder = folder
        self._install = install
        identities = [User(f"{member}-agent") for member in MEMBERS]
        audited = [LOOP_USER, SECOND_LOOP_USER, *(user.name for user in identities)]
        place = Place(external_names=True)
        self.hub = Cluster(programs, folder / "hub", etcd, f"{name}-hub", identities, audited, place=place)
        self.on_hub = Objects(self.hub)
        self._clusters = {
            member: Cluster(programs, folder / member, etcd, f"{name}-{member}", (), [AGENT_USER]) for member in MEMBERS
        }
        self._prices = folder / "prices.json"
        self._prices.write_text(json.dumps(price_list()), encoding="utf-8")
        self.members: dict[str, Member] = {}
        self.reconcilers: list[Reconciler] = []
        self._proxies: list[FaultProxy] = []
        self._workloads = Workloads([Objects(cluster) for cluster in self._clusters.values()])
        self.first_namespaces: dict[str, set[str]] = {}

    @property
    def clusters(self) -> dict[str, Objects]:
        """The objects of each member."""
        return {name: member.objects for name, member in self.members.items()}

    def start(self) -> None:
        """Start everything and wait until the fleet is joined."""
        with ThreadPoolExecutor(len(MEMBERS) + 1) as pool:
            starting = [pool.submit(self._start_hub), *(pool.submit(self._start_member, name) for name in MEMBERS)]
            for future in starting:
                future.result()
        for name in MEMBERS:
            self.members[name] = self._make_member(name)
        self._workloads.start()
        self.add_reconciler("first").start(wait=False)
        for member in self.members.values():
            self.on_hub.create({key: value for key, value in member.document.items() if key != "status"})
        for member in self.members.values():
            self._wait_role(member)
            member.agent.start(wait=False)
        self.wait_joined()
        for name, objects in self.clusters.items():
            self.first_namespaces[name] = {item["metadata"]["name"] for item in objects.all(KINDS["", "Namespace"])}

    def install(self) -> None:
        """Install our definitions on the hub, again perhaps."""
        self._install(self.hub)

    def install_on(self, name: str) -> None:
        """Install what a member needs, again perhaps."""
        install_member_definitions(self._clusters[name])

    def stop(self) -> None:
        """Stop everything, whatever had been started."""
        if self._workloads.is_alive():
            self._workloads.end()
        agents = (member.agent.program for member in self.members.values())
        replicas = (reconciler.program for reconciler in self.reconcilers)
        kill(*agents, *replicas, *(proxy.program for proxy in self._proxies))
        for cluster in (self.hub, *self._clusters.values()):
            cluster.stop()

    def add_reconciler(self, identity: str, kubeconfig: Path | None = None, **settings: Any) -> Reconciler:
        """Another replica of the loop, not started; *kubeconfig*: who it is, through a proxy perhaps."""
        found = Reconciler(
            kubeconfig or self.hub.write_kubeconfig("loop", self.loop_token()),
            self.folder / "reconcile",
            identity,
            {**QUICK, **settings},
        )
        self.reconcilers.append(found)
        return found

    def add_proxy(self, cluster: Cluster, name: str) -> FaultProxy:
        """A bad network in front of a cluster, started, without faults yet."""
        found = FaultProxy(cluster, self.folder / f"proxy-{name}")
        self._proxies.append(found)
        found.start()
        return found

    def loop_token(self, account: str = ACCOUNT) -> str:
        """A fresh token of a loop's account on the hub."""
        return self.hub.token_of(SYSTEM, account)

    def agent_token(self, name: str) -> str:
        """A fresh token of the agent's account on a member."""
        return self._clusters[name].token_of(SYSTEM, "harbormaster-agent")

    def make_agent(
        self, name: str, hub: Path | None = None, cluster: Path | None = None, clock_seconds: int = 0
    ) -> Agent:
        """An agent for a member, not started.

        Args:
            name: The member.
            hub: Another kubeconfig for the hub, through a proxy perhaps.
            cluster: The same for the member.
            clock_seconds: How far its clock is ahead.
        """
        member = self._clusters[name]
        token = self.hub.users[f"{name}-agent"].token
        return Agent(
            name,
            hub or self.hub.write_kubeconfig(f"agent-of-{name}", token),
            cluster or member.write_kubeconfig("agent", self.agent_token(name)),
            self.folder / "agents",
            {},
            (f"--prices={self._prices}",),
            clock_seconds=clock_seconds,
        )

    @contextlib.contextmanager
    def other_agent(self, agent: Agent, name: str, *, wait: bool = True) -> Iterator[Agent]:
        """Have another agent serve a member instead of its own, until the block ends.

        Args:
            agent: The other one.
            name: The member.
            wait: For it to be ready.
        """
        member = self.members[name]
        usual = member.agent
        usual.stop()
        member.agent = agent
        try:
            agent.start(wait=wait)
            yield agent
        finally:
            agent.stop()
            member.agent = usual
            usual.start()

    @contextlib.contextmanager
    def other_reconcilers(self, *others: Reconciler) -> Iterator[None]:
        """Have other replicas run instead of the usual one, until the block ends."""
        usual = self.reconcilers[0]
        usual.stop()
        try:
            for other in others:
                other.start(wait=False)
            yield
        finally:
            for other in others:
                other.stop()
            usual.start()

    def last_words(self) -> str:
        """The ends of the logs of the loop and of the agents."""
        roles = (*self.reconcilers, *(member.agent for member in self.members.values()))
        return "\n".join(f"--- {role.program.log.name}\n{role.program.last_words()[-1200:]}" for role in roles)

    def leader(self) -> str:
        """Who holds the Lease; empty: nobody."""
        lease = self.on_hub.find(LEASES, LEASE, SYSTEM)
        return str(((lease or {}).get("spec") or {}).get("holderIdentity") or "")

    def wait_leader(self, *identities: str, seconds: float = PATIENCE) -> str:
        """Wait until one of *identities* leads; return which."""

        found = ""

        def problem() -> str:
            nonlocal found
            leader = self.leader()
            found = next((identity for identity in identities if leader.startswith(identity)), "")
            return "" if found else f"{leader or 'nobody'} leads, not {' or '.join(identities)}"

        wait_until("leadership", problem, seconds)
        return found

    def wait_joined(self, seconds: float = PATIENCE) -> None:
        """Wait until every member has joined and reports its nodes."""
        wait_until("the members join", self._unjoined, seconds)

    def _unjoined(self) -> str:
        for member in self.members.values():
            assert member.agent.program.running, member.agent.program.last_words()
            document = self.on_hub.get(MEMBER_CLUSTER, member.name)
            joined = condition_of(document, "Joined")
            nodes = (document.get("status") or {}).get("properties", {}).get("kubernetes-fleet.io/node-count", {})
            wanted = member.document["status"]["properties"]["kubernetes-fleet.io/node-count"]["value"]
            if joined.get("status") != "True" or nodes.get("value") != wanted:
                return (
                    f"{member.name}: Joined is {joined or 'absent'}, nodes {nodes}; agent running: "
                    f"{member.agent.program.running}: {member.agent.program.last_words()[-600:]}; loop: "
                    f"{self.reconcilers[0].program.last_words()[-600:]}"
                )
        return ""

    def _wait_role(self, member: Member) -> None:
        role = KINDS["rbac.authorization.k8s.io", "RoleBinding"]
        home = f"fleet-member-{member.name}"

        def problem() -> str:
            assert self.reconcilers[0].program.running, self.reconcilers[0].program.last_words()
            if self.on_hub.find(role, f"fleet-rolebinding-{member.name}", home):
                return ""
            return f"no fleet-rolebinding-{member.name}; loop: {self.reconcilers[0].program.last_words()[-900:]}"

        wait_until(f"the hub is ready for {member.name}", problem)

    def _start_hub(self) -> None:
        self.hub.start()
        self._install(self.hub)
        self.hub.start_controller_manager(COLLECTORS)
        grant_loop(self.hub, ACCOUNT)
        grant_loop(self.hub, SECOND_ACCOUNT)

    def _start_member(self, name: str) -> None:
        cluster = self._clusters[name]
        cluster.start()
        install_member_definitions(cluster)
        cluster.start_controller_manager(COLLECTORS)
        grant(cluster, "agent", "harbormaster-agent", "--apply-rbac")
        objects = Objects(cluster)
        for node in nodes_of(example_member(name)):
            objects.create(node)

    def _make_member(self, name: str) -> Member:
        cluster = self._clusters[name]
        document = example_member(name)
        spec = {**document["spec"], "heartbeatPeriodSeconds": HEARTBEAT_SECONDS}
        token = self.hub.users[f"{name}-agent"].token
        return Member(name, cluster, Objects(cluster), token, self.make_agent(name), {**document, "spec": spec})


def example_member(name: str) -> JsonObject:
    """A member of the example fleet as it is written there."""
    for path in sorted(EXAMPLES.glob("members-*.yaml")):
        for document in yaml.safe_load_all(path.read_text(encoding="utf-8")):
            if document["metadata"]["name"] == name:
                return dict(document)
    raise LookupError(name)


def nodes_of(member: JsonObject) -> list[JsonObject]:
    """As many nodes as a member of the example fleet says to have, which together make what it says to have."""
    status = member["status"]
    count = int(status["properties"]["kubernetes-fleet.io/node-count"]["value"])
    per_node = {
        field: {
            "cpu": f"{int(status['resourceUsage'][field]['cpu']) * 1000 // count}m",
            "memory": f"{int(status['resourceUsage'][field]['memory'].removesuffix('Gi')) * 1024 // count}Mi",
        }
        for field in ("capacity", "allocatable")
    }
    labels = {
        "node.kubernetes.io/instance-type": sku_of(member),
        "beta.kubernetes.io/instance-type": sku_of(member),
        "topology.kubernetes.io/region": member["metadata"]["labels"]["fleet.azure.com/location"],
    }
    return [
        {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {"name": f"node-{number:03}", "labels": labels},
            "status": per_node,
        }
        for number in range(count)
    ]


def sku_of(member: JsonObject) -> str:
    """What its nodes are called in a price list."""
    names = (name.split("/") for name in member["status"]["properties"])
    return str(next(parts[2] for parts in names if parts[1:2] == ["vm-sizes"]))


def price_list() -> JsonObject:
    """Prices by which cores cost what the example fleet says; all its nodes have four."""
    regions: dict[str, dict[str, float]] = {}
    for name in MEMBERS:
        member = example_member(name)
        per_core = float(member["status"]["properties"]["kubernetes.azure.com/per-cpu-core-cost"]["value"])
        region = member["metadata"]["labels"]["fleet.azure.com/location"]
        regions.setdefault(region, {})[sku_of(member)] = round(4 * per_core, 6)
    return {"regions": regions}


def install_member_definitions(cluster: Cluster) -> None:
    """Install what a member needs: AppliedWorks."""
    documents = json.loads(printed("crds", "-o", "json"))["items"]
    Objects(cluster).apply([item for item in documents if item["metadata"]["name"] == APPLIED_WORK.resource])

    def problem() -> str:
        cluster.request("GET", f"/apis/{APPLIED_WORK.api_version}/{APPLIED_WORK.plural}")
        return ""

    wait_until(f"{cluster.name} serves AppliedWorks", problem)


def printed_roles(
    command: str, account: str, *words: str, environment: Mapping[str, str] = MappingProxyType({})
) -> list[JsonObject]:
    """What ``harbormaster rbac`` prints for a command."""
    account_words = (f"--namespace={SYSTEM}", f"--service-account={account}")
    text = printed_with(environment, "rbac", command, *account_words, *words, "-o", "json")
    return list(json.loads(text)["items"])


def grant_loop(hub: Cluster, account: str) -> None:
    """Make an account for one of the two loops of a hub: the policies that are printed for one exempt the other."""
    both = {"HARBORMASTER_ALLOWED_USERS": f"{LOOP_USER},{SECOND_LOOP_USER}"}
    grant(hub, "reconcile", account, "--secrets", environment=both)


def grant(
    cluster: Cluster,
    command: str,
    account: str,
    *words: str,
    environment: Mapping[str, str] = MappingProxyType({}),
) -> None:
    """Make an account for an installation, with exactly the rights that are printed for it."""
    metadata = {"name": account, "namespace": SYSTEM}
    service_account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": metadata}
    Objects(cluster).apply([make_namespace(SYSTEM), service_account])
    roles = printed_roles(command, account, *words, environment=environment)
    for document in roles:
        if not document["kind"].endswith("Role"):  # several accounts may have the same roles here
            document["metadata"]["name"] += f"-of-{account}"
        if document["kind"] == "ValidatingAdmissionPolicyBinding":
            document["spec"]["policyName"] = document["metadata"]["name"]
    Objects(cluster).apply(roles)
