"""Annotations and status that describe a simulated member: its figures and its behavior.

**Figures.** Write the MemberCluster as a hub would show it, with ``status.properties`` and
``status.resourceUsage``::

    kind: MemberCluster
    metadata: {name: bravelion, labels: {region: eu}}
    spec: {identity: {kind: User, name: bravelion}}
    status:
      properties:
        kubernetes-fleet.io/node-count: {value: "100"}
      resourceUsage:
        capacity: {cpu: "400", memory: 1600Gi}
        allocatable: {cpu: "396", memory: 1580Gi}
        available: {cpu: "248", memory: 880Gi}

A hub drops the status of a new object, so the client first calls `status_in_annotation`, which moves the status into
the annotation ``harbormaster.dev/simulate-status`` (JSON). A client may also write the annotation itself.

A property may be given as plain text instead of ``{value: …}``. Without ``available``, everything allocatable is
available. The requests of placed objects are subtracted from ``available``. The member reports its namespaces only with
``status.namespaces``, which may be empty.

**Behavior.** Annotation ``harbormaster.dev/simulate`` of the MemberCluster, comma-separated:

* ``silent``: its agent does nothing. The written status is its last report, including the heartbeat. With
  ``silent=14m``, the last heartbeat was 14 minutes before the member was added. When the member is deleted, the hub
  waits for it as for any agent that does not respond.
* ``unhealthy``: its API server is not ready.
* ``leaving``: the MemberCluster is deleted as soon as the state in its InternalMemberCluster is Join. It remains,
  because it gets the finalizer ``harbormaster.dev/simulate-leaving``.

Annotation ``harbormaster.dev/simulate-apply``: ``fail`` makes the member refuse every object,
``slow=3s`` delays its agent by 3 s for each changed Work.

The condition ``ClusterPropertyCollectionSucceeded`` reports an error in any of these annotations.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any

import orjson

from scorer.api.conditions import TRUE, make_condition
from scorer.api.kinds import MEMBER_CLUSTER, NODE, NODE_CLAIM, group_kind
from scorer.api.meta import JsonObject, dump_json, format_time
from scorer.api.names import MEMBER_AGENT, OURS
from scorer.api.values.duration import parse_sum
from scorer.api.values.quantity import NANO, format_binary_quantity, format_quantity, read_quantity
from webhook.embedded.simulation.scripts import NODES, SIMULATE
from webhook.member.membership.heartbeat import HeartbeatFigures

SIMULATE_APPLY = OURS + "simulate-apply"
SIMULATE_STATUS = OURS + "simulate-status"
SIMULATE_LEAVING = OURS + "simulate-leaving"
KEPT = frozenset({MEMBER_CLUSTER.group_kind, NODE.group_kind, NODE_CLAIM.group_kind})
NODE_COUNT = "kubernetes-fleet.io/node-count"


def status_in_annotation(document: JsonObject) -> JsonObject:
    """Return an object of a kind in `KEPT` with its status moved into the annotation, others unchanged.

    If the object already has the annotation, it is kept and the status is dropped.
    """
    status = document.get("status")
    metadata = document.get("metadata")
    if group_kind(document) not in KEPT or not status or not isinstance(metadata, Mapping):
        return document
    annotations = metadata.get("annotations") or {}
    if isinstance(annotations, Mapping):
        annotations = {SIMULATE_STATUS: dump_json(status).decode(), **annotations}
    body = {name: value for name, value in document.items() if name != "status"}
    return {**body, "metadata": {**metadata, "annotations": annotations}}


@dataclass(frozen=True, slots=True)
class Behaviour:
    """Behavior that the annotations of a simulated member request.

    Args:
        silent: Whether the agent does nothing.
        silent_for: Age of the last heartbeat of a silent member. None: unset, as written.
        unhealthy: Whether the API server is not ready.
        leaving: Whether the member is leaving and never finishes.
        refuses: Whether the member refuses every object.
        slow: Delay of the agent for each changed Work.
        status: The status as written, None if it is absent or invalid.
        problem: Errors in the annotations.
    """

    silent: bool = False
    silent_for: timedelta | None = None
    unhealthy: bool = False
    leaving: bool = False
    refuses: bool = False
    slow: timedelta = timedelta()
    status: JsonObject | None = None
    problem: str = ""


def parse_behaviour(annotations: Mapping[str, str]) -> Behaviour:
    """Parse the annotations of a MemberCluster. Errors are stored in `Behaviour.problem`."""
    behaviour = Behaviour()
    problems = []
    for annotation, reader in ((SIMULATE, _read_simulate), (SIMULATE_APPLY, _read_apply)):
        for word in filter(None, (part.strip() for part in annotations.get(annotation, "").split(","))):
            try:
                behaviour = reader(behaviour, *word.partition("=")[::2])
            except ValueError as error:
                problems.append(f"annotation {annotation}: {word[:64]!r}: {error}")
    if text := annotations.get(SIMULATE_STATUS):
        try:
            behaviour = replace(behaviour, status=_read_status(text))
        except ValueError as error:
            problems.append(f"annotation {SIMULATE_STATUS}: {error}")
    return replace(behaviour, problem="; ".join(problems))


class _ShapeError(ValueError):
    """A value has the wrong type for its place."""


def _read_simulate(behaviour: Behaviour, name: str, value: str) -> Behaviour:
    match name:
        case "silent":
            return replace(behaviour, silent=True, silent_for=parse_sum(value) if value else None)
        case "unhealthy":
            return replace(behaviour, unhealthy=True)
        case "leaving":
            return replace(behaviour, leaving=True)
    raise ValueError("expected silent, silent=14m, unhealthy or leaving")


def _read_apply(behaviour: Behaviour, name: str, value: str) -> Behaviour:
    match name:
        case "fail":
            return replace(behaviour, refuses=True)
        case "slow":
            return replace(behaviour, slow=parse_sum(value))
    raise ValueError("expected fail or slow=3s")


def _read_status(text: str) -> JsonObject:
    """Parse the status as written. Raises `ValueError` for invalid JSON or a wrong shape."""
    try:
        status = orjson.loads(text)
    except orjson.JSONDecodeError as error:
        raise ValueError(f"not JSON: {error}") from error
    if not isinstance(status, dict):
        raise _ShapeError(f"{text[:64]!r} is not an object")
    _map(status, "properties")
    _map(status, "namespaces")
    usage = _map(status, "resourceUsage")
    for field in ("capacity", "allocatable", "available"):
        for name, value in _map(usage, field).items():
            if read_quantity(str(value)) is None:
                raise ValueError(f"resourceUsage.{field}.{name} is {value!r:.64}, expected a quantity")
    return status


def _map(parent: Mapping[str, Any], field: str) -> Mapping[str, Any]:
    value = parent.get(field) or {}
    if not isinstance(value, Mapping):
        raise _ShapeError(f"{field} is {value!r:.64}, expected an object")
    return value


def silent_status(behaviour: Behaviour, now: datetime, *, generation: int) -> JsonObject:
    """Return the status of a silent member: as written, or with a last heartbeat of the requested age."""
    status = dict(behaviour.status or {})
    if "properties" in status:
        status["properties"] = {
            name: value if isinstance(value, Mapping) else {"value": str(value)}
            for name, value in status["properties"].items()
        }
    if behaviour.silent_for is None:
        return status
    then = now - behaviour.silent_for
    words = (("Joined", "InternalMemberClusterJoined"), ("Healthy", "InternalMemberClusterHealthy"))
    conditions = [
        make_condition(kind, TRUE, reason, "as last reported", generation=generation, now=then)
        for kind, reason in words
    ]
    agent = {"type": MEMBER_AGENT, "conditions": conditions, "lastReceivedHeartbeat": format_time(then)}
    return {**status, "agentStatus": [agent]}


def node_count(behaviour: Behaviour) -> int:
    """Return the number of nodes that the member reports, or `NODES` if it reports no valid number."""
    value = ((behaviour.status or {}).get("properties") or {}).get(NODE_COUNT)
    quantity = read_quantity(_property(value)) if value is not None else None
    return quantity.nano // NANO if quantity is not None and quantity.nano >= 0 else NODES


def figures(behaviour: Behaviour, reserved: Mapping[str, int], namespaces: Mapping[str, str]) -> HeartbeatFigures:
    """Return the figures that the member's agent reports.

    Args:
        behaviour: Behavior, with the figures as written.
        reserved: Requests of the Pods placed on the member, resource name to 10^-9 units.
        namespaces: Namespace to the Work that created it. Only used if namespaces are reported.
    """
    status = behaviour.status or {}
    usage = status.get("resourceUsage") or {}
    amounts = {
        field: {name: str(value) for name, value in (usage.get(field) or {}).items()}
        for field in ("capacity", "allocatable", "available")
    }
    free = amounts["available"] or amounts["allocatable"]
    available = {name: _less(text, reserved.get(name, 0)) for name, text in free.items()}
    reported_namespaces = status.get("namespaces")
    return HeartbeatFigures(
        properties={name: _property(value) for name, value in (status.get("properties") or {}).items()},
        capacity=amounts["capacity"],
        allocatable=amounts["allocatable"],
        available=available,
        namespaces=None if reported_namespaces is None else {**reported_namespaces, **namespaces},
        healthy=not behaviour.unhealthy,
        problem=behaviour.problem,
    )


def _property(value: Any) -> str:
    return str(value.get("value", "")) if isinstance(value, Mapping) else str(value)


def _less(text: str, nano: int) -> str:
    """Return the quantity *text* minus an amount, not below zero, in a unit like that of *text*."""
    quantity = read_quantity(text)
    if quantity is None or nano <= 0:
        return text
    remaining = max(quantity.nano - nano, 0)
    return format_binary_quantity(remaining) if text.endswith("i") else format_quantity(remaining)
