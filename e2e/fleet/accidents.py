"""Accidents of administrators, in random order on a real fleet, and what people do on purpose in between.

After each the fleet has to come to rest as `e2e.fleet.settled` says, and the ledger must show no loss but what somebody
had asked for: nothing local is ever lost, and nothing that was placed goes, not even to come back a moment later.
"""

import contextlib
import random
import signal
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

from e2e.controlplane.cluster import ApiError, JsonObject
from e2e.fleet.bed import LEASES, Fleet
from e2e.fleet.ledger import Ledger
from e2e.fleet.objects import (
    CONFIG_MAP,
    condition_of,
    make_config_map,
    make_namespace,
    make_placement,
    pick_fixed,
    pick_n,
    rolling,
)
from e2e.fleet.processes import LEASE, SYSTEM
from e2e.fleet.settled import assert_settled
from e2e.fleet.waiting import wait_until
from scorer.api.kinds import (
    APPLIED_WORK,
    BINDING,
    CUSTOM_RESOURCE_DEFINITION,
    INTERNAL_MEMBER_CLUSTER,
    KINDS,
    MEMBER_CLUSTER,
    NAMESPACE,
    PLACEMENT,
    POLICY_SNAPSHOT,
    RESOURCE_SNAPSHOT,
    WORK,
    Kind,
)
from scorer.api.meta import format_time
from scorer.api.names import ACCEPT_OLDER_UNTIL, OLDER_THAN_APPLIED

PREFIX = "e2e-acc"
LOCAL_ONLY = f"{PREFIX}-local-only"
"""A namespace that nothing ever places."""

DEFINED = (WORK, BINDING, RESOURCE_SNAPSHOT, POLICY_SNAPSHOT, PLACEMENT, MEMBER_CLUSTER, INTERNAL_MEMBER_CLUSTER)
"""Kinds of the hub whose definitions get deleted."""
ROLE_BINDING = KINDS["rbac.authorization.k8s.io", "RoleBinding"]
SETTLES = 300.0

Asked = set[tuple[str, str]]
"""Members and namespaces of what somebody asked to be taken away."""


@dataclass
class World:
    """Placements that are wanted, and what happens to them.

    Args:
        fleet: Where.
        dice: All chance comes from it.
        count: How many placements.
    """

    fleet: Fleet
    dice: random.Random
    count: int = 6
    round: int = 0
    policies: dict[str, JsonObject | None] = field(default_factory=dict)
    ledger: Ledger = field(init=False)
    said: str = ""
    """What the last happening was about, where its name does not tell."""
    left: set[str] = field(default_factory=set)
    """Namespaces that stay on members on purpose although nothing places them there any more."""

    def __post_init__(self) -> None:
        self.ledger = Ledger(self.fleet, PREFIX)

    def begin(self) -> None:
        """Put everything there, and something local beside it on each member."""
        choices: list[JsonObject | None] = [None, pick_n(2), pick_fixed("jumpingcat"), pick_n(1)]
        for number in range(self.count):
            name = f"{PREFIX}-{number:02}"
            self.policies[name] = choices[number % len(choices)]
            self.fleet.on_hub.create(make_namespace(name))
            self.fleet.on_hub.create(make_config_map("settings", name, round="0"))
            self.place(name)
        self.settle()
        self.write_down()

    def end(self) -> None:
        """Take everything away."""
        for name in self.policies:
            self.fleet.on_hub.delete(PLACEMENT, name)
        wait_until("placements go", self._remaining, SETTLES)
        for objects in (self.fleet.on_hub, *self.fleet.clusters.values()):
            for item in objects.all(NAMESPACE):
                if item["metadata"]["name"].startswith(PREFIX):
                    objects.delete(NAMESPACE, item["metadata"]["name"])

    def _remaining(self) -> str:
        names = [item["metadata"]["name"] for item in self.fleet.on_hub.all(PLACEMENT)]
        return ", ".join(name for name in names if name in self.policies)

    def place(self, name: str) -> None:
        """Create a placement, if it is not there."""
        if self.fleet.on_hub.find(PLACEMENT, name) is None:
            made = make_placement(name, self.policies[name], strategy=rolling(maxUnavailable="50%"))
            self.fleet.on_hub.create(made)

    def settle(self) -> None:
        """Wait until everything is as it is to be."""
        assert_settled(self.fleet, SETTLES, by_hand={LOCAL_ONLY, *self.left}, kept=self.left)

    def write_down(self) -> None:
        """Add something local wherever there is none yet, and note all there is."""
        self.ledger.add_local(LOCAL_ONLY)
        self.ledger.record()

    def where(self, name: str) -> Asked:
        """The members that have a placement's namespace."""
        return {(member, name) for member, names in self.ledger.namespaces().items() if name in names}

    def any_placement(self) -> str:
        """One of the placements."""
        return self.dice.choice(sorted(self.policies))

    def any_member(self) -> str:
        """One of the members."""
        return self.dice.choice(sorted(self.fleet.members))


