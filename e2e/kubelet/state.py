"""How a Pod is, as the API server is told: pure, from the states of its containers."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from e2e.controlplane.cluster import JsonObject


@dataclass
class State:
    """How one container is.

    Args:
        name: In the Pod.
        image: As in the Pod.
        current: ``waiting``, ``running`` or ``terminated``, as on the wire.
        last: How it ended before it was started again, as on the wire.
        restarts: How often that was.
        started: Whether the startup probe has succeeded, or there is none.
        ready: Whether it runs and the readiness probe has succeeded last, or there is none.
        finished: Whether it has ended and is not started again.
    """

    name: str
    image: str
    current: JsonObject = field(default_factory=lambda: {"waiting": {"reason": "ContainerCreating"}})
    last: JsonObject = field(default_factory=dict)
    restarts: int = 0
    started: bool = False
    ready: bool = False
    finished: bool = False

    @property
    def running(self) -> bool:
        """Whether its process is there."""
        return "running" in self.current

    @property
    def exit_code(self) -> int | None:
        """What it ended with, None while it has not ended."""
        ended = self.current.get("terminated")
        return None if ended is None else int(ended["exitCode"])

    def document(self) -> JsonObject:
        """As on the wire."""
        return {
            "name": self.name,
            "image": self.image,
            "imageID": f"test://{self.image}",
            "state": self.current,
            "lastState": self.last,
            "restartCount": self.restarts,
            "started": self.started,
            "ready": self.ready,
        }


def pod_status(
    pod: JsonObject,
    first: Sequence[State],
    main: Sequence[State],
    addresses: Mapping[str, str],
    before: Mapping[str, JsonObject],
    now: str,
) -> JsonObject:
    """The status of a Pod, for a strategic merge.

    Args:
        pod: As it is on the API server.
        first: Its init containers.
        main: Its containers.
        addresses: ``pod`` and ``node``; ``pod`` is missing until there is a network.
        before: The conditions that it has, by type.
        now: For what changes with this status.
    """
    initialized = all(state.exit_code == 0 for state in first)
    unready = [state.name for state in main if not state.ready]
    gates = [gate["conditionType"] for gate in pod["spec"].get("readinessGates") or ()]
    closed = [gate for gate in gates if before.get(gate, {}).get("status") != "True"]
    phase = _phase(initialized, first, main)
    over = "PodCompleted" if phase == "Succeeded" else "ContainersNotReady"
    reasons = {
        "PodReadyToStartContainers": "" if "pod" in addresses else "ContainersNotReady",
        "Initialized": "" if initialized else "ContainersNotInitialized",
        "ContainersReady": over if unready else "",
        "Ready": over if unready else "ReadinessGatesNotReady" if closed else "",
    }
    messages = {"ContainersReady": f"containers with unready status: {unready}" if unready else ""}
    conditions = []
    for kind, reason in reasons.items():
        condition = {"type": kind, "status": "False" if reason else "True", "reason": reason or None}
        condition["message"] = messages.get(kind) or None
        old = before.get(kind, {})
        same = old.get("status") == condition["status"]
        condition["lastTransitionTime"] = old["lastTransitionTime"] if same else now
        conditions.append(condition)
    status: JsonObject = {
        "phase": phase,
        "conditions": conditions,
        "startTime": pod["status"].get("startTime") or now,
        "hostIP": addresses["node"],
        "hostIPs": [{"ip": addresses["node"]}],
        "initContainerStatuses": [state.document() for state in first],
        "containerStatuses": [state.document() for state in main],
    }
    if "pod" in addresses:
        status |= {"podIP": addresses["pod"], "podIPs": [{"ip": addresses["pod"]}]}
    return status


def _phase(initialized: bool, first: Sequence[State], main: Sequence[State]) -> str:
    if any(state.finished and state.exit_code != 0 for state in first):
        return "Failed"
    if not initialized:
        return "Pending"
    if all(state.finished for state in main):
        return "Succeeded" if all(state.exit_code == 0 for state in main) else "Failed"
    return "Running" if any(state.running or state.finished or state.last for state in main) else "Pending"
