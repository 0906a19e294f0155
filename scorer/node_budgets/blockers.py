"""Blockers of the disruption of one node, regardless of its pool's budgets.

The reference stops at the first obstacle. Here the answer lists every blocking pod and PodDisruptionBudget, so that an
operator sees all of them together. Only a node that is already being disrupted, or not ready for disruption yet, has a
single blocker, in the reference's order. Facts that only a provisioner knows are ignored: the pending pods that a node
is nominated for, and instance types.

Source: docs/specifications/nodepool-disruption.md 5.2 to 5.4 and 13; Karpenter v1.15.0
``pkg/controllers/state/statenode.go``, ``pkg/utils/pod/scheduling.go`` and ``pkg/utils/pdb/pdb.go``.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any, Final

from pydantic import ValidationError

from scorer.api.unstructured.documents import (
    annotation,
    annotations_of,
    conditions_of,
    dicts_at,
    is_deleting,
    labels_of,
    metadata_of,
    name_of,
    namespace_of,
    spec_of,
    status_of,
)
from scorer.api.unstructured.json_object import JsonObject, format_time, read_instant
from scorer.api.values.duration import parse_go_duration
from scorer.api.values.label_selector import LabelSelector
from scorer.node_budgets.nodes import DISRUPTED_TAINT, DO_NOT_DISRUPT, PoolNode

TEMPLATE_SOURCE: Final = "NodePoolTemplate"

_HEALTH: Final = ("currentHealthy", "desiredHealthy")
_MOST_PODS_NAMED: Final = 3
_FINEST: Final = timedelta(microseconds=1)
_POD_METADATA: Final = ("name", "namespace", "uid", "resourceVersion", "labels", "deletionTimestamp")


class DisruptionClass(StrEnum):
    """Protection of the pods of a node during a disruption.

    GRACEFUL waits for every protected pod. EVENTUAL waits only if the claim sets no terminationGracePeriod.
    """

    GRACEFUL = "graceful"
    EVENTUAL = "eventual"


class BlockReason(StrEnum):
    """Machine-readable cause."""

    RESERVED = "Reserved"
    NO_CLAIM = "NoNodeClaim"
    REBOOTING = "Rebooting"
    DELETING = "Deleting"
    NOT_INITIALIZED = "NotInitialized"
    DO_NOT_DISRUPT = "DoNotDisrupt"
    POD_DISRUPTION_BUDGET = "PodDisruptionBudget"
    SEVERAL_POD_DISRUPTION_BUDGETS = "SeveralPodDisruptionBudgets"
    PODS_UNKNOWN = "PodsUnknown"


@dataclass(frozen=True, slots=True)
class Blocker:
    """One blocker of a node's disruption.

    Args:
        reason: One of `BlockReason`.
        message: Human-readable message with object and value.
        until: Time at which it ends without intervention, or None if unknown.
        source: The blocking object: ``Node``, ``NodeClaim``, ``NodePoolTemplate``, ``Reservation``, ``Pod
            NAMESPACE/NAME`` or ``PodDisruptionBudget NAMESPACE/NAME``.
    """

    reason: str
    message: str
    until: datetime | None = None
    source: str = "Node"


@dataclass(frozen=True, slots=True)
class NodePod:
    """The disruption-relevant part of a pod on a node.

    Args:
        namespace: Namespace.
        name: Name.
        labels: Labels that PodDisruptionBudgets select.
        active: Whether it has not finished and is not being deleted.
        evictable: Whether a drain would evict it: it is active, no mirror pod, and does not tolerate the disruption
            taint.
        unready: Whether its condition ``Ready`` is False.
        protected: Whether it has a valid do-not-disrupt annotation.
        protected_for: Length of the protection after its start. None: unlimited.
        started: Start time. None if it has not started.
    """

    namespace: str
    name: str
    labels: Mapping[str, str]
    active: bool = True
    evictable: bool = True
    unready: bool = False
    protected: bool = False
    protected_for: timedelta | None = None
    started: datetime | None = None

    def is_protected(self, now: datetime) -> bool:
        """Return whether do-not-disrupt still applies. It applies to a pod that has not started."""
        if not self.protected:
            return False
        end = self.protected_until
        return end is None or now < end

    @property
    def protected_until(self) -> datetime | None:
        """End of do-not-disrupt. None: unlimited or unknown."""
        if self.protected_for is None or self.started is None:
            return None
        try:
            return self.started + self.protected_for
        except OverflowError:  # after the year 9999
            return None


@dataclass(frozen=True, slots=True)
class PodGuard:
    """A PodDisruptionBudget.

    Args:
        namespace: Namespace.
        name: Name.
        equal: Labels that a pod must have to be guarded. None means that it guards no pod.
        expressions: Expressions that a pod must also match to be guarded.
        disruptions_allowed: Number of guarded pods that may be evicted now.
        frees_unready: Whether it does not guard unready pods.
        blocks_always: Whether its spec never allows an eviction.
        lacking: Number of missing healthy pods. None: unknown.
        wants_some: Whether it requires at least one healthy pod.
    """

    namespace: str
    name: str
    equal: Mapping[str, str] | None
    expressions: LabelSelector | None = None
    disruptions_allowed: int = 0
    frees_unready: bool = False
    blocks_always: bool = False
    lacking: int | None = None
    wants_some: bool = False

    def guards(self, labels: Mapping[str, str]) -> bool:
        """Return whether this budget covers a pod with *labels* in its namespace.

        If the expressions are invalid, it covers every pod with the labels that must be equal.
        """
        if self.equal is None or not self.equal.items() <= labels.items():
            return False
        if self.expressions is None:
            return True
        try:
            return self.expressions.matches(labels)
        except ValueError:
            return True


def read_node_pod(document: JsonObject) -> NodePod:
    """Parse a pod. A field of the wrong type counts as absent. An invalid do-not-disrupt annotation is ignored."""
    status = status_of(document)
    is_protected, protection = _protection(annotation(document, DO_NOT_DISRUPT))
    active = status.get("phase") not in ("Failed", "Succeeded") and not is_deleting(document)
    return NodePod(
        namespace=namespace_of(document),
        name=name_of(document),
        labels=labels_of(document),
        active=active,
        evictable=active and not _is_mirror(document) and not _tolerates_disruption(document),
        unready=any(
            condition.get("type") == "Ready" and condition.get("status") == "False"
            for condition in conditions_of(document)
        ),
        protected=is_protected,
        protected_for=protection,
        started=read_instant(status.get("startTime")),
    )


def read_pod_guard(document: JsonObject) -> PodGuard:
    """Parse a PodDisruptionBudget. One with an invalid selector guards every pod of its namespace."""
    spec, status = spec_of(document), status_of(document)
    allowed, healthy, expected = (_count(status.get(key)) for key in ("disruptionsAllowed", *_HEALTH))
    selector = spec.get("selector")
    try:
        label_selector = LabelSelector() if selector is None else LabelSelector.read(selector)
    except ValidationError:
        label_selector = LabelSelector()
    expressions = (
        LabelSelector(match_expressions=label_selector.match_expressions) if label_selector.match_expressions else None
    )
    return PodGuard(
        namespace=namespace_of(document),
        name=name_of(document),
        equal=None if selector is None else label_selector.match_labels,
        expressions=expressions,
        disruptions_allowed=allowed or 0,
        frees_unready=spec.get("unhealthyPodEvictionPolicy") == "AlwaysAllow",
        blocks_always=_blocks_always(spec),
        lacking=None if healthy is None or expected is None else max(0, expected - healthy),
        wants_some=bool(expected),
    )


def _count(value: Any) -> int | None:
    return value if isinstance(value, int) and value >= 0 else None


def _blocks_always(spec: JsonObject) -> bool:
    """Return whether a PodDisruptionBudget is fully blocking (nodepool-disruption.md 5.4)."""
    most = spec.get("maxUnavailable")
    return (type(most) is int and most == 0) or most == "0%" or spec.get("minAvailable") == "100%"


def essential_pod(pod: JsonObject) -> JsonObject:
    """Return the fields that `read_node_pod` reads, and the pod's node. A complete pod is twenty times as large."""
    metadata, spec, status = metadata_of(pod), spec_of(pod), status_of(pod)
    essential_metadata: JsonObject = {key: metadata[key] for key in _POD_METADATA if key in metadata}
    if DO_NOT_DISRUPT in (annotations := annotations_of(pod)):
        essential_metadata["annotations"] = {DO_NOT_DISRUPT: annotations[DO_NOT_DISRUPT]}
    if _is_mirror(pod):
        essential_metadata["ownerReferences"] = [{"apiVersion": "v1", "kind": "Node"}]
    essential: JsonObject = {
        "apiVersion": pod["apiVersion"],
        "kind": pod["kind"],
        "metadata": essential_metadata,
        "spec": {},
    }
    if "nodeName" in spec:
        essential["spec"]["nodeName"] = spec["nodeName"]
    if _tolerates_disruption(pod):
        essential["spec"]["tolerations"] = [{"key": DISRUPTED_TAINT, "operator": "Exists"}]
    essential["status"] = {key: status[key] for key in ("phase", "startTime") if key in status}
    unready = [condition for condition in conditions_of(pod) if condition.get("type") == "Ready"]
    if unready:
        essential["status"]["conditions"] = [{"type": "Ready", "status": unready[0].get("status")}]
    return essential


