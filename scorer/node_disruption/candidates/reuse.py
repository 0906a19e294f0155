"""Reuse of candidates from the previous pass.

A candidate is reused only if all objects that it was built from are identical, and if nothing besides the node itself
blocked it then or blocks it now.
"""

from collections.abc import Iterator, Mapping

from scorer.node_budgets.pool_view import PoolView
from scorer.node_disruption.candidates.candidate import Candidate, Circumstances
from scorer.node_disruption.cluster.pod import Pod


def recalled(before: Circumstances, nodes: Mapping[str, Candidate], given: Circumstances) -> dict[str, Candidate]:
    """Return the candidates among *nodes* that are still valid, by name.

    Args:
        before: Inputs of the previous pass.
        nodes: Candidates of the previous pass.
        given: Inputs of this pass.
    """
    if before.catalog is not given.catalog or before.now > given.now:
        return {}
    apart = {*_kept_from_outside(before), *_kept_from_outside(given)}
    namespaces = _changed_guards(before, given)
    reusable = {}
    for name, candidate in nodes.items():
        node = given.cluster.nodes.get(name)
        if (
            node is candidate.node
            and name not in apart
            and given.cluster.pods.get(name, ()) is candidate.pods
            and given.cluster.pools.get(node.pool) is candidate.pool
            and _is_seen_alike(before.views.get(node.pool), given.views.get(node.pool), name)
            and not any(blocker.until for blocker in candidate.blockers)
            and not (namespaces and _is_in(candidate.pods, namespaces))
        ):
            reusable[name] = candidate
    return reusable


def _kept_from_outside(given: Circumstances) -> Iterator[str]:
    yield from given.nominated
    yield from given.leaving
    for view in given.views.values():
        yield from view.held_nodes


def _changed_guards(before: Circumstances, given: Circumstances) -> frozenset[str]:
    one, other = before.cluster.guards, given.cluster.guards
    return frozenset(name for name in {*one, *other} if one.get(name, ()) != other.get(name, ()))


def _is_in(pods: tuple[Pod, ...], namespaces: frozenset[str]) -> bool:
    return any(pod.namespace in namespaces for pod in pods)


def _is_seen_alike(before: PoolView | None, now: PoolView | None, name: str) -> bool:
    if before is None or now is None:
        return before is now
    return (
        before.template_do_not_disrupt == now.template_do_not_disrupt
        and before.blockers is now.blockers
        and before.nodes.get(name) is now.nodes.get(name)
    )
