"""Upgrade runs on a fleet, over members of their own: eight in two stages of two groups, as in seed 001.

They have no clusters. Their agents' part is done here: each says once that it has joined.
"""

import contextlib
import signal
from collections.abc import Iterator
from typing import Any

from e2e.controlplane.cluster import JsonObject
from e2e.controlplane.process import PATIENCE
from e2e.fleet.bed import Fleet
from e2e.fleet.objects import condition_of, name_of
from e2e.fleet.scene import Scene
from e2e.fleet.waiting import wait_until
from scorer.api.kinds import INTERNAL_MEMBER_CLUSTER, MEMBER_CLUSTER, UPGRADE_GATE, UPGRADE_REQUEST, UPGRADE_RUN
from scorer.api.meta import format_time, parse_time
from scorer.api.names import member_namespace
from scorer.api.unstructured.documents import dicts_at, status_of
from webhook.runtime.clock import utc_now

API = "upgrade.harbormaster.dev/v1alpha1"
OURS = "harbormaster.dev/"
GROUPS = ("quay-a", "quay-b", "quay-c", "quay-d")
SHIPS = {f"{group[-1]}{number}-ship": group for group in GROUPS for number in (1, 2)}
"""The members, with their groups."""
SETTINGS = {"upgraders": "simulated,handoff", "default_upgrader": "simulated", "upgrader_poll_seconds": 1}
STAGES = (
    {"name": "first", "groups": [{"name": "quay-a"}, {"name": "quay-b"}], "afterStageWaitSeconds": 2},
    {"name": "second", "groups": [{"name": "quay-c"}, {"name": "quay-d"}]},
)


def make_ship(name: str, group: str, **annotations: str) -> JsonObject:
    """Make a member whose upgrades take a second; *annotations* are ours, with ``_`` for ``-``."""
    given = {"upgrade_duration": "1s", **annotations}
    return {
        "apiVersion": MEMBER_CLUSTER.api_version,
        "kind": "MemberCluster",
        "metadata": {
            "name": name,
            "labels": {f"{OURS}upgrade-group": group},
            "annotations": {f"{OURS}{key.replace('_', '-')}": text for key, text in given.items()},
        },
        "spec": {"identity": {"kind": "User", "name": f"{name}-agent"}, "heartbeatPeriodSeconds": 600},
    }


def make_upgrade_strategy(name: str, *stages: JsonObject) -> JsonObject:
    """Make a strategy."""
    spec = {"stages": list(stages)}
    return {"apiVersion": API, "kind": "ClusterUpgradeStrategy", "metadata": {"name": name}, "spec": spec}


def make_upgrade_run(name: str, strategy: str, **spec: Any) -> JsonObject:
    """Make a run, which starts at once unless *spec* says otherwise."""
    wanted = {
        "state": "Run",
        "strategyRef": {"name": strategy},
        "upgrade": {"type": "Full", "kubernetesVersion": "1.31.2"},
        **spec,
    }
    return {"apiVersion": API, "kind": "ClusterUpgradeRun", "metadata": {"name": name}, "spec": wanted}


class Upgrades:
    """Runs of one fleet.

    Args:
        fleet: The fleet.
        scene: Takes away in the end what is put here.
    """

    def __init__(self, fleet: Fleet, scene: Scene) -> None:
        self._hub = fleet.on_hub
        self._scene = scene

    def start(self, name: str, *stages: JsonObject, **spec: Any) -> None:
        """Create a strategy, and a run of the same name that follows it."""
        self._scene.put(make_upgrade_strategy(name, *stages), make_upgrade_run(name, name, **spec))

    def get(self, name: str) -> JsonObject:
        """Return a run."""
        return self._hub.get(UPGRADE_RUN, name)

    def state(self, name: str) -> str:
        """Return the state of a run."""
        return str(status_of(self.get(name)).get("state", ""))

    def entries(self, name: str) -> dict[str, JsonObject]:
        """Return what a run says of each member."""
        return {
            entry["name"]: entry
            for stage in dicts_at(self.get(name), "status", "stages")
            for group in dicts_at(stage, "groups")
            for entry in dicts_at(group, "members")
        }

    def states(self, name: str) -> dict[str, str]:
        """Return the state of each member of a run."""
        return {member: entry["state"] for member, entry in self.entries(name).items()}

    def wait(self, name: str, state: str, seconds: float = PATIENCE) -> None:
        """Wait until a run is in a state."""

        def problem() -> str:
            run = self.get(name)
            found = status_of(run).get("state", "")
            return "" if found == state else f"{name} is {found or 'not there yet'}: {status_of(run)}"

        wait_until(f"{name} is {state}", problem, seconds)

    def wait_member(self, name: str, member: str, state: str) -> JsonObject:
        """Wait until a member of a run is in a state; return what the run says of it."""

        def problem() -> str:
            found = self.entries(name).get(member, {})
            return "" if found.get("state") == state else f"{member} is {found or 'not there yet'}"

        wait_until(f"{member} is {state}", problem)
        return self.entries(name)[member]

    def order(self, name: str, **spec: Any) -> None:
        """Change the spec of a run."""
        self._hub.patch(UPGRADE_RUN, name, {"spec": spec})

    def annotate(self, member: str, **annotations: str | None) -> None:
        """Annotate a member with annotations of ours; None takes one off."""
        given = {f"{OURS}{key.replace('_', '-')}": text for key, text in annotations.items()}
        self._hub.patch(MEMBER_CLUSTER, member, {"metadata": {"annotations": given}})

    def requests(self, name: str) -> list[JsonObject]:
        """Return the requests of a run."""
        return [each for each in self._hub.all(UPGRADE_REQUEST) if each["spec"]["runName"] == name]

    def tell(self, request: JsonObject, **status: Any) -> None:
        """Report in the status of a request, as an upgrader does."""
        self._hub.patch_status(UPGRADE_REQUEST, name_of(request), status)

    def approve(self, name: str) -> None:
        """Approve the gate of a run that waits, as the documentation has people do it."""

        def gates() -> list[JsonObject]:
            return [each for each in self._hub.all(UPGRADE_GATE) if each["spec"]["runName"] == name]

        wait_until("the gate is there", lambda: "" if gates() else "there is none")
        (gate,) = gates()
        approved = {
            "type": "Approved",
            "status": "True",
            "reason": "Looked",
            "message": "checked by hand",
            "lastTransitionTime": format_time(utc_now()),
        }
        self._hub.patch_status(UPGRADE_GATE, name_of(gate), {"conditions": [approved]})

    def check_once(self, name: str) -> None:
        """Check that every member was upgraded, once, and in the order of the run."""
        entries = self.entries(name)
        assert {member: entry["state"] for member, entry in entries.items()} == dict.fromkeys(SHIPS, "Completed")
        assert {entry["attempt"] for entry in entries.values()} == {1}
        assert sorted(each["spec"]["memberName"] for each in self.requests(name)) == sorted(SHIPS)
        times = {
            member: (parse_time(entry["startTime"]), parse_time(entry["completionTime"]))
            for member, entry in entries.items()
        }
        for group in "abcd":
            assert times[f"{group}1-ship"][1] <= times[f"{group}2-ship"][0], "one after the other in a group"
        first = max(times[member][1] for member, group in SHIPS.items() if group in GROUPS[:2])
        second = min(times[member][0] for member, group in SHIPS.items() if group in GROUPS[2:])
        assert (second - first).total_seconds() >= 2, "the wait after the first stage"