def state_blockers(node: PoolNode, class_: DisruptionClass, now: datetime) -> tuple[Blocker, ...]:  # noqa: ARG001
    """Return the blockers of a node, except for those of its pods and its pool. *class_* and *now* are ignored."""
    deletion = _deletion_blocker(node)
    if deletion is not None:
        return (deletion,)
    if node.do_not_disrupt:
        return (_do_not_disrupt("the node", "Node"),)
    return ()


def node_blockers(
    node: PoolNode,
    class_: DisruptionClass,
    now: datetime,
    pods: Iterable[NodePod] = (),
    guards: Mapping[str, Sequence[PodGuard]] | None = None,
    *,
    pods_unknown: str = "",
) -> tuple[Blocker, ...]:
    """Return all blockers of *node*, except for reservations and the template of its pool.

    Args:
        node: The node.
        class_: Class of the disruption.
        now: Current time, timezone-aware.
        pods: Pods on the node.
        guards: PodDisruptionBudgets by namespace.
        pods_unknown: Reason why the pods are unknown, otherwise empty. A node with unknown pods is blocked, because any
            of them may be protected.
    """
    own = state_blockers(node, class_, now)
    if _deletion_blocker(node) is not None or (class_ is DisruptionClass.EVENTUAL and node.grace_bounded):
        return own
    if pods_unknown:
        return (*own, Blocker(BlockReason.PODS_UNKNOWN, f"the pods of the node are unknown: {pods_unknown}"))
    return (*own, *_pod_blockers(pods, guards or {}, now))