def change_content(world: World) -> Asked:
    """A new version of what is placed."""
    world.round += 1
    world.fleet.on_hub.patch(CONFIG_MAP, "settings", {"data": {"round": str(world.round)}}, world.any_placement())
    return set()


def delete_placement(world: World) -> Asked:
    """On purpose: it goes, with all that it had placed, and is made anew afterwards."""
    name = world.any_placement()
    asked = world.where(name)
    world.fleet.on_hub.delete(PLACEMENT, name)
    wait_until(f"{name} goes", lambda: "it is there" if world.fleet.on_hub.find(PLACEMENT, name) else "", SETTLES)
    world.place(name)
    return asked


def move(world: World) -> Asked:
    """On purpose: fewer or more clusters."""
    name = world.dice.choice([name for name, policy in sorted(world.policies.items()) if "numberOf" in str(policy)])
    number = world.dice.randint(1, 3)
    world.policies[name] = pick_n(number)
    world.fleet.on_hub.patch(PLACEMENT, name, {"spec": {"policy": {"numberOfClusters": number}}})
    return world.where(name)


def leave_and_join(world: World) -> Asked:
    """On purpose: a member leaves, and what it has stays there; then it joins again."""
    member = world.any_member()
    world.fleet.on_hub.delete(MEMBER_CLUSTER, member)
    _wait_gone(world, MEMBER_CLUSTER, member)
    _create_member(world, member)
    # what had to go elsewhere meanwhile does not come back
    world.left |= world.ledger.namespaces()[member]
    return set()


def delete_definition(world: World) -> Asked:
    """``kubectl delete crd``: the hub deletes all objects of a kind; some time later somebody puts it right."""
    kind = world.dice.choice(DEFINED)
    return _delete_definition(world, kind)


def delete_works_definition(world: World) -> Asked:
    """The one that used to empty all members."""
    return _delete_definition(world, WORK)


def _delete_definition(world: World, kind: Kind) -> Asked:
    hub = world.fleet.on_hub
    world.said = str(kind)
    hub.delete(CUSTOM_RESOURCE_DEFINITION, kind.resource)
    _pause(world)
    _wait_gone(world, CUSTOM_RESOURCE_DEFINITION, kind.resource)
    world.fleet.install()
    if kind == MEMBER_CLUSTER:
        for member in world.fleet.members:
            _create_member(world, member)
        for names in world.ledger.namespaces().values():
            world.left |= names
    if kind == PLACEMENT:
        for name in world.policies:
            world.place(name)
    return set()


def delete_member_namespace(world: World) -> Asked:
    """``kubectl delete namespace fleet-member-…``, while the member is in use."""
    space = f"fleet-member-{world.any_member()}"
    world.fleet.on_hub.delete(NAMESPACE, space)
    return set()


def delete_works(world: World) -> Asked:
    """``kubectl delete works --all -A``, or those of one member."""
    return _delete_all(world, WORK, namespaced=True)


def delete_bindings(world: World) -> Asked:
    """``kubectl delete clusterresourcebindings --all``."""
    return _delete_all(world, BINDING)


def delete_snapshots(world: World) -> Asked:
    """The same for snapshots of either kind."""
    return _delete_all(world, world.dice.choice((RESOURCE_SNAPSHOT, POLICY_SNAPSHOT)))