def eight_ships() -> list[JsonObject]:
    """Make the eight members."""
    return [make_ship(name, group) for name, group in SHIPS.items()]


@contextlib.contextmanager
def ships(fleet: Fleet, members: list[JsonObject]) -> Iterator[None]:
    """Have members in the fleet until the block ends."""
    names = [name_of(member) for member in members]
    for member in members:
        fleet.on_hub.create(member)
    for name in names:
        _say(fleet, name, joined=True)
    try:
        yield
    finally:
        for name in names:
            fleet.on_hub.delete(MEMBER_CLUSTER, name)
        for name in names:
            _say(fleet, name, joined=False)
        wait_until("the ships have left", lambda: _still_there(fleet, names))


def _say(fleet: Fleet, name: str, *, joined: bool) -> None:
    """Report as the agent of a member, and wait until the hub has seen it."""
    wanted, now = "True" if joined else "False", format_time(utc_now())
    conditions = [
        {"type": kind, "status": wanted, "reason": "Told", "message": "by a test", "lastTransitionTime": now}
        for kind in ("Joined", "Healthy")
    ]
    agents = [{"type": "MemberAgent", "conditions": conditions, "lastReceivedHeartbeat": now}]
    space = member_namespace(name)

    def problem() -> str:
        internal = fleet.on_hub.find(INTERNAL_MEMBER_CLUSTER, name, space)
        member = fleet.on_hub.find(MEMBER_CLUSTER, name)
        if member is None:
            return "" if not joined else "it is gone"
        if internal is None:
            return "it has no InternalMemberCluster"
        generation = internal["metadata"]["generation"]
        said = [{**each, "observedGeneration": generation} for each in conditions]
        fleet.on_hub.patch_status(
            INTERNAL_MEMBER_CLUSTER, name, {"agentStatus": [{**agents[0], "conditions": said}]}, space
        )
        found = condition_of(member, "Joined").get("status", "")
        return "" if found == wanted else f"Joined is {found or 'absent'}"

    wait_until(f"{name} {'joins' if joined else 'leaves'}", problem)


def _still_there(fleet: Fleet, names: list[str]) -> str:
    left = [name for name in names if fleet.on_hub.find(MEMBER_CLUSTER, name) is not None]
    return f"still there: {left}" if left else ""


def forget_upgrades(fleet: Fleet, *members: str) -> None:
    """Have members run the old version again, as if they had been made anew."""
    for name in members or SHIPS:
        fleet.on_hub.patch(
            MEMBER_CLUSTER,
            name,
            {"metadata": {"annotations": {f"{OURS}upgrade-observed": None, f"{OURS}simulate-upgrade": None}}},
        )


def kill_leaders(fleet: Fleet, upgrades: Upgrades, name: str, kills: int) -> None:
    """Kill the loop again and again while a run goes on; in the end everything has been done once."""
    loop = fleet.reconcilers[-1]
    upgrades.start(name, *STAGES)
    for number in range(kills):
        begun = number * len(SHIPS) // kills

        def problem(begun: int = begun) -> str:
            found = [state for state in upgrades.states(name).values() if state in ("Running", "Completed")]
            return "" if len(found) > begun else f"{len(found)} have begun, not more than {begun}"

        wait_until(f"more than {begun} members have begun", problem)
        loop.program.stop(number=signal.SIGKILL)
        loop.start(wait=False)
    upgrades.wait(name, "Completed", 2 * PATIENCE)
    upgrades.check_once(name)


def gates_of(fleet: Fleet, run: str) -> list[JsonObject]:
    """Return the gates of a run."""
    return [each for each in fleet.on_hub.all(UPGRADE_GATE) if each["spec"]["runName"] == run]
