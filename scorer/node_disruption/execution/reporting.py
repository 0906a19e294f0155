"""The condition of every NodePool after a pass, and the Events of nodes and pods.

What a condition says changes only when something does: times that are only nearer than before are left out, so that a
pass which finds what the one before has found writes nothing.

Source: nodepool-disruption.md 5.4 and 12.
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
from scorer.node_budgets.budgets import allowance
from scorer.node_budgets.nodes import DO_NOT_DISRUPT
from scorer.node_budgets.pool_view import PoolView
from scorer.node_disruption.candidates.refusals import EXPIRED, DisruptionBlockReason, DisruptionEventReason, Held
from scorer.node_disruption.cluster.pod import Pod
from scorer.node_disruption.cluster.snapshot import ClusterSnapshot
from scorer.node_disruption.methods.command import Command
from scorer.node_disruption.methods.planner import DisruptionDecision

DISRUPTION: Final = "Disruption"
"""Type of the condition on a NodePool, after our prefix."""
USUAL: Final = timedelta(minutes=2)
SELDOM: Final = timedelta(minutes=15)
SHUT_EVERY: Final = timedelta(minutes=1)
"""How long the same is not told of one object again: usually; of a node that stays put; of a pool that is shut."""

_QUIET: Final = frozenset(
    (
        DisruptionBlockReason.NO_CATALOG,
        DisruptionBlockReason.NOT_YET,
        DisruptionBlockReason.NOT_REACHED,
        DisruptionBlockReason.BUDGET,
    )
)
"""What holds for whole pools, or ends by itself after a while, is told by condition and metrics alone."""
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
    """What the condition of a pool says.

    Args:
        status: ``True`` while nodes go, or would in mode Act.
        reason: One of `NodePoolConditionReason`.
        message: For people.
    """

    status: ConditionStatus
    reason: NodePoolConditionReason
    message: str


@dataclass(frozen=True, slots=True)
class Note:
    """One Event to be recorded, unless it was a short while ago.

    Args:
        kind: ``Node``, on whose claim it is recorded as well, ``NodePool`` or ``Pod``.
        name: Of the object.
        reason: Of the Event.
        message: For people.
        warning: Whether somebody should look at it.
        quiet: How long the same is not told again.
        namespace: Of a pod.
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
    """What the controller knows besides the decision.

    Args:
        acting: It carries out what is decided.
        why_not: Why it does not, although it should; empty otherwise.
        trouble: What is wrong with what it reads; empty: nothing.
        under_way: NodePoolConditionReason of the disruption of each node that is being disrupted, by its name.
    """

    acting: bool = False
    why_not: str = ""
    trouble: str = ""
    under_way: Mapping[str, str] | None = None


def pool_conditions(
    decision: DisruptionDecision, cluster: ClusterSnapshot, given: Circumstance
) -> dict[str, NodePoolCondition]:
    """Return what the condition of every pool says, by its name."""
    return {name: _standing(name, decision, cluster, given) for name in cluster.pools}


def notes(
    decision: DisruptionDecision, cluster: ClusterSnapshot, views: Mapping[str, PoolView], *, acting: bool
) -> Iterator[Note]:
    """Yield the Events of a pass.

    Args:
        decision: Of the pass.
        cluster: It was made for.
        views: The pools as budgets see them.
        acting: What was found is carried out, which has Events of its own.
    """
    for name, view in views.items():
        yield from _shut(name, view, decision.now)
    if not acting:
        for command in decision.commands:
            message = f"{describe(command)}; nothing is done"
            yield from (Note("Node", node, NodePoolEventReason.CANDIDATE, message) for node in command.nodes)
        for node in decision.expired:
            yield Note(
                "Node",
                node,
                NodePoolEventReason.CANDIDATE,
                "it has reached its age and would be deleted; nothing is done",
            )
    for blocked in decision.held:
        if blocked.reason not in _QUIET:
            yield _note_of(blocked)
    for pods in cluster.pods.values():
        for pod in pods:
            yield from _protection(pod, decision.now)


def describe(command: Command) -> str:
    """Say what a command does, for people."""
    message = f"{command.method} ({command.reason}): {command.decided} {_listed(command.nodes)}"
    if command.replacements:
        pools = ", ".join(sorted({replacement.pool for replacement in command.replacements}))
        message += f" by {len(command.replacements)} new of NodePool {pools}"
    return f"{message}, which saves {command.savings:.4g} per hour" if command.savings > 0 else message


