"""``prioritize``: the score of each node.

Source: docs/specifications/serving.md 2.6.
"""

from collections.abc import Collection, Sequence

import numpy as np

from scorer.extender.filtering import candidate_nodes
from scorer.extender.node import ExtenderNode
from scorer.extender.pod import ExtenderPod
from scorer.extender.protocol import HostPriority
from scorer.extender.question import ExtenderRequest
from scorer.extender.reading import MalformedArgsError
from scorer.extender.surroundings import ExtenderContext, Rules, empty_cycle
from scorer.fleet import Fleet
from scorer.plugins.cluster_affinity import ClusterAffinityPlugin


def prioritize(args: ExtenderRequest, context: ExtenderContext, rules: Rules) -> list[HostPriority]:
    """Return the response to ``prioritize``: a ``HostPriorityList``, one entry per candidate in the order given.

    Raises:
        MalformedArgsError: The pod or the list of candidates is missing.
    """
    candidates = args.candidates
    if args.pod is None:
        raise MalformedArgsError("Pod must be set")
    if candidates is None:
        raise MalformedArgsError("Nodes or NodeNames must be set")
    raw = _raw_scores(args.pod, candidate_nodes(args, context), context, rules)
    scores = scale_points(set(raw), rules.max_score)
    return [{"Host": name, "Score": scores[points]} for name, points in zip(candidates, raw, strict=True)]


def scale_points(raw: Collection[int | None], most: int) -> dict[int | None, int]:
    """Scale points to scores from 0 to *most*. Halves round up.

    0 points score 0, unless another node has negative points: then the lowest points score 0. Scores are computed in
    integers, so that halves are exact. Example: 1 of 4 points scaled to 10 is (2 * 10 * 1 + 4) // (2 * 4) = 3.

    Args:
        raw: Points of all nodes in one request. None stands for an unmanaged node, which scores 0 and does not affect
            the scale.
        most: The best score.

    Returns:
        Scores by points.
    """
    points = [score for score in raw if score is not None]
    low, high = min((0, *points)), max(points, default=0)
    span = high - low
    scores: dict[int | None, int] = {None: 0}
    for score in points:
        scores[score] = (2 * most * (score - low) + span) // (2 * span) if span else 0
    return scores


def _raw_scores(
    pod: ExtenderPod, nodes: Sequence[ExtenderNode | None], context: ExtenderContext, rules: Rules
) -> list[int | None]:
    """Return the points of each node, None for an unmanaged node, which has neither a cluster nor a pool."""
    clusters: list[int] = []
    pool_nodes: dict[str, int] | None = None
    points: list[int | None] = []
    add, find_row = points.append, context.rows.get
    for node in nodes:
        if node is None:
            add(None)
        elif node.cluster:
            clusters = clusters or _cluster_scores(pod, context, rules)
            add(clusters[find_row(node.cluster, -1)])
        elif node.pool is None:
            add(None)
        else:
            pool_nodes = _pool_scores(nodes, context, rules) if pool_nodes is None else pool_nodes
            add(pool_nodes.get(node.name, 0))
    return points


def _cluster_scores(pod: ExtenderPod, context: ExtenderContext, rules: Rules) -> list[int]:
    """Return the points of every member cluster. The additional last entry is for clusters that do not exist."""
    affinity = rules.default_preferences
    if pod.placement:
        placement = context.followed(pod)
        request = placement.request if placement is not None else None
        affinity = request.profile.affinity if request is not None else ClusterAffinityPlugin()
    return [*_points(affinity, context.fleet, context), 0]


def _pool_scores(nodes: Sequence[ExtenderNode | None], context: ExtenderContext, rules: Rules) -> dict[str, int]:
    if not rules.pool_preferences.preferred:
        return {}
    fleet = context.pool_nodes([node for node in nodes if node is not None and node.is_of_pool])
    return dict(zip(fleet.names, _points(rules.pool_preferences, fleet, context), strict=True))


def _points(affinity: ClusterAffinityPlugin, fleet: Fleet, context: ExtenderContext) -> list[int]:
    points = affinity.score(empty_cycle(fleet, context.now), np.arange(len(fleet)))
    return [0] * len(fleet) if points is None else points.tolist()
