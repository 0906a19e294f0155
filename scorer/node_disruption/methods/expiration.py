"""Expiration: an expired node is deleted regardless of budgets, unless the operator has enabled graceful expiration.

Source: docs/specifications/nodepool-disruption.md 10; Karpenter ``pkg/controllers/nodeclaim/expiration``.
"""

from dataclasses import dataclass
from datetime import datetime

from scorer.node_budgets.blockers import DisruptionClass
from scorer.node_disruption.candidates.refusals import EXPIRED, Held
from scorer.node_disruption.cluster.snapshot import ClusterSnapshot
from scorer.node_disruption.methods.context import Survey, blocked_nodes


@dataclass(frozen=True, slots=True, order=True)
class Expiration:
    """Expiration of a node. Sorts by time, then by name.

    Args:
        at: Time at which its claim expires.
        node: Name of the node.
    """

    at: datetime
    node: str


def expirations(cluster: ClusterSnapshot) -> tuple[Expiration, ...]:
    """Return the expirations of all nodes with expireAfter, earliest first. Nodes being deleted are omitted.

    Nodes without a pool never expire here, because their replacement would be unknown.
    """
    pending_expirations = []
    for name, node in cluster.nodes.items():
        claim = node.claim
        if node.node is None or claim is None or claim.deletion is not None:
            continue
        if claim.created is None or claim.expire_after is None:
            continue
        try:
            pending_expirations.append(Expiration(claim.created + claim.expire_after, name))
        except OverflowError:  # after the year 9999
            continue
    return tuple(sorted(pending_expirations, key=_in_order))


def _in_order(expiration: Expiration) -> tuple[datetime, str]:
    return expiration.at, expiration.node


def expired(cluster: ClusterSnapshot, now: datetime) -> tuple[str, ...]:
    """Return the names of the nodes that have expired at *now*."""
    return tuple(expiration.node for expiration in expirations(cluster) if expiration.at <= now)


def plan_graceful_expiration(survey: Survey) -> tuple[tuple[str, ...], tuple[Held, ...]]:
    """Return the expired nodes to delete, if budgets and do-not-disrupt apply to expiration.

    Budgets that name reasons do not apply, because they cannot name this one.

    Returns:
        Names of the nodes to delete now, the longest expired first, and the holds of the others.
    """
    allowance, expired_nodes, holds = survey.allowances.remaining_for(EXPIRED), list[str](), list[Held]()
    for name in expired(survey.cluster, survey.now):
        candidate = survey.nodes.get(name)
        if candidate is None:
            continue
        blockers = candidate.blockers_for(DisruptionClass.GRACEFUL)
        holds += blocked_nodes(candidate, EXPIRED, None, blockers)
        if candidate.pool is None or blockers:
            continue
        refusal = allowance.consume(candidate.node.pool)
        if refusal is None:
            expired_nodes.append(name)
        else:
            holds.append(Held.of(name, EXPIRED, refusal))
    return tuple(expired_nodes), tuple(holds)