def _standing(
    name: str, decision: DisruptionDecision, cluster: ClusterSnapshot, given: Circumstance
) -> NodePoolCondition:
    of_pool = {node for node, each in cluster.nodes.items() if each.pool == name}
    parts = [_part(command, of_pool) for command in decision.commands if of_pool.intersection(command.nodes)]
    if leaving := sorted(of_pool.intersection(decision.expired)):
        parts.append(f"{EXPIRED}: delete {_listed(leaving)}")
    going = {node: reason for node, reason in (given.under_way or {}).items() if node in of_pool}
    blocked = [blocked_node for blocked_node in decision.held if blocked_node.node in of_pool]
    tail = f"; {_counted(blocked)}" if blocked else ""
    tail += f"; {given.trouble}" if given.trouble else ""
    if going:
        listed = "; ".join(f"{reason}: {_listed(nodes)}" for reason, nodes in _by_reason(going).items())
        return NodePoolCondition(TRUE, NodePoolConditionReason.DISRUPTING, f"being disrupted: {listed}{tail}")
    if given.why_not:
        advice = "; ".join(parts) or "nothing is to be done"
        return NodePoolCondition(
            FALSE, NodePoolConditionReason.NOT_ACTING, f"{given.why_not}; it only advises: {advice}{tail}"
        )
    if parts:
        return NodePoolCondition(
            TRUE,
            NodePoolConditionReason.DISRUPTING if given.acting else NodePoolConditionReason.ADVISED,
            "; ".join(parts) + tail,
        )
    if blocked:
        return NodePoolCondition(FALSE, NodePoolConditionReason.HELD, tail.removeprefix("; "))
    return NodePoolCondition(FALSE, NodePoolConditionReason.NOTHING_TO_DO, f"no node would go{tail}")


def _part(command: Command, of_pool: set[str]) -> str:
    others = len(set(command.nodes) - of_pool)
    beside = f" with {others} of other pools" if others else ""
    return f"{command.reason}: {command.decided} {_listed(sorted(of_pool.intersection(command.nodes)))}{beside}"


def _by_reason(going: Mapping[str, str]) -> dict[str, list[str]]:
    nodes_by_reason: dict[str, list[str]] = {}
    for node, reason in sorted(going.items()):
        nodes_by_reason.setdefault(reason, []).append(node)
    return dict(sorted(nodes_by_reason.items()))


def _counted(held: Iterable[Held]) -> str:
    """Count the nodes that each cause keeps, and say until when budgets do."""
    blocked_nodes = tuple(held)
    counts = Counter(reason for reason, _ in {(blocked.reason, blocked.node) for blocked in blocked_nodes})
    ends = [
        blocked.until
        for blocked in blocked_nodes
        if blocked.reason == DisruptionBlockReason.BUDGET and blocked.until is not None
    ]
    until = {str(DisruptionBlockReason.BUDGET): f" (the first until {format_time(min(ends))})"} if ends else {}
    listed = ", ".join(f"{reason} {number}{until.get(reason, '')}" for reason, number in sorted(counts.items()))
    return f"nodes that stay by what keeps them: {listed}"


def _note_of(held: Held) -> Note:
    quiet = SELDOM if held.event is DisruptionEventReason.UNCONSOLIDATABLE else USUAL
    return Note("Node", held.node, held.event, f"{held.wanted}: {held.message}", quiet=quiet)


def _shut(name: str, view: PoolView, now: datetime) -> Iterator[Note]:
    counts = view.counts()
    if not counts.total:
        return
    closed = [reason for reason in DisruptionReason if allowance(view.budgets, counts, reason, now).limit == 0]
    opens = {reason: view.opening(reason, 1, now).instant for reason in closed}
    shut = [reason.value + (f" until {format_time(at)}" if at is not None else "") for reason, at in opens.items()]
    if shut:
        message = f"budgets allow no disruption now for {', '.join(shut)}"
        yield Note("NodePool", name, NodePoolEventReason.BLOCKED, message, quiet=SHUT_EVERY)


def _protection(pod: Pod, now: datetime) -> Iterator[Note]:
    end = pod.held.protected_until
    if end is None or not pod.active:
        return
    at = format_time(end)
    if now < end:
        message = f"annotation {DO_NOT_DISRUPT} keeps it from being evicted until {at}"
        yield Note("Pod", pod.name, NodePoolEventReason.PROTECTED_UNTIL, message, quiet=SELDOM, namespace=pod.namespace)
    elif now - end < SELDOM:
        message = f"annotation {DO_NOT_DISRUPT} has kept it until {at}, and does no longer"
        yield Note("Pod", pod.name, NodePoolEventReason.PROTECTION_OVER, message, quiet=SELDOM, namespace=pod.namespace)


def _listed(names: Iterable[str]) -> str:
    ordered = list(names)
    more = f" and {len(ordered) - _NAMED} more" if len(ordered) > _NAMED else ""
    return ", ".join(ordered[:_NAMED]) + more