def take_finalizers_off(world: World) -> Asked:
    """What people do with a Work or a binding that is stuck."""
    kind, member = world.dice.choice((WORK, BINDING)), world.any_member()
    for item in world.fleet.on_hub.all(kind, f"fleet-member-{member}" if kind == WORK else ""):
        name, namespace = item["metadata"]["name"], item["metadata"].get("namespace", "")
        with contextlib.suppress(ApiError):
            world.fleet.on_hub.patch(kind, name, {"metadata": {"finalizers": None}}, namespace)
            world.fleet.on_hub.delete(kind, name, namespace)
    return set()


def empty_works(world: World) -> Asked:
    """Somebody, or a definition that prunes, takes the content out of Works."""
    member = world.any_member()
    for item in world.fleet.on_hub.all(WORK, f"fleet-member-{member}"):
        change: JsonObject = {"spec": {"workload": {"manifests": []}}}
        with contextlib.suppress(ApiError):
            world.fleet.on_hub.patch(WORK, item["metadata"]["name"], change, f"fleet-member-{member}")
    return set()


def delete_lease(world: World) -> Asked:
    """The leader's Lease goes while it leads."""
    world.fleet.on_hub.delete(LEASES, LEASE, SYSTEM)
    return set()


def delete_access(world: World) -> Asked:
    """What lets an agent in is deleted, and then its namespace, without which ten minutes would pass unnoticed."""
    member = world.any_member()
    world.fleet.on_hub.delete(ROLE_BINDING, f"fleet-rolebinding-{member}", f"fleet-member-{member}")
    _pause(world)
    world.fleet.on_hub.delete(NAMESPACE, f"fleet-member-{member}")
    return set()


def kill_somebody(world: World) -> Asked:
    """``kill -9`` for the loop or an agent, and a new start."""
    roles = [world.fleet.reconcilers[0], *(member.agent for member in world.fleet.members.values())]
    role = world.dice.choice(roles)
    role.program.stop(number=signal.SIGKILL)
    _pause(world)
    role.start(wait=False)
    return set()


def agent_at_the_wrong_cluster(world: World) -> Asked:
    """A kubeconfig is mixed up: the agent of one member works on the cluster of another, beside its own or not."""
    one, other = world.dice.sample(sorted(world.fleet.members), 2)
    cluster = world.fleet.members[other].cluster.write_kubeconfig("misled", world.fleet.agent_token(other))
    agent = world.fleet.make_agent(one, cluster=cluster)
    beside = world.dice.random() < 0.5
    if not beside:
        world.fleet.members[other].agent.stop()
    try:
        with world.fleet.other_agent(agent, one, wait=False):
            change_content(world)
            _pause(world, 6)
    finally:
        if not beside:
            world.fleet.members[other].agent.start(wait=False)
    return set()


def renamed_member(world: World) -> Asked:
    """Somebody gives a member another name: its agent is started for a new MemberCluster."""
    one, other = world.dice.sample(sorted(world.fleet.members), 2)
    member = world.fleet.members[one]
    agent = world.fleet.make_agent(
        other, cluster=member.cluster.write_kubeconfig("renamed", world.fleet.agent_token(one))
    )
    with _stopped(world, other), world.fleet.other_agent(agent, one, wait=False):
        _pause(world, 6)
    return set()


def restored_hub(world: World) -> Asked:
    """The hub is restored from a backup that is some changes old; the members wait until somebody accepts that."""
    hub = world.fleet.on_hub
    world.settle()
    for member in world.fleet.members:  # what was accepted the last time does not count now
        hub.patch(MEMBER_CLUSTER, member, {"metadata": {"annotations": {ACCEPT_OLDER_UNTIL: None}}})
    world.settle()
    kept = world.fleet.hub.backup()
    for _ in range(2):
        change_content(world)
    world.settle()
    world.fleet.hub.restore(kept)

    def problem() -> str:
        said = (condition_of(work, "Applied").get("reason") for work in hub.all(WORK))
        return "" if OLDER_THAN_APPLIED in said else "no agent has noticed"

    wait_until("an agent notices that the hub is older than its member", problem, SETTLES)
    until = format_time(datetime.now(UTC) + timedelta(minutes=5))
    for member in world.fleet.members:
        hub.patch(MEMBER_CLUSTER, member, {"metadata": {"annotations": {ACCEPT_OLDER_UNTIL: until}}})
    return set()


