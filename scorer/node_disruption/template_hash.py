"""The digest of a pool's template: nodes made by a template with another digest have drifted.

The reference's number is no interface, so the digest is one of our own, and says so by its version: claims that another
controller has marked are never taken for drifted (nodepool-disruption.md 3.2).

Source: nodepool-disruption.md 3.1; Karpenter ``pkg/apis/v1/nodepool.go``, Hash.
"""

import hashlib
from typing import Final

from scorer.api.duration import NEVER
from scorer.api.meta import JsonObject, dump_json
from scorer.api.node_pool import NodePool, NodeTaint, parse_duration_or_never

HASH_VERSION_OWN: Final = "harbormaster-v1"
"""Value of the annotation ``karpenter.sh/nodepool-hash-version`` beside a digest of ours."""
_DIGITS: Final = 16


def template_digest(pool: NodePool) -> str:
    """Return the digest of what a change of makes nodes drift: all of the template but its requirements.

    The order of lists, the spelling of durations, and whether an empty list is written out make no difference.
    """
    template = pool.spec.template
    spec = template.spec
    hashed: JsonObject = {
        "labels": sorted(template.metadata.labels.items()),
        "annotations": sorted(template.metadata.annotations.items()),
        "taints": _sorted(spec.taints),
        "startupTaints": _sorted(spec.startup_taints),
        "nodeClassRef": [spec.node_class_ref.group, spec.node_class_ref.kind, spec.node_class_ref.name],
        "terminationGracePeriod": _seconds(spec.termination_grace_period),
        "expireAfter": _seconds(spec.expire_after),
    }
    return hashlib.sha256(dump_json(hashed)).hexdigest()[:_DIGITS]


def _sorted(taints: tuple[NodeTaint, ...]) -> list[list[str]]:
    return sorted([each.key, each.effect, each.value or ""] for each in taints)


def _seconds(text: str | None) -> float | str | None:
    """Return a duration in seconds; None for ever. What is no duration stands for itself."""
    if text is None or text == NEVER:
        return None
    try:
        duration = parse_duration_or_never(text)
    except ValueError:
        return text
    return None if duration is None else duration.total_seconds()
