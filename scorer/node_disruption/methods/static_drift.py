"""Static drift: nodes of static pools that no longer match their pools.

Each node gets a replacement from the template of its pool, even if its pods fit on other nodes.

Source: docs/specifications/nodepool-disruption.md 7; Karpenter v1.15.0 ``pkg/controllers/disruption/staticdrift.go``.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final

from scorer.api.node_pool import DisruptionReason
from scorer.node_budgets.blockers import DisruptionClass
from scorer.node_budgets.wording import format_node_count
from scorer.node_disruption.candidates.candidate import Candidate
from scorer.node_disruption.candidates.refusals import DisruptionBlockReason, Held, Refusal
from scorer.node_disruption.cluster.snapshot import ClusterNode, NodePoolState
from scorer.node_disruption.instance_types.new_node import pool_template
from scorer.node_disruption.methods.command import Command, Method, MethodOutcome
from scorer.node_disruption.methods.consolidation import by_price, savings
from scorer.node_disruption.methods.context import Survey, blocked_nodes
from scorer.node_disruption.methods.drift import Drifted, in_order

_DRIFTED: Final = DisruptionReason.DRIFTED
_NODES: Final = "nodes"


def plan_static_drift(survey: Survey, drifted: Mapping[str, Drifted]) -> MethodOutcome:
    """Return the replacements of drifted nodes of every static pool, one command per node, within budgets and limits.

    Within a pool, nodes without pods to move come first, then those with the oldest condition.
    """
    commands, holds = list[Command](), list[Held]()
    by_pool: dict[str, list[Candidate]] = {}
    for candidate in in_order(survey, drifted, static=True):
        if blockers := candidate.blockers_for(DisruptionClass.EVENTUAL):
            holds += blocked_nodes(candidate, _DRIFTED, None, blockers)
        else:
            by_pool.setdefault(candidate.node.pool, []).append(candidate)
    for _, candidates in sorted(by_pool.items()):
        outcome = _plan_pool(survey, candidates)
        commands += outcome.commands
        holds += outcome.held
    return MethodOutcome(tuple(commands), tuple(holds))


def _plan_pool(survey: Survey, candidates: Sequence[Candidate]) -> MethodOutcome:
    pool = candidates[0].pool
    assert pool is not None
    nodes = [node for node in survey.cluster.nodes.values() if node.pool == pool.name and node.claim]
    room = pool.limits[_NODES] - len(nodes) if _NODES in pool.limits else len(candidates)
    allowance, commands, holds = survey.allowances.remaining_for(_DRIFTED), list[Command](), list[Held]()
    limit_refusal = _too_many(pool, nodes)
    for candidate in candidates:
        refusal = limit_refusal or (_at_limit(pool, nodes) if len(commands) >= room else allowance.consume(pool.name))
        if refusal is None:
            commands.append(_replacement_command(survey, candidate, pool))
        else:
            holds.append(Held.of(candidate.name, _DRIFTED, refusal))
    return MethodOutcome(tuple(commands), tuple(holds))


def _too_many(pool: NodePoolState, nodes: Sequence[ClusterNode]) -> Refusal | None:
    """Return the refusal for a pool with surplus nodes, which are removed before drifted ones are replaced, or None."""
    running = sum(node.claim is not None and node.claim.deletion is None for node in nodes)
    if pool.replicas is None or running <= pool.replicas:
        return None
    count = format_node_count(running)
    message = f"NodePool {pool.name} has {count} instead of {pool.replicas}: surplus nodes are deleted first"
    return Refusal(DisruptionBlockReason.SCALING_DOWN, message)


def _at_limit(pool: NodePoolState, nodes: Sequence[ClusterNode]) -> Refusal:
    count = format_node_count(len(nodes))
    message = f"NodePool {pool.name} has {count} of at most {pool.limits[_NODES]}: no room for a replacement"
    return Refusal(DisruptionBlockReason.POOL_AT_ITS_LIMIT, message)


def _replacement_command(survey: Survey, candidate: Candidate, pool: NodePoolState) -> Command:
    template = pool_template(pool, survey.catalog.types if survey.catalog else ())
    node = by_price(replace(template, name=f"{pool.name}/for-{candidate.name}"))
    return Command(
        method=Method.STATIC_DRIFT,
        reason=_DRIFTED,
        nodes=(candidate.name,),
        replacements=(node,),
        savings=savings([candidate], [node]),
        moves={pod.key: node.name for pod in candidate.reschedulable},
    )