def delete_applied_works(world: World) -> Asked:
    """Somebody on a member deletes the books of the agent."""
    objects = world.fleet.clusters[world.any_member()]
    for item in objects.all(APPLIED_WORK):
        objects.delete(APPLIED_WORK, item["metadata"]["name"])
    return set()


def delete_applied_works_definition(world: World) -> Asked:
    """The same with the definition of the books."""
    member = world.any_member()
    objects = world.fleet.clusters[member]
    objects.delete(CUSTOM_RESOURCE_DEFINITION, APPLIED_WORK.resource)
    _pause(world)

    def problem() -> str:
        return "it is there" if objects.find(CUSTOM_RESOURCE_DEFINITION, APPLIED_WORK.resource) else ""

    wait_until(f"the definition of AppliedWorks goes from {member}", problem, SETTLES)
    world.fleet.install_on(member)
    return set()


ON_PURPOSE: tuple[Callable[[World], Asked], ...] = (change_content, delete_placement, move, leave_and_join)
ACCIDENTS: tuple[Callable[[World], Asked], ...] = (
    delete_works_definition,
    delete_definition,
    delete_member_namespace,
    delete_works,
    delete_bindings,
    delete_snapshots,
    take_finalizers_off,
    empty_works,
    delete_lease,
    delete_access,
    kill_somebody,
    agent_at_the_wrong_cluster,
    renamed_member,
    restored_hub,
    delete_applied_works,
    delete_applied_works_definition,
)


def happen(world: World, *happenings: Callable[[World], Asked]) -> None:
    """Let things happen one right after the other; then everything has to be in place, and nothing lost.

    Raises:
        AssertionError: It is not so; the text says what happened and what is lost.
    """
    world.said = ""
    asked: Asked = set()
    for happening in happenings:
        asked |= happening(world)
    words = f"{' and '.join(happening.__name__ for happening in happenings)} {world.said}"
    lost: list[str] = []
    try:
        world.settle()
    except AssertionError as error:
        lost = world.ledger.losses(asked)
        raise AssertionError(f"{words}: lost {lost}; {error}; {world.fleet.last_words()}") from error
    lost = world.ledger.losses(asked)
    assert not lost, f"{words}: lost " + "\n  ".join(lost)
    world.write_down()


def _delete_all(world: World, kind: Kind, *, namespaced: bool = False) -> Asked:
    spaces = [""]
    if namespaced:
        spaces = [f"fleet-member-{member}" for member in world.fleet.members]
        if world.dice.random() < 0.5:
            spaces = [world.dice.choice(spaces)]
    for space in spaces:
        for item in world.fleet.on_hub.all(kind, space):
            world.fleet.on_hub.delete(kind, item["metadata"]["name"], space)
    return set()


def _create_member(world: World, member: str) -> None:
    if world.fleet.on_hub.find(MEMBER_CLUSTER, member) is None:
        document = world.fleet.members[member].document
        world.fleet.on_hub.create({key: value for key, value in document.items() if key != "status"})


def _wait_gone(world: World, kind: Kind, name: str) -> None:
    def problem() -> str:
        found = world.fleet.on_hub.find(kind, name)
        return "" if found is None else f"it is there, held by {found['metadata'].get('finalizers')}"

    wait_until(f"{kind.kind} {name} goes", problem, SETTLES)


@contextlib.contextmanager
def _stopped(world: World, member: str) -> Iterator[None]:
    agent = world.fleet.members[member].agent
    agent.stop()
    try:
        yield
    finally:
        agent.start(wait=False)


def _pause(world: World, most: float = 3.0) -> None:
    """Let some time pass: when the next thing happens is part of the accident."""
    time.sleep(world.dice.uniform(0.0, most))