def template_blocker(pool: str) -> Blocker:
    """Return the blocker of the nodes of *pool* while its template carries the do-not-disrupt annotation."""
    return _do_not_disrupt(f"the template of NodePool {pool}", TEMPLATE_SOURCE)


def reserved_blocker(holder: str = "", until: datetime | None = None) -> Blocker:
    """Return the blocker of a node that is already reserved, with the holder and the end if they are known."""
    message = "the node is already reserved for a disruption"
    if holder and until is not None:
        message = f"{message}, by {holder} until {format_time(until)}"
    return Blocker(BlockReason.RESERVED, message, source="Reservation", until=until)


def _deletion_blocker(node: PoolNode) -> Blocker | None:
    if not node.claim:
        return Blocker(BlockReason.NO_CLAIM, "the node has no NodeClaim")
    if node.rebooting:
        return Blocker(BlockReason.REBOOTING, "the node is rebooting", source="NodeClaim")
    if node.deleting or node.instance_gone:
        return Blocker(BlockReason.DELETING, "the node is being deleted or marked for deletion", source="NodeClaim")
    if not node.initialized:
        return Blocker(BlockReason.NOT_INITIALIZED, "the node is not initialized yet")
    return None


def _do_not_disrupt(subject: str, source: str) -> Blocker:
    return Blocker(BlockReason.DO_NOT_DISRUPT, f'{subject} is annotated {DO_NOT_DISRUPT}: "true"', source=source)


