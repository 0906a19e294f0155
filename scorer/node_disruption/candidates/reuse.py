"""Reuse of candidates from the previous pass.

A candidate is reused only if all objects that it was built from are identical, and none of its blockers ends at a known
time. Neither then nor now may the node be nominated, reserved, or expired and being deleted.
"""

from collections.abc import Iterator, Mapping

from scorer.node_budgets.pool_view import PoolView
from scorer.node_disruption.candidates.candidate import Candidate, Circumstances
from scorer.node_disruption.cluster.pod import Pod


def reusable_candidates(
    previous: Circumstances, nodes: Mapping[str, Candidate], circumstances: Circumstances
) -> dict[str, Candidate]:
    """Return the candidates among *nodes* that are still valid, by name.

    Args:
        previous: Inputs of the previous pass.
        nodes: Candidates of the previous pass.
        circumstances: Inputs of this pass.
    """
    if previous.catalog is not circumstances.catalog or previous.now > circumstances.now:
        return {}
    excluded_names = {*_outside_protection(previous), *_outside_protection(circumstances)}
    namespaces = _changed_guards(previous, circumstances)
    reusable = {}
    for name, candidate in nodes.items():
        node = circumstances.cluster.nodes.get(name)
        if (
            node is candidate.node
            and name not in excluded_names
            and circumstances.cluster.pods.get(name, ()) is candidate.pods
            and circumstances.cluster.pools.get(node.pool) is candidate.pool
            and _is_seen_alike(previous.views.get(node.pool), circumstances.views.get(node.pool), name)
            and not any(blocker.until for blocker in candidate.blockers)
            and not (namespaces and _is_in(candidate.pods, namespaces))
        ):
            reusable[name] = candidate
    return reusable


def _outside_protection(circumstances: Circumstances) -> Iterator[str]:
    yield from circumstances.nominated
    yield from circumstances.leaving
    for view in circumstances.views.values():
        yield from view.held_nodes


def _changed_guards(previous: Circumstances, circumstances: Circumstances) -> frozenset[str]:
    old_guards, new_guards = previous.cluster.guards, circumstances.cluster.guards
    return frozenset(
        name for name in {*old_guards, *new_guards} if old_guards.get(name, ()) != new_guards.get(name, ())
    )


def _is_in(pods: tuple[Pod, ...], namespaces: frozenset[str]) -> bool:
    return any(pod.namespace in namespaces for pod in pods)


def _is_seen_alike(previous: PoolView | None, now: PoolView | None, name: str) -> bool:
    if previous is None or now is None:
        return previous is now
    return (
        previous.template_do_not_disrupt == now.template_do_not_disrupt
        and previous.blockers is now.blockers
        and previous.nodes.get(name) is now.nodes.get(name)
    )
