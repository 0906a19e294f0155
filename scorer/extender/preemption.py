"""``preempt``: the nodes where kube-scheduler may evict pods. ``bind`` is always refused.

Source: docs/specifications/serving.md 2.7.
"""

from typing import Final

from scorer.extender.filtering import Judge
from scorer.extender.protocol import ExtenderBindingResult, ExtenderPreemptionResult, MetaVictims
from scorer.extender.question import PreemptionArgs
from scorer.extender.reading import MalformedArgsError
from scorer.extender.surroundings import ExtenderContext, Rules

BIND_REFUSED: Final[ExtenderBindingResult] = {"Error": "harbormaster: bind is not supported"}
"""The response to ``bind``: reporting success without binding would leave the pod pending forever."""


def preempt(args: PreemptionArgs, context: ExtenderContext, rules: Rules) -> ExtenderPreemptionResult:
    """Return the response to ``preempt``: an ``ExtenderPreemptionResult`` with the nodes that remain candidates.

    No node or victim is added, and victims keep their order. A lack of capacity is not an obstacle here, because
    preemption makes room.

    Raises:
        MalformedArgsError: There is no pod.
    """
    if args.pod is None:
        raise MalformedArgsError("Pod must be set")
    nodes = map(context.nodes.get, args.victims)
    obstacles = Judge(args.pod, context, rules).obstacles(nodes)
    remaining: dict[str, MetaVictims] = {}
    for (name, victims), obstacle in zip(args.victims.items(), obstacles, strict=True):
        may_go = obstacle is None or obstacle.curable
        if may_go and victims.uids and not (victims.undisturbed and rules.protect_undisturbed):
            remaining[name] = {"Pods": [{"UID": uid} for uid in victims.uids], "NumPDBViolations": victims.violations}
    return {"NodeNameToMetaVictims": remaining}