def _pod_blockers(
    pods: Iterable[NodePod], guards: Mapping[str, Sequence[PodGuard]], now: datetime
) -> Iterator[Blocker]:
    guards_by_labels: dict[tuple[str, ...], tuple[tuple[PodGuard, ...], list[NodePod]]] = {}
    for pod in pods:
        if not pod.active:
            continue
        if pod.is_protected(now):
            yield _protection_blocker(pod)
        elif pod.evictable and (own := _blocking_guards(pod, guards.get(pod.namespace, ()))):
            guards_by_labels.setdefault((pod.namespace, *(guard.name for guard in own)), (own, []))[1].append(pod)
    for own, pods_behind in guards_by_labels.values():
        yield _guard_blocker(own, pods_behind)


def _blocking_guards(pod: NodePod, guards: Sequence[PodGuard]) -> tuple[PodGuard, ...]:
    """Return the guards that block the eviction of *pod*."""
    matching_guards = tuple(guard for guard in guards if guard.guards(pod.labels))
    if len(matching_guards) != 1:
        return matching_guards
    (guard,) = matching_guards
    return () if guard.disruptions_allowed > 0 or (guard.frees_unready and pod.unready) else matching_guards


def _protection_blocker(pod: NodePod) -> Blocker:
    end = pod.protected_until
    until = f" until {format_time(end)}" if end is not None else ""
    message = f"pod {pod.namespace}/{pod.name} is protected by the annotation {DO_NOT_DISRUPT}{until}"
    return Blocker(BlockReason.DO_NOT_DISRUPT, message, end, f"Pod {pod.namespace}/{pod.name}")


def _guard_blocker(pod_guards: Sequence[PodGuard], pods: Sequence[NodePod]) -> Blocker:
    names = [f"{pod.namespace}/{pod.name}" for pod in pods[:_MOST_PODS_NAMED]]
    more = f" and {len(pods) - len(names)} more" if len(pods) > len(names) else ""
    pods_text = f"pod{'s' if len(pods) > 1 else ''} {', '.join(names)}{more}"
    if len(pod_guards) == 1:
        guard = f"{pod_guards[0].namespace}/{pod_guards[0].name}"
        message = f"PodDisruptionBudget {guard} allows no evictions: {pods_text}"
        return Blocker(BlockReason.POD_DISRUPTION_BUDGET, message, source=f"PodDisruptionBudget {guard}")
    guard_names = ", ".join(f"{guard.namespace}/{guard.name}" for guard in pod_guards)
    message = f"more than one PodDisruptionBudget ({guard_names}) guards {pods_text}, which cannot be evicted"
    first = f"PodDisruptionBudget {pod_guards[0].namespace}/{pod_guards[0].name}"
    return Blocker(BlockReason.SEVERAL_POD_DISRUPTION_BUDGETS, message, source=first)


def _protection(text: str) -> tuple[bool, timedelta | None]:
    """Return whether an annotation protects, and for how long. None: unlimited."""
    if text == "true":
        return True, None
    if (duration := _positive_duration(text)) is None:
        return False, None
    return True, duration


def _positive_duration(text: str) -> timedelta | None:
    """Parse a duration in Go syntax, such as ``4h`` or ``1.5h``. Return None if it is invalid or not positive."""
    try:
        nanoseconds = parse_go_duration(text)
    except ValueError:
        return None
    return max(_FINEST, timedelta(microseconds=nanoseconds // 1000)) if nanoseconds > 0 else None


def _is_mirror(pod: JsonObject) -> bool:
    owners = dicts_at(pod, "metadata", "ownerReferences")
    return any(owner.get("apiVersion") == "v1" and owner.get("kind") == "Node" for owner in owners)


def _tolerates_disruption(pod: JsonObject) -> bool:
    """Return whether a pod tolerates the disruption taint, which has no value."""
    for toleration in dicts_at(pod, "spec", "tolerations"):
        if toleration.get("effect") not in (None, "", "NoSchedule"):
            continue
        if toleration.get("key") not in (None, "", DISRUPTED_TAINT):
            continue
        operator = toleration.get("operator")
        if operator == "Exists" or (operator in (None, "", "Equal") and not toleration.get("value")):
            return True
    return False
