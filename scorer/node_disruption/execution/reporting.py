"""The condition of every NodePool after a pass, and the Events of nodes and pods.

Messages of conditions contain no elapsed or remaining times, so that a pass with unchanged results writes nothing.

Source: docs/specifications/nodepool-disruption.md 5.4 and 12.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Final

from scorer.api.conditions import FALSE, TRUE, ConditionStatus
from scorer.api.meta import format_time
from scorer.api.node_pool import DisruptionReason
from scorer.api.values.quoting import format_count
from scorer.node_budgets.budgets import allowance
from scorer.node_budgets.nodes import DO_NOT_DISRUPT
from scorer.node_budgets.pool_view import PoolView
from scorer.node_disruption.candidates.refusals import EXPIRED, DisruptionBlockReason, DisruptionEventReason, Held
from scorer.node_disruption.cluster.pod import Pod
from scorer.node_disruption.cluster.snapshot import ClusterSnapshot
from scorer.node_disruption.methods.command import Command
from scorer.node_disruption.methods.planner import DisruptionDecision

DISRUPTION: Final = "Disruption"
"""Type of the condition on a NodePool, without our prefix."""
USUAL: Final = timedelta(minutes=2)
SELDOM: Final = timedelta(minutes=15)
SHUT_EVERY: Final = timedelta(minutes=1)
"""Deduplication periods for Events: the default, for nodes that remain blocked, and for closed pools."""

_QUIET: Final = frozenset(
    (
        DisruptionBlockReason.NO_CATALOG,
        DisruptionBlockReason.NOT_YET,
        DisruptionBlockReason.NOT_REACHED,
        DisruptionBlockReason.BUDGET,
    )
)
"""Causes that apply to whole pools or end without intervention. Only conditions and metrics report them."""
_NAMED: Final = 5


class NodePoolConditionReason(StrEnum):
    """Reasons of the condition."""

    NOTHING_TO_DO = "NothingToDo"
    ADVISED = "Advised"
    DISRUPTING = "Disrupting"
    HELD = "Held"
    NOT_ACTING = "NotActing"
    CANNOT_READ = "CannotRead"


class NodePoolEventReason(StrEnum):
    """Reasons of Events."""

    UNCONSOLIDATABLE = "Unconsolidatable"

    CANDIDATE = "ConsolidationCandidate"
    APPROVED = "ConsolidationApproved"
    REJECTED = "ConsolidationRejected"
    BLOCKED = "DisruptionBlocked"
    LAUNCHING = "DisruptionLaunching"
    WAITING = "DisruptionWaitingReadiness"
    TERMINATING = "DisruptionTerminating"
    UNDONE = "DisruptionUndone"
    REFUSED = "DisruptionRefused"
    FAILED_DRAINING = "FailedDraining"
    EVICTED = "Evicted"
    DISRUPTED = "Disrupted"
    EXPIRING = "TerminationGracePeriodExpiring"
    INVALID_ANNOTATION = "InvalidDoNotDisruptAnnotation"
    PROTECTED_UNTIL = "DoNotDisruptUntil"
    PROTECTION_OVER = "DoNotDisruptGracePeriodElapsed"


@dataclass(frozen=True, slots=True)
class NodePoolCondition:
    """Condition of a pool.

    Args:
        status: ``True`` while nodes are disrupted, or would be in mode Act.
        reason: A `NodePoolConditionReason`.
        message: Human-readable message.
    """

    status: ConditionStatus
    reason: NodePoolConditionReason
    message: str


@dataclass(frozen=True, slots=True)
class Note:
    """One Event, subject to deduplication.

    Args:
        kind: ``Node``, whose claim gets the Event as well, ``NodePool`` or ``Pod``.
        name: Name of the object.
        reason: Reason of the Event.
        message: Human-readable message.
        warning: Whether it is a Warning.
        quiet: Deduplication period.
        namespace: Namespace of a pod.
    """

    kind: str
    name: str
    reason: str
    message: str
    warning: bool = False
    quiet: timedelta = USUAL
    namespace: str = ""


@dataclass(frozen=True, slots=True)
class Circumstance:
    """State of the controller besides the decision.

    Args:
        acting: Whether decisions are executed.
        why_not: Reason why they are not executed although they should be, otherwise empty.
        trouble: Error in the input, or empty.
        under_way: Disruption reason of each node in disruption, by node name.
    """

    acting: bool = False
    why_not: str = ""
    trouble: str = ""
    under_way: Mapping[str, str] | None = None


def pool_conditions(
    decision: DisruptionDecision, cluster: ClusterSnapshot, circumstance: Circumstance
) -> dict[str, NodePoolCondition]:
    """Return the condition of every pool, by name."""
    return {name: _pool_condition(name, decision, cluster, circumstance) for name in cluster.pools}


def notes(
    decision: DisruptionDecision, cluster: ClusterSnapshot, views: Mapping[str, PoolView], *, acts: bool
) -> Iterator[Note]:
    """Yield the Events of a pass.

    Args:
        decision: Decision of the pass.
        cluster: The cluster that it was made for.
        views: Pools as budgets count them.
        acts: Whether decisions are executed and emit their own Events.
    """
    for name, view in views.items():
        yield from _shut(name, view, decision.now)
    if not acts:
        for command in decision.commands:
            message = f"{describe(command)} (advice only)"
            yield from (Note("Node", node, NodePoolEventReason.CANDIDATE, message) for node in command.nodes)
        for node in decision.expired:
            yield Note(
                "Node",
                node,
                NodePoolEventReason.CANDIDATE,
                "it has expired and would be deleted (advice only)",
            )
    for hold in decision.held:
        if hold.reason not in _QUIET:
            yield _note_of(hold)
    for pods in cluster.pods.values():
        for pod in pods:
            yield from _protection(pod, decision.now)


def describe(command: Command) -> str:
    """Return a human-readable description of a command."""
    message = f"{command.method} ({command.reason}): {command.decided} {_name_list(command.nodes)}"
    if command.replacements:
        pools = ", ".join(sorted({replacement.pool for replacement in command.replacements}))
        message += f" with {format_count(len(command.replacements), 'new node')} of NodePool {pools}"
    return f"{message}, which saves {command.savings:.4g} per hour" if command.savings > 0 else message


def _pool_condition(
    name: str, decision: DisruptionDecision, cluster: ClusterSnapshot, circumstance: Circumstance
) -> NodePoolCondition:
    pool_nodes = {node for node, cluster_node in cluster.nodes.items() if cluster_node.pool == name}
    parts = [_part(command, pool_nodes) for command in decision.commands if pool_nodes.intersection(command.nodes)]
    if expired_nodes := sorted(pool_nodes.intersection(decision.expired)):
        parts.append(f"{EXPIRED}: delete {_name_list(expired_nodes)}")
    reasons_by_node = {node: reason for node, reason in (circumstance.under_way or {}).items() if node in pool_nodes}
    holds = [blocked_node for blocked_node in decision.held if blocked_node.node in pool_nodes]
    tail = f"; {_held_counts(holds)}" if holds else ""
    tail += f"; {circumstance.trouble}" if circumstance.trouble else ""
    if reasons_by_node:
        listing = "; ".join(f"{reason}: {_name_list(nodes)}" for reason, nodes in _by_reason(reasons_by_node).items())
        return NodePoolCondition(TRUE, NodePoolConditionReason.DISRUPTING, f"being disrupted: {listing}{tail}")
    if circumstance.why_not:
        advice = "; ".join(parts) or "no disruption is needed"
        return NodePoolCondition(
            FALSE, NodePoolConditionReason.NOT_ACTING, f"advice only: {circumstance.why_not}: {advice}{tail}"
        )
    if parts:
        return NodePoolCondition(
            TRUE,
            NodePoolConditionReason.DISRUPTING if circumstance.acting else NodePoolConditionReason.ADVISED,
            "; ".join(parts) + tail,
        )
    if holds:
        return NodePoolCondition(FALSE, NodePoolConditionReason.HELD, tail.removeprefix("; "))
    return NodePoolCondition(FALSE, NodePoolConditionReason.NOTHING_TO_DO, f"no node would be disrupted{tail}")


def _part(command: Command, pool_nodes: set[str]) -> str:
    other_count = len(set(command.nodes) - pool_nodes)
    others_text = f" with {other_count} of other pools" if other_count else ""
    return (
        f"{command.reason}: {command.decided} {_name_list(sorted(pool_nodes.intersection(command.nodes)))}{others_text}"
    )


def _by_reason(reasons_by_node: Mapping[str, str]) -> dict[str, list[str]]:
    nodes_by_reason: dict[str, list[str]] = {}
    for node, reason in sorted(reasons_by_node.items()):
        nodes_by_reason.setdefault(reason, []).append(node)
    return dict(sorted(nodes_by_reason.items()))


def _held_counts(holds: Iterable[Held]) -> str:
    """Return the number of held nodes per cause, and when budgets end."""
    blocked_nodes = tuple(holds)
    counts = Counter(reason for reason, _ in {(hold.reason, hold.node) for hold in blocked_nodes})
    ends = [
        hold.until for hold in blocked_nodes if hold.reason == DisruptionBlockReason.BUDGET and hold.until is not None
    ]
    until = {str(DisruptionBlockReason.BUDGET): f" (the first until {format_time(min(ends))})"} if ends else {}
    listing = ", ".join(f"{reason} {number}{until.get(reason, '')}" for reason, number in sorted(counts.items()))
    return f"nodes that are not disrupted, by blocker: {listing}"


def _note_of(hold: Held) -> Note:
    quiet = SELDOM if hold.event is DisruptionEventReason.UNCONSOLIDATABLE else USUAL
    return Note("Node", hold.node, hold.event, f"{hold.wanted}: {hold.message}", quiet=quiet)


def _shut(name: str, view: PoolView, now: datetime) -> Iterator[Note]:
    counts = view.counts()
    if not counts.total:
        return
    closed = [reason for reason in DisruptionReason if allowance(view.budgets, counts, reason, now).limit == 0]
    opens = {reason: view.opening(reason, 1, now).instant for reason in closed}
    shut = [reason.value + (f" until {format_time(at)}" if at is not None else "") for reason, at in opens.items()]
    if shut:
        message = f"budgets allow 0 disruptions now for {', '.join(shut)}"
        yield Note("NodePool", name, NodePoolEventReason.BLOCKED, message, quiet=SHUT_EVERY)


def _protection(pod: Pod, now: datetime) -> Iterator[Note]:
    end = pod.held.protected_until
    if end is None or not pod.active:
        return
    at = format_time(end)
    if now < end:
        message = f"annotation {DO_NOT_DISRUPT} blocks its eviction until {at}"
        yield Note("Pod", pod.name, NodePoolEventReason.PROTECTED_UNTIL, message, quiet=SELDOM, namespace=pod.namespace)
    elif now - end < SELDOM:
        message = f"annotation {DO_NOT_DISRUPT} blocked its eviction until {at} and has expired"
        yield Note("Pod", pod.name, NodePoolEventReason.PROTECTION_OVER, message, quiet=SELDOM, namespace=pod.namespace)


def _name_list(names: Iterable[str]) -> str:
    name_list = list(names)
    more = f" and {len(name_list) - _NAMED} more" if len(name_list) > _NAMED else ""
    return ", ".join(name_list[:_NAMED]) + more
