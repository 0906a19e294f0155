"""A pod as disruption planning sees it: the cost of its eviction, and where else it could run.

Source: docs/specifications/nodepool-disruption.md 5.5, 6.1 and 9.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Final

from scorer.api.meta import JsonObject, read_instant
from scorer.api.unstructured.documents import (
    annotations_of,
    dicts_at,
    labels_of,
    metadata_of,
    name_of,
    namespace_of,
    spec_of,
    status_of,
    text_at,
    uid_of,
)
from scorer.node_budgets.blockers import NodePod, read_node_pod
from scorer.node_disruption.cluster.constraint_reader import read_shapes
from scorer.node_disruption.cluster.constraints import NodeTerm, PodShape
from scorer.node_disruption.cluster.requirements import parse_integer
from scorer.node_disruption.cluster.resources import pod_requests, pod_usage

DEFAULT_GRACE: Final = timedelta(seconds=30)
LONGEST_GRACE_SECONDS: Final = 10**9
"""Maximum grace period, about thirty years. Longer ones are capped."""
CRITICAL_CLASSES: Final = ("system-cluster-critical", "system-node-critical")
COST_ANNOTATIONS: Final = ("karpenter.sh/disruption-cost", "controller.kubernetes.io/pod-deletion-cost")
"""Annotations with the cost of a pod. The first one present wins (nodepool-disruption.md 6.1)."""


class Owner(StrEnum):
    """Kind of a pod's controller."""

    DAEMON_SET = "DaemonSet"
    STATEFUL_SET = "StatefulSet"
    NODE = "Node"
    OTHER = "Other"
    NONE = ""


_OWNERS: Final = {kind.value: kind for kind in (Owner.DAEMON_SET, Owner.STATEFUL_SET)}


@dataclass(frozen=True, slots=True)
class Pod:
    """A pod.

    Args:
        namespace: Namespace.
        name: Name.
        shape: Scheduling constraints. Equal shapes of one cluster are interned.
        held: Blockers of its eviction, as the gate sees it.
        uid: Uid.
        node: Node, empty while it is pending.
        labels: All labels.
        requests: Resource requests: cpu in millicores, everything else in whole units. ``pods`` is 1.
        taken: Resources in use, more than *requests* during an in-place resize.
        priority: Priority of its spec. None: unset.
        deletion_cost: Cost in its annotations, which raises or lowers its eviction cost.
        owner: Kind of its controller or, without one, of its first owner.
        owner_uid: Uid of its owner, or the name if the uid is unknown. Empty for static pods or without an owner.
        grace: Termination grace period.
        created: Creation time. None: unknown.
        terminating_since: deletionTimestamp. None if it is not being deleted.
        phase: ``Running`` and so on.
        critical: Whether it has one of the two system priority classes.
        gated: Whether it has scheduling gates, so it is not scheduled until they are removed.
        stricter: Copies of the pod with preferences as requirements, strictest first. Empty without preferences.
    """

    namespace: str
    name: str
    shape: PodShape
    held: NodePod
    uid: str = ""
    node: str = ""
    labels: Mapping[str, str] = field(default_factory=dict)
    requests: Mapping[str, int] = field(default_factory=dict)
    taken: Mapping[str, int] = field(default_factory=dict)
    priority: int | None = None
    deletion_cost: int = 0
    owner: Owner = Owner.NONE
    owner_uid: str = ""
    grace: timedelta = DEFAULT_GRACE
    created: datetime | None = None
    terminating_since: datetime | None = None
    phase: str = ""
    critical: bool = False
    gated: bool = False
    stricter: tuple["Pod", ...] = ()

    @property
    def key(self) -> str:
        """Namespace and name."""
        return f"{self.namespace}/{self.name}"

    def usage_on(self, node: str) -> Mapping[str, int]:
        """Return the resources that it uses on a node."""
        return self.taken if node == self.node and self.taken else self.requests

    @property
    def finished(self) -> bool:
        """Whether it has terminated and uses no resources."""
        return self.phase in ("Succeeded", "Failed")

    @property
    def is_starting(self) -> bool:
        """Whether its containers have not started yet."""
        return self.phase == "Pending"

    @property
    def active(self) -> bool:
        """Whether it has not finished and is not being deleted."""
        return not self.finished and self.terminating_since is None

    @property
    def tier(self) -> int:
        """Drain tier, 0 to 3. A tier starts when no pod of the previous one remains."""
        return 2 * self.critical + (self.owner is Owner.DAEMON_SET)

    @property
    def reschedulable(self) -> bool:
        """Whether it must be rescheduled if its node is disrupted (nodepool-disruption.md 5.5)."""
        if self.owner in (Owner.DAEMON_SET, Owner.NODE):
            return False
        return self.active or (self.owner is Owner.STATEFUL_SET and not self.finished)


def read_pod(document: JsonObject, volume_terms: tuple[tuple[NodeTerm, ...], ...] = ()) -> Pod:
    """Parse a pod. A field of the wrong type counts as absent.

    Args:
        document: The pod.
        volume_terms: Alternative node terms for each of its volumes that is bound to certain nodes.
    """
    spec, metadata = spec_of(document), metadata_of(document)
    requests = pod_requests(document)
    owner, owner_uid = _owner(document)
    *stricter, shape = read_shapes(document, requests, volume_terms)
    pod = Pod(
        namespace=namespace_of(document),
        name=name_of(document),
        shape=shape,
        held=read_node_pod(document),
        uid=uid_of(document),
        node=text_at(spec, "nodeName"),
        labels=labels_of(document),
        requests=requests,
        taken=pod_usage(document, requests),
        priority=_integer(spec.get("priority")),
        deletion_cost=_deletion_cost(document),
        owner=owner,
        owner_uid=owner_uid,
        grace=_grace(spec),
        created=read_instant(metadata.get("creationTimestamp")),
        terminating_since=read_instant(metadata.get("deletionTimestamp")),
        phase=text_at(status_of(document), "phase"),
        critical=spec.get("priorityClassName") in CRITICAL_CLASSES,
        gated=bool(dicts_at(spec, "schedulingGates")),
    )
    return replace(pod, stricter=tuple(replace(pod, shape=shape) for shape in stricter)) if stricter else pod


def _owner(document: JsonObject) -> tuple[Owner, str]:
    owners = dicts_at(document, "metadata", "ownerReferences")
    if any(owner.get("apiVersion") == "v1" and owner.get("kind") == Owner.NODE for owner in owners):
        return Owner.NODE, ""
    controller = next((owner for owner in owners if owner.get("controller") is True), owners[0] if owners else None)
    if controller is None:
        return Owner.NONE, ""
    return _OWNERS.get(text_at(controller, "kind"), Owner.OTHER), text_at(controller, "uid") or text_at(
        controller, "name"
    )


def _deletion_cost(document: JsonObject) -> int:
    """Return the deletion cost in the annotations of a pod. A value that is not a 32-bit integer counts as 0."""
    annotations = annotations_of(document)
    text = next((annotations[key] for key in COST_ANNOTATIONS if key in annotations), "")
    number = parse_integer(text)
    return number if number is not None and -(2**31) <= number < 2**31 else 0


def _grace(spec: JsonObject) -> timedelta:
    seconds = _integer(spec.get("terminationGracePeriodSeconds"))
    return DEFAULT_GRACE if seconds is None or seconds < 0 else timedelta(seconds=min(seconds, LONGEST_GRACE_SECONDS))


def _integer(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) else None
